//! A post that one process of a user holds at a time, identified by a secret. A process that takes
//! it ends the holder.

use crate::rendezvous::{Rendezvous, SECRET_LEN};
use rustix::net::Shutdown;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Separates these meetings from those with another purpose.
const PURPOSE: &[u8] = b"haul post\0";

/// Attempts to take over a post that other processes take meanwhile.
const ATTEMPTS_MAX: u32 = 4;

/// A held post. Dropping it gives it up.
#[derive(Debug)]
pub struct Lease(Rendezvous);

/// The process that takes over a post. It waits until this is dropped, or this process has ended.
#[derive(Debug)]
pub struct Successor(#[expect(dead_code, reason = "its end is what they wait for")] UnixStream);

impl Lease {
    /// Takes the post of `secret`. Its holder, which must belong to the same user, is asked to
    /// leave, and killed if it has not left within `timeout`. Then its locks are free. `None` if
    /// the system does not support it.
    ///
    /// # Errors
    /// Errors of the system; if the holder can't be ended.
    pub fn take(secret: &[u8; SECRET_LEN], timeout: Duration) -> io::Result<Option<Self>> {
        for _ in 0..ATTEMPTS_MAX {
            match Rendezvous::listen(PURPOSE, secret) {
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                listens => return Ok(listens?.map(Self)),
            }
            match Rendezvous::find(PURPOSE, secret) {
                Ok(holder) => evict(holder, secret, timeout)?,
                // The holder has just left.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AddrInUse.into())
    }

    /// Waits until a process of the same user that knows the secret takes the post. `None` if
    /// [`Self::leave`] is called before.
    pub fn successor(&self) -> Option<Successor> {
        loop {
            match self.0.listener.accept() {
                Ok((stream, _)) if self.0.receive(&stream, &mut [0; SECRET_LEN]).is_some() => {
                    return Some(Successor(stream));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    /// Gives up the post: no process can find this one any more.
    pub fn leave(&self) {
        // Wakes a thread that waits in `accept`.
        let _ = rustix::net::shutdown(&self.0.listener, Shutdown::Both);
    }
}

/// Makes the process at the other end leave.
#[cfg(target_os = "linux")]
fn evict(mut holder: UnixStream, secret: &[u8; SECRET_LEN], timeout: Duration) -> io::Result<()> {
    use rustix::process::{PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
    use std::io::{Read, Write};

    /// Timeout for a killed process to end.
    const KILLED_MAX: Duration = Duration::from_secs(5);

    // While the stream is open, this ID is the holder's.
    let pid = rustix::net::sockopt::socket_peercred(&holder)?.pid;
    let is_other = pid != getpid();
    let pidfd = is_other.then(|| pidfd_open(pid, PidfdFlags::empty()).ok()).flatten();
    // Waits for the end of the stream. Nothing is written to it.
    let has_left = |holder: &mut UnixStream, timeout| {
        holder.set_read_timeout(Some(timeout))?;
        match holder.read(&mut [0]) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => Err(error),
            _ => Ok(()),
        }
    };
    if holder.write_all(secret).and_then(|()| has_left(&mut holder, timeout)).is_ok() {
        return Ok(());
    }
    pidfd_send_signal(pidfd.ok_or(ErrorKind::TimedOut)?, Signal::KILL)?;
    has_left(&mut holder, KILLED_MAX)
}

#[cfg(not(target_os = "linux"))]
fn evict(_: UnixStream, _: &[u8; SECRET_LEN], _: Duration) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::rendezvous::{address, tests::secret};
    use std::io::Write;
    use std::process::{Command, Stdio};
    use std::thread;

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn a_process_with_the_secret_replaces_the_holder() {
        let secret = secret(1);
        let first = Lease::take(&secret, SOON).expect("it is free").expect("it can be had");
        thread::scope(|scope| {
            scope.spawn(|| {
                let successor = first.successor().expect("one comes");
                first.leave();
                drop((first, successor));
            });
            let second = Lease::take(&secret, SOON).expect("it is taken over").expect("as above");
            second.leave();
            assert!(second.successor().is_none());
        });
    }

    #[test]
    fn a_process_without_the_secret_is_ignored() {
        let secret = secret(2);
        let lease = Lease::take(&secret, SOON).expect("it is free").expect("it can be had");
        thread::scope(|scope| {
            let waits = scope.spawn(|| lease.successor().is_some());
            let address = address(PURPOSE, &secret).expect("an address");
            for told in [&[0; SECRET_LEN][..], b"short"] {
                let mut stream = UnixStream::connect_addr(&address).expect("it listens");
                stream.write_all(told).expect("written");
            }
            thread::sleep(Duration::from_millis(100));
            assert!(!waits.is_finished());
            lease.leave();
            assert!(!waits.join().expect("no panic"));
        });
    }

    #[test]
    fn a_holder_that_does_not_leave_is_killed() {
        const CHILD: &str = "HAUL_TEST_HOLDS_POST";
        let secret = secret(3);
        if let Ok(digits) = std::env::var(CHILD) {
            let bytes: Vec<u8> = digits.split(',').map(|n| n.parse().expect("a byte")).collect();
            let _post = Lease::take(&bytes.try_into().expect("a secret"), SOON).expect("free");
            println!("held");
            thread::sleep(SOON * 10);
        }
        let digits = secret.map(|byte| byte.to_string()).join(",");
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["a_holder_that_does_not_leave_is_killed", "--nocapture"])
            .env(CHILD, digits)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let address = address(PURPOSE, &secret).expect("an address");
        while UnixStream::connect_addr(&address).is_err() {
            thread::sleep(Duration::from_millis(5));
        }
        let lease = Lease::take(&secret, Duration::from_millis(300)).expect("it is killed");
        assert!(lease.is_some());
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().expect("it has ended").signal(), Some(9));
    }
}

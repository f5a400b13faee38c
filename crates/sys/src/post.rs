//! A post that one process of a user holds at a time, known by a secret: who takes it ends
//! the process that has it.

use haul_model::ContentHash;
use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

/// The purpose of a post's secret.
const PURPOSE: &[u8] = b"haul post\0";

/// Bytes of the secret.
pub const SECRET_LEN: usize = 16;

/// A post, held until this is dropped.
#[derive(Debug)]
pub struct Post(system::Post);

/// Somebody else has taken a post over. Until this is dropped, or the process has ended,
/// they wait.
#[derive(Debug)]
pub struct Successor(#[expect(dead_code, reason = "its end is what they wait for")] system::Stream);

impl Post {
    /// Takes the post of `secret`. The process that holds it, which must be of the same
    /// user, is asked to leave, and killed if it has not left within `patience`; then its
    /// locks are free. `None` on a system where that can't be done.
    ///
    /// # Errors
    /// Those of the system, or if the holder stays in spite of all.
    pub fn take(secret: &[u8; SECRET_LEN], patience: Duration) -> io::Result<Option<Self>> {
        Ok(system::take(secret, patience)?.map(Self))
    }

    /// Waits until somebody who knows the secret, and is of the same user, takes the post;
    /// `None` if it is left before, by [`Self::leave`].
    pub fn successor(&self) -> Option<Successor> {
        self.0.successor().map(Successor)
    }

    /// Nobody finds this process by the post any more.
    pub fn leave(&self) {
        self.0.leave();
    }
}

/// A secret that nobody can guess.
///
/// # Errors
/// Those of reading from the system's source of random bytes.
pub fn secret() -> io::Result<[u8; SECRET_LEN]> {
    let mut secret = [0; SECRET_LEN];
    File::open("/dev/urandom")?.read_exact(&mut secret)?;
    Ok(secret)
}

/// The name under which those meet who know a secret for this `purpose`. It does not tell the
/// secret.
pub(crate) fn name_of(purpose: &[u8], secret: &[u8; SECRET_LEN]) -> String {
    let hash = ContentHash::of(&[purpose, &secret[..]].concat());
    let digits: String = hash.as_bytes()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("haul-{digits}")
}

#[cfg(target_os = "linux")]
mod system {
    use super::{PURPOSE, SECRET_LEN, name_of};
    use rustix::net::Shutdown;
    use rustix::net::sockopt::socket_peercred;
    use rustix::process::{PidfdFlags, Signal, geteuid, getpid, pidfd_open, pidfd_send_signal};
    use std::io::{self, ErrorKind, Read, Write};
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
    use std::time::Duration;

    /// How often a post is taken over from one who came in between.
    const ATTEMPTS_MAX: u32 = 4;

    /// How long a process may take to end after it was killed.
    const KILLED_MAX: Duration = Duration::from_secs(5);

    /// How long somebody who knocks may take to tell the secret.
    const SECRET_MAX: Duration = Duration::from_secs(1);

    pub(super) type Stream = UnixStream;

    #[derive(Debug)]
    pub(super) struct Post {
        listener: UnixListener,
        secret: [u8; SECRET_LEN],
    }

    pub(super) fn take(secret: &[u8; SECRET_LEN], patience: Duration) -> io::Result<Option<Post>> {
        let address = SocketAddr::from_abstract_name(name_of(PURPOSE, secret))?;
        for _ in 0..ATTEMPTS_MAX {
            match UnixListener::bind_addr(&address) {
                Ok(listener) => return Ok(Some(Post { listener, secret: *secret })),
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
            match UnixStream::connect_addr(&address) {
                Ok(holder) => relieve(holder, secret, patience)?,
                // It has just left.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AddrInUse.into())
    }

    /// Has the process at the other end leave.
    fn relieve(
        mut holder: UnixStream,
        secret: &[u8; SECRET_LEN],
        patience: Duration,
    ) -> io::Result<()> {
        let process = socket_peercred(&holder)?;
        if process.uid != geteuid() {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "another user has the post"));
        }
        // As long as the stream stands the number is that of the holder.
        let pidfd = match process.pid == getpid() {
            true => None,
            false => pidfd_open(process.pid, PidfdFlags::empty()).ok(),
        };
        if holder.write_all(secret).and_then(|()| has_left(&mut holder, patience)).is_ok() {
            return Ok(());
        }
        match pidfd {
            Some(pidfd) => pidfd_send_signal(&pidfd, Signal::KILL)?,
            None => return Err(ErrorKind::TimedOut.into()),
        }
        has_left(&mut holder, KILLED_MAX)
    }

    /// Waits for the end of the stream, which nobody writes to.
    fn has_left(holder: &mut UnixStream, patience: Duration) -> io::Result<()> {
        holder.set_read_timeout(Some(patience))?;
        match holder.read(&mut [0]) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(()),
            Err(error) => Err(error),
        }
    }

    impl Post {
        pub(super) fn successor(&self) -> Option<UnixStream> {
            loop {
                match self.listener.accept() {
                    Ok((stream, _)) if self.is_successor(&stream) => return Some(stream),
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return None,
                }
            }
        }

        fn is_successor(&self, mut stream: &UnixStream) -> bool {
            let mut told = [0; SECRET_LEN];
            socket_peercred(stream).is_ok_and(|peer| peer.uid == geteuid())
                && stream.set_read_timeout(Some(SECRET_MAX)).is_ok()
                && stream.read_exact(&mut told).is_ok()
                && told == self.secret
        }

        pub(super) fn leave(&self) {
            // Wakes who waits in `accept`.
            let _ = rustix::net::shutdown(&self.listener, Shutdown::Both);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{PURPOSE, SECRET_LEN, name_of};
    use std::io;
    use std::time::Duration;

    pub(super) type Stream = std::convert::Infallible;

    #[derive(Debug)]
    pub(super) enum Post {}

    pub(super) fn take(secret: &[u8; SECRET_LEN], _: Duration) -> io::Result<Option<Post>> {
        let _ = name_of(PURPOSE, secret);
        Ok(None)
    }

    impl Post {
        pub(super) fn successor(&self) -> Option<Stream> {
            match *self {}
        }

        pub(super) fn leave(&self) {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};
    use std::process::{Command, Stdio};
    use std::thread;

    const SOON: Duration = Duration::from_secs(20);

    fn secret(number: u8) -> [u8; SECRET_LEN] {
        let mut secret = [number; SECRET_LEN];
        secret[..4].copy_from_slice(&std::process::id().to_le_bytes());
        secret
    }

    #[test]
    fn one_who_knows_the_secret_relieves_the_holder() {
        let secret = secret(1);
        let first = Post::take(&secret, SOON).expect("it is free").expect("it can be had");
        thread::scope(|scope| {
            scope.spawn(|| {
                let successor = first.successor().expect("one comes");
                first.leave();
                drop((first, successor));
            });
            let second = Post::take(&secret, SOON).expect("it is taken over").expect("as above");
            second.leave();
            assert!(second.successor().is_none());
        });
    }

    #[test]
    fn one_who_does_not_is_not_heard() {
        let secret = secret(2);
        let post = Post::take(&secret, SOON).expect("it is free").expect("it can be had");
        thread::scope(|scope| {
            let waits = scope.spawn(|| post.successor().is_some());
            let address =
                SocketAddr::from_abstract_name(name_of(PURPOSE, &secret)).expect("an address");
            for told in [&[0; SECRET_LEN][..], b"short"] {
                let mut stream = UnixStream::connect_addr(&address).expect("it listens");
                stream.write_all(told).expect("written");
            }
            thread::sleep(Duration::from_millis(100));
            assert!(!waits.is_finished());
            post.leave();
            assert!(!waits.join().expect("no panic"));
        });
    }

    #[test]
    fn a_holder_that_does_not_leave_is_killed() {
        const CHILD: &str = "HAUL_TEST_HOLDS_POST";
        let secret = secret(3);
        if let Ok(digits) = std::env::var(CHILD) {
            let bytes: Vec<u8> = digits.split(',').map(|n| n.parse().expect("a byte")).collect();
            let _post = Post::take(&bytes.try_into().expect("a secret"), SOON).expect("free");
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
        let address =
            SocketAddr::from_abstract_name(name_of(PURPOSE, &secret)).expect("an address");
        while UnixStream::connect_addr(&address).is_err() {
            thread::sleep(Duration::from_millis(5));
        }
        let post = Post::take(&secret, Duration::from_millis(300)).expect("it is killed");
        assert!(post.is_some());
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().expect("it has ended").signal(), Some(9));
    }
}

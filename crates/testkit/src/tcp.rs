//! TCP connections of other processes, and what a network may do to them: whoever has one
//! finds it cut, changed on its way, or silent.

use std::fs;
use std::io;

use rustix::net::{SendFlags, Shutdown, send, shutdown};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use socket2::{SockFilter, Socket};

/// Bytes that nobody has sent. They are no beginning of what ssh or TLS would take.
const NOISE: [u8; 64] = [0xa5; 64];

/// The state of a connection that stands, as `/proc/net/tcp` has it.
const ESTABLISHED: &str = "01";

/// A connection of another process.
#[derive(Debug)]
pub struct Tcp(Socket);

impl Tcp {
    /// Those of process `pid` that stand, over IPv4; none if it is gone. A connection through
    /// ssh is one of ssh's.
    pub fn of(pid: u32) -> Vec<Tcp> {
        sockets_of(pid).unwrap_or_default()
    }

    /// Ends it for both sides, as a network would.
    ///
    /// # Errors
    /// Errors of the system: it has ended already.
    pub fn cut(&self) -> io::Result<()> {
        Ok(shutdown(&self.0, Shutdown::Both)?)
    }

    /// Puts bytes that nobody has sent between those that go out; `false` if there is no room
    /// for them now.
    ///
    /// # Errors
    /// Errors of the system: it has ended already.
    pub fn corrupt(&self) -> io::Result<bool> {
        match send(&self.0, &NOISE, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::AGAIN) => Ok(false),
            sent => Ok(sent? > 0),
        }
    }

    /// Lets nothing more in, not even that something has arrived; neither side sees why.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn silence(&self) -> io::Result<()> {
        /// "Return": no byte of a packet is taken.
        const RETURN: u16 = 0x06;
        self.0.attach_filter(&[SockFilter::new(RETURN, 0, 0, 0)])
    }
}

/// Cuts one of the connections of process `pid`; `false` if it has none that stands.
pub fn cut_one(pid: u32) -> bool {
    Tcp::of(pid).first().is_some_and(|tcp| tcp.cut().is_ok())
}

fn sockets_of(pid: u32) -> io::Result<Vec<Tcp>> {
    // Those that stand, by the numbers of their sockets.
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp"))?;
    let fields = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let standing = fields.filter(|fields| fields.get(3) == Some(&ESTABLISHED));
    let numbers: Vec<String> =
        standing.filter_map(|fields| Some(format!("socket:[{}]", fields.get(9)?))).collect();
    let pid = Pid::from_raw(i32::try_from(pid).unwrap_or(0)).ok_or(io::ErrorKind::NotFound)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let mut found = Vec::new();
    let mut seen = Vec::new();
    for entry in fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()))?.flatten() {
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        let is_tcp = numbers.iter().any(|number| target.as_os_str() == number.as_str());
        // A process may have two descriptors of one.
        if !is_tcp || seen.contains(&target) {
            continue;
        }
        let number = entry.file_name().to_string_lossy().parse().unwrap_or(-1);
        // It may have been closed meanwhile.
        if let Ok(socket) = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) {
            found.push(Tcp(Socket::from(socket)));
            seen.push(target);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holds_within;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    /// A child that says what it reads over a connection, and our end of that.
    fn echo() -> (Child, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let far = TcpStream::connect(listener.local_addr().expect("its address")).expect("there");
        let (near, _) = listener.accept().expect("it has called");
        let far = OwnedFd::from(far);
        let child = Command::new("cat")
            .stdin(Stdio::from(far.try_clone().expect("another")))
            .stdout(Stdio::from(far))
            .spawn()
            .expect("cat starts");
        near.set_read_timeout(Some(Duration::from_millis(500))).expect("set");
        (child, near)
    }

    /// Does this to the connection of a child, and gives what comes back of a word.
    fn after(trouble: impl Fn(&Tcp)) -> io::Result<Vec<u8>> {
        let (mut child, mut near) = echo();
        near.write_all(b"one").expect("written");
        let mut back = [0; 3];
        near.read_exact(&mut back).expect("it comes back");
        let found = Tcp::of(child.id());
        assert_eq!(found.len(), 1, "it has one, under two numbers");
        trouble(&found[0]);
        drop(found);
        let _ = near.write_all(b"two");
        let mut back = vec![0; 200];
        let read = loop {
            match near.read(&mut back) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        drop(near);
        let _ = child.kill();
        child.wait().expect("waited");
        back.truncate(read?);
        Ok(back)
    }

    #[test]
    fn what_befalls_a_connection_is_seen_at_its_other_end() {
        assert_eq!(after(|_| {}).expect("read"), b"two");
        let cut = after(|tcp| tcp.cut().expect("cut"));
        assert!(cut.as_ref().is_ok_and(Vec::is_empty) || cut.is_err(), "{cut:?}");
        let noisy = after(|tcp| assert!(tcp.corrupt().expect("there is room"))).expect("read");
        assert!(noisy.starts_with(&NOISE), "{noisy:?}");
        let silent = after(|tcp| tcp.silence().expect("silent")).expect_err("nothing comes");
        assert_eq!(silent.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_process_that_is_gone_has_none() {
        let mut child = Command::new("true").spawn().expect("it starts");
        let pid = child.id();
        child.wait().expect("waited");
        assert!(holds_within(Duration::from_secs(5), || Tcp::of(pid).is_empty()));
    }
}

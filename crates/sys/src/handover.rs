//! Streams that one process of a user hands over to another, which is known by a secret: a
//! connection that was made for one is served by the other.

use crate::post::SECRET_LEN;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Takes what other processes hand over, until it is dropped.
#[derive(Debug)]
pub struct Handover(system::Listener);

/// Two streams that were handed over, to be read from and written to.
#[derive(Debug)]
pub struct HandedOver {
    /// Bytes from the other end.
    pub input: File,
    /// Bytes to it.
    pub output: File,
    /// The number that was told with them.
    pub number: u8,
    /// The process that has handed them over waits until this is dropped.
    pub giver: Giver,
}

/// The process that has handed something over.
#[derive(Debug)]
pub struct Giver(#[expect(dead_code, reason = "its end is what they wait for")] system::Stream);

impl Handover {
    /// One for those who know `secret`. `None` on a system where that can't be done.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(secret: &[u8; SECRET_LEN]) -> io::Result<Option<Self>> {
        Ok(system::listen(secret)?.map(Self))
    }

    /// Waits at most `patience` for streams from a process of the same user that knows the
    /// secret. One that does not say it within a second is hung up on.
    ///
    /// # Errors
    /// Those of `poll` and `accept`.
    pub fn take_within(&self, patience: Duration) -> io::Result<Option<HandedOver>> {
        self.0.take_within(patience)
    }
}

/// The process that takes what is handed over.
#[derive(Debug)]
pub struct Taker(system::Taker);

impl Taker {
    /// Finds the process of the same user that waits for those who know `secret`.
    ///
    /// # Errors
    /// When there is none, or it belongs to another user.
    pub fn find(secret: &[u8; SECRET_LEN]) -> io::Result<Self> {
        system::find(secret).map(Self)
    }

    /// Hands `input` and `output` over, with a `number`, and waits until this process is
    /// needed no more. A taker that does not want them lets it go at once.
    ///
    /// # Errors
    /// Those of the system.
    pub fn hand_over(
        self,
        number: u8,
        input: BorrowedFd<'_>,
        output: BorrowedFd<'_>,
    ) -> io::Result<()> {
        self.0.hand_over(number, input, output)
    }
}

#[cfg(target_os = "linux")]
mod system {
    use super::{Giver, HandedOver};
    use crate::passing::{is_of_user, pass, receive_passed};
    use crate::post::{SECRET_LEN, name_of};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;
    use std::fs::File;
    use std::io::{self, ErrorKind, Read};
    use std::os::fd::{BorrowedFd, OwnedFd};
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
    use std::time::Duration;

    /// How long somebody who knocks may take to hand something over.
    const SAID_MAX: Duration = Duration::from_secs(1);

    /// The secret, and a number.
    const SAID_LEN: usize = SECRET_LEN + 1;

    pub(super) type Stream = UnixStream;

    #[derive(Debug)]
    pub(super) struct Listener {
        socket: UnixListener,
        secret: [u8; SECRET_LEN],
    }

    fn address(secret: &[u8; SECRET_LEN]) -> io::Result<SocketAddr> {
        SocketAddr::from_abstract_name(name_of(b"haul lanes\0", secret))
    }

    pub(super) fn listen(secret: &[u8; SECRET_LEN]) -> io::Result<Option<Listener>> {
        let socket = UnixListener::bind_addr(&address(secret)?)?;
        socket.set_nonblocking(true)?;
        Ok(Some(Listener { socket, secret: *secret }))
    }

    impl Listener {
        pub(super) fn take_within(&self, patience: Duration) -> io::Result<Option<HandedOver>> {
            let patience = Timespec::try_from(patience).unwrap_or_default();
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&patience)) {
                Ok(0) | Err(Errno::INTR) => return Ok(None),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            match self.socket.accept() {
                Ok((stream, _)) => Ok(self.hear(stream).ok().flatten()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
                Err(error) => Err(error),
            }
        }

        /// The streams that somebody who has knocked hands over; none of one who may not.
        fn hear(&self, stream: UnixStream) -> io::Result<Option<HandedOver>> {
            if !is_of_user(&stream)? {
                return Ok(None);
            }
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(SAID_MAX))?;
            let mut said = [0; SAID_LEN];
            let (len, files) = receive_passed(&stream, &mut said)?;
            let is_known = len == SAID_LEN && said[..SECRET_LEN] == self.secret;
            let Ok([input, output]) = <[OwnedFd; 2]>::try_from(files) else { return Ok(None) };
            Ok(is_known.then(|| HandedOver {
                input: File::from(input),
                output: File::from(output),
                number: said[SECRET_LEN],
                giver: Giver(stream),
            }))
        }
    }

    #[derive(Debug)]
    pub(super) struct Taker {
        stream: UnixStream,
        secret: [u8; SECRET_LEN],
    }

    pub(super) fn find(secret: &[u8; SECRET_LEN]) -> io::Result<Taker> {
        let stream = UnixStream::connect_addr(&address(secret)?)?;
        // Whoever listens there hears the secret.
        if !is_of_user(&stream)? {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "another user listens"));
        }
        Ok(Taker { stream, secret: *secret })
    }

    impl Taker {
        pub(super) fn hand_over(
            mut self,
            number: u8,
            input: BorrowedFd<'_>,
            output: BorrowedFd<'_>,
        ) -> io::Result<()> {
            let said = [&self.secret[..], &[number]].concat();
            pass(&self.stream, &said, &[input, output])?;
            // Nobody writes to it: it ends.
            self.stream.read(&mut [0]).map(drop)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::HandedOver;
    use crate::post::SECRET_LEN;
    use std::io;
    use std::os::fd::BorrowedFd;
    use std::time::Duration;

    pub(super) type Stream = std::convert::Infallible;

    #[derive(Debug)]
    pub(super) enum Listener {}

    pub(super) fn listen(_: &[u8; SECRET_LEN]) -> io::Result<Option<Listener>> {
        Ok(None)
    }

    impl Listener {
        pub(super) fn take_within(&self, _: Duration) -> io::Result<Option<HandedOver>> {
            match *self {}
        }
    }

    #[derive(Debug)]
    pub(super) enum Taker {}

    pub(super) fn find(_: &[u8; SECRET_LEN]) -> io::Result<Taker> {
        Err(io::ErrorKind::Unsupported.into())
    }

    impl Taker {
        pub(super) fn hand_over(
            self,
            _: u8,
            _: BorrowedFd<'_>,
            _: BorrowedFd<'_>,
        ) -> io::Result<()> {
            match self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};
    use std::thread;

    const SOON: Duration = Duration::from_secs(20);

    fn secret(number: u8) -> [u8; SECRET_LEN] {
        let mut secret = [number; SECRET_LEN];
        secret[..4].copy_from_slice(&std::process::id().to_le_bytes());
        secret
    }

    fn file(end: impl Into<OwnedFd>) -> File {
        File::from(end.into())
    }

    #[test]
    fn streams_of_one_who_knows_the_secret_are_handed_over() {
        let secret = secret(11);
        let handover = Handover::new(&secret).expect("it is free").expect("it can be had");
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        thread::scope(|scope| {
            let gives = scope.spawn(move || {
                let theirs = file(theirs);
                Taker::find(&secret)?.hand_over(5, theirs.as_fd(), theirs.as_fd())
            });
            let taken = handover.take_within(SOON).expect("no error").expect("streams");
            let HandedOver { mut input, mut output, number, giver } = taken;
            assert_eq!(number, 5);
            ours.write_all(b"ping").expect("written");
            let mut heard = [0; 4];
            input.read_exact(&mut heard).expect("read");
            output.write_all(&heard).expect("written");
            ours.read_exact(&mut heard).expect("read");
            assert_eq!(&heard, b"ping");
            assert!(!gives.is_finished(), "it is needed still");
            drop(giver);
            gives.join().expect("no panic").expect("handed over");
        });
    }

    #[test]
    fn one_who_does_not_know_it_gets_nothing_and_holds_up_nobody_for_long() {
        let secret = secret(12);
        let handover = Handover::new(&secret).expect("it is free").expect("it can be had");
        let name = crate::post::name_of(b"haul lanes\0", &secret);
        let address = SocketAddr::from_abstract_name(name).expect("an address");
        for said in [&[0; SECRET_LEN + 1][..], b"short", b""] {
            let mut stream = UnixStream::connect_addr(&address).expect("it listens");
            stream.write_all(said).expect("written");
            assert!(handover.take_within(SOON).expect("no error").is_none());
            assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "it is hung up on");
        }
    }
}

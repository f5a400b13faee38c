//! Streams that one process of a user hands over to another, which is known by a secret: a
//! connection that was made for one is served by the other.

use crate::meeting::{Meeting, SECRET_LEN};
use crate::passing::pass;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The purpose of the secret.
const PURPOSE: &[u8] = b"haul lanes\0";

/// Takes what other processes hand over, until it is dropped.
#[derive(Debug)]
pub struct Handover(Meeting);

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
pub struct Giver(#[expect(dead_code, reason = "its end is what they wait for")] UnixStream);

impl Handover {
    /// One for those who know `secret`. `None` on a system where that can't be done.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(secret: &[u8; SECRET_LEN]) -> io::Result<Option<Self>> {
        let Some(meeting) = Meeting::listen(PURPOSE, secret)? else { return Ok(None) };
        meeting.listener.set_nonblocking(true)?;
        Ok(Some(Self(meeting)))
    }

    /// Waits at most `patience` for streams from a process of the same user that knows the
    /// secret, and no longer than until the pipe `ended` is closed. One that does not say it
    /// within a second is hung up on.
    ///
    /// # Errors
    /// Those of `poll` and `accept`.
    pub fn take_within(
        &self,
        patience: Duration,
        ended: Option<&PipeReader>,
    ) -> io::Result<Option<HandedOver>> {
        let listener = &self.0.listener;
        let patience = Timespec::try_from(patience).unwrap_or_default();
        let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
        fds.extend(ended.map(|ended| PollFd::new(ended, PollFlags::IN)));
        match poll(&mut fds, Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        match listener.accept() {
            Ok((stream, _)) => Ok(self.hear(stream)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The streams that a process that has connected hands over; none of one that may not.
    fn hear(&self, stream: UnixStream) -> Option<HandedOver> {
        let mut words = [0; SECRET_LEN + 1];
        let files = self.0.hear(&stream, &mut words)?;
        let [input, output] = <[OwnedFd; 2]>::try_from(files).ok()?;
        Some(HandedOver {
            input: File::from(input),
            output: File::from(output),
            number: words[SECRET_LEN],
            giver: Giver(stream),
        })
    }
}

/// The process that takes what is handed over.
#[derive(Debug)]
pub struct Taker {
    stream: UnixStream,
    secret: [u8; SECRET_LEN],
}

impl Taker {
    /// Finds the process of the same user that waits for those who know `secret`.
    ///
    /// # Errors
    /// When there is none, or it belongs to another user.
    pub fn find(secret: &[u8; SECRET_LEN]) -> io::Result<Self> {
        Ok(Self { stream: Meeting::find(PURPOSE, secret)?, secret: *secret })
    }

    /// Hands `input` and `output` over, with a `number`, and waits until this process is
    /// needed no more. A taker that does not want them lets it go at once.
    ///
    /// # Errors
    /// Those of the system.
    pub fn hand_over(
        mut self,
        number: u8,
        input: BorrowedFd<'_>,
        output: BorrowedFd<'_>,
    ) -> io::Result<()> {
        pass(&self.stream, &[&self.secret[..], &[number]].concat(), &[input, output])?;
        // Nobody writes to it: it ends.
        self.stream.read(&mut [0]).map(drop)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
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
            let taken = handover.take_within(SOON, None).expect("no error").expect("streams");
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
    fn nobody_is_waited_for_once_the_pipe_is_closed() {
        let handover = Handover::new(&secret(13)).expect("it is free").expect("it can be had");
        let (ended, runs) = io::pipe().expect("a pipe");
        drop(runs);
        let begin = std::time::Instant::now();
        assert!(handover.take_within(SOON, Some(&ended)).expect("no error").is_none());
        assert!(begin.elapsed() < SOON / 2, "{:?}", begin.elapsed());
    }

    #[test]
    fn one_who_does_not_know_it_gets_nothing_and_holds_up_nobody_for_long() {
        let secret = secret(12);
        let handover = Handover::new(&secret).expect("it is free").expect("it can be had");
        let address = crate::meeting::address(PURPOSE, &secret).expect("an address");
        for said in [&[0; SECRET_LEN + 1][..], b"short", b""] {
            let mut stream = UnixStream::connect_addr(&address).expect("it listens");
            stream.write_all(said).expect("written");
            assert!(handover.take_within(SOON, None).expect("no error").is_none());
            assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "it is hung up on");
        }
    }
}

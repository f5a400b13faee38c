//! Hands streams over to another process of the same user, which is found by a secret. So one
//! process makes a connection and another serves it.

use crate::passing::pass;
use crate::rendezvous::{Rendezvous, SECRET_LEN};
use crate::waiting::wait_ready;
use rustix::event::{PollFd, PollFlags};
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Separates these meetings from those with another purpose.
const PURPOSE: &[u8] = b"haul lanes\0";

/// Receives streams from other processes until it is dropped.
#[derive(Debug)]
pub struct Handover(Rendezvous);

/// Two streams that were handed over.
#[derive(Debug)]
pub struct HandedOver {
    /// Bytes from the peer.
    pub input: File,
    /// Bytes to the peer.
    pub output: File,
    /// The number that was sent with them.
    pub number: u8,
    /// Dropping this releases the process that handed them over.
    pub giver: Giver,
}

/// The process that handed streams over.
#[derive(Debug)]
pub struct Giver(#[expect(dead_code, reason = "its end is what they wait for")] UnixStream);

impl Handover {
    /// Starts to receive from processes that know `secret`. `None` if the system does not support
    /// it.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn new(secret: &[u8; SECRET_LEN]) -> io::Result<Option<Self>> {
        let Some(rendezvous) = Rendezvous::listen(PURPOSE, secret)? else { return Ok(None) };
        rendezvous.listener.set_nonblocking(true)?;
        Ok(Some(Self(rendezvous)))
    }

    /// Waits up to `timeout`, or until the pipe `ended` is closed, for streams from a process of
    /// the same user that knows the secret. Disconnects a process that does not send the secret
    /// within a second.
    ///
    /// # Errors
    /// Errors of `poll` and `accept`.
    pub fn accept_within(
        &self,
        timeout: Duration,
        ended: Option<&PipeReader>,
    ) -> io::Result<Option<HandedOver>> {
        let listener = &self.0.listener;
        let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
        fds.extend(ended.map(|ended| PollFd::new(ended, PollFlags::IN)));
        if !wait_ready(&mut fds, Some(timeout))? {
            return Ok(None);
        }
        match listener.accept() {
            Ok((stream, _)) => Ok(self.receive(stream)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Receives streams from a connected process. `None` if it is not allowed to send any.
    fn receive(&self, stream: UnixStream) -> Option<HandedOver> {
        let mut data = [0; SECRET_LEN + 1];
        let files = self.0.receive(&stream, &mut data)?;
        let [input, output] = <[OwnedFd; 2]>::try_from(files).ok()?;
        Some(HandedOver {
            input: File::from(input),
            output: File::from(output),
            number: data[SECRET_LEN],
            giver: Giver(stream),
        })
    }
}

/// The process that receives streams.
#[derive(Debug)]
pub struct HandoverTarget {
    stream: UnixStream,
    secret: [u8; SECRET_LEN],
}

impl HandoverTarget {
    /// Connects to the process of the same user that receives with `secret`.
    ///
    /// # Errors
    /// When there is none, or it belongs to another user.
    pub fn find(secret: &[u8; SECRET_LEN]) -> io::Result<Self> {
        Ok(Self { stream: Rendezvous::find(PURPOSE, secret)?, secret: *secret })
    }

    /// Hands `input` and `output` over with a `number`, and waits until this process is not needed
    /// any more. A receiver that rejects them releases it at once.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn hand_over(
        mut self,
        number: u8,
        input: BorrowedFd<'_>,
        output: BorrowedFd<'_>,
    ) -> io::Result<()> {
        pass(&self.stream, &[&self.secret[..], &[number]].concat(), &[input, output])?;
        // Nothing is written to it: this waits for its end.
        self.stream.read(&mut [0]).map(drop)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::rendezvous::tests::secret;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::thread;

    const SOON: Duration = Duration::from_secs(20);

    fn file(end: impl Into<OwnedFd>) -> File {
        File::from(end.into())
    }

    #[test]
    fn a_process_with_the_secret_hands_streams_over() {
        let secret = secret(11);
        let handover = Handover::new(&secret).expect("it is free").expect("it can be had");
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        thread::scope(|scope| {
            let gives = scope.spawn(move || {
                let theirs = file(theirs);
                HandoverTarget::find(&secret)?.hand_over(5, theirs.as_fd(), theirs.as_fd())
            });
            let taken = handover.accept_within(SOON, None).expect("no error").expect("streams");
            let HandedOver { mut input, mut output, number, giver } = taken;
            assert_eq!(number, 5);
            ours.write_all(b"ping").expect("written");
            let mut received = [0; 4];
            input.read_exact(&mut received).expect("read");
            output.write_all(&received).expect("written");
            ours.read_exact(&mut received).expect("read");
            assert_eq!(&received, b"ping");
            assert!(!gives.is_finished(), "it is needed still");
            drop(giver);
            gives.join().expect("no panic").expect("handed over");
        });
    }

    #[test]
    fn the_wait_ends_once_the_pipe_is_closed() {
        let handover = Handover::new(&secret(13)).expect("it is free").expect("it can be had");
        let (ended, runs) = io::pipe().expect("a pipe");
        drop(runs);
        let begin = std::time::Instant::now();
        assert!(handover.accept_within(SOON, Some(&ended)).expect("no error").is_none());
        assert!(begin.elapsed() < SOON / 2, "{:?}", begin.elapsed());
    }

    #[test]
    fn a_process_without_the_secret_gets_nothing_and_delays_little() {
        let secret = secret(12);
        let handover = Handover::new(&secret).expect("it is free").expect("it can be had");
        let address = crate::rendezvous::address(PURPOSE, &secret).expect("an address");
        for said in [&[0; SECRET_LEN + 1][..], b"short", b""] {
            let mut stream = UnixStream::connect_addr(&address).expect("it listens");
            stream.write_all(said).expect("written");
            assert!(handover.accept_within(SOON, None).expect("no error").is_none());
            assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "it is hung up on");
        }
    }
}

//! Streams that can be let go of though somebody else holds their other ends. A
//! program in place of ssh may have started others, which outlive it with its
//! standard input and output: whoever reads then would never meet the end.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Lets go of streams.
pub(crate) struct Cut {
    /// At its end as soon as `held` is closed.
    watched: PipeReader,
    held: Mutex<Option<PipeWriter>>,
    asked: AtomicBool,
}

impl Cut {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let (watched, held) = io::pipe()?;
        let (held, asked) = (Mutex::new(Some(held)), AtomicBool::new(false));
        Ok(Arc::new(Self { watched, held, asked }))
    }

    /// Asked for the second time, lets go of the streams: the reader meets the end,
    /// the writer a broken pipe. Until then the program may end them.
    pub(crate) fn ask(&self) {
        if self.asked.swap(true, Ordering::Relaxed) {
            self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    /// Waits until `stream` is ready; `false` if it was let go of.
    fn wait(&self, stream: BorrowedFd<'_>, ready: PollFlags) -> io::Result<bool> {
        let mut watched =
            [PollFd::from_borrowed_fd(stream, ready), PollFd::new(&self.watched, PollFlags::IN)];
        match poll(&mut watched, None) {
            Ok(_) => Ok(watched[1].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// A stream that can be let go of.
pub(crate) struct Cuttable<S> {
    stream: S,
    cut: Arc<Cut>,
}

impl<S: AsFd> Cuttable<S> {
    /// Takes this side's end of a pipe. It never blocks from now on, which the
    /// other end doesn't notice.
    pub(crate) fn new(stream: S, cut: &Arc<Cut>) -> io::Result<Self> {
        fcntl_setfl(&stream, fcntl_getfl(&stream)? | OFlags::NONBLOCK)?;
        Ok(Self { stream, cut: Arc::clone(cut) })
    }
}

impl<S: Read + AsFd> Read for Cuttable<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            if !self.cut.wait(self.stream.as_fd(), PollFlags::IN)? {
                return Ok(0);
            }
        }
    }
}

impl<S: Write + AsFd> Write for Cuttable<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.stream.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return written,
            }
            if !self.cut.wait(self.stream.as_fd(), PollFlags::OUT)? {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn streams_are_let_go_of_when_that_was_asked_for_twice() {
        let cut = Cut::new().expect("a pipe");
        let (input, mut far_output) = io::pipe().expect("a pipe");
        let (far_input, output) = io::pipe().expect("a pipe");
        let mut input = Cuttable::new(input, &cut).expect("a stream");
        let mut output = Cuttable::new(output, &cut).expect("a stream");
        far_output.write_all(b"x").expect("written");
        let mut byte = [0];
        assert_eq!((input.read(&mut byte).expect("read"), byte), (1, *b"x"));
        let reader = thread::spawn(move || input.read(&mut [0]).expect("the end"));
        let writer = thread::spawn(move || output.write_all(&vec![0; 8 << 20]));
        cut.ask();
        thread::sleep(Duration::from_millis(50));
        assert!(!reader.is_finished() && !writer.is_finished());
        cut.ask();
        assert_eq!(reader.join().expect("no panic"), 0);
        let error = writer.join().expect("no panic").expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        drop((far_output, far_input));
    }
}

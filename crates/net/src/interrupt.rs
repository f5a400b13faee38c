//! Streams that can be released although another process holds their other ends. A program in place
//! of ssh may have started others, which outlive it with its standard input and output. A reader
//! would then never see the end. The client of an agent may keep its connection open without
//! sending.

use haul_sys::wait_ready;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io::{self, IoSlice, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Releases streams.
pub(crate) struct Interrupt {
    /// Holds a byte once the streams are released. Its end of file would not do: a process forked
    /// from this one, or its parent, may have `held` as well.
    watched: PipeReader,
    held: Mutex<Option<PipeWriter>>,
    requested: AtomicBool,
    /// All reads and writes end.
    release: AtomicBool,
}

impl Interrupt {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let (watched, held) = io::pipe()?;
        let (requested, release) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Arc::new(Self { watched, held: Mutex::new(Some(held)), requested, release }))
    }

    /// The second call releases the streams: reads return the end of the file, writes a broken
    /// pipe. The first call leaves the program time to end them.
    pub(crate) fn request(&self) {
        if self.requested.swap(true, Ordering::Relaxed) {
            self.release();
        }
    }

    /// Releases the streams at once.
    pub(crate) fn release(&self) {
        self.release.store(true, Ordering::Relaxed);
        let held = self.held.lock().take();
        // The pipe has room for a byte. If no other process holds it, closing it wakes the reader
        // too.
        let _ = held.map(|mut held| held.write_all(&[0]));
    }

    /// True once the streams are released.
    fn is_released(&self) -> bool {
        self.release.load(Ordering::Relaxed)
    }

    /// Waits until `stream` may be ready, or is released.
    fn wait(&self, stream: BorrowedFd<'_>, ready: PollFlags) -> io::Result<()> {
        let watched = PollFd::new(&self.watched, PollFlags::IN);
        wait_ready(&mut [PollFd::from_borrowed_fd(stream, ready), watched], None).map(drop)
    }
}

/// Waits until `pipe` has room, or has no reader any more.
///
/// # Errors
/// Errors of `poll`; a broken pipe if `interrupt` has released it.
pub(crate) fn wait_writable(pipe: BorrowedFd<'_>, interrupt: Option<&Interrupt>) -> io::Result<()> {
    let Some(interrupt) = interrupt else {
        let mut polled = [PollFd::from_borrowed_fd(pipe, PollFlags::OUT)];
        return wait_ready(&mut polled, None).map(drop);
    };
    interrupt.wait(pipe, PollFlags::OUT)?;
    if interrupt.is_released() { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
}

/// A stream that can be released.
pub(crate) struct Interruptible<S> {
    stream: S,
    interrupt: Arc<Interrupt>,
}

impl<S: AsFd> Interruptible<S> {
    /// Takes this side's end of a pipe, or a socket, and makes it non-blocking. The other end does
    /// not notice.
    ///
    /// # Errors
    /// Errors of `fcntl`.
    pub(crate) fn new(stream: S, interrupt: &Arc<Interrupt>) -> io::Result<Self> {
        fcntl_setfl(&stream, fcntl_getfl(&stream)? | OFlags::NONBLOCK)?;
        Ok(Self { stream, interrupt: Arc::clone(interrupt) })
    }
}

/// Restores the blocking mode of a stream when dropped: the process that started this one may use
/// it further.
pub(crate) struct FlagsGuard {
    stream: OwnedFd,
    flags: OFlags,
}

impl FlagsGuard {
    /// Records the flags of `stream`.
    ///
    /// # Errors
    /// Errors of `fcntl`.
    pub(crate) fn of(stream: impl AsFd) -> io::Result<Self> {
        let flags = fcntl_getfl(&stream)?;
        Ok(Self { stream: stream.as_fd().try_clone_to_owned()?, flags })
    }

    pub(crate) fn stream(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Drop for FlagsGuard {
    fn drop(&mut self) {
        let _ = fcntl_setfl(&self.stream, self.flags);
    }
}

impl<S: Read + AsFd> Read for Interruptible<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while !self.interrupt.is_released() {
            match self.stream.read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            self.interrupt.wait(self.stream.as_fd(), PollFlags::IN)?;
        }
        Ok(0)
    }
}

impl<S: Write + AsFd> Interruptible<S> {
    /// Calls `write` until it does not block.
    fn write_with(
        &mut self,
        mut write: impl FnMut(&mut S) -> io::Result<usize>,
    ) -> io::Result<usize> {
        while !self.interrupt.is_released() {
            match write(&mut self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return written,
            }
            self.interrupt.wait(self.stream.as_fd(), PollFlags::OUT)?;
        }
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

impl<S: Write + AsFd> Write for Interruptible<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_with(|stream| stream.write(bytes))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_with(|stream| stream.write_vectored(slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::{Duration, Instant};

    #[test]
    fn the_second_request_releases_the_streams() {
        let interrupt = Interrupt::new().expect("a pipe");
        let (input, mut far_output) = io::pipe().expect("a pipe");
        let (far_input, output) = io::pipe().expect("a pipe");
        let mut input = Interruptible::new(input, &interrupt).expect("a stream");
        let mut output = Interruptible::new(output, &interrupt).expect("a stream");
        far_output.write_all(b"x").expect("written");
        let mut byte = [0];
        assert_eq!((input.read(&mut byte).expect("read"), byte), (1, *b"x"));
        let reader = thread::spawn(move || input.read(&mut [0]).expect("the end"));
        let writer = thread::spawn(move || output.write_all(&vec![0; 8 << 20]));
        interrupt.request();
        thread::sleep(Duration::from_millis(50));
        assert!(!reader.is_finished() && !writer.is_finished());
        interrupt.request();
        assert_eq!(reader.join().expect("no panic"), 0);
        let error = writer.join().expect("no panic").expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        drop((far_output, far_input));
    }

    #[test]
    fn streams_are_released_although_another_process_has_the_same_pipes() {
        let interrupt = Interrupt::new().expect("a pipe");
        let of_another = interrupt.held.lock().as_ref().map(PipeWriter::try_clone);
        let (input, far_output) = io::pipe().expect("a pipe");
        let mut input = Interruptible::new(input, &interrupt).expect("a stream");
        let reader = thread::spawn(move || input.read(&mut [0]).expect("the end"));
        thread::sleep(Duration::from_millis(20));
        interrupt.release();
        let begin = Instant::now();
        while !reader.is_finished() && begin.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(5));
        }
        // An end of file would wake the reader.
        assert!(reader.is_finished() && of_another.is_some());
        drop(far_output);
    }

    #[test]
    fn a_released_reader_gets_no_further_data() {
        let interrupt = Interrupt::new().expect("a pipe");
        let (input, mut far_output) = io::pipe().expect("a pipe");
        let (far_input, output) = io::pipe().expect("a pipe");
        let mut input = Interruptible::new(input, &interrupt).expect("a stream");
        let mut output = Interruptible::new(output, &interrupt).expect("a stream");
        far_output.write_all(b"more").expect("written");
        interrupt.release();
        assert_eq!(input.read(&mut [0]).expect("the end"), 0);
        let error = output.write(b"x").expect_err("it was let go of");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        drop((far_output, far_input));
    }
}

//! Buffered standard output. It accepts that its reader closes the pipe.

use crate::error::CommandError;
use haul_model::{Fault, Side};
use std::io::{self, ErrorKind, Write};

/// Bytes that are buffered before a write.
const BUFFER_LEN: usize = 64 << 10;

/// Buffers standard output. It writes only in [`Stdout::flush`], so that the caller can hide the
/// progress line first.
#[derive(Debug, Default)]
pub(crate) struct Stdout {
    buffer: Vec<u8>,
    broken: Option<io::Error>,
}

impl Stdout {
    /// Adds bytes. After a write error they are dropped.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.broken.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// True if the caller should call [`Stdout::flush`].
    pub(crate) fn is_full(&self) -> bool {
        self.buffer.len() >= BUFFER_LEN
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// True after a write error. Work that only produces output can stop.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Writes the buffer.
    pub(crate) fn flush(&mut self) {
        self.flush_to(&mut Standard);
    }

    fn flush_to(&mut self, out: &mut dyn Write) {
        if self.buffer.is_empty() || self.is_broken() {
            return;
        }
        self.broken = out.write_all(&self.buffer).and_then(|()| out.flush()).err();
        self.buffer.clear();
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// The first write error, as [`write_result`] converts it.
    pub(crate) fn finish(&mut self) -> Result<(), CommandError> {
        self.flush();
        write_result(self.broken.take().map_or(Ok(()), Err))
    }
}

/// Standard output. Writing to it fails if it is closed.
pub(crate) struct Standard;

impl Standard {
    /// Checks standard output, because Rust's library ignores writes to a closed one.
    ///
    /// # Errors
    /// If it is closed.
    pub(crate) fn check() -> io::Result<()> {
        match haul_engine::is_stdout_closed() {
            true => Err(io::Error::other("it is closed")),
            false => Ok(()),
        }
    }
}

impl Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::check()?;
        io::stdout().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// Writes to standard output at once.
///
/// # Errors
/// Errors of writing, as [`write_result`] converts them.
pub(crate) fn print(bytes: impl AsRef<[u8]>) -> Result<(), CommandError> {
    write_result(Standard.write_all(bytes.as_ref()).and_then(|()| Standard.flush()))
}

/// Converts a write error. A reader that closed the pipe, such as `head`, is no error.
///
/// # Errors
/// Any other write error.
pub(crate) fn write_result(write_result: io::Result<()>) -> Result<(), CommandError> {
    match write_result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let fault = Fault::from_io(Side::Destination, "write to standard output", &error);
            Err(CommandError::io(fault))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_gathered_is_written_once() {
        let mut stdout = Stdout::default();
        let mut write_result = Vec::new();
        stdout.push(b"a\n");
        stdout.push(b"b\n");
        stdout.flush_to(&mut write_result);
        stdout.flush_to(&mut write_result);
        assert_eq!(write_result, b"a\nb\n");
    }

    #[test]
    fn a_reader_that_went_away_is_no_error_but_a_full_disk_is() {
        for (kind, is_error) in [(ErrorKind::BrokenPipe, false), (ErrorKind::StorageFull, true)] {
            let mut stdout = Stdout::default();
            stdout.push(b"a\n");
            stdout.flush_to(&mut Broken(kind));
            assert!(stdout.is_broken());
            stdout.push(b"b\n");
            assert!(stdout.is_empty());
            assert_eq!(stdout.finish().is_err(), is_error);
        }
    }
}

//! A client's output that tells the other end when it is dropped, as that of a
//! child process does.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

/// The output, and what ends with it: both ways, if the process behind it ends.
pub(crate) struct Ending(pub(crate) UnixStream, pub(crate) Shutdown);

impl Write for Ending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.shutdown(self.1);
    }
}

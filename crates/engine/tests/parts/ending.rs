//! A client's connection that tells the other end when it is dropped, as that of
//! a child process does.

use haul_net::Connection;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

/// A connection through `stream`, which is shut down with it: both ways, if the
/// process behind it ends.
pub(crate) fn connection(stream: UnixStream, ends: Shutdown) -> Connection {
    let reader = stream.try_clone().expect("a second handle");
    Connection::from_parts(reader, Ending(stream, ends))
}

/// The output, and what ends with it.
struct Ending(UnixStream, Shutdown);

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

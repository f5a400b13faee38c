//! Closes a file to find out about errors.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, IntoRawFd};

/// Reports the errors of closing `file`, by closing a duplicate handle. Some file systems send
/// written data, or check quotas, only when a handle is closed. std ignores the result of closing.
///
/// # Errors
/// Errors of `close`: written content was lost.
pub fn check_by_closing(file: &File) -> io::Result<()> {
    loop {
        let handle = file.as_fd().try_clone_to_owned()?.into_raw_fd();
        // SAFETY: `handle` was created a line above, and nothing else has it. It is not used again,
        // whatever this returns.
        #[allow(unsafe_code)]
        let closed = unsafe { libc::close(handle) };
        if closed == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // After an interrupt the handle is gone, and its result is unknown.
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

//! Closing a file for the errors that it tells.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, IntoRawFd};

/// Asks what closing `file` would tell, by closing another handle of it: some
/// file systems send what was written only then, or check quotas, and each
/// handle that is closed makes them do so. std closes without listening.
///
/// # Errors
/// Those of `close`: what was written is not there.
pub fn tell_by_closing(file: &File) -> io::Result<()> {
    loop {
        let handle = file.as_fd().try_clone_to_owned()?.into_raw_fd();
        // SAFETY: `handle` was made a line above, and nothing else has it; it is
        // not used again, whatever this returns.
        #[allow(unsafe_code)]
        let closed = unsafe { libc::close(handle) };
        if closed == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // That handle is gone, and nobody knows what it would have told.
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

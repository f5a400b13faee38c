//! Locks on open files, which go with the process that holds them.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io;

/// Locks `file` for this process alone, until its last handle is closed;
/// `false` while another process has it.
///
/// # Errors
/// Those of `flock`.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

//! Locks on open files, which go with the process that holds them.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;

/// Locks the file or directory `of` for this process alone, until its last handle is
/// closed; `false` while another process has it.
///
/// # Errors
/// Those of `flock`.
pub fn try_lock(of: impl AsFd) -> io::Result<bool> {
    match flock(of, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

//! Locks on open files. They end with the process.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;

/// Locks the file or directory `of` exclusively, until its last handle is closed. Returns false
/// while another process holds the lock.
///
/// # Errors
/// Errors of `flock`.
pub fn try_lock(of: impl AsFd) -> io::Result<bool> {
    match flock(of, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

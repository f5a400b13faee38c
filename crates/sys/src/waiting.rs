//! Waits for descriptors.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Waits up to `timeout`, if there is one, until one of `fds` is ready. Returns whether one is. A
/// signal ends the wait early.
///
/// # Errors
/// Errors of `poll`.
pub fn wait_ready(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<bool> {
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(fds, timeout.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Waits up to `timeout` until a read from `stream` would return at once: with content, the end or
/// an error. Returns whether it would.
///
/// # Errors
/// Errors of `poll`.
pub fn wait_for_input(stream: impl AsFd, timeout: Duration) -> io::Result<bool> {
    let begun = Instant::now();
    loop {
        let left = timeout.saturating_sub(begun.elapsed());
        if wait_ready(&mut [PollFd::new(&stream, PollFlags::IN)], Some(left))? {
            return Ok(true);
        }
        if begun.elapsed() >= timeout {
            return Ok(false);
        }
    }
}

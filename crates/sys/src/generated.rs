//! Files without a medium: those that the kernel generates, and those kept in memory.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// True if the kernel generates the files of `file`'s file system when they are read. Their
/// reported sizes say nothing. Known on Linux only.
pub fn is_generated(file: impl AsFd) -> bool {
    use crate::known::kinds::{GENERATED, kind};
    GENERATED.contains(&kind(file))
}

/// Creates a file in memory, which is gone when it is closed.
///
/// # Errors
/// Errors of `memfd_create`.
#[cfg(target_os = "linux")]
pub fn memory_file() -> io::Result<File> {
    Ok(rustix::fs::memfd_create("haul", rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

elsewhere!(pub fn memory_file() -> io::Result<File> = Err(io::ErrorKind::Unsupported.into()));

/// Waits up to `within` until a read from `file` would return at once: with content, the end or an
/// error. Returns whether it would.
///
/// # Errors
/// Errors of `poll`.
pub fn is_readable_within(file: impl AsFd, within: Duration) -> io::Result<bool> {
    let within =
        Timespec { tv_sec: within.as_secs() as i64, tv_nsec: within.subsec_nanos().into() };
    match poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&within)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

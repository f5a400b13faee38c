//! Files without a medium: those that the kernel generates, and those kept in memory.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

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

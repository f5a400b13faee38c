//! Files without a medium: those that the kernel generates, and those kept in memory.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// True if the kernel generates the files of `file`'s file system when they are read. Their
/// reported sizes say nothing.
#[cfg(target_os = "linux")]
pub fn is_generated(file: impl AsFd) -> bool {
    /// proc, sysfs, debugfs, tracefs, cgroup, cgroup2, securityfs, configfs, pstore
    /// and efivarfs (`linux/magic.h`).
    const GENERATED: [u64; 10] = [
        0x9fa0,
        0x6265_6572,
        0x6462_6720,
        0x7472_6163,
        0x0027_e0eb,
        0x6367_7270,
        0x7363_6673,
        0x6265_6570,
        0x6165_676c,
        0xde5e_81e4,
    ];
    // The field's width differs between systems.
    #[allow(clippy::unnecessary_cast)]
    rustix::fs::fstatfs(file)
        .is_ok_and(|stat| GENERATED.contains(&(stat.f_type as u64 & 0xffff_ffff)))
}

/// True if the kernel generates the files of `file`'s file system. Never on this system.
#[cfg(not(target_os = "linux"))]
pub fn is_generated(_: impl AsFd) -> bool {
    false
}

/// Creates a file in memory, which is gone when it is closed.
///
/// # Errors
/// Those of `memfd_create`.
#[cfg(target_os = "linux")]
pub fn memory_file() -> io::Result<File> {
    Ok(rustix::fs::memfd_create("haul", rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

/// Not supported on this system.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn memory_file() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Waits up to `within` until a read from `file` would return at once: with content, the end or an
/// error. Returns whether it would.
///
/// # Errors
/// Those of `poll`.
pub fn is_readable_within(file: impl AsFd, within: Duration) -> io::Result<bool> {
    let within =
        Timespec { tv_sec: within.as_secs() as i64, tv_nsec: within.subsec_nanos().into() };
    match poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&within)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

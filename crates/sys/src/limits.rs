//! What a process can know of itself and of the system that it runs on.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::AsFd;
use std::sync::OnceLock;

/// Raises the soft limit on open files to the hard one; a refusal is no harm,
/// handles are then reopened more often.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// How many files the process may have open; `None` if there is no limit.
pub fn open_files_max() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// The user whose rights this process has.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A number for the run of the system from its start to its stop: the same for
/// every process in it. Where the system tells none, it is one that no other
/// process has.
///
/// Asked once; ask before [`crate::confine`] makes the answer unreadable.
pub fn boot_id() -> [u8; 16] {
    static BOOT: OnceLock<[u8; 16]> = OnceLock::new();
    *BOOT.get_or_init(|| system_boot_id().unwrap_or_else(own_id))
}

fn system_boot_id() -> Option<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    (digits.len() == 32).then_some(id)
}

fn own_id() -> [u8; 16] {
    let half = || RandomState::new().hash_one(std::process::id()).to_le_bytes();
    let mut id = [0; 16];
    id[..8].copy_from_slice(&half());
    id[8..].copy_from_slice(&half());
    id
}

/// A number for the time in which the page cache of `file`'s file system lasts:
/// it differs after another start of the system, and after another mount where
/// the system tells mounts apart (Linux 6.8 and later).
pub fn cache_id(file: &File) -> [u8; 16] {
    let mut id = boot_id();
    for (byte, mount) in id.iter_mut().zip(mount_id(file).to_le_bytes()) {
        *byte ^= mount;
    }
    id
}

/// A number for the file system that `file` is on, the same when the system is
/// started anew where the file system keeps one; 0 where there is none.
pub fn volume_id(file: impl AsFd) -> u64 {
    rustix::fs::fstatvfs(file).map_or(0, |volume| volume.f_fsid)
}

#[cfg(target_os = "linux")]
fn mount_id(file: &File) -> u64 {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    /// `STATX_MNT_ID_UNIQUE`: a number that no later mount gets again.
    const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
    statx(file, c"", AtFlags::EMPTY_PATH, UNIQUE).map_or(0, |stat| stat.stx_mnt_id)
}

#[cfg(not(target_os = "linux"))]
fn mount_id(_: &File) -> u64 {
    0
}

//! Limits and identity of this process, and facts about its system.

use haul_model::Timestamp;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Raises the soft limit on open files to the hard one. If that is refused, handles are reopened
/// more often.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// The limit on open files of this process; `None` if there is none.
pub fn open_files_max() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// True if `error` means that this process, or the whole system, has too many open files.
pub fn is_out_of_handles(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    matches!(errno, Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}

/// The cached result of [`effective_user`], or [`NOT_CACHED`].
static USER: AtomicU64 = AtomicU64::new(NOT_CACHED);

/// Not the ID of a user.
const NOT_CACHED: u64 = u64::MAX;

/// The effective user of this process. The system is asked once, as every entry of a tree needs
/// this, and again after [`crate::become_user`].
pub fn effective_user() -> u32 {
    if let Ok(user) = u32::try_from(USER.load(Ordering::Relaxed)) {
        return user;
    }
    let user = rustix::process::geteuid().as_raw();
    USER.store(user.into(), Ordering::Relaxed);
    user
}

/// Drops the cached user.
pub(crate) fn forget_user() {
    USER.store(NOT_CACHED, Ordering::Relaxed);
}

/// The ID of the superuser, and of its group. It is the same on every system.
pub const ROOT: u32 = 0;

/// True if this process is root: it has all rights and sees all attributes.
pub fn is_root() -> bool {
    effective_user() == ROOT
}

/// The group of new entries, unless their directory decides.
pub fn effective_group() -> u32 {
    rustix::process::getegid().as_raw()
}

/// The low 9 bits of this process's umask, which are removed from the mode of new entries.
///
/// Cached. Without /proc, reading it changes it for a moment: call this before other threads create
/// files.
pub fn umask() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    *UMASK.get_or_init(|| {
        umask_from_proc().unwrap_or_else(|| {
            let umask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
            rustix::process::umask(umask);
            // The field's width differs between systems.
            #[allow(clippy::useless_conversion)]
            u32::from(umask.as_raw_mode())
        }) & 0o777
    })
}

fn umask_from_proc() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(umask.trim(), 8).ok()
}

/// The name of this machine.
pub fn node_name() -> Vec<u8> {
    rustix::system::uname().nodename().to_bytes().to_vec()
}

/// An ID of the current boot of the system, the same for every process. If the system reports none,
/// it is unique to this process.
///
/// Cached. Call this before [`crate::confine()`] makes it unreadable.
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

/// True unless `terminal` is this process's terminal and another process group is in its
/// foreground.
pub fn is_in_foreground(terminal: impl AsFd) -> bool {
    let foreground = rustix::termios::tcgetpgrp(terminal);
    foreground.map_or(true, |group| group == rustix::process::getpgrp())
}

/// True if `time`, from a file system, is at least `span` ago by this machine's clock.
pub fn is_older_than(time: Timestamp, span: Duration) -> bool {
    let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH) else { return false };
    let Some(then) = now.checked_sub(span) else { return false };
    let secs = i64::try_from(then.as_secs()).unwrap_or(i64::MAX);
    time <= Timestamp { secs, nanos: then.subsec_nanos() }
}

/// The time when this machine was started, by the clock for file times; `None` if unknown.
pub fn boot_time() -> Option<Timestamp> {
    static STARTED: OnceLock<Option<Timestamp>> = OnceLock::new();
    *STARTED.get_or_init(system_boot_time)
}

#[cfg(target_os = "linux")]
fn system_boot_time() -> Option<Timestamp> {
    use rustix::time::{ClockId, clock_gettime};
    const SECOND_NS: i128 = 1_000_000_000;
    // Boottime also counts while the machine is suspended.
    let [since, now] = [ClockId::Boottime, ClockId::Realtime].map(clock_gettime);
    let ns = |time: rustix::time::Timespec| {
        i128::from(time.tv_sec) * SECOND_NS + i128::from(time.tv_nsec)
    };
    let start = ns(now) - ns(since);
    let (secs, nanos) = (start.div_euclid(SECOND_NS), start.rem_euclid(SECOND_NS));
    Some(Timestamp { secs: i64::try_from(secs).ok()?, nanos: u32::try_from(nanos).ok()? })
}

elsewhere!(fn system_boot_time() -> Option<Timestamp> = None);

/// An ID that no other process has.
fn own_id() -> [u8; 16] {
    static OWN: OnceLock<[u8; 16]> = OnceLock::new();
    *OWN.get_or_init(|| {
        let half = || RandomState::new().hash_one(std::process::id()).to_le_bytes();
        let mut id = [0; 16];
        id[..8].copy_from_slice(&half());
        id[8..].copy_from_slice(&half());
        id
    })
}

/// An ID of the lifetime of the page cache of `file`'s file system. It changes with each boot and
/// each mount. If the system does not identify mounts uniquely (before Linux 6.8), the ID is unique
/// to this process: a disk may have been removed and mounted again.
pub fn cache_id(file: &File) -> [u8; 16] {
    cache_id_of(mount_id(file))
}

fn cache_id_of(mount: Option<u64>) -> [u8; 16] {
    let Some(mount) = mount else { return own_id() };
    let mut id = boot_id();
    for (byte, mount) in id.iter_mut().zip(mount.to_le_bytes()) {
        *byte ^= mount;
    }
    id
}

/// An ID of the file system that `file` is on; 0 if there is none. It survives a reboot if the file
/// system stores one.
pub fn volume_id(file: impl AsFd) -> u64 {
    rustix::fs::fstatvfs(file).map_or(0, |volume| volume.f_fsid)
}

/// The free space of a file system for users other than root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeSpace {
    /// In bytes.
    pub bytes: u64,
    /// Free inodes; `None` if they are created as needed.
    pub inodes: Option<u64>,
}

/// Fewer free inodes than this explain why a file could not be created. Some may have been freed
/// since the failure.
const INODES_FEW: u64 = 16;

impl FreeSpace {
    /// The space of a file system with `files` inodes, of which `files_left` are free. Both are 0
    /// if inodes are created as needed.
    pub fn new(bytes: u64, files: u64, files_left: u64) -> Self {
        Self { bytes, inodes: (files > 0).then_some(files_left) }
    }

    /// True if a lack of inodes explains why a file could not be created.
    pub fn is_out_of_inodes(&self) -> bool {
        self.inodes.is_some_and(|inodes| inodes < INODES_FEW)
    }
}

/// The free space on the file system of `file`; `None` if unknown.
pub fn free_space(file: impl AsFd) -> Option<FreeSpace> {
    let volume = rustix::fs::fstatvfs(file).ok()?;
    let bytes = volume.f_bavail.checked_mul(volume.f_frsize)?;
    Some(FreeSpace::new(bytes, volume.f_files, volume.f_favail))
}

/// The ID of the mount that `file` is on, which is never reused; `None` if the system has no such
/// ID.
#[cfg(target_os = "linux")]
fn mount_id(file: &File) -> Option<u64> {
    use rustix::fs::{AtFlags, statx};
    let stat = statx(file, c"", AtFlags::EMPTY_PATH, linux::UNIQUE).ok()?;
    linux::unique(stat.stx_mask, stat.stx_mnt_id)
}

#[cfg(target_os = "linux")]
mod linux {
    use rustix::fs::StatxFlags;

    /// `STATX_MNT_ID_UNIQUE`, since Linux 6.8.
    pub(super) const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

    /// The ID from `statx`, if the mask says that it is unique. Older systems return another kind,
    /// which is reused.
    pub(super) fn unique(mask: u32, mount: u64) -> Option<u64> {
        (mask & UNIQUE.bits() != 0).then_some(mount)
    }
}

elsewhere!(fn mount_id(&File) -> Option<u64> = None);

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_reusable_mount_id_is_ignored() {
        // `STATX_MNT_ID`, the answer of Linux 5.8 to 6.7.
        assert_eq!(linux::unique(0x1000, 29), None);
        assert_eq!(linux::unique(0x4000, 29), Some(29));
    }

    #[test]
    fn without_a_mount_number_only_this_process_has_its_page_cache() {
        assert_eq!(cache_id_of(None), cache_id_of(None));
        assert_ne!(cache_id_of(None), boot_id());
        assert_ne!(cache_id_of(Some(1)), cache_id_of(Some(2)));
    }
}

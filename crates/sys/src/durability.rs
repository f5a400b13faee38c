//! Makes written content durable, and reads it back from the medium.
//!
//! A failure to make data durable is reported once: the kernel may then treat the lost pages as
//! written. So an error here is final for the file, and there is no retry.
//!
//! On macOS `fsync` stops at the drive's cache; std's `sync_all` uses `F_FULLFSYNC` there.

use crate::known::kinds::{BTRFS, EXT, RAMFS, TMPFS, XFS, ZFS, kind};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

/// The alignment of buffers, offsets and lengths for reading past the page cache, in bytes: the
/// largest block size of current storage devices.
pub const DIRECT_ALIGN: usize = 4096;

/// Starts writing out `file` without waiting, so that a later wait for many files is short. Unlike
/// after [`drop_cached`], the content stays in the page cache. Does nothing where the system lacks
/// it.
#[cfg(target_os = "linux")]
pub fn start_write_back(file: &File) {
    use std::os::fd::AsRawFd;
    // The later wait reports refusals and write errors.
    //
    // SAFETY: the descriptor is open as long as `file` lives; no memory is passed.
    #[allow(unsafe_code)]
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE)
    };
}

elsewhere!(pub fn start_write_back(&File) -> () = ());

/// Writes all of `bytes` at `offset` of `file`. The system starts at once to write them to the
/// medium and then drops them from the page cache. Making a large file durable then takes little
/// time. The content is not durable before that, and that call also reports write errors.
///
/// Where the system lacks this, or an end of `bytes` shares a page with another write, it is an
/// ordinary write.
///
/// # Errors
/// Errors of `pwrite`.
#[cfg(target_os = "linux")]
pub fn write_out_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    use rustix::io::{Errno, ReadWriteFlags, pwritev2};
    /// `RWF_DONTCACHE` (`linux/fs.h`), since Linux 6.14, on ext4 since 6.16.
    const DONT_CACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);
    let (mut left, mut at) = (bytes, offset);
    // A page that is being written out must not be written to again, since that would wait for it.
    let whole_pages = |n: u64| n.is_multiple_of(DIRECT_ALIGN as u64);
    while !left.is_empty() && whole_pages(at) && whole_pages(left.len() as u64) {
        match pwritev2(file, &[io::IoSlice::new(left)], at, DONT_CACHE) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                left = &left[written..];
                at += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                return write_and_drop(file, left, at);
            }
            Err(error) => return Err(error.into()),
        }
    }
    file.write_all_at(left, at)
}

/// Writes all of `bytes` at `offset` of `file`.
///
/// # Errors
/// Errors of `pwrite`.
#[cfg(not(target_os = "linux"))]
pub fn write_out_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Drops `range` of `file`, in bytes, from the page cache if it is durable. Starts writing out the
/// rest. An empty range means everything from its start on.
#[cfg(target_os = "linux")]
pub fn drop_cached(file: &File, range: Range<u64>) {
    // This is advice: a refusal only affects the use of memory.
    let len = std::num::NonZeroU64::new(range.end.saturating_sub(range.start));
    let _ = rustix::fs::fadvise(file, range.start, len, rustix::fs::Advice::DontNeed);
}

elsewhere!(pub fn drop_cached(&File, Range<u64>) -> () = ());

/// True if the byte at `offset` of `file` is in the page cache, or the system does not report it.
/// If it is not, the check may have started to read it.
#[cfg(target_os = "linux")]
pub fn is_cached(file: &File, offset: u64) -> bool {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};
    let mut byte = [0];
    let mut buffers = [io::IoSliceMut::new(&mut byte)];
    preadv2(file, &mut buffers, offset, ReadWriteFlags::NOWAIT) != Err(Errno::AGAIN)
}

elsewhere!(pub fn is_cached(&File, u64) -> bool = true);

/// Makes reads of `file` bypass the page cache. Returns false if the file system can't; then
/// [`drop_cached`] has to do.
///
/// From then on buffers, offsets and lengths must be aligned to [`DIRECT_ALIGN`].
pub fn read_directly(file: &File) -> bool {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
        fcntl_getfl(file).and_then(|flags| fcntl_setfl(file, flags | OFlags::DIRECT)).is_ok()
    }
    #[cfg(target_vendor = "apple")]
    {
        rustix::fs::fcntl_nocache(file, true).is_ok()
    }
    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    {
        let _ = file;
        false
    }
}

/// Ends [`read_directly`] and its need for alignment.
#[cfg(target_os = "linux")]
pub fn read_cached(file: &File) {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    // If this fails, the flag was not set.
    let _ = fcntl_getfl(file).and_then(|flags| fcntl_setfl(file, flags - OFlags::DIRECT));
}

elsewhere!(pub fn read_cached(&File) -> () = ());

/// How a file that was not made durable looks after a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Content that did not reach the medium is a hole. ext4, XFS and Btrfs allocate blocks when
    /// they write them, and mark them as written afterwards.
    Hole,
    /// Either all content exists or none: the file is in memory only, or the file system writes
    /// whole transactions with their content.
    Whole,
    /// Unknown. The file may have its full length and contain zeros.
    Unknown,
}

impl Loss {
    /// The behaviour of the file system of `file`.
    pub fn of(file: impl AsFd) -> Loss {
        match kind(file) {
            EXT | XFS | BTRFS => Loss::Hole,
            TMPFS | RAMFS | ZFS => Loss::Whole,
            _ => Loss::Unknown,
        }
    }
}

/// Like [`write_out_at`] by advice, which starts writing content that can't be dropped yet.
#[cfg(target_os = "linux")]
fn write_and_drop(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)?;
    drop_cached(file, offset..offset + bytes.len() as u64);
    Ok(())
}

/// True if `syncfs` reports write errors (since Linux 5.8).
pub(crate) fn reports_errors() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(5), Some(8))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::Dir;
    use haul_testkit::{FileSystem, Mount};
    use std::io::Write;
    use std::time::{Duration, Instant};

    #[test]
    fn written_content_is_cached_and_can_be_dropped_once_durable() {
        let Some(mount) = Mount::image(FileSystem::Ext4, 32 << 20) else { return };
        let dir = Dir::open(mount.path()).expect("opened");
        assert!(dir.supports_sync_all());
        let mut file = File::create_new(mount.join("file")).expect("created");
        file.write_all(&[7; 1 << 20]).expect("written");
        let file = File::open(mount.join("file")).expect("opened");
        assert!(is_cached(&file, 8192));
        dir.sync_file_system().expect("synced");
        drop_cached(&file, 0..1 << 20);
        assert!(!is_cached(&file, 8192), "it is still in memory");
        assert!(read_directly(&file));
    }

    #[test]
    fn written_out_content_is_readable_and_may_leave_the_cache() {
        let Some(mount) = Mount::image(FileSystem::Ext4, 32 << 20) else { return };
        let memory = Mount::tmpfs(32 << 20).expect("mounting is allowed");
        let content: Vec<u8> = (0..(2 << 20) + 5_u32).map(|n| (n % 251) as u8).collect();
        let (whole, tail) = content.split_at(2 << 20);
        for write in [write_out_at, write_and_drop] {
            for dir in [mount.path(), memory.path()] {
                let file = File::create(dir.join("file")).expect("created");
                let (first, second) = whole.split_at(1 << 20);
                write(&file, second, 1 << 20).expect("written");
                write(&file, first, 0).expect("written");
                write(&file, tail, 2 << 20).expect("written");
                file.sync_all().expect("synced");
                assert!(std::fs::read(dir.join("file")).expect("read") == content);
            }
        }
    }

    #[test]
    fn written_out_content_moves_to_the_medium() {
        let Some(mount) = Mount::image(FileSystem::Ext4, 32 << 20) else { return };
        // ext4 itself writes so little only after 30 s at the earliest.
        let out = |write: fn(&File, &[u8], u64) -> io::Result<()>, name: &str| {
            let file = File::create(mount.join(name)).expect("created");
            let before = mount.bytes_written().expect("told");
            write(&file, &[7; 1 << 20], 0).expect("written");
            let end = Instant::now() + Duration::from_secs(5);
            while Instant::now() < end {
                if mount.bytes_written().expect("told") >= before + (1 << 20) {
                    return true;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            false
        };
        assert!(out(write_out_at, "out"), "it is only in memory");
        assert!(out(write_and_drop, "advised"), "it is only in memory");
    }

    #[test]
    fn a_sync_reports_earlier_write_errors() {
        let Some(small) = Mount::tmpfs(24 << 20) else { return };
        for write in [write_out_at, write_and_drop] {
            let mount = small.image_on(FileSystem::Ext4, 64 << 20).expect("room for it");
            let file = File::create(mount.join("file")).expect("created");
            let part = vec![7; 1 << 20];
            let written = (0..40).map(|n| write(&file, &part, n << 20)).collect::<Vec<_>>();
            // The write fails before anything asks for durability.
            std::thread::sleep(Duration::from_millis(300));
            assert!(written.iter().all(Result::is_ok), "{written:?}");
            assert!(file.sync_all().is_err(), "the loss of what was written is not told");
        }
    }

    #[test]
    fn names_are_durable_once_their_directory_is() {
        let Some(mount) = Mount::image(FileSystem::Ext4, 32 << 20) else { return };
        let dir = Dir::open(mount.path()).expect("opened");
        std::fs::create_dir(mount.join("new")).expect("made");
        dir.sync().expect("synced");
        let cut = mount.after_power_cut().expect("a second file system");
        assert!(cut.join("new").is_dir());
    }
}

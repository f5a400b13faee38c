//! Files that share content, on file systems that copy on write. Linux makes an empty file share
//! content, macOS creates a new file that does.

use crate::Dir;
use std::fs::File;
use std::io;
use std::ops::Range;

/// Makes `dst`, which must be empty, share the whole content of `src` without moving any byte.
/// Returns false if the system refuses for any reason: then the content must be copied. Always
/// false on macOS; see [`create_clone`].
#[cfg(target_os = "linux")]
pub fn clone_file(src: &File, dst: &File) -> bool {
    rustix::fs::ioctl_ficlone(dst, src).is_ok()
}

elsewhere!(pub fn clone_file(&File, &File) -> bool = false);

/// Makes `dst` share `range`, in bytes, of `src` at the same offset without moving any byte.
/// Replaces the content of `dst` there. The range starts with a block of the file system, and ends
/// with `src`. Returns false if the system refuses for any reason, and always on macOS.
#[cfg(target_os = "linux")]
pub fn clone_range(src: &File, dst: &File, range: Range<u64>) -> bool {
    use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
    use std::os::fd::AsRawFd;

    /// `struct file_clone_range` (`linux/fs.h`).
    #[repr(C)]
    struct CloneRange {
        src: i64,
        src_offset: u64,
        src_len: u64,
        dst_offset: u64,
    }

    /// `FICLONERANGE`.
    const CLONE_RANGE: Opcode = opcode::write::<CloneRange>(0x94, 13);

    let Some(src_len) = range.end.checked_sub(range.start).filter(|len| *len > 0) else {
        // The system takes 0 for everything up to the end.
        return false;
    };
    let (src, src_offset) = (src.as_raw_fd().into(), range.start);
    let asked = CloneRange { src, src_offset, src_len, dst_offset: range.start };
    // SAFETY: the number is that of FICLONERANGE, which reads a `struct file_clone_range`,
    // whose handle is open as long as `src` is borrowed.
    #[allow(unsafe_code)]
    let cloned = unsafe { ioctl(dst, Setter::<CLONE_RANGE, CloneRange>::new(asked)) };
    cloned.is_ok()
}

elsewhere!(pub fn clone_range(&File, &File, Range<u64>) -> bool = false);

/// Makes `range` of `file`, in bytes, a hole without changing its length. Returns false if the file
/// system refuses: then the range must be overwritten.
#[cfg(target_os = "linux")]
pub fn punch_hole(file: &File, range: Range<u64>) -> bool {
    use rustix::fs::{FallocateFlags, fallocate};
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let len = range.end.saturating_sub(range.start);
    len == 0 || fallocate(file, flags, range.start, len).is_ok()
}

elsewhere!(pub fn punch_hole(&File, Range<u64>) -> bool = false);

/// Creates the private file `temp`, which must not exist, with the content and the extended
/// attributes of `src` shared, and opens it for reading only: it has the mode of its source,
/// which may not allow its new owner to write. Only macOS supports it.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if the name exists; [`io::ErrorKind::Unsupported`] if the
/// system refuses for any reason: then the content must be copied.
#[cfg(target_os = "macos")]
pub fn create_clone(dir: &Dir, src: &File, temp: &str) -> io::Result<File> {
    use rustix::fs::{CloneFlags, Mode, OFlags};
    use rustix::io::Errno;
    match rustix::fs::fclonefileat(src, dir, temp, CloneFlags::NOOWNERCOPY) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(Errno::EXIST.into()),
        Err(_) => return Err(io::ErrorKind::Unsupported.into()),
    }
    let open = || {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(dir, temp, flags, Mode::empty())?;
        rustix::fs::fchmod(&file, crate::dir::private_mode())?;
        rustix::io::Result::Ok(File::from(file))
    };
    open().map_err(|_| {
        // The entry was created here and is useless.
        let _ = dir.remove_private(temp);
        io::ErrorKind::Unsupported.into()
    })
}

/// Not supported on this system.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "macos"))]
pub fn create_clone(_: &Dir, _: &File, _: &str) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

//! Space for a file to be written: reserves it, or finds out that it is missing.

use crate::known::kinds::{EXT, TMPFS, XFS, kind};
use rustix::fs::fstatvfs;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// Reserves space for the first `len` bytes of `file`, without changing its length. Does nothing if
/// the file system does not support it.
///
/// # Errors
/// When there is not enough space.
#[cfg(target_os = "linux")]
pub fn reserve(file: &File, len: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    if len == 0 {
        return Ok(());
    }
    loop {
        match fallocate(file, FallocateFlags::KEEP_SIZE, 0, len) {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(()),
            done => return Ok(done?),
        }
    }
}

elsewhere!(pub fn reserve(&File, u64) -> io::Result<()> = Ok(()));

/// True if the file system of `file` has no space for `len` more bytes of any user, unless some is
/// freed meanwhile. Known only for file systems that neither compress nor share content.
pub fn is_out_of_space(file: impl AsFd, len: u64) -> bool {
    /// File systems that neither compress nor share written content.
    const BYTE_FOR_BYTE: [u64; 3] = [EXT, XFS, TMPFS];
    let Ok(volume) = fstatvfs(&file) else { return false };
    // Root may use blocks that others may not.
    let free = volume.f_bfree.checked_mul(volume.f_frsize);
    // A tmpfs without a size limit reports no blocks.
    let is_reported = volume.f_blocks > 0 && BYTE_FOR_BYTE.contains(&kind(&file));
    is_reported && free.is_some_and(|free| free < len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserving_space_does_not_change_the_length() {
        let file = tempfile::tempfile().expect("a file");
        reserve(&file, 1 << 20).expect("there is room");
        reserve(&file, 0).expect("nothing to do");
        assert_eq!(file.metadata().expect("there").len(), 0);
    }

    #[test]
    fn only_a_known_lack_of_space_is_reported() {
        let file = tempfile::tempfile_in("/dev/shm").expect("a file in memory");
        assert!(!is_out_of_space(&file, 1));
        let generated = File::open("/proc/self/stat").expect("it is there");
        assert!(!is_out_of_space(&generated, u64::MAX), "it tells nothing of its room");
        if cfg!(target_os = "linux") && rustix::fs::fstatvfs(&file).is_ok_and(|it| it.f_blocks > 0)
        {
            assert!(is_out_of_space(&file, 1 << 60));
        }
    }

    #[test]
    fn reserving_more_than_the_free_space_fails() {
        let file = tempfile::tempfile_in("/dev/shm").expect("a file in memory");
        reserve(&file, 1 << 60).expect_err("nobody has so much");
    }
}

//! Room for a file that is about to be written.

use std::fs::File;
use std::io;

/// Reserves room for the first `len` bytes of `file`, and leaves its length as it is. Nothing
/// happens where the file system does not do that.
///
/// # Errors
/// When there is not so much room.
pub fn reserve(file: &File, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    system::reserve(file, len)
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    use std::fs::File;
    use std::io;

    pub(super) fn reserve(file: &File, len: u64) -> io::Result<()> {
        loop {
            match fallocate(file, FallocateFlags::KEEP_SIZE, 0, len) {
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(()),
                done => return Ok(done?),
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::fs::File;
    use std::io;

    pub(super) fn reserve(_: &File, _: u64) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_has_room_is_no_longer_for_it() {
        let file = tempfile::tempfile().expect("a file");
        reserve(&file, 1 << 20).expect("there is room");
        reserve(&file, 0).expect("nothing to do");
        assert_eq!(file.metadata().expect("there").len(), 0);
    }

    #[test]
    fn more_room_than_there_is_is_refused() {
        let file = tempfile::tempfile_in("/dev/shm").expect("a file in memory");
        reserve(&file, 1 << 60).expect_err("nobody has so much");
    }
}

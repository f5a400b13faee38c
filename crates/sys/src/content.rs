//! Moving content between files inside the kernel, and finding holes.

mod extents;

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

/// Copies up to `len` bytes at `offset` from `src` to the same place in `dst`
/// inside the kernel. Returns how many. `None` if nothing was copied, be it that
/// the file systems can't do that, that `src` has ended, or that something is
/// wrong: the caller has to read and write, and sees.
pub fn copy_range(src: &File, dst: &File, offset: u64, len: usize) -> Option<usize> {
    system::copy_range(src, dst, offset, len)
}

/// Puts up to `len` bytes of `file` at `offset` into `pipe` without copying
/// them. Returns how many; 0 at the end of the file. `None` where the system
/// can't do that and the caller has to read and write.
///
/// A change of the file until the pipe is read may be seen there.
///
/// # Errors
/// Those of `splice`: [`io::ErrorKind::WouldBlock`] while the pipe is full. Only what is
/// wrong with the pipe is final: the caller can read and write after any other.
pub fn splice_to_pipe(
    file: &File,
    offset: u64,
    pipe: impl AsFd,
    len: usize,
) -> io::Result<Option<usize>> {
    system::splice_to_pipe(file, offset, pipe.as_fd(), len)
}

/// The next range at or after `from` in which `file`, `size` bytes long, has
/// data; what lies between ranges is a hole. `None` if only a hole remains.
/// Where the file system doesn't tell, all is data.
///
/// The file's position is moved.
pub fn next_data(file: &File, from: u64, size: u64) -> Option<Range<u64>> {
    if from >= size {
        return None;
    }
    let start = match rustix::fs::seek(file, SeekFrom::Data(from)) {
        Ok(start) if start >= from => start,
        Err(Errno::NXIO) => return None,
        // If more is wrong than that it doesn't tell, reading will show.
        Ok(_) | Err(_) => return Some(from..size),
    };
    let end = match rustix::fs::seek(file, SeekFrom::Hole(start)) {
        Ok(end) if end > start => end,
        Ok(_) | Err(_) => size,
    };
    (start < size).then_some(start..end.min(size))
}

/// True if some part of `file`, `size` bytes long, was never written to its
/// medium: a hole, or blocks that are allocated and not written. Where the file
/// system doesn't tell, all was.
///
/// Holes alone would not do. Somebody may have read the blocks that were not
/// written, and then their zeros are in the page cache, where `SEEK_HOLE` takes
/// them for data (`mapping_seek_hole_data` in the kernel).
///
/// The file's position is moved. Content that is just being written out is waited
/// for.
pub fn lacks_blocks(file: &File, size: u64) -> bool {
    size > 0 && (next_data(file, 0, size) != Some(0..size) || extents::has_unwritten(file, size))
}

#[cfg(target_os = "linux")]
mod system {
    use super::{BorrowedFd, Errno, File, io};
    use rustix::pipe::SpliceFlags;

    pub(super) fn splice_to_pipe(
        file: &File,
        mut offset: u64,
        pipe: BorrowedFd<'_>,
        len: usize,
    ) -> io::Result<Option<usize>> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        loop {
            match rustix::pipe::splice(file, Some(&mut offset), pipe, None, len, flags) {
                Ok(moved) => return Ok(Some(moved)),
                Err(Errno::INTR) => {}
                Err(Errno::INVAL | Errno::NOSYS) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(super) fn copy_range(src: &File, dst: &File, offset: u64, len: usize) -> Option<usize> {
        let (mut from, mut to) = (offset, offset);
        let copied = rustix::fs::copy_file_range(src, Some(&mut from), dst, Some(&mut to), len);
        // Some kernels say 0 for files that they can't copy.
        copied.ok().filter(|&copied| copied > 0)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{BorrowedFd, File, io};

    pub(super) fn splice_to_pipe(
        _: &File,
        _: u64,
        _: BorrowedFd<'_>,
        _: usize,
    ) -> io::Result<Option<usize>> {
        Ok(None)
    }

    pub(super) fn copy_range(_: &File, _: &File, _: u64, _: usize) -> Option<usize> {
        None
    }
}

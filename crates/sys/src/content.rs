//! Moves content between files inside the kernel, and finds holes.

#[cfg(target_os = "linux")]
mod extents;

#[cfg(target_os = "linux")]
use extents::has_unwritten;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

/// The next range with data at or after `from` in `file`, whose length is `size` bytes. Gaps
/// between ranges are holes. `None` if only a hole is left. If the file system does not report
/// holes, everything is data.
///
/// Moves the file's position.
pub fn next_data(file: &File, from: u64, size: u64) -> Option<Range<u64>> {
    if from >= size {
        return None;
    }
    let start = match rustix::fs::seek(file, SeekFrom::Data(from)) {
        Ok(start) if start >= from => start,
        Err(Errno::NXIO) => return None,
        // If this is another error than a missing feature, reading will report it.
        Ok(_) | Err(_) => return Some(from..size),
    };
    let end = match rustix::fs::seek(file, SeekFrom::Hole(start)) {
        Ok(end) if end > start => end,
        Ok(_) | Err(_) => size,
    };
    (start < size).then_some(start..end.min(size))
}

/// Reads from `offset` on until `buf` is full or the file ends. Returns the number of bytes.
///
/// # Errors
/// Errors of `pread`.
pub fn read_full(file: &File, mut buf: &mut [u8], mut offset: u64) -> io::Result<usize> {
    let wanted = buf.len();
    while !buf.is_empty() {
        match file.read_at(buf, offset) {
            Ok(0) => break,
            Ok(n) => {
                offset += n as u64;
                buf = &mut buf[n..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(wanted - buf.len())
}

elsewhere!(fn has_unwritten(&File, u64) -> bool = false);

/// True if a part of `file`, whose length is `size` bytes, was never written to the medium: a hole,
/// or blocks that are allocated but not written. False if the file system does not report that.
///
/// Checking for holes is not enough. If unwritten blocks were read, their zeros are in the page
/// cache, and `SEEK_HOLE` takes them for data (`mapping_seek_hole_data` in the kernel).
///
/// Moves the file's position. Waits for content that is being written out.
pub fn has_unwritten_blocks(file: &File, size: u64) -> bool {
    size > 0 && (next_data(file, 0, size) != Some(0..size) || has_unwritten(file, size))
}

/// Moves up to `len` bytes of `file` at `offset` into `pipe` without a copy. Returns the number of
/// bytes; 0 at the end of the file. `None` if the system can't do it and the caller must read and
/// write.
///
/// A change of the file before the pipe is read may show in the pipe.
///
/// # Errors
/// Errors of `splice`: [`io::ErrorKind::WouldBlock`] if the pipe is full. Only errors of the pipe
/// are final: after others the caller can read and write.
#[cfg(target_os = "linux")]
pub fn splice_to_pipe(
    file: &File,
    mut offset: u64,
    pipe: impl AsFd,
    len: usize,
) -> io::Result<Option<usize>> {
    use rustix::pipe::{SpliceFlags, splice};
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    loop {
        match splice(file, Some(&mut offset), &pipe, None, len, flags) {
            Ok(moved) => return Ok(Some(moved)),
            Err(Errno::INTR) => {}
            Err(Errno::INVAL | Errno::NOSYS) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

elsewhere!(
    pub fn splice_to_pipe(&File, u64, impl AsFd, usize) -> io::Result<Option<usize>> = Ok(None)
);

/// Copies up to `len` bytes at `offset` of `src` to the same offset of `dst` inside the kernel.
/// Returns the number of bytes. `None` if nothing was copied: the file systems can't do it, `src`
/// has ended, or there is an error. The caller then reads and writes, and sees the cause.
#[cfg(target_os = "linux")]
pub fn copy_range(src: &File, dst: &File, offset: u64, len: usize) -> Option<usize> {
    let (mut from, mut to) = (offset, offset);
    let copied = rustix::fs::copy_file_range(src, Some(&mut from), dst, Some(&mut to), len);
    // Some kernels return 0 for files that they can't copy.
    copied.ok().filter(|&copied| copied > 0)
}

elsewhere!(pub fn copy_range(&File, &File, u64, usize) -> Option<usize> = None);

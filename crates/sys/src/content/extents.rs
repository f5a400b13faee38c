//! The extents of a file as recorded by its file system, independent of the page cache (`FIEMAP`).
//!
//! Only ext4 and XFS are asked: they allocate unwritten blocks, and report cached zeros of such
//! blocks as data. Btrfs does neither, and would have to look up who shares each extent.

use crate::known::kinds::{EXT, XFS, kind};
use rustix::io;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::fs::File;

/// Most extents per call.
const EXTENTS: usize = 64;

/// `FS_IOC_FIEMAP` (`linux/fs.h`).
const FIEMAP: Opcode = opcode::read_write::<Head>(b'f', 11);

/// `FIEMAP_FLAG_SYNC`: writes cached content first.
const SYNC: u32 = 0x1;

/// `FIEMAP_EXTENT_LAST`.
const LAST: u32 = 0x1;

/// `FIEMAP_EXTENT_UNWRITTEN`.
const UNWRITTEN: u32 = 0x800;

/// `struct fiemap` (`linux/fiemap.h`) without its extents.
#[repr(C)]
struct Head {
    start: u64,
    len: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    start: u64,
    physical: u64,
    len: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

/// `struct fiemap` with its extents.
#[repr(C)]
struct Map {
    head: Head,
    extents: [Extent; EXTENTS],
}

/// True if blocks below `size` bytes are allocated to `file` but were never written. False on file
/// systems that are not asked.
pub(super) fn has_unwritten(file: &File, size: u64) -> bool {
    // Recent content is in such blocks too, until it is written out. So the function waits for
    // that only if the file has some. An error is then one of writing the content.
    [EXT, XFS].contains(&kind(file))
        && finds_unwritten(file, size, 0) == Ok(true)
        && finds_unwritten(file, size, SYNC) != Ok(false)
}

fn finds_unwritten(file: &File, size: u64, flags: u32) -> io::Result<bool> {
    let mut at = 0;
    while at < size {
        let map = extents(file, at..size, flags)?;
        let mapped = map.extents.iter().take(map.head.mapped as usize);
        for extent in mapped {
            if extent.flags & UNWRITTEN != 0 && extent.start < size {
                return Ok(true);
            }
            if extent.flags & LAST != 0 {
                return Ok(false);
            }
            at = at.max(extent.start.saturating_add(extent.len));
        }
        if map.head.mapped == 0 {
            return Ok(false);
        }
    }
    Ok(false)
}

/// The first extents in `range`, in bytes.
fn extents(file: &File, range: std::ops::Range<u64>, flags: u32) -> io::Result<Map> {
    let (start, len, count) = (range.start, range.end - range.start, EXTENTS as u32);
    let head = Head { start, len, flags, mapped: 0, count, reserved: 0 };
    let mut map = Map { head, extents: [Extent::default(); EXTENTS] };
    // SAFETY: the number is that of FIEMAP, which takes a `struct fiemap` and writes at most
    // `count` extents after it.
    #[allow(unsafe_code)]
    unsafe {
        ioctl(file, Updater::<FIEMAP, Map>::new(&mut map))?;
    }
    Ok(map)
}

//! The extents of a file as its file system has them on record, whatever the page
//! cache holds (`FIEMAP`).
//!
//! Only ext4 and XFS are asked: they give a file blocks that are not written yet, and
//! take cached zeros of such blocks for data. Btrfs does neither, and would have to
//! find out who shares each extent.

use std::fs::File;

/// True if blocks below `size` bytes are allocated to `file` and were never
/// written. `false` on file systems that are not asked.
pub(super) fn has_unwritten(file: &File, size: u64) -> bool {
    system::has_unwritten(file, size)
}

#[cfg(target_os = "linux")]
mod system {
    use super::File;
    use crate::known::kinds::{EXT, XFS, kind};
    use rustix::io;
    use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

    /// Extents that are asked for at once.
    const EXTENTS: usize = 64;

    /// `FS_IOC_FIEMAP` (`linux/fs.h`).
    const FIEMAP: Opcode = opcode::read_write::<Head>(b'f', 11);

    /// `FIEMAP_FLAG_SYNC`: content that waits in the page cache is written first.
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

    pub(super) fn has_unwritten(file: &File, size: u64) -> bool {
        // Content of a moment ago lies in such blocks too, until it is written. So a
        // file is waited for only if it has some. An error is one of writing it then.
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
        // SAFETY: the number is that of FIEMAP, which takes a `struct fiemap` and
        // writes as many extents behind it as `count` says there is room for.
        #[allow(unsafe_code)]
        unsafe {
            ioctl(file, Updater::<FIEMAP, Map>::new(&mut map))?;
        }
        Ok(map)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::File;

    pub(super) fn has_unwritten(_: &File, _: u64) -> bool {
        false
    }
}

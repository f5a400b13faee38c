//! File systems with known behaviour. There haul skips requests whose result it knows.

use crate::Dir;
use kinds::{BTRFS, EXT, F2FS, OVERLAY, RAMFS, TMPFS, XFS, ZFS, kind};
use std::os::fd::AsFd;
#[cfg(target_os = "linux")]
pub(crate) use system::has_distinct_names;

elsewhere!(pub(crate) fn has_distinct_names(&Dir, u64) -> bool = false);

/// True if content read from `file` stays cached for the next reader, unless memory is short: its
/// file system is local. FUSE and network file systems may fetch it again, and block.
pub fn caches_reads(file: impl AsFd) -> bool {
    [EXT, XFS, BTRFS, F2FS, TMPFS, RAMFS, ZFS, OVERLAY].contains(&kind(file))
}

/// Magic numbers of file systems (`linux/magic.h`); ext2 to ext4 share one.
pub(crate) mod kinds {
    use std::os::fd::AsFd;

    pub(crate) const EXT: u64 = 0xef53;
    pub(crate) const XFS: u64 = 0x5846_5342;
    pub(crate) const BTRFS: u64 = 0x9123_683e;
    pub(crate) const F2FS: u64 = 0xf2f5_2010;
    pub(crate) const TMPFS: u64 = 0x0102_1994;
    pub(crate) const RAMFS: u64 = 0x8584_58f6;
    pub(crate) const ZFS: u64 = 0x2fc1_2fc1;
    pub(crate) const OVERLAY: u64 = 0x794c_7630;

    /// proc, sysfs, debugfs, tracefs, cgroup, cgroup2, securityfs, configfs, pstore and efivarfs.
    #[rustfmt::skip]
    pub(crate) const GENERATED: [u64; 10] = [
        0x9fa0, 0x6265_6572, 0x6462_6720, 0x7472_6163, 0x0027_e0eb,
        0x6367_7270, 0x7363_6673, 0x6265_6570, 0x6165_676c, 0xde5e_81e4,
    ];

    /// The magic number for `file`; 0 if unknown.
    #[cfg(target_os = "linux")]
    pub(crate) fn kind(file: impl AsFd) -> u64 {
        // The field's type differs by architecture; the numbers have 32 bits.
        rustix::fs::fstatfs(file).map_or(0, |stat| stat.f_type as u64 & 0xffff_ffff)
    }

    elsewhere!(pub(crate) fn kind(impl AsFd) -> u64 = 0);
}

#[cfg(target_os = "linux")]
mod system {
    use super::kinds::{BTRFS, EXT, F2FS, TMPFS, XFS};
    use super::{Dir, xfs};
    use rustix::fs::ioctl_getflags;
    use rustix::io::Errno;

    /// `FS_CASEFOLD_FL` (`linux/fs.h`).
    const FOLDS_CASE: u32 = 0x4000_0000;

    pub(crate) fn has_distinct_names(dir: &Dir, magic: u64) -> bool {
        match magic {
            BTRFS => true,
            XFS => !xfs::folds_case(dir),
            EXT | F2FS | TMPFS => match ioctl_getflags(dir) {
                Ok(flags) => flags.bits() & FOLDS_CASE == 0,
                // A tmpfs without these flags is too old to fold case.
                Err(error) => magic == TMPFS && error == Errno::NOTTY,
            },
            _ => false,
        }
    }
}

/// The geometry of an XFS (`libxfs/xfs_fs.h`). Only one flag is needed.
#[cfg(target_os = "linux")]
mod xfs {
    use std::os::fd::AsFd;

    use rustix::ioctl::{Getter, Opcode, ioctl, opcode};

    /// `XFS_FSOP_GEOM_FLAGS_DIRV2CI`: names that differ only in the case of ASCII letters are the
    /// same.
    const FOLDS_ASCII_CASE: u32 = 1 << 12;

    /// `struct xfs_fsop_geom_v1`, 112 bytes.
    #[repr(C)]
    struct Geometry {
        /// Sizes of blocks, extents, groups and the log.
        sizes: [u32; 8],
        /// Counts of blocks, and the start of the log.
        blocks: [u64; 4],
        uuid: [u8; 16],
        /// Stripe unit and width.
        stripe: [u32; 2],
        version: i32,
        flags: u32,
        /// Sizes of sectors and directory blocks.
        sectors: [u32; 3],
    }

    /// `XFS_IOC_FSGEOMETRY_V1`, which every XFS supports.
    const GEOMETRY: Opcode = opcode::read::<Geometry>(b'X', 100);

    /// Also true if the file system does not answer.
    pub(super) fn folds_case(dir: impl AsFd) -> bool {
        // SAFETY: the call fills one `Geometry`, all of whose fields are plain numbers.
        #[allow(unsafe_code)]
        let geometry = unsafe { ioctl(dir, Getter::<GEOMETRY, Geometry>::new()) };
        geometry.map_or(true, |geometry| geometry.flags & FOLDS_ASCII_CASE != 0)
    }
}

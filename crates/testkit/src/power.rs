//! A file system that loses what was not synced when its power is cut.
//!
//! [`Disk`] is the model: what a medium holds for sure, and what has been
//! written since and may or may not get there. [`Powered`] mounts it through
//! FUSE, so that any program can work on it. A cut comes when it was planned,
//! or at once; from then on every operation fails with EIO, as on a disk that
//! was pulled out. [`Disk::lose`] decides what has survived, and the disk can be
//! mounted again: another mount, so for haul another boot.
//!
//! The states that are durable, and since when:
//! - `fdatasync` of a file: its content and its length. `fsync`: its mode, its
//!   owner and its times as well.
//! - `fsync` of a directory: the names in it, its own mode and times, and those
//!   of symbolic links in it, which can't be synced by themselves.
//! - Names otherwise: [`Names`].
//!
//! Inode numbers are never used twice, and hard links and renames stay inside
//! of one directory or fail with EXDEV. Files without a name (`O_TMPFILE`) do
//! not exist here, nor does copying inside of the file system.

mod cut;
mod disk;
mod fuse;

pub use cut::Loss;
pub use disk::{Disk, Names};
pub use fuse::Powered;

#[cfg(test)]
mod tests;

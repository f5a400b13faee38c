//! Real parts for haul's tests and benchmarks: an ssh server of its own, a server
//! of SFTP that is not OpenSSH's, file
//! trees made from a seed, comparison of trees, the program under test with a
//! time limit, small file systems, one that loses its power, odd ones, what a
//! process cost, and what becomes of a test when one of these can't be had.
//!
//! Nothing here knows haul's code, only its command line, so that a test that
//! uses it sees what a user would see. Everything that is started or mounted is
//! ended by the value that stands for it when that value is dropped.
//!
//! Unix only. What needs `/proc` (peak memory, sweeping up ssh sessions) or FUSE
//! (cuts of the power, odd file systems) needs Linux.

#![forbid(unsafe_code)]

pub mod campaign;
pub mod content;
pub mod duplicate;
pub mod fixture;
#[cfg(target_os = "linux")]
mod fuse;
pub mod haul;
pub mod link;
pub mod mount;
pub mod nasty;
#[cfg(target_os = "linux")]
pub mod odd;
#[cfg(target_os = "linux")]
pub mod power;
pub mod proc;
pub mod rclone;
pub mod served;
pub mod sftp;
pub mod snapshot;
pub mod sshd;
#[cfg(target_os = "linux")]
pub mod tcp;
pub mod tree;
pub mod wait;

pub use duplicate::{Duplicates, duplicate};
pub use haul::Haul;
pub use link::Link;
pub use mount::{FileSystem, Frozen, Mount, Mounted};
pub use rclone::Rclone;
pub use sftp::{Fault, Listing, OddSftp, Oddities};
pub use snapshot::{Compare, Snapshot, assert_same, assert_same_with, same_content, snapshot};
pub use sshd::{Sshd, SshdBuilder};
#[cfg(target_os = "linux")]
pub use tcp::Tcp;
pub use tempfile::TempDir;
pub use wait::{ends_within, holds_within};

use std::fmt::Display;
use std::io;
use std::path::Path;

/// Puts the operation and the path in front of an I/O error, keeping its kind.
fn at(operation: &str, path: &Path, error: impl Into<io::Error>) -> io::Error {
    let error = error.into();
    io::Error::new(error.kind(), format!("{operation} {}: {error}", path.display()))
}

/// An I/O error that is nothing but a message.
fn failed(message: impl Display) -> io::Error {
    io::Error::other(message.to_string())
}

//! File trees, behind one contract for every kind of storage. [`Tree`] opens the directories that
//! users name, [`TreeDir`] is an open directory, [`SourceFile`] a file being read, and
//! [`StagedFile`] a file being written.
//!
//! There are two kinds, [`LocalTree`] and [`sftp::SftpTree`]. The crate knows no roles, jobs or
//! wire: it does not decide which entries are copied.
//!
//! # Rooms
//!
//! - `dir.rs` (`Tree`, `TreeDir`), `file.rs` (`SourceFile`), `meta.rs`:
//!   the contract. `faults.rs`: faults of a source file.
//! - `local.rs`: this machine's file systems. `local/held.rs`, `sftp/remote.rs`: what only one kind
//!   of directory can do. `sftp/`: a host's SFTP server; its design is in
//!   `docs/decisions/through-sftp.md`.
//! - `shared.rs`: blocks that several jobs need, read and hashed once.
//! - `spare_handles.rs`: closes spare handles when no more files may be open.
//! - `spool.rs`: content whose length is known only after reading it: named FIFOs and devices, and
//!   files that the kernel generates.
//! - `origin.rs`: records in a directory which job made it.
//! - `marker.rs`: temporary entries that show whether two directories are the same.
//! - `budget.rs`: a number of bytes that threads share. `parallel.rs`: threads that overlap waits.

#![forbid(unsafe_code)]

mod budget;
mod dir;
mod faults;
mod file;
mod local;
mod marker;
mod meta;
mod origin;
mod parallel;
pub mod sftp;
mod shared;
mod spare_handles;
mod spool;

pub use dir::{Capabilities, PRIVATE_DIR_MODE, PendingOperation, ResumablePart, Tree, TreeDir};
pub use faults::{SourceChange, change_since_opened, check_size};
pub use file::{ContentStream, Seal, SourceFile, TakePart};
pub use haul_model::{Meta, MetaKind, Owner};
pub use haul_store::{MoveError, SealedFile, StagedFile, changed};
pub use local::meta_of;
pub use local::{LocalDir, LocalTree, local_tree, written};
pub use marker::{Marker, Visibility, check_visibility};
pub use meta::{TreeEntry, in_whole_seconds};
pub use origin::ATTRIBUTE as ORIGIN_ATTRIBUTE;
pub use parallel::{map_parallel, run_both};
pub use sftp::{Downloads, Fetched, Lane, PutError, SmallFile, Uploads};
pub use shared::{SHARED_LEN_MAX, SharedBlock, SharedBlocks, Sharer};
pub use spare_handles::{Spare, add_spare};

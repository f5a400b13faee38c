//! What things are: names and paths, entries and their metadata, the policy of
//! a job, the content hash, what a program file is for, and what a host says of
//! itself. No I/O happens here.
//!
//! # Rooms
//!
//! - `path.rs`: `Name`, one component that can't be bad. The wire carries `Name`s and
//!   directory numbers, no paths.
//! - `words.rs`: paths as users write them, taken apart without looking at any disk.
//! - `entry.rs`: `Entry`, `Kind`, `Timestamp` (whose bound is checked as it is
//!   decoded).
//! - `hash.rs`: `ContentHash`, and `ContentHasher`, which hashes in blocks of 4 MiB
//!   (`BLOCK_LEN`). An aligned block is a whole subtree of BLAKE3, so the blocks'
//!   chaining values merge into the ordinary hash of the file, the one that `b3sum`
//!   prints; in memory for the logarithm of their number. Zeros cost what other bytes
//!   cost, for a chunk's place in the file is part of its hash: so a hole is vouched
//!   for block by block, and nobody can claim one that would take the other side hours.
//!   `BlockHash`, `resume` and `finish_tail` are there for copies that are continued.
//! - `granularity.rs`: the units in which file systems keep times.
//! - `fault.rs`: what went wrong with one entry, in a form that travels; whether it
//!   ends the job.
//! - `outcome.rs`: what became of an entry.
//! - `policy.rs`: `Task`, the one thing that a job is told to do (copy, compare, or
//!   remove what the destination has), each with its own rules.
//! - `escape.rs`: bytes from outside as text that can move no cursor.
//! - `executable.rs`: what an ELF header says of system, processor and loader.
//! - `host.rs`: what a host that haul is put onto says of itself.

#![forbid(unsafe_code)]

mod differences;
mod entry;
mod escape;
mod executable;
mod fault;
mod granularity;
mod hash;
mod host;
mod outcome;
mod path;
mod policy;
pub mod words;

pub use differences::Differences;
pub use entry::{Entry, FileId, Kind, Timestamp};
pub use escape::{escape_bytes, escape_controls, escape_text, is_unsafe_to_show};
pub use executable::{EXECUTABLE_HEAD_LEN, Executable, ExecutableError};
pub use fault::{Fault, FaultKind, Side};
pub use granularity::Granularity;
pub use hash::{BLOCK_LEN, BlockHash, BlockHasher, ContentHash, ContentHasher};
pub use host::HostFacts;
pub use outcome::{Outcome, Skip, Summary};
pub use path::{MAX_DEPTH, MAX_NAME_LEN, Name, NameError};
pub use policy::{Conflict, Moving, Policy, Remove, Resume, Task};

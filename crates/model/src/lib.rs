//! What things are: names and paths, entries and their metadata, the policy of
//! a job, the content hash, what a program file is for, and what a host says of
//! itself. No I/O happens here.

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

//! The nouns of haul: names and paths, entries and their metadata, the policy of
//! a job, the content hash, what a program file is for, and what a host says of
//! itself. No I/O happens here.
//!
//! # Rooms
//!
//! - `path.rs`: `Name`, one component that can't be bad. The wire carries `Name`s and
//!   directory numbers, no paths.
//! - `words.rs`: paths as users write them, taken apart without looking at any disk.
//!   `place.rs`: the place that a source gets by the words of its path.
//! - `entry.rs`: `Entry`, `Kind`, `Timestamp`, whose bound is checked as it is decoded.
//!   `travelling.rs`: an entry's encoding, with a mask that says which fields it has.
//! - `meta.rs`: the metadata of an entry that exists.
//! - `attributes.rs`: `Attributes` of an entry, and `Kept`, a set of them.
//!   `extended.rs`: those that few entries have.
//!   `altered.rs`: attributes that entries get in place of those of the sources
//!   (`altered/accounts.rs`, `altered/modes.rs`: their words).
//! - `hash.rs`: `ContentHash`, and `ContentHasher`, which hashes in blocks of 4 MiB.
//!   `ranges.rs`: a set of such blocks, as a peer asks for them.
//! - `granularity.rs`: the units in which file systems keep times.
//! - `policy.rs`: `Task`, the one thing that a job is told to do: to copy, to compare, or
//!   to remove what the destination has, each with its own rules.
//!   `faking.rs`: the sides on which attributes of root are written down.
//! - `filter.rs`: rules that leave out parts of a tree; `filter/lines.rs`: how they are
//!   written; `filter/scope.rs`: those of files in the trees; `filter/pattern.rs`: their
//!   patterns, as in rsync.
//! - `links.rs`: targets of symbolic links that lead out of a tree, or are made to lead
//!   nowhere.
//! - `compression.rs`: the way in which content is compressed on a wire. `via.rs`: the
//!   connections that it goes over.
//! - `outcome.rs`: the fate of an entry, and the figures of a job (`Summary`).
//!   `changes.rs`: the result of a comparison. `fault.rs`: the fault of one entry, in
//!   a form that travels, and if it ends the job.
//! - `escape.rs`: bytes from outside as text that can move no cursor.
//! - `size.rs`: sizes as people read them.
//! - `executable.rs`: system, processor and loader, from an ELF header. `host.rs`: facts
//!   that a host tells of itself before haul is put onto it.

#![forbid(unsafe_code)]

mod altered;
mod attributes;
mod changes;
mod compression;
mod entry;
mod escape;
mod executable;
mod extended;
mod faking;
mod fault;
mod filter;
mod granularity;
mod hash;
mod host;
pub mod links;
mod meta;
mod outcome;
mod path;
mod place;
mod policy;
mod ranges;
mod size;
mod travelling;
mod via;
pub mod words;

pub use altered::{
    AccountMap, Altered, MapError, MapFrom, MapRule, MapTo, ModeChange, ModeChanges, ModeError,
    ModeOf, ModeStep,
};
pub use attributes::{Attributes, KEPT_MODE, Kept, SET_ID_MODE};
pub use changes::Changes;
pub use compression::{Compression, CompressionError};
pub use entry::{Device, Entry, FileId, Kind, Special, Timestamp};
pub use escape::{
    escape_beginning, escape_bytes, escape_controls, escape_octal, escape_text, is_unsafe_to_show,
    unescape_high,
};
pub use executable::{EXECUTABLE_HEAD_LEN, Executable, ExecutableError};
pub use extended::{Acl, AclEntry, AclWho, EXTENDED_LEN_MAX, Extended, Xattr};
pub use fault::{
    Fault, FaultKind, ForeignLink, ParentFailed, Side, is_missing, is_mounted, os_text,
};
pub use filter::{
    Action, Asking, FilesKind, Filter, FilterError, Item as FilterItem, Line, Lines, Merge,
    Pattern, PatternError, Rule, RuleError, RuleFiles, Scope, Sides, Start, Style, Subject,
    cvs_defaults,
};
pub use granularity::Granularity;
pub use hash::{BLOCK_LEN, BlockHash, BlockHasher, BlockTree, ContentHash, ContentHasher};
pub use host::HostFacts;
pub use meta::{Meta, MetaKind, OnExisting, Owner};
pub use outcome::{Outcome, Skip, Summary};
pub use path::{MAX_DEPTH, MAX_NAME_LEN, Name, NameError, Naming};
pub use place::{Place, PlaceError};
pub use policy::{
    Backup, Bases, Conflict, Delete, Led, Mirror, Missing, Moving, Part, Policy, Relative, Remove,
    Resume, Sameness, Systems, Task, Updating, Walking,
};
pub use ranges::{BlockRange, BlockRanges};
pub use size::size_words;
pub use via::{Logins, Ports, PortsError, Via, ViaError};

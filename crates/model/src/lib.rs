//! The types of haul: names and paths, entries and their metadata, the policy of a job, the content
//! hash, the target of a program file, and facts about a host. This crate does no I/O.
//!
//! # Rooms
//!
//! - `path.rs`: `Name`, one valid path component. The wire carries `Name`s and directory numbers,
//!   no paths.
//! - `words.rs`: paths as users write them, split by their text alone. `place.rs`: the destination
//!   of a source, by the text of its path.
//! - `entry.rs`: `Entry`, `Kind`, and `Timestamp`, whose bound is checked on decoding.
//!   `entry_encoding.rs`: an entry's encoding, with a mask of its fields.
//! - `meta.rs`: the metadata of an existing entry.
//! - `attributes.rs`: `Attributes` of an entry, and `Kept`, a set of them. `extended.rs`: extended
//!   attributes and ACLs. `altered.rs`: changes of the sources' attributes (`altered/accounts.rs`,
//!   `altered/modes.rs`: their syntax).
//! - `hash.rs`: `ContentHash`, and `ContentHasher`, which hashes in blocks of 4 MiB. `ranges.rs`: a
//!   set of such blocks, as a peer requests them.
//! - `granularity.rs`: the units in which file systems store times.
//! - `policy.rs`: `Task`, the one task of a job: to copy, to compare, or to remove, each with its
//!   own rules.
//! - `bits.rs`: sets of flags.
//! - `filter.rs`: rules that exclude parts of a tree; `filter/lines.rs`: their syntax;
//!   `filter/scope.rs`: rules from files in the trees; `filter/pattern.rs`: their patterns, as in
//!   rsync.
//! - `links.rs`: whether the target of a symbolic link leads out of a tree, and munged targets.
//! - `compression.rs`: the compression of content on a wire. `via.rs`: the connections for content.
//! - `outcome.rs`: the outcome of an entry, and the figures of a job (`Summary`). `changes.rs`: the
//!   result of a comparison. `fault.rs`: the fault of one entry, in a form that can be sent, and
//!   whether it ends the job.
//! - `escape.rs`: untrusted bytes as text that is safe to print.
//! - `size.rs`: sizes for people.
//! - `executable.rs`: system, processor and loader, from an ELF header. `host.rs`: facts that a
//!   host reports before haul is installed on it.

#![forbid(unsafe_code)]

mod altered;
mod attributes;
mod bits;
mod changes;
mod compression;
mod entry;
mod entry_encoding;
mod escape;
mod executable;
mod extended;
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
mod via;
pub mod words;

pub use altered::{
    AccountMap, Altered, MapError, MapFrom, MapRule, MapTo, ModeChange, ModeChanges, ModeError,
    ModeOf, ModeStep,
};
pub use attributes::{Attributes, KEPT_MODE, Kept, SET_ID_MODE};
pub use changes::Changes;
pub use compression::{Compression, CompressionError};
pub use entry::{Device, Entry, FileId, Kind, NewEntry, Special, Timestamp};
pub use escape::{
    escape_beginning, escape_bytes, escape_controls, escape_octal, escape_text, is_unsafe_to_show,
    unescape_high,
};
pub use executable::{EXECUTABLE_HEAD_LEN, Executable, ExecutableError};
pub use extended::{Acl, AclEntry, AclWho, EXTENDED_LEN_MAX, Extended, Xattr};
pub use fault::{
    Fault, FaultKind, ForeignLink, OrFault, ParentFailed, Side, is_missing, is_mounted, os_text,
};
pub use filter::{
    Action, FilesKind, Filter, FilterError, FilterSide, Item as FilterItem, Line, Lines, Merge,
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
    Backup, Bases, Conflict, Delete, FollowedLinks, Mirror, Missing, Moving, Part, Policy,
    Relative, Remove, Resume, Sameness, Systems, Task, Updating, Walking,
};
pub use ranges::{BlockRange, BlockRanges};
pub use size::format_size;
pub use via::{Logins, Ports, PortsError, Via, ViaError};

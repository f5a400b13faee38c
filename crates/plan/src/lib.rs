//! The decision about an entry, as a pure function.
//!
//! - [`Plan`]: what the user asked for, with one field per question that a decision asks.
//!   `plan.rs` compiles it from the task of a job.
//! - [`Existing`]: what the destination has at an entry's place. Whoever looks there fills it in.
//! - [`screen`], then [`act`]: the [`Action`] for an entry, and its changes. [`decide`] is both.
//! - [`changes`]: that comparison alone.
//!
//! Nothing here does I/O, takes a lock or knows a peer. `tests/rsync.txt` has what rsync does in
//! the same cases.

#![forbid(unsafe_code)]

mod changes;
mod decide;
mod plan;

pub use changes::changes;
pub use decide::{Action, Existing, act, decide, full_dir, refusal, screen};
pub use plan::{Kinds, Newer, Plan};

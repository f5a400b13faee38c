//! The decision about an entry, as a pure function.
//!
//! - [`Plan`]: the options of the user, with one field for each question in a decision. `plan.rs`
//!   compiles it from the task of a job.
//! - [`Existing`]: the existing object at an entry's place. The caller fills it in.
//! - [`screen`], then [`choose_action`]: the [`Action`] for an entry, and its changes. [`decide`]
//!   is both.
//! - [`changes`]: the comparison alone.
//!
//! This crate does no I/O, takes no locks and knows no peer. `tests/rsync.txt` has rsync's
//! behaviour in the same cases.

#![forbid(unsafe_code)]

mod changes;
mod decide;
mod plan;

pub use changes::changes;
pub use decide::{Action, Existing, choose_action, decide, non_empty_dir_fault, refusal, screen};
pub use plan::{Kinds, Newer, Plan};

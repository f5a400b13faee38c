//! What makes a write atomic: a file is staged under a private name or none,
//! proven to hold what it should, and only then published under its own name.

#![forbid(unsafe_code)]

mod journal;
mod pace;
mod partial;
mod stage;
mod verified;

pub use journal::SourceId;
pub use pace::Pace;
pub use partial::{RESUME_LEN_MIN, remove_leftovers};
pub use stage::{Placement, Publication, Sealed, Stage, private_name, remove_unpublished};
pub use verified::{Mismatch, Verified};

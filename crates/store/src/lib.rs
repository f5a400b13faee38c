//! What makes a write atomic: a file is staged under a private name or none,
//! proven to hold what it should, and only then published under its own name.

#![forbid(unsafe_code)]

mod journal;
mod leftover;
mod pace;
mod partial;
mod private;
mod remote;
mod series;
mod stage;
mod verified;

pub use journal::SourceId;
pub use leftover::{Cleaned, Fate, Leftover, Leftovers};
pub use pace::Pace;
pub use partial::{RESUME_LEN_MIN, StaleStages, remove_leftovers};
pub use private::{is_private, private_name};
pub use remote::{Claimed, Journals, RemoteJournal, RemoteNames};
pub use series::{DeadSeries, StageSeries};
pub use stage::{Placement, Publication, Sealed, Stage, remove_unpublished};
pub use verified::{Mismatch, Verified};

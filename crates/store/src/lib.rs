//! What makes a write atomic: a file is staged under a private name or none,
//! proven to hold what it should, and only then published under its own name.

#![forbid(unsafe_code)]

mod journal;
mod leftover;
mod origins;
mod pace;
mod partial;
mod private;
mod remote;
mod series;
mod stage;
mod verified;

pub use journal::{Earlier, SourceId};
pub use leftover::{Cleaned, Fate, Leftover, Leftovers};
pub use origins::Origins;
pub use pace::Pace;
pub use partial::{RESUME_LEN_MIN, StaleStages, checkpoint_unfinished, remove_leftovers};
pub use private::{
    aside_name, is_private, mark_name, old_name, private_name, sent_name, set_aside, superseded,
};
pub use remote::{Claimed, Journals, RemoteJournal, RemoteNames};
pub use series::{DeadSeries, StageSeries};
pub use stage::{Placement, Publication, Sealed, Stage, remove_unpublished, time_unit};
pub use verified::{Mismatch, Verified};

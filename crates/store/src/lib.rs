//! Atomic writes: a file is staged under a private name or none,
//! proven to hold what it should, and only then published under its own name.
//!
//! # Rooms
//!
//! - `stage.rs`: a file on its way, in the directory where it will appear, without a name
//!   or under a private one (`.haul-` and 16 hexadecimal digits). `Stage` is written to;
//!   `Sealed` is whole and has its metadata, and can be made durable, read back, and
//!   published.
//! - `elsewhere.rs`: stages in another directory than the one where their files appear.
//!   `content.rs`: the content of a file, copied with its holes.
//! - `assembler.rs`: content as it is written, hashed and recorded: a large one in blocks,
//!   which come in any order from any thread. `pieces.rs`: blocks that come in pieces.
//! - `mover.rs`: content that comes in its order, and is not hashed. `in_place.rs`: content
//!   that is written into a file which has its name already.
//! - `zeros.rs`: runs of zeros that can be holes.
//! - `making.rs`: links, FIFOs, sockets and devices, which have no content.
//! - `verified.rs`: the proof that a stage can be sealed, and the stage, in one. It comes
//!   of what was written alone: the hashes agree, or the whole length of a file of this
//!   machine was moved.
//! - `lot.rs`: whole files that wait for the end of their job in a directory of their own.
//! - `private.rs`: the names that haul makes for itself, and how they are recognised.
//! - `leftover.rs`: stages that earlier copies left in a directory, found and removed.
//! - `partial.rs`: a stage that outlives its process, for files of 64 MiB and more, or 8 MiB far
//!   (`RESUME_LEN_MIN`, `RESUME_LEN_MIN_FAR`): `.haul-NAME-SOURCE.part`, where NAME and SOURCE are hashes of the
//!   destination's name and of the source's size and time. Beside it is a journal, whose
//!   header identifies the source (`SourceId`), and whose lock says who writes.
//!   Checkpoints run beside the copying.
//! - `journal.rs`: the journal's format and invariants: which blocks are there, and their
//!   hashes. `pace.rs`: when a checkpoint is due.
//! - `cache.rs`: the chunk cache; `cache/index.rs`: its index; `cache/kept.rs`: its kept files.
//! - `remote.rs`: the journal of a stage on a host without haul, kept here.
//! - `series.rs`: the names of a job's small stages on such a host, and which jobs that
//!   made some are dead.
//! - `origins.rs`: directories that jobs have made as new names, where the directories
//!   can't keep that themselves.

#![forbid(unsafe_code)]

mod assembler;
mod cache;
mod content;
mod elsewhere;
mod in_place;
mod journal;
mod leftover;
mod lot;
mod making;
mod mover;
mod origins;
mod pace;
mod partial;
mod pieces;
mod private;
mod remote;
mod series;
mod stage;
mod verified;
mod zeros;

pub use assembler::{Assembler, Block, NotAssembled};
pub use cache::{
    CACHE_DIR_MODE, Cache, CacheFigures, CheckedChunks, Keeper, Place, Saved, destinations,
    note_destination, short,
};
pub use haul_model::OnExisting;
pub use journal::{Earlier, SourceId};
pub use leftover::{Cleaned, Fate, Leftover, Leftovers, remove_mark};
pub use lot::{Lot, Row, RowNumber};
pub use mover::Mover;
pub use origins::Origins;
pub use pace::Pace;
pub use partial::{RESUME_LEN_MIN, RESUME_LEN_MIN_FAR, StaleStages, remove_leftovers};
pub use pieces::{AHEAD_MAX, Pieces, Route, Took};
pub use private::{
    aside_name, is_lot, is_private, mark_name, old_name, private_name, sent_name, set_aside,
    superseded,
};
pub use remote::{Journals, RemoteJournal, RemoteNames};
pub use series::{DeadSeries, StageSeries};
pub use stage::{Publication, Sealed, Stage, for_a_moment, kept_time, remove_unpublished};
pub use verified::{Mismatch, Moved, Proof, Staged, Verified, Written};

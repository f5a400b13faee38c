//! Atomic writes. A file is written to a stage, a temporary file with a private name or none. It is
//! verified, and only then published under its own name.
//!
//! # Rooms
//!
//! - `staged.rs`: the contract of staged and sealed files.
//! - `stage.rs`: a stage in the directory of the final name, without a name or with a private one
//!   (`.haul-` and 16 hexadecimal digits). `Stage` is written to. `Sealed` is complete and has its
//!   metadata. It can be flushed, read back, and published.
//! - `stage/other_dir.rs`: stages in another directory than that of the final name. `content.rs`: copies
//!   the content of a file with its holes, and finds zeros that can become holes.
//! - `assembler.rs`: content that is written, hashed and recorded in blocks, in any order and from
//!   any thread. `pieces.rs`: blocks that arrive in pieces.
//! - `mover.rs`: content that is written in order, and not hashed. `stage/in_place.rs`: content that is
//!   written into an existing file.
//! - `making.rs`: links, FIFOs, sockets and devices, which have no content.
//! - `verified.rs`: the proof that a stage can be sealed, together with the stage. It depends only
//!   on what was written: the hashes are equal, or a local file was copied in full length.
//! - `batch.rs`: complete files that wait for the end of their job in a directory of their own.
//! - `private.rs`: creates and recognises the private names.
//! - `leftover.rs`: finds and removes stages that earlier copies left in a directory.
//! - `partial.rs`: a stage that outlives its process, for files of 64 MiB and more, or 8 MiB over a
//!   wire (`RESUME_LEN_MIN`, `RESUME_LEN_MIN_REMOTE`): `.haul-NAME-SOURCE.part`. NAME and SOURCE
//!   are hashes of the destination's name and of the source's size and time. The journal beside it
//!   identifies the source (`SourceId`). Its lock marks the writing process. Checkpoints run in
//!   parallel to the copying.
//! - `journal.rs`: the format and invariants of the journal, which lists the blocks of the stage
//!   and their hashes. `pace.rs`: when a checkpoint is due.
//! - `cache.rs`: the chunk cache; `cache/index.rs`: its index; `cache/kept.rs`: its kept files.
//! - `records.rs`: the records that this machine keeps for later jobs, in one directory. They
//!   include the directories that jobs created as new names, where file systems can't store that:
//! - `remote.rs`: the journal of a stage on a host without haul.
//! - `series.rs`: the names of a job's small stages on such a host, and which earlier jobs are
//!   dead.

#![forbid(unsafe_code)]

mod assembler;
mod batch;
mod cache;
mod content;
mod journal;
mod leftover;
mod making;
mod mover;
mod pace;
mod partial;
mod pieces;
mod private;
mod records;
mod remote;
mod series;
mod stage;
mod staged;
mod verified;

pub use assembler::{AssembleError, Assembler, Block};
pub use batch::{DelayedBatch, Row, RowNumber};
pub use cache::{
    CACHE_DIR_MODE, Cache, CacheFigures, CheckedChunks, Keeper, Place, Saved, destinations,
    record_destination, short,
};
pub use haul_model::OnExisting;
pub use journal::{Earlier, SourceId};
pub use leftover::{Cleaned, Fate, Leftover, Leftovers, remove_marker};
pub use mover::Mover;
pub use pace::Pace;
pub use partial::{RESUME_LEN_MIN, RESUME_LEN_MIN_REMOTE, StaleStages, remove_leftovers};
pub use pieces::{AHEAD_MAX, PieceCounts, Pieces, Route};
pub use private::{
    aside_name, is_batch, is_private, marker_name, old_name, private_name, remote_stage_name,
    set_aside, superseded,
};
pub use records::Records;
pub use records::has_origin;
pub use remote::{RemoteJournal, RemotePart};
pub use series::DeadSeries;
pub use stage::{Publication, Sealed, Stage, remove_unpublished, stored_time, with_temporary_file};
pub use staged::{MoveError, SealedFile, StagedFile, changed};
pub use verified::{Mismatch, Moved, Proof, Verified, VerifyResult, Written};

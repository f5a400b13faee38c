//! The answers that a job gets from its two ends, compiled once when it starts: what the
//! destination can do, and whether the Sender is at the other end of a wire. The stages ask only
//! these questions, and do not know where an end is.

use crate::copy;
use crate::link::SenderPort;
use haul_model::Resume;
use haul_plan::Plan;
use haul_store::{RESUME_LEN_MIN, RESUME_LEN_MIN_REMOTE};
use haul_tree::Capabilities;

/// One field per question about the destination and the Sender.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    /// Workers create links and special files, many at a time, because each takes a round trip.
    pub(crate) queues_names: bool,
    /// In an existing directory, a subdirectory is created before it is looked up.
    pub(crate) creates_first: bool,
    /// Metadata and contents here are read at no cost worth saving. So entries are looked up
    /// ahead, and a file is hashed to find out if it is the new name of another.
    pub(crate) reads_cheaply: bool,
    /// An existing entry that blocks a new one is removed when that is decided, not when it is
    /// made.
    pub(crate) clears_early: bool,
    /// The times of a directory are set once before its outcome is reported, as a test.
    pub(crate) tests_dir_times: bool,
    /// A backup replaces an empty directory of its name.
    pub(crate) backups_replace_dirs: bool,
    /// Before a file is resumed, its blocks are read back and compared with their record.
    pub(crate) reads_back: bool,
    /// How many counted blocks of a file may not be on record yet.
    pub(crate) record_lag_max: u64,
    /// An unchanged empty file is flushed before its source is removed. Elsewhere the copy does it.
    pub(crate) flushes_empty_files: bool,
    /// Content that already exists here saves sending it.
    pub(crate) saves_sending: bool,
    /// Content is accepted without a hash.
    pub(crate) accepts_unhashed: bool,
    /// Only the Sender knows whether a file here is also a source.
    pub(crate) sender_knows_sources: bool,
    /// The Sender reports each removal of a source.
    pub(crate) sender_reports_removals: bool,
    /// The Sender sends the names of its accounts.
    pub(crate) sender_names_accounts: bool,
    /// The minimum length of a file that can be resumed, in bytes.
    pub(crate) resume_len_min: u64,
}

impl Ends {
    /// The ends of a job with this `plan`.
    pub(crate) fn of(destination: Capabilities, sender: &dyn SenderPort, plan: &Plan) -> Self {
        let (near, wire) = (!destination.costs_round_trips, sender.is_wire());
        Self {
            queues_names: !near,
            creates_first: !near,
            reads_cheaply: near,
            clears_early: !near,
            tests_dir_times: near,
            backups_replace_dirs: near,
            // Where reading takes round trips, the file is read only once, when it is whole.
            reads_back: near || plan.resume == Resume::Strict,
            // A far tree keeps its own record, in order.
            record_lag_max: if near { copy::AHEAD_MAX } else { 0 },
            flushes_empty_files: near,
            saves_sending: wire,
            accepts_unhashed: wire && !plan.wants_hashes,
            sender_knows_sources: wire,
            sender_reports_removals: wire,
            sender_names_accounts: wire,
            resume_len_min: if wire { RESUME_LEN_MIN_REMOTE } else { RESUME_LEN_MIN },
        }
    }
}

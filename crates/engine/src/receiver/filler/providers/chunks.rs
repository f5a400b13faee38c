//! Provides parts of files whose chunks this machine has.

use super::{ProbeResult, Provider};
use crate::receiver::chunks::{Chunks, FILE_LEN_MIN};
use crate::receiver::content::Part;
use crate::receiver::{Filler, Pending};
use haul_model::Updating;
use haul_proto::{Reuse, Want};

impl Provider for Chunks {
    fn may_have(&self, filler: &Filler<'_>, file: &Pending) -> bool {
        file.entry.size() >= FILE_LEN_MIN
            && filler.job.plan.updating == Updating::Replaces
            && filler.job.plan.wants_hashes
            && filler.job.sender.offers_chunks()
    }

    /// Requests offers for the chunks of a file.
    fn probe(&self, _: &Filler<'_>, mut file: Box<Pending>, _: &mut Vec<Want>) -> ProbeResult {
        file.reused.is_chunked = true;
        self.begin(file.index);
        ProbeResult::PassedOn(file)
    }

    fn parts(&self, _: &Filler<'_>, _: &mut Pending, reuse: &Reuse) -> Option<Vec<Part>> {
        if reuse.from.is_some() { None } else { self.parts_of(reuse) }
    }

    fn forget(&self, file: &mut Pending) {
        if std::mem::take(&mut file.reused.is_chunked) {
            self.forget(file.index);
        }
    }
}

//! Leftovers of an earlier job: a whole file that waits for publication, or the first blocks of a
//! file.

use super::{ProbeResult, Provider};
use crate::receiver::disk_space::no_space_fault;
use crate::receiver::resume::find_resumed;
use crate::receiver::{Filler, Pending};
use haul_model::Outcome;
use haul_proto::Want;

pub(crate) struct Unfinished;

impl Provider for Unfinished {
    fn may_have(&self, filler: &Filler<'_>, file: &Pending) -> bool {
        filler.job.delays_updates() || filler.job.source_id(&file.entry).is_some()
    }

    fn probe(&self, filler: &Filler<'_>, mut file: Box<Pending>, _: &mut Vec<Want>) -> ProbeResult {
        // If the waiting file of an earlier job can't be used, the file is sent again.
        let settled = if filler.job.delays_updates()
            && filler.publisher.reuse_waiting(&file).unwrap_or(false)
        {
            Some(Outcome::Copied)
        } else {
            let Pending { index, dir, name, entry, .. } = &*file;
            let resumed = find_resumed(&filler.job, *index, dir, name, entry);
            let refused = match resumed {
                Ok(blocks) => {
                    file.resumed = blocks;
                    no_space_fault(filler, &file)
                }
                Err(fault) => Some(fault),
            };
            refused.map(Outcome::Failed)
        };
        let Some(outcome) = settled else { return ProbeResult::PassedOn(file) };
        file.dir.settle_one();
        ProbeResult::Settled(filler.linker.settle_listed(&file, outcome))
    }
}

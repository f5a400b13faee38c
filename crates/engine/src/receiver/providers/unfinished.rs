//! Leftovers of an earlier job: a whole file that waits for publication, or the first blocks of a
//! file.

use super::{Looked, Provider};
use crate::receiver::full::lacks_room;
use crate::receiver::resume::find_resumed;
use crate::receiver::{Filler, Pending};
use haul_model::Outcome;
use haul_proto::Want;

pub(crate) struct Unfinished;

impl Provider for Unfinished {
    fn may_have(&self, filler: &Filler<'_>, file: &Pending) -> bool {
        filler.job.delays() || filler.job.source_id(&file.entry).is_some()
    }

    fn look(&self, filler: &Filler<'_>, mut file: Box<Pending>, _: &mut Vec<Want>) -> Looked {
        // If the waiting file of an earlier job can't be used, the file is sent again.
        let settled = if filler.job.delays() && filler.publisher.keep_before(&file).unwrap_or(false)
        {
            Some(Outcome::Copied)
        } else {
            let Pending { index, dir, name, entry, .. } = &*file;
            let resumed = find_resumed(&filler.job, *index, dir, name, entry);
            let refused = match resumed {
                Ok(blocks) => {
                    file.resumed = blocks;
                    lacks_room(filler, &file)
                }
                Err(fault) => Some(fault),
            };
            refused.map(Outcome::Failed)
        };
        let Some(outcome) = settled else { return Looked::PassedOn(file) };
        file.dir.settle_one();
        Looked::Settled(filler.linker.settle_listed(&file, outcome))
    }
}

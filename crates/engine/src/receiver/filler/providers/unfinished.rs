//! Leftovers of an earlier job: a whole file that waits for publication, or the first blocks of a
//! file.

use super::{ProbeResult, Provider};
use crate::receiver::dirs::DirState;
use crate::receiver::disk_space::with_space_details;
use crate::receiver::filler::resume::find_resumed;
use crate::receiver::{Filler, Pending};
use haul_model::{BLOCK_LEN, Fault, FaultKind, Outcome, Side, Updating};
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

/// The fault of a large file for which there is clearly no space, before any of it is sent. `None`
/// if space may become free, or the file is updated in place or may share an old version.
pub(super) fn no_space_fault(filler: &Filler<'_>, file: &Pending) -> Option<Fault> {
    let Pending { dir, entry, resumed, target, .. } = file;
    let may_take_less = filler.job.plan.delete.is_some()
        || filler.publisher.removals.replaces_dirs()
        || filler.job.plan.updating != Updating::Replaces;
    let is_plain = filler.job.ends.saves_sending
        && filler.job.resumable(entry).is_some()
        && !filler.job.may_have_holes(entry)
        && target.staging.is_none()
        && !filler.providers.versions.may_have(filler, file)
        && !may_take_less;
    let (true, DirState::Open(node)) = (is_plain, &dir.state) else { return None };
    let there = node.handle().ok()?.local_dir().ok()?;
    let missing = entry.size().saturating_sub(resumed.saturating_mul(BLOCK_LEN));
    haul_sys::is_out_of_space(&there, missing).then(|| {
        let fault = Fault::new(Side::Destination, FaultKind::NoSpace, "not enough space");
        with_space_details(&filler.job, fault, file, 0)
    })
}

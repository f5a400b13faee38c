//! Takes listed entries that are no directories: settles or creates them at once, requests their
//! content, or queues them for a worker.

use super::filler::hashing::Candidate;
use super::filler::providers::bases::BaseDirs;
use super::{BaseMethod, Decision, DestLineage, Filler, JobContext, Pending};
use haul_model::{Changes, Kind, Outcome};
use haul_proto::Want;
use haul_store::OnExisting;
use std::sync::Arc;

/// Creates directories, links and special files, and requests the content of files.
pub(crate) struct Creator<'a> {
    pub(super) job: Arc<JobContext<'a>>,
    pub(super) filler: Arc<Filler<'a>>,
    pub(super) dest_lineage: DestLineage,
    /// See [`super::Destination::dirs_created`].
    pub(super) dirs_created: usize,
}

impl<'a> Creator<'a> {
    pub(super) fn of(
        filler: &Arc<Filler<'a>>,
        dest_lineage: DestLineage,
        dirs_created: usize,
    ) -> Self {
        let (job, filler) = (Arc::clone(&filler.job), Arc::clone(filler));
        Self { job, filler, dest_lineage, dirs_created }
    }
}

impl Creator<'_> {
    /// Decides about a file. Returns its outcome if it is settled at once.
    pub(super) fn take_file(&self, mut file: Pending, wants: &mut Vec<Want>) -> Option<Outcome> {
        let (decision, found) = self.filler.decider.decide(&file.dir, &file.name, &mut file.entry);
        let decision =
            self.filler.publisher.removals.cleared(&file.dir, &file.name, decision, found);
        file.found = found;
        let is_given_time = match &decision {
            Decision::Settled(Outcome::Synced(found)) => found.has(Changes::TIME),
            Decision::Settled(_) => false,
            _ => true,
        };
        if is_given_time && let Some(fault) = self.filler.times.check_time(&file.dir, &file.entry) {
            return Some(self.filler.linker.settle_listed(&file, Outcome::Failed(fault)));
        }
        match decision {
            Decision::Settled(outcome) => Some(self.filler.linker.settle_listed(&file, outcome)),
            Decision::Hash => {
                self.filler.hash_both(Pending { on_existing: OnExisting::Replace, ..file }, wants);
                None
            }
            Decision::HashBases(bases, otherwise) => {
                let candidates =
                    bases.into_iter().map(|(base, found)| Candidate::Base(base, found));
                self.filler.hash_candidates(file, candidates.collect(), *otherwise, wants);
                None
            }
            _ if self.job.plan.dry_run => {
                Some(self.filler.linker.settle_listed(&file, Outcome::WouldCopy))
            }
            Decision::Copy(on_existing) => {
                self.filler.provide(Pending { on_existing, ..file }, wants)
            }
            Decision::Base(base, bring, on_existing) => {
                let base = Some((base, bring));
                self.filler.provide(Pending { base, on_existing, ..file }, wants)
            }
        }
    }

    /// Decides about a link, FIFO, socket or device, and creates it. Returns its outcome if it is
    /// settled at once.
    pub(super) fn take_special(&self, mut listed: Pending) -> Option<Outcome> {
        let (mut decision, found) =
            self.filler.decider.decide(&listed.dir, &listed.name, &mut listed.entry);
        if self.job.plan.dry_run {
            decision =
                self.filler.publisher.removals.cleared(&listed.dir, &listed.name, decision, found);
        }
        let listed = Pending { found, ..listed };
        let Pending { dir, name, entry, .. } = &listed;
        if !matches!(decision, Decision::Settled(_))
            && self.job.sets_time(entry)
            && let Some(fault) = self.filler.times.check_time(dir, entry)
        {
            return Some(self.filler.linker.settle_listed(&listed, Outcome::Failed(fault)));
        }
        let outcome = match decision {
            Decision::Settled(outcome) => outcome,
            Decision::Hash | Decision::HashBases(..) | Decision::Base(_, BaseMethod::Copy, _) => {
                unreachable!("only files have content")
            }
            _ if self.job.plan.dry_run => Outcome::WouldCopy,
            Decision::Base(base, BaseMethod::Link, on_existing) => {
                let or_created = || self.create(dir, name, entry, on_existing);
                BaseDirs
                    .link_to_base(&self.filler, dir, name, &base, (on_existing, false))
                    .unwrap_or_else(or_created)
            }
            Decision::Copy(on_existing) if self.job.ends.queues_names => {
                dir.expect_change();
                dir.add_pending();
                let link = Pending { on_existing, ..listed };
                self.job.enqueue(move |receiver, _| receiver.creator.take_link(link));
                return None;
            }
            Decision::Copy(on_existing) => {
                dir.expect_change();
                self.create(dir, name, entry, on_existing)
            }
        };
        Some(self.filler.linker.settle_listed(&listed, outcome))
    }

    /// Decides about an entry that is no further hard link. Returns its outcome if it is settled at
    /// once.
    pub(super) fn take_first_name(&self, one: Pending, wants: &mut Vec<Want>) -> Option<Outcome> {
        match one.entry.kind {
            Kind::File { .. } => self.take_file(one, wants),
            _ => self.take_special(one),
        }
    }
}

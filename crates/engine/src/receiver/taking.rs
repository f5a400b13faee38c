//! Takes entries that are no directories as they are listed: settles them at once, makes
//! them, requests their content, or gives them to a worker.

use super::deciding::Decision;
use super::hashing::Candidate;
use super::providers::Bring;
use super::{Pending, Receiver, Work};
use haul_model::{Changes, Outcome};
use haul_proto::Want;
use haul_store::OnExisting;

impl Receiver<'_> {
    /// Decides about a file; returns its outcome if it has one already.
    pub(super) fn take_file(&self, mut file: Pending, wants: &mut Vec<Want>) -> Option<Outcome> {
        let (decision, found) = self.decide(&file.dir, &file.name, &mut file.entry);
        let decision = self.publisher.removals.cleared(&file.dir, &file.name, decision, found);
        file.found = found;
        let is_given_time = match &decision {
            Decision::Settled(Outcome::Synced(found)) => found.has(Changes::TIME),
            Decision::Settled(_) => false,
            _ => true,
        };
        if is_given_time && let Some(fault) = self.times.loses_time(&file.dir, &file.entry) {
            return Some(self.settle_listed(&file, Outcome::Failed(fault)));
        }
        match decision {
            Decision::Settled(outcome) => Some(self.settle_listed(&file, outcome)),
            Decision::Hash => {
                self.hash_both(Pending { on_existing: OnExisting::Replace, ..file }, wants);
                None
            }
            Decision::HashBases(bases, otherwise) => {
                let candidates =
                    bases.into_iter().map(|(base, found)| Candidate::Base(base, found));
                self.hash_candidates(file, candidates.collect(), *otherwise, wants);
                None
            }
            _ if self.job.policy.dry_run => Some(self.settle_listed(&file, Outcome::WouldCopy)),
            Decision::Copy(on_existing) => self.provide(Pending { on_existing, ..file }, wants),
            Decision::Base(base, bring, on_existing) => {
                let base = Some((base, bring));
                self.provide(Pending { base, on_existing, ..file }, wants)
            }
        }
    }

    /// Decides about a link, FIFO, socket or device, and makes it; returns its outcome if
    /// it has one already.
    pub(super) fn take_made(&self, mut listed: Pending) -> Option<Outcome> {
        let (mut decision, found) = self.decide(&listed.dir, &listed.name, &mut listed.entry);
        if self.job.policy.dry_run {
            decision = self.publisher.removals.cleared(&listed.dir, &listed.name, decision, found);
        }
        let listed = Pending { found, ..listed };
        let Pending { dir, name, entry, .. } = &listed;
        if !matches!(decision, Decision::Settled(_))
            && self.job.gives_time(entry)
            && let Some(fault) = self.times.loses_time(dir, entry)
        {
            return Some(self.settle_listed(&listed, Outcome::Failed(fault)));
        }
        let outcome = match decision {
            Decision::Settled(outcome) => outcome,
            Decision::Hash | Decision::HashBases(..) | Decision::Base(_, Bring::Copy, _) => {
                unreachable!("only files have content")
            }
            _ if self.job.policy.dry_run => Outcome::WouldCopy,
            Decision::Base(base, Bring::Link, on_existing) => {
                let or_made = || self.make(dir, name, entry, on_existing);
                self.link_to_base(dir, name, &base, (on_existing, false)).unwrap_or_else(or_made)
            }
            Decision::Copy(on_existing) if self.job.costs_round_trips => {
                dir.expect_change();
                dir.expect_one();
                self.job.give(Work::Link(Box::new(Pending { on_existing, ..listed })));
                return None;
            }
            Decision::Copy(on_existing) => {
                dir.expect_change();
                self.make(dir, name, entry, on_existing)
            }
        };
        Some(self.settle_listed(&listed, outcome))
    }

    /// Reports the outcome of an entry that has it when it is listed.
    pub(super) fn settle_listed(&self, listed: &Pending, outcome: Outcome) -> Outcome {
        let Pending { index, dir, entry, found, cost, .. } = listed;
        let outcome = self.job.as_synced(outcome, *found);
        self.job.report(*index, || dir.path_of(entry.name.as_ref()), &entry.kind, 0, &outcome);
        self.job.close(*cost);
        outcome
    }
}

//! Takes entries that are no directories as they are listed: settles them at once, makes
//! them, asks for what is missing of them, or has a worker see to it.

use super::compare::Decision;
use super::dirs::DirState;
use super::{Pending, Receiver, Work};
use haul_model::{Changes, Outcome};
use haul_proto::Want;
use haul_store::OnExisting;
use haul_tree::lock;

impl Receiver<'_> {
    /// Decides about a file; returns its outcome if it has one already.
    pub(super) fn take_file(&self, mut file: Pending, wants: &mut Vec<Want>) -> Option<Outcome> {
        let (decision, found) = self.decide(&file.dir, &file.name, &mut file.entry);
        let decision = self.cleared(&file.dir, &file.name, decision, found);
        file.found = found;
        let is_given_time = match &decision {
            Decision::Settled(Outcome::Synced(found)) => found.has(Changes::TIME),
            Decision::Settled(_) => false,
            _ => true,
        };
        if is_given_time && let Some(fault) = self.loses_time(&file.dir, &file.entry) {
            return self.settle_listed(&file, Outcome::Failed(fault));
        }
        match decision {
            Decision::Settled(outcome) => self.settle_listed(&file, outcome),
            Decision::Hash => {
                self.hash_both(Pending { on_existing: OnExisting::Replace, ..file }, wants);
                None
            }
            Decision::HashBases(bases, otherwise) => {
                self.hash_with_bases(file, bases, *otherwise, wants);
                None
            }
            _ if self.policy.dry_run => self.settle_listed(&file, Outcome::WouldCopy),
            Decision::Copy(on_existing) => {
                let file = self.unless_renamed(Pending { on_existing, ..file }, wants)?;
                self.want_file(file, wants)
            }
            Decision::Based(base, on_existing) => {
                self.copy_from_base(Pending { on_existing, ..file }, base);
                None
            }
            Decision::Linked(base, on_existing) if self.costs_round_trips => {
                file.dir.expect_change();
                file.dir.expect_one();
                self.give(Work::OfBase(Box::new((file, base, on_existing))));
                None
            }
            Decision::Linked(base, on_existing) => {
                let how = (on_existing, false);
                let linked = self.link_to_base(&file.dir, &file.name, &base, how);
                if let Some(outcome) = linked {
                    return self.settle_listed(&file, outcome);
                }
                let file = Pending { found: Changes::LOCAL, on_existing, ..file };
                self.copy_from_base(file, base);
                None
            }
        }
    }

    /// Decides about a link, FIFO, socket or device, and makes it; returns its outcome if
    /// it has one already.
    pub(super) fn take_made(&self, mut listed: Pending) -> Option<Outcome> {
        let (mut decision, found) = self.decide(&listed.dir, &listed.name, &mut listed.entry);
        if self.policy.dry_run {
            decision = self.cleared(&listed.dir, &listed.name, decision, found);
        }
        let listed = Pending { found, ..listed };
        let Pending { dir, name, entry, .. } = &listed;
        if !matches!(decision, Decision::Settled(_))
            && self.gives_time(entry)
            && let Some(fault) = self.loses_time(dir, entry)
        {
            return self.settle_listed(&listed, Outcome::Failed(fault));
        }
        let outcome = match decision {
            Decision::Settled(outcome) => outcome,
            Decision::Hash | Decision::HashBases(..) | Decision::Based(..) => {
                unreachable!("only files have content")
            }
            _ if self.policy.dry_run => Outcome::WouldCopy,
            Decision::Linked(base, on_existing) => {
                let or_made = || self.make(dir, name, entry, on_existing);
                self.link_to_base(dir, name, &base, (on_existing, false)).unwrap_or_else(or_made)
            }
            Decision::Copy(on_existing) if self.costs_round_trips => {
                dir.expect_change();
                dir.expect_one();
                self.give(Work::Link(Box::new(Pending { on_existing, ..listed })));
                return None;
            }
            Decision::Copy(on_existing) => {
                dir.expect_change();
                self.make(dir, name, entry, on_existing)
            }
        };
        self.settle_listed(&listed, outcome)
    }

    /// An entry has its outcome as it is listed.
    pub(super) fn settle_listed(&self, listed: &Pending, outcome: Outcome) -> Option<Outcome> {
        let Pending { index, dir, entry, found, cost, .. } = listed;
        let outcome = self.as_synced(outcome, *found);
        self.report(*index, || dir.path_of(entry.name.as_ref()), &entry.kind, 0, &outcome);
        self.close(*cost);
        Some(outcome)
    }

    /// Asks for what is missing of a file; returns its outcome if it can't be copied.
    pub(super) fn want_file(&self, mut file: Pending, wants: &mut Vec<Want>) -> Option<Outcome> {
        let Pending { dir, name, entry, .. } = &file;
        dir.expect_change();
        if let DirState::Open(node) = &dir.state {
            self.expect_writing(node);
        }
        // What can't be had of an earlier job is sent again.
        if self.delays() && self.keep_before(&file).unwrap_or(false) {
            return self.settle_listed(&file, Outcome::Copied);
        }
        dir.expect_one();
        let resumed = self.find_resumed(file.index, dir, name, entry);
        let refused = match resumed {
            Ok(blocks) => {
                file.resumed = blocks;
                self.lacks_room(&file)
            }
            Err(fault) => Some(fault),
        };
        if let Some(fault) = refused {
            let Pending { dir, entry, .. } = &file;
            dir.settle_one();
            let outcome = Outcome::Failed(fault);
            self.report(file.index, || dir.path_of(entry.name.as_ref()), &entry.kind, 0, &outcome);
            self.close(file.cost);
            return Some(outcome);
        }
        file.reserves = self.task.mirrors().is_some_and(|mirror| mirror.preallocates);
        file.leaves_zeros = self.leaves_zeros(&file.entry);
        if self.wants_difference(&file) {
            self.sign_in_turn(file);
            return None;
        }
        wants.push(self.want_of(&mut file));
        lock(&self.wanted).insert(file.index, Box::new(file));
        None
    }
}

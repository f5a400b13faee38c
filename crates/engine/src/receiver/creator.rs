//! Takes listed entries: creates directories, links and special files at their places, and
//! requests the content of files. An entry is settled at once, or queued for a worker.

use super::filler::hashing::Candidate;
use super::filler::providers::bases::BaseDirs;
use super::{
    BaseMethod, Decision, DestLineage, DirState, Filler, JobContext, Listed, Pending, RecvDir,
    parent_fault, self_copy,
};
use crate::prefetch::Prefetched;
use haul_model::{Changes, Entry, Fault, Kept, Kind, Name, NewEntry, Outcome, Side, Skip};
use haul_proto::{OutcomeItem, Want};
use haul_store::{OnExisting, Publication};
use haul_tree::PendingOperation;
use std::io;
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

    /// Creates a link, FIFO, socket or device.
    pub(super) fn create(
        &self,
        dir: &RecvDir,
        name: &Name,
        entry: &Entry,
        on_existing: OnExisting,
    ) -> Outcome {
        let DirState::Open(node) = &dir.state else { return Outcome::Failed(parent_fault()) };
        if let Err(fault) = self.filler.publisher.removals.clear_place(dir, name, on_existing) {
            return Outcome::Failed(fault);
        }
        let action = match entry.kind {
            Kind::Symlink { .. } => "create the link",
            _ => "create the FIFO, socket or device",
        };
        let (attributes, mut keeps) = (&entry.attributes, self.job.plan.keeps);
        if entry.special.is_none() && !self.job.plan.new_links_get_times {
            keeps = keeps.without(Kept::TIMES);
        }
        let created = self.filler.publisher.naming.assign_name(
            action,
            dir,
            name,
            entry,
            on_existing,
            |how| {
                let handle = node.handle()?;
                let new = match (&entry.kind, entry.special) {
                    (Kind::Symlink { target }, _) => NewEntry::Symlink(target),
                    (_, Some(special)) => NewEntry::Special(special),
                    (_, None) => return Err(io::ErrorKind::Unsupported.into()),
                };
                let created = handle.make_entry(new, name, attributes, keeps, how)?;
                if created == Publication::Published {
                    dir.claim_new(&*handle, name)?;
                }
                Ok(created)
            },
        );
        if created == Ok(Outcome::Copied) {
            dir.remove_stale(name);
        }
        created.unwrap_or_else(Outcome::Failed)
    }

    /// Creates or opens a directory, into which entries are listed next. Returns no outcome while
    /// the directory is still being created.
    pub(super) fn take_dir(
        &self,
        listed: &Listed,
        prefetched: Option<Prefetched>,
    ) -> (Arc<RecvDir>, Option<Outcome>) {
        let Listed { index, dir: parent, name, entry, cost } = listed;
        let (index, cost) = (*index, *cost);
        let prefetched = prefetched.filter(|ahead| match (&parent.state, name) {
            (DirState::Open(node), Some(name)) => ahead.is_of(node, name),
            _ => false,
        });
        let (outcome, state, fresh) =
            self.find_dir(parent, name.as_ref(), entry, prefetched.as_ref());
        let is_new = fresh || outcome == Outcome::Copied;
        let entry = &self.job.with_dir_mode(entry, parent, &state, is_new);
        // A copy into an existing directory keeps that directory's mode and time, unless it becomes
        // a mirror.
        let is_mirrored = name.is_some() || self.job.plan.updates_root;
        let gets_attributes = is_mirrored && (fresh || !entry.is_implied_dir);
        let mut outcome = self.filler.publisher.sealing.dir_outcome(
            parent,
            entry,
            &state,
            outcome,
            gets_attributes,
        );
        let has_failed = matches!(outcome, Outcome::Failed(_));
        let is_open = gets_attributes && !has_failed && matches!(state, DirState::Open(_));
        let has_other_time = matches!(outcome, Outcome::Synced(found) if found.has(Changes::TIME));
        let keeps_time = self.job.kept_of_dirs().has(Kept::TIMES);
        if is_open && keeps_time && (is_new || has_other_time) {
            self.filler.times.check_time(parent, entry);
        }
        let attributes = if is_open { self.job.final_attributes(entry) } else { None };
        let shown = entry.name.clone();
        let of = |state, attributes| {
            let dir =
                RecvDir::new(Some(Arc::clone(parent)), shown.clone(), state, fresh, attributes);
            if entry.is_implied_dir {
                dir.mark_implied();
            }
            dir
        };
        let mut dir = of(state, attributes);
        *dir.prefetched.lock() = prefetched;
        self.filler.publisher.take_over_lot_in(&dir);
        if !self.job.plan.dry_run && !dir.is_searchable() {
            dir.make_writable();
        }
        if let Err(fault) = self.filler.publisher.removals.record_existing_names(&dir) {
            // The parent has counted both directories, and waits for only one.
            parent.settle_one();
            dir = of(DirState::Failed, None);
            outcome = Outcome::Failed(fault);
        }
        let created = match &dir.state {
            DirState::Open(node) if fresh => {
                node.handle().ok().and_then(|dir| dir.pending_creation())
            }
            _ => None,
        };
        if let Some(created) = created {
            dir.add_pending();
            let (opened, item) = (Arc::clone(&dir), OutcomeItem { index, outcome });
            self.job.enqueue(move |receiver, _| {
                receiver.creator.wait_for_creation(opened, item, cost, created)
            });
            return (dir, None);
        }
        (dir, Some(outcome))
    }

    /// Opens or creates a directory. Returns its outcome, its state, and true if it was created.
    fn find_dir(
        &self,
        parent: &Arc<RecvDir>,
        name: Option<&Name>,
        entry: &Entry,
        prefetched: Option<&Prefetched>,
    ) -> (Outcome, DirState, bool) {
        let failed = |fault| (Outcome::Failed(fault), DirState::Failed, false);
        let is_source = parent.parent.is_none();
        if is_source {
            self.filler.publisher.removals.expect_source(entry);
        }
        let into_itself = self.dest_lineage.contains_destination(entry, is_source);
        let backups = self.filler.publisher.backups.root();
        let is_named = is_source && !entry.is_implied_dir;
        match (&parent.state, name, into_itself) {
            (DirState::Failed, ..) => failed(parent_fault()),
            _ if is_named && self_copy::is_same_object(entry, backups) => {
                failed(self_copy::is_for_backups())
            }
            (_, _, Some(fault)) => failed(fault),
            (DirState::Absent, Some(_), _) if self.job.creates_nothing() => {
                (Outcome::Skipped(Skip::Ruled), DirState::Ruled, false)
            }
            // The same as for a destination that was created.
            (DirState::Absent, None, _) if !self.job.plan.updates_root => {
                (Outcome::Skipped(Skip::Unchanged), DirState::Absent, false)
            }
            (DirState::Absent, ..) => (Outcome::WouldCopy, DirState::Absent, false),
            (DirState::Ruled, ..) => (Outcome::Skipped(Skip::Ruled), DirState::Ruled, false),
            (DirState::Open(node), None, None) => {
                let created = self.dirs_created > 0 && self.job.plan.updates_root;
                let outcome =
                    if created { Outcome::Copied } else { Outcome::Skipped(Skip::Unchanged) };
                (outcome, DirState::Open(Arc::clone(node)), false)
            }
            (DirState::Open(node), Some(name), None) => {
                let ahead = prefetched.map(Prefetched::dir);
                self.open_dir(parent, node, (name, ahead), entry).unwrap_or_else(failed)
            }
        }
    }

    /// Waits until a directory is `created`, and reports its outcome: that of `item`, if the
    /// creation succeeds.
    fn wait_for_creation(
        &self,
        dir: Arc<RecvDir>,
        mut item: OutcomeItem,
        cost: u64,
        created: PendingOperation,
    ) {
        if let Err(error) = created() {
            if self.job.control.stopped() {
                return;
            }
            let fault = Fault::from_io(Side::Destination, "create the directory", &error);
            item.outcome = Outcome::Failed(fault);
        }
        self.job.report(item.index, || dir.path_of(None), &Kind::Dir, 0, &item.outcome);
        self.job.close(cost);
        self.job.send_outcomes(vec![item]);
        self.filler.completion.settle(dir);
    }

    /// Creates a link, FIFO, socket or device in a worker, where that takes round trips.
    pub(super) fn take_link(&self, link: Pending) {
        if self.job.control.stopped() {
            return;
        }
        let outcome = self.create(&link.dir, &link.name, &link.entry, link.on_existing);
        self.filler.linker.report_one(link, 0, outcome);
    }
}

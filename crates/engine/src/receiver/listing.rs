//! The listing: takes its items in order, checks them, and settles or passes on each entry. A
//! remote Sender may list only what the job covers, and must account for all of it.

use super::context::ProtocolViolation;
use super::prefetching::Prefetching;
use super::{DirState, Listed, Pending, Receiver, RecvDir, as_source_fault, is_stage};
use crate::Event;
use haul_model::{
    Entry, Fault, FaultKind, Kept, Kind, MAX_DEPTH, Meta, MetaKind, Missing, Name, Outcome, Part,
    Skip,
};
use haul_plan::{Action, Existing, Plan, decide};
use haul_proto::{ListItem, Named, OutcomeItem, Rival, Want};
use haul_tree::Owner;
use std::sync::Arc;

/// The position in the listing.
pub(super) struct Listing {
    /// The index of the next entry or fault.
    pub(super) next_index: u64,
    /// The number of the current source. It stays 0 in a mirror.
    source: u64,
    /// Directories whose end was not listed yet, with their indexes: first the root, then each
    /// inside the one before it.
    pub(super) open: Vec<(u64, Arc<RecvDir>)>,
    pub(super) prefetching: Prefetching,
    /// The creation of the destination was reported.
    has_reported_created: bool,
}

/// Requests and outcomes that are not sent yet.
#[derive(Default)]
struct Answers {
    wants: Vec<Want>,
    outcomes: Vec<OutcomeItem>,
}

impl Listing {
    /// Creates the state of a listing that begins in `root`.
    pub(super) fn of(root: Arc<RecvDir>) -> Self {
        Self {
            next_index: 1,
            source: 0,
            open: vec![(0, root)],
            prefetching: Prefetching::default(),
            has_reported_created: false,
        }
    }

    /// The innermost open directory, if its index is `dir`.
    fn opened_last(&self, dir: u64) -> Result<Arc<RecvDir>, ProtocolViolation> {
        let open = self.open.last().filter(|(number, _)| *number == dir);
        let (_, open) =
            open.ok_or(ProtocolViolation("it listed into a directory that is not open"))?;
        Ok(Arc::clone(open))
    }
}

impl Receiver<'_> {
    /// Takes the next admitted items. Their outcomes are reported even if the job ends in between.
    pub(super) fn take_items(&self, items: Vec<ListItem>) -> Result<(), ProtocolViolation> {
        let _batch = self.job.ending.begin_batch();
        let mut answers = Answers::default();
        let taken = items
            .into_iter()
            .take_while(|_| !self.job.is_ending())
            .try_for_each(|item| self.take_item(item, &mut answers));
        self.send_answers(&mut answers);
        taken
    }

    fn take_item(&self, item: ListItem, answers: &mut Answers) -> Result<(), ProtocolViolation> {
        let cost = item.cost();
        match item {
            ListItem::DirEnd { dir } => return self.take_dir_end(dir, answers),
            ListItem::Fault { dir, name, fault } => {
                let (index, parent) = self.number(dir)?;
                self.check_fault(dir, &name)?;
                parent.record_unlistable(&name);
                let kind = fault.kind.listed_kind();
                let outcome = self.outcome_of(as_source_fault(fault));
                self.job.reporter.outcome(index, || name.clone(), &kind, 0, &outcome);
                self.job.close(cost);
                answers.outcomes.push(OutcomeItem { index, outcome });
            }
            ListItem::Subdirs { dir, names } => self.take_subdirs(dir, &names)?,
            ListItem::Account(account) => self.owners.take_account(&account)?,
            ListItem::Closed { dir } => self.close_dir(dir)?,
            ListItem::Missing { dir, name } => self.take_missing(dir, &name)?,
            ListItem::Mover { user, group } => {
                let is_first = self.listing.lock().next_index == 1;
                self.owners.take_mover(Owner { user, group }, is_first)?;
            }
            ListItem::Rival(rival) => answers.outcomes.push(self.take_rival(&rival, cost)?),
            ListItem::Entry { dir, mut entry } => {
                let (index, parent) = self.number(dir)?;
                if self.creator.dirs_created > 0 {
                    self.report_created();
                }
                let (name, is_closed) = self.check_name(dir, &parent, &entry)?;
                if self.job.plan.part == Part::Lists {
                    let outcome = self.list_entry(Listed { index, dir: parent, name, entry, cost });
                    answers.outcomes.push(OutcomeItem { index, outcome });
                    return Ok(());
                }
                self.owners.forget_owner(&parent, &mut entry);
                let lost = self.owners.loss(&entry).or_else(|| {
                    let is_moved = entry.kind == Kind::Dir && self.owners.moves_whole();
                    if is_moved { self.times.check_time(&parent, &entry) } else { None }
                });
                self.owners.adapt(&mut entry);
                if entry.kind == Kind::Dir {
                    // All other names in the parent directory are known now.
                    self.handle_extras_in_order(&parent, answers);
                    parent.forget_prefetched();
                }
                let listed = Listed { index, dir: parent, name, entry, cost };
                let outcome = match lost {
                    Some(fault) => Some(self.skip_lossy(listed, fault)),
                    None => self.take_entry(listed, &mut answers.wants),
                };
                let item = outcome.map(|outcome| OutcomeItem { index, outcome });
                answers.outcomes.extend(item);
                if is_closed {
                    *self.open_dir_of(index)?.extras.unlisted.lock() = None;
                }
            }
        }
        Ok(())
    }

    /// Reports once that this job has created the destination.
    fn report_created(&self) {
        if self.job.only_removes()
            || std::mem::replace(&mut self.listing.lock().has_reported_created, true)
        {
            return;
        }
        let named = Named {
            naming: self.job.control.monitor().progress().naming(),
            dirs_created: self.creator.dirs_created as u64,
        };
        self.job.control.report_created(named, &self.job.dest);
    }

    /// Takes the end of a directory. The end of the root ends the listing.
    fn take_dir_end(&self, dir: u64, answers: &mut Answers) -> Result<(), ProtocolViolation> {
        let ended = self.listing.lock().open.pop_if(|(number, _)| *number == dir);
        let (_, ended) = ended.ok_or(ProtocolViolation("it ended a directory that is not open"))?;
        ended.forget_prefetched();
        if dir == 0 {
            self.check_end()?;
            if let Err(error) = self.job.reporter.listed_all() {
                self.job.control.fail(error);
            }
        }
        self.handle_extras_in_order(&ended, answers);
        if dir == 0 {
            self.send_answers(answers);
            let Answers { wants, outcomes } = answers;
            self.filler.providers.renames.settle_renames(&self.filler, wants, outcomes);
            // Settling the root may end the job, so all outcomes are sent first.
            self.send_answers(answers);
        }
        self.completion.settle(ended);
        Ok(())
    }

    fn send_answers(&self, answers: &mut Answers) {
        let Answers { wants, outcomes } = std::mem::take(answers);
        self.job.send_outcomes(outcomes);
        if !wants.is_empty() {
            self.job.sender.want(wants);
        }
    }

    /// Reports the extras of `dir`, after the outcomes found before them.
    fn handle_extras_in_order(&self, dir: &Arc<RecvDir>, answers: &mut Answers) {
        if dir.has_extras() {
            self.send_answers(answers);
        }
        self.handle_extras(dir);
    }

    /// Reports an entry in a job that only lists. The destination is not read.
    fn list_entry(&self, listed: Listed) -> Outcome {
        let Listed { dir, entry, cost, .. } = &listed;
        let path = dir.path_of(entry.name.as_ref());
        self.job.control.monitor().event(Event::Listed { path: &path, entry });
        self.open_skipped(&listed);
        self.job.close(*cost);
        Outcome::Skipped(Skip::Ruled)
    }

    /// Decides about one entry. Returns its outcome if it is settled at once.
    fn take_entry(&self, listed: Listed, wants: &mut Vec<Want>) -> Option<Outcome> {
        let Listed { index, dir, name, entry, cost } = &listed;
        let index = *index;
        self.record_listed(index, dir, entry, false);
        if dir.parent.is_none() {
            self.publisher.naming.merging.list(name.as_ref());
        }
        if self.job.copies_nothing() {
            let (checked, outcome) = self.checker.check_entry(listed, wants);
            self.open(index, checked);
            return outcome;
        }
        let exists = name.as_ref().is_some_and(|name| dir.record_listed(name));
        if let (Some(name), false) = (name, entry.kind == Kind::Dir) {
            self.publisher.backups.record_listed(dir, name);
        }
        let only_removes = self.job.only_removes();
        let outcome = match &entry.kind {
            kind if only_removes && *kind != Kind::Dir => self.job.removal_only_outcome(exists),
            Kind::Dir => {
                let ahead = self.listing.lock().prefetching.take(index);
                let (created, outcome) = self.creator.take_dir(&listed, ahead);
                self.open(index, Some(created));
                outcome?
            }
            Kind::Special if !self.job.creates_special(entry) => Outcome::Skipped(Skip::Special),
            Kind::Symlink { .. } if !self.job.plan.links => Outcome::Skipped(Skip::Special),
            Kind::Symlink { target } if self.job.is_unsafe(dir.names().len(), target) => {
                Outcome::Skipped(Skip::Ruled)
            }
            kind if dir.parent.is_some() && is_stage(kind, name.as_ref()) => {
                Outcome::Skipped(Skip::Special)
            }
            _ => {
                let mut one = Pending::new(listed);
                one.target.staging.clone_from(&self.staging);
                return match self.job.is_hard_linked(&one.entry) {
                    true => {
                        self.linker.take_name(one, |one| self.creator.take_first_name(one, wants))
                    }
                    false => self.creator.take_first_name(one, wants),
                };
            }
        };
        self.job.settle_entry(index, dir, entry, *cost, &outcome);
        Some(outcome)
    }

    /// Lets the Sender list entries into `dir`, which has this index.
    fn open(&self, index: u64, dir: Option<Arc<RecvDir>>) {
        self.listing.lock().open.extend(dir.map(|dir| (index, dir)));
    }

    /// If the entry is a directory, lets the Sender list entries into it. Nothing is done in it.
    fn open_skipped(&self, listed: &Listed) {
        let Listed { index, dir, entry, .. } = listed;
        if entry.kind == Kind::Dir {
            let (above, name) = (Some(Arc::clone(dir)), entry.name.clone());
            self.open(*index, Some(RecvDir::new(above, name, DirState::Ruled, false, None)));
        }
    }

    /// The outcome of an entry that the Sender could not list.
    fn outcome_of(&self, fault: Fault) -> Outcome {
        if self.job.plan.is_mirror && fault.kind == FaultKind::NotRecursive {
            return Outcome::Skipped(Skip::Special);
        }
        self.publisher.removals.withhold_removals(&fault);
        Outcome::Failed(fault)
    }

    /// Assigns the index of the next entry. Returns it with the open directory `dir`.
    fn number(&self, dir: u64) -> Result<(u64, Arc<RecvDir>), ProtocolViolation> {
        let mut listing = self.listing.lock();
        let parent = listing.opened_last(dir)?;
        let index = listing.next_index;
        listing.next_index += 1;
        listing.source += u64::from(dir == 0 && !self.job.plan.is_mirror);
        Ok((index, parent))
    }

    /// Reports that `entry` in `dir` was listed. `is_rival`: an earlier source has its place.
    fn record_listed(&self, index: u64, dir: &RecvDir, entry: &Entry, is_rival: bool) {
        let listed = self.job.reporter.listed(index, entry, |place| {
            place.source = self.listing.lock().source;
            (place.is_dir, place.is_rival) = (entry.kind == Kind::Dir, is_rival);
            dir.write_path(entry.name.as_ref(), &mut place.path);
        });
        if let Err(error) = listed {
            self.job.control.fail(error);
        }
    }

    /// The innermost open directory, if its index is `dir`.
    fn open_dir_of(&self, dir: u64) -> Result<Arc<RecvDir>, ProtocolViolation> {
        self.listing.lock().opened_last(dir)
    }

    /// Checks the name, order and depth of an entry. Returns the name that it gets, and whether the
    /// directory is closed: nothing in it counts as an extra.
    fn check_name(
        &self,
        dir: u64,
        parent: &RecvDir,
        entry: &Entry,
    ) -> Result<(Option<Name>, bool), ProtocolViolation> {
        let mut is_closed = false;
        if entry.kind == Kind::Dir && self.listing.lock().open.len() > MAX_DEPTH {
            return Err(ProtocolViolation("it listed a tree deeper than 2048 directories"));
        }
        if entry.name.is_none() && (entry.kind != Kind::Dir || dir != 0) {
            return Err(ProtocolViolation("it listed an entry without a name"));
        }
        if let Some(requested) = &self.requested {
            let taken = requested.lock().take(dir, parent, entry)?;
            is_closed = taken.is_closed;
            let is_dir = entry.kind == Kind::Dir;
            if taken.must_pass_filter && self.job.excludes(parent, entry.name.as_ref(), is_dir) {
                return Err(ProtocolViolation("it listed an excluded entry"));
            }
        }
        if dir != 0 || self.job.lists_once(entry) {
            let name =
                entry.name.clone().ok_or(ProtocolViolation("it listed an entry without a name"))?;
            let mut names = parent.last_names.lock();
            // Entries that are no directories come first.
            let late = entry.kind != Kind::Dir && (names.subdir.is_some() || names.dir.is_some());
            let last = if entry.kind == Kind::Dir { &mut names.dir } else { &mut names.file };
            if late || last.as_ref().is_some_and(|last| *last >= name) {
                return Err(ProtocolViolation(
                    "it listed a directory out of order, or a name twice",
                ));
            }
            *last = Some(name.clone());
            return Ok((Some(name), is_closed));
        }
        if self.job.rename.is_none() {
            return Ok((entry.name.clone(), is_closed));
        }
        let mut last = parent.last_names.lock();
        if last.file.is_some() {
            return Err(ProtocolViolation("it listed several sources for one name"));
        }
        last.file.clone_from(&self.job.rename);
        Ok((self.job.rename.clone(), is_closed))
    }

    /// Settles an entry whose place an earlier source has taken.
    pub(super) fn take_rival(
        &self,
        rival: &Rival,
        cost: u64,
    ) -> Result<OutcomeItem, ProtocolViolation> {
        let Rival { dir, entry, .. } = rival;
        let (index, parent) = self.number(*dir)?;
        let is_made = entry.kind == Kind::Special && entry.special.is_some();
        let has_place = matches!(entry.kind, Kind::File { .. } | Kind::Symlink { .. }) || is_made;
        if self.job.copies_nothing() || !has_place {
            return Err(ProtocolViolation("it listed a rival of an unknown entry"));
        }
        let _name = self.check_name(*dir, &parent, entry)?;
        self.record_listed(index, &parent, entry, true);
        let outcome = match self.job.plan.is_mirror {
            true => Outcome::Skipped(Skip::Ruled),
            false => self.outcome_of_rival(rival),
        };
        self.job.settle_entry(index, &parent, entry, cost, &outcome);
        Ok(OutcomeItem { index, outcome })
    }

    /// The outcome of an entry whose place an earlier source has taken. It never replaces an entry
    /// that this job copied.
    fn outcome_of_rival(&self, rival: &Rival) -> Outcome {
        let Rival { entry, first, is_same, fault, .. } = rival;
        if *is_same {
            return Outcome::Skipped(Skip::Unchanged);
        }
        let (kind, target) = match &first.kind {
            Kind::File { size } => (MetaKind::File { size: *size }, None),
            Kind::Dir => (MetaKind::Dir, None),
            Kind::Symlink { target } => (MetaKind::Symlink, Some(&**target)),
            Kind::Special => return Outcome::Failed(as_source_fault(fault.clone())),
        };
        // No attributes of the rival would be kept.
        let plan = Plan { keeps: Kept::NONE, ..self.job.plan.clone() };
        let meta = &Meta::new(kind, first.attributes.clone());
        let existing = Existing { meta, target, is_source: false, is_link_target: false };
        match decide(&plan, entry, entry.attributes.mtime, Some(existing)).0 {
            Action::Leave => Outcome::Skipped(Skip::Unchanged),
            Action::Settled(outcome @ Outcome::Skipped(_)) => outcome,
            _ => Outcome::Failed(as_source_fault(fault.clone())),
        }
    }

    /// Checks that the Sender may report a fault in `dir`.
    pub(super) fn check_fault(&self, dir: u64, name: &[u8]) -> Result<(), ProtocolViolation> {
        self.requested.as_ref().map_or(Ok(()), |requested| requested.lock().take_fault(dir, name))
    }

    /// Checks that the listing may end: every requested source is accounted for.
    pub(super) fn check_end(&self) -> Result<(), ProtocolViolation> {
        match &self.requested {
            Some(requested) if !requested.lock().may_end() => {
                Err(ProtocolViolation("it ended the listing too early"))
            }
            _ => Ok(()),
        }
    }

    /// Takes the names of directories that will be listed later, so that they do not count as
    /// extras.
    fn take_subdirs(&self, dir: u64, names: &[Name]) -> Result<(), ProtocolViolation> {
        let dir = self.open_dir_of(dir)?;
        if !self.job.plan.finds_extras || dir.parent.is_none() {
            return Err(ProtocolViolation(
                "it listed names of directories where none are expected",
            ));
        }
        let mut last = dir.last_names.lock();
        for name in names {
            if last.dir.is_some() || last.subdir.as_ref().is_some_and(|last| last >= name) {
                return Err(ProtocolViolation("it listed the names of directories out of order"));
            }
            last.subdir = Some(name.clone());
        }
        for name in names {
            dir.record_listed(name);
        }
        Ok(())
    }

    /// Handles the extras of `dir`, once all its names are known.
    fn handle_extras(&self, dir: &Arc<RecvDir>) {
        let (Some(names), DirState::Open(node)) = (dir.extras.unlisted.lock().take(), &dir.state)
        else {
            return;
        };
        if !self.job.copies_nothing() {
            return self.filler.providers.renames.defer_or_delete(&self.filler, dir, names);
        }
        self.checker.report_extras(dir, node, names);
    }

    /// Settles an entry that is not moved because it would lose something, given by `fault`. Its
    /// subtree is skipped, too.
    fn skip_lossy(&self, listed: Listed, fault: Fault) -> Outcome {
        let Listed { index, dir, name, entry, cost } = &listed;
        self.record_listed(*index, dir, entry, false);
        if let Some(name) = name {
            dir.record_listed(name);
        }
        let outcome = Outcome::Failed(fault);
        self.open_skipped(&listed);
        self.job.settle_entry(*index, dir, entry, *cost, &outcome);
        outcome
    }

    /// Marks a directory that the Sender did not search: nothing in it counts as an extra.
    fn close_dir(&self, dir: u64) -> Result<(), ProtocolViolation> {
        let dir = self.open_dir_of(dir)?;
        if !self.job.plan.finds_extras || dir.parent.is_none() {
            return Err(ProtocolViolation("it closed a directory unexpectedly"));
        }
        *dir.extras.unlisted.lock() = None;
        Ok(())
    }

    /// Removes the entry whose name is that of a missing source.
    fn take_missing(&self, dir: u64, name: &Name) -> Result<(), ProtocolViolation> {
        let dir = self.open_dir_of(dir)?;
        if self.publisher.removals.walking().missing != Missing::Removed {
            return Err(ProtocolViolation("it reported a missing source unexpectedly"));
        }
        if let Some(requested) = &self.requested {
            requested.lock().take_missing(&dir, name)?;
        }
        let is_own = |part| matches!(part, Part::All | Part::AllElse);
        if self.job.rename.is_none() && self.job.plan.is_mirror && is_own(self.job.plan.part) {
            let mut deleted = Vec::new();
            let removed = self.publisher.removals.remove_missing(&dir, name, &mut deleted);
            self.job.report_deleted(deleted);
            if let Err(error) = removed {
                self.publisher.removals.not_removed(&dir.path_of(Some(name)), &error);
            }
        }
        Ok(())
    }
}

//! Comparison without copying: reports how each listed entry differs from the existing one, and
//! which entries are extras. Contents are compared by their hashes, which both sides compute at the
//! same time.

use super::decision::outcome_of;
use super::dirs::names_in;
use super::publish::removals::reported_kind;
use super::{
    DirState, Filler, JobContext, Listed, Owners, Pending, RecvDir, is_stage, metadata,
    parent_fault,
};
use crate::dirs::DirNode;
use crate::link::same;
use haul_model::{Changes, Entry, Fault, Kind, Name, OrFault, Outcome, Side, Skip, words};
use haul_plan::changes;
use haul_proto::{Extra, Want};
use haul_tree::{Meta, MetaKind};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

/// Maximum number of extras in one report.
const EXTRAS_MAX: usize = 256;

/// Compares entries in a job that copies nothing.
pub(super) struct Checker<'a> {
    pub(super) job: Arc<JobContext<'a>>,
    pub(super) owners: Arc<Owners<'a>>,
    pub(super) filler: Arc<Filler<'a>>,
    /// See [`super::Destination::may_be_source`].
    pub(super) may_be_source: bool,
}

impl<'a> Checker<'a> {
    pub(super) fn of(
        owners: &Arc<Owners<'a>>,
        filler: &Arc<Filler<'a>>,
        may_be_source: bool,
    ) -> Self {
        let (job, owners) = (Arc::clone(&owners.job), Arc::clone(owners));
        Self { job, owners, filler: Arc::clone(filler), may_be_source }
    }
}

impl Checker<'_> {
    /// Reports the extras `names` of the directory `dir`.
    pub(super) fn report_extras(&self, dir: &RecvDir, node: &Arc<DirNode>, names: BTreeSet<Name>) {
        let mut extras = Vec::new();
        for name in names {
            // An entry that is gone by now is no extra; one that can't be examined is.
            let kind = match node.handle().and_then(|handle| handle.stat(&name, false)) {
                Ok(None) => continue,
                Ok(Some(meta)) => reported_kind(&meta),
                Err(_) => Kind::Special,
            };
            let is_excluded = || self.job.excludes(dir, Some(&name), kind == Kind::Dir);
            if is_stage(&kind, Some(&name)) || is_excluded() {
                continue;
            }
            let path = dir.path_of(Some(&name));
            self.job.reporter.extra(&path, &kind);
            extras.push(Extra { path: words::shown(path), kind });
            if extras.len() == EXTRAS_MAX {
                self.job.sender.extras(std::mem::take(&mut extras));
            }
        }
        if !extras.is_empty() {
            self.job.sender.extras(extras);
        }
    }

    /// Compares one entry. Returns the opened directory, if it is one, and its outcome, unless
    /// hashes must be compared first.
    pub(super) fn check_entry(
        &self,
        mut listed: Listed,
        wants: &mut Vec<Want>,
    ) -> (Option<Arc<RecvDir>>, Option<Outcome>) {
        let mut checked = None;
        listed.name.take_if(|name| self.is_root(&listed.dir, name, &listed.entry));
        let Listed { index, dir, name, entry, cost } = &listed;
        if let Some(name) = name {
            dir.record_listed(name);
        }
        let outcome = match (&entry.kind, name) {
            (Kind::Special, _) if !self.job.creates_special(entry) => {
                Outcome::Skipped(Skip::Special)
            }
            (kind, _) if self.job.plan.excludes(kind) => Outcome::Skipped(Skip::Ruled),
            (kind, _) if dir.parent.is_some() && is_stage(kind, name.as_ref()) => {
                Outcome::Skipped(Skip::Special)
            }
            (Kind::Dir, _) => {
                let (opened, outcome) = self.check_dir(dir, name.as_ref(), entry);
                checked = Some(opened);
                outcome
            }
            (_, None) => unreachable!("only directories have no name"),
            (kind, Some(name)) => match self.compare(dir, name, entry) {
                Ok((found, _)) if self.job.plan.compares_content && has_content(kind, found) => {
                    self.filler.hash_both(Pending { found, ..Pending::new(listed) }, wants);
                    return (None, None);
                }
                Ok((found, meta)) => match self.settle_name(dir, found) {
                    Ok(()) => {
                        let outcome = outcome_of(found);
                        let completion = &self.filler.completion;
                        completion.keep_proof(*index, dir, name, entry, meta, &outcome);
                        outcome
                    }
                    Err(fault) => Outcome::Failed(fault),
                },
                Err(fault) => Outcome::Failed(fault),
            },
        };
        self.job.settle_entry(*index, dir, entry, *cost, &outcome);
        (checked, Some(outcome))
    }

    /// Flushes the name of an entry without content to compare, if an identical source may be
    /// removed.
    fn settle_name(&self, dir: &RecvDir, found: Changes) -> Result<(), Fault> {
        let DirState::Open(node) = &dir.state else { return Ok(()) };
        if !self.job.removes() || found.has(Changes::MISSING) {
            return Ok(());
        }
        let synced = node.handle().and_then(|handle| handle.sync(None));
        synced.or_fault(Side::Destination, "flush it to stable storage")
    }

    /// True if the only source is a directory that became the destination itself. A copy creates a
    /// destination that does not exist, but the next copy would go into it.
    fn is_root(&self, dir: &RecvDir, name: &Name, entry: &Entry) -> bool {
        let DirState::Open(node) = &dir.state else { return false };
        let could_be = self.may_be_source && dir.parent.is_none() && entry.kind == Kind::Dir;
        could_be && node.handle().and_then(|root| root.stat(name, false)).is_ok_and(|m| m.is_none())
    }

    /// The differences of the existing entry `name` from a file or link, and the existing entry.
    fn compare(
        &self,
        dir: &RecvDir,
        name: &Name,
        entry: &Entry,
    ) -> Result<(Changes, Option<Meta>), Fault> {
        let node = match &dir.state {
            DirState::Open(node) => node,
            DirState::Failed => return Err(parent_fault()),
            DirState::Absent | DirState::Ruled => return Ok((missing_in(dir), None)),
        };
        let stat_result = (|| {
            let handle = node.handle()?;
            let Some(meta) = self.job.stat_entry(&*handle, name)? else { return Ok(None) };
            let target = match (&entry.kind, &meta) {
                (Kind::Symlink { .. }, Meta { kind: MetaKind::Symlink, .. }) => {
                    Some(handle.read_link(name)?)
                }
                _ => None,
            };
            Ok(Some((meta, target)))
        })();
        let Some((meta, target)) = metadata(stat_result)? else {
            return Ok((Changes::MISSING, None));
        };
        if self.job.removes() && is_listed_object(node, &meta, entry) {
            return Err(same());
        }
        let handle = metadata(node.handle())?;
        self.filler.publisher.naming.check_claim(dir, &*handle, name, &meta)?;
        let entry = self.filler.times.as_kept(entry, node, Some(&meta));
        let found = changes(&entry, &meta, target.as_deref(), self.job.plan.keeps);
        if let Some(fault) =
            self.owners.lost_set_id_fault(&entry, &meta).filter(|_| !found.has(Changes::KIND))
        {
            return Err(fault);
        }
        let has_object_ids = handle.capabilities().has_object_ids;
        let id = meta.id.filter(|_| has_object_ids && self.job.is_hard_linked(&entry));
        Ok((found.with(self.filler.linker.compare_object(&entry, id)?), Some(meta)))
    }

    /// Compares a directory, and opens it.
    fn check_dir(
        &self,
        parent: &Arc<RecvDir>,
        name: Option<&Name>,
        entry: &Entry,
    ) -> (Arc<RecvDir>, Outcome) {
        let checked = match (&parent.state, name) {
            (DirState::Failed, _) => Err(parent_fault()),
            (DirState::Absent | DirState::Ruled, _) => {
                Ok((outcome_of(missing_in(parent)), DirState::Absent))
            }
            (DirState::Open(node), None) => self
                .check_root(node, entry)
                .map(|outcome| (outcome, DirState::Open(Arc::clone(node)))),
            (DirState::Open(above), Some(name)) => self.check_subdir(parent, above, name, entry),
        };
        let (mut outcome, state) =
            checked.unwrap_or_else(|fault| (Outcome::Failed(fault), DirState::Failed));
        let dir = RecvDir::new(Some(Arc::clone(parent)), entry.name.clone(), state, false, None);
        if let DirState::Open(node) = &dir.state {
            if let Some(fault) = self.owners.lost_set_id_fault(entry, node.meta()) {
                outcome = Outcome::Failed(fault);
            }
            let names = self.job.plan.finds_extras.then(|| names_in(node));
            match names.transpose() {
                Ok(names) => *dir.extras.unlisted.lock() = names,
                Err(error) => {
                    let fault = Fault::from_io(Side::Destination, "read the directory", &error);
                    outcome = Outcome::Failed(fault);
                }
            }
        }
        (dir, outcome)
    }

    /// Compares a directory whose place is the destination itself.
    fn check_root(&self, root: &Arc<DirNode>, entry: &Entry) -> Result<Outcome, Fault> {
        let meta = metadata(root.handle().and_then(|handle| handle.stat_self()))?;
        if self.job.removes() && is_listed_object(root, &meta, entry) {
            return Err(same());
        }
        // A copy keeps the mode of a directory that existed. In a move, the directory is the new
        // name of the source.
        if entry.name.is_none() && !self.job.removes() {
            return Ok(Outcome::Skipped(Skip::Unchanged));
        }
        Ok(outcome_of(metadata(self.of_dir(entry, root))?))
    }

    /// Compares the directory `name` of `above`, and opens it.
    fn check_subdir(
        &self,
        parent: &RecvDir,
        above: &Arc<DirNode>,
        name: &Name,
        entry: &Entry,
    ) -> Result<(Outcome, DirState), Fault> {
        let (found, node) = metadata(self.open(above, name, entry))?;
        let Some(node) = node else { return Ok((outcome_of(found), DirState::Absent)) };
        if self.job.removes() && is_listed_dir(&node, entry) {
            return Err(same());
        }
        let handle = metadata(above.handle())?;
        self.filler.publisher.naming.check_claim(parent, &*handle, name, node.meta())?;
        Ok((outcome_of(found), DirState::Open(node)))
    }

    /// The differences of a directory. Its times change with every file in it, and are not
    /// reported.
    fn of_dir(&self, entry: &Entry, node: &Arc<DirNode>) -> io::Result<Changes> {
        let handle = node.handle()?;
        let meta = self.job.with_extended(&*handle, None, handle.stat_self()?)?;
        let found = changes(entry, &meta, None, self.job.plan.keeps);
        Ok(found.without(Changes::TIME.with(Changes::ATIME)))
    }

    /// Compares the entry `name` with a directory, and opens it if it is one.
    fn open(
        &self,
        parent: &Arc<DirNode>,
        name: &Name,
        entry: &Entry,
    ) -> io::Result<(Changes, Option<Arc<DirNode>>)> {
        match parent.handle()?.stat(name, false)? {
            None => Ok((Changes::MISSING, None)),
            Some(meta) if meta.kind != MetaKind::Dir => Ok((Changes::KIND, None)),
            Some(_) => {
                let node = DirNode::open(parent, name.clone(), false)?;
                Ok((self.of_dir(entry, &node)?, Some(node)))
            }
        }
    }
}

/// True if the content of an entry with the differences `found` must be compared. A file of no size
/// may have some, as in /proc.
fn has_content(kind: &Kind, found: Changes) -> bool {
    let known = [Changes::MISSING, Changes::KIND, Changes::SIZE];
    matches!(kind, Kind::File { .. }) && !known.iter().any(|one| found.has(*one))
}

/// The changes of an entry whose directory is missing. Below the root, they say that the
/// directory's absence was already reported.
fn missing_in(dir: &RecvDir) -> Changes {
    Changes::MISSING.with(Changes::ABOVE.only_if(dir.parent.is_some()))
}

/// True if the existing entry is the listed object itself. A peer on the same machine may have
/// listed it. Removing it there would remove it here.
fn is_listed_object(node: &Arc<DirNode>, meta: &Meta, entry: &Entry) -> bool {
    let is_same = entry.id.is_some() && entry.id == meta.id;
    is_same || (entry.inode != 0 && entry.inode == node.number_of(meta, true))
}

fn is_listed_dir(node: &Arc<DirNode>, entry: &Entry) -> bool {
    let stat_result = node.handle().and_then(|handle| handle.stat_self());
    stat_result.is_ok_and(|meta| is_listed_object(node, &meta, entry))
}

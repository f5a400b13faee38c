//! Removals: removes extras, and existing entries that block others. Filter rules protect some
//! extras, including rules in files of the destination's own directories.

mod remove_tree;

use super::backup::not_backed_up;
use super::naming;
use crate::dirs::{DirNode, local_number};
use crate::receiver::dirs::{TakenNames, is_empty, names_in};
use crate::receiver::{Backups, BaseMethod, Decision, DirState, JobContext, RecvDir, is_stage};
use crate::rules::{self, RuleFileError};
use haul_model::words::{self, may_be_same_name};
use haul_model::{
    Changes, Delete, Entry, Fault, FaultKind, FileId, FilterSide, Kind, Name, OrFault, Outcome,
    Scope, Side, Subject, Systems, Walking,
};
use haul_plan::Kinds;
use haul_proto::Extra;
use haul_store::OnExisting;
use haul_tree::{Meta, MetaKind, TreeDir};
use parking_lot::Mutex;
use remove_tree::removal_order;
use std::collections::{BTreeSet, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Maximum number of removals in one report.
const REPORT_MAX: usize = 256;

/// The state that limits the removal of extras.
#[derive(Default)]
pub(crate) struct Deleting {
    /// Some of the sources could not be read, so an entry may look like an extra only because of
    /// that.
    withheld: AtomicBool,
    /// The warning about that was sent.
    has_warned: AtomicBool,
    /// The number of removed entries.
    count: AtomicU64,
}

/// Removes extras, and entries that a source replaces.
pub(crate) struct Removals<'a> {
    job: Arc<JobContext<'a>>,
    backups: Arc<Backups<'a>>,
    deleting: Deleting,
    /// See [`crate::receiver::Destination::source_lineage`].
    source_lineage: HashSet<FileId>,
    /// The numbers of the directories that a peer has listed as sources. It may be on this machine.
    peer_sources: Mutex<HashSet<u64>>,
}

impl<'a> Removals<'a> {
    pub(crate) fn of(backups: &Arc<Backups<'a>>, source_lineage: HashSet<FileId>) -> Arc<Self> {
        let (job, backups) = (Arc::clone(&backups.job), Arc::clone(backups));
        let (deleting, peer_sources) = (Deleting::default(), Mutex::default());
        Arc::new(Self { job, backups, deleting, source_lineage, peer_sources })
    }
}

impl Removals<'_> {
    /// Clears the place `name` in `dir` for a whole file or link: removes a directory, backs up any
    /// other entry.
    pub(crate) fn clear_place(
        &self,
        dir: &RecvDir,
        name: &Name,
        on_existing: OnExisting,
    ) -> Result<(), Fault> {
        let DirState::Open(node) = &dir.state else { return Ok(()) };
        if on_existing != OnExisting::Replace {
            return Ok(());
        }
        let replaces_dirs = match self.job.plan.replaces {
            Kinds::Contents => {
                self.backups.chunks.iter().for_each(|chunks| chunks.save_content(node, name));
                return Ok(());
            }
            Kinds::AllButFullDirs => false,
            Kinds::All => true,
        };
        let failed = |error: io::Error| Fault::from_io(Side::Destination, "make way", &error);
        let existing = node.handle().and_then(|handle| handle.stat(name, false)).map_err(failed)?;
        match existing {
            Some(Meta { kind: MetaKind::Dir, id: Some(id), .. })
                if dir.claims().is_some_and(|claims| claims.has_brought(id)) =>
            {
                Err(naming::name_taken())
            }
            // The directory is empty.
            Some(meta) if meta.kind == MetaKind::Dir && !replaces_dirs && self.job.plan.dry_run => {
                Ok(())
            }
            Some(meta) if meta.kind == MetaKind::Dir && !replaces_dirs => {
                node.handle().and_then(|handle| handle.remove_dir(name)).map_err(failed)
            }
            Some(meta) if meta.kind == MetaKind::Dir => {
                let mut deleted = Vec::new();
                // The entry that replaces the directory is reported in its place.
                let gone = self.remove_tree(dir, node, name, false, &mut deleted);
                self.job.report_deleted(deleted);
                gone.map_err(failed)
            }
            Some(_) => self.backups.back_up((node, &dir.taken), name).map_err(not_backed_up),
            None => Ok(()),
        }
    }

    /// Like [`Self::clear_place`], but only for a directory.
    pub(crate) fn clear_dir(
        &self,
        dir: &RecvDir,
        node: &Arc<DirNode>,
        name: &Name,
    ) -> Result<(), Fault> {
        let existing = node.handle().and_then(|handle| handle.stat(name, false));
        match existing {
            Ok(Some(Meta { kind: MetaKind::Dir, .. })) => {
                self.clear_place(dir, name, OnExisting::Replace)
            }
            // Other problems show when the entry is replaced.
            _ => Ok(()),
        }
    }

    /// Removes a directory before the file that replaces it is sent, if each operation takes a
    /// round trip. There files are published many at a time. A dry run checks that the removal
    /// would succeed, and reports what would be removed.
    pub(crate) fn cleared(
        &self,
        dir: &RecvDir,
        name: &Name,
        decision: Decision,
        found: Changes,
    ) -> Decision {
        let on_existing = match &decision {
            Decision::Base(_, BaseMethod::Link, _) if !self.job.plan.dry_run => return decision,
            Decision::Copy(on_existing) | Decision::Base(.., on_existing) => on_existing,
            _ => return decision,
        };
        let is_asked = self.job.ends.clears_early || self.job.plan.dry_run;
        if !is_asked || *on_existing == OnExisting::Keep {
            return decision;
        }
        // With base directories, `found` may be the differences from a base's entry.
        let cleared = match &dir.state {
            _ if found.has(Changes::KIND) || self.job.plan.dry_run => {
                self.clear_place(dir, name, *on_existing)
            }
            DirState::Open(node) if self.job.plan.bases.is_some() => {
                self.clear_dir(dir, node, name)
            }
            _ => Ok(()),
        };
        match cleared {
            Ok(()) => decision,
            Err(fault) => Decision::Settled(Outcome::Failed(fault)),
        }
    }

    /// Stops further removals if some of the sources could not be read. Sources that have vanished
    /// do not stop them.
    pub(crate) fn withhold_removals(&self, fault: &Fault) {
        let Some(Delete { ignore_errors: false }) = self.job.plan.delete else { return };
        if fault.side == Side::Source && fault.kind != FaultKind::NotFound {
            self.deleting.withheld.store(true, Ordering::Relaxed);
        }
    }

    /// Removes the extras `names` in `dir`.
    pub(crate) fn delete_extras(&self, dir: &RecvDir, names: BTreeSet<Name>) {
        let DirState::Open(node) = &dir.state else { return };
        let mut deleted = Vec::new();
        let scope = dir.scope();
        let is_protected = |name: &Name, meta: &Meta| {
            self.is_protected(&scope, &dir.path_of(Some(name)), name, meta, false)
                || self.is_skipped_mount(node, meta)
        };
        let look = |name: Name| {
            let stat = node.handle().and_then(|handle| handle.stat(&name, false));
            let is_dir = matches!(stat, Ok(Some(Meta { kind: MetaKind::Dir, .. })));
            (is_dir, name, stat)
        };
        let mut extras: Vec<_> = names.into_iter().map(look).collect();
        extras.sort_by(|one, other| removal_order((one.0, &one.1), (other.0, &other.1)));
        let mut known_distinct = HashSet::new();
        for (_, name, stat) in extras.into_iter().rev() {
            if self.job.is_ending() || self.check_withheld(dir) {
                break;
            }
            let removed = match stat {
                // It was removed meanwhile.
                Ok(None) => Ok(()),
                Ok(Some(meta)) if self.is_source(&meta) => Err(source_error()),
                Ok(Some(meta)) if !is_extra(dir, node, &name, &meta, &mut known_distinct) => {
                    Err(io::Error::other(
                        "it may be another entry of this job, whose name is the same to the destination",
                    ))
                }
                Ok(Some(meta)) if is_protected(&name, &meta) => Ok(()),
                Ok(Some(meta)) if meta.kind == MetaKind::Dir => {
                    self.remove_tree(dir, node, &name, true, &mut deleted)
                }
                Ok(Some(meta)) => {
                    let path = dir.path_of(Some(&name));
                    self.remove_one(dir, node, &name, path, reported_kind(&meta), &mut deleted)
                        .map(drop)
                }
                Err(error) => Err(error),
            };
            if let Err(error) = removed {
                self.not_removed(&dir.path_of(Some(&name)), &error);
            }
        }
        self.job.report_deleted(deleted);
    }

    /// Records that a peer has listed the source directory `entry`.
    pub(crate) fn expect_source(&self, entry: &Entry) {
        if entry.id.is_none() && entry.inode != 0 {
            self.peer_sources.lock().insert(entry.inode);
        }
    }

    /// True if the entry is a source of the job, or holds one that is not a peer's.
    pub(crate) fn is_source(&self, meta: &Meta) -> bool {
        let is_peers = |id| self.peer_sources.lock().contains(&local_number(id));
        meta.id.is_some_and(|id| self.source_lineage.contains(&id) || is_peers(id))
    }

    /// True if nothing more may be removed.
    pub(crate) fn has_withheld_removals(&self) -> bool {
        self.deleting.withheld.load(Ordering::Relaxed)
    }

    /// Like [`Self::has_withheld_removals`], with a warning the first time.
    fn check_withheld(&self, dir: &RecvDir) -> bool {
        let withheld = self.has_withheld_removals();
        if withheld && !self.deleting.has_warned.swap(true, Ordering::Relaxed) {
            self.job.warn(
                &dir.path_of(None),
                "skipping all further removals: not all of the source could be read",
            );
        }
        withheld
    }

    /// Reports that the entry at `path` could not be removed.
    pub(crate) fn not_removed(&self, path: &[u8], error: &io::Error) {
        self.job.fail_late(path, Fault::from_io(Side::Destination, "remove it", error));
    }

    /// Removes one entry; a directory must be empty. False if it stays because the maximum number
    /// of removals is reached.
    fn remove_one(
        &self,
        dir: &RecvDir,
        node: &Arc<DirNode>,
        name: &Name,
        path: Vec<u8>,
        kind: Kind,
        deleted: &mut Vec<Extra>,
    ) -> io::Result<bool> {
        let before = self.deleting.count.fetch_add(1, Ordering::Relaxed);
        if self.job.plan.delete_max.is_some_and(|max| before >= max) {
            self.job.reporter.spared();
            return Ok(false);
        }
        let is_in_dir = matches!(&dir.state, DirState::Open(own) if Arc::ptr_eq(own, node));
        if is_in_dir && !self.job.plan.dry_run {
            dir.expect_change();
        }
        let is_dir = matches!(kind, Kind::Dir);
        if !is_dir {
            let elsewhere = TakenNames::default();
            let taken = if is_in_dir { &dir.taken } else { &elsewhere };
            self.backups.back_up_extra((node, taken), name)?;
        }
        if !self.job.plan.dry_run {
            let handle = node.handle()?;
            if is_dir { handle.remove_dir(name)? } else { handle.remove_file(name)? }
        }
        self.job.reporter.deleted(&path, &kind);
        deleted.push(Extra { path: words::shown(path), kind });
        if deleted.len() >= REPORT_MAX {
            self.job.sender.extras(std::mem::take(deleted));
        }
        Ok(true)
    }
}

/// False if `name` may lead to another entry of the job, in a directory that treats both names as
/// one. `known_distinct` collects listed names that are proven to be other entries.
fn is_extra(
    dir: &RecvDir,
    node: &Arc<DirNode>,
    name: &Name,
    meta: &Meta,
    known_distinct: &mut HashSet<Name>,
) -> bool {
    let Ok(handle) = node.handle() else { return false };
    let listed = dir.extras.listed.lock();
    if handle.capabilities().has_object_ids {
        let is_claimed = |id| dir.claims().is_some_and(|claims| claims.has(id));
        let leads_to_it = |listed: &Name| {
            let found = handle.stat(listed, false);
            found.is_ok_and(|found| found.is_some_and(|found| found.id == meta.id))
        };
        let may_be_listed = listed.iter().flatten().any(leads_to_it);
        return !may_be_listed && !meta.id.is_some_and(is_claimed);
    }
    let is_like = |listed: &&Name| may_be_same_name(listed.as_bytes(), name.as_bytes());
    // Two names that the directory both spells out are two entries. A name that does not exist
    // leads to no entry.
    let is_distinct = |listed: &Name| {
        handle.has(listed).is_ok_and(|has| !has) || handle.has_spelling(listed).unwrap_or(false)
    };
    let mut matching = listed.iter().flatten().filter(is_like);
    matching.all(|listed| {
        known_distinct.contains(listed)
            || is_distinct(listed) && known_distinct.insert(listed.clone())
    })
}

fn source_error() -> io::Error {
    io::Error::other("it is a source of this command, or contains one")
}

impl Removals<'_> {
    pub(crate) fn walking(&self) -> Walking {
        self.job.plan.walking
    }

    /// True if the walk skips `dir` because it is on another file system than the top directory of
    /// its source.
    pub(crate) fn is_on_other_file_system(&self, dir: &RecvDir) -> bool {
        if self.walking().systems == Systems::All {
            return false;
        }
        let system = |dir: &RecvDir| match &dir.state {
            DirState::Open(node) => node.id().map(|id| id.dev),
            _ => None,
        };
        let mut top = dir;
        while let Some(above) = top.parent.as_deref().filter(|above| above.parent.is_some()) {
            top = above;
        }
        system(top).zip(system(dir)).is_some_and(|(first, here)| first != here)
    }

    /// True if an entry of `node` is the root of another file system, which the job skips.
    pub(crate) fn is_skipped_mount(&self, node: &DirNode, meta: &Meta) -> bool {
        let is_other = |here: FileId| meta.id.is_some_and(|existing| existing.dev != here.dev);
        self.walking().systems != Systems::All
            && meta.kind == MetaKind::Dir
            && node.id().is_some_and(is_other)
    }

    pub(crate) fn remove_missing(
        &self,
        dir: &RecvDir,
        name: &Name,
        deleted: &mut Vec<Extra>,
    ) -> io::Result<()> {
        let DirState::Open(node) = &dir.state else { return Ok(()) };
        let Some(meta) = node.handle()?.stat(name, false)? else { return Ok(()) };
        if self.is_source(&meta) {
            return Err(source_error());
        }
        if self.is_protected(&dir.scope(), &dir.path_of(Some(name)), name, &meta, false) {
            return Ok(());
        }
        if meta.kind != MetaKind::Dir {
            let path = dir.path_of(Some(name));
            return self.remove_one(dir, node, name, path, reported_kind(&meta), deleted).map(drop);
        }
        if !self.replaces_dirs() && !is_empty(node, name)? {
            let message = "keeping the directory: it is not empty";
            self.job.warn(&dir.path_of(Some(name)), message);
            return Ok(());
        }
        self.remove_tree(dir, node, name, true, deleted)
    }
}

/// The kind of an entry for reports.
pub(crate) fn reported_kind(meta: &Meta) -> Kind {
    meta.listed_kind(|| Ok(Vec::new())).unwrap_or(Kind::Special)
}

impl Removals<'_> {
    /// True if the entry `name` at `path` is no extra: rules protect it, it holds backups, or it is
    /// a temporary entry of haul. `is_being_removed`: its directory will be removed.
    pub(in crate::receiver) fn is_protected(
        &self,
        scope: &Scope,
        path: &[u8],
        name: &Name,
        meta: &Meta,
        is_being_removed: bool,
    ) -> bool {
        let is_dir = meta.kind == MetaKind::Dir;
        let subject = Subject { path, is_dir, side: FilterSide::Receiver, is_being_removed };
        self.job.filter.excludes(&subject, scope)
            || is_stage(&reported_kind(meta), Some(name))
            || self.backups.is_root(meta.id)
    }

    /// True if this mirror removes extras in the directory `target`, or `target` itself, at its own
    /// place: a link in `above` that leads to it must not be followed, since the entries of one
    /// directory would be extras of the other. False if rules leave it out.
    pub(in crate::receiver) fn may_mirror(&self, above: &RecvDir, target: &Arc<DirNode>) -> bool {
        let is_at = |dir: &&RecvDir, here: &DirNode| match &dir.state {
            DirState::Open(node) => node.id() == here.id(),
            _ => false,
        };
        let mut below = Vec::new();
        let mut here = target;
        let listed = loop {
            let mut dirs = std::iter::successors(Some(above), |dir| dir.parent.as_deref());
            match (dirs.find(|dir| is_at(dir, here)), here.place()) {
                (Some(listed), _) => break listed,
                (None, Some((outer, name))) => {
                    below.push((name, here));
                    here = outer;
                }
                (None, None) => return false,
            }
        };
        let mut path = listed.path_prefix();
        let is_left_out = |(name, dir): (&Name, &Arc<DirNode>)| {
            path.extend(name.as_bytes());
            let is_hidden = self.job.filter.hides(&path, true) != Some(false);
            let is_left_out =
                is_hidden && self.is_protected(&listed.scope(), &path, name, dir.meta(), false);
            path.push(b'/');
            is_left_out
        };
        let finds_extras = self.job.plan.delete.is_some() && !listed.is_implied();
        finds_extras && listed.parent.is_some() && !below.into_iter().rev().any(is_left_out)
    }

    /// The filter rules for the entries of `dir`, from the job and from the rule files in `dir`.
    ///
    /// # Errors
    /// If `dir` can't be read or a rule file in it was skipped: then nothing in `dir` may be
    /// removed.
    pub(in crate::receiver) fn scope_of(
        &self,
        dir: &dyn TreeDir,
        above: &Scope,
        path_prefix: &[u8],
    ) -> io::Result<Scope> {
        let scope = self.partial_scope(dir, above, path_prefix)?;
        RuleFileError::skipped_files(&scope).map_or(Ok(scope), |unruly| Err(unusable(&unruly)))
    }

    fn partial_scope(
        &self,
        dir: &dyn TreeDir,
        above: &Scope,
        path_prefix: &[u8],
    ) -> io::Result<Scope> {
        match self.job.filter.needs_whole_paths() {
            true => rules::enter(&self.job.filter, above, dir, path_prefix)
                .map_err(|error| unusable(&error)),
            false => Ok(Scope::default()),
        }
    }

    /// True if directories that are not empty may be replaced.
    pub(in crate::receiver) fn replaces_dirs(&self) -> bool {
        self.job.plan.replaces == Kinds::All
    }

    /// Records the entries of `dir`, if the job looks for extras. If a rule file was skipped,
    /// reports that; then nothing in `dir` is removed.
    ///
    /// # Errors
    /// If the rules of the directory are unknown: then nothing can be done in it.
    pub(in crate::receiver) fn record_existing_names(&self, dir: &RecvDir) -> Result<(), Fault> {
        let DirState::Open(node) = &dir.state else { return Ok(()) };
        let (finds, replaces_dirs) = (self.job.plan.finds_extras, self.replaces_dirs());
        if dir.fresh || !(finds || replaces_dirs) || self.is_on_other_file_system(dir) {
            return Ok(());
        }
        // The rules as they are before anything is copied.
        let above = dir.parent.as_ref().map(|above| above.scope()).unwrap_or_default();
        let path_prefix = dir.path_prefix();
        let scope = node
            .handle()
            .and_then(|handle| self.partial_scope(&*handle, &above, &path_prefix))
            .or_fault(Side::Destination, "read the directory")?;
        if let Some(unruly) = RuleFileError::skipped_files(&scope)
            && (self.job.removes_extras() || !finds)
        {
            self.job.fail_late(&dir.path_of(None), unruly.fault(Side::Destination));
        }
        dir.set_rules(scope);
        if !finds {
            return Ok(());
        }
        match names_in(node) {
            Ok(names) => {
                let tells_apart = node.handle().is_ok_and(|handle| {
                    handle.capabilities().has_object_ids && handle.has_distinct_names()
                });
                *dir.extras.listed.lock() = (!tells_apart).then(Vec::new);
                *dir.extras.unlisted.lock() = Some(names);
            }
            // The job that removes extras reports it.
            Err(_) if !self.job.removes_extras() => {}
            Err(error) => {
                let fault = Fault::from_io(Side::Destination, "read the directory", &error);
                self.job.fail_late(&dir.path_of(None), fault);
            }
        }
        Ok(())
    }
}

fn unusable(unruly: &RuleFileError) -> io::Error {
    io::Error::other(unruly.fault(Side::Destination).message)
}

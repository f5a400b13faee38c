//! Files that were renamed in the sources. A large file that the destination lacks may be one that
//! will be removed there. Once both sides have hashed it, it gets its new name as a hard link. The
//! old name is removed with the other extras.
//!
//! For that, extras are removed only after the whole listing. A file whose old name may still be
//! listed waits, too. Both lists are bounded: beyond the bounds, entries are removed or requested
//! at once.

use super::{ProbeResult, Provider};
use crate::Job;
use crate::dirs::DirNode;
use crate::receiver::filler::hashing::Candidate;
use crate::receiver::publish::waiting::is_like_new;
use crate::receiver::{Decision, DirState, Filler, Pending, RecvDir};
use haul_model::{Changes, Entry, FileId, Kept, Name, Outcome, Scope};
use haul_plan::changes;
use haul_proto::{LIST_WINDOW, OutcomeItem, PACK_FILE_MAX, Want};
use haul_store::{OnExisting, Publication};
use haul_tree::MetaKind;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::Arc;

/// Maximum number of files that are known by their old names.
const KNOWN_MAX: usize = 65_536;

/// Maximum number of names whose removal is deferred.
const DEFERRED_MAX: usize = 65_536;

/// Maximum listing cost of the files that wait: the listing needs room to continue.
const HELD_COST_MAX: u64 = LIST_WINDOW / 2;

/// Minimum free space, in bytes, to defer removals.
const FREE_MIN: u64 = 1 << 30;

/// The files that may have been renamed; `None` if the job does not look for them.
pub(crate) struct Renames(Option<Mutex<RenameCandidates>>);

#[derive(Default)]
struct RenameCandidates {
    /// Files that will be removed, by length and time in whole seconds.
    known: HashMap<(u64, i64), Vec<OldFile>>,
    known_count: usize,
    /// Names to remove after the listing, by directory.
    deferred: Vec<(Arc<RecvDir>, BTreeSet<Name>)>,
    deferred_names: usize,
    /// How many of `deferred` were searched. The search starts once a listed file may match.
    searched: usize,
    is_search_needed: bool,
    /// Files that wait for the end of the listing, and their total cost.
    held: VecDeque<Box<Pending>>,
    held_cost: u64,
    listed_all: bool,
    /// The number of files that are being compared.
    open: usize,
}

/// A file that will be removed.
#[derive(Clone)]
pub(crate) struct OldFile {
    pub(crate) node: Arc<DirNode>,
    pub(crate) name: Name,
    pub(crate) id: FileId,
}

/// A directory with entries to remove, the rules for that, and the path of the directory with a
/// final slash.
struct ClearedDir {
    node: Arc<DirNode>,
    scope: Scope,
    path_prefix: Vec<u8>,
}

impl Renames {
    /// Enabled if `job` allows it and each role hashes files on its own machine.
    pub(crate) fn of(job: &Job, reads_own: bool) -> Self {
        let (policy, mirror) = (job.task.copies(), job.task.mirrors());
        let needed = Kept::MODE.with(Kept::TIMES);
        let keeps = policy.is_some_and(|policy| {
            policy.keeps.and(needed) == needed && !policy.dry_run && !policy.verify
        });
        // With delays, all files are published at the end.
        let is_plain = job.dest.backup.is_none()
            && mirror.is_some_and(|mirror| {
                !mirror.preallocates && !mirror.delays_updates && mirror.delete_max.is_none()
            });
        let looks = reads_own && keeps && is_plain && job.task.finds_renamed();
        Self(looks.then(Mutex::default))
    }
}

impl RenameCandidates {
    fn key(entry: &Entry) -> (u64, i64) {
        (entry.size(), entry.attributes.mtime.secs)
    }

    /// Takes out a file with the length and time of `entry`.
    fn take(&mut self, entry: &Entry) -> Option<OldFile> {
        let old = self.known.get_mut(&Self::key(entry))?.pop()?;
        self.known_count -= 1;
        Some(old)
    }

    fn is_settled(&self) -> bool {
        self.listed_all && self.open == 0
    }
}

impl Provider for Renames {
    fn may_have(&self, filler: &Filler<'_>, file: &Pending) -> bool {
        // A destination that this job created has no extras.
        self.0.is_some()
            && !filler.is_new
            && file.found.has(Changes::MISSING)
            && file.entry.size() > PACK_FILE_MAX
            && !filler.job.is_hard_linked(&file.entry)
    }

    /// Compares the file with a candidate. Without one, the file waits for the end of the listing.
    fn probe(&self, filler: &Filler<'_>, file: Box<Pending>, wants: &mut Vec<Want>) -> ProbeResult {
        let Some(state) = &self.0 else { return ProbeResult::PassedOn(file) };
        state.lock().is_search_needed = true;
        self.collect_candidates(filler);
        let mut state = state.lock();
        if let Some(old) = state.take(&file.entry) {
            state.open += 1;
            drop(state);
            self.hash_with_old(filler, file, old, wants);
            return ProbeResult::Kept;
        }
        if state.listed_all || state.held_cost + file.cost > HELD_COST_MAX {
            return ProbeResult::PassedOn(file);
        }
        file.dir.add_pending();
        state.held_cost += file.cost;
        state.held.push_back(file);
        ProbeResult::Kept
    }
}

impl Renames {
    /// Defers the removal of the extras `names` in `dir`, or removes them.
    pub(crate) fn defer_or_delete(
        &self,
        filler: &Filler<'_>,
        dir: &Arc<RecvDir>,
        names: BTreeSet<Name>,
    ) {
        let has_room = || {
            let DirState::Open(node) = &dir.state else { return false };
            let handle = node.handle().and_then(|handle| handle.local_dir());
            handle
                .ok()
                .and_then(|dir| haul_sys::free_space(&dir))
                .is_none_or(|free_space| free_space.bytes >= FREE_MIN)
        };
        let is_deferred = match &self.0 {
            Some(_) if names.is_empty() => return,
            // Another job removes the extras in any case.
            Some(state) if !filler.job.removes_extras() || has_room() => {
                let mut state = state.lock();
                let has_capacity = state.deferred_names + names.len() <= DEFERRED_MAX;
                if has_capacity {
                    state.deferred_names += names.len();
                    dir.add_pending();
                    state.deferred.push((Arc::clone(dir), names.clone()));
                }
                has_capacity
            }
            _ => false,
        };
        match is_deferred {
            true => self.collect_candidates(filler),
            false if filler.job.removes_extras() => {
                filler.publisher.removals.delete_extras(dir, names)
            }
            false => {}
        }
    }

    /// Handles the end of the listing: compares or requests the waiting files. Removes the deferred
    /// extras, unless comparisons are still running.
    pub(crate) fn settle_renames(
        &self,
        filler: &Filler<'_>,
        wants: &mut Vec<Want>,
        outcomes: &mut Vec<OutcomeItem>,
    ) {
        let Some(state) = &self.0 else { return };
        let held: Vec<_> = {
            let mut state = state.lock();
            let held: Vec<_> = std::mem::take(&mut state.held).into();
            let with_old = |file: Box<Pending>| {
                let old = state.take(&file.entry);
                state.open += usize::from(old.is_some());
                (file, old)
            };
            held.into_iter().map(with_old).collect()
        };
        for (file, old) in held {
            let (dir, index) = (file.dir(), file.index);
            match old {
                Some(old) => self.hash_with_old(filler, file, old, wants),
                None => {
                    let outcome = filler.want_file(file, wants);
                    outcomes.extend(outcome.map(|outcome| OutcomeItem { index, outcome }));
                }
            }
            // The directory counted the file twice: for waiting and for its content.
            filler.completion.settle(dir);
        }
        state.lock().listed_all = true;
        self.remove_deferred(filler);
    }

    /// Removes the deferred extras once all comparisons have ended.
    fn remove_deferred(&self, filler: &Filler<'_>) {
        let Some(state) = &self.0 else { return };
        let deferred = {
            let mut state = state.lock();
            if !state.is_settled() { Vec::new() } else { std::mem::take(&mut state.deferred) }
        };
        for (dir, names) in deferred {
            if filler.job.is_ending() {
                return;
            }
            if filler.job.removes_extras() {
                filler.publisher.removals.delete_extras(&dir, names);
            }
            filler.completion.settle(dir);
        }
    }

    /// Links the old file to the new name, or else requests the content.
    pub(crate) fn take_renamed(&self, filler: &Filler<'_>, file: Pending, old: &OldFile) {
        let is_linked = self.link_to_old(filler, &file, old).unwrap_or(false);
        if is_linked {
            filler.job.reporter.renamed();
        }
        // First, so that the last file does not end the job before the extras are removed.
        self.end_renaming(filler);
        match is_linked {
            true => filler.linker.report_one(file, 0, Outcome::Copied),
            false => filler.want_now(file, 0),
        }
    }

    /// Compares a file with its candidate.
    fn hash_with_old(
        &self,
        filler: &Filler<'_>,
        file: Box<Pending>,
        old: OldFile,
        wants: &mut Vec<Want>,
    ) {
        let otherwise = Decision::Copy(file.on_existing);
        filler.hash_candidates(*file, vec![Candidate::OldFile(old)], otherwise, wants);
    }

    /// Ends the comparison of a file with its candidate.
    pub(crate) fn end_renaming(&self, filler: &Filler<'_>) {
        if let Some(state) = &self.0 {
            state.lock().open -= 1;
        }
        self.remove_deferred(filler);
    }

    /// Makes `file` a further name of the old file; false if the result would differ from a new
    /// file.
    fn link_to_old(&self, filler: &Filler<'_>, file: &Pending, old: &OldFile) -> io::Result<bool> {
        let Pending { dir, name, entry, .. } = file;
        let DirState::Open(node) = &dir.state else { return Ok(false) };
        let (handle, from) = (node.handle()?, old.node.handle()?);
        let Some(there) = filler.job.stat_entry(&*from, &old.name)? else { return Ok(false) };
        let is_it = there.id == Some(old.id)
            && there.links == 1
            && there.kind == MetaKind::File { size: entry.size() }
            && there.attributes.mtime.secs == entry.attributes.mtime.secs;
        // Otherwise the file would keep both names.
        let is_going = !filler.publisher.removals.has_withheld_removals();
        if !is_it || !is_going || !is_like_new(&filler.job, node, &*from, &old.name, &there)? {
            return Ok(false);
        }
        dir.expect_change();
        filler.publisher.durability.register_file_system(node);
        let keeps = filler.job.plan.keeps;
        let times = Kept::TIMES.only_if(there.attributes.mtime != entry.attributes.mtime);
        let which = changes(entry, &there, None, keeps).attributes(keeps).with(times);
        if !which.is_empty() {
            from.set_file_attributes(&old.name, there.id, &entry.attributes, which)?;
        }
        let made = handle.make_hard_link(&*from, &old.name, there.id, name, OnExisting::Keep)?;
        if made != Publication::Published {
            return Ok(false);
        }
        dir.remove_stale(name);
        if let Some(source) = filler.job.resumable(entry) {
            handle.remove_leftovers(name, &source);
        }
        Ok(filler.publisher.durability.sync_kept(dir, node, name).is_ok())
    }

    /// Collects the files among the deferred extras, once they may be of use.
    fn collect_candidates(&self, filler: &Filler<'_>) {
        let Some(state) = &self.0 else { return };
        loop {
            let (dir, names) = {
                let mut state = state.lock();
                let next = state.deferred.get(state.searched).cloned();
                let Some(next) = next.filter(|_| state.is_search_needed) else { return };
                state.searched += 1;
                next
            };
            let DirState::Open(node) = &dir.state else { continue };
            let mut found = Vec::new();
            let above = ClearedDir {
                node: Arc::clone(node),
                scope: dir.scope(),
                path_prefix: dir.path_prefix(),
            };
            self.collect_from(filler, &above, names, false, &mut found);
            while let Some(below) = found.pop() {
                if filler.job.control.stopped() || state.lock().known_count >= KNOWN_MAX {
                    return;
                }
                let names = below.node.handle().and_then(|handle| handle.entries());
                let names = names.into_iter().flatten().map(|entry| entry.name).collect();
                self.collect_from(filler, &below, names, true, &mut found);
            }
        }
    }

    /// Records the files among `names` in a directory, and adds its subdirectories to `found`.
    /// `is_going`: the directory itself will be removed.
    fn collect_from(
        &self,
        filler: &Filler<'_>,
        at: &ClearedDir,
        names: BTreeSet<Name>,
        is_going: bool,
        found: &mut Vec<ClearedDir>,
    ) {
        let (Some(state), Ok(handle)) = (&self.0, at.node.handle()) else {
            return;
        };
        for name in names {
            let Ok(Some(meta)) = handle.stat(&name, false) else { continue };
            let path = [&*at.path_prefix, name.as_bytes()].concat();
            let is_protected =
                || filler.publisher.removals.is_protected(&at.scope, &path, &name, &meta, is_going);
            if filler.publisher.removals.is_source(&meta) || is_protected() {
                continue;
            }
            match (meta.kind, meta.id) {
                (MetaKind::Dir, _) => found.extend(self.open_subdir(filler, at, name, &path)),
                (MetaKind::File { size }, Some(id)) if size > PACK_FILE_MAX && meta.links == 1 => {
                    let old = OldFile { node: Arc::clone(&at.node), name, id };
                    let key = (size, meta.attributes.mtime.secs);
                    let mut state = state.lock();
                    if state.known_count >= KNOWN_MAX {
                        return;
                    }
                    state.known_count += 1;
                    state.known.entry(key).or_default().push(old);
                }
                _ => {}
            }
        }
    }

    /// Opens the directory `name`, if it is on the same file system and no mount point.
    fn open_subdir(
        &self,
        filler: &Filler<'_>,
        at: &ClearedDir,
        name: Name,
        path: &[u8],
    ) -> Option<ClearedDir> {
        let node = DirNode::open(&at.node, name, false).ok()?;
        let handle = node.handle().ok()?;
        let is_mounted = handle.local_dir().is_ok_and(|dir| haul_sys::is_mount_point(&dir));
        let is_here = at.node.id()?.dev == node.id()?.dev && !is_mounted;
        let path_prefix = [path, b"/"].concat();
        let scope = filler.publisher.removals.scope_of(&*handle, &at.scope, &path_prefix).ok()?;
        is_here.then_some(ClearedDir { node, scope, path_prefix })
    }
}

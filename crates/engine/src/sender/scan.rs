//! Walks the sources and lists their entries in the order of the protocol: the files of a directory
//! first, then its subdirectories one by one.

mod attributes;
mod batching;
mod linked;
mod places;

use self::attributes::{AttributeReader, has_holes, warn, with_owner};
use self::batching::{Batch, not_a_directory, not_recursive, too_deep};
use self::linked::Groups;
use super::accounts::SentAccounts;
use super::earlier::Earlier;
use super::special::Specials;
use super::{Item, Sender, Source, loss};
use crate::control::Reporter;
use crate::dirs::{DirNode, OpenDirs, Selection};
use crate::rules::{self, RuleFileError};
use crate::threads::with_helpers;
use crate::walk::{Depth, Found, Merged, PlaceListing, Rules, Subdirs, Walk, into_itself, look_up};
use crate::workers::workers;
use crate::{Job, parked};
use haul_model::{
    Attributes, Entry, Fault, FaultKind, FileId, Filter, Kept, Kind, MAX_DEPTH, Name, OrFault,
    Relative, Side, Systems, Timestamp, Walking, words,
};
use haul_proto::ListItem;
use haul_tree::{Meta, MetaKind, Tree};
use std::sync::Arc;

/// One walk over all sources of a job.
pub(crate) struct Scan<'s, 'a> {
    sender: &'s Sender<'a>,
    tree: &'s dyn Tree,
    recursive: bool,
    specials: Specials<'s>,
    /// The destination and the directories that contain it. None of them can be copied into the
    /// destination. Known only if both are on one machine.
    dest_lineage: &'s [FileId],
    /// Set if several sources become one directory.
    earlier: Option<Earlier<'s>>,
    filter: &'s Filter,
    walking: Walking,
    attributes: AttributeReader<'s>,
    /// Files with several names, and the numbers under which they are listed.
    groups: Groups,
    /// Names of users and groups, if these are sent.
    accounts: Option<SentAccounts>,
    next_index: u64,
    /// The number of the current source, if sources are walked one by one.
    nth_source: u64,
    batch: Batch,
}

/// The mode of a source's parent directory whose attributes are not listed.
const IMPLIED_DIR_MODE: u32 = 0o777;

/// The job ended during the walk.
struct Stopped;

/// A directory on the current path, with the number of its subdirectories that were visited.
struct Level {
    index: u64,
    subdirs: Arc<Subdirs>,
    visited: usize,
}

impl<'s, 'a> Scan<'s, 'a> {
    pub(crate) fn new(
        sender: &'s Sender<'a>,
        tree: &'s dyn Tree,
        job: &'s Job,
        dest_lineage: &'s [FileId],
    ) -> Self {
        Self {
            sender,
            tree,
            recursive: job.sources.recursive,
            specials: Specials::of(job),
            dest_lineage,
            // Only a copy can replace an entry of an earlier source.
            earlier: job.task.copies().and_then(|_| Earlier::of(job, tree)),
            filter: &job.filter,
            walking: job.task.mirrors().map_or_else(Walking::default, |mirror| mirror.walking),
            attributes: AttributeReader::of(job),
            groups: Groups::of(job.links_memory_max),
            accounts: (sender.is_wire() && job.sends_account_names()).then(SentAccounts::default),
            next_index: 1,
            nth_source: 0,
            batch: Batch::default(),
        }
    }

    /// Walks the sources of `job` and lists all entries. Returns early if the job has ended.
    pub(crate) fn run(mut self, job: &Job) {
        let walked = self.send_mover().and_then(|()| match job.task.mirrors() {
            Some(_) => self.places(job),
            None => self.one_by_one(&job.sources.paths),
        });
        if walked.is_err() {
            return;
        }
        if let Some(Err(error)) = self.sender.reporter.map(Reporter::listed_all) {
            return self.sender.control.fail(error);
        }
        self.sender.ledger.in_flight.lock().listed_all = true;
        if self.push(ListItem::DirEnd { dir: 0 }).is_ok() {
            self.flush();
        }
    }

    /// Walks `sources` one after the other.
    fn one_by_one(&mut self, sources: &[Vec<u8>]) -> Result<(), Stopped> {
        let open = Arc::new(OpenDirs::default());
        sources.iter().try_for_each(|path| {
            self.nth_source += 1;
            match Source::find(self.tree, path, self.sender.removes(), &open) {
                Ok(source) => self.found(source, path),
                Err(fault) => self.fault(0, None, None, Some(path.clone()), fault),
            }
        })
    }

    /// Sends the user and group that perform the move, if sources must not lose attributes.
    fn send_mover(&mut self) -> Result<(), Stopped> {
        if !self.sender.plan.lossless {
            return Ok(());
        }
        let (user, group) = (haul_sys::effective_user(), haul_sys::effective_group());
        self.push(ListItem::Mover { user, group })
    }

    /// The reason why the entry `name` of `node`, or `node` itself, stays: a move would lose some
    /// of its attributes.
    fn loss(&self, node: &Arc<DirNode>, name: Option<&Name>) -> Option<Fault> {
        if self.sender.plan.lossless { loss::fault(node, name) } else { None }
    }

    /// Walks one of several sources.
    fn found(&mut self, source: Source, path: &[u8]) -> Result<(), Stopped> {
        let (Source::Whole(node) | Source::Named { dir: node, .. }) = &source;
        self.attributes.warn_unsupported(self.sender, node, path);
        if let Err(unruly) = self.begin_rules(&source, path) {
            return self.fault(0, None, None, Some(path.to_vec()), unruly.fault(Side::Source));
        }
        let Some(earlier) = &mut self.earlier else { return self.source(&source, path) };
        if let Err(fault) = earlier.begin(&source, path) {
            return self.fault(0, None, None, Some(path.to_vec()), fault);
        }
        self.source(&source, path)?;
        if let Some(earlier) = &mut self.earlier {
            earlier.end(source);
        }
        Ok(())
    }

    fn source(&mut self, source: &Source, path: &[u8]) -> Result<(), Stopped> {
        let shown = || Some(path.to_vec());
        let (dir, name, has_slash) = match source {
            Source::Whole(node) => {
                return match self.recursive {
                    true => self.tree(0, Arc::clone(node), None, path),
                    false => self.fault(0, Some(Arc::clone(node)), None, shown(), not_recursive()),
                };
            }
            Source::Named { dir, name, follow } => (Arc::clone(dir), name.clone(), *follow),
        };
        let follow = has_slash || self.sender.follow;
        // As in rsync, a source that is a dangling link counts as missing.
        let inspected =
            self.look_up_restored(&dir, &name, follow).map_err(|fault| match fault.kind {
                FaultKind::Link => Fault { kind: FaultKind::NotFound, ..fault },
                _ => fault,
            });
        let meta = match inspected {
            Ok(meta) => meta,
            Err(fault) => return self.fault(0, Some(dir), Some(name), shown(), fault),
        };
        let selected = dir.select(self.filter).map(Selection::without_files);
        if selected.is_ok_and(|mut all| all.excludes(&name, meta.kind == MetaKind::Dir)) {
            return Ok(());
        }
        if meta.kind != MetaKind::Dir && has_slash {
            return self.fault(0, Some(dir), Some(name), shown(), not_a_directory());
        }
        if meta.kind != MetaKind::Dir {
            return match self.specials.resolve(&dir, &name, meta, self.sender.control) {
                Ok(meta) => self.file(0, &dir, name, follow, meta, None),
                Err(fault) => self.fault(0, Some(dir), Some(name), shown(), fault),
            };
        }
        if !self.recursive {
            return self.fault(0, Some(dir), Some(name), shown(), not_recursive());
        }
        match DirNode::open(&dir, name.clone(), follow) {
            Ok(node) => self.tree(0, node, Some(name), path),
            Err(error) => {
                let fault = Fault::from_io(Side::Source, "open the directory", &error);
                self.fault(0, Some(dir), Some(name), shown(), fault)
            }
        }
    }

    /// Looks up a source. One that a killed move has set aside gets its name back first.
    fn look_up_restored(
        &self,
        dir: &Arc<DirNode>,
        name: &Name,
        follow: bool,
    ) -> Result<Meta, Fault> {
        match look_up(dir, name, follow) {
            Err(fault)
                if fault.kind == FaultKind::NotFound
                    && self.sender.restores_sources()
                    && dir.handle().is_ok_and(|dir| parked::restore_one(&*dir, name)) =>
            {
                look_up(dir, name, follow)
            }
            inspected => inspected,
        }
    }

    /// Lists the directory `node` and everything below it.
    fn tree(
        &mut self,
        parent: u64,
        node: Arc<DirNode>,
        name: Option<Name>,
        path: &[u8],
    ) -> Result<(), Stopped> {
        if node.id().is_some_and(|id| self.dest_lineage.contains(&id)) {
            return self.fault(parent, Some(node), None, Some(path.to_vec()), into_itself());
        }
        let obstacle = self.loss(&node, None);
        let obstacle = obstacle.or_else(|| self.conflict_with_earlier(name.as_ref()?));
        if let Some(fault) = obstacle {
            return self.fault(parent, Some(node), None, Some(path.to_vec()), fault);
        }
        self.sender.removing.record_walked(path, &node);
        self.with_walk(|scan, walk| {
            let listed = walk.begin(Merged::of(node, Depth::Open));
            let level = scan.enter(walk, parent, listed, name)?;
            scan.descend(walk, level)
        })
    }

    /// Runs `work` with a walk and helpers that read ahead.
    fn with_walk(
        &mut self,
        work: impl FnOnce(&mut Self, &Walk<'_>) -> Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        let receiver = &self.sender.receiver;
        let prefetch = |above, name: &Name, found: &[Found]| {
            receiver.prefetch(above, name, &mut found.iter().map(|found| &found.name))
        };
        let walk = Walk::new(Rules {
            control: self.sender.control,
            follow: self.sender.follow,
            restores_sources: self.sender.restores_sources(),
            dest_lineage: self.dest_lineage,
            filter: self.filter,
            walking: self.walking,
            lists_implied_dirs: self.lists_implied_dirs(),
            prefetch: &prefetch,
        });
        let helpers = if self.tree.capabilities().prefetches_listings { 0 } else { workers() - 1 };
        with_helpers(
            self.sender.control,
            "walk",
            helpers,
            || walk.help(),
            || {
                let _end = walk.end_on_drop();
                work(self, &walk)
            },
        )
    }

    /// True if parent directories of sources are listed with their attributes.
    fn lists_implied_dirs(&self) -> bool {
        self.walking.relative != Relative::WithoutImplied
    }

    /// Lists everything below `first`. Not recursive, because a tree may be deeper than a stack.
    fn descend(&mut self, walk: &Walk<'_>, first: Level) -> Result<(), Stopped> {
        let mut levels = vec![first];
        while let Some(level) = levels.last_mut() {
            let (index, at) = (level.index, level.visited);
            level.visited += 1;
            let Some(name) = level.subdirs.names().get(at).cloned() else {
                walk.leave(&level.subdirs);
                levels.pop();
                self.earlier.iter_mut().for_each(Earlier::leave);
                // The end of the whole listing follows all sources.
                if index != 0 {
                    self.push(ListItem::DirEnd { dir: index })?;
                }
                continue;
            };
            let above = level.subdirs.above().cloned();
            if levels.len() >= MAX_DEPTH {
                self.fault(index, above, Some(name), None, too_deep())?;
                continue;
            }
            self.flush_old();
            let subdirs = &levels.last().expect("it was just looked at").subdirs;
            let listed = walk.take(subdirs, at).and_then(|listed| {
                let loss = listed.node.as_ref().and_then(|node| self.loss(node, None));
                match loss.or_else(|| self.conflict_with_earlier(&name)) {
                    Some(fault) => {
                        walk.leave(&listed.subdirs);
                        Err(fault)
                    }
                    None => Ok(listed),
                }
            });
            match listed {
                Ok(listed) => {
                    let level = self.enter(walk, index, listed, Some(name))?;
                    levels.push(level);
                }
                Err(fault) => {
                    let shown = above.is_none().then(|| name.as_bytes().to_vec());
                    self.fault(index, above, Some(name), shown, fault)?;
                }
            }
        }
        Ok(())
    }

    /// The fault of the directory `name`, if an earlier source has another kind of entry there.
    fn conflict_with_earlier(&self, name: &Name) -> Option<Fault> {
        let (first, path) = self.earlier.as_ref()?.first(name, false)?;
        Some(first.fault(&path))
    }

    /// Lists a directory and its entries that are not directories.
    fn enter(
        &mut self,
        walk: &Walk<'_>,
        parent: u64,
        listed: PlaceListing,
        name: Option<Name>,
    ) -> Result<Level, Stopped> {
        let node = Arc::clone(listed.node.as_ref().expect("only the destination itself is none"));
        let (index, is_implied_dir) =
            (self.next_index, listed.is_implied_dir && !self.lists_implied_dirs());
        let first = self.earlier.as_mut().and_then(|earlier| earlier.enter(name.as_ref()));
        let (is_repeated, first) = (first.is_some(), first.unwrap_or_else(|| Arc::clone(&node)));
        let (id, attributes) = (&node.meta().id, &first.meta().attributes);
        // A parent directory of a source may contain the destination.
        let (inode, id) = match listed.is_implied_dir {
            true => (0, None),
            false => (self.sender.number_of(&node, node.meta()), *id),
        };
        let owner = self.attributes.check_owner(self.sender, first.meta(), || first.path_of(None));
        let attributes = attributes.clone();
        let (attributes, not_kept) = match self.attributes.kept_of_dir(&first, attributes.clone()) {
            _ if is_implied_dir => {
                (Attributes::new(IMPLIED_DIR_MODE, Timestamp { secs: 0, nanos: 0 }), None)
            }
            Ok(attributes) => (with_owner(attributes, owner), None),
            Err(fault) => (self.attributes.listed(attributes, true).only(Kept::NONE), Some(fault)),
        };
        let entry = Entry::new(name, Kind::Dir, attributes);
        let entry = Entry { inode, id, is_implied_dir, is_repeated, ..entry };
        self.entry(parent, &node, (None, false), entry)?;
        if listed.is_closed && self.sender.plan.finds_extras {
            self.push(ListItem::Closed { dir: index })?;
        }
        if let Some(fault) = not_kept {
            self.fault(index, Some(node), None, None, fault)?;
        }
        self.list_entries(walk, index, listed)
    }

    /// Lists all entries of a directory, except its subdirectories.
    fn list_entries(
        &mut self,
        walk: &Walk<'_>,
        index: u64,
        listed: PlaceListing,
    ) -> Result<Level, Stopped> {
        let PlaceListing { node, mut entries, missing, faults, subdirs, prefetched, .. } = listed;
        subdirs.listed_as(index);
        if let Some(prefetched) = prefetched {
            self.sender.receiver.take_prefetched(index, prefetched);
        }
        for fault in faults {
            self.fault(index, node.clone(), None, None, fault)?;
        }
        for Found { dir, name, target, inspected, follow, is_named } in entries.drain(..) {
            let inspected = inspected.unwrap_or_else(|| look_up(&dir, &name, follow));
            let inspected = inspected.and_then(|meta| match is_named {
                true => self.specials.resolve(&dir, &name, meta, self.sender.control),
                false => Ok(meta),
            });
            match inspected {
                // It was not a directory when its parent was read.
                Ok(Meta { kind: MetaKind::Dir, .. }) => {
                    let message = "it was replaced by a directory";
                    let fault = Fault::new(Side::Source, FaultKind::Changed, message);
                    self.fault(index, Some(dir), Some(name), None, fault)?
                }
                Ok(meta) => self.file(index, &dir, name, follow, meta, target)?,
                Err(fault) => self.fault(index, Some(dir), Some(name), None, fault)?,
            }
        }
        walk.recycle(entries);
        for name in missing {
            self.push(ListItem::Missing { dir: index, name })?;
        }
        if index != 0 {
            self.subdirs(index, subdirs.names())?;
        }
        Ok(Level { index, subdirs, visited: 0 })
    }

    /// Lists an entry that is not a directory.
    fn file(
        &mut self,
        parent: u64,
        dir: &Arc<DirNode>,
        name: Name,
        follow: bool,
        meta: Meta,
        target: Option<Vec<u8>>,
    ) -> Result<(), Stopped> {
        let kind = meta.listed_kind(|| match target {
            Some(target) => Ok(target),
            None => dir.handle()?.read_link(&name),
        });
        let kind = kind.map(|kind| self.attributes.unmunged(kind));
        if let (Ok(kind), Some(fault)) = (&kind, self.loss(dir, Some(&name))) {
            let shown = words::shown(dir.path_of(Some(&name)));
            let dir = Some(Arc::clone(dir));
            let item = Item::of(self.next_index, dir, Some(name), kind.clone());
            let item = Item { shown: Some(shown.clone()), ..item };
            return self.push_item(ListItem::Fault { dir: parent, name: shown, fault }, item);
        }
        let kind = kind.or_fault(Side::Source, "read the link");
        match kind.and_then(|kind| self.entry_of(dir, (&name, follow), kind, &meta)) {
            Ok(entry) => self.entry(parent, dir, (Some(name), follow), entry),
            Err(fault) => self.fault(parent, Some(Arc::clone(dir)), Some(name), None, fault),
        }
    }

    /// The listed form of an entry of `dir` that is not a directory.
    fn entry_of(
        &mut self,
        dir: &Arc<DirNode>,
        (name, follow): (&Name, bool),
        kind: Kind,
        meta: &Meta,
    ) -> Result<Entry, Fault> {
        let is_link = matches!(kind, Kind::Symlink { .. });
        let owner = self.attributes.check_owner(self.sender, meta, || dir.path_of(Some(name)));
        let inode = self.sender.number_of(dir, meta);
        let ctime = dir.ctime_of(name, follow, meta, self.sender.resume_len_min());
        let leads_to = if is_link { self.leads_to(dir, name) } else { None };
        let has_holes = has_holes(dir, (name, follow), meta);
        let attributes = self.attributes.kept_of_entry(dir, (name, follow), is_link, meta)?;
        let attributes = with_owner(attributes, owner);
        let keeps = self.attributes.keeps;
        let special = meta.special.filter(|special| keeps.has(special.kept()));
        let has_others = meta.links > 1 && keeps.has(Kept::LINKS);
        let links = self.groups.number(meta.id.filter(|_| has_others))?;
        let entry = Entry::new(Some(name.clone()), kind, attributes);
        Ok(Entry { inode, ctime, has_holes, links, special, id: meta.id, leads_to, ..entry })
    }

    /// The target object of a symbolic link, if it could be at the destination.
    fn leads_to(&self, dir: &Arc<DirNode>, name: &Name) -> Option<FileId> {
        if self.dest_lineage.is_empty() {
            return None;
        }
        // A dangling link does not depend on any entry that the job replaces.
        dir.handle().ok()?.stat(name, true).ok()??.id
    }

    /// Loads the rule files above a source.
    fn begin_rules(&self, source: &Source, path: &[u8]) -> Result<(), RuleFileError> {
        if !self.filter.needs_whole_paths() {
            return Ok(());
        }
        let split = words::split(path);
        match source {
            Source::Whole(node) => {
                node.set_rules_above(rules::begin(self.filter, self.tree, split.whole, false)?);
            }
            Source::Named { dir, .. } => {
                dir.set_rules(rules::begin(self.filter, self.tree, split.parent, true)?);
            }
        }
        Ok(())
    }

    /// Warns if the tree can't report file system boundaries.
    pub(super) fn warn_unknown_boundaries(&self, node: &DirNode, path: &[u8]) {
        if self.walking.systems != Systems::All && node.id().is_none() {
            let message = "mount points can't be found there: copying all file systems";
            warn(self.sender, path, message);
        }
    }
}

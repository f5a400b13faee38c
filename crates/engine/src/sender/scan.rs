//! Walks the sources and lists what it finds, in the order that the protocol
//! asks for: in each directory the files first, then directory by directory.

mod bounds;
mod linked;
mod telling;

use self::linked::Groups;
use self::telling::too_deep;
use super::earlier::Earlier;
use super::names::Names;
use super::special::Specials;
use super::{Sender, Source, loss};
use crate::aside;
use crate::control::{self, Reporter};
use crate::crew::with_helpers;
use crate::dirs::{DirNode, OpenDirs, Selection};
use crate::walk::{Listed, Rules, Subdirs, Walk, into_itself, look_up};
use crate::workers::workers;
use crate::{Event, Job};
use haul_model::words;
use haul_model::{
    Attributes, Entry, Fault, FaultKind, FileId, Filter, Kept, Kind, MAX_DEPTH, ModeChanges, Name,
    Side, Task, Walking,
};
use haul_proto::ListItem;
use haul_tree::{Meta, MetaKind, Owner, Tree, TreeEntry};
use std::sync::Arc;
use std::time::Instant;

/// One walk over all sources of a job.
pub(crate) struct Scan<'s, 'a> {
    sender: &'s Sender<'a>,
    tree: &'s dyn Tree,
    reporter: Option<&'s Reporter<'a>>,
    recursive: bool,
    specials: Specials<'s>,
    /// Directories that hold the destination, itself first: none of them can
    /// be copied into it. Known only where both are on one machine.
    around_dest: &'s [FileId],
    /// Set where several sources become one directory.
    earlier: Option<Earlier<'s>>,
    filter: &'s Filter,
    walking: Walking,
    /// The attributes that are told.
    keeps: Kept,
    /// Changes of modes, before these are told.
    modes: &'s ModeChanges,
    /// Attributes of which nobody was told yet that the sources don't tell them.
    asks_tree_for: Kept,
    /// Files of several names, with the numbers by which they are told.
    groups: Groups,
    /// Names of users and groups, where these are told.
    names: Option<Names>,
    next_index: u64,
    batch: Vec<ListItem>,
    batch_cost: u64,
    batch_since: Instant,
    /// Owners are looked at: nobody was told yet that they are not kept.
    watches_owners: bool,
}

/// The number of the user, and of the group, who may give files to others.
const ROOT: u32 = 0;

/// The job ends before the walk does.
struct Stopped;

/// A directory on the way down, with the number of those in it that were visited.
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
        around_dest: &'s [FileId],
    ) -> Self {
        Self {
            sender,
            tree,
            reporter: sender.reporter,
            recursive: job.recursive,
            specials: Specials::of(job),
            around_dest,
            // Only copies take another's place.
            earlier: job.task.copies().and_then(|_| Earlier::of(job, tree)),
            filter: &job.filter,
            walking: job.task.mirrors().map_or_else(Walking::default, |mirror| mirror.walking),
            keeps: job.task.keeps(),
            modes: &job.altered.modes,
            asks_tree_for: job.task.keeps().only_if(job.task.moving().is_none()),
            groups: Groups::default(),
            names: (sender.is_far() && job.names_accounts()).then(Names::default),
            next_index: 1,
            batch: Vec::new(),
            batch_cost: 0,
            batch_since: Instant::now(),
            watches_owners: haul_sys::effective_user() == ROOT
                && !job.task.keeps().has(Kept::OWNER)
                && matches!(job.task, Task::Copy(policy) | Task::Sync(policy, _) if policy.moving.is_none()),
        }
    }

    /// Tells root once that what is copied gets another owner. Others can keep none, and
    /// know it.
    fn look_at_owner(&mut self, meta: &Meta, path: impl FnOnce() -> Vec<u8>) {
        let Some(Owner { user, group }) = meta.owner.filter(|_| self.watches_owners) else {
            return;
        };
        if (user, group) != (ROOT, ROOT) {
            self.watches_owners = false;
            let message = format!(
                "it belongs to user {user} and group {group}: owners and groups are not kept, here and in what follows"
            );
            let monitor = self.sender.control.monitor();
            monitor.event(Event::Warning { path: &path(), message: &message });
        }
    }

    /// Walks `sources` and lists everything, or leaves when the job has ended.
    pub(crate) fn run(mut self, sources: &[Vec<u8>]) {
        let open = Arc::new(OpenDirs::default());
        for path in sources {
            let walked = match Source::find(self.tree, path, self.sender.removes(), &open) {
                Ok(source) => self.found(source, path),
                Err(fault) => self.fault(0, None, None, Some(path.clone()), fault),
            };
            if walked.is_err() {
                return;
            }
        }
        if let Some(reporter) = self.reporter {
            reporter.listed_all();
        }
        self.sender.listed_all();
        if self.push(ListItem::DirEnd { dir: 0 }).is_ok() {
            self.flush();
        }
    }

    /// Tells once that the sources' tree does not tell all that is to be kept.
    fn look_at_tree(&mut self, source: &Source, path: &[u8]) {
        let asked = std::mem::replace(&mut self.asks_tree_for, Kept::NONE);
        let (Source::Whole(node) | Source::Named { dir: node, .. }) = source;
        if asked.is_empty() {
            return;
        }
        if let Ok(handle) = node.handle()
            && let Some(message) = control::lacking(asked, handle.keeps())
        {
            self.sender.control.monitor().event(Event::Warning { path, message });
        }
    }

    /// Walks a source among others.
    fn found(&mut self, source: Source, path: &[u8]) -> Result<(), Stopped> {
        self.look_at_tree(&source, path);
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
        let (dir, name, follow) = match source {
            Source::Whole(node) => {
                return match self.recursive {
                    true => self.tree(0, Arc::clone(node), None, path),
                    false => self.fault(0, Some(Arc::clone(node)), None, shown(), not_recursive()),
                };
            }
            Source::Named { dir, name, follow } => {
                (Arc::clone(dir), name.clone(), *follow || self.sender.follows())
            }
        };
        let looked = look_up(&dir, &name, follow).or_else(|fault| {
            let restores = fault.kind == FaultKind::NotFound && self.sender.restores();
            match dir.handle() {
                Ok(handle) if restores && aside::restore_one(&*handle, &name) => {
                    look_up(&dir, &name, follow)
                }
                _ => Err(fault),
            }
        });
        // Of a name that is mistyped no link is spoken.
        let looked = looked.map_err(|fault| match fault.kind {
            FaultKind::NotFound if follow => look_up(&dir, &name, false).err().unwrap_or(fault),
            _ => fault,
        });
        let meta = match looked {
            Ok(meta) => meta,
            Err(fault) if fault.kind == FaultKind::NotFound && self.forgives_missing() => {
                return self.missing(name);
            }
            Err(fault) => return self.fault(0, Some(dir), Some(name), shown(), fault),
        };
        let selected = dir.select(self.filter).map(Selection::without_files);
        if selected.is_ok_and(|mut all| all.leaves_out(&name, meta.kind == MetaKind::Dir)) {
            return Ok(());
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

    /// Lists the directory `node` and all below it; without recursion, since a
    /// tree may be deeper than a stack.
    fn tree(
        &mut self,
        parent: u64,
        node: Arc<DirNode>,
        name: Option<Name>,
        path: &[u8],
    ) -> Result<(), Stopped> {
        if node.id().is_some_and(|id| self.around_dest.contains(&id)) {
            return self.fault(parent, Some(node), None, Some(path.to_vec()), into_itself());
        }
        let obstacle = self.loss(&node, None);
        let obstacle = obstacle.or_else(|| self.in_place_of(name.as_ref()?));
        if let Some(fault) = obstacle {
            return self.fault(parent, Some(node), None, Some(path.to_vec()), fault);
        }
        self.look_at_systems(&node, path);
        self.sender.walks(path, &node);
        let walk = Walk::new(Rules {
            control: self.sender.control,
            follow: self.sender.follows(),
            restores: self.sender.restores(),
            around_dest: self.around_dest,
            filter: self.filter,
            walking: self.walking,
        });
        if name.is_some() && self.prunes(&walk, &node) {
            return Ok(());
        }
        let helpers = if self.tree.lists_ahead() { 0 } else { workers() };
        with_helpers(
            self.sender.control,
            "walk",
            helpers,
            || walk.help(),
            || {
                let _end = walk.end_on_drop();
                self.walk(&walk, parent, node, name)
            },
        )
    }

    /// Lists what `walk` comes to, from `node` on; without recursion, since a tree may
    /// be deeper than a stack.
    fn walk(
        &mut self,
        walk: &Walk<'_>,
        parent: u64,
        node: Arc<DirNode>,
        name: Option<Name>,
    ) -> Result<(), Stopped> {
        let listed = match name.is_some() && self.walking.only_dirs {
            true => walk.closed(node),
            false => walk.begin(node),
        };
        let mut levels = vec![self.enter(parent, listed, name)?];
        while let Some(level) = levels.last_mut() {
            let (index, at) = (level.index, level.visited);
            level.visited += 1;
            let Some(name) = level.subdirs.names().get(at).cloned() else {
                walk.leave(&level.subdirs);
                levels.pop();
                self.earlier.iter_mut().for_each(Earlier::leave);
                self.push(ListItem::DirEnd { dir: index })?;
                continue;
            };
            let above = Arc::clone(level.subdirs.above());
            if levels.len() >= MAX_DEPTH {
                self.fault(index, Some(above), Some(name), None, too_deep())?;
                continue;
            }
            let subdirs = &levels.last().expect("it was just looked at").subdirs;
            let listed = walk.take(subdirs, at).and_then(|listed| {
                match self.loss(&listed.node, None).or_else(|| self.in_place_of(&name)) {
                    Some(fault) => {
                        walk.leave(&listed.subdirs);
                        Err(fault)
                    }
                    None => Ok(listed),
                }
            });
            match listed {
                Ok(listed) => {
                    let level = self.enter(index, listed, Some(name))?;
                    levels.push(level);
                }
                Err(fault) => self.fault(index, Some(above), Some(name), None, fault)?,
            }
        }
        Ok(())
    }

    /// Why what `name` is in `node`, or `node` itself, stays where it is, if a move
    /// would lose something of it.
    fn loss(&self, node: &Arc<DirNode>, name: Option<&Name>) -> Option<Fault> {
        let owner = self.sender.keeps_whole_for()?;
        let dir = match node.handle() {
            Ok(dir) => dir,
            Err(error) => return Some(Fault::from_io(Side::Source, "open", &error)),
        };
        let looked = loss::loss(&*dir, name, owner, self.sender.kept_there());
        looked.unwrap_or_else(|error| {
            Some(Fault::from_io(Side::Source, "look at its attributes", &error))
        })
    }

    /// The fault of the directory `name`, if an earlier source has something else in
    /// its place.
    fn in_place_of(&self, name: &Name) -> Option<Fault> {
        let (first, path) = self.earlier.as_ref()?.first(name, false)?;
        Some(first.fault(&path))
    }

    /// Lists a directory itself and all in it that is no directory.
    fn enter(&mut self, parent: u64, listed: Listed, name: Option<Name>) -> Result<Level, Stopped> {
        let Listed { node, entries, fault, is_closed, subdirs } = listed;
        let index = self.next_index;
        let Meta { attributes, id, .. } = node.meta();
        let inode = self.sender.number_of(&node, node.meta());
        self.look_at_owner(node.meta(), || node.path_of(None));
        let (attributes, id) = (attributes.clone(), *id);
        let (attributes, lacks) = match self.kept_of(&node, None, attributes.clone()) {
            Ok(kept) => (kept, None),
            Err(fault) => (self.told(attributes, true).only(Kept::NONE), Some(fault)),
        };
        let entry = Entry { inode, id, ..Entry::new(name, Kind::Dir, attributes) };
        let name = entry.name.clone();
        self.entry(parent, &node, None, entry)?;
        self.earlier.iter_mut().for_each(|earlier| earlier.enter(name.as_ref()));
        if is_closed && self.sender.task.finds_extras() {
            self.push(ListItem::Closed { dir: index })?;
        }
        for fault in fault.into_iter().chain(lacks) {
            self.fault(index, Some(Arc::clone(&node)), None, None, fault)?;
        }
        let follow = self.sender.follows();
        for (TreeEntry { name, target, .. }, looked) in entries {
            match looked.unwrap_or_else(|| look_up(&node, &name, follow)) {
                // It was none when the directory was read.
                Ok(Meta { kind: MetaKind::Dir, .. }) => {
                    let message = "a directory has taken its place";
                    let fault = Fault::new(Side::Source, FaultKind::Changed, message);
                    self.fault(index, Some(Arc::clone(&node)), Some(name), None, fault)?
                }
                Ok(meta) => self.file(index, &node, name, follow, meta, target)?,
                Err(fault) => {
                    self.fault(index, Some(Arc::clone(&node)), Some(name), None, fault)?
                }
            }
        }
        self.subdirs(index, subdirs.names())?;
        Ok(Level { index, subdirs, visited: 0 })
    }

    /// Lists what is no directory.
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
        if let (Ok(kind), Some(fault)) = (&kind, self.loss(dir, Some(&name))) {
            let shown = words::shown(dir.path_of(Some(&name)));
            let item = self.item_of(Some(Arc::clone(dir)), Some(name), kind.clone(), shown.clone());
            return self.push_item(ListItem::Fault { dir: parent, name: shown, fault }, item);
        }
        match kind {
            Ok(kind) => {
                let id = meta.id;
                let inode = self.sender.number_of(dir, &meta);
                self.look_at_owner(&meta, || dir.path_of(Some(&name)));
                let ctime = dir.ctime_of(&name, follow, &meta);
                let leads_to = match kind {
                    Kind::Symlink { .. } => self.leads_to(dir, &name),
                    _ => None,
                };
                let has_holes = self.has_holes(dir, &name, &meta);
                let name_there = Some(name.clone());
                let attributes = match kind {
                    Kind::File { .. } => self.kept_of(dir, Some((&name, follow)), meta.attributes),
                    Kind::Symlink { .. } => Ok(meta.attributes.only(self.keeps)),
                    _ => Ok(self.told(meta.attributes, false).only(self.keeps)),
                };
                let attributes = match attributes {
                    Ok(attributes) => attributes,
                    Err(fault) => {
                        return self.fault(parent, Some(Arc::clone(dir)), Some(name), None, fault);
                    }
                };
                let entry = Entry::new(name_there, kind, attributes);
                let special = meta.special.filter(|special| self.keeps.has(special.kept()));
                let Some(links) = self
                    .groups
                    .number(id.filter(|_| meta.links > 1 && self.keeps.has(Kept::LINKS)))
                else {
                    let fault = linked::too_many();
                    return self.fault(parent, Some(Arc::clone(dir)), Some(name), None, fault);
                };
                let entry =
                    Entry { inode, ctime, has_holes, links, special, id, leads_to, ..entry };
                self.entry(parent, dir, Some(name), entry)
            }
            Err(error) => {
                let fault = Fault::from_io(Side::Source, "read the link", &error);
                self.fault(parent, Some(Arc::clone(dir)), Some(name), None, fault)
            }
        }
    }

    /// `attributes` with the mode that the job tells of such an entry.
    fn told(&self, mut attributes: Attributes, is_dir: bool) -> Attributes {
        if !self.modes.is_empty() {
            attributes.mode = self.modes.apply(attributes.mode, is_dir, haul_sys::umask());
        }
        attributes
    }

    /// Those of `attributes` that the job keeps, with those of `name` in `dir`, or of `dir`
    /// itself, that take calls of their own; a link is followed if that says so.
    fn kept_of(
        &self,
        dir: &Arc<DirNode>,
        name: Option<(&Name, bool)>,
        attributes: Attributes,
    ) -> Result<Attributes, Fault> {
        let mut attributes = self.told(attributes, name.is_none()).only(self.keeps);
        if self.keeps.has_any(Kept::EXTENDED) {
            let read = dir.handle().and_then(|dir| dir.extended(name, self.keeps));
            let what = "read its extended attributes";
            attributes.extended =
                read.map_err(|error| Fault::from_io(Side::Source, what, &error))?;
        }
        Ok(attributes)
    }

    /// True if a file has holes, by all appearance.
    fn has_holes(&self, dir: &Arc<DirNode>, name: &Name, meta: &Meta) -> bool {
        if !meta.is_thin {
            return false;
        }
        // One that is compressed takes little storage, and some file systems tell of
        // none; neither is a hole. What is wrong with one that can't be opened shows
        // when it is read.
        let opened = dir.handle().and_then(|dir| dir.open_file(name, self.sender.follows()));
        opened.and_then(|file| file.has_holes()).unwrap_or(true)
    }

    /// The object that a symbolic link leads to, if that could be at the destination.
    fn leads_to(&self, dir: &Arc<DirNode>, name: &Name) -> Option<FileId> {
        if self.around_dest.is_empty() {
            return None;
        }
        // A link to nowhere replaces nothing that it needs.
        dir.handle().ok()?.stat(name, true).ok()??.id
    }
}

fn not_recursive() -> Fault {
    Fault::new(Side::Source, FaultKind::NotRecursive, "it is a directory, and is left out")
}

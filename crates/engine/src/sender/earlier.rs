//! The places that earlier sources of a job have, where several become one directory
//! (`a/. b/.`): nothing of theirs is replaced by a later one.
//!
//! No names are remembered: the earlier sources' directories stay at hand, and each
//! entry of a later one is looked for in them.

use super::Source;
use crate::Job;
use crate::dirs::{DirNode, OpenDirs, open_dirs_max};
use haul_model::{Entry, Fault, FaultKind, Filter, Kept, Kind, Name, Side, escape_bytes, words};
use haul_proto::Rival;
use haul_tree::{Meta, MetaKind, Tree};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// The end of a path that a message has, in bytes.
const TOLD_LEN: usize = 200;

/// The earlier sources of a job that has several, and where the walk is among them.
pub(super) struct Earlier<'s> {
    tree: &'s dyn Tree,
    follow: bool,
    /// By this FIFOs, sockets and devices have a place, too.
    keeps: Kept,
    filter: &'s Filter,
    /// Directories that have no name of their own, in their order.
    wholes: Vec<Layer>,
    wholes_max: usize,
    /// The others by their names, with their number among all sources and their path.
    named: HashMap<Name, (usize, Vec<u8>)>,
    /// How many sources were walked.
    count: usize,
    /// The directories that are being walked, with what the earlier sources have there.
    open: Vec<Layers>,
    /// The path of the source that is being walked.
    path: Vec<u8>,
    /// It was listed as an entry, and not as a fault.
    is_listed: bool,
}

/// A directory of an earlier source.
#[derive(Clone)]
struct Layer {
    /// The number of the source.
    number: usize,
    node: Arc<DirNode>,
    path: Vec<u8>,
}

/// Directories of earlier sources in the place of one directory.
struct Layers {
    dirs: Vec<Layer>,
    /// The root of the destination: sources with names are in it.
    is_root: bool,
    /// The path of the directory that is being walked.
    path: Vec<u8>,
}

/// The entry that came first in a place.
pub(super) struct First {
    path: Vec<u8>,
    meta: Meta,
    kind: Kind,
}

impl<'s> Earlier<'s> {
    /// Those of `job`; `None` where no two can have anything in one place: the
    /// names of sources differ.
    pub(super) fn of(job: &'s Job, tree: &'s dyn Tree) -> Option<Self> {
        let Job { sources, follow, filter, .. } = job;
        let is_whole = |path: &Vec<u8>| {
            words::travel_name(words::without_tilde(path)).is_ok_and(|name| name.is_none())
        };
        if sources.len() < 2 || !sources.iter().any(is_whole) {
            return None;
        }
        Some(Self {
            tree,
            follow: *follow,
            keeps: job.task.keeps(),
            filter,
            wholes: Vec::new(),
            wholes_max: open_dirs_max(haul_sys::open_files_max()) as usize,
            named: HashMap::new(),
            count: 0,
            open: Vec::new(),
            path: Vec::new(),
            is_listed: false,
        })
    }

    /// The walk begins with the source at `path`.
    ///
    /// # Errors
    /// When it is one of more than can be looked through.
    pub(super) fn begin(&mut self, source: &Source, path: &[u8]) -> Result<(), Fault> {
        self.path = path.to_vec();
        self.is_listed = false;
        if matches!(source, Source::Whole(_)) && self.wholes.len() == self.wholes_max {
            let message =
                format!("one command makes one directory of no more than {}", self.wholes_max);
            return Err(Fault::new(Side::Source, FaultKind::Taken, message));
        }
        Ok(())
    }

    /// The source itself has its entry.
    pub(super) fn listed(&mut self) {
        self.is_listed = true;
    }

    /// The walk has done with the source: if it was listed, it is an earlier one from
    /// now on.
    pub(super) fn end(&mut self, source: Source) {
        if !self.is_listed {
            return;
        }
        let number = self.count;
        self.count += 1;
        let path = std::mem::take(&mut self.path);
        match source {
            Source::Whole(node) => self.wholes.push(Layer { number, node, path }),
            Source::Named { name, .. } => {
                self.named.insert(name, (number, path));
            }
        }
    }

    /// The walk goes into a directory: `name` in the one that it is in, or the source itself.
    /// Gives the first of the earlier ones in its place: that is the one whose attributes it
    /// gets.
    pub(super) fn enter(&mut self, name: Option<&Name>) -> Option<Arc<DirNode>> {
        let layers = match (self.open.last(), name) {
            (None, None) => self.root(),
            (None, Some(name)) => {
                let path = self.path.clone();
                Layers { path, ..self.below(&self.root(), name) }
            }
            (Some(layers), Some(name)) => self.below(layers, name),
            (Some(_), None) => unreachable!("only a source can be without a name"),
        };
        let first = layers.dirs.first().map(|layer| Arc::clone(&layer.node));
        self.open.push(layers);
        first
    }

    /// The walk leaves the directory that it is in.
    pub(super) fn leave(&mut self) {
        self.open.pop();
    }

    /// The entry as it is listed in `dir` if an earlier source has its place.
    pub(super) fn rival(&self, dir: u64, entry: &Entry) -> Option<Box<Rival>> {
        let name = entry.name.as_ref()?;
        // These are not copied.
        let is_passed_over = entry.kind == Kind::Special && entry.special.is_none();
        if is_passed_over || haul_store::is_private(name) {
            return None;
        }
        let (first, path) = self.first(name, true)?;
        let (is_same, fault) = (first.is(entry), first.fault(&path));
        let (entry, first) = (entry.clone(), first.entry());
        Some(Box::new(Rival { dir, entry, first, is_same, fault }))
    }

    /// The entry that has the place of `name` in the directory that is being walked, or
    /// of the source of that name; a directory only if `or_dir` says so. With the path of
    /// the entry `name` itself.
    pub(super) fn first(&self, name: &Name, or_dir: bool) -> Option<(First, Vec<u8>)> {
        let root;
        let (layers, path) = match self.open.last() {
            Some(layers) => (layers, join(&layers.path, name)),
            None => {
                root = self.root();
                (&root, self.path.clone())
            }
        };
        let is_it = |meta: &Meta| or_dir || meta.kind != MetaKind::Dir;
        let found = |layer: &Layer| {
            let meta = look(&layer.node, name, self.follow).filter(is_it)?;
            // These are not copied.
            let is_made = || meta.special.is_some_and(|special| self.keeps.has(special.kept()));
            let is_copied = (meta.kind != MetaKind::Special || is_made())
                && !haul_store::is_private(name)
                && !self.leaves_out(layer, name, meta.kind == MetaKind::Dir);
            let kind = is_copied.then(|| kind(&layer.node, name, &meta))?.ok()?;
            Some((layer.number, First { path: join(&layer.path, name), meta, kind }))
        };
        let in_whole = layers.dirs.iter().find_map(found);
        let named = layers.is_root.then(|| self.find_named(name)).flatten();
        let named = named.and_then(|(number, node, name, follow)| {
            let meta = look(&node, &name, follow).filter(is_it)?;
            let kind = kind(&node, &name, &meta).ok()?;
            Some((number, First { path: self.named[&name].1.clone(), meta, kind }))
        });
        let firsts = in_whole.into_iter().chain(named);
        firsts.min_by_key(|(number, _)| *number).map(|(_, first)| (first, path))
    }

    /// True if rules leave out what `name` is in the directory of an earlier source. Of
    /// one whose rules are not known nothing is listed.
    fn leaves_out(&self, layer: &Layer, name: &Name, is_dir: bool) -> bool {
        let selected = layer.node.select(self.filter);
        selected.map_or(true, |mut selection| selection.leaves_out(name, is_dir))
    }

    /// The directories of earlier sources in the root of the destination.
    fn root(&self) -> Layers {
        Layers { dirs: self.wholes.clone(), is_root: true, path: self.path.clone() }
    }

    /// Their directories below the directory `name` of one.
    fn below(&self, layers: &Layers, name: &Name) -> Layers {
        let open = |layer: &Layer| {
            if self.leaves_out(layer, name, true) {
                return None;
            }
            let node = DirNode::open(&layer.node, name.clone(), self.follow).ok()?;
            Some(Layer { number: layer.number, node, path: join(&layer.path, name) })
        };
        let mut dirs: Vec<Layer> = layers.dirs.iter().filter_map(open).collect();
        if layers.is_root
            && let Some((number, node, name, follow)) = self.find_named(name)
            && let Ok(node) = DirNode::open(&node, name.clone(), follow)
        {
            let path = self.named[&name].1.clone();
            dirs.push(Layer { number, node, path });
            dirs.sort_by_key(|layer| layer.number);
        }
        Layers { dirs, is_root: false, path: join(&layers.path, name) }
    }

    /// The earlier source `name`: its number, what holds it, and if it is followed.
    fn find_named(&self, name: &Name) -> Option<(usize, Arc<DirNode>, Name, bool)> {
        let (number, path) = self.named.get(name)?;
        let open = Arc::<OpenDirs>::default();
        match Source::find(self.tree, path, false, &open).ok()? {
            Source::Named { dir, name, follow } => {
                Some((*number, dir, name, follow || self.follow))
            }
            Source::Whole(_) => None,
        }
    }
}

impl First {
    /// Its entry, as it is listed beside one that would replace it.
    fn entry(&self) -> Entry {
        let attributes = self.meta.attributes.clone().only(Kept::NONE);
        Entry::new(None, self.kind.clone(), attributes)
    }

    /// True if it is the very object of `entry`.
    fn is(&self, entry: &Entry) -> bool {
        entry.id.is_some() && entry.id == self.meta.id
    }

    /// The fault of the entry at `path`, which would replace it.
    pub(super) fn fault(&self, path: &[u8]) -> Fault {
        let (first, second) = (told(&self.path), told(path));
        let message = format!("{first} and {second} have the same destination: keeping the first");
        Fault::new(Side::Source, FaultKind::Taken, message)
    }
}

/// Looks at `name` in `node`; nothing that can't be looked at has been copied.
fn look(node: &Arc<DirNode>, name: &Name, follow: bool) -> Option<Meta> {
    let dir = node.handle().ok()?;
    dir.expect_looks();
    let meta = dir.stat(name, false).ok()??;
    match meta.kind {
        MetaKind::Symlink if follow => dir.stat(name, true).ok()?,
        _ => Some(meta),
    }
}

fn kind(node: &Arc<DirNode>, name: &Name, meta: &Meta) -> io::Result<Kind> {
    meta.listed_kind(|| node.handle()?.read_link(name))
}

/// The path of `name` in the directory at `path`.
fn join(path: &[u8], name: &Name) -> Vec<u8> {
    let dir = words::without_dot(path);
    let slash: &[u8] = if dir.ends_with(b"/") { b"" } else { b"/" };
    [dir, slash, name.as_bytes()].concat()
}

/// `path` as a message has it.
fn told(path: &[u8]) -> String {
    match path.len().checked_sub(TOLD_LEN) {
        None | Some(0) => escape_bytes(path),
        Some(cut) => format!("...{}", escape_bytes(&path[cut..])),
    }
}

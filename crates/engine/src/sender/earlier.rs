//! The entries of earlier sources, if several sources become one directory (`a/. b/.`). A later
//! source never replaces an entry of an earlier one.
//!
//! No names are stored. The directories of earlier sources stay available, and each entry of a
//! later source is looked up in them.

use super::Source;
use crate::Job;
use crate::dirs::{DirNode, OpenDirs, open_dirs_max};
use haul_model::{Entry, Fault, FaultKind, Filter, Kept, Kind, Name, Side, escape_bytes, words};
use haul_proto::{NamedSources, Rival};
use haul_tree::{Meta, MetaKind, Tree};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// Bytes of a path that a message shows, counted from its end.
const SHOWN_LEN_MAX: usize = 200;

/// The earlier sources of a job, and the current position of the walk in them.
pub(super) struct Earlier<'s> {
    tree: &'s dyn Tree,
    follow: bool,
    /// Decides which FIFOs, sockets and devices are copied.
    keeps: Kept,
    filter: &'s Filter,
    /// Sources without a name of their own, in order.
    wholes: Vec<Layer>,
    wholes_max: usize,
    /// The other sources by name, with their number among all sources and their path.
    named: HashMap<Name, (usize, Vec<u8>)>,
    /// The number of sources that were walked.
    count: usize,
    /// The current directories of the walk, with those of earlier sources in the same place.
    open: Vec<Layers>,
    /// The path of the source that is being walked.
    path: Vec<u8>,
    /// The current source was listed as an entry, not as a fault.
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
    /// True for the root of the destination, which contains the named sources.
    is_root: bool,
    /// The path of the current directory.
    path: Vec<u8>,
}

/// The first entry in a place.
pub(super) struct First {
    path: Vec<u8>,
    meta: Meta,
    kind: Kind,
}

impl<'s> Earlier<'s> {
    /// The earlier sources of `job`. `None` if no two sources can have an entry in the same place,
    /// because their names differ.
    pub(super) fn of(job: &'s Job, tree: &'s dyn Tree) -> Option<Self> {
        let NamedSources { paths: sources, follow, .. } = &job.sources;
        let is_whole = |path: &Vec<u8>| {
            words::wire_name(words::without_tilde(path)).is_ok_and(|name| name.is_none())
        };
        if sources.len() < 2 || !sources.iter().any(is_whole) {
            return None;
        }
        Some(Self {
            tree,
            follow: *follow,
            keeps: job.task.keeps(),
            filter: &job.filter,
            wholes: Vec::new(),
            wholes_max: open_dirs_max(haul_sys::open_files_max()) as usize,
            named: HashMap::new(),
            count: 0,
            open: Vec::new(),
            path: Vec::new(),
            is_listed: false,
        })
    }

    /// Starts the source at `path`.
    ///
    /// # Errors
    /// When there are too many sources without names.
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

    /// Records that the source itself was listed.
    pub(super) fn listed(&mut self) {
        self.is_listed = true;
    }

    /// Ends the current source. If it was listed, it is an earlier source from now on.
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

    /// Enters the directory `name`, or the source itself. Returns the first earlier directory in
    /// the same place, whose attributes are used.
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

    /// Leaves the current directory.
    pub(super) fn leave(&mut self) {
        self.open.pop();
    }

    /// The item for an entry of `dir` whose place an earlier source has.
    pub(super) fn rival(&self, dir: u64, entry: &Entry) -> Option<Box<Rival>> {
        let name = entry.name.as_ref()?;
        // Such entries are not copied.
        let is_skipped = entry.kind == Kind::Special && entry.special.is_none();
        if is_skipped || haul_store::is_private(name) {
            return None;
        }
        let (first, path) = self.first(name, true)?;
        let (is_same, fault) = (first.is(entry), first.fault(&path));
        let (entry, first) = (entry.clone(), first.entry());
        Some(Box::new(Rival { dir, entry, first, is_same, fault }))
    }

    /// The first entry named `name` in the current directory, or the first source of that name.
    /// Directories count only if `or_dir`. Also returns the path of the current entry `name`.
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
            let meta = stat_entry(&layer.node, name, self.follow).filter(is_it)?;
            // Other special files are not copied.
            let is_made = || meta.special.is_some_and(|special| self.keeps.has(special.kept()));
            let is_copied = (meta.kind != MetaKind::Special || is_made())
                && !haul_store::is_private(name)
                && !self.excludes(layer, name, meta.kind == MetaKind::Dir);
            let kind = is_copied.then(|| kind(&layer.node, name, &meta))?.ok()?;
            Some((layer.number, First { path: join(&layer.path, name), meta, kind }))
        };
        let in_whole = layers.dirs.iter().find_map(found);
        let named = layers.is_root.then(|| self.find_named(name)).flatten();
        let named = named.and_then(|(number, node, name, follow)| {
            let meta = stat_entry(&node, &name, follow).filter(is_it)?;
            let kind = kind(&node, &name, &meta).ok()?;
            Some((number, First { path: self.named[&name].1.clone(), meta, kind }))
        });
        let firsts = in_whole.into_iter().chain(named);
        firsts.min_by_key(|(number, _)| *number).map(|(_, first)| (first, path))
    }

    /// True if rules exclude `name` from an earlier source's directory. If the rules can't be read,
    /// everything is excluded.
    fn excludes(&self, layer: &Layer, name: &Name, is_dir: bool) -> bool {
        let selected = layer.node.select(self.filter);
        selected.map_or(true, |mut selection| selection.excludes(name, is_dir))
    }

    /// The directories of earlier sources at the root of the destination.
    fn root(&self) -> Layers {
        Layers { dirs: self.wholes.clone(), is_root: true, path: self.path.clone() }
    }

    /// The directories named `name` in `layers`.
    fn below(&self, layers: &Layers, name: &Name) -> Layers {
        let open = |layer: &Layer| {
            if self.excludes(layer, name, true) {
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

    /// The earlier source `name`: its number, directory and name, and whether it is followed.
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
    /// The entry, as listed next to the later one.
    fn entry(&self) -> Entry {
        let attributes = self.meta.attributes.clone().only(Kept::NONE);
        Entry::new(None, self.kind.clone(), attributes)
    }

    /// True if it is the same object as `entry`.
    fn is(&self, entry: &Entry) -> bool {
        entry.id.is_some() && entry.id == self.meta.id
    }

    /// The fault of the entry at `path`, which would replace it.
    pub(super) fn fault(&self, path: &[u8]) -> Fault {
        let (first, second) = (shorten(&self.path), shorten(path));
        let message = format!("{first} and {second} have the same destination: keeping the first");
        Fault::new(Side::Source, FaultKind::Taken, message)
    }
}

/// The metadata of `name` in `node`. An entry that can't be inspected was not copied.
fn stat_entry(node: &Arc<DirNode>, name: &Name, follow: bool) -> Option<Meta> {
    let dir = node.handle().ok()?;
    dir.expect_lookups();
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

/// `path`, shortened for a message.
fn shorten(path: &[u8]) -> String {
    match path.len().checked_sub(SHOWN_LEN_MAX) {
        None | Some(0) => escape_bytes(path),
        Some(cut) => format!("...{}", escape_bytes(&path[cut..])),
    }
}

//! The sources of a mirror. Each is found and gets its place first. Then all are walked as one
//! tree, and every name is listed once.

use super::{Scan, Stopped, not_a_directory, not_recursive};
use crate::Job;
use crate::beneath::Beneath;
use crate::dirs::{DirNode, OpenDirs, Selection};
use crate::rules;
use crate::walk::{
    Depth, Layer, Merged, NamedFile, NamedPlace, inspect_followed, into_itself, look_up,
};
use haul_model::{Fault, FaultKind, Missing, Name, OrFault, Place, PlaceError, Side};
use haul_tree::MetaKind;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// The places of the sources, and the directories in which their paths start.
struct Places {
    root: NamedPlace,
    starts: HashMap<(Vec<u8>, bool), (usize, Arc<DirNode>)>,
    open: Arc<OpenDirs>,
    /// The base directory that no source may lead out of, if there is one.
    base: Option<Beneath>,
}

/// The result of looking up a source.
enum SourceLookup {
    Dir(Arc<DirNode>, Depth),
    File(NamedFile),
    /// It does not exist, and is removed at the destination.
    Missing,
    /// It is skipped.
    Nothing,
}

impl Scan<'_, '_> {
    /// Finds the places of all sources, and walks them.
    pub(super) fn places(&mut self, job: &Job) -> Result<(), Stopped> {
        let open = Arc::new(OpenDirs::default());
        let mut places = Places {
            root: NamedPlace::default(),
            starts: HashMap::new(),
            base: None,
            open: Arc::clone(&open),
        };
        if let Some(base) = &job.sources.base {
            match self.tree.open(base).and_then(|dir| DirNode::root(dir, None, &open)) {
                Ok(node) => places.base = Some(Beneath::new(node, self.may_leave_base())),
                Err(error) => {
                    let fault = open_fault(&error);
                    return self.fault(0, None, None, Some(base.clone()), fault);
                }
            }
        }
        for (number, path) in job.sources.paths.iter().enumerate() {
            if self.sender.control.stopped() {
                return Err(Stopped);
            }
            if let Err(fault) = self.find_place(&mut places, number, path, job) {
                self.fault(0, None, None, Some(path.clone()), fault)?;
            }
        }
        let Places { mut root, .. } = places;
        let mut layers = std::mem::take(&mut root.dirs);
        layers.sort_by_key(|layer| layer.number);
        if layers.is_empty() && root.below.is_empty() {
            return Ok(());
        }
        let named_place = (!root.below.is_empty()).then(|| Arc::new(root));
        self.with_walk(|scan, walk| {
            let listed = walk.begin(Merged { layers, named_place });
            let level = match listed.node {
                Some(_) => scan.enter(walk, 0, listed, None)?,
                None => scan.list_entries(walk, 0, listed)?,
            };
            scan.descend(walk, level)
        })
    }

    /// Finds the source `path` and assigns its place.
    fn find_place(
        &mut self,
        places: &mut Places,
        number: usize,
        path: &[u8],
        job: &Job,
    ) -> Result<(), Fault> {
        let base = job.sources.base.as_deref();
        let place = Place::of(path, base, self.walking.relative).map_err(|error| {
            let kind = match error {
                PlaceError::Parent => FaultKind::Link,
                PlaceError::Name(_) | PlaceError::Deep => FaultKind::TooLong,
            };
            Fault::new(Side::Source, kind, error.to_string())
        })?;
        let (start, first) = self.start_of(places, &place)?;
        if place.dot && self.recursive && self.lists_implied_dirs() {
            places.use_as_root(start, number, &first);
        }
        let Some((last, names)) = place.names.split_last() else {
            self.attributes.warn_unsupported(self.sender, &first, path);
            let node = self.require_walkable(first, path)?;
            places.put(start, number, &[], &[], SourceLookup::Dir(node, Depth::Open));
            return Ok(());
        };
        let parents = match places.parents(start, &first, names) {
            Ok(parents) => parents,
            Err(fault) => {
                let is_missing = fault.kind == FaultKind::NotFound;
                let is_passed = is_missing && self.walking.missing == Missing::Ignored;
                return if is_passed { Ok(()) } else { Err(fault) };
            }
        };
        let above = parents.last().unwrap_or(&first);
        self.attributes.warn_unsupported(self.sender, above, path);
        let end = self.look_up_source(places, above, last, &place, number, path)?;
        if !matches!(end, SourceLookup::Nothing) {
            places.put(start, number, &place.names, &parents, end);
        }
        Ok(())
    }

    /// Looks up the source `name` in `above`.
    fn look_up_source(
        &mut self,
        places: &Places,
        above: &Arc<DirNode>,
        name: &Name,
        place: &Place,
        number: usize,
        path: &[u8],
    ) -> Result<SourceLookup, Fault> {
        let follow = place.slash || self.sender.follow;
        let meta = match self.look_up_restored(above, name, follow) {
            Ok(meta) => meta,
            // For a name that does not exist, report the fault that mentions no link.
            Err(fault) if fault.kind == FaultKind::NotFound => {
                return match (self.walking.missing, look_up(above, name, false)) {
                    (Missing::Ignored, _) => Ok(SourceLookup::Nothing),
                    (Missing::Removed, Err(_)) => Ok(SourceLookup::Missing),
                    (_, there) => Err(there.err().unwrap_or(fault)),
                };
            }
            Err(fault) => return Err(fault),
        };
        let there = match meta.kind {
            MetaKind::Symlink if !follow => {
                inspect_followed(self.walking.followed_links, above, name, None)?
            }
            _ => None,
        };
        let follow = follow || there.is_some();
        let meta = there.unwrap_or(meta);
        let selected = above.select(self.filter).map(Selection::without_files);
        if selected.is_ok_and(|mut all| all.excludes(name, meta.kind == MetaKind::Dir)) {
            return Ok(SourceLookup::Nothing);
        }
        // On an entry that is not a directory, a slash only excludes links.
        if meta.kind != MetaKind::Dir
            && place.slash
            && look_up(above, name, false)?.kind == MetaKind::Symlink
        {
            return Err(not_a_directory());
        }
        if meta.kind != MetaKind::Dir {
            return Ok(SourceLookup::File(NamedFile {
                number,
                dir: Arc::clone(above),
                follow,
                meta,
            }));
        }
        if !self.recursive {
            return Err(not_recursive());
        }
        let node = match &places.base {
            Some(base) => base.open(above, name, follow)?,
            None => DirNode::open(above, name.clone(), follow)
                .or_fault(Side::Source, "open the directory")?,
        };
        let node = self.require_walkable(node, path)?;
        let is_alone = self.walking.only_dirs && !place.slash;
        Ok(SourceLookup::Dir(node, if is_alone { Depth::Closed } else { Depth::Open }))
    }

    /// True if links may lead out of the base directory, because the job follows links.
    fn may_leave_base(&self) -> bool {
        self.sender.follow || self.walking.followed_links.follows_any()
    }

    /// Returns the source directory `node`, if it can be walked.
    fn require_walkable(&self, node: Arc<DirNode>, path: &[u8]) -> Result<Arc<DirNode>, Fault> {
        if !self.recursive {
            return Err(not_recursive());
        }
        if node.id().is_some_and(|id| self.dest_lineage.contains(&id)) {
            return Err(into_itself());
        }
        self.warn_unknown_boundaries(&node, path);
        self.sender.removing.record_walked(path, &node);
        Ok(node)
    }

    /// The directory in which the path of a source starts, and its number.
    fn start_of(&self, places: &mut Places, place: &Place) -> Result<(usize, Arc<DirNode>), Fault> {
        let is_whole = place.names.is_empty();
        let key = (place.start.clone(), is_whole);
        if let Some((number, node)) = places.starts.get(&key) {
            return Ok((*number, Arc::clone(node)));
        }
        let dir = match (&places.base, place.names.as_slice()) {
            (Some(base), _) => base.find(&place.inner)?.handle(),
            (None, [name]) => self.tree.open_for_search(&place.start, Some(name)),
            (None, _) => self.tree.open(&place.start),
        };
        let dir = dir.and_then(|dir| DirNode::root(dir, None, &places.open));
        let node = dir.map_err(|error| open_fault(&error))?;
        if self.filter.needs_whole_paths() {
            let begun = rules::begin(self.filter, self.tree, &place.start, !is_whole);
            let scope = begun.map_err(|unruly| unruly.fault(Side::Source))?;
            if is_whole { node.set_rules_above(scope) } else { node.set_rules(scope) }
        }
        let number = places.starts.len();
        places.starts.insert(key, (number, Arc::clone(&node)));
        Ok((number, node))
    }
}

/// The fault of a source whose start directory can't be opened. A missing start directory may be on
/// an unmounted file system, so it does not count as vanished.
fn open_fault(error: &io::Error) -> Fault {
    match Fault::from_io(Side::Source, "open", error) {
        fault if fault.kind == FaultKind::NotFound => Fault { kind: FaultKind::Io, ..fault },
        fault => fault,
    }
}

impl Places {
    /// Opens the directories `names` one below the other, from `first`, which has the number
    /// `start`.
    fn parents(
        &self,
        start: usize,
        first: &Arc<DirNode>,
        names: &[Name],
    ) -> Result<Vec<Arc<DirNode>>, Fault> {
        let mut parents: Vec<Arc<DirNode>> = Vec::with_capacity(names.len());
        let mut named_place = Some(&self.root);
        for name in names {
            named_place = named_place
                .and_then(|named_place| named_place.below.get(name))
                .map(|named_place| &**named_place);
            let known = named_place
                .and_then(|named_place| named_place.dirs.iter().find(|layer| layer.start == start));
            let above = parents.last().unwrap_or(first);
            let node = match (known, &self.base) {
                (Some(layer), _) => Arc::clone(&layer.node),
                (None, Some(base)) => base.open(above, name, true)?,
                (None, None) => DirNode::open(above, name.clone(), true)
                    .or_fault(Side::Source, "open the directory")?,
            };
            parents.push(node);
        }
        Ok(parents)
    }

    /// Uses `first`, in which the path of a source starts, as the source of the destination
    /// directory itself, if none is used yet.
    fn use_as_root(&mut self, start: usize, number: usize, first: &Arc<DirNode>) {
        let dirs = &mut self.root.dirs;
        if !dirs.iter().any(|layer| layer.depth == Depth::Implied) {
            dirs.push(Layer::first(number, start, Arc::clone(first), Depth::Implied));
        }
    }

    /// Adds source `number` at the path `names`, whose parent directories are `parents`.
    fn put(
        &mut self,
        start: usize,
        number: usize,
        names: &[Name],
        parents: &[Arc<DirNode>],
        end: SourceLookup,
    ) {
        let mut named_place = &mut self.root;
        for (at, name) in names.iter().enumerate() {
            let below = named_place.below.entry(name.clone()).or_default();
            named_place = Arc::get_mut(below).expect("nobody walks it yet");
            let is_known = named_place.dirs.iter().any(|layer| layer.start == start);
            if let Some(node) = parents.get(at).filter(|_| !is_known) {
                named_place.dirs.push(Layer::first(
                    number,
                    start,
                    Arc::clone(node),
                    Depth::Implied,
                ));
            }
        }
        match end {
            SourceLookup::Dir(node, depth) => {
                match named_place.dirs.iter_mut().find(|l| l.start == start) {
                    Some(layer) => layer.depth = layer.depth.max(depth),
                    None => named_place.dirs.push(Layer::first(number, start, node, depth)),
                }
            }
            SourceLookup::File(file) => {
                named_place.file.get_or_insert(file);
            }
            SourceLookup::Missing => named_place.is_missing = true,
            SourceLookup::Nothing => {}
        }
    }
}

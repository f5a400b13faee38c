//! Directories of several sources that become one at the destination, and the named sources in it.
//! Of several entries with one name the first source's is used. But a directory precedes other
//! entries, and directories are merged.

use super::{Found, PlaceListing, Rules, Subdirs, Walk};
use crate::dirs::DirNode;
use haul_model::{Fault, Name, OrFault, Side, Systems};
use haul_tree::Meta;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The directories of sources that share one place.
#[derive(Default)]
pub(crate) struct Merged {
    /// In the order of the sources.
    pub(crate) layers: Vec<Layer>,
    /// The named sources at this place or below.
    pub(crate) named_place: Option<Arc<NamedPlace>>,
}

/// A directory of a source.
#[derive(Clone)]
pub(crate) struct Layer {
    /// The number of the source.
    pub(crate) number: usize,
    /// The number of the directory in which the source's path starts.
    pub(crate) start: usize,
    pub(crate) node: Arc<DirNode>,
    pub(crate) depth: Depth,
    /// The file system of the source, if known.
    system: Option<u64>,
}

/// The part of a directory that is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Depth {
    /// Nothing: it is a parent directory of a source.
    Implied,
    /// Nothing: only the directory itself is listed.
    Closed,
    /// Nothing: another file system is mounted there.
    Mounted,
    /// All of its entries. The rules of the walk decide about its subdirectories.
    Open,
}

/// A place of named sources, or of a parent directory of one.
#[derive(Default)]
pub(crate) struct NamedPlace {
    /// The places in it.
    pub(crate) below: BTreeMap<Name, Arc<NamedPlace>>,
    /// The directories at this place, one for each start.
    pub(crate) dirs: Vec<Layer>,
    /// The first source at this place that is not a directory.
    pub(crate) file: Option<NamedFile>,
    /// A source for this place does not exist, and must be removed at the destination.
    pub(crate) is_missing: bool,
}

/// A source that is not a directory.
pub(crate) struct NamedFile {
    /// Its number.
    pub(crate) number: usize,
    /// The directory that contains it.
    pub(crate) dir: Arc<DirNode>,
    /// Links are followed.
    pub(crate) follow: bool,
    pub(crate) meta: Meta,
}

impl Layer {
    /// The directory `node`, in which the walk of a source starts.
    pub(crate) fn first(number: usize, start: usize, node: Arc<DirNode>, depth: Depth) -> Self {
        let system = node.id().map(|id| id.dev);
        Self { number, start, node, depth, system }
    }

    /// True if `system` is another file system than that of the source.
    pub(super) fn is_elsewhere(&self, system: Option<u64>) -> bool {
        self.system.zip(system).is_some_and(|(first, system)| first != system)
    }

    /// The subdirectory `node` of this one.
    pub(super) fn below(&self, node: Arc<DirNode>, rules: &Rules<'_>) -> Self {
        let is_mounted =
            rules.walking.systems != Systems::All && self.is_elsewhere(node.id().map(|id| id.dev));
        let depth = match rules.walking.only_dirs {
            _ if is_mounted => Depth::Mounted,
            true => Depth::Closed,
            false => Depth::Open,
        };
        Self { node, depth, ..self.clone() }
    }
}

impl Merged {
    /// The directory `node` alone.
    pub(crate) fn of(node: Arc<DirNode>, depth: Depth) -> Self {
        Self { layers: vec![Layer::first(0, 0, node, depth)], named_place: None }
    }

    /// The directory whose attributes are used; true if it is only a parent directory of a source.
    fn first(&self) -> Option<(&Arc<DirNode>, bool)> {
        let layer = self.layers.first()?;
        let is_implied_dir = self.layers.iter().all(|layer| layer.depth == Depth::Implied);
        Some((&layer.node, is_implied_dir))
    }

    /// True if not all of its entries are known.
    fn is_closed(&self) -> bool {
        let depths = || self.layers.iter().map(|layer| layer.depth);
        depths().any(|depth| depth == Depth::Mounted) || depths().all(|depth| depth != Depth::Open)
    }
}

/// The entries with one name at a place.
#[derive(Default)]
struct Slot {
    /// The first entry that is not a directory, with the number of its source.
    file: Option<(usize, Found)>,
    /// The indexes of the layers in which it is a directory.
    from: Vec<usize>,
    /// A named source directory, or a parent directory of one, is at this place.
    is_spot: bool,
}

/// The listed part of a directory.
struct Read {
    entries: Vec<Found>,
    /// The directories in it.
    names: Vec<Name>,
    /// A rule file was skipped.
    fault: Option<Fault>,
}

impl Walk<'_> {
    /// Reads the directories of `merged`.
    pub(super) fn list(&self, merged: Merged) -> PlaceListing {
        let is_plain = merged.named_place.is_none() && merged.layers.len() == 1;
        match merged.layers.first() {
            Some(layer) if is_plain && layer.depth == Depth::Open => match self.read_layer(layer) {
                Ok(Read { entries, names, fault }) => {
                    let faults = fault.into_iter().collect();
                    PlaceListing { entries, faults, ..self.listed(merged, names, Vec::new()) }
                }
                Err(fault) => PlaceListing {
                    faults: vec![fault],
                    ..self.listed(merged, Vec::new(), Vec::new())
                },
            },
            _ if is_plain => self.listed(merged, Vec::new(), Vec::new()),
            _ => self.merge(merged),
        }
    }

    fn merge(&self, merged: Merged) -> PlaceListing {
        let mut slots: BTreeMap<Name, Slot> = BTreeMap::new();
        let mut faults = Vec::new();
        let is_open = |layer: &&Layer| layer.depth == Depth::Open;
        for (at, layer) in merged.layers.iter().enumerate().filter(|(_, layer)| is_open(layer)) {
            match self.read_layer(layer) {
                Ok(Read { entries, names, fault }) => {
                    faults.extend(fault);
                    for found in entries {
                        let slot = slots.entry(found.name.clone()).or_default();
                        slot.file.get_or_insert((layer.number, found));
                    }
                    for name in names {
                        slots.entry(name).or_default().from.push(at);
                    }
                }
                Err(fault) => faults.push(fault),
            }
        }
        for (name, named_place) in
            merged.named_place.iter().flat_map(|named_place| &named_place.below)
        {
            if self.rules.walking.prunes_empty && !self.has_files_at(named_place) {
                continue;
            }
            let slot = slots.entry(name.clone()).or_default();
            slot.is_spot = !named_place.dirs.is_empty();
            if let Some(file) = &named_place.file
                && slot.file.as_ref().is_none_or(|(number, _)| file.number < *number)
            {
                slot.file = Some((file.number, file.found(name)));
            }
        }
        let (mut entries, mut names, mut from) = (Vec::new(), Vec::new(), Vec::new());
        let mut missing = Vec::new();
        for (name, slot) in slots {
            match slot.file {
                _ if slot.is_spot || !slot.from.is_empty() => {
                    names.push(name);
                    from.push(slot.from);
                }
                Some((_, found)) => entries.push(found),
                None => missing.push(name),
            }
        }
        PlaceListing { entries, faults, missing, ..self.listed(merged, names, from) }
    }

    /// `merged` with these subdirectories, and no other entries yet.
    fn listed(&self, merged: Merged, names: Vec<Name>, from: Vec<Vec<usize>>) -> PlaceListing {
        let (node, is_implied_dir) = match merged.first() {
            Some((node, is_implied_dir)) => (Some(Arc::clone(node)), is_implied_dir),
            None => (None, false),
        };
        let is_closed = merged.is_closed();
        let number = self.next_number();
        let subdirs = Arc::new(Subdirs { merged, names, from, number, listed_as: OnceLock::new() });
        PlaceListing {
            node,
            is_implied_dir,
            entries: Vec::new(),
            missing: Vec::new(),
            faults: Vec::new(),
            is_closed,
            subdirs,
            prefetched: None,
        }
    }

    /// The directories with name number `at` of `subdirs`, and the reasons why others with this
    /// name can't be walked.
    ///
    /// # Errors
    /// The reason why none of them can be walked.
    pub(super) fn enter(
        &self,
        subdirs: &Subdirs,
        at: usize,
    ) -> Result<(Merged, Vec<Fault>), Fault> {
        let Subdirs { merged, names, from, .. } = subdirs;
        let name = &names[at];
        let named_place =
            merged.named_place.as_ref().and_then(|named_place| named_place.below.get(name));
        let (mut layers, mut faults) = (Vec::new(), Vec::new());
        for at in from.get(at).map_or(&[0][..], |from| from) {
            let above = &merged.layers[*at];
            let opened = DirNode::open(&above.node, name.clone(), self.rules.follows_to_dirs())
                .or_fault(Side::Source, "open the directory")
                .and_then(|node| match self.rules.obstacle(&above.node, &node) {
                    Some(fault) => Err(fault),
                    None => Ok(above.below(node, &self.rules)),
                });
            match opened {
                Ok(layer) => layers.push(layer),
                Err(fault) => faults.push(fault),
            }
        }
        layers.extend(named_place.iter().flat_map(|named_place| &named_place.dirs).cloned());
        if layers.is_empty() {
            return Err(faults.pop().expect("it has the name of something"));
        }
        // If two layers have the same number, they are the same directory.
        layers.sort_by_key(|layer| layer.number);
        if !self.rules.lists_implied_dirs
            && layers.iter().any(|layer| layer.depth != Depth::Implied)
        {
            layers.retain(|layer| layer.depth != Depth::Implied);
        }
        let has_below = |named_place: &&Arc<NamedPlace>| !named_place.below.is_empty();
        Ok((Merged { layers, named_place: named_place.filter(has_below).cloned() }, faults))
    }

    fn read_layer(&self, layer: &Layer) -> Result<Read, Fault> {
        let node = &layer.node;
        let unread = |error| Fault::from_io(Side::Source, "read the directory", &error);
        let entries = self.entries(node).map_err(unread)?;
        let rules = node.select(self.rules.filter);
        let mut selection = rules.map_err(|unruly| unruly.fault(Side::Source))?;
        let fault = selection.skipped_files().map(|unruly| unruly.fault(Side::Source));
        let (entries, names) =
            self.inspect_entries(layer, entries, &mut selection).map_err(unread)?;
        Ok(Read { entries, names, fault })
    }

    /// True if an entry that is not a directory is at this place or below.
    fn has_files_at(&self, named_place: &NamedPlace) -> bool {
        named_place.file.is_some()
            || named_place.is_missing
            || named_place.dirs.iter().any(|layer| self.is_protected(&layer.node.path_of(None)))
            || named_place
                .dirs
                .iter()
                .any(|layer| layer.depth == Depth::Open && self.has_files(layer))
            || named_place.below.values().any(|named_place| self.has_files_at(named_place))
    }
}

impl NamedFile {
    fn found(&self, name: &Name) -> Found {
        Found {
            dir: Arc::clone(&self.dir),
            name: name.clone(),
            target: None,
            inspected: Some(Ok(self.meta.clone())),
            follow: self.follow,
            is_named: true,
        }
    }
}

//! Requested sources: the names that a remote Sender may list. These lie on the way to a source,
//! are a source, or are below one. Where several sources become one, each place is listed once.

use super::{ProtocolViolation, RecvDir};
use crate::Job;
use haul_model::{Entry, Kind, Missing, Name, Place, Relative, Side, words};
use haul_proto::NamedSources;
use std::collections::BTreeMap;

/// The requested sources of a job.
pub(crate) struct RequestedSources {
    root: PlaceNode,
    /// Sources that the Sender has not accounted for yet.
    unaccounted: usize,
    /// How many of these the rules may exclude.
    excludable_max: usize,
    /// Directories may be listed, with their content.
    recursive: bool,
    /// Symbolic links are followed, so none is listed.
    follow: bool,
    /// Sources with the same place become one.
    merges_sources: bool,
    /// Directories come without their content, except for sources that mean the content.
    only_dirs: bool,
    /// The base directory of a list of sources: its fault is one of all sources.
    base: Option<Vec<u8>>,
    /// A source begins with `./`: the directory that holds all sources may be listed, too.
    may_list_root: bool,
    /// The kind of the first entry of the listing.
    first_entry: FirstEntry,
    /// The directory of the last entry below all places, and how much of it may be listed.
    last: Option<(u64, Coverage)>,
}

/// A place at the destination: of sources, or on the way to one.
#[derive(Default)]
struct PlaceNode {
    children: BTreeMap<Name, PlaceNode>,
    /// Sources with this place that were not listed yet.
    left: usize,
    /// How many of these may be excluded.
    excludable: usize,
    /// Sources have this place.
    is_end: bool,
    /// One of these sources may be a link.
    may_be_link: bool,
    /// One of these sources means the content of a directory.
    is_content_requested: bool,
}

/// The first entry of a listing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FirstEntry {
    NoneYet,
    /// A source that holds all others.
    Root,
    /// Another entry.
    Other,
}

/// How much of a directory's content may be listed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Coverage {
    /// Only the places in it.
    PlacesOnly,
    /// All its entries, but no content of its subdirectories.
    OneLevel,
    All,
}

/// The relation of an entry to the sources.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    /// The entry is a source, or inside one.
    Covered,
    /// The entry is on the way to a source.
    Implied,
}

/// A requested entry.
pub(super) struct Accepted {
    /// The rules apply to it: they must not exclude it.
    pub(super) must_pass_filter: bool,
    /// It is a directory of whose content only places of sources were requested. Nothing in it
    /// counts as an extra, whatever the Sender reports.
    pub(super) is_closed: bool,
}

const UNREQUESTED: ProtocolViolation = ProtocolViolation("it listed a name that was not requested");

impl RequestedSources {
    /// The `sources` that were asked for, by the rules of `job`.
    pub(crate) fn of(sources: &NamedSources, job: &Job) -> Self {
        let removes = job.task.removes().is_some();
        // A rule may apply to directories only, and the kind of the source is not known yet.
        let excludes = |place: &Place| {
            let path = place.names.iter().map(Name::as_bytes).collect::<Vec<_>>().join(&b'/');
            [true, false].iter().any(|is_dir| job.filter.hides(&path, *is_dir) != Some(false))
        };
        let walking = job.task.mirrors().map(|mirror| mirror.walking).unwrap_or_default();
        let is_lax = walking.prunes_empty || walking.missing != Missing::Fails;
        let mut requested = Self {
            root: PlaceNode::default(),
            unaccounted: sources.paths.len(),
            excludable_max: 0,
            // At the end of a move directories are walked, and no link is followed. A record of a
            // link is not followed either.
            recursive: sources.recursive || removes,
            follow: sources.follow && !removes && !job.task.fakes(Side::Source),
            merges_sources: job.task.mirrors().is_some(),
            only_dirs: walking.only_dirs,
            base: sources.base.clone(),
            may_list_root: false,
            first_entry: FirstEntry::NoneYet,
            last: None,
        };
        let base = sources.base.as_deref().map(words::without_tilde);
        let mut may_list_root = false;
        for path in &sources.paths {
            let path = if base.is_some() { path } else { words::without_tilde(path) };
            // A source without a place can only fail.
            let Ok(place) = Place::of(path, base, walking.relative) else { continue };
            let node = place.names.iter().fold(&mut requested.root, |node, name| {
                node.children.entry(name.clone()).or_default()
            });
            let slash = place.slash && !removes;
            may_list_root |= place.dot;
            node.left += 1;
            node.is_end = true;
            node.may_be_link |= !slash;
            node.is_content_requested |= slash;
            if !place.names.is_empty() && (is_lax || excludes(&place)) {
                node.excludable += 1;
                requested.excludable_max += 1;
            }
        }
        requested.may_list_root = may_list_root && walking.relative == Relative::Yes;
        requested
    }

    /// Takes an entry of the directory `above`, whose index is `dir`.
    pub(super) fn take(
        &mut self,
        dir: u64,
        above: &RecvDir,
        entry: &Entry,
    ) -> Result<Accepted, ProtocolViolation> {
        if self.follow && matches!(entry.kind, Kind::Symlink { .. }) {
            return Err(ProtocolViolation("it listed a symbolic link where links are followed"));
        }
        let relation = self.take_place(dir, above, entry)?;
        if entry.kind == Kind::Dir && !self.recursive && relation == Relation::Covered {
            return Err(ProtocolViolation("it listed a directory where none was requested"));
        }
        if entry.is_implied_dir && relation == Relation::Covered {
            return Err(ProtocolViolation("it reported nothing about a source"));
        }
        let is_closed =
            self.merges_sources && entry.kind == Kind::Dir && self.is_closed(dir, above, entry);
        Ok(Accepted { must_pass_filter: relation == Relation::Covered, is_closed })
    }

    /// True if only places were requested in this directory of `above`.
    fn is_closed(&self, dir: u64, above: &RecvDir, entry: &Entry) -> bool {
        if let Some((last, coverage)) = self.last
            && last == dir
        {
            return coverage != Coverage::All;
        }
        let names: Vec<&Name> = above.names().into_iter().chain(&entry.name).collect();
        self.coverage(&names).0 == Coverage::PlacesOnly
    }

    fn take_place(
        &mut self,
        dir: u64,
        above: &RecvDir,
        entry: &Entry,
    ) -> Result<Relation, ProtocolViolation> {
        let Some(name) = &entry.name else {
            // All other sources are in it.
            if self.merges_sources && self.first_entry != FirstEntry::NoneYet {
                return Err(ProtocolViolation(
                    "it listed a source next to the one that contains all others",
                ));
            }
            self.first_entry = FirstEntry::Root;
            if self.may_list_root && self.root.left == 0 {
                return Ok(Relation::Implied);
            }
            self.mark_listed(&[])?;
            return Ok(Relation::Covered);
        };
        if dir != 0 && !self.merges_sources {
            return Ok(Relation::Covered);
        }
        if dir == 0 && self.merges_sources {
            if self.first_entry == FirstEntry::Root {
                return Err(ProtocolViolation(
                    "it listed a source next to the one that contains all others",
                ));
            }
            self.first_entry = FirstEntry::Other;
        }
        if let Some((last, coverage)) = self.last
            && last == dir
        {
            return self.covered(coverage);
        }
        let names = above.names();
        let (coverage, node) = self.coverage(&names);
        let Some(here) = node.and_then(|node| node.children.get(name)) else {
            if node.is_none_or(|node| node.children.is_empty()) {
                self.last = Some((dir, coverage));
            }
            return match dir {
                0 => Err(UNREQUESTED),
                _ => self.covered(coverage),
            };
        };
        let is_dir = entry.kind == Kind::Dir;
        if !here.is_end && coverage == Coverage::PlacesOnly {
            return if is_dir { Ok(Relation::Implied) } else { Err(UNREQUESTED) };
        }
        // Another source that is merged with it may have the entry, too.
        let is_shared = self.merges_sources && coverage != Coverage::PlacesOnly;
        let is_link = matches!(entry.kind, Kind::Symlink { .. });
        if is_link && !here.may_be_link && !is_shared {
            return Err(UNREQUESTED);
        }
        let is_implied = is_dir && !here.children.is_empty();
        if here.is_end {
            let names: Vec<&Name> = names.into_iter().chain([name]).collect();
            match self.mark_listed(&names) {
                Err(_) if is_shared => {}
                listed => listed?,
            }
        }
        Ok(if is_implied { Relation::Implied } else { Relation::Covered })
    }

    fn covered(&self, coverage: Coverage) -> Result<Relation, ProtocolViolation> {
        match coverage {
            Coverage::PlacesOnly if self.only_dirs => Err(ProtocolViolation(
                "it listed the content of a directory that was requested without it",
            )),
            Coverage::PlacesOnly => Err(UNREQUESTED),
            Coverage::OneLevel | Coverage::All => Ok(Relation::Covered),
        }
    }

    /// How much of the directory with these names may be listed, and its place, if it is one.
    fn coverage(&self, names: &[&Name]) -> (Coverage, Option<&PlaceNode>) {
        let of = |node: &PlaceNode| match (node.is_end, self.only_dirs, node.is_content_requested) {
            (false, ..) | (true, true, false) => Coverage::PlacesOnly,
            (true, true, true) => Coverage::OneLevel,
            (true, false, _) => Coverage::All,
        };
        let mut node = Some(&self.root);
        let mut coverage = of(&self.root);
        for name in names {
            node = node.and_then(|node| node.children.get(*name));
            let inherited =
                if coverage == Coverage::All { Coverage::All } else { Coverage::PlacesOnly };
            coverage = inherited.max(node.map_or(Coverage::PlacesOnly, of));
        }
        (coverage, node)
    }

    /// Records that the sources at the place with these names are listed.
    fn mark_listed(&mut self, names: &[&Name]) -> Result<(), ProtocolViolation> {
        let found =
            names.iter().try_fold(&mut self.root, |node, name| node.children.get_mut(*name));
        let node = found.filter(|node| node.left > 0).ok_or(UNREQUESTED)?;
        let listed = if self.merges_sources { node.left } else { 1 };
        node.left -= listed;
        // They are not excluded, so other sources can't use their allowance.
        let allowance = if self.merges_sources { node.excludable } else { node.excludable.min(1) };
        node.excludable -= allowance;
        self.excludable_max -= allowance;
        self.account_for(listed)
    }

    /// Takes `name` in `above` as that of a missing source.
    pub(super) fn take_missing(
        &mut self,
        above: &RecvDir,
        name: &Name,
    ) -> Result<(), ProtocolViolation> {
        let names: Vec<&Name> = above.names().into_iter().chain([name]).collect();
        self.mark_listed(&names)
    }

    /// Takes the fault of the entry `name` in the directory `dir`.
    pub(super) fn take_fault(&mut self, dir: u64, name: &[u8]) -> Result<(), ProtocolViolation> {
        match self.merges_sources {
            true if dir == 0 && self.base.as_deref() == Some(name) => self.unaccounted = 0,
            // Each of the sources with one place may have its own fault.
            true => self.unaccounted = self.unaccounted.saturating_sub(1),
            false if dir == 0 => return self.account_for(1),
            false => {}
        }
        Ok(())
    }

    /// True if all sources are accounted for.
    pub(super) fn may_end(&self) -> bool {
        self.unaccounted <= self.excludable_max
    }

    fn account_for(&mut self, count: usize) -> Result<(), ProtocolViolation> {
        self.unaccounted = match self.unaccounted.checked_sub(count) {
            Some(left) => left,
            None if self.merges_sources => 0,
            None => return Err(ProtocolViolation("it reported more than was requested")),
        };
        Ok(())
    }
}

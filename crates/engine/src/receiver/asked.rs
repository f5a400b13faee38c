//! Requested sources: the names that a remote Sender may list. These lie on the way to a source,
//! are a source, or are below one. Where several sources become one, each place is listed once.

use super::{Broken, RecvDir};
use crate::Job;
use haul_model::{Entry, Kind, Missing, Name, Place, Relative, words};
use std::collections::BTreeMap;

/// The requested sources of a job.
pub(crate) struct Asked {
    root: Point,
    /// Sources that the Sender has not accounted for yet.
    unanswered: usize,
    /// How many of these the rules may exclude.
    left_out_max: usize,
    /// Directories may be listed, with their content.
    recursive: bool,
    /// Symbolic links are followed, so none is listed.
    follow: bool,
    /// Sources with the same place become one.
    merges: bool,
    /// Directories come without their content, except for sources that mean the content.
    only_dirs: bool,
    /// The base directory of a list of sources: its fault is one of all sources.
    base: Option<Vec<u8>>,
    /// A source begins with `./`: the directory that holds all sources may be listed, too.
    begins: bool,
    /// The kind of the first entry of the listing.
    begun: Beginning,
    /// The directory of the last entry below all places, and how much of it may be listed.
    last: Option<(u64, Cover)>,
}

/// A place at the destination: of sources, or on the way to one.
#[derive(Default)]
struct Point {
    below: BTreeMap<Name, Point>,
    /// Sources with this place that were not listed yet.
    left: usize,
    /// How many of these may be excluded.
    may_be_left_out: usize,
    /// Sources have this place.
    is_end: bool,
    /// One of these sources may be a link.
    may_be_link: bool,
    /// One of these sources means the content of a directory.
    is_open: bool,
}

/// The first entry of a listing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beginning {
    No,
    /// A source that holds all others.
    Whole,
    /// Another entry.
    Apart,
}

/// How much of a directory's content may be listed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cover {
    /// Only the places in it.
    Nothing,
    /// All its entries, but no content of its subdirectories.
    Once,
    All,
}

/// The relation of an entry to the sources.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// The entry is a source, or inside one.
    Covered,
    /// The entry is on the way to a source.
    Way,
}

/// A requested entry.
pub(super) struct Taken {
    /// The rules apply to it: they must not exclude it.
    pub(super) is_ruled: bool,
    /// It is a directory of whose content only places of sources were requested. Nothing in it
    /// counts as an extra, whatever the Sender reports.
    pub(super) is_closed: bool,
}

const UNASKED: Broken = Broken("it listed a name that was not requested");

impl Asked {
    /// The sources that `job` asks for.
    pub(crate) fn of(job: &Job) -> Self {
        let removes = job.task.removes().is_some();
        // A rule may apply to directories only, and the kind of the source is not known yet.
        let leaves_out = |place: &Place| {
            let path = place.names.iter().map(Name::as_bytes).collect::<Vec<_>>().join(&b'/');
            [true, false].iter().any(|is_dir| job.filter.hides(&path, *is_dir) != Some(false))
        };
        let walking = job.task.mirrors().map(|mirror| mirror.walking).unwrap_or_default();
        let is_lax = walking.prunes_empty || walking.missing != Missing::Fails;
        let mut asked = Self {
            root: Point::default(),
            unanswered: job.sources.len(),
            left_out_max: 0,
            // At the end of a move directories are walked, and no link is followed.
            recursive: job.recursive || removes,
            follow: job.follow && !removes,
            merges: job.task.mirrors().is_some(),
            only_dirs: walking.only_dirs,
            base: job.base.clone(),
            begins: false,
            begun: Beginning::No,
            last: None,
        };
        let base = job.base.as_deref().map(words::without_tilde);
        let mut begins = false;
        for path in &job.sources {
            let path = if base.is_some() { path } else { words::without_tilde(path) };
            // A source without a place can only fail.
            let Ok(place) = Place::of(path, base, walking.relative) else { continue };
            let point = place
                .names
                .iter()
                .fold(&mut asked.root, |point, name| point.below.entry(name.clone()).or_default());
            let slash = place.slash && !removes;
            begins |= place.dot;
            point.left += 1;
            point.is_end = true;
            point.may_be_link |= !slash;
            point.is_open |= slash;
            if !place.names.is_empty() && (is_lax || leaves_out(&place)) {
                point.may_be_left_out += 1;
                asked.left_out_max += 1;
            }
        }
        asked.begins = begins && walking.relative == Relative::Yes;
        asked
    }

    /// Takes an entry of the directory `above`, whose index is `dir`.
    pub(super) fn take(
        &mut self,
        dir: u64,
        above: &RecvDir,
        entry: &Entry,
    ) -> Result<Taken, Broken> {
        if self.follow && matches!(entry.kind, Kind::Symlink { .. }) {
            return Err(Broken("it listed a symbolic link where links are followed"));
        }
        let standing = self.take_place(dir, above, entry)?;
        if entry.kind == Kind::Dir && !self.recursive && standing == Standing::Covered {
            return Err(Broken("it listed a directory where none was requested"));
        }
        if entry.is_way && standing == Standing::Covered {
            return Err(Broken("it reported nothing about a source"));
        }
        let is_closed = self.merges && entry.kind == Kind::Dir && self.is_closed(dir, above, entry);
        Ok(Taken { is_ruled: standing == Standing::Covered, is_closed })
    }

    /// True if only places were requested in this directory of `above`.
    fn is_closed(&self, dir: u64, above: &RecvDir, entry: &Entry) -> bool {
        if let Some((last, cover)) = self.last
            && last == dir
        {
            return cover != Cover::All;
        }
        let names: Vec<&Name> = above.names().into_iter().chain(&entry.name).collect();
        self.cover(&names).0 == Cover::Nothing
    }

    fn take_place(&mut self, dir: u64, above: &RecvDir, entry: &Entry) -> Result<Standing, Broken> {
        let Some(name) = &entry.name else {
            // All other sources are in it.
            if self.merges && self.begun != Beginning::No {
                return Err(Broken("it listed a source beside the one that has all others in it"));
            }
            self.begun = Beginning::Whole;
            if self.begins && self.root.left == 0 {
                return Ok(Standing::Way);
            }
            self.answer(&[])?;
            return Ok(Standing::Covered);
        };
        if dir != 0 && !self.merges {
            return Ok(Standing::Covered);
        }
        if dir == 0 && self.merges {
            if self.begun == Beginning::Whole {
                return Err(Broken("it listed a source beside the one that has all others in it"));
            }
            self.begun = Beginning::Apart;
        }
        if let Some((last, cover)) = self.last
            && last == dir
        {
            return self.covered(cover);
        }
        let names = above.names();
        let (cover, point) = self.cover(&names);
        let Some(here) = point.and_then(|point| point.below.get(name)) else {
            if point.is_none_or(|point| point.below.is_empty()) {
                self.last = Some((dir, cover));
            }
            return match dir {
                0 => Err(UNASKED),
                _ => self.covered(cover),
            };
        };
        let is_dir = entry.kind == Kind::Dir;
        if !here.is_end && cover == Cover::Nothing {
            return if is_dir { Ok(Standing::Way) } else { Err(UNASKED) };
        }
        // Another source that is merged with it may have the entry, too.
        let is_shared = self.merges && cover != Cover::Nothing;
        let is_link = matches!(entry.kind, Kind::Symlink { .. });
        if is_link && !here.may_be_link && !is_shared {
            return Err(UNASKED);
        }
        let is_on_way = is_dir && !here.below.is_empty();
        if here.is_end {
            let names: Vec<&Name> = names.into_iter().chain([name]).collect();
            match self.answer(&names) {
                Err(_) if is_shared => {}
                answered => answered?,
            }
        }
        Ok(if is_on_way { Standing::Way } else { Standing::Covered })
    }

    fn covered(&self, cover: Cover) -> Result<Standing, Broken> {
        match cover {
            Cover::Nothing if self.only_dirs => {
                Err(Broken("it listed the content of a directory that was requested without it"))
            }
            Cover::Nothing => Err(UNASKED),
            Cover::Once | Cover::All => Ok(Standing::Covered),
        }
    }

    /// How much of the directory with these names may be listed, and its place, if it is one.
    fn cover(&self, names: &[&Name]) -> (Cover, Option<&Point>) {
        let of = |point: &Point| match (point.is_end, self.only_dirs, point.is_open) {
            (false, ..) | (true, true, false) => Cover::Nothing,
            (true, true, true) => Cover::Once,
            (true, false, _) => Cover::All,
        };
        let mut point = Some(&self.root);
        let mut cover = of(&self.root);
        for name in names {
            point = point.and_then(|point| point.below.get(*name));
            let inherited = if cover == Cover::All { Cover::All } else { Cover::Nothing };
            cover = inherited.max(point.map_or(Cover::Nothing, of));
        }
        (cover, point)
    }

    /// Records that the sources at the place with these names are listed.
    fn answer(&mut self, names: &[&Name]) -> Result<(), Broken> {
        let found = names.iter().try_fold(&mut self.root, |point, name| point.below.get_mut(*name));
        let point = found.filter(|point| point.left > 0).ok_or(UNASKED)?;
        let answered = if self.merges { point.left } else { 1 };
        point.left -= answered;
        // They are not excluded, so other sources can't use their allowance.
        let in_room =
            if self.merges { point.may_be_left_out } else { point.may_be_left_out.min(1) };
        point.may_be_left_out -= in_room;
        self.left_out_max -= in_room;
        self.told(answered)
    }

    /// Takes `name` in `above` as that of a missing source.
    pub(super) fn take_missing(&mut self, above: &RecvDir, name: &Name) -> Result<(), Broken> {
        let names: Vec<&Name> = above.names().into_iter().chain([name]).collect();
        self.answer(&names)
    }

    /// Takes the fault of the entry `name` in the directory `dir`.
    pub(super) fn take_fault(&mut self, dir: u64, name: &[u8]) -> Result<(), Broken> {
        match self.merges {
            true if dir == 0 && self.base.as_deref() == Some(name) => self.unanswered = 0,
            // Each of the sources with one place may have its own fault.
            true => self.unanswered = self.unanswered.saturating_sub(1),
            false if dir == 0 => return self.told(1),
            false => {}
        }
        Ok(())
    }

    /// True if all sources are accounted for.
    pub(super) fn may_end(&self) -> bool {
        self.unanswered <= self.left_out_max
    }

    fn told(&mut self, answers: usize) -> Result<(), Broken> {
        self.unanswered = match self.unanswered.checked_sub(answers) {
            Some(left) => left,
            None if self.merges => 0,
            None => return Err(Broken("it reported more than was requested")),
        };
        Ok(())
    }
}

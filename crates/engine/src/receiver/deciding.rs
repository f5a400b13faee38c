//! Decides about files and links of a mirror, by what stands in their place.

use super::Receiver;
use super::compare::{self, Decision};
use super::dirs::RecvDir;
use super::own::{self, is_own};
use crate::dirs::DirNode;
use haul_model::{
    Changes, Conflict, Entry, Fault, FaultKind, Kind, Mirror, Name, Outcome, Sameness, Side, Skip,
    Timestamp, Updating,
};
use haul_store::OnExisting;
use haul_tree::{Meta, MetaKind};
use std::io;
use std::sync::Arc;

impl Receiver<'_> {
    /// Decides about a file or a link of a mirror, where `existing` stands in its place.
    /// Gives also how that differs. Its source has the time `mtime`, whatever the entry is
    /// compared by.
    pub(super) fn decide_mirrored(
        &self,
        mirror: &Mirror,
        mtime: Timestamp,
        (dir, node): (&RecvDir, &Arc<DirNode>),
        name: &Name,
        entry: &Entry,
        existing: Option<&Meta>,
    ) -> io::Result<(Decision, Changes)> {
        let settled = |outcome| Ok((Decision::Settled(outcome), Changes::default()));
        if is_ruled_out(mirror, entry, existing) {
            return settled(Outcome::Skipped(Skip::Ruled));
        }
        let Some(existing) = existing else {
            if let Some(decided) = self.decide_by_bases(mirror, dir, name, entry)? {
                return Ok(decided);
            }
            return Ok((Decision::Copy(OnExisting::Keep), Changes::MISSING.with(Changes::SENT)));
        };
        if let Some(fault) = compare::leads_there(&*node.handle()?, name, entry, existing) {
            return settled(Outcome::Failed(fault));
        }
        if self.policy.conflict == Conflict::Keep {
            return settled(Outcome::Skipped(Skip::Exists));
        }
        let target = match (&entry.kind, existing.kind) {
            (Kind::Symlink { .. }, MetaKind::Symlink) => Some(node.handle()?.read_link(name)?),
            _ => None,
        };
        let found = compare::changes(entry, existing, target.as_deref(), self.policy.keeps);
        if is_own(entry, existing.id) {
            return settled(outcome_of_itself(found));
        }
        let is_newer = is_newer(mirror, mtime, entry, existing);
        let is_file = matches!(entry.kind, Kind::File { .. }) && !found.has(Changes::KIND);
        if is_file && mirror.skips_newer && is_newer {
            return settled(Outcome::Skipped(Skip::NotOlder));
        }
        if found.has(Changes::KIND)
            && let Some(decided) =
                self.decide_instead(mirror, (dir, node), name, entry, existing)?
        {
            return Ok(decided);
        }
        match self.decide_to_link(mirror, dir, name, entry, existing)? {
            Some((Decision::HashBases(bases, _), _)) => {
                let (otherwise, found) =
                    self.decide_by_existing(mirror, node, name, entry, existing, found)?;
                return Ok((Decision::HashBases(bases, Box::new(otherwise)), found));
            }
            Some(linked) => return Ok(linked),
            None => {}
        }
        self.decide_by_existing(mirror, node, name, entry, existing, found)
    }

    /// Decides by what stands there alone, from which the entry differs by `found`.
    fn decide_by_existing(
        &self,
        mirror: &Mirror,
        node: &Arc<DirNode>,
        name: &Name,
        entry: &Entry,
        existing: &Meta,
        found: Changes,
    ) -> io::Result<(Decision, Changes)> {
        let settled = |outcome| Ok((Decision::Settled(outcome), Changes::default()));
        let replaced =
            |found: Changes| Ok((Decision::Copy(OnExisting::Replace), found.with(Changes::SENT)));
        if found.has(Changes::KIND) {
            if existing.kind == MetaKind::Dir && !mirror.makes_way && !is_empty(node, name)? {
                return settled(Outcome::Failed(Fault::new(
                    Side::Destination,
                    FaultKind::IsDirectory,
                    "the destination has a non-empty directory with this name",
                )));
            }
            return replaced(found);
        }
        if matches!(entry.kind, Kind::Symlink { .. } | Kind::Special) {
            // Its attributes are those that it is made with.
            return if found.is_empty() {
                Ok((Decision::Settled(Outcome::Skipped(Skip::Unchanged)), found))
            } else {
                replaced(found)
            };
        }
        let appends = mirror.updating == Updating::Appends;
        let MetaKind::File { size: size_there } = existing.kind else { return replaced(found) };
        if appends && size_there > entry.size() {
            return settled(Outcome::Skipped(Skip::Ruled));
        }
        if mirror.sameness == Sameness::Content {
            if found.has(Changes::SIZE) {
                // Another length is other content.
                return replaced(found.with(Changes::CONTENT));
            }
            if entry.size() > 0 {
                return Ok((Decision::Hash, found));
            }
        }
        let is_same = Self::looks_the_same(mirror, entry, existing, found);
        if !is_same && appends && size_there == entry.size() {
            return settled(Outcome::Skipped(Skip::Ruled));
        }
        if !is_same || self.was_lost(node, name, entry, Some(existing))? {
            return replaced(found);
        }
        Ok((Decision::Settled(Outcome::Skipped(Skip::Unchanged)), found))
    }

    /// True if no entry of that kind takes part in a mirror by its rules, whatever stands in
    /// its place.
    pub(super) fn is_left_out(&self, kind: &Kind) -> bool {
        let Some(mirror) = self.task.mirrors() else { return false };
        match kind {
            Kind::Symlink { .. } => !mirror.links,
            Kind::File { size } => !is_of_size(mirror, *size),
            Kind::Dir | Kind::Special => false,
        }
    }

    /// Decides about an entry of a directory that would have to be made.
    pub(super) fn decide_in_absent(
        &self,
        dir: &RecvDir,
        name: &Name,
        entry: &Entry,
    ) -> (Decision, Changes) {
        let copied = Decision::Settled(Outcome::WouldCopy);
        let new = (copied, Changes::MISSING.with(Changes::SENT));
        let Some(mirror) = self.task.mirrors() else { return new };
        if is_ruled_out(mirror, entry, None) {
            return (Decision::Settled(Outcome::Skipped(Skip::Ruled)), Changes::default());
        }
        match self.decide_by_bases(mirror, dir, name, entry) {
            Ok(decided) => decided.unwrap_or(new),
            Err(error) => {
                let fault = Fault::from_io(
                    Side::Destination,
                    "read the metadata of the destination",
                    &error,
                );
                (Decision::Settled(Outcome::Failed(fault)), Changes::default())
            }
        }
    }

    /// True if a file that is `existing`, and differs from `entry` by `found`, has its
    /// content, for all that can be told without looking at that.
    pub(super) fn looks_the_same(
        mirror: &Mirror,
        entry: &Entry,
        existing: &Meta,
        found: Changes,
    ) -> bool {
        let has_time = existing.attributes.mtime == entry.attributes.mtime;
        !found.has(Changes::SIZE)
            && match mirror.sameness {
                Sameness::SizeAndTime => has_time,
                Sameness::Size => true,
                Sameness::Content => entry.size() == 0,
                Sameness::None => false,
            }
    }

    /// The time that `there` is taken to have, if that of an entry is `mtime`.
    pub(super) fn in_its_window(&self, mtime: Timestamp, there: Timestamp) -> Option<Timestamp> {
        let window = self.task.mirrors()?.window?;
        (mtime.secs.abs_diff(there.secs) <= u64::from(window)).then_some(there)
    }
}

/// The outcome of an entry whose content is left as it is, and that was found to differ
/// by `found`.
pub(super) fn left_or_updated(found: Changes) -> Outcome {
    match found.is_empty() {
        true => Outcome::Skipped(Skip::Unchanged),
        false => Outcome::Synced(found),
    }
}

/// The outcome of an entry that is the existing object by its number, as a hard link to it is,
/// and was found to differ by `found`. What differs would be given to the source, too, or shows
/// that the file system has one number for two objects.
fn outcome_of_itself(found: Changes) -> Outcome {
    match found.without(Changes::ATIME).is_empty() {
        true => Outcome::Skipped(Skip::Unchanged),
        false => Outcome::Failed(own::same_file()),
    }
}

/// True if the file that is there is newer than the source, of the time `mtime`: with a window
/// of seconds also if it is less than that older, as with rsync.
fn is_newer(mirror: &Mirror, mtime: Timestamp, entry: &Entry, existing: &Meta) -> bool {
    let there = existing.attributes.mtime;
    match mirror.window {
        Some(window @ 1..) => mtime.secs.saturating_sub(there.secs) < i64::from(window),
        _ => there > entry.attributes.mtime,
    }
}

/// True if the rules leave an entry alone, whatever it is like.
fn is_ruled_out(mirror: &Mirror, entry: &Entry, existing: Option<&Meta>) -> bool {
    if existing.is_none() && mirror.existing_only {
        return true;
    }
    matches!(entry.kind, Kind::File { size } if !is_of_size(mirror, size))
}

/// True if files of so many bytes take part.
fn is_of_size(mirror: &Mirror, size: u64) -> bool {
    mirror.size_min.is_none_or(|min| size >= min) && mirror.size_max.is_none_or(|max| size <= max)
}

pub(super) fn is_empty(node: &Arc<DirNode>, name: &Name) -> io::Result<bool> {
    Ok(node.handle()?.open_dir(name, false)?.entries()?.is_empty())
}

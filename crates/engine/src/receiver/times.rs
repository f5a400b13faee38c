//! How exactly a destination keeps times. Where it cuts them off, what it has kept
//! of a source's time is that time.
//!
//! It is found out, once for each file system, when a file's time is the source's
//! but for what a coarser one would lack. A job that writes makes a private file and
//! sees what becomes of a time. One that changes nothing goes by the times that are
//! there, above all those of changes to an entry, which nobody can set: if one is
//! finer, the file system is.

use super::Receiver;
use crate::dirs::DirNode;
use haul_model::{Entry, FileId, Granularity, Timestamp};
use haul_tree::lock;
use haul_tree::{Meta, TreeDir, in_whole_seconds};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex};

/// Entries of a directory whose times are looked at, at most.
const WITNESSES_MAX: usize = 32;

/// Different times of modification that show the unit, at least, where no times of changes
/// are told: those of so many even seconds are hardly there by chance.
const WITNESSES_MIN: usize = 16;

/// The units in which file systems keep times, as far as anybody had to know: by device,
/// or by directory where none is told.
#[derive(Default)]
pub(super) struct Units(Mutex<HashMap<FileId, Granularity>>);

impl Receiver<'_> {
    /// `entry` with its time as both sides can keep it, where `there` stands at its
    /// place in `node`.
    pub(super) fn as_kept<'e>(
        &self,
        entry: &'e Entry,
        node: &Arc<DirNode>,
        there: Option<&Meta>,
    ) -> Cow<'e, Entry> {
        let mtime = entry.attributes.mtime;
        let kept = self.kept_time(mtime, node, there);
        if kept == mtime {
            return Cow::Borrowed(entry);
        }
        let mut entry = entry.clone();
        entry.attributes.mtime = kept;
        Cow::Owned(entry)
    }

    /// `mtime` as both sides can keep it, where `there` is in `node`.
    pub(super) fn kept_time(
        &self,
        mtime: Timestamp,
        node: &Arc<DirNode>,
        there: Option<&Meta>,
    ) -> Timestamp {
        let mtime = if self.whole_seconds { in_whole_seconds(mtime) } else { mtime };
        if let Some(there) = there
            && let Some(time) = self.in_its_window(mtime, there.attributes.mtime)
        {
            return time;
        }
        let is_kept = |there: &&Meta| {
            let found = there.attributes.mtime;
            found != mtime
                && Granularity::between(mtime, found).is_some()
                && self.unit_of(node, there).kept(mtime) == found
        };
        there.filter(is_kept).map_or(mtime, |there| there.attributes.mtime)
    }

    /// The unit in which the file system of `there` keeps times, an entry of `node`.
    fn unit_of(&self, node: &Arc<DirNode>, there: &Meta) -> Granularity {
        let of_system = there.id.map(|id| FileId { ino: 0, ..id });
        let Some(place) = of_system.or_else(|| node.id()) else { return Granularity::FINEST };
        if let Some(unit) = lock(&self.units.0).get(&place) {
            return *unit;
        }
        let find = || {
            let Ok(handle) = node.handle() else { return Granularity::FINEST };
            let tried = match self.policy.dry_run {
                true => None,
                false => handle.time_unit().ok(),
            };
            let found = tried.or_else(|| unit_seen(&*handle, there).ok());
            found.unwrap_or(Granularity::FINEST)
        };
        // It may take round trips; two that find the same do no harm.
        let unit = find();
        lock(&self.units.0).insert(place, unit);
        unit
    }
}

/// The coarsest unit that explains the times of `there`, and of others in `dir`.
fn unit_seen(dir: &dyn TreeDir, there: &Meta) -> io::Result<Granularity> {
    let mut times: BTreeSet<Timestamp> = there.ctime.into_iter().collect();
    let mut add = |meta: Meta| {
        if meta.id.map(|id| id.dev) == there.id.map(|id| id.dev) {
            times.extend(meta.ctime);
            times.insert(meta.attributes.mtime);
        }
    };
    add(dir.stat_self()?);
    for entry in dir.entries()?.into_iter().take(WITNESSES_MAX) {
        if let Some(meta) = dir.stat(&entry.name, false)? {
            add(meta);
        }
    }
    if there.ctime.is_none() && times.len() < WITNESSES_MIN {
        return Ok(Granularity::FINEST);
    }
    let explains =
        |unit: &Granularity| times.iter().all(|&time: &Timestamp| unit.kept(time) == time);
    Ok(Granularity::ALL.into_iter().rev().find(explains).unwrap_or(Granularity::FINEST))
}

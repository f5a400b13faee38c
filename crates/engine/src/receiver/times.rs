//! Times: how exactly the destination keeps them. If a file system truncates a source's time, the
//! truncated time counts as equal.
//!
//! The resolution is determined once for each file system, when a file's time equals the source's
//! except for finer digits. A job that writes makes a private file and reads back its time. A job
//! that changes nothing examines existing times, above all change times, which nobody can set: a
//! finer one proves a finer file system.
//!
//! A time that is out of a file system's range becomes another one there: see [`Range`].
//!
//! Where change times are unknown, as over SFTP, a few times may be coarse by chance. The
//! resolution that they suggest is assumed until a finer one is seen, or there are enough times to
//! prove it. Each job warns once that it assumes this.

use super::{DirState, JobContext, Owners, RecvDir};
use crate::dirs::DirNode;
use haul_model::{Attributes, Entry, Fault, FaultKind, FileId, Granularity, Kept, Side, Timestamp};
use haul_tree::{Meta, TreeDir, in_whole_seconds};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of entries of a directory whose times are examined.
const WITNESSES_MAX: usize = 32;

/// Minimum number of different mtimes that prove the unit if no change times are known: so many
/// even seconds are hardly chance.
const WITNESSES_MIN: usize = 16;

/// A time that needs the finest unit.
const PROBE: Timestamp = Timestamp { secs: 1_000_000_001, nanos: 987_654_321 };

/// Seconds since 1970 that every file system can store: FAT begins in 1980, and 32-bit counters end
/// in 2038.
const KEPT_EVERYWHERE: RangeInclusive<i64> = 315_619_200..=i32::MAX as i64 - 86_400;

/// The warning about an entry whose time is out of the destination's range.
const OUT_OF_RANGE: &str = "the destination can't store its mtime: setting the nearest one";

/// The warning of a job that assumes a unit.
const ASSUMED: &str = "all mtimes there are multiples of two seconds: treating entries up to two seconds older as unchanged; compare contents to be sure";

/// The known units of file systems: by device, or by directory where devices are unknown.
#[derive(Default)]
pub(super) struct Units {
    by_place: Mutex<HashMap<FileId, Unit>>,
    /// The warning about an assumed unit was sent.
    has_warned: AtomicBool,
    /// The known ranges of times: by device, or by directory where devices are unknown.
    ranges: Mutex<HashMap<FileId, Range>>,
}

/// The times that one file system can and can't store, in seconds since 1970, as far as known.
struct Range {
    kept: RangeInclusive<i64>,
    /// The last time before, and the first after, `kept` that it is known to change.
    changed: (i64, i64),
}

impl Range {
    /// True if the file system can store `secs`; `None` if unknown.
    fn keeps(&self, secs: i64) -> Option<bool> {
        let is_changed = secs <= self.changed.0 || secs >= self.changed.1;
        self.kept.contains(&secs).then_some(true).or(is_changed.then_some(false))
    }

    /// Records whether `secs` was stored unchanged.
    fn record(&mut self, secs: i64, is_kept: bool) {
        let (first, last) = (*self.kept.start(), *self.kept.end());
        match is_kept {
            true => self.kept = first.min(secs)..=last.max(secs),
            false if secs < first => self.changed.0 = self.changed.0.max(secs),
            false => self.changed.1 = self.changed.1.min(secs),
        }
    }
}

impl Default for Range {
    fn default() -> Self {
        Self { kept: KEPT_EVERYWHERE, changed: (i64::MIN, i64::MAX) }
    }
}

/// The unit of a file system.
enum Unit {
    Known(Granularity),
    /// Suggested by few times.
    Assumed {
        unit: Granularity,
        /// All times that were seen, fewer than [`WITNESSES_MIN`].
        times: BTreeSet<Timestamp>,
        /// The directory that was examined last.
        last: Option<FileId>,
    },
}

/// Compares times as the destination can store them.
pub(super) struct Times<'a> {
    pub(super) job: Arc<JobContext<'a>>,
    pub(super) owners: Arc<Owners<'a>>,
    pub(super) units: Units,
}

impl<'a> Times<'a> {
    pub(super) fn of(owners: &Arc<Owners<'a>>) -> Arc<Self> {
        let (job, owners) = (Arc::clone(&owners.job), Arc::clone(owners));
        Arc::new(Self { job, owners, units: Units::default() })
    }
}

impl Times<'_> {
    /// `entry` with its time as both sides can store it, and with the protected extended attributes
    /// of `existing`, the existing entry in `node`.
    pub(super) fn as_kept<'e>(
        &self,
        entry: &'e Entry,
        node: &Arc<DirNode>,
        existing: Option<&Meta>,
    ) -> Cow<'e, Entry> {
        let mtime = entry.attributes.mtime;
        let kept = self.stored_time(mtime, node, existing);
        let protected = self
            .owners
            .with_protected(&entry.attributes, existing.map(|existing| &existing.attributes));
        if kept == mtime && matches!(protected, Cow::Borrowed(_)) {
            return Cow::Borrowed(entry);
        }
        let attributes = Attributes { mtime: kept, ..protected.into_owned() };
        Cow::Owned(Entry { attributes, ..entry.clone() })
    }

    /// `mtime` as both sides can store it. `existing`: the existing entry in `node`.
    pub(super) fn stored_time(
        &self,
        mtime: Timestamp,
        node: &Arc<DirNode>,
        existing: Option<&Meta>,
    ) -> Timestamp {
        let mtime = if self.job.whole_seconds { in_whole_seconds(mtime) } else { mtime };
        if let Some(existing) = existing
            && let Some(time) = self.job.plan.in_window(mtime, existing.attributes.mtime)
        {
            return time;
        }
        let Some(found) = existing.map(|existing| existing.attributes.mtime) else { return mtime };
        if found == mtime || Granularity::between(mtime, found).is_none() {
            return mtime;
        }
        let (unit, is_assumed) =
            existing.map_or((Granularity::FINEST, false), |existing| self.unit_of(node, existing));
        if unit.kept(mtime) != found {
            return mtime;
        }
        if is_assumed && !self.units.has_warned.swap(true, Ordering::Relaxed) {
            self.job.warn(&self.job.dest, ASSUMED);
        }
        found
    }

    /// Checks that the destination can store the time of `entry`, a file or directory in `dir` that
    /// gets it. If not, sends a warning, or returns the fault of a source that must stay.
    pub(super) fn check_time(&self, dir: &RecvDir, entry: &Entry) -> Option<Fault> {
        let mtime = entry.attributes.mtime;
        let DirState::Open(node) = &dir.state else { return None };
        // The check may have to write, so jobs that change nothing skip it.
        let sets_times = self.job.plan.keeps.has(Kept::TIMES)
            && !self.job.plan.dry_run
            && !self.job.copies_nothing();
        if !sets_times || KEPT_EVERYWHERE.contains(&mtime.secs) || self.can_store_time(node, mtime)
        {
            return None;
        }
        if self.owners.moves_whole() {
            let message = "not moved: the destination can't store its mtime";
            return Some(Fault::new(Side::Source, FaultKind::Lossy, message));
        }
        self.job.warn(&dir.path_of(entry.name.as_ref()), OUT_OF_RANGE);
        None
    }

    /// True if a file in `node` can have that time, or if it is unknown.
    fn can_store_time(&self, node: &Arc<DirNode>, mtime: Timestamp) -> bool {
        let (Some(id), Ok(handle)) = (node.id(), node.handle()) else { return true };
        // Where objects have no numbers, each directory may be on a file system of its own.
        let place = if handle.capabilities().has_object_ids { FileId { ino: 0, ..id } } else { id };
        let known = self.units.ranges.lock().get(&place).and_then(|range| range.keeps(mtime.secs));
        if let Some(known) = known {
            return known;
        }
        // Problems of the directory show when something is created in it.
        let Ok(kept) = handle.stored_time(mtime) else { return true };
        let is_kept = Granularity::between(mtime, kept).is_some();
        self.units.ranges.lock().entry(place).or_default().record(mtime.secs, is_kept);
        is_kept
    }

    /// The unit of the file system of `existing`, an entry of `node`; true if it is assumed.
    fn unit_of(&self, node: &Arc<DirNode>, existing: &Meta) -> (Granularity, bool) {
        let of_system = existing.id.map(|id| FileId { ino: 0, ..id });
        let Some(place) = of_system.or_else(|| node.id()) else {
            return (Granularity::FINEST, false);
        };
        let mut times = match self.units.by_place.lock().get(&place) {
            Some(Unit::Known(unit)) => return (*unit, false),
            Some(Unit::Assumed { unit, last, .. }) if *last == node.id() => return (*unit, true),
            Some(Unit::Assumed { times, .. }) => times.clone(),
            None => BTreeSet::new(),
        };
        // Without the lock: this may take round trips, and finding a unit twice does no harm.
        let unit = self.find_unit(node, existing, &mut times);
        let result = match unit {
            Unit::Known(unit) => (unit, false),
            Unit::Assumed { unit, .. } => (unit, true),
        };
        self.units.by_place.lock().insert(place, unit);
        result
    }

    /// Determines the unit of the file system of `existing`. `times` were seen before.
    fn find_unit(
        &self,
        node: &Arc<DirNode>,
        existing: &Meta,
        times: &mut BTreeSet<Timestamp>,
    ) -> Unit {
        let Ok(handle) = node.handle() else { return Unit::Known(Granularity::FINEST) };
        if !self.job.plan.dry_run
            && let Ok(kept) = handle.stored_time(PROBE)
            && let Some(unit) = Granularity::between(PROBE, kept)
        {
            return Unit::Known(unit);
        }
        if collect_times(&*handle, existing, times).is_err() {
            return Unit::Known(Granularity::FINEST);
        }
        let explains =
            |unit: &Granularity| times.iter().all(|&time: &Timestamp| unit.kept(time) == time);
        let unit = Granularity::ALL.into_iter().rev().find(explains);
        let unit = unit.unwrap_or(Granularity::FINEST);
        if existing.ctime.is_some() || times.len() >= WITNESSES_MIN {
            return Unit::Known(unit);
        }
        // A job that writes but could not probe rather writes once too often.
        if unit == Granularity::TWO_SECONDS && self.job.plan.dry_run {
            return Unit::Assumed { unit, times: std::mem::take(times), last: node.id() };
        }
        Unit::Known(Granularity::FINEST)
    }
}

/// Adds the times of `existing`, and of other entries in `dir`, to `times`.
fn collect_times(
    dir: &dyn TreeDir,
    existing: &Meta,
    times: &mut BTreeSet<Timestamp>,
) -> io::Result<()> {
    times.extend(existing.ctime);
    let mut add = |meta: Meta| {
        if meta.id.map(|id| id.dev) == existing.id.map(|id| id.dev) {
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
    Ok(())
}

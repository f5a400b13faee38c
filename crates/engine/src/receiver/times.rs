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
use haul_model::{Entry, Granularity, Timestamp};
use haul_tree::lock;
use haul_tree::{Meta, TreeDir, in_whole_seconds};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

/// Entries of a directory whose times are looked at, at most.
const WITNESSES_MAX: usize = 32;

/// The units in which file systems keep times, by device, as far as anybody had to
/// know.
#[derive(Default)]
pub(super) struct Units(Mutex<HashMap<u64, Granularity>>);

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
        if self.whole_seconds {
            return in_whole_seconds(mtime);
        }
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
        let Some(device) = there.id.map(|id| id.dev) else { return Granularity::FINEST };
        let mut units = lock(&self.units.0);
        *units.entry(device).or_insert_with(|| {
            let Ok(handle) = node.handle() else { return Granularity::FINEST };
            let tried = match self.policy.dry_run {
                true => None,
                false => handle.time_unit().ok(),
            };
            let found = tried.or_else(|| unit_seen(&*handle, there).ok());
            found.unwrap_or(Granularity::FINEST)
        })
    }
}

/// The coarsest unit that explains the times of `there`, and of others in `dir`.
fn unit_seen(dir: &dyn TreeDir, there: &Meta) -> io::Result<Granularity> {
    let Some(changed) = there.ctime else { return Ok(Granularity::FINEST) };
    let mut times = vec![changed];
    let mut add = |meta: Meta| {
        if meta.id.map(|id| id.dev) == there.id.map(|id| id.dev) {
            times.extend(meta.ctime);
            times.push(meta.attributes.mtime);
        }
    };
    add(dir.stat_self()?);
    for entry in dir.entries()?.into_iter().take(WITNESSES_MAX) {
        if let Some(meta) = dir.stat(&entry.name, false)? {
            add(meta);
        }
    }
    let explains =
        |unit: &Granularity| times.iter().all(|&time: &Timestamp| unit.kept(time) == time);
    Ok(Granularity::ALL.into_iter().rev().find(explains).unwrap_or(Granularity::FINEST))
}

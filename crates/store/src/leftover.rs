//! Leftovers of copies in a directory: stages that nobody works on. Finds
//! them, tells what is known of them, and removes them.
//!
//! 1. Only names that are exactly haul's own are looked at, and only regular
//!    files under them, the links that copies stage, and directories that moves make
//!    for a moment, which are empty; nothing is followed.
//! 2. Whoever works on a stage holds its lock. What is locked is left alone, and
//!    nothing is removed whose lock was not taken first. Links have no locks: they
//!    are stages for a moment, and who misses one then makes it anew.
//! 3. What a host's SFTP server writes is locked by nobody here. It counts as in use
//!    until nothing has changed it for a while ([`QUIET_MIN`], with `all`
//!    [`QUIET_MIN_ALL`]); and what could be continued, only who has its journal knows.

use crate::journal::{self, BootId};
use crate::lot;
use crate::partial;
use crate::private::{Form, Names, as_name, half_of, name_half, parse};
use haul_model::{BLOCK_LEN, Name, Timestamp};
use haul_sys::{Dir, Stat};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime};

/// How long nothing must have changed a stage that a host's SFTP server writes. An
/// upload writes without a break; but one file may be read back for hours, and a
/// machine may sleep overnight.
const QUIET_MIN: Duration = Duration::from_secs(24 * 60 * 60);

/// The same where all is to be removed.
const QUIET_MIN_ALL: Duration = Duration::from_secs(60 * 60);

/// How long a directory must have been there that a move makes for a moment.
const MARK_QUIET_MIN: Duration = Duration::from_secs(60);

/// The leftovers of one directory, in the order of their names.
#[derive(Debug)]
pub struct Leftovers(BTreeMap<String, Stage>);

/// The files under one stem.
#[derive(Debug)]
enum Stage {
    Random,
    Partial {
        /// The entry that has the name of the stage's file.
        target: Option<Name>,
    },
    /// Files that wait for the end of a job.
    Lot,
    /// A stage that a host's SFTP server writes.
    Sent,
    /// One of these that can be continued.
    SentPart {
        /// The entry that has the name of the stage's file.
        target: Option<Name>,
    },
    /// A file that waits for another to get its name.
    Old {
        /// The entry that has its name now.
        target: Option<Name>,
    },
}

impl Stage {
    /// The entry whose name is meant, where the private name tells that.
    fn target(&mut self) -> Option<&mut Option<Name>> {
        match self {
            Self::Random | Self::Lot | Self::Sent => None,
            Self::Partial { target } | Self::SentPart { target } | Self::Old { target } => {
                Some(target)
            }
        }
    }
}

/// One stage that was found.
#[derive(Debug, Clone, Copy)]
pub struct Leftover<'l> {
    stem: &'l str,
    stage: &'l Stage,
}

/// A leftover, and its fate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleaned {
    /// Its private name.
    pub name: String,
    /// Storage that it takes, in bytes, with its journal.
    pub bytes: u64,
    /// The name that it was to get, where something has that name now.
    pub target: Option<Name>,
    /// How far the copy had come, and the length of the whole, in bytes; only of
    /// one that can be continued.
    pub progress: Option<(u64, u64)>,
    /// Its fate.
    pub fate: Fate,
}

/// The fate of a leftover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is gone.
    Removed,
    /// It would be, if this were no dry run.
    WouldRemove,
    /// It can be continued, or is all that is left of a file, and stays.
    Kept,
    /// Another process works on it: it stays.
    Busy,
    /// A host's SFTP server has written to it not long ago, and may be at it: it
    /// stays.
    Recent,
}

impl Leftovers {
    /// Looks through `dir`.
    ///
    /// # Errors
    /// Those of `getdents`.
    pub fn find(dir: &Dir) -> io::Result<Self> {
        let mut found = BTreeMap::new();
        dir.names_where(|name| {
            match parse(name) {
                Some((Form::Random, stem)) => {
                    found.insert(stem.to_owned(), Stage::Random);
                }
                Some((Form::Part | Form::Journal, stem)) => {
                    found.insert(stem.to_owned(), Stage::Partial { target: None });
                }
                Some((Form::Sent, stem)) => {
                    found.insert(stem.to_owned(), Stage::Sent);
                }
                Some((Form::SentPart, _)) => {
                    let name = String::from_utf8_lossy(name).into_owned();
                    found.insert(name, Stage::SentPart { target: None });
                }
                Some((Form::Lot, stem)) => {
                    found.insert(stem.to_owned(), Stage::Lot);
                }
                Some((Form::Old, stem)) => {
                    found.insert(stem.to_owned(), Stage::Old { target: None });
                }
                None => {}
            }
            false
        })?;
        let halves: BTreeSet<String> = found
            .iter()
            .filter(|(_, stage)| !matches!(stage, Stage::Random | Stage::Lot | Stage::Sent))
            .map(|(stem, _)| half_of(stem).to_owned())
            .collect();
        if !halves.is_empty() {
            // Names are not kept in what is left, but those that stand there can
            // be tried.
            for name in dir.names_where(|name| halves.contains(&name_half(name)))? {
                let half = name_half(name.as_bytes());
                for (stem, stage) in &mut found {
                    if let Some(target) = stage.target()
                        && half_of(stem) == half
                    {
                        *target = Some(name.clone());
                    }
                }
            }
        }
        Ok(Self(found))
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Leftover<'_>> {
        self.0.iter().map(|(stem, stage)| Leftover { stem, stage })
    }
}

/// Removes the entry `name` of `dir` if it is a mark that a killed move has left: an empty
/// file or directory with a random private name, by the same rules as [`Leftover::clean`].
/// True if it is gone.
pub fn remove_mark(dir: &Dir, name: &Name) -> bool {
    let Some((Form::Random, stem)) = parse(name.as_bytes()) else { return false };
    // Files are marks where all agree on locks.
    let may_be_mark =
        |stat: Stat| stat.is_dir() || stat.is_file() && stat.size == 0 && dir.is_known();
    let mark = Leftover { stem, stage: &Stage::Random };
    dir.stat(name).is_ok_and(may_be_mark)
        && mark
            .clean(dir, false, false)
            .is_ok_and(|cleaned| cleaned.is_none_or(|cleaned| cleaned.fate == Fate::Removed))
}

impl Leftover<'_> {
    /// The private name, for showing.
    pub fn name(&self) -> String {
        match self.stage {
            Stage::Partial { .. } => Names::from_stem(self.stem).part,
            _ => self.stem.to_owned(),
        }
    }

    /// Removes it from `dir`, unless `dry_run`; one that can be continued only
    /// if `all`. `None` if it is gone already.
    ///
    /// # Errors
    /// Those of opening, locking and removing; [`io::ErrorKind::InvalidInput`]
    /// for what no copy makes, such as a directory that is not empty.
    pub fn clean(&self, dir: &Dir, all: bool, dry_run: bool) -> io::Result<Option<Cleaned>> {
        self.clean_at(SystemTime::now(), dir, all, dry_run)
    }

    fn clean_at(
        &self,
        now: SystemTime,
        dir: &Dir,
        all: bool,
        dry_run: bool,
    ) -> io::Result<Option<Cleaned>> {
        let cleaned = match self.stage {
            Stage::Random => self.clean_random(now, dir, dry_run),
            Stage::Lot => self.clean_lot(dir, dry_run),
            Stage::Partial { target } => self.clean_partial(dir, target.as_ref(), all, dry_run),
            Stage::Sent | Stage::SentPart { .. } => self.clean_sent(now, dir, all, dry_run),
            Stage::Old { target } => self.clean_old(dir, target.as_ref(), all, dry_run),
        };
        match cleaned {
            // Its own process has published or removed it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            cleaned => cleaned.map(Some),
        }
    }

    fn clean_random(&self, now: SystemTime, dir: &Dir, dry_run: bool) -> io::Result<Cleaned> {
        let stat = dir.stat(&as_name(self.stem))?;
        let is_free = if stat.is_dir() {
            if !dir.open_dir(&as_name(self.stem))?.entries()?.is_empty() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not empty"));
            }
            quiet_for(&stat, now) >= MARK_QUIET_MIN
        } else if !stat.is_file() {
            // A link, FIFO, socket or device can't be locked. A running copy makes it again if it
            // is gone.
            true
        } else {
            let (file, _) = dir.open_found(self.stem)?;
            let is_free = haul_sys::try_lock(&file)?;
            if is_free && !dir.private_is(self.stem, &file)? {
                return Err(io::ErrorKind::NotFound.into());
            }
            is_free
        };
        let fate = match (is_free, dry_run) {
            (false, _) => Fate::Busy,
            (true, true) => Fate::WouldRemove,
            (true, false) if stat.is_dir() => {
                dir.remove_dir(&as_name(self.stem))?;
                Fate::Removed
            }
            (true, false) => {
                dir.remove_private(self.stem)?;
                Fate::Removed
            }
        };
        let name = self.stem.to_owned();
        Ok(Cleaned { name, bytes: stat.allocated, target: None, progress: None, fate })
    }

    fn clean_lot(&self, dir: &Dir, dry_run: bool) -> io::Result<Cleaned> {
        let name = as_name(self.stem);
        let bytes = lot::bytes(dir, &name)?;
        let fate = match (lot::is_left(dir, &name)?, dry_run) {
            (false, _) => Fate::Busy,
            (true, true) => Fate::WouldRemove,
            (true, false) if lot::remove(dir, &name)? => Fate::Removed,
            (true, false) => Fate::Busy,
        };
        let name = self.stem.to_owned();
        Ok(Cleaned { name, bytes, target: None, progress: None, fate })
    }

    fn clean_sent(
        &self,
        now: SystemTime,
        dir: &Dir,
        all: bool,
        dry_run: bool,
    ) -> io::Result<Cleaned> {
        let stat = dir.stat(&as_name(self.stem))?;
        if !stat.is_file() && !stat.is_symlink() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let quiet = quiet_for(&stat, now);
        let (can_continue, target) = match self.stage {
            Stage::SentPart { target } => (true, target.clone()),
            _ => (false, None),
        };
        let quiet_min = if all || can_continue { QUIET_MIN_ALL } else { QUIET_MIN };
        let fate = match (quiet >= quiet_min, can_continue && !all, dry_run) {
            (false, ..) => Fate::Recent,
            (true, true, _) => Fate::Kept,
            (true, false, true) => Fate::WouldRemove,
            (true, false, false) => {
                dir.remove_private(self.stem)?;
                Fate::Removed
            }
        };
        let name = self.stem.to_owned();
        Ok(Cleaned { name, bytes: stat.allocated, target, progress: None, fate })
    }

    /// One whose name nothing has is all that is left of a file.
    fn clean_old(
        &self,
        dir: &Dir,
        target: Option<&Name>,
        all: bool,
        dry_run: bool,
    ) -> io::Result<Cleaned> {
        let stat = dir.stat(&as_name(self.stem))?;
        let is_superseded = target.is_some_and(|target| dir.stat(target).is_ok());
        let fate = match (is_superseded || all, dry_run) {
            (false, _) => Fate::Kept,
            (true, true) => Fate::WouldRemove,
            (true, false) => {
                dir.remove_private(self.stem)?;
                Fate::Removed
            }
        };
        let (name, target) = (self.stem.to_owned(), target.cloned());
        Ok(Cleaned { name, bytes: stat.allocated, target, progress: None, fate })
    }

    fn clean_partial(
        &self,
        dir: &Dir,
        target: Option<&Name>,
        all: bool,
        dry_run: bool,
    ) -> io::Result<Cleaned> {
        let names = Names::from_stem(self.stem);
        let part = found(dir, &names.part)?;
        let journal = found(dir, &names.journal)?;
        let bytes = [&part, &journal].into_iter().flatten().map(|(_, stat)| stat.allocated).sum();
        let name = if part.is_some() { &names.part } else { &names.journal };
        let mut cleaned = Cleaned {
            name: name.clone(),
            bytes,
            target: target.cloned(),
            progress: None,
            fate: Fate::Busy,
        };
        let lock = match &journal {
            Some((journal, _)) => {
                if !haul_sys::try_lock(journal)? {
                    return Ok(cleaned);
                }
                if !dir.private_is(&names.journal, journal)? {
                    return Err(io::ErrorKind::NotFound.into());
                }
                None
            }
            // Without a journal nobody is at it. One is made for its lock.
            None if dry_run => None,
            None => match partial::lock_journal(dir, &names.journal, Duration::ZERO) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return Ok(cleaned),
                lock => Some(lock?),
            },
        };
        let claim = part.as_ref().zip(journal.as_ref()).and_then(|((part, _), (journal, _))| {
            journal::claim(journal, BootId(haul_sys::cache_id(part)))
        });
        // What stands there by now needs no copy any more.
        let claim = claim.filter(|claim| !is_there(dir, target, claim.size, claim.mtime));
        cleaned.progress = claim.map(|claim| (claim.blocks * BLOCK_LEN, claim.size));
        cleaned.fate = match claim {
            Some(_) if !all => Fate::Kept,
            _ if dry_run => Fate::WouldRemove,
            _ => {
                // The journal goes last: as long as it is there, its lock is.
                if part.is_some() {
                    dir.remove_private(&names.part)?;
                }
                if journal.is_some() || lock.is_some() {
                    dir.remove_private(&names.journal)?;
                }
                Fate::Removed
            }
        };
        Ok(cleaned)
    }
}

/// Removes the small stage `name` from `dir` if a cut of the power, or another end of
/// the system, has left it: it was last changed before the system was started, and more
/// than a day ago, and nobody holds its lock. The day is for directories that other
/// machines write to, whose locks may not be seen here; what they are at they change.
/// Where no time tells the last change, it stays.
pub(crate) fn remove_of_earlier_start(dir: &Dir, name: &str) {
    let left = |stat: &Stat| {
        stat.is_file()
            && haul_sys::started_at().is_some_and(|started| stat.ctime < started)
            && haul_sys::keeps_ctime(dir, stat.mtime, stat.ctime)
            && quiet_for(stat, SystemTime::now()) >= QUIET_MIN
    };
    if !dir.stat(&as_name(name)).is_ok_and(|stat| left(&stat)) {
        return;
    }
    // What can't be removed now is found by the next run.
    if let Ok((file, stat)) = dir.open_found(name)
        && left(&stat)
        && haul_sys::try_lock(&file).unwrap_or(false)
        && dir.private_is(name, &file).unwrap_or(false)
    {
        let _ = dir.remove_private(name);
    }
}

/// How long nothing has changed what `stat` is of. Its own time may be that of a
/// source, and in the future; the system's is not.
fn quiet_for(stat: &Stat, now: SystemTime) -> Duration {
    let since_epoch =
        |time: Timestamp| Duration::new(u64::try_from(time.secs).unwrap_or(0), time.nanos);
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (changed, modified) = (since_epoch(stat.ctime), since_epoch(stat.mtime));
    let last = if modified <= now { changed.max(modified) } else { changed };
    now.saturating_sub(last)
}

/// Opens a private file if it is there.
fn found(dir: &Dir, name: &str) -> io::Result<Option<(File, Stat)>> {
    match dir.open_found(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// True if `name` is a file of that size and time.
fn is_there(dir: &Dir, name: Option<&Name>, size: u64, mtime: Timestamp) -> bool {
    let stat = name.and_then(|name| dir.stat(name).ok());
    stat.is_some_and(|stat| stat.is_file() && (stat.size, stat.mtime) == (size, mtime))
}

#[cfg(test)]
#[path = "leftover_tests.rs"]
mod tests;

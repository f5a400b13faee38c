//! Leftovers of copies in a directory: stages that no process works on. Finds, describes and
//! removes them.
//!
//! 1. Only names of haul's own forms are considered. They must be regular files, staged links, or
//!    the empty directories that moves create for a moment. Links are not followed.
//! 2. A process that works on a stage holds its lock. A locked stage is kept, and nothing is
//!    removed without taking its lock. Links have no locks. They exist for a moment, and their
//!    process creates a missing one again.
//! 3. A stage that a host's SFTP server writes has no lock. It counts as in use until it has not
//!    changed for [`UNCHANGED_MIN`], or [`UNCHANGED_MIN_ALL`] with `all`. Only the machine with its
//!    journal knows whether it can be resumed.

use crate::batch;
use crate::journal::{self, BootId};
use crate::partial::{self, UNCHANGED_MIN, unchanged_for};
use crate::private::{Form, Names, as_name, half_of, name_half, parse};
use haul_model::{BLOCK_LEN, Name, Timestamp};
use haul_sys::{Dir, Stat, if_found};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, SystemTime};

/// Like [`UNCHANGED_MIN`], if all leftovers are to be removed.
const UNCHANGED_MIN_ALL: Duration = Duration::from_secs(60 * 60);

/// Minimum age of a leftover directory that a move created for a moment.
const MARKER_UNCHANGED_MIN: Duration = Duration::from_secs(60);

/// The leftovers of one directory by their stems, in the order of their names. Each has its form,
/// and the existing entry with its final name, if the private name identifies that.
#[derive(Debug)]
pub struct Leftovers(BTreeMap<String, (Form, Option<Name>)>);

/// A stage that was found.
#[derive(Debug, Clone, Copy)]
pub struct Leftover<'l> {
    stem: &'l str,
    form: Form,
    target: Option<&'l Name>,
}

/// A leftover, and the result of cleaning it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleaned {
    /// The private name.
    pub name: String,
    /// Storage of the stage and its journal in bytes.
    pub bytes: u64,
    /// The final name, if an entry has it now.
    pub target: Option<Name>,
    /// The copied bytes and the total length, if it can be resumed.
    pub progress: Option<(u64, u64)>,
    /// The result of the cleaning.
    pub fate: Fate,
}

/// The result of cleaning a leftover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was removed.
    Removed,
    /// It would be removed without a dry run.
    WouldRemove,
    /// It is kept because it can be resumed.
    Kept,
    /// It is kept because it is the only copy of a file.
    OnlyCopy,
    /// It is kept because another process works on it.
    Busy,
    /// It is kept because a host's SFTP server has changed it recently, and may be writing it.
    Recent,
}

impl Leftovers {
    /// Searches `dir`.
    ///
    /// # Errors
    /// Errors of `getdents`.
    pub fn find(dir: &Dir) -> io::Result<Self> {
        let mut found = BTreeMap::new();
        dir.names_where(|name| {
            match parse(name) {
                // A partial file and its journal are cleaned together.
                Some((Form::Part | Form::Journal, stem)) => {
                    found.insert(stem.to_owned(), (Form::Part, None));
                }
                Some((form, _)) => {
                    let name = String::from_utf8_lossy(name).into_owned();
                    found.insert(name, (form, None));
                }
                None => {}
            }
            false
        })?;
        let has_half = |form| matches!(form, Form::Part | Form::RemotePart | Form::Old);
        let with_half = found.iter().filter(|(_, (form, _))| has_half(*form));
        let halves: BTreeSet<String> =
            with_half.map(|(stem, _)| half_of(stem).to_owned()).collect();
        if !halves.is_empty() {
            // The names are hashed in the leftovers, so compare the hashes of existing names.
            for name in dir.names_where(|name| halves.contains(&name_half(name)))? {
                let half = name_half(name.as_bytes());
                for (stem, (form, target)) in &mut found {
                    if has_half(*form) && half_of(stem) == half {
                        *target = Some(name.clone());
                    }
                }
            }
        }
        Ok(Self(found))
    }

    /// Iterates over the leftovers.
    pub fn iter(&self) -> impl Iterator<Item = Leftover<'_>> {
        let found = self.0.iter();
        found.map(|(stem, (form, target))| Leftover { stem, form: *form, target: target.as_ref() })
    }
}

/// Removes the entry `name` in `dir` if it is a mark of a killed move: an empty file or directory
/// with a random private name. The rules of [`Leftover::clean`] apply. True if it no longer exists.
pub fn remove_marker(dir: &Dir, name: &Name) -> bool {
    let Some((Form::Random, stem)) = parse(name.as_bytes()) else { return false };
    // Files are used as marks where locks are reliable.
    let may_be_marker = |stat: Stat| {
        stat.is_dir() || stat.is_file() && stat.size == 0 && dir.has_known_file_system()
    };
    let marker = Leftover { stem, form: Form::Random, target: None };
    dir.stat(name).is_ok_and(may_be_marker)
        && marker
            .clean(dir, false, false)
            .is_ok_and(|cleaned| cleaned.is_none_or(|cleaned| cleaned.fate == Fate::Removed))
}

impl Leftover<'_> {
    /// The private name, for messages.
    pub fn name(&self) -> String {
        match self.form {
            Form::Part => Names::from_stem(self.stem).part,
            _ => self.stem.to_owned(),
        }
    }

    /// Removes it from `dir`, unless `dry_run`. A resumable stage is removed only if `all`. `None`
    /// if it no longer exists.
    ///
    /// # Errors
    /// Errors of opening, locking and removing; [`io::ErrorKind::InvalidInput`] for an entry that
    /// no copy creates, such as a directory that is not empty.
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
        let cleaned = match self.form {
            Form::Random => self.clean_random(now, dir, dry_run),
            Form::DelayedBatch => self.clean_batch(dir, dry_run),
            Form::Part | Form::Journal => self.clean_partial(dir, all, dry_run),
            Form::Remote | Form::RemotePart => self.clean_remote(now, dir, all, dry_run),
            Form::Old => self.clean_old(dir, dry_run),
        };
        // Its own process may have published or removed it meanwhile.
        if_found(cleaned)
    }

    /// The result for a leftover of `bytes`.
    fn cleaned(&self, bytes: u64, fate: Fate) -> Cleaned {
        let (name, target) = (self.stem.to_owned(), self.target.cloned());
        Cleaned { name, bytes, target, progress: None, fate }
    }

    fn clean_random(&self, now: SystemTime, dir: &Dir, dry_run: bool) -> io::Result<Cleaned> {
        let name = as_name(self.stem);
        let stat = dir.stat(&name)?;
        let is_free = if stat.is_dir() {
            if !dir.open_dir(&name)?.entries()?.is_empty() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not empty"));
            }
            unchanged_for(&stat, now) >= MARKER_UNCHANGED_MIN
        } else if !stat.is_file() {
            // A link, FIFO, socket or device can't be locked. A running copy creates a missing one
            // again.
            true
        } else {
            let (file, _) = dir.open_any_private(self.stem)?;
            let is_free = haul_sys::try_lock(&file)?;
            if is_free && !dir.is_private_file(self.stem, &file)? {
                return Err(io::ErrorKind::NotFound.into());
            }
            is_free
        };
        let remove = || if stat.is_dir() { dir.remove_dir(&name) } else { dir.remove_file(&name) };
        let fate = if is_free { removed(dry_run, remove)? } else { Fate::Busy };
        Ok(self.cleaned(stat.allocated, fate))
    }

    fn clean_batch(&self, dir: &Dir, dry_run: bool) -> io::Result<Cleaned> {
        let name = as_name(self.stem);
        let bytes = batch::bytes(dir, &name)?;
        let fate = match batch::is_abandoned(dir, &name)? {
            true if dry_run => Fate::WouldRemove,
            true if batch::remove(dir, &name)? => Fate::Removed,
            _ => Fate::Busy,
        };
        Ok(self.cleaned(bytes, fate))
    }

    fn clean_remote(
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
        let can_continue = self.form == Form::RemotePart;
        let quiet_min = if all || can_continue { UNCHANGED_MIN_ALL } else { UNCHANGED_MIN };
        let fate = match unchanged_for(&stat, now) >= quiet_min {
            false => Fate::Recent,
            true if can_continue && !all => Fate::Kept,
            true => removed(dry_run, || dir.remove_private(self.stem))?,
        };
        Ok(self.cleaned(stat.allocated, fate))
    }

    /// An old file whose final name does not exist is the only copy of the file, and stays.
    fn clean_old(&self, dir: &Dir, dry_run: bool) -> io::Result<Cleaned> {
        let stat = dir.stat(&as_name(self.stem))?;
        let is_superseded = self.target.is_some_and(|target| dir.stat(target).is_ok());
        let fate = match is_superseded {
            false => Fate::OnlyCopy,
            true => removed(dry_run, || dir.remove_private(self.stem))?,
        };
        Ok(self.cleaned(stat.allocated, fate))
    }

    fn clean_partial(&self, dir: &Dir, all: bool, dry_run: bool) -> io::Result<Cleaned> {
        let names = Names::from_stem(self.stem);
        let part = if_found(dir.open_any_private(&names.part))?;
        let journal = if_found(dir.open_any_private(&names.journal))?;
        let bytes = [&part, &journal].into_iter().flatten().map(|(_, stat)| stat.allocated).sum();
        let name = if part.is_some() { &names.part } else { &names.journal };
        let mut cleaned = Cleaned { name: name.clone(), ..self.cleaned(bytes, Fate::Busy) };
        let lock = match &journal {
            Some((journal, _)) => {
                if !haul_sys::try_lock(journal)? {
                    return Ok(cleaned);
                }
                if !dir.is_private_file(&names.journal, journal)? {
                    return Err(io::ErrorKind::NotFound.into());
                }
                None
            }
            // Without a journal no process works on it. Create one for its lock.
            None if dry_run => None,
            None => match partial::lock_journal(dir, &names.journal, Duration::ZERO) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return Ok(cleaned),
                lock => Some(lock?),
            },
        };
        let claim = part.as_ref().zip(journal.as_ref()).and_then(|((part, _), (journal, _))| {
            journal::claim(journal, BootId(haul_sys::cache_id(part)))
        });
        // A destination that is complete by now needs no copy.
        let claim = claim.filter(|claim| !exists_with(dir, self.target, claim.size, claim.mtime));
        cleaned.progress = claim.map(|claim| (claim.blocks * BLOCK_LEN, claim.size));
        cleaned.fate = match claim {
            Some(_) if !all => Fate::Kept,
            _ => removed(dry_run, || {
                // Remove the journal last, because it holds the lock.
                if part.is_some() {
                    dir.remove_private(&names.part)?;
                }
                if journal.is_some() || lock.is_some() {
                    dir.remove_private(&names.journal)?;
                }
                Ok(())
            })?,
        };
        Ok(cleaned)
    }
}

/// Removes a leftover with `remove`, unless `dry_run`.
fn removed(dry_run: bool, remove: impl FnOnce() -> io::Result<()>) -> io::Result<Fate> {
    if dry_run { Ok(Fate::WouldRemove) } else { remove().map(|()| Fate::Removed) }
}

/// True if `name` is a file with this size and time.
fn exists_with(dir: &Dir, name: Option<&Name>, size: u64, mtime: Timestamp) -> bool {
    let stat = name.and_then(|name| dir.stat(name).ok());
    stat.is_some_and(|stat| stat.is_file() && (stat.size, stat.mtime) == (size, mtime))
}

#[cfg(test)]
#[path = "leftover_tests.rs"]
mod tests;

//! Known entries of a host's directory, from listings and from lookups of single names.

use super::attrs::{is_complete, meta_of};
use super::host::remembered_len;
use super::{SftpDir, found_or_missing};
use crate::Meta;
use crate::budget::Share;
use haul_model::words::may_be_same_name;
use haul_model::{BLOCK_LEN, MAX_NAME_LEN, Name};
use haul_sftp::{Attrs, DirEntry, Extension, FileType, PendingAnswer};
use haul_store::{Records, superseded};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How many names in a directory around the job are looked up alone before it is listed. A listing
/// takes two round trips.
const LOOKUPS_MAX: usize = 4;

/// On most systems OpenSSH's server can't stat paths of this length, in bytes. It leaves such
/// entries out of a listing without an error.
const STAT_PATH_LEN_MAX: usize = 4096;

/// The known facts about the entries of a directory.
#[derive(Default)]
pub(super) struct Known {
    /// At a source: directories in listings.
    pub(super) dirs: HashMap<Name, Attrs>,
    /// At a destination, and for many lookups: all entries at the time of the first request.
    pub(super) existing: Option<Arc<ExistingEntries>>,
    /// At a source: files large enough for all sessions.
    pub(super) large: HashSet<Name>,
    /// How many names were looked up.
    pub(super) lookups: usize,
    /// The first name, if it was looked up alone and exists, perhaps in another spelling.
    pub(super) first: Option<Name>,
    /// Directories that this job is creating, until they are opened.
    pub(super) made: HashMap<Name, PendingAnswer>,
    /// Names that this job has removed, although the listing has them.
    pub(super) removed: HashSet<Name>,
    /// The server's answer about a name that is not needed yet.
    pub(super) ahead: Option<(Name, Option<Attrs>)>,
}

/// The entries that a directory had before the job.
pub(super) enum ExistingEntries {
    /// All entries, within the host's budget ([`super::SftpHost`]).
    All { entries: HashMap<Name, Attrs>, _share: Option<Share> },
    /// More entries than are remembered: each is looked up alone.
    TooMany,
}

impl SftpDir {
    /// The entries of the directory. Its subdirectories are listed ahead, because a walk, or the
    /// destination after it, enters each.
    pub(super) fn list(&self) -> io::Result<Vec<DirEntry>> {
        self.ready()?;
        if !self.is_destination && self.path.len() + 1 + MAX_NAME_LEN >= STAT_PATH_LEN_MAX {
            let message = "its path is so long that the server may not list all its entries";
            return Err(io::Error::new(io::ErrorKind::InvalidFilename, message));
        }
        let lister = &self.host.lister;
        let mut listed = self.host.io(lister.list(&self.path))?;
        if listed.is_empty() {
            // A server leaves out entries that it may not stat. In a directory without search
            // permission, these are all.
            self.host.io(self.host.client().lstat(&self.path_of(b".")))?;
        }
        listed.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        if !self.has_foreign_entries && !self.expects_lookups() {
            let is_dir = |entry: &&DirEntry| entry.attrs.file_type() == Some(FileType::Dir);
            let dirs = listed.iter().filter(is_dir);
            lister.ahead(dirs.map(|dir| self.path_of(dir.name.as_bytes())));
        }
        Ok(listed)
    }

    /// Removes leftovers of killed jobs from the directory and from `listed`.
    fn remove_dead(&self, listed: &mut Vec<DirEntry>) {
        let Some(dead) = self.host.records.as_ref().map(Records::dead) else { return };
        if dead.is_empty() {
            return;
        }
        let is_dead = |entry: &DirEntry| {
            matches!(entry.attrs.file_type(), Some(FileType::File | FileType::Symlink))
                && dead.has(&entry.name)
        };
        let client = self.host.client();
        let found = listed.extract_if(.., |entry| is_dead(entry));
        let going: Vec<PendingAnswer> = found
            .map(|entry| client.remove_file_later(&self.path_of(entry.name.as_bytes())))
            .collect();
        self.cleaned(!going.is_empty());
        // If one can't be removed now, the next run finds it.
        going.iter().filter_map(|one| one.wait().err()).for_each(|e| self.host.record_loss(&e));
        if self.has_foreign_entries {
            dead.record_search(&self.host.place(&self.path));
        }
    }

    /// Removes old files that were renamed aside and whose replacements are in place. They are left
    /// where a file can't be replaced in one step.
    fn remove_superseded(&self, listed: &mut Vec<DirEntry>) {
        let client = self.host.client();
        if client.has(Extension::PosixRename) {
            return;
        }
        let names: Vec<&Name> = listed.iter().map(|entry| &entry.name).collect();
        let mut gone = HashSet::new();
        for (old, name) in superseded(&names) {
            // Another job may be renaming it aside at this moment.
            if matches!(self.host.has_name(&self.path_of(name.as_bytes())), Ok(true)) {
                let removed = client.remove_file(&self.path_of(old.as_bytes()));
                removed.unwrap_or_else(|error| self.host.record_loss(&error));
                gone.insert(old.clone());
            }
        }
        self.cleaned(!gone.is_empty());
        listed.retain(|entry| !gone.contains(&entry.name));
    }

    /// Records that leftovers were removed, if they were.
    fn cleaned(&self, has_removed: bool) {
        if has_removed {
            self.host.cleaned.lock().insert(self.path.clone());
        }
    }

    /// All entries at the time of the first request.
    fn existing(&self) -> io::Result<Arc<ExistingEntries>> {
        if let Some(existing) = &self.known.lock().existing {
            return Ok(Arc::clone(existing));
        }
        let mut listed = self.list()?;
        if self.is_destination {
            self.remove_dead(&mut listed);
            self.remove_superseded(&mut listed);
        }
        let len = listed.iter().map(remembered_len).sum();
        let existing = match self.host.remembered.try_take(len) {
            None => ExistingEntries::TooMany,
            Some(share) => {
                let all = listed.into_iter().map(|entry| (entry.name, entry.attrs));
                ExistingEntries::All { entries: all.collect(), _share: Some(share) }
            }
        };
        let existing = Arc::new(existing);
        self.known.lock().existing = Some(Arc::clone(&existing));
        Ok(existing)
    }

    /// The attributes of `name`, not following a link; `None` if it does not exist.
    pub(super) fn attrs_of(&self, name: &Name) -> io::Result<Option<Attrs>> {
        if self.known.lock().removed.contains(name) {
            return self.ask(name, false);
        }
        if self.is_destination {
            if self.looks_up_alone() {
                let found = self.ask(name, false)?;
                let mut known = self.known.lock();
                if known.lookups == 1 && found.is_some() {
                    known.first = Some(name.clone());
                }
                // From the second name on, the entry may be one that the job has created under
                // another name, if the server treats both as one. Only a listing shows the
                // spelling.
                if known.lookups == 1 || found.is_none() {
                    return Ok(found);
                }
            }
        } else if let Some(attrs) = self.known.lock().dirs.get(name) {
            return Ok(Some(*attrs));
        }
        if (self.is_destination || self.expects_lookups())
            && let ExistingEntries::All { entries, .. } = &*self.existing()?
        {
            match entries.get(name) {
                Some(_) if self.is_destination && self.may_be_the_first(name, entries) => {
                    return Err(io::Error::other(
                        "it can't be distinguished from another entry of this job, whose name is the \
                         same to the server",
                    ));
                }
                Some(attrs) if is_complete(attrs) => return Ok(Some(*attrs)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
        self.ask(name, false)
    }

    fn expects_lookups(&self) -> bool {
        self.expects_lookups.load(Ordering::Relaxed)
    }

    /// True if the entry `name` may be the one looked up first, under a name that no entry is
    /// spelled with.
    fn may_be_the_first(&self, name: &Name, existing: &HashMap<Name, Attrs>) -> bool {
        let known = self.known.lock();
        let first = known.first.as_ref().filter(|first| !existing.contains_key(*first));
        first.is_some_and(|first| may_be_same_name(first.as_bytes(), name.as_bytes()))
    }

    /// True if a name is looked up alone. A directory around the job may have many other entries,
    /// and mostly one name is needed. But if a killed job may have left files there, the directory
    /// is listed to find them.
    fn looks_up_alone(&self) -> bool {
        let mut known = self.known.lock();
        known.lookups += 1;
        self.has_foreign_entries
            && known.existing.is_none()
            && known.lookups <= LOOKUPS_MAX
            && !self
                .host
                .records
                .as_ref()
                .is_some_and(|records| records.dead().is_due(&self.host.place(&self.path)))
    }

    /// The server's current answer about `name`.
    pub(super) fn ask(&self, name: &Name, follow: bool) -> io::Result<Option<Attrs>> {
        // An answer read ahead is used once: it is no older than a round trip.
        let ahead = self.known.lock().ahead.take_if(|(lookups, _)| lookups == name);
        let attrs = match ahead {
            Some((_, attrs)) if !follow => attrs,
            _ => {
                self.ready()?;
                let (client, path) = (self.host.client(), self.path_of(name.as_bytes()));
                let lookups = if follow { client.stat(&path) } else { client.lstat(&path) };
                self.host.io(found_or_missing(lookups))?
            }
        };
        if let Some(attrs) = &attrs {
            self.remember(name, attrs, follow);
        }
        Ok(attrs)
    }

    /// Records an entry of a source, or with `follow` the target of a link.
    pub(super) fn remember(&self, name: &Name, attrs: &Attrs, follow: bool) {
        let mut known = self.known.lock();
        if self.uses_all_sessions(attrs) {
            known.large.insert(name.clone());
        }
        let is_dir = attrs.file_type() == Some(FileType::Dir);
        if !self.is_destination && !follow && is_dir && is_complete(attrs) {
            known.dirs.insert(name.clone(), *attrs);
        }
    }

    /// True if the file is large enough to read it through several sessions.
    fn uses_all_sessions(&self, attrs: &Attrs) -> bool {
        !self.is_destination
            && self.host.sessions.max() > 1
            && attrs.file_type() == Some(FileType::File)
            && attrs.size.is_some_and(|size| size > 2 * BLOCK_LEN)
    }

    pub(super) fn meta(&self, name: &[u8], attrs: &Attrs) -> io::Result<Meta> {
        let mut meta = meta_of(attrs)?;
        meta.id = Some(self.host.id_of(&self.path_of(name)));
        Ok(meta)
    }
}

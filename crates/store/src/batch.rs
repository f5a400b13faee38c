//! A batch: complete files that wait for the end of their job. It is a directory with a private
//! name, with one subdirectory, a row, for each directory of final names. In a row each file
//! already has its final name.
//!
//! 1. The job locks the directory. A batch that a killed or disconnected job left is not locked.
//!    The next job takes it over, or `haul clean` removes it.
//! 2. It is on the same file system as the final names, so that each file is renamed in one step.
//! 3. A resumable file keeps its private name besides. If the job is killed, the next one finds all
//!    of it there.
//! 4. Files of a batch that was taken over are kept apart ([`DelayedBatch::previous_row`]). Such a
//!    file is published only if the job has found it equal to the one that it would send
//!    ([`DelayedBatch::claim`]).

#[cfg(test)]
mod tests;

use crate::private::{Form, as_name, batch_name, parse};
use crate::stage::other_dir::copy_to;
use crate::stage::{Home, NAME_ATTEMPTS_MAX};
use crate::{OnExisting, Publication, Sealed, SealedFile, Stage};
use haul_model::{FileId, Name, escape_bytes};
use haul_sys::{Dir, if_found};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The mode of a batch's directory: only its owner has access.
const MODE: u32 = 0o700;

/// The prefix of the names of rows from an earlier job.
const PREVIOUS_PREFIX: &str = "before-";

/// The suffixes of the names of rows: for files with new names, and for files that replace others.
const SUFFIXES: [&str; 2] = ["-new", "-replacing"];

/// A directory of waiting files. Dropping it removes it with its content, unless it is
/// [left](Self::abandon) to the next job.
#[derive(Debug)]
pub struct DelayedBatch {
    parent: Arc<Dir>,
    name: String,
    dir: Dir,
    /// It has files of an earlier job.
    has_previous: bool,
    is_abandoned: AtomicBool,
}

/// The number of a directory of final names. It is the same in each job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowNumber(u128);

impl RowNumber {
    /// The number of the directory `path`: half of its BLAKE3 hash.
    pub fn of(path: &[u8]) -> Self {
        let hash = blake3::hash(path);
        let (half, _) = hash.as_bytes().split_at(size_of::<u128>());
        Self(u128::from_be_bytes(half.try_into().expect("as long")))
    }
}

/// The waiting files for one directory that are published in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The number of the directory.
    pub number: RowNumber,
    /// The handling of an existing entry with the name of a file.
    pub on_existing: OnExisting,
}

impl Row {
    fn name(self) -> Name {
        let [new, replacing] = SUFFIXES;
        let end = match self.on_existing {
            OnExisting::Keep => new,
            OnExisting::Replace => replacing,
        };
        as_name(&format!("{:032x}{end}", self.number.0))
    }

    /// The name of the row if an earlier job left it.
    fn previous_name(self) -> Name {
        previous(&self.name())
    }
}

fn previous(row: &Name) -> Name {
    let name = [PREVIOUS_PREFIX.as_bytes(), row.as_bytes()].concat();
    Name::new(&name).expect("a little longer than the name of a row")
}

impl DelayedBatch {
    /// Creates a batch in `parent`. The time of `parent` is kept.
    ///
    /// # Errors
    /// Errors of creating and opening a directory.
    pub fn begin(parent: Arc<Dir>) -> io::Result<Self> {
        haul_sys::check_renamable(&parent)?;
        let previous = parent.stat_self()?.mtime;
        for _ in 0..NAME_ATTEMPTS_MAX {
            let name = batch_name();
            match parent.make_dir(&as_name(&name), MODE) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            // Until it is locked, another job may treat it as a leftover, and remove it or take it
            // over. Without locks, no process removes leftovers.
            let dir = match parent.open_dir(&as_name(&name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            if matches!(haul_sys::try_lock(&dir), Ok(false)) || !is_same_dir(&parent, &name, &dir) {
                continue;
            }
            let _ = haul_sys::set_mtime(&*parent, previous);
            return Ok(Self::of(parent, name, dir, false));
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "all tried temporary names are taken"))
    }

    fn of(parent: Arc<Dir>, name: String, dir: Dir, has_previous: bool) -> Self {
        Self { parent, name, dir, has_previous, is_abandoned: AtomicBool::new(false) }
    }

    /// Takes over a batch in `parent` that a killed or disconnected job left, and removes further
    /// ones. Three kinds are not taken over: a batch of another user, a batch that others have
    /// rights to, and a batch with anything but rows. The last is not removed either, because a
    /// user has given it that name. If there is any batch, `make_parent_writable` is called first,
    /// to make `parent` writable.
    pub fn take_over(parent: &Arc<Dir>, make_parent_writable: impl FnOnce()) -> Option<Self> {
        let is_batch = |name: &[u8]| matches!(parse(name), Some((Form::DelayedBatch, _)));
        let found = parent.names_where(is_batch).ok()?;
        if !found.is_empty() {
            make_parent_writable();
        }
        let previous = parent.stat_self().map(|stat| stat.mtime);
        let (mut taken, mut is_changed) = (None, false);
        for name in found {
            // The next job finds what can't be removed now.
            if taken.is_none() {
                taken = Self::take(parent, &name).ok().flatten();
                if taken.is_some() {
                    continue;
                }
            }
            is_changed |= matches!(remove(parent, &name), Ok(true));
        }
        if let (true, Ok(previous)) = (is_changed, previous) {
            let _ = haul_sys::set_mtime(&**parent, previous);
        }
        taken
    }

    /// Takes over the batch `name` in `parent`, if no job uses it and it belongs to the user. Its
    /// rows become rows of an earlier job.
    fn take(parent: &Arc<Dir>, name: &Name) -> io::Result<Option<Self>> {
        let dir = parent.open_dir(name)?;
        let is_own = dir.stat_self()?.is_private();
        let text = String::from_utf8_lossy(name.as_bytes()).into_owned();
        if !is_own || !haul_sys::try_lock(&dir)? || !is_same_dir(parent, &text, &dir) {
            return Ok(None);
        }
        let mut has_previous = false;
        for row in rows(&dir)? {
            has_previous = true;
            if row.as_bytes().starts_with(PREVIOUS_PREFIX.as_bytes()) {
                continue;
            }
            match dir.rename_to(&row, &dir, &previous(&row), false) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    put_back(&dir, &row)?;
                }
                renamed => renamed?,
            }
        }
        Ok(Some(Self::of(Arc::clone(parent), text, dir, has_previous)))
    }

    /// The directory of the files that an earlier job left in a row. `None` if there are none.
    ///
    /// # Errors
    /// Errors of opening it.
    pub fn previous_row(&self, row: Row) -> io::Result<Option<Dir>> {
        if !self.has_previous {
            return Ok(None);
        }
        if_found(self.dir.open_dir(&row.previous_name()))
    }

    /// Moves a file that an earlier job left in the row `of` to `row`, as if this job had sent it.
    ///
    /// # Errors
    /// Errors of renaming; [`io::ErrorKind::AlreadyExists`] if a file with this name waits there.
    pub fn claim(&self, of: Row, name: &Name, row: Row) -> io::Result<()> {
        let from = self.dir.open_dir(&of.previous_name())?;
        from.rename_to(name, &*self.create_row(row)?, name, false)
    }

    /// Leaves the waiting files to the next job, because the connection was lost.
    pub fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Release);
    }

    /// The directory of a row.
    fn row(&self, row: Row) -> io::Result<Dir> {
        self.dir.open_dir(&row.name())
    }

    fn create_row(&self, row: Row) -> io::Result<Arc<Dir>> {
        if let Some(opened) = if_found(self.row(row))? {
            return Ok(Arc::new(opened));
        }
        match self.dir.make_dir(&row.name(), MODE) {
            // Another thread has created it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        self.row(row).map(Arc::new)
    }

    /// The names of the files in a row.
    ///
    /// # Errors
    /// Errors of reading the directory.
    pub fn names(&self, row: Row) -> io::Result<Vec<Name>> {
        let Some(row) = if_found(self.row(row))? else { return Ok(Vec::new()) };
        row.names_where(|name| !matches!(name, b"." | b".."))
    }

    /// The id of a file in a row, if it exists.
    pub fn id(&self, row: Row, name: &Name) -> Option<FileId> {
        self.row(row).and_then(|dir| dir.stat(name)).map(|stat| stat.id).ok()
    }

    /// Adds the name `name` in `row` to the file `first` in the row `of`, which must have this
    /// `id`.
    ///
    /// # Errors
    /// Errors of `linkat`.
    pub fn link(&self, of: Row, first: &Name, id: FileId, row: Row, name: &Name) -> io::Result<()> {
        let from = self.row(of)?;
        self.create_row(row)?.make_hard_link(&from, first, Some(id), name.as_bytes())
    }

    /// Adds `sealed` to a row under its final name. A resumable file keeps its private
    /// name besides.
    ///
    /// # Errors
    /// Errors of linking and, if the lot is on another file system, of copying;
    /// [`io::ErrorKind::AlreadyExists`] if a file with this name waits there.
    pub(crate) fn add(&self, sealed: &mut Sealed, row: Row, name: &Name) -> io::Result<()> {
        let to = self.create_row(row)?;
        let taken = |published| match published {
            Publication::Published => Ok(()),
            Publication::Kept => Err(io::ErrorKind::AlreadyExists.into()),
        };
        if let Home::Partial(partial) = &sealed.0.home {
            partial.check()?;
            let part = as_name(partial.name());
            return match to.make_hard_link(&sealed.0.dir, &part, None, name.as_bytes()) {
                Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                    // Here the lot's file system is mounted at another place.
                    let copy = copy_to(&to, Stage::create(Arc::clone(&to))?, &sealed.0.file)?;
                    Sealed(copy).publish(name, OnExisting::Keep).and_then(taken)
                }
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    sealed.0.dir.rename_to(&part, &to, name, false)?;
                    partial.discard();
                    Ok(())
                }
                linked => linked,
            };
        }
        sealed.0.dest = Some(to);
        sealed.publish(name, OnExisting::Keep).and_then(taken)
    }

    /// Gives a file in a row its final name in `dir`.
    ///
    /// # Errors
    /// Errors of renaming and, if `dir` is on another file system, of copying.
    pub fn publish(
        &self,
        row: Row,
        name: &Name,
        dir: &Arc<Dir>,
        on_existing: OnExisting,
    ) -> io::Result<Publication> {
        let from = self.row(row)?;
        let renamed = from.rename_to(name, dir, name, on_existing == OnExisting::Replace);
        match Publication::of(renamed, on_existing) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let (file, _) = from.open_file(name, false)?;
                let copy = copy_to(dir, Stage::create(Arc::clone(dir))?, &file)?;
                let published = Sealed(copy).publish(name, on_existing)?;
                if published == Publication::Published {
                    from.remove_file(name)?;
                }
                Ok(published)
            }
            published => published,
        }
    }

    /// Removes the directories of a row if they are empty.
    pub fn end(&self, number: RowNumber) {
        for on_existing in [OnExisting::Keep, OnExisting::Replace] {
            // Other content is removed with the batch.
            let _ = self.dir.remove_dir(&Row { number, on_existing }.name());
        }
    }
}

impl Drop for DelayedBatch {
    fn drop(&mut self) {
        let is_abandoned = self.is_abandoned.load(Ordering::Acquire);
        if is_abandoned && self.dir.entries().is_ok_and(|rows| !rows.is_empty()) {
            return;
        }
        let previous = self.parent.stat_self().map(|stat| stat.mtime);
        // The next job finds what can't be removed now.
        let _ = empty(&self.dir);
        let _ = self.parent.remove_dir(&as_name(&self.name));
        if let Ok(previous) = previous {
            let _ = haul_sys::set_mtime(&*self.parent, previous);
        }
    }
}

/// True if `name` in `parent` is the directory `dir`.
fn is_same_dir(parent: &Dir, name: &str, dir: &Dir) -> bool {
    let there = parent.stat(&as_name(name));
    dir.stat_self().is_ok_and(|stat| there.is_ok_and(|there| there.id == stat.id))
}

/// True if no job uses the batch `name` in `parent`.
///
/// # Errors
/// Errors of opening and locking it.
pub(crate) fn is_abandoned(parent: &Dir, name: &Name) -> io::Result<bool> {
    haul_sys::try_lock(parent.open_dir(name)?)
}

/// The storage of the files in the batch `name` in `parent`, in bytes.
///
/// # Errors
/// Errors of reading it.
pub(crate) fn bytes(parent: &Dir, name: &Name) -> io::Result<u64> {
    let dir = parent.open_dir(name)?;
    let mut bytes = 0;
    for row in rows(&dir)? {
        let files = dir.open_dir(&row)?;
        for file in files.entries()? {
            bytes += files.stat(&file.name)?.allocated;
        }
    }
    Ok(bytes)
}

/// Removes the batch `name` in `parent` unless a job uses it. Returns true if it was removed.
///
/// # Errors
/// Errors of opening, locking and removing.
pub(crate) fn remove(parent: &Dir, name: &Name) -> io::Result<bool> {
    let dir = parent.open_dir(name)?;
    if !haul_sys::try_lock(&dir)? {
        return Ok(false);
    }
    empty(&dir)?;
    parent.remove_dir(name)?;
    Ok(true)
}

/// Moves the files of a row to the row of an earlier job.
fn put_back(batch: &Dir, row: &Name) -> io::Result<()> {
    let (from, to) = (batch.open_dir(row)?, batch.open_dir(&previous(row))?);
    for file in from.entries()? {
        from.rename_to(&file.name, &to, &file.name, true)?;
        // If both names are the same file, nothing was renamed.
        if_found(from.remove_file(&file.name))?;
    }
    batch.remove_dir(row)
}

/// Removes the rows of a batch with their files.
fn empty(dir: &Dir) -> io::Result<()> {
    for row in rows(dir)? {
        let files = dir.open_dir(&row)?;
        for file in files.entries()? {
            files.remove_file(&file.name)?;
        }
        dir.remove_dir(&row)?;
    }
    Ok(())
}

/// The names of the rows of a batch.
///
/// # Errors
/// Errors of reading it. Also if it has other entries: then it is not a batch.
fn rows(dir: &Dir) -> io::Result<Vec<Name>> {
    let names: Vec<_> = dir.entries()?.into_iter().map(|entry| entry.name).collect();
    if let Some(other) = names.iter().find(|name| !is_row(name)) {
        let other = escape_bytes(other.as_bytes());
        return Err(io::Error::other(format!("it contains {other}, which haul did not create")));
    }
    Ok(names)
}

/// True if `name` is the name of a row, of this job or an earlier one.
fn is_row(name: &Name) -> bool {
    let name = name.as_bytes();
    let name = name.strip_prefix(PREVIOUS_PREFIX.as_bytes()).unwrap_or(name);
    let number = SUFFIXES.iter().find_map(|end| name.strip_suffix(end.as_bytes()));
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_hexdigit))
}

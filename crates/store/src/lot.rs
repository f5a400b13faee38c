//! A lot: complete files that wait for the end of their job. It is a directory with a private name,
//! with one subdirectory, a row, for each directory of final names. In a row each file already has
//! its final name.
//!
//! 1. The job locks the directory. A lot that a killed or disconnected job left is not locked. The
//!    next job takes it over, or `haul clean` removes it.
//! 2. It is on the same file system as the final names, so that each file is renamed in one step.
//! 3. A resumable file keeps its private name besides. If the job is killed, the next one finds all
//!    of it there.
//! 4. Files of a lot that was taken over are kept apart ([`Lot::row_before`]). Such a file is
//!    published only if the job has found it equal to the one that it would send ([`Lot::claim`]).

#[cfg(test)]
mod tests;

use crate::elsewhere::copy_to;
use crate::private::{Form, as_name, lot_name, parse};
use crate::stage::{Home, NAME_ATTEMPTS_MAX};
use crate::{OnExisting, Publication, Sealed, Stage};
use haul_model::{FileId, Name, escape_bytes};
use haul_sys::Dir;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The mode of a lot's directory: only its owner has access.
const MODE: u32 = 0o700;

/// The prefix of the names of rows from an earlier job.
const BEFORE: &str = "before-";

/// The suffixes of the names of rows: for files with new names, and for files that replace others.
const ENDS: [&str; 2] = ["-new", "-replacing"];

/// A directory of waiting files. Dropping it removes it with its content, unless it is
/// [left](Self::leave) to the next job.
#[derive(Debug)]
pub struct Lot {
    above: Arc<Dir>,
    name: String,
    dir: Dir,
    /// It has files of an earlier job.
    has_before: bool,
    is_left: AtomicBool,
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
        let [new, replacing] = ENDS;
        let end = match self.on_existing {
            OnExisting::Keep => new,
            OnExisting::Replace => replacing,
        };
        as_name(&format!("{:032x}{end}", self.number.0))
    }

    /// The name of the row if an earlier job left it.
    fn name_before(self) -> Name {
        before(&self.name())
    }
}

fn before(row: &Name) -> Name {
    let name = [BEFORE.as_bytes(), row.as_bytes()].concat();
    Name::new(&name).expect("a little longer than the name of a row")
}

impl Lot {
    /// Creates a lot in `above`. The time of `above` is kept.
    ///
    /// # Errors
    /// Errors of creating and opening a directory.
    pub fn begin(above: Arc<Dir>) -> io::Result<Self> {
        haul_sys::takes_temporary(&above)?;
        let before = above.stat_self()?.mtime;
        for _ in 0..NAME_ATTEMPTS_MAX {
            let name = lot_name();
            match above.make_dir(&as_name(&name), MODE) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            // Until it is locked, another job may treat it as a leftover, and remove it or take it
            // over. Without locks, no process removes leftovers.
            let dir = match above.open_dir(&as_name(&name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            if matches!(haul_sys::try_lock(&dir), Ok(false)) || !is_it(&above, &name, &dir) {
                continue;
            }
            let _ = haul_sys::set_mtime(&*above, before);
            return Ok(Self::of(above, name, dir, false));
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "all tried temporary names are taken"))
    }

    fn of(above: Arc<Dir>, name: String, dir: Dir, has_before: bool) -> Self {
        Self { above, name, dir, has_before, is_left: AtomicBool::new(false) }
    }

    /// Takes over a lot in `above` that a killed or disconnected job left, and removes further
    /// ones. Three kinds are not taken over: a lot of another user, a lot that others have rights
    /// to, and a lot with anything but rows. The last is not removed either, because a user has
    /// given it that name. If there is any lot, `open_up` is called first, to make `above`
    /// writable.
    pub fn take_over(above: &Arc<Dir>, open_up: impl FnOnce()) -> Option<Self> {
        let is_lot = |name: &[u8]| matches!(parse(name), Some((Form::Lot, _)));
        let found = above.names_where(is_lot).ok()?;
        if !found.is_empty() {
            open_up();
        }
        let before = above.stat_self().map(|stat| stat.mtime);
        let (mut taken, mut is_changed) = (None, false);
        for name in found {
            // The next job finds what can't be removed now.
            if taken.is_none() {
                taken = Self::take(above, &name).ok().flatten();
                if taken.is_some() {
                    continue;
                }
            }
            is_changed |= matches!(remove(above, &name), Ok(true));
        }
        if let (true, Ok(before)) = (is_changed, before) {
            let _ = haul_sys::set_mtime(&**above, before);
        }
        taken
    }

    /// Takes over the lot `name` in `above`, if no job uses it and it belongs to the user. Its rows
    /// become rows of an earlier job.
    fn take(above: &Arc<Dir>, name: &Name) -> io::Result<Option<Self>> {
        let dir = above.open_dir(name)?;
        let is_own = dir.stat_self()?.is_private();
        let text = String::from_utf8_lossy(name.as_bytes()).into_owned();
        if !is_own || !haul_sys::try_lock(&dir)? || !is_it(above, &text, &dir) {
            return Ok(None);
        }
        let mut has_before = false;
        for row in rows(&dir)? {
            has_before = true;
            if row.as_bytes().starts_with(BEFORE.as_bytes()) {
                continue;
            }
            match dir.rename_to(&row, &dir, &before(&row), false) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    put_back(&dir, &row)?;
                }
                renamed => renamed?,
            }
        }
        Ok(Some(Self::of(Arc::clone(above), text, dir, has_before)))
    }

    /// The directory of the files that an earlier job left in a row. `None` if there are none.
    ///
    /// # Errors
    /// Errors of opening it.
    pub fn row_before(&self, row: Row) -> io::Result<Option<Dir>> {
        if !self.has_before {
            return Ok(None);
        }
        match self.dir.open_dir(&row.name_before()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Moves a file that an earlier job left in the row `of` to `row`, as if this job had sent it.
    ///
    /// # Errors
    /// Errors of renaming; [`io::ErrorKind::AlreadyExists`] if a file with this name waits there.
    pub fn claim(&self, of: Row, name: &Name, row: Row) -> io::Result<()> {
        let from = self.dir.open_dir(&of.name_before())?;
        from.rename_to(name, &*self.row_made(row)?, name, false)
    }

    /// Leaves the waiting files to the next job, because the connection was lost.
    pub fn leave(&self) {
        self.is_left.store(true, Ordering::Release);
    }

    /// The directory of a row.
    fn row(&self, row: Row) -> io::Result<Dir> {
        self.dir.open_dir(&row.name())
    }

    fn row_made(&self, row: Row) -> io::Result<Arc<Dir>> {
        match self.row(row) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened.map(Arc::new),
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
        match self.row(row) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            row => row?.names_where(|name| !matches!(name, b"." | b"..")),
        }
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
        self.row_made(row)?.make_hard_link(&from, first, Some(id), name.as_bytes())
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
        let replaces = on_existing == OnExisting::Replace;
        match from.rename_to(name, dir, name, replaces) {
            Ok(()) => Ok(Publication::Published),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !replaces => {
                Ok(Publication::Kept)
            }
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let (file, _) = from.open_file(name, false)?;
                let copy = copy_to(dir, Stage::create(Arc::clone(dir))?, &file)?;
                let published = Sealed(copy).publish(name, on_existing)?;
                if published == Publication::Published {
                    from.remove_file(name)?;
                }
                Ok(published)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes the directories of a row if they are empty.
    pub fn end(&self, number: RowNumber) {
        for on_existing in [OnExisting::Keep, OnExisting::Replace] {
            // Other content is removed with the lot.
            let _ = self.dir.remove_dir(&Row { number, on_existing }.name());
        }
    }
}

impl Drop for Lot {
    fn drop(&mut self) {
        let is_left = self.is_left.load(Ordering::Acquire);
        if is_left && self.dir.entries().is_ok_and(|rows| !rows.is_empty()) {
            return;
        }
        let before = self.above.stat_self().map(|stat| stat.mtime);
        // The next job finds what can't be removed now.
        let _ = empty(&self.dir);
        let _ = self.above.remove_dir(&as_name(&self.name));
        if let Ok(before) = before {
            let _ = haul_sys::set_mtime(&*self.above, before);
        }
    }
}

impl Sealed {
    /// Adds the file to a row of `lot` under its final name. A resumable file keeps its private
    /// name besides.
    ///
    /// # Errors
    /// Errors of linking and, if the lot is on another file system, of copying;
    /// [`io::ErrorKind::AlreadyExists`] if a file with this name waits there.
    pub fn wait(&mut self, lot: &Lot, row: Row, name: &Name) -> io::Result<()> {
        let to = lot.row_made(row)?;
        let taken = |published| match published {
            Publication::Published => Ok(()),
            Publication::Kept => Err(io::ErrorKind::AlreadyExists.into()),
        };
        if let Home::Partial(partial) = &self.0.home {
            partial.check()?;
            let part = as_name(partial.name());
            return match to.make_hard_link(&self.0.dir, &part, None, name.as_bytes()) {
                Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                    // Here the lot's file system is mounted at another place.
                    let copy = copy_to(&to, Stage::create(Arc::clone(&to))?, &self.0.file)?;
                    Sealed(copy).publish(name, OnExisting::Keep).and_then(taken)
                }
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    self.0.dir.rename_to(&part, &to, name, false)?;
                    partial.discard();
                    Ok(())
                }
                linked => linked,
            };
        }
        self.0.dest = Some(to);
        self.publish(name, OnExisting::Keep).and_then(taken)
    }
}

/// True if `name` in `above` is the directory `dir`.
fn is_it(above: &Dir, name: &str, dir: &Dir) -> bool {
    let there = above.stat(&as_name(name));
    dir.stat_self().is_ok_and(|stat| there.is_ok_and(|there| there.id == stat.id))
}

/// True if no job uses the lot `name` in `above`.
///
/// # Errors
/// Errors of opening and locking it.
pub(crate) fn is_left(above: &Dir, name: &Name) -> io::Result<bool> {
    haul_sys::try_lock(above.open_dir(name)?)
}

/// The storage of the files in the lot `name` in `above`, in bytes.
///
/// # Errors
/// Errors of reading it.
pub(crate) fn bytes(above: &Dir, name: &Name) -> io::Result<u64> {
    let dir = above.open_dir(name)?;
    let mut bytes = 0;
    for row in rows(&dir)? {
        let files = dir.open_dir(&row)?;
        for file in files.entries()? {
            bytes += files.stat(&file.name)?.allocated;
        }
    }
    Ok(bytes)
}

/// Removes the lot `name` in `above` unless a job uses it. Returns true if it was removed.
///
/// # Errors
/// Errors of opening, locking and removing.
pub(crate) fn remove(above: &Dir, name: &Name) -> io::Result<bool> {
    let dir = above.open_dir(name)?;
    if !haul_sys::try_lock(&dir)? {
        return Ok(false);
    }
    empty(&dir)?;
    above.remove_dir(name)?;
    Ok(true)
}

/// Moves the files of a row to the row of an earlier job.
fn put_back(lot: &Dir, row: &Name) -> io::Result<()> {
    let (from, to) = (lot.open_dir(row)?, lot.open_dir(&before(row))?);
    for file in from.entries()? {
        from.rename_to(&file.name, &to, &file.name, true)?;
        // If both names are the same file, nothing was renamed.
        match from.remove_file(&file.name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    lot.remove_dir(row)
}

/// Removes the rows of a lot with their files.
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

/// The names of the rows of a lot.
///
/// # Errors
/// Errors of reading it. Also if it has other entries: then it is not a lot.
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
    let name = name.strip_prefix(BEFORE.as_bytes()).unwrap_or(name);
    let number = ENDS.iter().find_map(|end| name.strip_suffix(end.as_bytes()));
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_hexdigit))
}

//! Marks: temporary private entries in a directory. If a mark created in one directory is visible
//! in another, both are the same. A mark that is a file stays locked, so that no process takes it
//! for a leftover of a killed one.

use crate::PRIVATE_DIR_MODE;
use haul_model::{Name, Timestamp};
use haul_store::private_name;
use haul_sys::{Dir, if_found};
use std::fs::File;
use std::io;

/// Attempts to create a file that another process removes as a leftover.
const ATTEMPTS_MAX: usize = 8;

/// A mark. Dropping it removes it if possible.
pub struct Marker {
    dir: Dir,
    name: Name,
    /// The locked file; `None` if the mark is a directory.
    file: Option<File>,
    /// The modification time of the parent, which is restored.
    time: Timestamp,
    exists: bool,
}

impl Marker {
    /// Creates a mark in `dir`. It is a file, or a directory if other clients of the file system
    /// may see new files late.
    ///
    /// # Errors
    /// Errors of creating an entry.
    pub fn make(dir: &Dir) -> io::Result<Self> {
        if !dir.has_known_file_system() {
            return Self::make_new_dir(dir);
        }
        for _ in 0..ATTEMPTS_MAX {
            let name = private_name();
            let mut marker = Self::of(dir, Name::new(name.as_bytes()).map_err(io::Error::other)?)?;
            let file = dir.create_private(&name)?;
            let locked = haul_sys::try_lock(&file);
            let shows = dir.is_private_file(&name, &file);
            (marker.file, marker.exists) = (Some(file), true);
            // Where locks don't work, leftovers are not removed either.
            if locked.unwrap_or(true) && shows? {
                return Ok(marker);
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "each mark was removed at once"))
    }

    /// Creates a mark in `dir` that is a directory.
    ///
    /// # Errors
    /// Errors of `mkdir`.
    pub fn make_new_dir(dir: &Dir) -> io::Result<Self> {
        let name = private_name();
        Self::make_dir(dir, Name::new(name.as_bytes()).map_err(io::Error::other)?)
    }

    /// Creates the directory `name` in `dir`.
    ///
    /// # Errors
    /// Errors of `mkdir`; [`io::ErrorKind::AlreadyExists`] if it exists already.
    pub fn make_dir(dir: &Dir, name: Name) -> io::Result<Self> {
        let mut marker = Self::of(dir, name)?;
        dir.make_dir(&marker.name, PRIVATE_DIR_MODE)?;
        marker.exists = true;
        Ok(marker)
    }

    /// A mark that is not created yet.
    fn of(dir: &Dir, name: Name) -> io::Result<Self> {
        haul_sys::check_renamable(dir)?;
        let (time, dir) = (dir.stat_self()?.mtime, dir.try_clone()?);
        Ok(Self { dir, name, file: None, time, exists: false })
    }

    /// The mark's name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Opens the directory.
    ///
    /// # Errors
    /// Errors of opening a directory.
    pub fn open(&self) -> io::Result<Dir> {
        self.dir.open_dir(&self.name)
    }

    /// Removes the mark. It is no error if another process has removed it through the same
    /// directory elsewhere.
    ///
    /// # Errors
    /// Errors of removing an entry.
    pub fn remove(mut self) -> io::Result<()> {
        self.remove_entry()
    }

    fn remove_entry(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.exists) {
            return Ok(());
        }
        let removed = match self.file {
            Some(_) => self.dir.remove_file(&self.name),
            None => self.dir.remove_dir(&self.name),
        };
        // A copied directory has the time of its source. If it can't be restored, the removal is
        // still no failure.
        let _ = haul_sys::set_mtime(&self.dir, self.time);
        if_found(removed).map(drop)
    }
}

/// The result of looking in a directory of this machine for an entry created elsewhere.
#[derive(Debug)]
pub enum Visibility<T> {
    /// The entry is visible: both directories are the same.
    Shown,
    /// The entry is not visible, on a file system where it would be.
    Hidden,
    /// The entry is not visible, and this error prevented a further check.
    Unsure(io::Error),
    /// The entry is not visible, but the directory's contents may be cached. So a directory of the
    /// same name was created here, and an entry in it: a new directory can't be in a cache. This is
    /// what a look from the other side saw of that entry.
    Made(T),
}

/// Checks whether the directory `name`, created elsewhere, is visible in `near`. If not, creates a
/// directory of that name here with an entry in it, and passes the entry's name to `look`, which
/// looks for it on the other side.
///
/// # Errors
/// Errors of looking, and of creating and removing the entry in the new directory.
pub fn check_visibility<T>(
    near: &Dir,
    name: &Name,
    look: impl FnOnce(&Name) -> T,
) -> io::Result<Visibility<T>> {
    if if_found(near.stat(name))?.is_some() {
        return Ok(Visibility::Shown);
    }
    if near.has_known_file_system() {
        return Ok(Visibility::Hidden);
    }
    let common = match Marker::make_dir(near, name.clone()) {
        Ok(common) => common,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Visibility::Shown),
        Err(error) => return Ok(Visibility::Unsure(error)),
    };
    let inner = Marker::make(&common.open()?)?;
    let looked = look(inner.name());
    inner.remove()?;
    common.remove()?;
    Ok(Visibility::Made(looked))
}

impl Drop for Marker {
    fn drop(&mut self) {
        let _ = self.remove_entry();
    }
}

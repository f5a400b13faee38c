//! Marks: private entries that are in a directory for a moment. Where one shows that
//! was made elsewhere, both are the same directory. A file's lock is held as long as it is
//! a mark, so that nobody takes it for one that a killed process has left.

use crate::PRIVATE_DIR_MODE;
use haul_model::{Name, Timestamp};
use haul_store::private_name;
use haul_sys::Dir;
use std::fs::File;
use std::io;

/// How often a file is made anew that somebody took for one that was left.
const ATTEMPTS_MAX: usize = 8;

/// A mark; dropped, it goes as far as that can be done.
pub struct Mark {
    dir: Dir,
    name: Name,
    /// The file that it is, locked; else it is a directory.
    file: Option<File>,
    /// The directory's own time, which it gets back.
    time: Timestamp,
    is_there: bool,
}

impl Mark {
    /// Makes one in `dir`: a file, or a directory where a file may come to those behind
    /// the file system only when some time has passed.
    ///
    /// # Errors
    /// Those of making an entry.
    pub fn make(dir: &Dir) -> io::Result<Self> {
        if !dir.is_known() {
            return Self::make_new_dir(dir);
        }
        for _ in 0..ATTEMPTS_MAX {
            let name = private_name();
            let mut mark = Self::of(dir, Name::new(name.as_bytes()).map_err(io::Error::other)?)?;
            let file = dir.create_private(&name)?;
            let locked = haul_sys::try_lock(&file);
            let shows = dir.private_is(&name, &file);
            (mark.file, mark.is_there) = (Some(file), true);
            // Where nothing can be locked, nothing is taken for a leftover either.
            if locked.unwrap_or(true) && shows? {
                return Ok(mark);
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "each mark was removed at once"))
    }

    /// Makes one in `dir` that is a directory.
    ///
    /// # Errors
    /// Those of `mkdir`.
    pub fn make_new_dir(dir: &Dir) -> io::Result<Self> {
        let name = private_name();
        Self::make_dir(dir, Name::new(name.as_bytes()).map_err(io::Error::other)?)
    }

    /// Makes the directory `name` in `dir`.
    ///
    /// # Errors
    /// Those of `mkdir`; [`io::ErrorKind::AlreadyExists`] where it shows already.
    pub fn make_dir(dir: &Dir, name: Name) -> io::Result<Self> {
        let mut mark = Self::of(dir, name)?;
        dir.make_dir(&mark.name, PRIVATE_DIR_MODE)?;
        mark.is_there = true;
        Ok(mark)
    }

    /// One that is not there yet.
    fn of(dir: &Dir, name: Name) -> io::Result<Self> {
        haul_sys::takes_temporary(dir)?;
        let (time, dir) = (dir.stat_self()?.mtime, dir.try_clone()?);
        Ok(Self { dir, name, file: None, time, is_there: false })
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The directory that it is.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn open(&self) -> io::Result<Dir> {
        self.dir.open_dir(&self.name)
    }

    /// Removes it. That somebody did so already, by way of the same directory
    /// elsewhere, is no error.
    ///
    /// # Errors
    /// Those of removing an entry.
    pub fn remove(mut self) -> io::Result<()> {
        self.take_away()
    }

    fn take_away(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_there) {
            return Ok(());
        }
        let removed = match self.file {
            Some(_) => self.dir.remove_file(&self.name),
            None => self.dir.remove_dir(&self.name),
        };
        // A directory that was copied has the time of its source, and another one
        // would be no fault of it.
        let _ = haul_sys::set_mtime(&self.dir, self.time);
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The view from a directory of this machine on one that was made elsewhere for a moment.
#[derive(Debug)]
pub enum Sight<T> {
    /// It shows: both are in the same directory.
    Shown,
    /// It doesn't, on a file system where it would.
    Hidden,
    /// It doesn't, and why nothing more can be found out.
    Unsure(io::Error),
    /// It doesn't, but the directory may only remember what was in it before. So one of
    /// the same name was made here, and something in it: of a new directory nobody
    /// remembers anything. This is what was seen of that elsewhere.
    Made(T),
}

/// Looks whether the directory `name`, which was made elsewhere, shows in `near`; `look`
/// is given the name of what is made in a directory of that name here, to look for it in
/// the one that was made elsewhere.
///
/// # Errors
/// Those of looking, and of making and removing what is in the new directory.
pub fn sight<T>(near: &Dir, name: &Name, look: impl FnOnce(&Name) -> T) -> io::Result<Sight<T>> {
    match near.stat(name) {
        Ok(_) => return Ok(Sight::Shown),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    if near.is_known() {
        return Ok(Sight::Hidden);
    }
    let common = match Mark::make_dir(near, name.clone()) {
        Ok(common) => common,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Sight::Shown),
        Err(error) => return Ok(Sight::Unsure(error)),
    };
    let inner = Mark::make(&common.open()?)?;
    let looked = look(inner.name());
    inner.remove()?;
    common.remove()?;
    Ok(Sight::Made(looked))
}

impl Drop for Mark {
    fn drop(&mut self) {
        let _ = self.take_away();
    }
}

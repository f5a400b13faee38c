//! Whole files that wait for the end of their job: a directory with a private name, where
//! each has its own name already, in one subdirectory for each directory in which they are
//! to appear.
//!
//! 1. The directory is locked by its job. What a job that was killed has left is not
//!    locked, and is removed by the next job that looks, or by who cleans.
//! 2. It is on the file system of the directories where its files will appear, so that each
//!    gets its name in one step.
//! 3. A file that can be continued is there under both names: if the job is killed, the next
//!    one finds all of it in the place where it looks.

use crate::elsewhere::copy_to;
use crate::private::{Form, as_name, lot_name, parse};
use crate::stage::{Home, NAME_ATTEMPTS_MAX};
use crate::{OnExisting, Publication, Sealed, Stage};
use haul_model::{FileId, Name};
use haul_sys::Dir;
use std::io;
use std::sync::Arc;

/// The rights to such a directory: they are its owner's.
const MODE: u32 = 0o700;

/// A directory of files that wait; it goes when this is dropped, with what is left in it.
#[derive(Debug)]
pub struct Lot {
    above: Arc<Dir>,
    name: String,
    dir: Dir,
}

/// The files of one directory that wait, as many as are published in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The number of the directory, chosen by the job.
    pub number: u64,
    /// The fate of what has the name of one of them.
    pub on_existing: OnExisting,
}

impl Row {
    fn name(self) -> Name {
        let end = match self.on_existing {
            OnExisting::Keep => "new",
            OnExisting::Replace => "replacing",
        };
        as_name(&format!("{:x}-{end}", self.number))
    }
}

impl Lot {
    /// Begins one in `above`, whose time stays what it is.
    ///
    /// # Errors
    /// Those of making and opening a directory.
    pub fn begin(above: Arc<Dir>) -> io::Result<Self> {
        let before = above.stat_self()?.mtime;
        for _ in 0..NAME_ATTEMPTS_MAX {
            let name = lot_name();
            match above.make_dir(&as_name(&name), MODE) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            let dir = above.open_dir(&as_name(&name))?;
            // Where nothing can be locked, nothing is removed either. Who was faster took it
            // for one that was left behind.
            if matches!(haul_sys::try_lock(&dir), Ok(false)) || !is_it(&above, &name, &dir) {
                continue;
            }
            let _ = haul_sys::set_mtime(&*above, before);
            return Ok(Self { above, name, dir });
        }
        Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "every private name that was tried is taken",
        ))
    }

    /// Removes those of `above` that jobs have left which were killed.
    pub fn remove_left(above: &Dir) {
        let is_lot = |name: &[u8]| matches!(parse(name), Some((Form::Lot, _)));
        let Ok(found) = above.names_where(is_lot) else { return };
        let before = above.stat_self().map(|stat| stat.mtime);
        let mut is_changed = false;
        for name in found {
            // What can't be removed now is found by the next job.
            is_changed |= matches!(remove(above, &name), Ok(true));
        }
        if let (true, Ok(before)) = (is_changed, before) {
            let _ = haul_sys::set_mtime(above, before);
        }
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
            // Another thread has.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        self.row(row).map(Arc::new)
    }

    /// The names of the files that wait in a row.
    ///
    /// # Errors
    /// Those of reading the directory.
    pub fn names(&self, row: Row) -> io::Result<Vec<Name>> {
        match self.row(row) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            row => row?.names_where(|name| !matches!(name, b"." | b"..")),
        }
    }

    /// The file of that name in a row, if one waits there.
    pub fn id(&self, row: Row, name: &Name) -> Option<FileId> {
        self.row(row).and_then(|dir| dir.stat(name)).map(|stat| stat.id).ok()
    }

    /// Has the file `first` of the row `of`, which is the object `id`, wait as `name` in
    /// another row, too.
    ///
    /// # Errors
    /// Those of `linkat`.
    pub fn link(&self, of: Row, first: &Name, id: FileId, row: Row, name: &Name) -> io::Result<()> {
        let from = self.row(of)?;
        self.row_made(row)?.make_hard_link(&from, first, Some(id), name.as_bytes())
    }

    /// Gives a file of a row its name in `dir`.
    ///
    /// # Errors
    /// Those of renaming and, if `dir` is on another file system, of copying.
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

    /// The directories of a row go, once nothing waits in them.
    pub fn end(&self, number: u64) {
        for on_existing in [OnExisting::Keep, OnExisting::Replace] {
            // What is still in one goes with the lot.
            let _ = self.dir.remove_dir(&Row { number, on_existing }.name());
        }
    }
}

impl Drop for Lot {
    fn drop(&mut self) {
        let before = self.above.stat_self().map(|stat| stat.mtime);
        // What can't be removed now is found by the next job.
        let _ = empty(&self.dir);
        let _ = self.above.remove_dir(&as_name(&self.name));
        if let Ok(before) = before {
            let _ = haul_sys::set_mtime(&*self.above, before);
        }
    }
}

impl Sealed {
    /// Has the file wait in that row of `lot` under the name that it will have. What can be
    /// continued stays under its private name besides.
    ///
    /// # Errors
    /// Those of naming and, if the lot is on another file system, of copying;
    /// [`io::ErrorKind::AlreadyExists`] if another of that name waits there.
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

/// True if no job is at the lot `name` of `above`.
///
/// # Errors
/// Those of opening and locking it.
pub(crate) fn is_left(above: &Dir, name: &Name) -> io::Result<bool> {
    haul_sys::try_lock(above.open_dir(name)?)
}

/// Storage that the files of the lot `name` of `above` take, in bytes.
///
/// # Errors
/// Those of reading it.
pub(crate) fn bytes(above: &Dir, name: &Name) -> io::Result<u64> {
    let dir = above.open_dir(name)?;
    let mut bytes = 0;
    for row in dir.entries()? {
        let files = dir.open_dir(&row.name)?;
        for file in files.entries()? {
            bytes += files.stat(&file.name)?.allocated;
        }
    }
    Ok(bytes)
}

/// Removes the lot `name` of `above` unless a job is at it; tells if it did.
///
/// # Errors
/// Those of opening, locking and removing.
pub(crate) fn remove(above: &Dir, name: &Name) -> io::Result<bool> {
    let dir = above.open_dir(name)?;
    if !haul_sys::try_lock(&dir)? {
        return Ok(false);
    }
    empty(&dir)?;
    above.remove_dir(name)?;
    Ok(true)
}

/// Removes the rows of a lot, and the files in them.
fn empty(dir: &Dir) -> io::Result<()> {
    for row in dir.entries()? {
        let files = dir.open_dir(&row.name)?;
        for file in files.entries()? {
            files.remove_file(&file.name)?;
        }
        dir.remove_dir(&row.name)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::{Attributes, Kept, Timestamp};
    use std::fs;
    use std::path::Path;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).expect("a name")
    }

    fn open(path: &Path) -> Arc<Dir> {
        Arc::new(Dir::open(path).expect("opened"))
    }

    /// A whole file in `stage`.
    fn sealed(stage: Stage, content: &str) -> Sealed {
        let mut into = crate::Mover::new(stage);
        into.write(content.as_bytes()).expect("written");
        let moved = into.finish().expect("whole");
        let verified = moved.is_whole(content.len() as u64).map_err(|_| ()).expect("as long");
        let attributes = Attributes::new(0o640, Timestamp { secs: 5, nanos: 0 });
        verified.seal(&attributes, Kept::OF_COPIES).expect("sealed")
    }

    #[test]
    fn what_waits_gets_its_name_at_the_end_and_the_lot_goes() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = open(temp.path());
        fs::write(temp.path().join("old"), "old").expect("written");
        let lot = Lot::begin(Arc::clone(&dir)).expect("begun");
        let row = |on_existing| Row { number: 10, on_existing };
        let (new, replacing) = (row(OnExisting::Keep), row(OnExisting::Replace));
        let stage = || Stage::create(Arc::clone(&dir)).expect("a stage");
        sealed(stage(), "one").wait(&lot, new, &name("new")).expect("it waits");
        sealed(stage(), "two").wait(&lot, replacing, &name("old")).expect("it waits");
        sealed(stage(), "no").wait(&lot, new, &name("new")).expect_err("the name is taken");
        sealed(stage(), "no").wait(&lot, new, &name("left")).expect("it waits");
        assert_eq!(fs::read_to_string(temp.path().join("old")).expect("read"), "old");
        assert!(!temp.path().join("new").exists());
        assert_eq!(lot.names(replacing).expect("read"), [name("old")]);
        for (row, text) in [(new, "new"), (replacing, "old")] {
            let published = lot.publish(row, &name(text), &dir, row.on_existing);
            assert_eq!(published.expect("published"), Publication::Published);
        }
        drop(lot);
        let mut there: Vec<_> =
            dir.entries().expect("read").into_iter().map(|entry| entry.name).collect();
        there.sort();
        assert_eq!(there, [name("new"), name("old")]);
        assert_eq!(fs::read_to_string(temp.path().join("old")).expect("read"), "two");
    }

    #[test]
    fn a_lot_at_work_stays_and_one_that_is_left_goes() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = open(temp.path());
        let lot = Lot::begin(Arc::clone(&dir)).expect("begun");
        let left = temp.path().join(lot_name());
        fs::create_dir_all(left.join("0-new")).expect("made");
        fs::write(left.join("0-new/file"), "left").expect("written");
        Lot::remove_left(&dir);
        assert!(!left.exists());
        assert_eq!(dir.entries().expect("read").len(), 1, "that at work is there");
        drop(lot);
        assert!(dir.entries().expect("read").is_empty());
    }

    #[test]
    fn a_stage_elsewhere_is_published_whole() {
        let temp = tempfile::tempdir().expect("a directory");
        let places = [Path::new("/dev/shm"), temp.path()];
        for place in places {
            let scratch = tempfile::tempdir_in(place).expect("a directory");
            let (from, to) = (open(scratch.path()), open(temp.path()));
            let target = temp.path().join("file");
            for named in [false, true] {
                for on_existing in [OnExisting::Keep, OnExisting::Replace] {
                    let stage = match named {
                        true => Stage {
                            dest: Some(Arc::clone(&to)),
                            ..Stage::create_named(Arc::clone(&from)).expect("a stage")
                        },
                        false => {
                            Stage::create_for(Arc::clone(&from), Arc::clone(&to)).expect("a stage")
                        }
                    };
                    let text = format!("{named} {on_existing:?}");
                    let mut sealed = sealed(stage, &text);
                    let done = sealed.publish(&name("file"), on_existing).expect("published");
                    assert_eq!(done, Publication::Published);
                    drop(sealed);
                    assert_eq!(fs::read_to_string(&target).expect("read"), text);
                    if on_existing == OnExisting::Replace {
                        fs::remove_file(&target).expect("removed");
                    }
                }
                assert!(from.entries().expect("read").is_empty());
            }
        }
    }
}

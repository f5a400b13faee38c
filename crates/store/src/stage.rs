//! A stage: a temporary file in the directory of its final name, so that publishing it is one step
//! inside one file system.
//!
//! 1. Until it is published, nothing under the final name changes.
//! 2. A stage without a name vanishes with the process. A stage with a private name is removed when
//!    it is dropped, unless it can be resumed.
//! 3. A stage with a private name is locked while a process works on it: the file itself, or its
//!    journal. A symbolic link can't be locked. It is renamed as soon as it exists, and created
//!    again if another process removed it as a leftover.
//! 4. A stage is sealed before it is published. That requires a [`crate::Verified`], and sets mode
//!    and time through the open handle, so that the name never shows a file without them. Nothing
//!    writes to the file afterwards.

pub(crate) mod in_place;
pub(crate) mod other_dir;

use self::other_dir::copy_to;
use crate::Pace;
use crate::journal::{Earlier, SourceId};
use crate::partial::{self, Partial};
use crate::private::{Names, private_name};
use crate::{Proof, SealedFile, StagedFile};
use haul_model::{Attributes, BlockHash, Kept, Name, OnExisting, Timestamp};
use haul_sys::Dir;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Maximum number of private names to try if a name is taken, or a link is removed before it is
/// renamed.
pub(crate) const NAME_ATTEMPTS_MAX: usize = 8;

/// The result of a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publication {
    /// The file has its name.
    Published,
    /// [`OnExisting::Keep`] has kept an existing file. The stage can be published again.
    Kept,
}

impl Publication {
    /// The result of an attempt to give a file its name.
    pub(crate) fn of(named: io::Result<()>, on_existing: OnExisting) -> io::Result<Self> {
        match (named, on_existing) {
            (Err(error), OnExisting::Keep) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(Self::Kept)
            }
            (named, _) => named.map(|()| Self::Published),
        }
    }
}

/// A file that is being written and has no final name yet.
#[derive(Debug)]
pub struct Stage {
    /// The directory of the stage.
    pub(crate) dir: Arc<Dir>,
    /// The directory of the final name, if it is another.
    pub(crate) dest: Option<Arc<Dir>>,
    pub(crate) file: File,
    pub(crate) home: Home,
    /// Writes are sent to the medium at once.
    pub(crate) writes_out: bool,
    /// See `StagedFile::writes_sparse`.
    pub(crate) writes_sparse: bool,
}

/// The name of a stage until it is published.
#[derive(Debug)]
pub(crate) enum Home {
    /// No name.
    Unnamed,
    /// A private name, for file systems without unnamed files.
    Private(PrivateName),
    /// A private name that later processes find, with a journal.
    Partial(Partial),
}

impl Stage {
    /// Creates a file in `dir`.
    ///
    /// # Errors
    /// Errors of creating a file.
    pub fn create(dir: Arc<Dir>) -> io::Result<Self> {
        match dir.create_unnamed() {
            Some(file) => Ok(Self::of(dir, file, Home::Unnamed)),
            None => Self::create_named(dir),
        }
    }

    fn of(dir: Arc<Dir>, file: File, home: Home) -> Self {
        Self { dir, dest: None, file, home, writes_out: false, writes_sparse: false }
    }

    /// Creates a file in `dir` that shares the whole content of `source`. If the file system can't
    /// share, the file is empty, and false is returned.
    ///
    /// # Errors
    /// See [`Self::create`].
    pub fn create_sharing(dir: Arc<Dir>, source: &File) -> io::Result<(Self, bool)> {
        match Self::with_name(&dir, |name| haul_sys::create_clone(&dir, source, name)) {
            Ok(stage) => return Ok((stage, true)),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(error) => return Err(error),
        }
        let stage = Self::create(dir)?;
        let shares = haul_sys::clone_file(source, &stage.file);
        Ok((stage, shares))
    }

    /// Creates a file under a private name.
    pub(crate) fn create_named(dir: Arc<Dir>) -> io::Result<Self> {
        Self::with_name(&dir, |name| dir.create_private(name))
    }

    /// Creates a file under a private name with `create`.
    fn with_name(dir: &Arc<Dir>, create: impl Fn(&str) -> io::Result<File>) -> io::Result<Self> {
        let (temp, file) = with_private_name(dir, |name| {
            let file = create(name)?;
            match haul_sys::try_lock(&file) {
                // Another process treats it as a leftover: it removes it, or has done so.
                Ok(is_free) if !is_free || !dir.is_private_file(name, &file)? => {
                    Err(io::ErrorKind::AlreadyExists.into())
                }
                // Without locks, no process removes leftovers.
                Ok(_) | Err(_) => Ok(file),
            }
        })?;
        Ok(Self::of(Arc::clone(dir), file, Home::Private(temp)))
    }

    /// The stage of an earlier copy of `source` to `name` in `dir`, by its journal's header.
    pub fn earlier(dir: &Dir, name: &Name, source: &SourceId) -> Earlier {
        Earlier::in_dir(dir, &Names::of(name, source).journal, source)
    }

    /// Creates a file in `dir` for `name` that a later process can resume, or resumes one. Returns
    /// it, and the hashes of the blocks in it. It is as long as these blocks. A file with its final
    /// length before its content would look complete after a power cut.
    ///
    /// # Errors
    /// Errors of opening and reading; [`io::ErrorKind::ResourceBusy`] while another process writes
    /// the same file.
    pub fn resume(
        dir: Arc<Dir>,
        name: &Name,
        source: &SourceId,
    ) -> io::Result<(Self, Vec<BlockHash>)> {
        Self::resume_at(dir, name, source, Pace::default())
    }

    /// Resumes with checkpoints at `pace`; see [`Self::resume`].
    ///
    /// # Errors
    /// See [`Self::resume`].
    pub fn resume_at(
        dir: Arc<Dir>,
        name: &Name,
        source: &SourceId,
        pace: Pace,
    ) -> io::Result<(Self, Vec<BlockHash>)> {
        let (partial, file, blocks) = partial::open(&dir, name, source, pace)?;
        Ok((Self::of(dir, file, Home::Partial(partial)), blocks))
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// True if no checkpoint has failed to flush the content.
    pub(crate) fn is_sound(&self) -> bool {
        match &self.home {
            Home::Partial(partial) => partial.check().is_ok(),
            Home::Unnamed | Home::Private(_) => true,
        }
    }
}

impl StagedFile for Stage {
    fn local(&self) -> Option<&Stage> {
        Some(self)
    }

    fn local_mut(&mut self) -> Option<&mut Stage> {
        Some(self)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.writes_out {
            haul_sys::write_out_at(&self.file, bytes, offset)
        } else {
            self.file.write_all_at(bytes, offset)
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    /// Also returns an error of a checkpoint since the last call. The stage is not kept then.
    fn record(&self, block: BlockHash) -> io::Result<()> {
        match &self.home {
            Home::Partial(partial) => partial.record(block),
            Home::Unnamed | Home::Private(_) => Ok(()),
        }
    }

    fn discard(self: Box<Self>) {
        if let Home::Partial(partial) = &self.home {
            partial.discard();
        }
    }

    /// Reports errors that the file system reports on closing a file. Attributes are set last,
    /// because delayed writes would change the time.
    fn seal(
        self: Box<Self>,
        _proof: Proof,
        attributes: &Attributes,
        kept: Kept,
    ) -> io::Result<Box<dyn SealedFile>> {
        if !self.dir.has_known_file_system()
            && let Err(error) = haul_sys::check_by_closing(&self.file)
        {
            // The lost part is unknown, so nothing can be resumed.
            self.discard();
            return Err(error);
        }
        haul_sys::set_attributes(&self.dir, &self.file, &attributes.over(0, kept), kept)?;
        Ok(Box::new(Sealed(*self)))
    }
}

/// A file with its content and metadata, but without its final name.
#[derive(Debug)]
pub struct Sealed(pub(crate) Stage);

impl Sealed {
    /// The directory of the final name.
    pub(crate) fn dest(&self) -> &Dir {
        self.0.dest.as_ref().unwrap_or(&self.0.dir)
    }
}

impl SealedFile for Sealed {
    fn local(&self) -> Option<&Sealed> {
        Some(self)
    }

    fn local_mut(&mut self) -> Option<&mut Sealed> {
        Some(self)
    }

    /// A failure is final: the system may treat lost data as written from then on, so the stage is
    /// given up.
    fn sync(&self) -> io::Result<()> {
        match &self.0.home {
            Home::Partial(partial) => partial.sync(),
            Home::Unnamed | Home::Private(_) => self.0.file.sync_all(),
        }
    }

    fn discard(self: Box<Self>) {
        Box::new(self.0).discard();
    }

    /// If that fails, the old file is unchanged.
    fn publish(&mut self, name: &Name, on_existing: OnExisting) -> io::Result<Publication> {
        let Stage { dir, dest, file, home, .. } = &mut self.0;
        let (has_other, at, dir) = (dest.is_some(), &*dir, dest.as_ref().unwrap_or(dir));
        let published = match home {
            Home::Unnamed => publish_unnamed((at, dir), file, name, on_existing)?,
            Home::Private(temp) if !Arc::ptr_eq(&temp.dir, dir) => {
                temp.publish_in(dir, name, on_existing)?
            }
            Home::Private(temp) => return temp.publish(name, on_existing),
            Home::Partial(partial) => {
                partial.check()?;
                let publication = place(dir, partial.name(), name, on_existing)?;
                if publication == Publication::Published {
                    partial.forget();
                }
                return Ok(publication);
            }
        };
        if let Some(publication) = published {
            return Ok(publication);
        }
        // The copy without a name vanishes with the process, too. If naming failed for another
        // reason, the next attempt reports it.
        let second = if has_other { Stage::create } else { Stage::create_named };
        let copy = copy_to(dir, second(Arc::clone(dir))?, file)?;
        self.0 = copy;
        self.publish(name, on_existing)
    }
}

/// The time that a file in `dir` has after `time` was set, measured with a stage.
///
/// # Errors
/// Errors of creating a file and setting its time.
pub fn stored_time(dir: &Arc<Dir>, time: Timestamp) -> io::Result<Timestamp> {
    with_temporary_file(dir, |file| {
        haul_sys::keep_mtime(file, time)?;
        Ok(haul_sys::file_stat(file)?.mtime)
    })
}

/// Runs `work` with a new temporary file in `dir`, which is removed afterwards.
///
/// # Errors
/// Errors of creating a file, and the error of `work`.
pub fn with_temporary_file<T>(
    dir: &Arc<Dir>,
    work: impl FnOnce(&File) -> io::Result<T>,
) -> io::Result<T> {
    let before = dir.stat_self()?.mtime;
    let stage = Stage::create(Arc::clone(dir))?;
    let done = work(&stage.file);
    let had_name = !matches!(stage.home, Home::Unnamed);
    drop(stage);
    if had_name {
        // A file that was created and removed is no change of the directory.
        let _ = haul_sys::set_mtime(&**dir, before);
    }
    done
}

/// Gives the file in `at` its name in `dir`. `None` if it can't get a name there. A private name
/// that is needed for a moment is in `at`.
fn publish_unnamed(
    (at, dir): (&Arc<Dir>, &Arc<Dir>),
    file: &File,
    name: &Name,
    on_existing: OnExisting,
) -> io::Result<Option<Publication>> {
    if on_existing == OnExisting::Keep {
        // After another error, the copy of the file gets the name, or reports why it can't.
        return Ok(Publication::of(dir.link_unnamed(file, name.as_bytes()), on_existing).ok());
    }
    // A private name without a lock would count as a leftover.
    let _ = haul_sys::try_lock(file);
    match with_private_name(at, |temp| at.link_unnamed(file, temp.as_bytes())) {
        Ok((mut temp, ())) if !Arc::ptr_eq(at, dir) => {
            temp.publish_in(dir, name, OnExisting::Replace)
        }
        Ok((mut temp, ())) => temp.publish(name, OnExisting::Replace).map(Some),
        Err(_) => Ok(None),
    }
}

/// A private name that exists in a directory. It is removed on drop.
#[derive(Debug)]
pub(crate) struct PrivateName {
    pub(crate) dir: Arc<Dir>,
    pub(crate) name: String,
    pub(crate) published: bool,
}

/// The existing private names and their directories. A process that ends without dropping its
/// stages removes these.
static UNPUBLISHED: Mutex<BTreeMap<String, Arc<Dir>>> = Mutex::new(BTreeMap::new());

/// Removes every stage of this process that has a private name and can't be resumed. For a process
/// that ends while some threads can't be joined.
pub fn remove_unpublished() {
    for (name, dir) in std::mem::take(&mut *UNPUBLISHED.lock()) {
        // A name that can't be removed is left.
        let _ = dir.remove_private(&name);
    }
}

impl PrivateName {
    pub(crate) fn publish(
        &mut self,
        name: &Name,
        on_existing: OnExisting,
    ) -> io::Result<Publication> {
        let publication = place(&self.dir, &self.name, name, on_existing)?;
        self.published = publication == Publication::Published;
        Ok(publication)
    }

    /// Removes the private name if it still exists.
    pub(crate) fn remove_if_exists(&self) {
        // It usually no longer exists.
        let _ = self.dir.remove_private(&self.name);
    }
}

/// Renames the private name `temp` to `name`.
fn place(dir: &Dir, temp: &str, name: &Name, on_existing: OnExisting) -> io::Result<Publication> {
    let named = match on_existing {
        OnExisting::Replace => dir.publish_replacing(temp, name),
        OnExisting::Keep => dir.publish_new(temp, name),
    };
    Publication::of(named, on_existing)
}

impl Drop for PrivateName {
    fn drop(&mut self) {
        UNPUBLISHED.lock().remove(&self.name);
        if !self.published {
            // A name that can't be removed is left. Later runs recognise it as haul's own.
            let _ = self.dir.remove_private(&self.name);
        }
    }
}

pub(crate) fn with_private_name<T>(
    dir: &Arc<Dir>,
    create: impl Fn(&str) -> io::Result<T>,
) -> io::Result<(PrivateName, T)> {
    haul_sys::check_renamable(dir)?;
    for _ in 0..NAME_ATTEMPTS_MAX {
        let name = private_name();
        match create(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                // Some file systems create a file and then fail to open it.
                if error.kind() != io::ErrorKind::Unsupported {
                    let _ = dir.remove_private(&name);
                }
                return Err(error);
            }
            Ok(made) => {
                UNPUBLISHED.lock().insert(name.clone(), Arc::clone(dir));
                return Ok((PrivateName { dir: Arc::clone(dir), name, published: false }, made));
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "all tried temporary names are taken"))
}

#[cfg(test)]
#[path = "stage_tests.rs"]
mod tests;

//! A file on its way: staged in the directory where it is to appear, so that
//! publishing it is one step inside of one file system.
//!
//! 1. Until it is published, nothing under the final name changes.
//! 2. A stage without a name vanishes with the process; a stage with a private
//!    name is removed when it is dropped, unless it is one that can be continued.
//! 3. As long as somebody works on a stage with a private name, it is locked:
//!    the file itself, or its journal. A symbolic link can't be locked; it is
//!    renamed as soon as it is there, and made anew if it was taken for one that
//!    was left behind.
//! 4. A stage is sealed before it is published: that takes a [`crate::Verified`],
//!    and gives the file its mode and time through the open handle, so that the
//!    name never shows a file without them. Nothing writes to it afterwards.

use crate::Pace;
use crate::elsewhere::copy_to;
use crate::journal::{Earlier, SourceId};
use crate::partial::{self, Partial};
use crate::private::private_name;
use crate::verified::{Proof, Staged};
use haul_model::{Attributes, BlockHash, FileId, Kept, Name, OnExisting, Timestamp};
use haul_sys::Dir;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// How often a private name is drawn anew when it is taken, or the link under it
/// is gone before it is renamed.
pub(crate) const NAME_ATTEMPTS_MAX: usize = 8;

/// The outcome of a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publication {
    /// The file has its name.
    Published,
    /// [`OnExisting::Keep`] met an existing file, and left it. The file can be
    /// published again.
    Kept,
}

/// A file that is being written and has no name of its own yet.
#[derive(Debug)]
pub struct Stage {
    /// The directory that it is in.
    pub(crate) dir: Arc<Dir>,
    /// The one where it will appear, if that is another.
    pub(crate) dest: Option<Arc<Dir>>,
    pub(crate) file: File,
    pub(crate) home: Home,
    /// Writes go to the medium at once.
    pub(crate) writes_out: bool,
    /// See [`Staged::leaves_zeros`].
    pub(crate) leaves_zeros: bool,
}

/// Where a stage is until it is published.
#[derive(Debug)]
pub(crate) enum Home {
    /// Nowhere: it has no name.
    Unnamed,
    /// Under a private name, where the file system knows no files without one.
    Private(PrivateName),
    /// Under a private name that is found again, with a journal.
    Partial(Partial),
}

impl Stage {
    /// Begins a file in `dir`.
    ///
    /// # Errors
    /// Those of creating a file.
    pub fn create(dir: Arc<Dir>) -> io::Result<Self> {
        if let Some(file) = dir.create_unnamed() {
            return Ok(Self {
                dir,
                dest: None,
                file,
                home: Home::Unnamed,
                writes_out: false,
                leaves_zeros: false,
            });
        }
        Self::create_named(dir)
    }

    /// Begins a file in `dir` that shares the whole content of `source`, where
    /// the file system can do that, else an empty one; tells whether it does.
    ///
    /// # Errors
    /// Those of [`Self::create`].
    pub fn create_sharing(dir: Arc<Dir>, source: &File) -> io::Result<(Self, bool)> {
        match Self::with_name(&dir, |name| dir.create_clone(source, name)) {
            Ok(stage) => return Ok((stage, true)),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(error) => return Err(error),
        }
        let stage = Self::create(dir)?;
        let shares = haul_sys::clone_file(source, &stage.file);
        Ok((stage, shares))
    }

    /// Begins a file under a private name.
    pub(crate) fn create_named(dir: Arc<Dir>) -> io::Result<Self> {
        Self::with_name(&dir, |name| dir.create_private(name))
    }

    /// Begins the file that `create` makes under a private name.
    fn with_name(dir: &Arc<Dir>, create: impl Fn(&str) -> io::Result<File>) -> io::Result<Self> {
        let (temp, file) = with_private_name(dir, |name| {
            let file = create(name)?;
            match haul_sys::try_lock(&file) {
                // Somebody takes it for one that was left behind, and removes it, or has.
                Ok(is_free) if !is_free || !dir.private_is(name, &file)? => {
                    Err(io::ErrorKind::AlreadyExists.into())
                }
                // Where nothing can be locked, nothing is removed either.
                Ok(_) | Err(_) => Ok(file),
            }
        })?;
        let (dir, home) = (Arc::clone(dir), Home::Private(temp));
        Ok(Self { dir, dest: None, file, home, writes_out: false, leaves_zeros: false })
    }

    /// Finds out if an earlier copy of `source` to `name` in `dir` can be continued,
    /// by all appearance.
    pub fn earlier(dir: &Dir, name: &Name, source: &SourceId) -> Earlier {
        partial::earlier(dir, name, source)
    }

    /// Begins a file in `dir` that is to be called `name` and can be continued
    /// by a later process, or continues one: gives it, and the hashes of the
    /// blocks that are there already. It is as long as these: a file that has its
    /// whole length before its content would look whole after a cut of the power.
    ///
    /// # Errors
    /// Those of opening and reading; [`io::ErrorKind::ResourceBusy`] while
    /// another process writes the same file.
    pub fn resume(
        dir: Arc<Dir>,
        name: &Name,
        source: &SourceId,
    ) -> io::Result<(Self, Vec<BlockHash>)> {
        Self::resume_at(dir, name, source, Pace::default())
    }

    /// The same with checkpoints at a pace of the caller's own.
    ///
    /// # Errors
    /// Those of [`Self::resume`].
    pub fn resume_at(
        dir: Arc<Dir>,
        name: &Name,
        source: &SourceId,
        pace: Pace,
    ) -> io::Result<(Self, Vec<BlockHash>)> {
        let opened = partial::open(&dir, name, source, pace)?;
        let home = Home::Partial(opened.partial);
        let stage = Self {
            dir,
            dest: None,
            file: opened.file,
            home,
            writes_out: false,
            leaves_zeros: false,
        };
        Ok((stage, opened.blocks))
    }

    /// True if nothing that was written could not be made durable, as far as
    /// checkpoints have told.
    pub fn is_sound(&self) -> bool {
        match &self.home {
            Home::Partial(partial) => partial.check().is_ok(),
            Home::Unnamed | Home::Private(_) => true,
        }
    }

    /// Gives up the content: nothing will continue it.
    pub fn discard(self) {
        if let Home::Partial(partial) = &self.home {
            partial.discard();
        }
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// True if the system copies small contents, too, into it for less than reading and
    /// writing them takes.
    pub fn copies_small_files(&self) -> bool {
        self.dir.copies_small_files()
    }

    /// Has what is written from now on go to the medium at once and leave the
    /// page cache, for a large file that is made durable in the end. Nothing is
    /// durable by that.
    pub fn write_out(&mut self) {
        self.writes_out = true;
    }

    /// Has runs of zeros become holes from now on.
    pub fn leave_zeros(&mut self) {
        self.leaves_zeros = true;
    }
}

impl Staged for Stage {
    type Sealed = Sealed;

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

    fn clear(&self, range: Range<u64>) -> bool {
        haul_sys::punch_hole(&self.file, range)
    }

    fn leaves_zeros(&self) -> bool {
        self.leaves_zeros
    }

    /// Fails also with what a checkpoint has met since: then the stage is not kept.
    fn record(&self, block: BlockHash) -> io::Result<()> {
        match &self.home {
            Home::Partial(partial) => partial.record(block),
            Home::Unnamed | Home::Private(_) => Ok(()),
        }
    }

    fn handle(&self) -> Option<&File> {
        Some(&self.file)
    }

    /// The content is there as far as the file system tells when a file is closed. The
    /// attributes come last, for what is written out only then would change the time.
    fn seal(self, _proof: Proof, attributes: &Attributes, kept: Kept) -> io::Result<Sealed> {
        if !self.dir.is_known()
            && let Err(error) = haul_sys::tell_by_closing(&self.file)
        {
            // What was lost is not known, so nothing of it is continued.
            if let Home::Partial(partial) = &self.home {
                partial.discard();
            }
            return Err(error);
        }
        haul_sys::set_attributes(&self.dir, &self.file, attributes, kept)?;
        Ok(Sealed(self))
    }
}

/// A file that has its content and its metadata, and lacks its name.
#[derive(Debug)]
pub struct Sealed(pub(crate) Stage);

impl Sealed {
    /// The open file.
    pub fn file(&self) -> &File {
        &self.0.file
    }

    /// Makes content and metadata durable.
    ///
    /// # Errors
    /// Those of `fsync`. Such a failure is final: the system may take what it
    /// lost for written from then on, so the stage is given up.
    pub fn sync(&self) -> io::Result<()> {
        match &self.0.home {
            Home::Partial(partial) => partial.sync(),
            Home::Unnamed | Home::Private(_) => self.0.file.sync_all(),
        }
    }

    /// The directory where it is to appear.
    pub(crate) fn dest(&self) -> &Dir {
        self.0.dest.as_ref().unwrap_or(&self.0.dir)
    }

    /// Gives up the content: nothing will continue it.
    pub fn discard(self) {
        self.0.discard();
    }

    /// Which object it is.
    ///
    /// # Errors
    /// Those of `fstat`.
    pub fn id(&self) -> io::Result<FileId> {
        Ok(haul_sys::file_stat(&self.0.file)?.id)
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// Those of the operations; the old file is untouched then.
    pub fn publish(&mut self, name: &Name, on_existing: OnExisting) -> io::Result<Publication> {
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
        // One without a name vanishes with the process, too. If more is wrong than that it
        // can't be named there, what follows tells.
        let second = if has_other { Stage::create } else { Stage::create_named };
        let copy = copy_to(dir, second(Arc::clone(dir))?, file)?;
        self.0 = copy;
        self.publish(name, on_existing)
    }
}

/// The time that a file in `dir` has after it was given `time`, found with a stage.
///
/// # Errors
/// Those of creating a file and setting its time.
pub fn kept_time(dir: &Arc<Dir>, time: Timestamp) -> io::Result<Timestamp> {
    for_a_moment(dir, |file| {
        haul_sys::keep_mtime(file, time)?;
        Ok(haul_sys::file_stat(file)?.mtime)
    })
}

/// Does `work` with a new file in `dir`, which gets no name of its own and is gone afterwards.
///
/// # Errors
/// Those of creating a file, and that of `work`.
pub fn for_a_moment<T>(dir: &Arc<Dir>, work: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
    let before = dir.stat_self()?.mtime;
    let stage = Stage::create(Arc::clone(dir))?;
    let done = work(&stage.file);
    let had_name = !matches!(stage.home, Home::Unnamed);
    drop(stage);
    if had_name {
        // It came and went, and that is no change to the directory.
        let _ = haul_sys::set_mtime(&**dir, before);
    }
    done
}

/// Gives the file, which is in the first directory, its name in the second; `None` if it can't be
/// given any name there. A name that it has for a moment is in the first.
fn publish_unnamed(
    (at, dir): (&Arc<Dir>, &Arc<Dir>),
    file: &File,
    name: &Name,
    on_existing: OnExisting,
) -> io::Result<Option<Publication>> {
    if on_existing == OnExisting::Keep {
        return Ok(match dir.link_unnamed(file, name.as_bytes()) {
            Ok(()) => Some(Publication::Published),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Some(Publication::Kept),
            Err(_) => None,
        });
    }
    // A private name without a lock on it counts as left behind.
    let _ = haul_sys::try_lock(file);
    match with_private_name(at, |temp| at.link_unnamed(file, temp.as_bytes())) {
        Ok((mut temp, ())) if !Arc::ptr_eq(at, dir) => {
            temp.publish_in(dir, name, OnExisting::Replace)
        }
        Ok((mut temp, ())) => temp.publish(name, OnExisting::Replace).map(Some),
        Err(_) => Ok(None),
    }
}

/// A private name that exists in a directory; removed on drop.
#[derive(Debug)]
pub(crate) struct PrivateName {
    pub(crate) dir: Arc<Dir>,
    pub(crate) name: String,
    pub(crate) published: bool,
}

/// The private names that exist at this moment, and where: a process that ends
/// without dropping its stages removes them by this.
static UNPUBLISHED: Mutex<BTreeMap<String, Arc<Dir>>> = Mutex::new(BTreeMap::new());

fn unpublished() -> MutexGuard<'static, BTreeMap<String, Arc<Dir>>> {
    UNPUBLISHED.lock()
}

/// Removes every stage of this process that has a private name and could not be
/// continued. For the end of a process some of whose threads can't be joined.
pub fn remove_unpublished() {
    for (name, dir) in std::mem::take(&mut *unpublished()) {
        // Nothing more can be done about a name that can't be removed.
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

    /// Removes the private name, if it is still there.
    pub(crate) fn remove_rest(&self) {
        // It is gone, but in rare cases.
        let _ = self.dir.remove_private(&self.name);
    }
}

/// Renames the private name `temp` to `name`.
fn place(dir: &Dir, temp: &str, name: &Name, on_existing: OnExisting) -> io::Result<Publication> {
    match on_existing {
        OnExisting::Replace => dir.publish_replacing(temp, name)?,
        OnExisting::Keep => match dir.publish_new(temp, name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Ok(Publication::Kept);
            }
            done => done?,
        },
    }
    Ok(Publication::Published)
}

impl Drop for PrivateName {
    fn drop(&mut self) {
        unpublished().remove(&self.name);
        if !self.published {
            // Nothing more can be done about a name that can't be removed; it
            // is recognisable as haul's own.
            let _ = self.dir.remove_private(&self.name);
        }
    }
}

pub(crate) fn with_private_name<T>(
    dir: &Arc<Dir>,
    create: impl Fn(&str) -> io::Result<T>,
) -> io::Result<(PrivateName, T)> {
    haul_sys::takes_temporary(dir)?;
    for _ in 0..NAME_ATTEMPTS_MAX {
        let name = private_name();
        match create(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                // Some file systems make a file and then fail to open it.
                if error.kind() != io::ErrorKind::Unsupported {
                    let _ = dir.remove_private(&name);
                }
                return Err(error);
            }
            Ok(made) => {
                unpublished().insert(name.clone(), Arc::clone(dir));
                return Ok((PrivateName { dir: Arc::clone(dir), name, published: false }, made));
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "all tried temporary names are taken"))
}

#[cfg(test)]
#[path = "stage_tests.rs"]
mod tests;

//! The contract of a tree and of its directories.

use crate::{Meta, SourceFile, StagedFile, TreeEntry, sftp};
use haul_model::{BlockHash, FileId, Granularity, Name, Timestamp};
use haul_store::{Cleaned, Earlier, Placement, Publication, SourceId, StaleStages};
use haul_sys::Dir;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// What a directory is made with, until its own mode is set: only its owner can
/// enter.
pub const PRIVATE_DIR_MODE: u32 = 0o700;

/// A kind of storage: it opens the directories that users name.
pub trait Tree: Send + Sync {
    /// The directory at `path`; links on the way are followed, as the user means
    /// it.
    fn open(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>>;

    /// The same for a directory in which the first thing to be asked about will be
    /// `name`.
    fn open_around(&self, path: &[u8], name: &Name) -> io::Result<Arc<dyn TreeDir>> {
        let _ = name;
        self.open(path)
    }

    /// True if it reads directories before they are needed by itself.
    fn lists_ahead(&self) -> bool {
        false
    }

    /// Whether it keeps times in whole seconds, whatever it is told.
    fn keeps_whole_seconds(&self) -> bool {
        false
    }
}

/// What waits for something that is under way, and tells what came of it.
pub type Outstanding = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// A directory of a tree, held open.
///
/// The contract that every kind of tree keeps:
/// - Each operation concerns this directory and one name in it. No symbolic
///   link is followed unless `follow` says so; only sources are ever followed.
/// - Calls may come from several threads at once, and may block.
/// - Errors are those of the storage, untranslated; nobody below retries.
/// - Nothing appears under a name before it is whole: content goes through
///   [`TreeDir::stage`], links are renamed into place.
pub trait TreeDir: Send + Sync {
    /// True if what is lost with this handle is learned again by opening the
    /// directory once more.
    fn can_be_opened_again(&self) -> bool {
        true
    }

    /// All entries but `.` and `..`, in ascending order of their bytes.
    fn entries(&self) -> io::Result<Vec<TreeEntry>>;

    /// What `name` is; `None` if nothing has that name.
    fn stat(&self, name: &Name, follow: bool) -> io::Result<Option<Meta>>;

    /// Many names in it are about to be looked at, most of which it does not have:
    /// where each look takes a round trip, all of it is listed first.
    fn expect_looks(&self) {}

    /// What this directory itself is.
    fn stat_self(&self) -> io::Result<Meta>;

    /// Where the symbolic link `name` points.
    fn read_link(&self, name: &Name) -> io::Result<Vec<u8>>;

    /// Opens a directory in this one.
    fn open_dir(&self, name: &Name, follow: bool) -> io::Result<Arc<dyn TreeDir>>;

    /// Reads what is behind `name` to its end, a link followed, into a file of this
    /// machine's directory `into`, while it `goes_on`. From then on that file is what
    /// [`Self::open_file`] opens, and what is told of it is returned.
    fn spool(&self, _name: &Name, _into: &Path, _goes_on: &dyn Fn() -> bool) -> io::Result<Meta> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Opens a regular file in this directory for reading.
    fn open_file(&self, name: &Name, follow: bool) -> io::Result<Box<dyn SourceFile>>;

    /// Makes a directory with `mode`, of which the system may take bits away.
    fn make_dir(&self, name: &Name, mode: u32) -> io::Result<()>;

    /// Makes a symbolic link in one step.
    fn make_symlink(
        &self,
        target: &[u8],
        name: &Name,
        mtime: Timestamp,
        placement: Placement,
    ) -> io::Result<Publication>;

    /// Begins a file that is to be published in this directory.
    fn stage(&self) -> io::Result<Box<dyn StagedFile>>;

    /// Begins a file that shares the whole content of `source`, where the file
    /// system can do that, else an empty one; tells whether it does.
    fn stage_sharing(&self, source: &dyn SourceFile) -> io::Result<(Box<dyn StagedFile>, bool)> {
        let _ = source;
        Ok((self.stage()?, false))
    }

    /// What an earlier copy to `name` has left, by all appearance, where `source`
    /// is to be copied.
    fn earlier(&self, name: &Name, source: &SourceId) -> Earlier;

    /// Begins, or continues, a file that a later job can continue; gives the
    /// hashes of the blocks that are there already.
    fn resume(
        &self,
        name: &Name,
        source: &SourceId,
    ) -> io::Result<(Box<dyn StagedFile>, Vec<BlockHash>)>;

    /// Removes what an earlier copy of `source` to `name` has left.
    fn remove_leftovers(&self, name: &Name, source: &SourceId);

    /// Removes what copies of any source to `name` have left, and nobody works
    /// on; called when `name` was published. `seen` keeps what was found in this
    /// directory when it was first asked.
    fn remove_stale(&self, _name: &Name, _seen: &OnceLock<StaleStages>) {}

    /// Removes what copies have left in this directory, as [`haul_store::Leftover`]
    /// does it, and tells `each`.
    fn clean(
        &self,
        _all: bool,
        _dry_run: bool,
        _each: &mut dyn FnMut(&[u8], io::Result<Cleaned>),
    ) -> io::Result<()> {
        Ok(())
    }

    /// Makes the directory `name` for a job of `origin`, in such a way, where that can
    /// be done, that it is not seen under its name before it has that in mind; elsewhere
    /// [`Self::remember_origin`] sees to it.
    fn make_dir_of(&self, name: &Name, mode: u32, _origin: &[u8; 16]) -> io::Result<()> {
        self.make_dir(name, mode)
    }

    /// Keeps in mind that a job of `origin` has made this directory, as far as that can
    /// be done and making it has not done so.
    fn remember_origin(&self, _origin: &[u8; 16]) {}

    /// Whether a job of `origin` has made this directory and it was kept in mind.
    fn is_of_origin(&self, _origin: &[u8; 16]) -> bool {
        false
    }

    /// Where this directory, or one that is made as `name` in it, can't keep for good
    /// in mind which job has made it: a text that tells it from all others, here and
    /// elsewhere, to have that on record.
    fn place_on_record(&self, _name: Option<&Name>) -> Option<Vec<u8>> {
        None
    }

    /// That job is done, and what shows in the directory to keep it in mind goes.
    fn forget_origin(&self, _origin: &[u8; 16]) {}

    /// Gives the entry `name` the name `new`, which nothing must have.
    ///
    /// # Errors
    /// Also where the tree can't do that in one step.
    fn rename(&self, _name: &Name, _new: &Name) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Removes `name`, which must be no directory.
    fn remove_file(&self, name: &Name) -> io::Result<()>;

    /// Removes the directory `name`, which must be empty.
    fn remove_dir(&self, name: &Name) -> io::Result<()>;

    /// The directory of a host's SFTP server, if it is one.
    fn remote(&self) -> Option<&sftp::SftpDir> {
        None
    }

    /// Whether the directory may not be there yet, and will be soon or fail:
    /// then [`Self::ready`] tells.
    fn is_being_made(&self) -> bool {
        false
    }

    /// Waits until the directory is there, where it is being made.
    ///
    /// # Errors
    /// Why it could not be made.
    fn ready(&self) -> io::Result<()> {
        Ok(())
    }

    /// The directory of this machine, if it is one.
    fn local(&self) -> Option<&Dir> {
        None
    }

    /// A number for the file system that this directory is on, which lasts; 0 if
    /// there is none.
    fn volume(&self) -> u64 {
        0
    }

    /// Whether the file system that this directory is on keeps the time of every
    /// change of a file in [`Meta::ctime`], and not its modification time again,
    /// for one, as some do.
    fn keeps_ctime(&self, _of: &Meta) -> bool {
        false
    }

    /// Whether the regular file `name`, of which `meta` was found, has holes where
    /// a cut of the power, or a failure to write, has kept content from its medium. A
    /// file that was made with holes looks the same: who asks knows that this one was
    /// not. A small file of which nothing tells that it may be so is only opened if
    /// `each` says so.
    fn lacks_content(&self, _name: &Name, _meta: &Meta, _each: bool) -> io::Result<bool> {
        Ok(false)
    }

    /// Sets the mode of the regular file `name`, through a handle of it, if it is
    /// still the object `id`, where objects can be told.
    fn set_file_mode(&self, name: &Name, id: Option<FileId>, mode: u32) -> io::Result<()>;

    /// Whether no two names in this directory are one to its storage, as far as
    /// that is known. Where objects can't be told it doesn't matter.
    fn tells_names_apart(&self) -> bool {
        true
    }

    /// Whether an entry has this very name, as the directory spells it now. For where
    /// objects can't be told.
    fn spells(&self, _name: &Name) -> io::Result<bool> {
        Ok(true)
    }

    /// The unit in which times are kept here, found out with a private file.
    fn time_unit(&self) -> io::Result<Granularity> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes content and metadata of the regular file `name` durable.
    fn sync_file(&self, name: &Name) -> io::Result<()>;

    /// Sets this directory's own mode and modification time.
    fn set_meta(&self, mode: u32, mtime: Timestamp) -> io::Result<()>;

    /// The same without waiting for what comes of it, where that takes long.
    fn set_meta_later(&self, _mode: u32, _mtime: Timestamp) -> Option<Outstanding> {
        None
    }

    /// Makes sure that entries can be made in this directory, if its owner is
    /// the one who asks.
    fn make_writable(&self) -> io::Result<()>;

    /// Makes the names in this directory, and its metadata, durable.
    fn sync(&self) -> io::Result<()>;

    /// True if its file system is one of those on which an object keeps its number, and
    /// what is made shows at once by whatever way it is looked for.
    fn is_known(&self) -> bool {
        false
    }

    /// Whether [`TreeDir::sync_all`] works here.
    fn syncs_as_a_whole(&self) -> bool;

    /// Makes everything durable that was written to this file system.
    fn sync_all(&self) -> io::Result<()>;
}

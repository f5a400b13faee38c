//! The contract of a tree and its directories. Every kind of tree has the required methods. The
//! other methods have defaults that hold for a kind without the feature, so callers need not know
//! the kind.

use crate::{Lane, Meta, SourceFile, StagedFile, TreeEntry};
use haul_model::{Attributes, BlockHash, FileId, Kept, Name, NewEntry, Timestamp};
use haul_store::{Earlier, OnExisting, Publication, SourceId, StaleStages};
use haul_sys::{Dir, FreeSpace};
use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The mode of a directory that only its owner can enter. Creating entries in a directory needs at
/// least these bits.
pub const PRIVATE_DIR_MODE: u32 = 0o700;

/// A kind of storage. It opens the directories that users name.
pub trait Tree: Send + Sync {
    /// Opens the directory at `path`, following links on the way.
    fn open(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>>;

    /// Like [`Self::open`], for a caller that looks up names and lists nothing: `first` at first, if
    /// given. The directory need not be readable, where the system supports that.
    fn open_for_search(&self, path: &[u8], first: Option<&Name>) -> io::Result<Arc<dyn TreeDir>>;

    /// The absolute path of the directory `path`. Links in it need not be resolved.
    ///
    /// # Errors
    /// Errors of the system or the server.
    fn absolute_path(&self, path: &[u8]) -> io::Result<Vec<u8>>;

    /// The capabilities of the tree.
    fn capabilities(&self) -> Capabilities {
        Capabilities::local(false)
    }

    /// Waits for lane `number` for small files and returns it. `None` if it will not open; see
    /// [`Capabilities::small_lanes`].
    fn lane(&self, _number: usize) -> Option<Lane<'_>> {
        None
    }
}

/// The capabilities of a tree. All its directories share them.
#[derive(Debug, Clone, Copy)]
pub struct Capabilities {
    /// Each operation takes a round trip to another machine.
    pub costs_round_trips: bool,
    /// How many lanes the content of one file can use at the same time.
    pub lanes: usize,
    /// How many lanes small files can use at the same time; 0 if they need none.
    pub small_lanes: usize,
    /// It lists directories ahead by itself.
    pub prefetches_listings: bool,
    /// It keeps times in whole seconds only; see [`crate::in_whole_seconds`].
    pub keeps_whole_seconds: bool,
    /// The attributes that this storage can keep.
    pub keeps: Kept,
    /// [`Meta::id`] identifies objects. Otherwise it identifies paths: a replaced object has the
    /// same ID.
    pub has_object_ids: bool,
    /// `stage_sharing` may succeed.
    pub can_share_content: bool,
    /// It can set all attributes that only root can set elsewhere.
    pub acts_as_root: bool,
    /// The mark of a directory's origin is a visible entry until `remove_origin_record`.
    pub has_visible_origin: bool,
}

impl Capabilities {
    /// The capabilities of this machine's file systems. With `fakes`, attributes that only root can
    /// set are recorded instead.
    pub(crate) fn local(fakes: bool) -> Self {
        Self {
            costs_round_trips: false,
            lanes: 1,
            small_lanes: 0,
            prefetches_listings: false,
            keeps_whole_seconds: false,
            keeps: Kept::ALL.with(Kept::ATIMES).with(Kept::AS_POSSIBLE),
            has_object_ids: true,
            can_share_content: true,
            acts_as_root: fakes || haul_sys::is_root(),
            has_visible_origin: false,
        }
    }

    /// The capabilities of an SFTP server with this many sessions, and with hard links.
    pub(crate) fn sftp(sessions: usize, links: bool) -> Self {
        Self {
            costs_round_trips: true,
            lanes: sessions,
            small_lanes: sessions,
            prefetches_listings: true,
            keeps_whole_seconds: true,
            keeps: Kept::OF_COPIES.with(Kept::LINKS.only_if(links)),
            has_object_ids: false,
            can_share_content: false,
            acts_as_root: haul_sys::is_root(),
            has_visible_origin: true,
        }
    }
}

/// Waits for a pending operation and returns its result.
pub type PendingOperation = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// An open directory of a tree.
///
/// The contract of every kind of tree:
/// - Each operation is about this directory and one name in it. Symbolic links are followed only if
///   `follow` is set, and only in sources.
/// - Several threads may call at once. Calls may block.
/// - Errors are those of the storage, untranslated. Lower layers do not retry.
/// - A name never shows an incomplete entry: content goes through [`Self::stage`], and links are
///   renamed into place.
pub trait TreeDir: Send + Sync {
    /// All entries except `.` and `..`, in ascending byte order.
    fn entries(&self) -> io::Result<Vec<TreeEntry>>;

    /// The metadata of `name`; `None` if it does not exist.
    fn stat(&self, name: &Name, follow: bool) -> io::Result<Option<Meta>>;

    /// The directory, if it is held open. The system then has operations on it that are no part of
    /// this contract: the methods of `dyn TreeDir`.
    fn held(&self) -> Option<&Arc<Dir>> {
        None
    }

    /// The directory itself, for the methods of `dyn TreeDir` that only its kind has.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// The metadata of this directory.
    fn stat_self(&self) -> io::Result<Meta>;

    /// The target of the symbolic link `name`.
    fn read_link(&self, name: &Name) -> io::Result<Vec<u8>>;

    /// Opens a directory in this one.
    fn open_dir(&self, name: &Name, follow: bool) -> io::Result<Arc<dyn TreeDir>>;

    /// Opens a regular file in this directory for reading.
    fn open_file(&self, name: &Name, follow: bool) -> io::Result<Box<dyn SourceFile>>;

    /// Creates a directory with `mode`; the umask applies. If `origin` is given, it is recorded that
    /// a job of that origin has created it. Where possible, the name becomes visible only with the
    /// record. Elsewhere `record_origin` adds the record. The operation may still be pending on
    /// return; see `pending_creation`.
    fn make_dir(&self, name: &Name, mode: u32, origin: Option<&[u8; 16]>) -> io::Result<()>;

    /// True if a symbolic link to `target` in this directory would lead to the entry `name`.
    fn leads_to(&self, target: &[u8], name: &Name) -> bool;

    /// Creates a symbolic link, FIFO, socket or device in one step, with those of `attributes` in
    /// `kept` that it supports. A link never replaces the entry that it would lead to.
    fn make_entry(
        &self,
        new: NewEntry<'_>,
        name: &Name,
        attributes: &Attributes,
        kept: Kept,
        on_existing: OnExisting,
    ) -> io::Result<Publication>;

    /// Creates the hard link `name` here, in one step, to the entry `of` in `from`, a directory of
    /// the same tree. Fails if that is not the object `id`, where objects have IDs.
    fn make_hard_link(
        &self,
        _from: &dyn TreeDir,
        _of: &Name,
        _id: Option<FileId>,
        _name: &Name,
        _on_existing: OnExisting,
    ) -> io::Result<Publication> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Starts a file that will be published in this directory.
    fn stage(&self) -> io::Result<Box<dyn StagedFile>>;

    /// Removes `name`, which must not be a directory.
    fn remove_file(&self, name: &Name) -> io::Result<()>;

    /// Removes the directory `name`, which must be empty.
    fn remove_dir(&self, name: &Name) -> io::Result<()>;

    /// Sets those of `attributes` in `which` that differ on the regular file `name`, through a
    /// handle. Fails if the file is not the object `id`, where objects have IDs.
    fn set_file_attributes(
        &self,
        name: &Name,
        id: Option<FileId>,
        attributes: &Attributes,
        which: Kept,
    ) -> io::Result<()>;

    /// Sets those of `attributes` in `which` on this directory. Attributes that are known to match
    /// are not set. Returns the pending operation if it takes long.
    fn set_attributes(
        &self,
        attributes: &Attributes,
        which: Kept,
    ) -> io::Result<Option<PendingOperation>>;

    /// Makes content and metadata of the regular file `name` durable. Without a name, does so for
    /// this directory's names and metadata.
    fn sync(&self, name: Option<&Name>) -> io::Result<()>;

    // The behaviour and the optional features of its storage.

    /// The capabilities of its tree.
    fn capabilities(&self) -> Capabilities {
        Capabilities::local(false)
    }

    /// True if an entry has exactly this name now, as the directory spells it. For trees without
    /// object IDs.
    fn has_spelling(&self, _name: &Name) -> io::Result<bool> {
        Ok(true)
    }

    /// The time that a file gets here when it is set to `time`. Tested with a temporary file if the
    /// storage does not report it.
    ///
    /// # Errors
    /// Errors of creating the file and setting its time.
    fn stored_time(&self, _time: Timestamp) -> io::Result<Timestamp> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Reads `name` to its end, following a link, into a file in this machine's directory `into`,
    /// while `should_continue` returns true. [`TreeDir::open_file`] opens that file from now on.
    /// Returns its metadata.
    fn spool(&self, _name: &Name, _into: &Path, _goes_on: &dyn Fn() -> bool) -> io::Result<Meta> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The free space on its file system, if known.
    fn free_space(&self) -> Option<FreeSpace> {
        haul_sys::free_space(&**self.held()?)
    }

    // Files that incomplete jobs have left in the directory, to continue or to remove.

    /// The partial file that an earlier copy to `name` seems to have left, for a copy of `source`.
    fn earlier(&self, name: &Name, source: &SourceId) -> Earlier;

    /// Creates or continues a file that a later job can continue. Returns the hashes of the blocks
    /// that it has already.
    fn resume(
        &self,
        name: &Name,
        source: &SourceId,
    ) -> io::Result<(Box<dyn StagedFile>, Vec<BlockHash>)>;

    /// Removes the partial file of an earlier copy of `source` to `name`. Returns whether there was
    /// one.
    fn remove_leftovers(&self, name: &Name, source: &SourceId) -> bool;

    /// Removes partial files of copies to `name`, of any source, that no process uses. Called when
    /// `name` was published. `seen` caches the partial files found in this directory.
    fn remove_stale(&self, _name: &Name, _seen: &OnceLock<StaleStages>) {}

    // Records of the job that has made the directory as a new name.

    /// True if this directory is recorded as made by a job of `origin`.
    fn has_origin(&self, origin: &[u8; 16]) -> bool;

    /// A text that identifies this directory, or its new subdirectory `name`, among all directories
    /// here and elsewhere. The record of the job refers to it. `None` if the directory itself keeps
    /// the record for good.
    fn origin_key(&self, name: Option<&Name>) -> Option<Vec<u8>>;
}

/// The part of a file that a later job continues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResumablePart {
    /// Its recorded length, in bytes.
    pub len: u64,
    /// Its path on its machine.
    pub path: Vec<u8>,
}

//! The contract of a tree and of its directories: a core of operations that every kind
//! has, and what is asked of a kind besides, each with an answer that holds for one that
//! knows nothing of it. Nobody has to know which kind a tree is of.

use crate::{Downloads, Meta, SmallFiles, SourceFile, StagedFile, TreeEntry, Uploads};
use haul_model::{Attributes, BlockHash, Extended, FileId, Kept, Name, Special, Timestamp};
use haul_store::{Cleaned, Earlier, Lot, OnExisting, Publication, Row, SourceId, StaleStages};
use haul_sys::{Dir, Room};
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The mode of a directory that only its owner can enter, and the least that one has in
/// which something is made.
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

    /// The same for a directory in which names are looked for and nothing is listed: it need
    /// not be one that may be read.
    fn open_to_enter(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>> {
        self.open(path)
    }

    /// The path of the directory `path` from the root of its file system on, as words tell
    /// it: links in it need not be followed.
    ///
    /// # Errors
    /// Those of the system, or of the server, that is asked.
    fn whole_path(&self, path: &[u8]) -> io::Result<Vec<u8>>;

    /// The capabilities of the tree.
    fn capabilities(&self) -> Capabilities {
        Capabilities::local(false)
    }

    /// Takes small files there through the lane of this number, once that is open;
    /// `None` if it won't be.
    fn uploads(&self, _lane: usize) -> Option<Box<dyn Uploads + '_>> {
        None
    }

    /// Brings small files from there, as [`Self::uploads`].
    fn downloads(&self, _lane: usize) -> Option<Box<dyn Downloads + '_>> {
        None
    }
}

/// The capabilities of a tree, which are the same for all of its directories.
#[derive(Debug, Clone, Copy)]
pub struct Capabilities {
    /// Each operation takes a round trip to another machine.
    pub costs_round_trips: bool,
    /// Ways there that the content of one file can take at the same time.
    pub lanes: usize,
    /// Ways to the storage that small files take at the same time; 0 where they need none.
    pub small_lanes: usize,
    /// It reads directories before they are needed by itself.
    pub lists_ahead: bool,
    /// It keeps times in whole seconds, whatever it is told; see [`crate::in_whole_seconds`].
    pub keeps_whole_seconds: bool,
    /// [`Meta::id`] tells objects, and not paths, by which another object in the same place has
    /// the same number.
    pub tells_objects: bool,
    /// [`TreeDir::stage_sharing`] can be of use.
    pub shares_content: bool,
    /// All attributes can be given in it that root can give elsewhere.
    pub acts_as_root: bool,
    /// The mark of the job that made a directory shows in it until [`Origin::forget_origin`].
    pub shows_origin: bool,
}

impl Capabilities {
    /// Those of the file systems of this machine; with `fakes` attributes that only root can
    /// give are written down.
    pub(crate) fn local(fakes: bool) -> Self {
        Self {
            costs_round_trips: false,
            lanes: 1,
            small_lanes: 0,
            lists_ahead: false,
            keeps_whole_seconds: false,
            tells_objects: true,
            shares_content: true,
            acts_as_root: fakes || haul_sys::is_root(),
            shows_origin: false,
        }
    }

    /// Those of an SFTP server with so many sessions.
    pub(crate) fn sftp(sessions: usize) -> Self {
        Self {
            costs_round_trips: true,
            lanes: sessions,
            small_lanes: sessions,
            lists_ahead: true,
            keeps_whole_seconds: true,
            tells_objects: false,
            shares_content: false,
            acts_as_root: haul_sys::is_root(),
            shows_origin: true,
        }
    }
}

/// Waits for something that is under way, and tells what came of it.
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
pub trait TreeDir: Storage + Unfinished + Origin {
    /// All entries but `.` and `..`, in ascending order of their bytes.
    fn entries(&self) -> io::Result<Vec<TreeEntry>>;

    /// The entry `name`; `None` if nothing has that name.
    fn stat(&self, name: &Name, follow: bool) -> io::Result<Option<Meta>>;

    /// This directory itself.
    fn stat_self(&self) -> io::Result<Meta>;

    /// Where the symbolic link `name` points.
    fn read_link(&self, name: &Name) -> io::Result<Vec<u8>>;

    /// Opens a directory in this one.
    fn open_dir(&self, name: &Name, follow: bool) -> io::Result<Arc<dyn TreeDir>>;

    /// Opens a regular file in this directory for reading.
    fn open_file(&self, name: &Name, follow: bool) -> io::Result<Box<dyn SourceFile>>;

    /// Opens the regular file to which the link `name` leads, if all links on the way belong to
    /// root or to the user of this process. A tree that can't tell follows none.
    fn open_led(&self, _name: &Name) -> io::Result<Box<dyn SourceFile>> {
        Err(io::Error::other("it is a link"))
    }

    /// Makes a directory with `mode`, of which the system may take bits away. It may
    /// still be on its way then; see [`Storage::making`].
    fn make_dir(&self, name: &Name, mode: u32) -> io::Result<()>;

    /// True if a symbolic link to `target` in this directory would lead to the entry `name`.
    fn leads_to(&self, target: &[u8], name: &Name) -> bool;

    /// Makes a symbolic link in one step, with those of `attributes` that are `kept` and
    /// that links have here. It replaces nothing to which it would lead.
    fn make_symlink(
        &self,
        target: &[u8],
        name: &Name,
        attributes: &Attributes,
        kept: Kept,
        on_existing: OnExisting,
    ) -> io::Result<Publication>;

    /// Makes a FIFO, socket or device in one step, with those of `attributes` that are
    /// `kept`.
    fn make_special(
        &self,
        _special: Special,
        _name: &Name,
        _attributes: &Attributes,
        _kept: Kept,
        _on_existing: OnExisting,
    ) -> io::Result<Publication> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Gives what is called `of` in `from`, a directory of the same tree, the further name
    /// `name` here in one step, if it is the object `id`, where objects can be told.
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

    /// Begins a file that is to be published in this directory.
    fn stage(&self) -> io::Result<Box<dyn StagedFile>>;

    /// The same for one that shares the whole content of `source` where the storage can do
    /// that; tells if it does, and else is empty. See [`Capabilities::shares_content`].
    fn stage_sharing(&self, _source: &dyn SourceFile) -> io::Result<(Box<dyn StagedFile>, bool)> {
        Ok((self.stage()?, false))
    }

    /// Begins a file in `at`, a directory of this machine, that is to be published in this
    /// one.
    fn stage_at(&self, _at: &Dir) -> io::Result<Box<dyn StagedFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Gives a file that waits in that row of `lot` its name in this directory.
    fn publish_waiting(
        &self,
        _lot: &Lot,
        _row: Row,
        _name: &Name,
        _on_existing: OnExisting,
    ) -> io::Result<Publication> {
        Err(io::ErrorKind::Unsupported.into())
    }

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

    /// Gives the regular file `name` those of `attributes` that are in `which` and that
    /// it has not, through a handle of it, if it is still the object `id`, where objects can be told.
    fn set_file_attributes(
        &self,
        name: &Name,
        id: Option<FileId>,
        attributes: &Attributes,
        which: Kept,
    ) -> io::Result<()>;

    /// Gives this directory itself those of `attributes` that are in `which`, or begins
    /// to where that takes long. Nothing is set that is known to be so already.
    fn set_attributes(
        &self,
        attributes: &Attributes,
        which: Kept,
    ) -> io::Result<Option<Outstanding>>;

    /// Makes sure that entries can be made in this directory, if its owner is
    /// the one who asks.
    fn make_writable(&self) -> io::Result<()>;

    /// Makes content and metadata of the regular file `name` durable; without a name,
    /// the names in this directory and its own metadata.
    fn sync(&self, name: Option<&Name>) -> io::Result<()>;
}

/// How the storage of a directory behaves, and what it tells and can do besides.
pub trait Storage: Send + Sync {
    /// The path of `name` at the machine that the tree is on, where it has nothing but paths.
    fn path_there(&self, _name: &Name) -> Option<Vec<u8>> {
        None
    }

    /// Those of its tree.
    fn capabilities(&self) -> Capabilities {
        Capabilities::local(false)
    }

    /// Its small files, where they are better put and fetched together.
    fn small_files(&self) -> Option<&dyn SmallFiles> {
        None
    }

    /// Many names in it are about to be looked at, most of which it does not have:
    /// where each look takes a round trip, all of it is listed first.
    fn expect_looks(&self) {}

    /// Waits until the directory is there, if it is still being made; then tells why it
    /// could not be.
    fn making(&self) -> Option<Outstanding> {
        None
    }

    /// True if what is lost with this handle is learned again by opening the
    /// directory once more.
    fn can_be_opened_again(&self) -> bool {
        true
    }

    /// True if it has removed leftovers of killed jobs on its own, which has changed its
    /// times.
    fn was_tidied(&self) -> bool {
        false
    }

    /// True if no two names in this directory are one to its storage, as far as
    /// that is known. Where objects can't be told it doesn't matter.
    fn tells_names_apart(&self) -> bool {
        true
    }

    /// True if an entry is found by this name now, however the directory spells it. For where
    /// objects can't be told.
    fn has(&self, _name: &Name) -> io::Result<bool> {
        Ok(true)
    }

    /// True if an entry has this very name, as the directory spells it now. For where
    /// objects can't be told.
    fn spells(&self, _name: &Name) -> io::Result<bool> {
        Ok(true)
    }

    /// True if its file system is one of those on which an object keeps its number, and
    /// what is made shows at once by whatever way it is looked for.
    fn is_known(&self) -> bool {
        false
    }

    /// False if the content of a file may have to be written in its order.
    fn takes_any_order(&self) -> bool {
        true
    }

    /// True if [`Self::sync_all`] works here.
    fn syncs_as_a_whole(&self) -> bool {
        false
    }

    /// Makes everything durable that was written to this file system.
    fn sync_all(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A number for the file system that this directory is on, which lasts; 0 if
    /// there is none.
    fn volume(&self) -> u64 {
        0
    }

    /// The time that a file has here after it was given `time`, found with a private file
    /// where the storage does not state it.
    ///
    /// # Errors
    /// Those of making the file and setting its time.
    fn kept_time(&self, _time: Timestamp) -> io::Result<Timestamp> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// True if the file system that this directory is on keeps the time of every
    /// change of a file in [`Meta::ctime`], and not its modification time again,
    /// for one, as some do.
    fn keeps_ctime(&self, _of: &Meta) -> bool {
        false
    }

    /// True if the regular file `name`, of which `meta` was found, has holes where
    /// a cut of the power, or a failure to write, has kept content from its medium. A
    /// file that was made with holes looks the same: who asks knows that this one was
    /// not. A small file of which nothing tells that it may be so is only opened if
    /// `each` says so.
    fn lacks_content(&self, _name: &Name, _meta: &Meta, _each: bool) -> io::Result<bool> {
        Ok(false)
    }

    /// The attributes that it can keep.
    fn keeps(&self) -> Kept {
        Kept::OF_COPIES
    }

    /// The extended attributes and access control lists of a file of this name, a link
    /// followed if that says so, or of the directory itself, as far as they are in `which`.
    ///
    /// # Errors
    /// Also where there are more than fit into a listing.
    fn extended(
        &self,
        _name: Option<(&Name, bool)>,
        _which: Kept,
    ) -> io::Result<Option<Box<Extended>>> {
        Ok(None)
    }

    /// Has the system forget what it has in memory of the regular file `name`, so that
    /// reading it tells what its medium holds. What is still to be written stays, and so
    /// does what a program has mapped. Nothing happens where that can't be asked for.
    fn forget_cached(&self, _name: &Name) -> io::Result<()> {
        Ok(())
    }

    /// The names of the extended attributes of `name`, or of the directory itself, where
    /// they are told.
    fn attribute_names(&self, _name: Option<&Name>) -> io::Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    /// True if the symbolic link `name` stands for an open file of a process: where it says
    /// that it leads means nothing to anybody else.
    fn leads_to_descriptor(&self, _name: &Name) -> bool {
        false
    }

    /// Reads what is behind `name` to its end, a link followed, into a file of this
    /// machine's directory `into`, while it `goes_on`. From then on that file is what
    /// [`TreeDir::open_file`] opens, and what is told of it is returned.
    fn spool(&self, _name: &Name, _into: &Path, _goes_on: &dyn Fn() -> bool) -> io::Result<Meta> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A handle by which the system can confine a thread to what is below, and lead above.
    ///
    /// # Errors
    /// Also where the system of this machine has none.
    fn system_handle(&self) -> io::Result<Dir> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The room on its file system, where that is known.
    fn room(&self) -> Option<Room> {
        haul_sys::room(&self.system_handle().ok()?)
    }

    /// True if this is the directory `near` of this machine, seen another way: where
    /// objects can't be told, something is made in one and looked for in the other.
    fn is_also(&self, _near: &Dir) -> io::Result<bool> {
        Ok(false)
    }
}

/// The part of a file with which a later job goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptPart {
    /// Its length as far as it is on record, in bytes.
    pub len: u64,
    /// Its path, as it is known where it is.
    pub path: Vec<u8>,
}

/// Files that jobs which ended early have left in a directory, to be continued or removed.
pub trait Unfinished {
    /// The part that an earlier copy to `name` has left, by all appearance, where
    /// `source` is to be copied.
    fn earlier(&self, name: &Name, source: &SourceId) -> Earlier;

    /// Begins, or continues, a file that a later job can continue; gives the
    /// hashes of the blocks that are there already.
    fn resume(
        &self,
        name: &Name,
        source: &SourceId,
    ) -> io::Result<(Box<dyn StagedFile>, Vec<BlockHash>)>;

    /// The part of `name` that is kept of a copy of `source` that has ended early, where
    /// more is known of it than what was written.
    fn kept(&self, _name: &Name, _source: &SourceId) -> Option<KeptPart> {
        None
    }

    /// Removes the part that an earlier copy of `source` to `name` has left; true if
    /// something was there.
    fn remove_leftovers(&self, name: &Name, source: &SourceId) -> bool;

    /// Removes parts that copies of any source to `name` have left, and nobody works
    /// on; called when `name` was published. `seen` keeps what was found in this
    /// directory when it was first asked.
    fn remove_stale(&self, _name: &Name, _seen: &OnceLock<StaleStages>) {}

    /// Begins a directory in this one for files that wait for the end of their job.
    fn begin_lot(&self) -> io::Result<Lot> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Takes over such a directory in this one that was left by a job that was killed, or
    /// lost its connection. If there is one, `open_up` is called first, to make this one
    /// writable.
    fn take_over_lot(&self, _open_up: &dyn Fn()) -> Option<Lot> {
        None
    }

    /// The directory of files that an earlier job has left in that row of `lot`, if there are
    /// any.
    fn row_before(&self, _lot: &Lot, _row: Row) -> io::Result<Option<Arc<dyn TreeDir>>> {
        Ok(None)
    }

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
}

/// How it is known again which job has made a directory under a new name.
pub trait Origin {
    /// Makes the directory `name` for a job of `origin`, in such a way, where that can
    /// be done, that it is not seen under its name before it has that in mind; elsewhere
    /// [`Self::remember_origin`] sees to it.
    fn make_dir_of(&self, name: &Name, mode: u32, origin: &[u8; 16]) -> io::Result<()>;

    /// Keeps in mind that a job of `origin` has made this directory, as far as that can
    /// be done and making it has not done so.
    fn remember_origin(&self, _origin: &[u8; 16]) {}

    /// True if a job of `origin` has made this directory and it was kept in mind.
    fn is_of_origin(&self, origin: &[u8; 16]) -> bool;

    /// A text that tells this directory, or the one that is made as `name` in it, from all
    /// others, here and elsewhere: the record of the job that made it goes by that. `None`
    /// if the directory remembers the job by itself, for good.
    fn place_on_record(&self, name: Option<&Name>) -> Option<Vec<u8>>;

    /// That job is done, and what shows in the directory to keep it in mind goes.
    fn forget_origin(&self, _origin: &[u8; 16]) {}
}

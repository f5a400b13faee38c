//! A file tree that a role works on, behind one trait for every kind of
//! storage.

mod faults;
mod local;
mod room;
pub(crate) mod sftp;
mod spool;

pub(crate) use faults::{changed, check_size, check_unchanged};
pub(crate) use local::{KEPT_MODE, LocalDir, LocalTree};
pub(crate) use room::{Spare, add_spare};

use haul_model::{BlockHash, FileId, Granularity, Kind, Name, Timestamp};
use haul_sftp::Chunk;
use haul_store::{Cleaned, Earlier, Placement, Publication, SourceId, StaleStages, Verified};
use haul_sys::{Dir, Loss};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// What a directory is made with, until its own mode is set: only its owner can
/// enter.
pub(crate) const PRIVATE_DIR_MODE: u32 = 0o700;

/// A kind of storage: it opens the directories that users name.
pub(crate) trait Tree: Send + Sync {
    /// The directory at `path`; links on the way are followed, as the user means
    /// it.
    fn open(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>>;

    /// The same for a directory in which the first thing to be asked about will be
    /// `name`.
    fn open_around(&self, path: &[u8], name: &Name) -> io::Result<Arc<dyn TreeDir>> {
        let _ = name;
        self.open(path)
    }

    /// Whether it keeps times in whole seconds, whatever it is told.
    fn keeps_whole_seconds(&self) -> bool {
        false
    }
}

/// What waits for something that is under way, and tells what came of it.
pub(crate) type Outstanding = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// A directory of a tree, held open.
///
/// The contract that every kind of tree keeps:
/// - Each operation concerns this directory and one name in it. No symbolic
///   link is followed unless `follow` says so; only sources are ever followed.
/// - Calls may come from several threads at once, and may block.
/// - Errors are those of the storage, untranslated; nobody below retries.
/// - Nothing appears under a name before it is whole: content goes through
///   [`TreeDir::stage`], links are renamed into place.
pub(crate) trait TreeDir: Send + Sync {
    /// True if what is lost with this handle is learned again by opening the
    /// directory once more.
    fn can_be_opened_again(&self) -> bool {
        true
    }

    /// All entries but `.` and `..`, in ascending order of their bytes.
    fn entries(&self) -> io::Result<Vec<TreeEntry>>;

    /// What `name` is; `None` if nothing has that name.
    fn stat(&self, name: &Name, follow: bool) -> io::Result<Option<Meta>>;

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
    /// be done, that it is not seen under its name before it has that in mind.
    fn make_dir_of(&self, name: &Name, mode: u32, _origin: &[u8; 16]) -> io::Result<()> {
        self.make_dir(name, mode)
    }

    /// Keeps in mind that a job of `origin` has made this directory, as far as that can
    /// be done.
    fn remember_origin(&self, _origin: &[u8; 16]) {}

    /// Whether a job of `origin` has made this directory and it was kept in mind.
    fn is_of_origin(&self, _origin: &[u8; 16]) -> bool {
        false
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
    /// a cut of the power has kept content from its medium. A file that was made
    /// with holes looks the same: who asks knows that this one was not.
    fn lacks_content(&self, _name: &Name, _meta: &Meta) -> io::Result<bool> {
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

    /// Whether [`TreeDir::sync_all`] works here.
    fn syncs_as_a_whole(&self) -> bool;

    /// Makes everything durable that was written to this file system.
    fn sync_all(&self) -> io::Result<()>;
}

/// An entry of a directory that is listed, with what the listing tells of it.
#[derive(Debug)]
pub(crate) struct TreeEntry {
    pub(crate) name: Name,
    /// Whether it is a directory itself, and no link to one.
    pub(crate) is_dir: Option<bool>,
    /// All of it, where a listing tells so much; links are not followed.
    pub(crate) meta: Option<Meta>,
    /// Where it points, if it is a link and the listing tells that.
    pub(crate) target: Option<Vec<u8>>,
}

/// What an entry of a tree is, without its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    /// The kind; a link's target is read separately.
    pub(crate) kind: MetaKind,
    /// The low 12 bits of its mode.
    pub(crate) mode: u32,
    /// When its content last changed.
    pub(crate) mtime: Timestamp,
    /// When anything of it last changed, where that is known.
    pub(crate) ctime: Option<Timestamp>,
    /// The object itself, where the tree is on this machine.
    pub(crate) id: Option<FileId>,
    /// It is a file that takes less storage than its length, and so may have
    /// holes.
    pub(crate) is_thin: bool,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetaKind {
    /// A regular file of `size` bytes.
    File { size: u64 },
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// Something else.
    Special,
}

impl Meta {
    /// The entry's kind for a listing; `target` is what a link points to.
    pub(crate) fn listed_kind(
        &self,
        target: impl FnOnce() -> io::Result<Vec<u8>>,
    ) -> io::Result<Kind> {
        Ok(match self.kind {
            MetaKind::File { size } => Kind::File { size },
            MetaKind::Dir => Kind::Dir,
            MetaKind::Symlink => Kind::Symlink { target: target()?.into() },
            MetaKind::Special => Kind::Special,
        })
    }
}

/// Takes content that was read at an offset.
pub(crate) type TakePart<'t> = dyn FnMut(u64, &[u8]) -> io::Result<()> + 't;

/// A regular file open for reading.
pub(crate) trait SourceFile: Send + Sync {
    /// Its size and time when it was opened.
    fn seal(&self) -> Seal;

    /// When anything of it had last changed when it was opened, where its file
    /// system keeps that; see [`TreeDir::keeps_ctime`].
    fn ctime(&self) -> Option<Timestamp> {
        None
    }

    /// Fills `buf` from `offset` on; returns less only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads each of `parts`, and gives what comes of them to `take`, with its offset,
    /// in any order; less only where the file ends. All are asked for at the same time
    /// where asking takes long.
    fn read_parts(&self, parts: &[Range<u64>], take: &mut TakePart<'_>) -> io::Result<()> {
        for part in parts {
            let mut bytes = vec![0; (part.end - part.start) as usize];
            let len = self.read_at(&mut bytes, part.start)?;
            take(part.start, &bytes[..len])?;
        }
        Ok(())
    }

    /// Whether the file has content though its size is 0, as files of /proc
    /// have: how much can't be known before it is read.
    fn has_no_size(&self) -> io::Result<bool> {
        Ok(self.seal().size == 0 && self.read_at(&mut [0], 0)? > 0)
    }

    /// The next range at or after `from` that has data; what lies between is a
    /// hole. `None` if only a hole, or nothing, remains up to the sealed size.
    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>>;

    /// Whether it has holes, which a copy will have too.
    fn has_holes(&self) -> io::Result<bool> {
        let size = self.seal().size;
        Ok(size > 0 && self.next_data(0)? != Some(0..size))
    }

    /// Whether it has much less data than its length says: hashing its holes
    /// would take longer than copying what is between them.
    fn is_mostly_holes(&self) -> bool;

    /// Size and time as they are now, to see whether the file changed.
    fn seal_now(&self) -> io::Result<Seal>;

    /// Tells that nothing before `end`, in bytes, is needed any more: what was
    /// not in memory before it was read need not stay there.
    fn release(&self, end: u64);

    /// The file of this machine, if it is one.
    fn local(&self) -> Option<&File>;

    /// Its content from `range.start` on, up to `range.end` or the file's own
    /// end, in order and read ahead: for a tree that is far away. `None` where
    /// reading at offsets is as good.
    fn stream(&self, _range: Range<u64>) -> Option<Box<dyn ContentStream + '_>> {
        None
    }
}

/// Content that arrives in pieces, in order.
pub(crate) trait ContentStream {
    /// The next piece; `None` at the end.
    fn next(&mut self) -> io::Result<Option<Chunk>>;
}

/// What is compared to see whether a file changed while it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seal {
    /// Its length in bytes.
    pub(crate) size: u64,
    /// When its content last changed.
    pub(crate) mtime: Timestamp,
}

/// The side on which content could not be moved from one file into another.
#[derive(Debug)]
pub(crate) enum NotMoved {
    /// The source can't be read, or has become shorter
    /// ([`io::ErrorKind::UnexpectedEof`]).
    Read(io::Error),
    /// The stage can't be written.
    Written(io::Error),
}

/// A file that is being written and has no name of its own yet. Dropped before
/// it is published, it leaves nothing behind, unless it can be continued.
pub(crate) trait StagedFile: Send + Sync {
    /// Has what is written from now on go to the medium at once, where that can
    /// be asked for; see [`haul_store::Stage::write_out`].
    fn write_out(&mut self) {}

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Writes `range` of a file of this machine at the same place, without it
    /// passing through this process; `None` where that can't be done. Until the file
    /// is sealed its pages may still be on their way, and change with it: who calls
    /// this looks at the source again when that is done.
    fn write_from(&self, _source: &File, _range: Range<u64>) -> Option<Result<(), NotMoved>> {
        None
    }

    /// How many blocks can be on their way into it at the same time, where that is
    /// not for this machine to choose. With one it is written in order.
    fn lanes(&self) -> Option<usize> {
        None
    }

    /// Cuts or extends the file; what is added is a hole.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// The file of this machine, if it is one.
    fn local(&self) -> Option<&File>;

    /// How the file will look if the power is cut before its content is durable.
    fn loss(&self) -> Loss;

    /// Tells that the file is made durable before it gets its name, so that it can
    /// be when it was sealed.
    fn expect_sync(&mut self) {}

    /// Records the hash of the next block, which was written, where the file
    /// can be continued by a later job.
    fn record(&self, block: BlockHash) -> io::Result<()>;

    /// Whether nothing of it was lost on its way to the medium, as far as anybody
    /// was told. If something was, that is final.
    fn is_sound(&self) -> bool {
        true
    }

    /// Gives up the content: no later job continues it.
    fn discard(self: Box<Self>);

    /// Ends the writing of a content that is whole and right, and gives the
    /// file its mode and time.
    fn seal(
        self: Box<Self>,
        proof: Verified,
        mode: u32,
        mtime: Timestamp,
    ) -> io::Result<Box<dyn SealedFile>>;
}

/// A file that lacks only its name. Dropped before it is published, it leaves
/// nothing behind, unless it can be continued.
pub(crate) trait SealedFile: Send + Sync {
    /// Starts writing it to its medium, and does not wait.
    fn start_write_back(&self);

    /// Makes content and metadata durable. A failure is final.
    fn sync(&self) -> io::Result<()>;

    /// Prepares for reading it back from its medium: what is durable is read
    /// from there from now on, and not from memory.
    fn forget_cached(&self);

    /// Fills `buf` from `offset` on; returns less only at the end of the file.
    /// All three are aligned to [`haul_sys::DIRECT_ALIGN`].
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// As [`SourceFile::stream`].
    fn stream(&self, _range: Range<u64>) -> Option<Box<dyn ContentStream + '_>> {
        None
    }

    /// Gives up the content: no later job continues it.
    fn discard(self: Box<Self>);

    /// Which object it is, where that can be told.
    fn id(&self) -> io::Result<Option<FileId>> {
        Ok(None)
    }

    /// Gives the file its name; see [`Publication::Kept`] for when it can be asked
    /// again.
    fn publish(&mut self, name: &Name, placement: Placement) -> io::Result<Publication>;
}

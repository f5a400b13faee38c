//! The contract of files: sources that are read, and stages that are written, sealed,
//! and published.

use crate::faults::changed;
use crate::shared::SharedBlock;
use haul_model::{Attributes, BlockHash, Fault, FileId, Kept, Name, Side, Timestamp};
use haul_sftp::Chunk;
use haul_store::{Lot, OnExisting, Proof, Publication, Row, Staged};
use haul_sys::Loss;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Bytes before the end of what is released that may still have been in use when
/// something before was.
const RELEASED_LEN: u64 = 16 << 20;

/// Takes content that was read at an offset.
pub type TakePart<'t> = dyn FnMut(u64, &[u8]) -> io::Result<()> + 't;

/// A regular file open for reading.
pub trait SourceFile: Send + Sync {
    /// Its size and time when it was opened.
    fn seal(&self) -> Seal;

    /// When anything of it had last changed when it was opened, where its file
    /// system keeps that; see [`crate::Storage::keeps_ctime`].
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

    /// Block `index` of its content, up to the size that it was opened with, and its hash:
    /// read once for all jobs that read it at about this time. `None` where it is better
    /// read for this job alone.
    fn shared_block(&self, _index: u64) -> Option<io::Result<Arc<SharedBlock>>> {
        None
    }

    /// True if the file has content though its size is 0, as files of /proc
    /// have: how much can't be known before it is read.
    fn has_no_size(&self) -> io::Result<bool> {
        Ok(self.seal().size == 0 && self.read_at(&mut [0], 0)? > 0)
    }

    /// The next range at or after `from` that has data; what lies between is a
    /// hole. `None` if only a hole, or nothing, remains up to the sealed size.
    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>>;

    /// True if it has holes, which a copy will have too.
    fn has_holes(&self) -> io::Result<bool> {
        let size = self.seal().size;
        Ok(size > 0 && self.next_data(0)? != Some(0..size))
    }

    /// True if it has much less data than its length says: hashing its holes
    /// would take longer than copying what is between them.
    fn is_mostly_holes(&self) -> bool;

    /// Size and time as they are now, to see whether the file changed.
    fn seal_now(&self) -> io::Result<Seal>;

    /// True if it can have changed since it was opened though size and time are the same.
    fn may_hide_changes(&self) -> bool {
        false
    }

    /// Tells that nothing in `range`, in bytes, is needed any more: what was not in memory
    /// before it was read need not stay there.
    fn release(&self, range: Range<u64>);

    /// The same of all before `end`, as far as it was not released with something before.
    fn release_up_to(&self, end: u64) {
        self.release(end.saturating_sub(RELEASED_LEN)..end);
    }

    /// The open file by which the system can move its content, share it, or make it
    /// durable, where there is one.
    fn handle(&self) -> Option<&File> {
        None
    }

    /// True if each reading takes a round trip to another machine.
    fn costs_round_trips(&self) -> bool {
        false
    }

    /// Its content from `range.start` on, up to `range.end` or the file's own
    /// end, in order and read ahead: for a tree that is far away. `None` where
    /// reading at offsets is as good.
    fn stream(&self, _range: Range<u64>) -> Option<Box<dyn ContentStream + '_>> {
        None
    }
}

/// Content that arrives in pieces, in order.
pub trait ContentStream {
    /// The next piece; `None` at the end.
    fn next(&mut self) -> io::Result<Option<Chunk>>;
}

/// The metadata by which a change of a file while it is read is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// Its length in bytes.
    pub size: u64,
    /// When its content last changed.
    pub mtime: Timestamp,
}

/// The side on which content could not be moved from one file into another.
#[derive(Debug)]
pub enum NotMoved {
    /// The source can't be read, or has become shorter
    /// ([`io::ErrorKind::UnexpectedEof`]).
    Read(io::Error),
    /// The stage can't be written.
    Written(io::Error),
}

impl From<NotMoved> for Fault {
    fn from(error: NotMoved) -> Self {
        match error {
            NotMoved::Read(error) if error.kind() == io::ErrorKind::UnexpectedEof => changed(),
            NotMoved::Read(error) => Self::from_io(Side::Source, "read", &error),
            NotMoved::Written(error) => Self::from_io(Side::Destination, "write", &error),
        }
    }
}

/// A file that is being written and has no name of its own yet. Dropped before
/// it is published, it leaves nothing behind, unless it can be continued.
pub trait StagedFile: Send + Sync {
    /// Has what is written from now on go to the medium at once, where that can
    /// be asked for; see [`haul_store::Stage::write_out`].
    fn write_out(&mut self) {}

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Writes `range` of a file of this machine at the same place, without it
    /// passing through this process; `None` where that can't be done. See
    /// [`Self::takes_pages`].
    fn write_from(&self, _source: &File, _range: Range<u64>) -> Option<Result<(), NotMoved>> {
        None
    }

    /// True if [`Self::write_from`] has pages of the source on their way until the file is
    /// sealed, which change with it: who calls that looks at the source again then.
    fn takes_pages(&self) -> bool {
        false
    }

    /// How many blocks can be on their way into it at the same time, where that is
    /// not for this machine to choose. With one it is written in order.
    fn lanes(&self) -> Option<usize> {
        None
    }

    /// Cuts or extends the file; what is added is a hole.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Has `range`, in bytes, be a hole, whatever is there; `false` where it has to be
    /// written over.
    fn clear(&self, _range: Range<u64>) -> bool {
        false
    }

    /// Has runs of zeros become holes from now on, where the storage has these.
    fn leave_zeros(&mut self) {}

    /// True if it does.
    fn leaves_zeros(&self) -> bool {
        false
    }

    /// Has it begin with what `source` has in `range`, in bytes, at the same place, without
    /// writing it, where the storage can do that; tells if it does. The range begins with a
    /// block, and ends with the source. See [`crate::Capabilities::shares_content`].
    fn begin_with(&self, _source: &dyn SourceFile, _range: Range<u64>) -> bool {
        false
    }

    /// Reserves room for so many bytes, where the file system does that; its length stays.
    ///
    /// # Errors
    /// When there is not so much room.
    fn reserve(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// The open file by which the system can move content into it, and by which it can be
    /// read before it is sealed, where there is one.
    fn handle(&self) -> Option<&File> {
        None
    }

    /// True if the system moves small contents, too, into [`Self::handle`] for less than
    /// reading and writing them takes.
    fn copies_small_files(&self) -> bool {
        false
    }

    /// The content that was written, to be read before it is sealed, where that takes no
    /// round trips.
    fn written(&self) -> io::Result<Option<Box<dyn SourceFile>>> {
        Ok(None)
    }

    /// How the file will look if the power is cut before its content is durable.
    fn loss(&self) -> Loss;

    /// Tells that the file is made durable before it gets its name, so that it can
    /// be when it was sealed.
    fn expect_sync(&self) {}

    /// Records the hash of the next block, which was written, where the file
    /// can be continued by a later job.
    fn record(&self, block: BlockHash) -> io::Result<()>;

    /// True if nothing of it was lost on its way to the medium, as far as anybody
    /// was told. If something was, that is final.
    fn is_sound(&self) -> bool {
        true
    }

    /// Gives up the content: no later job continues it.
    fn discard(self: Box<Self>);

    /// Ends the writing of a content that is whole and right, and gives the
    /// file those of its attributes that are `kept`.
    fn seal(
        self: Box<Self>,
        proof: Proof,
        attributes: &Attributes,
        kept: Kept,
    ) -> io::Result<Box<dyn SealedFile>>;
}

impl Staged for Box<dyn StagedFile> {
    type Sealed = Box<dyn SealedFile>;

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        (**self).write_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        (**self).set_len(len)
    }

    fn clear(&self, range: Range<u64>) -> bool {
        (**self).clear(range)
    }

    fn leaves_zeros(&self) -> bool {
        (**self).leaves_zeros()
    }

    fn record(&self, block: BlockHash) -> io::Result<()> {
        (**self).record(block)
    }

    fn handle(&self) -> Option<&File> {
        (**self).handle()
    }

    fn seal(self, proof: Proof, attributes: &Attributes, kept: Kept) -> io::Result<Self::Sealed> {
        StagedFile::seal(self, proof, attributes, kept)
    }
}

/// A file that lacks only its name. Dropped before it is published, it leaves
/// nothing behind, unless it can be continued.
pub trait SealedFile: Send + Sync {
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

    /// Writes the content into the file `name` of the same directory, which is the object
    /// `id`; see [`haul_store::Sealed::write_into`].
    fn write_into(&self, _name: &Name, _id: FileId) -> io::Result<Timestamp> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Has the file wait in that row of `lot` under its name; see
    /// [`haul_store::Sealed::wait`].
    fn wait(&mut self, _lot: &Lot, _row: Row, _name: &Name) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Gives the file its name; see [`Publication::Kept`] for when it can be asked
    /// again.
    fn publish(&mut self, name: &Name, on_existing: OnExisting) -> io::Result<Publication>;
}

//! The contract of files: sources that are read, and staged files that are written, sealed, and
//! published.

use crate::faults::changed;
use crate::shared::SharedBlock;
use haul_model::{Attributes, BlockHash, Fault, FileId, Kept, Name, Side, Timestamp};
use haul_sftp::Chunk;
use haul_store::{DelayedBatch, OnExisting, Proof, Publication, Row, Staged};
use haul_sys::Loss;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Bytes before a released range that may have been in use when the range before was released.
const RELEASED_LEN: u64 = 16 << 20;

/// Receives content with its offset.
pub type TakePart<'t> = dyn FnMut(u64, &[u8]) -> io::Result<()> + 't;

/// A regular file, open for reading.
pub trait SourceFile: Send + Sync {
    /// Its size and modification time when it was opened.
    fn seal(&self) -> Seal;

    /// The time of its last change of any kind when it was opened, if its file system keeps that;
    /// see [`crate::TreeDir::keeps_ctime`].
    fn ctime(&self) -> Option<Timestamp> {
        None
    }

    /// Fills `buf` from `offset` on. Returns less only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads each of `parts` and passes the content to `take` with its offset, in any order. Less
    /// arrives only at the end of the file. If requests take long, all are sent at the same time.
    fn read_parts(&self, parts: &[Range<u64>], take: &mut TakePart<'_>) -> io::Result<()> {
        for part in parts {
            let mut bytes = vec![0; (part.end - part.start) as usize];
            let len = self.read_at(&mut bytes, part.start)?;
            take(part.start, &bytes[..len])?;
        }
        Ok(())
    }

    /// Block `index` of its content, within the size at opening, and its hash. The block is read
    /// once for all jobs that read it at about the same time. `None` if this job should read it
    /// alone.
    fn shared_block(&self, _index: u64) -> Option<io::Result<Arc<SharedBlock>>> {
        None
    }

    /// True if the file has content although its size is 0, as in /proc. Its length is unknown
    /// before reading.
    fn has_unknown_size(&self) -> io::Result<bool> {
        Ok(self.seal().size == 0 && self.read_at(&mut [0], 0)? > 0)
    }

    /// The next range with data at or after `from`. The gap before it is a hole. `None` if only a
    /// hole, or nothing, is left up to the sealed size.
    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>>;

    /// True if it has holes. A copy of it will have holes, too.
    fn has_holes(&self) -> io::Result<bool> {
        let size = self.seal().size;
        Ok(size > 0 && self.next_data(0)? != Some(0..size))
    }

    /// True if it has much less data than its length suggests, so that hashing its holes would take
    /// longer than copying its data.
    fn is_mostly_holes(&self) -> bool;

    /// Its current size and modification time, to detect a change.
    fn seal_now(&self) -> io::Result<Seal>;

    /// True if it may have changed since it was opened without a change of its size and time.
    fn may_hide_changes(&self) -> bool {
        false
    }

    /// Reports that `range`, in bytes, is not needed any more. Content that was not cached before
    /// need not stay cached.
    fn release(&self, range: Range<u64>);

    /// Releases all content before `end`, beyond earlier releases.
    fn release_up_to(&self, end: u64) {
        self.release(end.saturating_sub(RELEASED_LEN)..end);
    }

    /// The open file, if any, through which the system can move its content, share it, or make it
    /// durable.
    fn handle(&self) -> Option<&File> {
        None
    }

    /// True if each read takes a round trip to another machine.
    fn reads_slowly(&self) -> bool {
        false
    }

    /// Its content in `range`, or up to the end of the file, in order and read ahead. For a distant
    /// tree; `None` if reading at offsets is as fast.
    fn stream(&self, _range: Range<u64>) -> Option<Box<dyn ContentStream + '_>> {
        None
    }
}

/// Content that arrives in pieces, in order.
pub trait ContentStream {
    /// The next piece; `None` at the end.
    fn next(&mut self) -> io::Result<Option<Chunk>>;
}

/// The metadata that reveals a change of a file during reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// Its length in bytes.
    pub size: u64,
    /// The time when its content last changed.
    pub mtime: Timestamp,
}

/// The side that failed when content was moved from one file to another.
#[derive(Debug)]
pub enum MoveError {
    /// The source can't be read, or has shrunk ([`io::ErrorKind::UnexpectedEof`]).
    Read(io::Error),
    /// The staged file can't be written.
    Written(io::Error),
}

impl From<MoveError> for Fault {
    fn from(error: MoveError) -> Self {
        match error {
            MoveError::Read(error) if error.kind() == io::ErrorKind::UnexpectedEof => changed(),
            MoveError::Read(error) => Self::from_io(Side::Source, "read", &error),
            MoveError::Written(error) => Self::from_io(Side::Destination, "write", &error),
        }
    }
}

/// A file that is being written and has no final name yet. If it is dropped before it is published,
/// it is removed, unless it can be continued.
pub trait StagedFile: Send + Sync {
    /// Writes later content to the medium at once, where supported; see
    /// [`haul_store::Stage::write_out`].
    fn write_out(&mut self) {}

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Writes `range` of a file of this machine at the same offset, without passing it through this
    /// process. `None` if not supported. See [`Self::sends_live_pages`].
    fn write_from(&self, _source: &File, _range: Range<u64>) -> Option<Result<(), MoveError>> {
        None
    }

    /// True if [`Self::write_from`] sends pages of the source until the file is sealed. They change
    /// with the source, so the caller must check the source again then.
    fn sends_live_pages(&self) -> bool {
        false
    }

    /// How many blocks can be written at the same time, if the storage limits that. If it is 1,
    /// blocks are written in order.
    fn lanes(&self) -> Option<usize> {
        None
    }

    /// Truncates or extends the file. An extension is a hole.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes `range`, in bytes, a hole. Returns false if the range must be overwritten instead.
    fn punch_hole(&self, _range: Range<u64>) -> bool {
        false
    }

    /// Turns runs of zeros into holes from now on, if the storage has holes.
    fn write_sparse(&mut self) {}

    /// True if runs of zeros become holes.
    fn writes_sparse(&self) -> bool {
        false
    }

    /// Shares `range`, in bytes, of `source` at the same offset without writing it, if the storage
    /// can. Returns whether it did. The range starts with a block, and ends with the source. See
    /// [`crate::Capabilities::can_share_content`].
    fn begin_with(&self, _source: &dyn SourceFile, _range: Range<u64>) -> bool {
        false
    }

    /// Reserves space for `len` bytes, if the file system can. The length stays.
    ///
    /// # Errors
    /// When there is not enough space.
    fn reserve(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// The open file, if any. The system can move content into it, and it can be read before it is
    /// sealed.
    fn handle(&self) -> Option<&File> {
        None
    }

    /// True if moving small contents into [`Self::handle`] takes less time than reading and writing
    /// them.
    fn copies_small_files(&self) -> bool {
        false
    }

    /// The written content, for reading before it is sealed, if that takes no round trips.
    fn written(&self) -> io::Result<Option<Box<dyn SourceFile>>> {
        Ok(None)
    }

    /// How the file will look after a power cut before its content is durable.
    fn loss(&self) -> Loss;

    /// Announces that the file will be made durable before it is published, so it must stay open
    /// until then.
    fn expect_sync(&self) {}

    /// Records the hash of the next written block, if a later job can continue the file.
    fn record(&self, block: BlockHash) -> io::Result<()>;

    /// True if no loss on the way to the medium was reported. A loss is final.
    fn is_sound(&self) -> bool {
        true
    }

    /// Discards the content: no later job continues it.
    fn discard(self: Box<Self>);

    /// Finishes writing complete and verified content, and sets those of `attributes` in `kept`.
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

    fn punch_hole(&self, range: Range<u64>) -> bool {
        (**self).punch_hole(range)
    }

    fn writes_sparse(&self) -> bool {
        (**self).writes_sparse()
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

/// A complete file without its final name. If it is dropped before it is published, it is removed,
/// unless it can be continued.
pub trait SealedFile: Send + Sync {
    /// Starts writing it to the medium, without waiting.
    fn start_write_back(&self);

    /// Makes content and metadata durable. A failure is final.
    fn sync(&self) -> io::Result<()>;

    /// Prepares for reading it back: durable content is read from the medium from now on, not from
    /// memory.
    fn forget_cached(&self);

    /// Fills `buf` from `offset` on. Returns less only at the end of the file. Buffer, length and
    /// offset are aligned to [`haul_sys::DIRECT_ALIGN`].
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Like [`SourceFile::stream`].
    fn stream(&self, _range: Range<u64>) -> Option<Box<dyn ContentStream + '_>> {
        None
    }

    /// Discards the content: no later job continues it.
    fn discard(self: Box<Self>);

    /// Its object ID, where objects have IDs.
    fn id(&self) -> io::Result<Option<FileId>> {
        Ok(None)
    }

    /// Writes the content into the file `name` of the same directory, which is the object `id`; see
    /// [`haul_store::Sealed::write_into`].
    fn write_into(&self, _name: &Name, _id: FileId) -> io::Result<Timestamp> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Moves the file to row `row` of `batch` under its final name, where it waits; see
    /// [`haul_store::Sealed::wait`].
    fn wait(&mut self, _batch: &DelayedBatch, _row: Row, _name: &Name) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Publishes the file as `name`. After [`Publication::Kept`] it can be called again.
    fn publish(&mut self, name: &Name, on_existing: OnExisting) -> io::Result<Publication>;
}

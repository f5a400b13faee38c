//! The contract of files that are written, of every kind of storage: staged files, which are sealed
//! and then published. The methods with defaults are optional.

use crate::stage::in_place;
use crate::{DelayedBatch, OnExisting, Proof, Publication, Row, Sealed, Stage};
use haul_model::{Attributes, BlockHash, Fault, FaultKind, FileId, Kept, Name, Side, Timestamp};
use haul_sys::Loss;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;

/// A file that is being written and has no final name yet. If it is dropped before it is published,
/// it is removed, unless it can be continued.
pub trait StagedFile: Send + Sync {
    /// The stage, if it is on this machine. See the methods of `dyn StagedFile`.
    fn local(&self) -> Option<&Stage> {
        None
    }

    /// Like [`Self::local`].
    fn local_mut(&mut self) -> Option<&mut Stage> {
        None
    }

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Writes `range` of a file of this machine at the same offset, without passing it through this
    /// process. `None` if not supported. See `sends_live_pages`.
    fn write_from(&self, _source: &File, _range: Range<u64>) -> Option<Result<(), MoveError>> {
        None
    }

    /// How many blocks can be written at the same time, if the storage limits that. If it is 1,
    /// blocks are written in order.
    fn lanes(&self) -> Option<usize> {
        None
    }

    /// Truncates or extends the file. An extension is a hole.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Announces that the file will be made durable before it is published, so it must stay open
    /// until then.
    fn expect_sync(&self) {}

    /// Records the hash of the next written block, if a later job can continue the file.
    ///
    /// # Errors
    /// Errors of writing the record, and of an earlier attempt to make the content durable.
    fn record(&self, block: BlockHash) -> io::Result<()>;

    /// Discards the content: no later job continues it.
    fn discard(self: Box<Self>);

    /// Finishes writing complete and verified content, and sets those of `attributes` in `kept`.
    ///
    /// # Errors
    /// Errors of the system or the server, also of earlier writes that are reported only now.
    fn seal(
        self: Box<Self>,
        proof: Proof,
        attributes: &Attributes,
        kept: Kept,
    ) -> io::Result<Box<dyn SealedFile>>;
}

/// Operations on a stage of this machine. Each says what holds for others.
impl<'f> dyn StagedFile + 'f {
    /// The open file, if any. The system can move content into it, and it can be read before it is
    /// sealed.
    pub fn handle(&self) -> Option<&File> {
        self.local().map(Stage::file)
    }

    /// Sends later writes to the medium at once and drops them from the page cache, for a large
    /// file that is flushed in the end, where supported. This alone does not make them durable.
    pub fn write_out(&mut self) {
        self.local_mut().into_iter().for_each(|stage| stage.writes_out = true);
    }

    /// Turns runs of zeros into holes from now on, if the storage has holes.
    pub fn write_sparse(&mut self) {
        self.local_mut().into_iter().for_each(|stage| stage.writes_sparse = true);
    }

    /// True if runs of zeros become holes.
    pub fn writes_sparse(&self) -> bool {
        self.local().is_some_and(|stage| stage.writes_sparse)
    }

    /// True if moving small contents into `handle` takes less time than reading and writing
    /// them.
    pub fn copies_small_files(&self) -> bool {
        self.local().is_some_and(|stage| stage.dir.copies_small_files())
    }

    /// True if no loss on the way to the medium was reported. A loss is final.
    pub fn is_sound(&self) -> bool {
        self.local().is_none_or(Stage::is_sound)
    }

    /// True if [`StagedFile::write_from`] sends pages of the source until the file is sealed. They
    /// change with the source, so the caller must check the source again then.
    pub fn sends_live_pages(&self) -> bool {
        self.local().is_none()
    }

    /// Makes `range`, in bytes, a hole. Returns false if the range must be overwritten instead.
    pub fn punch_hole(&self, range: Range<u64>) -> bool {
        self.handle().is_some_and(|file| haul_sys::punch_hole(file, range))
    }

    /// Shares `range`, in bytes, of `source` at the same offset without writing it, if the storage
    /// can. Returns whether it did. The range starts with a block, and ends with the source.
    pub fn begin_with(&self, source: &File, range: Range<u64>) -> bool {
        self.handle().is_some_and(|file| haul_sys::clone_range(source, file, range))
    }

    /// Reserves space for `len` bytes, if the file system can. The length stays.
    ///
    /// # Errors
    /// When there is not enough space.
    pub fn reserve(&self, len: u64) -> io::Result<()> {
        self.handle().map_or(Ok(()), |file| haul_sys::reserve(file, len))
    }

    /// How the file will look after a power cut before its content is durable.
    pub fn loss(&self) -> Loss {
        self.handle().map_or(Loss::Unknown, Loss::of)
    }
}

impl fmt::Debug for dyn StagedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagedFile").finish_non_exhaustive()
    }
}

/// A complete file without its final name. If it is dropped before it is published, it is removed,
/// unless it can be continued.
pub trait SealedFile: Send + Sync {
    /// The file, if it is on this machine. See the methods of `dyn SealedFile`.
    fn local(&self) -> Option<&Sealed> {
        None
    }

    /// Like [`Self::local`].
    fn local_mut(&mut self) -> Option<&mut Sealed> {
        None
    }

    /// Makes content and metadata durable. A failure is final.
    fn sync(&self) -> io::Result<()>;

    /// Reads `range` ahead, and passes the content to `take` in order until that returns false. For
    /// a distant storage; `None` if reading at offsets is as fast.
    fn stream(
        &self,
        _range: Range<u64>,
        _take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Option<io::Result<()>> {
        None
    }

    /// Discards the content: no later job continues it.
    fn discard(self: Box<Self>);

    /// Publishes the file as `name`. After [`Publication::Kept`] it can be called again.
    fn publish(&mut self, name: &Name, on_existing: OnExisting) -> io::Result<Publication>;
}

/// Operations on a file of this machine. Each says what holds for others.
impl<'f> dyn SealedFile + 'f {
    fn handle(&self) -> io::Result<&File> {
        self.local().map(|sealed| sealed.0.file()).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Fills `buf` from `offset` on. Returns less only at the end of the file. Buffer, length and
    /// offset are aligned to [`haul_sys::DIRECT_ALIGN`]. For a file that [`SealedFile::stream`]
    /// does not read.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        haul_sys::read_full(self.handle()?, buf, offset)
    }

    /// Writes the content into the file `name` of the same directory. It must be the object `id`,
    /// and keeps its other names. Returns the time of the staged file.
    ///
    /// # Errors
    /// Errors of writing; also if the file is not on this machine.
    pub fn write_into(&self, name: &Name, id: FileId) -> io::Result<Timestamp> {
        in_place::write_into(self.local().ok_or(io::ErrorKind::Unsupported)?, name, id)
    }

    /// Moves the file to row `row` of `batch` under its final name, where it waits.
    ///
    /// # Errors
    /// Errors of renaming; also if the file is not on this machine.
    pub fn wait(&mut self, batch: &DelayedBatch, row: Row, name: &Name) -> io::Result<()> {
        batch.add(self.local_mut().ok_or(io::ErrorKind::Unsupported)?, row, name)
    }

    /// Starts writing it to the medium, without waiting.
    pub fn start_write_back(&self) {
        if let Ok(file) = self.handle() {
            haul_sys::start_write_back(file);
        }
    }

    /// Prepares for reading it back: durable content is read from the medium from now on, not from
    /// memory. Only a server decides whether it reads from memory.
    pub fn forget_cached(&self) {
        if let Ok(file) = self.handle() {
            haul_sys::drop_cached(file, 0..0);
            haul_sys::read_directly(file);
        }
    }

    /// Its object ID, where objects have IDs.
    ///
    /// # Errors
    /// Errors of `fstat`.
    pub fn id(&self) -> io::Result<Option<FileId>> {
        let sealed = self.local();
        sealed.map(|sealed| Ok(haul_sys::file_stat(sealed.0.file())?.id)).transpose()
    }
}

impl fmt::Debug for dyn SealedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedFile").finish_non_exhaustive()
    }
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

/// The fault of a source that changed during reading.
pub fn changed() -> Fault {
    Fault::new(Side::Source, FaultKind::Changed, "it changed while it was read: not copied")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mover;
    use haul_sys::Dir;
    use haul_testkit::Mount;
    use std::path::Path;
    use std::sync::Arc;

    /// A storage with no more than the contract requires.
    struct Plain;

    impl StagedFile for Plain {
        fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
            Ok(())
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }

        fn record(&self, _: BlockHash) -> io::Result<()> {
            Ok(())
        }

        fn discard(self: Box<Self>) {}

        fn seal(
            self: Box<Self>,
            _: Proof,
            _: &Attributes,
            _: Kept,
        ) -> io::Result<Box<dyn SealedFile>> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn stage(path: &Path) -> Box<dyn StagedFile> {
        let dir = Arc::new(Dir::open(path).expect("opened"));
        Box::new(Stage::create(dir).expect("a stage"))
    }

    #[test]
    fn a_storage_without_options_offers_none() {
        let mut plain: Box<dyn StagedFile> = Box::new(Plain);
        let source = tempfile::tempfile().expect("a file");
        plain.write_sparse();
        plain.write_out();
        assert!(plain.handle().is_none() && plain.lanes().is_none() && !plain.writes_sparse());
        assert!(plain.write_from(&source, 0..1).is_none() && !plain.begin_with(&source, 0..1));
        assert!(plain.sends_live_pages() && plain.is_sound() && !plain.punch_hole(0..1));
        plain.reserve(u64::MAX).expect("nothing to do");
    }

    #[test]
    fn a_stage_on_this_machine_keeps_its_content_however_it_is_written() {
        let temp = tempfile::tempdir().expect("a directory");
        for writes_out in [false, true] {
            let mut stage = stage(temp.path());
            if writes_out {
                stage.write_out();
            }
            assert_eq!(stage.local().expect("it is here").writes_out, writes_out);
            assert!(!stage.sends_live_pages() && stage.is_sound());
            let content = vec![7; 100_000];
            let mut mover = Mover::new(stage);
            mover.write(&content).expect("written");
            let verified = mover.finish().expect("ended").verify_len(100_000).expect("as long");
            let attributes = Attributes::new(0o600, Timestamp { secs: 1, nanos: 0 });
            let mut sealed = verified.seal(&attributes, Kept::NONE).expect("sealed");
            sealed.start_write_back();
            assert!(sealed.stream(0..1, &mut |_| true).is_none());
            let mut found = vec![0; 200_000];
            assert_eq!(sealed.read_at(&mut found, 0).expect("read"), content.len());
            assert!(found.starts_with(&content));
            let id = sealed.id().expect("known").expect("it has one");
            let name = Name::new(b"file").expect("a name");
            sealed.publish(&name, OnExisting::Replace).expect("published");
            let dir = Dir::open(temp.path()).expect("opened");
            assert_eq!(dir.stat(&name).expect("it is there").id, id);
        }
    }

    #[test]
    fn space_that_there_is_not_cannot_be_reserved() {
        const MIB: u64 = 1 << 20;
        let Some(mount) = Mount::tmpfs(MIB) else { return };
        for (len, has_room) in [(MIB / 2, true), (2 * MIB, false)] {
            let stage = stage(mount.path());
            assert_eq!(stage.reserve(len).is_ok(), has_room, "{len}");
            let there = stage.handle().expect("open").metadata().expect("looked at").len();
            assert_eq!(there, 0);
        }
    }

    #[test]
    fn a_range_becomes_a_hole_where_that_can_be() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(1 << 20).expect("longer");
        if !haul_sys::punch_hole(&file, 0..1 << 20) {
            return haul_testkit::fixture::missing("a file system that punches holes");
        }
        let temp = tempfile::tempdir().expect("a directory");
        let stage = stage(temp.path());
        stage.write_at(&[7; 3 << 12], 0).expect("written");
        assert!(stage.punch_hole(1 << 12..2 << 12));
        let mut found = [0; 3 << 12];
        let file = stage.handle().expect("open");
        assert_eq!(haul_sys::read_full(file, &mut found, 0).expect("read"), found.len());
        let parts = found.chunks(1 << 12).map(|part| part.iter().all(|byte| *byte == part[0]));
        assert!(parts.into_iter().all(|is_same| is_same));
        assert_eq!([found[0], found[1 << 12], found[2 << 12]], [7, 0, 7]);
    }

    #[test]
    fn the_side_that_failed_is_at_fault() {
        let error = |kind: io::ErrorKind| io::Error::from(kind);
        let (short, full) = (io::ErrorKind::UnexpectedEof, io::ErrorKind::StorageFull);
        for (failed, side, is_changed) in [
            (MoveError::Read(error(short)), Side::Source, true),
            (MoveError::Read(error(full)), Side::Source, false),
            (MoveError::Written(error(short)), Side::Destination, false),
            (MoveError::Written(error(full)), Side::Destination, false),
        ] {
            let fault = Fault::from(failed);
            assert_eq!((fault.side, fault.kind == FaultKind::Changed), (side, is_changed));
        }
    }
}

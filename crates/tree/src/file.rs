//! The contract of source files. That of the files that are written is [`haul_store::StagedFile`].

use haul_model::Timestamp;
use haul_sftp::Chunk;
use std::any::Any;
use std::io;
use std::ops::Range;

/// Bytes before a released range that may have been in use when the range before was released.
const RELEASED_LEN: u64 = 16 << 20;

/// Receives content with its offset.
pub type TakePart<'t> = dyn FnMut(u64, &[u8]) -> io::Result<()> + 't;

/// A regular file, open for reading.
pub trait SourceFile: Send + Sync {
    /// Its size and modification time when it was opened.
    fn seal(&self) -> Seal;

    /// The file itself, for the methods of `dyn SourceFile` that only its kind has.
    fn as_any(&self) -> Option<&dyn Any> {
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

    /// The next range with data at or after `from`. The gap before it is a hole. `None` if only a
    /// hole, or nothing, is left up to the sealed size.
    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>>;

    /// Its current size and modification time, to detect a change since it was opened. The flag is
    /// true if a change may show in neither.
    fn seal_now(&self) -> io::Result<(Seal, bool)>;

    /// Its content in `range`, or up to the end of the file, in order and read ahead. For a distant
    /// tree; `None` if reading at offsets is as fast.
    fn stream(&self, _range: Range<u64>) -> Option<Box<dyn ContentStream + '_>> {
        None
    }
}

impl<'f> dyn SourceFile + 'f {
    /// True if it has holes. A copy of it will have holes, too.
    ///
    /// # Errors
    /// Errors of [`SourceFile::next_data`].
    pub fn has_holes(&self) -> io::Result<bool> {
        let size = self.seal().size;
        Ok(size > 0 && self.next_data(0)? != Some(0..size))
    }

    /// True if it has much less data than its length suggests, so that hashing its holes would take
    /// longer than copying its data.
    pub fn is_mostly_holes(&self) -> bool {
        let stat = self.handle().and_then(|file| haul_sys::file_stat(file).ok());
        stat.is_some_and(|stat| stat.allocated < stat.size / 4)
    }

    /// Releases all content before `end`, beyond earlier releases.
    pub fn release_up_to(&self, end: u64) {
        self.release(end.saturating_sub(RELEASED_LEN)..end);
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

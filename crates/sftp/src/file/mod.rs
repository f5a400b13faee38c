//! An open file on the server, and streams of content from and to it.

mod range_reader;
mod range_writer;

pub use range_reader::{Chunk, RangeReader};
pub use range_writer::RangeWriter;

use crate::Client;
use crate::codec::{Answer, Attrs, Request};
use crate::error::SftpError;
use crate::session::Batch;
use haul_model::{ContentHash, ContentHasher};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Content in flight while a file is hashed, in bytes: half of the session's limit, and more than
/// most links hold.
const HASH_WINDOW: usize = 8 << 20;

type Result<T> = std::result::Result<T, SftpError>;

/// The attributes of a file after a request to set some.
#[derive(Debug, Clone)]
pub struct AttrsSet {
    /// Its attributes afterwards.
    pub found: Attrs,
    /// Why the server has refused to set them, if it has.
    pub refused: Option<SftpError>,
}

impl AttrsSet {
    fn of(set: Result<Answer>, found: Result<Answer>) -> Result<Self> {
        let refused = match set {
            Err(error) if !error.is_refusal() => return Err(error),
            set => set.err(),
        };
        Ok(Self { found: found?.attrs()?, refused })
    }
}

/// An open file. Clones share it. It is closed when the last clone is dropped, or by
/// [`Self::close`], which reports errors.
#[derive(Clone)]
pub struct RemoteFile(Arc<Open>);

struct Open {
    client: Client,
    handle: Box<[u8]>,
    /// For messages.
    path: Box<[u8]>,
    /// True if it is open for reading, false for writing.
    is_readable: bool,
    closed: AtomicBool,
}

impl RemoteFile {
    pub(crate) fn new(client: Client, handle: Box<[u8]>, path: &[u8], is_readable: bool) -> Self {
        let closed = AtomicBool::new(false);
        Self(Arc::new(Open { client, handle, path: path.into(), is_readable, closed }))
    }

    /// The path that it was opened with.
    pub fn path(&self) -> &[u8] {
        &self.0.path
    }

    /// Its current attributes.
    pub fn attrs(&self) -> Result<Attrs> {
        let [found] = self.batch(&[Request::Fstat { handle: self.handle() }]).answers();
        found?.attrs()
    }

    /// Sets the attributes that `attrs` has. A size truncates or extends the file.
    pub fn set_attrs(&self, attrs: Attrs) -> Result<()> {
        self.done(Request::Fsetstat { handle: self.handle(), attrs })
    }

    /// Sets the attributes that `attrs` has, then reads them, in one round trip. A server handles
    /// the requests for one file in order (section 6.1 of the draft).
    pub fn set_and_stat(&self, attrs: Attrs) -> Result<AttrsSet> {
        let handle = self.handle();
        let requests = [Request::Fsetstat { handle, attrs }, Request::Fstat { handle }];
        let [set, found] = self.batch(&requests).answers();
        AttrsSet::of(set, found)
    }

    /// Like [`Self::set_and_stat`], but also closes the file in the same round trip.
    ///
    /// # Errors
    /// Errors of [`Self::set_and_stat`] and of [`Self::close`].
    pub fn set_stat_and_close(self, attrs: Attrs) -> Result<AttrsSet> {
        self.0.closed.store(true, Ordering::Relaxed);
        let handle = self.handle();
        let requests = [
            Request::Fsetstat { handle, attrs },
            Request::Fstat { handle },
            Request::Close { handle },
        ];
        let [set, found, closed] = self.batch(&requests).answers();
        let set = AttrsSet::of(set, found)?;
        closed.map(|_| set)
    }

    /// Makes its content durable. Needs [`crate::Extension::Fsync`].
    pub fn sync(&self) -> Result<()> {
        self.done(Request::Fsync { handle: self.handle() })
    }

    /// Fills `buf` from `offset` on, with many requests in flight. Returns less only at the end of
    /// the file.
    ///
    /// # Errors
    /// Also [`crate::Cause::WriteOnly`].
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let mut reader = self.reader(offset..offset.saturating_add(buf.len() as u64), buf.len());
        while let Some(chunk) = reader.next_piece()? {
            let at = (chunk.offset - offset) as usize;
            buf[at..at + chunk.len()].copy_from_slice(&chunk);
        }
        Ok((reader.end() - offset) as usize)
    }

    /// Reads a range. At most `window` bytes are requested, or have arrived and are not taken yet.
    pub fn reader(&self, range: Range<u64>, window: usize) -> RangeReader {
        RangeReader::new(self.clone(), range, window)
    }

    /// The hash of its content up to the offset `end`. Calls `count` with the length of each piece.
    pub fn hash(&self, end: u64, count: &mut dyn FnMut(u64)) -> Result<ContentHash> {
        let mut content = self.reader(0..end, HASH_WINDOW);
        let mut hasher = ContentHasher::new();
        while let Some(chunk) = content.next_piece()? {
            hasher.update(&chunk);
            count(chunk.len() as u64);
        }
        Ok(hasher.finish())
    }

    /// Writes with as many requests in flight as the session allows.
    pub fn writer(&self) -> RangeWriter {
        RangeWriter::new(self.clone())
    }

    /// Closes the file and waits for the answer: some servers report a failed write only then.
    pub fn close(self) -> Result<()> {
        self.0.closed.store(true, Ordering::Relaxed);
        self.done(Request::Close { handle: self.handle() })
    }

    /// Closes a small file that was read, without waiting. The request may stay queued.
    pub(crate) fn close_small(self) {
        self.0.closed.store(true, Ordering::Relaxed);
        let port = self.client().port_for_small();
        let _ = port.send_unanswered(&Request::Close { handle: self.handle() });
    }

    pub(crate) fn handle(&self) -> &[u8] {
        &self.0.handle
    }

    fn client(&self) -> &Client {
        &self.0.client
    }

    /// Sends requests about this file.
    pub(crate) fn batch(&self, requests: &[Request<'_>]) -> Batch {
        Batch::of(self.client(), self.path(), requests)
    }

    fn done(&self, request: Request<'_>) -> Result<()> {
        let [answer] = self.batch(&[request]).answers();
        answer.map(drop)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.closed.load(Ordering::Relaxed) {
            // In a session that has ended there is nothing to close.
            let port = self.client.port();
            let _ = port
                .send_unanswered(&Request::Close { handle: &self.handle })
                .and_then(|()| port.flush());
        }
    }
}

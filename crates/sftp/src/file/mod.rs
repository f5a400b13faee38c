//! An open file on the server, and streams of content from and to it.

use crate::codec::{Answer, Attrs, Request, StatusCode};
use crate::error::{Cause, SftpError};
use crate::session::{Batch, Buf, FileRange, Payload, Port};
use crate::{Client, Result};
use haul_model::{ContentHash, ContentHasher};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Content in flight while a file is hashed, in bytes: half of the session's limit, and more than
/// most links hold.
const HASH_WINDOW: usize = 8 << 20;

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

    /// Its current attributes, and whether it has content at the offset `end`, in one round trip.
    pub fn attrs_and_more(&self, end: u64) -> Result<(Attrs, bool)> {
        let handle = self.handle();
        let more = Request::Read { handle, offset: end, len: 1 };
        let [more, found] = self.batch(&[more, Request::Fstat { handle }]).answers();
        Ok((found?.attrs()?, more.is_ok()))
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

/// Writes without waiting for each answer. Later calls report failures, and [`Self::drain`] reports
/// all. If the writer is dropped before, the result of the last writes stays unknown.
pub struct RangeWriter {
    file: RemoteFile,
    port: Port,
    /// Offsets of writes without an answer.
    unanswered: BTreeSet<u64>,
    /// The lowest offset of a failed write.
    refused: Option<u64>,
    failed: Option<SftpError>,
}

impl RangeWriter {
    fn new(file: RemoteFile) -> Self {
        let port = file.client().port();
        Self { file, port, unanswered: BTreeSet::new(), refused: None, failed: None }
    }

    /// The file that it writes to.
    pub fn file(&self) -> &RemoteFile {
        &self.file
    }

    /// Sends `bytes` for a write at `offset`. Waits for room in the session, not for the answers.
    ///
    /// # Errors
    /// The first failure of this or an earlier write; later calls return it again.
    pub fn write_at(&mut self, bytes: &[u8], mut offset: u64) -> Result<(), SftpError> {
        for piece in bytes.chunks(self.file.client().write_len()) {
            self.send(offset, piece.len(), Payload::Bytes(piece))?;
            offset += piece.len() as u64;
        }
        self.flush()
    }

    /// Sends a range of a local file for a write at the same offset. If the connection is a pipe,
    /// as to ssh, pages are spliced without a copy. A change of the file before [`Self::drain`]
    /// returns may then be sent.
    ///
    /// # Errors
    /// Errors of [`Self::write_at`]; [`Cause::Source`] if the range can't be read or the file ends
    /// within it. The written content then differs from the file's.
    pub fn write_from(&mut self, source: &File, range: Range<u64>) -> Result<(), SftpError> {
        let mut offset = range.start;
        while offset < range.end {
            let len = (range.end - offset).min(self.file.client().write_len() as u64) as usize;
            let piece = FileRange::new(source, offset, len);
            self.send(offset, len, Payload::File(&piece))?;
            if let Some(error) = piece.failed.into_inner() {
                self.fail(Cause::Source(Arc::new(error)));
                return self.check();
            }
            offset += len as u64;
        }
        self.flush()
    }

    fn send(&mut self, offset: u64, len: usize, payload: Payload<'_>) -> Result<(), SftpError> {
        self.take_answers();
        self.check()?;
        let request = Request::Write { handle: self.file.handle(), offset, len: len as u32 };
        if let Err(error) = self.port.send(offset, &request, payload) {
            self.fail(error.into());
            return self.check();
        }
        self.unanswered.insert(offset);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SftpError> {
        if let Err(error) = self.port.flush() {
            self.fail(error.into());
        }
        self.check()
    }

    /// The lowest offset of a write that has failed or has no answer yet; `None` if all are
    /// confirmed. Does not wait.
    pub fn first_unconfirmed(&mut self) -> Option<u64> {
        self.take_answers();
        let unanswered = self.unanswered.first().copied();
        [unanswered, self.refused].into_iter().flatten().min()
    }

    /// Waits until the server has answered all writes.
    ///
    /// # Errors
    /// The first failure of any write.
    pub fn drain(&mut self) -> Result<(), SftpError> {
        while let Some((at, answer)) = self.port.next() {
            self.take(at, answer);
        }
        self.check()
    }

    fn take_answers(&mut self) {
        while let Some((at, answer)) = self.port.try_next() {
            self.take(at, answer);
        }
    }

    fn take(&mut self, at: u64, answer: Result<Answer, Cause>) {
        self.unanswered.remove(&at);
        if let Err(cause) = answer {
            self.refused = Some(self.refused.map_or(at, |first| first.min(at)));
            self.fail(cause);
        }
    }

    fn fail(&mut self, cause: Cause) {
        self.failed.get_or_insert(SftpError::of("write", self.file.path(), cause));
    }

    fn check(&self) -> Result<(), SftpError> {
        self.failed.clone().map_or(Ok(()), Err)
    }
}

/// A piece of a file.
pub struct Chunk {
    /// Its offset in the file, in bytes.
    pub offset: u64,
    bytes: Buf,
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a range in pieces, in order.
///
/// If a server sends less than requested, the rest is requested again. So pieces have any length,
/// but there are no gaps. After an error no more pieces follow.
pub struct RangeReader {
    file: RemoteFile,
    port: Port,
    /// The offset of the next request.
    next: u64,
    /// The end of the range, or of the file if that is known to be earlier.
    end: u64,
    /// The offset of the next piece to return.
    position: u64,
    window: usize,
    /// Bytes that are requested, or have arrived and are not taken yet.
    held: usize,
    /// The length that is requested at each offset, in bytes.
    requested: HashMap<u64, u32>,
    arrived: BTreeMap<u64, Buf>,
    /// A part was requested again after [`Self::start`].
    pub(crate) has_rerequested: bool,
}

impl RangeReader {
    fn new(file: RemoteFile, range: Range<u64>, window: usize) -> Self {
        let port = file.client().port();
        Self {
            file,
            port,
            next: range.start,
            end: range.end.max(range.start),
            position: range.start,
            window,
            held: 0,
            requested: HashMap::new(),
            arrived: BTreeMap::new(),
            has_rerequested: false,
        }
    }

    /// The end of the range, or of the file once it is known to be earlier.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Requests the beginning of the range, up to the window, without waiting. For a reader that is
    /// drained later.
    ///
    /// # Errors
    /// Errors of the session.
    pub fn start(&mut self) -> Result<(), SftpError> {
        self.request_ahead()?;
        let sent = self.port.flush();
        sent.map_err(|error| SftpError::of("read", self.file.path(), error))
    }

    /// The next piece in order; `None` at the end.
    ///
    /// # Errors
    /// The first failed read, in the order of the answers; [`Cause::WriteOnly`] if the file is open
    /// for writing.
    pub fn next_piece(&mut self) -> Result<Option<Chunk>, SftpError> {
        loop {
            self.request_ahead()?;
            if self.position >= self.end {
                return Ok(None);
            }
            if let Some(bytes) = self.arrived.remove(&self.position) {
                let offset = self.position;
                self.held -= bytes.len();
                self.position += bytes.len() as u64;
                return Ok(Some(Chunk { offset, bytes }));
            }
            if !self.receive_answer()? {
                return Ok(None);
            }
        }
    }

    /// Sends requests while the window has room, at least one. They may stay queued.
    pub(crate) fn request_ahead(&mut self) -> Result<(), SftpError> {
        while self.next < self.end {
            let left = self.end - self.next;
            let len = left.min(self.file.client().read_len() as u64) as u32;
            if self.held > 0 && self.held + len as usize > self.window {
                break;
            }
            self.held += len as usize;
            self.request_range(self.next, len)?;
            self.next += u64::from(len);
        }
        Ok(())
    }

    fn request_range(&mut self, offset: u64, len: u32) -> Result<(), SftpError> {
        if !self.file.0.is_readable {
            return Err(self.failed(Cause::WriteOnly));
        }
        let request = Request::Read { handle: self.file.handle(), offset, len };
        let sent = self.port.send(offset, &request, Payload::NONE);
        sent.map_err(|error| SftpError::new(&request, self.file.path(), error))?;
        self.requested.insert(offset, len);
        Ok(())
    }

    /// Waits for one answer. Returns false if no request is in flight.
    fn receive_answer(&mut self) -> Result<bool, SftpError> {
        let Some((offset, answer)) = self.port.next() else {
            return Ok(false);
        };
        let requested = self.requested.remove(&offset).unwrap_or(0);
        match answer {
            Ok(Answer::Data { buffer, len }) => {
                // The reader of replies refuses longer answers.
                let rest = requested - len as u32;
                let bytes = self.port.content(buffer, len);
                self.arrived.insert(offset, bytes);
                if rest > 0 {
                    self.has_rerequested = true;
                    self.request_range(offset + len as u64, rest)?;
                }
                Ok(true)
            }
            Err(Cause::Status(status)) if status.code == StatusCode::Eof => {
                self.held -= requested as usize;
                self.end = self.end.min(offset);
                Ok(true)
            }
            Ok(_) => Ok(true),
            Err(cause) => Err(self.failed(cause)),
        }
    }

    fn failed(&mut self, cause: Cause) -> SftpError {
        // No more requests follow.
        self.next = self.end;
        SftpError::of("read", self.file.path(), cause)
    }
}

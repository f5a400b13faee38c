//! A range of a file, read with many requests in flight.

use super::RemoteFile;
use crate::codec::{Answer, Request, StatusCode};
use crate::error::{Cause, SftpError};
use crate::session::{Buf, Payload, Port};
use std::collections::{BTreeMap, HashMap};
use std::ops::{Deref, Range};

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
    pub(super) fn new(file: RemoteFile, range: Range<u64>, window: usize) -> Self {
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

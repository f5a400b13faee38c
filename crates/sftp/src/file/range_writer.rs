//! Content on its way into a file, with many requests in flight.

use super::RemoteFile;
use crate::client::succeeded;
use crate::codec::{Answer, Request};
use crate::error::{Cause, SessionError, SftpError};
use crate::session::{FileRange, Payload, Port};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

/// Writes without waiting for each answer: what the server says is collected
/// while more is sent, and all of it in [`Self::drain`]. Dropped before, it
/// leaves open what became of the last bytes.
pub struct RangeWriter {
    file: RemoteFile,
    port: Port,
    window: usize,
    /// Writes without an answer: offset, and number of bytes.
    unanswered: BTreeMap<u64, usize>,
    /// The sum of them, in bytes.
    unanswered_len: usize,
    /// The first write that the server has refused: where.
    refused: Option<u64>,
    failed: Option<SftpError>,
}

impl RangeWriter {
    pub(super) fn new(file: RemoteFile, window: usize) -> Self {
        let port = file.client().port();
        let unanswered = BTreeMap::new();
        Self { file, port, window, unanswered, unanswered_len: 0, refused: None, failed: None }
    }

    /// Sends all of `bytes`, to be written at `offset`. Returns when they are on
    /// their way, which is later than at once when the window is full.
    ///
    /// # Errors
    /// The first failure of this or an earlier write; it stays.
    pub fn write_at(&mut self, bytes: &[u8], mut offset: u64) -> Result<(), SftpError> {
        for piece in bytes.chunks(self.file.client().write_len()) {
            self.send(offset, piece.len(), Payload::Bytes(piece))?;
            offset += piece.len() as u64;
        }
        self.flush()
    }

    /// Sends a range of a file of this machine, to be written at the same place.
    /// Where the connection is a pipe, as to ssh, its pages are handed over
    /// without a copy; so a change of the file that comes before
    /// [`Self::drain`] has returned may be sent.
    ///
    /// # Errors
    /// See [`Self::write_at`]; besides, [`Cause::Source`] when the range can't be
    /// read or the file ends within it, and what was written is not its content.
    pub fn write_from(&mut self, source: &File, range: Range<u64>) -> Result<(), SftpError> {
        let mut offset = range.start;
        while offset < range.end {
            let len = (range.end - offset).min(self.file.client().write_len() as u64) as usize;
            let piece = FileRange::new(source, offset, len);
            self.send(offset, len, Payload::File(&piece))?;
            if let Some(error) = piece.into_failure() {
                self.fail(Cause::Source(Arc::new(error)));
                return self.check();
            }
            offset += len as u64;
        }
        self.flush()
    }

    fn send(&mut self, offset: u64, len: usize, payload: Payload<'_>) -> Result<(), SftpError> {
        self.take_answers();
        while self.unanswered_len > 0 && self.unanswered_len + len > self.window {
            let Some((at, answer)) = self.port.next() else { break };
            self.take(at, answer);
        }
        self.check()?;
        let request = Request::Write { handle: self.file.handle(), offset, len: len as u32 };
        if let Err(error) = self.port.send(offset, &request, payload) {
            self.fail(error.into());
            return self.check();
        }
        self.unanswered_len += len;
        self.unanswered.insert(offset, len);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SftpError> {
        if let Err(error) = self.port.flush() {
            self.fail(error.into());
        }
        self.check()
    }

    /// Where the first write begins that the server has not confirmed, in bytes,
    /// for it has refused it or has not answered yet; `None` if it has confirmed
    /// all. Does not wait.
    pub fn first_unconfirmed(&mut self) -> Option<u64> {
        self.take_answers();
        let unanswered = self.unanswered.first_key_value().map(|(at, _)| *at);
        [unanswered, self.refused].into_iter().flatten().min()
    }

    /// Waits until the server has answered everything so far.
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

    fn take(&mut self, at: u64, answer: Result<Answer, SessionError>) {
        self.unanswered_len -= self.unanswered.remove(&at).unwrap_or(0);
        if let Err(cause) = answer.map_err(Cause::from).and_then(succeeded) {
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

//! Writes content to a file with many requests in flight. The session limits their number.

use super::RemoteFile;
use crate::codec::{Answer, Request};
use crate::error::{Cause, SftpError};
use crate::session::{FileRange, Payload, Port};
use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

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
    pub(super) fn new(file: RemoteFile) -> Self {
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

//! Content on its way into a file, with many requests in flight.

use super::RemoteFile;
use crate::client::succeeded;
use crate::codec::Request;
use crate::error::SftpError;
use crate::session::Port;

/// Writes without waiting for each answer: what the server says is collected
/// while more is sent, and all of it in [`Self::finish`]. Dropped before, it
/// leaves open what became of the last bytes.
pub struct RangeWriter {
    file: RemoteFile,
    port: Port,
    window: usize,
    /// Bytes that were sent and not answered.
    unanswered: usize,
    failed: Option<SftpError>,
}

impl RangeWriter {
    pub(super) fn new(file: RemoteFile, window: usize) -> Self {
        let port = file.client().port();
        Self { file, port, window, unanswered: 0, failed: None }
    }

    /// Sends all of `bytes`, to be written at `offset`. Returns when they are on
    /// their way, which is later than at once when the window is full.
    ///
    /// # Errors
    /// The first failure of this or an earlier write; it stays.
    pub fn write_at(&mut self, bytes: &[u8], mut offset: u64) -> Result<(), SftpError> {
        for piece in bytes.chunks(self.file.client().write_len()) {
            while let Some((len, answer)) = self.port.try_next() {
                self.take(len, answer);
            }
            while self.unanswered > 0 && self.unanswered + piece.len() > self.window {
                let Some((len, answer)) = self.port.next() else { break };
                self.take(len, answer);
            }
            self.check()?;
            let len = piece.len() as u32;
            let request = Request::Write { handle: self.file.handle(), offset, len };
            if let Err(error) = self.port.send(len.into(), &request, piece) {
                self.failed = Some(SftpError::new(&request, self.file.path(), error));
                return self.check();
            }
            self.unanswered += piece.len();
            offset += piece.len() as u64;
        }
        if let Err(error) = self.port.flush() {
            self.failed.get_or_insert(SftpError::of("write", self.file.path(), error));
        }
        self.check()
    }

    /// Waits until the server has answered everything.
    ///
    /// # Errors
    /// The first failure of any write.
    pub fn finish(mut self) -> Result<(), SftpError> {
        while let Some((len, answer)) = self.port.next() {
            self.take(len, answer);
        }
        self.check()
    }

    fn take(&mut self, len: u64, answer: Result<crate::codec::Answer, crate::SessionError>) {
        self.unanswered -= len as usize;
        let result = answer.map_err(Into::into).and_then(succeeded);
        if let Err(cause) = result {
            self.failed.get_or_insert(SftpError::of("write", self.file.path(), cause));
        }
    }

    fn check(&self) -> Result<(), SftpError> {
        self.failed.clone().map_or(Ok(()), Err)
    }
}

//! An open file of the server, and content that streams from it and to it.

mod range_reader;
mod range_writer;

pub use range_reader::{Chunk, RangeReader};
pub use range_writer::RangeWriter;

use crate::Client;
use crate::client::succeeded;
use crate::codec::{Answer, Attrs, Request};
use crate::error::{Cause, SftpError};
use crate::session::Payload;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Result<T> = std::result::Result<T, SftpError>;

/// The attributes of a file after some were to be set.
#[derive(Debug, Clone)]
pub struct AttrsSet {
    /// The attributes that it has then.
    pub found: Attrs,
    /// Why they are not those that were to be set, if the server refuses that.
    pub refused: Option<SftpError>,
}

/// An open file. Clones are the same open file; it is closed with the last of
/// them, or by [`Self::close`], which tells whether that worked.
#[derive(Clone)]
pub struct RemoteFile(Arc<Open>);

struct Open {
    client: Client,
    handle: Box<[u8]>,
    /// For messages.
    path: Box<[u8]>,
    /// Opened to be read, and not to be written.
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

    /// Its attributes now.
    pub fn attrs(&self) -> Result<Attrs> {
        let request = Request::Fstat { handle: self.handle() };
        self.client().attrs(&request, self.path())
    }

    /// Sets what `attrs` has; a size cuts or extends the file.
    pub fn set_attrs(&self, attrs: Attrs) -> Result<()> {
        self.done(&Request::Fsetstat { handle: self.handle(), attrs })
    }

    /// Sets what `attrs` has and looks what it is then, in one round trip: a server
    /// does in order what concerns one file (section 6.1 of the draft).
    pub fn set_and_look(&self, attrs: Attrs) -> Result<AttrsSet> {
        let handle = self.handle();
        self.look(&[Request::Fsetstat { handle, attrs }, Request::Fstat { handle }])
    }

    /// The same, and closes it, still in one round trip.
    ///
    /// # Errors
    /// Those of [`Self::set_and_look`] and of [`Self::close`].
    pub fn set_look_and_close(self, attrs: Attrs) -> Result<AttrsSet> {
        self.0.closed.store(true, Ordering::Relaxed);
        let handle = self.handle();
        self.look(&[
            Request::Fsetstat { handle, attrs },
            Request::Fstat { handle },
            Request::Close { handle },
        ])
    }

    /// Sends all of `requests`, the first of which sets attributes, and gives what one of
    /// them has found.
    fn look(&self, requests: &[Request<'_>]) -> Result<AttrsSet> {
        let mut port = self.client().port();
        for (request, tag) in requests.iter().zip(0..) {
            let sent = port.send(tag, request, Payload::NONE);
            sent.map_err(|error| SftpError::new(request, self.path(), error))?;
        }
        let (mut found, mut refused) = (Attrs::default(), None);
        while let Some((tag, answer)) = port.next() {
            let answer = answer.map_err(Cause::from).and_then(succeeded);
            match answer {
                Ok(Answer::Attrs(attrs)) => found = attrs,
                Ok(_) => {}
                Err(cause) => {
                    let error = SftpError::new(&requests[tag as usize], self.path(), cause);
                    if tag > 0 || !error.is_refusal() {
                        return Err(error);
                    }
                    refused = Some(error);
                }
            }
        }
        Ok(AttrsSet { found, refused })
    }

    /// Makes its content durable. Needs [`crate::Extension::Fsync`].
    pub fn sync(&self) -> Result<()> {
        self.done(&Request::Fsync { handle: self.handle() })
    }

    /// Fills `buf` from `offset` on, with as many requests at once as it takes;
    /// returns less only at the end of the file.
    ///
    /// # Errors
    /// Besides, [`crate::Cause::WriteOnly`].
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let mut reader = self.reader(offset..offset.saturating_add(buf.len() as u64), buf.len());
        while let Some(chunk) = reader.next_any()? {
            let at = (chunk.offset - offset) as usize;
            buf[at..at + chunk.len()].copy_from_slice(&chunk);
        }
        Ok((reader.end() - offset) as usize)
    }

    /// Reads a range with requests for up to `window` bytes in flight, of which
    /// the content that has arrived and is not taken yet is a part.
    pub fn reader(&self, range: Range<u64>, window: usize) -> RangeReader {
        RangeReader::new(self.clone(), range, window)
    }

    /// Writes with up to `window` bytes in flight.
    pub fn writer(&self, window: usize) -> RangeWriter {
        RangeWriter::new(self.clone(), window)
    }

    /// Closes it, and tells what the server says to that: some report only then
    /// that a write has failed.
    pub fn close(self) -> Result<()> {
        self.0.closed.store(true, Ordering::Relaxed);
        self.done(&Request::Close { handle: self.handle() })
    }

    fn handle(&self) -> &[u8] {
        &self.0.handle
    }

    fn client(&self) -> &Client {
        &self.0.client
    }

    fn done(&self, request: &Request<'_>) -> Result<()> {
        self.client().done(request, self.path())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.closed.load(Ordering::Relaxed) {
            // In a session that has ended there is nothing to close.
            let port = self.client.port();
            let _ = port.tell(&Request::Close { handle: &self.handle }).and_then(|()| port.flush());
        }
    }
}

//! Downloads of small files.

use super::Queue;
use crate::codec::{Answer, Attrs, OpenFlags, Request};
use crate::error::SftpError;
use crate::session::Batch;
use crate::{Client, RangeReader, RemoteFile};

type Result<T> = std::result::Result<T, SftpError>;

/// A small file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Get {
    /// The caller's key for it.
    pub key: u64,
    /// Its path. A link at its end is followed.
    pub path: Vec<u8>,
    /// The number of bytes to read: the file's length, as far as known.
    pub len: u32,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    /// Its content. Shorter than requested if the file is.
    pub content: Vec<u8>,
    /// Its attributes before it was read.
    pub before: Attrs,
    /// Its attributes after it was read. If size and modification time are equal, the content is
    /// consistent. Reading changes the access time.
    pub after: Attrs,
}

/// Reads small files, many at a time.
pub struct Gets(Queue<Job>);

struct Job {
    get: Get,
    /// The request to open the file, until it is answered.
    opening: Option<Batch>,
    reading: Option<Reading>,
    result: Option<Result<Got>>,
}

/// An open file. Its attributes are requested before and after its content. A server handles the
/// requests for one file in order (section 6.1 of the draft).
struct Reading {
    file: RemoteFile,
    before: Batch,
    content: RangeReader,
    after: Batch,
}

impl Gets {
    /// An empty queue.
    pub fn new(client: &Client) -> Self {
        Self(Queue::new(client))
    }

    /// Starts a file. While too many are in flight, it advances these first.
    pub fn push(&mut self, get: Get) {
        self.0.wait_for_capacity(get.len as usize);
        let path = &get.path;
        let open = Request::Open { path, flags: OpenFlags::Read, attrs: Attrs::default() };
        let opening = Some(Batch::of(&self.0.client, path, &[open]));
        self.0.push(Job { get, opening, reading: None, result: None });
    }

    /// The number of files not returned by [`Self::next_done`] yet.
    pub fn pending(&self) -> usize {
        self.0.pending()
    }

    /// Waits for the next file that was read or has failed, in any order. Returns its key and the
    /// result, or `None` if no file is left.
    pub fn next_done(&mut self) -> Option<(u64, Result<Got>)> {
        self.0.next_done().map(Job::end)
    }

    /// Like [`Self::next_done`], without waiting.
    pub fn try_next_done(&mut self) -> Option<(u64, Result<Got>)> {
        self.0.finished.pop_front().map(Job::end)
    }
}

impl super::Job for Job {
    fn len(&self) -> usize {
        self.get.len as usize
    }

    fn advance(&mut self, client: &Client) -> bool {
        if let Some(opening) = self.opening.take() {
            match self.open(client, opening) {
                Ok(reading) => self.reading = Some(reading),
                Err(error) => self.result = Some(Err(error)),
            }
        } else if let Some(reading) = self.reading.take() {
            self.result = Some(reading.finish(self.len()));
        }
        self.result.is_none()
    }
}

impl Job {
    fn open(&self, client: &Client, opening: Batch) -> Result<Reading> {
        let [opened] = opening.answers();
        let (path, len) = (&self.get.path, self.get.len);
        let file = RemoteFile::new(client.clone(), opened?.handle()?, path, true);
        let look = || file.batch(&[Request::Fstat { handle: file.handle() }]);
        let before = look();
        let mut content = file.reader(0..len.into(), len as usize);
        content.request_ahead()?;
        let after = look();
        Ok(Reading { before, content, after, file })
    }

    fn end(self) -> (u64, Result<Got>) {
        (self.get.key, self.result.expect("it was advanced to its end"))
    }
}

impl Reading {
    fn finish(mut self, len: usize) -> Result<Got> {
        let attrs = |batch: Batch| {
            let [found] = batch.answers();
            found.and_then(Answer::attrs)
        };
        // The last answer is taken first: the thread sleeps once, and all others have arrived then.
        let mut after = attrs(self.after)?;
        let before = attrs(self.before)?;
        let mut content = vec![0; len];
        while let Some(piece) = self.content.next_piece()? {
            let at = piece.offset as usize;
            content[at..at + piece.len()].copy_from_slice(&piece);
        }
        content.truncate(self.content.end() as usize);
        if self.content.has_rerequested {
            after = self.file.attrs()?;
        }
        drop(self.content);
        self.file.close_small();
        Ok(Got { content, before, after })
    }
}

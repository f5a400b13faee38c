//! Downloads of small files.

use super::{Queue, Transfer};
use crate::codec::{Answer, Attrs, OpenFlags, Request};
use crate::error::SftpError;
use crate::session::Batch;
use crate::{Client, RangeReader, RemoteFile};
use std::ops::ControlFlow;

type Result<T> = std::result::Result<T, SftpError>;

/// A small file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Get<K> {
    /// The caller's key for it.
    pub key: K,
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
pub type Gets<K> = Queue<Getting<K>>;

/// A file in flight.
pub struct Getting<K> {
    get: Get<K>,
    step: GetStep,
}

/// Requests that have no answers yet.
enum GetStep {
    Open(Batch),
    Read(Box<Reading>),
}

/// An open file. Its attributes are requested before and after its content. A server handles the
/// requests for one file in order (section 6.1 of the draft).
struct Reading {
    file: RemoteFile,
    before: Batch,
    content: RangeReader,
    after: Batch,
}

impl<K> Transfer for Getting<K> {
    type File = Get<K>;
    type Done = (K, Result<Got>);

    fn len(get: &Get<K>) -> usize {
        get.len as usize
    }

    fn begin(client: &Client, get: Get<K>) -> Self {
        let path = &get.path;
        let open = Request::Open { path, flags: OpenFlags::Read, attrs: Attrs::default() };
        let step = GetStep::Open(Batch::of(client, path, &[open]));
        Self { get, step }
    }

    fn advance(self, client: &Client) -> ControlFlow<Self::Done, Self> {
        let Self { get, step } = self;
        let result = match step {
            GetStep::Open(opening) => match get.open(client, opening) {
                Ok(reading) => {
                    let step = GetStep::Read(Box::new(reading));
                    return ControlFlow::Continue(Self { get, step });
                }
                Err(error) => Err(error),
            },
            GetStep::Read(reading) => reading.finish(get.len as usize),
        };
        ControlFlow::Break((get.key, result))
    }

    fn abort(self, _: &mut Batch) {}
}

impl<K> Get<K> {
    fn open(&self, client: &Client, opening: Batch) -> Result<Reading> {
        let [opened] = opening.answers();
        let file = RemoteFile::new(client.clone(), opened?.handle()?, &self.path, true);
        let look = || file.batch(&[Request::Fstat { handle: file.handle() }]);
        let before = look();
        let mut content = file.reader(0..self.len.into(), self.len as usize);
        content.request_ahead()?;
        let after = look();
        Ok(Reading { before, content, after, file })
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

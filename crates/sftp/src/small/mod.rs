//! One thread writes or reads many small files at the same time, so that no file costs a round trip
//! of its own.
//!
//! A file takes several steps. A step is a set of requests that are sent together and need the
//! answers of the step before. The files wait in one queue. The first one takes the answers of its
//! step, sends the next, and moves to the end. Servers answer in order, so the answers for the next
//! file arrive next.

mod put;

use crate::codec::{Attrs, OpenFlags, Request};
use crate::session::Batch;
use crate::{Client, RangeReader, RemoteFile, Result};
pub use put::{Put, Puts, Stored};
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// Most files in flight. A file takes three round trips, so with one of 50 ms this is 3,200 files a
/// second.
const FILES_MAX: usize = 480;

/// Most content in flight, in bytes. A larger file is sent alone.
const BYTES_MAX: usize = 8 << 20;

/// A file in flight.
pub trait Transfer: Sized {
    /// The file as the caller describes it.
    type File;
    /// The caller's key for the file, and the result.
    type Done;

    /// The length of the content of `file`, in bytes.
    fn len(file: &Self::File) -> usize;

    /// Sends the first request.
    fn begin(client: &Client, file: Self::File) -> Self;

    /// Waits for the answers of the current step, and sends the next. Returns the result after the
    /// last.
    fn advance(self, client: &Client) -> ControlFlow<Self::Done, Self>;

    /// Adds the requests that undo the steps so far to `batch`.
    fn abort(self, batch: &mut Batch);
}

/// The files in flight through one session. If it is dropped before they are done, it undoes their
/// steps and waits for that, unless the session ends.
pub struct Queue<T: Transfer> {
    client: Client,
    /// Each with the length of its content, in bytes.
    transfers: VecDeque<(usize, T)>,
    /// Content of `transfers`, in bytes.
    bytes: usize,
    finished: VecDeque<T::Done>,
}

impl<T: Transfer> Queue<T> {
    /// An empty queue.
    pub fn new(client: &Client) -> Self {
        let (transfers, finished) = (VecDeque::new(), VecDeque::new());
        Self { client: client.clone(), transfers, bytes: 0, finished }
    }

    /// Starts a file. While too many are in flight, it advances these first.
    pub fn push(&mut self, file: T::File) {
        // Half of the server's limit, as there may be other callers.
        let files_max = match self.client.limits().open_handles / 2 {
            0 => FILES_MAX,
            limit => usize::try_from(limit).map_or(FILES_MAX, |limit| limit.min(FILES_MAX)),
        };
        let len = T::len(&file);
        while self.transfers.len() >= files_max
            || (!self.transfers.is_empty() && self.bytes + len > BYTES_MAX)
        {
            self.step();
        }
        self.bytes += len;
        self.transfers.push_back((len, T::begin(&self.client, file)));
    }

    /// The number of files not returned by [`Self::next_done`] yet.
    pub fn pending(&self) -> usize {
        self.transfers.len() + self.finished.len()
    }

    /// Waits for the next file that is complete or has failed, in any order. Returns its key and
    /// the result, or `None` if no file is left.
    pub fn next_done(&mut self) -> Option<T::Done> {
        while self.finished.is_empty() && !self.transfers.is_empty() {
            self.step();
        }
        self.try_next_done()
    }

    /// Like [`Self::next_done`], without waiting.
    pub fn try_next_done(&mut self) -> Option<T::Done> {
        self.finished.pop_front()
    }

    /// Advances the first file by one step.
    fn step(&mut self) {
        let Some((len, transfer)) = self.transfers.pop_front() else { return };
        match transfer.advance(&self.client) {
            ControlFlow::Continue(transfer) => self.transfers.push_back((len, transfer)),
            ControlFlow::Break(done) => {
                self.bytes -= len;
                self.finished.push_back(done);
            }
        }
    }
}

impl<T: Transfer> Drop for Queue<T> {
    fn drop(&mut self) {
        let mut batch = Batch::new(self.client.port_for_small(), b"");
        self.transfers.drain(..).for_each(|(_, transfer)| transfer.abort(&mut batch));
        // If the session ends before, the stages stay.
        drop(batch.wait());
    }
}

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
    /// It has content after the requested length.
    pub has_more: bool,
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

/// An open file. Its attributes are requested before its content, and after it together with one
/// byte beyond its end. A server handles the requests for one file in order (section 6.1 of the
/// draft).
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
        let handle = file.handle();
        let before = file.batch(&[Request::Fstat { handle }]);
        let mut content = file.reader(0..self.len.into(), self.len as usize);
        content.request_ahead()?;
        let more = Request::Read { handle, offset: self.len.into(), len: 1 };
        let after = file.batch(&[more, Request::Fstat { handle }]);
        Ok(Reading { before, content, after, file })
    }
}

impl Reading {
    fn finish(mut self, len: usize) -> Result<Got> {
        // The last answer is taken first: the thread sleeps once, and all others have arrived then.
        let [more, after] = self.after.answers();
        let [before] = self.before.answers();
        let (mut after, before) = (after?.attrs()?, before?.attrs()?);
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
        Ok(Got { content, before, after, has_more: more.is_ok() })
    }
}

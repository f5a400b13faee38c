//! Uploads of small files.
//!
//! Each file is created under a private name. It is renamed into place once the server has
//! confirmed its content, length, mode and time. That takes three round trips (open; write, set,
//! look and close; rename), and two more to read it back. The steps of different files overlap.

use super::{Queue, Transfer};
use crate::client::check_path;
use crate::codec::{Answer, Attrs, Extension, OpenFlags, Request};
use crate::error::{Cause, SftpError};
use crate::naming::{Existing, Names, Renaming};
use crate::session::{Batch, Payload};
use crate::{Client, RangeReader, RemoteFile, Result};
use std::ops::ControlFlow;

/// The mode of a new file until its final mode is set.
const PRIVATE_MODE: u32 = 0o600;

/// Most bytes of one file that are requested at once when it is read back. No small file is longer,
/// so this bounds the memory that reading back adds.
const READ_BACK_MAX: usize = 4 << 20;

/// A small file to write.
#[derive(Debug, Clone)]
pub struct Put<K> {
    /// The caller's key for it.
    pub key: K,
    /// The path that it is created at, which must not exist.
    pub stage: Vec<u8>,
    /// Its final path.
    pub path: Vec<u8>,
    /// Its content.
    pub content: Vec<u8>,
    /// Its final mode and times. What is `None` stays as the server makes it.
    pub attrs: Attrs,
    /// Fail if the server refuses to set its mode and times, or does not keep its time
    /// ([`Cause::Time`]).
    pub needs_attributes: bool,
    /// How to treat an existing file at `path`; see [`Client::name_file`]. If it must stay, the
    /// name is looked up before the rename, since some servers replace.
    pub existing: Existing,
    /// Make the content durable before the rename. Needs [`Extension::Fsync`]. The protocol
    /// can't make the name itself durable.
    pub sync: bool,
    /// Read the file back before the rename. It is opened again after the server has confirmed all
    /// writes and has closed it. The server may answer from memory. A difference is
    /// [`Cause::Differs`].
    pub verify: bool,
}

/// The losses of a file that it has stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stored {
    /// It has stored another time than was set.
    pub has_lost_time: bool,
    /// It has refused to set the mode and times, both through the file's handle and by path.
    pub has_lost_attributes: bool,
}

/// Writes small files, many at a time. If it is dropped with files in flight, it removes them.
pub type Puts<K> = Queue<Putting<K>>;

/// Requests that were sent together and have no answers yet.
enum PutStep {
    Open(Batch),
    /// All requests that need the handle. A server handles those for one file in order.
    Fill(Batch),
    /// Sets the attributes by path, if the server refuses to set them through the handle.
    SetByPath(Batch),
    /// Opens the file for reading back. It can't be read through the handle that it was written
    /// with; see [`OpenFlags`].
    Reopen(Batch),
    ReadBack(RangeReader),
    /// Sets the mode of a file that its owner may not read, after it was read back.
    LateMode(Batch),
    Name(Renaming, Batch),
    /// Removes the stage after a failure.
    Remove(Batch),
}

/// A file in flight.
pub struct Putting<K> {
    put: Put<K>,
    /// `None` once the file is finished.
    step: Option<PutStep>,
    stored: Stored,
    failed: Option<SftpError>,
}

impl<K> Transfer for Putting<K> {
    type File = Put<K>;
    type Done = (K, Result<Stored>);

    fn len(put: &Put<K>) -> usize {
        put.content.len()
    }

    /// Sends the first request, unless the file is known to fail.
    fn begin(client: &Client, put: Put<K>) -> Self {
        let is_durable = match put.sync && !client.has(Extension::Fsync) {
            true => Err(Cause::Missing(Extension::Fsync.name())),
            false => Ok(()),
        };
        let paths = check_path(&put.stage).and(check_path(&put.path)).and(put.existing.check());
        let failed = paths.and(is_durable).err();
        let failed = failed.map(|cause| SftpError::of("write", &put.path, cause));
        let mut putting = Self { put, step: None, stored: Stored::default(), failed };
        if putting.failed.is_none() {
            putting.step = Some(PutStep::Open(putting.open(client, OpenFlags::CreateNew)));
        }
        putting
    }

    fn advance(mut self, client: &Client) -> ControlFlow<Self::Done, Self> {
        if let Some(step) = self.step.take() {
            let is_staged = !matches!(step, PutStep::Open(_));
            self.step = self.follow(step, client).unwrap_or_else(|error| {
                // If the old file has lost its name, the stage must stay.
                let goes = is_staged && !matches!(error.cause, Cause::OnlyStaged(_));
                self.failed = Some(error);
                let remove = Request::Remove { path: &self.put.stage };
                goes.then(|| PutStep::Remove(self.send(client, &[remove])))
            });
        }
        match self.step {
            Some(_) => ControlFlow::Continue(self),
            None => ControlFlow::Break((self.put.key, self.failed.map_or(Ok(self.stored), Err))),
        }
    }

    /// Requests its removal after its earlier requests. If it was renamed by then, no file has the
    /// private name.
    fn abort(mut self, batch: &mut Batch) {
        match self.step.take() {
            Some(PutStep::Name(naming, _)) => naming.abort(&names(&self.put), batch),
            Some(step) => {
                // A file that is being read back is closed first.
                drop(step);
                batch.send(&Request::Remove { path: &self.put.stage }, Payload::NONE);
            }
            None => {}
        }
    }
}

impl<K> Putting<K> {
    /// Waits for the answers of `step`, and sends the requests of the next one.
    fn follow(&mut self, step: PutStep, client: &Client) -> Result<Option<PutStep>> {
        match step {
            PutStep::Open(batch) => {
                let handle = opened(batch, "make")?;
                Ok(Some(PutStep::Fill(self.fill(client, &handle))))
            }
            PutStep::Fill(batch) => self.filled(client, batch.wait()),
            PutStep::SetByPath(batch) => {
                let [set, found] = batch.answers();
                let found = self.checked(found)?;
                match set {
                    Err(error) if error.is_refusal() => self.record_lost_attributes(error)?,
                    set => set.and_then(|_| self.compare_time(&found))?,
                }
                Ok(Some(self.read_back_or_name(client)))
            }
            PutStep::Reopen(batch) => {
                let handle = opened(batch, "read back")?;
                let file = RemoteFile::new(client.clone(), handle, &self.put.path, true);
                let mut content = file.reader(0..self.put.content.len() as u64, READ_BACK_MAX);
                content.request_ahead()?;
                Ok(Some(PutStep::ReadBack(content)))
            }
            PutStep::ReadBack(content) => {
                self.compare(content)?;
                Ok(Some(self.set_mode_or_name(client)))
            }
            PutStep::LateMode(batch) => {
                let [set] = batch.answers();
                match set {
                    Err(error) if error.is_refusal() => self.record_lost_attributes(error)?,
                    set => drop(set?),
                }
                Ok(Some(self.name(client, Renaming::new(&self.put.existing, true))))
            }
            PutStep::Name(mut naming, batch) => {
                let [answer] = batch.answers();
                let answer = answer.map_err(|error| error.cause);
                match naming.take(answer, &names(&self.put), client) {
                    None => Ok(Some(self.name(client, naming))),
                    Some(Ok(())) => Ok(None),
                    Some(Err((operation, cause))) => Err(self.error(operation, cause)),
                }
            }
            PutStep::Remove(batch) => {
                // The cause of the failure is recorded already.
                drop(batch.wait());
                Ok(None)
            }
        }
    }

    fn send(&self, client: &Client, requests: &[Request<'_>]) -> Batch {
        let mut batch = Batch::new(client.port_for_small(), &self.put.path);
        requests.iter().for_each(|request| batch.send(request, Payload::NONE));
        batch
    }

    fn open(&self, client: &Client, flags: OpenFlags) -> Batch {
        let mode = (flags == OpenFlags::CreateNew).then_some(PRIVATE_MODE);
        let attrs = Attrs { mode, ..Attrs::default() };
        self.send(client, &[Request::Open { path: &self.put.stage, flags, attrs }])
    }

    fn fill(&self, client: &Client, handle: &[u8]) -> Batch {
        let mut batch = self.send(client, &[]);
        let mut offset = 0;
        for piece in self.put.content.chunks(client.write_len()) {
            let write = Request::Write { handle, offset, len: piece.len() as u32 };
            batch.send(&write, Payload::Bytes(piece));
            offset += piece.len() as u64;
        }
        let attrs = self.attrs();
        batch.send(&Request::Fsetstat { handle, attrs }, Payload::NONE);
        batch.send(&Request::Fstat { handle }, Payload::NONE);
        if self.put.sync {
            batch.send(&Request::Fsync { handle }, Payload::NONE);
        }
        batch.send(&Request::Close { handle }, Payload::NONE);
        if self.put.existing.is_kept() {
            batch.send(&Request::Lstat { path: &self.put.path }, Payload::NONE);
        }
        batch
    }

    /// Processes the answers to [`Self::fill`].
    fn filled(
        &mut self,
        client: &Client,
        mut answers: Vec<Result<Answer>>,
    ) -> Result<Option<PutStep>> {
        let mut last = || answers.pop().expect("one answer for each request");
        let looked = self.put.existing.is_kept().then(&mut last);
        let closed = last();
        let synced = self.put.sync.then(&mut last);
        let (found, set) = (last(), last());
        for answer in answers {
            answer?;
        }
        let refused = match set {
            Err(error) if !error.is_refusal() => return Err(error),
            set => set.is_err(),
        };
        let found = self.checked(found)?;
        synced.transpose().and(closed)?;
        // If the name can't be looked up, the rename shows whether it is free.
        if matches!(looked, Some(Ok(_))) {
            return Err(self.error("write", Cause::NameExists));
        }
        if refused {
            let (path, attrs) = (&*self.put.stage, self.attrs());
            let requests = [Request::Setstat { path, attrs }, Request::Lstat { path }];
            return Ok(Some(PutStep::SetByPath(self.send(client, &requests))));
        }
        self.compare_time(&found)?;
        Ok(Some(self.read_back_or_name(client)))
    }

    fn read_back_or_name(&self, client: &Client) -> PutStep {
        if self.put.verify && !self.put.content.is_empty() {
            return PutStep::Reopen(self.open(client, OpenFlags::Read));
        }
        self.set_mode_or_name(client)
    }

    fn set_mode_or_name(&self, client: &Client) -> PutStep {
        if self.has_late_mode() {
            let attrs = Attrs { times: None, ..self.put.attrs };
            let set = Request::Setstat { path: &self.put.stage, attrs };
            return PutStep::LateMode(self.send(client, &[set]));
        }
        self.name(client, Renaming::new(&self.put.existing, true))
    }

    fn name(&self, client: &Client, naming: Renaming) -> PutStep {
        let request = naming.request(&names(&self.put), client);
        PutStep::Name(naming, self.send(client, &[request]))
    }

    /// The attributes to set before reading back.
    fn attrs(&self) -> Attrs {
        let mode = self.put.attrs.mode.filter(|_| !self.has_late_mode());
        Attrs { mode, ..self.put.attrs }
    }

    fn has_late_mode(&self) -> bool {
        const OWNER_READS: u32 = 0o400;
        self.put.verify && self.put.attrs.mode.is_some_and(|mode| mode & OWNER_READS == 0)
    }

    /// The attributes of a stage, if they have the right length.
    fn checked(&self, found: Result<Answer>) -> Result<Attrs> {
        let attrs = found?.attrs()?;
        let written = self.put.content.len() as u64;
        match attrs.size {
            Some(found) if found != written => {
                Err(self.error("write", Cause::Length { written, found }))
            }
            _ => Ok(attrs),
        }
    }

    fn compare_time(&mut self, found: &Attrs) -> Result<()> {
        if self.put.attrs.times.is_none_or(|times| times.are_kept_as(found)) {
            return Ok(());
        }
        self.stored.has_lost_time = true;
        match self.put.needs_attributes {
            true => Err(self.error("set the time of", Cause::Time)),
            false => Ok(()),
        }
    }

    fn record_lost_attributes(&mut self, refusal: SftpError) -> Result<()> {
        self.stored.has_lost_attributes = true;
        if self.put.needs_attributes { Err(refusal) } else { Ok(()) }
    }

    fn compare(&self, mut content: RangeReader) -> Result<()> {
        let differs = || self.error("verify", Cause::Differs);
        let failed = |error| SftpError { operation: "read back", ..error };
        while let Some(piece) = content.next_piece().map_err(failed)? {
            let at = piece.offset as usize;
            if self.put.content.get(at..at + piece.len()) != Some(&*piece) {
                return Err(differs());
            }
        }
        if content.end() == self.put.content.len() as u64 { Ok(()) } else { Err(differs()) }
    }

    fn error(&self, operation: &'static str, cause: Cause) -> SftpError {
        SftpError::of(operation, &self.put.path, cause)
    }
}

/// The handle of a file that was opened.
fn opened(batch: Batch, operation: &'static str) -> Result<Box<[u8]>> {
    let [opened] = batch.answers();
    opened.map_err(|error| SftpError { operation, ..error })?.handle()
}

fn names<K>(put: &Put<K>) -> Names<'_> {
    Names { stage: &put.stage, path: &put.path, existing: &put.existing }
}

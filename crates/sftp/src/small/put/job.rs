//! One small file on its way to the server: its steps, each of which waits for
//! all the answers to the one before.

use super::{Asker, Put};
use crate::Client;
use crate::codec::{Answer, Attrs, OpenFlags, Request, StatusCode};
use crate::error::{Cause, SessionError, SftpError};
use crate::naming::{Names, Renaming};
use crate::session::{Payload, Port};

/// The mode of a new file until its own is set.
const PRIVATE_MODE: u32 = 0o600;

/// How much of one file is asked for at once when it is read back, in bytes. No
/// small file has more, so it bounds what a large one holds twice.
const READ_BACK_MAX: usize = 4 << 20;

/// Which of a file's requests an answer is for.
const OPEN: u64 = 0;
const WRITE: u64 = 1;
const SYNC: u64 = 2;
const ATTRS: u64 = 3;
const STAT: u64 = 4;
const CLOSE: u64 = 5;
const LOOK: u64 = 6;
const NAME: u64 = 7;
const REMOVE: u64 = 8;
/// From here on it is a read, at the offset beyond it.
const READ: u64 = 16;

/// A set of requests that go together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Open,
    /// All that needs the handle: a server does in order what concerns one file.
    Fill,
    /// Its attributes by its path, where the server refuses to set them through the handle.
    SetByPath,
    /// To be read back. It can't be read through the handle that it is written
    /// with; see [`OpenFlags`].
    Reopen,
    ReadBack,
    /// The mode of a file that its owner may not read, once it was read back.
    LateMode,
    /// Its name, in the steps of [`Renaming`].
    Name,
    /// After a failure with the file open.
    Close,
    /// After a failure.
    Remove,
}

pub(super) struct Job<C> {
    put: Put<C>,
    step: Step,
    /// Answers that must come before the next step.
    awaited: usize,
    /// Of the stage, while it is open.
    handle: Option<Box<[u8]>>,
    /// How far reading back has been asked for, in bytes.
    read_to: usize,
    /// Something was found to have the path.
    is_taken: bool,
    /// How it gets its name, once it is whole.
    naming: Option<Renaming>,
    is_named: bool,
    /// Its attributes, as the server has told them last.
    found: Option<Attrs>,
    /// Why the server has refused to set them, the last time.
    refused: Option<Cause>,
    /// The server has not taken its time.
    has_lost_time: bool,
    /// It keeps those that it was made with.
    has_lost_attributes: bool,
    /// Why it fails, though there may be answers to come.
    failed: Option<SftpError>,
}

impl<C: AsRef<[u8]>> Job<C> {
    pub(super) fn new(put: Put<C>) -> Self {
        Self {
            put,
            step: Step::Open,
            awaited: 0,
            handle: None,
            read_to: 0,
            is_taken: false,
            naming: None,
            is_named: false,
            found: None,
            refused: None,
            has_lost_time: false,
            has_lost_attributes: false,
            failed: None,
        }
    }

    pub(super) fn content_len(&self) -> usize {
        self.put.content.as_ref().len()
    }

    pub(super) fn is_answered(&self) -> bool {
        self.awaited == 0
    }

    pub(super) fn has_lost_time(&self) -> bool {
        self.has_lost_time
    }

    pub(super) fn has_lost_attributes(&self) -> bool {
        self.has_lost_attributes
    }

    pub(super) fn fail(&mut self, operation: &'static str, cause: Cause) {
        self.failed.get_or_insert(SftpError::of(operation, &self.put.path, cause));
    }

    /// Its fate, with the caller's key.
    pub(super) fn into_result(self) -> (u64, Result<(), SftpError>) {
        (self.put.key, self.failed.map_or(Ok(()), Err))
    }

    /// Asks for all that its step needs.
    pub(super) fn ask(
        &mut self,
        client: &Client,
        asker: &mut Asker<'_>,
    ) -> Result<(), SessionError> {
        match self.step {
            Step::Open => {
                let attrs = Attrs::with_mode(PRIVATE_MODE);
                self.open(OpenFlags::CreateNew, attrs, asker)
            }
            Step::Fill => self.fill(client, asker),
            Step::SetByPath => {
                self.refused = None;
                self.awaited += 2;
                let path = &self.put.stage;
                let set = Request::Setstat { path, attrs: self.attrs() };
                asker.send(ATTRS, &set, Payload::NONE)?;
                asker.send(STAT, &Request::Lstat { path }, Payload::NONE)
            }
            Step::Reopen => self.open(OpenFlags::Read, Attrs::default(), asker),
            Step::ReadBack => self.read_on(client, asker),
            Step::LateMode => {
                self.close_read(asker)?;
                let attrs = Attrs::with_mode(self.put.mode);
                self.awaited += 1;
                let request = Request::Setstat { path: &self.put.stage, attrs };
                asker.send(ATTRS, &request, Payload::NONE)
            }
            Step::Name => {
                self.close_read(asker)?;
                self.awaited += 1;
                let looked = || Renaming::new(&self.put.existing, true);
                let naming = self.naming.get_or_insert_with(looked);
                asker.send(NAME, &naming.request(&names(&self.put), client), Payload::NONE)
            }
            Step::Close => self.close(asker),
            Step::Remove => {
                self.awaited += 1;
                let remove = Request::Remove { path: &self.put.stage };
                asker.send(REMOVE, &remove, Payload::NONE)
            }
        }
    }

    fn open(
        &mut self,
        flags: OpenFlags,
        attrs: Attrs,
        asker: &mut Asker<'_>,
    ) -> Result<(), SessionError> {
        self.awaited += 1;
        asker.send(OPEN, &Request::Open { path: &self.put.stage, flags, attrs }, Payload::NONE)
    }

    fn fill(&mut self, client: &Client, asker: &mut Asker<'_>) -> Result<(), SessionError> {
        self.write(client, asker)?;
        let (handle, attrs) = (self.handle(), self.attrs());
        asker.send(ATTRS, &Request::Fsetstat { handle, attrs }, Payload::NONE)?;
        asker.send(STAT, &Request::Fstat { handle }, Payload::NONE)?;
        if self.put.sync {
            asker.send(SYNC, &Request::Fsync { handle }, Payload::NONE)?;
        }
        self.awaited += 2 + usize::from(self.put.sync);
        self.close(asker)?;
        if self.put.existing.is_kept() { self.look(asker) } else { Ok(()) }
    }

    /// The attributes that it gets before it is read back.
    fn attrs(&self) -> Attrs {
        let mode = (!self.has_late_mode()).then_some(self.put.mode);
        Attrs { mode, times: Some(self.put.times), ..Attrs::default() }
    }

    fn has_late_mode(&self) -> bool {
        const OWNER_READS: u32 = 0o400;
        self.put.verify && self.put.mode & OWNER_READS == 0
    }

    fn write(&mut self, client: &Client, asker: &mut Asker<'_>) -> Result<(), SessionError> {
        let handle = self.handle();
        let (mut offset, mut sent) = (0, 0);
        for piece in self.put.content.as_ref().chunks(client.write_len()) {
            let write = Request::Write { handle, offset, len: piece.len() as u32 };
            asker.send(WRITE, &write, Payload::Bytes(piece))?;
            offset += piece.len() as u64;
            sent += 1;
        }
        self.awaited += sent;
        Ok(())
    }

    fn look(&mut self, asker: &mut Asker<'_>) -> Result<(), SessionError> {
        self.awaited += 1;
        asker.send(LOOK, &Request::Lstat { path: &self.put.path }, Payload::NONE)
    }

    fn close(&mut self, asker: &mut Asker<'_>) -> Result<(), SessionError> {
        asker.send(CLOSE, &Request::Close { handle: self.handle() }, Payload::NONE)?;
        self.awaited += 1;
        self.handle = None;
        Ok(())
    }

    /// Closes what was read, if anything. What is said to that changes nothing.
    fn close_read(&mut self, asker: &Asker<'_>) -> Result<(), SessionError> {
        let handle = self.handle.take();
        handle.map_or(Ok(()), |handle| asker.port.tell(&Request::Close { handle: &handle }))
    }

    /// Asks for more of what is read back, in pieces that begin at multiples of
    /// the longest.
    fn read_on(&mut self, client: &Client, asker: &mut Asker<'_>) -> Result<(), SessionError> {
        let step = client.read_len();
        let pieces_max = (READ_BACK_MAX / step).max(1);
        while self.read_to < self.content_len() && self.awaited < pieces_max {
            let offset = self.read_to;
            self.read_to = (offset + step).min(self.content_len());
            self.read(offset, self.read_to, asker)?;
        }
        Ok(())
    }

    fn read(
        &mut self,
        start: usize,
        end: usize,
        asker: &mut Asker<'_>,
    ) -> Result<(), SessionError> {
        let (offset, len) = (start as u64, (end - start) as u32);
        let read = Request::Read { handle: self.handle(), offset, len };
        asker.send(READ + offset, &read, Payload::NONE)?;
        self.awaited += 1;
        Ok(())
    }

    /// Takes an answer; asks for more where it is a part of what was asked for.
    pub(super) fn take(
        &mut self,
        part: u64,
        answer: Result<Answer, Cause>,
        client: &Client,
        asker: &mut Asker<'_>,
    ) -> Result<(), SessionError> {
        self.awaited -= 1;
        match (part, answer) {
            (OPEN, Ok(Answer::Handle(handle))) => self.handle = Some(handle),
            (STAT, Ok(Answer::Attrs(Attrs { size: Some(found), .. })))
                if found != self.content_len() as u64 =>
            {
                self.fail("write", Cause::Length { written: self.content_len() as u64, found });
            }
            (STAT, Ok(Answer::Attrs(found))) => self.found = Some(found),
            (ATTRS, Err(cause)) if cause.is_refusal() => self.refused = Some(cause),
            (LOOK, Ok(Answer::Attrs(_))) => self.is_taken = true,
            // That it is free, or can't be looked at, the rename will show.
            (LOOK, Err(Cause::Status(_))) => {}
            (NAME, answer) => {
                let named = self
                    .naming
                    .as_mut()
                    .map(|naming| naming.take(answer, &names(&self.put), client));
                match named.flatten() {
                    Some(Ok(())) => self.is_named = true,
                    Some(Err((operation, cause))) => self.fail(operation, cause),
                    None => {}
                }
            }
            // It failed already, and that is told.
            (REMOVE, _) => {}
            (READ.., answer) => {
                let offset = (part - READ) as usize;
                return self.compare(offset, answer, client, asker);
            }
            (_, Ok(_)) => {}
            (OPEN, Err(cause)) if self.step == Step::Reopen => self.fail("read back", cause),
            (part, Err(cause)) => self.fail(operation(part), cause),
        }
        Ok(())
    }

    fn compare(
        &mut self,
        offset: usize,
        answer: Result<Answer, Cause>,
        client: &Client,
        asker: &mut Asker<'_>,
    ) -> Result<(), SessionError> {
        let mut read_end = offset;
        match answer {
            Ok(Answer::Data { buffer, len }) => {
                let bytes = asker.port.content(buffer, len);
                read_end += len;
                if self.put.content.as_ref().get(offset..read_end) != Some(&*bytes) {
                    self.fail("verify", Cause::Differs);
                }
            }
            Ok(_) => {}
            Err(Cause::Status(status)) if status.code == StatusCode::Eof => {
                self.fail("verify", Cause::Differs);
            }
            Err(cause) => self.fail("read back", cause),
        }
        if self.failed.is_some() {
            return Ok(());
        }
        let step = client.read_len();
        let piece_end = ((offset / step + 1) * step).min(self.content_len());
        if read_end < piece_end {
            self.read(read_end, piece_end, asker)?;
        }
        self.read_on(client, asker)
    }

    /// Goes to the next step, all that was asked for being answered; `false` if
    /// there is none.
    pub(super) fn advance(&mut self) -> bool {
        if self.failed.is_none() && self.step == Step::Fill && self.is_taken {
            self.fail("write", Cause::Taken);
        }
        let is_set_elsewhere = self.step == Step::Fill && self.refused.is_some();
        if self.failed.is_none() && !is_set_elsewhere {
            self.judge_attributes();
        }
        let next = if self.failed.is_some() { self.next_of_failed() } else { self.next() };
        if let Some(step) = next {
            self.step = step;
        }
        next.is_some()
    }

    /// Puts down which of its attributes the server has not taken.
    fn judge_attributes(&mut self) {
        let found = self.found.take();
        if let Some(cause) = self.refused.take() {
            self.has_lost_attributes = true;
            if self.put.needs_attributes {
                self.fail("set the attributes of", cause);
            }
        } else if found.is_some_and(|found| !self.put.times.are_kept_as(&found)) {
            self.has_lost_time = true;
            if self.put.needs_attributes {
                self.fail("set the time of", Cause::Time);
            }
        }
    }

    fn next(&self) -> Option<Step> {
        match self.step {
            Step::Open => Some(Step::Fill),
            Step::Fill if self.refused.is_some() => Some(Step::SetByPath),
            Step::Fill | Step::SetByPath if self.put.verify && self.content_len() > 0 => {
                Some(Step::Reopen)
            }
            Step::Reopen => Some(Step::ReadBack),
            Step::Fill | Step::SetByPath | Step::ReadBack if self.has_late_mode() => {
                Some(Step::LateMode)
            }
            Step::Fill | Step::SetByPath | Step::ReadBack | Step::LateMode => Some(Step::Name),
            Step::Name if !self.is_named => Some(Step::Name),
            Step::Name | Step::Close | Step::Remove => None,
        }
    }

    fn next_of_failed(&self) -> Option<Step> {
        match self.step {
            // Nothing was made, or it must stay, or it is gone.
            Step::Open | Step::Remove => None,
            _ if self.must_stay() => None,
            _ if self.handle.is_some() => Some(Step::Close),
            _ => Some(Step::Remove),
        }
    }

    /// True if the existing file lacks its name.
    fn must_stay(&self) -> bool {
        matches!(self.failed, Some(SftpError { cause: Cause::OnlyStaged(_), .. }))
    }

    fn handle(&self) -> &[u8] {
        self.handle.as_deref().unwrap_or_default()
    }
}

impl<C> Job<C> {
    /// Has it removed, behind what was asked for it before. One that has got its
    /// name by then is not found under its private one.
    pub(super) fn give_up(&self, port: &Port) -> Result<(), SessionError> {
        if let Some(handle) = &self.handle {
            port.tell(&Request::Close { handle })?;
        }
        match &self.naming {
            Some(naming) => naming.give_up(&names(&self.put), port),
            None => port.tell(&Request::Remove { path: &self.put.stage }),
        }
    }
}

fn names<C>(put: &Put<C>) -> Names<'_> {
    Names { stage: &put.stage, path: &put.path, existing: &put.existing }
}

fn operation(part: u64) -> &'static str {
    match part {
        OPEN => "make",
        SYNC => "make durable",
        ATTRS => "set the attributes of",
        STAT => "read the metadata of",
        CLOSE => "close",
        _ => "write",
    }
}

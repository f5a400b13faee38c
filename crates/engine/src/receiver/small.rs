//! Small files through a host's SFTP server: one thread for each session has
//! many of them on their way, so that none costs a round trip of its own.

use super::dirs::{DirState, RecvDir};
use super::hold::Filling;
use super::{Pending, Receiver, Work, work};
use crate::link::SourceHandle;
use haul_model::{ContentHash, Fault, FaultKind, Kind, Outcome, Side, Timestamp};
use haul_proto::PACK_FILE_MAX;
use haul_sftp::{Cause, Client, Extension, Get, Gets, Got, Put, Puts, SftpError};
use haul_store::Verified;
use haul_tree::Share;
use haul_tree::sftp::{SftpHost, times_of};
use haul_tree::{KEPT_MODE, check_size, check_unchanged};
use std::collections::HashMap;
use std::sync::Arc;

/// Files up to this length, in bytes, go together.
pub(crate) const SMALL_MAX: u64 = PACK_FILE_MAX;

/// What a small file takes of the budget besides its content, in bytes.
const AROUND_LEN: usize = 4 << 10;

/// A small file that has arrived.
pub(crate) struct Fetched {
    index: u64,
    content: Vec<u8>,
    /// Its length as the server tells it, in bytes.
    size: u64,
    mtime: Timestamp,
    _share: Share,
}

/// Sends small files to the server of `host`, through `client`, until there is
/// nothing left to come, or the job ends.
pub(crate) fn run_puts(
    receiver: &Receiver<'_>,
    files: &crossbeam_channel::Receiver<SourceHandle>,
    host: &Arc<SftpHost>,
    client: &Client,
) {
    let mut uploads = Uploads {
        receiver,
        host,
        puts: Puts::new(client),
        sent: HashMap::new(),
        can_sync: client.has(Extension::Fsync),
    };
    while !receiver.control.stopped() {
        while let Ok(file) = files.try_recv() {
            uploads.begin(&file);
            // More may come without end: what is done is told meanwhile.
            while let Some((index, result)) = uploads.puts.take_done() {
                uploads.end(index, result);
            }
        }
        match uploads.puts.next_done() {
            Some((index, result)) => uploads.end(index, result),
            None => match files.recv() {
                Ok(file) => uploads.begin(&file),
                Err(_) => break,
            },
        }
    }
    let has_stages = uploads.puts.pending() > 0;
    drop(uploads);
    if has_stages {
        // A server answers in order: what is on its way there is removed then. If
        // the session ends before, the stages stay.
        let _ = client.lstat(b".");
    }
}

/// Small files on their way to the server.
struct Uploads<'r, 'a> {
    receiver: &'r Receiver<'a>,
    host: &'r Arc<SftpHost>,
    puts: Puts<Vec<u8>>,
    sent: HashMap<u64, (Pending, SourceHandle)>,
    can_sync: bool,
}

impl Uploads<'_, '_> {
    fn begin(&mut self, file: &SourceHandle) {
        if self.receiver.control.stopped() {
            return;
        }
        let Some(mut pending) = self.receiver.claim(file.index) else { return };
        match self.put(&mut pending, file) {
            Ok(Some(put)) => {
                self.sent.insert(file.index, (pending, file.clone()));
                self.puts.push(put);
            }
            // It has grown.
            Ok(None) => {
                self.receiver.put_back(pending);
                self.receiver.give(Work::Files(vec![file.clone()]));
            }
            Err(_) if self.receiver.control.stopped() => {}
            Err(fault) => self.tell(pending, 0, Outcome::Failed(fault)),
        }
    }

    /// Reads a file; `None` if it is not small.
    fn put(
        &self,
        pending: &mut Pending,
        file: &SourceHandle,
    ) -> Result<Option<Put<Vec<u8>>>, Fault> {
        let source = file.dir.handle().and_then(|dir| dir.open_file(&file.name, file.follow));
        let source = source.map_err(|error| Fault::from_io(Side::Source, "open", &error))?;
        let seal = source.seal();
        if seal.size > SMALL_MAX {
            return Ok(None);
        }
        if seal.size == 0 {
            check_size(&*source)?;
        }
        let mut content = vec![0; seal.size as usize];
        let read = source.read_at(&mut content, 0);
        let read = read.map_err(|error| Fault::from_io(Side::Source, "read", &error))?;
        content.truncate(read);
        check_unchanged(&*source)?;
        let DirState::Open(node) = &pending.dir.state else { return Err(super::parent_fault()) };
        let dir = node.handle().map_err(|error| {
            Fault::from_io(Side::Destination, "create a file in the directory", &error)
        })?;
        // What is wrong is told of the directory.
        dir.ready().map_err(|_| super::parent_fault())?;
        let remote = dir.remote().expect("files are put where the destination is far");
        pending.entry.kind = Kind::File { size: seal.size };
        let policy = &self.receiver.policy;
        Ok(Some(Put {
            key: pending.index,
            stage: remote.path_of(self.host.stage_name().as_bytes()),
            path: remote.path_of(pending.name.as_bytes()),
            content,
            mode: pending.entry.mode & KEPT_MODE,
            times: times_of(seal.mtime),
            existing: self.host.existing(remote.path(), &pending.name, pending.placement),
            sync: policy.sync && self.can_sync,
            verify: policy.verify,
        }))
    }

    fn end(&mut self, index: u64, result: Result<(), SftpError>) {
        let Some((pending, file)) = self.sent.remove(&index) else { return };
        let size = pending.entry.size();
        let outcome = match result {
            Ok(()) => {
                self.receiver.reporter.transferred(size);
                Outcome::Copied
            }
            Err(SftpError { cause: Cause::Taken, .. }) => {
                // A worker finds out by whom; that takes asking.
                self.receiver.put_back(pending);
                return self.receiver.give(Work::Files(vec![file]));
            }
            Err(error) => match self.fault(&pending.dir, error) {
                Some(fault) => Outcome::Failed(fault),
                None => return,
            },
        };
        let moved = if outcome == Outcome::Copied { size } else { 0 };
        self.tell(pending, moved, outcome);
    }

    /// What is wrong with a file, unless it is the session.
    fn fault(&self, dir: &RecvDir, error: SftpError) -> Option<Fault> {
        if matches!(error.cause, Cause::Differs | Cause::Length { .. }) {
            let message = error.cause.to_string();
            return Some(Fault::new(Side::Destination, FaultKind::Corrupt, message));
        }
        let operation = error.operation;
        let dir = match &dir.state {
            DirState::Open(node) => node.handle().ok(),
            _ => None,
        };
        let dir = dir.as_ref().and_then(|dir| dir.remote()).map(|dir| dir.path_of(b"."));
        let error = self.host.wrote::<()>(&dir.unwrap_or_default(), Err(error)).err()?;
        (!self.receiver.control.stopped())
            .then(|| Fault::from_io(Side::Destination, &format!("{operation} the file"), &error))
    }

    fn tell(&self, pending: Pending, moved: u64, outcome: Outcome) {
        work::tell(self.receiver, vec![(pending, moved, outcome)]);
    }
}

/// Gets small files from the server of `host`, through `client`, and hands them
/// to the workers, until there is nothing left to come, or the job ends.
pub(crate) fn run_gets(
    receiver: &Receiver<'_>,
    files: &crossbeam_channel::Receiver<SourceHandle>,
    host: &Arc<SftpHost>,
    client: &Client,
) {
    let mut downloads =
        Downloads { receiver, host, gets: Gets::new(client), asked: HashMap::new() };
    let mut next = None;
    while !receiver.control.stopped() {
        while let Some(file) = next.take().or_else(|| files.try_recv().ok()) {
            next = downloads.begin(file);
            while let Some((index, result)) = downloads.gets.take_done() {
                downloads.end(index, result);
            }
            if next.is_some() || receiver.control.stopped() {
                break;
            }
        }
        match downloads.gets.next_done() {
            Some((index, result)) => downloads.end(index, result),
            None => match files.recv() {
                Ok(file) => next = Some(file),
                Err(_) => return,
            },
        }
    }
}

/// Small files on their way from the server.
struct Downloads<'r, 'a> {
    receiver: &'r Receiver<'a>,
    host: &'r Arc<SftpHost>,
    gets: Gets,
    asked: HashMap<u64, (SourceHandle, Share)>,
}

impl Downloads<'_, '_> {
    /// Asks for a file; gives it back if there is no room for it now. Leaves it
    /// if the job ends while it waits for room.
    fn begin(&mut self, file: SourceHandle) -> Option<SourceHandle> {
        let dir = match file.dir.handle() {
            Ok(dir) => dir,
            // The worker tells what is wrong.
            Err(_) => {
                self.receiver.give(Work::Files(vec![file]));
                return None;
            }
        };
        let remote = dir.remote().expect("files are got where the source is far");
        let len = file.size as usize + AROUND_LEN;
        let share = match self.host.small.try_take(len) {
            Some(share) => share,
            None if self.gets.pending() > 0 => return Some(file),
            // Nothing here stands in the way of those who have it. When the job
            // ends early nobody takes what they have: it does not come back.
            None => self.host.small.take_unless(len, || self.receiver.control.stopped())?,
        };
        let path = remote.path_of(file.name.as_bytes());
        // One byte of what is empty: it may not tell how long it is.
        let len = file.size.max(1) as u32;
        self.gets.push(Get { key: file.index, path, len });
        self.asked.insert(file.index, (file, share));
        None
    }

    fn end(&mut self, index: u64, result: Result<Got, SftpError>) {
        let Some((file, share)) = self.asked.remove(&index) else { return };
        match result {
            Ok(got) if is_listed(&got, &file) => {
                let secs = got.after.times.map_or(0, |times| times.modified).into();
                let mtime = Timestamp { secs, nanos: 0 };
                let (content, size) = (got.content, file.size);
                let fetched = Fetched { index, content, size, mtime, _share: share };
                self.receiver.give(Work::Content(fetched));
            }
            // It is not what was listed, or something is wrong: a worker opens
            // it anew, and tells.
            Ok(_) => self.receiver.give(Work::Files(vec![file])),
            Err(error) => {
                self.host.look_at(&error);
                self.receiver.give(Work::Files(vec![file]));
            }
        }
    }
}

/// Whether all of the file is there that was listed, and it has not changed while
/// it was read.
fn is_listed(got: &Got, file: &SourceHandle) -> bool {
    let size = got.content.len() as u64;
    size == file.size
        && [&got.before, &got.after].iter().all(|attrs| attrs.size == Some(size))
        && got.before.times.map(|times| times.modified)
            == got.after.times.map(|times| times.modified)
}

impl Receiver<'_> {
    /// Publishes a small file that has arrived.
    pub(super) fn take_fetched(&self, fetched: Fetched) {
        if self.control.stopped() {
            return;
        }
        let Fetched { index, content, size, mtime, _share } = fetched;
        let Some(mut pending) = self.claim(index) else { return };
        let len = content.len() as u64;
        let written = (|| {
            let stage = pending.stage()?;
            let written = stage.write_at(&content, 0);
            written.map_err(|error| Fault::from_io(Side::Destination, "write", &error))?;
            let proof = Verified::by_local_copy(size, len);
            let proof = proof.map_err(|_| haul_tree::changed())?;
            let hash = self.policy.verify.then(|| ContentHash::of(&content));
            pending.entry.kind = Kind::File { size: len };
            pending.seal(stage, proof, mtime, hash, Filling::Dense)
        })();
        if written.is_ok() {
            self.reporter.transferred(len);
        }
        let moved = if written.is_ok() { len } else { 0 };
        work::tell(self, self.conclude(pending, moved, written).into_iter().collect());
    }

    /// A file that was claimed is left to somebody else.
    fn put_back(&self, pending: Pending) {
        haul_tree::lock(&self.wanted).insert(pending.index, Box::new(pending));
    }
}

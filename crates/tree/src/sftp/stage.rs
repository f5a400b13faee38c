//! A file being uploaded to a host. It has a private name in its final directory, and is renamed
//! once the server has confirmed all of it.
//!
//! 1. The journal is on this machine. The server has confirmed each block in it as written, and
//!    each committed block as durable. 2. A stage is continued only if its last block, read back
//!    from the server, matches the journal.

use super::attrs::attrs_for;
use super::dir::PRIVATE_FILE_MODE;
use super::host::must_stay;
use super::source::{SftpSource, branch, in_each};
use super::{SftpHost, join};
use crate::parallel::run_both;
use crate::{MoveError, SealedFile, SourceFile, StagedFile};
use haul_model::{Attributes, BLOCK_LEN, BlockHash, Kept, Name};
use haul_sftp::{
    Attrs, AttrsSet, Cause, Extension, FileType, OpenFlags, RangeWriter, RemoteFile, SftpError,
    StatusCode, Stored,
};
use haul_store::{OnExisting, Pace, Proof, Publication, RemoteJournal, RemotePart};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How often a writing thread looks for a free session while more may join.
const LANE_POLL: Duration = Duration::from_millis(2);

/// A file that is being written.
pub(super) struct SftpStage {
    /// One per session. They are dropped before the file of the first session, so that it is closed
    /// then.
    lanes: Vec<Mutex<Lane>>,
    open: Open,
    record: Option<Mutex<Record>>,
    /// Its final length, if it was set.
    len: Mutex<Option<u64>>,
    /// The end of the written content, in bytes.
    written: AtomicU64,
    /// The file stays open when it is sealed.
    stays_open: AtomicBool,
    /// The file open for reading back, once needed after it was sealed.
    reading: OnceLock<SftpSource>,
}

/// The file in one session.
enum Lane {
    /// The session has not joined, or no block was written through it.
    Unopened,
    Open(RangeWriter),
    /// The session is not used for this file.
    Refused,
}

impl Lane {
    fn of(file: Option<&RemoteFile>) -> Self {
        file.map_or(Self::Refused, |file| Self::Open(file.writer()))
    }

    fn writer(&mut self) -> Option<&mut RangeWriter> {
        match self {
            Self::Open(writer) => Some(writer),
            Self::Unopened | Self::Refused => None,
        }
    }

    /// Opens the file in session `number`, if that has joined. Returns true if it may still join.
    fn open(&mut self, number: usize, stage: &Open) -> io::Result<bool> {
        let sessions = &stage.host.sessions;
        if !matches!(self, Self::Unopened) {
            return Ok(false);
        }
        let Some(client) = sessions.joined().nth(number) else {
            return Ok(sessions.expects_more());
        };
        let opened = client.open_and_stat(&stage.path, OpenFlags::Write);
        *self = Self::of(branch(&stage.host, opened, None)?.as_ref());
        Ok(false)
    }
}

/// The journal of a stage that can be continued.
struct Record {
    journal: RemoteJournal,
    /// Written blocks that the server has not confirmed yet.
    sent: VecDeque<BlockHash>,
    pace: Pace,
    checked_at: Instant,
    keeps_durable: bool,
}

impl SftpHost {
    /// Creates a file in the directory `dir`, under the private name `name`.
    ///
    /// # Errors
    /// Errors of creating it. The server may have created it all the same.
    pub fn stage(self: &Arc<Self>, dir: &[u8], name: &str) -> io::Result<Box<dyn StagedFile>> {
        let open = Open::create(self, dir, join(dir, name.as_bytes()))?;
        Ok(Box::new(SftpStage::of(open, None)))
    }
}

impl SftpStage {
    /// Creates or continues the copy `part` in `dir`, of a source of `size` bytes.
    pub(super) fn resume(
        host: &Arc<SftpHost>,
        dir: &[u8],
        part: &RemotePart,
        size: u64,
    ) -> io::Result<(Self, Vec<BlockHash>)> {
        let keeps_durable = host.client().has(Extension::Fsync);
        let (mut journal, mut blocks) = part.open(keeps_durable)?;
        let path = join(dir, part.stage.as_bytes());
        let there = match blocks.is_empty() {
            true => None,
            false => Open::existing(host, dir, path.clone())?,
        };
        let mut open = match there {
            // Content after the last recorded block may be wrong.
            Some(open)
                if open.matches_last(&blocks)?
                    && open.truncate(blocks.len() as u64 * BLOCK_LEN)? =>
            {
                open
            }
            there => {
                if !blocks.is_empty() {
                    blocks.clear();
                    journal.restart()?;
                }
                // A damaged or unrelated file is removed.
                drop(there);
                let create = || Open::create(host, dir, path.clone());
                let (room, created) = run_both(|| check_free_space(host, dir, size), create);
                room?;
                created.or_else(|error| {
                    // An unknown file has the name.
                    let gone = host.client().remove_file(&path);
                    gone.map_err(|_| error)?;
                    create()
                })?
            }
        };
        open.keep = true;
        let (sent, pace, checked_at) = (VecDeque::new(), Pace::default(), Instant::now());
        let record = Record { journal, sent, pace, checked_at, keeps_durable };
        let stage = Self::of(open, Some(record));
        // The file may end with a hole, which is not written.
        *stage.len.lock() = Some(size);
        stage.written.store(blocks.len() as u64 * BLOCK_LEN, Ordering::Relaxed);
        Ok((stage, blocks))
    }

    fn of(open: Open, record: Option<Record>) -> Self {
        let first = Lane::of(open.file.as_ref());
        let others = (1..open.host.sessions.max()).map(|_| Lane::Unopened);
        let lanes = std::iter::once(first).chain(others).map(Mutex::new).collect();
        Self {
            open,
            lanes,
            record: record.map(Mutex::new),
            len: Mutex::default(),
            written: AtomicU64::new(0),
            stays_open: AtomicBool::new(false),
            reading: OnceLock::new(),
        }
    }

    /// Records that content up to `end` is being written.
    fn record_written_end(&self, end: u64) {
        self.written.fetch_max(end, Ordering::Relaxed);
    }

    /// Writes content at `offset` through an open session that no other thread is using, so that a
    /// slow session delays no other. Each block prefers the session after that of the block before.
    fn write(
        &self,
        offset: u64,
        write: impl FnOnce(&mut RangeWriter) -> Result<(), SftpError>,
    ) -> io::Result<()> {
        let count = self.lanes.len();
        let preferred = (offset / BLOCK_LEN % count as u64) as usize;
        loop {
            let mut more = false;
            for number in (preferred..count).chain(0..preferred) {
                let Some(mut lane) = self.lanes[number].try_lock() else { continue };
                more |= lane.open(number, &self.open)?;
                if let Some(writer) = lane.writer() {
                    return self.open.written(write(writer));
                }
            }
            if !more {
                break;
            }
            // This ends with the job at the latest, when no more sessions join.
            std::thread::sleep(LANE_POLL);
        }
        // The first session was open from the beginning.
        let mut lane = self.lanes[preferred].lock();
        if lane.writer().is_none() {
            lane = self.lanes[0].lock();
        }
        let writer = lane.writer().ok_or(io::ErrorKind::NotConnected)?;
        self.open.written(write(writer))
    }

    /// Waits until the server has confirmed all writes.
    fn drain(&self) -> io::Result<()> {
        self.drain_from(0)
    }

    /// Like [`Self::drain`], for the sessions from number `first` on.
    fn drain_from(&self, first: usize) -> io::Result<()> {
        for lane in &self.lanes[first..] {
            if let Some(writer) = lane.lock().writer() {
                self.open.written(writer.drain())?;
            }
        }
        Ok(())
    }

    /// The offset up to which the server has confirmed all content, in bytes.
    fn confirmed(&self) -> u64 {
        let first = |lane: &Mutex<Lane>| lane.lock().writer()?.first_unconfirmed();
        self.lanes.iter().filter_map(first).min().unwrap_or(u64::MAX)
    }

    /// Appends confirmed blocks to the journal. Commits them if that is due, or `at_once`.
    fn update_journal(&self, record: &mut Record, at_once: bool) -> io::Result<()> {
        let confirmed = self.confirmed();
        while !record.sent.is_empty() && (record.journal.blocks() + 1) * BLOCK_LEN <= confirmed {
            let block = record.sent.pop_front().expect("just seen");
            record.journal.append(block)?;
        }
        let open = record.journal.blocks() - record.journal.committed();
        let Pace { blocks, every } = record.pace;
        let due = open >= blocks && record.checked_at.elapsed() >= every;
        // A closed file is complete and only lacks its final name.
        let Some(file) = &self.open.file else { return Ok(()) };
        if record.keeps_durable && open > 0 && (due || at_once) {
            // Each session's server process has opened the same file. A sync in one makes the
            // writes of all durable.
            record.journal.commit(|| self.open.host.io(file.sync()))?;
            record.checked_at = Instant::now();
        }
        Ok(())
    }
}

impl StagedFile for SftpStage {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.record_written_end(offset + bytes.len() as u64);
        self.write(offset, |writer| writer.write_at(bytes, offset))
    }

    fn write_from(&self, source: &File, range: Range<u64>) -> Option<Result<(), MoveError>> {
        self.record_written_end(range.end);
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / BLOCK_LEN + 1) * BLOCK_LEN);
            let mut source_error = None;
            let written = self.write(at, |writer| {
                writer.write_from(source, at..end).inspect_err(|error| {
                    source_error = error.source_error().map(|error| error.kind());
                })
            });
            match (written, source_error) {
                (Ok(()), _) => at = end,
                (Err(_), Some(kind)) => return Some(Err(MoveError::Read(kind.into()))),
                (Err(error), None) => return Some(Err(MoveError::Written(error))),
            }
        }
        Some(Ok(()))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        *self.len.lock() = Some(len);
        Ok(())
    }

    /// One thread keeps one session busy. Servers in front of an object store may need a file to be
    /// written in order.
    fn lanes(&self) -> Option<usize> {
        Some(self.lanes.len())
    }

    fn expect_sync(&self) {
        // If the server can't sync, the file need not stay open.
        let can_sync = self.open.host.client().has(Extension::Fsync);
        self.stays_open.store(can_sync, Ordering::Relaxed);
    }

    fn record(&self, block: BlockHash) -> io::Result<()> {
        let Some(record) = &self.record else { return Ok(()) };
        let mut record = record.lock();
        record.sent.push_back(block);
        self.update_journal(&mut record, false)
    }

    fn discard(mut self: Box<Self>) {
        self.give_up();
    }

    fn seal(
        mut self: Box<Self>,
        _proof: Proof,
        attributes: &Attributes,
        kept: Kept,
    ) -> io::Result<Box<dyn SealedFile>> {
        let host = Arc::clone(&self.open.host);
        let written = self.written.load(Ordering::Relaxed);
        // A file that ends with a hole must be extended to its length.
        let size = self.len.lock().filter(|len| *len > written);
        let attrs = Attrs { size, ..attrs_for(attributes, kept) };
        let stays_open = host.keeps_open || *self.stays_open.get_mut();
        let found = if stays_open {
            // Content sent through the other sessions must arrive first.
            self.drain_from(1)?;
            self.open.file()?.set_and_stat(attrs).map(|set| vec![set])
        } else {
            // The file is closed with its last writes still unanswered. A server handles the
            // requests of one session about a file in order. So the last session to close sets the
            // final attributes, and sees all content.
            let first = self.open.file.take().ok_or(io::ErrorKind::NotConnected)?;
            in_each(first, self.others(), |file| file.set_stat_and_close(attrs))
        };
        // Some servers report a failed write only when the file is closed.
        if matches!(&found, Err(error) if error.session().is_none()) && !stays_open {
            self.give_up();
        }
        let found = host.check_write(&self.open.dir, found);
        self.drain()?;
        let found = self.set_by_path(found?, attrs)?;
        let len = found.iter().filter_map(|found| found.size).max();
        if len.is_some_and(|len| len != size.unwrap_or(written)) {
            return Err(io::Error::other("the server reports another length than was written"));
        }
        // One session may have reported its attributes before another wrote.
        let is_kept = |found: &Attrs| attrs.times.is_none_or(|times| times.are_kept_as(found));
        if !host.results.has_lost_attributes() && !found.iter().any(is_kept) {
            host.results.record(Stored { has_lost_time: true, ..Stored::default() });
            if host.needs_times {
                self.give_up();
                return Err(io::Error::new(io::ErrorKind::Unsupported, Cause::Time.to_string()));
            }
        }
        Ok(self)
    }
}

impl SftpStage {
    /// The attributes of the file after `attrs` were `set`. If the server refused that through the
    /// handle, they are set again by path.
    fn set_by_path(&mut self, set: Vec<AttrsSet>, attrs: Attrs) -> io::Result<Vec<Attrs>> {
        if set.iter().all(|set| set.refused.is_none()) {
            return Ok(set.into_iter().map(|set| set.found).collect());
        }
        let (host, path) = (&self.open.host, &self.open.path);
        match host.client().set_attrs(path, attrs) {
            Err(error) if error.is_refusal() && !host.needs_times => {
                host.results.record(Stored { has_lost_attributes: true, ..Stored::default() })
            }
            Err(error) => {
                let error = host.io(Err(error));
                self.give_up();
                return error;
            }
            Ok(()) => {}
        }
        Ok(vec![host.io(host.client().lstat(path))?])
    }

    /// The file in the sessions other than the first where it was opened. For closing: no more is
    /// written there.
    fn others(&self) -> Vec<RemoteFile> {
        let file = |lane: &Mutex<Lane>| Some(lane.lock().writer()?.file().clone());
        self.lanes.iter().skip(1).filter_map(file).collect()
    }

    /// Closes the file in all sessions, unless it is closed already.
    fn close(&mut self) -> io::Result<()> {
        let Some(first) = self.open.file.take() else { return Ok(()) };
        let others = self.others();
        self.lanes.clear();
        let closed = in_each(first, others, RemoteFile::close);
        self.open.host.check_write(&self.open.dir, closed).map(drop)
    }

    /// Opens the file for reading: a handle is for reading or for writing.
    fn reading(&self) -> io::Result<&SftpSource> {
        if let Some(reading) = self.reading.get() {
            return Ok(reading);
        }
        let Open { host, path, .. } = &self.open;
        let opened = SftpSource::open(host, path, true)?;
        Ok(self.reading.get_or_init(|| opened))
    }

    fn give_up(&mut self) {
        self.open.keep = false;
        if let Some(record) = &self.record {
            record.lock().journal.forget();
        }
    }
}

impl Drop for SftpStage {
    fn drop(&mut self) {
        let Some(record) = &self.record else { return };
        let mut record = record.lock();
        if self.open.keep {
            // A failure does not matter: the recorded blocks are confirmed.
            let _ = self.drain();
            let _ = self.update_journal(&mut record, true);
            // If the host can sync, only committed blocks are used the next time.
            let kept = match record.keeps_durable {
                true => record.journal.committed(),
                false => record.journal.blocks(),
            };
            self.open.host.results.keeps(kept * BLOCK_LEN);
        }
        if record.journal.blocks() == 0 {
            self.open.keep = false;
        }
    }
}

/// Once it is complete and only lacks its final name.
impl SealedFile for SftpStage {
    fn sync(&self) -> io::Result<()> {
        let Open { host, path, file, .. } = &self.open;
        // If sync is not supported, the start of the job has reported it.
        if !host.client().has(Extension::Fsync) {
            return Ok(());
        }
        host.io(match file {
            Some(file) => file.sync(),
            // The file was closed, since `StagedFile::expect_sync` was not called.
            None => host.client().open(path, OpenFlags::Write, None).and_then(|file| {
                file.sync()?;
                file.close()
            }),
        })
    }

    fn stream(
        &self,
        range: Range<u64>,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Option<io::Result<()>> {
        let mut stream = match self.reading() {
            Ok(reading) => reading.stream(range)?,
            Err(error) => return Some(Err(error)),
        };
        loop {
            match stream.next() {
                Ok(Some(piece)) if take(&piece) => {}
                read => return Some(read.map(drop)),
            }
        }
    }

    fn discard(mut self: Box<Self>) {
        self.give_up();
    }

    fn publish(&mut self, name: &Name, on_existing: OnExisting) -> io::Result<Publication> {
        // Some servers report a failed write only when the file is closed.
        if let Err(error) = self.close() {
            self.give_up();
            return Err(error);
        }
        let open = &mut self.open;
        let published = open.host.publish(&open.path, &open.dir, name, on_existing);
        match &published {
            Ok(Publication::Published) => {
                open.is_published = true;
                self.give_up();
            }
            // The caller may publish it again.
            Ok(Publication::Kept) => {}
            Err(error) => open.keep |= must_stay(error),
        }
        published
    }
}

/// The stage's file on the server. If it is dropped before it is published, it is removed, unless
/// it can be continued.
struct Open {
    host: Arc<SftpHost>,
    dir: Vec<u8>,
    path: Vec<u8>,
    /// The file in the first session, until it is closed.
    file: Option<RemoteFile>,
    keep: bool,
    is_published: bool,
}

impl Open {
    fn create(host: &Arc<SftpHost>, dir: &[u8], path: Vec<u8>) -> io::Result<Self> {
        let file = host.client().open(&path, OpenFlags::CreateNew, Some(PRIVATE_FILE_MODE));
        Ok(Self::of(host, dir, path, host.check_write(dir, file)?))
    }

    /// Opens the stage that an earlier copy left, which may have its final mode already.
    fn existing(host: &Arc<SftpHost>, dir: &[u8], path: Vec<u8>) -> io::Result<Option<Self>> {
        let client = host.client();
        let attrs = match client.lstat(&path) {
            Err(error) if error.status() == Some(StatusCode::NoSuchFile) => return Ok(None),
            attrs => host.io(attrs)?,
        };
        let is_file = attrs.file_type() == Some(FileType::File);
        if !is_file {
            return Err(io::Error::other("the partial file is not a regular file"));
        }
        let file = match client.open(&path, OpenFlags::Write, None) {
            Err(error) if error.status() == Some(StatusCode::PermissionDenied) => {
                host.io(client.set_attrs(&path, Attrs::with_mode(PRIVATE_FILE_MODE)))?;
                client.open(&path, OpenFlags::Write, None)
            }
            opened => opened,
        };
        Ok(Some(Self::of(host, dir, path, host.io(file)?)))
    }

    /// The file in the first session.
    fn file(&self) -> io::Result<&RemoteFile> {
        self.file.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Truncates or extends the file. Returns false if the server refuses that.
    fn truncate(&self, len: u64) -> io::Result<bool> {
        let attrs = Attrs { size: Some(len), ..Attrs::default() };
        match self.file()?.set_attrs(attrs) {
            Err(error) if error.is_refusal() => Ok(false),
            truncate => self.host.io(truncate).map(|()| true),
        }
    }

    fn of(host: &Arc<SftpHost>, dir: &[u8], path: Vec<u8>, file: RemoteFile) -> Self {
        let (host, dir, file) = (Arc::clone(host), dir.to_vec(), Some(file));
        Self { host, dir, path, file, keep: false, is_published: false }
    }

    /// True if the server's content matches the last of `blocks`.
    fn matches_last(&self, blocks: &[BlockHash]) -> io::Result<bool> {
        let Some((last, before)) = blocks.split_last() else { return Ok(false) };
        let index = before.len() as u64;
        let mut block = vec![0; BLOCK_LEN as usize];
        let file = self.host.io(self.host.client().open(&self.path, OpenFlags::Read, None))?;
        let read = self.host.io(file.read_at(&mut block, index * BLOCK_LEN))?;
        Ok(read == block.len() && BlockHash::of(index, &block) == *last)
    }

    /// The result of a write.
    fn written<T>(&self, result: Result<T, SftpError>) -> io::Result<T> {
        self.host.check_write(&self.dir, result)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Some servers recreate a file that is removed before it is closed.
        self.file = None;
        if !self.keep && !self.is_published {
            // If the session has ended, the file stays.
            let _ = self.host.client().remove_file(&self.path);
        }
    }
}

/// Checks that a file of `len` bytes fits, if the server reports the free space.
fn check_free_space(host: &SftpHost, dir: &[u8], len: u64) -> io::Result<()> {
    match host.free_space(dir) {
        Some(free_space) if free_space.bytes < len => {
            Err(io::Error::new(io::ErrorKind::StorageFull, "not enough space on the host"))
        }
        _ => Ok(()),
    }
}

//! A file on its way to a host: staged under a private name in its final directory, and
//! renamed when the server has confirmed all of it.
//!
//! 1. The journal is on this machine. The server has confirmed each block in it as written,
//!    and each committed block as durable.
//! 2. A stage is continued only if its last block, read back from the server, is the one in
//!    the journal.

mod open;
mod sealed;

use super::attrs::attrs_for;
use super::branch::{branch, in_each};
use super::{SftpHost, join};
use crate::beside::both;
use crate::{NotMoved, SealedFile, StagedFile};
use haul_model::{Attributes, BLOCK_LEN, BlockHash, Kept};
use haul_sftp::{Attrs, AttrsSet, Cause, Extension, OpenFlags, RangeWriter, RemoteFile, SftpError};
use haul_store::{Pace, Proof, RemoteJournal, RemoteNames, SourceId};
use haul_sys::{Dir, Loss};
use open::{Open, check_room};
use parking_lot::Mutex;
use sealed::SftpSealed;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How often a thread that has to write looks for a session while more are to join.
const LANE_POLL: Duration = Duration::from_millis(2);

/// A file that is being written.
pub(super) struct SftpStage {
    /// One for each session. They are dropped before the file of the first session, so that
    /// it is closed then.
    lanes: Vec<Mutex<Lane>>,
    open: Open,
    record: Option<Mutex<Record>>,
    /// Its length when it is sealed, if that was set.
    len: Mutex<Option<u64>>,
    /// The end of the written content, in bytes.
    written: AtomicU64,
    /// It stays open when it is sealed.
    stays_open: AtomicBool,
}

/// The file in one session.
enum Lane {
    /// The session has not joined, or no block was written through it.
    Unopened,
    Open(RangeWriter),
    /// The job does without the session for this file.
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

    /// Opens the file in session `number`, if it has joined. True if it still may.
    fn open(&mut self, number: usize, stage: &Open) -> io::Result<bool> {
        let sessions = &stage.host.sessions;
        if !matches!(self, Self::Unopened) {
            return Ok(false);
        }
        let Some(client) = sessions.joined().nth(number) else { return Ok(sessions.are_coming()) };
        let opened = client.open_and_look(&stage.path, OpenFlags::Write);
        *self = Self::of(branch(&stage.host, opened, None)?.as_ref());
        Ok(false)
    }
}

/// The journal of a stage that can be continued.
struct Record {
    journal: RemoteJournal,
    /// Blocks whose writing the server has not confirmed yet.
    sent: VecDeque<BlockHash>,
    pace: Pace,
    checked_at: Instant,
    keeps_durable: bool,
}

impl SftpHost {
    /// Begins a file in the directory `dir`, under the private name `name`.
    ///
    /// # Errors
    /// Those of making it; the server may have made it all the same.
    pub fn stage(self: &Arc<Self>, dir: &[u8], name: &str) -> io::Result<Box<dyn StagedFile>> {
        let open = Open::create(self, dir, join(dir, name.as_bytes()))?;
        Ok(Box::new(SftpStage::of(open, None)))
    }
}

impl SftpStage {
    /// Begins or continues a file in `dir`, a copy of `source`, with these `names` among the
    /// journals.
    pub(super) fn resume(
        host: &Arc<SftpHost>,
        dir: &[u8],
        journals: &Arc<Dir>,
        names: &RemoteNames,
        source: &SourceId,
    ) -> io::Result<(Self, Vec<BlockHash>)> {
        let keeps_durable = host.client().has(Extension::Fsync);
        let (mut journal, mut blocks) =
            RemoteJournal::open(journals, names, source, keeps_durable)?;
        let path = join(dir, names.stage.as_bytes());
        let there = match blocks.is_empty() {
            true => None,
            false => Open::existing(host, dir, path.clone())?,
        };
        let mut open = match there {
            // What lies beyond the last block on record is not known to be right.
            Some(open)
                if open.has_last(&blocks)? && open.cut(blocks.len() as u64 * BLOCK_LEN)? =>
            {
                open
            }
            there => {
                if !blocks.is_empty() {
                    blocks.clear();
                    journal.restart(source)?;
                }
                // Damaged, or another's: it goes.
                drop(there);
                let create = || Open::create(host, dir, path.clone());
                let (room, created) = both(|| check_room(host, dir, source.size), create);
                room?;
                created.or_else(|error| {
                    // What nothing is known of has the name.
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
        // The end may be a hole, which nobody writes.
        *stage.len.lock() = Some(source.size);
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
        }
    }

    /// Content that ends at `end` is being written.
    fn wrote_to(&self, end: u64) {
        self.written.fetch_max(end, Ordering::Relaxed);
    }

    /// Writes content that begins at `offset` through a session that is ready and that no
    /// other thread uses, so that a slow session holds up no other. Each block prefers the
    /// session after that of the block before.
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
            // This ends with the job: then no more sessions join.
            std::thread::sleep(LANE_POLL);
        }
        // The first session was ready from the beginning.
        let mut lane = self.lanes[preferred].lock();
        if lane.writer().is_none() {
            lane = self.lanes[0].lock();
        }
        let writer = lane.writer().ok_or(io::ErrorKind::NotConnected)?;
        self.open.written(write(writer))
    }

    /// Waits until the server has confirmed all that was written.
    fn drain(&self) -> io::Result<()> {
        self.drain_from(0)
    }

    /// The same for the sessions from the `first` one on.
    fn drain_from(&self, first: usize) -> io::Result<()> {
        for lane in &self.lanes[first..] {
            if let Some(writer) = lane.lock().writer() {
                self.open.written(writer.drain())?;
            }
        }
        Ok(())
    }

    /// The server has confirmed all content before this offset, in bytes.
    fn confirmed(&self) -> u64 {
        let first = |lane: &Mutex<Lane>| lane.lock().writer()?.first_unconfirmed();
        self.lanes.iter().filter_map(first).min().unwrap_or(u64::MAX)
    }

    /// Appends confirmed blocks to the journal, and makes them durable if that is due or
    /// `at_once`.
    fn keep_record(&self, record: &mut Record, at_once: bool) -> io::Result<()> {
        let confirmed = self.confirmed();
        while !record.sent.is_empty() && (record.journal.blocks() + 1) * BLOCK_LEN <= confirmed {
            let block = record.sent.pop_front().expect("just seen");
            record.journal.append(block)?;
        }
        let open = record.journal.blocks() - record.journal.committed();
        let Pace { blocks, every } = record.pace;
        let due = open >= blocks && record.checked_at.elapsed() >= every;
        // What is closed was whole, and only its name is missing.
        let Some(file) = &self.open.file else { return Ok(()) };
        if record.keeps_durable && open > 0 && (due || at_once) {
            // Each session's server has opened the file by itself. It is the same file: one
            // makes durable what the others wrote.
            record.journal.commit(|| self.open.host.io(file.sync()))?;
            record.checked_at = Instant::now();
        }
        Ok(())
    }
}

impl StagedFile for SftpStage {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.wrote_to(offset + bytes.len() as u64);
        self.write(offset, |writer| writer.write_at(bytes, offset))
    }

    fn write_from(&self, source: &File, range: Range<u64>) -> Option<Result<(), NotMoved>> {
        self.wrote_to(range.end);
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / BLOCK_LEN + 1) * BLOCK_LEN);
            let mut unread = None;
            let written = self.write(at, |writer| {
                writer.write_from(source, at..end).inspect_err(|error| {
                    unread = error.unread().map(|error| error.kind());
                })
            });
            match (written, unread) {
                (Ok(()), _) => at = end,
                (Err(_), Some(kind)) => return Some(Err(NotMoved::Read(kind.into()))),
                (Err(error), None) => return Some(Err(NotMoved::Written(error))),
            }
        }
        Some(Ok(()))
    }

    fn takes_pages(&self) -> bool {
        true
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        *self.len.lock() = Some(len);
        Ok(())
    }

    /// One session is kept busy by one thread, and there are servers before a
    /// store of objects that can't take a file in another order.
    fn lanes(&self) -> Option<usize> {
        Some(self.lanes.len())
    }

    /// The habits of the host's file system are not known here.
    fn loss(&self) -> Loss {
        Loss::Unknown
    }

    fn expect_sync(&self) {
        // Where it can't be made durable nothing is to be waited for.
        let can_sync = self.open.host.client().has(Extension::Fsync);
        self.stays_open.store(can_sync, Ordering::Relaxed);
    }

    fn record(&self, block: BlockHash) -> io::Result<()> {
        let Some(record) = &self.record else { return Ok(()) };
        let mut record = record.lock();
        record.sent.push_back(block);
        self.keep_record(&mut record, false)
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
        // What ends with a hole has to be made as long as it is.
        let size = self.len.lock().filter(|len| *len > written);
        let attrs = Attrs { size, ..attrs_for(attributes, kept) };
        let stays_open = host.holds || *self.stays_open.get_mut();
        let found = if stays_open {
            // What comes through other sessions has to be there before.
            self.drain_from(1)?;
            self.open.file()?.set_and_look(attrs).map(|set| vec![set])
        } else {
            // Nobody needs it any more, and nobody waits for the last writes: a server
            // does in order what one session asks of a file. So whichever session is
            // last leaves it as it is to be, and sees all of it.
            let first = self.open.file.take().ok_or(io::ErrorKind::NotConnected)?;
            in_each(first, self.others(), |file| file.set_look_and_close(attrs))
        };
        // Some servers say only when it is closed that a write has failed.
        if matches!(&found, Err(error) if error.session().is_none()) && !stays_open {
            self.give_up();
        }
        let found = host.wrote(&self.open.dir, found);
        self.drain()?;
        let found = self.set_by_path(found?, attrs)?;
        let len = found.iter().filter_map(|found| found.size).max();
        if len.is_some_and(|len| len != size.unwrap_or(written)) {
            return Err(io::Error::other("the server reports another length than was written"));
        }
        // One session may have looked before another wrote.
        let is_kept = |found: &Attrs| attrs.times.is_none_or(|times| times.are_kept_as(found));
        if !host.has_lost_attributes() && !found.iter().any(is_kept) {
            host.lose_times();
            if host.needs_times {
                self.give_up();
                return Err(io::Error::new(io::ErrorKind::Unsupported, Cause::Time.to_string()));
            }
        }
        Ok(Box::new(SftpSealed { stage: *self, reading: OnceLock::new() }))
    }
}

impl SftpStage {
    /// The attributes that it has, where `attrs` were `set`: once more by its path, if the
    /// server has refused that through the handle.
    fn set_by_path(&mut self, set: Vec<AttrsSet>, attrs: Attrs) -> io::Result<Vec<Attrs>> {
        if set.iter().all(|set| set.refused.is_none()) {
            return Ok(set.into_iter().map(|set| set.found).collect());
        }
        let (host, path) = (&self.open.host, &self.open.path);
        match host.client().set_attrs(path, attrs) {
            Err(error) if error.is_refusal() && !host.needs_times => host.lose_attributes(),
            Err(error) => {
                let error = host.io(Err(error));
                self.give_up();
                return error;
            }
            Ok(()) => {}
        }
        Ok(vec![host.io(host.client().lstat(path))?])
    }

    /// The file in the sessions other than the first, where it was opened: to be
    /// closed, for nothing more is written there.
    fn others(&self) -> Vec<RemoteFile> {
        let file = |lane: &Mutex<Lane>| Some(lane.lock().writer()?.file().clone());
        self.lanes.iter().skip(1).filter_map(file).collect()
    }

    /// Closes the file in each session, where it has not been closed.
    fn close(&mut self) -> io::Result<()> {
        let Some(first) = self.open.file.take() else { return Ok(()) };
        let others = self.others();
        self.lanes.clear();
        let closed = in_each(first, others, RemoteFile::close);
        self.open.host.wrote(&self.open.dir, closed).map(drop)
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
            // Whether that works or not: what is on record is confirmed.
            let _ = self.drain();
            let _ = self.keep_record(&mut record, true);
            // Where the host makes durable, only that is believed the next time.
            let kept = match record.keeps_durable {
                true => record.journal.committed(),
                false => record.journal.blocks(),
            };
            self.open.host.keeps(kept * BLOCK_LEN);
        }
        if record.journal.blocks() == 0 {
            self.open.keep = false;
        }
    }
}

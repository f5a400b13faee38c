//! A file on its way to a host: staged under a private name in the directory
//! where it is to appear, and renamed when the server has confirmed all of it.
//!
//! 1. What is on record in the journal, which is on this machine, the server has
//!    confirmed as written, and what is committed there as durable.
//! 2. A stage that is continued has the last block of its record, read back from
//!    the server.

mod open;
mod sealed;

use super::attrs::attrs_for;
use super::branch::{Branch, in_each};
use super::{SftpHost, join};
use crate::beside::both;
use crate::lock;
use crate::{KeptPart, NotMoved, SealedFile, StagedFile};
use haul_model::{Attributes, BLOCK_LEN, BlockHash, Kept, Name};
use haul_sftp::{Attrs, AttrsSet, Cause, Extension, OpenFlags, RangeWriter, RemoteFile, SftpError};
use haul_store::{Earlier, Journals, Pace, Proof, RemoteJournal, RemoteNames, SourceId};
use haul_sys::{Dir, Loss};
use open::{Open, check_room};
use sealed::SftpSealed;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Content of one file on its way to the server in one session, in bytes.
const WINDOW_LEN: usize = 16 << 20;

/// How often one that has to write looks for a session while more are to come.
const LANE_POLL: Duration = Duration::from_millis(2);

/// A file that is being written.
pub(super) struct SftpStage {
    /// One for each session. They are dropped before the file of the first one, so
    /// that it is closed then.
    lanes: Vec<Mutex<Lane>>,
    open: Open,
    record: Option<Mutex<Record>>,
    /// How long it is to be when it is sealed, where that was said.
    len: Mutex<Option<u64>>,
    /// Where what was written ends, in bytes.
    written: AtomicU64,
    /// It stays open when it is sealed.
    stays_open: AtomicBool,
}

/// The way of one session into the file.
enum Lane {
    First(RangeWriter),
    /// The writer comes when the file is open there.
    Other(Box<Branch>, Option<RangeWriter>),
}

impl Lane {
    /// Who writes here, if somebody does so far.
    fn writer(&mut self) -> Option<&mut RangeWriter> {
        match self {
            Self::First(writer) => Some(writer),
            Self::Other(_, writer) => writer.as_mut(),
        }
    }

    /// Sees whether the file is open here by now; tells whether it will be later.
    fn look(&mut self, stage: &Open) -> io::Result<bool> {
        let Self::Other(branch, writer @ None) = self else { return Ok(false) };
        let file = branch.file(&stage.host, &stage.path, OpenFlags::Write, None)?;
        *writer = file.map(writer_of);
        Ok(branch.is_coming(&stage.host))
    }

    /// The file in a session other than the first, where it was opened.
    fn last(&mut self) -> Option<RemoteFile> {
        match self {
            Self::First(_) => None,
            Self::Other(branch, _) => branch.last(),
        }
    }
}

fn writer_of(file: &RemoteFile) -> RangeWriter {
    file.writer(WINDOW_LEN)
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

/// Where the journal of a copy is, and what it and the stage are called.
fn journal_of<'h>(
    host: &'h SftpHost,
    dir: &[u8],
    name: &Name,
    source: &SourceId,
) -> Option<(&'h Arc<Dir>, RemoteNames)> {
    let journals = host.journals.as_ref()?;
    Some((journals.dir(), RemoteNames::of(journals, &host.place(dir), name, source)))
}

/// The stage that an earlier copy left.
pub(super) fn earlier(host: &SftpHost, dir: &[u8], name: &Name, source: &SourceId) -> Earlier {
    let journal = journal_of(host, dir, name, source);
    journal.map_or(Earlier::Nothing, |(journals, names)| {
        RemoteJournal::earlier(journals, &names, source)
    })
}

/// The part that is kept of a copy that has ended early.
pub(super) fn kept(
    host: &SftpHost,
    dir: &[u8],
    name: &Name,
    source: &SourceId,
) -> Option<KeptPart> {
    let (journals, names) = journal_of(host, dir, name, source)?;
    let keeps_durable = host.client().has(Extension::Fsync);
    let blocks = RemoteJournal::kept(journals, &names, source, keeps_durable);
    let path = join(dir, names.stage.as_bytes());
    Some(KeptPart { len: blocks * BLOCK_LEN, path })
}

/// Removes what an earlier copy has left; true if there was something.
pub(super) fn remove_leftovers(
    host: &SftpHost,
    dir: &[u8],
    name: &Name,
    source: &SourceId,
) -> bool {
    let journal = journal_of(host, dir, name, source).filter(|(journals, names)| {
        RemoteJournal::earlier(journals, names, source) != Earlier::Nothing
    });
    let Some((journals, names)) = journal else { return false };
    // What is not there any more is gone as it should be.
    let _ = host.client().remove_file(&join(dir, names.stage.as_bytes()));
    RemoteJournal::remove(journals, &names);
    true
}

/// Removes what earlier copies of other sources have left of `name`.
pub(super) fn remove_stale(host: &SftpHost, dir: &[u8], name: &Name) {
    let Some(journals) = host.journals.as_ref().map(Journals::dir) else { return };
    let all = host.left.get_or_init(|| RemoteJournal::all(journals));
    RemoteJournal::remove_stale(journals, all, &host.place(dir), name, |stage| {
        // What is not there any more is gone as it should be.
        let _ = host.client().remove_file(&join(dir, stage.as_bytes()));
    });
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
    /// Begins or continues the file `name` in `dir`, a copy of `source`.
    pub(super) fn resume(
        host: &Arc<SftpHost>,
        dir: &[u8],
        name: &Name,
        source: &SourceId,
    ) -> io::Result<(Self, Vec<BlockHash>)> {
        let (journals, names) =
            journal_of(host, dir, name, source).ok_or(io::ErrorKind::Unsupported)?;
        let keeps_durable = host.client().has(Extension::Fsync);
        let (mut journal, mut blocks) =
            RemoteJournal::open(journals, &names, source, keeps_durable)?;
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
        *lock(&stage.len) = Some(source.size);
        stage.written.store(blocks.len() as u64 * BLOCK_LEN, Ordering::Relaxed);
        Ok((stage, blocks))
    }

    fn of(open: Open, record: Option<Record>) -> Self {
        let first = open.file.iter().map(|file| Lane::First(writer_of(file)));
        let others = Branch::all(&open.host).map(|branch| Lane::Other(Box::new(branch), None));
        let lanes = first.chain(others).map(Mutex::new).collect();
        Self {
            open,
            lanes,
            record: record.map(Mutex::new),
            len: Mutex::default(),
            written: AtomicU64::new(0),
            stays_open: AtomicBool::new(false),
        }
    }

    /// Something that ends there is on its way.
    fn wrote_to(&self, end: u64) {
        self.written.fetch_max(end, Ordering::Relaxed);
    }

    /// Writes what begins at `offset` through a session that is ready, and that no
    /// other thread is at, so that one that is slower than the others holds up none
    /// of them. Blocks begin with different ones.
    fn write(
        &self,
        offset: u64,
        write: impl FnOnce(&mut RangeWriter) -> Result<(), SftpError>,
    ) -> io::Result<()> {
        let (before, from) =
            self.lanes.split_at((offset / BLOCK_LEN % self.lanes.len() as u64) as usize);
        loop {
            let mut more = false;
            for lane in from.iter().chain(before) {
                let Ok(mut lane) = lane.try_lock() else { continue };
                more |= lane.look(&self.open)?;
                if let Some(writer) = lane.writer() {
                    return self.open.written(write(writer));
                }
            }
            if !more {
                break;
            }
            // It ends with the job, for then no more sessions are to come.
            std::thread::sleep(LANE_POLL);
        }
        let own = Some(lock(&from[0])).filter(|lane| !matches!(**lane, Lane::Other(_, None)));
        // The first one was ready from the beginning.
        let mut lane = own.unwrap_or_else(|| lock(&self.lanes[0]));
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
            if let Some(writer) = lock(lane).writer() {
                self.open.written(writer.drain())?;
            }
        }
        Ok(())
    }

    /// Up to where the server has confirmed everything, in bytes.
    fn confirmed(&self) -> u64 {
        let first = |lane: &Mutex<Lane>| lock(lane).writer()?.first_unconfirmed();
        self.lanes.iter().filter_map(first).min().unwrap_or(u64::MAX)
    }

    /// Puts on record what is confirmed, and has it made durable if that is due
    /// or `at_once`.
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
        *lock(&self.len) = Some(len);
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
        let mut record = lock(record);
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
        let size = lock(&self.len).filter(|len| *len > written);
        let attrs = Attrs { size, ..attrs_for(attributes, kept) };
        let stays_open = host.holds() || *self.stays_open.get_mut();
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
            if host.needs_times() {
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
            Err(error) if error.is_refusal() && !host.needs_times() => host.lose_attributes(),
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
        self.lanes.iter().filter_map(|lane| lock(lane).last()).collect()
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
            lock(record).journal.forget();
        }
    }
}

impl Drop for SftpStage {
    fn drop(&mut self) {
        let Some(record) = &self.record else { return };
        let mut record = lock(record);
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

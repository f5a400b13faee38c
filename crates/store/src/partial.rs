//! A stage that outlives its process: a large file on its way, with a journal
//! beside it, found again by a name that is derived from the destination's name
//! and the source's identity.
//!
//! 1. Whoever holds the lock on the journal is the only one who writes to
//!    either file; the lock goes with the process.
//! 2. What is found is believed as far as its journal goes, its last block is
//!    read back, and the rest is cut off.
//! 3. A failure to make data durable is final: it fails the file, is never
//!    tried again as if the data were still to be written, and takes back all
//!    that the journal has said before anybody else can read it.

use crate::Pace;
use crate::journal::{BootId, Earlier, Journal, SourceId};
use crate::leftover;
use crate::private::{Form, Names, as_name, parse};
use haul_model::{BLOCK_LEN, BlockHash, Name};
use haul_sys::Dir;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Files from this length on, in bytes, are staged so that they can be resumed:
/// below it, copying anew costs less than keeping a journal.
pub const RESUME_LEN_MIN: u64 = 64 << 20;

/// The same where content comes from another haul, over a wire: it takes longer to come
/// again, and a connection is lost more often than a process.
pub const RESUME_LEN_MIN_FAR: u64 = 8 << 20;

/// How often a journal is opened anew because it vanished between opening and
/// locking it.
const LOCK_ATTEMPTS_MAX: usize = 8;

/// The longest wait for another process that has the journal. A process that is about
/// to end makes a last checkpoint; one that was killed while it waited for the disk
/// keeps its lock until the disk has answered.
pub(crate) const LOCK_WAIT_MAX: Duration = Duration::from_secs(3);

/// How often is looked whether it has ended.
const LOCK_POLL: Duration = Duration::from_millis(10);

/// The files of a resumable stage, locked.
#[derive(Debug)]
pub(crate) struct Partial {
    dir: Arc<Dir>,
    names: Names,
    pace: Pace,
    shared: Arc<Record>,
    /// Keep both files when this is dropped.
    keep: AtomicBool,
}

/// State that the checkpoint's thread shares with the copying ones.
#[derive(Debug)]
struct Record {
    dir: Arc<Dir>,
    file: File,
    journal: Mutex<Kept>,
    /// A checkpoint is under way.
    busy: AtomicBool,
    /// Held while the file is made durable: the system tells of a failure only
    /// once, and whoever waits must not miss what another was told.
    turn: Mutex<()>,
}

#[derive(Debug)]
struct Kept {
    journal: Journal,
    /// Blocks that the last checkpoint has committed to.
    checked: u64,
    checked_at: Instant,
    /// Why data could not be made durable: for good, since the system may take
    /// the lost data for written afterwards.
    failed: Option<Arc<io::Error>>,
    /// This process has made the names of both files durable.
    named: bool,
    /// Nobody will continue what is there.
    given_up: bool,
}

/// A resumable stage, opened.
pub(crate) struct Opened {
    pub(crate) partial: Partial,
    pub(crate) file: File,
    /// The hashes of the blocks that are there.
    pub(crate) blocks: Vec<BlockHash>,
}

/// The stage that an earlier copy left for `name` in `dir`.
pub(crate) fn earlier(dir: &Dir, name: &Name, source: &SourceId) -> Earlier {
    Earlier::in_dir(dir, &Names::of(name, source).journal, source)
}

/// Opens, or begins, the stage of `source` under `name` in `dir`.
///
/// # Errors
/// [`io::ErrorKind::ResourceBusy`] while another process writes it.
pub(crate) fn open(
    dir: &Arc<Dir>,
    name: &Name,
    source: &SourceId,
    pace: Pace,
) -> io::Result<Opened> {
    haul_sys::takes_temporary(dir)?;
    let names = Names::of(name, source);
    let journal = lock_journal(dir, &names.journal, LOCK_WAIT_MAX)?;
    let file = match dir.open_private(&names.part) {
        // It got its final mode, and was not renamed any more.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            dir.remove_private(&names.part)?;
            dir.open_private(&names.part)?
        }
        file => file?,
    };
    let boot = BootId(haul_sys::cache_id(&file));
    let resumed = match Journal::resume(journal.try_clone()?, source, boot)? {
        Some((journal, blocks)) if last_block_is_there(&file, &blocks)? => Some((journal, blocks)),
        _ => None,
    };
    let (journal, blocks) = match resumed {
        Some(resumed) => resumed,
        None => {
            // Its own names are not among what is removed: they are locked.
            StaleStages::find(dir).remove(dir, name);
            (Journal::create(journal, source, boot)?, Vec::new())
        }
    };
    let checked = journal.committed();
    let kept = Kept {
        checked,
        checked_at: Instant::now(),
        failed: None,
        named: false,
        given_up: false,
        journal,
    };
    let shared = Arc::new(Record {
        dir: Arc::clone(dir),
        file: file.try_clone()?,
        journal: Mutex::new(kept),
        busy: AtomicBool::new(false),
        turn: Mutex::default(),
    });
    let dir = Arc::clone(dir);
    let partial = Partial { dir, names, pace, shared, keep: AtomicBool::new(true) };
    // What lies beyond the last block on record is not known to be right. From
    // here on a failure leaves nothing that is worthless. A hole at the end of that
    // block may lie beyond the end of the file.
    let there = blocks.len() as u64 * BLOCK_LEN;
    // Only if it has another length: ext4 takes a file that is cut to nothing for one
    // that is being replaced, and writes all of it out when it is closed.
    if file.metadata()?.len() != there {
        file.set_len(there)?;
    }
    Ok(Opened { partial, file, blocks })
}

/// Removes what an earlier copy of `source` to `name` left behind, unless
/// another process is at it: nothing will continue it. True if something was there.
pub fn remove_leftovers(dir: &Dir, name: &Name, source: &SourceId) -> bool {
    remove(&Names::of(name, source), dir)
}

impl Partial {
    /// Records the hash of the next block, which was written; begins a
    /// checkpoint if one is due.
    pub(crate) fn record(&self, block: BlockHash) -> io::Result<()> {
        let mut kept = self.shared.kept();
        kept.check().inspect_err(|_| self.forget())?;
        kept.journal.append(block)?;
        let due = kept.journal.len() - kept.checked >= self.pace.blocks
            && kept.checked_at.elapsed() >= self.pace.every;
        if due && !self.shared.busy.swap(true, Ordering::AcqRel) {
            let shared = Arc::clone(&self.shared);
            drop(kept);
            let name = "checkpoint".to_owned();
            let begun = std::thread::Builder::new().name(name).spawn(move || {
                shared.checkpoint();
                shared.busy.store(false, Ordering::Release);
            });
            if begun.is_err() {
                // No thread now: the next block asks again.
                self.shared.busy.store(false, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Gives up what is there: it is removed when this is dropped. What the
    /// journal has claimed must not come back: a cut of the power may undo the
    /// removal, and another stage may be there under the same name then.
    pub(crate) fn discard(&self) {
        let mut kept = self.shared.kept();
        kept.journal.revoke();
        kept.given_up = true;
        drop(kept);
        self.forget();
    }

    /// Removes what is left when this is dropped: the file has its name.
    pub(crate) fn forget(&self) {
        self.keep.store(false, Ordering::Relaxed);
    }

    /// The file's private name, for publishing it.
    pub(crate) fn name(&self) -> &str {
        &self.names.part
    }

    /// Checks that the file may be published.
    ///
    /// # Errors
    /// The error of a checkpoint that has failed. One that is still under way is
    /// not waited for: nothing is promised to be durable.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.shared.kept().check().inspect_err(|_| self.forget())
    }
}

impl Partial {
    /// Makes the file durable, content and metadata.
    ///
    /// # Errors
    /// Those of `fsync`, now or at a checkpoint.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let _turn = self.shared.turn.lock();
        self.check()?;
        if let Err(error) = self.shared.file.sync_all() {
            self.shared.kept().fail(error);
        }
        self.check()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let worthless = self.shared.kept().journal.is_empty();
        if !worthless && self.keep.load(Ordering::Relaxed) {
            self.shared.checkpoint();
        }
        // Again: that may have failed.
        let failed = self.shared.kept().failed.is_some();
        if worthless || failed || !self.keep.load(Ordering::Relaxed) {
            // Published or not: what is removed is what is still there.
            let _ = self.dir.remove_private(&self.names.part);
            let _ = self.dir.remove_private(&self.names.journal);
        }
    }
}

impl Kept {
    fn check(&self) -> io::Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(error) => Err(io::Error::new(error.kind(), Arc::clone(error))),
        }
    }

    /// The data could not be made durable. Who comes next must not believe the
    /// records, not even in this boot: the page cache has forgotten that the
    /// data was never written. So they go at once, and not with the stage.
    fn fail(&mut self, error: io::Error) {
        self.journal.revoke();
        self.failed = Some(Arc::new(error));
    }
}

impl Record {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.journal.lock()
    }

    /// Makes the names of both files durable, where the file system can be asked
    /// for that.
    fn sync_names(&self) -> io::Result<()> {
        match self.dir.sync() {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
                ) =>
            {
                Ok(())
            }
            synced => synced,
        }
    }

    /// Makes the data durable, then the names of both files, so that no claim
    /// is ever found without them, then the journal's word for it, and lets the
    /// page cache forget it: a large copy doesn't push out what others use.
    /// Runs beside the copying, which goes on meanwhile.
    fn checkpoint(&self) {
        let _turn = self.turn.lock();
        let (point, before, blocks, named) = {
            let kept = self.kept();
            let has_more = kept.journal.len() > kept.checked;
            if kept.failed.is_some() || kept.given_up || !has_more {
                return;
            }
            (kept.journal.commit_point(), kept.checked, kept.journal.len(), kept.named)
        };
        let names = || if named { Ok(()) } else { self.sync_names() };
        let synced = self.file.sync_data().and_then(|()| names());
        let mut kept = self.kept();
        match synced.and_then(|()| kept.journal.commit(&point)) {
            Ok(()) => {
                kept.checked = blocks;
                kept.checked_at = Instant::now();
                kept.named = true;
            }
            Err(error) => kept.fail(error),
        }
        drop(kept);
        haul_sys::drop_cached(&self.file, before * BLOCK_LEN..blocks * BLOCK_LEN);
    }
}

/// The resumable stages, and those of links, that a directory held when it was
/// looked at: found once, so that each file that is published there costs nothing
/// more.
#[derive(Debug, Default)]
pub struct StaleStages {
    stems: BTreeSet<String>,
    /// The names of staged links, by where they lead.
    links: BTreeMap<Vec<u8>, Vec<String>>,
}

impl StaleStages {
    /// Looks through `dir`, and removes the small stages that are older than the run of
    /// the system. What can't be read is taken for empty: it is found by the next run.
    pub fn find(dir: &Dir) -> Self {
        let mut found = Self::default();
        let mut random = Vec::new();
        let _ = dir.names_where(|name| {
            match parse(name) {
                Some((Form::Part | Form::Journal, stem)) => {
                    found.stems.insert(stem.to_owned());
                }
                Some((Form::Random, name)) => {
                    random.push(name.to_owned());
                }
                Some((Form::Sent | Form::SentPart | Form::Old | Form::Lot, _)) | None => {}
            }
            false
        });
        for name in random {
            // What is no link is a file's stage, and can't be told by its name.
            match dir.read_link(&as_name(&name)) {
                Ok(target) => found.links.entry(target).or_default().push(name),
                Err(_) => leftover::remove_of_earlier_start(dir, &name),
            }
        }
        found
    }

    /// Removes from `dir` what copies of any source to `name` have left, unless
    /// another process is at it: nothing will continue it. If `name` is a link,
    /// those stages are meant that lead where it leads; nothing else tells for
    /// which name they were.
    pub fn remove(&self, dir: &Dir, name: &Name) {
        if !self.stems.is_empty() {
            let prefix = Names::prefix(name);
            let of_name = self.stems.iter().filter(|stem| stem.starts_with(&prefix));
            for stem in of_name {
                remove(&Names::from_stem(stem), dir);
            }
        }
        if !self.links.is_empty()
            && let Ok(target) = dir.read_link(name)
            && let Some(links) = self.links.get(&target)
        {
            for link in links.iter().filter(|link| link.as_bytes() != name.as_bytes()) {
                // What can't be removed now is found by the next run.
                if dir.read_link(&as_name(link)).is_ok_and(|leads_to| leads_to == target) {
                    let _ = dir.remove_private(link);
                }
            }
        }
    }
}

/// Removes both files, unless another process is at them. True if one was there.
fn remove(names: &Names, dir: &Dir) -> bool {
    let there = dir.has_private(&names.journal) || dir.has_private(&names.part);
    if there && lock_journal(dir, &names.journal, Duration::ZERO).is_ok() {
        // What can't be removed now is found by the next run. The journal goes
        // last: as long as it is there, its lock is.
        let _ = dir.remove_private(&names.part);
        let _ = dir.remove_private(&names.journal);
    }
    there
}

/// Opens and locks the journal `name`, made if it is missing; waits that long
/// for another process that has it.
pub(crate) fn lock_journal(dir: &Dir, name: &str, wait: Duration) -> io::Result<File> {
    let end = Instant::now() + wait;
    let mut attempts = 0;
    while attempts < LOCK_ATTEMPTS_MAX {
        let file = dir.open_private(name)?;
        if !haul_sys::try_lock(&file)? {
            if !dir.private_is(name, &file)? {
                // Whoever has it is removing it.
                attempts += 1;
                continue;
            }
            if Instant::now() < end {
                std::thread::sleep(LOCK_POLL);
                continue;
            }
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "another haul is writing this file",
            ));
        }
        // Who held the lock before may have published, and removed the name.
        if dir.private_is(name, &file)? {
            return Ok(file);
        }
        attempts += 1;
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// True if the last block on record is what the stage holds there; a hole at the
/// end of the stage is not written, and counts as zeros.
fn last_block_is_there(file: &File, blocks: &[BlockHash]) -> io::Result<bool> {
    let Some((last, before)) = blocks.split_last() else { return Ok(false) };
    let index = before.len() as u64;
    let mut block = vec![0; BLOCK_LEN as usize];
    let there = file.metadata()?.len().saturating_sub(index * BLOCK_LEN).min(BLOCK_LEN);
    match file.read_exact_at(&mut block[..there as usize], index * BLOCK_LEN) {
        Ok(()) => Ok(BlockHash::of(index, &block) == *last),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::Timestamp;

    #[test]
    fn a_checkpoint_begins_when_blocks_and_time_have_passed() {
        let hour = Duration::from_secs(3600);
        for (blocks, every, is_due) in
            [(1, Duration::ZERO, true), (1, hour, false), (2, Duration::ZERO, false)]
        {
            let temp = tempfile::tempdir().expect("a directory");
            let dir = Arc::new(Dir::open(temp.path()).expect("it is there"));
            let mtime = Timestamp { secs: 7, nanos: 0 };
            let source = SourceId { size: 100 << 20, mtime, inode: 3, ctime: None };
            let name = Name::new(b"big").expect("a name");
            let Opened { partial, .. } =
                open(&dir, &name, &source, Pace { blocks, every }).expect("a stage");
            partial.record(BlockHash::from([1; 32])).expect("recorded");
            while partial.shared.busy.load(Ordering::Acquire) {
                std::thread::sleep(LOCK_POLL);
            }
            let committed = partial.shared.kept().journal.committed();
            assert_eq!(committed, u64::from(is_due), "{blocks} {every:?}");
        }
    }
}

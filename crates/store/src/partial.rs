//! A partial file: the stage of a large file that outlives its process. It has a journal, and a
//! name that is derived from the destination's name and the source's identity.
//!
//! 1. Only the process with the lock on the journal writes to either file. The lock ends with the
//!    process.
//! 2. On resuming, the blocks in the journal count. The last one is read back, and the rest of the
//!    file is cut off.
//! 3. A failure to flush is final. It fails the file, and is never retried as if the data were
//!    still to be written. It also empties the journal before another process can read it.

use crate::Pace;
use crate::journal::{BootId, Journal, SourceId};
use crate::private::{Form, Names, as_name, parse};
use haul_model::{BLOCK_LEN, BlockHash, Name, Timestamp};
use haul_sys::{Dir, Stat};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Time without changes after which a stage of a host's SFTP server is a leftover. An upload writes
/// continuously. But reading a file back may take hours, and a machine may sleep overnight.
pub(crate) const UNCHANGED_MIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Minimum length, in bytes, of a file that can be resumed. Below it, copying again costs less
/// than a journal.
pub const RESUME_LEN_MIN: u64 = 64 << 20;

/// Minimum length, in bytes, of a resumable file that another haul sends over a wire. Sending it
/// again takes longer, and connections are lost more often than processes.
pub const RESUME_LEN_MIN_REMOTE: u64 = 8 << 20;

/// Maximum number of attempts to open a journal that another process removes before it is locked.
const LOCK_ATTEMPTS_MAX: usize = 8;

/// Maximum time to wait for another process with the journal's lock. A process that ends makes a
/// last checkpoint. One that was killed while it waited for the disk keeps its lock until the disk
/// responds.
pub(crate) const LOCK_WAIT_MAX: Duration = Duration::from_secs(3);

/// Interval between two attempts to lock.
const LOCK_POLL: Duration = Duration::from_millis(10);

/// The locked files of a resumable stage.
#[derive(Debug)]
pub(crate) struct Partial {
    names: Names,
    pace: Pace,
    shared: Arc<Record>,
    /// Keep both files when this is dropped.
    keep: AtomicBool,
}

/// The state that the checkpoint's thread shares with the copying threads.
#[derive(Debug)]
struct Record {
    dir: Arc<Dir>,
    file: File,
    journal: Mutex<Kept>,
    /// A checkpoint is running.
    busy: AtomicBool,
    /// Held while the file is flushed. The system reports a failure only once, so a thread that
    /// waits must see the failure of another.
    turn: Mutex<()>,
}

#[derive(Debug)]
struct Kept {
    journal: Journal,
    checked_at: Instant,
    /// The error of flushing. It is final, because the system may treat lost data as written
    /// afterwards.
    failed: Option<Arc<io::Error>>,
    /// This process has flushed the names of both files.
    names_synced: bool,
    /// The stage is given up and will not be resumed.
    is_discarded: bool,
}

/// Opens or creates the stage of `source` for `name` in `dir`. Returns its file too, and the hashes
/// of the blocks in it.
///
/// # Errors
/// [`io::ErrorKind::ResourceBusy`] while another process writes it.
pub(crate) fn open(
    dir: &Arc<Dir>,
    name: &Name,
    source: &SourceId,
    pace: Pace,
) -> io::Result<(Partial, File, Vec<BlockHash>)> {
    haul_sys::check_renamable(dir)?;
    let names = Names::of(name, source);
    let journal = lock_journal(dir, &names.journal, LOCK_WAIT_MAX)?;
    let file = match dir.open_private(&names.part) {
        // It got its final mode, but was not renamed.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            dir.remove_private(&names.part)?;
            dir.open_private(&names.part)?
        }
        file => file?,
    };
    let boot = BootId(haul_sys::cache_id(&file));
    let resumed = match Journal::resume(journal.try_clone()?, source, boot)? {
        Some((journal, blocks)) if has_last_block(&file, &blocks)? => Some((journal, blocks)),
        _ => None,
    };
    let (journal, blocks) = match resumed {
        Some(resumed) => resumed,
        None => {
            // Its own files are locked, and so are not removed.
            StaleStages::find(dir).remove(dir, name);
            (Journal::create(journal, source, boot)?, Vec::new())
        }
    };
    let kept = Kept {
        checked_at: Instant::now(),
        failed: None,
        names_synced: false,
        is_discarded: false,
        journal,
    };
    let shared = Arc::new(Record {
        dir: Arc::clone(dir),
        file: file.try_clone()?,
        journal: Mutex::new(kept),
        busy: AtomicBool::new(false),
        turn: Mutex::default(),
    });
    let partial = Partial { names, pace, shared, keep: AtomicBool::new(true) };
    // The content after the last recorded block is unverified. A hole at the end of that block may
    // lie beyond the end of the file. If this fails, nothing worthless is left.
    let there = blocks.len() as u64 * BLOCK_LEN;
    // Only if the length differs: ext4 flushes a file on close that was truncated to 0, because it
    // may be a replacement.
    if file.metadata()?.len() != there {
        file.set_len(there)?;
    }
    Ok((partial, file, blocks))
}

/// Removes what an earlier copy of `source` to `name` left, unless another process works on it.
/// True if there was something.
pub fn remove_leftovers(dir: &Dir, name: &Name, source: &SourceId) -> bool {
    remove(&Names::of(name, source), dir)
}

impl Partial {
    /// Records the hash of the next block, which must have been written. Begins a checkpoint if one
    /// is due.
    pub(crate) fn record(&self, block: BlockHash) -> io::Result<()> {
        let mut kept = self.shared.journal.lock();
        kept.check().inspect_err(|_| self.forget())?;
        kept.journal.append(block)?;
        let due = kept.journal.records - kept.journal.committed >= self.pace.blocks
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
                // The thread can't be created. The next block tries again.
                self.shared.busy.store(false, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Gives up the stage: it is removed on drop. The journal is emptied first, because a power cut
    /// may undo the removal when another stage has the same name.
    pub(crate) fn discard(&self) {
        let mut kept = self.shared.journal.lock();
        kept.journal.revoke();
        kept.is_discarded = true;
        drop(kept);
        self.forget();
    }

    /// Removes what is left on drop, because the file has its final name.
    pub(crate) fn forget(&self) {
        self.keep.store(false, Ordering::Relaxed);
    }

    /// The private name of the file, for publishing it.
    pub(crate) fn name(&self) -> &str {
        &self.names.part
    }

    /// Checks that the file may be published.
    ///
    /// # Errors
    /// The error of a failed checkpoint. A running checkpoint is not waited for: durability is not
    /// promised.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.shared.journal.lock().check().inspect_err(|_| self.forget())
    }

    /// Flushes the content and metadata of the file.
    ///
    /// # Errors
    /// Errors of `fsync`, now or at a checkpoint.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let _turn = self.shared.turn.lock();
        self.check()?;
        if let Err(error) = self.shared.file.sync_all() {
            self.shared.journal.lock().fail(error);
        }
        self.check()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let worthless = self.shared.journal.lock().journal.is_empty();
        if !worthless && self.keep.load(Ordering::Relaxed) {
            self.shared.checkpoint();
        }
        // Check again: the checkpoint may have failed.
        let failed = self.shared.journal.lock().failed.is_some();
        if worthless || failed || !self.keep.load(Ordering::Relaxed) {
            // A published file no longer has this name.
            let _ = self.shared.dir.remove_private(&self.names.part);
            let _ = self.shared.dir.remove_private(&self.names.journal);
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

    /// Records a failure to flush. The records are removed at once, and not with the stage. Later
    /// processes must not use them, even in this boot: the page cache no longer knows that the data
    /// was not written.
    fn fail(&mut self, error: io::Error) {
        self.journal.revoke();
        self.failed = Some(Arc::new(error));
    }
}

impl Record {
    /// Flushes the names of both files, if the file system supports that.
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

    /// Flushes the data, then the names of both files, then commits the journal. So no commit is
    /// found without the data and names. Then drops the data from the page cache, to leave it to
    /// other programs. Runs in parallel to the copying.
    fn checkpoint(&self) {
        let _turn = self.turn.lock();
        let (point, before, blocks, names_synced) = {
            let kept = self.journal.lock();
            let has_more = kept.journal.records > kept.journal.committed;
            if kept.failed.is_some() || kept.is_discarded || !has_more {
                return;
            }
            (
                kept.journal.commit_point(),
                kept.journal.committed,
                kept.journal.records,
                kept.names_synced,
            )
        };
        let names = || if names_synced { Ok(()) } else { self.sync_names() };
        let synced = self.file.sync_data().and_then(|()| names());
        let mut kept = self.journal.lock();
        match synced.and_then(|()| kept.journal.commit(&point)) {
            Ok(()) => {
                kept.checked_at = Instant::now();
                kept.names_synced = true;
            }
            Err(error) => kept.fail(error),
        }
        drop(kept);
        haul_sys::drop_cached(&self.file, before * BLOCK_LEN..blocks * BLOCK_LEN);
    }
}

/// The resumable stages and staged links in a directory, found once, so that publishing a file
/// there costs nothing more.
#[derive(Debug, Default)]
pub struct StaleStages {
    stems: BTreeSet<String>,
    /// The names of staged links, by their targets.
    links: BTreeMap<Vec<u8>, Vec<String>>,
}

impl StaleStages {
    /// Searches `dir`, and removes small stages from before the start of the system. An unreadable
    /// directory counts as empty. The next run searches it again.
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
                Some((Form::Remote | Form::RemotePart | Form::Old | Form::DelayedBatch, _))
                | None => {}
            }
            false
        });
        for name in random {
            // An entry that is not a link is a file's stage. Its name does not show for which file.
            match dir.read_link(&as_name(&name)) {
                Ok(target) => found.links.entry(target).or_default().push(name),
                Err(_) => remove_from_earlier_boot(dir, &name),
            }
        }
        found
    }

    /// Removes from `dir` what copies of any source to `name` left, unless another process works on
    /// it. If `name` is a link, staged links with the same target are removed: they contain no
    /// other hint of their final name.
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
                // The next run finds what can't be removed now.
                if dir.read_link(&as_name(link)).is_ok_and(|leads_to| leads_to == target) {
                    let _ = dir.remove_private(link);
                }
            }
        }
    }
}

/// Removes both files, unless another process works on them. True if one existed.
fn remove(names: &Names, dir: &Dir) -> bool {
    let there = dir.has_private(&names.journal) || dir.has_private(&names.part);
    if there && lock_journal(dir, &names.journal, Duration::ZERO).is_ok() {
        // The next run finds what can't be removed now. The journal is removed last, because it
        // holds the lock.
        let _ = dir.remove_private(&names.part);
        let _ = dir.remove_private(&names.journal);
    }
    there
}

/// Opens and locks the journal `name`, which is created if it is missing. Waits up to `wait` for
/// another process with the lock.
pub(crate) fn lock_journal(dir: &Dir, name: &str, wait: Duration) -> io::Result<File> {
    let end = Instant::now() + wait;
    let mut attempts = 0;
    while attempts < LOCK_ATTEMPTS_MAX {
        let file = dir.open_private(name)?;
        if !haul_sys::try_lock(&file)? {
            if !dir.is_private_file(name, &file)? {
                // The process with the lock is removing the journal.
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
        // The previous owner of the lock may have published the file and removed the name.
        if dir.is_private_file(name, &file)? {
            return Ok(file);
        }
        attempts += 1;
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// True if the stage contains the last recorded block. A hole at the end of the stage is not
/// written, and counts as zeros. An empty stage may be new, in place of one that was removed.
fn has_last_block(file: &File, blocks: &[BlockHash]) -> io::Result<bool> {
    let (Some((last, before)), len @ 1..) = (blocks.split_last(), file.metadata()?.len()) else {
        return Ok(false);
    };
    let index = before.len() as u64;
    let mut block = vec![0; BLOCK_LEN as usize];
    let there = len.saturating_sub(index * BLOCK_LEN).min(BLOCK_LEN);
    match file.read_exact_at(&mut block[..there as usize], index * BLOCK_LEN) {
        Ok(()) => Ok(BlockHash::of(index, &block) == *last),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes the small stage `name` from `dir` if a power cut or crash left it. It must have changed
/// before the system was started and more than a day ago, and be unlocked. The day protects stages
/// of other machines, whose locks may not be visible here. A stage is kept if the time of its last
/// change is unknown.
pub(crate) fn remove_from_earlier_boot(dir: &Dir, name: &str) {
    let left = |stat: &Stat| {
        stat.is_file()
            && haul_sys::boot_time().is_some_and(|started| stat.ctime < started)
            && haul_sys::keeps_ctime(dir, stat.mtime, stat.ctime)
            && unchanged_for(stat, SystemTime::now()) >= UNCHANGED_MIN
    };
    if !dir.stat(&as_name(name)).is_ok_and(|stat| left(&stat)) {
        return;
    }
    // The next run finds what can't be removed now.
    if let Ok((file, stat)) = dir.open_any_private(name)
        && left(&stat)
        && haul_sys::try_lock(&file).unwrap_or(false)
        && dir.is_private_file(name, &file).unwrap_or(false)
    {
        let _ = dir.remove_private(name);
    }
}

/// The time since the entry of `stat` has changed. Its modification time may come from a source and
/// be in the future. Its change time is the system's.
pub(crate) fn unchanged_for(stat: &Stat, now: SystemTime) -> Duration {
    let since_epoch =
        |time: Timestamp| Duration::new(u64::try_from(time.secs).unwrap_or(0), time.nanos);
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (changed, modified) = (since_epoch(stat.ctime), since_epoch(stat.mtime));
    let last = if modified <= now { changed.max(modified) } else { changed };
    now.saturating_sub(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Home;
    use crate::{Earlier, Stage, StagedFile, Written};
    use haul_model::{Attributes, Kept as Attribute, Timestamp};
    use tempfile::TempDir;

    const HOUR: Duration = Duration::from_secs(3600);

    fn place() -> (TempDir, Arc<Dir>) {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = Arc::new(Dir::open(temp.path()).expect("it is there"));
        (temp, dir)
    }

    fn source() -> SourceId {
        let mtime = Timestamp { secs: 7, nanos: 0 };
        SourceId { size: 100 << 20, mtime, inode: 3, ctime: None }
    }

    fn big() -> Name {
        Name::new(b"big").expect("a name")
    }

    /// Opens the stage without checkpoints.
    fn begin(dir: &Arc<Dir>) -> (Stage, Vec<BlockHash>) {
        let pace = Pace { blocks: 1, every: HOUR };
        Stage::resume_at(Arc::clone(dir), &big(), &source(), pace).expect("a stage")
    }

    fn partial(stage: &Stage) -> &Partial {
        let Home::Partial(partial) = &stage.home else { panic!("it can be resumed") };
        partial
    }

    /// Writes and records a block whose second half is a hole.
    fn put(stage: &Stage, index: u64) {
        let mut block = vec![index as u8 + 1; BLOCK_LEN as usize];
        block[BLOCK_LEN as usize / 2..].fill(0);
        let data = &block[..BLOCK_LEN as usize / 2];
        stage.write_at(data, index * BLOCK_LEN).expect("written");
        stage.record(BlockHash::of(index, &block)).expect("recorded");
    }

    fn names(temp: &TempDir) -> usize {
        std::fs::read_dir(temp.path()).expect("read").count()
    }

    fn journal_len(stage: &Stage) -> u64 {
        let partial = partial(stage);
        let (journal, _) =
            partial.shared.dir.open_any_private(&partial.names.journal).expect("opened");
        journal.metadata().expect("open").len()
    }

    fn disk_fails(stage: &Stage) {
        partial(stage).shared.journal.lock().fail(io::ErrorKind::StorageFull.into());
    }

    #[test]
    fn a_checkpoint_begins_when_blocks_and_time_have_passed() {
        for (blocks, every, committed) in [
            (1, Duration::ZERO, [1, 2, 3, 4]),
            (1, HOUR, [0; 4]),
            (2, Duration::ZERO, [0, 2, 2, 4]),
            (3, Duration::ZERO, [0, 0, 3, 3]),
            (5, Duration::ZERO, [0; 4]),
        ] {
            let (_temp, dir) = place();
            let pace = Pace { blocks, every };
            let (partial, ..) = open(&dir, &big(), &source(), pace).expect("a stage");
            for (block, committed) in committed.into_iter().enumerate() {
                partial.record(BlockHash::from([1; 32])).expect("recorded");
                let is_over = || !partial.shared.busy.load(Ordering::Acquire);
                assert!(haul_testkit::holds_within(Duration::from_secs(10), is_over));
                let found = partial.shared.journal.lock().journal.committed;
                assert_eq!(found, committed, "{blocks} {every:?} {block}");
            }
        }
    }

    #[test]
    fn a_stage_is_resumed_only_with_its_last_block() {
        let half = BLOCK_LEN / 2;
        // The change of the file, and the number of blocks that are resumed.
        type Change = (Option<u64>, Option<u64>, usize);
        let changes: [Change; 6] = [
            (None, None, 2),
            // The last block ends with a hole.
            (Some(BLOCK_LEN + half), None, 2),
            (Some(BLOCK_LEN + half - 1), None, 0),
            (Some(half), None, 0),
            (None, Some(BLOCK_LEN), 0),
            (None, Some(2 * BLOCK_LEN - 1), 0),
        ];
        for (len, damaged_at, resumed) in changes {
            let (temp, dir) = place();
            let (stage, _) = begin(&dir);
            (0..2).for_each(|index| put(&stage, index));
            let path = temp.path().join(partial(&stage).name());
            drop(stage);
            let file = File::options().write(true).open(path).expect("opened");
            if let Some(len) = len {
                file.set_len(len).expect("cut");
            }
            if let Some(at) = damaged_at {
                file.write_all_at(b"x", at).expect("written");
            }
            let (_, blocks) = begin(&dir);
            assert_eq!(blocks.len(), resumed, "{len:?} {damaged_at:?}");
        }
    }

    #[test]
    fn a_stage_that_was_lost_is_not_resumed_as_zeros() {
        // The stage was removed, or has another name, as while it waits for the end of its job.
        for is_linked in [false, true] {
            let (temp, dir) = place();
            let (stage, _) = begin(&dir);
            put(&stage, 0);
            stage.record(BlockHash::of(1, &vec![0; BLOCK_LEN as usize])).expect("recorded");
            let path = temp.path().join(partial(&stage).name());
            drop(stage);
            match is_linked {
                true => std::fs::hard_link(&path, temp.path().join("waits")).expect("linked"),
                false => std::fs::remove_file(&path).expect("removed"),
            }
            let (_, blocks) = begin(&dir);
            assert!(blocks.is_empty(), "{is_linked}");
        }
    }

    #[test]
    fn what_a_process_has_recorded_is_committed_at_its_end() {
        let (_temp, dir) = place();
        let (stage, _) = begin(&dir);
        (0..2).for_each(|index| put(&stage, index));
        assert_eq!(partial(&stage).shared.journal.lock().journal.committed, 0);
        drop(stage);
        let (stage, _) = begin(&dir);
        assert_eq!(partial(&stage).shared.journal.lock().journal.committed, 2);
    }

    #[test]
    fn a_failure_to_flush_is_final_and_leaves_nothing() {
        let (temp, dir) = place();
        let (stage, _) = begin(&dir);
        put(&stage, 0);
        let stage: Box<dyn StagedFile> = Box::new(stage);
        assert!(stage.is_sound());
        disk_fails(stage.local().expect("it is here"));
        assert!(!stage.is_sound());
        assert_eq!(journal_len(stage.local().expect("it is here")), 0);
        let kind = |done: io::Result<()>| done.expect_err("it has failed").kind();
        let failed = kind(stage.record(BlockHash::from([1; 32])));
        assert_eq!(failed, io::ErrorKind::StorageFull);
        let verified = Written::of(stage, b"").expect("written").verify_len(0).expect("as long");
        let attributes = Attributes::new(0o600, Timestamp { secs: 1, nanos: 0 });
        let mut sealed = verified.seal(&attributes, Attribute::NONE).expect("sealed");
        assert_eq!(kind(sealed.sync()), io::ErrorKind::StorageFull);
        let published = sealed.publish(&big(), haul_model::OnExisting::Keep);
        assert_eq!(kind(published.map(drop)), io::ErrorKind::StorageFull);
        drop(sealed);
        assert_eq!(names(&temp), 0);
    }

    #[test]
    fn a_checkpoint_of_a_stage_that_is_given_up_writes_nothing() {
        type GiveUp = fn(&Stage);
        let give_up: [GiveUp; 2] = [|stage| partial(stage).discard(), disk_fails];
        for give_up in give_up {
            let (_temp, dir) = place();
            let (stage, _) = begin(&dir);
            put(&stage, 0);
            give_up(&stage);
            partial(&stage).shared.checkpoint();
            assert_eq!(journal_len(&stage), 0);
        }
    }

    #[test]
    fn a_sealed_file_that_is_given_up_is_not_resumed() {
        for is_given_up in [false, true] {
            let (temp, dir) = place();
            let (stage, _) = begin(&dir);
            put(&stage, 0);
            let written = Written::of(Box::new(stage), b"").expect("written");
            let verified = written.verify_len(0).expect("as long");
            let attributes = Attributes::new(0o600, Timestamp { secs: 1, nanos: 0 });
            let sealed = verified.seal(&attributes, Attribute::NONE).expect("sealed");
            match is_given_up {
                true => sealed.discard(),
                false => drop(sealed),
            }
            let earlier = Stage::earlier(&dir, &big(), &source());
            let expected = if is_given_up { Earlier::Nothing } else { Earlier::Partial };
            assert_eq!((earlier, names(&temp) == 0), (expected, is_given_up));
        }
    }

    #[test]
    fn either_file_of_a_stage_is_a_leftover() {
        for kept in [[true, true], [true, false], [false, true], [false, false]] {
            let (temp, dir) = place();
            let names = Names::of(&big(), &source());
            for (name, is_kept) in [&names.part, &names.journal].into_iter().zip(kept) {
                if is_kept {
                    std::fs::write(temp.path().join(name), "left").expect("written");
                }
            }
            assert_eq!(remove_leftovers(&dir, &big(), &source()), kept != [false, false]);
            assert_eq!(self::names(&temp), 0, "{kept:?}");
        }
    }
}

//! The journal of a large file that is uploaded to a host without haul. The stage is on the host.
//! The journal is on this machine, in a directory of the user.
//!
//! Blocks that the host has flushed are committed, as for a local stage. This machine can't know
//! whether the host was restarted since. So only committed blocks count if the host can flush
//! files. Otherwise all records count, and a check of the last recorded block detects a loss.

use crate::Records;
use crate::journal::{BootId, Earlier, Journal, SourceId};
use crate::partial::{LOCK_WAIT_MAX, lock_journal};
use crate::private::Names;
use crate::records::{fresh_id, name_prefix};
use haul_model::{BlockHash, Name};
use haul_sys::Dir;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The suffix of the names of journals.
const SUFFIX: &str = ".journal";

/// A large file that is being uploaded: its stage on the host, and its journal here.
#[derive(Debug, Clone)]
pub struct RemotePart {
    dir: Arc<Dir>,
    /// The name of the journal.
    journal: String,
    source: SourceId,
    /// The name of the stage, in the directory of the final name.
    pub stage: String,
}

impl Records {
    /// The copy of `source` to the file `name` in the directory `place`.
    ///
    /// Different directories of records have different stages, because they don't share locks.
    pub fn part(&self, place: &[u8], name: &Name, source: &SourceId) -> RemotePart {
        let stage = Names::for_keeper(name, source, &self.id);
        let journal = format!("{}{stage}{SUFFIX}", name_prefix(place));
        RemotePart { dir: Arc::clone(&self.dir), journal, source: *source, stage }
    }

    /// Removes the journals that earlier jobs have left, for any source of the file `name` in the
    /// directory `place`, unless another process has them. `remove` must remove the stage with the
    /// given name.
    pub fn remove_stale(&self, place: &[u8], name: &Name, mut remove: impl FnMut(&str)) {
        let all = self.journals.get_or_init(|| {
            let is_journal = |name: &[u8]| name.ends_with(SUFFIX.as_bytes());
            let names = self.dir.names_where(is_journal).unwrap_or_default();
            let text = |name: &Name| std::str::from_utf8(name.as_bytes()).ok().map(str::to_owned);
            names.iter().filter_map(text).collect()
        });
        if all.is_empty() {
            return;
        }
        let (place, prefix) = (name_prefix(place), Names::prefix(name));
        for journal in all {
            let stage = journal.strip_prefix(&place).and_then(|rest| rest.strip_suffix(SUFFIX));
            let Some(stage) = stage.filter(|stage| stage.starts_with(&prefix)) else { continue };
            if !self.dir.has_private(journal) {
                continue;
            }
            if let Ok(_held) = lock_journal(&self.dir, journal, Duration::ZERO) {
                remove(stage);
                let _ = self.dir.remove_private(journal);
            }
        }
    }
}

impl RemotePart {
    /// The stage of an earlier copy, by its journal.
    pub fn earlier(&self) -> Earlier {
        Earlier::in_dir(&self.dir, &self.journal, &self.source)
    }

    /// The number of blocks that can be resumed, if no process writes the stage. For
    /// `keeps_durable` see [`Self::open`].
    pub fn kept(&self, keeps_durable: bool) -> u64 {
        if self.earlier() != Earlier::Partial {
            return 0;
        }
        self.open(keeps_durable).map_or(0, |(_, blocks)| blocks.len() as u64)
    }

    /// Removes the journal of an earlier copy, unless another process has it.
    pub fn remove_journal(&self) {
        if let Ok(_held) = lock_journal(&self.dir, &self.journal, Duration::ZERO) {
            let _ = self.dir.remove_private(&self.journal);
        }
    }

    /// Opens or creates the journal. Returns it, and the hashes of the blocks that can be resumed.
    /// `keeps_durable` if the host can flush files.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] while another process on this machine writes the same file;
    /// errors of opening and writing.
    pub fn open(&self, keeps_durable: bool) -> io::Result<(RemoteJournal, Vec<BlockHash>)> {
        let file = lock_journal(&self.dir, &self.journal, LOCK_WAIT_MAX)?;
        // If uncommitted blocks may be lost, each session counts as another boot.
        let boot = if keeps_durable { BootId(fresh_id()) } else { BootId([0; 16]) };
        let (journal, blocks) = match Journal::resume(file.try_clone()?, &self.source, boot)? {
            Some(resumed) => resumed,
            None => (Journal::create(file.try_clone()?, &self.source, boot)?, Vec::new()),
        };
        Ok((RemoteJournal { part: self.clone(), journal, file, boot, keep: true }, blocks))
    }
}

/// The locked journal of a stage on another machine. Dropping it keeps the file, unless it has no
/// records.
#[derive(Debug)]
pub struct RemoteJournal {
    part: RemotePart,
    journal: Journal,
    /// The journal's file. It holds the lock while it is open.
    file: File,
    boot: BootId,
    keep: bool,
}

impl RemoteJournal {
    /// Begins the journal again: the recorded blocks do not exist.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn restart(&mut self) -> io::Result<()> {
        self.journal = Journal::create(self.file.try_clone()?, &self.part.source, self.boot)?;
        Ok(())
    }

    /// Number of recorded blocks.
    pub fn blocks(&self) -> u64 {
        self.journal.records
    }

    /// Number of recorded blocks that the host has flushed.
    pub fn committed(&self) -> u64 {
        self.journal.committed
    }

    /// Appends the hash of the next block. The host must have confirmed that it is written.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn append(&mut self, block: BlockHash) -> io::Result<()> {
        self.journal.append(block)
    }

    /// Commits the recorded blocks. `sync` must have the host flush the stage.
    ///
    /// # Errors
    /// Errors of `sync` and of writing.
    pub fn commit(&mut self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let point = self.journal.commit_point();
        sync()?;
        self.journal.commit(&point)
    }

    /// Gives up the stage: dropping this removes the journal.
    pub fn forget(&mut self) {
        self.keep = false;
    }
}

impl Drop for RemoteJournal {
    fn drop(&mut self) {
        if !self.keep || self.journal.is_empty() {
            self.journal.revoke();
            let _ = self.part.dir.remove_private(&self.part.journal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::{BLOCK_LEN, Timestamp};

    fn records(temp: &tempfile::TempDir) -> Records {
        Records::open(temp.path()).unwrap()
    }

    fn source() -> SourceId {
        let mtime = Timestamp { secs: 7, nanos: 0 };
        SourceId { size: 100 << 20, mtime, inode: 3, ctime: None }
    }

    fn big() -> Name {
        Name::new(b"big").unwrap()
    }

    fn place() -> (tempfile::TempDir, RemotePart) {
        let temp = tempfile::tempdir().unwrap();
        let part = records(&temp).part(b"host:/dir", &big(), &source());
        (temp, part)
    }

    fn block(index: u64) -> BlockHash {
        BlockHash::of(index, &vec![index as u8; BLOCK_LEN as usize])
    }

    #[test]
    fn where_the_host_makes_durable_only_that_is_believed() {
        let (_temp, part) = place();
        let (mut journal, blocks) = part.open(true).unwrap();
        assert!(blocks.is_empty());
        journal.append(block(0)).unwrap();
        journal.commit(|| Ok(())).unwrap();
        journal.append(block(1)).unwrap();
        journal.commit(|| Err(io::ErrorKind::Other.into())).unwrap_err();
        drop(journal);
        let (_, blocks) = part.open(true).unwrap();
        assert_eq!(blocks, [block(0)]);
    }

    #[test]
    fn where_it_does_not_all_records_are() {
        let (_temp, part) = place();
        let (mut journal, _) = part.open(false).unwrap();
        journal.append(block(0)).unwrap();
        journal.append(block(1)).unwrap();
        drop(journal);
        let (_, blocks) = part.open(false).unwrap();
        assert_eq!(blocks, [block(0), block(1)]);
    }

    #[test]
    fn one_that_prints_nothing_or_is_done_with_leaves_nothing() {
        let (temp, part) = place();
        drop(part.open(true).unwrap());
        let (mut journal, _) = part.open(false).unwrap();
        journal.append(block(0)).unwrap();
        journal.forget();
        drop(journal);
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1, "more than the id");
    }

    #[test]
    fn what_other_sources_of_a_name_have_left_is_removed_and_no_more() {
        let (temp, part) = place();
        let records = records(&temp);
        let begin = |part: &RemotePart| {
            let (mut journal, _) = part.open(false).unwrap();
            journal.append(block(0)).unwrap();
            journal
        };
        drop(begin(&part));
        drop(begin(&records.part(b"host:/other", &big(), &source())));
        drop(begin(&records.part(b"host:/dir", &Name::new(b"small").unwrap(), &source())));
        let other = SourceId { size: 1, ..source() };
        let _busy = begin(&records.part(b"host:/dir", &big(), &other));
        let mut removed = Vec::new();
        records.remove_stale(b"host:/dir", &big(), |stage| removed.push(stage.to_owned()));
        assert_eq!(removed, [part.stage]);
        assert_eq!(records.journals.get().unwrap().len(), 4);
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 4);
    }

    #[test]
    fn a_journal_counts_what_is_recorded_committed_and_resumable() {
        let (_temp, part) = place();
        assert_eq!((part.earlier(), part.kept(true)), (Earlier::Nothing, 0));
        let (mut journal, _) = part.open(true).unwrap();
        for index in 0..3_u64 {
            assert_eq!((journal.blocks(), journal.committed()), (index, index.saturating_sub(1)));
            journal.commit(|| Ok(())).unwrap();
            assert_eq!(journal.committed(), index);
            journal.append(block(index)).unwrap();
        }
        drop(journal);
        assert_eq!((part.earlier(), part.kept(true)), (Earlier::Partial, 2));
        // No host forgets what it has confirmed, if it can't flush.
        let (mut journal, _) = part.open(false).unwrap();
        journal.append(block(2)).unwrap();
        drop(journal);
        assert_eq!(part.kept(false), 3);
    }

    #[test]
    fn a_journal_that_begins_again_or_goes_has_no_blocks() {
        for goes in [false, true] {
            let (temp, part) = place();
            let (mut journal, _) = part.open(false).unwrap();
            journal.append(block(0)).unwrap();
            if goes {
                part.remove_journal();
                assert_eq!(part.earlier(), Earlier::Partial, "it is in use");
                drop(journal);
                part.remove_journal();
            } else {
                journal.restart().unwrap();
                assert_eq!(journal.blocks(), 0);
                drop(journal);
            }
            assert_eq!((part.earlier(), part.kept(false)), (Earlier::Nothing, 0));
            assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1, "more than the id");
        }
    }

    #[test]
    fn another_process_is_reported_that_it_is_busy() {
        let (_temp, part) = place();
        let _held = part.open(true).unwrap();
        let error = part.open(true).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    }

    #[test]
    fn another_place_has_another_journal() {
        let (temp, part) = place();
        let other = records(&temp).part(b"host:/other", &big(), &source());
        assert_eq!(part.stage, other.stage);
        assert_ne!(part.journal, other.journal);
    }

    #[test]
    fn whoever_has_other_journals_has_another_stage() {
        let (temp, part) = place();
        let again = records(&temp).part(b"host:/dir", &big(), &source());
        assert_eq!((&part.stage, &part.journal), (&again.stage, &again.journal));
        let elsewhere = tempfile::tempdir().unwrap();
        let other = records(&elsewhere).part(b"host:/dir", &big(), &source());
        assert_ne!(part.stage, other.stage);
        assert!(crate::is_private(&Name::new(other.stage.as_bytes()).unwrap()));
    }
}

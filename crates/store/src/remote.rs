//! The journal of a large file that is uploaded to a host without haul. The stage is on the host.
//! The journal is on this machine, in a directory of the user.
//!
//! Blocks that the host has flushed are committed, as for a local stage. This machine can't know
//! whether the host was restarted since. So only committed blocks count if the host can flush
//! files. Otherwise all records count, and a check of the last recorded block detects a loss.

use crate::journal::{BootId, Earlier, Journal, SourceId};
use crate::partial::{LOCK_WAIT_MAX, lock_journal};
use crate::private::{Names, private_name};
use haul_model::{BlockHash, Name};
use haul_sys::{Dir, Stat};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The names of a large file that is being uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteNames {
    /// The name of the stage, in the directory of the final name.
    pub stage: String,
    /// The name of the local journal.
    journal: String,
}

impl RemoteNames {
    /// The names for the file `name` in the directory `place`, a text that is unique among all
    /// directories of all hosts.
    ///
    /// Different directories of journals have different stages, because they don't share locks.
    pub fn of(journals: &Journals, place: &[u8], name: &Name, source: &SourceId) -> Self {
        let stage = Names::for_keeper(name, source, &journals.id);
        Self { journal: format!("{}{stage}{SUFFIX}", name_prefix(place)), stage }
    }
}

/// A directory of journals on this machine.
#[derive(Debug)]
pub struct Journals {
    dir: Arc<Dir>,
    /// The unique id of the directory.
    id: [u8; ID_LEN],
}

/// Length of the id in bytes.
const ID_LEN: usize = 16;

/// The file with the id.
const ID_NAME: &str = "id";

impl Journals {
    /// Opens the directory `path`, which is created if it is missing, and gets an id if it has
    /// none.
    ///
    /// # Errors
    /// Errors of creating and opening it, and of reading and writing the id;
    /// [`io::ErrorKind::PermissionDenied`] if it belongs to another user, or others can write to
    /// it. They could forge the state of an upload.
    pub fn open(path: &Path) -> io::Result<Self> {
        let to = |action: &str, error: &io::Error| {
            io::Error::new(error.kind(), format!("can't {action}: {error}"))
        };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| to("create the directory", &error))?;
        let dir = Dir::open(path).map_err(|error| to("open the directory", &error))?;
        check_owner(&dir.stat_self()?)?;
        Self::of(dir).map_err(|error| to("use its file \"id\"", &error))
    }

    fn of(dir: Dir) -> io::Result<Self> {
        let file = lock_journal(&dir, ID_NAME, LOCK_WAIT_MAX)?;
        let mut id = [0; ID_LEN];
        match file.read_exact_at(&mut id, 0) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                id = fresh_id();
                file.write_all_at(&id, 0)?;
            }
            Err(error) => return Err(error),
        }
        Ok(Self { dir: Arc::new(dir), id })
    }

    /// The directory.
    pub fn dir(&self) -> &Arc<Dir> {
        &self.dir
    }
}

/// Checks that a directory belongs to the user, and that nobody else can write to it.
pub(crate) fn check_owner(stat: &Stat) -> io::Result<()> {
    /// The mode bits that allow others to write.
    const OTHERS_WRITE: u32 = 0o022;
    let refuse = |cause| Err(io::Error::new(io::ErrorKind::PermissionDenied, cause));
    if stat.uid != haul_sys::effective_user() {
        return refuse("it belongs to another user");
    }
    if stat.mode & OTHERS_WRITE != 0 {
        return refuse("other users can write to it");
    }
    Ok(())
}

/// The suffix of the names of journals.
const SUFFIX: &str = ".journal";

/// The beginning of the names of all journals for a directory.
pub(crate) fn name_prefix(place: &[u8]) -> String {
    format!("{}-", &blake3::hash(place).to_hex()[..32])
}

/// Removes `records` that are older than `age_max`, and the oldest beyond `count_max`.
pub(crate) fn sweep(dir: &Dir, records: Vec<Name>, age_max: Duration, count_max: usize) {
    let mut records: Vec<_> = records.into_iter().map(|name| (age(dir, &name), name)).collect();
    records.sort_unstable();
    for (at, (age, name)) in records.iter().enumerate() {
        if *age > age_max || at >= count_max {
            // If this fails, the next job removes it.
            let _ = dir.remove_file(name);
        }
    }
}

/// The time since the record was last written. The maximum if it does not exist.
pub(crate) fn age(dir: &Dir, record: &Name) -> Duration {
    let Ok(stat) = dir.stat(record) else { return Duration::MAX };
    let Ok(secs) = u64::try_from(stat.mtime.secs) else { return Duration::MAX };
    let written = SystemTime::UNIX_EPOCH + Duration::from_secs(secs);
    // If the clock was set back, the record counts as new.
    written.elapsed().unwrap_or_default()
}

/// The locked journal of a stage on another machine. Dropping it keeps the file, unless it has no
/// records.
#[derive(Debug)]
pub struct RemoteJournal {
    dir: Arc<Dir>,
    name: String,
    journal: Journal,
    /// The journal's file. It holds the lock while it is open.
    file: File,
    boot: BootId,
    keep: bool,
}

impl RemoteJournal {
    /// The stage of an earlier copy of `source`, by its journal in `dir`.
    pub fn earlier(dir: &Dir, names: &RemoteNames, source: &SourceId) -> Earlier {
        Earlier::in_dir(dir, &names.journal, source)
    }

    /// The number of blocks that can be resumed from a stage that no process writes. For
    /// `keeps_durable` see [`Self::open`].
    pub fn kept(
        dir: &Arc<Dir>,
        names: &RemoteNames,
        source: &SourceId,
        keeps_durable: bool,
    ) -> u64 {
        if Self::earlier(dir, names, source) != Earlier::Partial {
            return 0;
        }
        Self::open(dir, names, source, keeps_durable).map_or(0, |(_, blocks)| blocks.len() as u64)
    }

    /// Removes the journal of an earlier copy, unless another process has it.
    pub fn remove(dir: &Dir, names: &RemoteNames) {
        if let Ok(_held) = lock_journal(dir, &names.journal, Duration::ZERO) {
            let _ = dir.remove_private(&names.journal);
        }
    }

    /// The names of all journals in `dir`.
    pub fn all(dir: &Dir) -> Vec<String> {
        let names = dir.names_where(|name| name.ends_with(SUFFIX.as_bytes())).unwrap_or_default();
        let text = |name: &Name| std::str::from_utf8(name.as_bytes()).ok().map(str::to_owned);
        names.iter().filter_map(text).collect()
    }

    /// Removes the journals in `dir`, out of `all`, for any source of the file `name` in the
    /// directory `place`, unless another process has them. `remove` must remove the stage with the
    /// given name.
    pub fn remove_stale(
        dir: &Dir,
        all: &[String],
        place: &[u8],
        name: &Name,
        mut remove: impl FnMut(&str),
    ) {
        if all.is_empty() {
            return;
        }
        let (place, prefix) = (name_prefix(place), Names::prefix(name));
        for journal in all {
            let stage = journal.strip_prefix(&place).and_then(|rest| rest.strip_suffix(SUFFIX));
            let Some(stage) = stage.filter(|stage| stage.starts_with(&prefix)) else { continue };
            if !dir.has_private(journal) {
                continue;
            }
            if let Ok(_held) = lock_journal(dir, journal, Duration::ZERO) {
                remove(stage);
                let _ = dir.remove_private(journal);
            }
        }
    }

    /// Opens or creates the journal in `dir`. Returns it, and the hashes of the blocks that can be
    /// resumed. `keeps_durable` if the host can flush files.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] while another process on this machine writes the same file;
    /// errors of opening and writing.
    pub fn open(
        dir: &Arc<Dir>,
        names: &RemoteNames,
        source: &SourceId,
        keeps_durable: bool,
    ) -> io::Result<(Self, Vec<BlockHash>)> {
        let file = lock_journal(dir, &names.journal, LOCK_WAIT_MAX)?;
        // If uncommitted blocks may be lost, each session counts as another boot.
        let boot = if keeps_durable { BootId(fresh_id()) } else { BootId([0; 16]) };
        let (journal, blocks) = match Journal::resume(file.try_clone()?, source, boot)? {
            Some(resumed) => resumed,
            None => (Journal::create(file.try_clone()?, source, boot)?, Vec::new()),
        };
        let (dir, name) = (Arc::clone(dir), names.journal.clone());
        Ok((Self { dir, name, journal, file, boot, keep: true }, blocks))
    }

    /// Begins the journal again: the recorded blocks do not exist.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn restart(&mut self, source: &SourceId) -> io::Result<()> {
        self.journal = Journal::create(self.file.try_clone()?, source, self.boot)?;
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
            let _ = self.dir.remove_private(&self.name);
        }
    }
}

fn fresh_id() -> [u8; ID_LEN] {
    let name = private_name();
    let digits = name.as_bytes();
    digits[digits.len() - 16..].try_into().expect("it ends with 16 digits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::{BLOCK_LEN, Timestamp};
    use std::fs::Permissions as Mode;
    use std::os::unix::fs::PermissionsExt;

    fn journals(temp: &tempfile::TempDir) -> Journals {
        Journals::open(temp.path()).unwrap()
    }

    fn place() -> (tempfile::TempDir, Arc<Dir>, RemoteNames, SourceId) {
        let temp = tempfile::tempdir().unwrap();
        let journals = journals(&temp);
        let dir = Arc::clone(journals.dir());
        let mtime = Timestamp { secs: 7, nanos: 0 };
        let source = SourceId { size: 100 << 20, mtime, inode: 3, ctime: None };
        let names = RemoteNames::of(&journals, b"host:/dir", &Name::new(b"big").unwrap(), &source);
        (temp, dir, names, source)
    }

    fn block(index: u64) -> BlockHash {
        BlockHash::of(index, &vec![index as u8; BLOCK_LEN as usize])
    }

    #[test]
    fn a_directory_that_is_not_the_users_alone_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("a/b");
        let refusal = || Journals::open(&dir).unwrap_err().to_string();
        let mode = |path: &Path, mode| std::fs::set_permissions(path, Mode::from_mode(mode));
        drop(Journals::open(&dir).unwrap());
        for above in [dir.parent().unwrap(), &dir] {
            assert_eq!(std::fs::metadata(above).unwrap().permissions().mode() & 0o777, 0o700);
        }
        for (bits, is_refused) in [(0o755, false), (0o720, true), (0o702, true), (0o700, false)] {
            mode(&dir, bits).unwrap();
            let opened = Journals::open(&dir);
            assert_eq!(opened.is_err(), is_refused, "{bits:o}: {opened:?}");
        }
        mode(&dir, 0o777).unwrap();
        assert_eq!(refusal(), "other users can write to it");
        if haul_sys::is_root() {
            mode(&dir, 0o700).unwrap();
            std::os::unix::fs::chown(&dir, Some(65534), None).unwrap();
            assert_eq!(refusal(), "it belongs to another user");
        }
        std::fs::remove_file(dir.join("id")).unwrap();
        std::fs::remove_dir(&dir).unwrap();
        std::fs::write(&dir, "").unwrap();
        assert!(refusal().starts_with("can't create the directory: "), "{}", refusal());
    }

    #[test]
    fn where_the_host_makes_durable_only_that_is_believed() {
        let (_temp, dir, names, source) = place();
        let (mut journal, blocks) = RemoteJournal::open(&dir, &names, &source, true).unwrap();
        assert!(blocks.is_empty());
        journal.append(block(0)).unwrap();
        journal.commit(|| Ok(())).unwrap();
        journal.append(block(1)).unwrap();
        journal.commit(|| Err(io::ErrorKind::Other.into())).unwrap_err();
        drop(journal);
        let (_, blocks) = RemoteJournal::open(&dir, &names, &source, true).unwrap();
        assert_eq!(blocks, [block(0)]);
    }

    #[test]
    fn where_it_does_not_all_records_are() {
        let (_temp, dir, names, source) = place();
        let (mut journal, _) = RemoteJournal::open(&dir, &names, &source, false).unwrap();
        journal.append(block(0)).unwrap();
        journal.append(block(1)).unwrap();
        drop(journal);
        let (_, blocks) = RemoteJournal::open(&dir, &names, &source, false).unwrap();
        assert_eq!(blocks, [block(0), block(1)]);
    }

    #[test]
    fn one_that_prints_nothing_or_is_done_with_leaves_nothing() {
        let (temp, dir, names, source) = place();
        drop(RemoteJournal::open(&dir, &names, &source, true).unwrap());
        let (mut journal, _) = RemoteJournal::open(&dir, &names, &source, false).unwrap();
        journal.append(block(0)).unwrap();
        journal.forget();
        drop(journal);
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1, "more than the id");
    }

    #[test]
    fn what_other_sources_of_a_name_have_left_is_removed_and_no_more() {
        let (temp, dir, names, source) = place();
        let (name, other) = (Name::new(b"big").unwrap(), SourceId { size: 1, ..source });
        let journals = journals(&temp);
        let begin = |names: &RemoteNames| {
            let (mut journal, _) = RemoteJournal::open(&dir, names, &source, false).unwrap();
            journal.append(block(0)).unwrap();
            journal
        };
        drop(begin(&names));
        drop(begin(&RemoteNames::of(&journals, b"host:/other", &name, &source)));
        drop(begin(&RemoteNames::of(
            &journals,
            b"host:/dir",
            &Name::new(b"small").unwrap(),
            &source,
        )));
        let _busy = begin(&RemoteNames::of(&journals, b"host:/dir", &name, &other));
        let all = RemoteJournal::all(&dir);
        assert_eq!(all.len(), 4);
        let mut removed = Vec::new();
        let remove = |stage: &str| removed.push(stage.to_owned());
        RemoteJournal::remove_stale(&dir, &all, b"host:/dir", &name, remove);
        assert_eq!(removed, [names.stage]);
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 4);
    }

    #[test]
    fn another_process_is_reported_that_it_is_busy() {
        let (_temp, dir, names, source) = place();
        let _held = RemoteJournal::open(&dir, &names, &source, true).unwrap();
        let error = RemoteJournal::open(&dir, &names, &source, true).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    }

    #[test]
    fn another_place_has_another_journal() {
        let (temp, _dir, names, source) = place();
        let name = Name::new(b"big").unwrap();
        let other = RemoteNames::of(&journals(&temp), b"host:/other", &name, &source);
        assert_eq!(names.stage, other.stage);
        assert_ne!(names.journal, other.journal);
    }

    #[test]
    fn whoever_has_other_journals_has_another_stage() {
        let (temp, _dir, names, source) = place();
        let name = Name::new(b"big").unwrap();
        let again = RemoteNames::of(&journals(&temp), b"host:/dir", &name, &source);
        assert_eq!(names, again);
        let elsewhere = tempfile::tempdir().unwrap();
        let other = RemoteNames::of(&journals(&elsewhere), b"host:/dir", &name, &source);
        assert_ne!(names.stage, other.stage);
        assert!(crate::is_private(&Name::new(other.stage.as_bytes()).unwrap()));
    }
}

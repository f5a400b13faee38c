//! The journal of a large file that is on its way to a host without haul: the
//! stage is there, the journal here, in a directory of the user's own.
//!
//! Blocks that the host was told to make durable are committed, as for a stage on this
//! machine. This machine can't know whether the host was started anew since then. So
//! where the host can be told to make files durable, only what is committed is believed;
//! where it can't, all records are, and what it has lost shows if it lost the last of
//! them.

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

/// The names under which a large file is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteNames {
    /// Of the stage, in the directory where the file is to appear.
    pub stage: String,
    /// Of the journal here.
    journal: String,
}

impl RemoteNames {
    /// For the file `name` in the directory that `place` stands for: a text that
    /// tells it from every other directory of every host.
    ///
    /// Whoever has other journals, on this machine or another, has another stage:
    /// nobody here could know that it is being written.
    pub fn of(journals: &Journals, place: &[u8], name: &Name, source: &SourceId) -> Self {
        let stage = Names::of_keeper(name, source, &journals.id);
        Self { journal: format!("{}{stage}{END}", start_of(place)), stage }
    }
}

/// A directory of journals on this machine.
#[derive(Debug)]
pub struct Journals {
    dir: Arc<Dir>,
    /// Tells it from all others.
    id: [u8; ID_LEN],
}

/// Length of the id of a directory of journals, in bytes.
const ID_LEN: usize = 16;

/// Where the id is kept.
const ID_NAME: &str = "id";

impl Journals {
    /// Those in the directory `path`, which is made if it is missing, and gets its
    /// id if it has none.
    ///
    /// # Errors
    /// Those of making and opening it, and of reading and writing the id;
    /// [`io::ErrorKind::PermissionDenied`] for one that belongs to another user or
    /// that others can write to: they could say what is there at a host.
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

/// Checks that a directory is the user's own, and that nobody else can write to it.
pub(crate) fn check_owner(stat: &Stat) -> io::Result<()> {
    /// The bits of a directory's mode by which others may write.
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

/// The ending of the names of journals.
const END: &str = ".journal";

/// The beginning of the names of all journals of one directory.
pub(crate) fn start_of(place: &[u8]) -> String {
    format!("{}-", &blake3::hash(place).to_hex()[..32])
}

/// Removes `records` that nothing was written to for `age_max`, and of the others the oldest
/// beyond `count_max`.
pub(crate) fn sweep(dir: &Dir, records: Vec<Name>, age_max: Duration, count_max: usize) {
    let mut records: Vec<_> = records.into_iter().map(|name| (age(dir, &name), name)).collect();
    records.sort_unstable();
    for (at, (age, name)) in records.iter().enumerate() {
        if *age > age_max || at >= count_max {
            // If that fails, the next job removes it.
            let _ = dir.remove_file(name);
        }
    }
}

/// The time since the record was written last; the longest if there is none.
pub(crate) fn age(dir: &Dir, record: &Name) -> Duration {
    let Ok(stat) = dir.stat(record) else { return Duration::MAX };
    let Ok(secs) = u64::try_from(stat.mtime.secs) else { return Duration::MAX };
    let written = SystemTime::UNIX_EPOCH + Duration::from_secs(secs);
    // A clock that was set back makes no record older.
    written.elapsed().unwrap_or_default()
}

/// A journal of a stage on another machine, locked. Dropped, it stays, unless it
/// says nothing.
#[derive(Debug)]
pub struct RemoteJournal {
    dir: Arc<Dir>,
    name: String,
    journal: Journal,
    /// The journal's file, whose lock is held as long as it is open.
    file: File,
    boot: BootId,
    keep: bool,
}

impl RemoteJournal {
    /// The stage that an earlier copy left in `dir`, where `source` is to be copied.
    pub fn earlier(dir: &Dir, names: &RemoteNames, source: &SourceId) -> Earlier {
        Earlier::in_dir(dir, &names.journal, source)
    }

    /// Blocks that are on record and can be believed of a stage that nobody writes now;
    /// `keeps_durable` as for [`Self::open`].
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

    /// Removes what an earlier copy has left, unless another process has it.
    pub fn remove(dir: &Dir, names: &RemoteNames) {
        if let Ok(_held) = lock_journal(dir, &names.journal, Duration::ZERO) {
            let _ = dir.remove_private(&names.journal);
        }
    }

    /// The names of all journals in `dir`.
    pub fn all(dir: &Dir) -> Vec<String> {
        let names = dir.names_where(|name| name.ends_with(END.as_bytes())).unwrap_or_default();
        let text = |name: &Name| std::str::from_utf8(name.as_bytes()).ok().map(str::to_owned);
        names.iter().filter_map(text).collect()
    }

    /// Removes those of the journals `all` in `dir` that belong to whatever source
    /// of the file `name` in the directory that `place` stands for, unless another
    /// process has them. `remove` is to remove the stage of that name.
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
        let (place, prefix) = (start_of(place), Names::prefix(name));
        for journal in all {
            let stage = journal.strip_prefix(&place).and_then(|rest| rest.strip_suffix(END));
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

    /// Opens or begins the journal in `dir`; gives the hashes of the blocks that
    /// are there and can be believed. `keeps_durable` says that the host can be
    /// told to make files durable.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] while another process on this machine
    /// writes the same file; else those of opening and writing.
    pub fn open(
        dir: &Arc<Dir>,
        names: &RemoteNames,
        source: &SourceId,
        keeps_durable: bool,
    ) -> io::Result<(Self, Vec<BlockHash>)> {
        let file = lock_journal(dir, &names.journal, LOCK_WAIT_MAX)?;
        // No two sessions are one boot where what is not committed may be lost.
        let boot = if keeps_durable { BootId(fresh_id()) } else { BootId([0; 16]) };
        let (journal, blocks) = match Journal::resume(file.try_clone()?, source, boot)? {
            Some(resumed) => resumed,
            None => (Journal::create(file.try_clone()?, source, boot)?, Vec::new()),
        };
        let (dir, name) = (Arc::clone(dir), names.journal.clone());
        Ok((Self { dir, name, journal, file, boot, keep: true }, blocks))
    }

    /// Begins anew: what was on record is not there.
    ///
    /// # Errors
    /// Those of writing.
    pub fn restart(&mut self, source: &SourceId) -> io::Result<()> {
        self.journal = Journal::create(self.file.try_clone()?, source, self.boot)?;
        Ok(())
    }

    /// Blocks on record.
    pub fn blocks(&self) -> u64 {
        self.journal.len()
    }

    /// Blocks on record that the host has made durable.
    pub fn committed(&self) -> u64 {
        self.journal.committed()
    }

    /// Appends the hash of the next block, of which the host has said that it is
    /// written.
    ///
    /// # Errors
    /// Those of writing.
    pub fn append(&mut self, block: BlockHash) -> io::Result<()> {
        self.journal.append(block)
    }

    /// Commits the blocks on record, after `sync` has had the host make the stage durable.
    ///
    /// # Errors
    /// Those of `sync` and of writing.
    pub fn commit(&mut self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let point = self.journal.commit_point();
        sync()?;
        self.journal.commit(&point)
    }

    /// Nothing will continue the stage: the journal goes when this is dropped.
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
    fn one_that_says_nothing_or_is_done_with_leaves_nothing() {
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
    fn another_process_is_told_that_it_is_busy() {
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

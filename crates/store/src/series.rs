//! The names that one job gives its small stages on a host without haul, and how
//! a later job on this machine knows that nobody writes to them any more.
//!
//! All names of a job begin with the same random digits, and a record of those is
//! kept beside the journals, locked as long as the job lives. A record whose lock
//! is free is that of a job that was killed, or that has lost its host: no other
//! process will ever use its digits, so whatever has them can go.
//!
//! ```text
//! HOST32-.haul-SERIES10.stages      what the record is called
//! .haul-SERIES10COUNT6.sftp         what the job's stages are called
//! ```
//!
//! A record consists of lines of one length: the hash of a directory, and what is
//! said of it. `+` is one to which the job went, and which a later job may not
//! list by itself; `.` a later job that has looked through it.

use crate::partial::{LOCK_WAIT_MAX, lock_journal};
use crate::private::{Form, SENT_END, SERIES_START_LEN, parse, sent_name, series_start};
use crate::remote::{Journals, start_of};
use haul_model::Name;
use haul_sys::Dir;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// The ending of the names of records.
const END: &str = ".stages";

/// Length of a line of a record, in bytes.
const LINE_LEN: usize = 34;

/// The longest record that is read, in bytes: longer than jobs write one.
const RECORD_LEN_MAX: usize = 32 * LINE_LEN;

/// Ends the line of a directory to which the job went.
const WENT: u8 = b'+';

/// Ends the line of a directory that a later job has looked through.
const LOOKED: u8 = b'.';

/// Names that a series has.
const NAMES_MAX: u64 = 1 << 24;

/// How long the record of a series is kept that nobody writes to any more. What
/// it has left may be in a directory that no job goes to before that.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Records of such series that are kept, at most.
const RECORDS_MAX: usize = 256;

/// Jobs that look through the directory to which a dead one went, though they
/// would not need to: more than one, since a server may still be at work when the
/// first does.
const LOOKS_MAX: usize = 3;

/// The names of one job's small stages on a host. Dropped, its record stays,
/// unless [`Self::finish`] was called or it has given no name.
#[derive(Debug)]
pub struct StageSeries {
    dir: Arc<Dir>,
    record: String,
    start: String,
    next: AtomicU64,
    is_finished: AtomicBool,
    /// The record's file, whose lock is held as long as it is open.
    _file: File,
}

impl StageSeries {
    /// Begins a series at `host`, a text that tells it from other hosts, of a job
    /// that goes to the directories `roots`, texts that tell them from all others:
    /// those that a later job may be about only a few names in.
    ///
    /// # Errors
    /// Those of making and writing the record.
    pub fn begin(journals: &Journals, host: &[u8], roots: &[Vec<u8>]) -> io::Result<Self> {
        let start = series_start();
        let record = format!("{}{start}{END}", start_of(host));
        let file = lock_journal(journals.dir(), &record, LOCK_WAIT_MAX)?;
        let dir = Arc::clone(journals.dir());
        // Until something is in it, nobody takes it for one whose job has ended.
        let lines: String = roots.iter().map(|root| line(&start_of(root), WENT)).collect();
        let written = file.write_all_at(lines.as_bytes(), 0);
        let (next, is_finished) = (AtomicU64::new(0), AtomicBool::new(false));
        let series = Self { dir, record, start, next, is_finished, _file: file };
        written.map(|()| series)
    }

    /// A fresh name.
    pub fn name(&self) -> String {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        if count >= NAMES_MAX {
            return sent_name();
        }
        format!("{}{count:06x}{SENT_END}", self.start)
    }

    /// Nothing of it is left at the host: the record goes when this is dropped.
    pub fn finish(&self) {
        self.is_finished.store(true, Ordering::Relaxed);
    }
}

impl Drop for StageSeries {
    fn drop(&mut self) {
        if self.is_finished.load(Ordering::Relaxed) || self.next.load(Ordering::Relaxed) == 0 {
            let _ = self.dir.remove_private(&self.record);
        }
    }
}

/// The series of a host that nobody writes to any more.
#[derive(Debug, Default)]
pub struct DeadSeries {
    /// The beginning of their names.
    starts: HashSet<String>,
    /// Their records, by the directories that are to be looked through.
    roots: HashMap<String, Vec<String>>,
    /// Where the records are.
    dir: Option<Arc<Dir>>,
}

impl DeadSeries {
    /// Looks through the records for those of `host`. What can't be read is taken
    /// for that of a living job. Records of any host that are too old, or too
    /// many, are found once more and forgotten.
    pub fn find(journals: &Journals, host: &[u8]) -> Self {
        let dir = journals.dir();
        let is_record = |name: &[u8]| name.ends_with(END.as_bytes());
        let names = dir.names_where(is_record).unwrap_or_default();
        let mut dead = Self { dir: Some(Arc::clone(dir)), ..Self::default() };
        let mut records = Vec::new();
        let of_host = start_of(host);
        for name in &names {
            let Ok(name) = std::str::from_utf8(name.as_bytes()) else { continue };
            let Some(start) = start_in(name) else { continue };
            let Ok(file) = lock_journal(dir, name, Duration::ZERO) else { continue };
            let Ok(meta) = file.metadata() else { continue };
            if meta.len() == 0 {
                // Its job was killed before it could use it, or makes it anew
                // when it finds it gone.
                let _ = dir.remove_private(name);
                continue;
            }
            if name.starts_with(&of_host) {
                dead.starts.insert(start.to_owned());
                for root in due_in(&file, meta.len()) {
                    dead.roots.entry(root).or_default().push(name.to_owned());
                }
            }
            records.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), name.to_owned()));
        }
        // The youngest come first. No series is begun anew: nobody needs the lock.
        records.sort_unstable_by(|a, b| b.cmp(a));
        for (at, (begun, name)) in records.iter().enumerate() {
            let is_old = begun.elapsed().is_ok_and(|age| age > AGE_MAX);
            if is_old || at >= RECORDS_MAX {
                let _ = dir.remove_private(name);
            }
        }
        dead
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// True if one of their jobs went to the directory `root`, and it was not
    /// looked through as often as it should be.
    pub fn is_due(&self, root: &[u8]) -> bool {
        !self.roots.is_empty() && self.roots.contains_key(&start_of(root))
    }

    /// Puts on record that the directory `root` was looked through.
    pub fn looked_through(&self, root: &[u8]) {
        let root = start_of(root);
        let (Some(dir), Some(records)) = (&self.dir, self.roots.get(&root)) else { return };
        for record in records {
            // Where it can't be done, the next job looks again.
            if let Ok((file, stat)) = dir.open_found(record) {
                let lines_len = stat.size - stat.size % LINE_LEN as u64;
                // The rest of a line that a full disk has cut is written over.
                let _ = file.write_all_at(line(&root, LOOKED).as_bytes(), lines_len);
            }
        }
    }

    /// True if `name` is that of a stage of one of them.
    pub fn has(&self, name: &Name) -> bool {
        let name = name.as_bytes();
        !self.is_empty()
            && parse(name).is_some_and(|(form, stem)| {
                form == Form::Sent && self.starts.contains(&stem[..SERIES_START_LEN])
            })
    }
}

/// The line of a record that says `what` of the directory with the hash `root`.
fn line(root: &str, what: u8) -> String {
    format!("{root}{}", char::from(what))
}

/// The directories that are to be looked through by what the record in `file`
/// says, which is `len` bytes long. One that can't be read says nothing.
fn due_in(file: &File, len: u64) -> Vec<String> {
    let mut lines = vec![0; RECORD_LEN_MAX.min(usize::try_from(len).unwrap_or(RECORD_LEN_MAX))];
    if file.read_exact_at(&mut lines, 0).is_err() {
        return Vec::new();
    }
    let said = |what| {
        let lines = lines.chunks_exact(LINE_LEN).filter_map(<[u8]>::split_last);
        lines.filter(move |(end, _)| **end == what).map(|(_, root)| root)
    };
    let is_due = |root: &&[u8]| said(LOOKED).filter(|looked| looked == root).count() < LOOKS_MAX;
    let due = said(WENT).filter(is_due).filter_map(|root| std::str::from_utf8(root).ok());
    due.map(str::to_owned).collect()
}

/// The beginning of the names of the series whose record is called `record`.
fn start_in(record: &str) -> Option<&str> {
    let (_, start) = record.strip_suffix(END)?.split_once('-')?;
    // With as many digits as a whole name has it is one, or nothing of ours.
    let is_start = start.len() == SERIES_START_LEN
        && parse(format!("{start}000000").as_bytes()).is_some_and(|(form, _)| form == Form::Random);
    is_start.then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::is_private;

    fn place() -> (tempfile::TempDir, Journals) {
        let temp = tempfile::tempdir().unwrap();
        let journals = Journals::open(temp.path()).unwrap();
        (temp, journals)
    }

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    /// A job that is killed when it has a stage, and the stage's name.
    fn die(journals: &Journals, host: &[u8], roots: &[Vec<u8>]) -> Name {
        name(&StageSeries::begin(journals, host, roots).unwrap().name())
    }

    /// The number of files in the directory besides its id.
    fn records(temp: &tempfile::TempDir) -> usize {
        std::fs::read_dir(temp.path()).unwrap().count() - 1
    }

    #[test]
    fn a_series_is_dead_when_its_job_is_and_not_before() {
        let (_temp, journals) = place();
        let series = StageSeries::begin(&journals, b"host", &[b"root".to_vec()]).unwrap();
        let (first, second) = (name(&series.name()), name(&series.name()));
        assert!(first != second && is_private(&first) && is_private(&second));
        assert!(DeadSeries::find(&journals, b"host").is_empty());
        drop(series);
        let living = StageSeries::begin(&journals, b"host", &[b"root".to_vec()]).unwrap();
        for _ in 0..2 {
            let dead = DeadSeries::find(&journals, b"host");
            assert!(dead.has(&first) && dead.has(&second));
            assert!(!dead.has(&name(&living.name())));
            assert!(!dead.has(&name(&sent_name())));
            assert!(!dead.has(&name(&format!("{}.part", series_start()))));
        }
    }

    #[test]
    fn one_that_is_finished_leaves_nothing() {
        let (temp, journals) = place();
        let series = StageSeries::begin(&journals, b"host", &[b"root".to_vec()]).unwrap();
        assert_eq!(records(&temp), 1);
        series.name();
        series.finish();
        drop(series);
        assert_eq!(records(&temp), 0);
        drop(StageSeries::begin(&journals, b"host", &[b"root".to_vec()]).unwrap());
        assert_eq!(records(&temp), 0, "it has named nothing");
    }

    #[test]
    fn that_of_another_host_is_not_taken_for_this_ones() {
        let (temp, journals) = place();
        die(&journals, b"one", &[b"root".to_vec()]);
        assert!(DeadSeries::find(&journals, b"other").is_empty());
        assert!(!DeadSeries::find(&journals, b"one").is_empty());
        assert_eq!(records(&temp), 1);
    }

    #[test]
    fn where_a_dead_job_went_is_looked_through_a_few_times() {
        let (_temp, journals) = place();
        let series = StageSeries::begin(&journals, b"host", &[b"host:/a".to_vec()]).unwrap();
        let stage = name(&series.name());
        assert!(!DeadSeries::find(&journals, b"host").is_due(b"host:/a"), "it lives");
        drop(series);
        for _ in 0..LOOKS_MAX {
            let dead = DeadSeries::find(&journals, b"host");
            assert!(dead.is_due(b"host:/a") && !dead.is_due(b"host:/b"));
            // What was looked through is another directory, or that one.
            dead.looked_through(b"host:/b");
            assert!(DeadSeries::find(&journals, b"host").is_due(b"host:/a"));
            dead.looked_through(b"host:/a");
        }
        let dead = DeadSeries::find(&journals, b"host");
        assert!(!dead.is_due(b"host:/a") && dead.has(&stage));
    }

    #[test]
    fn each_directory_of_a_dead_job_is_looked_through_by_itself() {
        let (_temp, journals) = place();
        let roots = [b"host:/a".to_vec(), b"host:/a/new".to_vec()];
        die(&journals, b"host", &roots);
        for _ in 0..LOOKS_MAX {
            let dead = DeadSeries::find(&journals, b"host");
            assert!(dead.is_due(b"host:/a") && dead.is_due(b"host:/a/new"));
            dead.looked_through(b"host:/a");
        }
        for _ in 0..LOOKS_MAX {
            let dead = DeadSeries::find(&journals, b"host");
            assert!(!dead.is_due(b"host:/a") && dead.is_due(b"host:/a/new"));
            dead.looked_through(b"host:/a/new");
        }
        assert!(!DeadSeries::find(&journals, b"host").is_due(b"host:/a/new"));
    }

    #[test]
    fn a_record_that_was_damaged_causes_no_look() {
        let (temp, journals) = place();
        let series = StageSeries::begin(&journals, b"host", &[b"root".to_vec()]).unwrap();
        let (record, stage) = (temp.path().join(&series.record), name(&series.name()));
        drop(series);
        let whole = std::fs::read(&record).unwrap();
        for bytes in [&whole[1..], &[0xff; 2 * LINE_LEN][..], &[b'.'; 3 * RECORD_LEN_MAX][..]] {
            std::fs::write(&record, bytes).unwrap();
            let dead = DeadSeries::find(&journals, b"host");
            assert!(!dead.is_due(b"root") && dead.has(&stage));
        }
    }

    #[test]
    fn a_line_that_was_cut_is_written_over_by_the_next() {
        let (temp, journals) = place();
        let series = StageSeries::begin(&journals, b"host", &[b"root".to_vec()]).unwrap();
        let record = temp.path().join(&series.record);
        series.name();
        drop(series);
        let cut = [std::fs::read(&record).unwrap(), b"0123456789".to_vec()].concat();
        std::fs::write(&record, cut).unwrap();
        for _ in 0..LOOKS_MAX {
            let dead = DeadSeries::find(&journals, b"host");
            assert!(dead.is_due(b"root"));
            dead.looked_through(b"root");
        }
        assert!(!DeadSeries::find(&journals, b"host").is_due(b"root"));
    }

    #[test]
    fn a_record_that_says_nothing_is_no_dead_one() {
        let (temp, journals) = place();
        let record = format!("{}{}{END}", start_of(b"host"), series_start());
        std::fs::write(temp.path().join(record), "").unwrap();
        std::fs::write(temp.path().join("0-.haul-x.stages"), "other").unwrap();
        assert!(DeadSeries::find(&journals, b"host").is_empty());
        assert_eq!(records(&temp), 1);
    }

    #[test]
    fn records_are_forgotten_when_they_are_old_and_when_they_are_too_many() {
        let (temp, journals) = place();
        let begin = || {
            let series = StageSeries::begin(&journals, b"host", &[b"root".to_vec()]).unwrap();
            (temp.path().join(&series.record), name(&series.name()))
        };
        let age = |record, by| {
            let file = File::options().write(true).open(record).unwrap();
            file.set_modified(SystemTime::now() - by).unwrap();
        };
        let (old, stage) = begin();
        age(old, AGE_MAX + Duration::from_secs(60));
        let (younger, kept) = begin();
        age(younger, AGE_MAX - Duration::from_secs(60));
        let found = DeadSeries::find(&journals, b"host");
        assert!(found.has(&stage) && found.has(&kept));
        let found = DeadSeries::find(&journals, b"host");
        assert!(!found.has(&stage) && found.has(&kept));
        (0..RECORDS_MAX).for_each(|_| drop(begin()));
        assert!(DeadSeries::find(&journals, b"host").has(&kept));
        let found = DeadSeries::find(&journals, b"elsewhere");
        assert!(found.is_empty());
        assert_eq!(records(&temp), RECORDS_MAX);
        assert!(!DeadSeries::find(&journals, b"host").has(&kept), "the oldest goes first");
    }
}

//! The names of one job's small stages on a host without haul. A later job on this machine uses
//! them to detect stages that no process writes to any more.
//!
//! All names of a job begin with the same random digits. For each directory of the job there is a
//! record ([`crate::Records`]), which is locked as long as the job lives. If its lock is free, the
//! job was killed or has lost its host. No process will use its digits again, so files with them
//! can be removed.
//!
//! The name of a record contains all its facts. Its length is the number of jobs that have searched
//! the directory, plus one.

use crate::partial::{LOCK_WAIT_MAX, lock_journal};
use crate::private::{
    Form, REMOTE_SUFFIX, SERIES_PREFIX_LEN, parse, remote_stage_name, series_prefix,
};
use crate::records::{name_prefix, sweep};
use haul_model::Name;
use haul_sys::Dir;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The suffix of the names of records.
const SUFFIX: &str = ".stages";

/// Length of the beginning of a record's name, in bytes: the digits of a place, and a hyphen.
const PLACE_PREFIX_LEN: usize = 33;

/// Maximum number of names in a series.
const NAMES_MAX: u64 = 1 << 24;

/// Age at which the record of a dead series is removed. No job may visit its directory before that.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Maximum number of records of dead series.
const RECORDS_MAX: usize = 256;

/// Number of jobs that search the directory of a dead job, even if they need only a few names in
/// it. More than one, because a server may still be working during the first search.
const SEARCHES_MAX: u64 = 3;

/// The names of one job's small stages on a host. Dropping it keeps the records, unless
/// [`Self::finish`] was called or no name was used.
#[derive(Debug)]
pub(crate) struct StageSeries {
    dir: Arc<Dir>,
    prefix: String,
    next: AtomicU64,
    is_finished: AtomicBool,
    /// The records, locked as long as their files are open.
    records: Vec<(String, File)>,
}

impl StageSeries {
    /// Begins the series of a job in the directories `roots`, with records in `dir`.
    ///
    /// # Errors
    /// Errors of creating and writing the records.
    pub(crate) fn begin(dir: &Arc<Dir>, roots: &[Vec<u8>]) -> io::Result<Self> {
        let mut series = Self {
            dir: Arc::clone(dir),
            prefix: series_prefix(),
            next: AtomicU64::new(0),
            is_finished: AtomicBool::new(false),
            records: Vec::new(),
        };
        for root in roots {
            let record = format!("{}{}{SUFFIX}", name_prefix(root), series.prefix);
            let file = lock_journal(&series.dir, &record, LOCK_WAIT_MAX)?;
            // Other jobs ignore the record while it is empty.
            let written = file.write_all_at(&[0], 0);
            series.records.push((record, file));
            written?;
        }
        Ok(series)
    }

    /// A new name.
    pub(crate) fn name(&self) -> String {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        if count >= NAMES_MAX {
            return remote_stage_name();
        }
        format!("{}{count:06x}{REMOTE_SUFFIX}", self.prefix)
    }

    /// Records that no stage is left on the host. Dropping the series then removes the records.
    pub(crate) fn finish(&self) {
        self.is_finished.store(true, Ordering::Relaxed);
    }
}

impl Drop for StageSeries {
    fn drop(&mut self) {
        if self.is_finished.load(Ordering::Relaxed) || self.next.load(Ordering::Relaxed) == 0 {
            for (record, _) in &self.records {
                let _ = self.dir.remove_private(record);
            }
        }
    }
}

/// The series that no process writes to any more.
#[derive(Debug)]
pub struct DeadSeries {
    /// The directory of the records.
    dir: Arc<Dir>,
    /// The beginning of their names.
    prefixes: HashSet<String>,
    /// The records of directories that must be searched, by the beginning of their names.
    due: HashMap<String, Vec<String>>,
}

impl DeadSeries {
    /// Finds the dead series with records in `dir`. A record that can't be read counts as one of a
    /// living job. Also removes records that are too old or too many, once they have been found.
    pub(crate) fn find(dir: &Arc<Dir>) -> Self {
        let (prefixes, due) = (HashSet::new(), HashMap::<String, Vec<String>>::new());
        let mut dead = Self { dir: Arc::clone(dir), prefixes, due };
        let mut records = Vec::new();
        let is_record = |name: &[u8]| name.ends_with(SUFFIX.as_bytes());
        for name in dir.names_where(is_record).unwrap_or_default() {
            let Ok(record) = std::str::from_utf8(name.as_bytes()) else { continue };
            let Some((place, prefix)) = split(record) else { continue };
            let Ok(file) = lock_journal(dir, record, Duration::ZERO) else { continue };
            let Ok(meta) = file.metadata() else { continue };
            if meta.len() == 0 {
                // Its job was killed before it used the record. A living job creates the record
                // again.
                let _ = dir.remove_private(record);
                continue;
            }
            dead.prefixes.insert(prefix.to_owned());
            if meta.len() <= SEARCHES_MAX {
                dead.due.entry(place.to_owned()).or_default().push(record.to_owned());
            }
            records.push(name);
        }
        // No series is begun twice, so the locks are not needed.
        sweep(dir, records, AGE_MAX, RECORDS_MAX);
        dead
    }

    /// True if there are no dead series.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// True if a dead job used the directory `root`, and too few jobs have searched it since.
    pub fn is_due(&self, root: &[u8]) -> bool {
        !self.due.is_empty() && self.due.contains_key(&name_prefix(root))
    }

    /// Records that a job has searched the directory `root`.
    pub fn record_search(&self, root: &[u8]) {
        for record in self.due.get(&name_prefix(root)).into_iter().flatten() {
            // If this fails, the next job searches again.
            if let Ok((file, stat)) = self.dir.open_any_private(record) {
                let _ = file.write_all_at(&[0], stat.size);
            }
        }
    }

    /// True if `name` is the name of a stage in a dead series.
    pub fn has(&self, name: &Name) -> bool {
        let name = name.as_bytes();
        !self.is_empty()
            && parse(name).is_some_and(|(form, stem)| {
                form == Form::Remote && self.prefixes.contains(&stem[..SERIES_PREFIX_LEN])
            })
    }
}

/// Splits the name of a record into its directory, and the beginning of the series' names.
fn split(record: &str) -> Option<(&str, &str)> {
    let stem = record.strip_suffix(SUFFIX)?;
    let (place, prefix) = stem.split_at_checked(stem.len().checked_sub(SERIES_PREFIX_LEN)?)?;
    // Earlier versions have the hash of the host before.
    let place = place.get(place.len().checked_sub(PLACE_PREFIX_LEN)?..)?;
    // A longer or shorter series part does not belong to a record.
    let whole = format!("{prefix}000000");
    let is_start = parse(whole.as_bytes()).is_some_and(|(form, _)| form == Form::Random);
    is_start.then_some((place, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::is_private;

    fn place() -> (tempfile::TempDir, Arc<Dir>) {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open(temp.path()).unwrap();
        (temp, Arc::new(dir))
    }

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    /// A job that is killed when it has a stage, and the stage's name.
    fn die(dir: &Arc<Dir>, roots: &[Vec<u8>]) -> Name {
        name(&StageSeries::begin(dir, roots).unwrap().name())
    }

    /// The number of files in the directory.
    fn records(temp: &tempfile::TempDir) -> usize {
        std::fs::read_dir(temp.path()).unwrap().count()
    }

    #[test]
    fn a_series_is_dead_when_its_job_is_and_not_before() {
        let (_temp, dir) = place();
        let series = StageSeries::begin(&dir, &[b"root".to_vec()]).unwrap();
        let (first, second) = (name(&series.name()), name(&series.name()));
        assert!(first != second && is_private(&first) && is_private(&second));
        assert!(DeadSeries::find(&dir).is_empty());
        drop(series);
        let living = StageSeries::begin(&dir, &[b"root".to_vec()]).unwrap();
        for _ in 0..2 {
            let dead = DeadSeries::find(&dir);
            assert!(dead.has(&first) && dead.has(&second));
            assert!(!dead.has(&name(&living.name())));
            assert!(!dead.has(&name(&remote_stage_name())));
            assert!(!dead.has(&name(&format!("{}.part", series_prefix()))));
        }
    }

    #[test]
    fn one_that_is_finished_leaves_nothing() {
        let (temp, dir) = place();
        let series = StageSeries::begin(&dir, &[b"root".to_vec()]).unwrap();
        assert_eq!(records(&temp), 1);
        series.name();
        series.finish();
        drop(series);
        assert_eq!(records(&temp), 0);
        drop(StageSeries::begin(&dir, &[b"root".to_vec()]).unwrap());
        assert_eq!(records(&temp), 0, "it has named nothing");
    }

    #[test]
    fn a_record_of_an_earlier_version_is_found() {
        let (temp, dir) = place();
        let stage = die(&dir, &[b"host:/a".to_vec()]);
        let record = std::fs::read_dir(temp.path()).unwrap().next().unwrap().unwrap().path();
        let record_name = record.file_name().unwrap().to_str().unwrap();
        let earlier = format!("{}{record_name}", name_prefix(b"host"));
        std::fs::rename(&record, record.with_file_name(earlier)).unwrap();
        let dead = DeadSeries::find(&dir);
        assert!(dead.has(&stage) && dead.is_due(b"host:/a"));
    }

    #[test]
    fn where_a_dead_job_went_is_looked_through_a_few_times() {
        let (_temp, dir) = place();
        let series = StageSeries::begin(&dir, &[b"host:/a".to_vec()]).unwrap();
        let stage = name(&series.name());
        assert!(!DeadSeries::find(&dir).is_due(b"host:/a"), "it lives");
        drop(series);
        for _ in 0..SEARCHES_MAX {
            let dead = DeadSeries::find(&dir);
            assert!(dead.is_due(b"host:/a") && !dead.is_due(b"host:/b"));
            // What was looked through is another directory, or that one.
            dead.record_search(b"host:/b");
            assert!(DeadSeries::find(&dir).is_due(b"host:/a"));
            dead.record_search(b"host:/a");
        }
        let dead = DeadSeries::find(&dir);
        assert!(!dead.is_due(b"host:/a") && dead.has(&stage));
    }

    #[test]
    fn each_directory_of_a_dead_job_is_looked_through_by_itself() {
        let (_temp, dir) = place();
        let roots = [b"host:/a".to_vec(), b"host:/a/new".to_vec()];
        die(&dir, &roots);
        for _ in 0..SEARCHES_MAX {
            let dead = DeadSeries::find(&dir);
            assert!(dead.is_due(b"host:/a") && dead.is_due(b"host:/a/new"));
            dead.record_search(b"host:/a");
        }
        for _ in 0..SEARCHES_MAX {
            let dead = DeadSeries::find(&dir);
            assert!(!dead.is_due(b"host:/a") && dead.is_due(b"host:/a/new"));
            dead.record_search(b"host:/a/new");
        }
        assert!(!DeadSeries::find(&dir).is_due(b"host:/a/new"));
    }

    #[test]
    fn a_record_that_was_damaged_causes_no_look() {
        let (temp, dir) = place();
        let series = StageSeries::begin(&dir, &[b"root".to_vec()]).unwrap();
        let (record, stage) = (temp.path().join(&series.records[0].0), name(&series.name()));
        drop(series);
        std::fs::write(&record, [0xff; 1000]).unwrap();
        let dead = DeadSeries::find(&dir);
        assert!(!dead.is_due(b"root") && dead.has(&stage));
    }

    #[test]
    fn a_record_that_prints_nothing_is_no_dead_one() {
        let (temp, dir) = place();
        let record = format!("{}{}{SUFFIX}", name_prefix(b"a"), series_prefix());
        std::fs::write(temp.path().join(record), "").unwrap();
        std::fs::write(temp.path().join("0-.haul-x.stages"), "other").unwrap();
        assert!(DeadSeries::find(&dir).is_empty());
        assert_eq!(records(&temp), 1);
    }

    #[test]
    fn records_are_forgotten_when_they_are_old_and_when_they_are_too_many() {
        let (temp, dir) = place();
        let begin = || {
            let series = StageSeries::begin(&dir, &[b"root".to_vec()]).unwrap();
            (temp.path().join(&series.records[0].0), name(&series.name()))
        };
        let age = |record, by| {
            let file = File::options().write(true).open(record).unwrap();
            file.set_modified(std::time::SystemTime::now() - by).unwrap();
        };
        let (old, stage) = begin();
        age(old, AGE_MAX + Duration::from_secs(60));
        let (younger, kept) = begin();
        age(younger, AGE_MAX - Duration::from_secs(60));
        let found = DeadSeries::find(&dir);
        assert!(found.has(&stage) && found.has(&kept));
        let found = DeadSeries::find(&dir);
        assert!(!found.has(&stage) && found.has(&kept));
        (0..RECORDS_MAX).for_each(|_| drop(begin()));
        assert!(DeadSeries::find(&dir).has(&kept));
        assert_eq!(records(&temp), RECORDS_MAX);
        assert!(!DeadSeries::find(&dir).has(&kept), "the oldest goes first");
    }
}

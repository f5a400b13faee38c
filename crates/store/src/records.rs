//! The records that this machine keeps about other directories for later jobs: about uploads to
//! hosts without haul, and about directories that jobs have created. They are files in one
//! directory of the user. All have names of one form.
//!
//! ```text
//! PLACE32-STAGE.journal           the journal of a large upload, as beside a local stage
//! PLACE32-.haul-SERIES10.stages   the names of a job's small stages
//! PLACE32-ORIGIN32.origin         the job that created the directory
//! id                              16 bytes, different for each such directory
//! ```
//!
//! PLACE is a hash of a text that is unique among all directories of all hosts. A record that a job
//! uses is locked. Earlier versions began the names of `.stages` with another hash, of the host.
//! These records are found, too.

use crate::partial::{LOCK_WAIT_MAX, lock_journal};
use crate::private::private_name;
use crate::series::{DeadSeries, StageSeries};
use haul_model::Name;
use haul_sys::{Dir, Stat};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

/// Length of the id in bytes.
const ID_LEN: usize = 16;

/// The file with the id.
const ID_NAME: &str = "id";

/// A directory of records, and the parts of it that a job needs.
#[derive(Debug)]
pub struct Records {
    pub(crate) dir: Arc<Dir>,
    /// The unique id of the directory.
    pub(crate) id: [u8; ID_LEN],
    /// Journals that earlier jobs have left, once listed.
    pub(crate) journals: OnceLock<Vec<String>>,
    /// The names of this job's small stages, if they are recorded.
    series: OnceLock<StageSeries>,
    /// The same of killed jobs, once looked up.
    dead: OnceLock<DeadSeries>,
}

impl Records {
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
        let (journals, series, dead) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Ok(Self { dir: Arc::new(dir), id, journals, series, dead })
    }

    /// Records the names of this job's small stages in the directories `places`. If this job is
    /// killed, a later job can remove the stages. To be called once.
    ///
    /// # Errors
    /// Errors of writing the records. The job can continue without them.
    pub fn begin(&self, places: &[Vec<u8>]) -> io::Result<()> {
        let series = StageSeries::begin(&self.dir, places)?;
        self.series.set(series).expect("a host has one job");
        Ok(())
    }

    /// A new private name for a stage that is never continued; `None` before [`Self::begin`].
    pub fn stage_name(&self) -> Option<String> {
        self.series.get().map(StageSeries::name)
    }

    /// The small stages that killed jobs may have left.
    pub fn dead(&self) -> &DeadSeries {
        self.dead.get_or_init(|| DeadSeries::find(&self.dir))
    }

    /// Removes the records of this job's small stages. To be called at the job's end, once the
    /// server has answered all requests: no stage is left.
    pub fn finish(&self) {
        if let Some(series) = self.series.get() {
            series.finish();
        }
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

/// The beginning of the names of all records about a directory.
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

/// Random bytes.
pub(crate) fn fresh_id() -> [u8; ID_LEN] {
    let name = private_name();
    let digits = name.as_bytes();
    digits[digits.len() - 16..].try_into().expect("it ends with 16 digits")
}

/// The suffix of the names of records.
const SUFFIX: &str = ".origin";

/// Time after which a directory is forgotten that no job uses.
const AGE_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Maximum number of records. The most recently used are kept.
const RECORDS_MAX: usize = 1024;

/// True if the records in the directory `path` have that a job of `origin` created the directory
/// `place`. They are no evidence if others can write to them.
pub fn has_origin(path: &Path, place: &[u8], origin: &[u8; 16]) -> bool {
    let Ok(name) = Name::new(record(place, origin).as_bytes()) else { return false };
    let opened = Dir::open(path).and_then(|dir| check_owner(&dir.stat_self()?).map(|()| dir));
    opened.is_ok_and(|dir| age(&dir, &name) <= AGE_MAX)
}

impl Records {
    /// Records that a job of `origin` creates the directory, or uses it again. Removes records of
    /// other origins for the directory, and records that are too old or too many.
    ///
    /// # Errors
    /// Errors of creating the record.
    pub fn remember_origin(&self, place: &[u8], origin: &[u8; 16]) -> io::Result<()> {
        let (own, of_place) = (record(place, origin), name_prefix(place));
        let mut others = self.dir.names_where(|name| name.ends_with(SUFFIX.as_bytes()))?;
        others.retain(|name| name.as_bytes() != own.as_bytes());
        let is_of_place = |name: &mut Name| name.as_bytes().starts_with(of_place.as_bytes());
        for name in others.extract_if(.., is_of_place) {
            // If this fails, the next job removes it.
            let _ = self.dir.remove_file(&name);
        }
        sweep(&self.dir, others, AGE_MAX, RECORDS_MAX - 1);
        self.dir.open_private(&own)?.set_modified(SystemTime::now())
    }

    /// Removes the record that a job of `origin` created the directory.
    ///
    /// # Errors
    /// Errors of `unlink`.
    pub fn forget_origin(&self, place: &[u8], origin: &[u8; 16]) -> io::Result<()> {
        self.dir.remove_private(&record(place, origin))
    }
}

/// The name of a record.
fn record(place: &[u8], origin: &[u8; 16]) -> String {
    format!("{}{:032x}{SUFFIX}", name_prefix(place), u128::from_be_bytes(*origin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, Permissions as Mode};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_that_is_not_the_users_alone_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("a/b");
        let refusal = || Records::open(&dir).unwrap_err().to_string();
        let mode = |path: &Path, mode| std::fs::set_permissions(path, Mode::from_mode(mode));
        drop(Records::open(&dir).unwrap());
        for above in [dir.parent().unwrap(), &dir] {
            assert_eq!(std::fs::metadata(above).unwrap().permissions().mode() & 0o777, 0o700);
        }
        for (bits, is_refused) in [(0o755, false), (0o720, true), (0o702, true), (0o700, false)] {
            mode(&dir, bits).unwrap();
            let opened = Records::open(&dir);
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
    fn a_job_that_ends_well_leaves_no_record_of_its_stages() {
        for ends_well in [false, true] {
            let temp = tempfile::tempdir().unwrap();
            let records = Records::open(temp.path()).unwrap();
            records.begin(&[b"place".to_vec()]).unwrap();
            records.stage_name().unwrap();
            if ends_well {
                records.finish();
            }
            drop(records);
            let dead = !Records::open(temp.path()).unwrap().dead().is_empty();
            assert_eq!(dead, !ends_well);
        }
    }

    #[test]
    fn stages_are_named_once_their_names_are_recorded() {
        let temp = tempfile::tempdir().unwrap();
        let records = Records::open(temp.path()).unwrap();
        assert_eq!(records.stage_name(), None);
        records.begin(&[b"place".to_vec()]).unwrap();
        let names = [(); 2].map(|()| records.stage_name().unwrap());
        assert_ne!(names[0], names[1]);
        assert!(names.iter().all(|name| name.starts_with(".haul-")), "{names:?}");
    }

    fn origins() -> (tempfile::TempDir, Records) {
        let temp = tempfile::tempdir().unwrap();
        let origins = Records::open(temp.path()).unwrap();
        (temp, origins)
    }

    fn records(temp: &tempfile::TempDir) -> usize {
        // But for the id of the directory.
        std::fs::read_dir(temp.path()).unwrap().count() - 1
    }

    #[test]
    fn a_directory_is_remembered_with_the_last_job_that_made_it() {
        let (temp, origins) = origins();
        assert!(!has_origin(temp.path(), b"host:/a", &[1; 16]));
        origins.remember_origin(b"host:/a", &[1; 16]).unwrap();
        origins.remember_origin(b"host:/b", &[2; 16]).unwrap();
        assert!(
            has_origin(temp.path(), b"host:/a", &[1; 16])
                && has_origin(temp.path(), b"host:/b", &[2; 16])
        );
        assert!(!has_origin(temp.path(), b"host:/a", &[2; 16]));
        origins.remember_origin(b"host:/a", &[3; 16]).unwrap();
        assert!(
            !has_origin(temp.path(), b"host:/a", &[1; 16])
                && has_origin(temp.path(), b"host:/a", &[3; 16])
        );
        assert_eq!(records(&temp), 2);
        origins.forget_origin(b"host:/a", &[3; 16]).unwrap();
        assert!(!has_origin(temp.path(), b"host:/a", &[3; 16]));
    }

    #[test]
    fn what_is_old_or_too_much_is_forgotten() {
        let (temp, origins) = origins();
        let age = |place: &[u8], by: Duration| {
            let file = temp.path().join(record(place, &[0; 16]));
            let file = File::options().write(true).open(file).unwrap();
            file.set_modified(SystemTime::now() - by).unwrap();
        };
        let minute = Duration::from_secs(60);
        for (place, by) in [(b"old", AGE_MAX + minute), (b"new", AGE_MAX - minute)] {
            origins.remember_origin(place, &[0; 16]).unwrap();
            age(place, by);
        }
        assert!(
            !has_origin(temp.path(), b"old", &[0; 16]) && has_origin(temp.path(), b"new", &[0; 16])
        );
        // Who goes there again makes it young.
        origins.remember_origin(b"new", &[0; 16]).unwrap();
        assert_eq!(records(&temp), 1);
    }

    #[test]
    fn the_oldest_is_forgotten_where_there_are_too_many() {
        let (temp, origins) = origins();
        origins.remember_origin(b"old", &[0; 16]).unwrap();
        let file = File::options().write(true).open(temp.path().join(record(b"old", &[0; 16])));
        let minute = Duration::from_secs(60);
        file.unwrap().set_modified(SystemTime::now() - minute).unwrap();
        for count in 2..RECORDS_MAX {
            let record = record(format!("{count}").as_bytes(), &[0; 16]);
            std::fs::write(temp.path().join(record), "").unwrap();
        }
        for (place, old_is_known) in [(b"full", true), (b"more", false)] {
            origins.remember_origin(place, &[0; 16]).unwrap();
            assert_eq!(has_origin(temp.path(), b"old", &[0; 16]), old_is_known);
            assert_eq!(records(&temp), RECORDS_MAX);
        }
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_no_evidence() {
        use std::os::unix::fs::PermissionsExt;
        let (temp, origins) = origins();
        origins.remember_origin(b"a", &[1; 16]).unwrap();
        assert!(has_origin(temp.path(), b"a", &[1; 16]));
        let mode = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(temp.path(), mode).unwrap();
        assert!(!has_origin(temp.path(), b"a", &[1; 16]));
    }
}

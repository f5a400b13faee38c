//! Directories that jobs of this user created as new names. These records serve where a directory
//! can't store that itself: on a host that is reached by SFTP, and on file systems without extended
//! attributes.
//!
//! Each record is an empty file. Its time is that of the last job that used the directory.

use crate::records::{Records, age, check_owner, name_prefix, sweep};
use haul_model::Name;
use haul_sys::Dir;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

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
    use std::fs::File;

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

//! Files that are staged in another directory than that of the final name. A file is renamed into
//! that directory, or copied to a second stage there if it is on another file system.

use crate::content::copy_content;
use crate::private::as_name;
use crate::stage::PrivateName;
use crate::{OnExisting, Publication, Stage};
use haul_model::{Kept, Name};
use haul_sys::Dir;
use std::fs::File;
use std::io;
use std::sync::Arc;

impl Stage {
    /// Creates a file in `dir` for a name in `dest`, which may be on another file system.
    ///
    /// # Errors
    /// Errors of creating a file.
    pub fn create_for(dir: Arc<Dir>, dest: Arc<Dir>) -> io::Result<Self> {
        Ok(Self { dest: Some(dest), ..Self::create(dir)? })
    }
}

impl PrivateName {
    /// Renames it to `name` in `dir`. `None` if that is on another file system.
    pub(crate) fn publish_in(
        &mut self,
        dir: &Dir,
        name: &Name,
        on_existing: OnExisting,
    ) -> io::Result<Option<Publication>> {
        let replaces = on_existing == OnExisting::Replace;
        let renamed = self.dir.rename_to(&as_name(&self.name), dir, name, replaces);
        self.published = renamed.is_ok();
        match Publication::of(renamed, on_existing) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => Ok(None),
            published => published.map(Some),
        }
    }
}

/// Copies `file`, which can't get a name in `dir`, with its metadata to `stage` in `dir`. The copy
/// is flushed, because the original may have been.
pub(crate) fn copy_to(dir: &Dir, stage: Stage, file: &File) -> io::Result<Stage> {
    let stat = dir.stat_of(file)?;
    haul_sys::read_cached(file);
    copy_content(file, &stage.file, stat.size)?;
    haul_sys::check_by_closing(&stage.file)?;
    let extended = dir.extended_of(file, Kept::EXTENDED)?;
    let (mut attributes, mut kept) = (stat.attributes(), Kept::ALL);
    attributes.extended = extended;
    let same = dir.stat_of(&stage.file)?;
    if (same.uid, same.gid) == (stat.uid, stat.gid) {
        kept = kept.without(Kept::OWNER);
    }
    haul_sys::set_attributes(dir, &stage.file, &attributes, kept)?;
    stage.file.sync_all()?;
    Ok(stage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::with_private_name;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, chown};
    use tempfile::TempDir;

    fn place() -> (TempDir, Arc<Dir>) {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = Dir::open(temp.path()).expect("opened");
        (temp, Arc::new(dir))
    }

    #[test]
    fn a_file_of_the_same_file_system_is_renamed_and_of_another_is_not() {
        let (temp, to) = place();
        let file = Name::new(b"file").expect("a name");
        let shm = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let elsewhere = Arc::new(Dir::open(shm.path()).expect("opened"));
        let is_other = elsewhere.stat_self().unwrap().id.dev != to.stat_self().unwrap().id.dev;
        for (from, renamed) in [(place().1, true), (elsewhere, !is_other)] {
            let temp_name = |from| with_private_name(from, |name| from.create_private(name));
            let (mut private, created) = temp_name(&from).expect("created");
            let done = private.publish_in(&to, &file, OnExisting::Replace).expect("tried");
            assert_eq!(done, renamed.then_some(Publication::Published));
            let id = created.metadata().expect("open").ino();
            let there = fs::metadata(temp.path().join("file")).expect("it is there").ino();
            assert_eq!(there == id, renamed);
        }
    }

    #[test]
    fn a_file_that_cannot_be_renamed_is_an_error() {
        let (temp, to) = place();
        fs::create_dir(temp.path().join("file")).expect("made");
        let (from_temp, from) = place();
        let (mut private, _) =
            with_private_name(&from, |name| from.create_private(name)).expect("created");
        let file = Name::new(b"file").expect("a name");
        private.publish_in(&to, &file, OnExisting::Replace).expect_err("it is a directory");
        drop(private);
        assert_eq!(fs::read_dir(from_temp.path()).expect("read").count(), 0);
    }

    #[test]
    fn a_copy_has_the_owner_of_the_original() {
        let (temp, dir) = place();
        let user = haul_sys::effective_user();
        for owner in [user, 65534] {
            if owner != user && !haul_sys::is_root() {
                return haul_testkit::fixture::missing("root");
            }
            let path = temp.path().join(owner.to_string());
            fs::write(&path, "content").expect("written");
            chown(&path, Some(owner), None).expect("set");
            let stage = Stage::create(Arc::clone(&dir)).expect("created");
            let original = File::open(&path).expect("opened");
            let copy = copy_to(&dir, stage, &original).expect("copied");
            let (copy, original) = (copy.file.metadata(), original.metadata());
            let (copy, original) = (copy.expect("open"), original.expect("open"));
            assert_eq!((copy.uid(), copy.gid()), (original.uid(), original.gid()));
            assert_eq!((copy.mode(), copy.len()), (original.mode(), original.len()));
        }
    }
}

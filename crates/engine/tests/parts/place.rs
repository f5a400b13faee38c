//! A destination with something beside it that nobody may touch.

use haul_testkit::{Snapshot, assert_same, snapshot};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Three directories beside each other: what is copied from, what is copied
/// to, and what is neither.
pub(crate) struct Place {
    temp: TempDir,
    outside: Snapshot,
}

impl Place {
    /// One with an empty source and an empty destination.
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().expect("a temporary directory");
        for dir in ["source", "dest", "outside", "outside/dir"] {
            fs::create_dir(temp.path().join(dir)).expect("made");
        }
        for file in ["outside/secret", "outside/dir/inside"] {
            fs::write(temp.path().join(file), file).expect("written");
        }
        let outside = snapshot(temp.path().join("outside")).expect("read");
        Self { temp, outside }
    }

    /// A path below the source.
    pub(crate) fn source(&self, path: &str) -> PathBuf {
        self.temp.path().join("source").join(path)
    }

    /// A path below the destination.
    pub(crate) fn dest(&self, path: &str) -> PathBuf {
        self.temp.path().join("dest").join(path)
    }

    /// A path below what is neither.
    pub(crate) fn outside(&self, path: &str) -> PathBuf {
        self.temp.path().join("outside").join(path)
    }

    /// The content of a file at the destination.
    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.dest(path)).expect("there, and text")
    }

    /// True if anything has that name at the destination.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.dest(path).symlink_metadata().is_ok()
    }

    /// Nothing outside has changed, nothing is beside, and no private name is
    /// left anywhere.
    #[track_caller]
    pub(crate) fn check(&self) {
        let now = snapshot(self.temp.path().join("outside")).expect("read");
        assert_same(&self.outside, &now);
        assert_eq!(names(self.temp.path()), ["dest", "outside", "source"]);
        let mut open = vec![self.dest("")];
        while let Some(dir) = open.pop() {
            for name in names(&dir) {
                assert!(!name.starts_with(".haul-"), "{name} is left in {}", dir.display());
                let path = dir.join(name);
                if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
                    open.push(path);
                }
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for dir in ["dest", "source"].map(|name| self.temp.path().join(name)) {
            if remove(&dir, LEVELS).is_err() {
                // A tree that is deeper than a path can say, or closed to its owner, is too
                // much for a temporary directory to remove by itself. To start a program
                // takes longer than most of them.
                let _ = Command::new("rm").arg("-rf").arg(dir).status();
            }
        }
    }
}

/// Levels of a tree that is removed here: each keeps a directory open meanwhile.
const LEVELS: usize = 16;

/// Removes a tree of so many levels.
fn remove(dir: &Path, levels: usize) -> io::Result<()> {
    let below = levels.checked_sub(1).ok_or(io::ErrorKind::Unsupported)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => remove(&entry.path(), below)?,
            false => fs::remove_file(entry.path())?,
        }
    }
    fs::remove_dir(dir)
}

/// The names in a directory, in order; none where it can't be read.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| haul_model::escape_bytes(entry.file_name().as_bytes())).collect();
    names.sort();
    names
}

//! A file system that is odd: it shows a directory of its own through FUSE, and
//! does some things as network file systems, FAT or other people's FUSE programs
//! do them. [`Quirks`] says which.
//!
//! Always: there are no files without a name (`O_TMPFILE`), nothing is shared,
//! and a sync does nothing.

mod refusals;
mod served;

use crate::fixture;
use crate::fuse::Mounted;
use refusals::Refusals;
use served::Served;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub use refusals::Call;
pub use rustix::io::Errno;

/// The ways in which a file system is odd; by default in none.
#[derive(Debug, Clone, Default)]
pub struct Quirks {
    /// Data that was written to a file is lost when it is closed, and the first
    /// handle that is closed is told this.
    pub at_close: Option<Errno>,
    /// The fate of a time that is set.
    pub times: Times,
    /// The unit in which times are kept: what is finer is cut off. Zero for all
    /// that there is.
    pub time_unit: Duration,
    /// The time of the last change is told to be that of the last modification.
    pub no_ctime: bool,
    /// All was last changed so much earlier.
    pub changed_before: Duration,
    /// Files are told to take no storage.
    pub no_storage: bool,
    /// Content that was read is not cached for the next reader.
    pub uncached: bool,
    /// Which names are one.
    pub names: Names,
    /// The answer to a rename that is to replace nothing (`RENAME_NOREPLACE`).
    pub rename_new: Option<Errno>,
    /// The answer to a hard link.
    pub link: Option<Errno>,
    /// The answer to copying inside of the file system (`copy_file_range`).
    pub copy_range: Option<Errno>,
    /// The answer to writing anywhere but at the end, and to making a file longer.
    pub out_of_order: Option<Errno>,
    /// The answer to asking for holes (`SEEK_DATA`, `SEEK_HOLE`).
    pub holes: Option<Errno>,
}

/// The fate of times that are set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Times {
    /// They are kept.
    #[default]
    Kept,
    /// A call that sets one and leaves the other (`UTIME_OMIT`) does nothing,
    /// and says that it worked.
    OnlyBoth,
    /// No call does anything, and all say that they worked.
    Never,
}

/// Which names a directory takes for one. It shows the spelling that was first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Names {
    /// None.
    #[default]
    AllDiffer,
    /// Those that differ in upper and lower case.
    FoldCase,
    /// Those that differ in how é is written: as one character, or as two.
    Compose,
}

impl Names {
    fn folded(self, name: &OsStr) -> OsString {
        let Ok(text) = std::str::from_utf8(name.as_bytes()) else { return name.to_owned() };
        match self {
            Self::AllDiffer => name.to_owned(),
            Self::FoldCase => text.to_lowercase().into(),
            Self::Compose => text.replace("e\u{301}", "é").into(),
        }
    }
}

/// An odd file system, mounted until this is dropped.
pub struct OddMount {
    mounted: Mounted,
    refusals: Arc<Refusals>,
    /// Dropped last.
    backing: TempDir,
}

impl OddMount {
    /// An empty one. It needs root, and the device `/dev/fuse`; where they are
    /// missing, so is a [`fixture`].
    #[track_caller]
    pub fn new(quirks: Quirks) -> Option<OddMount> {
        let made = || -> io::Result<OddMount> {
            let backing = TempDir::with_prefix("haul-odd-backing-")?;
            let refusals = Arc::<Refusals>::default();
            let served = Served::new(backing.path(), quirks, Arc::clone(&refusals))?;
            Ok(OddMount { mounted: Mounted::new("haul-odd", served)?, refusals, backing })
        };
        fixture::made("a FUSE mount", made())
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.mounted.path()
    }

    /// A path below it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// Refuses `call` with `errno`, after so many that are `answered` still; `refused`
    /// of them, and none any more then. There is one such plan at a time.
    pub fn refuse(&self, call: Call, errno: Errno, answered: u64, refused: u64) {
        self.refusals.refuse(call, errno, answered, refused);
    }

    /// Takes so long for one `call`, and for all that comes meanwhile, after so many
    /// that are `answered` at once.
    pub fn delay(&self, call: Call, duration: Duration, answered: u64) {
        self.refusals.delay(call, duration, answered, 1);
    }

    /// Takes so long for each `call`, and for all that comes meanwhile.
    pub fn delay_each(&self, call: Call, duration: Duration) {
        self.refusals.delay(call, duration, 0, u64::MAX);
    }

    /// Refuses nothing any more.
    pub fn refuse_nothing(&self) {
        self.refusals.end();
    }

    /// How often `call` has come.
    pub fn calls(&self, call: Call) -> u64 {
        self.refusals.count(call)
    }

    /// The directory that it shows, in which nothing is odd.
    pub fn backing(&self) -> &Path {
        self.backing.path()
    }
}

#[cfg(test)]
mod tests;

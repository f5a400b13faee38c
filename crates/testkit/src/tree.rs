//! File trees made from a seed: the workloads of the benchmarks, and the plain
//! trees of the tests. Trees that are hard to copy are in [`crate::nasty`].
//!
//! Every generator says what it made, so that a test can check a copy's totals
//! without counting the source again.

use std::fs::{self, File, FileTimes};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::path::Arg;

use crate::content::{Stream, bytes};
use crate::{at, failed};

/// The number of entries that a generator made. Directories include the root.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Made {
    /// Regular files.
    pub files: u64,
    /// Directories, the root of the tree among them.
    pub dirs: u64,
    /// The sum of the files' sizes.
    pub bytes: u64,
}

/// Makes a file of `len` random-looking bytes. Its parent must exist.
///
/// Its mtime follows from `seed`: some time in 2020, with nanoseconds.
pub fn random_file(path: impl AsRef<Path>, len: u64, seed: u64) -> io::Result<()> {
    let path = path.as_ref();
    let mut file = File::create(path).map_err(|e| at("create", path, e))?;
    Stream::new(seed).write_to(&mut file, len).map_err(|e| at("write", path, e))?;
    file.set_times(FileTimes::new().set_modified(mtime_of(seed)))
        .map_err(|e| at("set the times of", path, e))
}

/// Makes `files` files of `size` bytes each, spread evenly over `dirs`
/// directories (`dir-000/file-00000` ...) below `root`, which is made.
///
/// With `dirs` 0 the files are in `root` itself.
pub fn many(
    root: impl AsRef<Path>,
    files: u64,
    size: u64,
    dirs: u64,
    seed: u64,
) -> io::Result<Made> {
    let root = root.as_ref();
    let mut seeds = Stream::new(seed);
    make_dir(root)?;
    for dir in 0..dirs {
        make_dir(&root.join(format!("dir-{dir:03}")))?;
    }
    for file in 0..files {
        let name = format!("file-{file:05}");
        let path = match file.checked_rem(dirs) {
            Some(dir) => root.join(format!("dir-{dir:03}")).join(name),
            None => root.join(name),
        };
        random_file(path, size, seeds.next_u64())?;
    }
    Ok(Made { files, dirs: dirs + 1, bytes: files * size })
}

/// The mixed workload: 1,000 files of 4 KiB in 10 directories (`small/`), and
/// 8 files of 2 MiB (`large/`): 1,008 files.
pub fn mixed(root: impl AsRef<Path>, seed: u64) -> io::Result<Made> {
    let root = root.as_ref();
    make_dir(root)?;
    let small = many(root.join("small"), 1000, 4 << 10, 10, seed)?;
    let large = many(root.join("large"), 8, 2 << 20, 0, seed ^ 1)?;
    Ok(Made {
        files: small.files + large.files,
        dirs: small.dirs + large.dirs + 1,
        bytes: small.bytes + large.bytes,
    })
}

/// A small ordinary tree, three levels deep, with sizes around the boundaries
/// that copying programs have: 0, 1, 4 KiB, 64 KiB, 1 MiB, each one less and
/// one more.
pub fn sizes(root: impl AsRef<Path>, seed: u64) -> io::Result<Made> {
    let root = root.as_ref();
    let deep = root.join("one").join("two");
    fs::create_dir_all(&deep).map_err(|e| at("make", &deep, e))?;
    let mut seeds = Stream::new(seed);
    let mut made = Made { files: 0, dirs: 3, bytes: 0 };
    for (dir, boundary) in [
        (root.to_path_buf(), 1u64),
        (root.join("one"), 4 << 10),
        (deep.clone(), 64 << 10),
        (deep, 1 << 20),
    ] {
        for len in [boundary - 1, boundary, boundary + 1] {
            random_file(dir.join(format!("{len}-bytes")), len, seeds.next_u64())?;
            made.files += 1;
            made.bytes += len;
        }
    }
    Ok(made)
}

/// How the directories and files of [`deep`] are called: long enough that the
/// path of a few hundred levels is longer than any system call takes.
const DEEP_NAME: &str = "a-long-directory";
const DEEP_FILE: &str = "file";

/// Makes a chain of `levels` directories, each in the one before, with a file
/// in each. `root` is the first.
pub fn deep(root: impl AsRef<Path>, levels: usize, seed: u64) -> io::Result<()> {
    let root = root.as_ref();
    make_dir(root)?;
    let mut dir = open_dir(CWD, root)?;
    for level in 0..levels {
        if level > 0 {
            mkdirat(&dir, DEEP_NAME, Mode::RWXU)?;
            dir = open_dir(&dir, DEEP_NAME)?;
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        let mut file = File::from(openat(&dir, DEEP_FILE, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(&deep_content(seed, level))?;
    }
    Ok(())
}

/// How many levels of a [`deep`] tree with that seed are at `root`, their files
/// in each.
pub fn depth(root: impl AsRef<Path>, seed: u64) -> io::Result<usize> {
    let mut dir = open_dir(CWD, root.as_ref())?;
    let mut level = 0;
    loop {
        let file = openat(&dir, DEEP_FILE, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut content = Vec::new();
        File::from(file).read_to_end(&mut content)?;
        if content != deep_content(seed, level) {
            return Err(failed(format!("the file at level {level} is another one")));
        }
        level += 1;
        match open_dir(&dir, DEEP_NAME) {
            Ok(next) => dir = next,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(level),
            Err(e) => return Err(e),
        }
    }
}

fn deep_content(seed: u64, level: usize) -> Vec<u8> {
    bytes(100, seed ^ level as u64)
}

fn open_dir(dir: impl AsFd, name: impl Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(dir, name, flags, Mode::empty())?)
}

/// Counts what is below `root` without reading content. Symlinks are not
/// followed and not counted.
pub fn count(root: impl AsRef<Path>) -> io::Result<Made> {
    let root = root.as_ref();
    let meta = fs::symlink_metadata(root).map_err(|e| at("read the metadata of", root, e))?;
    if meta.is_file() {
        return Ok(Made { files: 1, dirs: 0, bytes: meta.len() });
    }
    let mut made = Made::default();
    let mut open = vec![root.to_path_buf()];
    while let Some(dir) = open.pop() {
        made.dirs += 1;
        for entry in fs::read_dir(&dir).map_err(|e| at("list", &dir, e))? {
            let entry = entry.map_err(|e| at("list", &dir, e))?;
            let meta =
                entry.metadata().map_err(|e| at("read the metadata of", &entry.path(), e))?;
            if meta.is_dir() {
                open.push(entry.path());
            } else if meta.is_file() {
                made.files += 1;
                made.bytes += meta.len();
            }
        }
    }
    Ok(made)
}

fn make_dir(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path).map_err(|e| at("make", path, e))
}

/// A time in 2020 that follows from `seed`.
fn mtime_of(seed: u64) -> SystemTime {
    const START_OF_2020_S: u64 = 1_577_836_800;
    const YEAR_S: u64 = 366 * 86_400;
    let mut stream = Stream::new(seed);
    let seconds = START_OF_2020_S + stream.below(YEAR_S);
    let nanos = stream.below(1_000_000_000);
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Compare, assert_same_with, snapshot};

    #[test]
    fn generators_make_what_they_say() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let root = dir.path();
        let made = many(root.join("many"), 21, 100, 4, 1).expect("made");
        assert_eq!(made, Made { files: 21, dirs: 5, bytes: 2100 });
        assert_eq!(count(root.join("many")).expect("counted"), made);
        let made = many(root.join("flat"), 3, 10, 0, 1).expect("made");
        assert_eq!(count(root.join("flat")).expect("counted"), made);
        let made = sizes(root.join("sizes"), 1).expect("made");
        assert_eq!(count(root.join("sizes")).expect("counted"), made);
        let made = mixed(root.join("mixed"), 1).expect("made");
        assert_eq!(made.files, 1008);
        assert_eq!(made.bytes, 1000 * 4096 + 8 * 2_097_152);
        assert_eq!(count(root.join("mixed")).expect("counted"), made);
    }

    #[test]
    fn a_deep_tree_has_the_levels_it_was_made_with() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let root = dir.path().join("deep");
        deep(&root, 500, 1).expect("made");
        assert_eq!(depth(&root, 1).expect("read"), 500);
        assert!(depth(&root, 2).is_err());
    }

    #[test]
    fn the_same_seed_makes_the_same_tree_and_no_two_files_are_alike() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (a, b, c) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("c"));
        many(&a, 30, 50, 3, 9).expect("made");
        many(&b, 30, 50, 3, 9).expect("made");
        many(&c, 30, 50, 3, 10).expect("made");
        let (a, b, c) =
            (snapshot(a).expect("read"), snapshot(b).expect("read"), snapshot(c).expect("read"));
        let rules = Compare::everything().ignoring_dir_mtimes();
        assert_same_with(&a, &b, rules);
        assert_eq!(a.differences(&c, rules).len(), 30);
        let mut digests: Vec<_> = a.files().map(|(_, file)| file.digest).collect();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), 30);
    }
}

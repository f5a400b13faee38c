//! Copies that are made without another program. For the small trees of most tests, starting
//! `cp` takes several times as long as copying. They keep what `cp -a` keeps:
//! modes, owners, times, extended attributes with access control lists, holes, and which
//! names are those of one file.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, SeekFrom, Timespec, Timestamps, XattrFlags};
use rustix::fs::{lgetxattr, llistxattr, lremovexattr, lsetxattr, seek, utimensat};
use rustix::io::Errno;

use crate::at;

/// How much of a file is held in memory.
const PIECE_LEN: usize = 1 << 20;

/// More than the names or a value of the attributes of one file take here.
const ATTRIBUTES_LEN: usize = 64 << 10;

/// The rights of what is still being made.
const PRIVATE: u32 = 0o700;

/// Copies what is at `from` to `to`, where nothing may be yet.
pub fn duplicate(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    Duplicates::default().make(from.as_ref(), to.as_ref())
}

/// Copies made one after the other, between which names of one file stay names of one file.
#[derive(Debug, Default)]
pub struct Duplicates {
    /// Where files are that have further names, by device and number of the original.
    made: HashMap<(u64, u64), PathBuf>,
    piece: Vec<u8>,
}

impl Duplicates {
    /// Copies what is at `from` to `to`, where nothing may be yet.
    pub fn make(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let stat = fs::symlink_metadata(from).map_err(|e| at("read the metadata of", from, e))?;
        let of = (stat.dev(), stat.ino());
        if let Some(first) = self.made.get(&of) {
            return fs::hard_link(first, to).map_err(|e| at("link", to, e));
        }
        if stat.nlink() > 1 && !stat.is_dir() {
            self.made.insert(of, to.to_owned());
        }
        if stat.is_dir() {
            let made = DirBuilder::new().mode(PRIVATE).create(to);
            made.map_err(|e| at("make", to, e))?;
            for entry in fs::read_dir(from).map_err(|e| at("list", from, e))? {
                let name = entry.map_err(|e| at("list", from, e))?.file_name();
                self.make(&from.join(&name), &to.join(&name))?;
            }
        } else if stat.is_file() {
            self.content(from, to, stat.len()).map_err(|e| at("copy to", to, e))?;
        } else if stat.is_symlink() {
            let target = fs::read_link(from).map_err(|e| at("read", from, e))?;
            symlink(target, to).map_err(|e| at("make", to, e))?;
        } else {
            node(to, &stat).map_err(|e| at("make", to, e))?;
        }
        self.attributes(from, to, &stat).map_err(|e| at("set the attributes of", to, e))
    }

    /// The parts of the file that have data.
    fn content(&mut self, from: &Path, to: &Path, len: u64) -> io::Result<()> {
        let from = File::open(from)?;
        let to = File::options().write(true).create_new(true).mode(PRIVATE).open(to)?;
        self.piece.resize(PIECE_LEN, 0);
        let mut end = 0;
        loop {
            let begin = match seek(&from, SeekFrom::Data(end)) {
                Err(Errno::NXIO) => break,
                begin => begin?,
            };
            end = seek(&from, SeekFrom::Hole(begin))?;
            let mut place = begin;
            while place < end {
                let piece = (end - place).min(PIECE_LEN as u64) as usize;
                from.read_exact_at(&mut self.piece[..piece], place)?;
                to.write_all_at(&self.piece[..piece], place)?;
                place += piece as u64;
            }
        }
        to.set_len(len)
    }

    /// All that is not content. Extended attributes, the lists among them, come last but
    /// for the times: another owner takes rights away, and a list that a directory has
    /// would be that of what is made in it.
    fn attributes(&mut self, from: &Path, to: &Path, stat: &Metadata) -> io::Result<()> {
        lchown(to, Some(stat.uid()), Some(stat.gid()))?;
        if !stat.is_symlink() {
            for list in ["system.posix_acl_access", "system.posix_acl_default"] {
                match lremovexattr(to, list) {
                    Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
                    // Only directories have one for what is made in them.
                    Err(Errno::ACCESS) if !stat.is_dir() => {}
                    Err(error) => return Err(error.into()),
                }
            }
            fs::set_permissions(to, stat.permissions())?;
        }
        self.piece.resize(2 * ATTRIBUTES_LEN, 0);
        let (names, value) = self.piece.split_at_mut(ATTRIBUTES_LEN);
        let len = match llistxattr(from, &mut *names) {
            Err(Errno::OPNOTSUPP) => 0,
            len => len?,
        };
        for name in names[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            let len = lgetxattr(from, name, &mut *value)?;
            lsetxattr(to, name, &value[..len], XattrFlags::empty())?;
        }
        let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        let times = Timestamps {
            last_access: time(stat.atime(), stat.atime_nsec()),
            last_modification: time(stat.mtime(), stat.mtime_nsec()),
        };
        Ok(utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

/// A FIFO, socket or device.
#[cfg(target_os = "linux")]
fn node(path: &Path, stat: &Metadata) -> io::Result<()> {
    use rustix::fs::{FileType, Mode, mknodat};
    let kind = FileType::from_raw_mode(stat.mode());
    Ok(mknodat(CWD, path, kind, Mode::from_raw_mode(PRIVATE), stat.rdev())?)
}

#[cfg(not(target_os = "linux"))]
fn node(_: &Path, _: &Metadata) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nasty;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::FileTypeExt;
    use std::process::Command;

    /// All that is said of a tree, but for numbers of objects and the time of a change.
    fn told(root: &Path) -> Vec<String> {
        let mut lines = Vec::new();
        let mut first = HashMap::new();
        let mut open = vec![PathBuf::new()];
        while let Some(name) = open.pop() {
            let path = if name.as_os_str().is_empty() { root.into() } else { root.join(&name) };
            let stat = fs::symlink_metadata(&path).expect("it is there");
            if stat.is_dir() {
                let names = fs::read_dir(&path).expect("a directory");
                open.extend(names.map(|entry| name.join(entry.expect("an entry").file_name())));
                open.sort_unstable_by(|one, other| other.cmp(one));
            }
            let first = first.entry((stat.dev(), stat.ino())).or_insert_with(|| name.clone());
            let same = (stat.mode(), stat.uid(), stat.gid(), stat.rdev(), stat.nlink());
            let times = (stat.mtime(), stat.mtime_nsec());
            // What is read to be copied, or to be told of here, has another time after that.
            let is_never_read = stat.file_type().is_fifo();
            let read = is_never_read.then(|| (stat.atime(), stat.atime_nsec()));
            let content = match (stat.is_file(), stat.is_symlink()) {
                (true, _) => fs::read(&path).expect("read"),
                (_, true) => fs::read_link(&path).expect("read").as_os_str().as_bytes().to_vec(),
                _ => Vec::new(),
            };
            let room = stat.is_file().then(|| stat.blocks());
            let sum = content.iter().fold(0_u64, |sum, &b| sum.rotate_left(5) ^ u64::from(b));
            let mut names = [0; 1000];
            let len = llistxattr(&path, &mut names[..]).expect("listed");
            let mut names: Vec<_> = names[..len].split(|&byte| byte == 0).collect();
            names.sort_unstable();
            let values = names.into_iter().filter(|name| !name.is_empty()).map(|name| {
                let mut value = [0; 1000];
                let len = lgetxattr(&path, name, &mut value[..]).expect("an attribute");
                (name.to_vec(), value[..len].to_vec())
            });
            let values: Vec<_> = values.collect();
            lines.push(format!(
                "{name:?} {first:?} {same:?} {times:?} {read:?} {room:?} {sum} {values:?}"
            ));
        }
        lines
    }

    #[test]
    fn a_duplicate_is_what_cp_makes() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let [from, ours, theirs] = ["from", "ours", "theirs"].map(|name| dir.path().join(name));
        // What is made in it has rights of its own.
        nasty::set_acl(dir.path(), true).expect("a list");
        nasty::nasty(&from, 1).expect("a tree");
        fs::hard_link(from.join("sparse/hole"), from.join("twin")).expect("linked");
        fs::hard_link(from.join("sparse/hole"), from.join("modes/twin")).expect("linked");
        let made = Command::new("mkfifo").arg(from.join("fifo")).status();
        assert!(made.expect("it runs").success());
        for (path, default) in [("names", true), ("twin", false), ("fifo", false)] {
            nasty::set_acl(from.join(path), default).expect("a list");
            nasty::set_attribute(from.join("twin"), "user.k", b"v").expect("an attribute");
        }
        nasty::set_attribute(from.join("names"), "user.of-dir", b"v").expect("an attribute");
        if rustix::process::geteuid().is_root() {
            for path in ["twin", "names", "fifo"] {
                lchown(from.join(path), Some(12345), Some(12346)).expect("given");
            }
            nasty::set_mode(from.join("twin"), 0o6751).expect("a mode");
        }
        nasty::set_mtime(from.join("fifo"), 1_500_000_000, 7).expect("a time");
        nasty::set_mtime(&from, 1_400_000_000, 8).expect("a time");
        duplicate(&from, &ours).expect("a copy");
        let made = Command::new("cp").arg("-a").arg(&from).arg(&theirs).status();
        assert!(made.expect("it runs").success());
        let (ours, theirs) = (told(&ours), told(&theirs));
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs);
        }
        nasty::unlock(dir.path()).expect("it can be removed");
    }

    #[test]
    fn names_of_one_file_are_those_of_one_in_several_trees_too() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| dir.path().join(name);
        fs::write(path("a"), "a").expect("written");
        fs::hard_link(path("a"), path("b")).expect("linked");
        let mut duplicates = Duplicates::default();
        for (from, to) in [("a", "c"), ("b", "d")] {
            duplicates.make(&path(from), &path(to)).expect("a copy");
        }
        let number = |name: &str| fs::metadata(path(name)).expect("it is there").ino();
        assert!(number("c") == number("d") && number("c") != number("a"));
        let error = duplicate(path("a"), path("b")).expect_err("it is there");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }
}

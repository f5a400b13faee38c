//! A tree of everything that copying programs get wrong: hostile names, odd
//! modes, times outside the usual range, holes, links that lead nowhere.
//!
//! A file system that refuses a name (macOS wants UTF-8) gets the tree without
//! it. What only root could read afterwards is made only by root.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use rustix::io::Errno;

use crate::at;
use crate::content::bytes;

/// Apparent size of `sparse/hole`.
pub const SPARSE_BYTES: u64 = 64 << 20;

/// Where `sparse/hole` has data, 4 KiB each time: at the start, in the middle,
/// not aligned to any block, and nowhere near its end.
pub const SPARSE_DATA_AT: [u64; 3] = [0, 32 << 20, (48 << 20) + 12_345];

/// File names that have broken programs.
pub const NAMES: &[&[u8]] = &[
    b"new\nline",
    b"tab\tand\rreturn",
    b"\x1b[31mred\x1b[0m",
    b"\x01\x02\x7f",
    b"latin-1-\xe9",
    b"\xff\xfe",
    b"overlong-\xc0\xaf",
    b"-rf",
    b"--help",
    b"-",
    b"~",
    b"~root",
    b"...",
    b"..hidden",
    b".hidden",
    b" leading and trailing ",
    b"a b",
    b"host:path",
    b"c:\\windows",
    b"quote'\"`",
    b"$(touch pwned)",
    b"`touch pwned`",
    b"; touch pwned #",
    b"*",
    b"?[!a]",
    b"%s%n",
    b"#hash#",
    "\u{fc}ber-nfc".as_bytes(),
    "u\u{308}ber-nfd".as_bytes(),
    "\u{202e}txt.exe".as_bytes(),
    "\u{1f980}".as_bytes(),
];

/// Makes the whole tree at `root`, which must not exist.
pub fn nasty(root: impl AsRef<Path>, seed: u64) -> io::Result<()> {
    let root = root.as_ref();
    make(root)?;
    names(&root.join("names"), seed)?;
    empties(root)?;
    symlinks(&root.join("links"))?;
    sparse(&root.join("sparse"), seed)?;
    modes(&root.join("modes"), seed)?;
    times(&root.join("times"))
}

/// The hostile names, as files and as directories, and names of the greatest
/// length (255 bytes), nested.
fn names(dir: &Path, seed: u64) -> io::Result<()> {
    make(dir)?;
    for (index, name) in NAMES.iter().enumerate() {
        let path = dir.join(OsStr::from_bytes(name));
        let content = bytes(100 + index, seed + index as u64);
        if !taken(write(&path, &content))? {
            continue;
        }
        let inner = dir.join("dirs").join(OsStr::from_bytes(name));
        make(&inner)?;
        write(&inner.join(OsStr::from_bytes(name)), &content)?;
    }
    let long = "l".repeat(255);
    make(&dir.join(&long))?;
    write(&dir.join(&long).join(&long), b"long")?;
    write(&dir.join(&long).join(format!("{}\n", "m".repeat(254))), b"long, with a newline")
}

fn empties(root: &Path) -> io::Result<()> {
    make(&root.join("empty-dir"))?;
    make(&root.join("nested-empty/a/b/c"))?;
    write(&root.join("empty-file"), b"")
}

fn symlinks(dir: &Path) -> io::Result<()> {
    make(dir)?;
    write(&dir.join("target"), b"target")?;
    make(&dir.join("target-dir"))?;
    let long = format!("/nowhere/{}", "x".repeat(1000));
    for (target, name) in [
        ("target", "to-file"),
        ("target-dir", "to-dir"),
        ("missing", "dangling"),
        ("/nowhere/at/all", "dangling-absolute"),
        ("loop-b", "loop-a"),
        ("loop-a", "loop-b"),
        (".", "to-itself"),
        ("../../../../../../etc", "leading-out"),
        ("new\nline \x1b[31m", "control-bytes"),
        (&long, "long"),
    ] {
        let path = dir.join(name);
        symlink(target, &path).map_err(|e| at("link", &path, e))?;
    }
    let path = dir.join("not-utf8");
    taken(symlink(OsStr::from_bytes(b"\xff\xfe"), &path).map_err(|e| at("link", &path, e)))?;
    set_mtime(dir.join("dangling"), 981_173_106, 123_456_789)
}

fn sparse(dir: &Path, seed: u64) -> io::Result<()> {
    make(dir)?;
    let path = dir.join("hole");
    let file = File::create(&path).map_err(|e| at("create", &path, e))?;
    file.set_len(SPARSE_BYTES).map_err(|e| at("extend", &path, e))?;
    for (index, offset) in SPARSE_DATA_AT.into_iter().enumerate() {
        file.write_all_at(&bytes(4096, seed + index as u64), offset)
            .map_err(|e| at("write", &path, e))?;
    }
    let path = dir.join("all-hole");
    let file = File::create(&path).map_err(|e| at("create", &path, e))?;
    file.set_len(1 << 20).map_err(|e| at("extend", &path, e))
}

fn modes(dir: &Path, seed: u64) -> io::Result<()> {
    make(dir)?;
    let root_only: &[u32] =
        if rustix::process::geteuid().is_root() { &[0o000, 0o200] } else { &[] };
    for &mode in
        [0o400, 0o444, 0o600, 0o640, 0o644, 0o666, 0o711, 0o755, 0o777].iter().chain(root_only)
    {
        let path = dir.join(format!("file-{mode:03o}"));
        write(&path, &bytes(200, seed + u64::from(mode)))?;
        set_mode(&path, mode)?;
    }
    // A directory that can't be written to can still have content, so a copy
    // must set its mode after filling it.
    for mode in [0o500, 0o555, 0o700, 0o711, 0o777, 0o1777] {
        let path = dir.join(format!("dir-{mode:03o}"));
        make(&path)?;
        write(&path.join("inside"), b"inside")?;
        set_mode(&path, mode)?;
    }
    Ok(())
}

fn times(dir: &Path) -> io::Result<()> {
    make(dir)?;
    for (name, seconds, nanos) in [
        ("before-1970", -86_400, 123_456_789),
        ("epoch", 0, 0),
        ("epoch-1ns", 0, 1),
        ("y2k", 946_684_799, 999_999_999),
        ("nanoseconds", 1_600_000_000, 123_456_789),
        ("whole-second", 1_600_000_000, 0),
        ("after-2038", 2_200_000_000, 1),
    ] {
        let path = dir.join(name);
        write(&path, name.as_bytes())?;
        set_mtime(&path, seconds, nanos)?;
    }
    let old = dir.join("old-dir");
    make(&old)?;
    write(&old.join("inside"), b"inside")?;
    set_mtime(&old, 500_000_000, 5)
}

/// Sets the mtime of a file, directory or symlink (the link itself).
pub fn set_mtime(path: impl AsRef<Path>, seconds: i64, nanos: u32) -> io::Result<()> {
    let path = path.as_ref();
    let time = Timespec { tv_sec: seconds, tv_nsec: nanos.into() };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|e| at("set the times of", path, e))
}

/// Gives a file or directory the extended attribute `name`.
pub fn set_attribute(path: impl AsRef<Path>, name: &str, value: &[u8]) -> io::Result<()> {
    let path = path.as_ref();
    rustix::fs::lsetxattr(path, name, value, rustix::fs::XattrFlags::empty())
        .map_err(|e| at("set an attribute of", path, e))
}

/// Lets user 65,534 read a file or directory by its ACL; or, as the `default` one
/// of a directory, what is made in it.
pub fn set_acl(path: impl AsRef<Path>, default: bool) -> io::Result<()> {
    /// As the kernel reads it (include/uapi/linux/posix_acl_xattr.h): the version,
    /// then tag, rights and user of each: owner, a user, group, mask, others.
    const ENTRIES: [(u16, u16, u32); 5] = [
        (0x01, 6, u32::MAX),
        (0x02, 4, 65_534),
        (0x04, 4, u32::MAX),
        (0x10, 4, u32::MAX),
        (0x20, 4, u32::MAX),
    ];
    let mut acl = 2u32.to_le_bytes().to_vec();
    for (tag, rights, user) in ENTRIES {
        acl.extend(tag.to_le_bytes());
        acl.extend(rights.to_le_bytes());
        acl.extend(user.to_le_bytes());
    }
    let kind = if default { "default" } else { "access" };
    set_attribute(path, &format!("system.posix_acl_{kind}"), &acl)
}

/// Sets the permission bits of a file or directory.
pub fn set_mode(path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
    let path = path.as_ref();
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(|e| at("set the mode of", path, e))
}

/// Makes every directory below `root` writable again, so that a temporary
/// directory with a nasty tree in it can be removed without being root.
pub fn unlock(root: impl AsRef<Path>) -> io::Result<()> {
    let mut open = vec![root.as_ref().to_path_buf()];
    while let Some(dir) = open.pop() {
        set_mode(&dir, 0o700)?;
        for entry in fs::read_dir(&dir).map_err(|e| at("list", &dir, e))? {
            let entry = entry.map_err(|e| at("list", &dir, e))?;
            if entry.file_type().map_err(|e| at("read the metadata of", &entry.path(), e))?.is_dir()
            {
                open.push(entry.path());
            }
        }
    }
    Ok(())
}

/// True if the file system took the name: false when it refused its bytes.
fn taken(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::InvalidInput || refused(&e) => Ok(false),
        Err(e) => Err(e),
    }
}

/// macOS answers EILSEQ to a name that is not UTF-8. The error was given a
/// path by then, so its number is looked for in its text.
fn refused(error: &io::Error) -> bool {
    error.to_string().contains(&format!("(os error {})", Errno::ILSEQ.raw_os_error()))
}

fn make(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path).map_err(|e| at("make", path, e))
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::write(path, content).map_err(|e| at("write", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Compare, Kind, assert_same_with, snapshot};

    #[test]
    fn the_tree_holds_what_it_promises_and_is_the_same_each_time() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        nasty(&a, 4).expect("made");
        nasty(&b, 4).expect("made");
        let (left, right) = (snapshot(&a).expect("read"), snapshot(&b).expect("read"));
        assert_same_with(&left, &right, Compare::everything().ignoring_mtimes());

        let entry = |path: &str| left.get(path).unwrap_or_else(|| panic!("no {path}"));
        assert_eq!(entry("modes/file-711").mode, 0o711);
        assert_eq!(entry("modes/dir-1777").mode, 0o1777);
        assert_eq!(entry("times/before-1970").mtime_ns, -86_400_000_000_000 + 123_456_789);
        assert_eq!(entry("times/old-dir").mtime_ns, 500_000_000_000_000_005);
        assert!(
            matches!(&entry("links/dangling").kind, Kind::Symlink { target } if target == b"missing")
        );
        assert_eq!(entry("links/dangling").mtime_ns, 981_173_106_123_456_789);
        let hole = left.files().find(|(path, _)| *path == b"sparse/hole").expect("the hole").1;
        assert_eq!(hole.size, SPARSE_BYTES);
        assert!(hole.allocated_bytes < 1 << 20, "not sparse: {hole:?}");
        assert!(left.get("names/new\nline").is_some());
        if cfg!(target_os = "linux") {
            assert!(left.get(OsStr::from_bytes(b"names/latin-1-\xe9")).is_some());
        }
        unlock(&a).expect("unlocked");
        unlock(&b).expect("unlocked");
    }
}

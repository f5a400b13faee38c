//! Paths that the operator names, where another user could have put a symbolic link on the way.
//! They are resolved one component at a time. A link is followed only if it belongs to root or to
//! the user of this process, as rsync does. Another user's link may lead anywhere, and change at
//! any time.
//!
//! The kernel resolves links of /proc: no other user can create one there.

use crate::jail;
use crate::stat::{self, Stat};
use crate::{Dir, effective_user};
use haul_model::{ForeignLink, Name};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Which links on the way of a path are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Links {
    /// Those of root and of this process's user.
    #[default]
    Own,
    /// All links.
    All,
}

/// Most links followed in one path: the kernel's limit.
const LINKS_MAX: usize = 40;

impl Dir {
    /// Opens a directory that the operator named, following only `links`.
    ///
    /// # Errors
    /// Errors of `open`; [`ForeignLink`] at a link that is not followed.
    pub fn open_named(path: &Path, links: Links) -> io::Result<Self> {
        Self::open_following(path, links, OFlags::empty())
    }

    /// Like [`Self::open_named`], for looking up names: the directory need not be readable.
    ///
    /// # Errors
    /// As [`Self::open_named`].
    pub fn open_named_for_search(path: &Path, links: Links) -> io::Result<Self> {
        match Self::open_named(path, links) {
            // The system can hold such directories.
            #[cfg(target_os = "linux")]
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Self::open_following(path, links, OFlags::PATH)
            }
            opened => opened,
        }
    }

    fn open_following(path: &Path, links: Links, flags: OFlags) -> io::Result<Self> {
        match links {
            Links::All => Self::open_with(path, flags),
            Links::Own => {
                let flags = flags | OFlags::RDONLY | OFlags::DIRECTORY;
                walk(path, flags, Mode::empty()).map(Self::of)
            }
        }
    }

    /// Opens the regular file that the link `name` leads to, following only links of root and of
    /// this process's user.
    ///
    /// # Errors
    /// Errors of `open`; [`ForeignLink`] at a link that is not followed; if it is no regular file.
    pub fn open_link_target(&self, name: &Name) -> io::Result<(File, Stat)> {
        let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK;
        let rest = vec![name.as_bytes().to_vec()];
        let file = File::from(walk_from(self.try_clone()?, rest, flags, Mode::empty())?);
        let stat = stat::file_stat(&file)?.regular()?;
        Ok((file, stat))
    }
}

/// Opens a file that the operator named for reading, following only `links`.
///
/// # Errors
/// Errors of `open`; [`ForeignLink`] at a link that is not followed.
pub fn open_named(path: &Path, links: Links) -> io::Result<File> {
    match links {
        Links::All => File::open(path),
        Links::Own => walk(path, OFlags::RDONLY | OFlags::NOCTTY, Mode::empty()).map(File::from),
    }
}

/// Opens a file that the operator named for appending, or creates it. Follows only `links`.
///
/// # Errors
/// As [`open_named`].
pub fn append_to_named(path: &Path, links: Links) -> io::Result<File> {
    match links {
        Links::All => File::options().append(true).create(true).open(path),
        Links::Own => {
            let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOCTTY;
            walk(path, flags, Mode::from_raw_mode(0o666)).map(File::from)
        }
    }
}

/// Opens a file that the operator named for appending, or creates one that other users can't read.
/// Follows only links of root and of this process's user. Does not wait for a FIFO.
///
/// # Errors
/// As [`open_named`]; if it is neither a regular file nor a character device.
pub fn append_to_private(path: &Path) -> io::Result<File> {
    let appends = OFlags::WRONLY | OFlags::APPEND;
    let flags = appends | OFlags::CREATE | OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = File::from(walk(path, flags, Mode::from_raw_mode(0o600))?);
    let kind = file.metadata()?.file_type();
    if !kind.is_file() && !kind.is_char_device() {
        let message = "it is neither a regular file nor a character device";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    rustix::fs::fcntl_setfl(&file, appends)?;
    Ok(file)
}

/// Opens the entry at `path`.
fn walk(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let path = path.as_os_str().as_bytes();
    walk_from(start(path)?, names(path), flags, mode)
}

/// Opens the entry at a path that starts at `here`. `rest` are its names, the last one first.
fn walk_from(
    mut here: Dir,
    mut rest: Vec<Vec<u8>>,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let mut links = 0;
    while let Some(name) = rest.pop() {
        let is_end = rest.is_empty();
        let flags = if is_end { flags | OFlags::CLOEXEC } else { HOLD };
        let left = if name == b".." { jail::follow(&here, &name, flags) } else { None };
        let opened = match left {
            Some(above) => above?,
            None => match rustix::fs::openat(&here, &*name, flags | OFlags::NOFOLLOW, mode) {
                Ok(opened) => opened,
                Err(error @ (Errno::LOOP | Errno::NOTDIR)) => {
                    links += 1;
                    match link_at(&here, &name)? {
                        _ if links > LINKS_MAX => return Err(Errno::LOOP.into()),
                        None => return Err(error.into()),
                        Some(Link::OfSystem) => rustix::fs::openat(&here, &*name, flags, mode)?,
                        Some(Link::To(target)) => {
                            if target.starts_with(b"/") {
                                here = match jail::root() {
                                    Some(_) => return Err(jail::refused()),
                                    None => start(b"/")?,
                                };
                            }
                            rest.extend(names(&target));
                            continue;
                        }
                    }
                }
                Err(error) => return Err(error.into()),
            },
        };
        if is_end {
            return Ok(opened);
        }
        here = Dir::of(opened);
    }
    Err(Errno::NOENT.into())
}

/// Flags for directories on the way.
const HOLD: OFlags = jail::INSPECT.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The directory where `path` starts.
fn start(path: &[u8]) -> io::Result<Dir> {
    if let Some(root) = jail::root() {
        let leads_up = path.split(|byte| *byte == b'/').any(|name| name == b"..");
        return if leads_up { Err(jail::refused()) } else { root.try_clone() };
    }
    let start = if path.starts_with(b"/") { "/" } else { "." };
    Ok(Dir::of(rustix::fs::open(start, HOLD, Mode::empty())?))
}

/// The names in `path`, the last one first. A trailing slash means the directory itself.
fn names(path: &[u8]) -> Vec<Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/');
    let is_name = |part: &&[u8]| !part.is_empty() && *part != b".";
    let mut names: Vec<_> = parts.filter(is_name).map(<[u8]>::to_vec).collect();
    if path == b"." || path.ends_with(b"/") || path.ends_with(b"/.") {
        names.push(b".".to_vec());
    }
    names.reverse();
    names
}

/// A symbolic link that may be followed.
enum Link {
    To(Vec<u8>),
    /// A link that the system generates, which may lead where no path does.
    OfSystem,
}

/// The link `name` in `dir`; `None` if it is no link.
///
/// # Errors
/// [`ForeignLink`] if it belongs to another user.
#[cfg(target_os = "linux")]
fn link_at(dir: &Dir, name: &[u8]) -> io::Result<Option<Link>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    let stat = stat::file_stat(&held)?;
    if !stat.is_symlink() {
        return Ok(None);
    }
    refuse_foreign(name, &stat)?;
    if jail::root().is_none() && crate::is_generated(&held) {
        return Ok(Some(Link::OfSystem));
    }
    Ok(Some(Link::To(rustix::fs::readlinkat(held, "", Vec::new())?.into_bytes())))
}

/// Like on Linux, but links can't be held here: the link must be unchanged after reading it.
#[cfg(not(target_os = "linux"))]
fn link_at(dir: &Dir, name: &[u8]) -> io::Result<Option<Link>> {
    let look = || {
        let raw = rustix::fs::statat(dir, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
        io::Result::Ok(Stat::from_raw(&raw))
    };
    let stat = look()?;
    if !stat.is_symlink() {
        return Ok(None);
    }
    refuse_foreign(name, &stat)?;
    let target = rustix::fs::readlinkat(dir, name, Vec::new())?.into_bytes();
    let after = look()?;
    if (after.id, after.ctime) != (stat.id, stat.ctime) {
        return Err(Errno::LOOP.into());
    }
    Ok(Some(Link::To(target)))
}

fn refuse_foreign(name: &[u8], stat: &Stat) -> io::Result<()> {
    match stat.uid == 0 || stat.uid == effective_user() {
        true => Ok(()),
        false => Err(io::Error::other(ForeignLink(haul_model::escape_bytes(name)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Paths, and the entries that they lead to in the system's view; `None` if they lead nowhere.
    #[test]
    fn paths_lead_where_the_system_says() {
        let temp = tempfile::tempdir().expect("a directory");
        let at = |path: &str| temp.path().join(path);
        std::fs::create_dir_all(at("a/b/c")).expect("made");
        std::fs::write(at("a/file"), "x").expect("written");
        symlink("b", at("a/to-b")).expect("a link");
        symlink("b/../to-b/", at("a/round")).expect("a link");
        symlink(at("a"), at("whole")).expect("a link");
        symlink("../../whole/round", at("a/b/up")).expect("a link");
        symlink("loop", at("loop")).expect("a link");
        symlink("missing", at("dangling")).expect("a link");
        symlink("file", at("a/to-file")).expect("a link");
        for path in [
            "",
            ".",
            "./",
            "/",
            "a",
            "a/",
            "a/.",
            "a//b/.",
            "a/b/..",
            "a/to-b",
            "a/to-b/c",
            "whole/",
            "a/round/c",
            "a/b/up/c",
            "a/b/up/../to-file",
            "loop",
            "loop/x",
            "dangling",
            "a/file",
            "a/file/",
            "a/to-file",
            "a/to-file/x",
            "nothing",
            "nothing/x",
            "whole/to-b/../..",
        ] {
            let path = if path == "/" { "/".into() } else { at(path) };
            let id = |file: io::Result<OwnedFd>| file.and_then(|fd| Ok(stat::file_stat(&fd)?.id));
            let kind = |error: io::Error| error.raw_os_error();
            let told = id(File::open(&path).map(OwnedFd::from)).map_err(kind);
            let walked = id(open_named(&path, Links::Own).map(OwnedFd::from)).map_err(kind);
            assert_eq!(walked, told, "{}", path.display());
            let is_dir = Dir::open(&path).map(|_| ()).map_err(kind);
            let named = Dir::open_named(&path, Links::Own).map(|_| ()).map_err(kind);
            assert_eq!(named, is_dir, "{}", path.display());
        }
    }

    #[test]
    fn a_private_log_is_a_file_or_a_device() {
        use std::os::unix::fs::PermissionsExt;
        let temp = tempfile::tempdir().expect("a directory");
        let at = |name: &str| temp.path().join(name);
        append_to_private(Path::new("/dev/null")).expect("opened");
        append_to_private(&at("log")).expect("made");
        let mode = std::fs::metadata(at("log")).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let fifo = at("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .expect("a FIFO");
        append_to_private(&fifo).expect_err("nobody reads it");
        let reads = OFlags::RDONLY | OFlags::NONBLOCK;
        let _reader = rustix::fs::open(&fifo, reads, Mode::empty()).expect("opened");
        append_to_private(&fifo).expect_err("it is a FIFO");
        append_to_private(temp.path()).expect_err("it is a directory");
    }

    #[test]
    fn links_of_proc_are_followed() {
        let file = tempfile::tempfile().expect("a file without a name");
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        open_named(Path::new(&path), Links::Own).expect("opened");
    }
}

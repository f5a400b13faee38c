//! A directory that this process may not leave, whatever it is asked: paths are
//! resolved below it, by the kernel (`openat2` with `RESOLVE_BENEATH`), and
//! Landlock refuses what would get past that. Once entered, it is for good, and
//! for all threads that are started later.
//!
//! A path is taken as in a chroot: what begins with `/` begins at the directory.
//! `..` is refused in it. A symbolic link on its way may lead up and down, but not
//! out, and not to a path that begins with `/`. What is refused is refused before
//! anything outside is looked at, so nobody learns what is there.

use crate::Dir;
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static ROOT: OnceLock<Dir> = OnceLock::new();

/// Keeps this process below the directory `path`, where it may write if `writes`
/// says so. No symbolic link is followed in a `path` that `is_canonical`: another client may
/// have put it there since the path was resolved. Through its open handles it may also work in the directories `besides`, which no path
/// leads to. **To be called before any other thread is started**: those that run
/// already are not confined.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] where the kernel has not both of what this
/// needs; those of opening the directory.
pub fn enter(path: &Path, is_canonical: bool, writes: bool, besides: &[Dir]) -> io::Result<()> {
    let root = if is_canonical { system::open_canonical(path)? } else { Dir::open(path)? };
    rustix::process::fchdir(&root)?;
    system::open(&root, b".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC)
        .map_err(|error| io::Error::new(io::ErrorKind::Unsupported, error))?;
    if !crate::confine::confine_below(&root, writes, besides) {
        let lacks = "the kernel has no Landlock, or it is off";
        return Err(io::Error::new(io::ErrorKind::Unsupported, lacks));
    }
    let again = || io::Error::new(io::ErrorKind::AlreadyExists, "there is one already");
    ROOT.set(root).map_err(|_| again())
}

/// True if this process stays below a directory, at which its paths begin.
pub fn is_jailed() -> bool {
    root().is_some()
}

/// The directory, if this process has one.
pub(crate) fn root() -> Option<&'static Dir> {
    ROOT.get()
}

/// Opens `path` below the directory; `None` where there is none.
pub(crate) fn open(path: &[u8], flags: OFlags) -> Option<io::Result<OwnedFd>> {
    let root = root()?;
    let start = path.iter().position(|b| *b != b'/').unwrap_or(path.len());
    let below = match &path[start..] {
        b"" => b".",
        below => below,
    };
    if below.split(|b| *b == b'/').any(|part| part == b"..") {
        return Some(Err(refused()));
    }
    Some(system::open(root, below, flags | OFlags::CLOEXEC))
}

/// `path` from the root of all paths on, which is the directory where there is one; no link is
/// followed.
///
/// # Errors
/// Those of asking for the working directory.
pub fn absolute(path: &Path) -> io::Result<PathBuf> {
    match root() {
        Some(_) => Ok(Path::new("/").join(path)),
        None => std::path::absolute(path),
    }
}

/// The absolute path by which this process can open `dir`, where the system tells that.
pub fn path_to(dir: &Dir) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    match root() {
        Some(root) => {
            let below = PathBuf::from(std::ffi::OsString::from_vec(system::path_below(root, dir)?));
            let below = below.strip_prefix(".").unwrap_or(&below);
            Some(Path::new("/").join(below))
        }
        None => dir.path(),
    }
}

/// Opens what the entry `name` of `dir` leads to; `None` where there is no
/// directory to stay below.
pub(crate) fn follow(dir: &Dir, name: &[u8], flags: OFlags) -> Option<io::Result<OwnedFd>> {
    let root = root()?;
    Some(match system::path_below(root, dir) {
        Some(above) => {
            let path = [&above[..], b"/", name].concat();
            system::open(root, &path, flags | OFlags::CLOEXEC)
        }
        // It has been moved out, or can't be found: what is below it still can.
        None => system::open(dir, name, flags | OFlags::CLOEXEC),
    })
}

/// True if the directory above `dir` may be opened.
pub(crate) fn may_leave(dir: &Dir) -> io::Result<bool> {
    let Some(root) = root() else { return Ok(true) };
    Ok(root.stat_self()?.id != dir.stat_self()?.id && system::path_below(root, dir).is_some())
}

/// The same for all that leads out, whether there is something or not.
pub(crate) fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "it points outside the allowed directory")
}

/// The flag of descriptors that are only looked at.
pub(crate) const LOOK: OFlags = system::LOOK;

/// No bits of a mode: nothing is made here.
const NO_MODE: Mode = Mode::empty();

#[cfg(target_os = "linux")]
mod system {
    use super::{Dir, NO_MODE, OFlags, OwnedFd, Path, io, refused};
    use rustix::fs::{CWD, ResolveFlags};
    use rustix::io::Errno;
    use std::os::fd::{AsFd, AsRawFd};

    pub(super) const LOOK: OFlags = OFlags::PATH;

    /// Links are followed as long as they stay below; those of /proc, which lead
    /// anywhere, are not.
    const RESOLVE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

    /// How often is tried again while directories on the way are being renamed.
    const ATTEMPTS_MAX: usize = 128;

    pub(super) fn open(dir: &Dir, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        for _ in 0..ATTEMPTS_MAX {
            match rustix::fs::openat2(dir, path, flags, NO_MODE, RESOLVE) {
                Err(Errno::AGAIN) => {}
                Err(Errno::XDEV) => return Err(refused()),
                opened => return Ok(opened?),
            }
        }
        Err(refused())
    }

    pub(super) fn open_canonical(path: &Path) -> io::Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat2(CWD, path, flags, NO_MODE, ResolveFlags::NO_SYMLINKS);
        Ok(Dir::of(opened?))
    }

    /// Where `dir` is below `root`, if it is there. It may be elsewhere a moment
    /// later: this is for a path that is resolved below `root` again.
    pub(super) fn path_below(root: &Dir, dir: &Dir) -> Option<Vec<u8>> {
        let (root, dir) = (path_of(root)?, path_of(dir)?);
        let below = dir.strip_prefix(root.strip_suffix(b"/").unwrap_or(&root))?;
        match below {
            b"" | b"/" => Some(b".".to_vec()),
            [b'/', below @ ..] => Some(below.to_vec()),
            _ => None,
        }
    }

    fn path_of(dir: &Dir) -> Option<Vec<u8>> {
        let link = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd());
        Some(rustix::fs::readlink(link, Vec::new()).ok()?.into_bytes())
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{Dir, OFlags, OwnedFd, Path, io};

    /// Here that is open to be read, and must not wait.
    pub(super) const LOOK: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

    pub(super) fn open(_: &Dir, _: &[u8], _: OFlags) -> io::Result<OwnedFd> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this needs Linux"))
    }

    /// [`open`] refuses to work in it.
    pub(super) fn open_canonical(path: &Path) -> io::Result<Dir> {
        Dir::open(path)
    }

    pub(super) fn path_below(_: &Dir, _: &Dir) -> Option<Vec<u8>> {
        None
    }
}

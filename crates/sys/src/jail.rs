//! A directory that this process may not leave, whatever it is asked to do. The kernel resolves
//! paths below it (`openat2` with `RESOLVE_BENEATH`), and Landlock refuses everything that would
//! get around that. It can't be undone, and holds for all threads that are started later.
//!
//! A path is interpreted as in a chroot: a leading `/` is the directory. `..` in a path is refused.
//! Symbolic links on the way may lead up and down, but not out, and not to an absolute path. A
//! refusal comes before any access outside, so it reveals nothing about entries there.

use crate::Dir;
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static ROOT: OnceLock<Dir> = OnceLock::new();

/// Confines this process to the directory `path`, with write access if `writes`. If `path`
/// `is_canonical`, no symbolic link in it is followed: another client may have put one there since
/// it was resolved. The process may also work in the directories `besides` through its open
/// handles, but no path leads there. **Call it before any other thread is started**: running
/// threads are not confined.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] if the kernel lacks one of the two features; those of opening the
/// directory.
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

/// True if this process is confined to a directory, where its paths start.
pub fn is_jailed() -> bool {
    root().is_some()
}

/// The directory that this process is confined to, if any.
pub(crate) fn root() -> Option<&'static Dir> {
    ROOT.get()
}

/// Opens `path` below the directory; `None` if this process is not confined.
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

/// Makes `path` absolute. It starts at the directory if this process is confined. Links are not
/// resolved.
///
/// # Errors
/// Errors of asking for the working directory.
pub fn absolute(path: &Path) -> io::Result<PathBuf> {
    match root() {
        Some(_) => Ok(Path::new("/").join(path)),
        None => std::path::absolute(path),
    }
}

/// The absolute path by which this process can open `dir`, if the system reports it.
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

/// Opens the entry that `name` in `dir` leads to; `None` if this process is not confined.
pub(crate) fn follow(dir: &Dir, name: &[u8], flags: OFlags) -> Option<io::Result<OwnedFd>> {
    let root = root()?;
    Some(match system::path_below(root, dir) {
        Some(above) => {
            let path = [&above[..], b"/", name].concat();
            system::open(root, &path, flags | OFlags::CLOEXEC)
        }
        // The directory was moved out or can't be located. Entries below it are still allowed.
        None => system::open(dir, name, flags | OFlags::CLOEXEC),
    })
}

/// True if the parent of `dir` may be opened.
pub(crate) fn may_leave(dir: &Dir) -> io::Result<bool> {
    let Some(root) = root() else { return Ok(true) };
    Ok(root.stat_self()?.id != dir.stat_self()?.id && system::path_below(root, dir).is_some())
}

/// The error for all paths that lead out, whether they exist or not.
pub(crate) fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "it points outside the allowed directory")
}

/// The flag for handles that only inspect.
pub(crate) const INSPECT: OFlags = system::INSPECT;

/// No mode bits: no file is created here.
const NO_MODE: Mode = Mode::empty();

#[cfg(target_os = "linux")]
mod system {
    use super::{Dir, NO_MODE, OFlags, OwnedFd, Path, io, refused};
    use rustix::fs::{CWD, ResolveFlags};
    use rustix::io::Errno;
    use std::os::fd::{AsFd, AsRawFd};

    pub(super) const INSPECT: OFlags = OFlags::PATH;

    /// Links are followed within the directory. Those of /proc may lead anywhere and are not
    /// followed.
    const RESOLVE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

    /// Retries while directories on the way are being renamed.
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

    /// The path of `dir` below `root`, if it is there. It may be moved at any time, so the path is
    /// resolved below `root` again.
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

    /// Here this opens for reading, without blocking.
    pub(super) const INSPECT: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

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

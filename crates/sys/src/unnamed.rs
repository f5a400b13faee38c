//! Files without a name: written in full before they get one, and gone by
//! themselves when the process dies first.

use crate::Dir;
use std::fs::File;
use std::io;

#[cfg(target_os = "linux")]
mod system {
    use super::{Dir, File, io};
    use rustix::fs::{AtFlags, CWD, OFlags};
    use rustix::io::Errno;
    use std::os::fd::{AsFd, AsRawFd};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whether naming a file by its handle alone needs the way over /proc: the
    /// direct way is for privileged processes (and newer kernels).
    static THROUGH_PROC: AtomicBool = AtomicBool::new(false);

    pub(super) fn create(dir: &Dir) -> io::Result<Option<File>> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::openat(dir, c".", flags, crate::dir::private_mode()) {
            Ok(file) => Ok(Some(file.into())),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn link(dir: &Dir, file: &File, name: &[u8]) -> io::Result<()> {
        if !THROUGH_PROC.load(Ordering::Relaxed) {
            let linked = rustix::fs::linkat(file, c"", dir, name, AtFlags::EMPTY_PATH);
            match linked {
                Err(Errno::NOENT | Errno::PERM | Errno::INVAL) => {
                    THROUGH_PROC.store(true, Ordering::Relaxed);
                }
                other => return Ok(other?),
            }
        }
        let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        Ok(rustix::fs::linkat(CWD, path, dir, name, AtFlags::SYMLINK_FOLLOW)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{Dir, File, io};

    pub(super) fn create(_: &Dir) -> io::Result<Option<File>> {
        Ok(None)
    }

    pub(super) fn link(_: &Dir, _: &File, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Dir {
    /// Creates a file without a name on this directory's file system, for
    /// reading and writing; `None` where the file system has no such files.
    ///
    /// # Errors
    /// Those of `openat` with `O_TMPFILE`.
    pub fn create_unnamed(&self) -> io::Result<Option<File>> {
        system::create(self)
    }

    /// Gives a file without a name the name `name` in this directory, which
    /// must be free.
    ///
    /// # Errors
    /// Those of `linkat`; [`io::ErrorKind::AlreadyExists`] if `name` is taken.
    pub fn link_unnamed(&self, file: &File, name: &[u8]) -> io::Result<()> {
        system::link(self, file, name)
    }
}

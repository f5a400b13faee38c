//! Files without a name. They are complete before they get one, and vanish if the process dies
//! first.

use crate::Dir;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::atomic::Ordering;

#[cfg(target_os = "linux")]
mod system {
    use super::{Dir, File, io};
    use rustix::fs::{AtFlags, CWD, OFlags};
    use rustix::io::Errno;
    use std::os::fd::{AsFd, AsRawFd};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// True if linking by handle needs /proc. The direct way is for privileged processes (and newer
    /// kernels).
    static THROUGH_PROC: AtomicBool = AtomicBool::new(false);

    pub(super) fn create(dir: &Dir) -> Option<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        rustix::fs::openat(dir, c".", flags, crate::dir::private_mode()).ok().map(File::from)
    }

    pub(super) fn link(dir: &Dir, file: &File, name: &[u8]) -> io::Result<()> {
        if !THROUGH_PROC.load(Ordering::Relaxed) {
            match rustix::fs::linkat(file, c"", dir, name, AtFlags::EMPTY_PATH) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => return Err(Errno::EXIST.into()),
                Err(_) => {}
            }
        }
        let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        rustix::fs::linkat(CWD, path, dir, name, AtFlags::SYMLINK_FOLLOW)?;
        THROUGH_PROC.store(true, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{Dir, File, io};

    pub(super) fn create(_: &Dir) -> Option<File> {
        None
    }

    pub(super) fn link(_: &Dir, _: &File, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Dir {
    /// Creates an unnamed file on this directory's file system, for reading and writing. `None` if
    /// that fails for any reason, or linking one has failed here. If the cause is more than a
    /// missing feature, creating a named file reports it.
    pub fn create_unnamed(&self) -> Option<File> {
        if self.linking_failed.load(Ordering::Relaxed) { None } else { system::create(self) }
    }

    /// Creates a file on this directory's file system, for reading and writing, that has a name for
    /// a moment at most.
    ///
    /// # Errors
    /// Errors of `openat` and `unlinkat`.
    pub fn create_nameless(&self) -> io::Result<File> {
        if let Some(file) = self.create_unnamed() {
            return Ok(file);
        }
        let temp = format!(".haul-{:016x}", RandomState::new().hash_one(std::process::id()));
        let file = self.create_private(&temp)?;
        self.remove_private(&temp)?;
        Ok(file)
    }

    /// Links an unnamed file to `name` in this directory, which must not exist.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if `name` exists. After other errors the content must be
    /// copied to a named file: some systems create unnamed files but can't link them (no /proc,
    /// before Linux 6.10).
    pub fn link_unnamed(&self, file: &File, name: &[u8]) -> io::Result<()> {
        system::link(self, file, name).inspect_err(|error| {
            if error.kind() != io::ErrorKind::AlreadyExists {
                self.linking_failed.store(true, Ordering::Relaxed);
            }
        })
    }
}

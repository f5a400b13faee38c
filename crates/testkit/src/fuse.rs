//! A file system of a test's own that is mounted through FUSE.

use fuser::{BackgroundSession, Config, Filesystem, MountOption};
use std::io;
use std::path::Path;
use tempfile::TempDir;

/// A file system, mounted on a temporary directory until this is dropped.
pub(crate) struct Mounted {
    dir: TempDir,
    /// Dropped first: the directory is removed when nothing is mounted there.
    session: Option<BackgroundSession>,
}

impl Mounted {
    /// Mounts `served` under `name`. It needs root, and the device `/dev/fuse`.
    pub(crate) fn new(name: &str, served: impl Filesystem) -> io::Result<Mounted> {
        let dir = TempDir::with_prefix(format!("{name}-"))?;
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName(name.into()), MountOption::DefaultPermissions];
        let session = fuser::spawn_mount(served, dir.path(), &config)?;
        Ok(Mounted { dir, session: Some(session) })
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        use rustix::mount::{UnmountFlags, unmount};
        // Lazily, because a process that was just killed can still hold it; the
        // session ends when the last one has let go.
        let _ = unmount(self.path(), UnmountFlags::DETACH);
        drop(self.session.take());
    }
}

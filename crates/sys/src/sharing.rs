//! Files that share their content with another, on file systems that copy what
//! is shared only when one of them changes. Linux makes an empty file do so,
//! macOS makes a new file that does.

use crate::Dir;
use std::fs::File;
use std::io;

/// Makes `dst`, which must be empty, share the whole content of `src`: no byte
/// is moved. `false` where the system refuses, for whatever reason: then the
/// content must be copied. On macOS it always does, see [`Dir::create_clone`].
pub fn clone_file(src: &File, dst: &File) -> bool {
    #[cfg(target_os = "linux")]
    return rustix::fs::ioctl_ficlone(dst, src).is_ok();
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (src, dst);
        false
    }
}

impl Dir {
    /// Makes the private file `temp`, which must not exist, share the whole
    /// content of `src`, and opens it for reading. It has the extended attributes
    /// of `src`, too. Only macOS can do that.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if the name is taken;
    /// [`io::ErrorKind::Unsupported`] where the system refuses, for whatever
    /// reason: then the content must be copied.
    pub fn create_clone(&self, src: &File, temp: &str) -> io::Result<File> {
        system::create_clone(self, src, temp)
    }
}

#[cfg(target_os = "macos")]
mod system {
    use super::{Dir, File, io};
    use rustix::fs::{CloneFlags, Mode, OFlags};
    use rustix::io::Errno;

    pub(super) fn create_clone(dir: &Dir, src: &File, temp: &str) -> io::Result<File> {
        match rustix::fs::fclonefileat(src, dir, temp, CloneFlags::NOOWNERCOPY) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(Errno::EXIST.into()),
            Err(_) => return Err(io::ErrorKind::Unsupported.into()),
        }
        open(dir, temp).map_err(|_| {
            // The name was made here, and is of no use.
            let _ = dir.remove_private(temp);
            io::ErrorKind::Unsupported.into()
        })
    }

    /// It has the mode of its source, which may not let its new owner write, and
    /// nobody has to.
    fn open(dir: &Dir, temp: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(dir, temp, flags, Mode::empty())?;
        rustix::fs::fchmod(&file, crate::dir::private_mode())?;
        Ok(file.into())
    }
}

#[cfg(not(target_os = "macos"))]
mod system {
    use super::{Dir, File, io};

    pub(super) fn create_clone(_: &Dir, _: &File, _: &str) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

//! Entries that are held only for their attributes, by a handle that can't read. Such entries are
//! files that their owner may not read, FIFOs and devices, which react to being opened, and
//! directories that may be entered but not read.

use crate::Dir;
use crate::jail;
use crate::meta;
use crate::stat::{self, Stat};
use haul_model::{Attributes, Extended, Kept, Name};
use rustix::fs::{CWD, Gid, Mode, OFlags, Timestamps, Uid, XattrFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// An entry held for its attributes.
#[derive(Debug)]
pub struct Held {
    fd: OwnedFd,
    /// The path in /proc that leads to the handle, even if the entry is renamed. `None` if the file
    /// is open: the system calls for attributes accept no other handle directly.
    path: Option<String>,
}

/// The system calls for attributes, on an open file or a held entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'t> {
    fd: BorrowedFd<'t>,
    /// See [`Held::path`].
    path: Option<&'t str>,
}

/// The extended attributes and access control lists in `which` of the entry that `name` leads
/// to. It is not opened: a FIFO would block, and a device might act.
///
/// # Errors
/// Errors of `openat`, `listxattr` and `getxattr`.
pub fn extended_following(
    dir: &Dir,
    name: &Name,
    which: Kept,
) -> io::Result<Option<Box<Extended>>> {
    let held = match jail::follow(dir, name.as_bytes(), jail::INSPECT) {
        Some(held) => held?,
        None => {
            let flags = jail::INSPECT | OFlags::CLOEXEC;
            rustix::fs::openat(dir, name.as_bytes(), flags, Mode::empty())?
        }
    };
    let stat = stat::file_stat(&held)?;
    match proc_path(&held, &stat) {
        Ok(path) => dir.extended_at(Target { fd: held.as_fd(), path: Some(&path) }, which),
        // Without /proc a file can be opened instead.
        Err(_) if stat.is_file() => dir.extended_of(dir.open_file(name, true)?.0, which),
        Err(error) => Err(error),
    }
}

/// The path in /proc that leads to `held`, whose metadata is `stat`.
fn proc_path(held: &OwnedFd, stat: &Stat) -> io::Result<String> {
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    match rustix::fs::stat(&path) {
        Ok(led) if Stat::from_raw(&led).id == stat.id => Ok(path),
        _ => Err(proc_unavailable()),
    }
}

/// The error if a path through a handle leads nowhere.
pub(crate) fn proc_unavailable() -> io::Error {
    let message = "the system leads to no open files: is /proc mounted?";
    io::Error::new(io::ErrorKind::Unsupported, message)
}

impl Held {
    /// Holds the regular file `name` for its attributes, not following a link, even if this process
    /// may not read it.
    ///
    /// # Errors
    /// Errors of [`Dir::open_file`].
    pub fn file(dir: &Dir, name: &Name) -> io::Result<(Self, Stat)> {
        let refused = match dir.open_file(name, false) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => error,
            opened => {
                return opened.map(|(file, stat)| (Self { fd: file.into(), path: None }, stat));
            }
        };
        match Self::entry(dir, name.as_bytes()) {
            Ok((held, stat)) if stat.is_file() => Ok((held, stat)),
            _ => Err(refused),
        }
    }

    /// Holds the entry `name` without opening it, not following a link.
    ///
    /// # Errors
    /// Errors of `openat`; [`io::ErrorKind::Unsupported`] where the system leads to no handle.
    pub(crate) fn entry(dir: &Dir, name: &[u8]) -> io::Result<(Self, Stat)> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::openat(dir, name, flags, Mode::empty())?;
        let stat = stat::file_stat(&held)?;
        let path = Some(proc_path(&held, &stat)?);
        Ok((Self { fd: held, path }, stat))
    }

    /// Sets those of `attributes` in `which` on the entry, which is on the file system of `dir`,
    /// like [`crate::set_attributes`].
    ///
    /// # Errors
    /// Errors of [`crate::set_attributes`].
    pub fn set_attributes(
        &self,
        dir: &Dir,
        attributes: &Attributes,
        which: Kept,
    ) -> io::Result<()> {
        let target = Target { fd: self.fd.as_fd(), path: self.path.as_deref() };
        meta::set_attributes_of(dir, target, attributes, which)
    }
}

type Done = rustix::io::Result<()>;

/// Calls a function of `rustix::fs` on the open file, or another on the path to the held entry.
macro_rules! call {
    ($target:ident, $open:ident or $by_path:ident, $($argument:expr),*) => {
        match $target.path {
            None => rustix::fs::$open($target.fd, $($argument),*),
            Some(path) => rustix::fs::$by_path(path, $($argument),*),
        }
    };
}

impl<'t> Target<'t> {
    pub(crate) fn open(file: &'t impl AsFd) -> Self {
        Self { fd: file.as_fd(), path: None }
    }

    pub(crate) fn stat(self) -> io::Result<Stat> {
        stat::file_stat(self.fd)
    }

    pub(crate) fn chown(self, user: Option<Uid>, group: Option<Gid>) -> Done {
        call!(self, fchown or chown, user, group)
    }

    pub(crate) fn chmod(self, mode: u32) -> Done {
        call!(self, fchmod or chmod, Mode::from_raw_mode((mode & 0o7777) as _))
    }

    pub(crate) fn set_times(self, times: &Timestamps) -> Done {
        match self.path {
            None => rustix::fs::futimens(self.fd, times),
            Some(path) => rustix::fs::utimensat(CWD, path, times, rustix::fs::AtFlags::empty()),
        }
    }

    pub(crate) fn list_xattrs(self, names: &mut [u8]) -> rustix::io::Result<usize> {
        call!(self, flistxattr or listxattr, names)
    }

    pub(crate) fn xattr(self, name: &[u8], value: &mut [u8]) -> rustix::io::Result<usize> {
        call!(self, fgetxattr or getxattr, name, value)
    }

    pub(crate) fn set_xattr(self, name: &[u8], value: &[u8]) -> Done {
        call!(self, fsetxattr or setxattr, name, value, XattrFlags::empty())
    }

    pub(crate) fn remove_xattr(self, name: &[u8]) -> Done {
        call!(self, fremovexattr or removexattr, name)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use haul_model::{Acl, AclEntry, AclWho, Extended, NewEntry, Special, Timestamp};

    const TIME: Timestamp = Timestamp { secs: 1_234_567_890, nanos: 7 };

    fn name(name: &str) -> Name {
        Name::new(name.as_bytes()).expect("a name")
    }

    /// Tests may run as root, who can open all files, so this one is held explicitly.
    #[test]
    fn all_attributes_can_be_set_on_a_held_entry() {
        let path = tempfile::tempdir().expect("a directory");
        std::fs::write(path.path().join("file"), "content").expect("written");
        let dir = Dir::open(path.path()).expect("opened");
        let (held, before) = Held::entry(&dir, b"file").expect("held");
        let line = |who, rights| AclEntry { who, rights };
        let acl = Acl(vec![
            line(AclWho::Owner, 4),
            line(AclWho::User(12_345), 2),
            line(AclWho::OwnGroup, 1),
            line(AclWho::Mask, 6),
            line(AclWho::Other, 0),
        ]);
        let extended = Extended { acl: Some(acl), ..Extended::default() };
        let attributes = Attributes {
            atime: Some(TIME),
            user: Some(before.uid),
            group: Some(before.gid),
            extended: Some(Box::new(extended.clone())),
            ..Attributes::new(0o460, TIME)
        };
        let which = Kept::ALL.without(Kept::XATTRS).with(Kept::ATIMES);
        held.set_attributes(&dir, &attributes, which).expect("set");
        let now = dir.stat(&name("file")).expect("it is there");
        assert_eq!((now.id, now.mode, now.mtime, now.atime), (before.id, 0o460, TIME, TIME));
        let kept = crate::extended(&dir, &name("file"), Kept::ACL).expect("told");
        assert_eq!(kept.as_deref(), Some(&extended));
        // It is still that file, whatever has its name now.
        std::fs::rename(path.path().join("file"), path.path().join("else")).expect("renamed");
        std::fs::write(path.path().join("file"), "another").expect("written");
        let mode = Attributes::new(0o711, TIME);
        held.set_attributes(&dir, &mode, Kept::MODE).expect("set");
        assert_eq!(dir.stat(&name("else")).expect("it is there").mode, 0o711);
        assert_ne!(dir.stat(&name("file")).expect("it is there").mode, 0o711);
    }

    #[test]
    fn only_regular_files_are_held_as_files() {
        let path = tempfile::tempdir().expect("a directory");
        let dir = Dir::open(path.path()).expect("opened");
        let attributes = Attributes::new(0o600, TIME);
        dir.make_entry(NewEntry::Special(Special::Fifo), "fifo", &attributes, Kept::MODE)
            .expect("made");
        std::os::unix::fs::symlink("fifo", path.path().join("link")).expect("made");
        assert!(Held::file(&dir, &name("fifo")).is_err());
        assert!(Held::file(&dir, &name("link")).is_err());
        let (_, link) = Held::entry(&dir, b"link").expect("held");
        assert!(link.is_symlink());
    }
}

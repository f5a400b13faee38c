//! A directory held open. All that happens below it happens through its handle
//! and one name, so that nobody can lead an operation elsewhere by swapping a
//! component for a symbolic link.

use crate::meta::{self, Stat};
use haul_model::{Name, Timestamp};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A directory held open for reading and for work on its entries.
#[derive(Debug)]
pub struct Dir(OwnedFd);

/// One entry as reading the directory gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name.
    pub name: Name,
    /// Whether it is known to be a directory already, from the listing alone.
    pub is_dir: Option<bool>,
}

const DIR_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Dir {
    /// Opens a directory that the operator named; symbolic links on the way
    /// are followed, as everywhere in a shell.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::open(path, DIR_FLAGS, Mode::empty())?))
    }

    /// Opens the directory `name` in this one; a symbolic link is refused.
    ///
    /// # Errors
    /// Those of `openat`.
    pub fn open_dir(&self, name: &Name) -> io::Result<Self> {
        self.open_dir_at(name.as_bytes(), OFlags::NOFOLLOW)
    }

    /// Opens the directory `name` in this one; a symbolic link is followed.
    /// Only for sources whose links the user asked to follow.
    ///
    /// # Errors
    /// Those of `openat`.
    pub fn open_dir_following(&self, name: &Name) -> io::Result<Self> {
        self.open_dir_at(name.as_bytes(), OFlags::empty())
    }

    /// Opens the directory above this one.
    ///
    /// # Errors
    /// Those of `openat`.
    pub fn open_parent(&self) -> io::Result<Self> {
        self.open_dir_at(b"..", OFlags::NOFOLLOW)
    }

    fn open_dir_at(&self, name: &[u8], flags: OFlags) -> io::Result<Self> {
        Ok(Self(rustix::fs::openat(&self.0, name, DIR_FLAGS | flags, Mode::empty())?))
    }

    /// A second handle of the same directory.
    ///
    /// # Errors
    /// Those of `dup`.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Opens the regular file `name` for reading. A symbolic link is refused
    /// unless `follow`; anything that is no regular file is refused without
    /// waiting for it (a FIFO without a writer would never open).
    ///
    /// # Errors
    /// Those of `openat`; [`io::ErrorKind::InvalidInput`] for other kinds.
    pub fn open_file(&self, name: &Name, follow: bool) -> io::Result<(File, Stat)> {
        let nofollow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | nofollow;
        let file = rustix::fs::openat(&self.0, name.as_bytes(), flags, Mode::empty())?;
        let stat = meta::file_stat(&file)?;
        if stat.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !stat.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        Ok((File::from(file), stat))
    }

    /// The metadata of this directory itself.
    ///
    /// # Errors
    /// Those of `fstat`.
    pub fn stat_self(&self) -> io::Result<Stat> {
        meta::file_stat(&self.0)
    }

    /// The metadata of `name`, of a link itself.
    ///
    /// # Errors
    /// Those of `fstatat`.
    pub fn stat(&self, name: &Name) -> io::Result<Stat> {
        self.stat_at(name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// The metadata of what `name` leads to.
    ///
    /// # Errors
    /// Those of `fstatat`.
    pub fn stat_following(&self, name: &Name) -> io::Result<Stat> {
        self.stat_at(name, AtFlags::empty())
    }

    fn stat_at(&self, name: &Name, flags: AtFlags) -> io::Result<Stat> {
        Ok(Stat::from_raw(&rustix::fs::statat(&self.0, name.as_bytes(), flags)?))
    }

    /// Where the symbolic link `name` points.
    ///
    /// # Errors
    /// Those of `readlinkat`.
    pub fn read_link(&self, name: &Name) -> io::Result<Vec<u8>> {
        Ok(rustix::fs::readlinkat(&self.0, name.as_bytes(), Vec::new())?.into_bytes())
    }

    /// All entries but `.` and `..`, in the order of their bytes.
    ///
    /// # Errors
    /// Those of `getdents`.
    pub fn entries(&self) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            let entry = entry?;
            // The system gives no name that Name refuses, but for these two.
            let Ok(name) = Name::new(entry.file_name().to_bytes()) else { continue };
            let is_dir = match entry.file_type() {
                FileType::Unknown => None,
                file_type => Some(file_type == FileType::Directory),
            };
            entries.push(DirEntry { name, is_dir });
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// The names for which `keep` says so, in no order; no other is kept in
    /// memory.
    ///
    /// # Errors
    /// Those of `getdents`.
    pub fn names_where(&self, mut keep: impl FnMut(&[u8]) -> bool) -> io::Result<Vec<Name>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if keep(name) {
                names.extend(Name::new(name).ok());
            }
        }
        Ok(names)
    }

    /// Makes the directory `name` with the permission bits `mode`.
    ///
    /// # Errors
    /// Those of `mkdirat`.
    pub fn make_dir(&self, name: &Name, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.0, name.as_bytes(), Mode::from_raw_mode(mode as _))?)
    }

    /// Makes a symbolic link under the private name `temp`, with its time set.
    ///
    /// # Errors
    /// Those of `symlinkat` and `utimensat`.
    pub fn make_symlink(&self, target: &[u8], temp: &str, mtime: Timestamp) -> io::Result<()> {
        rustix::fs::symlinkat(target, &self.0, temp)?;
        meta::set_link_mtime(&self.0, temp.as_bytes(), mtime).inspect_err(|_| {
            // Without its time it is not what was asked for: it must not stay.
            let _ = self.remove_private(temp);
        })
    }

    /// Creates the private file `temp`, which must not exist, for writing.
    ///
    /// # Errors
    /// Those of `openat`.
    pub fn create_private(&self, temp: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.0, temp, flags, private_mode())?.into())
    }

    /// Opens the private file `temp` for reading and writing, made if it is
    /// missing. One that somebody else could have put there is refused.
    ///
    /// # Errors
    /// Those of `openat`; [`io::ErrorKind::PermissionDenied`] for a file that is
    /// not ours alone.
    pub fn open_private(&self, temp: &str) -> io::Result<File> {
        match self.create_private(temp) {
            // What was made here is ours, whoever the file system says owns it.
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let flags =
            OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.0, temp, flags, Mode::empty())?;
        let raw = rustix::fs::fstat(&file)?;
        let stat = Stat::from_raw(&raw);
        if !stat.is_file() || stat.uid != crate::effective_user() || raw.st_nlink > 1 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "a file of somebody else has the name of haul's own",
            ));
        }
        Ok(file.into())
    }

    /// Opens the private file `temp`, whoever owns it, to lock it and look into
    /// it. A symbolic link and what is no regular file are refused.
    ///
    /// # Errors
    /// Those of `openat`; [`io::ErrorKind::InvalidInput`] for other kinds.
    pub fn open_found(&self, temp: &str) -> io::Result<(File, Stat)> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = |mode| rustix::fs::openat(&self.0, temp, flags | mode, Mode::empty());
        // Some file systems lock only what is open for writing; a file that has
        // its final mode already may be one that can't be.
        let file = match open(OFlags::RDWR) {
            Err(rustix::io::Errno::ACCESS | rustix::io::Errno::ROFS) => open(OFlags::RDONLY)?,
            file => file?,
        };
        let stat = meta::file_stat(&file)?;
        if !stat.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        Ok((file.into(), stat))
    }

    /// Whether something has the private name `temp`.
    pub fn has_private(&self, temp: &str) -> bool {
        rustix::fs::statat(&self.0, temp, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Whether the private name `temp` is still that of `file`.
    ///
    /// # Errors
    /// Those of `fstatat`.
    pub fn private_is(&self, temp: &str, file: &File) -> io::Result<bool> {
        match rustix::fs::statat(&self.0, temp, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(raw) => Ok(Stat::from_raw(&raw).id == meta::file_stat(file)?.id),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Renames the private name `temp` to `name` in one step; what had the
    /// name before is replaced, unless it is a directory.
    ///
    /// # Errors
    /// Those of `renameat`.
    pub fn publish_replacing(&self, temp: &str, name: &Name) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, temp, &self.0, name.as_bytes())?)
    }

    /// Renames the private name `temp` to `name`, which must not exist.
    ///
    /// # Errors
    /// Those of `renameat2`; [`io::ErrorKind::AlreadyExists`] if `name` exists,
    /// [`io::ErrorKind::Unsupported`] where the file system has no such way.
    pub fn publish_new(&self, temp: &str, name: &Name) -> io::Result<()> {
        let done = rustix::fs::renameat_with(
            &self.0,
            temp,
            &self.0,
            name.as_bytes(),
            RenameFlags::NOREPLACE,
        );
        match done {
            // The file system knows no flags: a hard link never replaces.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                use rustix::io::Errno;
                match rustix::fs::linkat(&self.0, temp, &self.0, name.as_bytes(), AtFlags::empty())
                {
                    Ok(()) => {}
                    Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => {
                        return Err(io::ErrorKind::Unsupported.into());
                    }
                    Err(error) => return Err(error.into()),
                }
                // It has its name; that it has another one too is no failure.
                let _ = rustix::fs::unlinkat(&self.0, temp, AtFlags::empty());
                Ok(())
            }
            done => Ok(done?),
        }
    }

    /// Gives the entry `name` the name `new` in the directory `to`, in one step.
    /// What has that name is replaced if `replace` says so: a file by a file, an
    /// empty directory by a directory.
    ///
    /// # Errors
    /// Those of `renameat2`; [`io::ErrorKind::AlreadyExists`] for what is not to
    /// be replaced, [`io::ErrorKind::CrossesDevices`] between file systems.
    pub fn rename_to(&self, name: &Name, to: &Self, new: &Name, replace: bool) -> io::Result<()> {
        let (name, new) = (name.as_bytes(), new.as_bytes());
        if replace {
            return Ok(rustix::fs::renameat(&self.0, name, &to.0, new)?);
        }
        match rustix::fs::renameat_with(&self.0, name, &to.0, new, RenameFlags::NOREPLACE) {
            // The file system knows no flags; what is there is looked for first.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                match rustix::fs::statat(&to.0, new, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                    Err(rustix::io::Errno::NOENT) => {
                        Ok(rustix::fs::renameat(&self.0, name, &to.0, new)?)
                    }
                    Err(error) => Err(error.into()),
                }
            }
            done => Ok(done?),
        }
    }

    /// Removes `name`, which must be no directory.
    ///
    /// # Errors
    /// Those of `unlinkat`.
    pub fn remove_file(&self, name: &Name) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name.as_bytes(), AtFlags::empty())?)
    }

    /// Removes the directory `name`, which must be empty.
    ///
    /// # Errors
    /// Those of `unlinkat`.
    pub fn remove_dir(&self, name: &Name) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name.as_bytes(), AtFlags::REMOVEDIR)?)
    }

    /// Removes the private name `temp`.
    ///
    /// # Errors
    /// Those of `unlinkat`.
    pub fn remove_private(&self, temp: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, temp, AtFlags::empty())?)
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What stages are made with: nobody else may look in before they are done.
pub(crate) fn private_mode() -> Mode {
    Mode::RUSR | Mode::WUSR
}

/// The metadata of a path that the operator named.
///
/// # Errors
/// Those of `stat` and `lstat`.
pub fn path_stat(path: &[u8], follow: bool) -> io::Result<Stat> {
    let path = OsStr::from_bytes(path);
    let raw = if follow { rustix::fs::stat(path) } else { rustix::fs::lstat(path) };
    Ok(Stat::from_raw(&raw?))
}

/// Where the symbolic link at a path that the operator named points.
///
/// # Errors
/// Those of `readlink`.
pub fn path_link(path: &[u8]) -> io::Result<Vec<u8>> {
    Ok(rustix::fs::readlink(OsStr::from_bytes(path), Vec::new())?.into_bytes())
}

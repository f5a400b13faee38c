//! An open directory. All operations below it use its handle and one name, so that no process can
//! redirect them by replacing a component with a symbolic link.

use crate::known::{self, kinds};
use crate::stat::{self, Stat};
use crate::{durability, jail, meta};
use haul_model::{Attributes, Device, FileId, Kept, Name, NewEntry};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(target_os = "linux")]
use rustix::fs::RawDir;

/// A directory that is open for reading and for operations on its entries.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    /// The magic number of its file system, once it was needed.
    pub(crate) kind: OnceLock<u64>,
    /// True if its entries can't be renamed or removed. Set once it was needed.
    pub(crate) append_only: OnceLock<bool>,
    /// Linking an unnamed file has failed here.
    pub(crate) linking_failed: AtomicBool,
    /// Its entries were read through this handle, or may have been through a duplicate with the
    /// same position.
    was_read: AtomicBool,
    /// See [`Dir::faking`].
    pub(crate) fakes: bool,
    /// See [`Dir::keeping_atimes`].
    keeps_atimes: bool,
}

/// An entry in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name.
    pub name: Name,
    /// True for a directory, if the listing reports that.
    pub is_dir: Option<bool>,
}

/// Bytes of entries per call.
#[cfg(target_os = "linux")]
const READ_LEN: usize = 64 << 10;

const DIR_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Dir {
    /// Opens a directory that the operator named. Symbolic links on the way are followed, as
    /// everywhere in a shell.
    ///
    /// # Errors
    /// Errors of `open`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(path, OFlags::empty())
    }

    /// The same for a raw path.
    ///
    /// # Errors
    /// Errors of `open`.
    pub fn open_raw(path: &[u8]) -> io::Result<Self> {
        Self::open(Path::new(OsStr::from_bytes(path)))
    }

    /// Like [`Self::open`], with more flags.
    pub(crate) fn open_with(path: &Path, flags: OFlags) -> io::Result<Self> {
        let flags = DIR_FLAGS | flags;
        let opened = jail::open(path.as_os_str().as_bytes(), flags);
        opened.unwrap_or_else(|| Ok(rustix::fs::open(path, flags, Mode::empty())?)).map(Self::of)
    }

    pub(crate) fn of(fd: OwnedFd) -> Self {
        let no = || AtomicBool::new(false);
        Self {
            fd,
            kind: OnceLock::new(),
            append_only: OnceLock::new(),
            linking_failed: no(),
            was_read: no(),
            fakes: false,
            keeps_atimes: false,
        }
    }

    /// The directory open as `fd`, with this directory's settings.
    fn with_same_settings(&self, fd: OwnedFd) -> Self {
        Self { fakes: self.fakes, keeps_atimes: self.keeps_atimes, ..Self::of(fd) }
    }

    /// The same directory. Reading its files does not change their access times, if the system
    /// supports that for files of this user.
    #[must_use]
    pub fn keeping_atimes(self) -> Self {
        Self { keeps_atimes: true, ..self }
    }

    /// Opens the directory `name` in this one. A symbolic link is refused.
    ///
    /// # Errors
    /// Errors of `openat`.
    pub fn open_dir(&self, name: &Name) -> io::Result<Self> {
        self.open_dir_at(name.as_bytes(), OFlags::NOFOLLOW)
    }

    /// Opens the directory `name` in this one, following a symbolic link. Only for sources whose
    /// links the user asked to follow.
    ///
    /// # Errors
    /// Errors of `openat`.
    pub fn open_dir_following(&self, name: &Name) -> io::Result<Self> {
        match jail::follow(self, name.as_bytes(), DIR_FLAGS) {
            Some(opened) => Ok(self.with_same_settings(opened?)),
            None => self.open_dir_at(name.as_bytes(), OFlags::empty()),
        }
    }

    /// Opens the parent directory.
    ///
    /// # Errors
    /// Errors of `openat`.
    pub fn open_parent(&self) -> io::Result<Self> {
        match jail::may_leave(self)? {
            true => self.open_dir_at(b"..", OFlags::NOFOLLOW),
            false => Err(jail::refused()),
        }
    }

    fn open_dir_at(&self, name: &[u8], flags: OFlags) -> io::Result<Self> {
        let fd = rustix::fs::openat(&self.fd, name, DIR_FLAGS | flags, Mode::empty())?;
        Ok(self.with_same_settings(fd))
    }

    /// Its current path, if the system reports it.
    pub fn path(&self) -> Option<PathBuf> {
        let link = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        std::fs::read_link(link).ok().filter(|path| path.is_absolute())
    }

    /// A second handle of this directory.
    ///
    /// # Errors
    /// Errors of `dup`.
    pub fn try_clone(&self) -> io::Result<Self> {
        let clone = self.with_same_settings(self.fd.try_clone()?);
        clone.was_read.store(true, Ordering::Relaxed);
        Ok(clone)
    }

    /// Opens the regular file `name` for reading. A symbolic link is refused unless `follow`. Other
    /// kinds are refused without waiting (a FIFO without a writer would never open).
    ///
    /// # Errors
    /// Errors of `openat`; [`io::ErrorKind::InvalidInput`] for other kinds.
    pub fn open_file(&self, name: &Name, follow: bool) -> io::Result<(File, Stat)> {
        let (file, stat) = self.open_any(name, follow)?;
        Ok((file, stat.regular()?))
    }

    /// Opens the regular file `name` for reading and writing. A symbolic link is refused.
    ///
    /// # Errors
    /// Errors of `openat`, and if it is no regular file.
    pub fn open_read_write(&self, name: &Name) -> io::Result<(File, Stat)> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = flags | OFlags::NOFOLLOW;
        let file = File::from(rustix::fs::openat(&self.fd, name.as_bytes(), flags, Mode::empty())?);
        let stat = stat::file_stat(&file)?.regular()?;
        Ok((file, stat))
    }

    /// Opens any entry except a directory for reading, without waiting.
    ///
    /// # Errors
    /// Errors of `openat`.
    pub fn open_any(&self, name: &Name, follow: bool) -> io::Result<(File, Stat)> {
        let nofollow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | nofollow;
        let followed = if follow { jail::follow(self, name.as_bytes(), flags) } else { None };
        let file = match followed {
            Some(file) => file?,
            None => rustix::fs::openat(&self.fd, name.as_bytes(), flags, Mode::empty())?,
        };
        #[cfg(target_os = "linux")]
        if self.keeps_atimes {
            // The system refuses this for a file of another user.
            let _ = rustix::fs::fcntl_setfl(&file, OFlags::NONBLOCK | OFlags::NOATIME);
        }
        let stat = stat::file_stat(&file)?;
        if stat.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok((File::from(file), stat))
    }

    /// The metadata of this directory.
    ///
    /// # Errors
    /// Errors of `fstat`.
    pub fn stat_self(&self) -> io::Result<Stat> {
        self.stat_of(&self.fd)
    }

    /// The metadata of `name`, not following a link.
    ///
    /// # Errors
    /// Errors of `fstatat`.
    pub fn stat(&self, name: &Name) -> io::Result<Stat> {
        self.stat_at(name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// The metadata of the entry that `name` leads to.
    ///
    /// # Errors
    /// Errors of `fstatat`.
    pub fn stat_following(&self, name: &Name) -> io::Result<Stat> {
        match jail::follow(self, name.as_bytes(), jail::INSPECT) {
            Some(opened) => {
                let opened = opened?;
                let stat = stat::file_stat(&opened)?;
                if self.fakes { Self::faked_stat_held(&opened, stat) } else { Ok(stat) }
            }
            None => self.stat_at(name, AtFlags::empty()),
        }
    }

    /// True if a symbolic link to `target` in this directory would lead to the entry `name`.
    pub fn leads_to(&self, target: &[u8], name: &Name) -> bool {
        let led = rustix::fs::statat(&self.fd, target, AtFlags::empty());
        led.is_ok_and(|led| self.entry_id(name.as_bytes()) == Ok(Stat::from_raw(&led).id))
    }

    fn stat_at(&self, name: &Name, flags: AtFlags) -> io::Result<Stat> {
        let stat = Stat::from_raw(&rustix::fs::statat(&self.fd, name.as_bytes(), flags)?);
        match self.fakes {
            true => self.faked_stat(name.as_bytes(), stat, flags.is_empty()),
            false => Ok(stat),
        }
    }

    /// The target of the symbolic link `name`.
    ///
    /// # Errors
    /// Errors of `readlinkat`.
    pub fn read_link(&self, name: &Name) -> io::Result<Vec<u8>> {
        match rustix::fs::readlinkat(&self.fd, name.as_bytes(), Vec::new()) {
            Err(Errno::INVAL) if self.fakes => self.read_faked_link(name),
            target => Ok(target?.into_bytes()),
        }
    }

    /// All entries except `.` and `..`, in byte order.
    ///
    /// # Errors
    /// Errors of `getdents`.
    pub fn entries(&self) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        self.read(|name, file_type| {
            // These two are the only system names that Name refuses.
            let Ok(name) = Name::new(name) else { return };
            let is_dir = match file_type {
                FileType::Unknown => None,
                file_type => Some(file_type == FileType::Directory),
            };
            entries.push(DirEntry { name, is_dir });
        })?;
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// The names that `keep` selects, in no order. Other names are not kept in memory.
    ///
    /// # Errors
    /// Errors of `getdents`.
    pub fn names_where(&self, mut keep: impl FnMut(&[u8]) -> bool) -> io::Result<Vec<Name>> {
        let mut names = Vec::new();
        self.read(|name, _| {
            if keep(name) {
                names.extend(Name::new(name).ok());
            }
        })?;
        Ok(names)
    }

    /// Calls `each` for each entry, including `.` and `..`.
    #[cfg(target_os = "linux")]
    fn read(&self, mut each: impl FnMut(&[u8], FileType)) -> io::Result<()> {
        // The position in a directory belongs to the handle, so reading it again needs another
        // handle.
        let again = match self.was_read.swap(true, Ordering::Relaxed) {
            false => None,
            true => Some(self.open_dir_at(b".", OFlags::NOFOLLOW)?),
        };
        let fd = again.as_ref().map_or(&self.fd, |again| &again.fd);
        let mut buffer = Vec::with_capacity(READ_LEN);
        let mut entries = RawDir::new(fd, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            each(entry.file_name().to_bytes(), entry.file_type());
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn read(&self, mut each: impl FnMut(&[u8], FileType)) -> io::Result<()> {
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            each(entry.file_name().to_bytes(), entry.file_type());
        }
        Ok(())
    }

    /// Creates the directory `name` with the permission bits `mode`.
    ///
    /// # Errors
    /// Errors of `mkdirat`.
    pub fn make_dir(&self, name: &Name, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.fd, name.as_bytes(), Mode::from_raw_mode(mode as _))?)
    }

    /// Creates the private file `temp`, which must not exist, for writing.
    ///
    /// # Errors
    /// Errors of `openat`.
    pub fn create_private(&self, temp: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.fd, temp, flags, private_mode())?.into())
    }

    /// Opens the private file `temp` for reading and writing, and creates it if missing. A file
    /// that another user could have created is refused.
    ///
    /// # Errors
    /// Errors of `openat`; [`io::ErrorKind::PermissionDenied`] for a file that is
    /// not ours alone.
    pub fn open_private(&self, temp: &str) -> io::Result<File> {
        match self.create_private(temp) {
            // A file created here is ours, whatever owner the file system reports.
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let flags =
            OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.fd, temp, flags, Mode::empty())?;
        let raw = rustix::fs::fstat(&file)?;
        let stat = Stat::from_raw(&raw);
        if !stat.is_file() || stat.uid != crate::effective_user() || raw.st_nlink > 1 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "another user's file has the name of haul's temporary file",
            ));
        }
        Ok(file.into())
    }

    /// Opens the private file `temp` of any owner, for locking and reading. Symbolic links and
    /// other kinds are refused.
    ///
    /// # Errors
    /// Errors of `openat`; [`io::ErrorKind::InvalidInput`] for other kinds.
    pub fn open_any_private(&self, temp: &str) -> io::Result<(File, Stat)> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = |mode| rustix::fs::openat(&self.fd, temp, flags | mode, Mode::empty());
        // Some file systems lock only files that are open for writing. But a file that has its
        // final mode may not be writable.
        let file = match open(OFlags::RDWR) {
            Err(Errno::ACCESS | Errno::ROFS) => open(OFlags::RDONLY)?,
            file => file?,
        };
        let stat = stat::file_stat(&file)?.regular()?;
        Ok((file.into(), stat))
    }

    /// True if the private name `temp` exists.
    pub fn has_private(&self, temp: &str) -> bool {
        self.entry_id(temp.as_bytes()).is_ok()
    }

    pub(crate) fn entry_id(&self, name: &[u8]) -> rustix::io::Result<FileId> {
        let raw = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Stat::from_raw(&raw).id)
    }

    /// True if the private name `temp` still refers to `file`.
    ///
    /// # Errors
    /// Errors of `fstatat`.
    pub fn is_private_file(&self, temp: &str, file: &File) -> io::Result<bool> {
        match self.entry_id(temp.as_bytes()) {
            Ok(id) => Ok(id == stat::file_stat(file)?.id),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Renames the private name `temp` to `name` in one step. Replaces an existing entry, unless it
    /// is a directory.
    ///
    /// # Errors
    /// Errors of `renameat`.
    pub fn publish_replacing(&self, temp: &str, name: &Name) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, temp, &self.fd, name.as_bytes())?)
    }

    /// Renames the private name `temp` to `name`, which must not exist.
    ///
    /// # Errors
    /// Errors of `renameat`; [`io::ErrorKind::AlreadyExists`] if `name` exists.
    pub fn publish_new(&self, temp: &str, name: &Name) -> io::Result<()> {
        let new = name.as_bytes();
        match rustix::fs::renameat_with(&self.fd, temp, &self.fd, new, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => return Err(Errno::EXIST.into()),
            // Whatever the error, the file system may only lack this operation.
            Err(_) => {}
        }
        // A hard link never replaces.
        match rustix::fs::linkat(&self.fd, temp, &self.fd, new, AtFlags::empty()) {
            // On a network file system, the answer may have been lost and the request repeated.
            Err(Errno::EXIST) if !self.is_same_object(temp, name) => Err(Errno::EXIST.into()),
            Ok(()) | Err(Errno::EXIST) => {
                // The file has its name. A leftover second name is no failure.
                let _ = rustix::fs::unlinkat(&self.fd, temp, AtFlags::empty());
                Ok(())
            }
            Err(_) => rename_if_free(&self.fd, temp.as_bytes(), &self.fd, new),
        }
    }

    /// True if the private name `temp` and `name` refer to one object.
    fn is_same_object(&self, temp: &str, name: &Name) -> bool {
        let id = |name: &[u8]| self.entry_id(name).ok();
        id(temp.as_bytes()).is_some_and(|one| id(name.as_bytes()) == Some(one))
    }

    /// Renames the entry `name` to `new` in the directory `to`, in one step. With `replace`, it
    /// replaces an existing entry: a file by a file, an empty directory by a directory.
    ///
    /// # Errors
    /// Errors of `renameat2`; [`io::ErrorKind::AlreadyExists`] if `new`
    /// exists and must stay, [`io::ErrorKind::CrossesDevices`] between file systems.
    pub fn rename_to(&self, name: &Name, to: &Self, new: &Name, replace: bool) -> io::Result<()> {
        let (name, new) = (name.as_bytes(), new.as_bytes());
        if replace {
            return Ok(rustix::fs::renameat(&self.fd, name, &to.fd, new)?);
        }
        match rustix::fs::renameat_with(&self.fd, name, &to.fd, new, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(error @ (Errno::EXIST | Errno::XDEV)) => Err(error.into()),
            Err(_) => rename_if_free(&self.fd, name, &to.fd, new),
        }
    }

    /// Removes `name`, which must not be a directory.
    ///
    /// # Errors
    /// Errors of `unlinkat`.
    pub fn remove_file(&self, name: &Name) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name.as_bytes(), AtFlags::empty())?)
    }

    /// Removes the directory `name`, which must be empty.
    ///
    /// # Errors
    /// Errors of `unlinkat`.
    pub fn remove_dir(&self, name: &Name) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name.as_bytes(), AtFlags::REMOVEDIR)?)
    }

    /// Removes the private name `temp`.
    ///
    /// # Errors
    /// Errors of `unlinkat`.
    pub fn remove_private(&self, temp: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, temp, AtFlags::empty())?)
    }

    /// True if its file system is known to make everything durable on request, to report no new
    /// errors when a file is closed, and to keep every time that is set. FUSE, network file
    /// systems, FAT and others may behave differently.
    pub fn has_known_file_system(&self) -> bool {
        [kinds::EXT, kinds::XFS, kinds::BTRFS, kinds::F2FS, kinds::TMPFS].contains(&self.magic())
    }

    /// True if its file system is known to copy inside the kernel without sharing content. For
    /// small files that costs less than reading and writing. If content were shared, a new source
    /// would first have to be written to its medium.
    pub fn copies_small_files(&self) -> bool {
        [kinds::EXT, kinds::TMPFS].contains(&self.magic())
    }

    /// True if its file system is known to treat no two names as the same. Many ignore case, or
    /// different encodings of a character.
    pub fn has_distinct_names(&self) -> bool {
        known::has_distinct_names(self, self.magic())
    }

    fn magic(&self) -> u64 {
        *self.kind.get_or_init(|| kinds::kind(self))
    }

    /// Makes the names in this directory durable.
    ///
    /// # Errors
    /// Errors of `fsync`.
    pub fn sync(&self) -> io::Result<()> {
        File::from(self.as_fd().try_clone_to_owned()?).sync_all()
    }

    /// True if [`Self::sync_file_system`] is reliable here: the file system is known to write all
    /// contents, names and metadata, and the system reports write errors.
    pub fn supports_sync_all(&self) -> bool {
        self.has_known_file_system() && durability::reports_errors()
    }

    /// Makes everything on this directory's file system durable at once, including writes of other
    /// programs.
    ///
    /// # Errors
    /// Errors of `syncfs`: some data, of any program, could not be written.
    pub fn sync_file_system(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        return Ok(rustix::fs::syncfs(self)?);
        #[cfg(not(target_os = "linux"))]
        Err(io::ErrorKind::Unsupported.into())
    }

    /// True if this process may create, rename and remove entries, apart from a sticky bit.
    pub fn may_change(&self) -> bool {
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::accessat(self.as_fd(), ".", access, AtFlags::EACCESS).is_ok()
    }

    /// Creates an entry without content under the private name `temp`. Sets the attributes in
    /// `kept`, as far as an entry of its kind supports them.
    ///
    /// # Errors
    /// Errors of `symlinkat` and `mknodat`, and of setting the attributes.
    pub fn make_entry(
        &self,
        new: NewEntry<'_>,
        temp: &str,
        attributes: &Attributes,
        kept: Kept,
    ) -> io::Result<()> {
        if self.fakes() {
            return self.make_faked(new, temp, attributes, kept);
        }
        let made = match new {
            NewEntry::Symlink(target) => rustix::fs::symlinkat(target, self, temp),
            NewEntry::Special(special) => {
                let (kind, Device { major, minor }) = stat::kind_of(special);
                let number = rustix::fs::makedev(major, minor);
                rustix::fs::mknodat(self, temp, kind, private_mode(), number)
            }
        };
        if let Err(error) = made {
            if error != Errno::EXIST {
                // Some file systems fail, but create the entry all the same.
                let _ = self.remove_private(temp);
            }
            return Err(error.into());
        }
        let set = match new {
            NewEntry::Symlink(_) => {
                meta::set_link_attributes(self, temp.as_bytes(), attributes, kept)
            }
            NewEntry::Special(special) => {
                meta::set_special_attributes(self, temp.as_bytes(), special, attributes, kept)
            }
        };
        set.inspect_err(|_| {
            // Without its attributes the entry is wrong and must not stay.
            let _ = self.remove_private(temp);
        })
    }

    /// Creates the hard link `name` in this directory to the entry `of` in `from`. `name` must not
    /// exist. No link is followed.
    ///
    /// # Errors
    /// Errors of `linkat`; [`io::ErrorKind::NotFound`] if it is not the object `id`, where
    /// that is known.
    pub fn make_hard_link(
        &self,
        from: &Self,
        of: &Name,
        id: Option<FileId>,
        name: &[u8],
    ) -> io::Result<()> {
        rustix::fs::linkat(from, of.as_bytes(), self, name, AtFlags::empty())?;
        let Some(id) = id else { return Ok(()) };
        if self.entry_id(name)? == id {
            return Ok(());
        }
        let _ = rustix::fs::unlinkat(self, name, AtFlags::empty());
        let message = "another file replaced its first name";
        Err(io::Error::new(io::ErrorKind::NotFound, message))
    }

    /// Creates an unnamed file on this directory's file system, for reading and writing. It is
    /// complete before it gets a name, and vanishes if the process dies first. `None` if
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

/// `None` if `result` is that an entry does not exist.
///
/// # Errors
/// All others in `result`.
pub fn if_found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Renames `name` in `from` to `new` in `to` if that does not exist, on a file system that can't do
/// both in one step. Within this process, one call at a time.
fn rename_if_free(from: &OwnedFd, name: &[u8], to: &OwnedFd, new: &[u8]) -> io::Result<()> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    match rustix::fs::statat(to, new, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Err(Errno::EXIST.into()),
        Err(Errno::NOENT) => Ok(rustix::fs::renameat(from, name, to, new)?),
        Err(error) => Err(error.into()),
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The mode of new temporary files: private until they are complete.
pub(crate) fn private_mode() -> Mode {
    Mode::RUSR | Mode::WUSR
}

/// The metadata at a path that the operator named.
///
/// # Errors
/// Errors of `stat` and `lstat`.
pub fn path_stat(path: &[u8], follow: bool) -> io::Result<Stat> {
    let nofollow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    if let Some(opened) = jail::open(path, jail::INSPECT | nofollow) {
        return stat::file_stat(&opened?);
    }
    let path = OsStr::from_bytes(path);
    let raw = if follow { rustix::fs::stat(path) } else { rustix::fs::lstat(path) };
    Ok(Stat::from_raw(&raw?))
}

/// The target of the symbolic link at a path that the operator named.
///
/// # Errors
/// Errors of `readlink`.
pub fn path_link(path: &[u8]) -> io::Result<Vec<u8>> {
    if let Some(opened) = jail::open(path, jail::INSPECT | OFlags::NOFOLLOW) {
        return Ok(rustix::fs::readlinkat(opened?, "", Vec::new())?.into_bytes());
    }
    Ok(rustix::fs::readlink(OsStr::from_bytes(path), Vec::new())?.into_bytes())
}

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

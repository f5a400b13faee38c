//! The kernel's requests to an odd file system, answered from the directory that
//! it shows: each object by a handle of it, so that renames change nothing.

use super::refusals::Refusals;
use super::{Call, Names, Quirks, Times};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The kernel asks every time: several names may be one, and times are cut off
/// here.
const REMEMBERED: Duration = Duration::ZERO;

const GENERATION: Generation = Generation(0);

type Answer<T> = Result<T, Errno>;

pub(super) struct Served {
    quirks: Quirks,
    refusals: Arc<Refusals>,
    /// The objects that the kernel knows, by inode.
    nodes: Mutex<HashMap<u64, Node>>,
    open: Mutex<HashMap<u64, Arc<Opened>>>,
    next_handle: AtomicU64,
}

struct Node {
    /// For its place alone (`O_PATH`).
    fd: Arc<OwnedFd>,
    /// How often the kernel was told of it and has not forgotten.
    lookups: u64,
}

struct Opened {
    file: File,
    /// Something was written, and no error was told for it.
    written: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn errno(error: impl Into<io::Error>) -> Errno {
    Errno::from(error.into())
}

fn refusal(quirk: rustix::io::Errno) -> Errno {
    Errno::from_i32(quirk.raw_os_error())
}

impl Served {
    pub(super) fn new(
        backing: &Path,
        quirks: Quirks,
        refusals: Arc<Refusals>,
    ) -> io::Result<Served> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(backing, flags, Mode::empty())?;
        let root = Node { fd: Arc::new(root), lookups: 1 };
        Ok(Served {
            quirks,
            refusals,
            nodes: Mutex::new(HashMap::from([(INodeNo::ROOT.0, root)])),
            open: Mutex::default(),
            next_handle: AtomicU64::new(1),
        })
    }

    fn node(&self, ino: INodeNo) -> Answer<Arc<OwnedFd>> {
        lock(&self.nodes).get(&ino.0).map(|node| Arc::clone(&node.fd)).ok_or(Errno::ESTALE)
    }

    fn opened(&self, handle: FileHandle) -> Answer<Arc<Opened>> {
        lock(&self.open).get(&handle.0).cloned().ok_or(Errno::EBADF)
    }

    fn keep_open(&self, file: File) -> FileHandle {
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        lock(&self.open).insert(handle, Arc::new(Opened { file, written: AtomicBool::new(false) }));
        FileHandle(handle)
    }

    /// The time as it is kept.
    fn cut(&self, secs: i64, nanos: u32) -> (i64, u32) {
        let unit = self.quirks.time_unit.as_nanos().max(1) as i128;
        let all = i128::from(secs) * 1_000_000_000 + i128::from(nanos);
        let kept = all.div_euclid(unit) * unit;
        (kept.div_euclid(1_000_000_000) as i64, kept.rem_euclid(1_000_000_000) as u32)
    }

    fn time(&self, secs: i64, nanos: u32) -> SystemTime {
        let (secs, nanos) = self.cut(secs, nanos);
        let whole = Duration::from_secs(secs.unsigned_abs());
        let whole = if secs < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
        whole + Duration::from_nanos(nanos.into())
    }

    fn attr(&self, ino: INodeNo) -> Answer<FileAttr> {
        let stat = rustix::fs::statat(&*self.node(ino)?, c"", AtFlags::EMPTY_PATH);
        Ok(self.attr_of(ino, &stat.map_err(errno)?))
    }

    fn attr_of(&self, ino: INodeNo, stat: &Stat) -> FileAttr {
        let changed = match self.quirks.no_ctime {
            true => self.time(stat.st_mtime, stat.st_mtime_nsec as u32),
            false => {
                let changed = self.time(stat.st_ctime, stat.st_ctime_nsec as u32);
                changed - self.quirks.changed_before
            }
        };
        FileAttr {
            ino,
            size: stat.st_size as u64,
            blocks: if self.quirks.no_storage { 0 } else { stat.st_blocks as u64 },
            atime: self.time(stat.st_atime, stat.st_atime_nsec as u32),
            mtime: self.time(stat.st_mtime, stat.st_mtime_nsec as u32),
            ctime: changed,
            crtime: UNIX_EPOCH,
            kind: kind_of(stat),
            perm: (stat.st_mode & 0o7777) as u16,
            nlink: stat.st_nlink as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// The spelling of `name` in `dir`: that of the entry that it is, if any is.
    fn spelling(&self, dir: &OwnedFd, name: &OsStr) -> Answer<OsString> {
        let names = self.quirks.names;
        if names == Names::AllDiffer {
            return Ok(name.to_owned());
        }
        let folded = names.folded(name);
        let there = names_in(dir)?.into_iter().find(|(there, _)| names.folded(there) == folded);
        Ok(there.map_or_else(|| name.to_owned(), |(there, _)| there))
    }

    /// The directory `parent`, and the spelling of `name` in it.
    fn place(&self, parent: INodeNo, name: &OsStr) -> Answer<(Arc<OwnedFd>, OsString)> {
        let dir = self.node(parent)?;
        let name = self.spelling(&dir, name)?;
        Ok((dir, name))
    }

    /// Tells the kernel of what `name` in `dir` is.
    fn lookup_entry(&self, dir: &OwnedFd, name: &OsStr) -> Answer<FileAttr> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(dir, name, flags, Mode::empty()).map_err(errno)?;
        let stat = rustix::fs::fstat(&fd).map_err(errno)?;
        let mut nodes = lock(&self.nodes);
        let node = nodes.entry(stat.st_ino).or_insert(Node { fd: Arc::new(fd), lookups: 0 });
        node.lookups += 1;
        Ok(self.attr_of(INodeNo(stat.st_ino), &stat))
    }

    /// Makes an object with `make`, gives it to who asks, and tells of it.
    fn make(
        &self,
        call: Call,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        make: impl FnOnce(&OwnedFd, &OsStr) -> rustix::io::Result<()>,
    ) -> Answer<FileAttr> {
        self.check(call)?;
        let (dir, name) = self.place(parent, name)?;
        make(&dir, &name).map_err(errno)?;
        let (uid, gid) = (Uid::from_raw(request.uid()), Gid::from_raw(request.gid()));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(&*dir, &*name, Some(uid), Some(gid), flags).map_err(errno)?;
        self.lookup_entry(&dir, &name)
    }

    fn set_times(
        &self,
        node: &OwnedFd,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
    ) -> Answer<()> {
        let one = accessed.is_some() != modified.is_some();
        match self.quirks.times {
            Times::Never => return Ok(()),
            Times::OnlyBoth if one => return Ok(()),
            _ => {}
        }
        let spec = |time| match time {
            None => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
            Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
            Some(TimeOrNow::SpecificTime(time)) => {
                let (secs, nanos) = match time.duration_since(UNIX_EPOCH) {
                    Ok(after) => (after.as_secs() as i64, after.subsec_nanos()),
                    Err(before) => {
                        let before = before.duration();
                        let borrowed = i64::from(before.subsec_nanos() > 0);
                        let nanos = (1_000_000_000 - before.subsec_nanos()) % 1_000_000_000;
                        (-(before.as_secs() as i64) - borrowed, nanos)
                    }
                };
                let (tv_sec, nanos) = self.cut(secs, nanos);
                Timespec { tv_sec, tv_nsec: nanos.into() }
            }
        };
        let times = Timestamps { last_access: spec(accessed), last_modification: spec(modified) };
        rustix::fs::utimensat(node, c"", &times, AtFlags::EMPTY_PATH).map_err(errno)
    }

    /// Answers `call`, if it is to be refused.
    fn check(&self, call: Call) -> Answer<()> {
        self.refusals.check(call).map_err(refusal)
    }

    /// Answers what is not in order.
    fn check_order(&self) -> Answer<()> {
        self.quirks.out_of_order.map_or(Ok(()), |quirk| Err(refusal(quirk)))
    }

    fn list(&self, ino: INodeNo, from: u64, reply: &mut ReplyDirectory) -> Answer<()> {
        let names = names_in(&*self.node(ino)?)?;
        let dots = [".", ".."].map(|name| (OsString::from(name), FileType::Directory));
        for (at, (name, kind)) in (1..).zip(dots.into_iter().chain(names)).skip(from as usize) {
            // Not a number that was told: the kernel looks each up.
            if reply.add(INodeNo(at), at, kind, name) {
                break;
            }
        }
        Ok(())
    }
}

fn kind_of(stat: &Stat) -> FileType {
    match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        _ => FileType::RegularFile,
    }
}

/// The path of an object by its handle.
fn path_of(node: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", node.as_raw_fd())
}

fn open(node: &OwnedFd, flags: OFlags) -> Answer<File> {
    rustix::fs::open(path_of(node), flags | OFlags::CLOEXEC, Mode::empty())
        .map(File::from)
        .map_err(errno)
}

fn names_in(dir: &OwnedFd) -> Answer<Vec<(OsString, FileType)>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path_of(dir)).map_err(errno)? {
        let entry = entry.map_err(errno)?;
        let kind = entry.file_type().ok().and_then(FileType::from_std);
        names.push((entry.file_name(), kind.unwrap_or(FileType::RegularFile)));
    }
    names.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(names)
}

fn answer(reply: ReplyEmpty, done: Answer<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn answer_entry(reply: ReplyEntry, made: Answer<FileAttr>) {
    match made {
        Ok(attr) => reply.entry(&REMEMBERED, &attr, GENERATION),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self
            .check(Call::Lookup)
            .and_then(|()| self.place(parent, name))
            .and_then(|(dir, name)| self.lookup_entry(&dir, &name));
        answer_entry(reply, found);
    }

    fn forget(&self, _: &Request, ino: INodeNo, times: u64) {
        let mut nodes = lock(&self.nodes);
        if ino != INodeNo::ROOT
            && let Some(node) = nodes.get_mut(&ino.0)
        {
            node.lookups = node.lookups.saturating_sub(times);
            if node.lookups == 0 {
                nodes.remove(&ino.0);
            }
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.check(Call::Stat).and_then(|()| self.attr(ino)) {
            Ok(attr) => reply.attr(&REMEMBERED, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = || -> Answer<FileAttr> {
            let node = self.node(ino)?;
            if let Some(len) = size {
                self.check(Call::SetSize)?;
                let file = open(&node, OFlags::WRONLY)?;
                if len > file.metadata().map_err(errno)?.len() {
                    self.check_order()?;
                }
                file.set_len(len).map_err(errno)?;
            }
            if uid.is_some() || gid.is_some() {
                let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
                rustix::fs::chownat(&*node, c"", uid, gid, AtFlags::EMPTY_PATH).map_err(errno)?;
            }
            if let Some(mode) = mode {
                self.check(Call::SetMode)?;
                rustix::fs::chmod(path_of(&node), Mode::from_raw_mode(mode & 0o7777))
                    .map_err(errno)?;
            }
            if atime.is_some() || mtime.is_some() {
                self.check(Call::SetTimes)?;
                self.set_times(&node, atime, mtime)?;
            }
            self.attr(ino)
        };
        match set() {
            Ok(attr) => reply.attr(&REMEMBERED, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let target = self
            .check(Call::ReadLink)
            .and_then(|()| self.node(ino))
            .and_then(|node| rustix::fs::readlinkat(&*node, c"", Vec::new()).map_err(errno));
        match target {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let mode = Mode::from_raw_mode(mode & !umask & 0o7777);
        let made = self.make(Call::MakeDir, request, parent, name, |dir, name| {
            rustix::fs::mkdirat(dir, name, mode)?;
            rustix::fs::chmodat(dir, name, mode, AtFlags::empty())
        });
        answer_entry(reply, made);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let made = self.make(Call::MakeSymlink, request, parent, name, |dir, name| {
            rustix::fs::symlinkat(target, dir, name)
        });
        answer_entry(reply, made);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let mode = Mode::from_raw_mode(mode & !umask & 0o7777);
        let asked = OFlags::from_bits_retain(flags as u32);
        // To read and write, since the kernel may want both.
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::CLOEXEC
            | (asked & (OFlags::EXCL | OFlags::TRUNC));
        let mut file = None;
        let made = self.make(Call::Create, request, parent, name, |dir, name| {
            let made = rustix::fs::openat(dir, name, flags, mode)?;
            rustix::fs::fchmod(&made, mode)?;
            file = Some(File::from(made));
            Ok(())
        });
        match (made, file) {
            (Ok(attr), Some(file)) => {
                let handle = self.keep_open(file);
                reply.created(&REMEMBERED, &attr, GENERATION, handle, FopenFlags::empty());
            }
            (Err(error), _) => reply.error(error),
            (Ok(_), None) => reply.error(Errno::EIO),
        }
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if let Some(quirk) = self.quirks.link {
            return reply.error(refusal(quirk));
        }
        let linked = || {
            self.check(Call::Link)?;
            let node = self.node(ino)?;
            let (dir, name) = self.place(parent, name)?;
            rustix::fs::linkat(&*node, c"", &*dir, &*name, AtFlags::EMPTY_PATH).map_err(errno)?;
            self.lookup_entry(&dir, &name)
        };
        answer_entry(reply, linked());
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let place = self.check(Call::RemoveFile).and_then(|()| self.place(parent, name));
        let done = place.and_then(|(dir, name)| {
            rustix::fs::unlinkat(&*dir, &*name, AtFlags::empty()).map_err(errno)
        });
        answer(reply, done);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let place = self.check(Call::RemoveDir).and_then(|()| self.place(parent, name));
        let done = place.and_then(|(dir, name)| {
            rustix::fs::unlinkat(&*dir, &*name, AtFlags::REMOVEDIR).map_err(errno)
        });
        answer(reply, done);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to_parent: INodeNo,
        to: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if let (false, Some(quirk)) = (flags.is_empty(), self.quirks.rename_new) {
            return reply.error(refusal(quirk));
        }
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        let done = || {
            self.check(Call::Rename)?;
            let (dir, name) = self.place(parent, name)?;
            let (to_dir, to) = self.place(to_parent, to)?;
            rustix::fs::renameat_with(&*dir, &*name, &*to_dir, &*to, flags).map_err(errno)
        };
        answer(reply, done());
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let flags = OFlags::from_bits_retain(flags.0 as u32) & (OFlags::RWMODE | OFlags::TRUNC);
        let node = self.check(Call::Open).and_then(|()| self.node(ino));
        match node.and_then(|node| open(&node, flags)) {
            Ok(file) => {
                let uncached = self.quirks.uncached;
                let flags =
                    if uncached { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::empty() };
                reply.opened(self.keep_open(file), flags);
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = || {
            self.check(Call::Read)?;
            let opened = self.opened(handle)?;
            let mut bytes = vec![0; size as usize];
            let mut len = 0;
            while len < bytes.len() {
                match opened.file.read_at(&mut bytes[len..], offset + len as u64).map_err(errno)? {
                    0 => break,
                    more => len += more,
                }
            }
            bytes.truncate(len);
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.check(Call::Write).and_then(|()| self.opened(handle));
        let written = written.and_then(|opened| {
            if offset != opened.file.metadata().map_err(errno)?.len() {
                self.check_order()?;
            }
            opened.written.store(true, Ordering::Relaxed);
            opened.file.write_all_at(data, offset).map_err(errno)
        });
        match written {
            Ok(()) => reply.written(u32::try_from(data.len()).expect("a request has a bound")),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        let flushed = self.check(Call::Close).and_then(|()| self.opened(handle));
        let flushed = flushed.and_then(|opened| match self.quirks.at_close {
            Some(quirk) if opened.written.swap(false, Ordering::Relaxed) => {
                opened.file.set_len(0).map_err(errno)?;
                Err(refusal(quirk))
            }
            _ => Ok(()),
        });
        answer(reply, flushed);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        lock(&self.open).remove(&handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, self.check(Call::Sync));
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, self.check(Call::SyncDir));
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.check(Call::List).and_then(|()| self.list(ino, offset, &mut reply)) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        use rustix::fs::SeekFrom;
        /// `SEEK_DATA` (`linux/fs.h`).
        const DATA: i32 = 3;
        if let Some(quirk) = self.quirks.holes {
            return reply.error(refusal(quirk));
        }
        if let Err(error) = self.check(Call::Holes) {
            return reply.error(error);
        }
        let to = if whence == DATA {
            SeekFrom::Data(offset as u64)
        } else {
            SeekFrom::Hole(offset as u64)
        };
        let found = self.opened(handle);
        match found.and_then(|opened| rustix::fs::seek(&opened.file, to).map_err(errno)) {
            Ok(at) => reply.offset(at as i64),
            Err(error) => reply.error(error),
        }
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        reply.error(self.quirks.copy_range.map_or(Errno::ENOSYS, refusal));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        /// More than any test writes, in blocks.
        const BLOCKS: u64 = 1 << 20;
        if let Err(error) = self.check(Call::Room) {
            return reply.error(error);
        }
        reply.statfs(BLOCKS, BLOCKS, BLOCKS, BLOCKS, BLOCKS, 4096, 255, 4096);
    }
}

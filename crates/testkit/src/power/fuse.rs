//! A [`Disk`] mounted through FUSE.

use super::disk::{Body, DirBody, Disk, DiskState, FileBody, Meta, Node, Refusal};
use crate::fixture;
use crate::fuse::Mounted;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long the kernel may remember names and attributes. It makes every change
/// itself, so it knows of each.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Inode numbers are not used twice.
const GENERATION: Generation = Generation(0);

/// A block, as `stat` counts them, in bytes.
const BLOCK_LEN: u64 = 512;

/// A disk that is mounted on a temporary directory until this is dropped.
pub struct Powered(Mounted);

impl Disk {
    /// Mounts it. It needs root, and the device `/dev/fuse`; where they are
    /// missing, so is a [`fixture`].
    #[track_caller]
    pub fn mount(&self) -> Option<Powered> {
        let served = Served { disk: self.clone(), boot: self.state().boot };
        fixture::made("a FUSE mount", Mounted::new("haul-power", served)).map(Powered)
    }
}

impl Powered {
    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A path below it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }
}

/// Requests of the kernel.
struct Served {
    disk: Disk,
    /// The boot in which it was mounted.
    boot: u64,
}

impl From<Refusal> for Errno {
    fn from(refusal: Refusal) -> Errno {
        match refusal {
            Refusal::Io => Errno::EIO,
            Refusal::NotFound => Errno::ENOENT,
            Refusal::Exists => Errno::EEXIST,
            Refusal::NotDirectory => Errno::ENOTDIR,
            Refusal::IsDirectory => Errno::EISDIR,
            Refusal::NotEmpty => Errno::ENOTEMPTY,
            Refusal::CrossDevice => Errno::EXDEV,
        }
    }
}

fn attr(state: &DiskState, ino: u64) -> Result<FileAttr, Refusal> {
    let node = state.node(ino)?;
    let (kind, size) = match &node.body {
        Body::File(body) => (FileType::RegularFile, body.now.len() as u64),
        Body::Dir(_) => (FileType::Directory, 0),
        Body::Link(target) => (FileType::Symlink, target.len() as u64),
    };
    let Meta { mode, uid, gid, mtime } = node.meta;
    Ok(FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: size.div_ceil(BLOCK_LEN),
        atime: mtime,
        mtime,
        ctime: mtime,
        crtime: mtime,
        kind,
        perm: (mode & 0o7777) as u16,
        nlink: state.names_of(ino),
        uid,
        gid,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    })
}

fn fresh_meta(request: &Request, mode: u32) -> Meta {
    Meta { mode: mode & 0o7777, uid: request.uid(), gid: request.gid(), mtime: SystemTime::now() }
}

impl Served {
    /// Makes an object, and gives its attributes.
    fn make(
        &self,
        request: &Request,
        dir: INodeNo,
        name: &OsStr,
        mode: u32,
        body: Body,
    ) -> Result<FileAttr, Refusal> {
        let mut state = self.disk.state_in(self.boot);
        let ino = state.create(dir.0, name, fresh_meta(request, mode), body)?;
        attr(&state, ino)
    }
}

impl Served {
    /// Syncs, and answers when the time for it has passed; other requests are
    /// served meanwhile.
    fn sync(&self, ino: INodeNo, data_only: bool, reply: ReplyEmpty) {
        let (synced, pause) = {
            let mut state = self.disk.state_in(self.boot);
            (state.sync(ino.0, data_only), state.sync_duration)
        };
        if pause.is_zero() {
            return answer(reply, synced);
        }
        std::thread::spawn(move || {
            std::thread::sleep(pause);
            answer(reply, synced);
        });
    }
}

fn answer(reply: ReplyEmpty, done: Result<(), Refusal>) {
    match done {
        Ok(()) => reply.ok(),
        Err(refusal) => reply.error(refusal.into()),
    }
}

fn answer_entry(reply: ReplyEntry, made: Result<FileAttr, Refusal>) {
    match made {
        Ok(attr) => reply.entry(&REMEMBERED, &attr, GENERATION),
        Err(refusal) => reply.error(refusal.into()),
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let state = self.disk.state_in(self.boot);
        answer_entry(reply, state.lookup(parent.0, name).and_then(|ino| attr(&state, ino)));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match attr(&self.disk.state_in(self.boot), ino.0) {
            Ok(attr) => reply.attr(&REMEMBERED, &attr),
            Err(refusal) => reply.error(refusal.into()),
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
        _: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = || -> Result<FileAttr, Refusal> {
            let mut state = self.disk.state_in(self.boot);
            if let Some(len) = size {
                state.set_len(ino.0, len)?;
            }
            let old = state.node(ino.0)?.meta;
            let meta = Meta {
                mode: mode.map_or(old.mode, |mode| mode & 0o7777),
                uid: uid.unwrap_or(old.uid),
                gid: gid.unwrap_or(old.gid),
                mtime: match mtime {
                    None => old.mtime,
                    Some(TimeOrNow::Now) => SystemTime::now(),
                    Some(TimeOrNow::SpecificTime(time)) => time,
                },
            };
            if meta != old {
                state.set_meta(ino.0, meta)?;
            }
            attr(&state, ino.0)
        };
        match set() {
            Ok(attr) => reply.attr(&REMEMBERED, &attr),
            Err(refusal) => reply.error(refusal.into()),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.disk.state_in(self.boot).node(ino.0).map(|node| &node.body) {
            Ok(Body::Link(target)) => reply.data(target.as_bytes()),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(refusal) => reply.error(refusal.into()),
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
        let body = Body::Dir(DirBody::default());
        answer_entry(reply, self.make(request, parent, name, mode & !umask, body));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let body = Body::Link(target.as_os_str().to_owned());
        answer_entry(reply, self.make(request, parent, name, 0o777, body));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let body = Body::File(FileBody::default());
        match self.make(request, parent, name, mode & !umask, body) {
            Ok(attr) => {
                let (handle, flags) = (FileHandle(0), FopenFlags::empty());
                reply.created(&REMEMBERED, &attr, GENERATION, handle, flags);
            }
            Err(refusal) => reply.error(refusal.into()),
        }
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut state = self.disk.state_in(self.boot);
        let linked = state.link(ino.0, parent.0, name);
        answer_entry(reply, linked.and_then(|()| attr(&state, ino.0)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.disk.state_in(self.boot).remove(parent.0, name));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.disk.state_in(self.boot).remove(parent.0, name));
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
        let no_replace = RenameFlags::RENAME_NOREPLACE;
        if flags.difference(no_replace) != RenameFlags::empty() {
            return reply.error(Errno::EINVAL);
        }
        let replace = !flags.contains(no_replace);
        answer(
            reply,
            self.disk.state_in(self.boot).rename(parent.0, name, to_parent.0, to, replace),
        );
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.disk.state_in(self.boot).node(ino.0) {
            Ok(Node { body: Body::File(body), .. }) => {
                let from =
                    usize::try_from(offset).map_or(body.now.len(), |at| at.min(body.now.len()));
                let to = (from + size as usize).min(body.now.len());
                reply.data(&body.now[from..to]);
            }
            Ok(_) => reply.error(Errno::EISDIR),
            Err(refusal) => reply.error(refusal.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (written, pause) = {
            let mut state = self.disk.state_in(self.boot);
            (state.write(ino.0, offset, data), state.pause(data.len()))
        };
        if let Some(pause) = pause {
            std::thread::sleep(pause);
        }
        match written {
            Ok(()) => reply.written(u32::try_from(data.len()).expect("a request has a bound")),
            Err(refusal) => reply.error(refusal.into()),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.sync(ino, data_only, reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(ino, false, reply);
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let state = self.disk.state_in(self.boot);
        let names = match state.node(ino.0).map(|node| &node.body) {
            Ok(Body::Dir(body)) => &body.now,
            Ok(_) => return reply.error(Errno::ENOTDIR),
            Err(refusal) => return reply.error(refusal.into()),
        };
        let dots = [(OsStr::new("."), ino.0), (OsStr::new(".."), ino.0)];
        let all = dots.into_iter().chain(names.iter().map(|(name, ino)| (name.as_os_str(), *ino)));
        for (at, (name, ino)) in (1u64..).zip(all).skip(usize::try_from(offset).unwrap_or(0)) {
            let kind = match state.node(ino).map(|node| &node.body) {
                Ok(Body::File(_)) => FileType::RegularFile,
                Ok(Body::Link(_)) => FileType::Symlink,
                _ => FileType::Directory,
            };
            if reply.add(INodeNo(ino), at, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        /// More than any test writes, in blocks.
        const BLOCKS: u64 = 1 << 20;
        reply.statfs(BLOCKS, BLOCKS, BLOCKS, BLOCKS, BLOCKS, 4096, 255, 4096);
    }
}

//! The server's requests about files.

use super::packet::{Attrs, Packet, Request};
use super::{Listing, Oddities};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

const EOF: u32 = 1;
const BAD_MESSAGE: u32 = 5;
const UNSUPPORTED: u32 = 8;

/// Entries in one answer: few, so that a listing takes several.
const ENTRIES_MAX: usize = 3;

/// Entries in one answer of a listing that does not end.
const ENDLESS_LEN: usize = 10_000;

/// The files, and which of them are open.
pub(super) struct Files {
    root: PathBuf,
    chunk_max: usize,
    short_reads: bool,
    replaces_on_rename: bool,
    listing: Listing,
    target_len: Option<usize>,
    hidden: u64,
    open: HashMap<u32, Open>,
    next_handle: u32,
}

enum Open {
    File(File),
    /// Entries that are still to be listed.
    Dir(PathBuf, Vec<PathBuf>),
}

/// Why a request fails: with an error, or with a status of its own.
enum Failure {
    Io(io::Error),
    Status(u32),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Failure {
    fn status(&self) -> u32 {
        match self {
            Self::Io(error) => match error.kind() {
                io::ErrorKind::NotFound => 2,
                io::ErrorKind::PermissionDenied => 3,
                _ => 4,
            },
            Self::Status(status) => *status,
        }
    }
}

type Answer = Result<Packet, Failure>;

impl Files {
    pub(super) fn new(root: &Path, odd: &Oddities) -> Self {
        Self {
            root: root.to_owned(),
            chunk_max: odd.chunk_max,
            short_reads: odd.short_reads,
            replaces_on_rename: odd.replaces_on_rename,
            listing: odd.listing,
            target_len: odd.target_len,
            hidden: odd.hidden,
            open: HashMap::new(),
            next_handle: 0,
        }
    }

    /// Does what the request asks for and answers it.
    pub(super) fn answer(&mut self, request: &[u8], extensions: &[&str]) -> Vec<u8> {
        let mut request = Request(request);
        let (kind, id) = (request.u8(), request.u32());
        let done = match kind {
            3 => self.open(id, &mut request),
            4 => self.close(id, request.string()),
            5 => self.read(id, &mut request),
            6 => self.write(id, &mut request),
            7 | 8 | 17 => self.stat(id, kind, request.string()),
            9 | 10 => self.set_attrs(id, kind, &mut request),
            11 => self.open_dir(id, request.string()),
            12 => self.read_dir(id, request.string()),
            13 => self.on_path(id, &mut request, |path| fs::remove_file(path)),
            14 => self
                .on_path(id, &mut request, |path| fs::DirBuilder::new().mode(0o777).create(path)),
            15 => self.on_path(id, &mut request, |path| fs::remove_dir(path)),
            16 => fs::canonicalize(self.path(request.string()))
                .map(|path| one_name(id, &path))
                .map_err(Failure::from),
            18 => self.rename(id, &mut request, self.replaces_on_rename),
            19 => fs::read_link(self.path(request.string()))
                .map(|path| match self.target_len {
                    Some(len) => one_name(id, Path::new(&"t".repeat(len))),
                    None => one_name(id, &path),
                })
                .map_err(Failure::from),
            20 => {
                let target = OsStr::from_bytes(request.string());
                symlink(target, self.path(request.string()))
                    .map(|()| Packet::status(id, 0))
                    .map_err(Failure::from)
            }
            200 => self.extended(id, &mut request, extensions),
            _ => Err(Failure::Status(UNSUPPORTED)),
        };
        done.unwrap_or_else(|failure| Packet::status(id, failure.status())).bytes()
    }

    fn extended(&mut self, id: u32, request: &mut Request<'_>, extensions: &[&str]) -> Answer {
        let name = request.string();
        if !extensions.iter().any(|known| known.as_bytes() == name) {
            return Err(Failure::Status(UNSUPPORTED));
        }
        match name {
            b"posix-rename@openssh.com" => self.rename(id, request, true),
            b"fsync@openssh.com" => {
                self.file(request.string())?.sync_all()?;
                Ok(Packet::status(id, 0))
            }
            b"limits@openssh.com" => {
                let mut limits = Packet::new(201, id);
                limits.u64(self.chunk_max as u64 + 1024);
                limits.u64(self.chunk_max as u64);
                limits.u64(self.chunk_max as u64);
                limits.u64(100);
                Ok(limits)
            }
            _ => Err(Failure::Status(UNSUPPORTED)),
        }
    }

    fn path(&self, path: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(path))
    }

    fn on_path(
        &self,
        id: u32,
        request: &mut Request<'_>,
        act: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Answer {
        act(&self.path(request.string()))?;
        Ok(Packet::status(id, 0))
    }

    fn rename(&self, id: u32, request: &mut Request<'_>, over: bool) -> Answer {
        let (from, to) = (self.path(request.string()), self.path(request.string()));
        if !over && to.symlink_metadata().is_ok() {
            return Err(Failure::Status(4));
        }
        fs::rename(from, to)?;
        Ok(Packet::status(id, 0))
    }

    fn add(&mut self, id: u32, open: Open) -> Packet {
        let mut answer = Packet::new(102, id);
        answer.string(&self.next_handle.to_be_bytes());
        self.open.insert(self.next_handle, open);
        self.next_handle += 1;
        answer
    }

    fn handle(&mut self, handle: &[u8]) -> Result<&mut Open, Failure> {
        let number = handle.try_into().ok().map(u32::from_be_bytes);
        let open = number.and_then(|number| self.open.get_mut(&number));
        open.ok_or(Failure::Status(BAD_MESSAGE))
    }

    fn file(&mut self, handle: &[u8]) -> Result<&File, Failure> {
        match self.handle(handle)? {
            Open::File(file) => Ok(file),
            Open::Dir(..) => Err(Failure::Status(BAD_MESSAGE)),
        }
    }

    fn open(&mut self, id: u32, request: &mut Request<'_>) -> Answer {
        let path = self.path(request.string());
        let flags = request.u32();
        let has = |bit: u32| flags & bit != 0;
        let mut options = OpenOptions::new();
        options.read(has(1)).write(has(2)).create(has(8)).truncate(has(16));
        options.create_new(has(8) && has(32));
        options.mode(request.attrs().mode.unwrap_or(0o666));
        let file = options.open(path)?;
        Ok(self.add(id, Open::File(file)))
    }

    fn close(&mut self, id: u32, handle: &[u8]) -> Answer {
        self.handle(handle)?;
        self.open.retain(|number, _| number.to_be_bytes() != handle);
        Ok(Packet::status(id, 0))
    }

    fn read(&mut self, id: u32, request: &mut Request<'_>) -> Answer {
        let handle = request.string();
        let (offset, len) = (request.u64(), request.u32() as usize);
        let mut len = len.min(self.chunk_max);
        if self.short_reads && len > 1 {
            len -= len.div_ceil(3);
        }
        let mut bytes = vec![0; len];
        let read = self.file(handle)?.read_at(&mut bytes, offset)?;
        if read == 0 {
            return Err(Failure::Status(EOF));
        }
        let mut answer = Packet::new(103, id);
        answer.string(&bytes[..read]);
        Ok(answer)
    }

    fn write(&mut self, id: u32, request: &mut Request<'_>) -> Answer {
        let (handle, offset) = (request.string(), request.u64());
        let bytes = request.string();
        if bytes.len() > self.chunk_max {
            return Err(Failure::Status(BAD_MESSAGE));
        }
        self.file(handle)?.write_all_at(bytes, offset)?;
        Ok(Packet::status(id, 0))
    }

    fn stat(&mut self, id: u32, kind: u8, what: &[u8]) -> Answer {
        let meta = match kind {
            7 => fs::symlink_metadata(self.path(what))?,
            8 => self.file(what)?.metadata()?,
            _ => fs::metadata(self.path(what))?,
        };
        let mut answer = Packet::new(105, id);
        answer.attrs(&meta, self.hidden);
        Ok(answer)
    }

    fn set_attrs(&mut self, id: u32, kind: u8, request: &mut Request<'_>) -> Answer {
        let what = request.string();
        let attrs = request.attrs();
        if kind == 10 {
            set(self.file(what)?, &attrs)?;
        } else {
            // Only a size needs a file that is open for writing.
            let write = attrs.size.is_some();
            let file = OpenOptions::new().read(true).write(write).open(self.path(what))?;
            set(&file, &attrs)?;
        }
        Ok(Packet::status(id, 0))
    }

    fn open_dir(&mut self, id: u32, path: &[u8]) -> Answer {
        let dir = self.path(path);
        let mut entries = vec![PathBuf::from("."), PathBuf::from("..")];
        for entry in fs::read_dir(&dir)? {
            entries.push(entry?.file_name().into());
        }
        if let Listing::And(name) = self.listing {
            entries.push(PathBuf::from(OsStr::from_bytes(name)));
        }
        Ok(self.add(id, Open::Dir(dir, entries)))
    }

    fn read_dir(&mut self, id: u32, handle: &[u8]) -> Answer {
        let listing = self.listing;
        let hidden = self.hidden;
        let Open::Dir(dir, entries) = self.handle(handle)? else {
            return Err(Failure::Status(BAD_MESSAGE));
        };
        let mut answer = Packet::new(104, id);
        if let Listing::Endless(name) = listing {
            answer.names(&vec![name; ENDLESS_LEN]);
            return Ok(answer);
        }
        if entries.is_empty() && listing == Listing::EndsEmpty {
            answer.names(&[]);
            return Ok(answer);
        }
        if entries.is_empty() {
            return Err(Failure::Status(EOF));
        }
        let rest = entries.split_off(entries.len().min(ENTRIES_MAX));
        let now = std::mem::replace(entries, rest);
        answer.u32(now.len() as u32);
        for name in now {
            answer.string(name.as_os_str().as_bytes());
            answer.string(b"-rw-r--r-- as ls would show it");
            match dir.join(&name).symlink_metadata() {
                Ok(meta) if listing == Listing::Untimed => answer.untimed_attrs(&meta, hidden, 7),
                Ok(meta) => answer.attrs(&meta, hidden),
                // A name that only this server knows.
                Err(_) => answer.u32(0),
            }
        }
        Ok(answer)
    }
}

fn set(file: &File, attrs: &Attrs) -> io::Result<()> {
    if let Some(size) = attrs.size {
        file.set_len(size)?;
    }
    if let Some(mode) = attrs.mode {
        file.set_permissions(Permissions::from_mode(mode & 0o7777))?;
    }
    if let Some((accessed, modified)) = attrs.times {
        let at = |secs: u32| UNIX_EPOCH + Duration::from_secs(secs.into());
        file.set_times(FileTimes::new().set_accessed(at(accessed)).set_modified(at(modified)))?;
    }
    Ok(())
}

fn one_name(id: u32, path: &Path) -> Packet {
    let mut answer = Packet::new(104, id);
    answer.names(&[path.as_os_str().as_bytes()]);
    answer
}

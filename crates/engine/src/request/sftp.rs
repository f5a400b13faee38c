//! Requests to a host without haul: its SFTP server says what stands there, and
//! content is read from it and hashed here.

use super::RequestError;
use crate::JobError;
use haul_model::{Attributes, words};
use haul_model::{
    ContentHash, ContentHasher, Entry, Fault, FaultKind, Kind, Name, Side, Special, Timestamp,
};
use haul_net::Connection;
use haul_proto::{Hashing, Listed};
use haul_sftp::{
    Attrs, Cause, Client, DirEntry, FileType, OpenFlags, Options, RemoteFile, Session,
    SessionError, SftpError, StartError, StatusCode,
};
use haul_tree::each_beside;
use haul_tree::sftp::join;

/// Content of a file to be hashed that is in flight, in bytes: half of what the
/// session allows, and more than most links hold.
const HASH_WINDOW: usize = 8 << 20;

/// Threads that ask about entries of a directory at the same time, at most.
/// Each link costs a round trip, for where it points.
const ASKERS_MAX: usize = 8;

/// Entries that are asked about before they are handed on.
const ENTRIES_AT_ONCE: usize = 512;

/// A host's SFTP server.
pub(super) struct SftpPeer {
    /// `None` once it is over.
    session: Option<Session>,
    client: Client,
    host: String,
}

/// Why nothing can be said of an entry.
enum Failed {
    Server(SftpError),
    /// The server left out what every server tells.
    Untold(&'static str),
}

impl From<SftpError> for Failed {
    fn from(error: SftpError) -> Self {
        Self::Server(error)
    }
}

impl From<StartError> for JobError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Connect(error) => error.into(),
            StartError::Session { host, cause } => Self::Sftp { host, cause },
        }
    }
}

impl SftpPeer {
    pub(super) fn start(connection: Connection) -> Result<Self, JobError> {
        let host = connection.closer.peer().to_owned();
        let session = Session::start(connection, Options::default())?;
        let client = session.client().clone();
        Ok(Self { session: Some(session), client, host })
    }

    /// The mark of the directory at `path`, by which it is told from all others, of any host.
    pub(super) fn place(&self, path: &[u8]) -> Option<Vec<u8>> {
        let real = self.client.real_path(sent(path)).ok()?;
        Some([self.host.as_bytes(), b":", &real].concat())
    }

    pub(super) fn stat(&mut self, path: &[u8], follow: bool) -> Result<Entry, RequestError> {
        let name = words::split(path).name.and_then(|name| Name::new(name).ok());
        let path = sent(path);
        let attrs = if follow { self.client.stat(path) } else { self.client.lstat(path) };
        attrs
            .map_err(Failed::from)
            .and_then(|attrs| entry(&self.client, path, name, &attrs))
            .map_err(|failed| self.failed("read its metadata", failed))
    }

    /// The session, if it stands.
    pub(super) fn into_session(self) -> Option<Session> {
        self.session.filter(Session::is_open)
    }

    pub(super) fn look_at_each(
        &mut self,
        paths: &[Vec<u8>],
    ) -> Result<Vec<Result<(), Fault>>, JobError> {
        let mut looked: Vec<_> = paths.iter().map(|_| Ok(())).collect();
        let path_of = |number: usize| sent(&paths[number]).to_vec();
        self.client.clone().lstat_each(paths.len(), path_of, |number, attrs| {
            looked[number] = attrs.map(drop);
            true
        });
        let looked = looked.into_iter().map(|looked| match looked {
            Ok(()) => Ok(Ok(())),
            Err(error) => match self.failed("read its metadata", error.into()) {
                RequestError::Fault(fault) => Ok(Err(fault)),
                RequestError::Job(error) => Err(error),
            },
        });
        looked.collect()
    }

    pub(super) fn list(
        &mut self,
        path: &[u8],
        each: &mut dyn FnMut(Listed),
    ) -> Result<(), RequestError> {
        let path = sent(path);
        let listed = self.client.list(path);
        let mut found =
            listed.map_err(|error| self.failed("read the directory", Failed::Server(error)))?;
        found.sort_unstable_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        for part in found.chunks(ENTRIES_AT_ONCE) {
            let looked = look_at(&self.client, path, part);
            for (DirEntry { name, .. }, looked) in part.iter().zip(looked) {
                match looked {
                    Ok(entry) => each(Listed::Entry(entry)),
                    // It is gone since the directory was read: not there.
                    Err(Failed::Server(error))
                        if error.status() == Some(StatusCode::NoSuchFile) => {}
                    Err(failed) => match self.failed("read its metadata", failed) {
                        RequestError::Fault(fault) => {
                            each(Listed::Fault { name: name.clone(), fault });
                        }
                        over => return Err(over),
                    },
                }
            }
        }
        Ok(())
    }

    pub(super) fn hash(
        &mut self,
        path: &[u8],
        told: &mut dyn FnMut(Hashing),
    ) -> Result<ContentHash, RequestError> {
        let is_dir = || Fault::new(Side::Source, FaultKind::IsDirectory, "it is a directory");
        let split = words::split(path);
        if split.name.is_none() {
            return Err(is_dir().into());
        }
        let path = sent(path);
        // Opening a FIFO would hold up the server, and all that is asked of it.
        let looked = self.client.stat(path);
        let attrs = looked.map_err(|error| self.failed("open", error.into()))?;
        match attrs.file_type() {
            Some(FileType::File) | None if split.slash => {
                let message = "it is not a directory";
                return Err(Fault::new(Side::Source, FaultKind::NotDirectory, message).into());
            }
            Some(FileType::File) | None => {}
            Some(FileType::Dir) => return Err(is_dir().into()),
            Some(FileType::Symlink | FileType::Special) => {
                let message = "can't open: it is not a regular file";
                return Err(Fault::new(Side::Source, FaultKind::Special, message).into());
            }
        }
        let file = self.client.open(path, OpenFlags::Read, None);
        let file = file.map_err(|error| self.failed("open", error.into()))?;
        let mut hashing = Hashing { size: attrs.size.unwrap_or(0), ..Hashing::default() };
        let mut count = |len| {
            hashing.done += len;
            hashing.read += len;
            told(hashing);
        };
        hash_of(&file, u64::MAX, &mut count).map_err(|error| self.failed("read", error.into()))
    }

    fn failed(&mut self, action: &str, failed: Failed) -> RequestError {
        let (kind, why) = match failed {
            Failed::Server(SftpError { cause: Cause::Session(end), .. }) => {
                return self.over(end).into();
            }
            Failed::Server(error) => {
                (FaultKind::of(&error.io_kind().into()), error.cause.to_string())
            }
            Failed::Untold(what) => (FaultKind::Io, format!("the server does not report {what}")),
        };
        match kind {
            FaultKind::NotFound => Fault::missing(Side::Source).into(),
            kind => Fault::new(Side::Source, kind, format!("can't {action}: {why}")).into(),
        }
    }

    /// Why the session ended.
    fn over(&mut self, end: SessionError) -> JobError {
        session_over(self.session.take(), self.host.clone(), end)
    }
}

/// Why `session`, with `host`, ended; ssh knows more about a connection that
/// broke.
pub(crate) fn session_over(session: Option<Session>, host: String, end: SessionError) -> JobError {
    match (end, session) {
        (SessionError::Closed | SessionError::Broken(_), Some(session)) => session.explain().into(),
        (cause, _) => JobError::Sftp { host, cause },
    }
}

/// The hash of a file's content, up to the offset `end`. What is hashed is told to
/// `count`.
pub(crate) fn hash_of(
    file: &RemoteFile,
    end: u64,
    count: &mut dyn FnMut(u64),
) -> Result<ContentHash, SftpError> {
    let mut content = file.reader(0..end, HASH_WINDOW);
    let mut hasher = ContentHasher::new();
    while let Some(chunk) = content.next_piece()? {
        hasher.update(&chunk);
        count(chunk.len() as u64);
    }
    Ok(hasher.finish())
}

/// Looks at each of the entries of the directory `dir`, in their order.
fn look_at(client: &Client, dir: &[u8], entries: &[DirEntry]) -> Vec<Result<Entry, Failed>> {
    let look = |found: &DirEntry| {
        let path = join(dir, found.name.as_bytes());
        entry(client, &path, Some(found.name.clone()), &found.attrs)
    };
    let asked = entries.iter().filter(|found| needs_asking(&found.attrs)).count();
    if asked < 2 {
        return entries.iter().map(look).collect();
    }
    let share = entries.len().div_ceil(asked.min(ASKERS_MAX));
    let parts = entries.chunks(share).collect();
    let looked = each_beside(parts, |part: &[DirEntry]| part.iter().map(look).collect::<Vec<_>>());
    looked.into_iter().flatten().collect()
}

/// True if a listing alone does not say all of an entry.
fn needs_asking(attrs: &Attrs) -> bool {
    attrs.times.is_none() || matches!(attrs.file_type(), None | Some(FileType::Symlink))
}

/// The bits of a mode that say what it is of, and two of their values (POSIX).
const TYPE_OF_MODE: u32 = 0o170_000;
const FIFO: u32 = 0o010_000;
const SOCKET: u32 = 0o140_000;

/// The entry at `path` by its `attrs`; a server that left something out is
/// asked again.
fn entry(client: &Client, path: &[u8], name: Option<Name>, attrs: &Attrs) -> Result<Entry, Failed> {
    let is_whole = |attrs: &Attrs| attrs.mode.is_some() && attrs.times.is_some();
    let attrs = if is_whole(attrs) { *attrs } else { client.lstat(path)? };
    let kind = match attrs.file_type().ok_or(Failed::Untold("its type"))? {
        FileType::File => Kind::File { size: attrs.size.ok_or(Failed::Untold("its size"))? },
        FileType::Dir => Kind::Dir,
        FileType::Symlink => Kind::Symlink { target: client.read_link(path)? },
        FileType::Special => Kind::Special,
    };
    let times = attrs.times.ok_or(Failed::Untold("its mtime"))?;
    let mtime = Timestamp { secs: times.modified.into(), nanos: 0 };
    let mode = attrs.mode.unwrap_or(0) & 0o7777;
    // Of a device its number is not told.
    let special = match attrs.mode.map(|mode| mode & TYPE_OF_MODE) {
        Some(FIFO) => Some(Special::Fifo),
        Some(SOCKET) => Some(Special::Socket),
        _ => None,
    };
    Ok(Entry { special, ..Entry::new(name, kind, Attributes::new(mode, mtime)) })
}

/// The path as the server is told it. A relative one starts where the session
/// does, which is the home directory unless the server is set up otherwise, and
/// a `~` in front is that directory: so it is with haul there, too.
fn sent(path: &[u8]) -> &[u8] {
    match words::without_tilde(path) {
        b"" => b".",
        path => path,
    }
}

//! Single requests beside jobs: stat, list and hash, here, at a peer, or at a
//! host that has an SFTP server alone. The same functions answer here and at a
//! peer.

pub(crate) mod sftp;

use self::sftp::SftpPeer;
use crate::JobError;
use crate::link::wire::{ReadEnd, refused};
use crate::remote::{PROGRAM, cannot_move, read_message, welcome};
use crate::tree::{LocalDir, Meta, SourceFile, TreeDir, TreeEntry};
use crate::words;
use haul_model::{ContentHash, ContentHasher, Entry, Fault, FaultKind, Name, Side};
use haul_net::{Closer, ConnectError, Connection, Writer};
use haul_proto::{Caps, FrameType, Hello, Listed, Message, Reply, Request, encode, frame_bytes};
use haul_sys::Dir;
use std::ffi::OsStr;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Entries in one part of a listing, at most: with names, link targets and
/// messages as long as they can be, the part stays within its frame's bound.
const ENTRIES_PER_REPLY_MAX: usize = 32;

/// Bytes that are read at once for hashing.
const HASH_READ_LEN: usize = 1 << 20;

/// Answers requests about one machine's files: this one's, or another's.
pub struct Requests(Answering);

/// Who answers.
enum Answering {
    /// This process.
    Here,
    /// haul on another machine.
    Agent(Peer),
    /// The SFTP server of another machine.
    Sftp(SftpPeer),
}

struct Peer {
    input: BufReader<Box<dyn Read + Send>>,
    output: Writer,
    closer: Option<Closer>,
    name: String,
    caps: Caps,
}

/// An entry of a directory; or the name of one that can't be looked at, and why.
pub type ListedEntry = Result<Entry, (Vec<u8>, Fault)>;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The path can't be looked at; the next request may fare better.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The connection is of no more use.
    #[error(transparent)]
    Job(#[from] JobError),
}

impl Requests {
    /// Requests about this machine.
    pub fn local() -> Self {
        Self(Answering::Here)
    }

    /// Requests to the agent at the other end of `connection`.
    ///
    /// # Errors
    /// When the peer does not greet, or speaks another version.
    pub fn remote(connection: Connection) -> Result<Self, JobError> {
        let Connection { reader, writer, closer } = connection;
        let name = closer.peer().to_owned();
        let input = BufReader::new(reader);
        let caps = Caps::NONE;
        let mut peer = Peer { input, output: writer, closer: Some(closer), name, caps };
        let hello = frame_bytes(FrameType::Hello, &Hello::ours(Caps::OURS, PROGRAM).encode());
        let greeted = peer.output.write_all(&hello).and_then(|()| peer.output.flush());
        let greeted = greeted.map_err(ReadEnd::from);
        match greeted.and_then(|()| welcome(&mut peer.input, &peer.name)) {
            Ok(caps) => Ok(Self(Answering::Agent(Peer { caps, ..peer }))),
            Err(end) => Err(peer.broken(end)),
        }
    }

    /// Requests to the SFTP server at the other end of `connection`, of a host
    /// without haul. Times are in whole seconds from 1970 to 2106, there are no
    /// inodes, and a file is hashed here: all of its content is read.
    ///
    /// # Errors
    /// When there is no such server, or none of version 3.
    pub fn sftp(connection: Connection) -> Result<Self, JobError> {
        SftpPeer::start(connection).map(|peer| Self(Answering::Sftp(peer)))
    }

    /// Whether a move can remove its sources there.
    ///
    /// # Errors
    /// [`JobError::Protocol`] when the haul there does not know how.
    pub fn can_move(&self) -> Result<(), JobError> {
        match &self.0 {
            Answering::Agent(peer) if !peer.caps.has(Caps::MOVE) => {
                Err(JobError::Protocol(cannot_move(&peer.name)))
            }
            _ => Ok(()),
        }
    }

    /// What stands at `path`; a symbolic link is followed if `follow` says so.
    /// The entry's name is the path's last component, or `None` if it has none.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn stat(&mut self, path: &[u8], follow: bool) -> Result<Entry, RequestError> {
        let peer = match &mut self.0 {
            Answering::Here => return Ok(stat(path, follow)?),
            Answering::Sftp(peer) => return peer.stat(path, follow),
            Answering::Agent(peer) => peer,
        };
        match peer.ask(Request::Stat { path: path.to_vec(), follow })? {
            Reply::Entry(entry) => Ok(entry),
            reply => Err(peer.refuse(reply)),
        }
    }

    /// The entries of the directory at `path` in ascending order of their
    /// bytes, handed to `each` as they arrive. An entry that could not be read
    /// arrives as a fault with its name.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn list(
        &mut self,
        path: &[u8],
        each: &mut dyn FnMut(ListedEntry),
    ) -> Result<(), RequestError> {
        let mut hand_on = |listed| match listed {
            Listed::Entry(entry) => each(Ok(entry)),
            Listed::Fault { name, fault } => each(Err((name.as_bytes().to_vec(), fault))),
        };
        let peer = match &mut self.0 {
            Answering::Here => {
                return Ok(list(path, &mut |listed| {
                    hand_on(listed);
                    Ok(())
                })?);
            }
            Answering::Sftp(peer) => return peer.list(path, &mut hand_on),
            Answering::Agent(peer) => peer,
        };
        let mut reply = peer.ask(Request::List { path: path.to_vec() })?;
        loop {
            match reply {
                Reply::Entries(entries) => entries.into_iter().for_each(&mut hand_on),
                Reply::End => return Ok(()),
                reply => return Err(peer.refuse(reply)),
            }
            reply = peer.read()?;
        }
    }

    /// The BLAKE3 hash of the file at `path`, links followed.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn hash(&mut self, path: &[u8]) -> Result<ContentHash, RequestError> {
        let peer = match &mut self.0 {
            Answering::Here => return Ok(hash(path)?),
            Answering::Sftp(peer) => return peer.hash(path),
            Answering::Agent(peer) => peer,
        };
        match peer.ask(Request::Hash { path: path.to_vec() })? {
            Reply::Hash(hash) => Ok(hash),
            reply => Err(peer.refuse(reply)),
        }
    }
}

impl Peer {
    fn ask(&mut self, request: Request) -> Result<Reply, RequestError> {
        let frame = encode(&Message::Request(request));
        let asked = self.output.write_all(&frame).and_then(|()| self.output.flush());
        match asked {
            Ok(()) => self.read(),
            Err(error) => Err(self.broken(error.into()).into()),
        }
    }

    fn read(&mut self) -> Result<Reply, RequestError> {
        match read_message(&mut self.input) {
            Ok(Message::Reply(reply)) => Ok(reply),
            Ok(_) => Err(self.broken(refused("the peer sent what is no answer")).into()),
            Err(end) => Err(self.broken(end).into()),
        }
    }

    /// An answer that is no answer to what was asked.
    fn refuse(&mut self, reply: Reply) -> RequestError {
        match reply {
            Reply::Fault(fault) => fault.into(),
            _ => self.broken(refused("the peer answered another question")).into(),
        }
    }

    fn broken(&mut self, end: ReadEnd) -> JobError {
        match (end, self.closer.take()) {
            (ReadEnd::Refused(error), _) => error,
            (ReadEnd::Lost(_), Some(closer)) => {
                // The peer sees the end, and ends itself.
                self.output = Writer::new(io::sink(), None);
                self.input = BufReader::new(Box::new(io::empty()));
                closer.explain().into()
            }
            (ReadEnd::Lost(error), None) => {
                ConnectError::Lost { host: self.name.clone(), detail: error.to_string() }.into()
            }
        }
    }
}

/// Answers a client's request; an error is one of the output.
pub(crate) fn answer(request: Request, output: &mut impl Write) -> io::Result<()> {
    let reply = match request {
        Request::Stat { path, follow } => {
            stat(words::without_tilde(&path), follow).map(Reply::Entry)
        }
        Request::Hash { path } => hash(words::without_tilde(&path)).map(Reply::Hash),
        Request::List { path } => {
            let mut part = Vec::new();
            let listed = list(words::without_tilde(&path), &mut |listed| {
                part.push(listed);
                if part.len() < ENTRIES_PER_REPLY_MAX {
                    return Ok(());
                }
                tell(output, Reply::Entries(std::mem::take(&mut part)))
            });
            if !part.is_empty() {
                tell(output, Reply::Entries(part))?;
            }
            listed.map(|()| Reply::End)
        }
    };
    tell(output, reply.unwrap_or_else(Reply::Fault))?;
    output.flush()
}

fn tell(output: &mut impl Write, reply: Reply) -> io::Result<()> {
    output.write_all(&encode(&Message::Reply(reply)))
}

fn stat(path: &[u8], follow: bool) -> Result<Entry, Fault> {
    let split = words::split(path);
    let stat = haul_sys::path_stat(path_or_dot(path), follow);
    let meta: Meta = stat.map_err(|error| source("look at it", &error))?.into();
    let kind = meta
        .listed_kind(|| haul_sys::path_link(path_or_dot(path)))
        .map_err(|error| source("read the link", &error))?;
    let name = split.name.and_then(|name| Name::new(name).ok());
    let inode = meta.id.map_or(0, |id| id.ino);
    Ok(Entry { name, kind, mode: meta.mode, mtime: meta.mtime, inode, id: meta.id, leads_to: None })
}

/// The empty path, as in `host:`, is the working directory.
fn path_or_dot(path: &[u8]) -> &[u8] {
    if path.is_empty() { b"." } else { path }
}

fn open_dir(path: &[u8]) -> io::Result<LocalDir> {
    Ok(LocalDir::new(Dir::open(Path::new(OsStr::from_bytes(path)))?))
}

fn list(path: &[u8], each: &mut dyn FnMut(Listed) -> io::Result<()>) -> Result<(), Fault> {
    let dir = open_dir(path_or_dot(path)).map_err(|error| source("open the directory", &error))?;
    let entries = dir.entries().map_err(|error| source("read the directory", &error))?;
    for TreeEntry { name, .. } in entries {
        let looked = dir.stat(&name, false).and_then(|meta| {
            let Some(meta) = meta else { return Ok(None) };
            let kind = meta.listed_kind(|| dir.read_link(&name))?;
            let (mode, mtime, id) = (meta.mode, meta.mtime, meta.id);
            let inode = id.map_or(0, |id| id.ino);
            Ok(Some(Entry {
                name: Some(name.clone()),
                kind,
                mode,
                mtime,
                inode,
                id,
                leads_to: None,
            }))
        });
        let listed = match looked {
            Ok(Some(entry)) => Listed::Entry(entry),
            // It is gone since the directory was read: not there.
            Ok(None) => continue,
            Err(error) => Listed::Fault { name, fault: source("look at it", &error) },
        };
        each(listed).map_err(|error| source("tell about it", &error))?;
    }
    Ok(())
}

fn hash(path: &[u8]) -> Result<ContentHash, Fault> {
    let split = words::split(path);
    let Some(name) = split.name.filter(|_| !split.slash) else {
        return Err(Fault::new(Side::Source, FaultKind::IsDirectory, "it is a directory"));
    };
    let name = Name::new(name)
        .map_err(|error| Fault::new(Side::Source, FaultKind::TooLong, error.to_string()))?;
    let file = open_dir(split.parent)
        .and_then(|dir| dir.open_file(&name, true))
        .map_err(|error| source("open", &error))?;
    hash_of(&*file).map_err(|error| source("read", &error))
}

fn hash_of(file: &dyn SourceFile) -> io::Result<ContentHash> {
    let mut hasher = ContentHasher::new();
    let mut buffer = vec![0; HASH_READ_LEN];
    loop {
        let len = file.read_at(&mut buffer, hasher.len())?;
        if len == 0 {
            return Ok(hasher.finish());
        }
        hasher.update(&buffer[..len]);
    }
}

fn source(action: &str, error: &io::Error) -> Fault {
    Fault::from_io(Side::Source, action, error)
}

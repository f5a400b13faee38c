//! Answers to single requests about files of this machine.

use crate::control::{Control, CopyStep};
use crate::link::wire::{OutFrame, Outbox};
use crate::marker::{self, Held};
use crate::monitor::Silent;
use crate::{Rights, digest, parked};
use haul_model::{ContentHash, Entry, Fault, FaultKind, Kept, Name, Side, words};
use haul_proto::{Hashing, Listed, Message, Reply, Request};
use haul_sys::Dir;
use haul_tree::{LocalDir, Meta, TreeDir, TreeEntry, meta_of};
use std::io;
use std::time::{Duration, Instant};

/// The most entries in one part of a listing. With the longest names, link targets and messages,
/// the part fits into its frame.
const ENTRIES_PER_REPLY_MAX: usize = 32;

/// The shortest time between two progress reports for a hash.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Answers a request of a client with these rights. The error is that of the output. A requested
/// mark is stored in `held`.
pub(crate) fn answer(
    request: Request,
    output: &Outbox,
    held: &Held,
    rights: Rights,
) -> io::Result<()> {
    let reply = match request {
        Request::Marker { .. } if rights == Rights::Read => {
            let message = "can't create anything in it: this login is read-only";
            Err(Fault::new(Side::Destination, FaultKind::PermissionDenied, message))
        }
        Request::Marker { path, marker, both } => {
            marker::marker(words::without_tilde(&path), marker.as_ref(), both, held)
                .map(Reply::Marker)
        }
        Request::RemoveMarker => marker::remove_marker(held).map(|()| Reply::End),
        Request::Restore { .. } if rights == Rights::Read => Ok(Reply::Made(false)),
        Request::Restore { path } => {
            parked::restore_named(words::without_tilde(&path)).map(Reply::Made)
        }
        Request::Stat { path, follow } => {
            stat(words::without_tilde(&path), follow).map(Reply::Entry)
        }
        Request::Hash { path } => {
            let mut progress = Instant::now();
            hash(words::without_tilde(&path), &mut |hashing| {
                if hashing.done < hashing.size && progress.elapsed() >= PROGRESS_INTERVAL {
                    progress = Instant::now();
                    // If this fails, the answer fails too.
                    let _ = send_reply(output, Reply::Hashing(hashing));
                }
            })
            .map(Reply::Hash)
        }
        Request::Made { path, origin } => {
            Ok(Reply::Made(has_origin(words::without_tilde(&path), &origin)))
        }
        Request::List { path } => {
            let mut part = Vec::new();
            let listed = list_at(words::without_tilde(&path), &mut |listed| {
                part.push(listed);
                if part.len() < ENTRIES_PER_REPLY_MAX {
                    return Ok(());
                }
                send_reply(output, Reply::Entries(std::mem::take(&mut part)))
            });
            if !part.is_empty() {
                send_reply(output, Reply::Entries(part))?;
            }
            listed.map(|()| Reply::End)
        }
    };
    send_reply(output, reply.unwrap_or_else(Reply::Fault))
}

pub(super) fn has_origin(path: &[u8], origin: &[u8; 16]) -> bool {
    open_dir(path_or_dot(path)).is_ok_and(|dir| dir.has_origin(origin))
}

fn send_reply(output: &Outbox, reply: Reply) -> io::Result<()> {
    let frame = OutFrame::message(&Message::Reply(reply));
    output.send(frame).ok_or_else(|| io::ErrorKind::BrokenPipe.into())
}

pub(super) fn stat(path: &[u8], follow: bool) -> Result<Entry, Fault> {
    let name = words::split(path).name;
    let path = path_or_dot(path);
    haul_sys::path_stat(path, follow)
        .and_then(|stat| entry(name, meta_of(stat), || haul_sys::path_link(path)))
        .map_err(|error| source("read its metadata", &error))
}

/// The entry `name` for a reply. `target` reads the target of a link.
pub(super) fn entry(
    name: Option<&[u8]>,
    meta: Meta,
    target: impl FnOnce() -> io::Result<Vec<u8>>,
) -> io::Result<Entry> {
    let kind = meta.listed_kind(target)?;
    let name = name.and_then(|name| Name::new(name).ok());
    let Meta { attributes, id, special, .. } = meta;
    let inode = id.map_or(0, |id| id.ino);
    Ok(Entry { inode, id, special, ..Entry::new(name, kind, attributes.only(Kept::NONE)) })
}

/// An empty path, as in `host:`, means the working directory.
fn path_or_dot(path: &[u8]) -> &[u8] {
    if path.is_empty() { b"." } else { path }
}

fn open_dir(path: &[u8]) -> io::Result<LocalDir> {
    Ok(LocalDir::new(Dir::open_raw(path)?))
}

/// Lists the directory at `path`.
pub(super) fn list_at(
    path: &[u8],
    each: &mut dyn FnMut(Listed) -> io::Result<()>,
) -> Result<(), Fault> {
    let dir = open_dir(path_or_dot(path)).map_err(|error| source("open the directory", &error))?;
    list(&dir, each)
}

/// Lists `dir` in ascending order of the names' bytes.
pub(super) fn list(
    dir: &dyn TreeDir,
    each: &mut dyn FnMut(Listed) -> io::Result<()>,
) -> Result<(), Fault> {
    let entries = dir.entries().map_err(|error| source("read the directory", &error))?;
    for TreeEntry { name, meta, target, .. } in entries {
        let meta = meta.map_or_else(|| dir.stat(&name, false), |meta| Ok(Some(*meta)));
        let looked = meta.and_then(|meta| {
            let Some(meta) = meta else { return Ok(None) };
            let id = meta.id.filter(|_| dir.capabilities().has_object_ids);
            let target = || target.map_or_else(|| dir.read_link(&name), Ok);
            entry(Some(name.as_bytes()), Meta { id, ..meta }, target).map(Some)
        });
        let listed = match looked {
            Ok(Some(entry)) => Listed::Entry(entry),
            // It was removed since the directory was read.
            Ok(None) => continue,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => Listed::Fault { name, fault: source("read its metadata", &error) },
        };
        each(listed).map_err(|error| source("report it", &error))?;
    }
    Ok(())
}

/// Hashes the file at `path`, and reports the progress.
pub(super) fn hash(path: &[u8], progress: &mut dyn FnMut(Hashing)) -> Result<ContentHash, Fault> {
    let split = words::split(path);
    let Some(name) = split.name.filter(|_| !split.slash) else {
        // A slash after a file's name is reported as its own error.
        stat(path, true)?;
        return Err(is_dir());
    };
    let name = Name::new(name)
        .map_err(|error| Fault::new(Side::Source, FaultKind::TooLong, error.to_string()))?;
    let file = open_dir(split.parent)
        .and_then(|dir| dir.open_file(&name, true))
        .map_err(|error| source("open", &error))?;
    let mut hashing = Hashing { size: file.seal().size, ..Hashing::default() };
    let monitor = Silent::default();
    digest::hash(&*file, &mut Vec::new(), &Control::new(&monitor), &mut |step| {
        let (len, read) = match step {
            CopyStep::Passed(len) => (len, 0),
            CopyStep::Moved(len) | CopyStep::Matched(len) | CopyStep::Hashed(len) => (len, len),
        };
        hashing.done += len;
        hashing.read += read;
        progress(hashing);
    })
    .map_err(|fault| match fault.kind {
        FaultKind::Changed => shrank(),
        _ => fault,
    })
}

pub(super) fn shrank() -> Fault {
    Fault::new(Side::Source, FaultKind::Changed, "it shrank while it was hashed")
}

pub(super) fn is_dir() -> Fault {
    Fault::new(Side::Source, FaultKind::IsDirectory, "it is a directory")
}

pub(super) fn source(action: &str, error: &io::Error) -> Fault {
    Fault::from_io(Side::Source, action, error)
}

//! Requests to a host without haul. They are answered through its SFTP tree. Content is read from
//! the server and hashed here.

use super::RequestError;
use super::answer::{entry, is_dir, list, shrank, source};
use crate::JobError;
use haul_model::{ContentHash, Entry, Fault, FaultKind, Side, words};
use haul_net::Connection;
use haul_proto::{Hashing, Listed};
use haul_sftp::{FileType, OpenFlags, Options, Session, StartError};
use haul_tree::sftp::{SessionLoss, Sessions, SftpHost, SftpTree, meta_of, relative_to_home};
use std::io;
use std::sync::Arc;

/// A host's SFTP server.
pub(super) struct SftpPeer {
    /// `None` once it has ended.
    session: Option<Session>,
    host: Arc<SftpHost>,
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
        let lost = SessionLoss::new(connection.closer.peer());
        let session = Session::start(connection, Options::default())?;
        let sessions = Sessions::new(session.client().clone(), 0);
        let host = SftpHost::new(sessions, &lost, None, false, false);
        Ok(Self { session: Some(session), host })
    }

    /// An identifier of the directory at `path`, unique among all hosts.
    pub(super) fn place(&self, path: &[u8]) -> Option<Vec<u8>> {
        let real = self.host.io(self.host.client().real_path(relative_to_home(path))).ok()?;
        Some(self.host.place(&real))
    }

    pub(super) fn stat(&mut self, path: &[u8], follow: bool) -> Result<Entry, RequestError> {
        let (host, path) = (Arc::clone(&self.host), relative_to_home(path));
        let client = host.client();
        let attrs = if follow { client.stat(path) } else { client.lstat(path) };
        let target = || host.io(client.read_link(path)).map(<[u8]>::into_vec);
        let found = host
            .io(attrs)
            .and_then(|attrs| entry(words::split(path).name, meta_of(&attrs)?, target));
        self.answer(found.map_err(|error| source("read its metadata", &error)))
    }

    /// The session, if it is open.
    pub(super) fn into_session(self) -> Option<Session> {
        self.session.filter(Session::is_open)
    }

    pub(super) fn check_each(
        &mut self,
        paths: &[Vec<u8>],
    ) -> Result<Vec<Result<(), Fault>>, JobError> {
        let mut looked: Vec<_> = paths.iter().map(|_| Ok(())).collect();
        let path_of = |number: usize| relative_to_home(&paths[number]).to_vec();
        self.host.client().lstat_each(paths.len(), path_of, |number, attrs| {
            let attrs = self.host.io(attrs);
            looked[number] = attrs.map(drop).map_err(|error| source("read its metadata", &error));
            true
        });
        self.over().map_or(Ok(looked), Err)
    }

    pub(super) fn list(
        &mut self,
        path: &[u8],
        each: &mut dyn FnMut(Listed),
    ) -> Result<(), RequestError> {
        let dir = SftpTree::source(&self.host).unasked(path);
        let listed = list(&*dir, &mut |listed| {
            if self.host.lost.is_lost() {
                return Err(io::ErrorKind::NotConnected.into());
            }
            each(listed);
            Ok(())
        });
        self.answer(listed)
    }

    pub(super) fn hash(
        &mut self,
        path: &[u8],
        progress: &mut dyn FnMut(Hashing),
    ) -> Result<ContentHash, RequestError> {
        let hash = hash(&self.host, path, progress);
        self.answer(hash)
    }

    /// Returns `found`, or the reason why the session has ended.
    fn answer<T>(&mut self, found: Result<T, Fault>) -> Result<T, RequestError> {
        found.map_err(|fault| self.over().map_or_else(|| fault.into(), RequestError::from))
    }

    /// The reason why the session ended, if it has.
    fn over(&mut self) -> Option<JobError> {
        let lost = &self.host.lost;
        let end = lost.reason()?.clone();
        let host = lost.host().to_owned();
        Some(match self.session.take() {
            Some(session) => session.explain_end(host, end).into(),
            None => JobError::Sftp { host, cause: end },
        })
    }
}

/// Hashes the file at `path` of `host`, and reports the progress.
fn hash(
    host: &SftpHost,
    path: &[u8],
    progress: &mut dyn FnMut(Hashing),
) -> Result<ContentHash, Fault> {
    let split = words::split(path);
    if split.name.is_none() {
        return Err(is_dir());
    }
    let (client, path) = (host.client(), relative_to_home(path));
    let open = |error: io::Error| source("open", &error);
    // Opening a FIFO would block the server.
    let attrs = host.io(client.stat(path)).map_err(open)?;
    let refused = |kind, message| Err(Fault::new(Side::Source, kind, message));
    match attrs.file_type() {
        Some(FileType::File) | None if split.slash => {
            return refused(FaultKind::NotDirectory, "it is not a directory");
        }
        Some(FileType::File) | None => {}
        Some(FileType::Dir) => return Err(is_dir()),
        Some(FileType::Symlink | FileType::Special) => {
            return refused(FaultKind::Special, "can't open: it is not a regular file");
        }
    }
    let file = host.io(client.open(path, OpenFlags::Read, None)).map_err(open)?;
    let mut hashing = Hashing { size: attrs.size.unwrap_or(0), ..Hashing::default() };
    let hashed = file.hash(u64::MAX, &mut |len| {
        hashing.done += len;
        hashing.read += len;
        progress(hashing);
    });
    let hash = host.io(hashed).map_err(|error| source("read", &error))?;
    if hashing.done < hashing.size { Err(shrank()) } else { Ok(hash) }
}

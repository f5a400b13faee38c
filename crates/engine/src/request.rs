//! Single requests outside of jobs: stat, list, hash and measure. They are answered here, by a
//! peer, or through a host's SFTP server. The same functions answer here and at a peer.

mod answer;
mod measure;
mod peer;
pub(crate) mod sftp;

use self::answer::{has_origin, hash, list_at, stat};
use self::sftp::SftpPeer;
use crate::marker::{self, Held};
use crate::{JobError, parked};
pub(crate) use answer::answer;
use haul_model::{ContentHash, Entry, Fault, Name};
use haul_net::{Closer, Connection, HostAddresses};
use haul_proto::{Caps, Hashing, Listed, Marked, Measure, Measured, Reply, Request};
use haul_sftp::Session as SftpSession;
pub(crate) use measure::Measuring;
pub use measure::measure_directly;
pub use peer::Greeted;
pub(crate) use peer::Peer;
use std::path::Path;

/// The requests that a client may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Requests that change nothing.
    Read,
    /// All requests.
    Write,
}

/// Answers requests about the files of one machine.
pub struct Requests(Responder);

/// The answering side.
enum Responder {
    /// This process, with the mark that it was asked to make.
    Local(Held),
    /// haul on another machine.
    Agent(Peer),
    /// The SFTP server of another machine.
    Sftp(SftpPeer),
}

/// An entry of a directory. If it can't be inspected, its name and the reason.
pub type ListedEntry = Result<Entry, (Vec<u8>, Fault)>;

/// A connection on which requests were answered. A job can use it without another login.
pub enum OpenConnection {
    /// Connected to haul on the host.
    Agent(Greeted),
    /// Connected to the host's SFTP server.
    Sftp(SftpSession),
}

/// The reason why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The path can't be read. Other requests may succeed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The connection can't be used any more.
    #[error(transparent)]
    Job(#[from] JobError),
}

/// Asks an agent, and returns the part of the expected reply. Another reply is refused.
macro_rules! ask {
    ($peer:ident, $request:expr, $reply:pat => $answer:expr) => {
        match $peer.ask($request)? {
            $reply => Ok($answer),
            reply => Err($peer.refuse(reply)),
        }
    };
}

impl Requests {
    /// Requests about this machine.
    pub fn local() -> Self {
        Self(Responder::Local(Held::default()))
    }

    /// Requests to the agent at the other end of `session`.
    ///
    /// # Errors
    /// When the peer does not greet, or uses another version.
    pub fn remote(session: impl Into<Session>) -> Result<Self, JobError> {
        Peer::start(session.into(), None).map(|peer| Self(Responder::Agent(peer)))
    }

    /// The same, unless the user has `cancelled` before the peer greets. `cancelled` is called
    /// often.
    ///
    /// # Errors
    /// See [`Self::remote`], and [`JobError::Interrupted`].
    pub fn remote_unless(
        session: impl Into<Session>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, JobError> {
        let peer = Peer::start(session.into(), Some(cancelled));
        peer.map(|peer| Self(Responder::Agent(peer)))
    }

    /// Requests to the SFTP server at the other end of `connection`, on a host without haul. Times
    /// are in whole seconds from 1970 to 2106, there are no inodes, and files are read and hashed
    /// here.
    ///
    /// # Errors
    /// When there is no such server, or none of version 3.
    pub fn sftp(connection: Connection) -> Result<Self, JobError> {
        SftpPeer::start(connection).map(|peer| Self(Responder::Sftp(peer)))
    }

    /// True if requests are answered by this process.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.0, Responder::Local(_))
    }

    /// True if requests are answered by haul on another machine, which has greeted.
    pub fn is_agent(&self) -> bool {
        matches!(self.0, Responder::Agent(_))
    }

    /// The version of haul on the answering machine, safe to show; `None` if no other haul answers.
    pub fn version(&self) -> Option<&str> {
        match &self.0 {
            Responder::Agent(peer) => Some(&peer.version),
            Responder::Local(_) | Responder::Sftp(_) => None,
        }
    }

    /// The addresses of the answering host, looked up by its name.
    pub fn host_addresses(&self) -> HostAddresses {
        match &self.0 {
            Responder::Agent(peer) => peer.host_addresses(),
            Responder::Local(_) | Responder::Sftp(_) => HostAddresses::at(Vec::new()),
        }
    }

    /// Ends the requests. A connection is kept if that is wanted and the peer agrees.
    pub fn leave(self) {
        if let Responder::Agent(peer) = self.0 {
            peer.leave();
        }
    }

    /// The peer, if haul on another machine answers.
    pub(crate) fn agent(&mut self) -> Option<&mut Peer> {
        match &mut self.0 {
            Responder::Agent(peer) => Some(peer),
            Responder::Local(_) | Responder::Sftp(_) => None,
        }
    }

    /// The connection to the host, for a job. `None` for this machine, or if the connection can't
    /// be used any more.
    pub fn into_connection(self) -> Option<OpenConnection> {
        match self.0 {
            Responder::Local(_) => None,
            Responder::Agent(peer) => peer.into_greeted().map(OpenConnection::Agent),
            Responder::Sftp(peer) => peer.into_session().map(OpenConnection::Sftp),
        }
    }

    /// Checks whether an entry exists at each of `paths`, without following links. Returns the
    /// fault otherwise. The requests overlap.
    ///
    /// # Errors
    /// When the connection fails.
    pub(crate) fn check_each(
        &mut self,
        paths: &[Vec<u8>],
    ) -> Result<Vec<Result<(), Fault>>, JobError> {
        let peer = match &mut self.0 {
            Responder::Local(_) => {
                return Ok(paths.iter().map(|path| stat(path, false).map(drop)).collect());
            }
            Responder::Sftp(peer) => return peer.check_each(paths),
            Responder::Agent(peer) => peer,
        };
        let ask = |path: &Vec<u8>| Request::Stat { path: path.clone(), follow: false };
        peer.ask_each(paths.iter().map(ask), |peer, reply| match reply {
            Reply::Entry(_) => Ok(Ok(())),
            reply => match peer.refuse(reply) {
                RequestError::Fault(fault) => Ok(Err(fault)),
                RequestError::Job(error) => Err(error),
            },
        })
    }

    /// The entry at `path`. A symbolic link is followed if `follow` is set. The entry's name is the
    /// last component of the path; `None` if the path has none.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn stat(&mut self, path: &[u8], follow: bool) -> Result<Entry, RequestError> {
        match &mut self.0 {
            Responder::Local(_) => Ok(stat(path, follow)?),
            Responder::Sftp(peer) => peer.stat(path, follow),
            Responder::Agent(peer) => {
                ask!(peer, Request::Stat { path: path.to_vec(), follow }, Reply::Entry(it) => it)
            }
        }
    }

    /// Passes the entries of the directory at `path` to `each` as they arrive, in ascending order
    /// of their bytes. An entry that can't be read arrives as a fault with its name.
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
            Responder::Local(_) => {
                return Ok(list_at(path, &mut |listed| {
                    hand_on(listed);
                    Ok(())
                })?);
            }
            Responder::Sftp(peer) => return peer.list(path, &mut hand_on),
            Responder::Agent(peer) => peer,
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

    /// True if the directory at `path` was created by a job of `origin`; see
    /// [`crate::NamedDest::origin`]. For a host without haul, the record may be in the local directory
    /// `state`.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn has_origin(
        &mut self,
        path: &[u8],
        origin: [u8; 16],
        state: Option<&Path>,
    ) -> Result<bool, RequestError> {
        match &mut self.0 {
            Responder::Local(_) => Ok(has_origin(path, &origin)),
            Responder::Sftp(peer) => {
                if let Some((state, place)) = state.zip(peer.place(path))
                    && haul_store::has_origin(state, &place, &origin)
                {
                    return Ok(true);
                }
                let marker = haul_store::marker_name(&origin);
                match peer.stat(&haul_tree::sftp::join(path, marker.as_bytes()), false) {
                    Ok(_) => Ok(true),
                    Err(RequestError::Fault(_)) => Ok(false),
                    Err(error) => Err(error),
                }
            }
            Responder::Agent(peer) => {
                ask!(peer, Request::Made { path: path.to_vec(), origin }, Reply::Made(made) => made)
            }
        }
    }

    /// True if the directory at `path` shows `marker`, which was made elsewhere; see
    /// [`Request::Marker`]. [`Self::remove_marker`] removes a mark that was made there. An SFTP
    /// server is never asked to make one: the job that connects to it checks this itself.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub(crate) fn marker(
        &mut self,
        path: &[u8],
        marker: Option<&Name>,
        both: bool,
    ) -> Result<Marked, RequestError> {
        match &mut self.0 {
            Responder::Local(held) => Ok(marker::marker(path, marker, both, held)?),
            Responder::Sftp(peer) => {
                let Some(marker) = marker else { return Ok(Marked::Hidden) };
                let looked = peer.stat(&haul_tree::sftp::join(path, marker.as_bytes()), false);
                looked.map(|_| Marked::Shown)
            }
            Responder::Agent(peer) => {
                let (path, marker) = (path.to_vec(), marker.cloned());
                ask!(peer, Request::Marker { path, marker, both }, Reply::Marker(marked) => marked)
            }
        }
    }

    /// Removes the mark that was made for [`Self::marker`].
    ///
    /// # Errors
    /// See [`RequestError`].
    pub(crate) fn remove_marker(&mut self) -> Result<(), RequestError> {
        match &mut self.0 {
            Responder::Local(held) => Ok(marker::remove_marker(held)?),
            Responder::Sftp(_) => Ok(()),
            Responder::Agent(peer) => ask!(peer, Request::RemoveMarker, Reply::End => ()),
        }
    }

    /// Restores the name `path` of an entry that a killed move has set aside, if the name is free.
    /// Returns true if there was one. Through SFTP nothing is set aside.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn restore(&mut self, path: &[u8]) -> Result<bool, RequestError> {
        match &mut self.0 {
            Responder::Local(_) => Ok(parked::restore_named(path)?),
            Responder::Sftp(_) => Ok(false),
            Responder::Agent(peer) => {
                ask!(peer, Request::Restore { path: path.to_vec() }, Reply::Made(it) => it)
            }
        }
    }

    /// The BLAKE3 hash of the file at `path`, following links. `progress` is called with the
    /// progress.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn hash(
        &mut self,
        path: &[u8],
        progress: &mut dyn FnMut(Hashing),
    ) -> Result<ContentHash, RequestError> {
        let peer = match &mut self.0 {
            Responder::Local(_) => return Ok(hash(path, progress)?),
            Responder::Sftp(peer) => return peer.hash(path, progress),
            Responder::Agent(peer) => peer,
        };
        let mut reply = peer.ask(Request::Hash { path: path.to_vec() })?;
        loop {
            match reply {
                Reply::Hashing(hashing) => progress(hashing),
                Reply::Hash(hash) => return Ok(hash),
                reply => return Err(peer.refuse(reply)),
            }
            reply = peer.read()?;
        }
    }

    /// Performs a measurement. `None` if the answering side can't: this machine measures only
    /// itself, and haul on a host also the connection and its disks. Impossible figures are
    /// refused. The reason why a port can't be opened is the host's own text, and not escaped.
    ///
    /// # Errors
    /// When the connection fails, or the host breaks the protocol.
    pub fn measure(&mut self, asked: Measure) -> Result<Option<Measured>, JobError> {
        match &mut self.0 {
            Responder::Local(_) => Ok(measure::here(&asked)),
            Responder::Agent(peer) if peer.caps.has(Caps::MEASURES) => {
                measure::at(peer, asked).map(Some)
            }
            Responder::Agent(_) | Responder::Sftp(_) => Ok(None),
        }
    }
}

/// A connection to an agent.
pub enum Session {
    /// The agent has not greeted. It greets with its first answer, which saves a round trip.
    New(Connection),
    /// The agent has greeted, and answered all requests.
    Greeted(Greeted),
}

impl Session {
    pub(crate) fn closer(&self) -> &Closer {
        match self {
            Self::New(connection) => &connection.closer,
            Self::Greeted(greeted) => &greeted.closer,
        }
    }
}

impl From<Connection> for Session {
    fn from(connection: Connection) -> Self {
        Self::New(connection)
    }
}

impl From<Greeted> for Session {
    fn from(greeted: Greeted) -> Self {
        Self::Greeted(greeted)
    }
}

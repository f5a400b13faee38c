//! Single requests beside jobs: stat, list, hash and measure, here, at a peer, or
//! at a host that has an SFTP server alone. The same functions answer here and at a
//! peer.

mod answer;
mod measure;
mod peer;
mod session;
pub(crate) mod sftp;

pub(crate) use answer::answer;
pub(crate) use measure::Measuring;
pub use measure::measure_directly;
pub use peer::Greeted;
pub(crate) use peer::Peer;
pub use session::Session;

use self::answer::{hash, is_of_origin, list_at, stat};
use self::sftp::SftpPeer;
use crate::JobError;
use crate::aside;
use crate::mark::{self, Held};
use crate::origin;
use haul_model::{ContentHash, Entry, Fault, Name};
use haul_net::{Connection, Whereabouts};
use haul_proto::{Caps, Hashing, Listed, Marked, Measure, Measured, Reply, Request};
use haul_sftp::Session as SftpSession;
use std::path::Path;

/// The requests that a client may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Nothing that writes or removes.
    Read,
    /// Everything.
    Write,
}

/// Answers requests about one machine's files: this one's, or another's.
pub struct Requests(Answering);

/// Who answers.
enum Answering {
    /// This process, and what it was asked to mark.
    Here(Held),
    /// haul on another machine.
    Agent(Peer),
    /// The SFTP server of another machine.
    Sftp(SftpPeer),
}

/// An entry of a directory; or the name of one that can't be looked at, and why.
pub type ListedEntry = Result<Entry, (Vec<u8>, Fault)>;

/// The way to a host where requests were answered: a job goes on over it without another
/// login.
pub enum Standing {
    /// haul there has answered.
    Agent(Greeted),
    /// The SFTP server there has.
    Sftp(SftpSession),
}

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
        Self(Answering::Here(Held::default()))
    }

    /// Requests to the agent at the other end of `session`.
    ///
    /// # Errors
    /// When the peer does not greet, or speaks another version.
    pub fn remote(session: impl Into<Session>) -> Result<Self, JobError> {
        Peer::start(session.into(), None).map(|peer| Self(Answering::Agent(peer)))
    }

    /// The same, unless the user has `cancelled` before the peer greets, which is asked often.
    ///
    /// # Errors
    /// See [`Self::remote`], and [`JobError::Interrupted`].
    pub fn remote_unless(
        session: impl Into<Session>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, JobError> {
        let peer = Peer::start(session.into(), Some(cancelled));
        peer.map(|peer| Self(Answering::Agent(peer)))
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

    /// True if they are answered on this machine, without a peer.
    pub(crate) fn are_here(&self) -> bool {
        matches!(self.0, Answering::Here(_))
    }

    /// True if they are answered by the haul of another machine, which has greeted.
    pub fn are_at_agent(&self) -> bool {
        matches!(self.0, Answering::Agent(_))
    }

    /// The version of the haul that answers at another machine, safe to show; `None` where
    /// none does.
    pub fn version(&self) -> Option<&str> {
        match &self.0 {
            Answering::Agent(peer) => Some(peer.version()),
            Answering::Here(_) | Answering::Sftp(_) => None,
        }
    }

    /// Where the host of the haul that answers is, as its name says here.
    pub fn whereabouts(&self) -> Whereabouts {
        match &self.0 {
            Answering::Agent(peer) => peer.whereabouts(),
            Answering::Here(_) | Answering::Sftp(_) => Whereabouts::at(Vec::new()),
        }
    }

    /// Ends the conversation. A connection that is to be kept is, if the peer agrees.
    pub fn leave(self) {
        if let Answering::Agent(peer) = self.0 {
            peer.leave();
        }
    }

    /// The haul at the other end, if one answers.
    pub(crate) fn agent(&mut self) -> Option<&mut Peer> {
        match &mut self.0 {
            Answering::Agent(peer) => Some(peer),
            Answering::Here(_) | Answering::Sftp(_) => None,
        }
    }

    /// The way to the host, for a job; `None` if this machine has answered, or the
    /// connection is of no more use.
    pub fn into_standing(self) -> Option<Standing> {
        match self.0 {
            Answering::Here(_) => None,
            Answering::Agent(peer) => peer.into_greeted().map(Standing::Agent),
            Answering::Sftp(peer) => peer.into_session().map(Standing::Sftp),
        }
    }

    /// Sees what is at each of `paths`, links not followed; the reason where nothing can be
    /// seen. They are asked about at the same time.
    ///
    /// # Errors
    /// When the connection fails.
    pub(crate) fn look_at_each(
        &mut self,
        paths: &[Vec<u8>],
    ) -> Result<Vec<Result<(), Fault>>, JobError> {
        let peer = match &mut self.0 {
            Answering::Here(_) => {
                return Ok(paths.iter().map(|path| stat(path, false).map(drop)).collect());
            }
            Answering::Sftp(peer) => return peer.look_at_each(paths),
            Answering::Agent(peer) => peer,
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

    /// The entry at `path`; a symbolic link is followed if `follow` says so.
    /// The entry's name is the path's last component, or `None` if it has none.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn stat(&mut self, path: &[u8], follow: bool) -> Result<Entry, RequestError> {
        let peer = match &mut self.0 {
            Answering::Here(_) => return Ok(stat(path, follow)?),
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
            Answering::Here(_) => {
                return Ok(list_at(path, &mut |listed| {
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

    /// True if the directory at `path` was made by a job of `origin`; see
    /// [`crate::Job::origin`]. Of a host without haul that may be on record
    /// here, in the directory `state`.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn is_of_origin(
        &mut self,
        path: &[u8],
        origin: [u8; 16],
        state: Option<&Path>,
    ) -> Result<bool, RequestError> {
        let peer = match &mut self.0 {
            Answering::Here(_) => return Ok(is_of_origin(path, &origin)),
            Answering::Sftp(peer) => {
                if let Some((state, place)) = state.zip(peer.place(path))
                    && origin::has_record(state, &place, &origin)
                {
                    return Ok(true);
                }
                let mark = haul_store::mark_name(&origin);
                let looked = peer.stat(&haul_tree::sftp::join(path, mark.as_bytes()), false);
                return match looked {
                    Ok(_) => Ok(true),
                    Err(RequestError::Fault(_)) => Ok(false),
                    Err(error) => Err(error),
                };
            }
            Answering::Agent(peer) => peer,
        };
        match peer.ask(Request::Made { path: path.to_vec(), origin })? {
            Reply::Made(made) => Ok(made),
            reply => Err(peer.refuse(reply)),
        }
    }

    /// True if the directory at `path` shows `mark`, which was made elsewhere; see
    /// [`Request::Mark`]. What was made there goes with [`Self::unmark`]. An SFTP server
    /// is never asked to make something: the job that goes there does that.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub(crate) fn mark(
        &mut self,
        path: &[u8],
        mark: Option<&Name>,
        both: bool,
    ) -> Result<Marked, RequestError> {
        let peer = match &mut self.0 {
            Answering::Here(held) => return Ok(mark::mark(path, mark, both, held)?),
            Answering::Sftp(peer) => {
                let Some(mark) = mark else { return Ok(Marked::Hidden) };
                let looked = peer.stat(&haul_tree::sftp::join(path, mark.as_bytes()), false);
                return looked.map(|_| Marked::Shown);
            }
            Answering::Agent(peer) => peer,
        };
        let mark = mark.cloned();
        match peer.ask(Request::Mark { path: path.to_vec(), mark, both })? {
            Reply::Mark(marked) => Ok(marked),
            reply => Err(peer.refuse(reply)),
        }
    }

    /// Has what was made for [`Self::mark`] removed.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub(crate) fn unmark(&mut self) -> Result<(), RequestError> {
        let peer = match &mut self.0 {
            Answering::Here(held) => return Ok(mark::unmark(held)?),
            Answering::Sftp(_) => return Ok(()),
            Answering::Agent(peer) => peer,
        };
        match peer.ask(Request::Unmark)? {
            Reply::End => Ok(()),
            reply => Err(peer.refuse(reply)),
        }
    }

    /// Has what a killed move has set aside that had this path get its name back, if
    /// nothing else has that; tells whether there was something. Through SFTP nothing is
    /// set aside.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn restore(&mut self, path: &[u8]) -> Result<bool, RequestError> {
        let peer = match &mut self.0 {
            Answering::Here(_) => return Ok(aside::restore_named(path)?),
            Answering::Sftp(_) => return Ok(false),
            Answering::Agent(peer) => peer,
        };
        match peer.ask(Request::Restore { path: path.to_vec() })? {
            Reply::Made(restored) => Ok(restored),
            reply => Err(peer.refuse(reply)),
        }
    }

    /// The BLAKE3 hash of the file at `path`, links followed. How far it is on the way is
    /// `told`.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn hash(
        &mut self,
        path: &[u8],
        told: &mut dyn FnMut(Hashing),
    ) -> Result<ContentHash, RequestError> {
        let peer = match &mut self.0 {
            Answering::Here(_) => return Ok(hash(path, told)?),
            Answering::Sftp(peer) => return peer.hash(path, told),
            Answering::Agent(peer) => peer,
        };
        let mut reply = peer.ask(Request::Hash { path: path.to_vec() })?;
        loop {
            match reply {
                Reply::Hashing(hashing) => told(hashing),
                Reply::Hash(hash) => return Ok(hash),
                reply => return Err(peer.refuse(reply)),
            }
            reply = peer.read()?;
        }
    }

    /// Measures what is `asked`; `None` where whoever answers can't: a machine measures itself,
    /// and a haul besides the connection to it and its disks. Figures that can't be true are
    /// refused. The reason why a port can't be opened is the host's own text, and is not
    /// escaped.
    ///
    /// # Errors
    /// When the connection fails, or the host breaks the rules.
    pub fn measure(&mut self, asked: Measure) -> Result<Option<Measured>, JobError> {
        match &mut self.0 {
            Answering::Here(_) => Ok(measure::here(&asked)),
            Answering::Agent(peer) if peer.caps().has(Caps::MEASURES) => {
                measure::at(peer, asked).map(Some)
            }
            Answering::Agent(_) | Answering::Sftp(_) => Ok(None),
        }
    }
}

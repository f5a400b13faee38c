//! A file of a host in more sessions than one.

use super::SftpHost;
use super::attrs::seal_of;
use crate::Seal;
use crate::beside::each_beside;
use haul_sftp::{Attrs, OpenFlags, Opening, RemoteFile, SftpError};
use std::io;

/// A file of the host in a session other than the first: it is opened there when
/// the session has joined, and nobody waits for either.
pub(super) struct Branch {
    session: usize,
    state: State,
}

enum State {
    /// For the session, or for somebody who wants the file there.
    Waits,
    Opening(Opening),
    Open(RemoteFile),
    /// It can't be opened there, or is not wanted any more.
    Gone,
}

impl Branch {
    /// One for each session but the first.
    pub(super) fn all(host: &SftpHost) -> impl Iterator<Item = Self> {
        (1..host.sessions().max()).map(|session| Self { session, state: State::Waits })
    }

    /// The file in this session, if it is open by now. The first time that it could be,
    /// it is asked for. It has to be a file. If the server refuses it in this session, or
    /// shows another `seal` there, because the file grows or is another, it is read or
    /// written in the other sessions alone.
    pub(super) fn file(
        &mut self,
        host: &SftpHost,
        path: &[u8],
        flags: OpenFlags,
        seal: Option<Seal>,
    ) -> io::Result<Option<&RemoteFile>> {
        self.ask(host, path, flags);
        if let State::Opening(opening) = &mut self.state
            && let Some(opened) = opening.poll()
        {
            self.take(host, opened, seal)?;
        }
        Ok(self.open())
    }

    /// Asks for the file if the session has joined, and nobody has asked before.
    pub(super) fn ask(&mut self, host: &SftpHost, path: &[u8], flags: OpenFlags) {
        if matches!(self.state, State::Waits)
            && let Some(client) = host.sessions().joined().nth(self.session)
        {
            self.state = State::Opening(client.open_later(path, flags));
        }
    }

    /// The file, if it is known to be open.
    pub(super) fn open(&self) -> Option<&RemoteFile> {
        match &self.state {
            State::Open(file) => Some(file),
            _ => None,
        }
    }

    /// Waits for the file, if it was asked for.
    ///
    /// # Errors
    /// See [`Self::file`].
    pub(super) fn wait(&mut self, host: &SftpHost, seal: Option<Seal>) -> io::Result<()> {
        match std::mem::replace(&mut self.state, State::Gone) {
            State::Opening(opening) => self.take(host, opening.wait(), seal),
            state => {
                self.state = state;
                Ok(())
            }
        }
    }

    fn take(
        &mut self,
        host: &SftpHost,
        opened: Result<(RemoteFile, Attrs), SftpError>,
        seal: Option<Seal>,
    ) -> io::Result<()> {
        self.state = State::Gone;
        let (file, found) = match opened {
            Err(error) if error.session().is_none() => {
                tracing::debug!(%error, "a session is done without");
                return Ok(());
            }
            opened => host.io(opened)?,
        };
        // Writing follows a link: nothing may stand in the file's place.
        let there = seal_of(&found)?;
        if seal.is_some_and(|seal| seal != there) {
            return Ok(());
        }
        self.state = State::Open(file);
        Ok(())
    }

    /// The file, if it was ever asked for; it won't be any more.
    pub(super) fn last(&mut self) -> Option<RemoteFile> {
        match std::mem::replace(&mut self.state, State::Gone) {
            // Nothing went this way yet: if it leads nowhere, nothing is lost.
            State::Opening(opening) => opening.wait().ok().map(|(file, _)| file),
            State::Open(file) => Some(file),
            State::Waits | State::Gone => None,
        }
    }

    /// True if the file may still be opened here.
    pub(super) fn is_coming(&self, host: &SftpHost) -> bool {
        match self.state {
            State::Waits => host.sessions().are_coming(),
            State::Opening(_) => true,
            State::Open(_) | State::Gone => false,
        }
    }
}

/// Asks about one file in each session where it is open, at the same time.
pub(super) fn in_each<T: Send>(
    first: RemoteFile,
    others: Vec<RemoteFile>,
    ask: impl Fn(RemoteFile) -> Result<T, SftpError> + Sync,
) -> Result<Vec<T>, SftpError> {
    let files = std::iter::once(first).chain(others).collect();
    each_beside(files, ask).into_iter().collect()
}

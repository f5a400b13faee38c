//! One caller, until it is known or has failed.

use crate::PublicKey;
use crate::duplex::Established;
use rustix::event::PollFlags;
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

/// The most bytes that a caller may send before it is known. A handshake has less than 2 KiB;
/// what a client sends at once behind it fits, too.
const RECEIVED_MAX: usize = 24 << 10;

/// Bytes that are read at once.
const READ_LEN: usize = 4 << 10;

/// The state of a handshake after a step.
pub(super) enum Progress {
    /// It needs more from the other side.
    Waits,
    /// The caller has this key.
    Done(PublicKey),
    /// There is nothing left to do.
    Failed,
}

/// A caller that is not known yet.
pub(super) struct Handshake {
    socket: TcpStream,
    tls: ServerConnection,
    pub(super) from: SocketAddr,
    pub(super) since: Instant,
    /// The caller has sent a greeting of TLS that was answered.
    pub(super) has_greeted: bool,
    /// Bytes that have come.
    received: usize,
    /// It has failed, and the caller was told. Until the caller has left, what it sends is
    /// thrown away: a socket that is closed with something unread takes the last words back.
    has_failed: bool,
}

impl Handshake {
    /// Begins with a caller.
    ///
    /// # Errors
    /// Those of `fcntl`.
    pub(super) fn begin(
        socket: TcpStream,
        from: SocketAddr,
        config: &Arc<ServerConfig>,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let tls = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        let (since, has_greeted, has_failed) = (Instant::now(), false, false);
        Ok(Self { socket, tls, from, since, has_greeted, received: 0, has_failed })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The events of its socket that it waits for.
    pub(super) fn awaits(&self) -> PollFlags {
        match self.tls.wants_write() && !self.has_failed {
            true => PollFlags::IN | PollFlags::OUT,
            false => PollFlags::IN,
        }
    }

    /// Goes on as far as that is possible without waiting.
    pub(super) fn proceed(&mut self) -> Progress {
        self.step().unwrap_or(Progress::Failed)
    }

    fn step(&mut self) -> io::Result<Progress> {
        let mut bytes = [0; READ_LEN];
        loop {
            let len = match (&self.socket).read(&mut bytes) {
                Ok(0) => return Ok(Progress::Failed),
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.send()?;
                    return Ok(Progress::Waits);
                }
                Err(error) => return Err(error),
            };
            self.received += len;
            if self.received > RECEIVED_MAX {
                return Ok(Progress::Failed);
            }
            if self.has_failed {
                continue;
            }
            if let Err(error) = self.take(&bytes[..len]) {
                tracing::debug!(%error, from = %self.from, "a caller is not let in");
                self.has_failed = true;
                self.has_greeted = false;
                // What is not sent at once is not sent.
                self.send()?;
                self.socket.shutdown(Shutdown::Write)?;
            } else if self.tls.is_handshaking() {
                self.has_greeted |= self.tls.wants_write();
            } else {
                self.send()?;
                let keys = self.tls.peer_certificates();
                let key = keys.and_then(|keys| PublicKey::of_structure(keys.first()?));
                return Ok(key.map_or(Progress::Failed, Progress::Done));
            }
        }
    }

    /// Takes what has come, all of it.
    fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.tls.read_tls(&mut bytes)?;
            self.tls.process_new_packets().map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                written => drop(written?),
            }
        }
        Ok(())
    }

    /// Where the caller is, and the connection with it.
    pub(super) fn established(self) -> (SocketAddr, Established) {
        let Self { socket, tls, from, .. } = self;
        (from, Established { tls: tls.into(), socket, early: Vec::new() })
    }
}

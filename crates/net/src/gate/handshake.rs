//! One caller, until it is known, has failed, or is forwarded to the job that it names.

use crate::PublicKey;
use crate::doorway::{Forwarder, GREETING_MAX};
use crate::duplex::Established;
use rustix::event::PollFlags;
use rustls::server::Acceptor;
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

/// The most bytes that a caller may send before it is known. A handshake has less than 2 KiB;
/// what a client sends at once behind it fits, too.
const RECEIVED_MAX: usize = GREETING_MAX;

/// Bytes that are read at once.
const READ_LEN: usize = 4 << 10;

/// The state of a handshake after a step.
pub(super) enum Progress {
    /// It needs more from the other side.
    Waits,
    /// The caller has this key.
    Done(PublicKey),
    /// A job has it now.
    Forwarded,
    /// There is nothing left to do.
    Failed,
}

/// Finds the job whose callers name a label.
pub(super) type JobOf<'g> = dyn Fn(&str) -> Option<Arc<Forwarder>> + 'g;

/// The state of TLS.
enum Tls {
    /// The greeting has not come as a whole. So much of it has.
    Greets(Box<Acceptor>, Vec<u8>),
    Answers(Box<ServerConnection>),
    /// It has failed, and the caller was told. Until the caller has left, what it sends is
    /// thrown away: a socket that is closed with something unread takes the last words back.
    Failed,
}

/// A caller that is not known yet.
pub(super) struct Handshake {
    socket: TcpStream,
    tls: Tls,
    config: Arc<ServerConfig>,
    pub(super) from: SocketAddr,
    pub(super) since: Instant,
    /// The caller has sent a greeting of TLS that was answered.
    pub(super) has_greeted: bool,
    /// Bytes that have come.
    received: usize,
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
        let tls = Tls::Greets(Box::default(), Vec::new());
        let (config, since) = (Arc::clone(config), Instant::now());
        Ok(Self { socket, tls, config, from, since, has_greeted: false, received: 0 })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The events of its socket that it waits for.
    pub(super) fn awaits(&self) -> PollFlags {
        match &self.tls {
            Tls::Answers(tls) if tls.wants_write() => PollFlags::IN | PollFlags::OUT,
            _ => PollFlags::IN,
        }
    }

    /// Goes on as far as that is possible without waiting.
    pub(super) fn proceed(&mut self, job_of: &JobOf<'_>) -> Progress {
        self.step(job_of).unwrap_or(Progress::Failed)
    }

    fn step(&mut self, job_of: &JobOf<'_>) -> io::Result<Progress> {
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
            match self.take(&bytes[..len], job_of) {
                Ok(Progress::Waits) => {}
                Ok(progress) => return Ok(progress),
                Err(error) => {
                    tracing::debug!(%error, from = %self.from, "a caller is not let in");
                    self.has_greeted = false;
                    // What is not sent at once is not sent.
                    self.send()?;
                    self.tls = Tls::Failed;
                    self.socket.shutdown(Shutdown::Write)?;
                }
            }
        }
    }

    /// Takes what has come, all of it.
    fn take(&mut self, bytes: &[u8], job_of: &JobOf<'_>) -> io::Result<Progress> {
        match &mut self.tls {
            Tls::Failed => Ok(Progress::Waits),
            Tls::Greets(acceptor, greeting) => {
                greeting.extend_from_slice(bytes);
                let mut bytes = bytes;
                while !bytes.is_empty() {
                    if acceptor.read_tls(&mut bytes)? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                self.greet(job_of)
            }
            Tls::Answers(tls) => {
                let mut bytes = bytes;
                while !bytes.is_empty() {
                    // Behind an end nothing is taken any more.
                    if tls.read_tls(&mut bytes)? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    tls.process_new_packets().map_err(io::Error::other)?;
                }
                self.answer()
            }
        }
    }

    /// Forwards the caller, or begins to answer it, if its greeting has come.
    fn greet(&mut self, job_of: &JobOf<'_>) -> io::Result<Progress> {
        let Tls::Greets(acceptor, greeting) = &mut self.tls else { return Ok(Progress::Waits) };
        // What is wrong is told to the other side, as to any other caller.
        let alerted = |(error, mut alert): (rustls::Error, rustls::server::AcceptedAlert)| {
            let _ = alert.write(&mut &self.socket);
            io::Error::other(error)
        };
        let Some(accepted) = acceptor.accept().map_err(alerted)? else {
            return Ok(Progress::Waits);
        };
        let job = accepted.client_hello().server_name().and_then(job_of);
        if let Some(job) = job {
            job.forward(&self.socket, self.from.ip(), greeting)?;
            return Ok(Progress::Forwarded);
        }
        let tls = accepted.into_connection(Arc::clone(&self.config)).map_err(alerted)?;
        self.tls = Tls::Answers(Box::new(tls));
        self.answer()
    }

    /// Sends what there is to send, and looks whether the handshake is done.
    fn answer(&mut self) -> io::Result<Progress> {
        let Tls::Answers(tls) = &mut self.tls else { return Ok(Progress::Waits) };
        if tls.is_handshaking() {
            self.has_greeted |= tls.wants_write();
            return Ok(Progress::Waits);
        }
        let key = tls.peer_certificates();
        let key = key.and_then(|keys| PublicKey::of_structure(keys.first()?));
        self.send()?;
        Ok(key.map_or(Progress::Failed, Progress::Done))
    }

    fn send(&mut self) -> io::Result<()> {
        let Tls::Answers(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            match tls.write_tls(&mut self.socket) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                written => drop(written?),
            }
        }
        Ok(())
    }

    /// Where the caller is, and the connection with it, whose handshake is done.
    pub(super) fn established(self) -> Option<(SocketAddr, Established)> {
        let Self { socket, tls: Tls::Answers(tls), from, .. } = self else { return None };
        let tls = rustls::Connection::Server(*tls);
        Some((from, Established { tls, socket, early: Vec::new() }))
    }
}

//! The handshake of one caller, until it is known, has failed, or is forwarded to a job.

use crate::PublicKey;
use crate::duplex::Established;
use crate::listen_target::{Forwarder, GREETING_MAX};
use rustix::event::PollFlags;
use rustls::server::Acceptor;
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

/// Most bytes that a caller may send before it is known. A handshake has less than 2 KiB. There is
/// room for the data that a client sends right after it.
const RECEIVED_MAX: usize = GREETING_MAX;

/// Bytes per read.
const READ_LEN: usize = 4 << 10;

/// The state of a handshake after a step.
pub(super) enum Progress {
    /// The caller must send more.
    Pending,
    /// The caller has proved to hold this key.
    Done(PublicKey),
    /// The caller was passed to a job.
    Forwarded,
    /// The caller can be dropped.
    Failed,
}

/// Finds the job that has a label.
pub(super) type FindJob<'g> = dyn Fn(&str) -> Option<Arc<Forwarder>> + 'g;

/// The state of TLS.
enum Tls {
    /// Waits for the rest of the greeting. Holds the bytes received so far.
    AwaitingHello(Box<Acceptor>, Vec<u8>),
    Handshaking(Box<ServerConnection>),
    /// The handshake has failed, and the caller got an alert. Input is discarded until the caller
    /// has left: closing a socket that has unread data would discard the alert.
    Failed,
}

/// A caller that is not known yet.
pub(super) struct Handshake {
    socket: TcpStream,
    tls: Tls,
    config: Arc<ServerConfig>,
    pub(super) from: SocketAddr,
    pub(super) since: Instant,
    /// The caller has sent a TLS greeting, which was answered.
    pub(super) has_greeted: bool,
    /// Bytes received.
    received: usize,
}

impl Handshake {
    /// # Errors
    /// Errors of `fcntl`.
    pub(super) fn begin(
        socket: TcpStream,
        from: SocketAddr,
        config: &Arc<ServerConfig>,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let tls = Tls::AwaitingHello(Box::default(), Vec::new());
        let (config, since) = (Arc::clone(config), Instant::now());
        Ok(Self { socket, tls, config, from, since, has_greeted: false, received: 0 })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The events to poll its socket for.
    pub(super) fn interest(&self) -> PollFlags {
        match &self.tls {
            Tls::Handshaking(tls) if tls.wants_write() => PollFlags::IN | PollFlags::OUT,
            _ => PollFlags::IN,
        }
    }

    /// Proceeds as far as possible without waiting.
    pub(super) fn proceed(&mut self, find_job: &FindJob<'_>) -> Progress {
        self.step(find_job).unwrap_or(Progress::Failed)
    }

    fn step(&mut self, find_job: &FindJob<'_>) -> io::Result<Progress> {
        let mut bytes = [0; READ_LEN];
        loop {
            let len = match (&self.socket).read(&mut bytes) {
                Ok(0) => return Ok(Progress::Failed),
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.send()?;
                    return Ok(Progress::Pending);
                }
                Err(error) => return Err(error),
            };
            self.received += len;
            if self.received > RECEIVED_MAX {
                return Ok(Progress::Failed);
            }
            match self.take(&bytes[..len], find_job) {
                Ok(Progress::Pending) => {}
                Ok(progress) => return Ok(progress),
                Err(error) => {
                    tracing::debug!(%error, from = %self.from, "refused a caller");
                    self.has_greeted = false;
                    // Data that can't be sent at once is not sent.
                    self.send()?;
                    self.tls = Tls::Failed;
                    self.socket.shutdown(Shutdown::Write)?;
                }
            }
        }
    }

    /// Processes all of `bytes`.
    fn take(&mut self, bytes: &[u8], find_job: &FindJob<'_>) -> io::Result<Progress> {
        match &mut self.tls {
            Tls::Failed => Ok(Progress::Pending),
            Tls::AwaitingHello(acceptor, greeting) => {
                greeting.extend_from_slice(bytes);
                let mut bytes = bytes;
                while !bytes.is_empty() {
                    if acceptor.read_tls(&mut bytes)? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                self.handle_hello(find_job)
            }
            Tls::Handshaking(tls) => {
                let mut bytes = bytes;
                while !bytes.is_empty() {
                    // After a close_notify alert, no more data is taken.
                    if tls.read_tls(&mut bytes)? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    tls.process_new_packets().map_err(io::Error::other)?;
                }
                self.continue_handshake()
            }
        }
    }

    /// Once the greeting is complete, forwards the caller to a job or starts the handshake.
    fn handle_hello(&mut self, find_job: &FindJob<'_>) -> io::Result<Progress> {
        let Tls::AwaitingHello(acceptor, greeting) = &mut self.tls else {
            return Ok(Progress::Pending);
        };
        // An invalid greeting gets an alert, as any other caller does.
        let alerted = |(error, mut alert): (rustls::Error, rustls::server::AcceptedAlert)| {
            let _ = alert.write(&mut &self.socket);
            io::Error::other(error)
        };
        let Some(accepted) = acceptor.accept().map_err(alerted)? else {
            return Ok(Progress::Pending);
        };
        let job = accepted.client_hello().server_name().and_then(find_job);
        if let Some(job) = job {
            job.forward(&self.socket, self.from.ip(), greeting)?;
            return Ok(Progress::Forwarded);
        }
        let tls = accepted.into_connection(Arc::clone(&self.config)).map_err(alerted)?;
        self.tls = Tls::Handshaking(Box::new(tls));
        self.continue_handshake()
    }

    /// Sends pending data and checks whether the handshake is complete.
    fn continue_handshake(&mut self) -> io::Result<Progress> {
        let Tls::Handshaking(tls) = &mut self.tls else { return Ok(Progress::Pending) };
        if tls.is_handshaking() {
            self.has_greeted |= tls.wants_write();
            return Ok(Progress::Pending);
        }
        let key = tls.peer_certificates();
        let key = key.and_then(|keys| PublicKey::from_der(keys.first()?));
        self.send()?;
        Ok(key.map_or(Progress::Failed, Progress::Done))
    }

    fn send(&mut self) -> io::Result<()> {
        let Tls::Handshaking(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            match tls.write_tls(&mut self.socket) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                written => drop(written?),
            }
        }
        Ok(())
    }

    /// The caller's address and its connection, once the handshake is complete.
    pub(super) fn established(self) -> Option<(SocketAddr, Established)> {
        let Self { socket, tls: Tls::Handshaking(tls), from, .. } = self else { return None };
        let tls = rustls::Connection::Server(*tls);
        Some((from, Established { tls, socket, received: Vec::new() }))
    }
}

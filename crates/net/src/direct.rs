//! Direct connections past ssh: TLS 1.3 over TCP, between two sides that have exchanged public keys
//! over ssh. Each side makes a key for one job and accepts only the key that it was given (raw
//! public keys, RFC 7250). No authority, name or clock is involved, no session is resumed, and
//! nothing is sent in clear.

use crate::connection::Writer;
use crate::duplex::Established;
use crate::listen_target::Forwarded;
use crate::tls::{accept_only, client_config, server_config, tls_error};
use crate::{Identity, Killer, PublicKey};
use haul_sys::wait_ready;
use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, FdFlags};
use rustix::net::{self, AddressFamily, SocketType};
use rustls::pki_types::ServerName;
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::{Connection, ServerConfig};
use std::io::{self, BufReader, PipeReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Most encrypted bytes per write. Small enough that the allocator reuses the memory instead of
/// returning it to the system each time.
pub(crate) const WRITTEN_MAX: usize = 64 << 10;

/// Limit of unsent bytes in a socket. Enough to keep it from running empty, and few enough that
/// other lanes can take the rest if this one is slow.
#[cfg(target_os = "linux")]
const UNSENT_MAX: u32 = 64 << 10;

/// Bytes per read, before decryption.
pub(crate) const READ_LEN: usize = 128 << 10;

/// Timeout of a handshake.
pub(crate) const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

/// How often `should_continue` is checked while waiting for the other side.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A port that is open for one client.
pub struct DirectListener {
    callers: Callers,
    address: SocketAddr,
    key: PublicKey,
    config: Arc<ServerConfig>,
}

/// The source of callers.
#[derive(Debug)]
enum Callers {
    Port(TcpListener),
    Server(Forwarded),
}

impl DirectListener {
    /// Listens at `ip`, on a port of the range or on any, for the caller with the key `client`.
    ///
    /// # Errors
    /// When no port is available there.
    pub fn bind(
        ip: IpAddr,
        ports: Option<(u16, u16)>,
        identity: &Identity,
        client: [u8; 32],
    ) -> io::Result<Self> {
        let socket = match ports {
            None => TcpListener::bind((ip, 0)),
            Some((first, last)) => bind_one(ip, first, last),
        }?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Self::new(Callers::Port(socket), address, identity, client)
    }

    /// Accepts callers that a server forwards.
    ///
    /// # Errors
    /// None that is known.
    pub(crate) fn forwarded(
        forwarded: &Forwarded,
        identity: &Identity,
        client: [u8; 32],
    ) -> io::Result<Self> {
        let callers = Callers::Server(forwarded.clone());
        Self::new(callers, forwarded.address, identity, client)
    }

    fn new(
        callers: Callers,
        address: SocketAddr,
        identity: &Identity,
        client: [u8; 32],
    ) -> io::Result<Self> {
        let resolver = Arc::new(AlwaysResolvesServerRawPublicKeys::new(identity.certified()));
        let config = Arc::new(server_config(resolver, accept_only(PublicKey::new(client)))?);
        Ok(Self { callers, address, key: identity.key(), config })
    }

    /// The address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The key that callers must expect and name in their greeting.
    pub fn key(&self) -> [u8; 32] {
        *self.key.as_bytes()
    }

    /// Waits for a caller, up to `timeout` or until the pipe `ended` is closed.
    ///
    /// # Errors
    /// Errors of `poll` and `accept`.
    pub fn accept_within(
        &self,
        timeout: Duration,
        ended: Option<&PipeReader>,
    ) -> io::Result<Option<DirectCaller>> {
        let fd = match &self.callers {
            Callers::Port(socket) => socket.as_fd(),
            Callers::Server(forwarded) => forwarded.socket().as_fd(),
        };
        let fds = [Some(fd), ended.map(AsFd::as_fd)].into_iter().flatten();
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        if !wait_ready(&mut fds, Some(timeout))? {
            return Ok(None);
        }
        let accepted = match &self.callers {
            Callers::Port(socket) => {
                socket.accept().map(|(socket, from)| (socket, from.ip(), Vec::new()))
            }
            Callers::Server(forwarded) => forwarded.take(),
        };
        match accepted {
            Ok((socket, from, received)) => {
                let (config, has_greeted) = (Arc::clone(&self.config), Arc::default());
                Ok(Some(DirectCaller { socket, from, received, has_greeted, config }))
            }
            // The caller has left, or its connection failed.
            Err(error) if is_caller_error(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn bind_one(ip: IpAddr, first: u16, last: u16) -> io::Result<TcpListener> {
    let mut last_error = io::Error::from(io::ErrorKind::InvalidInput);
    for port in first..=last {
        match TcpListener::bind((ip, port)) {
            Ok(bound) => return Ok(bound),
            Err(error) => last_error = error,
        }
    }
    let ports = match first == last {
        true => format!("can't listen on port {first}"),
        false => format!("can't listen on any port from {first} to {last}"),
    };
    Err(io::Error::new(last_error.kind(), format!("{ports}: {}", last_error.kind())))
}

pub(crate) fn is_caller_error(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(
        error.kind(),
        E::WouldBlock | E::ConnectionAborted | E::ConnectionReset | E::Interrupted
    )
}

/// A caller that is not identified yet.
#[derive(Debug)]
pub struct DirectCaller {
    socket: TcpStream,
    from: IpAddr,
    /// Bytes that were already read from the socket.
    received: Vec<u8>,
    has_greeted: Arc<AtomicBool>,
    config: Arc<ServerConfig>,
}

impl DirectCaller {
    /// The caller's address.
    pub fn from(&self) -> IpAddr {
        self.from
    }

    /// Set once the caller has sent a TLS greeting that could be answered.
    pub fn has_greeted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_greeted)
    }

    /// A killer that closes the connection from another thread.
    ///
    /// # Errors
    /// When the descriptor can't be duplicated.
    pub fn killer(&self) -> io::Result<Killer> {
        Killer::from_socket(&self.socket)
    }

    /// Does the handshake, within five seconds and while `should_continue` returns true.
    ///
    /// # Errors
    /// When the key is wrong, the time is over, or the caller leaves.
    pub fn identify(self, should_continue: &dyn Fn() -> bool) -> io::Result<Direct> {
        let mut tls = rustls::ServerConnection::new(self.config).map_err(io::Error::other)?;
        let mut received = &*self.received;
        while !received.is_empty() {
            if tls.read_tls(&mut received)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            tls.process_new_packets().map_err(tls_error)?;
        }
        self.has_greeted.store(tls.wants_write(), Ordering::Relaxed);
        Direct::begin(self.socket, tls.into(), should_continue, &self.has_greeted)
    }
}

/// Makes writes block once the socket holds [`UNSENT_MAX`] unsent bytes. If the system refuses,
/// only speed suffers.
fn limit_unsent(socket: &TcpStream) {
    #[cfg(target_os = "linux")]
    if let Err(error) = socket2::SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_MAX) {
        tracing::debug!(%error, "the socket takes what it likes");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
}

/// Makes a connection blocking, with small buffers.
pub(crate) fn prepare(socket: &TcpStream, tls: &mut Connection) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    limit_unsent(socket);
    tls.set_buffer_limit(Some(WRITTEN_MAX));
    Ok(())
}

/// True if no data has arrived yet.
fn would_block(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(error.kind(), E::WouldBlock | E::TimedOut | E::Interrupted)
}

/// Connects to `address` within `timeout`, while `should_continue` returns true.
fn connect_tcp(
    address: SocketAddr,
    timeout: Duration,
    should_continue: &dyn Fn() -> bool,
) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = net::socket(family, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    match net::connect(&socket, &address) {
        Ok(()) => return Ok(socket.into()),
        Err(Errno::INPROGRESS | Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let deadline = Instant::now() + timeout;
    while should_continue() && Instant::now() < deadline {
        if wait_ready(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(POLL_INTERVAL))? {
            net::sockopt::socket_error(&socket)??;
            return Ok(socket.into());
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "its port does not answer"))
}

/// A direct connection. It carries data in one direction at a time.
pub struct Direct {
    tls: Connection,
    socket: BufReader<TcpStream>,
    round_trip: Duration,
}

impl Direct {
    /// Connects to the host with the key `host` at `address`, using the key of `identity`. Gives up
    /// after `timeout`, or when `should_continue` returns false.
    ///
    /// # Errors
    /// When no host answers there, or one with another key.
    pub fn connect(
        address: SocketAddr,
        identity: &Identity,
        host: [u8; 32],
        timeout: Duration,
        should_continue: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let key = PublicKey::new(host);
        let config = client_config(identity, accept_only(key))?;
        // The label of the expected key replaces a host name: a server forwards by it.
        let name = ServerName::try_from(key.label()).map_err(io::Error::other)?;
        let socket = connect_tcp(address, timeout, should_continue)?;
        let tls = rustls::ClientConnection::new(Arc::new(config), name);
        Self::begin(
            socket,
            tls.map_err(io::Error::other)?.into(),
            should_continue,
            &AtomicBool::default(),
        )
    }

    fn begin(
        socket: TcpStream,
        mut tls: Connection,
        should_continue: &dyn Fn() -> bool,
        has_greeted: &AtomicBool,
    ) -> io::Result<Self> {
        prepare(&socket, &mut tls)?;
        let socket = BufReader::with_capacity(READ_LEN, socket);
        let mut direct = Self { tls, socket, round_trip: Duration::MAX };
        direct.shake_hands(should_continue, has_greeted)?;
        Ok(direct)
    }

    /// Sets `has_greeted` when the other side has sent data that can be answered.
    fn shake_hands(
        &mut self,
        should_continue: &dyn Fn() -> bool,
        has_greeted: &AtomicBool,
    ) -> io::Result<()> {
        let deadline = Instant::now() + HANDSHAKE_MAX;
        // Set while an answer is awaited: the time of the question.
        let mut asked: Option<Instant> = None;
        while self.tls.is_handshaking() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !should_continue() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.socket.get_ref().set_read_timeout(Some(left.min(POLL_INTERVAL)))?;
            self.socket.get_ref().set_write_timeout(Some(left))?;
            asked = self.tls.wants_write().then(Instant::now).or(asked);
            self.send()?;
            if self.tls.is_handshaking() && self.tls.wants_read() {
                match self.tls.read_tls(&mut self.socket) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Err(error) if would_block(&error) => continue,
                    read => drop(read?),
                }
                if let Some(asked) = asked.take() {
                    self.round_trip = self.round_trip.min(asked.elapsed());
                }
                let processed = self.tls.process_new_packets();
                // The other side gets an alert about an error, if it is still reading.
                asked = self.tls.wants_write().then(Instant::now);
                if processed.is_ok() && asked.is_some() {
                    has_greeted.store(true, Ordering::Relaxed);
                }
                let sent = self.send();
                // The other side may have left. The error about its data says more.
                processed.map_err(tls_error)?;
                sent?;
            }
        }
        self.send()?;
        self.socket.get_ref().set_read_timeout(None)?;
        self.socket.get_ref().set_write_timeout(None)
    }

    /// The shortest time to an answer in the handshake.
    pub fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// A killer that closes the connection from another thread.
    ///
    /// # Errors
    /// When the descriptor can't be duplicated.
    pub fn killer(&self) -> io::Result<Killer> {
        Killer::from_socket(self.socket.get_ref())
    }

    /// Sets the timeout of a read.
    ///
    /// # Errors
    /// Errors of `setsockopt`.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.get_ref().set_read_timeout(timeout)
    }

    /// Prepares this connection for both directions at once.
    pub(crate) fn established(self) -> Established {
        let received = self.socket.buffer().to_vec();
        Established { tls: self.tls, socket: self.socket.into_inner(), received }
    }

    /// A writer over this connection.
    pub fn into_writer(self) -> Writer {
        Writer::new(self, None)
    }
}

impl Read for Direct {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The text of rustls refers to its manual.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(io::Error::new(error.kind(), "the other side closed it"));
                }
                read => return read,
            }
            match self.tls.read_tls(&mut self.socket) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            self.tls.process_new_packets().map_err(tls_error)?;
            // An answer to a key update.
            self.send()?;
        }
    }
}

impl Direct {
    /// Sends the encrypted data.
    fn send(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(self.socket.get_mut()) {
                // Data that rustls has taken must not be passed to it again, so an interrupt is no
                // error.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => drop(written?),
            }
        }
        Ok(())
    }
}

impl Write for Direct {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let len = self.tls.writer().write(buf)?;
        self.send()?;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

#[cfg(test)]
#[path = "direct_tests.rs"]
mod tests;

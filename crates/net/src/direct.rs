//! Direct connections past ssh: TLS 1.3 over TCP, between two sides that have told each
//! other their public keys over ssh. Each side makes a key for one job and accepts no
//! other than the one that it was told (raw public keys, RFC 7250): there is no authority,
//! no name and no clock involved, nothing is resumed, and nothing is sent in clear.

use crate::connection::Writer;
use crate::doorway::Forwarded;
use crate::duplex::Established;
use crate::tls::{broken, client_config, only, server_config};
use crate::{Identity, Killer, PublicKey};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags};
use rustix::net::{self, AddressFamily, SocketType};
use rustls::pki_types::ServerName;
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::{Connection, ServerConfig};
use std::fmt;
use std::io::{self, BufReader, PipeReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of what was encrypted that are written at once: little enough that its memory is
/// used again, and not given back to the system and taken anew each time.
pub(crate) const WRITTEN_MAX: usize = 64 << 10;

/// Bytes that a socket may hold besides those that are on their way: enough that it is never
/// empty, and little enough that others can take what is left when this one is slow.
#[cfg(target_os = "linux")]
const UNSENT_MAX: u32 = 64 << 10;

/// Bytes that are read at once, before they are decrypted.
pub(crate) const READ_LEN: usize = 128 << 10;

/// How long the two sides may take to make sure of each other.
pub(crate) const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

/// How often is looked, while the other side is waited for, if that goes on.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A port that is open for one client.
pub struct DirectListener {
    callers: Callers,
    address: SocketAddr,
    key: PublicKey,
    config: Arc<ServerConfig>,
}

/// Where callers come from.
#[derive(Debug)]
enum Callers {
    Port(TcpListener),
    Server(Forwarded),
}

impl DirectListener {
    /// Listens on the address `ip`, on a port of that range or on any, for the one who has
    /// the key `client`.
    ///
    /// # Errors
    /// When no port can be had there.
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

    /// Takes callers that a server forwards.
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
        let config = Arc::new(server_config(resolver, only(PublicKey::new(client)))?);
        Ok(Self { callers, address, key: identity.key(), config })
    }

    /// Where it is reached.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The key that callers must expect, and name in their greeting.
    pub fn key(&self) -> [u8; 32] {
        *self.key.as_bytes()
    }

    /// Waits for a caller, at most `patience`, and no longer than until the pipe `ended` is closed.
    ///
    /// # Errors
    /// Those of `poll` and `accept`.
    pub fn accept_within(
        &self,
        patience: Duration,
        ended: Option<&PipeReader>,
    ) -> io::Result<Option<DirectCaller>> {
        let patience = Timespec::try_from(patience).unwrap_or_default();
        let fd = match &self.callers {
            Callers::Port(socket) => socket.as_fd(),
            Callers::Server(forwarded) => forwarded.socket().as_fd(),
        };
        let fds = [Some(fd), ended.map(AsFd::as_fd)].into_iter().flatten();
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let accepted = match &self.callers {
            Callers::Port(socket) => {
                socket.accept().map(|(socket, from)| (socket, from.ip(), Vec::new()))
            }
            Callers::Server(forwarded) => forwarded.take(),
        };
        match accepted {
            Ok((socket, from, early)) => {
                let (config, has_greeted) = (Arc::clone(&self.config), Arc::default());
                Ok(Some(DirectCaller { socket, from, early, has_greeted, config }))
            }
            // It has left, or there is something wrong with it.
            Err(error) if is_of_caller(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for DirectListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectListener").field("callers", &self.callers).finish_non_exhaustive()
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

pub(crate) fn is_of_caller(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(
        error.kind(),
        E::WouldBlock | E::ConnectionAborted | E::ConnectionReset | E::Interrupted
    )
}

/// Somebody who has called, and is not known yet.
#[derive(Debug)]
pub struct DirectCaller {
    socket: TcpStream,
    from: IpAddr,
    /// Bytes that were read from the socket before.
    early: Vec<u8>,
    has_greeted: Arc<AtomicBool>,
    config: Arc<ServerConfig>,
}

impl DirectCaller {
    /// Where it calls from.
    pub fn from(&self) -> IpAddr {
        self.from
    }

    /// Set as soon as it has sent a greeting of TLS that could be answered.
    pub fn has_greeted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_greeted)
    }

    /// Hangs up on it from another thread.
    ///
    /// # Errors
    /// When no second descriptor can be had.
    pub fn killer(&self) -> io::Result<Killer> {
        Killer::of_socket(&self.socket)
    }

    /// Makes sure of it, within five seconds, and as long as that `goes_on`.
    ///
    /// # Errors
    /// When it is another, is not heard of for so long, or leaves.
    pub fn identify(self, goes_on: &dyn Fn() -> bool) -> io::Result<Direct> {
        let mut tls = rustls::ServerConnection::new(self.config).map_err(io::Error::other)?;
        let mut early = &*self.early;
        while !early.is_empty() {
            if tls.read_tls(&mut early)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            tls.process_new_packets().map_err(broken)?;
        }
        self.has_greeted.store(tls.wants_write(), Ordering::Relaxed);
        Direct::begin(self.socket, tls.into(), goes_on, &self.has_greeted)
    }
}

/// Lets a writer wait as soon as the socket holds [`UNSENT_MAX`] bytes that were never sent. A
/// refusal costs speed only.
fn bound_unsent(socket: &TcpStream) {
    #[cfg(target_os = "linux")]
    if let Err(error) = socket2::SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_MAX) {
        tracing::debug!(%error, "the socket takes what it likes");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
}

/// Has a connection wait where it must, and hold little.
pub(crate) fn prepare(socket: &TcpStream, tls: &mut Connection) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    bound_unsent(socket);
    tls.set_buffer_limit(Some(WRITTEN_MAX));
    Ok(())
}

/// True if nothing has come yet.
fn is_early(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(error.kind(), E::WouldBlock | E::TimedOut | E::Interrupted)
}

/// Connects to `address` within `patience`, as long as that `goes_on`.
fn reach(
    address: SocketAddr,
    patience: Duration,
    goes_on: &dyn Fn() -> bool,
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
    let deadline = Instant::now() + patience;
    while goes_on() && Instant::now() < deadline {
        let step = Timespec::try_from(LOOK_AGAIN).unwrap_or_default();
        match poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&step)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => {
                net::sockopt::socket_error(&socket)??;
                return Ok(socket.into());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "its port does not answer"))
}

/// A direct connection. Bytes go in one direction at a time.
pub struct Direct {
    tls: Connection,
    socket: BufReader<TcpStream>,
    round_trip: Duration,
}

impl Direct {
    /// Connects to the one at `address` who has the key `host`, with `identity` as the
    /// own one, within `patience`, and as long as that `goes_on`.
    ///
    /// # Errors
    /// When nobody is reached there, or somebody else.
    pub fn connect(
        address: SocketAddr,
        identity: &Identity,
        host: [u8; 32],
        patience: Duration,
        goes_on: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let key = PublicKey::new(host);
        let config = client_config(identity, only(key))?;
        // The label of the expected key takes the place of a name: a server forwards by it.
        let name = ServerName::try_from(key.label()).map_err(io::Error::other)?;
        let socket = reach(address, patience, goes_on)?;
        let tls = rustls::ClientConnection::new(Arc::new(config), name);
        Self::begin(socket, tls.map_err(io::Error::other)?.into(), goes_on, &AtomicBool::default())
    }

    fn begin(
        socket: TcpStream,
        mut tls: Connection,
        goes_on: &dyn Fn() -> bool,
        has_greeted: &AtomicBool,
    ) -> io::Result<Self> {
        prepare(&socket, &mut tls)?;
        let socket = BufReader::with_capacity(READ_LEN, socket);
        let mut direct = Self { tls, socket, round_trip: Duration::MAX };
        direct.shake_hands(goes_on, has_greeted)?;
        Ok(direct)
    }

    /// Sets `has_greeted` when the other side has said something that can be answered.
    fn shake_hands(
        &mut self,
        goes_on: &dyn Fn() -> bool,
        has_greeted: &AtomicBool,
    ) -> io::Result<()> {
        let deadline = Instant::now() + HANDSHAKE_MAX;
        // Since then an answer is awaited.
        let mut asked: Option<Instant> = None;
        while self.tls.is_handshaking() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !goes_on() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.socket.get_ref().set_read_timeout(Some(left.min(LOOK_AGAIN)))?;
            self.socket.get_ref().set_write_timeout(Some(left))?;
            asked = self.tls.wants_write().then(Instant::now).or(asked);
            self.send()?;
            if self.tls.is_handshaking() && self.tls.wants_read() {
                match self.tls.read_tls(&mut self.socket) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Err(error) if is_early(&error) => continue,
                    read => drop(read?),
                }
                if let Some(asked) = asked.take() {
                    self.round_trip = self.round_trip.min(asked.elapsed());
                }
                let processed = self.tls.process_new_packets();
                // What is wrong is told to the other side, if it listens.
                asked = self.tls.wants_write().then(Instant::now);
                if processed.is_ok() && asked.is_some() {
                    has_greeted.store(true, Ordering::Relaxed);
                }
                let sent = self.send();
                // The other side may be gone; what was wrong with it is the better answer.
                processed.map_err(broken)?;
                sent?;
            }
        }
        self.send()?;
        self.socket.get_ref().set_read_timeout(None)?;
        self.socket.get_ref().set_write_timeout(None)
    }

    /// The shortest time that the other side took to answer in the handshake.
    pub fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// Hangs up from another thread.
    ///
    /// # Errors
    /// When no second descriptor can be had.
    pub fn killer(&self) -> io::Result<Killer> {
        Killer::of_socket(self.socket.get_ref())
    }

    /// Bounds how long a read waits for the other side.
    ///
    /// # Errors
    /// Those of `setsockopt`.
    pub fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.socket.get_ref().set_read_timeout(patience)
    }

    /// This connection, for both directions at once.
    pub(crate) fn established(self) -> Established {
        let early = self.socket.buffer().to_vec();
        Established { tls: self.tls, socket: self.socket.into_inner(), early }
    }

    /// This connection, to be written to.
    pub fn into_writer(self) -> Writer {
        Writer::new(self, None)
    }
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct").field("socket", self.socket.get_ref()).finish_non_exhaustive()
    }
}

impl Read for Direct {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The text of rustls names a page of its manual.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(io::Error::new(error.kind(), "the other side closed it"));
                }
                read => return read,
            }
            match self.tls.read_tls(&mut self.socket) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            self.tls.process_new_packets().map_err(broken)?;
            // An answer to a change of keys.
            self.send()?;
        }
    }
}

impl Direct {
    /// Sends what was encrypted.
    fn send(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(self.socket.get_mut()) {
                // What was taken must not be given again.
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

//! The port of a server. One thread runs the TLS handshakes of all callers in one loop, with bounds
//! on their number, time and bytes. A caller with a known key is returned as a [`Caller`]. All
//! others get the same failed handshake. Callers by QUIC come from a process of its own
//! ([`QuicChild`]), as the same type.

mod handshake;
mod limits;

use self::handshake::{Handshake, Progress};
pub use self::limits::GateLimits;
pub(crate) use self::limits::source;
use crate::direct::is_caller_error;
use crate::duplex::{Established, Opening};
use crate::quic::{Ends, QuicGate, Setup};
use crate::tls::server_config;
use crate::{Congestion, Connection, Forwarder, Identity, PublicKey, QuicChild, Refusal, Timeouts};
use haul_sys::wait_ready;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags};
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use socket2::{Domain, Socket, Type};
use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

/// Callers to accept from a listener in one turn, before the waiting handshakes proceed.
const ACCEPTED_MAX: usize = 16;

/// Callers in the listen queue. Further ones try again after a second.
const BACKLOG: i32 = 1024;

/// Most bytes to read from a refused caller until it leaves.
const REFUSED_LEN_MAX: u64 = 1 << 20;

/// Pause in accepting callers after the system failed to accept one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Keys of clients, each with its time of expiry.
pub(crate) type KnownKeys = HashMap<PublicKey, Option<SystemTime>>;

/// The known keys, shared with the handshakes that check them.
pub(crate) type AcceptedKeys = Arc<Mutex<KnownKeys>>;

/// Listens for callers and checks their keys.
pub struct Gate {
    listeners: Vec<TcpListener>,
    /// The same for QUIC.
    pub quic: QuicGate,
    limits: GateLimits,
    own: Vec<Identity>,
    known: AcceptedKeys,
    config: Arc<ServerConfig>,
    /// Oldest first.
    handshakes: VecDeque<Handshake>,
    /// Jobs that callers are forwarded to.
    jobs: Vec<Weak<Forwarder>>,
    /// No caller is accepted before this time.
    paused_until: Option<Instant>,
}

impl Gate {
    /// Accepts callers at `listeners`. `own` are the server's keys, newest first. Refuses all
    /// clients until [`Self::set_known_keys`] is called.
    ///
    /// # Errors
    /// Errors of `fcntl`; when `own` is empty.
    pub fn new(
        listeners: Vec<TcpListener>,
        own: &[Identity],
        limits: GateLimits,
    ) -> io::Result<Self> {
        prepare(&listeners)?;
        let known = AcceptedKeys::default();
        let config = tls_config(own, &known)?;
        let quic = QuicGate::new(Vec::new(), Congestion::default());
        let (handshakes, jobs, own) = (VecDeque::new(), Vec::new(), own.to_vec());
        let paused_until = None;
        Ok(Self { listeners, quic, limits, own, known, config, handshakes, jobs, paused_until })
    }

    /// Adds QUIC at `sockets`; see [`Self::prepare_quic`].
    #[must_use]
    pub fn with_quic(self, sockets: Vec<UdpSocket>, congestion: Congestion) -> Self {
        Self { quic: QuicGate::new(sockets, congestion), ..self }
    }

    /// Prepares a process for QUIC. `None` if QUIC has no sockets. Call [`QuicGate::set_process`]
    /// once the process runs.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn prepare_quic(&mut self) -> io::Result<Option<QuicChild>> {
        let setup = self.setup();
        self.quic.prepare(setup)
    }

    /// The settings for the process for QUIC.
    fn setup(&self) -> Setup {
        let (congestion, is_open) = (self.quic.congestion, self.quic.is_open);
        Setup::new(&self.own, self.known.lock().clone(), self.limits, congestion, is_open)
    }

    /// Forwards callers that name the key of `job` to it, until `job` is dropped.
    pub fn forward_to(&mut self, job: &Arc<Forwarder>) {
        self.jobs.retain(|job| job.strong_count() > 0);
        self.jobs.push(Arc::downgrade(job));
    }

    /// Replaces the known keys. Each is accepted until its time of expiry.
    pub fn set_known_keys(
        &mut self,
        keys: impl IntoIterator<Item = (PublicKey, Option<SystemTime>)>,
    ) {
        *self.known.lock() = keys.into_iter().collect();
        self.update_quic();
    }

    fn update_quic(&mut self) {
        let setup = self.setup();
        self.quic.send(setup, false);
    }

    /// Replaces the server's own keys; see [`Self::new`].
    ///
    /// # Errors
    /// When `own` is empty.
    pub fn set_own_keys(&mut self, own: &[Identity]) -> io::Result<()> {
        self.config = tls_config(own, &self.known)?;
        self.own = own.to_vec();
        self.update_quic();
        Ok(())
    }

    /// Replaces the bounds.
    pub fn set_limits(&mut self, limits: GateLimits) {
        self.limits = limits;
        self.update_quic();
    }

    /// Replaces the listeners and the QUIC sockets.
    ///
    /// # Errors
    /// Errors of `fcntl`.
    pub fn listen(
        &mut self,
        listeners: Vec<TcpListener>,
        sockets: Vec<UdpSocket>,
        congestion: Congestion,
    ) -> io::Result<()> {
        prepare(&listeners)?;
        self.listeners = listeners;
        (self.quic.sockets, self.quic.congestion) = (sockets, congestion);
        let setup = self.setup();
        self.quic.send(setup, true);
        Ok(())
    }

    /// A second handle of the QUIC socket at `address`, if there is one.
    ///
    /// # Errors
    /// Errors of `dup`.
    pub fn quic_socket(&self, address: SocketAddr) -> io::Result<Option<UdpSocket>> {
        let is_it = |it: &&UdpSocket| it.local_addr().is_ok_and(|found| found == address);
        self.quic.sockets.iter().find(is_it).map(UdpSocket::try_clone).transpose()
    }

    /// The addresses of the QUIC sockets.
    ///
    /// # Errors
    /// Errors of `getsockname`.
    pub fn quic_addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.quic.sockets.iter().map(UdpSocket::local_addr).collect()
    }

    /// A second handle of the listener at `address`, if there is one.
    ///
    /// # Errors
    /// Errors of `dup`.
    pub fn listener(&self, address: SocketAddr) -> io::Result<Option<TcpListener>> {
        let is_it = |it: &&TcpListener| it.local_addr().is_ok_and(|found| found == address);
        self.listeners.iter().find(is_it).map(TcpListener::try_clone).transpose()
    }

    /// The addresses of the listeners.
    ///
    /// # Errors
    /// Errors of `getsockname`.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(TcpListener::local_addr).collect()
    }

    /// The number of TCP callers in a handshake.
    pub fn waiting(&self) -> usize {
        self.handshakes.len()
    }

    /// Closes this process's copies of all sockets. For a child process, which must not hold them.
    pub fn close_in_child(&mut self) {
        self.listeners.clear();
        self.handshakes.clear();
        self.quic.close_in_child();
    }

    /// Stops accepting callers. Existing connections continue.
    pub fn close(&mut self) {
        self.listeners.clear();
        self.handshakes.clear();
        self.known.lock().clear();
        self.quic.is_open = false;
        self.update_quic();
        self.quic.sockets.clear();
    }

    /// Waits until a caller or one of `others` is ready, or `timeout` is over. Then continues all
    /// handshakes.
    ///
    /// # Errors
    /// Errors of `poll`.
    pub fn turn(
        &mut self,
        others: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> io::Result<Turn> {
        let now = Instant::now();
        let rest = self.paused_until.map(|until| until.saturating_duration_since(now));
        let rest = rest.filter(|left| !left.is_zero());
        let oldest = self.handshakes.front();
        let deadline =
            oldest.map(|oldest| self.limits.handshake_max.saturating_sub(now - oldest.since));
        let timeout = [timeout, rest, deadline].into_iter().flatten().min();
        let listening = if rest.is_none() { &self.listeners[..] } else { &[] };
        let mut fds: Vec<PollFd<'_>> =
            others.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        let quic = self.quic.fd();
        fds.extend(quic.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let quics = usize::from(quic.is_some());
        fds.extend(listening.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        fds.extend(
            self.handshakes.iter().map(|it| PollFd::from_borrowed_fd(it.fd(), it.interest())),
        );
        // Rounded up, since a timeout below a millisecond would become a busy wait.
        let timeout = timeout.map(|left| left + Duration::from_millis(1));
        wait_ready(&mut fds, timeout)?;
        let mut is_ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let ready = is_ready.by_ref().take(others.len()).collect();
        let arrives = is_ready.by_ref().take(quics).any(|arrives| arrives);
        let calls = is_ready.by_ref().take(listening.len()).any(|called| called);
        let moved: Vec<bool> = is_ready.collect();
        drop(fds);
        let mut callers = self.proceed(&moved);
        if arrives {
            callers.extend(self.quic.next());
        }
        if calls {
            self.accept();
        }
        Ok(Turn { callers, ready })
    }

    /// Continues the handshakes whose sockets are ready (`moved`), and drops those that have timed
    /// out.
    fn proceed(&mut self, moved: &[bool]) -> Vec<Caller> {
        let mut callers = Vec::new();
        let is_late = |it: &Handshake| it.since.elapsed() >= self.limits.handshake_max;
        let jobs = &self.jobs;
        let find_job =
            |label: &str| jobs.iter().filter_map(Weak::upgrade).find(|job| job.is_for(label));
        let mut left = VecDeque::with_capacity(self.handshakes.len());
        for (mut handshake, moved) in self.handshakes.drain(..).zip(moved) {
            match if *moved { handshake.proceed(&find_job) } else { Progress::Pending } {
                Progress::Pending if is_late(&handshake) => {}
                Progress::Pending => left.push_back(handshake),
                Progress::Done(key) => {
                    let caller = handshake.established();
                    let line = |tls| Line::Tls(Box::new(tls));
                    callers.extend(caller.map(|(from, tls)| Caller { key, from, line: line(tls) }));
                }
                Progress::Forwarded | Progress::Failed => {}
            }
        }
        self.handshakes = left;
        callers
    }

    fn accept(&mut self) {
        let mut new = 0;
        for _ in 0..ACCEPTED_MAX {
            let mut any = false;
            for nth in 0..self.listeners.len() {
                match self.listeners[nth].accept() {
                    Ok((socket, from)) => {
                        any = true;
                        self.evict_for(source(from.ip()), new);
                        match Handshake::begin(socket, from, &self.config) {
                            Ok(handshake) => {
                                self.handshakes.push_back(handshake);
                                new += 1;
                            }
                            Err(error) => tracing::debug!(%error, "a caller was dropped"),
                        }
                    }
                    Err(error) if is_caller_error(&error) => {}
                    // The system may have no descriptor left. Dropping the oldest handshake frees
                    // one.
                    Err(error) => {
                        tracing::debug!(%error, "no caller can be accepted");
                        self.handshakes.pop_front();
                        self.paused_until = Some(Instant::now() + ACCEPT_PAUSE);
                        return;
                    }
                }
            }
            if !any {
                return;
            }
        }
    }

    /// Drops handshakes until there is room for another from `caller`. The last `new` ones were not
    /// read yet.
    fn evict_for(&mut self, caller: IpAddr, new: usize) {
        let same = |it: &Handshake| source(it.from.ip()) == caller;
        if self.handshakes.iter().filter(|it| same(it)).count() >= self.limits.per_source_max {
            self.evict_oldest(same, new);
        }
        if self.handshakes.len() >= self.limits.handshakes_max {
            self.evict_oldest(|_| true, new);
        }
    }

    /// Drops the oldest handshake that `is_candidate` selects. Prefers one without a greeting,
    /// since those cost the caller the least. The last `new` ones had no time to greet and are not
    /// preferred.
    fn evict_oldest(&mut self, is_candidate: impl Fn(&Handshake) -> bool, new: usize) {
        let read = self.handshakes.len().saturating_sub(new);
        let mut meant = self.handshakes.iter().enumerate().filter(|(_, it)| is_candidate(it));
        let silent = meant.clone().find(|(at, it)| *at < read && !it.has_greeted);
        let oldest = silent.or(meant.next()).map(|(at, _)| at);
        if let Some(at) = oldest {
            self.handshakes.remove(at);
        }
    }
}

/// Creates a listener at `address`. An IPv6 listener takes no IPv4 callers, so that both families
/// can use the same port.
///
/// # Errors
/// When the address or the port is not available.
pub fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Connections that have just ended must not prevent a restart of the server.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Makes listeners non-blocking, with a long queue.
fn prepare(listeners: &[TcpListener]) -> io::Result<()> {
    for listener in listeners {
        listener.set_nonblocking(true)?;
        rustix::net::listen(listener, BACKLOG)?;
    }
    Ok(())
}

/// The TLS configuration of a server with the keys `own`, for the clients in `known`.
pub(crate) fn tls_config(own: &[Identity], known: &AcceptedKeys) -> io::Result<Arc<ServerConfig>> {
    let keys = Arc::new(OwnKeys::new(own).ok_or(io::ErrorKind::InvalidInput)?);
    let known = Arc::clone(known);
    // Unknown, revoked and expired keys take the same path.
    let accepts = move |key: &PublicKey| {
        let known = known.lock();
        let expires = known.get(key).copied();
        expires.is_some_and(|expires| expires.is_none_or(|at| SystemTime::now() < at))
    };
    server_config(keys, Box::new(accepts)).map(Arc::new)
}

/// The result of one turn of the loop.
pub struct Turn {
    /// Callers whose handshake is complete.
    pub callers: Vec<Caller>,
    /// For each of `others`, whether it is ready.
    pub ready: Vec<bool>,
}

/// A caller that has proved to hold a known key.
pub struct Caller {
    pub(crate) key: PublicKey,
    pub(crate) from: SocketAddr,
    pub(crate) line: Line,
}

/// The connection to a caller.
pub(crate) enum Line {
    Tls(Box<Established>),
    Quic { ends: Ends, reached: SocketAddr, label: Option<String> },
}

impl Caller {
    /// The caller's key.
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// True if the caller asked for `key` as the server's, so it knows that key.
    pub fn expects_key(&self, key: &PublicKey) -> bool {
        let label = match &self.line {
            Line::Tls(established) => match &established.tls {
                rustls::Connection::Server(tls) => tls.server_name(),
                rustls::Connection::Client(_) => None,
            },
            Line::Quic { label, .. } => label.as_deref(),
        };
        label == Some(&key.label())
    }

    /// The caller's address.
    pub fn from(&self) -> SocketAddr {
        self.from
    }

    /// The address that the caller has reached.
    ///
    /// # Errors
    /// Errors of `getsockname`.
    pub fn reached(&self) -> io::Result<SocketAddr> {
        match &self.line {
            Line::Tls(established) => established.socket.local_addr(),
            Line::Quic { reached, .. } => Ok(*reached),
        }
    }

    /// True if the caller uses QUIC.
    pub fn is_quic(&self) -> bool {
        matches!(self.line, Line::Quic { .. })
    }

    /// The socket, for polling. With QUIC, the socket pair to the QUIC process.
    pub fn socket(&self) -> BorrowedFd<'_> {
        match &self.line {
            Line::Tls(established) => established.socket.as_fd(),
            Line::Quic { ends, .. } => ends.stream.as_fd(),
        }
    }

    /// The connection with the caller. Only one process may call this; others close the caller by
    /// dropping it. Messages call the caller `peer`. `new_key` is announced to it.
    ///
    /// # Errors
    /// When the caller has left.
    pub fn into_connection(
        self,
        peer: String,
        new_key: Option<PublicKey>,
    ) -> io::Result<Connection> {
        self.connection_with(peer, Opening::Announce(new_key))
    }

    fn connection_with(self, peer: String, opening: Opening) -> io::Result<Connection> {
        let timeout = Timeouts::default();
        match self.line {
            Line::Tls(established) => established.into_connection(peer, timeout, opening),
            Line::Quic { ends, .. } => ends.into_connection(peer, timeout, opening, None),
        }
    }

    /// Refuses the caller and waits up to `timeout` until it has left. Only one process may call
    /// this. With zero `timeout` it returns at once, for a process that must not wait or has no
    /// descriptors left. The caller may then lose the answer if it is still sending.
    ///
    /// # Errors
    /// When the caller had left before, or stays.
    pub fn refuse(self, refusal: Refusal, timeout: Duration) -> io::Result<()> {
        let socket = self.socket().try_clone_to_owned();
        let Connection { reader: _reader, writer, closer: _closer } =
            self.connection_with(String::new(), Opening::Refuse(refusal))?;
        drop(writer);
        if timeout.is_zero() {
            return Ok(());
        }
        // Closing a socket that has unread data discards its unsent data.
        let socket = TcpStream::from(socket?);
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(timeout))?;
        io::copy(&mut socket.take(REFUSED_LEN_MAX), &mut io::sink()).map(drop)
    }
}

#[cfg(test)]
mod tests;

/// The keys of a server. Beside the newest it may have older ones, for clients that know no other.
/// Each has the label that clients ask for it by.
#[derive(Debug)]
struct OwnKeys(Vec<(String, Arc<CertifiedKey>)>);

impl OwnKeys {
    /// `own` is sorted newest first. `None` if it is empty.
    fn new(own: &[Identity]) -> Option<Self> {
        let keys = own.iter().map(|own| (own.key().label(), own.certified()));
        (!own.is_empty()).then(|| Self(keys.collect()))
    }
}

impl ResolvesServerCert for OwnKeys {
    /// Returns the key that the client asks for, or the newest.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello.server_name();
        let asked = asked.and_then(|asked| self.0.iter().find(|(label, _)| label == asked));
        asked.or(self.0.first()).map(|(_, key)| Arc::clone(key))
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }
}

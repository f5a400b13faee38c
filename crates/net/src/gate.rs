//! The port of a server. One thread does the TLS handshakes of all callers in one loop, with
//! bounds on their number, their time and their bytes. Only who has a key that is known comes
//! out of it, as a [`Caller`]; all others meet the same failed handshake. Callers by QUIC come
//! out of a process of its own ([`QuicChild`]), as the same.

mod handshake;
mod own_keys;

use self::handshake::{Handshake, Progress};
use self::own_keys::OwnKeys;
use crate::direct::{HANDSHAKE_MAX, is_of_caller};
use crate::duplex::{Established, Opening};
use crate::quic::{Handed, QuicCaller, QuicGate};
use crate::tls::server_config;
use crate::{Congestion, Connection, Forwarder, Identity, Patience, PublicKey, QuicChild, Refusal};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustls::ServerConfig;
use socket2::{Domain, Socket, Type};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

/// Callers that are taken from a listener at once, before those that wait get their turn.
const ACCEPTED_MAX: usize = 16;

/// Callers that wait to be accepted. Further ones try again after a second.
const BACKLOG: i32 = 1024;

/// Bytes of a caller that is refused, at most, until it leaves.
const REFUSED_LEN_MAX: u64 = 1 << 20;

/// How long no caller is accepted after the system could not give one.
const REST: Duration = Duration::from_millis(100);

/// The bits of an IPv6 address that one subscriber has for itself.
const SUBSCRIBER_BITS: u32 = 64;

/// Bounds of a [`Gate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateLimits {
    /// Handshakes at once. The oldest one makes way for another.
    pub handshakes_max: usize,
    /// The same for one address (IPv6: for 64 bits of it).
    pub per_source_max: usize,
    /// The time for a handshake.
    pub handshake_max: Duration,
}

impl Default for GateLimits {
    fn default() -> Self {
        Self { handshakes_max: 256, per_source_max: 64, handshake_max: HANDSHAKE_MAX }
    }
}

/// Keys of clients, and when each expires.
pub(crate) type Known = Arc<Mutex<HashMap<PublicKey, Option<SystemTime>>>>;

/// Listens, and finds out who calls.
pub struct Gate {
    listeners: Vec<TcpListener>,
    quic: QuicGate,
    limits: GateLimits,
    own: Vec<Identity>,
    known: Known,
    config: Arc<ServerConfig>,
    /// The oldest comes first.
    handshakes: VecDeque<Handshake>,
    /// Jobs to which callers are forwarded.
    jobs: Vec<Weak<Forwarder>>,
    /// No caller is accepted before.
    rests_until: Option<Instant>,
}

impl Gate {
    /// Accepts callers at `listeners`. It has the keys `own`, of which the first is the newest,
    /// and lets nobody in before [`Self::know`] is called.
    ///
    /// # Errors
    /// Those of `fcntl`; when there is no key.
    pub fn new(
        listeners: Vec<TcpListener>,
        own: &[Identity],
        limits: GateLimits,
    ) -> io::Result<Self> {
        prepare(&listeners)?;
        let known = Known::default();
        let config = tls_config(own, &known)?;
        let quic = QuicGate::new(Vec::new(), Congestion::default());
        let (handshakes, jobs, own) = (VecDeque::new(), Vec::new(), own.to_vec());
        let rests_until = None;
        Ok(Self { listeners, quic, limits, own, known, config, handshakes, jobs, rests_until })
    }

    /// The same, with QUIC at `sockets`; see [`Self::begin_quic`].
    #[must_use]
    pub fn with_quic(self, sockets: Vec<UdpSocket>, congestion: Congestion) -> Self {
        Self { quic: QuicGate::new(sockets, congestion), ..self }
    }

    /// The beginnings of a process for QUIC; `None` if there is no socket for it. When it runs,
    /// [`Self::started_quic`] is to be called.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn begin_quic(&mut self) -> io::Result<Option<QuicChild>> {
        self.quic.begin(&self.own, snapshot(&self.known), self.limits)
    }

    /// The process for QUIC runs.
    pub fn started_quic(&mut self, process: haul_sys::Child) {
        self.quic.started(process);
    }

    /// True unless a process for QUIC is needed and none runs.
    pub fn serves_quic(&self) -> bool {
        self.quic.is_served()
    }

    /// The process for QUIC, if one runs.
    pub fn quic_process(&self) -> Option<u32> {
        self.quic.process()
    }

    /// The process for QUIC ends once it has sent what is left of the jobs.
    pub fn end_quic(&mut self) {
        self.quic.end();
    }

    /// Forwards callers that name the key of a job to that job, until `job` is dropped.
    pub fn forward_to(&mut self, job: &Arc<Forwarder>) {
        self.jobs.retain(|job| job.strong_count() > 0);
        self.jobs.push(Arc::downgrade(job));
    }

    /// Lets in who has one of these keys, from now on, each until its time.
    pub fn know(&mut self, keys: impl IntoIterator<Item = (PublicKey, Option<SystemTime>)>) {
        *self.known.lock() = keys.into_iter().collect();
        self.update_quic();
    }

    fn update_quic(&mut self) {
        self.quic.update(&self.own, snapshot(&self.known), self.limits);
    }

    /// Has these keys of its own from now on; see [`Self::new`].
    ///
    /// # Errors
    /// When there is none.
    pub fn set_own(&mut self, own: &[Identity]) -> io::Result<()> {
        self.config = tls_config(own, &self.known)?;
        self.own = own.to_vec();
        self.update_quic();
        Ok(())
    }

    /// Has these bounds from now on.
    pub fn set_limits(&mut self, limits: GateLimits) {
        self.limits = limits;
        self.update_quic();
    }

    /// Accepts callers at `listeners` and `sockets` from now on, and at no others.
    ///
    /// # Errors
    /// Those of `fcntl`.
    pub fn listen(
        &mut self,
        listeners: Vec<TcpListener>,
        sockets: Vec<UdpSocket>,
        congestion: Congestion,
    ) -> io::Result<()> {
        prepare(&listeners)?;
        self.listeners = listeners;
        let known = snapshot(&self.known);
        self.quic.listen(sockets, congestion, &self.own, known, self.limits);
        Ok(())
    }

    /// A second handle of the socket for QUIC at `address`, if there is one.
    ///
    /// # Errors
    /// Those of `dup`.
    pub fn quic_socket(&self, address: SocketAddr) -> io::Result<Option<UdpSocket>> {
        let is_it = |it: &&UdpSocket| it.local_addr().is_ok_and(|found| found == address);
        self.quic.sockets().iter().find(is_it).map(UdpSocket::try_clone).transpose()
    }

    /// The addresses of QUIC.
    ///
    /// # Errors
    /// Those of `getsockname`.
    pub fn quic_addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.quic.sockets().iter().map(UdpSocket::local_addr).collect()
    }

    /// A second handle of the listener at `address`, if there is one.
    ///
    /// # Errors
    /// Those of `dup`.
    pub fn listener(&self, address: SocketAddr) -> io::Result<Option<TcpListener>> {
        let is_it = |it: &&TcpListener| it.local_addr().is_ok_and(|found| found == address);
        self.listeners.iter().find(is_it).map(TcpListener::try_clone).transpose()
    }

    /// The addresses that it listens on.
    ///
    /// # Errors
    /// Those of `getsockname`.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(TcpListener::local_addr).collect()
    }

    /// The number of callers by TCP that are not known yet.
    pub fn waiting(&self) -> usize {
        self.handshakes.len()
    }

    /// Closes this process's copies of all sockets: for a child, to which they do not belong.
    pub fn abandon(&mut self) {
        self.listeners.clear();
        self.handshakes.clear();
        self.quic.abandon();
    }

    /// Accepts no more callers.
    pub fn close(&mut self) {
        self.listeners.clear();
        self.handshakes.clear();
        self.quic.close(&self.own, self.limits);
    }

    /// Waits until a caller or one of `others` needs attention, or the time is over, and goes on
    /// with all handshakes.
    ///
    /// # Errors
    /// Those of `poll`.
    pub fn turn(
        &mut self,
        others: &[BorrowedFd<'_>],
        patience: Option<Duration>,
    ) -> io::Result<Turn> {
        let now = Instant::now();
        let rest = self.rests_until.map(|until| until.saturating_duration_since(now));
        let rest = rest.filter(|left| !left.is_zero());
        let oldest = self.handshakes.front();
        let deadline =
            oldest.map(|oldest| self.limits.handshake_max.saturating_sub(now - oldest.since));
        let timeout = [patience, rest, deadline].into_iter().flatten().min();
        let listening = if rest.is_none() { &self.listeners[..] } else { &[] };
        let mut fds: Vec<PollFd<'_>> =
            others.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        let quic = self.quic.fd();
        fds.extend(quic.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let quics = usize::from(quic.is_some());
        fds.extend(listening.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        fds.extend(self.handshakes.iter().map(|it| PollFd::from_borrowed_fd(it.fd(), it.awaits())));
        // Rounded up: half a millisecond must not become a busy wait.
        let timeout = timeout.map(|left| left + Duration::from_millis(1));
        let timeout = timeout.map(|left| Timespec::try_from(left).unwrap_or_default());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut is_ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let ready = is_ready.by_ref().take(others.len()).collect();
        let arrives = is_ready.by_ref().take(quics).any(|arrives| arrives);
        let calls = is_ready.by_ref().take(listening.len()).any(|called| called);
        let moved: Vec<bool> = is_ready.collect();
        drop(fds);
        let mut callers = self.proceed(&moved);
        if arrives {
            callers.extend(self.quic.next().map(Caller::of_quic));
        }
        if calls {
            self.accept();
        }
        Ok(Turn { callers, ready })
    }

    /// Goes on with the handshakes whose sockets have `moved`, and ends those that are late.
    fn proceed(&mut self, moved: &[bool]) -> Vec<Caller> {
        let mut callers = Vec::new();
        let is_late = |it: &Handshake| it.since.elapsed() >= self.limits.handshake_max;
        let jobs = &self.jobs;
        let job_of =
            |label: &str| jobs.iter().filter_map(Weak::upgrade).find(|job| job.is_for(label));
        let mut left = VecDeque::with_capacity(self.handshakes.len());
        for (mut handshake, moved) in self.handshakes.drain(..).zip(moved) {
            match if *moved { handshake.proceed(&job_of) } else { Progress::Waits } {
                Progress::Waits if is_late(&handshake) => {}
                Progress::Waits => left.push_back(handshake),
                Progress::Done(key) => {
                    let caller = handshake.established();
                    callers.extend(caller.map(|(from, tls)| Caller {
                        key,
                        from,
                        line: Line::Tls(Box::new(tls)),
                    }));
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
                        self.make_way(source(from.ip()), new);
                        match Handshake::begin(socket, from, &self.config) {
                            Ok(handshake) => {
                                self.handshakes.push_back(handshake);
                                new += 1;
                            }
                            Err(error) => tracing::debug!(%error, "a caller was dropped"),
                        }
                    }
                    Err(error) if is_of_caller(&error) => {}
                    // The system may have no descriptor left: who waits longest gives one back.
                    Err(error) => {
                        tracing::debug!(%error, "no caller can be accepted");
                        self.handshakes.pop_front();
                        self.rests_until = Some(Instant::now() + REST);
                        return;
                    }
                }
            }
            if !any {
                return;
            }
        }
    }

    /// Ends handshakes until there is room for another one from `caller`. Nothing was read yet
    /// of the last `new` ones.
    fn make_way(&mut self, caller: IpAddr, new: usize) {
        let same = |it: &Handshake| source(it.from.ip()) == caller;
        if self.handshakes.iter().filter(|it| same(it)).count() >= self.limits.per_source_max {
            self.end_oldest(same, new);
        }
        if self.handshakes.len() >= self.limits.handshakes_max {
            self.end_oldest(|_| true, new);
        }
    }

    /// Ends the oldest of the handshakes that `are_meant`. One that has got no further than a
    /// connection goes first: those cost the other side the least. The last `new` ones had no
    /// time to greet.
    fn end_oldest(&mut self, are_meant: impl Fn(&Handshake) -> bool, new: usize) {
        let read = self.handshakes.len().saturating_sub(new);
        let mut meant = self.handshakes.iter().enumerate().filter(|(_, it)| are_meant(it));
        let silent = meant.clone().find(|(at, it)| *at < read && !it.has_greeted);
        let oldest = silent.or(meant.next()).map(|(at, _)| at);
        if let Some(at) = oldest {
            self.handshakes.remove(at);
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("listeners", &self.listeners).finish_non_exhaustive()
    }
}

/// A socket for callers on `address`. One for IPv6 takes no callers of IPv4, so that each may
/// have a socket on the same port.
///
/// # Errors
/// When the address or the port can't be had.
pub fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Connections that have just ended keep no server from starting again.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Has listeners not block, and hold many callers.
fn prepare(listeners: &[TcpListener]) -> io::Result<()> {
    for listener in listeners {
        listener.set_nonblocking(true)?;
        rustix::net::listen(listener, BACKLOG)?;
    }
    Ok(())
}

/// The part of an address that one subscriber has.
pub(crate) fn source(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => {
            let mask = u128::MAX << (u128::BITS - SUBSCRIBER_BITS);
            Ipv6Addr::from_bits(ip.to_bits() & mask).into()
        }
        ip => ip,
    }
}

/// The keys of clients as they are now.
fn snapshot(known: &Known) -> Vec<(PublicKey, Option<SystemTime>)> {
    let known = known.lock();
    known.iter().map(|(key, expires)| (*key, *expires)).collect()
}

/// The rules of TLS for a server with the keys `own`, which knows the clients `known`.
pub(crate) fn tls_config(own: &[Identity], known: &Known) -> io::Result<Arc<ServerConfig>> {
    let keys = Arc::new(OwnKeys::new(own).ok_or(io::ErrorKind::InvalidInput)?);
    let known = Arc::clone(known);
    // An unknown key, a revoked one and an expired one take the same course.
    let accepts = move |key: &PublicKey| {
        let known = known.lock();
        let expires = known.get(key).copied();
        expires.is_some_and(|expires| expires.is_none_or(|at| SystemTime::now() < at))
    };
    server_config(keys, Box::new(accepts)).map(Arc::new)
}

/// The result of one turn of the loop.
#[derive(Debug)]
pub struct Turn {
    /// Those whose handshake is done.
    pub callers: Vec<Caller>,
    /// For each of the others, whether it needs attention.
    pub ready: Vec<bool>,
}

/// Somebody who has proved to have a key that is known.
pub struct Caller {
    key: PublicKey,
    from: SocketAddr,
    line: Line,
}

/// The way to a caller.
enum Line {
    Tls(Box<Established>),
    Quic { handed: Handed, reached: SocketAddr, label: Option<String> },
}

impl Caller {
    fn of_quic(caller: QuicCaller) -> Self {
        let QuicCaller { key, from, reached, label, handed } = caller;
        Self { key, from, line: Line::Quic { handed, reached, label } }
    }

    /// The key.
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// True if it asked for `key` as the server's: it knows that one.
    pub fn knows(&self, key: &PublicKey) -> bool {
        let label = match &self.line {
            Line::Tls(established) => match &established.tls {
                rustls::Connection::Server(tls) => tls.server_name(),
                rustls::Connection::Client(_) => None,
            },
            Line::Quic { label, .. } => label.as_deref(),
        };
        label == Some(&key.label())
    }

    /// The address that it calls from.
    pub fn from(&self) -> SocketAddr {
        self.from
    }

    /// The address that it has reached.
    ///
    /// # Errors
    /// Those of `getsockname`.
    pub fn reached(&self) -> io::Result<SocketAddr> {
        match &self.line {
            Line::Tls(established) => established.socket.local_addr(),
            Line::Quic { reached, .. } => Ok(*reached),
        }
    }

    /// True if it came by QUIC.
    pub fn is_quic(&self) -> bool {
        matches!(self.line, Line::Quic { .. })
    }

    /// The socket, to be watched. By QUIC, that of the pair.
    pub fn socket(&self) -> BorrowedFd<'_> {
        match &self.line {
            Line::Tls(established) => established.socket.as_fd(),
            Line::Quic { handed, .. } => handed.stream().as_fd(),
        }
    }

    /// The connection with it, for one process: others close the caller by dropping it. `peer`
    /// is its name in messages. It is told `new_key`, if the server has another one.
    ///
    /// # Errors
    /// When it has left.
    pub fn into_connection(
        self,
        peer: String,
        new_key: Option<PublicKey>,
    ) -> io::Result<Connection> {
        self.opened(peer, Opening::Says(new_key))
    }

    fn opened(self, peer: String, opening: Opening) -> io::Result<Connection> {
        let patience = Patience::default();
        match self.line {
            Line::Tls(established) => established.into_connection(peer, patience, opening),
            Line::Quic { handed, .. } => handed.into_connection(peer, patience, opening, None),
        }
    }

    /// Refuses the caller, in one process as [`Self::into_connection`], and waits until it has
    /// left, at most `patience`. A process that must not wait, or has no descriptors left, can
    /// refuse it too: with no patience, the caller may lose the answer if it still sends.
    ///
    /// # Errors
    /// When it had left before, or stays.
    pub fn refuse(self, refusal: Refusal, patience: Duration) -> io::Result<()> {
        let socket = self.socket().try_clone_to_owned();
        let Connection { reader: _reader, writer, closer: _closer } =
            self.opened(String::new(), Opening::Refuses(refusal))?;
        drop(writer);
        if patience.is_zero() {
            return Ok(());
        }
        // A socket that is closed with something unread takes back what it has not sent yet.
        let socket = TcpStream::from(socket?);
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(patience))?;
        io::copy(&mut socket.take(REFUSED_LEN_MAX), &mut io::sink()).map(drop)
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("from", &self.from).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

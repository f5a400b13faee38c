//! The loop over UDP sockets, QUIC connections and their socket pairs. One thread runs it.

use super::config::{CLOSED_EARLY, TransportSettings};
use super::ends::{Ends, StreamEnd};
use super::link::Link;
use super::udp::{Datagrams, Inbox, Udp};
use crate::GateLimits;
use crate::gate::source;
use bytes::{Bytes, BytesMut};
use haul_sys::wait_ready;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Endpoint,
    EndpointConfig, EndpointEvent, Event, Incoming, ServerConfig, StreamEvent, Transmit,
    TransportErrorCode,
};
use rustix::event::{PollFd, PollFlags};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Batches of packets received from a socket before the others get a turn.
const BATCHES_MAX: usize = 4;

/// Transmissions of one connection before the others get a turn.
const TRANSMISSIONS_MAX: usize = 32;

/// Bytes sent to a caller for each byte received, before its address is validated.
const AMPLIFICATION_MAX: u64 = 3;

/// Once 1/`RETRY_FRACTION` of the allowed handshakes are open, new callers must validate their
/// address first.
const RETRY_FRACTION: usize = 4;

/// The alert for a key that is not accepted (RFC 8446, section 6).
const ACCESS_DENIED: u8 = 49;

/// Settings for callers.
pub(super) struct Rules {
    pub(super) config: Arc<ServerConfig>,
    pub(super) settings: TransportSettings,
    pub(super) limits: GateLimits,
}

/// An event of a connection without a pair.
pub(super) enum DriverEvent {
    /// Its handshake is complete.
    Connected(ConnectionHandle),
    Failed(ConnectionError),
}

/// The state of a connection beside QUIC's own.
enum Phase {
    /// - `has_failed`: it has failed. Its packets are answered until the other side can have
    ///   received the error.
    Handshaking {
        since: Instant,
        has_failed: bool,
    },
    /// The handshake is complete, but the pair is missing.
    Connected,
    Linked(Link),
    /// It was closed. Its last packet may have to be sent again.
    Closing,
}

struct Conn {
    quic: Connection,
    /// No more packets are sent or expected.
    is_drained: bool,
    /// The ID of its socket.
    socket: usize,
    state: Phase,
    /// It must be driven in the next turn.
    is_due: bool,
}

/// Sockets and connections.
pub(super) struct Driver {
    endpoint: Endpoint,
    /// The sockets by ID. IDs are not reused.
    sockets: BTreeMap<usize, Socket>,
    next_socket: usize,
    /// The endpoint reuses the handle of a connection only after [`Self::forget`]. No connection is
    /// added between an event and the end of its turn.
    conns: BTreeMap<ConnectionHandle, Conn>,
    rules: Option<Rules>,
    events: Vec<DriverEvent>,
    inbox: Inbox,
    outbox: Vec<u8>,
}

struct Socket {
    udp: Udp,
    role: SocketRole,
}

/// The purpose of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SocketRole {
    /// It accepts new callers.
    Callers,
    /// It belongs to a client.
    OwnClient,
    /// It serves existing connections only.
    Draining,
}

impl Driver {
    /// A driver without sockets and connections. It accepts callers only with `rules`.
    pub(super) fn new(config: EndpointConfig, rules: Option<Rules>) -> Self {
        let server = rules.as_ref().map(|rules| Arc::clone(&rules.config));
        // Where packets could be fragmented, the sockets limit their length.
        let endpoint = Endpoint::new(Arc::new(config), server, true, None);
        Self {
            endpoint,
            sockets: BTreeMap::new(),
            next_socket: 0,
            conns: BTreeMap::new(),
            rules,
            events: Vec::new(),
            inbox: Inbox::new(),
            outbox: Vec::new(),
        }
    }

    /// Replaces the settings for callers. With `None`, no caller is accepted.
    pub(super) fn set_rules(&mut self, rules: Option<Rules>) {
        let server = rules.as_ref().map(|rules| Arc::clone(&rules.config));
        self.endpoint.set_server_config(server);
        self.rules = rules;
    }

    /// Accepts callers at these sockets only, keeping those that it has already. Other sockets stay
    /// open while a connection uses them.
    ///
    /// # Errors
    /// Errors of `setsockopt`.
    pub(super) fn listen(&mut self, sockets: Vec<UdpSocket>) -> io::Result<()> {
        self.sockets.values_mut().for_each(|socket| socket.role = SocketRole::Draining);
        for socket in sockets {
            let address = socket.local_addr()?;
            match self.sockets.values_mut().find(|known| known.udp.local() == address) {
                Some(known) => known.role = SocketRole::Callers,
                None => {
                    self.add(Udp::new(socket)?, SocketRole::Callers);
                }
            }
        }
        self.close_unused_sockets();
        Ok(())
    }

    fn add(&mut self, udp: Udp, role: SocketRole) -> usize {
        let number = self.next_socket;
        self.sockets.insert(number, Socket { udp, role });
        self.next_socket += 1;
        number
    }

    /// Adds a client's socket.
    ///
    /// # Errors
    /// Errors of `setsockopt`.
    pub(super) fn add_client_socket(&mut self, udp: Udp) -> io::Result<usize> {
        udp.enable_error_reports()?;
        Ok(self.add(udp, SocketRole::OwnClient))
    }

    fn close_unused_sockets(&mut self) {
        let conns = &self.conns;
        self.sockets.retain(|number, socket| {
            socket.role != SocketRole::Draining || conns.values().any(|conn| conn.socket == *number)
        });
    }

    /// Starts a connection to `to` from this socket.
    ///
    /// # Errors
    /// When the address is not valid as a target.
    pub(super) fn connect(
        &mut self,
        socket: usize,
        config: ClientConfig,
        to: SocketAddr,
        name: &str,
    ) -> io::Result<ConnectionHandle> {
        let now = Instant::now();
        let connected = self.endpoint.connect(now, config, to, name);
        let (handle, quic) = connected.map_err(io::Error::other)?;
        self.insert(handle, quic, socket, now);
        self.drive(handle, now);
        Ok(handle)
    }

    fn insert(&mut self, handle: ConnectionHandle, quic: Connection, socket: usize, now: Instant) {
        let state = Phase::Handshaking { since: now, has_failed: false };
        let conn = Conn { quic, is_drained: false, socket, state, is_due: true };
        self.conns.insert(handle, conn);
    }

    /// The connection `id`, unless it was dropped.
    pub(super) fn quic(&self, id: ConnectionHandle) -> Option<&Connection> {
        self.conns.get(&id).map(|conn| &conn.quic)
    }

    /// The local address of the connection.
    pub(super) fn local(&self, id: ConnectionHandle) -> Option<SocketAddr> {
        let conn = self.conns.get(&id)?;
        let bound = self.sockets.get(&conn.socket)?.udp.local();
        // The socket may be bound to all addresses of the machine.
        Some(SocketAddr::new(conn.quic.local_ip().unwrap_or(bound.ip()), bound.port()))
    }

    /// Starts to move bytes between a connection and `ends`.
    ///
    /// # Errors
    /// When the connection no longer exists.
    pub(super) fn link(&mut self, id: ConnectionHandle, ends: Ends) -> io::Result<()> {
        let conn = self.conns.get_mut(&id).ok_or(io::ErrorKind::NotConnected)?;
        conn.state = Phase::Linked(Link::new(ends, &mut conn.quic)?);
        conn.is_due = true;
        Ok(())
    }

    /// Closes a connection that gets no pair.
    pub(super) fn close(&mut self, id: ConnectionHandle) {
        let now = Instant::now();
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.quic.close(now, CLOSED_EARLY, Bytes::new());
            conn.state = Phase::Closing;
            conn.is_due = true;
        }
    }

    /// The number of unfinished handshakes.
    pub(super) fn handshakes(&self) -> usize {
        self.conns.values().filter(|conn| conn.is_handshaking()).count()
    }

    /// The number of connections that have a pair.
    pub(super) fn linked(&self) -> usize {
        self.conns.values().filter(|conn| matches!(conn.state, Phase::Linked(_))).count()
    }

    /// True if the system has reported an undeliverable packet of that socket.
    pub(super) fn is_peer_unreachable(&self, socket: usize) -> bool {
        self.sockets.get(&socket).is_some_and(|socket| socket.udp.is_peer_unreachable())
    }

    /// Returns the events since the last call. A connection that has ended since is not reported as
    /// connected: a pair would wait for its end for ever.
    pub(super) fn events(&mut self) -> Vec<DriverEvent> {
        let mut events = std::mem::take(&mut self.events);
        events.retain(|event| match event {
            DriverEvent::Connected(id) => {
                self.conns.get(id).is_some_and(|conn| matches!(conn.state, Phase::Connected))
            }
            DriverEvent::Failed(_) => true,
        });
        events
    }

    /// Waits until something is ready, or `wait_max` is over, and handles it. Returns which of
    /// `others` are readable.
    ///
    /// # Errors
    /// Errors of `poll`.
    pub(super) fn turn(
        &mut self,
        others: &[BorrowedFd<'_>],
        wait_max: Option<Duration>,
    ) -> io::Result<Vec<bool>> {
        let now = Instant::now();
        let is_due = self.conns.values().any(|conn| conn.is_due);
        let next = self.conns.values_mut().filter_map(|conn| conn.deadline(self.rules.as_ref()));
        let next = next.min().map(|at| at.saturating_duration_since(now));
        let timeout = if is_due { Some(Duration::ZERO) } else { next };
        let timeout = [timeout, wait_max].into_iter().flatten().min();
        let mut fds: Vec<PollFd<'_>> =
            others.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        for socket in self.sockets.values() {
            let out = if socket.udp.is_blocked() { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::from_borrowed_fd(socket.udp.fd(), PollFlags::IN | out));
        }
        let mut linked = Vec::new();
        for (number, conn) in &self.conns {
            if let Phase::Linked(link) = &conn.state
                && let Some(flags) = link.interest()
            {
                linked.push(*number);
                fds.push(PollFd::from_borrowed_fd(link.fd(), flags));
            }
        }
        wait_ready(&mut fds, timeout)?;
        let mut events = fds.iter().map(PollFd::revents);
        let ready = events.by_ref().take(others.len()).map(|events| !events.is_empty()).collect();
        let of_sockets: Vec<PollFlags> = events.by_ref().take(self.sockets.len()).collect();
        let of_links: Vec<PollFlags> = events.collect();
        drop(fds);
        for (number, events) in linked.into_iter().zip(of_links) {
            let Some(conn) = self.conns.get_mut(&number).filter(|_| !events.is_empty()) else {
                continue;
            };
            if let Phase::Linked(link) = &mut conn.state
                && events.contains(PollFlags::HUP)
            {
                link.job_closed();
            }
            conn.is_due = true;
        }
        let numbers: Vec<usize> = self.sockets.keys().copied().collect();
        for (number, events) in numbers.into_iter().zip(of_sockets) {
            self.service_socket(number, events);
        }
        self.drive_due();
        Ok(ready)
    }

    /// Sends packets that the socket refused before, and receives new ones.
    fn service_socket(&mut self, number: usize, events: PollFlags) {
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        if socket.udp.is_blocked() && events.contains(PollFlags::OUT) {
            socket.udp.flush_unsent();
            let sent = !socket.udp.is_blocked();
            let users = self.conns.values_mut().filter(|conn| conn.socket == number);
            users.for_each(|conn| conn.is_due |= sent);
        }
        if events.contains(PollFlags::ERR) {
            socket.udp.read_reports();
        }
        if !events.intersects(PollFlags::IN | PollFlags::ERR) {
            return;
        }
        for _ in 0..BATCHES_MAX {
            let now = Instant::now();
            let Some(socket) = self.sockets.get(&number) else { return };
            let Some(received) = self.inbox.receive(&socket.udp) else { return };
            for mut datagrams in received {
                while !datagrams.bytes.is_empty() {
                    let len = datagrams.len.clamp(1, datagrams.bytes.len());
                    let packet = datagrams.bytes.split_to(len);
                    self.take(number, now, &datagrams, packet);
                }
            }
        }
    }

    fn take(&mut self, socket: usize, now: Instant, of: &Datagrams, packet: BytesMut) {
        self.outbox.clear();
        match self.endpoint.handle(now, of.from, of.to, of.ecn, packet, &mut self.outbox) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(conn) = self.conns.get_mut(&handle) {
                    conn.quic.handle_event(event);
                    conn.is_due = true;
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.admit(socket, now, incoming),
            Some(DatagramEvent::Response(transmit)) => self.respond(socket, transmit),
            None => {}
        }
    }

    /// Starts the handshake of a caller, unless it must validate its address first.
    fn admit(&mut self, socket: usize, now: Instant, incoming: Incoming) {
        let listens =
            self.sockets.get(&socket).is_some_and(|socket| socket.role == SocketRole::Callers);
        let Some(rules) = self.rules.as_ref().filter(|_| listens) else {
            self.endpoint.ignore(incoming);
            return;
        };
        let (limits, mut settings, mut config) =
            (rules.limits, rules.settings, ServerConfig::clone(&rules.config));
        self.outbox.clear();
        // Callers with a validated address are not asked again.
        let must_retry = self.handshakes() >= limits.handshakes_max / RETRY_FRACTION;
        if must_retry && incoming.may_retry() {
            if let Ok(transmit) = self.endpoint.retry(incoming, &mut self.outbox) {
                self.respond(socket, transmit);
            }
            return;
        }
        self.evict_for(source(incoming.remote_address().ip()), limits);
        let from = incoming.remote_address();
        if let Some(socket) = self.sockets.get(&socket) {
            settings.packet_len_max = socket.udp.packet_len_to(from);
        }
        config.transport_config(settings.transport());
        self.outbox.clear();
        match self.endpoint.accept(incoming, now, &mut self.outbox, Some(Arc::new(config))) {
            Ok((handle, quic)) => self.insert(handle, quic, socket, now),
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.respond(socket, transmit);
                }
            }
        }
    }

    /// Sends the data in the outbox.
    fn respond(&mut self, socket: usize, transmit: Transmit) {
        if let Some(socket) = self.sockets.get_mut(&socket)
            && !socket.udp.is_blocked()
        {
            socket.udp.send(transmit, &self.outbox);
        }
    }

    /// Drops handshakes until there is room for another from `new`. Drops failed ones first, then
    /// the oldest.
    fn evict_for(&mut self, new: IpAddr, limits: GateLimits) {
        let of_new = |conn: &Conn| source(conn.quic.remote_address().ip()) == new;
        let handshakes = self.conns.values().filter(|conn| conn.is_handshaking());
        if handshakes.filter(|conn| of_new(conn)).count() >= limits.per_source_max {
            self.evict_oldest(of_new);
        }
        if self.handshakes() >= limits.handshakes_max {
            self.evict_oldest(|_| true);
        }
    }

    fn evict_oldest(&mut self, is_candidate: impl Fn(&Conn) -> bool) {
        let handshakes = self.conns.iter().filter(|(_, conn)| is_candidate(conn));
        let oldest = handshakes
            .filter_map(|(number, conn)| match conn.state {
                Phase::Handshaking { since, has_failed } => Some((!has_failed, since, *number)),
                _ => None,
            })
            .min();
        if let Some((.., number)) = oldest {
            self.forget(number);
        }
    }

    /// Drops a connection without notice to the peer.
    fn forget(&mut self, id: ConnectionHandle) {
        if self.conns.remove(&id).is_some() {
            self.endpoint.handle_event(id, EndpointEvent::drained());
            self.close_unused_sockets();
        }
    }

    fn drive_due(&mut self) {
        let now = Instant::now();
        let mut due = Vec::new();
        for (number, conn) in &mut self.conns {
            if conn.quic.poll_timeout().is_some_and(|at| at <= now) {
                conn.quic.handle_timeout(now);
                conn.is_due = true;
            }
            if conn.is_due {
                due.push(*number);
            }
        }
        let late = self.rules.as_ref().map(|rules| rules.limits.handshake_max);
        let is_late = |conn: &Conn| match (&conn.state, late) {
            (Phase::Handshaking { since, .. }, Some(max)) => now - *since >= max,
            _ => false,
        };
        let late = self.conns.iter().filter(|(_, conn)| is_late(conn));
        let late: Vec<ConnectionHandle> = late.map(|(id, _)| *id).collect();
        due.into_iter().for_each(|id| self.drive(id, now));
        late.into_iter().for_each(|id| self.forget(id));
    }

    /// Does all pending work of a connection that is possible now.
    fn drive(&mut self, id: ConnectionHandle, now: Instant) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.is_due = false;
        while let Some(event) = conn.quic.poll() {
            match (event, &mut conn.state) {
                (Event::Connected, Phase::Handshaking { .. }) => {
                    conn.state = Phase::Connected;
                    self.events.push(DriverEvent::Connected(id));
                }
                (Event::ConnectionLost { reason }, Phase::Linked(link)) => {
                    tracing::debug!(%reason, "a connection has ended");
                    link.lost(stream_end_of(&reason));
                }
                (Event::ConnectionLost { reason }, Phase::Handshaking { has_failed, .. }) => {
                    tracing::debug!(%reason, "a handshake has failed");
                    self.events.push(DriverEvent::Failed(reason));
                    *has_failed = true;
                }
                (Event::ConnectionLost { reason }, Phase::Connected) => {
                    self.events.push(DriverEvent::Failed(reason));
                    conn.state = Phase::Closing;
                }
                (Event::Stream(StreamEvent::Finished { .. }), Phase::Linked(link)) => {
                    link.acknowledged();
                }
                _ => {}
            }
        }
        if let Phase::Linked(link) = &mut conn.state {
            link.pump(&mut conn.quic, now);
            if link.is_over() {
                conn.state = Phase::Closing;
            }
        }
        if let Some(socket) = self.sockets.get_mut(&conn.socket) {
            conn.is_due |= transmit(conn, &mut socket.udp, &mut self.outbox, now);
        }
        while let Some(event) = conn.quic.poll_endpoint_events() {
            if event.is_drained() {
                // The endpoint learns it once the connection is forgotten.
                conn.is_drained = true;
            } else if let Some(event) = self.endpoint.handle_event(id, event) {
                conn.quic.handle_event(event);
                conn.is_due = true;
            }
        }
        let is_unused = !matches!(conn.state, Phase::Linked(_));
        // A job may still be reading received data.
        if is_unused && conn.is_drained {
            self.forget(id);
        }
    }
}

/// Sends pending packets of `conn`. Returns true if more may be left for the next turn.
fn transmit(conn: &mut Conn, udp: &mut Udp, outbox: &mut Vec<u8>, now: Instant) -> bool {
    for _ in 0..TRANSMISSIONS_MAX {
        if udp.is_blocked() {
            return false;
        }
        outbox.clear();
        let batch = udp.batch(conn.quic.current_mtu());
        let Some(transmit) = conn.quic.poll_transmit(now, batch, outbox) else { return false };
        if conn.can_send() {
            udp.send(transmit, outbox);
        }
    }
    true
}

impl Conn {
    fn is_handshaking(&self) -> bool {
        matches!(self.state, Phase::Handshaking { .. })
    }

    /// False if a caller whose address is not validated would get more than three times the data
    /// that it has sent (RFC 9000, section 8.1). The state machine lets the last packet exceed
    /// that.
    fn can_send(&self) -> bool {
        if !self.is_handshaking() || self.quic.side().is_client() {
            return true;
        }
        let udp = self.quic.stats();
        // The first packet is not counted. A shorter one starts no connection.
        let received = udp.udp_rx.bytes + u64::from(super::config::PACKET_LEN_MIN);
        udp.udp_tx.bytes <= AMPLIFICATION_MAX * received
    }

    /// The time at which the connection must be driven.
    fn deadline(&mut self, rules: Option<&Rules>) -> Option<Instant> {
        let late = match (&self.state, rules) {
            (Phase::Handshaking { since, .. }, Some(rules)) => {
                Some(*since + rules.limits.handshake_max)
            }
            _ => None,
        };
        [late, self.quic.poll_timeout()].into_iter().flatten().min()
    }
}

/// How the stream of a connection ends if the connection ended for `reason`.
fn stream_end_of(reason: &ConnectionError) -> StreamEnd {
    match reason {
        ConnectionError::ApplicationClosed(close) if close.error_code == super::config::ENDED => {
            StreamEnd::Ended
        }
        ConnectionError::ConnectionClosed(close) if is_alert(close.error_code) => {
            StreamEnd::Refused
        }
        _ => StreamEnd::CutOff,
    }
}

/// True if the code is a TLS alert.
fn is_alert(code: TransportErrorCode) -> bool {
    (0x100..0x200).contains(&u64::from(code))
}

/// True if this side does not accept the other side's key.
pub(super) fn is_wrong_key(reason: &ConnectionError) -> bool {
    let denied = TransportErrorCode::crypto(ACCESS_DENIED);
    matches!(reason, ConnectionError::TransportError(error) if error.code == denied)
}

/// True if the other side closed the handshake with an alert.
pub(super) fn was_refused(reason: &ConnectionError) -> bool {
    matches!(reason, ConnectionError::ConnectionClosed(close) if is_alert(close.error_code))
}

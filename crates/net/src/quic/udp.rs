//! A UDP socket, with what the system has to send and receive many packets at once.

use super::config::{PACKET_LEN_MAX, PACKET_LEN_MIN, packet_len_of};
use quinn_proto::Transmit;
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSockRef, UdpSocketState};
use rustix::net::sockopt;
use socket2::{Domain, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes that the system may hold for a socket, each way. Where it allows less, it holds less.
const BUFFER_LEN: usize = 4 << 20;

/// Bytes of the largest batch of packets that the system joins into one.
const JOINED_LEN_MAX: usize = 64 << 10;

/// A socket for QUIC on `address`. One for IPv6 takes no packets of IPv4.
///
/// # Errors
/// When the address or the port can't be had.
pub fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    let socket = UdpSocket::from(socket);
    enlarge(&socket);
    Ok(socket)
}

/// Has the system hold more for `socket`. It goes past its bounds for a process with the right
/// to that, and takes what it allows otherwise.
#[cfg(target_os = "linux")]
fn enlarge(socket: &UdpSocket) {
    if sockopt::set_socket_recv_buffer_size_force(socket, BUFFER_LEN).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(socket, BUFFER_LEN);
    }
    let _ = sockopt::set_socket_send_buffer_size(socket, BUFFER_LEN);
}

/// Has the system hold more for `socket`, as far as it allows that.
#[cfg(not(target_os = "linux"))]
fn enlarge(socket: &UdpSocket) {
    let _ = sockopt::set_socket_recv_buffer_size(socket, BUFFER_LEN);
    let _ = sockopt::set_socket_send_buffer_size(socket, BUFFER_LEN);
}

/// A UDP socket.
pub(super) struct Udp {
    socket: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    /// Packets that the system did not take yet.
    unsent: VecDeque<(Transmit, Vec<u8>)>,
    /// See [`Self::has_missed`].
    has_missed: bool,
}

impl Udp {
    /// # Errors
    /// Those of `setsockopt`.
    pub(super) fn new(socket: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let local = socket.local_addr()?;
        Ok(Self { socket, state, local, unsent: VecDeque::new(), has_missed: false })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// The largest packet that the first link to `peer` carries. The shortest that QUIC has,
    /// where packets could be cut on their way unnoticed.
    pub(super) fn packet_len_to(&self, peer: SocketAddr) -> u16 {
        match self.state.may_fragment() {
            true => PACKET_LEN_MIN,
            false => packet_len_of(haul_sys::mtu_to(peer), peer.ip().to_canonical().is_ipv6()),
        }
    }

    /// True while the system takes no more.
    pub(super) fn is_full(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Packets of `len` bytes that may be sent at once.
    pub(super) fn batch(&self, len: u16) -> usize {
        let fit = usize::from(PACKET_LEN_MAX) / usize::from(len.max(1));
        self.state.max_gso_segments().min(fit).max(1)
    }

    /// Sends the packets in `bytes`, now or as soon as the system takes them. A packet that
    /// can't be sent is a lost one.
    pub(super) fn send(&mut self, transmit: Transmit, bytes: &[u8]) {
        if self.is_full() || !self.try_send(&transmit, bytes) {
            self.unsent.push_back((transmit, bytes.to_vec()));
        }
    }

    /// Sends what was not taken before.
    pub(super) fn send_rest(&mut self) {
        while let Some((transmit, bytes)) = self.unsent.pop_front() {
            if !self.try_send(&transmit, &bytes) {
                self.unsent.push_front((transmit, bytes));
                return;
            }
        }
    }

    /// False if the system takes nothing now.
    fn try_send(&self, transmit: &Transmit, bytes: &[u8]) -> bool {
        let ecn = transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8));
        let sent = self.state.try_send(
            UdpSockRef::from(&self.socket),
            &quinn_udp::Transmit {
                destination: transmit.destination,
                ecn,
                contents: &bytes[..transmit.size],
                segment_size: transmit.segment_size,
                src_ip: transmit.src_ip,
            },
        );
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => {
                // A packet that is too large for the first link is how the largest one is found.
                if !quinn_udp::is_msg_size_err(&error) {
                    tracing::debug!(%error, to = %transmit.destination, "a packet was not sent");
                }
                true
            }
            Ok(()) => true,
        }
    }

    /// Has the system report packets that do not arrive, as far as it hears of that.
    ///
    /// # Errors
    /// Those of `setsockopt`.
    pub(super) fn watch_ways(&self) -> io::Result<()> {
        self.state.enable_transport_errors(UdpSockRef::from(&self.socket))
    }

    /// Reads these reports. They keep the socket ready until they are read.
    pub(super) fn read_reports(&mut self) {
        while let Ok(Some(error)) = self.state.recv_transport_error(UdpSockRef::from(&self.socket))
        {
            self.has_missed |=
                matches!(error.payload, quinn_udp::TransportErrorPayload::Unreachable);
        }
    }

    /// True if a report said that a host or a port can't be reached.
    pub(super) fn has_missed(&self) -> bool {
        self.has_missed
    }
}

/// Packets that came together.
pub(super) struct Came<'a> {
    pub(super) from: SocketAddr,
    pub(super) to: Option<IpAddr>,
    pub(super) ecn: Option<quinn_proto::EcnCodepoint>,
    /// Each has this length, but the last one.
    pub(super) len: usize,
    pub(super) bytes: &'a [u8],
}

/// Room for packets that come.
#[derive(Default)]
pub(super) struct Inbox(Vec<u8>);

impl Inbox {
    pub(super) fn new() -> Self {
        Self(vec![0; BATCH_SIZE * JOINED_LEN_MAX])
    }

    /// Takes packets that have come to `socket`; false if there are none.
    pub(super) fn receive(&mut self, socket: &Udp, mut take: impl FnMut(Came<'_>)) -> bool {
        let mut parts = self.0.chunks_mut(JOINED_LEN_MAX);
        let mut parts: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let received = socket.state.recv(UdpSockRef::from(&socket.socket), &mut parts, &mut metas);
        let count = match received {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            // Others than an empty socket are about packets that this side has sent.
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        };
        for (meta, part) in metas.iter().zip(&parts).take(count) {
            let ecn = meta.ecn.and_then(|ecn| quinn_proto::EcnCodepoint::from_bits(ecn as u8));
            let bytes = &part[..meta.len];
            take(Came { from: meta.addr, to: meta.dst_ip, ecn, len: meta.stride, bytes });
        }
        count > 0
    }
}

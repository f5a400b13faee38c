//! A UDP socket that sends and receives packets in batches.

use super::config::{PACKET_LEN_MAX, PACKET_LEN_MIN, packet_len_of};
use bytes::BytesMut;
use quinn_proto::Transmit;
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSockRef, UdpSocketState};
use rustix::net::sockopt;
use socket2::{Domain, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// Requested buffer of a socket, in bytes each way. The system may grant less.
const BUFFER_LEN: usize = 4 << 20;

/// Bytes of the largest batch that the system joins from packets.
const JOINED_LEN_MAX: usize = 64 << 10;

/// Creates a QUIC socket at `address`. An IPv6 socket takes no IPv4 packets.
///
/// # Errors
/// When the address or the port is not available.
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

/// Enlarges the buffers of `socket`: beyond the system's limit if the process has that right, else
/// as far as allowed.
#[cfg(target_os = "linux")]
fn enlarge(socket: &UdpSocket) {
    if sockopt::set_socket_recv_buffer_size_force(socket, BUFFER_LEN).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(socket, BUFFER_LEN);
    }
    let _ = sockopt::set_socket_send_buffer_size(socket, BUFFER_LEN);
}

/// Enlarges the buffers of `socket` as far as the system allows.
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
    /// Packets that the system has not taken yet.
    unsent: VecDeque<(Transmit, Vec<u8>)>,
    /// See [`Self::is_peer_unreachable`].
    is_peer_unreachable: bool,
}

impl Udp {
    /// # Errors
    /// Errors of `setsockopt`.
    pub(super) fn new(socket: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let local = socket.local_addr()?;
        Ok(Self { socket, state, local, unsent: VecDeque::new(), is_peer_unreachable: false })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// The largest packet that the first hop to `peer` carries. If packets could be fragmented
    /// unnoticed, QUIC's minimum.
    pub(super) fn packet_len_to(&self, peer: SocketAddr) -> u16 {
        match self.state.may_fragment() {
            true => PACKET_LEN_MIN,
            false => packet_len_of(haul_sys::mtu_to(peer), peer.ip().to_canonical().is_ipv6()),
        }
    }

    /// True while the system takes no packets.
    pub(super) fn is_blocked(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// How many packets of `len` bytes fit in one batch.
    pub(super) fn batch(&self, len: u16) -> usize {
        let fit = usize::from(PACKET_LEN_MAX) / usize::from(len.max(1));
        self.state.max_gso_segments().min(fit).max(1)
    }

    /// Sends the packets in `bytes`, now or as soon as the system takes them. A packet that can't
    /// be sent counts as lost.
    pub(super) fn send(&mut self, transmit: Transmit, bytes: &[u8]) {
        if self.is_blocked() || !self.try_send(&transmit, bytes) {
            self.unsent.push_back((transmit, bytes.to_vec()));
        }
    }

    /// Sends the queued packets.
    pub(super) fn flush_unsent(&mut self) {
        while let Some((transmit, bytes)) = self.unsent.pop_front() {
            if !self.try_send(&transmit, &bytes) {
                self.unsent.push_front((transmit, bytes));
                return;
            }
        }
    }

    /// Returns false if the system takes no packets now.
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
                // MTU discovery sends packets that are too large for the first hop.
                if !quinn_udp::is_msg_size_err(&error) {
                    tracing::debug!(%error, to = %transmit.destination, "a packet was not sent");
                }
                true
            }
            Ok(()) => true,
        }
    }

    /// Enables reports about undeliverable packets, as far as the system gets them.
    ///
    /// # Errors
    /// Errors of `setsockopt`.
    pub(super) fn enable_error_reports(&self) -> io::Result<()> {
        self.state.enable_transport_errors(UdpSockRef::from(&self.socket))
    }

    /// Reads these reports. Unread reports keep the socket ready.
    pub(super) fn read_reports(&mut self) {
        while let Ok(Some(error)) = self.state.recv_transport_error(UdpSockRef::from(&self.socket))
        {
            self.is_peer_unreachable |=
                matches!(error.payload, quinn_udp::TransportErrorPayload::Unreachable);
        }
    }

    /// True if a report said that a host or a port is unreachable.
    pub(super) fn is_peer_unreachable(&self) -> bool {
        self.is_peer_unreachable
    }
}

/// Packets received as one batch.
pub(super) struct Datagrams {
    pub(super) from: SocketAddr,
    pub(super) to: Option<IpAddr>,
    pub(super) ecn: Option<quinn_proto::EcnCodepoint>,
    /// The length of each packet; the last may be shorter.
    pub(super) len: usize,
    pub(super) bytes: BytesMut,
}

/// The receive buffer.
pub(super) struct Inbox(Vec<u8>);

impl Inbox {
    pub(super) fn new() -> Self {
        Self(vec![0; BATCH_SIZE * JOINED_LEN_MAX])
    }

    /// Receives packets from `socket`. `None` if there are none.
    pub(super) fn receive(&mut self, socket: &Udp) -> Option<Vec<Datagrams>> {
        let mut parts = self.0.chunks_mut(JOINED_LEN_MAX);
        let mut parts: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let received = socket.state.recv(UdpSockRef::from(&socket.socket), &mut parts, &mut metas);
        let count = match received {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            // It was interrupted, or the error is about packets that this side has sent.
            Err(_) => return Some(Vec::new()),
        };
        let datagrams = |(meta, part): (&RecvMeta, &IoSliceMut<'_>)| {
            let ecn = meta.ecn.and_then(|ecn| quinn_proto::EcnCodepoint::from_bits(ecn as u8));
            let bytes = part[..meta.len].into();
            Datagrams { from: meta.addr, to: meta.dst_ip, ecn, len: meta.stride, bytes }
        };
        (count > 0).then(|| metas.iter().zip(&parts).take(count).map(datagrams).collect())
    }
}

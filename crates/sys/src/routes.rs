//! Network paths from this machine, and statistics about their packets.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

/// The MTU of the path to `peer`, as far as the system knows it: at least that of the first hop.
/// `None` if it does not report it. No packet is sent.
#[cfg(target_os = "linux")]
pub fn mtu_to(peer: SocketAddr) -> Option<u32> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
    let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let probe = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    connect(&probe, &peer).ok()?;
    match peer.is_ipv4() {
        true => sockopt::ip_mtu(&probe).ok(),
        false => sockopt::ipv6_mtu(&probe).ok(),
    }
}

elsewhere!(pub fn mtu_to(SocketAddr) -> Option<u32> = None);

/// Statistics about the packets with content that this side of a connection has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketStats {
    /// The number of packets, including retransmissions.
    pub packets: u64,
    /// The number of packets noticed as lost.
    pub lost: u64,
    /// The shortest round trip.
    pub round_trip: Duration,
}

/// The statistics of the TCP connection `socket`. `None` if the system does not report them, or it
/// is no TCP connection.
#[cfg(target_os = "linux")]
pub fn packet_stats(socket: impl AsFd) -> Option<PacketStats> {
    let info = info::TcpInfo::of(socket.as_fd())?;
    Some(PacketStats {
        packets: info.word(info::DATA_SEGS_OUT)?.into(),
        lost: info.word(info::TOTAL_RETRANS)?.into(),
        round_trip: info.round_trip()?,
    })
}

elsewhere!(pub fn packet_stats(impl AsFd) -> Option<PacketStats> = None);

#[cfg(target_os = "linux")]
pub(crate) mod info {
    use std::os::fd::{AsRawFd, BorrowedFd};
    use std::time::Duration;

    /// Indices of the four-byte fields of `tcp_info` that are read (linux/tcp.h): the smoothed and
    /// the shortest round trip, in microseconds, and numbers of packets.
    const RTT: usize = 17;
    const MIN_RTT: usize = 37;
    pub(super) const TOTAL_RETRANS: usize = 25;
    pub(super) const DATA_SEGS_OUT: usize = 39;

    /// The first byte of `tcp_info` of an established connection.
    const ESTABLISHED: u8 = 1;

    /// The fields, and how many of them the system has filled in.
    pub(crate) struct TcpInfo([u32; 64], usize);

    impl TcpInfo {
        /// `None` if `socket` is no TCP socket.
        pub(crate) fn of(socket: BorrowedFd<'_>) -> Option<Self> {
            let mut info = [0_u32; 64];
            let mut len = libc::socklen_t::try_from(size_of_val(&info)).ok()?;
            // SAFETY: `info` and `len` live until the call returns, and `len` is the length of
            // `info`, beyond which the system writes nothing. All bytes are valid numbers.
            #[allow(unsafe_code)]
            let result = unsafe {
                libc::getsockopt(
                    socket.as_raw_fd(),
                    libc::IPPROTO_TCP,
                    libc::TCP_INFO,
                    info.as_mut_ptr().cast(),
                    &raw mut len,
                )
            };
            // Other sockets refuse this.
            (result == 0).then_some(Self(info, len as usize / size_of::<u32>()))
        }

        /// True if the connection is established.
        pub(crate) fn is_established(&self) -> bool {
            self.0[0].to_ne_bytes()[0] == ESTABLISHED
        }

        /// A field. Older systems do not fill in all.
        pub(super) fn word(&self, field: usize) -> Option<u32> {
            self.0.get(..self.1)?.get(field).copied()
        }

        /// The shortest round trip, or else the smoothed one.
        pub(crate) fn round_trip(&self) -> Option<Duration> {
            // Before the first answer the shortest is all ones.
            let known =
                |field: usize| self.word(field).filter(|micros| !matches!(*micros, 0 | u32::MAX));
            let micros = known(MIN_RTT).or_else(|| known(RTT))?;
            Some(Duration::from_micros(micros.into()))
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    #[test]
    fn the_packets_of_a_connection_are_counted() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let mut here = TcpStream::connect(listener.local_addr().expect("bound")).expect("called");
        let (mut there, _) = listener.accept().expect("accepted");
        here.write_all(b"hello").expect("written");
        there.read_exact(&mut [0; 5]).expect("read");
        let counts = packet_stats(&here).expect("a TCP connection");
        assert_eq!((counts.packets, counts.lost), (1, 0));
        assert!(mtu_to((Ipv4Addr::LOCALHOST, 9).into()).is_some_and(|mtu| mtu >= 576));
        let (pipe, _) = std::io::pipe().expect("a pipe");
        assert_eq!(packet_stats(&pipe), None);
    }
}

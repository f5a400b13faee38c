//! How direct connections reach the process of a job: on a port of its own, or on the port of a
//! server. The server forwards callers to the job whose key their TLS greeting names. It does not
//! decrypt them: the job itself checks their keys.

use crate::{DirectListener, Identity};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

/// Most bytes of a caller's greeting that are forwarded with it.
pub(crate) const GREETING_MAX: usize = 24 << 10;

/// How direct connections reach this process.
#[derive(Debug, Clone)]
pub enum ListenTarget {
    /// A port of its own at this address.
    Port(IpAddr),
    /// The port of a server, which forwards callers.
    Server(Forwarded),
}

impl ListenTarget {
    /// Listens for the caller with the key `client`. A port of its own is one of `ports`, if given.
    ///
    /// # Errors
    /// When no port is free or no key can be created.
    pub fn open(&self, ports: Option<(u16, u16)>, client: [u8; 32]) -> io::Result<DirectListener> {
        match self {
            Self::Port(ip) => DirectListener::bind(*ip, ports, &Identity::new()?, client),
            Self::Server(forwarded) => {
                DirectListener::forwarded(forwarded, &forwarded.identity, client)
            }
        }
    }
}

/// The server's end, in the process that accepts callers.
pub struct Forwarder {
    socket: UnixDatagram,
    label: String,
}

/// The job's end.
#[derive(Debug, Clone)]
pub struct Forwarded {
    socket: Arc<UnixDatagram>,
    /// The key that callers of this job name.
    identity: Identity,
    /// The address of the server's port.
    pub(crate) address: SocketAddr,
}

impl Forwarder {
    /// Creates both ends, for a job whose client has reached the server at `address`.
    ///
    /// # Errors
    /// When the system gives no sockets or no random numbers.
    pub fn new(address: SocketAddr) -> io::Result<(Self, Forwarded)> {
        let (socket, to_job) = UnixDatagram::pair()?;
        socket.set_nonblocking(true)?;
        to_job.set_nonblocking(true)?;
        let identity = Identity::new()?;
        let label = identity.key().label();
        Ok((Self { socket, label }, Forwarded { socket: Arc::new(to_job), identity, address }))
    }

    /// True if callers with `label` belong to this job.
    pub(crate) fn is_for(&self, label: &str) -> bool {
        self.label == label
    }

    /// Passes a caller to the job, with its address `from` and the `greeting` that it sent.
    ///
    /// # Errors
    /// When the job has ended, or its queue of callers is full.
    pub(crate) fn forward(
        &self,
        caller: &TcpStream,
        from: IpAddr,
        greeting: &[u8],
    ) -> io::Result<()> {
        let ip = match from {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        haul_sys::pass(&self.socket, &[&ip.octets(), greeting].concat(), &[caller.as_fd()])
    }
}

impl Forwarded {
    /// The socket, for polling.
    pub(crate) fn socket(&self) -> &UnixDatagram {
        &self.socket
    }

    /// Returns the next caller: its socket, its address and its greeting.
    ///
    /// # Errors
    /// Errors of `recvmsg`; `WouldBlock` if there is none.
    pub(crate) fn take(&self) -> io::Result<(TcpStream, IpAddr, Vec<u8>)> {
        let mut words = vec![0; IP_LEN + GREETING_MAX];
        let (len, passed) = haul_sys::receive_passed(&self.socket, &mut words)?;
        words.truncate(len);
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let (ip, greeting) = words.split_first_chunk::<IP_LEN>().ok_or_else(invalid)?;
        let [socket] = <[OwnedFd; 1]>::try_from(passed).map_err(|_| invalid())?;
        Ok((socket.into(), IpAddr::from(*ip).to_canonical(), greeting.to_vec()))
    }
}

/// The length of an encoded address. IPv4 addresses are encoded as mapped IPv6 addresses.
const IP_LEN: usize = 16;

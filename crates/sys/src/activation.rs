//! Sockets that the parent process has opened for this one, as systemd does.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first of these descriptors.
const FIRST: i32 = 3;

/// Most descriptors that are taken.
const COUNT_MAX: u32 = 256;

/// Sockets opened for this process.
#[derive(Debug, Default)]
pub struct Activated {
    /// TCP listeners.
    pub tcp: Vec<TcpListener>,
    /// UDP sockets.
    pub udp: Vec<UdpSocket>,
}

/// The TCP listeners and UDP sockets among the `count` descriptors from 3 on. This process owns all
/// of them from now on, and closes those of other kinds.
///
/// **Call it once, before the process opens anything.** A second call returns no sockets.
pub fn sockets_from_parent(count: u32) -> Activated {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let mut activated = Activated::default();
    if !TAKEN.swap(true, Ordering::Relaxed) {
        (0..count.min(COUNT_MAX)).for_each(|nth| take(FIRST + nth as i32, &mut activated));
    }
    activated
}

fn take(fd: i32, activated: &mut Activated) {
    use rustix::net::sockopt;
    use std::os::fd::{FromRawFd, OwnedFd};
    // SAFETY: it only checks whether the descriptor is open.
    #[allow(unsafe_code)]
    let is_open = unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0;
    if !is_open {
        return;
    }
    // SAFETY: the descriptor is open, and nothing else in this process owns it. The caller
    // guarantees that, and each is taken once.
    #[allow(unsafe_code)]
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let is_private = rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC).is_ok();
    let address = rustix::net::getsockname(&fd).ok();
    let is_ip = address.is_some_and(|address| std::net::SocketAddr::try_from(address).is_ok());
    let listens = sockopt::socket_acceptconn(&fd).unwrap_or(false);
    match sockopt::socket_type(&fd).ok().filter(|_| is_private && is_ip) {
        Some(rustix::net::SocketType::STREAM) if listens => activated.tcp.push(fd.into()),
        Some(rustix::net::SocketType::DGRAM) => activated.udp.push(fd.into()),
        _ => {}
    }
}

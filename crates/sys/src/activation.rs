//! Sockets that the process which has started this one has opened for it, as systemd does.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first of these descriptors.
const FIRST: i32 = 3;

/// The most that are taken.
const COUNT_MAX: u32 = 16;

/// The TCP listeners among the `count` descriptors from 3 on. All of them belong to this
/// process from now on; what is no TCP listener is closed.
///
/// **To be called once, and before the process opens anything**; the second call returns
/// none.
pub fn listeners_from_parent(count: u32) -> Vec<TcpListener> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    (0..count.min(COUNT_MAX)).filter_map(|nth| take(FIRST + nth as i32)).collect()
}

fn take(fd: i32) -> Option<TcpListener> {
    use rustix::net::sockopt;
    use std::os::fd::{FromRawFd, OwnedFd};
    // SAFETY: Whether it is open is only looked at.
    #[allow(unsafe_code)]
    let is_open = unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0;
    if !is_open {
        return None;
    }
    // SAFETY: It is open, and nothing else in this process owns it: the caller says so, and
    // each is taken once.
    #[allow(unsafe_code)]
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC).ok()?;
    let listens = sockopt::socket_acceptconn(&fd).ok()?;
    let is_stream = sockopt::socket_type(&fd).ok()? == rustix::net::SocketType::STREAM;
    let address = rustix::net::getsockname(&fd).ok()?;
    let is_ip = std::net::SocketAddr::try_from(address).is_ok();
    (listens && is_stream && is_ip).then(|| fd.into())
}

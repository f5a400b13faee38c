//! Pipes and sockets between haul and ssh, and between sshd and haul.

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

/// The requested capacity of a pipe, in bytes: the most that an unprivileged process gets by
/// default on Linux.
///
/// A large pipe does more than save context switches. sshd writes to its child once per turn of its
/// loop, as much as the pipe takes, and reads up to 256 KiB from the network. With a pipe of 64 KiB
/// its own buffer fills up, and it spends most of its time moving that buffer.
#[cfg(any(target_os = "linux", target_os = "android"))]
const PIPE_BYTES: usize = 1 << 20;

/// Requests a larger pipe. If the system refuses, or `pipe` is no pipe, it is only slower.
pub fn enlarge_pipe(pipe: impl AsFd) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = pipe;
}

/// The requested buffer of a socket, in bytes: the window of an OpenSSH client. Linux limits it to
/// `net.core.wmem_max`.
const SOCKET_BYTES: usize = 2 << 20;

/// Creates the stream from the remote shell: our end for reading, and the child's standard output.
///
/// For ssh (`is_ssh`) it is a pair of sockets. Two processes that use a pipe at the same time wait
/// for its lock by turns, page by page. A socket keeps each write in one piece, which halves the
/// time of both.
///
/// The other direction stays a pipe, since content is spliced into it. Other programs get pipes
/// only: a script may open `/dev/stdout`, which fails for a socket.
///
/// # Errors
/// Errors of `socketpair` and `pipe`.
pub(crate) fn stdout_pair(is_ssh: bool) -> io::Result<(OwnedFd, Stdio)> {
    if !is_ssh {
        let (ours, theirs) = io::pipe()?;
        enlarge_pipe(&ours);
        return Ok((ours.into(), theirs.into()));
    }
    let (ours, theirs) = UnixStream::pair()?;
    // If the system refuses, it is only slower. Linux uses the writer's size alone.
    let _ = set_socket_send_buffer_size(&theirs, SOCKET_BYTES);
    let _ = set_socket_recv_buffer_size(&ours, SOCKET_BYTES);
    Ok((ours.into(), OwnedFd::from(theirs).into()))
}

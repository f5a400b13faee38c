//! Pipes and sockets between haul and ssh, and between sshd and haul.

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

/// How much a pipe is asked to hold, in bytes: the most that an unprivileged
/// process gets by default on Linux.
///
/// It is more than a saving of switches. sshd writes to its child once per turn
/// of its loop, as much as the pipe takes, and reads up to 256 KiB from the
/// network: behind a pipe of 64 KiB its own buffer fills up, and moving that
/// buffer about then costs it most of its time.
#[cfg(any(target_os = "linux", target_os = "android"))]
const PIPE_BYTES: usize = 1 << 20;

/// Asks for a larger pipe. A refusal, as of what is no pipe, costs speed only.
pub fn enlarge_pipe(pipe: impl AsFd) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = pipe;
}

/// How much a socket is asked to hold, in bytes: what a client of OpenSSH lets
/// its server send ahead. Linux cuts it to `net.core.wmem_max`.
const SOCKET_BYTES: usize = 2 << 20;

/// The stream from the remote shell: the end that is read, and the child's standard
/// output.
///
/// For ssh (`is_ssh`) it is a pair of sockets. Two processes that write and read a pipe at
/// the same time wait for its lock by turns, page by page: through sockets, which
/// hold what was written at once in one piece, the same bytes take both of them
/// half the time. The other way stays a pipe, for content is spliced into it, and so
/// does all that leads to another program: a script may open `/dev/stdout`, which
/// no socket allows.
///
/// # Errors
/// Those of `socketpair` and `pipe`.
pub(crate) fn way_in(is_ssh: bool) -> io::Result<(OwnedFd, Stdio)> {
    if !is_ssh {
        let (ours, theirs) = io::pipe()?;
        enlarge_pipe(&ours);
        return Ok((ours.into(), theirs.into()));
    }
    let (ours, theirs) = UnixStream::pair()?;
    // A refusal costs speed only. Linux looks at the writer's size alone.
    let _ = set_socket_send_buffer_size(&theirs, SOCKET_BYTES);
    let _ = set_socket_recv_buffer_size(&ours, SOCKET_BYTES);
    Ok((ours.into(), OwnedFd::from(theirs).into()))
}

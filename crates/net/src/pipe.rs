//! The pipes between haul and ssh, and between sshd and haul.

use std::os::fd::AsFd;

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

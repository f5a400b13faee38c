//! Passes descriptors to another process of the same user over a Unix socket.

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::geteuid;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Most descriptors in one message.
const PASSED_MAX: usize = 16;

/// Sends `data`, which must not be empty, with `descriptors`, at most 16.
///
/// # Errors
/// Errors of `sendmsg`.
pub fn pass(socket: impl AsFd, data: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(ErrorKind::OutOfMemory.into());
    }
    let sent = sendmsg(socket, &[IoSlice::new(data)], &mut control, SendFlags::NOSIGNAL)?;
    // A socket takes so few bytes at once.
    if sent == data.len() { Ok(()) } else { Err(ErrorKind::WriteZero.into()) }
}

/// Receives at most `data.len()` bytes and 16 descriptors. Returns the number of bytes, 0 at the
/// end of a stream. The descriptors have the close-on-exec flag.
///
/// # Errors
/// Errors of `recvmsg`.
pub fn receive_passed(socket: impl AsFd, data: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(data)], &mut control, flags())?;
    let descriptors: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    for descriptor in &descriptors {
        fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    }
    Ok((received.bytes, descriptors))
}

/// Sets close-on-exec at once, where supported, so that no other thread can start a program in
/// between.
#[cfg(target_os = "linux")]
fn flags() -> RecvFlags {
    RecvFlags::CMSG_CLOEXEC
}

elsewhere!(fn flags() -> RecvFlags = RecvFlags::empty());

/// True if the process at the other end of `stream` belongs to this process's user. False if the
/// system does not report it.
///
/// # Errors
/// Errors of `getsockopt`.
#[cfg(target_os = "linux")]
pub fn is_of_user(stream: &UnixStream) -> io::Result<bool> {
    Ok(rustix::net::sockopt::socket_peercred(stream)?.uid == geteuid())
}

/// Always false: this system does not report the user.
///
/// # Errors
/// None on this system.
#[cfg(not(target_os = "linux"))]
pub fn is_of_user(stream: &UnixStream) -> io::Result<bool> {
    let _ = (stream, geteuid());
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn descriptors_arrive_with_the_words() {
        let (here, there) = UnixStream::pair().expect("a pair");
        let (mut input, output) = io::pipe().expect("a pipe");
        pass(&here, b"take", &[output.as_fd()]).expect("sent");
        drop(output);
        let mut data = [0; 8];
        let (len, passed) = receive_passed(&there, &mut data).expect("received");
        assert_eq!(&data[..len], b"take");
        let [output] = <[OwnedFd; 1]>::try_from(passed).expect("one");
        std::fs::File::from(output).write_all(b"ping").expect("written");
        let mut heard = Vec::new();
        input.read_to_end(&mut heard).expect("read");
        assert_eq!(heard, b"ping");
        drop(here);
        let (len, passed) = receive_passed(&there, &mut data).expect("the end");
        assert!(len == 0 && passed.is_empty());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_peer_of_this_user_is_recognised() {
        let (here, _there) = UnixStream::pair().expect("a pair");
        assert!(is_of_user(&here).expect("told"));
    }
}

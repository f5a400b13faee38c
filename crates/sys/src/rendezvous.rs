//! Processes of one user that find each other by a secret. One listens under a name derived from
//! it. The other connects and sends the secret.

use crate::passing::{is_of_user, receive_passed};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// Length of the secret, in bytes.
pub const SECRET_LEN: usize = 16;

/// Timeout for receiving the secret.
const SECRET_MAX: Duration = Duration::from_secs(1);

/// Creates a random secret.
///
/// # Errors
/// Errors of reading from the system's source of random bytes.
pub fn secret() -> io::Result<[u8; SECRET_LEN]> {
    let mut secret = [0; SECRET_LEN];
    File::open("/dev/urandom")?.read_exact(&mut secret)?;
    Ok(secret)
}

/// A listening process, until this is dropped.
#[derive(Debug)]
pub(crate) struct Rendezvous {
    pub(crate) listener: UnixListener,
    secret: [u8; SECRET_LEN],
}

impl Rendezvous {
    /// Listens for processes that know `secret`, for this `purpose`. `None` if the system does not
    /// support it.
    ///
    /// # Errors
    /// Errors of the system, and [`ErrorKind::AddrInUse`] if another process listens.
    pub(crate) fn listen(purpose: &[u8], secret: &[u8; SECRET_LEN]) -> io::Result<Option<Self>> {
        let address = match address(purpose, secret) {
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(None),
            address => address?,
        };
        Ok(Some(Self { listener: UnixListener::bind_addr(&address)?, secret: *secret }))
    }

    /// Connects to the listening process of the same user.
    ///
    /// # Errors
    /// When there is none, or it belongs to another user.
    pub(crate) fn find(purpose: &[u8], secret: &[u8; SECRET_LEN]) -> io::Result<UnixStream> {
        let stream = UnixStream::connect_addr(&address(purpose, secret)?)?;
        // The other process will receive the secret.
        match is_of_user(&stream)? {
            true => Ok(stream),
            false => Err(io::Error::new(ErrorKind::PermissionDenied, "another user listens")),
        }
    }

    /// Receives the secret and the data after it into `data`, which must have the right length,
    /// and descriptors. `None` if the process belongs to another user, does not know the secret, or
    /// does not send it within a second.
    pub(crate) fn receive(&self, stream: &UnixStream, data: &mut [u8]) -> Option<Vec<OwnedFd>> {
        if !is_of_user(stream).ok()? {
            return None;
        }
        stream.set_nonblocking(false).ok()?;
        stream.set_read_timeout(Some(SECRET_MAX)).ok()?;
        let (len, files) = receive_passed(stream, data).ok()?;
        (len == data.len() && data[..SECRET_LEN] == self.secret).then_some(files)
    }
}

/// The name for the meeting. It does not reveal the secret.
#[cfg(target_os = "linux")]
pub(crate) fn address(purpose: &[u8], secret: &[u8; SECRET_LEN]) -> io::Result<SocketAddr> {
    let hash = haul_model::ContentHash::of(&[purpose, &secret[..]].concat());
    let digits: String = hash.as_bytes()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(format!("haul-{digits}"))
}

#[cfg(not(target_os = "linux"))]
fn address(_: &[u8], _: &[u8; SECRET_LEN]) -> io::Result<SocketAddr> {
    Err(ErrorKind::Unsupported.into())
}

#[cfg(test)]
pub(crate) mod tests;

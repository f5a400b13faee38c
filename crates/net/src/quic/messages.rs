//! Messages between the main process of a server and its process for QUIC, over a pair of stream
//! sockets: a length of 4 bytes, then so many bytes. Descriptors accompany the length.

use super::config::Congestion;
use super::ends::Ends;
use crate::gate::KnownKeys;
use crate::{GateLimits, Identity, PublicKey};
use haul_sys::{pass, receive_passed};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// The longest message, in bytes. The longest one carries the keys of all clients.
const LEN_MAX: usize = 16 << 20;

/// Most sockets for QUIC.
pub const SOCKETS_MAX: usize = 16;

/// Bytes sent in one piece. A message about a caller is shorter.
const PIECE_LEN: usize = 1024;

/// The longest server name that a caller may ask for, in bytes. The label of a key has 24.
const LABEL_LEN_MAX: usize = 255;

/// The settings of the process for QUIC. They replace the previous ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// The seeds of the server's keys, the newest first.
    own: Vec<[u8; 32]>,
    pub(super) known: KnownKeys,
    pub(super) limits: GateLimits,
    pub(super) congestion: Congestion,
    /// Callers are accepted.
    pub(super) is_open: bool,
    /// The message carries sockets, which replace the previous ones.
    has_sockets: bool,
}

impl Setup {
    pub(crate) fn new(
        own: &[Identity],
        known: KnownKeys,
        limits: GateLimits,
        congestion: Congestion,
        is_open: bool,
    ) -> Self {
        let own = own.iter().map(|own| *own.seed()).collect();
        Self { own, known, limits, congestion, is_open, has_sockets: false }
    }

    /// The server's keys, the newest first.
    ///
    /// # Errors
    /// None that is known.
    pub(super) fn own(&self) -> io::Result<Vec<Identity>> {
        self.own.iter().map(Identity::from_seed).collect()
    }

    /// Sends the settings, with new sockets if given.
    ///
    /// # Errors
    /// Errors of sending; when there are too many keys or sockets.
    pub(super) fn send(mut self, to: &UnixStream, sockets: Option<&[UdpSocket]>) -> io::Result<()> {
        self.has_sockets = sockets.is_some();
        let sockets: Vec<BorrowedFd<'_>> =
            sockets.unwrap_or_default().iter().map(AsFd::as_fd).collect();
        if sockets.len() > SOCKETS_MAX {
            return Err(io::Error::other("too many addresses for QUIC"));
        }
        send(to, &self, &sockets)
    }

    /// Receives settings, and new sockets if it carries any. `None` at the end of the stream.
    ///
    /// # Errors
    /// Errors of receiving; [`io::ErrorKind::InvalidData`] for an invalid message.
    pub(super) fn receive(from: &UnixStream) -> io::Result<Option<(Self, Option<Vec<UdpSocket>>)>> {
        let Some((setup, sockets)) = receive::<Self>(from)? else { return Ok(None) };
        let sockets = sockets.into_iter().map(UdpSocket::from).collect();
        let sockets = setup.has_sockets.then_some(sockets);
        Ok(Some((setup, sockets)))
    }
}

/// A caller whose handshake is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Arrival {
    pub(super) key: PublicKey,
    pub(super) from: SocketAddr,
    pub(super) reached: SocketAddr,
    /// The label of the server key that it asked for.
    pub(super) label: Option<String>,
}

impl Arrival {
    /// Sends the caller, with the job's ends.
    ///
    /// # Errors
    /// Errors of sending.
    pub(super) fn send(mut self, to: &UnixStream, ends: &Ends) -> io::Result<()> {
        self.label = self.label.filter(|label| label.len() <= LABEL_LEN_MAX);
        send(to, &self, &[ends.stream.as_fd(), ends.stream_end.as_fd()])
    }

    /// Receives a caller; `None` at the end of the stream.
    ///
    /// # Errors
    /// Errors of receiving; [`io::ErrorKind::InvalidData`] for an invalid message.
    pub(super) fn receive(from: &UnixStream) -> io::Result<Option<(Self, Ends)>> {
        let Some((arrival, ends)) = receive::<Self>(from)? else { return Ok(None) };
        let ends = <[OwnedFd; 2]>::try_from(ends).map_err(|_| io::ErrorKind::InvalidData)?;
        let [stream, stream_end] = ends.map(UnixStream::from);
        let is_label = |label: &String| label.len() <= LABEL_LEN_MAX;
        if !arrival.label.as_ref().is_none_or(is_label) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Some((arrival, Ends::of(stream, stream_end))))
    }
}

/// Decodes `bytes`, accompanied by `descriptors` descriptors, as each of the two processes does, up
/// to the end or the first invalid message. For the fuzz target.
///
/// # Errors
/// Errors of `socketpair`.
///
/// # Panics
/// If a decoded message does not encode and decode to the same value.
#[doc(hidden)]
pub fn check_quic_messages(bytes: &[u8], descriptors: usize) -> io::Result<[usize; 2]> {
    let come = || -> io::Result<UnixStream> {
        let (mut here, there) = UnixStream::pair()?;
        let passed: Vec<_> = (0..descriptors).map(|_| there.as_fd()).collect();
        let (len, rest) = bytes.split_at(bytes.len().min(4));
        pass(&here, len, &passed)?;
        here.write_all(rest)?;
        Ok(there)
    };
    let (mut setups, mut arrivals) = (0, 0);
    let from = come()?;
    while let Ok(Some((setup, sockets))) = Setup::receive(&from) {
        assert_eq!(setup.has_sockets, sockets.is_some());
        assert_eq!(setup.own()?.len(), setup.own.len());
        let again = postcard::to_stdvec(&setup).map_err(io::Error::other)?;
        assert_eq!(postcard::from_bytes(&again), Ok(setup));
        setups += 1;
    }
    let from = come()?;
    while let Ok(Some((arrival, _))) = Arrival::receive(&from) {
        let again = postcard::to_stdvec(&arrival).map_err(io::Error::other)?;
        assert_eq!(postcard::from_bytes(&again), Ok(arrival));
        arrivals += 1;
    }
    Ok([setups, arrivals])
}

fn send(
    mut to: &UnixStream,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let len = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= LEN_MAX);
    let len = len.ok_or_else(|| io::Error::other("too many clients for QUIC"))?;
    // A short message is sent in one piece, as the other side may read nothing more.
    let whole = [&len.to_le_bytes(), &bytes[..]].concat();
    let (first, rest) = whole.split_at(whole.len().min(PIECE_LEN));
    pass(to, first, descriptors)?;
    to.write_all(rest)
}

fn receive<T: DeserializeOwned>(mut from: &UnixStream) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut len = [0; 4];
    let (received, descriptors) = receive_passed(from, &mut len)?;
    match received {
        0 => return Ok(None),
        4 => {}
        _ => return Err(io::ErrorKind::InvalidData.into()),
    }
    let len = u32::from_le_bytes(len) as usize;
    if len > LEN_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes)?;
    match postcard::take_from_bytes(&bytes) {
        Ok((message, [])) => Ok(Some((message, descriptors))),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::UNIX_EPOCH;

    fn arrival() -> Arrival {
        let key = Identity::new().expect("a key").key();
        let from = (Ipv4Addr::LOCALHOST, 7).into();
        Arrival { key, from, reached: from, label: Some(key.label()) }
    }

    #[test]
    fn a_caller_arrives_as_it_was_sent() {
        let (here, there) = UnixStream::pair().expect("a pair");
        let (job, ours) = Ends::pairs().expect("pairs");
        let sent = arrival();
        sent.clone().send(&here, &job).expect("sent");
        drop((here, job));
        let (received, job) = Arrival::receive(&there).expect("received").expect("one");
        assert_eq!(received, sent);
        (&ours.stream).write_all(b"x").expect("written");
        assert_eq!((&job.stream).read(&mut [0; 2]).expect("read"), 1);
        assert!(Arrival::receive(&there).expect("the end").is_none());
    }

    #[test]
    fn a_setup_arrives_as_it_was_sent() {
        let (here, there) = UnixStream::pair().expect("a pair");
        let own = [Identity::new().expect("a key")];
        let other = Identity::new().expect("a key").key();
        let known = KnownKeys::from([(own[0].key(), None), (other, Some(UNIX_EPOCH))]);
        let setup = Setup::new(&own, known.clone(), GateLimits::default(), Congestion::Cubic, true);
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let address = socket.local_addr().expect("an address");
        for sockets in [None, Some(std::slice::from_ref(&socket))] {
            setup.clone().send(&here, sockets).expect("sent");
            let (received, passed) = Setup::receive(&there).expect("received").expect("one");
            assert_eq!(received.own().expect("keys")[0].key(), own[0].key());
            assert_eq!((received.known, received.limits), (known.clone(), GateLimits::default()));
            assert_eq!(passed.is_some(), sockets.is_some());
            let passed = passed.unwrap_or_default();
            assert!(passed.iter().all(|it| it.local_addr().expect("an address") == address));
        }
    }

    #[test]
    fn sent_messages_decode_again() {
        let framed =
            |message: Vec<u8>| [&(message.len() as u32).to_le_bytes()[..], &message].concat();
        let own = [Identity::new().expect("a key")];
        let known = KnownKeys::from([(own[0].key(), Some(UNIX_EPOCH))]);
        let setup = Setup::new(&own, known, GateLimits::default(), Congestion::Bbr, false);
        let setup = framed(postcard::to_stdvec(&setup).expect("encoded"));
        let arrival = framed(postcard::to_stdvec(&arrival()).expect("encoded"));
        let check = |bytes: &[u8], count| check_quic_messages(bytes, count).expect("a pair");
        assert_eq!(check(&[&setup[..], &setup, b"x"].concat(), 0), [2, 0]);
        assert_eq!(check(&arrival, 2)[1], 1);
        assert_eq!(check(&arrival, 1), [0, 0]);
        assert_eq!(check(b"", 0), [0, 0]);
    }

    #[test]
    fn invalid_messages_are_refused() {
        let arrival = postcard::to_stdvec(&arrival()).expect("encoded");
        let (job, _ours) = Ends::pairs().expect("pairs");
        let two = [job.stream.as_fd(), job.stream_end.as_fd()];
        let long = [&arrival[..], b"x"].concat();
        let huge = (LEN_MAX as u32 + 1).to_le_bytes();
        for (len, bytes, descriptors) in [
            ((arrival.len() as u32).to_le_bytes(), &arrival[..], &two[..1]),
            ((arrival.len() as u32).to_le_bytes(), &arrival, &[]),
            ((long.len() as u32).to_le_bytes(), &long, &two),
            ((arrival.len() as u32 - 1).to_le_bytes(), &arrival, &two),
            ((arrival.len() as u32 + 9).to_le_bytes(), &arrival, &two),
            (huge, &arrival, &two),
            ([0; 4], &[], &two),
        ] {
            let (mut here, there) = UnixStream::pair().expect("a pair");
            pass(&here, &len, descriptors).expect("sent");
            here.write_all(bytes).expect("sent");
            drop(here);
            assert!(Arrival::receive(&there).is_err(), "{len:?}");
        }
    }
}

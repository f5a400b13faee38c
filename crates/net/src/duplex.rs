//! A TLS connection that one thread reads while another writes. The two share the TLS state under a
//! lock, and wait for the socket outside of it.
//!
//! The server sends an opening first: a byte 0; or a byte 1 and the 32 bytes of a further key of
//! its own; or the byte of a refusal, and then the end. The reader removes the opening from the
//! stream, so it costs no round trip.

use crate::connection::{Connection, ServerLink, Writer};
use crate::direct::{READ_LEN, WRITTEN_MAX, prepare};
use crate::tls::{TlsFailure, tls_error};
use crate::{PublicKey, Refusal, Timeouts};
use parking_lot::Mutex;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Timeout for sending the end of the stream, as the peer may have stopped reading.
const CLOSING_MAX: Duration = Duration::from_secs(1);

/// The first bytes of openings that are no [`Refusal`].
const NO_NEW_KEY: u8 = 0;
const NEW_KEY: u8 = 1;

/// Called with a new key of the server.
pub(crate) type OnNewKey = Box<dyn FnOnce(PublicKey) + Send>;

/// This side's part of the opening.
pub(crate) enum Opening {
    /// The server announces a new key of its own, if it has one.
    Announce(Option<PublicKey>),
    /// The server refuses the client.
    Refuse(Refusal),
    /// The client reads the opening.
    Receive(OnNewKey),
}

/// A connection whose handshake is done.
pub(crate) struct Established {
    pub(crate) tls: rustls::Connection,
    pub(crate) socket: TcpStream,
    /// Bytes received after the handshake and not decrypted yet.
    pub(crate) received: Vec<u8>,
}

impl Established {
    /// Makes the connection. Messages call the peer `peer`.
    ///
    /// # Errors
    /// Errors of `setsockopt`, and of sending the opening.
    pub(crate) fn into_connection(
        self,
        peer: String,
        timeouts: Timeouts,
        opening: Opening,
    ) -> io::Result<Connection> {
        let Self { mut tls, socket, received } = self;
        prepare(&socket, &mut tls)?;
        let (socket, tls) = (Arc::new(socket), Arc::new(Mutex::new(tls)));
        let writer =
            TlsWriter { tls: Arc::clone(&tls), socket: Arc::clone(&socket), sealed: Vec::new() };
        let mut received = received.into_boxed_slice();
        let filled = 0..received.len();
        if filled.is_empty() {
            received = vec![0; READ_LEN].into_boxed_slice();
        }
        let reader = TlsReader { tls, socket: Arc::clone(&socket), received, filled };
        let link = ServerLink::new(peer, socket, false, None);
        open_connection(reader, writer, link, timeouts, opening)
    }
}

/// Makes the connection over these streams of `link`, after sending this side's part of the
/// opening.
///
/// # Errors
/// Errors of sending the opening.
pub(crate) fn open_connection(
    reader: impl Read + Send + 'static,
    mut writer: impl Write + Send + 'static,
    link: ServerLink,
    timeouts: Timeouts,
    opening: Opening,
) -> io::Result<Connection> {
    let on_new_key = send_opening(opening, &mut writer)?;
    let reader = OpeningReader { reader, on_new_key, refusal: Arc::clone(&link.refusal) };
    let writer = Writer::new(writer, None);
    Ok(Connection::of_server(Box::new(reader), writer, link, timeouts))
}

/// Removes the other side's part of the opening from a stream.
struct OpeningReader<R> {
    reader: R,
    /// Set until the opening was read.
    on_new_key: Option<OnNewKey>,
    /// Set if the peer refused this side before it sent anything else.
    refusal: Arc<OnceLock<Refusal>>,
}

impl<R: Read> Read for OpeningReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(on_new_key) = self.on_new_key.take() {
            receive_opening(&mut self.reader, on_new_key, &self.refusal)?;
        }
        self.reader.read(buf)
    }
}

struct TlsReader {
    tls: Arc<Mutex<rustls::Connection>>,
    socket: Arc<TcpStream>,
    /// Bytes from the socket. Those in `filled` are not decrypted yet.
    received: Box<[u8]>,
    filled: std::ops::Range<usize>,
}

impl TlsReader {
    /// Decrypts received bytes. `None` if it needs more of them first.
    fn decrypt(&mut self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        let mut tls = self.tls.lock();
        loop {
            match tls.reader().read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(Some),
            }
            if self.filled.is_empty() {
                return Ok(None);
            }
            self.filled.start += tls.read_tls(&mut &self.received[self.filled.clone()])?;
            // An answer to a key update is sent before the next written data.
            tls.process_new_packets().map_err(tls_error)?;
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        if self.received.len() < READ_LEN {
            self.received = vec![0; READ_LEN].into_boxed_slice();
        }
        let len = loop {
            match (&*self.socket).read(&mut self.received) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.filled = 0..len;
        if len == 0 {
            // If the peer did not end the stream, the next read of decrypted data fails.
            self.tls.lock().read_tls(&mut io::empty())?;
        }
        Ok(())
    }
}

/// Sends this side's part of the opening. Returns the function to call with the other side's part.
fn send_opening(opening: Opening, writer: &mut impl Write) -> io::Result<Option<OnNewKey>> {
    match opening {
        Opening::Receive(on_new_key) => Ok(Some(on_new_key)),
        Opening::Announce(key) => {
            let mut opening_bytes = vec![if key.is_some() { NEW_KEY } else { NO_NEW_KEY }];
            opening_bytes.extend(key.iter().flat_map(PublicKey::as_bytes));
            writer.write_all(&opening_bytes)?;
            Ok(None)
        }
        Opening::Refuse(refusal) => writer.write_all(&[refusal as u8]).map(|()| None),
    }
}

/// Reads the opening from `reader`. Sets `refusal` if the peer refuses this side.
fn receive_opening(
    reader: &mut impl Read,
    on_new_key: OnNewKey,
    refusal: &OnceLock<Refusal>,
) -> io::Result<()> {
    let mut kind = [0];
    match reader.read_exact(&mut kind) {
        Err(error) if TlsFailure::of(&error) == Some(TlsFailure::Refused) => {
            let _ = refusal.set(Refusal::NotEnrolled);
            return Err(error);
        }
        read => read?,
    }
    match kind {
        [NO_NEW_KEY] => Ok(()),
        [NEW_KEY] => {
            let mut key = [0; 32];
            reader.read_exact(&mut key)?;
            on_new_key(PublicKey::new(key));
            Ok(())
        }
        [byte] => {
            let refused =
                Refusal::from_byte(byte).ok_or_else(|| io::Error::other(TlsFailure::Invalid))?;
            let _ = refusal.set(refused);
            Err(io::Error::other(TlsFailure::Refused))
        }
    }
}

impl Read for TlsReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(len) = self.decrypt(buf)? {
                return Ok(len);
            }
            self.receive()?;
        }
    }
}

struct TlsWriter {
    tls: Arc<Mutex<rustls::Connection>>,
    socket: Arc<TcpStream>,
    /// Encrypted bytes that are not sent yet.
    sealed: Vec<u8>,
}

impl TlsWriter {
    /// Encrypts the data that `write` writes, and sends it.
    fn write_with(
        &mut self,
        write: impl FnOnce(&mut rustls::Connection) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let len = {
            let mut tls = self.tls.lock();
            let len = write(&mut tls)?;
            while tls.wants_write() {
                tls.write_tls(&mut self.sealed)?;
            }
            len
        };
        let sent = (&*self.socket).write_all(&self.sealed);
        self.sealed.clear();
        self.sealed.shrink_to(2 * WRITTEN_MAX);
        sent.map(|()| len)
    }
}

impl Write for TlsWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_with(|tls| tls.writer().write(buf))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_with(|tls| tls.writer().write_vectored(slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for TlsWriter {
    /// Ends the stream in order, so that the peer knows that it is complete.
    fn drop(&mut self) {
        let _ = self.socket.set_write_timeout(Some(CLOSING_MAX));
        let _ = self.write_with(|tls| {
            tls.send_close_notify();
            Ok(0)
        });
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;

    #[test]
    fn an_opening_arrives_as_it_was_sent() {
        let key = Identity::new().expect("a key").key();
        let whole = [&[NEW_KEY][..], key.as_bytes()].concat();
        for (opening_bytes, new_key, refused) in [
            (&[NO_NEW_KEY][..], None, Ok(None)),
            (&whole, Some(key), Ok(None)),
            (&whole[..20], None, Err(None)),
            (&[2], None, Err(Some(Refusal::Busy))),
            (&[3], None, Err(Some(Refusal::Unserved))),
            (&[4], None, Err(Some(Refusal::NotEnrolled))),
            (&[5], None, Err(None)),
            (&[], None, Err(None)),
        ] {
            let (mut bytes, refusal) = (opening_bytes, OnceLock::new());
            let heard = Arc::new(Mutex::new(None));
            let tell = Arc::clone(&heard);
            let on_new_key = Box::new(move |key| *tell.lock() = Some(key));
            let result = receive_opening(&mut bytes, on_new_key, &refusal);
            let refusal = refusal.get().copied();
            assert_eq!(result.map(|()| refusal).map_err(|_| refusal), refused, "{opening_bytes:?}");
            assert_eq!(*heard.lock(), new_key, "{opening_bytes:?}");
        }
        for (opening, opening_bytes) in [
            (Opening::Announce(None), &[NO_NEW_KEY][..]),
            (Opening::Announce(Some(key)), &whole),
            (Opening::Refuse(Refusal::Busy), &[2]),
            (Opening::Refuse(Refusal::Unserved), &[3]),
            (Opening::Refuse(Refusal::NotEnrolled), &[4]),
        ] {
            let mut written = Vec::new();
            assert!(send_opening(opening, &mut written).expect("written").is_none());
            assert_eq!(written, opening_bytes);
        }
    }
}

//! A TLS connection that one thread reads while another writes: the two share the state of
//! TLS under a lock, and wait for the socket outside of it.
//!
//! The server begins with an opening: a byte 0, or a byte 1 and the 32 bytes of a further key
//! of its own. The reader takes it off, so it costs no round trip.

use crate::connection::{Connection, Served, Writer};
use crate::direct::{READ_LEN, WRITTEN_MAX, prepare};
use crate::tls::{Broken, broken};
use crate::{Patience, PublicKey};
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the last words may take, when nobody may read them any more.
const CLOSING_MAX: Duration = Duration::from_secs(1);

/// Called with a further key of the server.
pub(crate) type OnNewKey = Box<dyn FnOnce(PublicKey) + Send>;

/// This side's part in the opening.
pub(crate) enum Opening {
    /// The server announces another key of its own, if it has one.
    Says(Option<PublicKey>),
    /// The client listens.
    Hears(OnNewKey),
}

/// A connection whose handshake is done.
pub(crate) struct Established {
    pub(crate) tls: rustls::Connection,
    pub(crate) socket: TcpStream,
    /// Bytes that have come behind the handshake, and were not decrypted.
    pub(crate) early: Vec<u8>,
}

impl Established {
    /// The connection, with a peer that is called `peer` in messages.
    ///
    /// # Errors
    /// Those of `setsockopt`, and of sending the opening.
    pub(crate) fn into_connection(
        self,
        peer: String,
        patience: Patience,
        opening: Opening,
    ) -> io::Result<Connection> {
        let Self { mut tls, socket, early } = self;
        prepare(&socket, &mut tls)?;
        let (socket, tls) = (Arc::new(socket), Arc::new(Mutex::new(tls)));
        let was_refused = Arc::new(AtomicBool::new(false));
        let mut writer =
            TlsWriter { tls: Arc::clone(&tls), socket: Arc::clone(&socket), sealed: Vec::new() };
        let on_new_key = say_opening(opening, &mut writer)?;
        let mut came = early.into_boxed_slice();
        let filled = 0..came.len();
        if filled.is_empty() {
            came = vec![0; READ_LEN].into_boxed_slice();
        }
        let reader = TlsReader {
            tls,
            socket: Arc::clone(&socket),
            came,
            filled,
            on_new_key,
            was_refused: Arc::clone(&was_refused),
        };
        let (is_quic, rest, on_end) = (false, None, None);
        let served = Served { peer, line: socket, was_refused, is_quic, rest, on_end };
        let writer = Writer::new(writer, None);
        Ok(Connection::of_server(Box::new(reader), writer, served, patience))
    }
}

fn lock(tls: &Mutex<rustls::Connection>) -> MutexGuard<'_, rustls::Connection> {
    tls.lock().unwrap_or_else(PoisonError::into_inner)
}

struct TlsReader {
    tls: Arc<Mutex<rustls::Connection>>,
    socket: Arc<TcpStream>,
    /// Bytes from the socket; those in `filled` were not decrypted yet.
    came: Box<[u8]>,
    filled: std::ops::Range<usize>,
    /// Set until the opening has come.
    on_new_key: Option<OnNewKey>,
    /// The other side refused this one before it sent anything.
    was_refused: Arc<AtomicBool>,
}

impl TlsReader {
    /// Decrypts what has come: `None` if there is nothing to read before more comes.
    fn decrypt(&mut self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        let mut tls = lock(&self.tls);
        loop {
            match tls.reader().read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(Some),
            }
            if self.filled.is_empty() {
                return Ok(None);
            }
            self.filled.start += tls.read_tls(&mut &self.came[self.filled.clone()])?;
            // An answer to a change of keys goes out in front of what is written next.
            tls.process_new_packets().map_err(broken)?;
        }
    }

    /// Waits until more comes.
    fn receive(&mut self) -> io::Result<()> {
        if self.came.len() < READ_LEN {
            self.came = vec![0; READ_LEN].into_boxed_slice();
        }
        let len = loop {
            match (&*self.socket).read(&mut self.came) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.filled = 0..len;
        if len == 0 {
            // Without an orderly end, the next read of what was decrypted fails.
            lock(&self.tls).read_tls(&mut io::empty())?;
        }
        Ok(())
    }

    fn read_some(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(len) = self.decrypt(buf)? {
                return Ok(len);
            }
            self.receive()?;
        }
    }
}

/// Says this side's part of the opening to `writer`; returns what is called once the other
/// side's part has come.
pub(crate) fn say_opening(
    opening: Opening,
    writer: &mut impl Write,
) -> io::Result<Option<OnNewKey>> {
    match opening {
        Opening::Hears(on_new_key) => Ok(Some(on_new_key)),
        Opening::Says(key) => {
            let mut said = vec![key.is_some().into()];
            said.extend(key.iter().flat_map(PublicKey::as_bytes));
            writer.write_all(&said)?;
            Ok(None)
        }
    }
}

/// Takes the opening off what `read` reads. Sets `was_refused` if the other side has refused
/// this one in its place.
pub(crate) fn hear_opening(
    mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
    on_new_key: OnNewKey,
    was_refused: &AtomicBool,
) -> io::Result<()> {
    let mut read_exact = |mut buf: &mut [u8]| {
        while !buf.is_empty() {
            match read(buf)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => buf = &mut buf[len..],
            }
        }
        Ok(())
    };
    let mut kind = [0];
    match read_exact(&mut kind) {
        Err(error) if Broken::of(&error) == Some(Broken::Refused) => {
            was_refused.store(true, Ordering::Relaxed);
            return Err(error);
        }
        read => read?,
    }
    match kind {
        [0] => Ok(()),
        [1] => {
            let mut key = [0; 32];
            read_exact(&mut key)?;
            on_new_key(PublicKey::new(key));
            Ok(())
        }
        _ => Err(io::Error::other(Broken::Invalid)),
    }
}

impl Read for TlsReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(on_new_key) = self.on_new_key.take() {
            let was_refused = Arc::clone(&self.was_refused);
            hear_opening(|buf| self.read_some(buf), on_new_key, &was_refused)?;
        }
        self.read_some(buf)
    }
}

struct TlsWriter {
    tls: Arc<Mutex<rustls::Connection>>,
    socket: Arc<TcpStream>,
    /// Encrypted, and not sent yet.
    sealed: Vec<u8>,
}

impl TlsWriter {
    /// Encrypts what `write` writes, and sends it.
    fn write_with(
        &mut self,
        write: impl FnOnce(&mut rustls::Connection) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let len = {
            let mut tls = lock(&self.tls);
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
    /// Ends the stream in order, so that the other side knows that nothing is missing.
    fn drop(&mut self) {
        let _ = self.socket.set_write_timeout(Some(CLOSING_MAX));
        let _ = self.write_with(|tls| {
            tls.send_close_notify();
            Ok(0)
        });
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

//! The two ends between a job and the thread or process that does the I/O of QUIC: a pair of stream
//! sockets for the bytes, and a second pair for how each direction ends.
//!
//! The end of a stream socket does not show whether data is missing: a killed process leaves the
//! same end as one that has finished. So each side sends one byte over the second pair before it
//! ends its stream. The first byte counts.

use crate::connection::{Connection, ServerLink, Transport};
use crate::duplex::{Opening, open_connection};
use crate::tls::TlsFailure;
use crate::{PacketStats, Timeouts};
use parking_lot::Mutex;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// How a direction ends. The value is the byte that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum StreamEnd {
    /// All data was sent.
    Ended = b'e',
    /// It was cut off.
    CutOff = b'c',
    /// The peer does not accept this side's key.
    Refused = b'r',
}

impl StreamEnd {
    /// Sends the fate to the other end.
    pub(super) fn send(self, to: &UnixStream) {
        // The other end may be closed.
        let _ = send(to, &[self as u8], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Reads the fate at the end of the other end's stream. Without one, the stream was cut off.
    pub(super) fn receive(from: &UnixStream) -> Self {
        let mut byte = [0];
        match recv(from, &mut byte, RecvFlags::DONTWAIT) {
            Ok((_, 1)) if byte == [Self::Ended as u8] => Self::Ended,
            Ok((_, 1)) if byte == [Self::Refused as u8] => Self::Refused,
            _ => Self::CutOff,
        }
    }
}

/// One side of the two pairs.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) stream: UnixStream,
    pub(super) stream_end: UnixStream,
    /// The measurements, set at the end. Both sides share them if they are in one process.
    pub(super) packet_stats: Arc<Mutex<Option<PacketStats>>>,
}

impl Ends {
    /// Creates both sides.
    ///
    /// # Errors
    /// Errors of `socketpair`.
    pub(super) fn pairs() -> io::Result<(Self, Self)> {
        let ((stream, other_stream), (stream_end, other_end)) =
            (UnixStream::pair()?, UnixStream::pair()?);
        let one = Self::of(stream, stream_end);
        let packet_stats = Arc::clone(&one.packet_stats);
        Ok((one, Self { stream: other_stream, stream_end: other_end, packet_stats }))
    }

    /// One side, received from another process.
    pub(super) fn of(stream: UnixStream, stream_end: UnixStream) -> Self {
        Self { stream, stream_end, packet_stats: Arc::default() }
    }

    /// Makes the job's connection. Messages call the peer `peer`. `linger` is dropped last.
    ///
    /// # Errors
    /// Errors of sending the opening.
    pub(crate) fn into_connection(
        self,
        peer: String,
        timeouts: Timeouts,
        opening: Opening,
        linger: Option<Box<dyn Send + Sync>>,
    ) -> io::Result<Connection> {
        let ends = Arc::new(self);
        let reader = EndReader { ends: Arc::clone(&ends), ended: false };
        let writer = EndWriter(Arc::clone(&ends));
        let link = ServerLink::new(peer, ends, true, linger);
        open_connection(reader, writer, link, timeouts, opening)
    }
}

impl Transport for Ends {
    fn shut_down(&self) {
        // Has no effect on a stream that the writer has ended in order: its byte came first.
        StreamEnd::CutOff.send(&self.stream_end);
        // It can only fail because the other side has left.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn peer(&self) -> Option<SocketAddr> {
        None
    }

    fn packet_stats(&self) -> Option<PacketStats> {
        *self.packet_stats.lock()
    }
}

struct EndReader {
    ends: Arc<Ends>,
    /// The stream has ended in order.
    ended: bool,
}

impl Read for EndReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.ended || buf.is_empty() {
            return Ok(0);
        }
        loop {
            match (&self.ends.stream).read(buf) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The other end was closed with unread data.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                Ok(0) => break,
                read => return read,
            }
        }
        match StreamEnd::receive(&self.ends.stream_end) {
            StreamEnd::Ended => {
                self.ended = true;
                Ok(0)
            }
            StreamEnd::Refused => Err(io::Error::other(TlsFailure::Refused)),
            StreamEnd::CutOff => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

struct EndWriter(Arc<Ends>);

impl Write for EndWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&self.0.stream).write(buf)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.0.stream).write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for EndWriter {
    /// Ends the stream in order, so that the peer knows that it is complete.
    fn drop(&mut self) {
        StreamEnd::Ended.send(&self.0.stream_end);
        let _ = self.0.stream.shutdown(Shutdown::Write);
    }
}

//! Moves bytes between the stream of a QUIC connection and a socket pair. If one side does not take
//! data, no more is read from the other.

use super::config::{CLOSED_EARLY, ENDED, SEND_WINDOW_MAX, SEND_WINDOW_MIN};
use super::ends::{Ends, StreamEnd};
use bytes::{Buf, Bytes};
use quinn_proto::{Connection, Dir, ReadError, StreamId, WriteError};
use rustix::event::PollFlags;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// Bytes per read from the job.
const READ_LEN: usize = 128 << 10;

/// Most pieces in one write to the job. Each packet brings one.
const PIECES_MAX: usize = 256;

/// Bytes moved each way before other connections get a turn.
const MOVED_MAX: usize = 1 << 20;

/// The state of the bytes to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outbound {
    /// The job may write more.
    Open,
    /// The job has ended its stream.
    Ending,
    /// The peer has acknowledged all data.
    Acknowledged,
}

/// The first byte of a client, hidden from the jobs. Without one the server could not send first.
const OPENER: u8 = 0;

/// The job has left before the end of its stream.
struct CutOff;

/// The socket pair of a connection.
pub(super) struct Link {
    ends: Ends,
    /// The only stream. A client opens it with the byte [`OPENER`], and a server waits for that.
    stream: Option<StreamId>,
    /// The opener has not arrived yet.
    awaits_opener: bool,
    /// The job has closed both directions.
    is_job_closed: bool,
    outbound: Outbound,
    /// Bytes from the job. The stream has not taken those in `unsent` yet.
    read: Box<[u8]>,
    unsent: std::ops::Range<usize>,
    /// The job has all data from the peer, or wants no more.
    is_delivered: bool,
    /// Pieces that the job has not taken yet.
    pieces: VecDeque<Bytes>,
    /// The peer's last byte has arrived.
    is_complete: bool,
    /// The connection has ended, and this is the fate of the direction to the job.
    lost: Option<StreamEnd>,
}

impl Link {
    /// Starts to move the bytes of `quic`.
    ///
    /// # Errors
    /// Errors of `fcntl`.
    pub(super) fn new(ends: Ends, quic: &mut Connection) -> io::Result<Self> {
        ends.stream.set_nonblocking(true)?;
        let is_client = quic.side().is_client();
        let stream = if is_client { quic.streams().open(Dir::Bi) } else { None };
        let mut read = vec![0; READ_LEN].into_boxed_slice();
        read[0] = OPENER;
        Ok(Self {
            ends,
            stream,
            awaits_opener: !is_client,
            is_job_closed: false,
            outbound: Outbound::Open,
            read,
            unsent: 0..usize::from(is_client),
            is_delivered: false,
            pieces: VecDeque::new(),
            is_complete: false,
            lost: None,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.ends.stream.as_fd()
    }

    /// The events to poll the job's socket for; `None` to not poll it.
    pub(super) fn interest(&self) -> Option<PollFlags> {
        let mut flags = PollFlags::empty();
        if self.outbound == Outbound::Open && self.unsent.is_empty() && self.stream.is_some() {
            flags |= PollFlags::IN;
        }
        if !self.is_delivered && !self.pieces.is_empty() {
            flags |= PollFlags::OUT;
        }
        // A job that has stopped reading has closed both directions.
        let is_out = self.outbound == Outbound::Acknowledged || self.stream.is_none();
        let waits_for_job = is_out && !self.is_delivered && !self.is_job_closed;
        (!flags.is_empty() || waits_for_job).then_some(flags)
    }

    /// Called when the peer has acknowledged the end of the stream.
    pub(super) fn acknowledged(&mut self) {
        self.outbound = Outbound::Acknowledged;
    }

    /// Called when the job's socket has hung up.
    pub(super) fn job_closed(&mut self) {
        self.is_job_closed = true;
        self.is_delivered |= self.outbound == Outbound::Acknowledged;
    }

    /// Called when the connection has ended. The job still gets received data. Data that is missing
    /// then was cut off.
    pub(super) fn lost(&mut self, stream_end: StreamEnd) {
        self.lost = Some(match stream_end {
            StreamEnd::Ended => {
                self.outbound = Outbound::Acknowledged;
                StreamEnd::CutOff
            }
            stream_end => stream_end,
        });
    }

    /// True if the pair can be closed.
    pub(super) fn is_over(&self) -> bool {
        let is_out = self.outbound == Outbound::Acknowledged || self.lost.is_some();
        is_out && self.is_delivered
    }

    /// Moves data as far as possible without waiting. Closes the connection when all was moved.
    pub(super) fn pump(&mut self, quic: &mut Connection, now: Instant) {
        if self.stream.is_none() {
            self.stream = quic.streams().accept(Dir::Bi);
        }
        let Some(stream) = self.stream else {
            // The job or the connection ended before there was a stream.
            if self.is_job_closed && self.lost.is_none() {
                quic.close(now, CLOSED_EARLY, Bytes::new());
                self.lost = Some(StreamEnd::CutOff);
            }
            if let Some(stream_end) = self.lost {
                self.end_inbound(stream_end);
            }
            return;
        };
        if self.lost.is_none() && self.send(quic, stream).is_err() {
            self.lost = Some(StreamEnd::CutOff);
        }
        self.receive(quic, stream);
        if self.lost.is_some() || self.is_over() {
            // No effect on a connection that is closed already.
            let code = if self.lost.is_some() { CLOSED_EARLY } else { ENDED };
            quic.close(now, code, Bytes::new());
        }
    }

    /// # Errors
    /// When the job was cut off.
    fn send(&mut self, quic: &mut Connection, stream: StreamId) -> Result<(), CutOff> {
        if self.outbound != Outbound::Open {
            return Ok(());
        }
        // Room for the unacknowledged data, and for another round trip.
        let window = quic.congestion_state().window().saturating_mul(2);
        quic.set_send_window(window.clamp(SEND_WINDOW_MIN, SEND_WINDOW_MAX));
        for _ in 0..MOVED_MAX / READ_LEN {
            while !self.unsent.is_empty() {
                match quic.send_stream(stream).write(&self.read[self.unsent.clone()]) {
                    Ok(len) => self.unsent.start += len,
                    Err(WriteError::Blocked) => return Ok(()),
                    // The peer's job has stopped reading. Its own data may still be in flight.
                    Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                        let _ = self.ends.stream.shutdown(Shutdown::Read);
                        (self.unsent, self.outbound) = (0..0, Outbound::Acknowledged);
                        return Ok(());
                    }
                }
            }
            match (&self.ends.stream).read(&mut self.read) {
                Ok(len @ 1..) => self.unsent = 0..len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // The job has ended its stream. Unread data from the peer turns that into an error.
                Ok(0) | Err(_) if StreamEnd::receive(&self.ends.stream_end) == StreamEnd::Ended => {
                    let finished = quic.send_stream(stream).finish();
                    self.outbound =
                        if finished.is_ok() { Outbound::Ending } else { Outbound::Acknowledged };
                    return Ok(());
                }
                Ok(_) | Err(_) => return Err(CutOff),
            }
        }
        Ok(())
    }

    fn receive(&mut self, quic: &mut Connection, stream: StreamId) {
        let mut moved = 0;
        while !self.is_delivered && moved < MOVED_MAX {
            if self.pieces.is_empty() {
                self.take_pieces(quic, stream);
            }
            if self.pieces.is_empty() {
                let stream_end = if self.is_complete { Some(StreamEnd::Ended) } else { self.lost };
                if let Some(stream_end) = stream_end {
                    self.end_inbound(stream_end);
                }
                return;
            }
            let slices: Vec<IoSlice<'_>> =
                self.pieces.iter().map(|piece| IoSlice::new(piece)).collect();
            match (&self.ends.stream).write_vectored(&slices) {
                Ok(len) => {
                    moved += len;
                    self.written(len);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // The job has stopped reading, so the peer need not send more.
                    self.pieces.clear();
                    self.is_delivered = true;
                    let _ = quic.recv_stream(stream).stop(CLOSED_EARLY);
                }
            }
        }
    }

    /// Receives stream data in order.
    fn take_pieces(&mut self, quic: &mut Connection, stream: StreamId) {
        let mut arrived = quic.recv_stream(stream);
        let Ok(mut chunks) = arrived.read(true) else { return };
        let mut len = 0;
        while self.pieces.len() < PIECES_MAX && len < MOVED_MAX {
            match chunks.next(usize::MAX) {
                Ok(Some(mut chunk)) => {
                    if std::mem::take(&mut self.awaits_opener) && chunk.bytes.get_u8() != OPENER {
                        self.lost = Some(StreamEnd::CutOff);
                        break;
                    }
                    len += chunk.bytes.len();
                    self.pieces.push_back(chunk.bytes);
                }
                Ok(None) => {
                    self.is_complete = true;
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(_)) => {
                    self.lost = self.lost.or(Some(StreamEnd::CutOff));
                    break;
                }
            }
        }
        // The next transmission announces the larger window to the peer.
        let _ = chunks.finalize();
    }

    /// Removes `len` bytes that the job has taken.
    fn written(&mut self, mut len: usize) {
        while let Some(first) = self.pieces.front_mut() {
            if first.len() > len {
                let _ = first.split_to(len);
                return;
            }
            len -= first.len();
            self.pieces.pop_front();
        }
    }

    fn end_inbound(&mut self, stream_end: StreamEnd) {
        stream_end.send(&self.ends.stream_end);
        let how = if stream_end == StreamEnd::Ended { Shutdown::Write } else { Shutdown::Both };
        let _ = self.ends.stream.shutdown(how);
        self.is_delivered = true;
    }
}

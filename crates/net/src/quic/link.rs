//! Moves bytes between the stream of a QUIC connection and a pair of sockets. Neither side gets
//! ahead of the other: what one does not take is not read from the other.

use super::config::{ENDED, HUNG_UP, SEND_WINDOW_MAX, SEND_WINDOW_MIN};
use super::ends::{Ends, Fate};
use bytes::{Buf, Bytes};
use quinn_proto::{Connection, Dir, ReadError, StreamId, WriteError};
use rustix::event::PollFlags;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// Bytes that are read from the job at once.
const READ_LEN: usize = 128 << 10;

/// Pieces that are written to the job at once: each packet has brought one.
const PIECES_MAX: usize = 256;

/// Bytes that are moved each way before other connections get their turn.
const MOVED_MAX: usize = 1 << 20;

/// The state of the bytes to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Out {
    /// The job may write more.
    Open,
    /// It has written all.
    Ending,
    /// The peer has it all.
    Acknowledged,
}

/// The state of the bytes from the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum In {
    Open,
    /// The job has them all, or wants no more.
    Done,
}

/// The first byte of a client, which a job does not see. Without one the server could not speak
/// first.
const OPENER: u8 = 0;

/// The job has left in the middle.
struct CutOff;

/// The pair of a connection.
pub(super) struct Link {
    ends: Ends,
    /// The one stream. A client opens it with a byte [`OPENER`], and a server waits for that.
    stream: Option<StreamId>,
    /// That byte has not come yet.
    lacks_opener: bool,
    /// The job has closed both directions.
    is_left: bool,
    out: Out,
    /// Bytes of the job that the stream did not take yet, in `unsent`.
    read: Box<[u8]>,
    unsent: std::ops::Range<usize>,
    inward: In,
    /// Pieces that the job did not take yet.
    pieces: VecDeque<Bytes>,
    /// The peer has sent its last byte, and it is in `pieces` at the latest.
    is_last: bool,
    /// The connection stands no more; the direction to the job ends like this.
    lost: Option<Fate>,
}

impl Link {
    /// Moves the bytes of `quic` from now on.
    ///
    /// # Errors
    /// Those of `fcntl`.
    pub(super) fn new(ends: Ends, quic: &mut Connection) -> io::Result<Self> {
        ends.stream.set_nonblocking(true)?;
        let is_client = quic.side().is_client();
        let stream = if is_client { quic.streams().open(Dir::Bi) } else { None };
        let mut read = vec![0; READ_LEN].into_boxed_slice();
        read[0] = OPENER;
        Ok(Self {
            ends,
            stream,
            lacks_opener: !is_client,
            is_left: false,
            out: Out::Open,
            read,
            unsent: 0..usize::from(is_client),
            inward: In::Open,
            pieces: VecDeque::new(),
            is_last: false,
            lost: None,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.ends.stream.as_fd()
    }

    /// The events of the job's socket that it waits for; `None` if it waits for none.
    pub(super) fn awaits(&self) -> Option<PollFlags> {
        let mut flags = PollFlags::empty();
        if self.out == Out::Open && self.unsent.is_empty() && self.stream.is_some() {
            flags |= PollFlags::IN;
        }
        if self.inward == In::Open && !self.pieces.is_empty() {
            flags |= PollFlags::OUT;
        }
        // A job that reads no more has closed both directions.
        let is_out = self.out == Out::Acknowledged || self.stream.is_none();
        let waits_for_job = is_out && self.inward == In::Open && !self.is_left;
        (!flags.is_empty() || waits_for_job).then_some(flags)
    }

    /// The peer has acknowledged the end of the stream.
    pub(super) fn acknowledged(&mut self) {
        self.out = Out::Acknowledged;
    }

    /// The job has left, as its socket tells.
    pub(super) fn job_left(&mut self) {
        self.is_left = true;
        if self.out == Out::Acknowledged {
            self.inward = In::Done;
        }
    }

    /// The connection stands no more. The job still gets what has come.
    pub(super) fn lost(&mut self, fate: Fate) {
        if fate == Fate::Ended {
            self.out = Out::Acknowledged;
        }
        self.lost = Some(fate);
    }

    /// True if there is nothing left to do, and the pair can be closed.
    pub(super) fn is_over(&self) -> bool {
        let is_out = self.out == Out::Acknowledged || self.lost.is_some();
        is_out && self.inward == In::Done
    }

    /// Moves what can be moved without waiting, and closes the connection when all was moved.
    pub(super) fn pump(&mut self, quic: &mut Connection, now: Instant) {
        if self.stream.is_none() {
            self.stream = quic.streams().accept(Dir::Bi);
        }
        let Some(stream) = self.stream else {
            // One of the two has left without a word.
            if self.is_left && self.lost.is_none() {
                quic.close(now, HUNG_UP, Bytes::new());
                self.lost = Some(Fate::CutOff);
            }
            if let Some(fate) = self.lost {
                self.end_inward(if fate == Fate::Ended { Fate::CutOff } else { fate });
            }
            return;
        };
        if self.lost.is_none() && self.send(quic, stream).is_err() {
            self.lost = Some(Fate::CutOff);
        }
        self.receive(quic, stream);
        if self.lost.is_some() || self.is_over() {
            // Unless it is closed already.
            let code = if self.lost.is_some() { HUNG_UP } else { ENDED };
            quic.close(now, code, Bytes::new());
        }
    }

    /// # Errors
    /// When the job was cut off.
    fn send(&mut self, quic: &mut Connection, stream: StreamId) -> Result<(), CutOff> {
        if self.out != Out::Open {
            return Ok(());
        }
        // What is sent and not acknowledged has its room, and a further round trip.
        let window = quic.congestion_state().window().saturating_mul(2);
        quic.set_send_window(window.clamp(SEND_WINDOW_MIN, SEND_WINDOW_MAX));
        for _ in 0..MOVED_MAX / READ_LEN {
            while !self.unsent.is_empty() {
                match quic.send_stream(stream).write(&self.read[self.unsent.clone()]) {
                    Ok(len) => self.unsent.start += len,
                    Err(WriteError::Blocked) => return Ok(()),
                    // The peer's job reads no more. What it has sent may still be on its way.
                    Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                        let _ = self.ends.stream.shutdown(Shutdown::Read);
                        (self.unsent, self.out) = (0..0, Out::Acknowledged);
                        return Ok(());
                    }
                }
            }
            match (&self.ends.stream).read(&mut self.read) {
                Ok(len @ 1..) => self.unsent = 0..len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // The job has ended; with an error if something from the peer stays unread.
                Ok(0) | Err(_) if Fate::hear(&self.ends.fate) == Fate::Ended => {
                    let finished = quic.send_stream(stream).finish();
                    self.out = if finished.is_ok() { Out::Ending } else { Out::Acknowledged };
                    return Ok(());
                }
                Ok(_) | Err(_) => return Err(CutOff),
            }
        }
        Ok(())
    }

    fn receive(&mut self, quic: &mut Connection, stream: StreamId) {
        let mut moved = 0;
        while self.inward == In::Open && moved < MOVED_MAX {
            if self.pieces.is_empty() {
                self.take_pieces(quic, stream);
            }
            if self.pieces.is_empty() {
                match (self.is_last, self.lost) {
                    (true, _) => self.end_inward(Fate::Ended),
                    (false, Some(Fate::Ended)) => self.end_inward(Fate::CutOff),
                    (false, Some(fate)) => self.end_inward(fate),
                    (false, None) => {}
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
                    // The job reads no more, and the peer need not send more.
                    self.pieces.clear();
                    self.inward = In::Done;
                    let _ = quic.recv_stream(stream).stop(HUNG_UP);
                }
            }
        }
    }

    /// Takes what has come, in order.
    fn take_pieces(&mut self, quic: &mut Connection, stream: StreamId) {
        let mut arrived = quic.recv_stream(stream);
        let Ok(mut chunks) = arrived.read(true) else { return };
        let mut len = 0;
        while self.pieces.len() < PIECES_MAX && len < MOVED_MAX {
            match chunks.next(usize::MAX) {
                Ok(Some(mut chunk)) => {
                    if std::mem::take(&mut self.lacks_opener) && chunk.bytes.get_u8() != OPENER {
                        self.lost = Some(Fate::CutOff);
                        break;
                    }
                    len += chunk.bytes.len();
                    self.pieces.push_back(chunk.bytes);
                }
                Ok(None) => {
                    self.is_last = true;
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(_)) => {
                    self.lost = self.lost.or(Some(Fate::CutOff));
                    break;
                }
            }
        }
        // A packet with more room for the peer follows with the next transmission.
        let _ = chunks.finalize();
    }

    /// The job has taken `len` bytes.
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

    fn end_inward(&mut self, fate: Fate) {
        fate.tell(&self.ends.fate);
        let how = if fate == Fate::Ended { Shutdown::Write } else { Shutdown::Both };
        let _ = self.ends.stream.shutdown(how);
        self.inward = In::Done;
    }
}

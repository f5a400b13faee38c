//! The writer of a connection: it sends what is queued, gathers what is small, and keeps the
//! pace of the job.

use super::outgoing::{Body, Frames};
use crate::control::Control;
use crossbeam_channel::RecvTimeoutError;
use haul_net::Writer;
use haul_proto::{FrameType, frame_bytes};
use haul_tree::SourceFile;
use std::io::{self, IoSlice, Write};
use std::time::{Duration, Instant};

/// Small writes are gathered up to about this many bytes.
const GATHER_LEN: usize = 32 << 10;

/// How long outcomes wait for more of them: each write on its own wakes three
/// processes on its way, ssh's two and the peer. Only a Sender that has listed as
/// much as it may waits for outcomes, and those come by the hundred.
const OUTCOMES_WAIT: Duration = Duration::from_millis(2);

/// Sends `greeting`, and what is queued, until the outbox is closed or the peer is
/// gone. When there was nothing to send for as long as `sign_after` says, the peer
/// is told that this side is there. Content is sent at the pace of the job that `control`
/// stands for.
pub(crate) fn run_writer(
    output: &mut Writer,
    frames: &Frames,
    greeting: Vec<u8>,
    sign_after: Option<Duration>,
    control: Option<&Control<'_>>,
) -> io::Result<()> {
    let step = control.map_or(usize::MAX, Control::step);
    let pace = |len: usize| control.into_iter().for_each(|control| control.pace(len as u64));
    let Frames { waiting, squeeze, flow, .. } = frames;
    let mut gathered = greeting;
    let mut left = Instant::now();
    // Until when what is gathered may wait; `None` if it must not.
    let mut patience = None;
    loop {
        let more = match patience {
            Some(until) => waiting.recv_deadline(until).ok(),
            // Anything else waits only while more is there already.
            None => waiting.try_recv().ok(),
        };
        let mut frame = match more {
            Some(frame) => frame,
            None => {
                output.write_all(&gathered)?;
                output.flush()?;
                gathered.clear();
                let next = match sign_after {
                    Some(silence) => waiting.recv_timeout(silence),
                    None => waiting.recv().map_err(RecvTimeoutError::from),
                };
                match next {
                    Ok(frame) => frame,
                    Err(RecvTimeoutError::Timeout) => {
                        gathered = frame_bytes(FrameType::Alive, &[]);
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                }
            }
        };
        if !frames.note(&mut frame)? {
            continue;
        }
        patience = match frame.patient {
            true if gathered.is_empty() => Some(Instant::now() + OUTCOMES_WAIT),
            true => patience,
            false => None,
        };
        gathered.extend_from_slice(&frame.head);
        let began = Instant::now();
        match &frame.body {
            Some(body @ (Body::Bytes(_) | Body::Shared { .. } | Body::Squeezed { .. })) => {
                send_bytes(output, &gathered, body.bytes(), step, &pace)?;
            }
            Some(Body::Range { source, offset, len }) => {
                output.write_all(&gathered)?;
                output.flush()?;
                let (mut offset, mut left) = (*offset, *len);
                while left > 0 {
                    let part = left.min(step);
                    send_range(output, &**source, offset, part)?;
                    pace(part);
                    offset += part as u64;
                    left -= part;
                }
            }
            None if gathered.len() > GATHER_LEN => output.write_all(&gathered)?,
            None => continue,
        }
        gathered.clear();
        if let Some(body) = &frame.body {
            let now = Instant::now();
            let took = now.duration_since(std::mem::replace(&mut left, now));
            squeeze.sent(body.left(took), waiting.len());
            flow.left(body.len(), now.duration_since(began));
        }
    }
}

/// Sends `bytes` behind `head`, at most `step` of them at once.
fn send_bytes(
    output: &mut Writer,
    head: &[u8],
    bytes: &[u8],
    step: usize,
    pace: &impl Fn(usize),
) -> io::Result<()> {
    if bytes.len() <= step {
        write_both(output, head, bytes)?;
        pace(bytes.len());
        return Ok(());
    }
    output.write_all(head)?;
    for part in bytes.chunks(step) {
        output.write_all(part)?;
        output.flush()?;
        pace(part.len());
    }
    Ok(())
}

/// Sends `len` bytes of a file from `offset` on. What is missing because the
/// file became shorter is sent as zeros: the frame keeps its length, and the
/// hash tells the receiver.
fn send_range(
    output: &mut Writer,
    source: &dyn SourceFile,
    mut offset: u64,
    mut len: usize,
) -> io::Result<()> {
    // What the pipe still holds can't be let go yet; the next piece does it.
    source.release_up_to(offset);
    if let (Some(pipe), Some(file)) = (output.pipe(), source.handle()) {
        while len > 0 {
            match haul_sys::splice_to_pipe(file, offset, pipe, len) {
                Ok(Some(moved @ 1..)) => {
                    offset += moved as u64;
                    len -= moved;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    output.wait_for_room()?
                }
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(error),
                // The end, or an error of the file: what is read below tells.
                Ok(Some(0) | None) | Err(_) => break,
            }
        }
    }
    let mut rest = vec![0; len];
    // An error leaves zeros, too.
    let _ = source.read_at(&mut rest, offset);
    output.write_all(&rest)
}

/// Writes two slices one after the other, without copying them together.
fn write_both(output: &mut impl Write, mut head: &[u8], mut body: &[u8]) -> io::Result<()> {
    while !head.is_empty() {
        let written = match output.write_vectored(&[IoSlice::new(head), IoSlice::new(body)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let of_head = written.min(head.len());
        head = &head[of_head..];
        body = &body[written - of_head..];
    }
    output.write_all(body)
}

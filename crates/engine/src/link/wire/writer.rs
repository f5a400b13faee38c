//! The writer of a connection. It sends the queued frames, gathers small ones, and keeps the rate
//! limit of the job.

use super::compression_control::{FrameCompressor, QUEUED_FRAMES_MIN, SentFrame};
use super::frame::{Body, Counted, OutFrame};
use super::outgoing::Frames;
use crate::control::Control;
use crossbeam_channel::{RecvTimeoutError, after, never, select};
use haul_net::{Writer, write_both};
use haul_proto::{FrameType, frame_bytes};
use haul_tree::SourceFile;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Small writes are gathered up to about this many bytes.
const GATHER_LEN: usize = 32 << 10;

/// The longest wait of outcomes for more outcomes. Each separate write wakes three processes: two
/// ssh processes and the peer. A Sender waits for outcomes only when its window is full, and then
/// they arrive by the hundred.
const OUTCOMES_WAIT: Duration = Duration::from_millis(2);

/// If writing the gathered bytes takes longer than this, the listing waits for the link, and there
/// is time to compress it better.
const SLOW_WRITE_MIN: Duration = Duration::from_millis(5);

/// Called for content that is about to leave: the number of its file, and its length in bytes.
pub(crate) type OnLeaving<'a> = &'a (dyn Fn(u64, u64) + Sync + 'a);

/// Sends `greeting` and the queued frames, until the outbox is closed or the peer is gone. After
/// `keepalive_after` without frames, it sends a sign of life. On the wire `of_job`, content is sent
/// at the job's rate. Its progress is reported step by step, before the peer can answer to it.
pub(crate) fn run_writer(
    output: &mut Writer,
    frames: &Frames,
    greeting: Vec<u8>,
    keepalive_after: Option<Duration>,
    of_job: Option<(&Control<'_>, OnLeaving<'_>)>,
) -> io::Result<()> {
    let (control, on_leaving) = of_job.unzip();
    let on_leaving = on_leaving.unwrap_or(&|_, _| ());
    let step = control.map_or(usize::MAX, Control::step);
    let Frames { compression_control, flow, .. } = frames;
    let mut queues = Queues::of(frames);
    let mut gathered = greeting;
    let mut left = Instant::now();
    // Set if every frame since `left` was ready in time.
    let mut was_behind = false;
    // The time until which gathered bytes may wait; `None` if they must not.
    let mut timeout = None;
    loop {
        let more = match timeout {
            Some(until) => queues.next_until(Some(until)).ok(),
            // Other bytes wait only while more frames are ready.
            None => queues.try_next(),
        };
        let mut frame = match more {
            Some(frame) => frame,
            None => {
                was_behind = false;
                output.write_all(&gathered)?;
                output.flush()?;
                gathered.clear();
                match queues.next_until(keepalive_after.map(|silence| Instant::now() + silence)) {
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
        timeout = match frame.patient {
            true if gathered.is_empty() => Some(Instant::now() + OUTCOMES_WAIT),
            true => timeout,
            false => None,
        };
        gathered.extend_from_slice(&frame.head);
        let began = Instant::now();
        let rank = frame.rank;
        let throttle =
            |len: usize| control.into_iter().for_each(|control| control.throttle(len as u64, rank));
        let mut counts = Counts::of(&mut frame, on_leaving);
        let step = if counts.total > 0 { step.min(flow.step()) } else { step };
        match &frame.body {
            Some(body) => send_body(output, &gathered, body, step, &throttle, &mut counts)?,
            None if gathered.len() > GATHER_LEN => {
                output.write_all(&gathered)?;
                queues.is_link_slow = began.elapsed() > SLOW_WRITE_MIN;
            }
            None => continue,
        }
        gathered.clear();
        if let Some(body) = &frame.body {
            let now = Instant::now();
            let took = now.duration_since(std::mem::replace(&mut left, now));
            let was_there = std::mem::replace(&mut was_behind, true);
            compression_control.sent(SentFrame::of(body, now, took, was_there));
            flow.left(body.len(), now.duration_since(began));
        }
    }
}

/// The two queues that the writer empties, alternating while both have frames.
struct Queues<'f> {
    frames: &'f Frames,
    /// Compresses the listing.
    compressor: FrameCompressor,
    /// The last frame was one of the listing.
    has_listed: bool,
    /// The link is slower than the queue.
    is_link_slow: bool,
}

impl<'f> Queues<'f> {
    fn of(frames: &'f Frames) -> Self {
        let compressor = FrameCompressor::default();
        Self { frames, compressor, has_listed: false, is_link_slow: false }
    }

    /// The next frame, if one is ready.
    fn try_next(&mut self) -> Option<OutFrame> {
        let Frames { waiting, listed, .. } = self.frames;
        if self.has_listed
            && let Ok(frame) = waiting.try_recv()
        {
            return Some(self.other(frame));
        }
        match listed.try_next() {
            Some(list) => Some(self.list(list)),
            None => waiting.try_recv().ok().map(|frame| self.other(frame)),
        }
    }

    /// The next frame, if one arrives before `until`.
    fn next_until(&mut self, until: Option<Instant>) -> Result<OutFrame, RecvTimeoutError> {
        if let Some(frame) = self.try_next() {
            return Ok(frame);
        }
        let Frames { waiting, listed, .. } = self.frames;
        let time_is_up = until
            .map_or_else(never, |until| after(until.saturating_duration_since(Instant::now())));
        // The other queue stays when one is closed.
        let mut open = (Some(waiting), Some(&listed.waiting));
        let (no_frames, no_lists) = (never(), never());
        loop {
            if open.0.is_none() && open.1.is_none() {
                return Err(RecvTimeoutError::Disconnected);
            }
            select! {
                recv(open.0.unwrap_or(&no_frames)) -> frame => match frame {
                    Ok(frame) => return Ok(self.other(frame)),
                    Err(_) => open.0 = None,
                },
                recv(open.1.unwrap_or(&no_lists)) -> list => match list {
                    Ok(list) => {
                        if let Some(list) = listed.taken(list) {
                            return Ok(self.list(list));
                        }
                    }
                    Err(_) => open.1 = None,
                },
                recv(time_is_up) -> _ => return Err(RecvTimeoutError::Timeout),
            }
        }
    }

    /// A frame that is not part of the listing.
    fn other(&mut self, frame: OutFrame) -> OutFrame {
        self.has_listed = false;
        frame
    }

    /// The frame of a part of the listing, compressed if wanted.
    fn list(&mut self, list: Vec<u8>) -> OutFrame {
        self.has_listed = true;
        let waiting = if self.is_link_slow { QUEUED_FRAMES_MIN } else { 1 };
        match self.frames.compression_control.effort_of_list(waiting) {
            Some(effort) => self.compressor.message(effort, list),
            None => OutFrame::whole(list),
        }
    }
}

/// Sends `body` after `head`, at most `step` bytes at once.
fn send_body(
    output: &mut Writer,
    head: &[u8],
    body: &Body,
    step: usize,
    throttle: &impl Fn(usize),
    counts: &mut Counts<'_>,
) -> io::Result<()> {
    let Body::Range { source, offset, len } = body else {
        let (first, rest) = body.bytes().split_at(body.bytes().len().min(step));
        counts.leaves(first.len());
        write_both(output, head, first, || ())?;
        throttle(first.len());
        for part in rest.chunks(step) {
            output.flush()?;
            counts.leaves(part.len());
            output.write_all(part)?;
            throttle(part.len());
        }
        return Ok(());
    };
    output.write_all(head)?;
    output.flush()?;
    let (mut offset, mut left) = (*offset, *len);
    while left > 0 {
        let part = left.min(step);
        counts.leaves(part);
        send_range(output, &**source, offset, part)?;
        throttle(part);
        offset += part as u64;
        left -= part;
    }
    Ok(())
}

/// The contents of a frame, as they count when they leave.
struct Counts<'a> {
    /// The contents that were not started.
    contents: std::vec::IntoIter<Counted>,
    /// The current content. Its length is the part that was not reported.
    content: Counted,
    /// The bytes to report in all, and the bytes already reported.
    total: u64,
    reported: u64,
    /// The length of the frame's content as sent, and the part of it that has left, in bytes.
    len: u64,
    left: u64,
    on_leaving: OnLeaving<'a>,
}

impl<'a> Counts<'a> {
    /// Takes the counts from `frame`.
    fn of(frame: &mut OutFrame, on_leaving: OnLeaving<'a>) -> Self {
        let contents = std::mem::take(&mut frame.counts);
        let total = contents.iter().map(|content| content.len).sum();
        let len = frame.body.as_ref().map_or(0, Body::len) as u64;
        let (contents, content) = (contents.into_iter(), Counted::default());
        Self { contents, content, total, reported: 0, len, left: 0, on_leaving }
    }

    /// Reports the content in the next `len` bytes, which are about to leave.
    fn leaves(&mut self, len: usize) {
        self.left += len as u64;
        // Compressed content counts with its original length.
        let due = u128::from(self.total) * u128::from(self.left) / u128::from(self.len.max(1));
        while self.reported < due as u64 {
            if self.content.len == 0 {
                let Some(content) = self.contents.next() else { return };
                self.content = content;
                continue;
            }
            let Counted { index, len, tally } = &mut self.content;
            let now = (*len).min(due as u64 - self.reported);
            (self.on_leaving)(*index, now);
            tally.iter().for_each(|tally| tally.add(now));
            *len -= now;
            self.reported += now;
        }
    }
}

/// Sends `len` bytes of a file from `offset` on. If the file was truncated, zeros are sent instead:
/// the frame keeps its length, and the hash reveals the change.
fn send_range(
    output: &mut Writer,
    source: &dyn SourceFile,
    mut offset: u64,
    mut len: usize,
) -> io::Result<()> {
    // Pages in the pipe can't be released yet; the next piece releases them.
    source.release_up_to(offset);
    if let (Some(pipe), Some(file)) = (output.pipe(), source.handle()) {
        while len > 0 {
            match haul_sys::splice_to_pipe(file, offset, pipe, len) {
                Ok(Some(moved @ 1..)) => {
                    offset += moved as u64;
                    len -= moved;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    output.wait_writable()?
                }
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(error),
                // The end of the file, or an error: the read below reports it.
                Ok(Some(0) | None) | Err(_) => break,
            }
        }
    }
    let mut rest = vec![0; len];
    // An error leaves zeros, too.
    let _ = source.read_at(&mut rest, offset);
    output.write_all(&rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::wire::Outbox;
    use haul_model::Compression;
    use haul_proto::{Caps, HEADER_LEN, Header, Unwrapper};
    use std::collections::BTreeMap;
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::thread;

    const MIB: u64 = 1 << 20;
    const FRAMES: u64 = 6;

    /// Runs the writer on the queued frames, and `read` on its output.
    fn with_writer(outbox: &Outbox, frames: &Frames, read: impl FnOnce(&mut UnixStream)) {
        let (output, mut input) = UnixStream::pair().expect("a pair");
        thread::scope(|scope| {
            let write = || run_writer(&mut Writer::new(output, None), frames, vec![], None, None);
            let writer = scope.spawn(write);
            read(&mut input);
            outbox.close();
            writer.join().expect("no panic").expect("written");
        });
    }

    #[test]
    fn the_listing_does_not_delay_other_frames() {
        let (outbox, frames) = Outbox::new(false);
        for _ in 0..100 {
            outbox.list(vec![2]).expect("there is room");
        }
        outbox.send(OutFrame::whole(vec![1])).expect("there is room");
        let mut read = [0; 101];
        with_writer(&outbox, &frames, |input| input.read_exact(&mut read).expect("all comes"));
        assert_eq!(read.iter().position(|byte| *byte == 1), Some(1));
    }

    #[test]
    fn entries_listed_before_the_greeting_are_compressed() {
        const FRAME_LEN: usize = 64 << 10;
        let (outbox, frames) = Outbox::new(false);
        outbox.compression_control.set_mode(Compression::Lz4);
        let list = frame_bytes(FrameType::List, &[b'a'; FRAME_LEN]);
        outbox.list(list.clone()).expect("there is room");
        outbox.compression_control.allow(Caps::OURS);
        let mut header = [0; HEADER_LEN];
        with_writer(&outbox, &frames, |input| {
            input.read_exact(&mut header).expect("a header");
            let header = Header::decode(header).expect("one of a frame");
            let mut payload = vec![0; header.payload_len as usize];
            input.read_exact(&mut payload).expect("a payload");
            assert_eq!(header.kind, FrameType::Wrapped);
            assert!(payload.len() < FRAME_LEN / 10, "{}", payload.len());
            let mut unwrapper = Unwrapper::default();
            let (_, mut inner) = unwrapper.unwrap(&payload).expect("what was wrapped");
            let mut whole = Vec::new();
            inner.read_to_end(&mut whole).expect("in memory");
            assert_eq!(whole, list[HEADER_LEN..]);
        });
    }

    #[test]
    fn content_counts_when_it_leaves_not_while_it_waits() {
        let (outbox, frames) = Outbox::new(false);
        let (output, mut input) = UnixStream::pair().expect("a pair");
        for _ in 0..FRAMES {
            let body = Body::Compressed {
                bytes: vec![0; MIB as usize],
                len: 3 * MIB as usize,
                took: Duration::ZERO,
            };
            let counts = [(1, MIB), (2, 0), (3, 2 * MIB)];
            let counts = counts.map(|(index, len)| Counted { index, len, tally: None }).into();
            outbox.send(OutFrame::content(vec![1], body).counting(counts)).expect("there is room");
        }
        outbox.close();
        let reported: parking_lot::Mutex<BTreeMap<u64, u64>> = parking_lot::Mutex::default();
        let sum = || reported.lock().values().sum::<u64>();
        thread::scope(|scope| {
            let write = || {
                let on_leaving = |index, len| *reported.lock().entry(index).or_default() += len;
                let monitor = crate::monitor::Silent::default();
                let of_job = Control::new(&monitor);
                let of_job = Some((&of_job, &on_leaving as OnLeaving<'_>));
                let mut output = Writer::new(output, None);
                run_writer(&mut output, &frames, Vec::new(), None, of_job)
            };
            let writer = scope.spawn(write);
            let mut before = 0;
            while sum() == 0 || sum() != before {
                before = sum();
                thread::sleep(Duration::from_millis(100));
            }
            assert!(before < FRAMES * 3 * MIB / 2, "{before} left, and nobody reads");
            let mut read = Vec::new();
            input.read_to_end(&mut read).expect("read");
            assert_eq!(read.len() as u64, FRAMES * (MIB + 1));
            writer.join().expect("no panic").expect("written");
        });
        assert_eq!(*reported.lock(), BTreeMap::from([(1, FRAMES * MIB), (3, 2 * FRAMES * MIB)]));
    }
}

//! Frames on their way out: a queue that ports and workers fill, and the writer that
//! drains it.

use super::flow::Flow;
use super::ledger::{Implausible, Ledger, OnLoss};
use super::squeeze::{Effort, Left, Squeeze};
use crate::control::{CANCEL_POLL, Control};
use crate::pool::Buf;
use crossbeam_channel::{RecvTimeoutError, SendTimeoutError};
use haul_net::Writer;
use haul_proto::{FrameType, Message, encode, frame_bytes};
use haul_tree::{SharedBlock, SourceFile, lock};
use std::io::{self, IoSlice, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Frames that may wait for the writer.
const OUTBOX_FRAMES_MAX: usize = 8;

/// Small writes are gathered up to about this many bytes.
const GATHER_LEN: usize = 32 << 10;

/// How long outcomes wait for more of them: each write on its own wakes three
/// processes on its way, ssh's two and the peer. Only a Sender that has listed as
/// much as it may waits for outcomes, and those come by the hundred.
const OUTCOMES_WAIT: Duration = Duration::from_millis(2);

/// A frame on its way out.
pub(crate) struct OutFrame {
    /// Header and description, or the whole frame.
    head: Vec<u8>,
    /// The content that follows.
    body: Option<Body>,
    /// True if it may wait for others.
    patient: bool,
    /// With it a part ends that is sent once more if it is lost with its lane.
    on_loss: Option<OnLoss>,
}

impl OutFrame {
    /// A frame that holds a message.
    pub(crate) fn message(message: &Message) -> Self {
        let patient = matches!(message, Message::Outcomes(_));
        Self { patient, ..Self::whole(encode(message)) }
    }

    /// A frame that is encoded already.
    pub(crate) fn whole(head: Vec<u8>) -> Self {
        Self { head, body: None, patient: false, on_loss: None }
    }

    /// No frame: the end of a part whose frames are queued.
    pub(crate) fn end_of_part(on_loss: OnLoss) -> Self {
        Self::whole(Vec::new()).or_lost(on_loss)
    }

    /// The same frame, which ends a part.
    pub(crate) fn or_lost(self, on_loss: OnLoss) -> Self {
        Self { on_loss: Some(on_loss), ..self }
    }

    /// A frame with a content, behind its header and description.
    pub(crate) fn content(head: Vec<u8>, body: Body) -> Self {
        Self { body: Some(body), ..Self::whole(head) }
    }
}

/// Content on its way out.
pub(crate) enum Body {
    /// Bytes in memory.
    Bytes(Buf),
    /// A part of a block that other jobs send, too.
    Shared {
        /// The block.
        block: Arc<SharedBlock>,
        /// The part.
        part: Range<usize>,
        /// An empty buffer: so no more blocks are held than there are buffers.
        _held: Buf,
    },
    /// Bytes, compressed.
    Squeezed {
        /// The bytes that it shrank to.
        bytes: Vec<u8>,
        /// Its own length, in bytes.
        len: usize,
    },
    /// A range of a file of this machine, to be spliced.
    Range {
        /// The file.
        source: Arc<dyn SourceFile>,
        /// Where the range begins, in bytes.
        offset: u64,
        /// How long it is, in bytes.
        len: usize,
    },
}

impl Body {
    /// The content itself, if that is in memory.
    pub(super) fn content(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(_) | Self::Shared { .. } => Some(self.bytes()),
            Self::Squeezed { .. } | Self::Range { .. } => None,
        }
    }

    /// The bytes that are in memory, as they go out.
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Shared { block, part, .. } => &block.bytes()[part.clone()],
            Self::Squeezed { bytes, .. } => bytes,
            Self::Range { .. } => &[],
        }
    }

    /// Bytes that go out.
    fn len(&self) -> usize {
        match self {
            Self::Bytes(_) | Self::Shared { .. } | Self::Squeezed { .. } => self.bytes().len(),
            Self::Range { len, .. } => *len,
        }
    }

    /// It has left, and `took` that time.
    fn left(&self, took: Duration) -> Left {
        match self {
            Self::Squeezed { bytes, len } => Left { len: *len, squeezed: Some(bytes.len()), took },
            Self::Bytes(_) | Self::Shared { .. } | Self::Range { .. } => {
                Left { len: self.len(), squeezed: None, took }
            }
        }
    }
}

/// The writer's end of the queue.
pub(crate) struct Frames {
    waiting: crossbeam_channel::Receiver<OutFrame>,
    squeeze: Arc<Squeeze>,
    flow: Arc<Flow>,
    /// Set for a lane that may be lost.
    ledger: Option<Arc<Ledger>>,
}

impl Frames {
    /// Nothing more can be written: what is queued never leaves. **To be called when the
    /// outbox is closed**; returns when nobody queues anything any more.
    pub(crate) fn lose(self) {
        for frame in self.waiting {
            if let (Some(ledger), Some(on_loss)) = (&self.ledger, frame.on_loss) {
                // Nothing is settled before this has returned.
                ledger.unsent(on_loss);
            }
        }
    }

    /// Notes that `frame` is about to leave; tells if it is one at all.
    fn note(&self, frame: &mut OutFrame) -> io::Result<bool> {
        let Some(ledger) = &self.ledger else { return Ok(true) };
        let is_frame = !frame.head.is_empty();
        if is_frame {
            ledger.write();
        }
        if let Some(on_loss) = frame.on_loss.take() {
            ledger.part(on_loss).map_err(|Implausible(rule)| io::Error::other(rule))?;
        }
        Ok(is_frame)
    }
}

/// Takes frames for the writer; closed when the job has nothing more to say.
pub(crate) struct Outbox {
    frames: Mutex<Option<crossbeam_channel::Sender<OutFrame>>>,
    splices: bool,
    /// How frames are compressed.
    pub(crate) squeeze: Arc<Squeeze>,
    flow: Arc<Flow>,
    /// Nobody waits for room any more.
    cut: AtomicBool,
    /// See [`Frames::ledger`].
    pub(super) ledger: Option<Arc<Ledger>>,
}

impl Outbox {
    /// The queue of outgoing frames, and its end for the writer. `splices` says if the
    /// writer may splice file content.
    pub(crate) fn new(splices: bool) -> (Arc<Self>, Frames) {
        Self::with(splices, None)
    }

    fn with(splices: bool, ledger: Option<Arc<Ledger>>) -> (Arc<Self>, Frames) {
        let (frames, waiting) = crossbeam_channel::bounded(OUTBOX_FRAMES_MAX);
        let (frames, cut) = (Mutex::new(Some(frames)), AtomicBool::new(false));
        let (squeeze, flow) = (Arc::new(Squeeze::default()), Arc::new(Flow::default()));
        let (filled, paced, noted) = (Arc::clone(&squeeze), Arc::clone(&flow), ledger.clone());
        let queue = Frames { waiting, squeeze: filled, flow: paced, ledger: noted };
        (Arc::new(Self { frames, splices, squeeze, flow, cut, ledger }), queue)
    }

    /// Another queue, whose frames are compressed as those of this one, and may be lost.
    pub(super) fn beside(&self) -> (Arc<Self>, Frames) {
        let (beside, frames) = Self::with(false, Some(Arc::default()));
        beside.squeeze.begin_as(&self.squeeze);
        (beside, frames)
    }

    /// True if ranges of files may be sent as [`Body::Range`].
    pub(crate) fn splices(&self) -> bool {
        self.splices
    }

    /// How the next frame is compressed, if it is to be.
    pub(crate) fn effort(&self) -> Option<Effort> {
        let waiting = lock(&self.frames).as_ref().map_or(0, crossbeam_channel::Sender::len);
        self.squeeze.effort(waiting)
    }

    /// The content that is on its way.
    pub(super) fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Queues a frame, as soon as there is room; `None` if the writer is gone, or
    /// is not waited for any more.
    pub(crate) fn send(&self, frame: OutFrame) -> Option<()> {
        self.flow.queued(frame.body.as_ref().map_or(0, Body::len));
        self.send_within(frame, Duration::MAX)
    }

    /// The same with a bound on the time that it may take.
    pub(crate) fn send_within(&self, mut frame: OutFrame, patience: Duration) -> Option<()> {
        let frames = lock(&self.frames).clone()?;
        let mut waited = Duration::ZERO;
        loop {
            frame = match frames.send_timeout(frame, CANCEL_POLL) {
                Ok(()) => return Some(()),
                Err(SendTimeoutError::Timeout(frame))
                    if waited < patience && !self.cut.load(Ordering::Relaxed) =>
                {
                    frame
                }
                Err(_) => return None,
            };
            waited += CANCEL_POLL;
        }
    }

    /// Queues a message.
    pub(crate) fn tell(&self, message: &Message) {
        self.send(OutFrame::message(message));
    }

    /// Queues a message, if there is room for it within `patience`.
    pub(crate) fn tell_within(&self, message: &Message, patience: Duration) {
        self.send_within(OutFrame::message(message), patience);
    }

    /// Lets the writer end once it has sent what is queued.
    pub(crate) fn close(&self) {
        lock(&self.frames).take();
    }

    /// True if nothing can be queued any more.
    pub(super) fn is_closed(&self) -> bool {
        lock(&self.frames).is_none()
    }

    /// Lets go who waits for a writer that can't get rid of what it has.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }
}

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

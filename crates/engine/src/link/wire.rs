//! The link over a connection: ports that encode what they are told, a writer
//! that sends it, and readers that decode what arrives and call the role.

use super::{ReceiverPort, SenderPort, SourceHandle};
use crate::JobError;
use crate::control::{CANCEL_POLL, Control};
use crate::copy::STEP_LEN;
use crate::pool::{Buf, Pool};
use crate::receiver::{Direct, Incoming, Piece, Receiver, Task};
use crossbeam_channel::{RecvTimeoutError, SendTimeoutError};
use haul_model::{Fault, Summary, escape_controls};
use haul_net::{ConnectError, Writer};
use haul_proto::{
    Abort, DataView, Extra, FrameType, HEADER_LEN, Header, Late, ListItem, Message, OutcomeItem,
    Prove, Proven, Want, Warning, decode, decode_data_start, decode_pack, encode, frame_bytes,
};
use haul_tree::SourceFile;
use haul_tree::lock;
use std::collections::HashMap;
use std::io::{self, IoSlice, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Frames that may wait for the writer.
const OUTBOX_FRAMES_MAX: usize = 8;

/// Wants, outcomes and proofs in one frame, at most: it stays far below its bound even
/// when every outcome carries a long message.
const ANSWERS_PER_FRAME_MAX: usize = 128;

/// Extras in one frame, at most: with paths as long as they are told, it stays
/// below its bound.
const EXTRAS_PER_FRAME_MAX: usize = 32;

/// Parts of a listing that may wait to be looked at.
pub(crate) const LISTS_MAX: usize = 8;

/// Files that may arrive in pieces at the same time.
const INCOMING_MAX: usize = 64;

/// How often is looked whether a file's queue has room again.
const FULL_POLL: Duration = Duration::from_millis(1);

/// Small writes are gathered up to about this many bytes.
const GATHER_LEN: usize = 32 << 10;

/// How long outcomes wait for more of them: each write on its own wakes three
/// processes on its way, ssh's two and the peer. Only a Sender that has listed as
/// much as it may waits for outcomes, and those come by the hundred.
const OUTCOMES_WAIT: Duration = Duration::from_millis(2);

/// Bytes that are read ahead for small frames; a large payload is read right
/// into its buffer.
pub(crate) const READ_AHEAD: usize = 64 << 10;

/// A frame on its way out.
pub(crate) struct OutFrame {
    /// Header and description, or the whole frame.
    head: Vec<u8>,
    /// The content that follows.
    body: Option<Body>,
    /// Whether it may wait for others.
    patient: bool,
}

impl OutFrame {
    /// A frame that holds a message.
    pub(crate) fn message(message: &Message) -> Self {
        let patient = matches!(message, Message::Outcomes(_));
        Self { head: encode(message), body: None, patient }
    }

    /// A frame that says that this side is there.
    fn alive() -> Self {
        Self { head: frame_bytes(FrameType::Alive, &[]), body: None, patient: false }
    }

    /// A frame with a content, behind its header and description.
    pub(crate) fn content(head: Vec<u8>, body: Body) -> Self {
        Self { head, body: Some(body), patient: false }
    }
}

/// Content on its way out.
pub(crate) enum Body {
    /// Bytes in memory.
    Bytes(Buf),
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

/// Takes frames for the writer; closed when the job has nothing more to say.
pub(crate) struct Outbox {
    frames: Mutex<Option<crossbeam_channel::Sender<OutFrame>>>,
    splices: bool,
    /// Nobody waits for room any more.
    cut: AtomicBool,
}

impl Outbox {
    /// An outbox, and what the writer empties; whether the writer can splice.
    pub(crate) fn new(splices: bool) -> (Arc<Self>, crossbeam_channel::Receiver<OutFrame>) {
        let (frames, waiting) = crossbeam_channel::bounded(OUTBOX_FRAMES_MAX);
        let (frames, cut) = (Mutex::new(Some(frames)), AtomicBool::new(false));
        (Arc::new(Self { frames, splices, cut }), waiting)
    }

    /// Whether ranges of files may be sent as [`Body::Range`].
    pub(crate) fn splices(&self) -> bool {
        self.splices
    }

    /// Queues a frame, as soon as there is room; `None` if the writer is gone, or
    /// is not waited for any more.
    pub(crate) fn send(&self, frame: OutFrame) -> Option<()> {
        self.send_within(frame, Duration::MAX)
    }

    /// The same with a bound on the time that it may take.
    fn send_within(&self, mut frame: OutFrame, patience: Duration) -> Option<()> {
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

    /// Lets go who waits for a writer that can't get rid of what it has.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }
}

/// Sends `greeting`, and what is queued, until the outbox is closed or the peer is
/// gone. When there was nothing to send for as long as `sign_after` says, the peer
/// is told that this side is there.
pub(crate) fn run_writer(
    output: &mut Writer,
    frames: &crossbeam_channel::Receiver<OutFrame>,
    greeting: Vec<u8>,
    sign_after: Option<Duration>,
) -> io::Result<()> {
    let mut gathered = greeting;
    // Until when what is gathered may wait; `None` if it must not.
    let mut patience = None;
    loop {
        let more = match patience {
            Some(until) => frames.recv_deadline(until).ok(),
            // Anything else waits only while more is there already.
            None => frames.try_recv().ok(),
        };
        let frame = match more {
            Some(frame) => frame,
            None => {
                output.write_all(&gathered)?;
                output.flush()?;
                gathered.clear();
                let next = match sign_after {
                    Some(silence) => frames.recv_timeout(silence),
                    None => frames.recv().map_err(RecvTimeoutError::from),
                };
                match next {
                    Ok(frame) => frame,
                    Err(RecvTimeoutError::Timeout) => OutFrame::alive(),
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                }
            }
        };
        patience = match frame.patient {
            true if gathered.is_empty() => Some(Instant::now() + OUTCOMES_WAIT),
            true => patience,
            false => None,
        };
        gathered.extend_from_slice(&frame.head);
        match &frame.body {
            Some(Body::Bytes(bytes)) => write_both(output, &gathered, bytes)?,
            Some(Body::Range { source, offset, len }) => {
                output.write_all(&gathered)?;
                output.flush()?;
                send_range(output, &**source, *offset, *len)?;
            }
            None if gathered.len() > GATHER_LEN => output.write_all(&gathered)?,
            None => continue,
        }
        gathered.clear();
    }
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
    source.release(offset);
    if let (Some(pipe), Some(file)) = (output.pipe(), source.local()) {
        while len > 0 {
            match haul_sys::splice_to_pipe(file, offset, pipe, len) {
                Ok(Some(moved @ 1..)) => {
                    offset += moved as u64;
                    len -= moved;
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

/// Why nothing more can be read.
pub(crate) enum ReadEnd {
    /// The stream ended, or broke.
    Lost(io::Error),
    /// The peer sent what is not allowed; the job has failed with the reason.
    Refused(JobError),
}

impl From<io::Error> for ReadEnd {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

/// What the peer did was not allowed.
pub(crate) fn refused(reason: impl std::fmt::Display) -> ReadEnd {
    ReadEnd::Refused(JobError::Protocol(reason.to_string()))
}

impl ReadEnd {
    /// Ends the job with this.
    pub(crate) fn report(self, control: &Control<'_>, peer: &str) {
        control.fail(match self {
            Self::Lost(error) => {
                ConnectError::Lost { host: peer.to_owned(), detail: error.to_string() }.into()
            }
            Self::Refused(error) => error,
        });
    }
}

/// Reads the header of the next frame that says something.
pub(crate) fn read_header(input: &mut impl Read) -> Result<Header, ReadEnd> {
    loop {
        let header = read_first_header(input)?;
        if header.kind != FrameType::Alive {
            return Ok(header);
        }
    }
}

/// Reads the header of a frame.
pub(crate) fn read_first_header(input: &mut impl Read) -> Result<Header, ReadEnd> {
    let mut bytes = [0; HEADER_LEN];
    input.read_exact(&mut bytes)?;
    Header::decode(bytes).map_err(refused)
}

/// Reads a payload that is no content.
pub(crate) fn read_payload(input: &mut impl Read, header: Header) -> Result<Vec<u8>, ReadEnd> {
    let mut payload = vec![0; header.payload_len as usize];
    input.read_exact(&mut payload)?;
    Ok(payload)
}

/// Reads for a Sender on this side, until the job has ended.
pub(crate) fn read_for_sender(input: impl Read, sender: &dyn SenderPort) -> Result<(), ReadEnd> {
    match read_answers(input, sender) {
        Err(ReadEnd::Lost(_)) if sender.has_removed_all() => Ok(()),
        read => read,
    }
}

fn read_answers(mut input: impl Read, sender: &dyn SenderPort) -> Result<(), ReadEnd> {
    loop {
        let header = read_header(&mut input)?;
        if matches!(header.kind, FrameType::Pack | FrameType::Data) {
            return Err(unexpected(header.kind));
        }
        let payload = read_payload(&mut input, header)?;
        match decode(header.kind, &payload).map_err(refused)? {
            Message::Want(wants) => sender.want(wants),
            Message::Outcomes(outcomes) => sender.outcomes(outcomes),
            Message::Extras(extras) => sender.extras(extras),
            Message::Warning(warning) => sender.warning(warning),
            Message::Late(late) => sender.late(late),
            Message::Proven(proven) if sender.asks_for_proof() => sender.proven(proven),
            Message::Done(summary) => {
                sender.done(summary);
                if !sender.asks_for_proof() {
                    return Ok(());
                }
            }
            Message::Abort(abort) => return Err(ReadEnd::Refused(aborted(abort))),
            _ => return Err(unexpected(header.kind)),
        }
    }
}

/// Reads for a Receiver on this side, until the job has ended. Listings are
/// handed to `lists`, so that looking at the destination doesn't hold up data.
pub(crate) fn read_for_receiver(
    input: impl Read,
    receiver: &Receiver<'_>,
    lists: &crossbeam_channel::Sender<Vec<ListItem>>,
    pool: &Pool,
) -> Result<(), ReadEnd> {
    match read_contents(input, receiver, lists, pool) {
        // A Sender that has heard of the job's end leaves.
        Err(ReadEnd::Lost(_)) if receiver.is_done() => Ok(()),
        read => read,
    }
}

fn read_contents(
    mut input: impl Read,
    receiver: &Receiver<'_>,
    lists: &crossbeam_channel::Sender<Vec<ListItem>>,
    pool: &Pool,
) -> Result<(), ReadEnd> {
    let control = receiver.control;
    let mut incoming: HashMap<u64, Arc<Incoming>> = HashMap::new();
    let mut part = vec![0; STEP_LEN];
    loop {
        let header = read_header(&mut input)?;
        let is_content =
            matches!(header.kind, FrameType::Pack | FrameType::Data | FrameType::BlockSeal);
        if is_content && receiver.checks() {
            return Err(unexpected(header.kind));
        }
        let len = header.payload_len as usize;
        if header.kind == FrameType::Pack {
            let Some(mut payload) = pool.take(len, control) else { return Ok(()) };
            input.read_exact(&mut payload)?;
            let view = decode_pack(&payload).map_err(refused)?;
            receiver.give(Task::Pack(payload, view));
            continue;
        }
        if header.kind == FrameType::Data {
            let start = &mut part[..len.min(STEP_LEN)];
            input.read_exact(start)?;
            let view = decode_data_start(start, len).map_err(refused)?;
            let file = open_incoming(&mut incoming, receiver, view.index)?;
            if let Some(direct) = file.directly(receiver) {
                take_directly(&mut input, direct, view, len, &mut part)?;
                continue;
            }
            let Some(mut payload) = pool.take(len, control) else { return Ok(()) };
            payload[..start.len()].copy_from_slice(start);
            input.read_exact(&mut payload[start.len()..])?;
            hand_on(receiver, file, Piece::Data(payload, view));
            continue;
        }
        let payload = read_payload(&mut input, header)?;
        match decode(header.kind, &payload).map_err(refused)? {
            Message::List(items) => {
                if !receiver.admit_list(&items) {
                    return Ok(());
                }
                // Refused only when the job has ended.
                let _ = lists.send(items);
            }
            Message::BlockSeal(seal) => {
                let file = open_incoming(&mut incoming, receiver, seal.index)?;
                match file.directly(receiver) {
                    Some(mut file) => file.check_block(&seal),
                    None => hand_on(receiver, Arc::clone(&file), Piece::Seal(seal)),
                }
            }
            Message::FileEnd(end) if receiver.checks() => {
                if !receiver.admit_seal(end.index) {
                    return Ok(());
                }
                receiver.give(Task::Sealed(end));
            }
            Message::FileEnd(end) => {
                let file = open_incoming(&mut incoming, receiver, end.index)?;
                incoming.remove(&end.index);
                hand_on(receiver, file, Piece::End(end));
            }
            Message::Removed(removed) if receiver.awaits_removals() => {
                receiver.take_removals(removed);
            }
            Message::Prove(asked) if receiver.awaits_removals() => {
                let Some(asked) = receiver.take_proofs(asked) else { return Ok(()) };
                receiver.give(Task::Prove(asked));
            }
            Message::Abort(abort) => return Err(ReadEnd::Refused(aborted(abort))),
            _ => return Err(unexpected(header.kind)),
        }
    }
}

/// Takes a piece right from the stream; `part` has the beginning of its payload.
fn take_directly(
    input: &mut impl Read,
    mut file: Direct<'_>,
    view: DataView,
    payload_len: usize,
    part: &mut [u8],
) -> Result<(), ReadEnd> {
    let mut read = payload_len.min(part.len());
    file.take(&part[view.content.start..read], view.offset);
    while read < payload_len {
        let next = &mut part[..(payload_len - read).min(STEP_LEN)];
        input.read_exact(next)?;
        file.take(next, view.offset + (read - view.content.start) as u64);
        read += next.len();
    }
    Ok(())
}

fn open_incoming(
    incoming: &mut HashMap<u64, Arc<Incoming>>,
    receiver: &Receiver<'_>,
    index: u64,
) -> Result<Arc<Incoming>, ReadEnd> {
    if let Some(file) = incoming.get(&index) {
        return Ok(Arc::clone(file));
    }
    if incoming.len() >= INCOMING_MAX {
        return Err(refused("the peer sent too many files at once"));
    }
    let pending = receiver.claim(index);
    let pending = pending.ok_or_else(|| refused("the peer sent a file that was not asked for"))?;
    let file = Arc::new(Incoming::new(pending));
    incoming.insert(index, Arc::clone(&file));
    Ok(file)
}

fn hand_on(receiver: &Receiver<'_>, file: Arc<Incoming>, piece: Piece) {
    while file.is_full() && !receiver.control.stopped() {
        std::thread::sleep(FULL_POLL);
    }
    if file.push(piece) {
        receiver.give(Task::Pieces(file));
    }
}

fn unexpected(kind: FrameType) -> ReadEnd {
    refused(format_args!("the peer sent a {kind:?} frame where none is expected"))
}

/// A peer's reason to give up, as our own.
fn aborted(abort: Abort) -> JobError {
    match abort {
        // Its names are escaped already.
        Abort::Usage(words) => JobError::Usage(escape_controls(&words)),
        Abort::Destination { path, fault } => {
            let path = escape_controls(&String::from_utf8_lossy(&path));
            let message = escape_controls(&fault.message);
            JobError::Destination { path, fault: Fault { message, ..fault } }
        }
        Abort::Protocol(words) => JobError::Protocol(escape_controls(&words)),
        Abort::Cancelled => JobError::Interrupted,
    }
}

/// The Receiver at the other end.
pub(crate) struct RemoteReceiver(pub(crate) Arc<Outbox>);

impl ReceiverPort for RemoteReceiver {
    fn list(&self, items: Vec<ListItem>) {
        self.0.tell(&Message::List(items));
    }

    fn files(&self, _: Vec<SourceHandle>) {
        unreachable!("a Sender with a queue sends contents, not handles");
    }

    fn prove(&self, asked: Vec<Prove>) {
        for part in asked.chunks(ANSWERS_PER_FRAME_MAX) {
            self.0.tell(&Message::Prove(part.to_vec()));
        }
    }
}

/// The Sender at the other end.
pub(crate) struct RemoteSender(pub(crate) Arc<Outbox>);

impl SenderPort for RemoteSender {
    fn want(&self, wants: Vec<Want>) {
        for part in wants.chunks(ANSWERS_PER_FRAME_MAX) {
            self.0.tell(&Message::Want(part.to_vec()));
        }
    }

    fn outcomes(&self, outcomes: Vec<OutcomeItem>) {
        for part in outcomes.chunks(ANSWERS_PER_FRAME_MAX) {
            self.0.tell(&Message::Outcomes(part.to_vec()));
        }
    }

    fn extras(&self, extras: Vec<Extra>) {
        for part in extras.chunks(EXTRAS_PER_FRAME_MAX) {
            self.0.tell(&Message::Extras(part.to_vec()));
        }
    }

    fn warning(&self, warning: Warning) {
        self.0.tell(&Message::Warning(warning));
    }

    fn late(&self, late: Late) {
        self.0.tell(&Message::Late(late));
    }

    fn done(&self, summary: Summary) {
        self.0.tell(&Message::Done(summary));
    }

    fn proven(&self, proven: Vec<Proven>) {
        for part in proven.chunks(ANSWERS_PER_FRAME_MAX) {
            self.0.tell(&Message::Proven(part.to_vec()));
        }
    }

    fn is_far(&self) -> bool {
        true
    }
}

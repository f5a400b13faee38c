//! The link over a connection: readers that decode what arrives and call the role;
//! [`outgoing`] has the ports that encode what they are told, and the writer.

mod outgoing;

pub(crate) use outgoing::{Body, OutFrame, Outbox, RemoteReceiver, RemoteSender, run_writer};

use super::SenderPort;
use crate::JobError;
use crate::control::Control;
use crate::copy::STEP_LEN;
use crate::pool::Pool;
use crate::receiver::{Direct, Incoming, Piece, Receiver, Work};
use haul_model::{Fault, escape_controls};
use haul_net::ConnectError;
use haul_proto::{
    Abort, DataView, FrameType, HEADER_LEN, Header, ListItem, Message, decode, decode_data_start,
    decode_pack,
};
use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

/// Parts of a listing that may wait to be looked at.
pub(crate) const LISTS_MAX: usize = 8;

/// Files that may arrive in pieces at the same time.
const INCOMING_MAX: usize = 64;

/// How often is looked whether a file's queue has room again.
const FULL_POLL: Duration = Duration::from_millis(1);

/// Bytes that are read ahead for small frames; a large payload is read right
/// into its buffer.
pub(crate) const READ_AHEAD: usize = 64 << 10;

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
            receiver.give(Work::Pack(payload, view));
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
                receiver.give(Work::Sealed(end));
            }
            Message::FileEnd(end) => {
                let file = open_incoming(&mut incoming, receiver, end.index)?;
                incoming.remove(&end.index);
                hand_on(receiver, file, Piece::End(end));
            }
            Message::Removed(removed) if receiver.awaits_removals() => {
                receiver.take_removals(removed);
            }
            // Not by a worker: all of them may be hashing for hours.
            Message::Prove(asked) if receiver.awaits_removals() => receiver.prove(asked),
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
        receiver.give(Work::Pieces(file));
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

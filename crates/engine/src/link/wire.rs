//! The link over a connection. The ports of both roles encode messages and queue them. The reader
//! decodes messages for a Sender; a Receiver has its own (`receiver/reading.rs`).
//!
//! [`frame`] is an encoded message. [`outgoing`] has the queue,
//! [`listed`] the queue of the listing, and [`writer`] sends both. [`compression_control`] chooses
//! the compression of frames. [`lanes`] chooses the connection of contents, and [`ledger`] knows
//! what a lost one had sent.

mod compression_control;
mod flow;
mod frame;
mod lanes;
mod ledger;
mod listed;
mod outgoing;
mod writer;

use crate::JobError;
use crate::control::Control;
use crate::link::{ReceiverPort, SenderPort, SourceHandle};
pub(crate) use compression_control::{Effort, FrameCompressor};
use crossbeam_channel::TrySendError;
pub(crate) use frame::{Body, Counted, OutFrame, SentTally};
use haul_model::{Fault, Outcome, Summary, escape_controls};
use haul_net::ConnectError;
use haul_proto::{
    Abort, Arrived, DirectOffer, Extra, FrameType, HEADER_LEN, Header, Known, Late, ListItem,
    Message, Named, Offer, OutcomeItem, Prove, Proven, Signature, Taken, Want, Warning, decode,
    encode,
};
pub use lanes::RELAYED_FIRST;
pub(crate) use lanes::{ByWire, FAR_LANE_LEN, LONG_ROUND_TRIP, Lane, Lanes, Load};
pub(crate) use ledger::{Implausible, OnFate};
pub(crate) use listed::{ListingReceiver, ListingSender, lists};
pub(crate) use outgoing::{Frames, Outbox};
use std::io::{self, Read};
use std::sync::Arc;
pub(crate) use writer::{OnLeaving, run_writer};

/// Bytes that are read ahead for small frames. A large payload is read directly into its buffer.
pub(crate) const READ_AHEAD: usize = 64 << 10;

/// The end of a job's wire without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The job has ended. The stream may be inside a frame.
    Job,
    /// The peer has sent [`Message::Rest`], its last message.
    Rest,
}

/// The reason why nothing more can be read.
pub(crate) enum ReadEnd {
    /// The stream ended, or broke.
    Lost(io::Error),
    /// The peer broke the protocol, or aborted the job with this reason.
    Refused(JobError),
}

impl From<io::Error> for ReadEnd {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

impl From<ReadEnd> for io::Error {
    fn from(end: ReadEnd) -> Self {
        match end {
            ReadEnd::Lost(error) => error,
            ReadEnd::Refused(error) => Self::other(error.to_string()),
        }
    }
}

/// The end of a conversation with a peer that broke the protocol.
pub(crate) fn refused(reason: impl std::fmt::Display) -> ReadEnd {
    ReadEnd::Refused(JobError::Protocol(reason.to_string()))
}

impl ReadEnd {
    /// Ends the job with this reason.
    pub(crate) fn report(self, control: &Control<'_>, peer: &str) {
        control.fail(match self {
            Self::Lost(error) => ConnectError::lost(peer, &error).into(),
            Self::Refused(error) => error,
        });
    }
}

/// Reads the header of the next frame, except signs of life.
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

/// Reads a payload that has no file content.
pub(crate) fn read_payload(input: &mut impl Read, header: Header) -> Result<Vec<u8>, ReadEnd> {
    let mut payload = vec![0; header.payload_len as usize];
    input.read_exact(&mut payload)?;
    Ok(payload)
}

/// Reads for a Sender on this side, until the job has ended or, if this side `rests`, until the
/// peer has sent Rest. `lanes` is set if lanes may join.
pub(crate) fn read_for_sender(
    input: impl Read,
    sender: &dyn SenderPort,
    offers: Option<&Offers>,
    lanes: Option<&Lanes>,
    rests: &dyn Fn() -> bool,
) -> Result<End, ReadEnd> {
    let mut is_done = false;
    match read_answers(input, sender, offers, lanes, rests, &mut is_done) {
        Err(ReadEnd::Lost(_)) if is_over(sender, is_done) => Ok(End::Job),
        read => read,
    }
}

/// True if `sender` expects no further answer. `is_done` is set once the peer has sent Done.
fn is_over(sender: &dyn SenderPort, is_done: bool) -> bool {
    if sender.asks_for_proof() { sender.has_removed_all() } else { is_done }
}

fn read_answers(
    mut input: impl Read,
    sender: &dyn SenderPort,
    offers: Option<&Offers>,
    lanes: Option<&Lanes>,
    rests: &dyn Fn() -> bool,
    is_done: &mut bool,
) -> Result<End, ReadEnd> {
    let mut is_first = true;
    loop {
        let header = read_header(&mut input)?;
        if matches!(header.kind, FrameType::Pack | FrameType::Data) {
            return Err(unexpected(header.kind));
        }
        let payload = read_payload(&mut input, header)?;
        match decode(header.kind, &payload).map_err(refused)? {
            Message::Want(wants) => sender.want(wants),
            Message::Signature(signature) => sender.signature(signature),
            Message::Known(known) => sender.known(known),
            Message::Outcomes(outcomes) => sender.outcomes(outcomes),
            Message::Extras(extras) => sender.extras(extras),
            Message::Warning(warning) => sender.warning(warning),
            Message::Late(late) => sender.late(late),
            Message::Naming(named) if is_first => sender.naming(named),
            Message::Proven(proven) if sender.asks_for_proof() => sender.proven(proven),
            Message::Done(summary) => {
                sender.done(summary);
                *is_done = true;
                if !sender.asks_for_proof() && !rests() {
                    return Ok(End::Job);
                }
            }
            Message::Rest if is_over(sender, *is_done) => return Ok(End::Rest),
            Message::Direct(offer) => {
                take_offer(offers, offer)?;
                continue;
            }
            Message::Taken(taken) => {
                let lanes = lanes.ok_or_else(|| unexpected(header.kind))?;
                lanes.taken(taken).map_err(|Implausible(rule)| refused(rule))?;
                continue;
            }
            Message::Abort(abort) => return Err(ReadEnd::Refused(aborted(abort))),
            _ => return Err(unexpected(header.kind)),
        }
        is_first = false;
    }
}

/// Receives the agent's direct address, for a client that asked for direct connections.
pub(crate) type Offers = crossbeam_channel::Sender<Result<DirectOffer, String>>;

/// Takes the agent's direct address, once and only if it was requested.
pub(crate) fn take_offer(
    offers: Option<&Offers>,
    offer: Result<DirectOffer, String>,
) -> Result<(), ReadEnd> {
    let offer = offer.map_err(|reason| escape_controls(&reason));
    // There is room for one, and the receiving end may be closed.
    let taken = offers.map(|offers| offers.try_send(offer));
    match taken {
        Some(Ok(()) | Err(TrySendError::Disconnected(_))) => Ok(()),
        Some(Err(TrySendError::Full(_))) | None => Err(unexpected(FrameType::Direct)),
    }
}

/// The error for a frame that is not allowed here.
pub(crate) fn unexpected(kind: FrameType) -> ReadEnd {
    refused(format_args!("the peer sent a {kind:?} frame where none is expected"))
}

/// A peer's reason to abort, as an error of this job.
pub(crate) fn aborted(abort: Abort) -> JobError {
    match abort {
        // Its names are already escaped.
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

/// The most wants, outcomes or proofs in one frame. It stays far below its bound even if every
/// outcome has a long message.
const ANSWERS_PER_FRAME_MAX: usize = 128;

/// The most extras in one frame. With the longest paths, it stays below its bound.
const EXTRAS_PER_FRAME_MAX: usize = 32;

/// The Receiver at the other end.
pub(crate) struct RemoteReceiver {
    pub(crate) outbox: Arc<Outbox>,
}

impl ReceiverPort for RemoteReceiver {
    fn list(&self, items: Vec<ListItem>) {
        self.outbox.list(encode(&Message::List(items)));
    }

    fn files(&self, _: Vec<SourceHandle>) {
        unreachable!("a Sender with a queue sends contents, not handles");
    }

    fn offer(&self, offer: Offer) {
        // Before contents, like the listing.
        self.outbox.list(encode(&Message::Offer(offer)));
    }

    fn prove(&self, asked: Vec<Prove>) {
        self.outbox.send_parts(&asked, ANSWERS_PER_FRAME_MAX, Message::Prove);
    }
}

/// The Sender at the other end.
pub(crate) struct RemoteSender {
    pub(crate) outbox: Arc<Outbox>,
    /// Reports the lengths of files, because the side that shows the job does not see contents.
    pub(crate) reports_sizes: bool,
}

/// Methods that send their argument as one message.
macro_rules! send {
    ($($method:ident($type:ty) as $message:ident;)+) => {
        $(fn $method(&self, content: $type) {
            self.outbox.send_message(&Message::$message(content));
        })+
    };
}

impl SenderPort for RemoteSender {
    send! {
        naming(Named) as Naming;
        signature(Signature) as Signature;
        known(Known) as Known;
        warning(Warning) as Warning;
        late(Late) as Late;
        done(Summary) as Done;
        taken(Taken) as Taken;
        arrived(Arrived) as Arrived;
    }

    fn want(&self, wants: Vec<Want>) {
        self.outbox.send_parts(&wants, ANSWERS_PER_FRAME_MAX, Message::Want);
    }

    fn outcomes(&self, outcomes: Vec<OutcomeItem>) {
        let has_paths = outcomes.iter().any(|one| matches!(one.outcome, Outcome::Linked { .. }));
        let max = if has_paths { EXTRAS_PER_FRAME_MAX } else { ANSWERS_PER_FRAME_MAX };
        self.outbox.send_parts(&outcomes, max, Message::Outcomes);
    }

    fn extras(&self, extras: Vec<Extra>) {
        self.outbox.send_parts(&extras, EXTRAS_PER_FRAME_MAX, Message::Extras);
    }

    fn proven(&self, proven: Vec<Proven>) {
        self.outbox.send_parts(&proven, ANSWERS_PER_FRAME_MAX, Message::Proven);
    }

    fn sized(&self, index: u64, size: u64) {
        if self.reports_sizes {
            let (bytes, blocks) = (0, 0);
            self.arrived(Arrived { bytes, index: Some(index), blocks, size: Some(size) });
        }
    }

    fn is_wire(&self) -> bool {
        true
    }

    fn offers_chunks(&self) -> bool {
        self.outbox.dedups()
    }
}

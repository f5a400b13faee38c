//! Forwards frames from one host to the other. A frame that is not allowed in its direction ends
//! the job here; the roles check the rest.

use super::direct_plan::DirectCalls;
use super::tracker::JobTracker;
use crate::assembly::PeerInput;
use crate::control::Control;
use crate::link::wire::{
    Body, OutFrame, Outbox, ReadEnd, aborted, read_header, read_payload, refused, unexpected,
};
use crate::pool::Pool;
use haul_model::BLOCK_LEN;
use haul_proto::{
    FileEnd, FrameType, Header, LANES_MAX, LaneOver, Message, PackItem, Taken, Unwrapper,
    WRAP_HEAD_LEN, decode, decode_data_start, decode_pack,
};
use std::io::Read;
use std::sync::Arc;

/// Buffers for contents: those in the queue of a writer, one being written, and one being read.
const BUFFERS: usize = 10;

/// The most bytes before the content of a piece.
const PIECE_HEAD_MAX: usize = 32;

/// The frames of one direction.
pub(super) struct Forwarder<'p, 'a> {
    tracker: &'p JobTracker<'a>,
    calls: &'p DirectCalls<'a>,
    control: &'p Control<'a>,
    /// The queue to the other host.
    output: Arc<Outbox>,
    pool: Pool,
    unwrapper: Unwrapper,
}

impl<'p, 'a> Forwarder<'p, 'a> {
    /// Forwards frames to `output`.
    pub(super) fn new(
        (tracker, calls): (&'p JobTracker<'a>, &'p DirectCalls<'a>),
        control: &'p Control<'a>,
        output: Arc<Outbox>,
    ) -> Self {
        let (pool, unwrapper) = (Pool::new(BUFFERS), Unwrapper::default());
        Self { tracker, calls, control, output, pool, unwrapper }
    }

    /// Forwards the sender's messages, until its stream ends.
    pub(super) fn contents(mut self, mut input: PeerInput) -> Result<(), ReadEnd> {
        loop {
            let header = read_header(&mut input)?;
            match header.kind {
                FrameType::Pack | FrameType::Data | FrameType::Wrapped => {
                    if self.forward_content(header, &mut input)?.is_none() {
                        return Ok(());
                    }
                    continue;
                }
                FrameType::List
                | FrameType::BlockSeal
                | FrameType::Offer
                | FrameType::Reuse
                | FrameType::FileEnd
                | FrameType::Abort => {}
                FrameType::LaneOver | FrameType::Called if self.calls.is_enabled() => {}
                kind => return Err(unexpected(kind)),
            }
            let payload = read_payload(&mut input, header)?;
            match decode(header.kind, &payload).map_err(refused)? {
                Message::List(items) => self.tracker.listed(items)?,
                Message::BlockSeal(seal) if u64::from(seal.len) == BLOCK_LEN => {
                    self.tracker.sealed(seal.index);
                }
                Message::FileEnd(FileEnd { index, result: Ok(seal), .. }) => {
                    self.tracker.sized(index, seal.size);
                }
                Message::Called(called) => {
                    self.calls.called(called)?;
                    continue;
                }
                Message::LaneOver(LaneOver { lane }) if lane > LANES_MAX => {
                    return Err(refused("the peer named an unknown lane"));
                }
                Message::Abort(abort) => return Err(ReadEnd::Refused(aborted(abort))),
                _ => {}
            }
            self.forward(header, &payload);
        }
    }

    /// Forwards the receiver's messages, until the job is done.
    pub(super) fn answers(self, mut input: PeerInput) -> Result<(), ReadEnd> {
        let mut is_first = true;
        loop {
            let header = read_header(&mut input)?;
            if matches!(header.kind, FrameType::Pack | FrameType::Data | FrameType::Wrapped) {
                return Err(unexpected(header.kind));
            }
            let payload = read_payload(&mut input, header)?;
            let message = decode(header.kind, &payload).map_err(refused)?;
            let mut done = None;
            match message {
                Message::Want(wants) => self.tracker.wanted(&wants),
                Message::Outcomes(outcomes) => self.tracker.outcomes(outcomes)?,
                Message::Extras(extras) => self.tracker.extras(&extras)?,
                Message::Warning(warning) => self.tracker.warning(&warning),
                Message::Late(late) => self.tracker.late(late),
                Message::Naming(named) if is_first => self.tracker.naming(named),
                Message::Signature(_) | Message::Known(_) => {}
                Message::Taken(Taken { lane: 1..=LANES_MAX, .. }) if self.calls.is_enabled() => {}
                Message::Direct(offer) => {
                    self.queue(OutFrame::message(&self.calls.offered(offer)?));
                    // It precedes all other messages. Naming must be the first after it.
                    continue;
                }
                Message::Arrived(arrived) if self.calls.is_enabled() => {
                    self.tracker.arrived(arrived)?;
                    continue;
                }
                Message::Done(summary) => done = Some(self.tracker.done(summary)?),
                Message::Abort(abort) => return Err(ReadEnd::Refused(aborted(abort))),
                _ => return Err(unexpected(header.kind)),
            }
            is_first = false;
            self.forward(header, &payload);
            if let Some(summary) = done {
                self.control.finish(Ok(summary));
                return Ok(());
            }
        }
    }

    fn forward(&self, header: Header, payload: &[u8]) {
        self.queue(OutFrame::whole([&header.encode(), payload].concat()));
    }

    fn queue(&self, frame: OutFrame) {
        // The queue is closed only when the job has ended.
        let _ = self.output.send(frame);
    }

    /// Forwards a frame that may be large. `None` if the job has ended.
    fn forward_content(
        &mut self,
        header: Header,
        input: &mut PeerInput,
    ) -> Result<Option<()>, ReadEnd> {
        let len = header.payload_len as usize;
        let Some(mut payload) = self.pool.take(len, self.control) else { return Ok(None) };
        input.read_exact(&mut payload)?;
        let content = self.content_len(header.kind, &payload)?;
        self.tracker.passed(content);
        let frame = OutFrame::content(header.encode().to_vec(), Body::Bytes(payload));
        Ok(self.output.send(frame))
    }

    /// The approximate bytes of content in a frame. Processes a compressed listing.
    fn content_len(&mut self, kind: FrameType, payload: &[u8]) -> Result<u64, ReadEnd> {
        let content = match kind {
            FrameType::Data => {
                let start = &payload[..payload.len().min(PIECE_HEAD_MAX)];
                decode_data_start(start, payload.len()).map_err(refused)?.content.len()
            }
            FrameType::Pack => packed(self.tracker, payload)?,
            // Listings and packs are needed for the progress.
            _ if [FrameType::List, FrameType::Pack]
                .iter()
                .any(|kind| payload.first() == Some(&kind.byte())) =>
            {
                let (header, inside) = self.unwrapper.unwrap(payload).map_err(refused)?;
                if header.kind == FrameType::Pack {
                    return packed(self.tracker, inside).map(|len| len as u64);
                }
                if let Message::List(items) = decode(header.kind, inside).map_err(refused)? {
                    self.tracker.listed(items)?;
                }
                0
            }
            _ => match payload.first_chunk::<WRAP_HEAD_LEN>() {
                Some([_, _, len @ ..]) => u32::from_le_bytes(*len) as usize,
                None => return Err(refused(haul_proto::UnwrapError::Short)),
            },
        };
        Ok(content as u64)
    }
}

/// The bytes of content in a pack.
fn packed(tracker: &JobTracker<'_>, payload: &[u8]) -> Result<usize, ReadEnd> {
    let mut len = 0;
    for (item, content) in decode_pack(payload).map_err(refused)?.items {
        if let PackItem::File { index, .. } = item {
            tracker.sized(index, content.len() as u64);
        }
        len += content.len();
    }
    Ok(len)
}

//! Input from a wire: reads listings, contents, and the Sender's messages at the end of a move.

use super::filler::filling::take_pack;
use super::prefetching::Scout;
use super::{Arrivals, DirectWriter, Incoming, Piece, Receiver};
use crate::JobError;
use crate::copy::STEP_LEN;
use crate::link::wire::{
    End, ListingReceiver, ListingSender, Offers, ReadEnd, aborted, read_header, read_payload,
    refused, take_offer, unexpected,
};
use crossbeam_channel::Sender as Giver;
use haul_model::BLOCK_LEN;
use haul_proto::{
    Arrived, BlockSeal, DataView, FrameType, Header, INCOMING_MAX, LaneOver, ListItem, Message,
    Reuse, Taken, Unwrapper, decode, decode_data_start, decode_pack,
};
use haul_store::Route;
use std::io::Read;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of decoded parts of a listing that wait for the lister.
pub(crate) const PARTS_MAX: usize = 8;

/// With this many parts waiting for the lister, the decoder looks up their directories ahead. With
/// debug assertions it always does: the small trees of tests never have so many parts.
const PARTS_ENOUGH: usize = 2;

/// Minimum number of bytes of pieces in one progress report.
const REPORT_LEN_MIN: u64 = 256 << 10;

/// The interval between checks whether a file's queue has room again.
const FULL_POLL: Duration = Duration::from_millis(1);

/// Reads for a Receiver on this side, until the job has ended. Listings are passed undecoded to
/// `lists`, so that lookups at the destination do not delay contents.
pub(crate) fn read_for_receiver(
    input: impl Read,
    receiver: &Receiver<'_>,
    lists: &ListingSender,
    offers: Option<&Offers>,
    arrivals: &Arrivals,
) -> Result<End, ReadEnd> {
    let (main, part) = (Some(Main { lists, offers }), vec![0; STEP_LEN]);
    let mut reading = Reading { receiver, arrivals, lane: 0, main, part, taken: 0, unreported: 0 };
    match read_contents(input, &mut reading) {
        // A Sender that knows of the job's end disconnects.
        Err(ReadEnd::Lost(_)) if receiver.completion.is_done() => Ok(End::Job),
        read => read,
    }
}

/// Decodes the listing and passes it to the lister, until the input or the job has ended.
pub(crate) fn decode_lists(
    receiver: &Receiver<'_>,
    listed: &ListingReceiver,
    parts: &Giver<Vec<ListItem>>,
) {
    let mut scout = Scout::default();
    listed.each(|payload| {
        if receiver.job.control.stopped() {
            return;
        }
        match decode(FrameType::List, &payload) {
            Ok(Message::List(items)) => {
                if receiver.admit_list(&items) {
                    let looks = cfg!(debug_assertions) || parts.len() >= PARTS_ENOUGH;
                    scout
                        .pass(&items, |dir| looks.then(|| receiver.prefetch_listed(dir)).flatten());
                    // Fails only if the job has ended.
                    let _ = parts.send(items);
                }
            }
            Ok(_) => unreachable!("a listing is decoded as one"),
            Err(error) => receiver.job.control.fail(JobError::Protocol(error.to_string())),
        }
    });
}

/// The state of reading one connection.
struct Reading<'r, 'a> {
    receiver: &'r Receiver<'a>,
    arrivals: &'r Arrivals,
    lane: u8,
    /// The queues of lane 0, the only lane with messages besides contents.
    main: Option<Main<'r>>,
    part: Vec<u8>,
    /// The number of frames taken.
    taken: u64,
    /// Bytes of pieces that were not reported yet.
    unreported: u64,
}

/// The queues for lane 0's other messages.
struct Main<'r> {
    lists: &'r ListingSender,
    offers: Option<&'r Offers>,
}

/// `Break` if the job has ended and nothing more is read.
type Ended = ControlFlow<End>;

/// Reads contents for a Receiver on this side from an additional lane, until the job has ended.
/// Returns the number of frames taken.
pub(crate) fn read_lane(
    input: impl Read,
    receiver: &Receiver<'_>,
    arrivals: &Arrivals,
    lane: u8,
) -> (u64, Result<(), ReadEnd>) {
    let part = vec![0; STEP_LEN];
    let mut reading =
        Reading { receiver, arrivals, lane, main: None, part, taken: 0, unreported: 0 };
    let read = match read_contents(input, &mut reading) {
        Err(ReadEnd::Lost(_)) if receiver.completion.is_done() => Ok(()),
        read => read.map(drop),
    };
    (reading.taken, read)
}

fn read_contents(mut input: impl Read, reading: &mut Reading<'_, '_>) -> Result<End, ReadEnd> {
    let (mut unwrapper, mut wrapped) = (Unwrapper::default(), Vec::new());
    loop {
        let header = read_header(&mut input)?;
        let mut kind = header.kind;
        let taken = match kind {
            FrameType::Wrapped => {
                wrapped.resize(header.payload_len as usize, 0);
                input.read_exact(&mut wrapped)?;
                let (header, mut payload) = unwrapper.unwrap(&wrapped).map_err(refused)?;
                kind = header.kind;
                reading.take(header, &mut payload)?
            }
            _ => reading.take(header, &mut input)?,
        };
        if let Ended::Break(end) = taken {
            return Ok(end);
        }
        reading.taken += 1;
        let ends = matches!(kind, FrameType::Pack | FrameType::BlockSeal | FrameType::FileEnd);
        if ends && reading.lane != 0 {
            let taken = Taken { lane: reading.lane, frames: reading.taken, is_over: false };
            reading.receiver.job.sender.taken(taken);
        }
    }
}

impl Reading<'_, '_> {
    /// Takes the frame of `header`. Its payload is read from `input`.
    fn take(&mut self, header: Header, input: &mut impl Read) -> Result<Ended, ReadEnd> {
        let (receiver, control) = (self.receiver, self.receiver.job.control);
        let is_content = matches!(
            header.kind,
            FrameType::Pack | FrameType::Data | FrameType::BlockSeal | FrameType::Reuse
        );
        if is_content && receiver.job.copies_nothing() {
            return Err(unexpected(header.kind));
        }
        match header.kind {
            FrameType::Pack => {
                let len = header.payload_len as usize;
                let Some(mut payload) = self.arrivals.pool.take(len, control) else {
                    return Ok(Ended::Break(End::Job));
                };
                input.read_exact(&mut payload)?;
                let view = decode_pack(&payload).map_err(refused)?;
                let bytes = view.items.iter().map(|(_, content)| content.len() as u64).sum();
                self.arrivals.report_arrived(
                    receiver,
                    self.lane,
                    Arrived { bytes, index: None, blocks: 0, size: None },
                );
                receiver
                    .job
                    .enqueue(move |receiver, _| take_pack(&receiver.filler, &payload, view));
                Ok(Ended::Continue(()))
            }
            FrameType::Data => self.take_data(header.payload_len as usize, input),
            FrameType::List => {
                let main = self.main.as_ref().ok_or_else(|| unexpected(header.kind))?;
                // Fails only if the job has ended.
                let _ = main.lists.send(read_payload(input, header)?);
                Ok(Ended::Continue(()))
            }
            _ => {
                let payload = read_payload(input, header)?;
                self.take_message(decode(header.kind, &payload).map_err(refused)?, header.kind)
            }
        }
    }

    /// Takes a piece of a file.
    fn take_data(&mut self, len: usize, input: &mut impl Read) -> Result<Ended, ReadEnd> {
        let receiver = self.receiver;
        let start = len.min(STEP_LEN);
        input.read_exact(&mut self.part[..start])?;
        let view = decode_data_start(&self.part[..start], len).map_err(refused)?;
        let file = self.open_incoming(view.index)?;
        self.wait_for_room(&file, view.offset);
        self.arrived(view.index, view.content.len() as u64, 0);
        let route = self.arrivals.route(self.lane);
        if let Some(direct) = file.open_direct(&receiver.filler, route) {
            take_directly(input, direct, view, len, &mut self.part)?;
            return Ok(Ended::Continue(()));
        }
        let Some(mut payload) = self.arrivals.pool.take(len, receiver.job.control) else {
            return Ok(Ended::Break(End::Job));
        };
        payload[..start].copy_from_slice(&self.part[..start]);
        input.read_exact(&mut payload[start..])?;
        queue_piece(receiver, file, Piece::Data(payload, view, route));
        Ok(Ended::Continue(()))
    }

    /// Counts the arrived bytes and block ends of a file, and reports them from time to time.
    fn arrived(&mut self, index: u64, len: u64, blocks: u8) {
        self.unreported += len;
        if blocks > 0 || self.unreported >= REPORT_LEN_MIN {
            let bytes = std::mem::take(&mut self.unreported);
            let arrived = Arrived { bytes, index: Some(index), blocks, size: None };
            self.arrivals.report_arrived(self.receiver, self.lane, arrived);
        }
    }

    /// Takes the message from a frame of this `kind`.
    fn take_message(&mut self, message: Message, kind: FrameType) -> Result<Ended, ReadEnd> {
        let receiver = self.receiver;
        match message {
            Message::BlockSeal(seal) if u64::from(seal.len) > BLOCK_LEN => {
                return Err(refused("the peer sent a block of an invalid length"));
            }
            Message::BlockSeal(seal) => {
                let file = self.open_incoming(seal.index)?;
                self.arrived(seal.index, 0, u8::from(u64::from(seal.len) == BLOCK_LEN));
                self.wait_for_room(&file, seal.block.saturating_mul(BLOCK_LEN));
                // Length 0 means that the block could not be read. The end of the file reports why.
                if seal.len > 0 {
                    check_block(receiver, file, seal, self.arrivals.route(self.lane));
                }
            }
            Message::Reuse(reuse) => {
                let file = self.open_incoming(reuse.index)?;
                take_reuse(receiver, file, reuse, self.arrivals.route(self.lane))?;
            }
            Message::FileEnd(end)
                if receiver.job.copies_nothing() || receiver.filler.is_hashing(end.index) =>
            {
                if !receiver.filler.admit_seal(end.index) {
                    return Ok(Ended::Break(End::Job));
                }
                receiver.job.enqueue(move |receiver, _| receiver.filler.take_seal(end));
            }
            Message::FileEnd(end) => {
                let file = self.open_incoming(end.index)?;
                if !end.by_blocks {
                    self.arrivals.incoming.lock().remove(&end.index);
                }
                receiver.filler.providers.versions.end_delta(&receiver.filler, end.index);
                queue_piece(receiver, file, Piece::End(end));
            }
            message => match &self.main {
                Some(_) if self.arrivals.expects_lanes && kind == FrameType::LaneOver => {
                    if let Message::LaneOver(LaneOver { lane }) = message {
                        self.arrivals.end_lane(receiver, lane);
                    }
                }
                Some(main) => return take_control_message(receiver, main, message, kind),
                None => return Err(unexpected(kind)),
            },
        }
        Ok(Ended::Continue(()))
    }

    /// The file to which the next piece belongs. A file that has ended may begin again, and late
    /// pieces of it may still arrive over lanes.
    fn open_incoming(&self, index: u64) -> Result<Arc<Incoming>, ReadEnd> {
        let mut incoming = self.arrivals.incoming.lock();
        let known = incoming.get(&index);
        if let Some(file) = known.filter(|file| !file.has_ended()) {
            return Ok(Arc::clone(file));
        }
        let Some(pending) = self.receiver.filler.claim(index) else {
            return match known {
                Some(file) => Ok(Arc::clone(file)),
                None if self.arrivals.may_be_late(index) => Ok(Incoming::new(None).into()),
                None => Err(refused("the peer sent a file that was not requested")),
            };
        };
        if incoming.len() >= INCOMING_MAX {
            incoming.retain(|_, file| !file.has_ended());
        }
        if incoming.len() >= INCOMING_MAX {
            return Err(refused("the peer sent too many files at once"));
        }
        self.arrivals.begin(index);
        let file = Arc::new(Incoming::new(Some(pending)));
        incoming.insert(index, Arc::clone(&file));
        Ok(file)
    }

    /// Waits until a block may begin, if another lane may have missing blocks before it.
    fn wait_for_room(&self, file: &Incoming, offset: u64) {
        while self.arrivals.has_lanes()
            && !file.has_room_for(offset, self.arrivals.has_lost_lane())
            && !self.receiver.job.control.stopped()
        {
            std::thread::sleep(FULL_POLL);
        }
    }
}

/// Takes a message that only lane 0 may send.
fn take_control_message(
    receiver: &Receiver<'_>,
    main: &Main<'_>,
    message: Message,
    kind: FrameType,
) -> Result<Ended, ReadEnd> {
    match message {
        Message::Offer(offer) if !receiver.job.copies_nothing() => {
            let Some(chunks) = &receiver.filler.providers.chunks else {
                return Err(refused("it offered chunks, and none were requested"));
            };
            while chunks.has_many_offers() && !receiver.job.control.stopped() {
                std::thread::sleep(FULL_POLL);
            }
            chunks.take_offer(&receiver.job, offer).map_err(refused)?;
        }
        Message::Removed(removed) if receiver.completion.awaits_removals() => {
            receiver.completion.take_removals(removed);
        }
        // Not by a worker: all of them may be hashing for hours.
        Message::Prove(requested) if receiver.completion.awaits_removals() => {
            receiver.completion.prove(requested)
        }
        Message::Direct(offer) => take_offer(main.offers, offer)?,
        Message::Abort(abort) => return Err(ReadEnd::Refused(aborted(abort))),
        Message::Rest if receiver.completion.is_over() => return Ok(Ended::Break(End::Rest)),
        _ => return Err(unexpected(kind)),
    }
    Ok(Ended::Continue(()))
}

/// Takes a piece directly from the stream; `part` has the beginning of its payload.
fn take_directly(
    input: &mut impl Read,
    mut file: DirectWriter<'_>,
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

fn check_block(receiver: &Receiver<'_>, file: Arc<Incoming>, seal: BlockSeal, route: Route) {
    match file.try_check_block(&receiver.filler, &seal, route) {
        Some(true) => receiver.job.enqueue(move |receiver, _| file.work(&receiver.filler)),
        Some(false) => {}
        None => queue_piece(receiver, file, Piece::Seal(seal, route)),
    }
}

fn take_reuse(
    receiver: &Receiver<'_>,
    file: Arc<Incoming>,
    reuse: Reuse,
    route: Route,
) -> Result<(), ReadEnd> {
    if !file.allows(&receiver.filler, &reuse) {
        return Err(refused("the peer sent a part of a file that does not exist"));
    }
    queue_piece(receiver, file, Piece::Reuse(reuse, route));
    Ok(())
}

fn queue_piece(receiver: &Receiver<'_>, file: Arc<Incoming>, piece: Piece) {
    while file.is_full() && !receiver.job.control.stopped() {
        std::thread::sleep(FULL_POLL);
    }
    if file.push(piece) {
        receiver.job.enqueue(move |receiver, _| file.work(&receiver.filler));
    }
}

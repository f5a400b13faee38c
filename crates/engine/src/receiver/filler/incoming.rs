//! A file that arrives in pieces. Usually the threads that read the connections assemble it, each
//! the blocks of its own connection ([`DirectWriter`]): the data is still in that processor's
//! cache. If they would have to wait for the disk, pieces are queued for the workers. One worker at
//! a time handles the file.

mod direct;
mod matched;

use super::resume::replaced;
use super::staging;
use crate::control::CopyStep;
use crate::copy::{Blocks, STEP_LEN, not_assembled};
use crate::pool::Buf;
use crate::receiver::publish::hold::{Filling, Whole};
use crate::receiver::{Filler, Pending};
pub(crate) use direct::DirectWriter;
use haul_model::{BLOCK_LEN, Fault, FaultKind, Kind, Side};
use haul_proto::{BlockSeal, DataView, FileEnd, FileSeal, Reuse};
use haul_store::{AHEAD_MAX, AssembleError, Assembler, PieceCounts, Pieces, Route};
use haul_tree::{StagedFile, changed};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Maximum number of blocks that lanes may be ahead of the first unrecorded block. At most this
/// much is sent again if the job breaks off.
const LANES_AHEAD_MAX: u64 = 32;

/// The same after a lane was lost: missing blocks are sent behind everything in flight. It is less
/// than the number of blocks that may begin.
const LOST_AHEAD_MAX: u64 = AHEAD_MAX / 4 * 3;

/// A file that is arriving.
pub(crate) struct Incoming {
    queue: Mutex<Queue>,
    state: Mutex<IncomingState>,
    /// The index of the file, if it is still pending.
    index: Option<u64>,
    /// The chunks of the file are offered.
    is_chunked: bool,
    /// The length of the old version whose sums were sent, in bytes.
    old_size: Option<u64>,
    /// The first unrecorded block.
    recorded: AtomicU64,
    /// The staged file was created: nobody holds the lock for long any more.
    is_begun: AtomicBool,
    /// The file has ended.
    has_ended: AtomicBool,
}

struct IncomingState {
    /// The file; `None` once it is settled.
    pending: Option<Pending>,
    /// The assembled part; `None` before there is one.
    into: Option<Arc<Blocks>>,
    /// The started blocks that no [`DirectWriter`] writes.
    pieces: Pieces,
    /// A discarded staged file that a [`DirectWriter`] still uses: the last user removes it.
    to_discard: Option<Arc<Blocks>>,
    /// The number of blocks that an earlier job received.
    resumed: u64,
    /// Bytes of the file that were counted as done.
    counted: u64,
    /// Bytes that were taken from files of this machine.
    matched: u64,
    /// The range of the staged file, in bytes, that is shared with the old version.
    shared: Range<u64>,
    /// Some of the file was never written.
    has_holes: bool,
    /// The problem with a block that arrived: nothing more is accepted.
    suspect: Option<Fault>,
    /// The end of the file, which has arrived: see [`Self::take_end`].
    end: Option<FileEnd>,
}

impl Incoming {
    /// Creates the state of a file. If it is not `pending` any more, its pieces are ignored.
    pub(crate) fn new(pending: Option<Pending>) -> Self {
        let (resumed, has_ended) = (pending.as_ref().map_or(0, |it| it.resumed), pending.is_none());
        let old_size = pending.as_ref().and_then(|it| it.reused.old.as_ref().map(|old| old.len));
        let index = pending.as_ref().map(|it| it.index);
        let is_chunked = pending.as_ref().is_none_or(|it| it.reused.is_chunked);
        let state = IncomingState {
            pending,
            into: None,
            pieces: Pieces::default(),
            to_discard: None,
            resumed,
            counted: resumed * BLOCK_LEN,
            matched: 0,
            shared: 0..0,
            has_holes: false,
            suspect: None,
            end: None,
        };
        let recorded = if has_ended { u64::MAX } else { resumed }.into();
        let (queue, state, is_begun) =
            (Mutex::default(), Mutex::new(state), AtomicBool::new(false));
        Self {
            queue,
            state,
            index,
            is_chunked,
            old_size,
            recorded,
            is_begun,
            has_ended: has_ended.into(),
        }
    }

    /// True if the file has ended: further pieces are ignored.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// True if the requested part is within the old version, as it was when its sums were sent, or
    /// was found in chunks.
    pub(crate) fn allows(&self, filler: &Filler<'_>, reuse: &Reuse) -> bool {
        let Reuse { at, from, len, .. } = *reuse;
        let is_within =
            |start: u64, max: u64| start.checked_add(u64::from(len)).is_some_and(|end| end <= max);
        let is_piece = (1..=BLOCK_LEN).contains(&u64::from(len));
        let is_available = match from {
            Some(from) => self.old_size.is_some_and(|size| is_within(from, size)),
            None => {
                let chunks = filler.providers.chunks.as_ref();
                self.is_chunked && chunks.is_none_or(|chunks| chunks.may_have_parts(reuse))
            }
        };
        is_piece && is_within(at, i64::MAX as u64) && is_available
    }

    /// True if the block at `offset` may begin. A block that is too far ahead of other lanes waits.
    /// Once a lane was lost, the limit is higher, since missing blocks are sent last.
    pub(crate) fn has_room_for(&self, offset: u64, has_lost_lane: bool) -> bool {
        let max = if has_lost_lane { LOST_AHEAD_MAX } else { LANES_AHEAD_MAX };
        let recorded = self.recorded.load(Ordering::Relaxed);
        offset / BLOCK_LEN < recorded.saturating_add(max)
    }

    /// Queues a piece; `true` if a worker must be called.
    #[must_use]
    pub(crate) fn push(&self, piece: Piece) -> bool {
        self.queue.lock().push(piece)
    }

    /// True if the reader must wait because too much is queued.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.lock().is_full()
    }

    /// Handles the queued pieces. Called by one worker at a time.
    pub(crate) fn work(&self, filler: &Filler<'_>) {
        loop {
            let mut state = self.state.lock();
            state.open_partial_if_resumed(filler);
            let Some(piece) = self.queue.lock().next() else { return };
            match piece {
                Piece::End(end) => state.end = Some(end),
                piece => state.take_piece(filler, piece),
            }
            if let Some(end) = state.take_end() {
                // Before the Sender is asked for the file again.
                self.has_ended.store(true, Ordering::Relaxed);
                state.end(filler, end);
            }
            self.refresh_flags(&state);
        }
    }

    fn refresh_flags(&self, state: &IncomingState) {
        self.is_begun.fetch_or(state.into.is_some(), Ordering::Relaxed);
        self.has_ended.fetch_or(state.pending.is_none(), Ordering::Relaxed);
        if state.is_over() {
            // Further pieces are ignored, and no lane waits.
            self.recorded.store(u64::MAX, Ordering::Relaxed);
        } else if let Some(into) = &state.into {
            self.recorded.store(into.recorded(), Ordering::Relaxed);
        }
    }
}

impl IncomingState {
    /// Takes a queued piece. **Pieces of one connection are taken in their order**: they move from
    /// the queue to here while the file is locked.
    fn take_piece(&mut self, filler: &Filler<'_>, piece: Piece) {
        match piece {
            // The file has ended: further pieces are ignored.
            _ if self.pending.is_none() => {}
            // The caller handles it.
            Piece::End(_) => {}
            Piece::Data(bytes, view, route) => {
                let mut at = view.offset;
                for part in bytes[view.content].chunks(STEP_LEN) {
                    self.take(filler, part, at, route);
                    at += part.len() as u64;
                }
            }
            Piece::Reuse(reuse, route) => self.take_reuse(filler, &reuse, route),
            Piece::Seal(seal, route) => self.check_block(filler, &seal, route),
        }
    }

    /// Opens the partial file, if the file is resumed and it is not open yet.
    fn open_partial_if_resumed(&mut self, filler: &Filler<'_>) {
        if self.into.is_some() {
            return;
        }
        let Some(pending) = &mut self.pending else { return };
        if let Some(begun) = pending.reused.begun.take() {
            let (into, shared) = begun.into_blocks();
            (self.into, self.shared) = (Some(Arc::new(into)), shared);
            return;
        }
        if self.resumed == 0 {
            return;
        }
        match pending.open_partial(filler) {
            Ok(Some((stage, blocks))) => {
                self.into = Some(Assembler::new(stage, blocks, AHEAD_MAX).into());
            }
            Ok(None) => {}
            Err(fault) => self.settle(filler, Err(fault)),
        }
    }

    /// True if the staged file exists, or can be created without waiting.
    fn is_begun(&self, filler: &Filler<'_>) -> bool {
        let waits = |pending: &Pending| filler.job.resumable(&pending.entry).is_some();
        self.into.is_some() || !self.pending.as_ref().is_some_and(waits)
    }

    /// Takes content, unless the file is over.
    fn take(&mut self, filler: &Filler<'_>, content: &[u8], offset: u64, route: Route) {
        if self.is_over() {
            return;
        }
        match self.write(filler, content, offset, route) {
            Ok(known) => self.count_progress(filler, CopyStep::Moved(content.len() as u64 - known)),
            Err(fault) => self.settle(filler, Err(fault)),
        }
    }

    /// Writes content. Returns how many bytes of it were known already.
    fn write(
        &mut self,
        filler: &Filler<'_>,
        content: &[u8],
        offset: u64,
        route: Route,
    ) -> Result<u64, Fault> {
        let take =
            |pieces: &mut Pieces, into: &Blocks| pieces.take_by(route, into, content, offset);
        Ok(self.assemble(filler, take)?.known)
    }

    /// Assembles pieces, in which holes are skipped. Creates the staged file if there is none.
    fn assemble(
        &mut self,
        filler: &Filler<'_>,
        assemble: impl FnOnce(&mut Pieces, &Blocks) -> Result<PieceCounts, AssembleError>,
    ) -> Result<PieceCounts, Fault> {
        let into = self.begun(filler)?;
        let took = assemble(&mut self.pieces, &into).map_err(|error| not_assembled(&error))?;
        self.count(filler, took);
        Ok(took)
    }

    /// The staged file, which is created if there is none.
    fn begun(&mut self, filler: &Filler<'_>) -> Result<Arc<Blocks>, Fault> {
        if let Some(into) = &self.into {
            return Ok(Arc::clone(into));
        }
        let pending = self.pending.as_ref().expect("checked by the caller");
        let stage = pending.stage_for(filler)?;
        let into = Arc::new(match pending.is_unhashed(filler) {
            true => Assembler::unhashed(stage, AHEAD_MAX),
            false => Assembler::new(stage, [], AHEAD_MAX),
        });
        self.into = Some(Arc::clone(&into));
        Ok(into)
    }

    /// Counts dropped bytes and holes.
    fn count(&mut self, filler: &Filler<'_>, took: PieceCounts) {
        if took.dropped > 0 {
            filler.job.reporter.restart_file(took.dropped, 0);
            self.counted -= took.dropped.min(self.counted);
        }
        if took.holes > 0 {
            self.has_holes = true;
            self.count_progress(filler, CopyStep::Passed(took.holes));
        }
    }

    /// True if nothing more is accepted.
    fn is_over(&self) -> bool {
        self.pending.is_none() || self.suspect.is_some()
    }

    fn is_unhashed(&self, filler: &Filler<'_>) -> bool {
        self.pending.as_ref().is_some_and(|file| file.is_unhashed(filler))
    }

    /// Compares a block with the Sender's hash, and records it.
    fn check_block(&mut self, filler: &Filler<'_>, seal: &BlockSeal, route: Route) {
        if self.is_over() {
            return;
        }
        if seal.hash.is_none() != self.is_unhashed(filler) {
            self.suspect = Some(staging::missing_hash());
            return;
        }
        // Each whole block of a hole is sealed by itself, so a peer can't claim a hole that would
        // take hours.
        let BlockSeal { block, len, hash, .. } = *seal;
        let block = (block, len.into());
        match self.assemble(filler, |pieces, into| pieces.seal_by(route, into, block, hash)) {
            Ok(_) => {}
            // The Sender may know the reason, and report it at the end.
            Err(fault) if fault.kind == FaultKind::Corrupt => self.suspect = Some(fault),
            Err(fault) => self.settle(filler, Err(fault)),
        }
    }

    fn count_progress(&mut self, filler: &Filler<'_>, step: CopyStep) {
        self.counted += step.len();
        filler.job.reporter.count_progress(step);
        if let Some(pending) = &self.pending {
            let Pending { dir, index, entry, .. } = pending;
            let recorded = self.into.as_ref().map_or(0, |into| into.recorded_len());
            filler.job.report_recorded(dir, *index, entry, recorded);
        }
    }

    /// Takes the end that has arrived, if it is due. Blocks may arrive over any lane, before and
    /// after the end. A Sender that expects another request sends the end only when nothing is in
    /// flight.
    fn take_end(&mut self) -> Option<FileEnd> {
        let has_all = |size| self.into.as_ref().is_some_and(|it| it.recorded_len() >= size);
        let is_due = self.end.as_ref().is_some_and(|end| match &end.result {
            Ok(seal) => !end.by_blocks || seal.grew || self.is_over() || has_all(seal.size),
            Err(_) => true,
        });
        self.end.take_if(|_| is_due)
    }

    fn end(&mut self, filler: &Filler<'_>, end: FileEnd) {
        if self.pending.is_none() {
            return;
        }
        // Only then the Sender expects another request.
        let has_changed = match &end.result {
            Ok(seal) => seal.grew,
            Err(fault) => fault.kind == FaultKind::Changed,
        };
        let is_fault_of_sender = end.result.is_err();
        let outcome = match (end.result, self.suspect.take()) {
            (Err(fault), _) => Err(crate::receiver::as_source_fault(fault)),
            (Ok(seal), _) if seal.grew && filler.job.plan.strict_source => Err(changed()),
            (Ok(seal), Some(_)) if seal.grew => Err(changed()),
            (Ok(_), Some(suspect)) => Err(suspect),
            (Ok(seal), None) => self.seal(filler, &seal),
        };
        match outcome {
            Err(fault) if self.request_again(filler, &fault, has_changed, is_fault_of_sender) => {}
            outcome => self.settle(filler, outcome),
        }
    }

    /// Requests the file again after `fault`: if its source `has_changed`, or if local content did
    /// not match. Returns whether it did.
    fn request_again(
        &mut self,
        filler: &Filler<'_>,
        fault: &Fault,
        has_changed: bool,
        is_fault_of_sender: bool,
    ) -> bool {
        let counted = (self.counted, self.matched);
        let may_mismatch = matches!(fault.kind, FaultKind::Corrupt | FaultKind::Changed);
        let again = self.pending.take_if(|file| {
            has_changed && filler.restart_file(file, fault, counted)
                || !is_fault_of_sender && may_mismatch && filler.retry_whole(file, counted)
        });
        let Some(pending) = again else { return false };
        self.abandon_stage(true);
        filler.want_again(pending);
        true
    }

    fn seal(&mut self, filler: &Filler<'_>, seal: &FileSeal) -> Result<Whole, Fault> {
        let listed = &self.pending.as_ref().expect("checked by the caller").entry;
        if self.resumed > 0 && (seal.size, seal.mtime) != (listed.size(), listed.attributes.mtime) {
            let message = "the partial file was replaced";
            return Err(Fault::new(Side::Source, FaultKind::Corrupt, message));
        }
        let requires_proof = self.resumed > 0 && filler.job.requires_proof(listed);
        if seal.hash.is_none() != self.is_unhashed(filler) {
            return Err(staging::missing_hash());
        }
        // A hole at the end was never sent.
        let end = |pieces: &mut Pieces, into: &Blocks| {
            pieces.end(into, seal.size).map(|holes| PieceCounts { holes, ..PieceCounts::default() })
        };
        self.assemble(filler, end)?;
        let into = self.into.take().expect("just seen");
        let into = Arc::try_unwrap(into).map_err(|into| {
            // The peer has ended a file that it still sends.
            self.to_discard = Some(into);
            not_assembled(&AssembleError::Incomplete)
        })?;
        let is_tail_only = self.resumed > 0 && !requires_proof && !seal.grew;
        let assembled = |(stage, error)| abandon_stage(stage, not_assembled(&error));
        let verified = match &seal.hash {
            None => into.finish_unhashed(seal.size).map_err(assembled)?.verify_len(seal.size),
            Some(hash) => {
                let written = into.finish(seal.size).map_err(assembled)?;
                if is_tail_only { written.verify_tail(hash) } else { written.verify_hash(hash) }
            }
        };
        let verified = verified.map_err(|(stage, error)| {
            // With `requires_proof`, the Sender has read the beginning of the source again, and all
            // new blocks have matched. So the source was replaced.
            let corrupt = || Fault::new(Side::Destination, FaultKind::Corrupt, error.to_string());
            abandon_stage(
                stage,
                match () {
                    () if seal.grew => changed(),
                    () if requires_proof => replaced(),
                    () => corrupt(),
                },
            )
        })?;
        let pending = self.pending.as_mut().expect("checked by the caller");
        pending.entry.kind = Kind::File { size: seal.size };
        pending.reading.has_grown = seal.grew;
        // The resumed part was not examined for holes, but the Sender listed them.
        let has_holes = self.has_holes || pending.entry.has_holes;
        let filling = match has_holes {
            _ if !self.shared.is_empty() => Filling::OverOldVersion,
            true => Filling::WithHoles,
            false => Filling::Dense,
        };
        pending.seal(&filler.job.plan, verified, seal.mtime, filling)
    }

    /// Gives up the staged file. If it `is_useless`, its last user removes it.
    fn abandon_stage(&mut self, is_useless: bool) {
        let Some(into) = self.into.take() else { return };
        if is_useless {
            self.to_discard = Some(into);
            self.discard();
        }
    }

    /// Removes the discarded file. If a [`DirectWriter`] still uses it, that one removes it.
    fn discard(&mut self) {
        let into = self.to_discard.take().map(Arc::try_unwrap);
        match into {
            Some(Ok(into)) => into.into_stage().discard(),
            Some(Err(into)) => self.to_discard = Some(into),
            None => {}
        }
    }

    fn settle(&mut self, filler: &Filler<'_>, whole: Result<Whole, Fault>) {
        if let Err(fault) = &whole {
            if let (Some(pending), Some(into)) = (&mut self.pending, &self.into) {
                pending.update_recorded_len(into);
            }
            self.abandon_stage(is_useless(fault));
        }
        if whole.is_err() && filler.job.control.stopped() {
            // The job was stopped; the file is not at fault.
            return;
        }
        let Some(pending) = self.pending.take() else { return };
        let settled = filler.publisher.conclude(pending, self.counted, whole);
        filler.linker.report_settled(settled);
    }
}

/// Returns `fault`, and discards the staged file if it has become useless.
fn abandon_stage(stage: Box<dyn StagedFile>, fault: Fault) -> Fault {
    if is_useless(&fault) {
        stage.discard();
    }
    fault
}

/// True if no later attempt can use the staged file after this fault.
fn is_useless(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::Changed | FaultKind::Corrupt)
}

/// Maximum number of pieces and seals of one file that wait for a worker.
const PIECES_MAX: usize = 4096;

/// A piece of an arriving file.
pub(crate) enum Piece {
    /// Content; `DataView` has its offset.
    Data(Buf, DataView, Route),
    /// A part that this machine has, in the old version or in chunks.
    Reuse(Reuse, Route),
    /// The hash of a block that was sent.
    Seal(BlockSeal, Route),
    /// The end of the file.
    End(FileEnd),
}

impl Piece {
    /// The lane of the piece.
    fn lane(&self) -> Option<u8> {
        match self {
            Self::Data(_, _, route) | Self::Reuse(_, route) | Self::Seal(_, route) => {
                Some(route.lane)
            }
            Self::End(_) => None,
        }
    }
}

/// The pieces that wait.
#[derive(Default)]
struct Queue {
    pieces: VecDeque<Piece>,
    /// A worker has the file, or was called.
    has_worker: bool,
}

impl Queue {
    /// Adds a piece; `true` if a worker must be called.
    fn push(&mut self, piece: Piece) -> bool {
        self.pieces.push_back(piece);
        !std::mem::replace(&mut self.has_worker, true)
    }

    /// The next piece for the worker. Without one, the worker leaves.
    fn next(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front();
        self.has_worker = piece.is_some();
        piece
    }

    /// Takes the pieces of one lane, in their order.
    fn drain_lane(&mut self, lane: u8) -> VecDeque<Piece> {
        let is_of_lane = |piece: &Piece| piece.lane() == Some(lane);
        if !self.pieces.iter().any(is_of_lane) {
            return VecDeque::new();
        }
        let (of_lane, others) = std::mem::take(&mut self.pieces).into_iter().partition(is_of_lane);
        self.pieces = others;
        of_lane
    }

    /// True if a worker has the file, or was called.
    fn has_worker(&self) -> bool {
        self.has_worker
    }

    /// True if a reader must wait because too much is queued. Content is bounded by its buffers,
    /// seals are not.
    fn is_full(&self) -> bool {
        self.pieces.len() >= PIECES_MAX
    }
}

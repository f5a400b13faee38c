//! Large files whose blocks several workers send, each over its lane: they take them from
//! one place, and the last to leave tells the end. What is lost with a lane comes back here
//! (`repeats.rs` sends it).

use super::Item;
use super::pieces::Sent;
use super::repeats::{Lost, StripePart};
use crate::control::{CANCEL_POLL, Control};
use crate::link::wire::Tally;
use haul_model::{BLOCK_LEN, BlockHash, BlockTree, ContentHash, Fault};
use haul_proto::FileSeal;
use haul_tree::{SourceFile, lock};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};

/// Files are sent as stripes if at least so many blocks are wanted of them.
const BLOCKS_MIN: u64 = 3;

/// Blocks from the first that is not queued in full that may be begun. Less than a receiver
/// takes ahead of what is missing: so what it waits for is never behind what waits, nor in
/// need of buffers that are held by that.
const AHEAD_MAX: u64 = 28;

/// A file that is sent as stripes.
pub(super) struct Striped {
    pub(super) item: Item,
    pub(super) source: Arc<dyn SourceFile>,
    state: Mutex<State>,
    has_sent: Condvar,
}

/// How far a file is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Blocks are being sent.
    Open,
    /// All were, and the end is being told.
    Ending,
    /// The end was told.
    Ended,
}

struct State {
    phase: Phase,
    /// Blocks that nobody has taken, as ranges of them with their ends, the last first.
    left: Vec<(u64, u64)>,
    /// Those that were lost on their way.
    again: BTreeMap<u64, Tally>,
    /// The wanted blocks that are not merged yet, in their order, the last first.
    unmerged: Vec<(u64, u64)>,
    /// Those of them that were sent, with their hashes where these are wanted.
    hashes: BTreeMap<u64, Option<BlockHash>>,
    merged: BlockTree,
    /// Workers that are at it.
    workers: usize,
    /// The lanes that they took, as a set of bits.
    lanes: u8,
    fault: Option<Fault>,
    /// The end, as it was told, with the lanes that it speaks of.
    end: Option<(Result<FileSeal, Fault>, u8)>,
    /// The parts that were lost when all blocks had been sent.
    lost: Lost,
    /// Lost lanes of which it is not known yet what was lost with them.
    unsettled: usize,
    /// A worker sends what was lost.
    is_repeated: bool,
}

/// A block that a worker is to send.
#[derive(Clone)]
pub(super) struct Turn {
    pub(super) block: u64,
    /// The bytes of it that progress has counted: something if it was lost on its way.
    pub(super) tally: Tally,
}

impl Turn {
    /// The part of the file that it is.
    pub(super) fn part(&self) -> StripePart {
        StripePart::Block(self.block, self.tally.clone())
    }
}

impl Striped {
    /// A file of which all wanted blocks are to be sent; `None` if they are too few.
    pub(super) fn new(item: &Item, source: &Arc<dyn SourceFile>) -> Option<Self> {
        let size = source.seal().size;
        let end_of = |end: Option<u64>| end.unwrap_or(u64::MAX).min(size.div_ceil(BLOCK_LEN));
        let ranges = item.blocks.iter().map(|range| (range.start, end_of(range.end)));
        let mut left: Vec<_> = ranges.filter(|(start, end)| start < end).collect();
        left.reverse();
        let blocks: u64 = left.iter().map(|(start, end)| end - start).sum();
        (blocks >= BLOCKS_MIN).then(|| Self {
            item: item.clone(),
            source: Arc::clone(source),
            has_sent: Condvar::new(),
            state: Mutex::new(State {
                phase: Phase::Open,
                unmerged: left.clone(),
                left,
                again: BTreeMap::new(),
                hashes: BTreeMap::new(),
                merged: BlockTree::behind(0),
                workers: 0,
                lanes: 0,
                fault: None,
                end: None,
                lost: Lost::default(),
                unsettled: 0,
                is_repeated: false,
            }),
        })
    }

    /// True if there is something to send.
    pub(super) fn has_blocks(&self) -> bool {
        lock(&self.state).has_blocks()
    }

    /// A worker comes; `false` if there is nothing left to do.
    pub(super) fn enter(&self) -> bool {
        let mut state = lock(&self.state);
        let is_needed = state.has_blocks();
        state.workers += usize::from(is_needed);
        is_needed
    }

    /// The next block, which is to be sent over this lane.
    pub(super) fn next(&self, lane: u8, control: &Control<'_>) -> Option<Turn> {
        let mut state = lock(&self.state);
        while state.is_far_ahead() {
            if control.stopped() {
                return None;
            }
            state = match self.has_sent.wait_timeout(state, CANCEL_POLL) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        if state.fault.is_some() {
            return None;
        }
        let turn = match state.again.pop_first() {
            Some((block, tally)) => Turn { block, tally },
            None => {
                let (start, end) = state.left.last_mut()?;
                let block = *start;
                *start += 1;
                if start == end {
                    state.left.pop();
                }
                Turn { block, tally: Tally::default() }
            }
        };
        state.lanes |= 1 << lane;
        Some(turn)
    }

    /// A block was sent, or could not be.
    pub(super) fn sent(&self, block: u64, hash: Result<Option<BlockHash>, Fault>) {
        let mut state = lock(&self.state);
        match hash {
            Ok(hash) => state.merge(block, hash),
            Err(fault) => {
                state.fault.get_or_insert(fault);
            }
        }
        drop(state);
        self.has_sent.notify_all();
    }

    /// A worker leaves. The last one gets the lanes that were taken, and the hash of what
    /// was sent, if one is wanted, if that is all: **it tells the end**.
    pub(super) fn leave(&self) -> Option<(u8, Result<Option<ContentHash>, Fault>)> {
        let mut state = lock(&self.state);
        state.workers -= 1;
        let is_all = state.unmerged.is_empty() && state.again.is_empty();
        if state.workers > 0 || (state.fault.is_none() && !is_all) {
            return None;
        }
        let result = match state.fault.take() {
            Some(fault) => Err(fault),
            None if self.item.how.wants_no_hash() => Ok(None),
            None => {
                let whole = state.merged.finish().filter(|_| self.item.blocks.is_all());
                Ok(Some(whole.unwrap_or_else(|| state.merged.finish_tail())))
            }
        };
        // Nobody else tells the end.
        state.phase = Phase::Ending;
        state.left.clear();
        state.again.clear();
        state.unmerged.clear();
        Some((state.lanes, result))
    }
}

/// The parts that are lost.
impl Striped {
    /// A part has not arrived.
    pub(super) fn lose(&self, part: StripePart) {
        let mut state = lock(&self.state);
        match part {
            StripePart::Block(block, tally) if state.phase == Phase::Open => {
                if state.fault.is_none() {
                    state.again.insert(block, tally);
                }
            }
            StripePart::Block(block, tally) => {
                state.lost.blocks.insert(block, tally);
            }
            StripePart::LaneEnd(lane) => state.lost.lanes |= 1 << lane,
            StripePart::End(lanes) => {
                state.lost.has_end = true;
                state.lost.lanes |= lanes;
            }
        }
        drop(state);
        self.has_sent.notify_all();
    }

    /// These parts were not sent, since their lane was lost. What else was lost with it is
    /// not known before [`Self::settled`].
    pub(super) fn lose_unsettled(&self, lost: Lost) {
        let mut state = lock(&self.state);
        state.unsettled += 1;
        state.lost.add(lost);
    }

    /// All is known that was lost with one of these lanes.
    pub(super) fn settled(&self) {
        lock(&self.state).unsettled -= 1;
    }

    /// The end of it that is being told.
    pub(super) fn ends_with(&self, result: &Result<FileSeal, Fault>, lanes: u8) {
        lock(&self.state).end = Some((result.clone(), lanes));
    }

    /// The end was told. True if something was lost meanwhile.
    pub(super) fn end(&self) -> bool {
        let mut state = lock(&self.state);
        state.phase = Phase::Ended;
        !state.lost.is_empty()
    }

    /// The parts that were lost since the end was told, with that end, for the worker that asks: no
    /// other one gets more of it before [`Self::repeated`].
    pub(super) fn take_lost(&self) -> Option<(Lost, Result<FileSeal, Fault>, u8)> {
        let mut state = lock(&self.state);
        let is_known = state.phase == Phase::Ended && state.unsettled == 0;
        if !is_known || state.is_repeated || state.lost.is_empty() {
            return None;
        }
        let (result, lanes) = state.end.clone()?;
        state.is_repeated = true;
        Some((std::mem::take(&mut state.lost), result, lanes))
    }

    /// That was sent. True if something was lost meanwhile.
    pub(super) fn repeated(&self) -> bool {
        let mut state = lock(&self.state);
        state.is_repeated = false;
        !state.lost.is_empty()
    }
}

impl State {
    fn has_blocks(&self) -> bool {
        let has = !self.left.is_empty() || !self.again.is_empty();
        self.phase == Phase::Open && self.fault.is_none() && has
    }

    /// True if the next block has to wait for others that are being sent.
    fn is_far_ahead(&self) -> bool {
        let (Some((next, _)), Some((first, _))) = (self.left.last(), self.unmerged.last()) else {
            return false;
        };
        self.fault.is_none() && self.again.is_empty() && next - first >= AHEAD_MAX
    }

    /// Merges the hashes that are there, in the order of the blocks. One that was lost is
    /// merged already.
    fn merge(&mut self, block: u64, hash: Option<BlockHash>) {
        if self.unmerged.last().is_none_or(|(first, _)| block < *first) {
            return;
        }
        self.hashes.insert(block, hash);
        while let Some((next, end)) = self.unmerged.last_mut() {
            let Some(hash) = self.hashes.remove(next) else { return };
            if let Some(hash) = hash {
                self.merged.push(hash);
            }
            *next += 1;
            if next == end {
                self.unmerged.pop();
            }
        }
    }
}

/// The hash of a block that was sent, if one is wanted, or why it could not be sent.
pub(super) type SentBlock = Sent<Option<BlockHash>>;

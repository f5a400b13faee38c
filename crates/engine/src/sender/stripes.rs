//! Large files whose blocks several workers send, each over its lane: every block is leased to
//! one of them until it has arrived. What is lost with a lane comes back here.

use super::Item;
use super::pieces::Sent;
use crate::control::{CANCEL_POLL, Control};
use crate::link::wire::Tally;
use haul_model::{BLOCK_LEN, BlockHash, BlockTree, ContentHash, Fault};
use haul_proto::FileSeal;
use haul_tree::SourceFile;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;

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
    changed: Condvar,
}

struct State {
    /// Blocks that nobody has had, as ranges of them with their ends, the last first.
    left: Vec<(u64, u64)>,
    /// Those that came back.
    again: BTreeMap<u64, Tally>,
    /// Those that are leased, each with the lane that may lose it to another: once.
    leased: BTreeMap<u64, Option<u8>>,
    /// The wanted blocks that are not merged yet, in their order, the last first.
    unmerged: Vec<(u64, u64)>,
    /// Those of them that were sent, with their hashes where these are wanted.
    hashes: BTreeMap<u64, Option<BlockHash>>,
    merged: BlockTree,
    /// The end of the file, as far as it is known.
    end: Option<Result<FileSeal, Fault>>,
    /// The Receiver has some of it, and may ask for it once more if that is not what it was.
    may_repeat: bool,
    /// That end was sent.
    is_told: bool,
    /// A worker computes the end, or sends it.
    is_ending: bool,
}

/// A block that a worker is to send.
#[derive(Clone)]
pub(super) struct Turn {
    pub(super) block: u64,
    /// The bytes of it that progress has counted: something if it was lost on its way.
    pub(super) tally: Tally,
    /// It was lost.
    pub(super) is_repeated: bool,
}

/// A step to the end of a file, for the worker that asks. No other one gets a step before it is
/// done.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// All was sent, and has this hash, if one is wanted: the end is to be found out.
    Find(Option<ContentHash>),
    /// This end is to be sent.
    Tell(Result<FileSeal, Fault>),
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
            changed: Condvar::new(),
            state: Mutex::new(State {
                unmerged: left.clone(),
                left,
                again: BTreeMap::new(),
                leased: BTreeMap::new(),
                hashes: BTreeMap::new(),
                merged: BlockTree::behind(0),
                end: None,
                may_repeat: false,
                is_told: false,
                is_ending: false,
            }),
        })
    }

    /// The length of a block, in bytes.
    pub(super) fn block_len(&self, block: u64) -> u64 {
        BLOCK_LEN.min(self.source.seal().size - block * BLOCK_LEN)
    }

    /// True if there is something to send.
    pub(super) fn has_blocks(&self) -> bool {
        self.state.lock().has_blocks()
    }

    /// True if a worker has something to do.
    pub(super) fn needs_hands(&self) -> bool {
        let state = self.state.lock();
        state.has_blocks() || state.is_due()
    }

    /// True if all has arrived, and the end was sent.
    pub(super) fn is_over(&self) -> bool {
        let state = self.state.lock();
        state.is_told && state.is_still()
    }

    /// Leases the next block to this lane.
    pub(super) fn next(&self, lane: u8, control: &Control<'_>) -> Option<Turn> {
        let mut state = self.state.lock();
        while state.is_far_ahead() {
            if control.stopped() {
                return None;
            }
            self.changed.wait_for(&mut state, CANCEL_POLL);
        }
        let again = state.again.pop_first();
        let turn = match again {
            Some((block, tally)) => Turn { block, tally, is_repeated: true },
            None => {
                let (start, end) = state.left.last_mut()?;
                let block = *start;
                *start += 1;
                if start == end {
                    state.left.pop();
                }
                Turn { block, tally: Tally::default(), is_repeated: false }
            }
        };
        state.leased.insert(turn.block, (!turn.is_repeated).then_some(lane));
        Some(turn)
    }

    /// The Receiver has some of it.
    pub(super) fn uses_known(&self) {
        self.state.lock().may_repeat = true;
    }

    /// A block was queued in full, or could not be.
    pub(super) fn queued(&self, block: u64, hash: Result<Option<BlockHash>, Fault>) {
        let mut state = self.state.lock();
        match hash {
            Ok(hash) => state.merge(block, hash),
            Err(fault) => state.fail(fault),
        }
        drop(state);
        self.changed.notify_all();
    }

    /// A lease ends: the block has arrived, or was lost. True if a worker has something to do
    /// by that.
    pub(super) fn settle(&self, turn: Turn, has_arrived: bool) -> bool {
        let mut state = self.state.lock();
        state.leased.remove(&turn.block);
        if !has_arrived && !matches!(state.end, Some(Err(_))) {
            state.again.insert(turn.block, turn.tally);
        }
        let needs_hands = state.has_blocks() || state.is_due();
        drop(state);
        self.changed.notify_all();
        needs_hands
    }

    /// Lanes that have a block which may be taken from them.
    pub(super) fn may_lose(&self) -> Vec<u8> {
        self.state.lock().leased.values().flatten().copied().collect()
    }

    /// The next step to the end, if it is time for it.
    pub(super) fn step(&self) -> Option<Step> {
        let mut state = self.state.lock();
        if !state.is_due() {
            return None;
        }
        state.is_ending = true;
        state.is_told = state.end.is_some();
        let hash = |state: &State| {
            let whole = state.merged.finish().filter(|_| self.item.blocks.is_all());
            whole.unwrap_or_else(|| state.merged.finish_tail())
        };
        Some(match state.end.clone() {
            Some(end) => Step::Tell(end),
            None => Step::Find((!self.item.how.wants_no_hash()).then(|| hash(&state))),
        })
    }

    /// The end was found out.
    pub(super) fn ends_with(&self, end: Result<FileSeal, Fault>) {
        let mut state = self.state.lock();
        state.is_ending = false;
        match end {
            Err(fault) => state.fail(fault),
            end => {
                state.end.get_or_insert(end);
            }
        }
    }

    /// The end was sent.
    pub(super) fn told(&self) {
        self.state.lock().is_ending = false;
    }
}

impl State {
    fn has_blocks(&self) -> bool {
        !self.left.is_empty() || !self.again.is_empty()
    }

    /// True if nothing of it is on its way, or has to be sent once more.
    fn is_still(&self) -> bool {
        self.leased.is_empty() && self.again.is_empty()
    }

    /// True if it is time for a step to the end. An end by which the receiver may ask for the
    /// file once more waits until nothing of it is on its way, so that nothing of both mixes.
    fn is_due(&self) -> bool {
        !self.is_ending
            && match &self.end {
                None => self.unmerged.is_empty(),
                Some(Ok(seal)) => {
                    let may_repeat = seal.grew || self.may_repeat;
                    !self.is_told && (!may_repeat || self.is_still())
                }
                Some(Err(_)) => !self.is_told && self.is_still(),
            }
    }

    /// It can't be sent. The first reason counts.
    fn fail(&mut self, fault: Fault) {
        if !matches!(self.end, Some(Err(_))) {
            self.end = Some(Err(fault));
            self.is_told = false;
            self.left.clear();
            self.again.clear();
        }
    }

    /// True if the next block has to wait for others that are being sent.
    fn is_far_ahead(&self) -> bool {
        let (Some((next, _)), Some((first, _))) = (self.left.last(), self.unmerged.last()) else {
            return false;
        };
        self.again.is_empty() && next - first >= AHEAD_MAX
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

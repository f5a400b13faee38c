//! Large files whose blocks are sent by several workers, each over its own lane. Every block is
//! leased to a worker until it has arrived. Blocks that are lost with a lane are returned here.

use super::Item;
use crate::control::{CANCEL_POLL, Control};
use crate::link::wire::SentTally;
use haul_model::{BLOCK_LEN, BlockHash, BlockTree, ContentHash, Fault};
use haul_proto::{FileSeal, How};
use haul_tree::SourceFile;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Minimum number of wanted blocks to send a file as stripes.
const BLOCKS_MIN: u64 = 3;

/// The most blocks that may be started, from the first block that is not completely queued. A
/// Receiver accepts more than this ahead of a missing block. So a missing block is never queued
/// behind blocks that wait for it, and never lacks a buffer that they hold.
const AHEAD_MAX: u64 = 28;

/// A file that is sent as stripes.
pub(super) struct Striped {
    pub(super) item: Item,
    pub(super) source: Arc<dyn SourceFile>,
    state: Mutex<StripeState>,
    changed: Condvar,
}

struct StripeState {
    /// Ranges of blocks that were never leased, in reverse order.
    unleased: Vec<(u64, u64)>,
    /// Blocks that were returned.
    returned: BTreeMap<u64, SentTally>,
    /// The leased blocks. A block that is sent for the first time has its lane, which may lose it.
    leased: BTreeMap<u64, Option<u8>>,
    /// The wanted blocks that are not merged yet, in reverse order.
    unmerged: Vec<(u64, u64)>,
    /// The hashes of sent blocks that are not merged yet, if hashes are wanted.
    hashes: BTreeMap<u64, Option<BlockHash>>,
    merged: BlockTree,
    /// The end of the file, once it is known.
    end: Option<Result<FileSeal, Fault>>,
    /// The Receiver reuses some content, and may request the file again if that was wrong.
    may_repeat: bool,
    /// The end was sent.
    is_end_sent: bool,
    /// A worker computes or sends the end.
    is_ending: bool,
}

/// A block that a worker is to send.
#[derive(Clone)]
pub(super) struct BlockTask {
    pub(super) block: u64,
    /// The bytes of the block that progress has counted. Not 0 if the block was lost while being
    /// sent.
    pub(super) tally: SentTally,
    /// The block was lost before.
    pub(super) is_repeated: bool,
}

/// A step at the end of a file. While one worker performs it, no other worker gets a step.
#[derive(Debug, PartialEq)]
pub(super) enum EndStep {
    /// All blocks were sent. Compute the end, with this hash of the blocks if one is wanted.
    ComputeEnd(Option<ContentHash>),
    /// Send this end.
    SendEnd(Result<FileSeal, Fault>),
}

impl Striped {
    /// A file whose wanted blocks are all to be sent; `None` if there are too few.
    pub(super) fn new(item: &Item, source: &Arc<dyn SourceFile>) -> Option<Self> {
        let size = source.seal().size;
        let end_of = |end: Option<u64>| end.unwrap_or(u64::MAX).min(size.div_ceil(BLOCK_LEN));
        let ranges = item.want.blocks.iter().map(|range| (range.start, end_of(range.end)));
        let mut unleased: Vec<_> = ranges.filter(|(start, end)| start < end).collect();
        unleased.reverse();
        let blocks: u64 = unleased.iter().map(|(start, end)| end - start).sum();
        (blocks >= BLOCKS_MIN).then(|| Self {
            item: item.clone(),
            source: Arc::clone(source),
            changed: Condvar::new(),
            state: Mutex::new(StripeState {
                unmerged: unleased.clone(),
                unleased,
                returned: BTreeMap::new(),
                leased: BTreeMap::new(),
                hashes: BTreeMap::new(),
                merged: BlockTree::behind(0),
                end: None,
                may_repeat: false,
                is_end_sent: false,
                is_ending: false,
            }),
        })
    }

    /// The length of a block, in bytes.
    pub(super) fn block_len(&self, block: u64) -> u64 {
        BLOCK_LEN.min(self.source.seal().size - block * BLOCK_LEN)
    }

    /// True if there are blocks to send.
    pub(super) fn has_blocks(&self) -> bool {
        self.state.lock().has_blocks()
    }

    /// True if there is work for a worker.
    pub(super) fn needs_workers(&self) -> bool {
        let state = self.state.lock();
        state.has_blocks() || state.is_due()
    }

    /// True if all blocks have arrived, and the end was sent.
    pub(super) fn is_over(&self) -> bool {
        let state = self.state.lock();
        state.is_end_sent && state.is_drained()
    }

    /// Leases the next block to `lane`.
    pub(super) fn next(&self, lane: u8, control: &Control<'_>) -> Option<BlockTask> {
        let mut state = self.state.lock();
        while state.is_far_ahead() {
            if control.stopped() {
                return None;
            }
            self.changed.wait_for(&mut state, CANCEL_POLL);
        }
        let returned = state.returned.pop_first();
        let block_task = match returned {
            Some((block, tally)) => BlockTask { block, tally, is_repeated: true },
            None => {
                let (start, end) = state.unleased.last_mut()?;
                let block = *start;
                *start += 1;
                if start == end {
                    state.unleased.pop();
                }
                BlockTask { block, tally: SentTally::default(), is_repeated: false }
            }
        };
        state.leased.insert(block_task.block, (!block_task.is_repeated).then_some(lane));
        Some(block_task)
    }

    /// Records that the Receiver reuses some of the content.
    pub(super) fn record_reuse(&self) {
        self.state.lock().may_repeat = true;
    }

    /// Records that a block was completely queued, or failed.
    pub(super) fn record_queued(&self, block: u64, hash: Result<Option<BlockHash>, Fault>) {
        let mut state = self.state.lock();
        match hash {
            Ok(hash) => state.merge(block, hash),
            Err(fault) => state.fail(fault),
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Ends a lease: the block has arrived, or was lost. Returns true if that creates work for a
    /// worker.
    pub(super) fn settle(&self, block_task: BlockTask, has_arrived: bool) -> bool {
        let mut state = self.state.lock();
        state.leased.remove(&block_task.block);
        if !has_arrived && !matches!(state.end, Some(Err(_))) {
            state.returned.insert(block_task.block, block_task.tally);
        }
        let needs_workers = state.has_blocks() || state.is_due();
        drop(state);
        self.changed.notify_all();
        needs_workers
    }

    /// The lanes with blocks that may be moved to another lane.
    pub(super) fn stealable_lanes(&self) -> Vec<u8> {
        self.state.lock().leased.values().flatten().copied().collect()
    }

    /// The next step at the end, if one is due.
    pub(super) fn step(&self) -> Option<EndStep> {
        let mut state = self.state.lock();
        if !state.is_due() {
            return None;
        }
        state.is_ending = true;
        state.is_end_sent = state.end.is_some();
        let hash = |state: &StripeState| {
            let whole = state.merged.finish().filter(|_| self.item.want.blocks.is_all());
            whole.unwrap_or_else(|| state.merged.finish_tail())
        };
        Some(match state.end.clone() {
            Some(end) => EndStep::SendEnd(end),
            None => {
                EndStep::ComputeEnd((!self.item.want.how.has(How::UNHASHED)).then(|| hash(&state)))
            }
        })
    }

    /// Records the computed end.
    pub(super) fn set_end(&self, end: Result<FileSeal, Fault>) {
        let mut state = self.state.lock();
        state.is_ending = false;
        match end {
            Err(fault) => state.fail(fault),
            end => {
                state.end.get_or_insert(end);
            }
        }
    }

    /// Records that the end was sent.
    pub(super) fn told(&self) {
        self.state.lock().is_ending = false;
    }
}

impl StripeState {
    fn has_blocks(&self) -> bool {
        !self.unleased.is_empty() || !self.returned.is_empty()
    }

    /// True if no block is being sent or must be sent again.
    fn is_drained(&self) -> bool {
        self.leased.is_empty() && self.returned.is_empty()
    }

    /// True if a step at the end is due. If the end may make the Receiver request the file again,
    /// it waits for all blocks, so that old and new content do not mix.
    fn is_due(&self) -> bool {
        !self.is_ending
            && match &self.end {
                None => self.unmerged.is_empty(),
                Some(Ok(seal)) => {
                    let may_repeat = seal.grew || self.may_repeat;
                    !self.is_end_sent && (!may_repeat || self.is_drained())
                }
                Some(Err(_)) => !self.is_end_sent && self.is_drained(),
            }
    }

    /// Ends the file with a fault. The first fault counts.
    fn fail(&mut self, fault: Fault) {
        if !matches!(self.end, Some(Err(_))) {
            self.end = Some(Err(fault));
            self.is_end_sent = false;
            self.unleased.clear();
            self.returned.clear();
        }
    }

    /// True if the next block must wait for blocks that are being sent.
    fn is_far_ahead(&self) -> bool {
        let (Some((next, _)), Some((first, _))) = (self.unleased.last(), self.unmerged.last())
        else {
            return false;
        };
        self.returned.is_empty() && next - first >= AHEAD_MAX
    }

    /// Merges the known hashes in the order of the blocks. The hash of a lost block is already
    /// merged.
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

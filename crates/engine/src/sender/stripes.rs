//! Large files whose blocks several workers send, each over its lane: they take them from
//! one place, and the last to leave tells the end.

use super::Item;
use super::pieces::Sent;
use crate::control::{CANCEL_POLL, Control};
use crossbeam_channel::{Receiver as Calls, Sender as Call, unbounded};
use haul_model::{BLOCK_LEN, BlockHash, BlockTree, ContentHash, Fault};
use haul_tree::{SourceFile, lock};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};

/// Files are sent as stripes if at least so many blocks are wanted of them.
const BLOCKS_MIN: u64 = 3;

/// Blocks from the first that is not queued in full that may be begun. Less than a receiver
/// takes ahead of what is missing: so what it waits for is never behind what waits, nor in
/// need of buffers that are held by that.
const AHEAD_MAX: u64 = 28;

/// The files that are being sent as stripes, and how workers are called to them.
pub(crate) struct Stripes {
    open: Mutex<Vec<Arc<Striped>>>,
    call: Call<()>,
    /// A word for each worker that may help.
    pub(super) calls: Calls<()>,
}

impl Default for Stripes {
    fn default() -> Self {
        let (call, calls) = unbounded();
        Self { open: Mutex::default(), call, calls }
    }
}

impl Stripes {
    /// Takes a file, and calls so many workers to it.
    pub(super) fn begin(&self, file: &Arc<Striped>, helpers: usize) {
        lock(&self.open).push(Arc::clone(file));
        for _ in 0..helpers {
            let _ = self.call.send(());
        }
    }

    /// A file of which blocks are left.
    pub(super) fn open(&self) -> Option<Arc<Striped>> {
        let mut open = lock(&self.open);
        open.retain(|file| file.has_blocks());
        open.first().cloned()
    }
}

/// A file that is sent as stripes.
pub(super) struct Striped {
    pub(super) item: Item,
    pub(super) source: Arc<dyn SourceFile>,
    state: Mutex<State>,
    has_sent: Condvar,
}

struct State {
    /// Blocks that nobody has taken, as ranges of them with their ends, the last first.
    left: Vec<(u64, u64)>,
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
                unmerged: left.clone(),
                left,
                hashes: BTreeMap::new(),
                merged: BlockTree::behind(0),
                workers: 0,
                lanes: 0,
                fault: None,
            }),
        })
    }

    fn has_blocks(&self) -> bool {
        let state = lock(&self.state);
        state.fault.is_none() && !state.left.is_empty()
    }

    /// A worker comes; `false` if there is nothing left to do.
    pub(super) fn enter(&self) -> bool {
        let mut state = lock(&self.state);
        let is_needed = state.fault.is_none() && !state.left.is_empty();
        state.workers += usize::from(is_needed);
        is_needed
    }

    /// The next block, which is to be sent over this lane.
    pub(super) fn next(&self, lane: u8, control: &Control<'_>) -> Option<u64> {
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
        let (start, end) = state.left.last_mut()?;
        let block = *start;
        *start += 1;
        if start == end {
            state.left.pop();
        }
        state.lanes |= 1 << lane;
        Some(block)
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
    /// was sent, if one is wanted, if that is all.
    pub(super) fn leave(&self) -> Option<(u8, Result<Option<ContentHash>, Fault>)> {
        let mut state = lock(&self.state);
        state.workers -= 1;
        if state.workers > 0 || (state.fault.is_none() && !state.unmerged.is_empty()) {
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
        state.left.clear();
        state.unmerged.clear();
        Some((state.lanes, result))
    }
}

impl State {
    /// True if the next block has to wait for others that are being sent.
    fn is_far_ahead(&self) -> bool {
        let (Some((next, _)), Some((first, _))) = (self.left.last(), self.unmerged.last()) else {
            return false;
        };
        self.fault.is_none() && next - first >= AHEAD_MAX
    }

    /// Merges the hashes that are there, in the order of the blocks.
    fn merge(&mut self, block: u64, hash: Option<BlockHash>) {
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

//! Files of which the destination has an older version. Over a wire, the sums of that version go to
//! the Sender, which sends only the difference.
//!
//! Both sides limit the number of such files in flight. The others wait here and block no thread.

use super::{PREFILLED_MAX, begin_with, can_prefill};
use super::{ProbeResult, Provider, find_similar};
use crate::receiver::pending::{Content, Part, Version};
use crate::receiver::{DirState, Filler, Pending, RecvDir};
use crate::threads::run_shared;
use crate::workers::workers;
use haul_delta::{Checksummer, Key, Shape};
use haul_model::{Changes, Name};
use haul_proto::{
    PACK_FILE_MAX, Reuse, SIGNED_MAX, SUMS_LEN_MAX, SUMS_PER_FRAME_MAX, Signature, Want,
};
use haul_store::OnExisting;
use haul_sys::{VectorWork, with_vectors};
use haul_tree::SourceFile;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Minimum length, in bytes, of an old file whose sums are worth a round trip.
const OLD_LEN_MIN: u64 = 16 << 10;

/// Minimum number of bytes that are read from an old file at once.
const READ_LEN: usize = 512 << 10;

/// Maximum number of threads that help to sum one file.
const HELPERS_MAX: usize = 3;

/// Minimum number of parts for each helper thread: starting a thread takes time.
const PARTS_EACH: u64 = 16;

/// The files with old versions, waiting and in flight.
#[derive(Default)]
pub(crate) struct Versions(Mutex<VersionQueue>);

#[derive(Default)]
struct VersionQueue {
    /// Files that wait for their turn.
    waiting: VecDeque<Box<Pending>>,
    /// The files in flight, by index.
    in_flight: HashMap<u64, Usage>,
    /// The total use of the files in flight.
    used: Usage,
}

/// The resources that a file in flight uses.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    /// The length of its sums in bytes.
    sums_len: usize,
    /// Open staged files that begin with an old version.
    begun: usize,
}

impl VersionQueue {
    /// Reserves the resources of a file; false if there are too few. A file that is alone always
    /// gets them.
    fn reserve(&mut self, index: u64, file: Usage) -> bool {
        let sums_len = self.used.sums_len + file.sums_len;
        let begun = self.used.begun + file.begun;
        let has_room =
            sums_len <= SUMS_LEN_MAX && begun <= PREFILLED_MAX || self.in_flight.len() <= 1;
        if has_room {
            self.used = Usage { sums_len, begun };
            self.in_flight.insert(index, file);
        }
        has_room
    }

    /// Releases the resources of a file; false if it was not in flight.
    fn release(&mut self, index: u64) -> bool {
        let Some(file) = self.in_flight.remove(&index) else { return false };
        self.used.sums_len -= file.sums_len;
        self.used.begun -= file.begun;
        true
    }
}

impl Provider for Versions {
    fn may_have(&self, filler: &Filler<'_>, file: &Pending) -> bool {
        let old_is_file = file.on_existing == OnExisting::Replace
            && !file.found.has(Changes::KIND)
            && !file.found.has(Changes::MISSING);
        let plan = &filler.job.plan;
        plan.delta
            && (old_is_file || plan.fuzzy && is_missing(file))
            && filler.job.plan.wants_hashes
            && filler.job.ends.saves_sending
            && file.entry.size() > PACK_FILE_MAX
    }

    /// Queues the file until its old version can be summed.
    fn probe(&self, filler: &Filler<'_>, file: Box<Pending>, _: &mut Vec<Want>) -> ProbeResult {
        self.0.lock().waiting.push_back(file);
        self.start_next(filler);
        ProbeResult::Kept
    }

    fn parts(&self, _filler: &Filler<'_>, file: &mut Pending, reuse: &Reuse) -> Option<Vec<Part>> {
        let (from, old) = (reuse.from?, file.reused.old.as_mut()?);
        if old.content.is_none() {
            let opened = open_in(&file.dir, &old.name)?;
            old.content = Some(Arc::new(opened));
        }
        let content = Arc::clone(old.content.as_ref()?);
        Some(vec![Part { content, from, len: reuse.len.into() }])
    }

    fn forget(&self, file: &mut Pending) {
        file.reused.old = None;
        if let Some(begun) = file.reused.begun.take() {
            begun.discard();
        }
    }
}

/// Opens the file `name` of `dir`, if it can be read.
fn open_in(dir: &RecvDir, name: &Name) -> Option<Box<dyn SourceFile>> {
    let DirState::Open(node) = &dir.state else { return None };
    node.handle().and_then(|dir| dir.open_file(name, false)).ok()
}

impl Versions {
    fn start_next(&self, filler: &Filler<'_>) {
        loop {
            let next = {
                let mut state = self.0.lock();
                if state.in_flight.len() >= SIGNED_MAX {
                    return;
                }
                let Some(next) = state.waiting.pop_front() else { return };
                state.in_flight.insert(next.index, Usage::default());
                next
            };
            filler.job.enqueue(|receiver, _| {
                let filler = &receiver.filler;
                filler.providers.versions.send_signature(filler, next);
            });
        }
    }

    /// Ends a file for the Sender, and starts the next one.
    pub(crate) fn end_delta(&self, filler: &Filler<'_>, index: u64) {
        if self.0.lock().release(index) {
            self.start_next(filler);
        }
    }

    /// Sends the sums of a file's old version, and requests the difference. Without such a version,
    /// requests the whole file.
    pub(crate) fn send_signature(&self, filler: &Filler<'_>, mut file: Box<Pending>) {
        let index = file.index;
        let similar = if is_missing(&file) { find_similar(&file) } else { None };
        let name = similar.unwrap_or_else(|| file.name.clone());
        let old = open_in(&file.dir, &name).and_then(|old| {
            let shape = Shape::of(old.seal().size, file.entry.size(), filler.job.plan.block_len)?;
            (shape.old_len() >= OLD_LEN_MIN).then_some((old, shape))
        });
        if let Some((old, shape)) = old {
            let begins = can_prefill(&file, &*old);
            let used = Usage { sums_len: shape.sums_len(), begun: usize::from(begins) };
            let mut state = self.0.lock();
            if !state.reserve(index, used) {
                // It is retried when another file ends.
                state.in_flight.remove(&index);
                return state.waiting.push_front(file);
            }
            drop(state);
            if begins {
                begin_with(filler, &mut file, &*old);
            }
            let basis = match &file.reused.begun {
                Some(begun) => begun.basis(old).ok(),
                None => Some(Box::new(old) as Box<dyn Content>),
            };
            if basis.is_some_and(|basis| self.send_sums(filler, index, &*basis, shape)) {
                file.reused.old = Some(Version { len: shape.old_len(), name, content: None });
            } else {
                file.reused.begun = None;
            }
        }
        if filler.job.control.stopped() {
            return;
        }
        let (is_whole, mut wants) = (file.reused.old.is_none(), Vec::new());
        filler.want_after_versions(file, &mut wants);
        filler.job.sender.want(wants);
        if is_whole {
            self.end_delta(filler, index);
        }
    }

    /// Sends the sums of a file's blocks, which several threads compute; false if the file can't be
    /// read to its end.
    fn send_sums(&self, filler: &Filler<'_>, index: u64, old: &dyn Content, shape: Shape) -> bool {
        let key = random_key();
        filler.job.sender.signature(Signature::Begin {
            index,
            old_size: shape.old_len(),
            block_len: shape.block_len() as u32,
            strong_len: shape.strong_len(),
            key: *key.as_bytes(),
        });
        let checksummer = Checksummer::new(key);
        let read_len = READ_LEN.next_multiple_of(shape.block_len());
        let parts = shape.old_len().div_ceil(read_len as u64);
        let (next, is_whole) = (AtomicU64::new(0), AtomicBool::new(true));
        let ordered = Mutex::new(OrderedSums::default());
        let sum = || {
            let mut blocks = vec![0; read_len];
            loop {
                let part = next.fetch_add(1, Ordering::Relaxed);
                if part >= parts || !is_whole.load(Ordering::Relaxed) {
                    return;
                }
                let at = part * read_len as u64;
                let blocks = &mut blocks[..read_len.min((shape.old_len() - at) as usize)];
                if filler.job.control.stopped() || !old.fill(blocks, at) {
                    return is_whole.store(false, Ordering::Relaxed);
                }
                let sums =
                    with_vectors(Summing { checksummer: &checksummer, shape: &shape, blocks });
                let send = |sums| filler.job.sender.signature(Signature::Sums { index, sums });
                ordered.lock().take(part, sums, send);
            }
        };
        let helpers = (workers() - 1).min(HELPERS_MAX).min((parts / PARTS_EACH) as usize);
        run_shared(filler.job.control, "summing", helpers, sum);
        let left = std::mem::take(&mut ordered.lock().sums);
        filler.job.sender.signature(Signature::Sums { index, sums: left });
        is_whole.into_inner()
    }
}

/// Consecutive blocks to sum.
struct Summing<'s> {
    checksummer: &'s Checksummer,
    shape: &'s Shape,
    blocks: &'s [u8],
}

impl VectorWork for Summing<'_> {
    type Output = Vec<u8>;

    #[inline(always)]
    fn run(self) -> Vec<u8> {
        let Self { checksummer, shape, blocks } = self;
        let count = blocks.len().div_ceil(shape.block_len());
        let mut sums = Vec::with_capacity(count * shape.sum_len());
        for block in blocks.chunks(shape.block_len()) {
            checksummer.sum(shape, block, &mut sums);
        }
        sums
    }
}

/// Puts sums, which are computed in any order, back in order.
#[derive(Default)]
struct OrderedSums {
    /// The part whose sums are sent next.
    next: u64,
    /// Sums of later parts, usually at most one part per thread. More wait if one thread is slow,
    /// within the room reserved for all sums of the file.
    waiting: BTreeMap<u64, Vec<u8>>,
    /// Sums in order that were not sent yet.
    sums: Vec<u8>,
}

impl OrderedSums {
    /// Takes the sums of a part, and sends the sums that are in order, one full frame at a time.
    fn take(&mut self, part: u64, sums: Vec<u8>, send: impl Fn(Vec<u8>)) {
        self.waiting.insert(part, sums);
        while let Some(sums) = self.waiting.remove(&self.next) {
            self.next += 1;
            self.sums.extend(sums);
            while self.sums.len() >= SUMS_PER_FRAME_MAX {
                let rest = self.sums.split_off(SUMS_PER_FRAME_MAX);
                send(std::mem::replace(&mut self.sums, rest));
            }
        }
    }
}

/// True if the destination has no entry of that name.
fn is_missing(file: &Pending) -> bool {
    file.on_existing == OnExisting::Keep && file.found.has(Changes::MISSING)
}

/// A new random key.
fn random_key() -> Key {
    let mut key = [0; Key::LEN];
    for (at, part) in key.chunks_mut(8).enumerate() {
        // The system's random numbers, through a keyed hash.
        part.copy_from_slice(&RandomState::new().hash_one(at).to_le_bytes());
    }
    Key::from(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn sums_are_sent_in_order() {
        const LEN: usize = SUMS_PER_FRAME_MAX / 3 * 2;
        let frames = RefCell::new(Vec::new());
        let mut ordered = OrderedSums::default();
        for part in [1, 2, 0, 4, 3, 5] {
            let sums = vec![part as u8; LEN];
            ordered.take(part, sums, |sums| frames.borrow_mut().push(sums));
        }
        let mut told = frames.into_inner();
        assert!(told.iter().all(|frame| frame.len() == SUMS_PER_FRAME_MAX));
        assert_eq!(told.len(), 6 * LEN / SUMS_PER_FRAME_MAX);
        told.push(ordered.sums);
        let expected: Vec<_> = (0..6).flat_map(|part| vec![part; LEN]).collect();
        assert!(told.concat() == expected);
    }
}

//! Files of which the destination has an older version: over a wire their sums go to the
//! Sender, which then sends no more than the difference.
//!
//! So many of them are under way as both sides keep in mind; the others wait here, and
//! no thread waits with them.

use super::begun::{BEGUN_MAX, Basis};
use super::dirs::DirState;
use super::{Pending, Receiver, Work, similar};
use haul_delta::{Key, Shape};
use haul_model::{BlockRanges, Changes, Mirror};
use haul_proto::{
    How, PACK_FILE_MAX, SIGNED_MAX, SUMS_LEN_MAX, SUMS_PER_FRAME_MAX, Signature, Want,
};
use haul_store::OnExisting;
use haul_tree::{SourceFile, lock};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

/// The shortest old file, in bytes, for which that is worth a round trip.
const OLD_LEN_MIN: u64 = 16 << 10;

/// Bytes of an old file that are read at once, at least.
const READ_LEN: usize = 512 << 10;

/// The files whose sums are told.
#[derive(Default)]
pub(super) struct Signing(Mutex<State>);

#[derive(Default)]
struct State {
    /// Files that wait for their turn.
    waiting: VecDeque<Box<Pending>>,
    /// Those under way, until they have come to their end.
    under_way: HashMap<u64, Taken>,
    /// All that these take.
    taken: Taken,
}

/// The share of a file that is under way.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    /// The length of its sums in bytes.
    sums_len: usize,
    /// Stages that begin with an old version, and are open.
    begun: usize,
}

impl State {
    /// True if there is room for one that takes so much. A file that is alone has it.
    fn reserve(&mut self, index: u64, file: Taken) -> bool {
        let sums_len = self.taken.sums_len + file.sums_len;
        let begun = self.taken.begun + file.begun;
        let has_room = sums_len <= SUMS_LEN_MAX && begun <= BEGUN_MAX || self.under_way.len() <= 1;
        if has_room {
            self.taken = Taken { sums_len, begun };
            self.under_way.insert(index, file);
        }
        has_room
    }

    /// A file that was under way takes nothing any more; false if it was not.
    fn release(&mut self, index: u64) -> bool {
        let Some(file) = self.under_way.remove(&index) else { return false };
        self.taken.sums_len -= file.sums_len;
        self.taken.begun -= file.begun;
        true
    }
}

impl Receiver<'_> {
    /// True if only the difference is to come of a file.
    pub(super) fn wants_difference(&self, file: &Pending) -> bool {
        let is_old_a_file = file.on_existing == OnExisting::Replace
            && !file.found.has(Changes::KIND)
            && !file.found.has(Changes::MISSING);
        let may_have_old = |mirror: &Mirror| is_old_a_file || mirror.fuzzy && is_missing(file);
        self.task.mirrors().is_some_and(|mirror| mirror.delta && may_have_old(mirror))
            && self.policy.wants_hashes()
            && self.sender.is_far()
            && file.entry.size() > PACK_FILE_MAX
    }

    /// The wish for all that is missing of a file.
    pub(super) fn want_of(&self, file: &Pending) -> Want {
        let how = How::whole_hash_if(file.resumed > 0 && self.proves(&file.entry))
            .in_order_if(file.is_in_order())
            .unhashed_if(file.is_unhashed(self));
        Want { index: file.index, how, blocks: BlockRanges::from(file.resumed) }
    }

    /// Has the old version of a file summed when its turn comes, and then asks for it.
    pub(super) fn sign_in_turn(&self, file: Pending) {
        lock(&self.signing.0).waiting.push_back(Box::new(file));
        self.sign_next();
    }

    fn sign_next(&self) {
        loop {
            let next = {
                let mut state = lock(&self.signing.0);
                if state.under_way.len() >= SIGNED_MAX {
                    return;
                }
                let Some(next) = state.waiting.pop_front() else { return };
                state.under_way.insert(next.index, Taken::default());
                next
            };
            self.give(Work::Sign(next));
        }
    }

    /// A file has come to its end, as far as the Sender goes.
    pub(super) fn end_signed(&self, index: u64) {
        if lock(&self.signing.0).release(index) {
            self.sign_next();
        }
    }

    /// Tells the sums of a file's old version, and asks for the difference; for all of it
    /// where there is no such version.
    pub(super) fn sign(&self, mut file: Box<Pending>) {
        let index = file.index;
        let mut want = self.want_of(&file);
        if is_missing(&file) {
            file.basis = similar::find(&file);
        }
        let old = self.open_old(&file).and_then(|old| {
            let wish = self.task.mirrors()?.block_len;
            let shape = Shape::of(old.seal().size, file.entry.size(), wish)?;
            (shape.old_len() >= OLD_LEN_MIN).then_some((old, shape))
        });
        if let Some((old, shape)) = old {
            let begins = self.may_begin_with(&file, &*old);
            let taken = Taken { sums_len: shape.sums_len(), begun: usize::from(begins) };
            let mut state = lock(&self.signing.0);
            if !state.reserve(index, taken) {
                // It is begun again when another has come to its end.
                state.under_way.remove(&index);
                return state.waiting.push_front(file);
            }
            drop(state);
            if begins {
                self.begin_with(&mut file, &*old);
            }
            let basis = match &file.begun {
                Some(begun) => begun.basis(old).ok(),
                None => Some(Basis::of(old)),
            };
            if basis.is_some_and(|basis| self.tell_sums(index, &basis, shape)) {
                want.how = want.how.with_delta();
                file.old_size = Some(shape.old_len());
            } else {
                file.begun = None;
            }
        }
        if self.control.stopped() {
            return;
        }
        let is_whole = file.old_size.is_none();
        lock(&self.wanted).insert(index, file);
        self.sender.want(vec![want]);
        if is_whole {
            self.end_signed(index);
        }
    }

    /// The version of a file that its place has now, if it can be read.
    pub(super) fn open_old(&self, file: &Pending) -> Option<Box<dyn SourceFile>> {
        let DirState::Open(node) = &file.dir.state else { return None };
        let name = file.basis.as_ref().unwrap_or(&file.name);
        node.handle().and_then(|dir| dir.open_file(name, false)).ok()
    }

    /// Tells the sums of a file's blocks; false if it can't be read to its end.
    fn tell_sums(&self, index: u64, old: &Basis, shape: Shape) -> bool {
        let key = fresh_key();
        self.sender.signature(Signature::Begin {
            index,
            old_size: shape.old_len(),
            block_len: shape.block_len() as u32,
            strong_len: shape.strong_len(),
            key: *key.as_bytes(),
        });
        let mut blocks = vec![0; READ_LEN.next_multiple_of(shape.block_len())];
        let mut sums = Vec::with_capacity(SUMS_PER_FRAME_MAX);
        let mut at = 0;
        while at < shape.old_len() {
            let len = blocks.len().min((shape.old_len() - at) as usize);
            if self.control.stopped() || !old.read_at(&mut blocks[..len], at) {
                return false;
            }
            for block in blocks[..len].chunks(shape.block_len()) {
                if sums.len() + shape.sum_len() > SUMS_PER_FRAME_MAX {
                    let sums = std::mem::take(&mut sums);
                    self.sender.signature(Signature::Sums { index, sums });
                }
                key.sum(&shape, block, &mut sums);
            }
            at += len as u64;
        }
        self.sender.signature(Signature::Sums { index, sums });
        true
    }
}

/// True if the destination has nothing of that name.
fn is_missing(file: &Pending) -> bool {
    file.on_existing == OnExisting::Keep && file.found.has(Changes::MISSING)
}

/// A key that nobody has known before.
fn fresh_key() -> Key {
    let mut key = [0; Key::LEN];
    for (at, part) in key.chunks_mut(8).enumerate() {
        // The system's random numbers, by way of a keyed hash.
        part.copy_from_slice(&RandomState::new().hash_one(at).to_le_bytes());
    }
    Key::from(key)
}

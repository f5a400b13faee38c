//! Chunks of wanted files that are offered before they are sent: what the Receiver has of them is
//! sent as a Reuse, without its content.
//!
//! One thread reads the files ahead, in the order in which they are wanted, cuts them and offers
//! the chunks. Offers go out with the listing, in front of contents. A file is queued for sending
//! when its first offer is answered. Later answers usually arrive before its content is read.
//!
//! It must not cost time where nothing is gained by it:
//!
//! - While content leaves fast, nothing is offered.
//! - After 4 MiB without a known chunk, nobody waits for answers. What is answered in time is used,
//!   and offers continue: from them the Receiver fills its index.
//! - No file waits longer than 2 s to be queued, and where answers are late nobody waits.

use super::read::is_still_wanted;
use super::{Item, Sender};
use crate::control::CANCEL_POLL;
use crate::link::wire::Outbox;
use haul_delta::{CHUNK_LEN_MAX, chunks};
use haul_model::Fault;
use haul_proto::{Known, OFFERED_PER_FRAME_MAX, Offer, OfferedChunk};
use haul_tree::SourceFile;
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Content of one offer, in bytes, at least.
const OFFER_LEN: u64 = 1 << 20;

/// Bytes that were offered and that no worker has passed yet, at most: the pages that were
/// read are still in memory when it is sent.
const AHEAD_MAX: u64 = 64 << 20;

/// Bytes that were answered without a known chunk, from which on no worker waits for answers.
const MISSED_MAX: u64 = 4 << 20;

/// The longest time for which a file, or content, waits for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Late answers after which nobody waits any more.
const LATE_MAX: u32 = 3;

/// The files whose chunks are offered.
pub(super) struct Offers {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Files to be offered.
    queue: VecDeque<Item>,
    files: HashMap<u64, Offered>,
    /// Bytes that were offered and not passed, of all files.
    ahead: u64,
    /// Bytes that were answered since a chunk was known.
    missed: u64,
    /// Answers for which content has waited in vain.
    late: u32,
    /// Nothing is offered any more.
    is_off: bool,
}

/// A file that is being offered.
struct Offered {
    /// The file, until it is sent, and since when it waits.
    waiting: Option<(Item, Instant)>,
    /// The file as it was opened to be offered. Whoever sends it takes this one: it knows which
    /// pages were in memory before.
    source: Option<Arc<dyn SourceFile>>,
    /// A worker sends it, and has opened it itself or taken that one.
    is_sent: bool,
    /// Offers that were not answered: where each begins, and the lengths of its chunks.
    unanswered: VecDeque<(u64, Vec<u32>)>,
    /// How far it was answered, in bytes.
    answered: u64,
    /// Its parts that the Receiver has.
    known: VecDeque<Range<u64>>,
    /// Nothing more of it is offered.
    is_all: bool,
    /// The Receiver has some of it.
    is_used: bool,
    /// Bytes of it that were offered, and those that were passed. Content may pass ahead of its
    /// offers.
    offered: u64,
    passed: u64,
    /// Where the last offer ends, in bytes.
    reached: u64,
}

/// The next part of a file, as it is sent: up to there, in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// It has to be sent.
    New(u64),
    /// The Receiver has it.
    Known(u64),
}

impl Part {
    /// Where it ends, in bytes.
    pub(super) fn end(&self) -> u64 {
        let (Self::New(end) | Self::Known(end)) = self;
        *end
    }
}

impl Default for Offers {
    fn default() -> Self {
        Self { state: Mutex::default(), changed: Condvar::new() }
    }
}

impl Offers {
    /// Has a file offered; gives it back if it is to be sent at once.
    fn add(&self, item: Item) -> Option<Item> {
        let mut state = self.state.lock();
        if state.is_off {
            return Some(item);
        }
        let waits = state.waits();
        state.queue.push_back(item.clone());
        let at_once = if waits { None } else { Some(item.clone()) };
        state.files.insert(item.index, Offered::new(item, waits));
        self.changed.notify_all();
        at_once
    }

    /// A file has come to its end, or is sent whole.
    pub(super) fn forget(&self, index: u64) {
        let mut state = self.state.lock();
        if let Some(file) = state.files.remove(&index) {
            state.ahead -= file.ahead();
            self.changed.notify_all();
        }
    }

    /// The part of a file that comes next, from `at` up to `end` at most. Waits for the answer as
    /// long as that may be of use.
    pub(super) fn next(&self, index: u64, at: u64, end: u64, stopped: impl Fn() -> bool) -> Part {
        let give_up = Instant::now() + ANSWER_MAX;
        let mut state = self.state.lock();
        loop {
            if state.waits() && Instant::now() >= give_up {
                // Nobody waits until one of the answers has a known chunk.
                state.missed = MISSED_MAX;
                state.late += 1;
            }
            let waits = state.waits() && !stopped();
            let Some(file) = state.files.get_mut(&index) else { return Part::New(end) };
            // Where content is far ahead of its offers, no answer is about to come.
            let waits = waits && at <= file.reached.saturating_add(AHEAD_MAX);
            if let Some(part) = file.next(at, end) {
                file.is_used |= matches!(part, Part::Known(_));
                return part;
            }
            if !waits || file.has_no_answer_due() {
                let known = file.known.iter().map(|known| known.start);
                return Part::New(known.filter(|start| *start > at).fold(end, u64::min));
            }
            self.changed.wait_for(&mut state, CANCEL_POLL);
        }
    }

    /// True if the Receiver has some of a file.
    pub(super) fn has_used(&self, index: u64) -> bool {
        self.state.lock().files.get(&index).is_some_and(|file| file.is_used)
    }

    /// A file was opened to be offered.
    fn opened(&self, index: u64, source: &Arc<dyn SourceFile>) {
        if let Some(file) = self.state.lock().files.get_mut(&index).filter(|file| !file.is_sent) {
            file.source = Some(Arc::clone(source));
        }
    }

    /// Takes the file as it was opened, if it was: once.
    pub(super) fn take_source(&self, index: u64) -> Option<Arc<dyn SourceFile>> {
        let mut state = self.state.lock();
        let file = state.files.get_mut(&index)?;
        file.is_sent = true;
        file.source.take()
    }

    /// Counts `len` bytes of a file that were sent, are a hole, or went as a Reuse.
    pub(super) fn passed(&self, index: u64, len: u64) {
        let mut state = self.state.lock();
        let State { files, ahead, .. } = &mut *state;
        if let Some(file) = files.get_mut(&index) {
            let before = file.ahead();
            file.passed += len;
            *ahead -= before - file.ahead();
            self.changed.notify_all();
        }
    }

    /// Takes an answer; an error if it breaks a rule. Returns the files that wait no longer.
    fn answer(&self, known: &Known) -> Result<Vec<Item>, &'static str> {
        let mut state = self.state.lock();
        let Some(file) = state.files.get_mut(&known.index) else { return Ok(Vec::new()) };
        let (at, lens) = file.unanswered.pop_front().ok_or("it answered an offer twice")?;
        if at != known.at {
            return Err("it answered what was not offered");
        }
        let starts = std::iter::once(0).chain(lens.iter().scan(0, |sum, len| {
            *sum += u64::from(*len);
            Some(*sum)
        }));
        let starts: Vec<u64> = starts.map(|start| at + start).collect();
        let mut next = 0;
        for (first, end) in &known.chunks {
            let range = usize::from(*first)..usize::from(*end);
            if range.start < next || range.is_empty() || range.end > lens.len() {
                return Err("it answered what was not offered");
            }
            next = range.end;
            file.knows(starts[range.start]..starts[range.end]);
        }
        let end = *starts.last().expect("one at least");
        file.answered = end;
        let waiting = file.waiting.take();
        match known.chunks.is_empty() {
            true => state.missed += end - at,
            false => state.missed = 0,
        }
        self.changed.notify_all();
        Ok(waiting.map(|(item, _)| item).into_iter().chain(state.release()).collect())
    }

    /// The job ends: nothing more is offered, and what waits is not sent.
    pub(super) fn turn_off(&self) {
        let mut state = self.state.lock();
        state.is_off = true;
        state.queue.clear();
        self.changed.notify_all();
    }

    /// The files that have waited long enough.
    fn release(&self) -> Vec<Item> {
        self.state.lock().release()
    }

    /// The next file to be offered, if there is one within a moment.
    fn next_file(&self) -> Option<Item> {
        let mut state = self.state.lock();
        if state.queue.is_empty() && !state.is_off {
            self.changed.wait_for(&mut state, CANCEL_POLL);
        }
        state.queue.pop_front()
    }

    /// Notes an offer that is about to be sent. `None` if there is no room within a moment; false
    /// if its file is of no more interest.
    fn begin(&self, offer: &Offer) -> Option<bool> {
        let lens: Vec<_> = offer.chunks.iter().map(|chunk| chunk.len).collect();
        let len: u64 = lens.iter().map(|len| u64::from(*len)).sum();
        let mut state = self.state.lock();
        if state.ahead + len > AHEAD_MAX && !state.is_off {
            self.changed.wait_for(&mut state, CANCEL_POLL);
        }
        let State { files, ahead, is_off, .. } = &mut *state;
        let Some(file) = files.get_mut(&offer.index).filter(|_| !*is_off) else {
            return Some(false);
        };
        if *ahead + len > AHEAD_MAX {
            return None;
        }
        file.unanswered.push_back((offer.at, lens));
        let before = file.ahead();
        file.offered += len;
        file.reached = offer.at + len;
        *ahead += file.ahead() - before;
        Some(true)
    }

    /// All of a file was offered; gives it if it waits and no answer will come.
    fn end(&self, index: u64) -> Option<Item> {
        let mut state = self.state.lock();
        let file = state.files.get_mut(&index)?;
        file.is_all = true;
        if file.offered == 0 {
            // Nothing bounds the number of such files: none stays open until it is sent.
            file.source = None;
        }
        let last = file.waiting.take_if(|_| file.unanswered.is_empty());
        self.changed.notify_all();
        last.map(|(item, _)| item)
    }
}

impl State {
    /// True if content waits for answers.
    fn waits(&self) -> bool {
        !self.is_off && self.missed < MISSED_MAX && self.late < LATE_MAX
    }

    /// The files that have waited long enough, in the order in which they were wanted.
    fn release(&mut self) -> Vec<Item> {
        let waits = self.waits();
        let is_over = |(_, since): &mut (Item, Instant)| !waits || since.elapsed() >= ANSWER_MAX;
        let files = self.files.values_mut();
        let mut over: Vec<_> = files.filter_map(|file| file.waiting.take_if(is_over)).collect();
        over.sort_unstable_by_key(|(item, _)| item.index);
        over.into_iter().map(|(item, _)| item).collect()
    }
}

impl Offered {
    fn new(item: Item, waits: bool) -> Self {
        Self {
            waiting: waits.then(|| (item, Instant::now())),
            source: None,
            is_sent: false,
            unanswered: VecDeque::new(),
            answered: 0,
            known: VecDeque::new(),
            is_all: false,
            is_used: false,
            offered: 0,
            passed: 0,
            reached: 0,
        }
    }

    /// True if no answer will come.
    fn has_no_answer_due(&self) -> bool {
        self.is_all && self.unanswered.is_empty()
    }

    /// Bytes of it that were offered and not passed.
    fn ahead(&self) -> u64 {
        self.offered.saturating_sub(self.passed)
    }

    /// The Receiver has this, which is behind all that was known before.
    fn knows(&mut self, range: Range<u64>) {
        match self.known.back_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.known.push_back(range),
        }
    }

    /// The part that comes next; `None` where it was not answered.
    fn next(&self, at: u64, end: u64) -> Option<Part> {
        let behind = self.known.partition_point(|known| known.end <= at);
        match self.known.get(behind) {
            Some(known) if known.start <= at => Some(Part::Known(known.end.min(end))),
            Some(known) => Some(Part::New(known.start.min(end))),
            None => (at < self.answered).then(|| Part::New(self.answered.min(end))),
        }
    }
}

/// A range of a file, read from its beginning to its end.
struct Ranged<'s> {
    source: &'s dyn SourceFile,
    range: Range<u64>,
}

impl Read for Ranged<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.range.end - self.range.start;
        let len = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.source.read_at(&mut buf[..len], self.range.start)?;
        self.range.start += read as u64;
        Ok(read)
    }
}

/// The next part of `range` to be offered: data, with the holes in it that are shorter than a
/// chunk may be. `None` if there is only a hole.
fn next_dense(source: &dyn SourceFile, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
    let Some(mut dense) = source.next_data(range.start)? else { return Ok(None) };
    while dense.end < range.end {
        match source.next_data(dense.end)? {
            Some(next) if next.start - dense.end < CHUNK_LEN_MAX.into() => dense.end = next.end,
            _ => break,
        }
    }
    let dense = dense.start..dense.end.min(range.end);
    Ok(Some(dense).filter(|dense| !dense.is_empty()))
}

impl Sender<'_> {
    /// Has the workers of a wire send these, or has their chunks offered first.
    pub(super) fn send_wanted(&self, items: Vec<Item>) {
        let at_once = |item: Item| match item.how.wants_chunks() {
            true => self.offers.add(item),
            false => {
                self.offers.forget(item.index);
                Some(item)
            }
        };
        self.count_wanted(&items);
        self.queue_up(items.into_iter().filter_map(at_once).collect());
    }

    /// Takes the Receiver's answer to an offer.
    pub(super) fn take_known(&self, known: &Known) {
        match self.offers.answer(known) {
            Ok(items) => self.queue_up(items),
            Err(rule) => self.refuse(rule),
        }
    }

    /// Offers the chunks of what is wanted, until the job ends.
    pub(crate) fn run_offers(&self, outbox: &Outbox) {
        while !self.control.has_ended() {
            if let Some(item) = self.offers.next_file() {
                // A read error is reported by the worker that sends it.
                let _ = self.offer(&item, outbox);
                self.queue_up(self.offers.end(item.index).into_iter().collect());
            }
            self.queue_up(self.offers.release());
        }
    }

    fn offer(&self, item: &Item, outbox: &Outbox) -> Result<(), Fault> {
        if outbox.is_fast() {
            return Ok(());
        }
        let source: Arc<dyn SourceFile> = self.open(item)?.into();
        self.offers.opened(item.index, &source);
        let size = source.seal().size;
        if !is_still_wanted(item, &*source) {
            return Ok(());
        }
        for range in item.blocks.iter() {
            let (start, end) = range.bytes(size);
            let mut at = start;
            while let Ok(Some(range)) = next_dense(&*source, at..end) {
                at = range.end;
                let content = Ranged { source: &*source, range };
                if !self.offer_range(item.index, content, outbox) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Offers the chunks of a range of a file; false if no more of it are wanted.
    fn offer_range(&self, index: u64, content: Ranged<'_>, outbox: &Outbox) -> bool {
        let mut offer = Offer { index, at: content.range.start, chunks: Vec::new() };
        let mut len = 0;
        for chunk in chunks(content) {
            let Ok(haul_delta::Chunk { len: chunk_len, hash }) = chunk else { return false };
            offer.chunks.push(OfferedChunk { len: chunk_len, hash });
            len += u64::from(chunk_len);
            if len >= OFFER_LEN || offer.chunks.len() == OFFERED_PER_FRAME_MAX {
                let next = Offer { index, at: offer.at + len, chunks: Vec::new() };
                if !self.send_offer(std::mem::replace(&mut offer, next), outbox) {
                    return false;
                }
                len = 0;
            }
        }
        offer.chunks.is_empty() || self.send_offer(offer, outbox)
    }

    /// Sends an offer; false if no more of its file are wanted.
    fn send_offer(&self, offer: Offer, outbox: &Outbox) -> bool {
        while !outbox.is_fast() && !self.control.has_ended() {
            match self.offers.begin(&offer) {
                Some(true) => {
                    self.receiver.offer(offer);
                    return true;
                }
                Some(false) => return false,
                None => self.queue_up(self.offers.release()),
            }
        }
        false
    }
}

#[cfg(test)]
#[path = "offers_tests.rs"]
mod tests;

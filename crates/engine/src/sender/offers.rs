//! Chunks of wanted files, offered before they are sent. Chunks that the Receiver has are sent as a
//! Reuse, without content.
//!
//! One thread reads the files ahead in the order of the requests, splits them into chunks and
//! offers these. Offers are sent with the listing, before contents. A file is queued for sending
//! when its first offer is answered. Later answers usually arrive before its content is read.
//!
//! Offers must not cost time if they gain nothing:
//!
//! - While content leaves fast, nothing is offered.
//! - After 4 MiB without a known chunk, no content waits for answers. Answers that arrive in time
//!   are used. Offers continue, because the Receiver fills its index from them.
//! - No file waits longer than 2 s to be queued. If answers are repeatedly late, no content waits.

use super::{Item, Sender};
use crate::control::CANCEL_POLL;
use crate::link::wire::Outbox;
use haul_delta::{CHUNK_LEN_MAX, chunks};
use haul_model::Fault;
use haul_proto::{How, Known, OFFERED_PER_FRAME_MAX, Offer, OfferedChunk};
use haul_tree::SourceFile;
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Minimum content of one offer, in bytes.
const OFFER_LEN: u64 = 1 << 20;

/// The most bytes that are offered and not yet passed by a worker. The pages that were read for the
/// offer are then still in memory for sending.
const AHEAD_MAX: u64 = 64 << 20;

/// Answered bytes without a known chunk after which no content waits for answers.
const MISSED_MAX: u64 = 4 << 20;

/// The longest wait of a file, or of content, for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Late answers after which no content waits.
const LATE_MAX: u32 = 3;

/// The files whose chunks are offered.
#[derive(Default)]
pub(super) struct Offers {
    state: Mutex<OfferQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct OfferQueue {
    /// Files that are not offered yet.
    queue: VecDeque<Item>,
    files: HashMap<u64, Offered>,
    /// Bytes of all files that were offered and not passed.
    ahead: u64,
    /// Bytes that were answered since the last known chunk.
    missed: u64,
    /// Answers that did not arrive in time.
    late: u32,
    /// Offers have ended.
    is_stopped: bool,
}

/// A file that is being offered.
#[derive(Default)]
struct Offered {
    /// The file and the start of its wait, until it is queued.
    waiting: Option<(Item, Instant)>,
    /// The file as opened for the offer. The sending worker uses it, because it knows which pages
    /// were in memory before.
    source: Option<Arc<dyn SourceFile>>,
    /// A worker sends the file, and has taken `source` or opened the file itself.
    is_sent: bool,
    /// Offers without an answer: the start of each, and the lengths of its chunks.
    unanswered: VecDeque<(u64, Vec<u32>)>,
    /// The end of the answered part, in bytes.
    answered: u64,
    /// The parts that the Receiver has.
    known: VecDeque<Range<u64>>,
    /// All of the file was offered.
    is_fully_offered: bool,
    /// The Receiver has some of the file.
    has_known_parts: bool,
    /// Bytes of the file that were offered, and that were passed. Content may pass ahead of its
    /// offers.
    offered: u64,
    passed: u64,
    /// The end of the last offer, in bytes.
    reached: u64,
}

/// The next part of a file to send. The value is its end, in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The content must be sent.
    New(u64),
    /// The Receiver has it.
    Known(u64),
}

impl Part {
    /// The end of the part, in bytes.
    pub(super) fn end(&self) -> u64 {
        let (Self::New(end) | Self::Known(end)) = self;
        *end
    }
}

impl Offers {
    /// Adds a file to be offered. Returns it if it should be sent at once.
    fn add(&self, item: Item) -> Option<Item> {
        let mut state = self.state.lock();
        if state.is_stopped {
            return Some(item);
        }
        let index = item.index;
        state.queue.push_back(item.clone());
        let (waiting, at_once) = match state.waits() {
            true => (Some((item, Instant::now())), None),
            false => (None, Some(item)),
        };
        state.files.insert(index, Offered { waiting, ..Offered::default() });
        self.changed.notify_all();
        at_once
    }

    /// Removes a file that has its outcome or is sent whole.
    pub(super) fn forget(&self, index: u64) {
        let mut state = self.state.lock();
        if let Some(file) = state.files.remove(&index) {
            state.ahead -= file.ahead();
            self.changed.notify_all();
        }
    }

    /// The next part of a file, from `at` up to at most `end`. Waits for the answer while that may
    /// be useful.
    pub(super) fn next(&self, index: u64, at: u64, end: u64, stopped: impl Fn() -> bool) -> Part {
        let deadline = Instant::now() + ANSWER_MAX;
        let mut state = self.state.lock();
        loop {
            if state.waits() && Instant::now() >= deadline {
                // No content waits again until an answer has a known chunk.
                state.missed = MISSED_MAX;
                state.late += 1;
            }
            let waits = state.waits() && !stopped();
            let Some(file) = state.files.get_mut(&index) else { return Part::New(end) };
            // No answer is coming for content far ahead of its offers.
            let waits = waits && at <= file.reached.saturating_add(AHEAD_MAX);
            if let Some(part) = file.next(at, end) {
                file.has_known_parts |= matches!(part, Part::Known(_));
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
    pub(super) fn has_known_parts(&self, index: u64) -> bool {
        self.state.lock().files.get(&index).is_some_and(|file| file.has_known_parts)
    }

    /// Stores the file that was opened for offers.
    fn opened(&self, index: u64, source: &Arc<dyn SourceFile>) {
        if let Some(file) = self.state.lock().files.get_mut(&index).filter(|file| !file.is_sent) {
            file.source = Some(Arc::clone(source));
        }
    }

    /// Takes the file that was opened for offers, once.
    pub(super) fn take_source(&self, index: u64) -> Option<Arc<dyn SourceFile>> {
        let mut state = self.state.lock();
        let file = state.files.get_mut(&index)?;
        file.is_sent = true;
        file.source.take()
    }

    /// Counts `len` bytes of a file that were sent, are a hole, or were reused.
    pub(super) fn passed(&self, index: u64, len: u64) {
        let mut state = self.state.lock();
        let OfferQueue { files, ahead, .. } = &mut *state;
        if let Some(file) = files.get_mut(&index) {
            let before = file.ahead();
            file.passed += len;
            *ahead -= before - file.ahead();
            self.changed.notify_all();
        }
    }

    /// Processes an answer. Returns the files that no longer wait, or an error if it breaks a rule.
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
            file.add_known(starts[range.start]..starts[range.end]);
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

    /// Stops all offers at the end of the job. Waiting files are not sent.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.is_stopped = true;
        state.queue.clear();
        self.changed.notify_all();
    }

    /// The files that have waited long enough.
    fn release(&self) -> Vec<Item> {
        self.state.lock().release()
    }

    /// The next file to offer, if there is one within a moment.
    fn next_file(&self) -> Option<Item> {
        let mut state = self.state.lock();
        if state.queue.is_empty() && !state.is_stopped {
            self.changed.wait_for(&mut state, CANCEL_POLL);
        }
        state.queue.pop_front()
    }

    /// Records an offer that is about to be sent. `None` if there is no room within a moment. False
    /// if its file needs no more offers.
    fn begin(&self, offer: &Offer) -> Option<bool> {
        let lens: Vec<_> = offer.chunks.iter().map(|chunk| chunk.len).collect();
        let len: u64 = lens.iter().map(|len| u64::from(*len)).sum();
        let mut state = self.state.lock();
        if state.ahead + len > AHEAD_MAX && !state.is_stopped {
            self.changed.wait_for(&mut state, CANCEL_POLL);
        }
        let OfferQueue { files, ahead, is_stopped, .. } = &mut *state;
        let Some(file) = files.get_mut(&offer.index).filter(|_| !*is_stopped) else {
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

    /// Records that all of a file was offered. Returns the file if it waits and no answer will
    /// come.
    fn end(&self, index: u64) -> Option<Item> {
        let mut state = self.state.lock();
        let file = state.files.get_mut(&index)?;
        file.is_fully_offered = true;
        if file.offered == 0 {
            // The number of such files is unbounded, so none stays open.
            file.source = None;
        }
        let last = file.waiting.take_if(|_| file.unanswered.is_empty());
        self.changed.notify_all();
        last.map(|(item, _)| item)
    }
}

impl OfferQueue {
    /// True if content waits for answers.
    fn waits(&self) -> bool {
        !self.is_stopped && self.missed < MISSED_MAX && self.late < LATE_MAX
    }

    /// The files that have waited long enough, in the order of the listing.
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
    /// True if no answer will come.
    fn has_no_answer_due(&self) -> bool {
        self.is_fully_offered && self.unanswered.is_empty()
    }

    /// Bytes that were offered and not passed.
    fn ahead(&self) -> u64 {
        self.offered.saturating_sub(self.passed)
    }

    /// Adds a part that the Receiver has. It comes after all known parts.
    fn add_known(&mut self, range: Range<u64>) {
        match self.known.back_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.known.push_back(range),
        }
    }

    /// The next part; `None` if it is not answered yet.
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

/// The next part of `range` to offer: data, including holes shorter than the longest chunk. `None`
/// if only a hole is left.
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
    /// Queues files for the workers of a wire, or has their chunks offered first.
    pub(super) fn send_wanted(&self, items: Vec<Item>) {
        let at_once = |item: Item| match item.want.how.has(How::CHUNKS) {
            true => self.offers.add(item),
            false => {
                self.offers.forget(item.index);
                Some(item)
            }
        };
        self.count_wanted(&items);
        self.queue_up(items.into_iter().filter_map(at_once).collect());
    }

    /// Processes the Receiver's answer to an offer.
    pub(super) fn take_known(&self, known: &Known) {
        match self.offers.answer(known) {
            Ok(items) => self.queue_up(items),
            Err(rule) => self.fail_protocol(rule),
        }
    }

    /// Offers the chunks of wanted files until the job ends.
    pub(crate) fn run_offers(&self, outbox: &Outbox) {
        while !self.control.has_ended() {
            if let Some(item) = self.offers.next_file() {
                // The worker that sends the file reports its read errors.
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
        if !item.is_still_wanted(&*source) {
            return Ok(());
        }
        for range in item.want.blocks.iter() {
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

    /// Offers the chunks of a range of a file. Returns false if the file needs no more offers.
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

    /// Sends an offer. Returns false if the file needs no more offers.
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

//! A large file that is being sent: its wanted blocks in pieces, and the hash of each complete
//! block.

use super::differences::Search;
use super::item::{Unsent, given_up};
use super::offers::Part;
use super::passed::Passed;
use super::read::{Reader, read};
use super::stripes::{BlockTask, Striped};
use super::{Item, Sender};
use crate::control::CopyStep;
use crate::digest::hash_again;
use crate::link::wire::{Body, Counted, Effort, OutFrame, SentTally};
use crate::pool::Buf;
use haul_delta::Matcher;
use haul_model::{BLOCK_LEN, BlockHash, BlockRange, ContentHash, Fault};
use haul_proto::{BlockSeal, FileSeal, How, Message, Reuse, data_head};
use haul_tree::{SharedBlock, SourceChange, SourceFile, change_since_opened, changed};
use std::sync::Arc;

/// Content of one Data frame, in bytes, unless the rate is limited. No piece crosses a multiple of
/// it.
///
/// A quarter of a block: large enough that the frame's overhead is negligible. Small enough to stay
/// in the processor's cache while it is hashed and sent.
pub(super) const PIECE_LEN: u64 = 1 << 20;

/// A file that is being sent.
pub(super) struct Outgoing<'p, 'r, 'a> {
    pub(super) reader: &'p Reader<'r, 'a>,
    pub(super) item: &'p Item,
    pub(super) source: Arc<dyn SourceFile>,
    /// All that was sent, and also the rest if the hash of the whole file is wanted.
    pub(super) passed: Passed,
    /// The next block whose hash is sent; `u64::MAX` if the caller sends it.
    next_block: u64,
    /// Content is spliced from the file into the pipe.
    splices: bool,
    part: &'p mut [u8],
    /// Set if only differences are sent.
    search: Option<Search>,
    /// Bytes still to be sent that were already counted.
    pub(super) counted: u64,
    /// The counted bytes of the block, if a single block is sent.
    tally: Option<SentTally>,
}

impl<'r, 'a> Reader<'r, 'a> {
    /// Sends the wanted blocks of a file, using `part` as a buffer.
    pub(super) fn send_pieces(
        &self,
        item: &Item,
        source: Arc<dyn SourceFile>,
        part: &mut [u8],
    ) -> Result<FileSeal, Unsent> {
        if !item.is_still_wanted(&*source) {
            return Err(changed().into());
        }
        self.sender.ledger.record_opened(item.index, source.seal().size);
        let mut pieces = self.pieces(item, source, 0, part);
        // A repeated file has no checksums any more.
        if !item.want.how.has(How::DELTA) || item.is_repeated {
            return pieces.send();
        }
        let Some(signature) = self.sender.signatures.take(item.index) else {
            // Its outcome arrived meanwhile.
            return Err(given_up().into());
        };
        let shape = *signature.shape();
        pieces.search = Some(Search::new(Matcher::new(signature), shape.block_len()));
        let sent = pieces.send();
        self.sender.signatures.release(&shape);
        sent
    }

    fn pieces<'p>(
        &'p self,
        item: &'p Item,
        source: Arc<dyn SourceFile>,
        first: u64,
        part: &'p mut [u8],
    ) -> Outgoing<'p, 'r, 'a> {
        let is_unhashed = item.want.how.has(How::UNHASHED);
        // The writer also sends signs of life, so it must not wait for a disk: it splices pages
        // that were just read for the hash. Without a hash, a truncated or unreadable file would
        // not be noticed.
        let splices = self.outbox().splices()
            && !is_unhashed
            && source.handle().is_some_and(haul_sys::caches_reads);
        let (passed, next_block, search) = (Passed::behind(first, is_unhashed), u64::MAX, None);
        let (reader, counted, tally) = (self, item.recounted(), None);
        Outgoing { reader, item, source, passed, next_block, splices, part, search, counted, tally }
    }

    /// Sends one block of a file, using `part` as a buffer.
    pub(super) fn send_block(
        &self,
        file: &Arc<Striped>,
        block_task: &BlockTask,
        part: &mut [u8],
    ) -> Result<Option<BlockHash>, Unsent> {
        let (block, size) = (block_task.block, file.source.seal().size);
        let mut pieces = self.pieces(&file.item, Arc::clone(&file.source), block, part);
        pieces.counted = block_task.tally.get();
        pieces.tally = Some(block_task.tally.clone());
        let range = BlockRange { start: block, end: Some(block + 1) };
        let sent = match pieces.send_range(range, size) {
            Ok(()) if block_task.is_repeated => change_since_opened(&*file.source).map(drop),
            Ok(()) => Ok(()),
            Err(Unsent::Failed(fault)) => Err(fault),
            Err(Unsent::Stopped) => return Err(Unsent::Stopped),
        };
        let hash = pieces.passed.last().filter(|_| sent.is_ok());
        let len = if sent.is_ok() { file.block_len(block) as u32 } else { 0 };
        let seal = BlockSeal { index: file.item.index, block, len, hash };
        pieces.send_message(&Message::BlockSeal(seal))?;
        Ok(sent.map(|()| hash)?)
    }
}

/// The end of the source of `item`, with the `hash` of the sent content if one is wanted. If the
/// source has grown, its first part is hashed again, and the Receiver compares that with the
/// received content. Without a hash that is impossible, so the source counts as changed.
pub(super) fn seal_at_end(
    sender: &Sender<'_>,
    item: &Item,
    source: &dyn SourceFile,
    hash: Option<ContentHash>,
) -> Result<FileSeal, Fault> {
    let change = change_since_opened(source)?;
    let is_strict = sender.plan.strict_source && change == SourceChange::Grown;
    let (hash, grew) = match (change, hash) {
        // Without a hash, a change that size and time do not show is not noticed.
        (SourceChange::None, hash) | (SourceChange::Uncertain, hash @ None) => (hash, false),
        (_, None) => return Err(changed()),
        (_, Some(_)) if is_strict => return Err(changed()),
        (SourceChange::Uncertain, Some(hash)) if item.hashes_all() => {
            match hash_again(source, sender.control)? == hash {
                true => (Some(hash), false),
                false => return Err(changed()),
            }
        }
        _ => (Some(hash_again(source, sender.control)?), true),
    };
    let seal = source.seal();
    Ok(FileSeal { size: seal.size, mtime: seal.mtime, hash, grew })
}

impl Outgoing<'_, '_, '_> {
    fn send(mut self) -> Result<FileSeal, Unsent> {
        let (seal, item) = (self.source.seal(), self.item);
        for range in item.want.blocks.iter() {
            self.next_block = range.start;
            self.send_range(range, seal.size)?;
        }
        if item.want.how.has(How::WHOLE_HASH) {
            self.hash_up_to(seal.size)?;
        }
        let hash = self.passed.finish(!item.hashes_all());
        let sealed = seal_at_end(self.reader.sender, item, &*self.source, hash);
        self.check_running()?;
        Ok(sealed?)
    }

    fn check_running(&self) -> Result<(), Unsent> {
        if self.reader.control.stopped() { Err(Unsent::Stopped) } else { Ok(()) }
    }

    /// Checks that the Receiver still waits for the file.
    pub(super) fn check_awaited(&self) -> Result<(), Unsent> {
        match self.reader.sender.ledger.is_awaited(self.item.index) {
            true => Ok(()),
            false => Err(given_up().into()),
        }
    }

    pub(super) fn send_message(&self, message: &Message) -> Result<(), Unsent> {
        self.reader.outbox().send(OutFrame::message(message)).ok_or(Unsent::Stopped)
    }

    /// Sends `len` bytes of content that belong at `at`.
    pub(super) fn send_content(
        &mut self,
        effort: Option<Effort>,
        at: u64,
        body: Body,
        len: usize,
    ) -> Result<(), Unsent> {
        let counts = self.counts(len as u64).into_iter().collect();
        let frame = self.reader.frame(effort, data_head(self.item.index, at, len), body);
        self.reader.outbox().send(frame.counting(counts)).ok_or(Unsent::Stopped)?;
        self.record_passed(len as u64);
        Ok(())
    }

    /// A buffer for `len` bytes.
    pub(super) fn buffer(&self, len: usize) -> Result<Buf, Unsent> {
        self.reader.pool.take(len, self.reader.control).ok_or(Unsent::Stopped)
    }

    /// Sends a range of a file of `size` bytes.
    fn send_range(&mut self, range: BlockRange, size: u64) -> Result<(), Unsent> {
        let (start, end) = range.bytes(size);
        match self.item.want.how.has(How::WHOLE_HASH) {
            true => self.hash_up_to(start)?,
            // Skipped content is not hashed, and the hash of the tail does not need it.
            false => self.passed.skip_to(range.start),
        }
        while self.passed.len() < end {
            let data = self.source.next_data(self.passed.len()).map_err(read)?;
            let data = data.map_or(end..end, |data| data.start.min(end)..data.end.min(end));
            self.send_hole(data.start)?;
            self.send_dense(data.end)?;
        }
        Ok(())
    }

    /// The number of the next `len` bytes that were not counted before.
    fn uncounted(&mut self, len: u64) -> u64 {
        let before = self.counted.min(len);
        self.counted -= before;
        len - before
    }

    /// The next `len` bytes of the file, as far as they count when they leave.
    fn counts(&mut self, len: u64) -> Option<Counted> {
        let len = self.uncounted(len);
        let counted = self.reader.sender.ledger.counts(self.item.index, len)?;
        Some(Counted { tally: self.tally.clone(), ..counted })
    }

    /// Sends the content up to `end`, or Reuses for parts that the Receiver has.
    fn send_dense(&mut self, end: u64) -> Result<(), Unsent> {
        let Some(mut search) = self.search.take() else { return self.send_new(end) };
        let sent = self.send_differences(&mut search, end);
        self.search = Some(search);
        sent
    }

    /// Sends the content up to `end`, or Reuses for chunks that the Receiver has.
    fn send_new(&mut self, end: u64) -> Result<(), Unsent> {
        if !self.item.want.how.has(How::CHUNKS) {
            return self.send_data(end);
        }
        while self.passed.len() < end {
            let at = self.passed.len();
            // Answers to offers may arrive while the next block is sent.
            let block_end = ((at / BLOCK_LEN + 1) * BLOCK_LEN).min(end);
            match self.next_part(at, block_end) {
                Part::New(to) => self.send_data(to)?,
                Part::Known(to) => {
                    self.hash((to - at) as usize)?;
                    self.check_awaited()?;
                    self.source.release(at..to);
                    self.send_known(at)?;
                }
            }
        }
        Ok(())
    }

    /// The next part, from `at` up to at most `end`.
    pub(super) fn next_part(&self, at: u64, end: u64) -> Part {
        let Reader { sender, control, .. } = self.reader;
        match self.item.want.how.has(How::CHUNKS) {
            true => sender.offers.next(self.item.index, at, end, || control.stopped()),
            false => Part::New(end),
        }
    }

    /// Sends a Reuse for the passed content from `at` on, within one block.
    pub(super) fn send_known(&mut self, at: u64) -> Result<(), Unsent> {
        let (sender, index) = (self.reader.sender, self.item.index);
        let len = self.passed.len() - at;
        let uncounted = self.uncounted(len);
        sender.ledger.count_progress(index, CopyStep::Matched(uncounted));
        self.tally.iter().for_each(|tally| tally.add(uncounted));
        sender.offers.passed(index, len);
        let reuse = Reuse { index, at, from: None, len: len as u32 };
        self.send_message(&Message::Reuse(reuse))?;
        self.seal_block()
    }

    /// Sends the content up to `end`.
    fn send_data(&mut self, end: u64) -> Result<(), Unsent> {
        while self.passed.len() < end {
            self.check_awaited()?;
            if let Some(block) = self.shared_block(end) {
                self.send_shared(&block?)?;
                continue;
            }
            let at = self.passed.len();
            let len = self.piece_len(at, end);
            let effort = self.reader.effort(Some(self.item.index));
            let body = if self.splices && effort.is_none() {
                self.hash(len)?;
                Body::Range { source: Arc::clone(&self.source), offset: at, len }
            } else {
                let mut bytes = self.buffer(len)?;
                for part in bytes.chunks_mut(self.part.len()) {
                    read_part(&*self.source, &mut self.passed, part)?;
                }
                self.source.release(at..at + len as u64);
                Body::Bytes(bytes)
            };
            self.send_content(effort, at, body, len)?;
            self.seal_block()?;
        }
        Ok(())
    }

    /// The length of the piece at `at`, before `end`. Other messages wait for a piece, so a low rate
    /// makes it short.
    fn piece_len(&self, at: u64, end: u64) -> usize {
        let len_max = (end - at).min(self.reader.sender.control.part());
        (PIECE_LEN - at % PIECE_LEN).min(len_max) as usize
    }

    /// Records `len` more passed bytes.
    pub(super) fn record_passed(&self, len: u64) {
        if self.item.want.how.has(How::CHUNKS) {
            self.reader.sender.offers.passed(self.item.index, len);
        }
    }

    /// The next block, if it ends before `end` and other jobs send it too.
    fn shared_block(&self, end: u64) -> Option<Result<Arc<SharedBlock>, Fault>> {
        let at = self.passed.len();
        let block_end = at.checked_add(BLOCK_LEN)?.min(self.source.seal().size);
        // Without hashes there is little to share.
        let is_alone = self.item.want.how.has(How::UNHASHED);
        if is_alone || !at.is_multiple_of(BLOCK_LEN) || block_end > end {
            return None;
        }
        let block = self.source.shared_block(at / BLOCK_LEN)?;
        Some(block.map_err(read))
    }

    /// Sends the next block.
    fn send_shared(&mut self, block: &Arc<SharedBlock>) -> Result<(), Unsent> {
        let start = self.passed.len();
        self.passed.take(block);
        let mut at = start;
        while at < self.passed.len() {
            let len = self.piece_len(at, self.passed.len());
            let from = (at - start) as usize;
            let effort = self.reader.effort(Some(self.item.index));
            let (block, part) = (Arc::clone(block), from..from + len);
            let body = Body::Shared { block, part, _held: self.buffer(0)? };
            self.send_content(effort, at, body, len)?;
            at += len as u64;
        }
        self.source.release(start..at);
        self.seal_block()
    }

    /// Passes a hole up to `end`, and sends the hash of each block.
    fn send_hole(&mut self, end: u64) -> Result<(), Unsent> {
        while self.passed.len() < end {
            self.check_awaited()?;
            self.check_running()?;
            let block_end = (self.passed.len() / BLOCK_LEN + 1).saturating_mul(BLOCK_LEN);
            let len = block_end.min(end) - self.passed.len();
            self.passed.update_zeros(len);
            let (index, uncounted) = (self.item.index, self.uncounted(len));
            self.reader.sender.ledger.count_progress(index, CopyStep::Passed(uncounted));
            self.record_passed(len);
            self.tally.iter().for_each(|tally| tally.add(uncounted));
            self.seal_block()?;
        }
        Ok(())
    }

    /// Sends the hash of the block that has just become complete, if any.
    pub(super) fn seal_block(&mut self) -> Result<(), Unsent> {
        if let Some(hash) = self.passed.block(self.next_block) {
            let (block, len) = (self.next_block, BLOCK_LEN as u32);
            let seal = BlockSeal { index: self.item.index, block, len, hash };
            self.send_message(&Message::BlockSeal(seal))?;
            self.next_block += 1;
        }
        Ok(())
    }

    /// Hashes content before `end` that is not sent.
    fn hash_up_to(&mut self, end: u64) -> Result<(), Unsent> {
        while self.passed.len() < end {
            self.check_running()?;
            let at = self.passed.len();
            let len = (end - at).min(PIECE_LEN);
            self.hash(len as usize)?;
            self.source.release(at..at + len);
        }
        Ok(())
    }

    /// Hashes the next `len` bytes in parts that fit into the processor's cache.
    fn hash(&mut self, len: usize) -> Result<(), Fault> {
        let end = self.passed.len() + len as u64;
        while self.passed.len() < end {
            let len = self.part.len().min((end - self.passed.len()) as usize);
            read_part(&*self.source, &mut self.passed, &mut self.part[..len])?;
        }
        Ok(())
    }
}

/// Reads the next bytes of a file into `part`, and hashes them.
fn read_part(source: &dyn SourceFile, passed: &mut Passed, part: &mut [u8]) -> Result<(), Fault> {
    if source.read_at(part, passed.len()).map_err(read)? < part.len() {
        return Err(changed());
    }
    passed.update(part);
    Ok(())
}

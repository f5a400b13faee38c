//! A large file that is being sent: its wanted blocks in pieces, and the hash of each complete
//! block.

use super::Item;
use super::differences::Search;
use super::item::{Sent, given_up};
use super::offers::Part;
use super::passed::Passed;
use super::read::{Reader, read};
use super::stripes::{BlockTask, SentBlock, Striped};
use crate::control::CopyStep;
use crate::digest::hash_again;
use crate::link::wire::{Body, Counted, OutFrame, SentTally};
use haul_delta::Matcher;
use haul_model::{BLOCK_LEN, BlockRange, ContentHash, Fault};
use haul_proto::{BlockSeal, FileSeal, Message, Reuse, data_head};
use haul_tree::{SharedBlock, SourceFile, changed, has_grown};
use std::sync::Arc;

/// Content of one Data frame, in bytes. Pieces start at multiples of it.
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
    ) -> Sent<FileSeal> {
        if !item.is_still_wanted(&*source) {
            return Some(Err(changed()));
        }
        self.sender.ledger.record_opened(item.index, source.seal().size);
        let mut pieces = self.pieces(item, source, 0, part);
        // A repeated file has no checksums any more.
        if !item.how.wants_delta() || item.is_repeated {
            return pieces.send();
        }
        let Some(signature) = self.sender.signatures.take(item.index) else {
            // Its outcome arrived meanwhile.
            return Some(Err(given_up()));
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
        let is_unhashed = item.how.wants_no_hash();
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
    ) -> SentBlock {
        let (block, size) = (block_task.block, file.source.seal().size);
        let mut pieces = self.pieces(&file.item, Arc::clone(&file.source), block, part);
        pieces.counted = block_task.tally.get();
        pieces.tally = Some(block_task.tally.clone());
        let range = BlockRange { start: block, end: Some(block + 1) };
        let mut sent = pieces.send_range(range, size)?;
        if block_task.is_repeated && sent.is_ok() {
            sent = has_grown(&*file.source).map(drop);
        }
        let sent = sent.map(|()| pieces.passed.last());
        let (index, hash) = (file.item.index, sent.as_ref().ok().copied().flatten());
        let len = if sent.is_ok() { file.block_len(block) as u32 } else { 0 };
        let seal = BlockSeal { index, block, len, hash };
        self.outbox().send(OutFrame::message(&Message::BlockSeal(seal)))?;
        Some(sent)
    }

    /// The end of a source, with the `hash` of the sent content if one is wanted. If the source has
    /// grown, its first part is hashed again, and the Receiver compares that with the received
    /// content. Without a hash that is impossible, so the source counts as changed.
    pub(super) fn seal_at_end(
        &self,
        source: &dyn SourceFile,
        hash: Option<ContentHash>,
    ) -> Result<FileSeal, Fault> {
        let grew = has_grown(source)?;
        let hash = match grew {
            false => hash,
            true if hash.is_none() || self.sender.plan.strict_source => return Err(changed()),
            true => Some(hash_again(source, self.control)?),
        };
        let seal = source.seal();
        Ok(FileSeal { size: seal.size, mtime: seal.mtime, hash, grew })
    }
}

impl Outgoing<'_, '_, '_> {
    fn send(mut self) -> Sent<FileSeal> {
        let seal = self.source.seal();
        let item = self.item;
        for range in item.blocks.iter() {
            self.next_block = range.start;
            if let Err(fault) = self.send_range(range, seal.size)? {
                return Some(Err(fault));
            }
        }
        let is_whole = item.how.wants_whole_hash() || item.blocks.is_all();
        if item.how.wants_whole_hash()
            && let Err(fault) = self.hash_up_to(seal.size)?
        {
            return Some(Err(fault));
        }
        let sealed = self.reader.seal_at_end(&*self.source, self.passed.finish(!is_whole));
        if self.reader.control.stopped() {
            return None;
        }
        Some(sealed)
    }

    /// Sends a range of a file of `size` bytes.
    fn send_range(&mut self, range: BlockRange, size: u64) -> Sent {
        let (start, end) = range.bytes(size);
        if self.item.how.wants_whole_hash() {
            if let Err(fault) = self.hash_up_to(start)? {
                return Some(Err(fault));
            }
        } else {
            // Skipped content is not hashed, and the hash of the tail does not need it.
            self.passed.skip_to(range.start);
        }
        while self.passed.len() < end {
            let data = match self.source.next_data(self.passed.len()) {
                Ok(Some(data)) => data.start.min(end)..data.end.min(end),
                Ok(None) => end..end,
                Err(error) => return Some(Err(read(error))),
            };
            let sent = match self.send_hole(data.start)? {
                Ok(()) => self.send_dense(data.end)?,
                Err(fault) => Err(fault),
            };
            if let Err(fault) = sent {
                return Some(Err(fault));
            }
        }
        Some(Ok(()))
    }

    /// The number of the next `len` bytes that were not counted before.
    fn uncounted(&mut self, len: u64) -> u64 {
        let before = self.counted.min(len);
        self.counted -= before;
        len - before
    }

    /// The next `len` bytes of the file, as far as they count when they leave.
    pub(super) fn counts(&mut self, len: u64) -> Option<Counted> {
        let len = self.uncounted(len);
        let counted = self.reader.sender.ledger.counts(self.item.index, len)?;
        Some(Counted { tally: self.tally.clone(), ..counted })
    }

    /// Sends the content up to `end`, or Reuses for parts that the Receiver has.
    fn send_dense(&mut self, end: u64) -> Sent {
        let Some(mut search) = self.search.take() else { return self.send_new(end) };
        let sent = self.send_differences(&mut search, end);
        self.search = Some(search);
        sent
    }

    /// Sends the content up to `end`, or Reuses for chunks that the Receiver has.
    fn send_new(&mut self, end: u64) -> Sent {
        if !self.item.how.wants_chunks() {
            return self.send_data(end);
        }
        while self.passed.len() < end {
            let at = self.passed.len();
            // Answers to offers may arrive while the next block is sent.
            let block_end = ((at / BLOCK_LEN + 1) * BLOCK_LEN).min(end);
            let sent = match self.next_part(at, block_end) {
                Part::New(to) => self.send_data(to)?,
                Part::Known(to) => match self.hash((to - at) as usize) {
                    Ok(()) if !self.reader.sender.ledger.is_awaited(self.item.index) => {
                        Err(given_up())
                    }
                    Ok(()) => {
                        self.source.release(at..to);
                        self.send_known(at)?;
                        Ok(())
                    }
                    changed => changed,
                },
            };
            if let Err(fault) = sent {
                return Some(Err(fault));
            }
        }
        Some(Ok(()))
    }

    /// The next part, from `at` up to at most `end`.
    pub(super) fn next_part(&self, at: u64, end: u64) -> Part {
        let Reader { sender, control, .. } = self.reader;
        match self.item.how.wants_chunks() {
            true => sender.offers.next(self.item.index, at, end, || control.stopped()),
            false => Part::New(end),
        }
    }

    /// Sends a Reuse for the passed content from `at` on, within one block.
    pub(super) fn send_known(&mut self, at: u64) -> Option<()> {
        let (sender, index) = (self.reader.sender, self.item.index);
        let len = self.passed.len() - at;
        let uncounted = self.uncounted(len);
        sender.ledger.count_progress(index, CopyStep::Matched(uncounted));
        self.tally.iter().for_each(|tally| tally.add(uncounted));
        sender.offers.passed(index, len);
        let reuse = Reuse { index, at, from: None, len: len as u32 };
        self.reader.outbox().send(OutFrame::message(&Message::Reuse(reuse)))?;
        self.seal_block()
    }

    /// Sends the content up to `end`.
    fn send_data(&mut self, end: u64) -> Sent {
        let Reader { sender, pool, control, .. } = self.reader;
        while self.passed.len() < end {
            if !sender.ledger.is_awaited(self.item.index) {
                return Some(Err(given_up()));
            }
            let (index, at) = (self.item.index, self.passed.len());
            if let Some(block) = self.shared_block(end) {
                match block {
                    Ok(block) => self.send_shared(&block)?,
                    Err(fault) => return Some(Err(fault)),
                }
                continue;
            }
            let len = (PIECE_LEN - at % PIECE_LEN).min(end - at) as usize;
            let effort = self.reader.effort(Some(index));
            let (body, hashed) = if self.splices && effort.is_none() {
                let hashed = self.hash(len);
                (Body::Range { source: Arc::clone(&self.source), offset: at, len }, hashed)
            } else {
                let mut bytes = pool.take(len, control)?;
                let mut parts = bytes.chunks_mut(self.part.len());
                let (source, passed) = (&*self.source, &mut self.passed);
                let hashed = parts.try_for_each(|part| read_part(source, passed, part));
                source.release(at..at + len as u64);
                (Body::Bytes(bytes), hashed)
            };
            if let Err(fault) = hashed {
                return Some(Err(fault));
            }
            let counts = self.counts(len as u64);
            self.reader.send_content(effort, data_head(index, at, len), body, counts)?;
            self.record_passed(len as u64);
            self.seal_block()?;
        }
        Some(Ok(()))
    }

    /// Records `len` more passed bytes.
    pub(super) fn record_passed(&self, len: u64) {
        if self.item.how.wants_chunks() {
            self.reader.sender.offers.passed(self.item.index, len);
        }
    }

    /// The next block, if it ends before `end` and other jobs send it too.
    fn shared_block(&self, end: u64) -> Option<Result<Arc<SharedBlock>, Fault>> {
        let at = self.passed.len();
        let block_end = at.checked_add(BLOCK_LEN)?.min(self.source.seal().size);
        // Without hashes there is little to share.
        let is_alone = self.item.how.wants_no_hash();
        if is_alone || !at.is_multiple_of(BLOCK_LEN) || block_end > end {
            return None;
        }
        let block = self.source.shared_block(at / BLOCK_LEN)?;
        Some(block.map_err(read))
    }

    /// Sends the next block.
    fn send_shared(&mut self, block: &Arc<SharedBlock>) -> Option<()> {
        let Reader { pool, control, .. } = self.reader;
        let (index, start) = (self.item.index, self.passed.len());
        self.passed.take(block);
        let mut at = start;
        while at < self.passed.len() {
            let len = PIECE_LEN.min(self.passed.len() - at) as usize;
            let from = (at - start) as usize;
            let effort = self.reader.effort(Some(index));
            let (block, part) = (Arc::clone(block), from..from + len);
            let body = Body::Shared { block, part, _held: pool.take(0, control)? };
            let counts = self.counts(len as u64);
            self.reader.send_content(effort, data_head(index, at, len), body, counts)?;
            self.record_passed(len as u64);
            at += len as u64;
        }
        self.source.release(start..at);
        self.seal_block()
    }

    /// Passes a hole up to `end`, and sends the hash of each block.
    fn send_hole(&mut self, end: u64) -> Sent {
        let Reader { sender, control, .. } = self.reader;
        while self.passed.len() < end {
            if !sender.ledger.is_awaited(self.item.index) {
                return Some(Err(given_up()));
            }
            let block_end = (self.passed.len() / BLOCK_LEN + 1).saturating_mul(BLOCK_LEN);
            if control.stopped() {
                return None;
            }
            let len = block_end.min(end) - self.passed.len();
            self.passed.update_zeros(len);
            let uncounted = self.uncounted(len);
            sender.ledger.count_progress(self.item.index, CopyStep::Passed(uncounted));
            self.record_passed(len);
            self.tally.iter().for_each(|tally| tally.add(uncounted));
            self.seal_block()?;
        }
        Some(Ok(()))
    }

    /// Sends the hash of the block that has just become complete, if any.
    pub(super) fn seal_block(&mut self) -> Option<()> {
        if let Some(hash) = self.passed.block(self.next_block) {
            let (block, len) = (self.next_block, BLOCK_LEN as u32);
            let seal = BlockSeal { index: self.item.index, block, len, hash };
            self.reader.outbox().send(OutFrame::message(&Message::BlockSeal(seal)))?;
            self.next_block += 1;
        }
        Some(())
    }

    /// Hashes content before `end` that is not sent.
    fn hash_up_to(&mut self, end: u64) -> Sent {
        while self.passed.len() < end {
            if self.reader.control.stopped() {
                return None;
            }
            let at = self.passed.len();
            let len = (end - at).min(PIECE_LEN);
            if let Err(fault) = self.hash(len as usize) {
                return Some(Err(fault));
            }
            self.source.release(at..at + len);
        }
        Some(Ok(()))
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

//! A large file on its way: the blocks that are wanted of it, in pieces, each whole
//! block vouched for by its hash.

use super::Item;
use super::differences::Search;
use super::read::{Reader, is_still_wanted, read};
use super::stripes::{SentBlock, Striped};
use crate::control::Step;
use crate::copy;
use crate::digest::hash_again;
use crate::link::wire::{Body, OutFrame};
use haul_delta::Matcher;
use haul_model::{BLOCK_LEN, BlockRange, ContentHash, ContentHasher, Fault, FaultKind, Side};
use haul_proto::{BlockSeal, FileSeal, Message, data_head};
use haul_tree::{SourceFile, changed, is_longer};
use std::sync::Arc;

/// Content of one Data frame, in bytes. Pieces begin at multiples of it.
///
/// A quarter of a block: large enough that a frame costs nothing, small enough
/// that it is still in the processor's cache when it is hashed and sent.
pub(super) const PIECE_LEN: u64 = 1 << 20;

/// A file that is being sent.
pub(super) struct Outgoing<'p, 'r, 'a> {
    pub(super) reader: &'p Reader<'r, 'a>,
    pub(super) item: &'p Item,
    pub(super) source: Arc<dyn SourceFile>,
    /// All that was sent, and, where the hash of the whole is wanted, the rest.
    pub(super) hasher: ContentHasher,
    /// The next block to vouch for.
    next_block: u64,
    /// Content goes from the file into the pipe.
    splices: bool,
    part: &'p mut [u8],
    /// Only what differs is sent.
    search: Option<Search>,
}

/// `None` where the job ends; a fault where the file can't be sent.
pub(super) type Sent<T = ()> = Option<Result<T, Fault>>;

impl<'r, 'a> Reader<'r, 'a> {
    /// Sends the wanted blocks of a file, by way of `part`.
    pub(super) fn send_pieces(
        &self,
        item: &Item,
        source: Arc<dyn SourceFile>,
        part: &mut [u8],
    ) -> Sent<FileSeal> {
        if !is_still_wanted(item, &*source) {
            return Some(Err(changed()));
        }
        self.sender.was_opened(item.index, source.seal().size);
        let mut pieces = self.pieces(item, source, ContentHasher::new(), part);
        if !item.how.wants_delta() {
            return pieces.send();
        }
        let Some(signature) = self.sender.signed.take(item.index) else {
            // Its outcome was told meanwhile.
            return Some(Err(given_up()));
        };
        let shape = *signature.shape();
        pieces.search = Some(Search::new(Matcher::new(signature), shape.block_len()));
        let sent = pieces.send();
        self.sender.signed.release(&shape);
        sent
    }

    fn pieces<'p>(
        &'p self,
        item: &'p Item,
        source: Arc<dyn SourceFile>,
        hasher: ContentHasher,
        part: &'p mut [u8],
    ) -> Outgoing<'p, 'r, 'a> {
        // The writer says that this side is there, so it must not wait for a disk: it
        // takes what was just read for the hash.
        let splices =
            self.outbox().splices() && source.handle().is_some_and(haul_sys::remembers_reads);
        let (next_block, search) = (0, None);
        Outgoing { reader: self, item, source, hasher, next_block, splices, part, search }
    }

    /// Sends one block of a file, by way of `part`.
    pub(super) fn send_block(&self, file: &Striped, block: u64, part: &mut [u8]) -> SentBlock {
        let Striped { item, source, .. } = file;
        let hasher = ContentHasher::behind(block);
        let mut pieces = self.pieces(item, Arc::clone(source), hasher, part);
        let range = BlockRange { start: block, end: Some(block + 1) };
        let sent = pieces.send_range(range, source.seal().size)?;
        Some(sent.and_then(|()| pieces.hasher.last().ok_or_else(changed)))
    }

    /// The `hash` of what was sent. If the source has grown, which is told, that of as much
    /// of it as it is now: the receiver compares it with what has arrived.
    pub(super) fn hash_at_end(
        &self,
        source: &dyn SourceFile,
        hash: ContentHash,
    ) -> Result<(ContentHash, bool), Fault> {
        if !is_longer(source)? {
            return Ok((hash, false));
        }
        if self.sender.wants_still() {
            return Err(changed());
        }
        Ok((hash_again(source, self.control)?, true))
    }
}

impl Outgoing<'_, '_, '_> {
    fn send(mut self) -> Sent<FileSeal> {
        let seal = self.source.seal();
        let item = self.item;
        for range in item.blocks.iter() {
            if let Err(fault) = self.send_range(range, seal.size)? {
                return Some(Err(fault));
            }
        }
        let hash = if item.how.wants_whole_hash() {
            if let Err(fault) = self.hash_up_to(seal.size)? {
                return Some(Err(fault));
            }
            self.hasher.finish()
        } else if item.blocks.is_all() {
            self.hasher.finish()
        } else {
            self.hasher.finish_tail()
        };
        let sealed = self.reader.hash_at_end(&*self.source, hash);
        if self.reader.control.stopped() {
            return None;
        }
        Some(sealed.map(|(hash, grew)| FileSeal { size: seal.size, mtime: seal.mtime, hash, grew }))
    }

    /// Sends a range of a file that is `size` bytes long.
    fn send_range(&mut self, range: BlockRange, size: u64) -> Sent {
        let (start, end) = range.bytes(size);
        if self.item.how.wants_whole_hash() {
            if let Err(fault) = self.hash_up_to(start)? {
                return Some(Err(fault));
            }
        } else {
            // Of what is not sent nothing is known, and the tail needs nothing.
            self.hasher.skip_to(range.start);
        }
        self.next_block = range.start;
        while self.hasher.len() < end {
            let data = match self.source.next_data(self.hasher.len()) {
                Ok(Some(data)) => data.start.min(end)..data.end.min(end),
                Ok(None) => end..end,
                Err(error) => return Some(Err(read(&error))),
            };
            let sent = match self.tell_hole(data.start)? {
                Ok(()) => self.send_what_is_there(data.end)?,
                Err(fault) => Err(fault),
            };
            if let Err(fault) = sent {
                return Some(Err(fault));
            }
        }
        Some(Ok(()))
    }

    /// Sends what there is up to `end`, or tells what the Receiver has of it.
    fn send_what_is_there(&mut self, end: u64) -> Sent {
        let Some(mut search) = self.search.take() else { return self.send_data(end) };
        let sent = self.send_differences(&mut search, end);
        self.search = Some(search);
        sent
    }

    /// Sends what there is up to `end`.
    fn send_data(&mut self, end: u64) -> Sent {
        let Reader { sender, pool, control, .. } = self.reader;
        while self.hasher.len() < end {
            if !sender.is_awaited(self.item.index) {
                return Some(Err(given_up()));
            }
            let (index, at) = (self.item.index, self.hasher.len());
            let len = (PIECE_LEN - at % PIECE_LEN).min(end - at) as usize;
            let effort = self.reader.effort(Some(index));
            let (body, hashed) = if self.splices && effort.is_none() {
                let hashed = self.hash(len);
                (Body::Range { source: Arc::clone(&self.source), offset: at, len }, hashed)
            } else {
                let mut bytes = pool.take(len, control)?;
                let mut parts = bytes.chunks_mut(self.part.len());
                let (source, hasher) = (&*self.source, &mut self.hasher);
                let hashed = parts.try_for_each(|part| hash_part(source, hasher, part));
                source.release(at..at + len as u64);
                (Body::Bytes(bytes), hashed)
            };
            if let Err(fault) = hashed {
                return Some(Err(fault));
            }
            self.reader.send_content(effort, data_head(index, at, len), body)?;
            sender.came_by(index, Step::Moved(len as u64));
            self.seal_block()?;
        }
        Some(Ok(()))
    }

    /// Hashes a hole up to `end`, and vouches for each block of it by itself.
    fn tell_hole(&mut self, end: u64) -> Sent {
        let Reader { sender, control, .. } = self.reader;
        while self.hasher.len() < end {
            if !sender.is_awaited(self.item.index) {
                return Some(Err(given_up()));
            }
            let block_end = (self.hasher.len() / BLOCK_LEN + 1).saturating_mul(BLOCK_LEN);
            let mut passed = |len| sender.came_by(self.item.index, Step::Passed(len));
            copy::hash_hole(&mut self.hasher, block_end.min(end), control, &mut passed)?;
            self.seal_block()?;
        }
        Some(Ok(()))
    }

    /// Vouches for the block that is whole by now, if there is one.
    pub(super) fn seal_block(&mut self) -> Option<()> {
        if let Some(hash) = self.hasher.block(self.next_block) {
            let seal = BlockSeal { index: self.item.index, block: self.next_block, hash };
            self.reader.outbox().send(OutFrame::message(&Message::BlockSeal(seal)))?;
            self.next_block += 1;
        }
        Some(())
    }

    /// Hashes what is in front of `end`, and is not sent.
    fn hash_up_to(&mut self, end: u64) -> Sent {
        while self.hasher.len() < end {
            if self.reader.control.stopped() {
                return None;
            }
            let len = (end - self.hasher.len()).min(PIECE_LEN) as usize;
            if let Err(fault) = self.hash(len) {
                return Some(Err(fault));
            }
        }
        Some(Ok(()))
    }

    /// Hashes the next `len` bytes, a part at a time, so that it stays in the
    /// processor's cache.
    fn hash(&mut self, len: usize) -> Result<(), Fault> {
        let end = self.hasher.len() + len as u64;
        while self.hasher.len() < end {
            let len = self.part.len().min((end - self.hasher.len()) as usize);
            hash_part(&*self.source, &mut self.hasher, &mut self.part[..len])?;
        }
        Ok(())
    }
}

/// Reads the next bytes of a file into `part`, and hashes them.
fn hash_part(
    source: &dyn SourceFile,
    hasher: &mut ContentHasher,
    part: &mut [u8],
) -> Result<(), Fault> {
    if source.read_at(part, hasher.len()).map_err(|error| read(&error))? < part.len() {
        return Err(changed());
    }
    hasher.update(part);
    Ok(())
}

/// The receiver gave a file up; it knows why.
pub(super) fn given_up() -> Fault {
    Fault::new(Side::Destination, FaultKind::Io, "it was given up")
}

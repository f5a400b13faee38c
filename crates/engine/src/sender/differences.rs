//! A large file of which the Receiver has an older version. Parts that the old version has are sent
//! as a Reuse with their old position; the rest is sent as content.

use super::item::Unsent;
use super::offers::Part;
use super::pieces::{Outgoing, PIECE_LEN};
use super::read::read;
use crate::control::CopyStep as Progress;
use crate::link::wire::Body;
use haul_delta::{DeltaStep, Matcher};
use haul_model::BLOCK_LEN;
use haul_proto::{Message, Reuse};
use haul_sys::{VectorWork, with_vectors};
use haul_tree::changed;
use std::ops::Range;

/// The search for differences, and the part of the file that was read for it.
pub(super) struct Search {
    matcher: Matcher,
    window: Window,
    /// The next Reuse, which is sent once it can't grow further.
    reuse: Option<Reuse>,
}

impl Search {
    /// A search with windows of twice `block_len`.
    pub(super) fn new(matcher: Matcher, block_len: usize) -> Self {
        Self { matcher, window: Window::new(2 * block_len + PIECE_LEN as usize), reuse: None }
    }
}

/// A part of the file in memory, with room for the shortest input that completes a search step, and
/// a piece.
struct Window {
    bytes: Vec<u8>,
    /// The bytes of sent Reuses that are not hashed yet. Hashing many bytes at once is faster.
    sent: Range<usize>,
    /// The end of the bytes that were read.
    read: usize,
}

impl Window {
    fn new(len: usize) -> Self {
        Self { bytes: vec![0; len], sent: 0..0, read: 0 }
    }

    /// The bytes that were read and not sent yet.
    fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent.end..self.read]
    }

    /// Drops the bytes that were sent, and returns the room after the others.
    fn room(&mut self) -> &mut [u8] {
        debug_assert!(self.sent.is_empty());
        self.bytes.copy_within(self.sent.end..self.read, 0);
        self.read -= self.sent.end;
        self.sent = 0..0;
        &mut self.bytes[self.read..]
    }

    /// Drops all bytes.
    fn clear(&mut self) {
        (self.sent, self.read) = (0..0, 0);
    }
}

/// The next step of a search, run with vector instructions.
struct Next<'s> {
    matcher: &'s mut Matcher,
    bytes: &'s [u8],
    is_end: bool,
}

impl VectorWork for Next<'_> {
    type Output = DeltaStep;

    #[inline(always)]
    fn run(self) -> DeltaStep {
        self.matcher.next(self.bytes, self.is_end)
    }
}

impl Outgoing<'_, '_, '_> {
    /// Sends the content up to `end`, and Reuses for the parts that the Receiver has.
    pub(super) fn send_differences(&mut self, search: &mut Search, end: u64) -> Result<(), Unsent> {
        search.window.clear();
        while self.sent(&search.window) < end {
            self.check_awaited()?;
            let Search { matcher, window, .. } = search;
            let read_to = self.sent(window) + window.unsent().len() as u64;
            let step = match window.unsent() {
                [] => DeltaStep::NeedMore,
                bytes => with_vectors(Next { matcher, bytes, is_end: read_to == end }),
            };
            match step {
                DeltaStep::NeedMore => {
                    self.catch_up(window);
                    let room = window.room();
                    let len = room.len().min((end - read_to) as usize);
                    if self.source.read_at(&mut room[..len], read_to).map_err(read)? < len {
                        return Err(changed().into());
                    }
                    self.source.release(read_to..read_to + len as u64);
                    window.read += len;
                }
                DeltaStep::Literal(len) => {
                    self.send_reuse(&mut search.reuse)?;
                    self.catch_up(window);
                    self.send_literal(&window.unsent()[..len])?;
                    let sent = window.sent.end + len;
                    window.sent = sent..sent;
                }
                DeltaStep::Reuse { from, len } => self.reuse(search, from, len)?,
            }
        }
        self.catch_up(&mut search.window);
        self.send_reuse(&mut search.reuse)
    }

    /// The end of the content that was sent, in bytes.
    fn sent(&self, window: &Window) -> u64 {
        self.passed.len() + window.sent.len() as u64
    }

    /// Hashes the bytes of sent Reuses.
    fn catch_up(&mut self, window: &mut Window) {
        self.passed.update(&window.bytes[window.sent.clone()]);
        window.sent.start = window.sent.end;
    }

    fn send_literal(&mut self, mut bytes: &[u8]) -> Result<(), Unsent> {
        while !bytes.is_empty() {
            let at = self.passed.len();
            let end = (at + PIECE_LEN - at % PIECE_LEN).min(at + bytes.len() as u64);
            let part = self.next_part(at, end);
            let len = (part.end() - at) as usize;
            let (now, later) = bytes.split_at(len);
            bytes = later;
            self.passed.update(now);
            if let Part::Known(_) = part {
                self.send_known(at)?;
                continue;
            }
            let mut body = self.buffer(len)?;
            body.copy_from_slice(now);
            let effort = self.reader.effort(Some(self.item.index));
            self.send_content(effort, at, Body::Bytes(body), len)?;
            self.seal_block()?;
        }
        Ok(())
    }

    /// Records that the next `len` bytes are in the old file at `old`. The Reuse is sent once its
    /// full length is known.
    fn reuse(&mut self, search: &mut Search, mut old: u64, mut len: usize) -> Result<(), Unsent> {
        let Search { window, reuse, .. } = search;
        while len > 0 {
            let at = self.sent(window);
            let now = ((BLOCK_LEN - at % BLOCK_LEN) as usize).min(len);
            match reuse {
                Some(sent) if sent.from.map(|from| from + u64::from(sent.len)) == Some(old) => {
                    sent.len += now as u32;
                }
                _ => {
                    self.send_reuse(reuse)?;
                    let index = self.item.index;
                    *reuse = Some(Reuse { index, at, from: Some(old), len: now as u32 });
                }
            }
            self.reader
                .sender
                .ledger
                .count_progress(self.item.index, Progress::Matched(now as u64));
            self.record_passed(now as u64);
            window.sent.end += now;
            if self.sent(window).is_multiple_of(BLOCK_LEN) {
                self.send_reuse(reuse)?;
                self.catch_up(window);
                self.seal_block()?;
            }
            (old, len) = (old + now as u64, len - now);
        }
        Ok(())
    }

    fn send_reuse(&self, pending: &mut Option<Reuse>) -> Result<(), Unsent> {
        pending.take().map_or(Ok(()), |reuse| self.send_message(&Message::Reuse(reuse)))
    }
}

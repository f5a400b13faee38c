//! A large file of which the Receiver has an older version: what that has, too, is told by
//! where it is, and the rest is sent.

use super::pieces::{Outgoing, PIECE_LEN, Sent, given_up};
use super::read::read;
use crate::control::Step as Progress;
use crate::link::wire::{Body, OutFrame};
use haul_delta::{Matcher, Step};
use haul_model::BLOCK_LEN;
use haul_proto::{Message, Reuse, data_head};
use haul_sys::{VectorWork, with_vectors};
use haul_tree::changed;

/// The search for the difference, and what was read of the file for it.
pub(super) struct Search {
    matcher: Matcher,
    /// Room for the shortest window in which the search comes to an end, and a piece.
    window: Vec<u8>,
    /// The part that is told next, once it is known that no more is behind it.
    reuse: Option<Reuse>,
}

impl Search {
    /// A search that takes windows of twice `block_len`.
    pub(super) fn new(matcher: Matcher, block_len: usize) -> Self {
        Self { matcher, window: vec![0; 2 * block_len + PIECE_LEN as usize], reuse: None }
    }
}

/// The next step of a search.
struct Next<'s> {
    matcher: &'s mut Matcher,
    bytes: &'s [u8],
    is_end: bool,
}

impl VectorWork for Next<'_> {
    type Output = Step;

    #[inline(always)]
    fn run(self) -> Step {
        self.matcher.next(self.bytes, self.is_end)
    }
}

impl Outgoing<'_, '_, '_> {
    /// Sends what there is up to `end`, and tells what the Receiver has of it.
    pub(super) fn send_differences(&mut self, search: &mut Search, end: u64) -> Sent {
        let Search { matcher, window, reuse } = search;
        // Where what was read and is not told yet is in the window.
        let (mut from, mut to) = (0, 0);
        while self.passed.len() < end {
            if !self.reader.sender.is_awaited(self.item.index) {
                return Some(Err(given_up()));
            }
            let read_to = self.passed.len() + (to - from) as u64;
            let step = match from == to {
                true => Step::More,
                false => {
                    let bytes = &window[from..to];
                    with_vectors(Next { matcher, bytes, is_end: read_to == end })
                }
            };
            match step {
                Step::More => {
                    window.copy_within(from..to, 0);
                    (from, to) = (0, to - from);
                    let len = (window.len() - to).min((end - read_to) as usize);
                    match self.source.read_at(&mut window[to..to + len], read_to) {
                        Ok(read) if read == len => {
                            self.source.release(read_to..read_to + len as u64);
                            to += len;
                        }
                        Ok(_) => return Some(Err(changed())),
                        Err(error) => return Some(Err(read(&error))),
                    }
                }
                Step::Literal(len) => {
                    self.tell_reuse(reuse)?;
                    self.send_literal(&window[from..from + len])?;
                    from += len;
                }
                Step::Reuse { from: old, len } => {
                    self.reuse(reuse, old, &window[from..from + len])?;
                    from += len;
                }
            }
        }
        self.tell_reuse(reuse)?;
        Some(Ok(()))
    }

    fn send_literal(&mut self, mut bytes: &[u8]) -> Option<()> {
        let super::read::Reader { pool, control, .. } = self.reader;
        while !bytes.is_empty() {
            let at = self.passed.len();
            let len = ((PIECE_LEN - at % PIECE_LEN) as usize).min(bytes.len());
            let (now, later) = bytes.split_at(len);
            self.passed.update(now);
            let mut body = pool.take(len, control)?;
            body.copy_from_slice(now);
            let head = data_head(self.item.index, at, len);
            let effort = self.reader.effort(Some(self.item.index));
            let counts = self.counts(len as u64);
            self.reader.send_content(effort, head, Body::Bytes(body), counts)?;
            self.seal_block()?;
            bytes = later;
        }
        Some(())
    }

    /// Tells that `bytes` are in the old file from `old` on, as soon as it is known how many
    /// more are.
    fn reuse(&mut self, pending: &mut Option<Reuse>, mut old: u64, mut bytes: &[u8]) -> Option<()> {
        while !bytes.is_empty() {
            let at = self.passed.len();
            let len = ((BLOCK_LEN - at % BLOCK_LEN) as usize).min(bytes.len());
            let (now, later) = bytes.split_at(len);
            self.passed.update(now);
            match pending {
                Some(told) if told.from + u64::from(told.len) == old => told.len += len as u32,
                _ => {
                    self.tell_reuse(pending)?;
                    let index = self.item.index;
                    *pending = Some(Reuse { index, at, from: old, len: len as u32 });
                }
            }
            self.reader.sender.came_by(self.item.index, Progress::Matched(len as u64));
            if self.passed.len().is_multiple_of(BLOCK_LEN) {
                self.tell_reuse(pending)?;
                self.seal_block()?;
            }
            (old, bytes) = (old + len as u64, later);
        }
        Some(())
    }

    fn tell_reuse(&self, pending: &mut Option<Reuse>) -> Option<()> {
        match pending.take() {
            Some(reuse) => self.reader.outbox().send(OutFrame::message(&Message::Reuse(reuse))),
            None => Some(()),
        }
    }
}

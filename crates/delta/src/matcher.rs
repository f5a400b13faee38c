//! Searches the blocks of the old file in the new one, at every offset, in one pass.

use crate::rolling::{self, Roller};
use crate::signature::Signature;
use crate::strong::Checksummer;
use crate::table::Table;

/// Maximum number of bytes that are hashed without a match, in addition to the bytes searched. A
/// peer could send sums that agree everywhere and never match. The search then stops.
const MISMATCH_LEN_MAX: u64 = 64 << 20;

/// A step in the new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeltaStep {
    /// A block that the old file has at `from`.
    Reuse {
        /// The offset in the old file, in bytes.
        from: u64,
        /// The length of the block in bytes.
        len: usize,
    },
    /// This number of new bytes.
    Literal(usize),
    /// Undecided until more bytes are available.
    NeedMore,
}

/// The search in a new file.
#[derive(Debug)]
pub struct Matcher {
    signature: Signature,
    checksummer: Checksummer,
    table: Table,
    roller: Roller,
    /// Number of blocks with the full length.
    full_blocks: usize,
    /// The block to compare first: blocks that follow each other in the old file often do so in
    /// the new one.
    expected: usize,
    /// Number of available bytes that are new.
    literal_len: usize,
    /// The sum of the window after these, and whether it was looked up without a match.
    window: Option<(u32, bool)>,
    /// Number of bytes that were searched, and that were hashed without a match.
    searched: u64,
    mismatched_len: u64,
    has_stopped: bool,
}

impl Matcher {
    /// Creates a search for the blocks of a complete signature.
    pub fn new(signature: Signature) -> Self {
        assert!(signature.is_complete(), "a search needs all sums");
        let shape = signature.shape();
        let full_blocks = (shape.old_len() / shape.block_len() as u64) as usize;
        let table = Table::of(&signature, full_blocks);
        let roller = Roller::new(shape.block_len());
        let checksummer = Checksummer::new(signature.key());
        Self {
            signature,
            checksummer,
            table,
            roller,
            full_blocks,
            expected: 0,
            literal_len: 0,
            window: None,
            searched: 0,
            mismatched_len: 0,
            has_stopped: false,
        }
    }

    /// Decides about the beginning of `bytes`, the next bytes of the new file. `is_end` if the file
    /// ends with them. The next call must pass the bytes after the decided ones. After
    /// [`DeltaStep::NeedMore`] it must pass the same bytes and more. Twice the length of a block is
    /// always enough.
    ///
    /// `bytes` must not be empty.
    #[inline(always)]
    pub fn next(&mut self, bytes: &[u8], is_end: bool) -> DeltaStep {
        let len = self.signature.shape().block_len();
        loop {
            if self.has_stopped {
                return self.emit_literal(bytes.len());
            }
            let rest = &bytes[self.literal_len..];
            if rest.len() < len {
                return if is_end { self.next_at_end(bytes) } else { self.emit_literal_or_wait() };
            }
            let (sum, is_looked_up) = match self.window {
                Some(window) => window,
                None => (rolling::sum(&rest[..len]), false),
            };
            let found = if is_looked_up { None } else { self.find(sum, &rest[..len]) };
            match found {
                Some(_) if self.literal_len > 0 => {
                    // The block is found again in the next call, which costs less than remembering
                    // it.
                    self.window = Some((sum, false));
                    return self.emit_literal(self.literal_len);
                }
                Some(block) => return self.reuse(block, len),
                None => self.window = Some((sum, true)),
            }
            if rest.len() == len {
                return if is_end { self.next_at_end(bytes) } else { self.emit_literal_or_wait() };
            }
            self.roll(sum, rest, len);
        }
    }

    /// Moves the window until its sum may be that of a block, or no bytes are left.
    fn roll(&mut self, mut sum: u32, rest: &[u8], len: usize) {
        let (roller, table) = (self.roller, &self.table);
        let mut bytes = rest.iter().zip(&rest[len..]);
        let is_looked_up = !bytes.any(|(out, into)| {
            sum = roller.roll(sum, *out, *into);
            table.has(sum)
        });
        let rolled = rest.len() - len - bytes.len();
        self.literal_len += rolled;
        self.searched += rolled as u64;
        self.window = Some((sum, is_looked_up));
    }

    /// The block of the old file with these bytes, whose rolling sum is `sum`.
    #[inline(always)]
    fn find(&mut self, sum: u32, window: &[u8]) -> Option<usize> {
        let expected = self.expected;
        let is_expected = expected < self.full_blocks && self.signature.weak(expected) == sum;
        if !is_expected && !self.table.has(sum) {
            return None;
        }
        let strong = self.checksummer.strong(window);
        let matches = |block: &usize| strong.starts_with(self.signature.strong(*block));
        let found = Some(expected).filter(|_| is_expected).filter(matches);
        let found = found.or_else(|| self.table.with(sum).find(matches));
        if found.is_none() {
            self.mismatched_len += window.len() as u64;
            self.has_stopped |= self.mismatched_len > self.searched + MISMATCH_LEN_MAX;
        }
        found
    }

    /// Decides if no more than a block is left that was not looked up.
    #[inline(never)]
    fn next_at_end(&mut self, bytes: &[u8]) -> DeltaStep {
        self.window = None;
        let shape = self.signature.shape();
        let (last, blocks) = (self.full_blocks, shape.blocks());
        let len = (shape.old_len() - shape.block(last).start) as usize;
        if last < blocks
            && let Some(at) = bytes.len().checked_sub(len)
        {
            let tail = &bytes[at..];
            let is_last = rolling::sum(tail) == self.signature.weak(last)
                && self.checksummer.strong(tail).starts_with(self.signature.strong(last));
            return match is_last {
                true if at == 0 => self.reuse(last, len),
                true => self.emit_literal(at),
                false => self.emit_literal(bytes.len()),
            };
        }
        self.emit_literal(bytes.len())
    }

    /// Number of bytes that were hashed without a match.
    #[cfg(test)]
    pub(crate) fn mismatched_len(&self) -> u64 {
        self.mismatched_len
    }

    fn reuse(&mut self, block: usize, len: usize) -> DeltaStep {
        self.expected = block + 1;
        self.searched += len as u64;
        (self.literal_len, self.window) = (0, None);
        DeltaStep::Reuse { from: self.signature.shape().block(block).start, len }
    }

    /// Returns the new bytes so far, or asks for more.
    fn emit_literal_or_wait(&mut self) -> DeltaStep {
        match self.literal_len {
            0 => DeltaStep::NeedMore,
            literal_len => self.emit_literal(literal_len),
        }
    }

    /// Returns `len` new bytes. The window is kept.
    fn emit_literal(&mut self, len: usize) -> DeltaStep {
        self.literal_len = 0;
        DeltaStep::Literal(len)
    }
}

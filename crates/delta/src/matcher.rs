//! Searches the blocks of the old file in the new one, at every offset, in one pass.

use crate::rolling::{self, Roller};
use crate::signature::Signature;
use crate::strong::Summer;
use crate::table::Table;

/// Maximum number of bytes that are hashed without a match, in addition to the bytes searched. A
/// peer could send sums that agree everywhere and never match. The search then stops.
const VAIN_LEN_MAX: u64 = 64 << 20;

/// A step in the new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
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
    More,
}

/// The search in a new file.
#[derive(Debug)]
pub struct Matcher {
    signature: Signature,
    summer: Summer,
    table: Table,
    roller: Roller,
    /// Number of blocks with the full length.
    whole: usize,
    /// The block to compare first: blocks that follow each other in the old file often do so in
    /// the new one.
    expected: usize,
    /// Number of available bytes that are new.
    passed: usize,
    /// The sum of the window after these, and whether it was looked up without a match.
    window: Option<(u32, bool)>,
    /// Number of bytes that were searched, and that were hashed without a match.
    searched: u64,
    in_vain: u64,
    has_given_up: bool,
}

impl Matcher {
    /// Creates a search for the blocks of a complete signature.
    pub fn new(signature: Signature) -> Self {
        assert!(signature.is_whole(), "a search needs all sums");
        let shape = signature.shape();
        let whole = (shape.old_len() / shape.block_len() as u64) as usize;
        let table = Table::of(&signature, whole);
        let roller = Roller::new(shape.block_len());
        let summer = Summer::new(signature.key());
        Self {
            signature,
            summer,
            table,
            roller,
            whole,
            expected: 0,
            passed: 0,
            window: None,
            searched: 0,
            in_vain: 0,
            has_given_up: false,
        }
    }

    /// Decides about the beginning of `bytes`, the next bytes of the new file. `is_end` if the file
    /// ends with them. The next call must pass the bytes after the decided ones. After
    /// [`Step::More`] it must pass the same bytes and more. Twice the length of a block is always
    /// enough.
    ///
    /// `bytes` must not be empty.
    #[inline(always)]
    pub fn next(&mut self, bytes: &[u8], is_end: bool) -> Step {
        let len = self.signature.shape().block_len();
        loop {
            if self.has_given_up {
                return self.pass(bytes.len());
            }
            let rest = &bytes[self.passed..];
            if rest.len() < len {
                return if is_end { self.next_at_end(bytes) } else { self.pass_or_wait() };
            }
            let (sum, is_looked_up) = match self.window {
                Some(window) => window,
                None => (rolling::sum(&rest[..len]), false),
            };
            let found = if is_looked_up { None } else { self.find(sum, &rest[..len]) };
            match found {
                Some(_) if self.passed > 0 => {
                    // The block is found again in the next call, which costs less than remembering
                    // it.
                    self.window = Some((sum, false));
                    return self.pass(self.passed);
                }
                Some(block) => return self.reuse(block, len),
                None => self.window = Some((sum, true)),
            }
            if rest.len() == len {
                return if is_end { self.next_at_end(bytes) } else { self.pass_or_wait() };
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
        self.passed += rolled;
        self.searched += rolled as u64;
        self.window = Some((sum, is_looked_up));
    }

    /// The block of the old file with these bytes, whose rolling sum is `sum`.
    #[inline(always)]
    fn find(&mut self, sum: u32, window: &[u8]) -> Option<usize> {
        let expected = self.expected;
        let is_expected = expected < self.whole && self.signature.weak(expected) == sum;
        if !is_expected && !self.table.has(sum) {
            return None;
        }
        let strong = self.summer.strong(window);
        let matches = |block: &usize| strong.starts_with(self.signature.strong(*block));
        let found = Some(expected).filter(|_| is_expected).filter(matches);
        let found = found.or_else(|| self.table.with(sum).find(matches));
        if found.is_none() {
            self.in_vain += window.len() as u64;
            self.has_given_up |= self.in_vain > self.searched + VAIN_LEN_MAX;
        }
        found
    }

    /// Decides if no more than a block is left that was not looked up.
    #[inline(never)]
    fn next_at_end(&mut self, bytes: &[u8]) -> Step {
        self.window = None;
        let shape = self.signature.shape();
        let (last, blocks) = (self.whole, shape.blocks());
        let len = (shape.old_len() - shape.block(last).start) as usize;
        if last < blocks
            && let Some(at) = bytes.len().checked_sub(len)
        {
            let tail = &bytes[at..];
            let is_last = rolling::sum(tail) == self.signature.weak(last)
                && self.summer.strong(tail).starts_with(self.signature.strong(last));
            return match is_last {
                true if at == 0 => self.reuse(last, len),
                true => self.pass(at),
                false => self.pass(bytes.len()),
            };
        }
        self.pass(bytes.len())
    }

    /// Number of bytes that were hashed without a match.
    #[cfg(test)]
    pub(crate) fn vain_len(&self) -> u64 {
        self.in_vain
    }

    fn reuse(&mut self, block: usize, len: usize) -> Step {
        self.expected = block + 1;
        self.searched += len as u64;
        (self.passed, self.window) = (0, None);
        Step::Reuse { from: self.signature.shape().block(block).start, len }
    }

    /// Returns the new bytes so far, or asks for more.
    fn pass_or_wait(&mut self) -> Step {
        match self.passed {
            0 => Step::More,
            passed => self.pass(passed),
        }
    }

    /// Returns `len` new bytes. The window is kept.
    fn pass(&mut self, len: usize) -> Step {
        self.passed = 0;
        Step::Literal(len)
    }
}

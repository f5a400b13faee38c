//! Blocks that arrive in pieces through one reader. The pieces of a block arrive in order, the
//! blocks in any order.

use crate::assembler::{AssembleError, Assembler, Block};
use haul_model::{BLOCK_LEN, BlockHash};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

/// Maximum number of blocks that have begun and not ended.
const OPEN_MAX: usize = 32;

/// Maximum distance of a begun block from the first missing block, where a peer chooses the order.
/// That is 4 GiB of content, for which less than 100 KiB of memory are needed.
pub const AHEAD_MAX: u64 = 1024;

/// The blocks of a content that have begun and not ended.
#[derive(Debug, Default)]
pub struct Pieces {
    /// Each block, with the lane of its pieces.
    open: BTreeMap<u64, (Block, u8)>,
}

/// The connection over which pieces arrive.
#[derive(Debug, Clone, Copy, Default)]
pub struct Route {
    /// The number of the lane. All pieces of a block arrive over the same lane.
    pub lane: u8,
    /// A lane was lost: blocks may be sent again over another lane.
    pub may_repeat: bool,
}

/// Byte counts of a piece.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PieceCounts {
    /// Holes before the piece.
    pub holes: u64,
    /// The part that was written already, and was skipped.
    pub known: u64,
    /// Content of blocks that began over a lost lane, and begin again.
    pub dropped: u64,
}

impl Pieces {
    /// Takes out the blocks of this lane. Its thread works on them while other threads use the
    /// rest.
    #[must_use]
    pub fn take_out(&mut self, lane: u8) -> Self {
        let (open, others) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(_, (_, its_lane))| *its_lane == lane);
        self.open = others;
        Self { open }
    }

    /// Puts back the blocks that were taken out.
    pub fn put_back(&mut self, mut taken_out: Self) {
        self.open.append(&mut taken_out.open);
    }

    /// Takes a piece that arrives by `route`; see [`Self::take`].
    ///
    /// # Errors
    /// Errors of [`Self::take`].
    pub fn take_by(
        &mut self,
        route: Route,
        into: &Assembler,
        bytes: &[u8],
        offset: u64,
    ) -> Result<PieceCounts, AssembleError> {
        self.put(route, into, range_at(offset, bytes.len())?, |block, at| {
            let bytes = &bytes[(at.start - offset) as usize..(at.end - offset) as usize];
            into.write(block, bytes).map_err(AssembleError::Write)
        })
    }

    /// Takes a piece that is already in the stage at `offset`, and reads it to `part`.
    ///
    /// # Errors
    /// Errors of [`Self::take`], and [`AssembleError::Write`] with the errors of
    /// [`Assembler::keep`].
    pub fn keep_by(
        &mut self,
        route: Route,
        into: &Assembler,
        part: &mut [u8],
        offset: u64,
    ) -> Result<PieceCounts, AssembleError> {
        self.put(route, into, range_at(offset, part.len())?, |block, at| {
            let part = &mut part[(at.start - offset) as usize..(at.end - offset) as usize];
            into.keep(block, part).map_err(AssembleError::Write)
        })
    }

    /// Splits `range` at block boundaries, and calls `put` for each part.
    fn put(
        &mut self,
        route: Route,
        into: &Assembler,
        mut range: Range<u64>,
        mut put: impl FnMut(&mut Block, Range<u64>) -> Result<(), AssembleError>,
    ) -> Result<PieceCounts, AssembleError> {
        let mut counts = PieceCounts::default();
        while !range.is_empty() {
            let index = range.start / BLOCK_LEN;
            let end = range.end.min((index + 1).saturating_mul(BLOCK_LEN));
            if self.is_known(route, into, index, &mut counts) {
                counts.known += end - range.start;
            } else {
                let block = self.block(into, index, route.lane)?;
                let hole = range.start.checked_sub(block.end()).ok_or(AssembleError::OutOfOrder)?;
                into.skip_hole(block, hole).map_err(AssembleError::Write)?;
                put(block, range.start..end)?;
                counts.holes += hole;
            }
            range.start = end;
        }
        Ok(counts)
    }

    /// Ends block `index`, which is `len` bytes long and arrived by `route`. If a hash is given,
    /// the block must have it. The missing end of the block is a hole.
    ///
    /// # Errors
    /// Errors of [`Self::take`] and [`Assembler::end`].
    pub fn seal_by(
        &mut self,
        route: Route,
        into: &Assembler,
        (index, len): (u64, u64),
        hash: Option<BlockHash>,
    ) -> Result<PieceCounts, AssembleError> {
        let mut counts = PieceCounts::default();
        if !self.is_known(route, into, index, &mut counts) {
            self.block(into, index, route.lane)?;
            counts.holes = self.end_at(into, index, len, hash)?;
        }
        Ok(counts)
    }

    /// True if block `index` was sent again, and is complete already. A block that began over
    /// another lane is dropped, because the rest of it was lost.
    fn is_known(
        &mut self,
        route: Route,
        into: &Assembler,
        index: u64,
        counts: &mut PieceCounts,
    ) -> bool {
        if !route.may_repeat {
            return false;
        }
        if let Some((block, lane)) = self.open.get(&index)
            && *lane != route.lane
        {
            counts.dropped += block.len();
            self.open.remove(&index);
        }
        into.has(index)
    }

    /// Takes `bytes` at `offset`. A gap before them in the block is a hole, whose length is
    /// returned.
    ///
    /// # Errors
    /// Errors of [`Assembler::begin`] and of writing; [`AssembleError::TooManyOpen`].
    pub fn take(
        &mut self,
        into: &Assembler,
        bytes: &[u8],
        offset: u64,
    ) -> Result<u64, AssembleError> {
        Ok(self.take_by(Route::default(), into, bytes, offset)?.holes)
    }

    /// Ends the blocks that are complete, without a hash for each.
    ///
    /// # Errors
    /// Errors of [`Assembler::end`].
    pub fn end_complete(&mut self, into: &Assembler) -> Result<(), AssembleError> {
        let whole = |(_, (block, _)): &(&u64, &(Block, u8))| block.remaining() == 0;
        while let Some((&index, _)) = self.open.iter().find(whole) {
            self.end_at(into, index, BLOCK_LEN, None)?;
        }
        Ok(())
    }

    /// Ends all blocks of a content of `size` bytes, also a last block of which nothing arrived.
    /// The missing ends of blocks are holes, whose total length is returned.
    ///
    /// # Errors
    /// Errors of [`Self::take`] and [`Assembler::end`]; [`AssembleError::TooLong`] if more has
    /// arrived.
    pub fn end(&mut self, into: &Assembler, size: u64) -> Result<u64, AssembleError> {
        if let Some(last) = size.checked_sub(1).map(|end| end / BLOCK_LEN)
            && !self.open.contains_key(&last)
            && !into.has(last)
        {
            self.block(into, last, 0)?;
        }
        let mut passed = 0;
        while let Some((&index, _)) = self.open.first_key_value() {
            let len = size.checked_sub(index * BLOCK_LEN).ok_or(AssembleError::TooLong)?;
            passed += self.end_at(into, index, len.min(BLOCK_LEN), None)?;
        }
        Ok(passed)
    }

    /// Ends a begun block with a length of `len` bytes.
    fn end_at(
        &mut self,
        into: &Assembler,
        index: u64,
        len: u64,
        hash: Option<BlockHash>,
    ) -> Result<u64, AssembleError> {
        let (mut block, _) = self.open.remove(&index).ok_or(AssembleError::Incomplete)?;
        let hole = len.checked_sub(block.len()).ok_or(AssembleError::TooLong)?;
        into.skip_hole(&mut block, hole).map_err(AssembleError::Write)?;
        into.end(block, hash)?;
        Ok(hole)
    }

    fn block(
        &mut self,
        into: &Assembler,
        index: u64,
        lane: u8,
    ) -> Result<&mut Block, AssembleError> {
        let is_full = self.open.len() >= OPEN_MAX;
        match self.open.entry(index) {
            Entry::Occupied(block) => Ok(&mut block.into_mut().0),
            Entry::Vacant(_) if is_full => Err(AssembleError::TooManyOpen),
            Entry::Vacant(place) => Ok(&mut place.insert((into.begin(index)?, lane)).0),
        }
    }
}

/// The range of `len` bytes at `offset`, if it does not overflow.
fn range_at(offset: u64, len: usize) -> Result<Range<u64>, AssembleError> {
    let end = offset.checked_add(len as u64).ok_or(AssembleError::TooFarAhead)?;
    Ok(offset..end)
}

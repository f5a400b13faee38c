//! Blocks that come through one reader in pieces: those of one block in its order, those
//! of different blocks in any.

use crate::assembler::{Assembler, Block, NotAssembled};
use crate::verified::Staged;
use haul_model::{BLOCK_LEN, BlockHash};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

/// Blocks that may have begun and not ended at the same time.
const OPEN_MAX: usize = 32;

/// Blocks from the first that is missing that may have begun, where a peer chooses their
/// order: 4 GiB of content, for which less than 100 KiB are remembered.
pub const AHEAD_MAX: u64 = 1024;

/// The blocks of a content that have begun and not ended.
#[derive(Debug, Default)]
pub struct Pieces {
    /// Each with the way that its pieces come.
    open: BTreeMap<u64, (Block, u8)>,
}

/// The way that pieces come.
#[derive(Debug, Clone, Copy, Default)]
pub struct Route {
    /// The number of the connection. All pieces of a block come over one.
    pub lane: u8,
    /// A connection was lost: blocks may come once more, over another.
    pub may_repeat: bool,
}

/// The account of what was taken, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Took {
    /// Holes in front of it.
    pub holes: u64,
    /// As much of it as was there already, and was passed over.
    pub known: u64,
    /// Content of blocks that had begun over a lost connection, and begin anew.
    pub dropped: u64,
}

impl Pieces {
    /// Takes out the blocks whose pieces come over this lane: who has them goes on with them
    /// while others take what comes over theirs.
    #[must_use]
    pub fn take_out(&mut self, lane: u8) -> Self {
        let (open, others) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(_, (_, its_lane))| *its_lane == lane);
        self.open = others;
        Self { open }
    }

    /// Puts back what was taken out.
    pub fn put_back(&mut self, mut taken_out: Self) {
        self.open.append(&mut taken_out.open);
    }

    /// As [`Self::take`], of what comes by this `route`.
    ///
    /// # Errors
    /// Those of [`Self::take`].
    pub fn take_by<S: Staged>(
        &mut self,
        route: Route,
        into: &Assembler<S>,
        bytes: &[u8],
        offset: u64,
    ) -> Result<Took, NotAssembled> {
        self.put(route, into, range_at(offset, bytes.len())?, |block, at| {
            let bytes = &bytes[(at.start - offset) as usize..(at.end - offset) as usize];
            into.write(block, bytes).map_err(NotAssembled::Write)
        })
    }

    /// The same of what stands in the stage at `offset`, and is read to `part`.
    ///
    /// # Errors
    /// Those of [`Self::take`]; [`NotAssembled::Write`] with those of [`Assembler::keep`].
    pub fn keep_by<S: Staged>(
        &mut self,
        route: Route,
        into: &Assembler<S>,
        part: &mut [u8],
        offset: u64,
    ) -> Result<Took, NotAssembled> {
        self.put(route, into, range_at(offset, part.len())?, |block, at| {
            let part = &mut part[(at.start - offset) as usize..(at.end - offset) as usize];
            into.keep(block, part).map_err(NotAssembled::Write)
        })
    }

    /// Has `put` put the content of `range` into its blocks, each time as much as is in one.
    fn put<S: Staged>(
        &mut self,
        route: Route,
        into: &Assembler<S>,
        mut range: Range<u64>,
        mut put: impl FnMut(&mut Block, Range<u64>) -> Result<(), NotAssembled>,
    ) -> Result<Took, NotAssembled> {
        let mut took = Took::default();
        while !range.is_empty() {
            let index = range.start / BLOCK_LEN;
            let end = range.end.min((index + 1).saturating_mul(BLOCK_LEN));
            if self.is_known(route, into, index, &mut took) {
                took.known += end - range.start;
            } else {
                let block = self.block(into, index, route.lane)?;
                let hole = range.start.checked_sub(block.end()).ok_or(NotAssembled::OutOfOrder)?;
                into.pass(block, hole).map_err(NotAssembled::Write)?;
                put(block, range.start..end)?;
                took.holes += hole;
            }
            range.start = end;
        }
        Ok(took)
    }

    /// Ends block `index`, which is `len` bytes long and came by this `route`. Its hash is to be
    /// this one, if that is known. What it lacks is a hole.
    ///
    /// # Errors
    /// Those of [`Self::take`] and [`Assembler::end`].
    pub fn seal_by<S: Staged>(
        &mut self,
        route: Route,
        into: &Assembler<S>,
        (index, len): (u64, u64),
        hash: Option<BlockHash>,
    ) -> Result<Took, NotAssembled> {
        let mut took = Took::default();
        if !self.is_known(route, into, index, &mut took) {
            self.block(into, index, route.lane)?;
            took.holes = self.end_at(into, index, len, hash)?;
        }
        Ok(took)
    }

    /// True if block `index` comes once more, and is there already. One that was begun by
    /// another route is given up: the rest of it was lost.
    fn is_known<S: Staged>(
        &mut self,
        route: Route,
        into: &Assembler<S>,
        index: u64,
        took: &mut Took,
    ) -> bool {
        if !route.may_repeat {
            return false;
        }
        if let Some((block, lane)) = self.open.get(&index)
            && *lane != route.lane
        {
            took.dropped += block.len();
            self.open.remove(&index);
        }
        into.has(index)
    }

    /// Takes `bytes` that belong at `offset`. What its block lacks before them is a hole,
    /// whose length is returned.
    ///
    /// # Errors
    /// Those of [`Assembler::begin`] and of writing; [`NotAssembled::TooManyOpen`].
    pub fn take<S: Staged>(
        &mut self,
        into: &Assembler<S>,
        bytes: &[u8],
        offset: u64,
    ) -> Result<u64, NotAssembled> {
        Ok(self.take_by(Route::default(), into, bytes, offset)?.holes)
    }

    /// Ends the blocks that are whole, and for which nobody vouches one by one.
    ///
    /// # Errors
    /// Those of [`Assembler::end`].
    pub fn end_whole<S: Staged>(&mut self, into: &Assembler<S>) -> Result<(), NotAssembled> {
        let whole = |(_, (block, _)): &(&u64, &(Block, u8))| block.room() == 0;
        while let Some((&index, _)) = self.open.iter().find(whole) {
            self.end_at(into, index, BLOCK_LEN, None)?;
        }
        Ok(())
    }

    /// Ends all blocks of a content of `size` bytes. What they lack are holes, whose
    /// length is returned; so is the last block if nothing has come of it.
    ///
    /// # Errors
    /// Those of [`Self::take`] and [`Assembler::end`]; [`NotAssembled::TooLong`] if more
    /// has come.
    pub fn end<S: Staged>(&mut self, into: &Assembler<S>, size: u64) -> Result<u64, NotAssembled> {
        if let Some(last) = size.checked_sub(1).map(|end| end / BLOCK_LEN)
            && !self.open.contains_key(&last)
            && !into.has(last)
        {
            self.block(into, last, 0)?;
        }
        let mut passed = 0;
        while let Some((&index, _)) = self.open.first_key_value() {
            let len = size.checked_sub(index * BLOCK_LEN).ok_or(NotAssembled::TooLong)?;
            passed += self.end_at(into, index, len.min(BLOCK_LEN), None)?;
        }
        Ok(passed)
    }

    /// Ends a block that has begun and is to be `len` bytes long.
    fn end_at<S: Staged>(
        &mut self,
        into: &Assembler<S>,
        index: u64,
        len: u64,
        hash: Option<BlockHash>,
    ) -> Result<u64, NotAssembled> {
        let (mut block, _) = self.open.remove(&index).ok_or(NotAssembled::Incomplete)?;
        let hole = len.checked_sub(block.len()).ok_or(NotAssembled::TooLong)?;
        into.pass(&mut block, hole).map_err(NotAssembled::Write)?;
        into.end(block, hash)?;
        Ok(hole)
    }

    fn block<S: Staged>(
        &mut self,
        into: &Assembler<S>,
        index: u64,
        lane: u8,
    ) -> Result<&mut Block, NotAssembled> {
        let is_full = self.open.len() >= OPEN_MAX;
        match self.open.entry(index) {
            Entry::Occupied(block) => Ok(&mut block.into_mut().0),
            Entry::Vacant(_) if is_full => Err(NotAssembled::TooManyOpen),
            Entry::Vacant(place) => Ok(&mut place.insert((into.begin(index)?, lane)).0),
        }
    }
}

/// The range of `len` bytes at `offset`, where there can be one.
fn range_at(offset: u64, len: usize) -> Result<Range<u64>, NotAssembled> {
    let end = offset.checked_add(len as u64).ok_or(NotAssembled::TooFarAhead)?;
    Ok(offset..end)
}

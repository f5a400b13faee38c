//! Blocks that come through one reader in pieces: those of one block in its order, those
//! of different blocks in any.

use crate::assembler::{Assembler, Block, NotAssembled};
use crate::verified::Staged;
use haul_model::{BLOCK_LEN, BlockHash};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Blocks that may have begun and not ended at the same time.
const OPEN_MAX: usize = 32;

/// Blocks from the first that is missing that may have begun, where a peer chooses their
/// order: 4 GiB of content, for which less than 100 KiB are remembered.
pub const AHEAD_MAX: u64 = 1024;

/// The blocks of one reader that have begun and not ended.
#[derive(Debug, Default)]
pub struct Pieces {
    open: BTreeMap<u64, Block>,
}

impl Pieces {
    /// Takes `bytes` that belong at `offset`. What its block lacks before them is a hole,
    /// whose length is returned.
    ///
    /// # Errors
    /// Those of [`Assembler::begin`] and of writing; [`NotAssembled::TooManyOpen`].
    pub fn take<S: Staged>(
        &mut self,
        into: &Assembler<S>,
        mut bytes: &[u8],
        mut offset: u64,
    ) -> Result<u64, NotAssembled> {
        let mut passed = 0;
        while !bytes.is_empty() {
            let block = self.block(into, offset / BLOCK_LEN)?;
            let hole = offset.checked_sub(block.end()).ok_or(NotAssembled::OutOfOrder)?;
            into.pass(block, hole).map_err(NotAssembled::Write)?;
            let (now, later) = bytes.split_at((block.room() as usize).min(bytes.len()));
            into.write(block, now).map_err(NotAssembled::Write)?;
            (bytes, offset, passed) = (later, offset + now.len() as u64, passed + hole);
        }
        Ok(passed)
    }

    /// Ends block `index`, whose hash is to be this one, if that is known. What it lacks is a hole, whose
    /// length is returned.
    ///
    /// # Errors
    /// Those of [`Self::take`] and [`Assembler::end`].
    pub fn seal<S: Staged>(
        &mut self,
        into: &Assembler<S>,
        index: u64,
        hash: Option<BlockHash>,
    ) -> Result<u64, NotAssembled> {
        self.block(into, index)?;
        self.end_at(into, index, BLOCK_LEN, hash)
    }

    /// Ends the blocks that are whole, and for which nobody vouches one by one.
    ///
    /// # Errors
    /// Those of [`Assembler::end`].
    pub fn end_whole<S: Staged>(&mut self, into: &Assembler<S>) -> Result<(), NotAssembled> {
        let whole = |(_, block): &(&u64, &Block)| block.room() == 0;
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
            self.block(into, last)?;
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
        let mut block = self.open.remove(&index).ok_or(NotAssembled::Incomplete)?;
        let hole = len.checked_sub(block.len()).ok_or(NotAssembled::TooLong)?;
        into.pass(&mut block, hole).map_err(NotAssembled::Write)?;
        into.end(block, hash)?;
        Ok(hole)
    }

    fn block<S: Staged>(
        &mut self,
        into: &Assembler<S>,
        index: u64,
    ) -> Result<&mut Block, NotAssembled> {
        let is_full = self.open.len() >= OPEN_MAX;
        match self.open.entry(index) {
            Entry::Occupied(block) => Ok(block.into_mut()),
            Entry::Vacant(_) if is_full => Err(NotAssembled::TooManyOpen),
            Entry::Vacant(place) => Ok(place.insert(into.begin(index)?)),
        }
    }
}

//! Proves that what an earlier job has left of a large file is what its journal
//! says, and the beginning of the source as it is now.

use crate::control::Control;
use crate::copy::interrupted;
use haul_model::{BLOCK_LEN, BlockHash, BlockHasher, Fault, Side};
use haul_tree::{SourceFile, StagedFile};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Samples of a source that is far away: 2 MiB in all, whatever is there. So all
/// that was written anew over more than two of as many parts is seen.
const SAMPLES: u64 = 64;

/// Length of a sample, in bytes: what every SFTP server gives for one request.
const SAMPLE_LEN: u64 = 32 << 10;

/// True if the stage really holds all of `blocks`: they are read and hashed.
pub(super) fn all_good(
    stage: &dyn StagedFile,
    blocks: &[BlockHash],
    control: &Control<'_>,
) -> io::Result<bool> {
    let Some(file) = stage.handle() else { return Ok(false) };
    let mut bytes = vec![0; BLOCK_LEN as usize];
    for (index, block) in (0..).zip(blocks) {
        if control.stopped() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        file.read_exact_at(&mut bytes, index * BLOCK_LEN)?;
        if BlockHash::of(index, &bytes) != *block {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True if `source` begins with these blocks: they are read.
///
/// # Errors
/// When something can't be read.
pub(super) fn is_of(
    source: &dyn SourceFile,
    blocks: &[BlockHash],
    control: &Control<'_>,
) -> Result<bool, Fault> {
    if let Some(mut stream) = source.stream(0..blocks.len() as u64 * BLOCK_LEN) {
        for (index, block) in (0..).zip(blocks) {
            let mut hasher = BlockHasher::new(index);
            // A piece of a stream lies within one block.
            while hasher.len() < BLOCK_LEN {
                if control.stopped() {
                    return Err(interrupted());
                }
                let Some(piece) = stream.next().map_err(|error| read(&error))? else {
                    return Ok(false);
                };
                hasher.update(&piece);
            }
            if hasher.finish() != *block {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    let mut bytes = vec![0; BLOCK_LEN as usize];
    for (index, block) in (0..).zip(blocks) {
        if control.stopped() {
            return Err(interrupted());
        }
        let len = source.read_at(&mut bytes, index * BLOCK_LEN).map_err(|error| read(&error))?;
        if len < bytes.len() || BlockHash::of(index, &bytes) != *block {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True if `source`, of which nothing but size and time is known, begins with what is
/// in `stage`, which is what `blocks` are the hashes of: where reading the source takes
/// round trips, by samples, else by all of it.
///
/// # Errors
/// When something can't be read.
pub(super) fn may_be_of(
    source: &dyn SourceFile,
    stage: &dyn StagedFile,
    blocks: &[BlockHash],
    control: &Control<'_>,
) -> Result<bool, Fault> {
    let (true, Some(there)) = (source.costs_round_trips(), stage.handle()) else {
        return is_of(source, blocks, control);
    };
    let random = |index: u64| RandomState::new().hash_one(index);
    let parts = samples(blocks.len() as u64 * BLOCK_LEN, random);
    let (mut seen, mut is_same) = (0, true);
    let mut expected = vec![0; SAMPLE_LEN as usize];
    let compared = source.read_parts(&parts, &mut |offset, bytes| {
        let expected = &mut expected[..bytes.len()];
        is_same &= there.read_exact_at(expected, offset).is_ok() && *expected == *bytes;
        seen += bytes.len() as u64;
        Ok(())
    });
    compared.map_err(|error| read(&error))?;
    Ok(is_same && seen == SAMPLES * SAMPLE_LEN)
}

/// The first and the last part of `len` bytes, which are a block at least, and one at a
/// `random` place in each of the equal parts between.
fn samples(len: u64, random: impl Fn(u64) -> u64) -> Vec<Range<u64>> {
    let each = len / SAMPLES;
    let start = |index: u64| match index {
        0 => 0,
        _ if index == SAMPLES - 1 => len - SAMPLE_LEN,
        _ => index * each + random(index) % (each - SAMPLE_LEN + 1),
    };
    (0..SAMPLES).map(start).map(|start| start..start + SAMPLE_LEN).collect()
}

fn read(error: &io::Error) -> Fault {
    Fault::from_io(Side::Source, "read", error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn samples_lie_in_all_parts_of_what_is_there() {
        for len in [BLOCK_LEN, 3 * BLOCK_LEN, 1000 * BLOCK_LEN] {
            for random in [0, 1, 77_777_777, u64::MAX] {
                // Never the same twice, as that of the program.
                let calls = Cell::new(random);
                let next = |_| calls.replace(calls.get().wrapping_mul(31).wrapping_add(7));
                let samples = samples(len, next);
                assert_eq!(samples.len() as u64, SAMPLES);
                assert_eq!((samples[0].start, samples[63].end), (0, len));
                for (index, sample) in (0..).zip(&samples) {
                    let part = index * len / SAMPLES..(index + 1) * len / SAMPLES;
                    assert!(part.start <= sample.start && sample.end <= part.end, "{sample:?}");
                    assert_eq!(sample.end - sample.start, SAMPLE_LEN);
                }
            }
        }
    }
}

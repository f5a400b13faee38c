//! Proofs for resuming: shows that a partial file holds the content that its journal records, and
//! that this is the beginning of the current source.

use crate::control::Control;
use crate::copy::interrupted;
use haul_model::{BLOCK_LEN, BlockHash, BlockHasher, Fault, Side};
use haul_tree::{SourceFile, StagedFile};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The number of samples of a far source, 2 MiB in all. Every change is found that covers more than
/// two of this many equal parts.
const SAMPLES: u64 = 64;

/// Length of a sample, in bytes. Every SFTP server returns this much for one request.
const SAMPLE_LEN: u64 = 32 << 10;

/// True if the staged file really holds all `blocks`, which are read and hashed.
pub(crate) fn stage_has_blocks(
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

/// True if `source`, which is read, begins with these blocks.
///
/// # Errors
/// If something can't be read.
pub(crate) fn begins_with_blocks(
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
                let Some(piece) = stream.next().map_err(|error| read_fault(&error))? else {
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
        let len =
            source.read_at(&mut bytes, index * BLOCK_LEN).map_err(|error| read_fault(&error))?;
        if len < bytes.len() || BlockHash::of(index, &bytes) != *block {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True if `source`, known only by size and time, begins with the content of `stage`. `blocks` are
/// the hashes of that content. If reading the source takes round trips, samples are compared;
/// otherwise all of it is.
///
/// # Errors
/// If something can't be read.
pub(crate) fn begins_with_stage(
    source: &dyn SourceFile,
    stage: &dyn StagedFile,
    blocks: &[BlockHash],
    control: &Control<'_>,
) -> Result<bool, Fault> {
    // The source is read over a network.
    let (None, Some(there)) = (source.handle(), stage.handle()) else {
        return begins_with_blocks(source, blocks, control);
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
    compared.map_err(|error| read_fault(&error))?;
    Ok(is_same && seen == SAMPLES * SAMPLE_LEN)
}

/// The ranges of the samples of `len` bytes, at least one block. The first and last are at the
/// ends. Each equal part between has one at a `random` offset.
fn samples(len: u64, random: impl Fn(u64) -> u64) -> Vec<Range<u64>> {
    let each = len / SAMPLES;
    let start = |index: u64| match index {
        0 => 0,
        _ if index == SAMPLES - 1 => len - SAMPLE_LEN,
        _ => index * each + random(index) % (each - SAMPLE_LEN + 1),
    };
    (0..SAMPLES).map(start).map(|start| start..start + SAMPLE_LEN).collect()
}

fn read_fault(error: &io::Error) -> Fault {
    Fault::from_io(Side::Source, "read", error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn samples_lie_in_all_parts() {
        for len in [BLOCK_LEN, 3 * BLOCK_LEN, 1000 * BLOCK_LEN] {
            for random in [0, 1, 77_777_777, u64::MAX] {
                // Values that differ, as the program's random ones do.
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

//! The claims of a journal, read by its documented format and by nothing of the
//! store's own code.

use super::{BLOCKS, content};
use haul_model::{BLOCK_LEN, BlockHash};
use std::fs;
use std::path::{Path, PathBuf};

const HEADER: usize = 256;
const RECORD: usize = 32;

/// The file in `dir` whose name ends so, if there is one.
pub(crate) fn left(dir: &Path, ending: &str) -> Option<PathBuf> {
    let name = super::names_in(dir).into_iter().find(|name| name.ends_with(ending))?;
    Some(dir.join(name))
}

/// Records in the journal of `dir`, committed or not.
pub(crate) fn records(dir: &Path) -> usize {
    let journal = left(dir, ".journal").and_then(|path| fs::metadata(path).ok());
    journal.map_or(0, |stat| (stat.len() as usize).saturating_sub(HEADER) / RECORD)
}

/// The records that the newest whole commit slot of the journal in `dir` covers.
pub(crate) fn committed(dir: &Path) -> Vec<[u8; 32]> {
    let Some(path) = left(dir, ".journal") else { return Vec::new() };
    let bytes = fs::read(path).expect("it can be read");
    let Some((header, records)) = bytes.split_at_checked(HEADER) else { return Vec::new() };
    let (fixed, checksum) = (&header[..80], &header[80..112]);
    if &fixed[..8] != b"haul-jnl" || checksum != blake3::hash(fixed).as_bytes() {
        return Vec::new();
    }
    let records: Vec<[u8; 32]> =
        records.chunks_exact(RECORD).map(|record| record.try_into().expect("32 bytes")).collect();
    let number =
        |slot: &[u8], at: usize| u64::from_le_bytes(slot[at..at + 8].try_into().expect("8 bytes"));
    let whole = |slot: &&[u8]| {
        let count = number(slot, 0) as usize;
        let Some(covered) = records.get(..count) else { return false };
        let mut digest = blake3::Hasher::new();
        digest.update(covered.as_flattened()).update(&slot[..16]).update(&fixed[..64]);
        number(slot, 8) > 0 && slot[16..48] == *digest.finalize().as_bytes()
    };
    let slots = [&header[112..176], &header[176..240]];
    let newest = slots.into_iter().filter(whole).max_by_key(|slot| number(slot, 8));
    newest.map_or(Vec::new(), |slot| records[..number(slot, 0) as usize].to_vec())
}

/// Checks that each block that is claimed is in the stage, and is the source's;
/// gives how many there are.
#[track_caller]
pub(crate) fn check(dir: &Path, hint: &str) -> u64 {
    let claimed = committed(dir);
    if claimed.is_empty() {
        return 0;
    }
    assert!(claimed.len() as u64 <= BLOCKS, "{} blocks are claimed: {hint}", claimed.len());
    let part = left(dir, ".part").unwrap_or_else(|| panic!("a claim without a stage: {hint}"));
    let staged = fs::read(part).expect("it can be read");
    for (k, record) in (0..).zip(&claimed) {
        let at = (k * BLOCK_LEN) as usize;
        let range = at..at + BLOCK_LEN as usize;
        let block = &content()[range.clone()];
        assert_eq!(*record, *BlockHash::of(k, block).as_bytes(), "record {k}: {hint}");
        let there = staged.get(range).is_some_and(|staged| staged == block);
        assert!(there, "block {k} of {} is claimed and lost: {hint}", claimed.len());
    }
    claimed.len() as u64
}

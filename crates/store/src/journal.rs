//! The journal of a large file: which blocks are in the stage, and their hashes.
//!
//! ```text
//! 256-byte header | 32 bytes for each block, appended
//!
//!   0   8  magic
//!   8   4  version          } all numbers little-endian
//!  12   4  block length
//!  16   8  length of the source
//!  24   8  its modification time, seconds
//!  32   4  and nanoseconds
//!  36   4  nanoseconds of the time when anything of it last changed, or all
//!          bits set if that is not known
//!  40   8  seconds of that time
//!  48   8  its inode
//!  56   8  zero
//!  64  16  boot and mount in which records were appended
//!  80  32  BLAKE3 of bytes 0..80
//! 112  64  commit slot: blocks (8), turn (8), BLAKE3 of records and both (32), zero (16)
//! 176  64  the other slot
//! 240  16  zero
//! ```
//!
//! 1. For every k below the count in a valid commit slot, block k is durable in the stage, and its
//!    hash is record k. The order of writing ensures that: the data is written and flushed. Then
//!    the names of stage and journal are flushed, once. Then the slot is written, and the journal
//!    flushed. So no slot ever claims a block that is not on the medium. An old claim can't come
//!    back either: before the stage changes, a discarded or reused journal is emptied on the
//!    medium.
//! 2. Record k is appended after block k was written. Until the system is restarted or the file
//!    system is remounted, the page cache holds both, or reads back what it has written out. In
//!    that time records count without a slot. The boot id in the header identifies that time.
//! 3. Records are appended and never rewritten, and commits alternate between the slots. A torn
//!    write damages at most one slot, which its digest detects.
//! 4. A journal that can't be read, is inconsistent or belongs to another source is ignored. It is
//!    never an error: the file is copied again.

use haul_model::{BLOCK_LEN, BlockHash, Timestamp};
use haul_sys::Dir;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Length of the header in bytes.
pub(crate) const HEADER_LEN: u64 = 256;

/// Length of a block's record in bytes.
pub(crate) const RECORD_LEN: u64 = 32;

const MAGIC: [u8; 8] = *b"haul-jnl";
const VERSION: u32 = 2;
/// Length of the part of the header that the checksum covers.
const FIXED_LEN: usize = 80;
const CHECKSUM_AT: usize = 80;
const SLOTS_AT: [usize; 2] = [112, 176];
const SLOT_LEN: usize = 64;
/// Offset of the boot id, which follows all fields about the source.
const BOOT_AT: usize = 64;
/// The nanoseconds of an unknown time.
const UNKNOWN: u32 = u32::MAX;

/// The identity of the source when its copy began. A stage is resumed only with exactly this
/// source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceId {
    /// The length in bytes.
    pub size: u64,
    /// The modification time.
    pub mtime: Timestamp,
    /// The number that identifies the file on its machine, from inode and file system.
    pub inode: u64,
    /// The time of the last change of content or attributes, if known. Unlike the modification
    /// time, it can't be set.
    pub ctime: Option<Timestamp>,
}

/// The id of a page cache's lifetime, which begins when the system starts or the file system is
/// mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BootId(pub(crate) [u8; 16]);

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    fixed: [u8; FIXED_LEN],
    /// Number of recorded blocks.
    pub(crate) records: u64,
    /// Number of records that the newest commit slot covers.
    pub(crate) committed: u64,
    /// The hash of all records so far.
    digest: blake3::Hasher,
    /// The turn of the next commit. Its parity chooses the slot.
    turn: u64,
}

/// The content of the next commit, taken before the data is flushed.
#[derive(Debug)]
pub(crate) struct CommitPoint {
    records: u64,
    digest: blake3::Hasher,
}

impl Journal {
    /// Begins a journal in `file`. An earlier journal in it is first removed durably, before the
    /// stage changes.
    ///
    /// # Errors
    /// Errors of writing, and of flushing the removal.
    pub(crate) fn create(file: File, source: &SourceId, boot: BootId) -> io::Result<Self> {
        if file.metadata()?.len() > 0 {
            file.set_len(0)?;
            file.sync_all()?;
        }
        let fixed = encode_fixed(source, boot);
        let digest = blake3::Hasher::new();
        let journal = Self { file, fixed, records: 0, committed: 0, digest, turn: 1 };
        let mut header = [0; HEADER_LEN as usize];
        header[..FIXED_LEN].copy_from_slice(&fixed);
        header[CHECKSUM_AT..CHECKSUM_AT + 32].copy_from_slice(&checksum(&fixed));
        journal.file.write_all_at(&header, 0)?;
        Ok(journal)
    }

    /// Resumes the journal in `file`. Returns it, and the hashes of the blocks in the stage. `None`
    /// if the journal is invalid, belongs to another source, or has no blocks.
    ///
    /// # Errors
    /// Errors of writing to the journal.
    pub(crate) fn resume(
        file: File,
        source: &SourceId,
        boot: BootId,
    ) -> io::Result<Option<(Self, Vec<BlockHash>)>> {
        let Some(found) = read(&file, source, boot) else { return Ok(None) };
        if found.records.is_empty() {
            return Ok(None);
        }
        let mut digest = blake3::Hasher::new();
        for record in &found.records {
            digest.update(record.as_bytes());
        }
        let fixed = encode_fixed(source, boot);
        let records = found.records.len() as u64;
        let (committed, turn) = (found.committed, found.turn + 1);
        let journal = Self { file, fixed, records, committed, digest, turn };
        // Cut off records that are not valid, so that they do not count as records of this boot.
        journal.file.set_len(HEADER_LEN + records * RECORD_LEN)?;
        if !found.same_boot {
            journal.file.sync_data()?;
            let mut start = [0; FIXED_LEN + 32];
            start[..FIXED_LEN].copy_from_slice(&fixed);
            start[CHECKSUM_AT..].copy_from_slice(&checksum(&fixed));
            journal.file.write_all_at(&start, 0)?;
        }
        Ok(Some((journal, found.records)))
    }

    /// True if no block is recorded.
    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Appends the hash of the next block, which must have been written.
    ///
    /// # Errors
    /// Errors of writing.
    pub(crate) fn append(&mut self, block: BlockHash) -> io::Result<()> {
        let at = HEADER_LEN + self.records * RECORD_LEN;
        self.file.write_all_at(block.as_bytes(), at)?;
        self.digest.update(block.as_bytes());
        self.records += 1;
        Ok(())
    }

    /// Takes the current records for a commit. Flush the stage after this and before
    /// [`Self::commit`].
    pub(crate) fn commit_point(&self) -> CommitPoint {
        CommitPoint { records: self.records, digest: self.digest.clone() }
    }

    /// Commits to `point`: its recorded blocks are durable.
    ///
    /// # Errors
    /// Errors of writing and flushing the journal.
    pub(crate) fn commit(&mut self, point: &CommitPoint) -> io::Result<()> {
        let slot = encode_slot(&self.fixed, point.records, self.turn, &point.digest);
        let at = SLOTS_AT[(self.turn % 2) as usize] as u64;
        self.file.write_all_at(&slot, at)?;
        self.turn += 1;
        // Even if flushing fails, the slot may be durable.
        self.committed = point.records;
        self.file.sync_data()
    }

    /// Removes all records and commits. No boot will find a record in the journal.
    pub(crate) fn revoke(&mut self) {
        // If the medium fails here too, nothing more can be done. Earlier commits are durable.
        let revoked = self.file.set_len(0);
        if revoked.is_ok() && self.committed > 0 {
            let _ = self.file.sync_all();
        }
        self.committed = 0;
    }
}

/// The claim of a journal, for reports. Only the header is read, and no digest of records is
/// checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Length of the source in bytes.
    pub(crate) size: u64,
    /// Modification time of the source.
    pub(crate) mtime: Timestamp,
    /// Number of whole blocks in the stage.
    pub(crate) blocks: u64,
}

/// The claim of the journal in `file`. `None` if nothing can be resumed.
pub(crate) fn claim(file: &File, boot: BootId) -> Option<Claim> {
    let (header, source, written_in) = read_header(file)?;
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
    let records = (file.metadata().ok()?.len() - HEADER_LEN) / RECORD_LEN;
    let committed = || SLOTS_AT.into_iter().map(number).filter(|n| *n <= records).max();
    let blocks = if written_in == boot { Some(records) } else { committed() };
    let blocks = blocks?.min(source.size / BLOCK_LEN);
    (blocks > 0).then_some(Claim { size: source.size, mtime: source.mtime, blocks })
}

/// The valid part of a journal.
struct Found {
    records: Vec<BlockHash>,
    committed: u64,
    turn: u64,
    same_boot: bool,
}

fn read(file: &File, source: &SourceId, boot: BootId) -> Option<Found> {
    let (header, found, written_in) = read_header(file)?;
    // Only the boot id may differ.
    if found != *source {
        return None;
    }
    let same_boot = written_in == boot;
    let fixed = encode_fixed(source, written_in);
    let blocks_max = source.size.div_ceil(BLOCK_LEN);
    let len = file.metadata().ok()?.len();
    let records_len = (len - HEADER_LEN).min(blocks_max * RECORD_LEN) / RECORD_LEN * RECORD_LEN;
    let mut bytes = vec![0; usize::try_from(records_len).ok()?];
    file.read_exact_at(&mut bytes, HEADER_LEN).ok()?;
    let slots = SLOTS_AT.map(|at| check_slot(&header[at..at + SLOT_LEN], &fixed, &bytes));
    let (turn, committed) = slots.into_iter().flatten().max().unwrap_or_default();
    let believed = if same_boot { bytes.len() } else { (committed * RECORD_LEN) as usize };
    let records = bytes[..believed]
        .chunks_exact(RECORD_LEN as usize)
        .map(|record| BlockHash::from(<[u8; 32]>::try_from(record).expect("32 bytes")))
        .collect();
    Some(Found { records, committed, turn, same_boot })
}

/// The turn of a valid commit slot, and the number of its records.
fn check_slot(slot: &[u8], fixed: &[u8; FIXED_LEN], records: &[u8]) -> Option<(u64, u64)> {
    let number = |at: usize| u64::from_le_bytes(slot[at..at + 8].try_into().expect("8 bytes"));
    let (count, turn) = (number(0), number(8));
    let len = usize::try_from(count.checked_mul(RECORD_LEN)?).ok()?;
    let mut digest = blake3::Hasher::new();
    digest.update(records.get(..len)?);
    (slot == encode_slot(fixed, count, turn, &digest)).then_some((turn, count))
}

fn encode_slot(
    fixed: &[u8; FIXED_LEN],
    records: u64,
    turn: u64,
    digest: &blake3::Hasher,
) -> [u8; SLOT_LEN] {
    let mut slot = [0; SLOT_LEN];
    slot[..8].copy_from_slice(&records.to_le_bytes());
    slot[8..16].copy_from_slice(&turn.to_le_bytes());
    let mut digest = digest.clone();
    digest.update(&slot[..16]);
    // All fields but the boot id, which changes when the journal is resumed.
    digest.update(&fixed[..BOOT_AT]);
    slot[16..48].copy_from_slice(digest.finalize().as_bytes());
    slot
}

fn encode_fixed(source: &SourceId, boot: BootId) -> [u8; FIXED_LEN] {
    let mut fixed = [0; FIXED_LEN];
    fixed[..8].copy_from_slice(&MAGIC);
    fixed[8..12].copy_from_slice(&VERSION.to_le_bytes());
    fixed[12..16].copy_from_slice(&(BLOCK_LEN as u32).to_le_bytes());
    fixed[16..24].copy_from_slice(&source.size.to_le_bytes());
    fixed[24..32].copy_from_slice(&source.mtime.secs.to_le_bytes());
    fixed[32..36].copy_from_slice(&source.mtime.nanos.to_le_bytes());
    let ctime = source.ctime.unwrap_or(Timestamp { secs: 0, nanos: UNKNOWN });
    fixed[36..40].copy_from_slice(&ctime.nanos.to_le_bytes());
    fixed[40..48].copy_from_slice(&ctime.secs.to_le_bytes());
    fixed[48..56].copy_from_slice(&source.inode.to_le_bytes());
    fixed[BOOT_AT..].copy_from_slice(&boot.0);
    fixed
}

/// Reads a valid header of this version, with its fields.
fn read_header(file: &File) -> Option<([u8; HEADER_LEN as usize], SourceId, BootId)> {
    let mut header = [0; HEADER_LEN as usize];
    file.read_exact_at(&mut header, 0).ok()?;
    let fixed = &header[..FIXED_LEN];
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
    let nanos = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
    let mtime = Timestamp { secs: number(24) as i64, nanos: nanos(32) };
    let ctime = Timestamp { secs: number(40) as i64, nanos: nanos(36) };
    let ctime = (ctime.nanos != UNKNOWN).then_some(ctime);
    let source = SourceId { size: number(16), mtime, inode: number(48), ctime };
    let boot = BootId(fixed[BOOT_AT..].try_into().expect("16 bytes"));
    let is_ours = *fixed == encode_fixed(&source, boot)
        && header[CHECKSUM_AT..CHECKSUM_AT + 32] == *blake3::hash(fixed).as_bytes();
    is_ours.then_some((header, source, boot))
}

/// The stage that an earlier copy left of a file, as its journal's header describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// There is no stage.
    Nothing,
    /// A stage that may be resumed.
    Partial,
    /// A stage of an earlier source.
    OtherSource,
}

impl Earlier {
    /// Reads the journal `name` in `dir` for a copy of `source`.
    pub(crate) fn in_dir(dir: &Dir, name: &str, source: &SourceId) -> Self {
        if !dir.has_private(name) {
            return Self::Nothing;
        }
        // An unreadable journal is reported when it is opened for the copy.
        dir.open_any_private(name).map_or(Self::Partial, |(file, _)| Self::of(&file, source))
    }

    /// Reads the journal in `file` for a copy of `source`.
    fn of(file: &File, source: &SourceId) -> Self {
        match read_header(file) {
            Some((_, found, _)) if found != *source => Self::OtherSource,
            _ => Self::Partial,
        }
    }
}

fn checksum(fixed: &[u8; FIXED_LEN]) -> [u8; 32] {
    *blake3::hash(fixed).as_bytes()
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;

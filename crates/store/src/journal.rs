//! The journal beside a stage: which blocks of a large file are there already,
//! and what their hashes are.
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
//! 1. For every k below the number in a whole commit slot, block k is durable
//!    in the stage and its hash is record k. The order that makes it so: the
//!    data is written; it is made durable; so are the names of stage and
//!    journal, once; the slot is written; the journal is made durable. No state
//!    can be reached in which a slot claims a block that is not on the medium.
//!    Nor can one come back: a journal that is given up, or begun anew in the
//!    file of an old one, is empty on the medium before anything else happens
//!    to the stage.
//! 2. Record k is appended after block k was written. As long as neither the
//!    system was started anew nor the file system mounted anew, the page cache
//!    holds both, or what it has written out of them is read again; and records
//!    count without a slot. The id in the header tells.
//! 3. Records are appended and never rewritten, and the slots take turns: a
//!    torn write damages one slot at most, and its digest shows that.
//! 4. What can't be read, doesn't add up or belongs to another source is not
//!    believed, and never an error: the file is copied anew.

use haul_model::{BLOCK_LEN, BlockHash, Timestamp};
use haul_sys::Dir;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Length of the header, in bytes.
pub(crate) const HEADER_LEN: u64 = 256;

/// Length of a block's record, in bytes.
pub(crate) const RECORD_LEN: u64 = 32;

const MAGIC: [u8; 8] = *b"haul-jnl";
const VERSION: u32 = 2;
/// The part of the header that the checksum covers.
const FIXED_LEN: usize = 80;
const CHECKSUM_AT: usize = 80;
const SLOTS_AT: [usize; 2] = [112, 176];
const SLOT_LEN: usize = 64;
/// Where the boot stands, behind all that tells the source.
const BOOT_AT: usize = 64;
/// In place of nanoseconds, where a time is not known.
const UNKNOWN: u32 = u32::MAX;

/// Which content a stage is a part of: the source as it was when its copy
/// began. A stage is continued only with exactly this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceId {
    /// Its length, in bytes.
    pub size: u64,
    /// Its modification time.
    pub mtime: Timestamp,
    /// The number that it is told by on its machine: inode and file system.
    pub inode: u64,
    /// When anything of it last changed, where that is known: nobody can set it
    /// back, as a modification time can be.
    pub ctime: Option<Timestamp>,
}

/// The time in which a page cache lasts: from the start of the system, or the
/// mounting of the file system, to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BootId(pub(crate) [u8; 16]);

/// A journal that is being kept.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    fixed: [u8; FIXED_LEN],
    records: u64,
    /// Records that the newest commit slot covers.
    committed: u64,
    /// Over all records so far.
    digest: blake3::Hasher,
    /// Turn of the next commit; its parity chooses the slot.
    turn: u64,
}

/// The claim of the next commit, taken down before the data is made durable.
#[derive(Debug)]
pub(crate) struct CommitPoint {
    records: u64,
    digest: blake3::Hasher,
}

impl Journal {
    /// Begins a journal in `file`, which is cut to the header. What another one
    /// has claimed there is gone for good, before anything is done to its stage.
    ///
    /// # Errors
    /// Those of writing, and of making it durable that the old one is gone.
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

    /// Continues the journal in `file`: gives it, and the hashes of the blocks
    /// that are there. `None` if it can't be believed, is about another source,
    /// or claims nothing.
    ///
    /// # Errors
    /// Those of writing, when the journal is made ready to go on.
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
        // What was appended beyond is not believed: it must not be taken for
        // this boot's own work.
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

    /// Blocks on record.
    pub(crate) fn len(&self) -> u64 {
        self.records
    }

    /// Blocks that are on record and claimed to be durable.
    pub(crate) fn committed(&self) -> u64 {
        self.committed
    }

    /// True if no block is on record.
    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Appends the hash of the next block, which was written before.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn append(&mut self, block: BlockHash) -> io::Result<()> {
        let at = HEADER_LEN + self.records * RECORD_LEN;
        self.file.write_all_at(block.as_bytes(), at)?;
        self.digest.update(block.as_bytes());
        self.records += 1;
        Ok(())
    }

    /// Takes down what is on record now. Make the stage durable after this and
    /// before [`Self::commit`].
    pub(crate) fn commit_point(&self) -> CommitPoint {
        CommitPoint { records: self.records, digest: self.digest.clone() }
    }

    /// Commits to `point`: the blocks on record there are durable.
    ///
    /// # Errors
    /// Those of writing and of making the journal durable.
    pub(crate) fn commit(&mut self, point: &CommitPoint) -> io::Result<()> {
        let slot = encode_slot(&self.fixed, point.records, self.turn, &point.digest);
        let at = SLOTS_AT[(self.turn % 2) as usize] as u64;
        self.file.write_all_at(&slot, at)?;
        self.turn += 1;
        // Whether this is durable or not: it may be, and be found.
        self.committed = point.records;
        self.file.sync_data()
    }

    /// Takes back all that the journal has said: neither this boot nor another
    /// finds a record in it.
    pub(crate) fn revoke(&mut self) {
        // A medium that fails here as well is past all help, and what was
        // claimed before is durable.
        let revoked = self.file.set_len(0);
        if revoked.is_ok() && self.committed > 0 {
            let _ = self.file.sync_all();
        }
        self.committed = 0;
    }
}

/// The claim of a journal, for telling a person: nothing is read but its header,
/// and no digest of records is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Length of the source, in bytes.
    pub(crate) size: u64,
    /// Its modification time.
    pub(crate) mtime: Timestamp,
    /// Whole blocks that are there.
    pub(crate) blocks: u64,
}

/// The claim of the journal in `file`; `None` if nothing can continue it.
pub(crate) fn claim(file: &File, boot: BootId) -> Option<Claim> {
    let mut header = [0; HEADER_LEN as usize];
    file.read_exact_at(&mut header, 0).ok()?;
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
    let (source, written_in) = decode_fixed(&header)?;
    let records = (file.metadata().ok()?.len() - HEADER_LEN) / RECORD_LEN;
    let committed = || SLOTS_AT.into_iter().map(number).filter(|n| *n <= records).max();
    let blocks = if written_in == boot { Some(records) } else { committed() };
    let blocks = blocks?.min(source.size / BLOCK_LEN);
    (blocks > 0).then_some(Claim { size: source.size, mtime: source.mtime, blocks })
}

/// The part of a journal that can be believed.
struct Found {
    records: Vec<BlockHash>,
    committed: u64,
    turn: u64,
    same_boot: bool,
}

fn read(file: &File, source: &SourceId, boot: BootId) -> Option<Found> {
    let mut header = [0; HEADER_LEN as usize];
    file.read_exact_at(&mut header, 0).ok()?;
    let fixed: [u8; FIXED_LEN] = header[..FIXED_LEN].try_into().expect("a part of the header");
    if header[CHECKSUM_AT..CHECKSUM_AT + 32] != checksum(&fixed) {
        return None;
    }
    let blocks_max = source.size.div_ceil(BLOCK_LEN);
    let same_boot = fixed == encode_fixed(source, boot);
    // The boot may differ, nothing else.
    let written_in = BootId(fixed[BOOT_AT..].try_into().expect("16 bytes"));
    if fixed != encode_fixed(source, written_in) {
        return None;
    }
    let len = file.metadata().ok()?.len();
    let records_len = (len - HEADER_LEN).min(blocks_max * RECORD_LEN) / RECORD_LEN * RECORD_LEN;
    let mut bytes = vec![0; usize::try_from(records_len).ok()?];
    file.read_exact_at(&mut bytes, HEADER_LEN).ok()?;
    let slots = SLOTS_AT.map(|at| check_slot(&header[at..at + SLOT_LEN], &fixed, &bytes));
    let newest = slots.into_iter().flatten().max_by_key(|slot| slot.turn);
    let (committed, turn) = newest.as_ref().map_or((0, 0), |slot| (slot.records, slot.turn));
    let believed = if same_boot { bytes.len() } else { (committed * RECORD_LEN) as usize };
    let records = bytes[..believed]
        .chunks_exact(RECORD_LEN as usize)
        .map(|record| BlockHash::from(<[u8; 32]>::try_from(record).expect("32 bytes")))
        .collect();
    Some(Found { records, committed, turn, same_boot })
}

/// A commit slot that is whole.
struct Slot {
    records: u64,
    turn: u64,
}

fn check_slot(slot: &[u8], fixed: &[u8; FIXED_LEN], records: &[u8]) -> Option<Slot> {
    let number = |at: usize| u64::from_le_bytes(slot[at..at + 8].try_into().expect("8 bytes"));
    let (count, turn) = (number(0), number(8));
    let len = usize::try_from(count.checked_mul(RECORD_LEN)?).ok()?;
    let mut digest = blake3::Hasher::new();
    digest.update(records.get(..len)?);
    let good = turn > 0 && slot == encode_slot(fixed, count, turn, &digest);
    good.then_some(Slot { records: count, turn })
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
    // All but the boot, which changes when the journal is taken up again.
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

/// The fields of a whole header of this version.
fn decode_fixed(header: &[u8; HEADER_LEN as usize]) -> Option<(SourceId, BootId)> {
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
    is_ours.then_some((source, boot))
}

/// The stage that an earlier copy left of a file, as far as the header of its journal
/// tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// Nothing.
    Nothing,
    /// Something that may be continued.
    Partial,
    /// A part of another file that was the source then.
    OfAnother,
}

impl Earlier {
    /// Reads the journal `name` in `dir`, where `source` is to be copied.
    pub(crate) fn in_dir(dir: &Dir, name: &str, source: &SourceId) -> Self {
        if !dir.has_private(name) {
            return Self::Nothing;
        }
        // What can't be read is looked at when it is opened for good.
        dir.open_found(name).map_or(Self::Partial, |(file, _)| Self::of(&file, source))
    }

    /// Reads the journal in `file`, where `source` is to be copied.
    fn of(file: &File, source: &SourceId) -> Self {
        let mut header = [0; HEADER_LEN as usize];
        let read = file.read_exact_at(&mut header, 0);
        match read.ok().and_then(|()| decode_fixed(&header)) {
            Some((found, _)) if found != *source => Self::OfAnother,
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

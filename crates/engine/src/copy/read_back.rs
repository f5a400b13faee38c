//! Reads contents back from their medium.

use super::blocks::in_several_threads;
use super::{PART_LEN, interrupted};
use crate::control::Control;
use haul_model::{
    BLOCK_LEN, BlockHasher, BlockTree, ContentHash, ContentHasher, Fault, FaultKind, Side,
};
use haul_sys::DIRECT_ALIGN;
use haul_tree::SealedFile;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Further threads that read back one file. They wait for the medium, so their number does not
/// depend on the processors.
const READ_BACK_HELPERS: usize = 3;

/// The hash of a durable file of `size` bytes, read from its medium, past the page cache if
/// possible. `at_once` files are read back at the same time. Those of more than one block share 16
/// MiB of buffers.
///
/// # Errors
/// When the file can't be read.
pub(crate) fn read_back(
    file: &dyn SealedFile,
    size: u64,
    at_once: usize,
    control: &Control<'_>,
) -> Result<ContentHash, Fault> {
    file.forget_cached();
    let mut hasher = ContentHasher::new();
    let mut take = |piece: &[u8]| {
        hasher.update(piece);
        !control.stopped()
    };
    if let Some(read) = file.stream(0..size, &mut take) {
        read.map_err(|e| read_back_failed(&e))?;
        if control.stopped() {
            return Err(interrupted());
        }
        return if hasher.len() == size { Ok(hasher.finish()) } else { Err(read_back_short()) };
    }
    let fill = |buffer: &mut [u8], at: u64, len: u64| -> Result<(), Fault> {
        let read = file.read_at(buffer, at);
        let read = read.map_err(|e| read_back_failed(&e))?;
        if (read as u64) < len {
            return Err(read_back_short());
        }
        Ok(())
    };
    if size <= BLOCK_LEN {
        let mut buffer = Aligned::new(size.next_multiple_of(DIRECT_ALIGN as u64) as usize);
        fill(buffer.bytes(), 0, size)?;
        return Ok(ContentHash::of(&buffer.bytes()[..size as usize]));
    }
    let next = AtomicU64::new(0);
    let hashes = Mutex::new(BTreeMap::new());
    // Most media are faster with larger reads.
    let part_len = (BLOCK_LEN as usize / at_once.next_power_of_two()).max(PART_LEN);
    in_several_threads(&next, READ_BACK_HELPERS, control, || {
        let mut buffer = Aligned::new(part_len);
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let start = index.saturating_mul(BLOCK_LEN);
            if start >= size {
                return Ok(());
            }
            let end = size.min(start + BLOCK_LEN);
            let mut hasher = BlockHasher::new(index);
            for at in (start..end).step_by(part_len) {
                if control.stopped() {
                    return Err(interrupted());
                }
                let len = (end - at).min(part_len as u64);
                fill(buffer.bytes(), at, len)?;
                hasher.update(&buffer.bytes()[..len as usize]);
            }
            hashes.lock().insert(index, hasher.finish());
        }
    })?;
    let hashes = hashes.into_inner();
    let whole = BlockTree::resume(hashes.into_values()).finish();
    Ok(whole.expect("there are two blocks or more"))
}

fn read_back_failed(error: &io::Error) -> Fault {
    Fault::from_io(Side::Destination, "read back", error)
}

fn read_back_short() -> Fault {
    let message = "the file reads back shorter than it was written";
    Fault::new(Side::Destination, FaultKind::Corrupt, message)
}

/// A buffer with the alignment for reading past the page cache.
pub(crate) struct Aligned {
    bytes: Vec<u8>,
    len: usize,
}

impl Aligned {
    /// A buffer of `len` bytes.
    pub(crate) fn new(len: usize) -> Self {
        Self { bytes: vec![0; len + DIRECT_ALIGN], len }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let start = self.bytes.as_ptr().align_offset(DIRECT_ALIGN);
        &mut self.bytes[start..start + self.len]
    }
}

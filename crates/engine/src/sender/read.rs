//! The Sender's workers on a wire: they read what is wanted, hash it on the
//! way, and hand it to the writer of the connection. Small files go together
//! in packs, large ones in pieces.

use super::{Item, Sender};
use crate::control::Control;
use crate::control::Step;
use crate::copy::{self, STEP_LEN};
use crate::digest::seal_of;
use crate::link::wire::{Body, OutFrame, Outbox};
use crate::pool::Pool;
use haul_model::{BLOCK_LEN, ContentHash, ContentHasher, Fault, FaultKind, Kind, Side};
use haul_proto::{
    BlockSeal, FileEnd, FileSeal, Message, PACK_FILE_MAX, PACK_TARGET, PackBuilder, PackItem,
    data_head,
};
use haul_tree::{SourceFile, changed, check_size, check_unchanged};
use std::sync::Arc;

/// Content of one Data frame, in bytes. Pieces begin at multiples of it.
///
/// A quarter of a block: large enough that a frame costs nothing, small enough
/// that it is still in the processor's cache when it is hashed and sent.
const PIECE_LEN: u64 = 1 << 20;

/// Room for a pack's contents: the last file may begin just below the mark.
const PACK_LEN_MAX: usize = PACK_TARGET + PACK_FILE_MAX as usize;

/// Reads what is wanted until there is nothing left to come, or the job ends.
pub(crate) fn run_reader(
    sender: &Sender<'_>,
    queue: &crossbeam_channel::Receiver<Item>,
    outbox: &Outbox,
    pool: &Pool,
    control: &Control<'_>,
) {
    let reader = Reader { sender, outbox, pool, control };
    let mut next = None;
    let mut scratch = Vec::new();
    while let Some(item) = next.take().or_else(|| queue.recv().ok()) {
        let sent = if sender.checks() {
            reader.seal_alone(item, &mut scratch)
        } else if item_len(&item) <= PACK_FILE_MAX {
            reader.pack(item, queue, &mut next, &mut scratch)
        } else {
            reader.large(item, &mut scratch)
        };
        if sent.is_none() || control.stopped() {
            return;
        }
    }
}

struct Reader<'r, 'a> {
    sender: &'r Sender<'a>,
    outbox: &'r Outbox,
    pool: &'r Pool,
    control: &'r Control<'a>,
}

impl Reader<'_, '_> {
    /// Sends `first` and what small files are waiting as one pack. What comes
    /// next and does not fit is put into `next`. `None` if the job ends.
    fn pack(
        &self,
        first: Item,
        queue: &crossbeam_channel::Receiver<Item>,
        next: &mut Option<Item>,
        scratch: &mut Vec<u8>,
    ) -> Option<()> {
        let mut bytes = self.pool.take(PACK_LEN_MAX, self.control)?;
        let mut pack = PackBuilder::default();
        let mut grown = Vec::new();
        let mut item = first;
        loop {
            match self.small(&item, &mut bytes[pack.content_len()..]) {
                Ok(Some(packed)) => pack.push(packed),
                // It is too large for a pack by now.
                Ok(None) => grown.push(item),
                Err(fault) => pack.push(PackItem::Fault { index: item.index, fault }),
            }
            if !pack.has_room() {
                break;
            }
            match queue.try_recv() {
                Ok(waiting) if item_len(&waiting) <= PACK_FILE_MAX => item = waiting,
                Ok(waiting) => {
                    *next = Some(waiting);
                    break;
                }
                Err(_) => break,
            }
        }
        if !pack.is_empty() {
            let len = pack.content_len();
            bytes.truncate(len);
            self.outbox.send(OutFrame::content(pack.head(), Body::Bytes(bytes)))?;
        }
        grown.into_iter().try_for_each(|item| self.large(item, scratch))
    }

    /// Reads a small file to the beginning of `room`; `None` if it is not small.
    fn small(&self, item: &Item, room: &mut [u8]) -> Result<Option<PackItem>, Fault> {
        let source = open(item, self.sender.follows())?;
        let seal = source.seal();
        if seal.size > PACK_FILE_MAX || seal.size > room.len() as u64 {
            return Ok(None);
        }
        if seal.size == 0 {
            check_size(&*source)?;
        }
        let content = &mut room[..seal.size as usize];
        let len = source.read_at(content, 0).map_err(|error| read(&error))?;
        check_unchanged(&*source)?;
        if len < content.len() {
            return Err(changed());
        }
        self.sender.came_by(item.index, Step::Moved(seal.size));
        Ok(Some(PackItem::File {
            index: item.index,
            len: seal.size as u32,
            mtime: seal.mtime,
            hash: ContentHash::of(content),
        }))
    }

    /// Sends a file's hash, and nothing of its content. `None` if the job ends.
    fn seal_alone(&self, item: Item, scratch: &mut Vec<u8>) -> Option<()> {
        let result = open(&item, self.sender.follows())
            .and_then(|source| seal_of(&*source, scratch, self.control));
        if self.control.stopped() {
            return None;
        }
        let end = Message::FileEnd(FileEnd { index: item.index, result });
        self.outbox.send(OutFrame::message(&end))
    }

    /// Sends a file in pieces. `None` if the job ends.
    fn large(&self, item: Item, scratch: &mut Vec<u8>) -> Option<()> {
        scratch.resize(scratch.len().max(STEP_LEN), 0);
        let result = match open(&item, self.sender.follows()) {
            Ok(source) => self.pieces(&item, source.into(), &mut scratch[..STEP_LEN])?,
            Err(fault) => Err(fault),
        };
        let end = Message::FileEnd(FileEnd { index: item.index, result });
        self.outbox.send(OutFrame::message(&end))
    }

    fn pieces(
        &self,
        item: &Item,
        source: Arc<dyn SourceFile>,
        part: &mut [u8],
    ) -> Option<Result<FileSeal, Fault>> {
        let seal = source.seal();
        let start = item.blocks.saturating_mul(BLOCK_LEN);
        if start > seal.size || (start > 0 && !is_as_listed(item, &*source)) {
            return Some(Err(changed()));
        }
        // The writer says that this side is there, so it must not wait for a disk: it
        // takes what was just read for the hash.
        let splices =
            self.outbox.splices() && source.handle().is_some_and(haul_sys::remembers_reads);
        let mut hasher = if item.whole_hash {
            match self.hash_start(&*source, start, part)? {
                Ok(hasher) => hasher,
                Err(fault) => return Some(Err(fault)),
            }
        } else {
            // Of what is not sent nothing is known, and the tail needs nothing.
            ContentHasher::behind(item.blocks)
        };
        let mut sealed = item.blocks;
        loop {
            let data = match source.next_data(hasher.len()) {
                Ok(Some(data)) => data,
                Ok(None) => break,
                Err(error) => return Some(Err(read(&error))),
            };
            if let Err(fault) = self.hole(item, &mut hasher, data.start, &mut sealed)? {
                return Some(Err(fault));
            }
            while hasher.len() < data.end {
                if !self.sender.is_awaited(item.index) {
                    return Some(Err(given_up()));
                }
                let at = hasher.len();
                let len = (PIECE_LEN - at % PIECE_LEN).min(data.end - at) as usize;
                let (body, hashed) = if splices {
                    let hashed = hash_parts(&*source, len, &mut hasher, part);
                    (Body::Range { source: Arc::clone(&source), offset: at, len }, hashed)
                } else {
                    let mut bytes = self.pool.take(len, self.control)?;
                    let mut parts = bytes.chunks_mut(STEP_LEN);
                    let hashed = parts.try_for_each(|part| hash_part(&*source, &mut hasher, part));
                    (Body::Bytes(bytes), hashed)
                };
                if let Err(fault) = hashed {
                    return Some(Err(fault));
                }
                let head = data_head(item.index, at, len);
                self.outbox.send(OutFrame::content(head, body))?;
                self.sender.came_by(item.index, Step::Moved(len as u64));
                self.seal_block(item, &hasher, &mut sealed)?;
            }
        }
        if let Err(fault) = self.hole(item, &mut hasher, seal.size, &mut sealed)? {
            return Some(Err(fault));
        }
        Some(check_unchanged(&*source).map(|()| FileSeal {
            size: seal.size,
            mtime: seal.mtime,
            hash: match (item.blocks, item.whole_hash) {
                (1.., false) => hasher.finish_tail(),
                _ => hasher.finish(),
            },
        }))
    }

    /// Hashes a hole up to `end`, and vouches for each block of it by itself.
    fn hole(
        &self,
        item: &Item,
        hasher: &mut ContentHasher,
        end: u64,
        sealed: &mut u64,
    ) -> Option<Result<(), Fault>> {
        while hasher.len() < end {
            if !self.sender.is_awaited(item.index) {
                return Some(Err(given_up()));
            }
            let block_end = (hasher.len() / BLOCK_LEN + 1).saturating_mul(BLOCK_LEN);
            let mut passed = |len| self.sender.came_by(item.index, Step::Passed(len));
            copy::hash_hole(hasher, block_end.min(end), self.control, &mut passed)?;
            self.seal_block(item, hasher, sealed)?;
        }
        Some(Ok(()))
    }

    /// Vouches for the block that is whole by now, if there is one.
    fn seal_block(&self, item: &Item, hasher: &ContentHasher, sealed: &mut u64) -> Option<()> {
        if let Some(hash) = hasher.block(*sealed) {
            let seal = BlockSeal { index: item.index, block: *sealed, hash };
            self.outbox.send(OutFrame::message(&Message::BlockSeal(seal)))?;
            *sealed += 1;
        }
        Some(())
    }

    /// Hashes the first `len` bytes without sending them.
    fn hash_start(
        &self,
        source: &dyn SourceFile,
        len: u64,
        part: &mut [u8],
    ) -> Option<Result<ContentHasher, Fault>> {
        let mut hasher = ContentHasher::new();
        while hasher.len() < len {
            if self.control.stopped() {
                return None;
            }
            let next = (len - hasher.len()).min(PIECE_LEN) as usize;
            if let Err(fault) = hash_parts(source, next, &mut hasher, part) {
                return Some(Err(fault));
            }
        }
        Some(Ok(hasher))
    }
}

/// Hashes the next `len` bytes of a file, a `part` at a time, so that it stays
/// in the processor's cache.
fn hash_parts(
    source: &dyn SourceFile,
    len: usize,
    hasher: &mut ContentHasher,
    part: &mut [u8],
) -> Result<(), Fault> {
    let end = hasher.len() + len as u64;
    while hasher.len() < end {
        let len = part.len().min((end - hasher.len()) as usize);
        hash_part(source, hasher, &mut part[..len])?;
    }
    Ok(())
}

/// Reads the next bytes of a file into `part`, and hashes them.
fn hash_part(
    source: &dyn SourceFile,
    hasher: &mut ContentHasher,
    part: &mut [u8],
) -> Result<(), Fault> {
    if source.read_at(part, hasher.len()).map_err(|error| read(&error))? < part.len() {
        return Err(changed());
    }
    hasher.update(part);
    Ok(())
}

/// True if it is still the very file that was listed.
fn is_as_listed(item: &Item, source: &dyn SourceFile) -> bool {
    let seal = source.seal();
    let is_same = (item_len(item), item.mtime) == (seal.size, Some(seal.mtime));
    is_same && item.ctime.is_none_or(|listed| source.ctime() == Some(listed))
}

/// The receiver gave a file up; it knows why.
fn given_up() -> Fault {
    Fault::new(Side::Destination, FaultKind::Io, "it was given up")
}

fn item_len(item: &Item) -> u64 {
    match item.kind {
        Kind::File { size } => size,
        _ => 0,
    }
}

fn open(item: &Item, follow: bool) -> Result<Box<dyn SourceFile>, Fault> {
    let missing = || Fault::new(Side::Source, FaultKind::NotFound, "nothing is there");
    let dir = item.dir.as_ref().ok_or_else(missing)?;
    let name = item.name.as_ref().ok_or_else(missing)?;
    dir.handle()
        .and_then(|dir| dir.open_file(name, follow))
        .map_err(|error| Fault::from_io(Side::Source, "open", &error))
}

fn read(error: &std::io::Error) -> Fault {
    Fault::from_io(Side::Source, "read", error)
}

//! The Sender's workers on a wire: they read what is wanted, hash it on the
//! way, and hand it to the writer of the connection. Small files go together
//! in packs, large ones in pieces (`pieces.rs`).

use super::{Item, Sender};
use crate::control::{Control, Step};
use crate::copy::STEP_LEN;
use crate::digest::{has_grown, seal_of};
use crate::link::wire::{Body, Effort, OutFrame, Outbox, Squeezer};
use crate::pool::Pool;
use haul_model::{ContentHash, Fault, FaultKind, Side};
use haul_proto::{FileEnd, Message, PACK_FILE_MAX, PACK_TARGET, PackBuilder, PackItem};
use haul_tree::{SourceFile, changed, check_size};
use std::cell::RefCell;

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
    let reader = Reader { sender, outbox, pool, control, squeezer: RefCell::default() };
    let mut next = None;
    let mut scratch = Vec::new();
    while let Some(item) = next.take().or_else(|| queue.recv().ok()) {
        let sent = if item.blocks.is_empty() {
            reader.seal_alone(item, &mut scratch)
        } else if item.size() <= PACK_FILE_MAX {
            reader.pack(item, queue, &mut next, &mut scratch)
        } else {
            reader.large(item, &mut scratch)
        };
        if sent.is_none() || control.stopped() {
            return;
        }
    }
}

pub(super) struct Reader<'r, 'a> {
    pub(super) sender: &'r Sender<'a>,
    pub(super) outbox: &'r Outbox,
    pub(super) pool: &'r Pool,
    pub(super) control: &'r Control<'a>,
    pub(super) squeezer: RefCell<Squeezer>,
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
            match self.small_of_two(&item, &mut bytes[pack.content_len()..]) {
                Ok(Some(packed)) => pack.push(packed),
                // It is too large for a pack by now.
                Ok(None) => grown.push(item),
                Err(fault) => pack.push(PackItem::Fault { index: item.index, fault }),
            }
            if !pack.has_room() {
                break;
            }
            match queue.try_recv() {
                Ok(waiting) if waiting.size() <= PACK_FILE_MAX && !waiting.blocks.is_empty() => {
                    item = waiting;
                }
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
            self.send_content(self.effort(None), pack.head(), Body::Bytes(bytes))?;
        }
        grown.into_iter().try_for_each(|item| self.large(item, scratch))
    }

    /// How the next content is compressed, of this file or of several; `None` if it is not.
    pub(super) fn effort(&self, file: Option<u64>) -> Option<Effort> {
        self.outbox.effort().filter(|_| self.squeezer.borrow_mut().may_shrink(file))
    }

    /// Sends content behind its `head`. `None` if the job ends.
    pub(super) fn send_content(
        &self,
        effort: Option<Effort>,
        head: Vec<u8>,
        body: Body,
    ) -> Option<()> {
        self.outbox.send(match effort {
            Some(effort) => self.squeezer.borrow_mut().content(effort, head, body),
            None => OutFrame::content(head, body),
        })
    }

    /// Reads a small file as [`Self::small`], once more if it has changed meanwhile.
    fn small_of_two(&self, item: &Item, room: &mut [u8]) -> Result<Option<PackItem>, Fault> {
        match self.small(item, room) {
            Err(fault) if fault.kind == FaultKind::Changed && !self.sender.wants_still() => {
                self.small(item, room)
            }
            read => read,
        }
    }

    /// Reads a small file to the beginning of `room`; `None` if it is not small.
    fn small(&self, item: &Item, room: &mut [u8]) -> Result<Option<PackItem>, Fault> {
        let source = open(item)?;
        let seal = source.seal();
        if seal.size > PACK_FILE_MAX || seal.size > room.len() as u64 {
            return Ok(None);
        }
        if seal.size == 0 {
            check_size(&*source)?;
        }
        let content = &mut room[..seal.size as usize];
        let len = source.read_at(content, 0).map_err(|error| read(&error))?;
        if len < content.len() {
            return Err(changed());
        }
        let hash = ContentHash::of(content);
        let strict = self.sender.wants_still();
        let grew = has_grown(&*source, strict, || Ok(Some(hash)), self.control)?;
        self.sender.was_opened(item.index, seal.size);
        self.sender.came_by(item.index, Step::Moved(seal.size));
        Ok(Some(PackItem::File {
            index: item.index,
            len: seal.size as u32,
            mtime: seal.mtime,
            hash,
            grew,
        }))
    }

    /// Sends a file's hash, and nothing of its content. `None` if the job ends.
    fn seal_alone(&self, item: Item, scratch: &mut Vec<u8>) -> Option<()> {
        let result = open(&item).and_then(|source| {
            let mut count = |step| self.sender.came_by(item.index, step);
            seal_of(&*source, scratch, self.control, &mut count)
        });
        if self.control.stopped() {
            return None;
        }
        let end = Message::FileEnd(FileEnd { index: item.index, result });
        self.outbox.send(OutFrame::message(&end))
    }

    /// Sends a file in pieces. `None` if the job ends.
    fn large(&self, item: Item, scratch: &mut Vec<u8>) -> Option<()> {
        scratch.resize(scratch.len().max(STEP_LEN), 0);
        let result = match open(&item) {
            Ok(source) => self.send_pieces(&item, source.into(), &mut scratch[..STEP_LEN])?,
            Err(fault) => Err(fault),
        };
        let is_final = match &result {
            Ok(seal) => !seal.grew,
            Err(fault) => fault.kind != FaultKind::Changed,
        };
        // The old version may have changed meanwhile, or sums be those of others.
        if !is_final || item.how.wants_delta() {
            self.sender.offer_again(item.index);
        }
        let end = Message::FileEnd(FileEnd { index: item.index, result });
        self.outbox.send(OutFrame::message(&end))
    }
}

/// True if it is still the very file that was listed.
pub(super) fn is_as_listed(item: &Item, source: &dyn SourceFile) -> bool {
    let seal = source.seal();
    let is_same = (item.size(), item.mtime) == (seal.size, Some(seal.mtime));
    is_same && item.ctime.is_none_or(|listed| source.ctime() == Some(listed))
}

fn open(item: &Item) -> Result<Box<dyn SourceFile>, Fault> {
    let missing = || Fault::new(Side::Source, FaultKind::NotFound, "nothing is there");
    let dir = item.dir.as_ref().ok_or_else(missing)?;
    let name = item.name.as_ref().ok_or_else(missing)?;
    dir.handle()
        .and_then(|dir| dir.open_file(name, item.follow))
        .map_err(|error| Fault::from_io(Side::Source, "open", &error))
}

pub(super) fn read(error: &std::io::Error) -> Fault {
    Fault::from_io(Side::Source, "read", error)
}

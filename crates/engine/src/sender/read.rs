//! The Sender's workers on a wire. They read wanted contents, hash them, and queue them for the
//! writer of the connection. Small files are packed; large files are sent in pieces (`pieces.rs`).

use super::item::Unsent;
use super::leases::{Lease, Stripes};
use super::stripes::Striped;
use super::{Item, Sender};
use crate::control::Control;
use crate::copy::STEP_LEN;
use crate::digest::{has_grown, seal_of};
use crate::link::wire::{Body, Effort, FrameCompressor, Lane, Lanes, Load, OutFrame, Outbox};
use crate::pool::Pool;
use haul_model::{BLOCK_LEN, ContentHash, Fault, FaultKind, Side};
use haul_proto::{
    FileEnd, FileSeal, How, Message, PACK_FILE_MAX, PACK_TARGET, PackBuilder, PackItem,
};
use haul_tree::{SourceFile, changed, check_size};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Room for a pack's contents. The last file may start just below the target length.
const PACK_LEN_MAX: usize = PACK_TARGET + PACK_FILE_MAX as usize;

/// The interval at which an idle worker checks whether a slow lane delays the end.
const IDLE_POLL: Duration = Duration::from_millis(50);

/// The workers that read for a wire, and their shared state.
pub(crate) struct Readers<'a> {
    pub(crate) sender: Arc<Sender<'a>>,
    queue: crossbeam_channel::Receiver<Item>,
    pub(crate) lanes: Lanes,
    /// Set if lanes may join. Large files are then sent as stripes.
    pub(super) stripes: Option<Arc<Stripes>>,
    pub(crate) pool: Pool,
    workers: AtomicUsize,
    /// The number of contents that were started.
    begun: AtomicU64,
}

impl<'a> Readers<'a> {
    /// Workers that send the files in `queue`. Lanes may join if `expects_lanes`.
    pub(crate) fn new(
        sender: Arc<Sender<'a>>,
        queue: crossbeam_channel::Receiver<Item>,
        lanes: Lanes,
        pool: Pool,
        expects_lanes: bool,
    ) -> Self {
        let stripes = expects_lanes.then(Arc::default);
        let (workers, begun) = (AtomicUsize::new(0), AtomicU64::new(0));
        Self { sender, queue, lanes, stripes, pool, workers, begun }
    }

    /// The number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.workers.load(Ordering::Relaxed)
    }

    /// The next wanted file. `None` if the worker should look for other tasks; an error if no more
    /// files come.
    fn next(&self) -> Result<Option<Item>, crossbeam_channel::RecvError> {
        match &self.stripes {
            None => self.queue.recv().map(Some),
            Some(stripes) => crossbeam_channel::select! {
                recv(self.queue) -> item => item.map(Some),
                recv(stripes.wakeups) -> _ => Ok(None),
                default(IDLE_POLL) => {
                    if self.sender.ledger.in_flight.lock().listed_all {
                        stripes.take_back(&self.lanes);
                    }
                    Ok(None)
                }
            },
        }
    }
}

/// Sends wanted files until no more come or the job ends.
pub(crate) fn run_reader(readers: &Readers<'_>, control: &Control<'_>) {
    let worker = readers.workers.fetch_add(1, Ordering::Relaxed);
    let lane = readers.lanes.main();
    let Readers { sender, pool, .. } = readers;
    let compressor = RefCell::default();
    let rank = 0;
    let mut reader = Reader { sender, readers, worker, lane, rank, pool, control, compressor };
    let mut next = None;
    let mut scratch = Vec::new();
    loop {
        reader.release_lane();
        if let Some(task) = readers.stripes.as_ref().and_then(|stripes| stripes.next()) {
            if reader.run_task(task, &mut scratch).is_none() {
                return;
            }
            continue;
        }
        let item = match next.take().map_or_else(|| readers.next(), |item| Ok(Some(item))) {
            Ok(Some(item)) => item,
            Ok(None) => continue,
            Err(_) => return,
        };
        let len = item.len_wanted();
        if reader.take_lane(len, len >= BLOCK_LEN && item.is_sent_plainly()).is_none() {
            return;
        }
        let sent = if item.want.blocks.is_empty() {
            reader.send_hash(item, &mut scratch)
        } else if item.size() <= PACK_FILE_MAX {
            reader.pack(item, &readers.queue, &mut next, &mut scratch)
        } else {
            reader.send_large(item, &mut scratch)
        };
        if sent.is_none() || control.stopped() {
            return;
        }
    }
}

pub(super) struct Reader<'r, 'a> {
    pub(super) sender: &'r Sender<'a>,
    pub(super) readers: &'r Readers<'a>,
    worker: usize,
    pub(super) lane: Lane,
    /// The rank of the current content. Contents with lower ranks were started earlier.
    rank: u64,
    pub(super) pool: &'r Pool,
    pub(super) control: &'r Control<'a>,
    pub(super) compressor: RefCell<FrameCompressor>,
}

impl Reader<'_, '_> {
    /// The queue of this worker's lane.
    pub(super) fn outbox(&self) -> &Outbox {
        &self.lane.outbox
    }

    /// Releases the lane for other workers.
    fn release_lane(&mut self) {
        self.lane = self.readers.lanes.main();
    }

    /// Releases the current lane, and takes one for a content of about `len` bytes. If `is_block`,
    /// it waits for a free lane. `None` if the job ends.
    pub(super) fn take_lane(&mut self, len: u64, is_block: bool) -> Option<()> {
        self.release_lane();
        let load = Load { len, is_block, of_job: self.sender.wanted_len() };
        self.lane = self.readers.lanes.of(self.worker, load, self.control)?;
        self.rank = self.readers.begun.fetch_add(1, Ordering::Relaxed);
        Some(())
    }
}

impl Reader<'_, '_> {
    /// Sends `first` and other waiting small files as one pack. A waiting file that does not fit is
    /// returned in `next`. `None` if the job ends.
    fn pack(
        &mut self,
        first: Item,
        queue: &crossbeam_channel::Receiver<Item>,
        next: &mut Option<Item>,
        scratch: &mut Vec<u8>,
    ) -> Option<()> {
        let mut bytes = self.pool.take(PACK_LEN_MAX, self.control)?;
        let mut pack = PackBuilder::default();
        let (mut grown, mut packed_files, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        let mut item = first;
        loop {
            let index = item.index;
            match self.read_small_with_retry(&item, &mut bytes[pack.content_len()..]) {
                Ok(Some(packed)) => {
                    let before = pack.content_len();
                    pack.push(packed);
                    let len = (pack.content_len() - before) as u64;
                    counts.extend(
                        self.sender.ledger.counts(index, len.saturating_sub(item.recounted())),
                    );
                }
                // It has become too large for a pack.
                Ok(None) => grown.push(item),
                Err(fault) => pack.push(PackItem::Fault { index, fault }),
            }
            if grown.last().is_none_or(|grown| grown.index != index) {
                packed_files.push(index);
            }
            if !pack.has_room() || pack.content_len() >= self.lane.pack_len {
                break;
            }
            match queue.try_recv() {
                Ok(waiting)
                    if waiting.size() <= PACK_FILE_MAX && !waiting.want.blocks.is_empty() =>
                {
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
            let effort = self.effort(None);
            let frame = self.frame(effort, pack.head(), Body::Bytes(bytes)).counting(counts);
            self.send_leased(frame, Lease::Files(packed_files))?;
        }
        grown.into_iter().try_for_each(|item| self.send_large(item, scratch))
    }

    /// The compression of the next content, of one file or of several; `None` for no compression.
    pub(super) fn effort(&self, file: Option<u64>) -> Option<Effort> {
        self.readers
            .lanes
            .effort(&self.lane)
            .filter(|_| self.compressor.borrow_mut().may_shrink(file))
    }

    pub(super) fn frame(&self, effort: Option<Effort>, head: Vec<u8>, body: Body) -> OutFrame {
        match effort {
            Some(effort) => self.compressor.borrow_mut().content(effort, head, body),
            None => OutFrame::content(head, body),
        }
        .ranked(self.rank)
    }

    /// Like [`Self::read_small`], but retries once if the file changed meanwhile.
    fn read_small_with_retry(
        &self,
        item: &Item,
        room: &mut [u8],
    ) -> Result<Option<PackItem>, Fault> {
        match self.read_small(item, room) {
            Err(fault) if fault.kind == FaultKind::Changed && !self.sender.plan.strict_source => {
                self.read_small(item, room)
            }
            read => read,
        }
    }

    /// Reads a small file to the beginning of `room`; `None` if it is no longer small.
    fn read_small(&self, item: &Item, room: &mut [u8]) -> Result<Option<PackItem>, Fault> {
        let source = self.sender.open(item)?;
        let seal = source.seal();
        if seal.size > PACK_FILE_MAX || seal.size > room.len() as u64 {
            return Ok(None);
        }
        if seal.size == 0 {
            check_size(&*source)?;
        }
        let content = &mut room[..seal.size as usize];
        let is_hashed = !item.want.how.has(How::UNHASHED);
        let hash = match is_hashed.then(|| source.shared_block(0)).flatten() {
            Some(block) => {
                let block = block.map_err(read)?;
                content.copy_from_slice(block.bytes());
                Some(block.hasher().finish_alone())
            }
            None => {
                let len = source.read_at(content, 0).map_err(read)?;
                if len < content.len() {
                    return Err(changed());
                }
                is_hashed.then(|| ContentHash::of(content))
            }
        };
        let strict = self.sender.plan.strict_source;
        let copied = || Ok(Some(hash.unwrap_or_else(|| ContentHash::of(content))));
        let grew = has_grown(&*source, strict, copied, self.control)?;
        self.sender.ledger.record_opened(item.index, seal.size);
        if let Some(reporter) = self.sender.reporter {
            reporter.hashed(item.index, hash);
        }
        Ok(Some(PackItem::File {
            index: item.index,
            len: seal.size as u32,
            mtime: seal.mtime,
            hash,
            grew,
        }))
    }

    /// Sends a file's hash without its content. `None` if the job ends.
    fn send_hash(&self, item: Item, scratch: &mut Vec<u8>) -> Option<()> {
        let result = self.sender.open(&item).and_then(|source| {
            let mut count = |step| {
                if !item.is_repeated {
                    self.sender.ledger.count_progress(item.index, step);
                }
            };
            seal_of(&*source, scratch, self.control, &mut count)
        });
        if self.control.stopped() {
            return None;
        }
        self.sender.ledger.hashed(&item, &result);
        let end = FileEnd { index: item.index, result, by_blocks: false };
        let end = OutFrame::message(&Message::FileEnd(end));
        self.send_leased(end, Lease::Files(vec![item.index]))
    }

    /// Sends a file in pieces. `None` if the job ends.
    fn send_large(&mut self, item: Item, scratch: &mut Vec<u8>) -> Option<()> {
        scratch.resize(scratch.len().max(STEP_LEN), 0);
        let opened = self.sender.offers.take_source(item.index);
        let source = match opened.map_or_else(|| self.sender.open(&item).map(Arc::from), Ok) {
            Ok(source) => source,
            Err(fault) => return self.send_end(&item, Err(fault)),
        };
        if let Some(striped) = self.start_stripes(&item, &source) {
            return self.help(&striped, scratch);
        }
        let sent = self.send_pieces(&item, source, &mut scratch[..STEP_LEN]);
        match Unsent::unless_stopped(sent) {
            Some(result) => self.send_end(&item, result),
            None => self.lost(Lease::Whole(item.index)),
        }
    }

    /// Sends the end of a file in pieces over this lane. `None` if the job ends.
    fn send_end(&self, item: &Item, result: Result<FileSeal, Fault>) -> Option<()> {
        self.allow_repeat_after(item, &result);
        self.sender.ledger.hashed(item, &result);
        let end = FileEnd { index: item.index, result, by_blocks: false };
        let end = OutFrame::message(&Message::FileEnd(end));
        self.send_leased(end, Lease::Whole(item.index))
    }

    /// Allows the Receiver to request a file again, if the end of the file may make that necessary.
    pub(super) fn allow_repeat_after(&self, item: &Item, result: &Result<FileSeal, Fault>) {
        let is_final = match result {
            Ok(seal) => !seal.grew,
            Err(fault) => fault.kind != FaultKind::Changed,
        };
        // The Receiver's old data may have changed meanwhile, or a checksum may match other
        // content.
        if !is_final || item.want.how.has_any(How::DELTA.with(How::CHUNKS)) {
            self.sender.ledger.allow_repeat(item.index);
        }
    }

    /// Starts to send a file as stripes, and calls other workers to help. `None` if it can't be
    /// striped.
    fn start_stripes(&self, item: &Item, source: &Arc<dyn SourceFile>) -> Option<Arc<Striped>> {
        let stripes = self.readers.stripes.as_ref()?;
        if !item.is_sent_plainly() || !item.is_still_wanted(&**source) {
            return None;
        }
        let may_begin = |_: &Striped| stripes.may_begin(&self.sender.ledger, item.index);
        let striped = Arc::new(Striped::new(item, source).filter(may_begin)?);
        self.sender.ledger.record_opened(item.index, source.seal().size);
        stripes.begin(&striped, self.readers.workers().saturating_sub(1));
        Some(striped)
    }

    /// Sends blocks of a file while there are any, and then the steps due at its end. `None` if the
    /// job ends.
    pub(super) fn help(&mut self, file: &Arc<Striped>, scratch: &mut Vec<u8>) -> Option<()> {
        scratch.resize(scratch.len().max(STEP_LEN), 0);
        while file.has_blocks() {
            self.take_lane(BLOCK_LEN, true)?;
            let Some(block_task) = file.next(self.lane.number, self.control) else { break };
            let sent = self.send_block(file, &block_task, &mut scratch[..STEP_LEN]);
            if self.sender.offers.has_known_parts(file.item.index) {
                file.record_reuse();
            }
            let lease = Lease::Block(Arc::clone(file), block_task.clone());
            match Unsent::unless_stopped(sent) {
                Some(sent) => {
                    file.record_queued(block_task.block, sent);
                    self.send_leased(OutFrame::mark(), lease)?;
                }
                None => self.lost(lease)?,
            }
        }
        if self.control.stopped() {
            return None;
        }
        self.end_stripes(file)
    }
}

pub(super) fn read(error: std::io::Error) -> Fault {
    match error.kind() {
        // It was truncated.
        std::io::ErrorKind::UnexpectedEof => changed(),
        _ => Fault::from_io(Side::Source, "read", &error),
    }
}

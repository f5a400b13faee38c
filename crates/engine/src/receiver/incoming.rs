//! A file that arrives in pieces, which are hashed and written in their order,
//! by one thread at a time. Mostly it is the one that reads the connection
//! ([`Direct`]): what it has just read is in its processor's cache. When it would
//! have to wait for more than that, pieces are queued for the workers.

use super::hold::{Filling, Whole};
use super::resume::replaced;
use super::{Pending, Receiver, work};
use crate::copy::{STEP_LEN, Step};
use crate::pool::Buf;
use haul_model::{BLOCK_LEN, ContentHasher, Fault, FaultKind, Kind, Side};
use haul_proto::{BlockSeal, DataView, FileEnd, FileSeal};
use haul_store::Verified;
use haul_tree::StagedFile;
use haul_tree::lock;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

/// Pieces and seals of one file that may wait for a worker.
const PIECES_MAX: usize = 4096;

/// A file on its way in.
pub(crate) struct Incoming {
    queue: Mutex<Queue>,
    state: Mutex<State>,
}

#[derive(Default)]
struct Queue {
    pieces: VecDeque<Piece>,
    /// A worker has it, or is about to.
    scheduled: bool,
}

/// What arrives of a file.
pub(crate) enum Piece {
    /// Some of its content; `DataView` says where.
    Data(Buf, DataView),
    /// A block was sent, and this is its hash.
    Seal(BlockSeal),
    /// All was sent.
    End(FileEnd),
}

struct State {
    /// The file; taken once its fate is known.
    pending: Option<Pending>,
    stage: Option<Box<dyn StagedFile>>,
    hasher: ContentHasher,
    /// Blocks that an earlier job had received.
    resumed: u64,
    /// Blocks that were compared with the Sender's hash and put on record.
    recorded: u64,
    /// Bytes of it that were counted as done.
    counted: u64,
    /// Something of it was never written.
    has_holes: bool,
    /// What is wrong with a block that arrived: nothing more is taken.
    suspect: Option<Fault>,
}

impl Incoming {
    pub(crate) fn new(pending: Pending) -> Self {
        let resumed = pending.resumed;
        let state = State {
            pending: Some(pending),
            stage: None,
            hasher: ContentHasher::new(),
            resumed,
            recorded: resumed,
            counted: resumed * BLOCK_LEN,
            has_holes: false,
            suspect: None,
        };
        Self { queue: Mutex::default(), state: Mutex::new(state) }
    }

    /// Queues a piece; `true` if a worker must be called.
    #[must_use]
    pub(crate) fn push(&self, piece: Piece) -> bool {
        let mut queue = lock(&self.queue);
        queue.pieces.push_back(piece);
        !std::mem::replace(&mut queue.scheduled, true)
    }

    /// Whether so much is queued that the reader has to wait. Content is bounded
    /// by the buffers that it is in, seals are not.
    pub(crate) fn is_full(&self) -> bool {
        lock(&self.queue).pieces.len() >= PIECES_MAX
    }

    /// The file, for the thread that reads the connection to go on with, if no
    /// worker has it and writing it is not to wait for the medium.
    pub(crate) fn directly<'f>(&'f self, receiver: &'f Receiver<'_>) -> Option<Direct<'f>> {
        if receiver.policy.verify || receiver.policy.sync {
            return None;
        }
        if std::mem::replace(&mut lock(&self.queue).scheduled, true) {
            return None;
        }
        let direct = Direct { queue: &self.queue, state: lock(&self.state), receiver };
        // A stage that can be continued may have to be waited for, since another
        // process has it, and all that is in it may have to be read.
        direct.state.is_begun(receiver).then_some(direct)
    }

    /// Works off what is queued. Called by one worker at a time.
    pub(crate) fn work(&self, receiver: &Receiver<'_>) {
        let mut state = lock(&self.state);
        state.take_up(receiver);
        loop {
            let piece = {
                let mut queue = lock(&self.queue);
                let piece = queue.pieces.pop_front();
                queue.scheduled = piece.is_some();
                piece
            };
            match piece {
                None => return,
                // Its fate is sealed: what still comes is passed over.
                Some(_) if state.pending.is_none() => {}
                Some(Piece::Data(bytes, view)) => {
                    let mut at = view.offset;
                    for part in bytes[view.content].chunks(STEP_LEN) {
                        state.take(receiver, part, at);
                        at += part.len() as u64;
                    }
                }
                Some(Piece::Seal(seal)) => state.check_block(receiver, &seal),
                Some(Piece::End(end)) => state.end(receiver, end),
            }
        }
    }
}

/// A file in the hands of the thread that reads the connection.
pub(crate) struct Direct<'f> {
    queue: &'f Mutex<Queue>,
    state: MutexGuard<'f, State>,
    receiver: &'f Receiver<'f>,
}

impl Direct<'_> {
    /// Takes content that belongs at `offset`.
    pub(crate) fn take(&mut self, content: &[u8], offset: u64) {
        self.state.take(self.receiver, content, offset);
    }

    /// Takes what the Sender says of a block.
    pub(crate) fn check_block(&mut self, seal: &BlockSeal) {
        self.state.check_block(self.receiver, seal);
    }
}

impl Drop for Direct<'_> {
    fn drop(&mut self) {
        // Nobody else queues pieces: there are none that a worker would have to
        // be called for.
        lock(self.queue).scheduled = false;
    }
}

impl State {
    /// Takes up the stage that is continued, unless that was done.
    fn take_up(&mut self, receiver: &Receiver<'_>) {
        if self.is_taken_up() {
            return;
        }
        let Some(pending) = &self.pending else { return };
        match pending.continue_stage(receiver) {
            Ok(Some((stage, blocks))) => {
                self.stage = Some(stage);
                self.hasher = ContentHasher::resume(blocks);
            }
            Ok(None) => {}
            Err(fault) => self.settle(receiver, Err(fault)),
        }
    }

    fn is_taken_up(&self) -> bool {
        self.hasher.whole_blocks() >= self.resumed
    }

    /// Whether its stage is there, or can be begun without waiting.
    fn is_begun(&self, receiver: &Receiver<'_>) -> bool {
        let waits = |pending: &Pending| receiver.resumable(&pending.entry).is_some();
        self.stage.is_some() || !self.pending.as_ref().is_some_and(waits)
    }

    /// Takes content, unless the file's fate is sealed.
    fn take(&mut self, receiver: &Receiver<'_>, content: &[u8], offset: u64) {
        if self.pending.is_none() || self.suspect.is_some() {
            return;
        }
        if let Err(fault) = self.write(receiver, content, offset) {
            return self.settle(receiver, Err(fault));
        }
        self.came_by(receiver, Step::Moved(content.len() as u64));
    }

    fn write(&mut self, receiver: &Receiver<'_>, content: &[u8], offset: u64) -> Result<(), Fault> {
        let hole = offset.checked_sub(self.hasher.len()).ok_or_else(|| {
            Fault::new(Side::Source, FaultKind::Corrupt, "its pieces arrived out of order")
        })?;
        self.hash_hole(receiver, hole)?;
        // While it is in the cache: writing makes other bytes of it.
        self.hasher.update(content);
        let written = self.stage(receiver)?.write_at(content, offset);
        written.map_err(|error| Fault::from_io(Side::Destination, "write", &error))
    }

    /// Compares a block with what the Sender says of it, and puts it on record.
    fn check_block(&mut self, receiver: &Receiver<'_>, seal: &BlockSeal) {
        if self.pending.is_none() || self.suspect.is_some() {
            return;
        }
        match self.record(receiver, seal) {
            Ok(()) => {}
            // The Sender may know why, and say so at the end.
            Err(fault) if fault.kind == FaultKind::Corrupt => self.suspect = Some(fault),
            Err(fault) => self.settle(receiver, Err(fault)),
        }
    }

    fn record(&mut self, receiver: &Receiver<'_>, seal: &BlockSeal) -> Result<(), Fault> {
        let corrupt = |message| Err(Fault::new(Side::Destination, FaultKind::Corrupt, message));
        if seal.block != self.recorded {
            return corrupt("its blocks were sealed out of order");
        }
        // A block may end with a hole, of which nothing has been said yet.
        let end = (seal.block + 1).saturating_mul(BLOCK_LEN);
        let hole = end.saturating_sub(self.hasher.len());
        self.hash_hole(receiver, hole)?;
        if self.hasher.block(seal.block) != Some(seal.hash) {
            return corrupt("a block that arrived is not the one that was sent");
        }
        if hole > 0 {
            // What is on record is there to be read back, when it is continued.
            let set = self.stage(receiver)?.set_len(end);
            set.map_err(|error| Fault::from_io(Side::Destination, "write", &error))?;
        }
        let recorded = self.stage(receiver)?.record(seal.hash);
        recorded.map_err(|e| Fault::from_io(Side::Destination, "keep the journal", &e))?;
        self.recorded += 1;
        Ok(())
    }

    /// Hashes a hole. The Sender vouches for each whole block of a hole by itself,
    /// so that no more than the rest of one is ever left out: nobody can claim one
    /// that would take hours.
    fn hash_hole(&mut self, receiver: &Receiver<'_>, len: u64) -> Result<(), Fault> {
        if len > BLOCK_LEN - self.hasher.len() % BLOCK_LEN {
            let message = "a hole was not told block by block";
            return Err(Fault::new(Side::Source, FaultKind::Corrupt, message));
        }
        self.has_holes |= len > 0;
        self.hasher.update_zeros(len);
        self.came_by(receiver, Step::Passed(len));
        Ok(())
    }

    fn came_by(&mut self, receiver: &Receiver<'_>, step: Step) {
        self.counted += step.len();
        receiver.reporter.came_by(step);
    }

    fn stage(&mut self, receiver: &Receiver<'_>) -> Result<&dyn StagedFile, Fault> {
        if self.stage.is_none() {
            let pending = self.pending.as_ref().expect("checked by the caller");
            self.stage = Some(pending.stage_for(receiver)?);
        }
        Ok(&**self.stage.as_ref().expect("just made"))
    }

    fn end(&mut self, receiver: &Receiver<'_>, end: FileEnd) {
        let outcome = match (end.result, self.suspect.take()) {
            (Err(fault), _) => Err(super::of_sender(fault)),
            (Ok(_), Some(suspect)) => Err(suspect),
            (Ok(seal), None) => self.seal(receiver, &seal),
        };
        self.settle(receiver, outcome);
    }

    fn seal(&mut self, receiver: &Receiver<'_>, seal: &FileSeal) -> Result<Whole, Fault> {
        let write = |error: &std::io::Error| Fault::from_io(Side::Destination, "write", error);
        let listed = &self.pending.as_ref().expect("checked by the caller").entry;
        if self.resumed > 0 && (seal.size, seal.mtime) != (listed.size(), listed.mtime) {
            let message = "it is not the file any more that was to be continued";
            return Err(Fault::new(Side::Source, FaultKind::Corrupt, message));
        }
        let proves = self.resumed > 0 && receiver.proves(listed);
        let written = self.hasher.len();
        let hole = seal.size.checked_sub(written);
        let length = |_| Fault::new(Side::Source, FaultKind::Corrupt, "more arrived than was sent");
        let hole = hole.ok_or(()).map_err(length)?;
        self.hash_hole(receiver, hole)?;
        self.stage(receiver)?;
        let stage = self.stage.take().expect("just made");
        // A hole at the end was never written: also one that a block's seal has
        // counted already.
        stage.set_len(seal.size).map_err(|error| write(&error))?;
        let tail_only = self.resumed > 0 && !proves;
        let hash = if tail_only { self.hasher.finish_tail() } else { self.hasher.finish() };
        let proof = match Verified::by_hash(&seal.hash, &hash) {
            Ok(proof) => proof,
            Err(_) if proves => {
                // What is there was read again, and what came is what was sent.
                stage.discard();
                return Err(replaced());
            }
            Err(error) => {
                stage.discard();
                return Err(Fault::new(Side::Destination, FaultKind::Corrupt, error.to_string()));
            }
        };
        let pending = self.pending.as_mut().expect("checked by the caller");
        pending.entry.kind = Kind::File { size: seal.size };
        let whole_hash = receiver.policy.verify.then(|| self.hasher.finish());
        // What was resumed is not looked at, and the Sender knows.
        let has_holes = self.has_holes || pending.entry.has_holes;
        let filling = if has_holes { Filling::WithHoles } else { Filling::Dense };
        pending.seal(stage, proof, seal.mtime, whole_hash, filling)
    }

    fn settle(&mut self, receiver: &Receiver<'_>, whole: Result<Whole, Fault>) {
        if let (Some(stage), Err(fault)) = (self.stage.take(), &whole)
            && matches!(fault.kind, FaultKind::Changed | FaultKind::Corrupt)
        {
            // What is there is of no more use.
            stage.discard();
        }
        if whole.is_err() && receiver.control.stopped() {
            // It was cut short; that is no fault of the file.
            return;
        }
        let Some(pending) = self.pending.take() else { return };
        let settled = receiver.conclude(pending, self.counted, whole);
        work::tell(receiver, settled.into_iter().collect());
    }
}

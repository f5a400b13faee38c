//! A file that arrives in pieces: pieces are queued in their order, one worker
//! at a time writes and hashes them, other workers go on with other files.

use super::{Pending, Receiver};
use crate::dirs::lock;
use crate::pool::Buf;
use crate::tree::StagedFile;
use haul_model::{ContentHasher, Fault, FaultKind, Kind, Outcome, Side};
use haul_proto::{DataView, FileEnd, FileSeal};
use haul_store::Verified;
use std::collections::VecDeque;
use std::sync::Mutex;

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
    /// All was sent.
    End(FileEnd),
}

struct State {
    /// The file; taken once its fate is known.
    pending: Option<Pending>,
    stage: Option<Box<dyn StagedFile>>,
    hasher: ContentHasher,
    moved: u64,
}

impl Incoming {
    pub(crate) fn new(pending: Pending) -> Self {
        let state =
            State { pending: Some(pending), stage: None, hasher: ContentHasher::new(), moved: 0 };
        Self { queue: Mutex::default(), state: Mutex::new(state) }
    }

    /// Queues a piece; `true` if a worker must be called.
    #[must_use]
    pub(crate) fn push(&self, piece: Piece) -> bool {
        let mut queue = lock(&self.queue);
        queue.pieces.push_back(piece);
        !std::mem::replace(&mut queue.scheduled, true)
    }

    /// Works off what is queued. Called by one worker at a time.
    pub(crate) fn work(&self, receiver: &Receiver<'_>) {
        let mut state = lock(&self.state);
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
                Some(Piece::Data(bytes, view)) => state.take(receiver, &bytes, &view),
                Some(Piece::End(end)) => state.end(receiver, end),
            }
        }
    }
}

impl State {
    fn take(&mut self, receiver: &Receiver<'_>, bytes: &[u8], view: &DataView) {
        let content = &bytes[view.content.clone()];
        if let Err(fault) = self.write(content, view.offset) {
            return self.settle(receiver, Outcome::Failed(fault));
        }
        self.moved += content.len() as u64;
        receiver.reporter.moved(content.len() as u64);
    }

    fn write(&mut self, content: &[u8], offset: u64) -> Result<(), Fault> {
        let hole = offset.checked_sub(self.hasher.len()).ok_or_else(|| {
            Fault::new(Side::Source, FaultKind::Corrupt, "its pieces arrived out of order")
        })?;
        let stage = self.stage()?;
        stage
            .write_at(content, offset)
            .map_err(|error| Fault::from_io(Side::Destination, "write", &error))?;
        self.hasher.update_zeros(hole);
        self.hasher.update(content);
        Ok(())
    }

    fn stage(&mut self) -> Result<&dyn StagedFile, Fault> {
        if self.stage.is_none() {
            let pending = self.pending.as_ref().expect("checked by the caller");
            self.stage = Some(pending.stage()?);
        }
        Ok(&**self.stage.as_ref().expect("just made"))
    }

    fn end(&mut self, receiver: &Receiver<'_>, end: FileEnd) {
        let outcome = match end.result {
            Ok(seal) => self.publish(&seal),
            Err(fault) => Err(fault.clipped()),
        };
        self.settle(receiver, outcome.unwrap_or_else(Outcome::Failed));
    }

    fn publish(&mut self, seal: &FileSeal) -> Result<Outcome, Fault> {
        let write = |error: &std::io::Error| Fault::from_io(Side::Destination, "write", error);
        let written = self.hasher.len();
        let hole = seal.size.checked_sub(written);
        let length = |_| Fault::new(Side::Source, FaultKind::Corrupt, "more arrived than was sent");
        let hole = hole.ok_or(()).map_err(length)?;
        self.stage()?;
        let stage = self.stage.take().expect("just made");
        if hole > 0 {
            stage.set_len(seal.size).map_err(|error| write(&error))?;
            self.hasher.update_zeros(hole);
        }
        let proof = Verified::by_hash(&seal.hash, &self.hasher.finish()).map_err(|error| {
            Fault::new(Side::Destination, FaultKind::Corrupt, error.to_string())
        })?;
        let pending = self.pending.as_mut().expect("checked by the caller");
        pending.entry.kind = Kind::File { size: seal.size };
        pending.publish(stage, proof, seal.mtime)
    }

    fn settle(&mut self, receiver: &Receiver<'_>, outcome: Outcome) {
        self.stage = None;
        let Some(pending) = self.pending.take() else { return };
        let dir = pending.dir();
        let item = receiver.finish(pending, self.moved, outcome);
        receiver.tell_outcomes(vec![item]);
        receiver.release(dir);
    }
}

//! The queue of an arriving file: its pieces that wait for a worker.

use crate::pool::Buf;
use haul_proto::{BlockSeal, DataView, FileEnd, Reuse};
use haul_store::Route;
use std::collections::VecDeque;

/// Maximum number of pieces and seals of one file that wait for a worker.
const PIECES_MAX: usize = 4096;

/// A piece of an arriving file.
pub(crate) enum Piece {
    /// Content; `DataView` has its offset.
    Data(Buf, DataView, Route),
    /// A part that this machine has, in the old version or in chunks.
    Reuse(Reuse, Route),
    /// The hash of a block that was sent.
    Seal(BlockSeal, Route),
    /// The end of the file.
    End(FileEnd),
}

impl Piece {
    /// The lane of the piece.
    fn lane(&self) -> Option<u8> {
        match self {
            Self::Data(_, _, route) | Self::Reuse(_, route) | Self::Seal(_, route) => {
                Some(route.lane)
            }
            Self::End(_) => None,
        }
    }
}

/// The pieces that wait.
#[derive(Default)]
pub(super) struct Queue {
    pieces: VecDeque<Piece>,
    /// A worker has the file, or was called.
    has_worker: bool,
}

impl Queue {
    /// Adds a piece; `true` if a worker must be called.
    pub(super) fn push(&mut self, piece: Piece) -> bool {
        self.pieces.push_back(piece);
        !std::mem::replace(&mut self.has_worker, true)
    }

    /// The next piece for the worker. Without one, the worker leaves.
    pub(super) fn next(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front();
        self.has_worker = piece.is_some();
        piece
    }

    /// Takes the pieces of one lane, in their order.
    pub(super) fn drain_lane(&mut self, lane: u8) -> VecDeque<Piece> {
        let is_of_lane = |piece: &Piece| piece.lane() == Some(lane);
        if !self.pieces.iter().any(is_of_lane) {
            return VecDeque::new();
        }
        let (of_lane, others) = std::mem::take(&mut self.pieces).into_iter().partition(is_of_lane);
        self.pieces = others;
        of_lane
    }

    /// True if a worker has the file, or was called.
    pub(super) fn has_worker(&self) -> bool {
        self.has_worker
    }

    /// True if a reader must wait because too much is queued. Content is bounded by its buffers,
    /// seals are not.
    pub(super) fn is_full(&self) -> bool {
        self.pieces.len() >= PIECES_MAX
    }
}

//! The parts of a file that wait for a worker.

use crate::pool::Buf;
use haul_proto::{BlockSeal, DataView, FileEnd, Reuse};
use haul_store::Route;
use std::collections::VecDeque;

/// Pieces and seals of one file that may wait for a worker.
const PIECES_MAX: usize = 4096;

/// A part of a file as it arrives.
pub(crate) enum Piece {
    /// Some of its content; `DataView` says where.
    Data(Buf, DataView, Route),
    /// Some of it is in the old version.
    Reuse(Reuse, Route),
    /// A block was sent, and this is its hash.
    Seal(BlockSeal, Route),
    /// All was sent.
    End(FileEnd),
}

impl Piece {
    /// The connection that it came over.
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
    /// A worker has the file, or is about to.
    has_worker: bool,
}

impl Queue {
    /// Adds a piece; `true` if a worker must be called.
    pub(super) fn push(&mut self, piece: Piece) -> bool {
        self.pieces.push_back(piece);
        !std::mem::replace(&mut self.has_worker, true)
    }

    /// The next piece for the worker; without one it leaves.
    pub(super) fn next(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front();
        self.has_worker = piece.is_some();
        piece
    }

    /// Those that came over this connection, in their order.
    pub(super) fn take_of(&mut self, lane: u8) -> VecDeque<Piece> {
        let is_of_it = |piece: &Piece| piece.lane() == Some(lane);
        if !self.pieces.iter().any(is_of_it) {
            return VecDeque::new();
        }
        let (its_own, others) = std::mem::take(&mut self.pieces).into_iter().partition(is_of_it);
        self.pieces = others;
        its_own
    }

    /// True if a worker has the file, or is about to.
    pub(super) fn has_worker(&self) -> bool {
        self.has_worker
    }

    /// True if so much waits that a reader has to. Content is bounded by the buffers that it
    /// is in, seals are not.
    pub(super) fn is_full(&self) -> bool {
        self.pieces.len() >= PIECES_MAX
    }
}

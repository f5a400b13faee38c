//! Direct assembly: the thread that reads a connection writes the blocks that arrive over it, while
//! other threads write theirs.

use super::IncomingState;
use crate::control::CopyStep;
use crate::copy::{Blocks, not_assembled};
use crate::receiver::{Filler, Incoming, Piece};
use haul_proto::BlockSeal;
use haul_store::{Pieces, Route};
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A file to which a thread that reads a connection writes directly.
pub(crate) struct DirectWriter<'f> {
    file: &'f Incoming,
    filler: &'f Filler<'f>,
    route: Route,
    /// The staged file; `None` if nothing more is accepted.
    into: Option<Arc<Blocks>>,
    /// The blocks that arrive over this connection.
    pieces: Pieces,
}

impl Incoming {
    /// Lets the thread that reads the connection write to the file. `None` if a worker has it, or
    /// writing may have to wait for the disk.
    pub(crate) fn open_direct<'f>(
        &'f self,
        filler: &'f Filler<'_>,
        route: Route,
    ) -> Option<DirectWriter<'f>> {
        // A block that is sent again may have begun over another connection.
        if route.may_repeat {
            return None;
        }
        let mut state = self.lock_without_waiting(filler, route)?;
        let into = match state.is_over() {
            true => None,
            false => match state.begun(filler) {
                Ok(into) => Some(into),
                Err(fault) => {
                    state.settle(filler, Err(fault));
                    None
                }
            },
        };
        let pieces = state.pieces.take_out(route.lane);
        Some(DirectWriter { file: self, filler, route, into, pieces })
    }

    /// Takes the Sender's hash of a block; `None` if that would have to wait. `true` if a worker
    /// must be called.
    #[must_use]
    pub(crate) fn try_check_block(
        &self,
        filler: &Filler<'_>,
        seal: &BlockSeal,
        route: Route,
    ) -> Option<bool> {
        let mut state = self.lock_without_waiting(filler, route)?;
        state.check_block(filler, seal, route);
        let end = state.take_end();
        self.refresh_flags(&state);
        drop(state);
        // Publishing may take long, so a worker does it.
        Some(end.is_some_and(|end| self.push(Piece::End(end))))
    }

    /// Locks the file and takes all that is queued from this connection; `None` if the next piece
    /// would have to wait.
    fn lock_without_waiting(
        &self,
        filler: &Filler<'_>,
        route: Route,
    ) -> Option<MutexGuard<'_, IncomingState>> {
        // Verified, synced and locally matched content waits for a disk.
        if filler.job.plan.verify
            || filler.job.plan.sync
            || self.old_size.is_some()
            || self.uses_local_parts(filler)
        {
            return None;
        }
        if !self.is_begun.load(Ordering::Relaxed) && self.queue.lock().has_worker() {
            return None;
        }
        let mut state = self.state.lock();
        // A resumable file may be in use by another process, and all of it may have to be read.
        if !state.is_begun(filler) {
            return None;
        }
        let queued = self.queue.lock().drain_lane(route.lane);
        queued.into_iter().for_each(|piece| state.take_piece(filler, piece));
        Some(state)
    }
}

impl DirectWriter<'_> {
    /// Takes content that belongs at `offset`.
    pub(crate) fn take(&mut self, content: &[u8], offset: u64) {
        let Some(into) = &self.into else { return };
        let took = self.pieces.take_by(self.route, into, content, offset);
        let mut state = self.file.state.lock();
        if state.is_over() {
            self.into = None;
            return;
        }
        match took {
            Ok(took) => {
                state.count(self.filler, took);
                let new = content.len() as u64 - took.known;
                state.count_progress(self.filler, CopyStep::Moved(new));
            }
            Err(error) => {
                self.into = None;
                state.settle(self.filler, Err(not_assembled(&error)));
            }
        }
    }
}

impl Drop for DirectWriter<'_> {
    fn drop(&mut self) {
        self.into = None;
        let mut state = self.file.state.lock();
        state.pieces.put_back(std::mem::take(&mut self.pieces));
        state.discard();
        self.file.refresh_flags(&state);
    }
}

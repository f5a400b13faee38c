//! Matched parts: content of an arriving file that this machine already has. It is read from the
//! old version, or as chunks from other files. If the staged file begins with the old version, it
//! stays in place.

use super::IncomingState;
use crate::control::CopyStep;
use crate::copy::{Blocks, STEP_LEN};
use crate::receiver::pending::Part;
use crate::receiver::{Filler, Incoming, providers};
use haul_model::{Fault, FaultKind, Side};
use haul_proto::Reuse;
use haul_store::{Pieces, Route};

impl IncomingState {
    /// Takes local content. If it has changed, nothing more is accepted.
    pub(super) fn take_reuse(&mut self, filler: &Filler<'_>, reuse: &Reuse, route: Route) {
        let Some(pending) = &mut self.pending else { return };
        pending.reused.has_parts = true;
        let taken = if providers::is_in_place(&self.shared, reuse) {
            self.take_by_steps(filler, reuse.len.into(), |state, part, taken| {
                Ok(state.keep(filler, part, reuse.at + taken, route)?)
            })
        } else {
            let parts = filler.parts_of(pending, reuse).ok_or(Stopped::Lost);
            parts.and_then(|parts| self.take_parts(filler, &parts, reuse.at, route))
        };
        match taken {
            Ok(()) if reuse.from.is_none() => {
                if let Some(chunks) = &filler.providers.chunks {
                    chunks.count_reused(reuse);
                }
            }
            Ok(()) => {}
            Err(Stopped::Lost) => {
                let message = "a file that had a part of it was changed while it was read";
                self.suspect = Some(Fault::new(Side::Destination, FaultKind::Corrupt, message));
            }
            Err(Stopped::Failed(fault)) => self.settle(filler, Err(fault)),
            Err(Stopped::Over) => {}
        }
    }

    /// Takes consecutive parts of other files, which belong at `at`.
    fn take_parts(
        &mut self,
        filler: &Filler<'_>,
        parts: &[Part],
        mut at: u64,
        route: Route,
    ) -> Result<(), Stopped> {
        for Part { content, from, len } in parts {
            self.take_by_steps(filler, *len, |state, part, taken| {
                if !content.fill(part, from + taken) {
                    return Err(Stopped::Lost);
                }
                Ok(state.write(filler, part, at + taken, route)?)
            })?;
            at += len;
        }
        Ok(())
    }

    /// Takes and counts `len` bytes step by step. `take` gets the number of bytes that were taken
    /// before.
    fn take_by_steps(
        &mut self,
        filler: &Filler<'_>,
        len: u64,
        mut take: impl FnMut(&mut Self, &mut [u8], u64) -> Result<u64, Stopped>,
    ) -> Result<(), Stopped> {
        let mut part = vec![0; STEP_LEN.min(len as usize)];
        let mut taken = 0;
        while taken < len {
            if self.is_over() {
                return Err(Stopped::Over);
            }
            let step = part.len().min((len - taken) as usize);
            take(self, &mut part[..step], taken)?;
            taken += step as u64;
            self.matched += step as u64;
            self.count_progress(filler, CopyStep::Matched(step as u64));
        }
        Ok(())
    }

    /// Keeps a part of the staged file, and reads it into `part`. Returns how many bytes of it were
    /// known already.
    fn keep(
        &mut self,
        filler: &Filler<'_>,
        part: &mut [u8],
        offset: u64,
        route: Route,
    ) -> Result<u64, Fault> {
        let keep = |pieces: &mut Pieces, into: &Blocks| pieces.keep_by(route, into, part, offset);
        Ok(self.assemble(filler, keep)?.known)
    }
}

/// The reason why no more of a part is taken.
enum Stopped {
    /// The local content has changed.
    Lost,
    /// The file fails.
    Failed(Fault),
    /// The file is over.
    Over,
}

impl From<Fault> for Stopped {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

impl Incoming {
    /// True if parts of the file are read from other files of this machine.
    pub(super) fn uses_local_parts(&self, filler: &Filler<'_>) -> bool {
        let chunks = filler.providers.chunks.as_ref().zip(self.index);
        chunks.is_some_and(|(chunks, index)| chunks.has_found(index))
    }
}

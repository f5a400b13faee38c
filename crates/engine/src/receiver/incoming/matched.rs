//! The parts of a file that this machine has: in the old version, from which they are read, or
//! left where they stand in a stage that begins with it; or as chunks in other files.

use super::{Incoming, State};
use crate::control::Step;
use crate::copy::{Blocks, STEP_LEN};
use crate::receiver::Receiver;
use crate::receiver::providers::begun;
use crate::receiver::providers::chunks::Part;
use haul_model::{Fault, FaultKind, Side};
use haul_proto::Reuse;
use haul_store::{Pieces, Route};
use std::os::unix::fs::FileExt;

impl State {
    /// Takes content that is here. Where that is not what it was, nothing more is taken.
    pub(super) fn take_reuse(&mut self, receiver: &Receiver<'_>, reuse: &Reuse, route: Route) {
        let taken = match reuse.from {
            Some(from) => self.take_old(receiver, reuse, from, route),
            None => {
                let Some(pending) = &mut self.pending else { return };
                pending.takes_parts = true;
                let parts = receiver.parts(reuse).ok_or(Stopped::Lost);
                parts
                    .and_then(|parts| {
                        parts.iter().try_fold(reuse.at, |at, part| {
                            self.take_part(receiver, part, at, route).map(|()| at + part.len)
                        })
                    })
                    .map(drop)
            }
        };
        match taken {
            Ok(()) => {}
            Err(Stopped::Lost) => {
                let message = "a file that had a part of it was changed while it was read";
                self.suspect = Some(Fault::new(Side::Destination, FaultKind::Corrupt, message));
            }
            Err(Stopped::Failed(fault)) => self.settle(receiver, Err(fault)),
            Err(Stopped::Over) => {}
        }
    }

    /// Takes a part of the old version, which begins there at `from`.
    fn take_old(
        &mut self,
        receiver: &Receiver<'_>,
        reuse: &Reuse,
        from: u64,
        route: Route,
    ) -> Result<(), Stopped> {
        let stands = begun::stands(&self.shared, reuse);
        let len = u64::from(reuse.len);
        self.take_by_steps(receiver, len, |state, part, taken| {
            let Some(pending) = state.pending.as_ref() else { return Err(Stopped::Over) };
            if stands {
                return Ok(state.keep(receiver, part, reuse.at + taken, route)?);
            }
            if state.old.is_none() {
                state.old = receiver.open_old(pending);
            }
            let read = state.old.as_ref().map(|old| old.read_at(part, from + taken));
            if !matches!(read, Some(Ok(read)) if read == part.len()) {
                return Err(Stopped::Lost);
            }
            Ok(state.write(receiver, part, reuse.at + taken, route)?)
        })
    }

    /// Takes a part that is in another file.
    fn take_part(
        &mut self,
        receiver: &Receiver<'_>,
        found: &Part,
        at: u64,
        route: Route,
    ) -> Result<(), Stopped> {
        self.take_by_steps(receiver, found.len, |state, part, taken| {
            found.file.read_exact_at(part, found.from + taken).map_err(|_| Stopped::Lost)?;
            Ok(state.write(receiver, part, at + taken, route)?)
        })?;
        receiver.saved_content(found.len);
        Ok(())
    }

    /// Takes `len` bytes step by step, and counts them: each time with how many were taken.
    fn take_by_steps(
        &mut self,
        receiver: &Receiver<'_>,
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
            self.came_by(receiver, Step::Matched(step as u64));
        }
        Ok(())
    }

    /// Takes what stands in the stage, and reads it to `part`; gives how much of it was known
    /// already.
    fn keep(
        &mut self,
        receiver: &Receiver<'_>,
        part: &mut [u8],
        offset: u64,
        route: Route,
    ) -> Result<u64, Fault> {
        let keep = |pieces: &mut Pieces, into: &Blocks| pieces.keep_by(route, into, part, offset);
        Ok(self.assemble(receiver, keep)?.known)
    }
}

/// Why no more of a part is taken.
enum Stopped {
    /// It is not what it was.
    Lost,
    /// The file fails.
    Failed(Fault),
    /// The file has come to its end.
    Over,
}

impl From<Fault> for Stopped {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

impl Incoming {
    /// True if some of it is read from other files of this machine.
    pub(super) fn takes_parts(&self, receiver: &Receiver<'_>) -> bool {
        let chunks = receiver.chunks.as_ref().zip(self.index);
        chunks.is_some_and(|(chunks, index)| chunks.has_found(index))
    }
}

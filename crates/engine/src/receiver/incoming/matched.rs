//! The parts of a file that its old version has, too: read from that, or left where they
//! stand in a stage that begins with it.

use super::State;
use crate::control::Step;
use crate::copy::{Blocks, STEP_LEN};
use crate::receiver::{Receiver, begun};
use haul_model::{Fault, FaultKind, Side};
use haul_proto::Reuse;
use haul_store::{Pieces, Route};

impl State {
    /// Takes content from the old version. Where that is not what it was, nothing more is
    /// taken.
    pub(super) fn take_old(&mut self, receiver: &Receiver<'_>, reuse: &Reuse, route: Route) {
        let mut part = vec![0; STEP_LEN.min(reuse.len as usize)];
        let mut taken = 0;
        let stands = begun::stands(&self.shared, reuse);
        while taken < u64::from(reuse.len) {
            let Some(pending) = self.pending.as_ref().filter(|_| self.suspect.is_none()) else {
                return;
            };
            if self.old.is_none() && !stands {
                self.old = receiver.open_old(pending);
            }
            let len = part.len().min((u64::from(reuse.len) - taken) as usize);
            let (part, at) = (&mut part[..len], reuse.at + taken);
            let took = match stands {
                true => self.keep(receiver, part, at, route),
                false => {
                    let read = self.old.as_ref().map(|old| old.read_at(part, reuse.from + taken));
                    if !matches!(read, Some(Ok(read)) if read == len) {
                        let message = "the old version was replaced while it was read";
                        self.suspect =
                            Some(Fault::new(Side::Destination, FaultKind::Corrupt, message));
                        return;
                    }
                    self.write(receiver, part, at, route)
                }
            };
            if let Err(fault) = took {
                return self.settle(receiver, Err(fault));
            }
            taken += len as u64;
            self.matched += len as u64;
            self.came_by(receiver, Step::Matched(len as u64));
        }
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

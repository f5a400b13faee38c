//! The agent's side of measurements: answers what a client may ask, within bounds.

use super::door::Door;
use super::flow::{drain, pour};
use super::{disk::disk, processor::machine};
use crate::Rights;
use crate::link::wire::{OutFrame, Outbox, ReadEnd};
use haul_model::words;
use haul_model::{Fault, FaultKind, Side};
use haul_net::Doorway;
use haul_proto::{Flow, Measure, Measured, Message};
use std::io::{self, Read};

/// Answers measurements of one client.
pub(crate) struct Measuring {
    rights: Rights,
    /// The way by which direct connections come, or why there is none.
    doorway: Result<Doorway, String>,
    /// The path of this program, if the client may know it.
    program: Option<Vec<u8>>,
    door: Option<Door>,
}

impl Measuring {
    /// For a client with these rights, whose direct connections come by `doorway`.
    pub(crate) fn new(
        rights: Rights,
        doorway: Result<Doorway, String>,
        program: Option<Vec<u8>>,
    ) -> Self {
        Self { rights, doorway, program, door: None }
    }

    /// Does what is `asked`. A flow comes from `input`, all others go to `output`.
    ///
    /// # Errors
    /// When the client breaks the rules, or is gone.
    pub(crate) fn answer(
        &mut self,
        asked: Measure,
        input: &mut impl Read,
        output: &Outbox,
    ) -> Result<(), ReadEnd> {
        let send = |frame| -> io::Result<()> {
            output.send(frame).ok_or_else(|| io::ErrorKind::BrokenPipe.into())
        };
        let measured = match asked {
            Measure::Machine { millis } => {
                Measured::Machine(Box::new(machine(self.program.as_deref(), millis)))
            }
            Measure::Door(wish) => {
                // Its port may be the one that is wished for.
                self.door = None;
                let doorway = self.doorway.as_ref().map_err(Clone::clone);
                let opened = doorway.and_then(|doorway| Door::open(&wish, doorway));
                Measured::Door(opened.map(|(door, offer)| {
                    self.door = Some(door);
                    offer
                }))
            }
            Measure::Flow(flow @ Flow { to_agent: true, .. }) => {
                Measured::Flow(drain(flow, input)?)
            }
            Measure::Flow(flow) => {
                pour(flow, |frame| send(OutFrame::whole(frame.to_vec())))?;
                return Ok(());
            }
            Measure::Disk { .. } if self.rights == Rights::Read => {
                let message = "can't write there: this login is read-only";
                let kind = FaultKind::PermissionDenied;
                Measured::Fault(Fault::new(Side::Destination, kind, message))
            }
            Measure::Disk { path, bytes, millis } => {
                let found = disk(words::without_tilde(&path), bytes, millis);
                found.map_or_else(Measured::Fault, |(written, read)| Measured::Disk {
                    written,
                    read,
                })
            }
        };
        Ok(send(OutFrame::message(&Message::Measured(measured)))?)
    }
}

//! The agent's side of measurements. It answers clients within bounds.

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

/// Answers the measurements of one client.
pub(crate) struct Measuring {
    rights: Rights,
    /// The way in which direct connections arrive, or the reason why there are none.
    doorway: Result<Doorway, String>,
    /// The path of this program, if the client may know it.
    program: Option<Vec<u8>>,
    door: Option<Door>,
}

impl Measuring {
    /// For a client with these rights. Its direct connections arrive through `doorway`.
    pub(crate) fn new(
        rights: Rights,
        doorway: Result<Doorway, String>,
        program: Option<Vec<u8>>,
    ) -> Self {
        Self { rights, doorway, program, door: None }
    }

    /// Performs the measurement. A flow to the agent is read from `input`; everything else is
    /// written to `output`.
    ///
    /// # Errors
    /// When the client breaks the protocol, or has left.
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
                // It may use the wanted port.
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

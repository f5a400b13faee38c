//! The agent's side of measurements. It answers clients within bounds.

use super::direct_port::DirectPort;
use super::flow::{receive_filler, send_filler};
use super::{disk::disk, processor::machine};
use crate::Rights;
use crate::link::wire::{OutFrame, Outbox, ReadEnd};
use haul_model::{Fault, FaultKind, Side, words};
use haul_net::ListenTarget;
use haul_proto::{Flow, Measure, Measured, Message};
use std::io::{self, Read};

/// Answers the measurements of one client.
pub(crate) struct Measuring {
    rights: Rights,
    /// The way in which direct connections arrive, or the reason why there are none.
    listen_target: Result<ListenTarget, String>,
    /// The path of this program, if the client may know it.
    program: Option<Vec<u8>>,
    direct_port: Option<DirectPort>,
}

impl Measuring {
    /// For a client with these rights. Its direct connections arrive through `listen_target`.
    pub(crate) fn new(
        rights: Rights,
        listen_target: Result<ListenTarget, String>,
        program: Option<Vec<u8>>,
    ) -> Self {
        Self { rights, listen_target, program, direct_port: None }
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
            Measure::DirectPort(wish) => {
                // It may use the wanted port.
                self.direct_port = None;
                let listen_target = self.listen_target.as_ref().map_err(Clone::clone);
                let opened =
                    listen_target.and_then(|listen_target| DirectPort::open(&wish, listen_target));
                Measured::DirectPort(opened.map(|(direct_port, offer)| {
                    self.direct_port = Some(direct_port);
                    offer
                }))
            }
            Measure::Flow(flow @ Flow { to_agent: true, .. }) => {
                Measured::Flow(receive_filler(flow, input)?)
            }
            Measure::Flow(flow) => {
                send_filler(flow, |frame| send(OutFrame::whole(frame.to_vec())))?;
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

//! A lane that has joined: its content, and the consequences for the job when it is lost.

use super::Opening;
use crate::LinkEvent;
use crate::assembly::carrier::{Carrier, LaneInput};
use crate::control::Control;
use crate::link::wire::{ByWire, Lane, OnLeaving, ReadEnd, run_writer};
use crate::receiver::{Arrivals, Receiver, read_lane};
use crate::sender::{Readers, run_reader};
use crate::watchdog::keepalive_after;
use crate::workers::workers;
use haul_model::{escape_controls, os_text};
use haul_net::ConnectError;
use haul_proto::{Join, Message, encode};
use std::io;
use std::sync::Arc;

/// Buffers that a lane adds to the pool.
const BUFFERS_PER_LANE: usize = 3;

/// This side's role on a lane.
#[derive(Clone)]
pub(in crate::assembly) enum LaneRole<'a> {
    /// Contents are sent over it.
    Sends(Arc<Readers<'a>>),
    /// Contents are received over it.
    Receives(Arc<Receiver<'a>>, Arc<Arrivals>),
}

impl<'scope, 'a: 'scope> Opening<'scope, '_, 'a> {
    /// Uses a connection as lane number `lane`.
    pub(in crate::assembly) fn take(
        self: &Arc<Self>,
        lane: u8,
        carrier: Carrier,
    ) -> io::Result<()> {
        if !self.joins.roster.join(lane) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // The caller names its lane. The side that accepts a login confirms that it has joined.
        let greets = carrier.is_direct() != self.accepts;
        let joins = || encode(&Message::Join(Join { lane, secret: None }));
        let greeting = if greets { joins() } else { Vec::new() };
        match &self.part {
            LaneRole::Sends(readers) => self.send_over(readers, lane, carrier, greeting),
            LaneRole::Receives(receiver, arrivals) => {
                self.receive_over((receiver, arrivals), lane, carrier, &greeting)
            }
        }
    }

    fn send_over(
        self: &Arc<Self>,
        readers: &Arc<Readers<'a>>,
        lane: u8,
        carrier: Carrier,
        greeting: Vec<u8>,
    ) -> io::Result<()> {
        let (killer, round_trip) = (carrier.killer()?, carrier.round_trip());
        let (threads, control) = (self.threads, self.control());
        let (outbox, frames) = readers.lanes.sibling();
        self.joins.roster.add(lane, killer.clone(), Some(Arc::clone(&outbox)));
        let joins = Lane::new(lane, outbox);
        readers.lanes.expect(&joins, killer);
        let (is_direct, opening, senders) =
            (carrier.is_direct(), Arc::clone(self), Arc::clone(readers));
        threads.try_spawn("lane writer", move || {
            let (mut output, rest) = carrier.into_output();
            let on_leaving = |index, len| senders.sender.ledger.count_sent(index, len);
            let of_job = Some((control, &on_leaving as OnLeaving<'_>));
            let keepalive_after = keepalive_after(opening.joins.silence_max);
            let sent = run_writer(&mut output, &frames, greeting, keepalive_after, of_job);
            drop((output, rest));
            if !control.stopped()
                && let Some(left) = senders.lanes.lose(lane, frames, control)
            {
                opening.lose(lane, is_direct, left, sent);
            }
        })?;
        let lanes = readers.lanes.join(joins, round_trip);
        readers.pool.add(BUFFERS_PER_LANE);
        if lanes > workers() {
            let readers = Arc::clone(readers);
            // If the thread can't be started, the other readers serve this lane too.
            let _ = threads.try_spawn("file reader", move || run_reader(&readers, control));
        }
        Ok(())
    }

    fn receive_over(
        self: &Arc<Self>,
        (receiver, arrivals): (&Arc<Receiver<'a>>, &Arc<Arrivals>),
        lane: u8,
        carrier: Carrier,
        greeting: &[u8],
    ) -> io::Result<()> {
        let (killer, is_direct) = (carrier.killer()?, carrier.is_direct());
        let (threads, control) = (self.threads, self.control());
        self.joins.roster.add(lane, killer.clone(), None);
        let LaneInput { input, watchdog, is_watched, rest } =
            carrier.into_input(greeting, self.joins.silence_max)?;
        if !arrivals.join(lane, killer.clone()) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        arrivals.pool.add(BUFFERS_PER_LANE);
        let (receiver, arrivals) = (Arc::clone(receiver), Arc::clone(arrivals));
        let opening = Arc::clone(self);
        threads.try_spawn("lane reader", move || {
            let (frames, end) = read_lane(input, &receiver, &arrivals, lane);
            drop(rest);
            match end {
                Err(ReadEnd::Lost(error)) if !control.stopped() => {
                    let left = arrivals.lose(&receiver, lane, frames);
                    opening.lose(lane, is_direct, left, Err(error));
                }
                Err(end @ ReadEnd::Refused(_)) => end.report(control, &opening.joins.peer),
                Ok(()) | Err(ReadEnd::Lost(_)) => {}
            }
        })?;
        if !is_watched {
            control.watch(&watchdog, &self.joins.peer, killer);
        }
        Ok(())
    }

    /// Handles a lane that ended before the job, with `left` lanes remaining.
    fn lose(&self, lane: u8, is_direct: bool, left: usize, end: io::Result<()>) {
        self.joins.roster.lose(lane);
        if left > 0 {
            return;
        }
        let (control, host) = (self.control(), &*self.joins.peer);
        let error = end.err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
        if self.joins.by_wire == ByWire::Nothing {
            return self.fail_without_lanes(control, is_direct, &error);
        }
        if !self.joins.roster.should_report_loss() {
            return;
        }
        let of =
            if is_direct { "the direct connections were" } else { "the open connections were" };
        let reason = &*escape_controls(&format!("{of} lost: {}", os_text(&error)));
        self.report(match is_direct {
            true => LinkEvent::NotDirect { host, reason },
            false => LinkEvent::NotLoggedIn { host, reason },
        });
    }

    /// Ends a job that sends contents over lanes only, when no lane is left.
    fn fail_without_lanes(&self, control: &Control<'_>, is_direct: bool, error: &io::Error) {
        // The peer may have sent the reason, or that the job is done.
        control.linger();
        // The side that opened the lanes ends the job with the reason. A closed connection would
        // not be the reason.
        if self.accepts {
            control.linger();
        }
        let host = self.joins.peer.clone();
        control.fail(match is_direct {
            true => ConnectError::DirectLost { host, detail: os_text(error) }.into(),
            false => ConnectError::lost(&host, error).into(),
        });
    }
}

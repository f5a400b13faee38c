//! Direct connections to an agent, to be measured: the client's side.

use super::flow::{FLOW_MAX, drain, pour};
use super::{rate_of, within};
use crate::link::greeting::read_message;
use crate::link::wire::{ReadEnd, refused};
use haul_net::{Direct, Identity, Killer};
use haul_proto::{DirectOffer, Flow, Join, Measure, Measured, Message, encode};
use std::io::{self, Write};
use std::sync::mpsc;
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

/// How long a host may take to answer a call.
const CALL_MAX: Duration = Duration::from_secs(3);

/// Connections that stand.
pub(super) struct Called(Vec<Direct>);

impl Called {
    /// Calls the agent once.
    ///
    /// # Errors
    /// When it is not reached.
    pub(super) fn call(offer: &DirectOffer, identity: &Identity) -> io::Result<Self> {
        let mut called = Self(Vec::new());
        called.join(offer, identity)?;
        Ok(called)
    }

    /// True if that many stand; calls as often as are missing.
    pub(super) fn has(&mut self, offer: &DirectOffer, identity: &Identity, lanes: u8) -> bool {
        while self.0.len() < lanes.into() {
            if let Err(error) = self.join(offer, identity) {
                tracing::debug!(%error, "no further direct connection");
                return false;
            }
        }
        true
    }

    fn join(&mut self, offer: &DirectOffer, identity: &Identity) -> io::Result<()> {
        let mut direct = Direct::connect(offer.address, identity, offer.key, CALL_MAX, &|| true)?;
        direct.set_patience(Some(FLOW_MAX))?;
        let lane = u8::try_from(self.0.len() + 1).expect("they are few");
        direct.write_all(&encode(&Message::Join(Join { lane, secret: None })))?;
        self.0.push(direct);
        Ok(())
    }

    /// The rate of one direction over that many at the same time, in bytes per second.
    ///
    /// # Errors
    /// When one of them breaks, or the agent breaks the rules.
    pub(super) fn rate(&mut self, lanes: u8, to_agent: bool, millis: u32) -> io::Result<u64> {
        let flow = Flow { to_agent, bytes: haul_proto::FLOW_BYTES_MAX, millis };
        let used = &mut self.0[..lanes.into()];
        let killers: Vec<Killer> = used.iter().map(Direct::killer).collect::<io::Result<_>>()?;
        let (done, rates) = mpsc::channel();
        scope(|scope| {
            for direct in used {
                let done = done.clone();
                let measure = move || {
                    // It is waited for.
                    let _ = done.send(measured(direct, flow));
                };
                Builder::new().name("lane".to_owned()).spawn_scoped(scope, measure)?;
            }
            drop(done);
            let deadline = Instant::now() + FLOW_MAX;
            let mut sum = 0u64;
            let mut failed = None;
            for _ in 0..lanes {
                let left = deadline.saturating_duration_since(Instant::now());
                match rates.recv_timeout(left) {
                    Ok(Ok(rate)) => sum = sum.saturating_add(rate),
                    Ok(Err(error)) => failed = Some(error),
                    Err(_) => {
                        // One that is stuck ends with this.
                        killers.iter().for_each(Killer::kill);
                        failed = Some(io::ErrorKind::TimedOut.into());
                        break;
                    }
                }
            }
            failed.map_or(Ok(sum), Err)
        })
    }
}

/// The rate of a flow over one connection.
fn measured(direct: &mut Direct, flow: Flow) -> io::Result<u64> {
    let begun = Instant::now();
    direct.write_all(&encode(&Message::Measure(Measure::Flow(flow))))?;
    let amount = match flow.to_agent {
        false => drain(flow, direct),
        true => {
            let sent = pour(flow, |frame| direct.write_all(frame))?;
            direct.flush()?;
            match read_message(direct) {
                Ok(Message::Measured(Measured::Flow(amount))) => {
                    within(amount, sent, begun.elapsed())
                }
                Ok(_) => Err(refused("the peer answered a different request")),
                Err(end) => Err(end),
            }
        }
    };
    amount.and_then(rate_of).map_err(|end| match end {
        ReadEnd::Lost(error) => error,
        ReadEnd::Refused(error) => io::Error::other(error.to_string()),
    })
}

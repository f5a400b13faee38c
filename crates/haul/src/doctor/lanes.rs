//! The client's side of direct connections to an agent, for measurements.

use haul_engine::measure_directly;
use haul_net::{Direct, Identity};
use haul_proto::{DirectOffer, FLOW_BYTES_MAX, Flow, Join, Message, encode};
use std::io::{self, Write};
use std::panic::resume_unwind;
use std::thread::{Builder, scope};
use std::time::Duration;

/// Timeout of connecting to the host.
const CALL_MAX: Duration = Duration::from_secs(3);

/// Timeout of a measurement over all connections, and of each read or write.
const RATE_TIME_MAX: Duration = Duration::from_secs(20);

/// The open connections.
#[derive(Default)]
pub(super) struct DirectLanes(Vec<Direct>);

impl DirectLanes {
    /// Connects until `lanes` connections are open; true if they are.
    pub(super) fn has(&mut self, offer: &DirectOffer, identity: &Identity, lanes: u8) -> bool {
        while self.0.len() < lanes.into() {
            if let Err(error) = self.join(offer, identity) {
                tracing::debug!(%error, "no further direct connection");
                return false;
            }
        }
        true
    }

    /// Connects once more.
    ///
    /// # Errors
    /// If the agent can't be reached.
    pub(super) fn join(&mut self, offer: &DirectOffer, identity: &Identity) -> io::Result<()> {
        let mut direct = Direct::connect(offer.address, identity, offer.key, CALL_MAX, &|| true)?;
        direct.set_timeout(Some(RATE_TIME_MAX))?;
        let lane = u8::try_from(self.0.len() + 1).expect("they are few");
        direct.write_all(&encode(&Message::Join(Join { lane, secret: None })))?;
        self.0.push(direct);
        Ok(())
    }

    /// The rate in one direction over `lanes` connections at the same time, in bytes per second.
    ///
    /// # Errors
    /// If a connection fails, or the agent violates the protocol.
    pub(super) fn rate(&mut self, lanes: u8, to_agent: bool, millis: u32) -> io::Result<u64> {
        let flow = Flow { to_agent, bytes: FLOW_BYTES_MAX, millis };
        scope(|scope| {
            let begun = self.0[..lanes.into()].iter_mut().map(|direct| {
                let killer = direct.killer()?;
                let measure = move || {
                    // A stuck measurement ends with its connection.
                    match killer.within(Some(RATE_TIME_MAX), || measure_directly(direct, flow))? {
                        (_, true) => Err(io::ErrorKind::TimedOut.into()),
                        (amount, false) => amount,
                    }
                };
                Builder::new().name("lane".to_owned()).spawn_scoped(scope, measure)
            });
            let mut begun = begun.collect::<io::Result<Vec<_>>>()?.into_iter();
            begun.try_fold(0u64, |sum, lane| {
                let amount = lane.join().unwrap_or_else(|panic| resume_unwind(panic));
                Ok(sum.saturating_add(amount?.per_second()))
            })
        })
    }
}

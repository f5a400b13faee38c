//! The client's side of direct connections to an agent, for measurements.

use haul_engine::measure_directly;
use haul_net::{Direct, Identity, Killer};
use haul_proto::{DirectOffer, FLOW_BYTES_MAX, Flow, Join, Message, encode};
use std::io::{self, Write};
use std::sync::mpsc;
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

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
        let used = &mut self.0[..lanes.into()];
        let killers: Vec<Killer> = used.iter().map(Direct::killer).collect::<io::Result<_>>()?;
        let (done, amounts) = mpsc::channel();
        scope(|scope| {
            for direct in used {
                let done = done.clone();
                // The receiver waits for it.
                let measure = move || drop(done.send(measure_directly(direct, flow)));
                Builder::new().name("lane".to_owned()).spawn_scoped(scope, measure)?;
            }
            drop(done);
            let deadline = Instant::now() + RATE_TIME_MAX;
            let mut sum = 0u64;
            let mut failed = None;
            for _ in 0..lanes {
                let left = deadline.saturating_duration_since(Instant::now());
                match amounts.recv_timeout(left) {
                    Ok(Ok(amount)) => sum = sum.saturating_add(amount.per_second()),
                    Ok(Err(error)) => failed = Some(error),
                    Err(_) => {
                        // This ends a stuck measurement.
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

//! Direct connections to an agent, to be measured: the client's side.

use haul_engine::measure_directly;
use haul_net::{Direct, Identity, Killer};
use haul_proto::{DirectOffer, FLOW_BYTES_MAX, Flow, Join, Message, encode};
use std::io::{self, Write};
use std::sync::mpsc;
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

/// How long a host may take to answer a call.
const CALL_MAX: Duration = Duration::from_secs(3);

/// How long a measurement over all connections may take, and each wait for one of them.
const RATE_TIME_MAX: Duration = Duration::from_secs(20);

/// Connections that stand.
#[derive(Default)]
pub(super) struct Called(Vec<Direct>);

impl Called {
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

    /// Calls the agent once more.
    ///
    /// # Errors
    /// When it is not reached.
    pub(super) fn join(&mut self, offer: &DirectOffer, identity: &Identity) -> io::Result<()> {
        let mut direct = Direct::connect(offer.address, identity, offer.key, CALL_MAX, &|| true)?;
        direct.set_patience(Some(RATE_TIME_MAX))?;
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
        let flow = Flow { to_agent, bytes: FLOW_BYTES_MAX, millis };
        let used = &mut self.0[..lanes.into()];
        let killers: Vec<Killer> = used.iter().map(Direct::killer).collect::<io::Result<_>>()?;
        let (done, amounts) = mpsc::channel();
        scope(|scope| {
            for direct in used {
                let done = done.clone();
                // It is waited for.
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

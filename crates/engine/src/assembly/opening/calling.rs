//! Calls the port that an agent has opened: direct connections. The caller is the agent's client,
//! or another agent that received the address from the client.

use super::further_logins::FurtherLogins;
use super::lane::LaneRole;
use super::{AttemptResult, LEFT_MIN, Opening};
use crate::assembly::carrier::Carrier;
use crate::assembly::schedule::{Attempt, Failure, LANE_LEN, Schedule};
use crate::link::wire::{FAR_LANE_LEN, LONG_ROUND_TRIP};
use crossbeam_channel::Sender;
use haul_net::{HostAddresses, Identity, check_host_address};
use haul_proto::{DirectOffer, LANES_MAX};
use std::io;
use std::num::NonZeroU8;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The longest time for a host to answer a call, while the job continues without it.
const CALL_MAX: Duration = Duration::from_secs(3);

/// The same, if the job can't continue without it.
const REQUIRED_CALL_MAX: Duration = Duration::from_secs(10);

/// The pause before a retry after the host closed a call.
const CALL_RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The most lanes, by round trip. The longer a round trip, the more a lane is slowed down by
/// waiting for answers.
const BY_ROUND_TRIP: [(Duration, u8); 2] = [(Duration::from_millis(2), 2), (LONG_ROUND_TRIP, 4)];

/// The caller, and the address of the host that it calls.
pub(crate) struct CallSettings {
    /// The key that the called side knows.
    pub(crate) identity: Identity,
    /// The host's address. `None` for an agent that calls another one: its client has checked the
    /// address that it forwarded.
    pub(crate) host_addresses: Option<HostAddresses>,
    /// The number of connections; `None` if it follows from the round trip of a call.
    pub(crate) connections: Option<NonZeroU8>,
}

/// The agent that is called.
pub(crate) struct Callee {
    pub(in crate::assembly) calling: CallSettings,
    /// Receives the agent's addresses, once it has sent them.
    pub(in crate::assembly) offer: crossbeam_channel::Receiver<Result<DirectOffer, String>>,
    pub(in crate::assembly) is_required: bool,
    /// The agent's offer, once its address was checked.
    pub(in crate::assembly) checked_offer: OnceLock<DirectOffer>,
}

impl Callee {
    /// True if an agent calls another agent.
    pub(in crate::assembly) fn is_of_agent(&self) -> bool {
        self.calling.host_addresses.is_none()
    }

    /// True if the called host is a `haul server`.
    pub(in crate::assembly) fn is_server(&self) -> bool {
        self.calling.host_addresses.as_ref().is_some_and(HostAddresses::is_server)
    }

    /// The number of lanes that are useful at this `round_trip`.
    pub(in crate::assembly) fn count_for(&self, round_trip: Duration) -> u8 {
        let by_time = || BY_ROUND_TRIP.iter().find(|(max, _)| round_trip < *max);
        match self.calling.connections {
            Some(connections) => connections.get().min(LANES_MAX),
            None => by_time().map_or(LANES_MAX, |(_, lanes)| *lanes),
        }
    }

    /// Waits until the agent has sent its addresses and there is enough to send. `None` if the job
    /// ends first.
    ///
    /// The first call is made alone, and its round trip decides how many others are useful. If
    /// `further_logins` or the connection to a server shows that the host is far away, all calls
    /// are made at the same time. Each takes some round trips to connect, and as many to become
    /// fast.
    pub(super) fn wait(
        &self,
        opening: &Opening<'_, '_, '_>,
        further_logins: Option<&FurtherLogins>,
    ) -> Option<Schedule> {
        let CallSettings { host_addresses, connections, .. } = &self.calling;
        let offer = opening.wait_for(|| self.offer.try_recv().ok())?;
        opening.wait_for(|| self.is_time(opening).then_some(()))?;
        let of_server = || host_addresses.as_ref().and_then(HostAddresses::round_trip);
        let far = further_logins.and_then(FurtherLogins::round_trip).or_else(of_server);
        let far = far.filter(|time| *time >= LONG_ROUND_TRIP);
        opening.wait_for_listing(far.unwrap_or_default());
        let offer = offer.and_then(|offer| {
            let address = match host_addresses {
                Some(host_addresses) => host_addresses.checked_address(offer.address)?,
                None => check_host_address(offer.address).map(|()| offer.address)?,
            };
            Ok(DirectOffer { address, ..offer })
        });
        let is_far = far.is_some() && connections.is_none();
        let lane_len = if is_far { FAR_LANE_LEN } else { LANE_LEN };
        let count = far.map(|round_trip| self.count_for(round_trip));
        Some(match offer {
            Ok(offer) => {
                self.checked_offer.get_or_init(|| offer);
                Schedule::of_calls(count, lane_len)
            }
            Err(reason) => Schedule::without(reason),
        })
    }

    /// True if there is enough to send, or if contents are waiting to be sent.
    fn is_time(&self, opening: &Opening<'_, '_, '_>) -> bool {
        match &opening.part {
            // The figures are at the client.
            LaneRole::Sends(readers) if self.is_of_agent() => readers.lanes.is_awaited(),
            // An empty file, or the end of an existing one, may have to be sent.
            _ if self.is_required => opening.has_files_left(),
            _ => opening.left() >= LEFT_MIN,
        }
    }

    /// Begins a call, on a thread of its own that reports the result.
    pub(super) fn begin<'scope, 'a: 'scope>(
        self: &Arc<Self>,
        opening: &Arc<Opening<'scope, '_, 'a>>,
        attempt: Attempt,
        results: &Sender<AttemptResult>,
    ) -> Result<(), Failure> {
        let threads = opening.threads;
        let (opening, callee, results) = (Arc::clone(opening), Arc::clone(self), results.clone());
        let call = move || {
            let result = callee.call(attempt.lane, &opening).map_err(Failure::of_io);
            // The job may have ended, so nobody receives this.
            let _ = results.send((attempt, result));
        };
        threads.try_spawn("call", call).map_err(Failure::of_io)
    }

    /// Calls for one lane. Retries if the host closes the connection, which some hosts do under
    /// many simultaneous calls.
    fn call(&self, lane: u8, opening: &Opening<'_, '_, '_>) -> io::Result<Carrier> {
        let Self { calling: CallSettings { identity, .. }, is_required, checked_offer, .. } = self;
        let Some(DirectOffer { address, key, .. }) = checked_offer.get().copied() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let timeout = if *is_required { REQUIRED_CALL_MAX } else { CALL_MAX };
        let may_join = || opening.may_join();
        let deadline = Instant::now() + timeout;
        loop {
            let begun = Instant::now();
            match haul_net::Direct::connect(address, identity, key, timeout, &may_join) {
                Err(error) if is_disconnect(&error) && begun < deadline && may_join() => {
                    tracing::debug!(lane, %error, "the host closed the connection");
                    std::thread::sleep(CALL_RETRY_PAUSE);
                }
                connected => {
                    let direct = connected?;
                    tracing::debug!(lane, round_trip = ?direct.round_trip(), "called the host");
                    return Ok(Carrier::Direct(direct.into()));
                }
            }
        }
    }
}

/// True if the host accepted the connection and then closed it.
fn is_disconnect(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(error.kind(), E::UnexpectedEof | E::ConnectionReset | E::BrokenPipe)
}

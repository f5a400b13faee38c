//! Calls to the port that an agent has opened: direct connections. Who calls is its client,
//! or another agent, to which the client has passed on where that port is.

use super::beside::Beside;
use super::carrier::Carrier;
use super::lane::LaneRole;
use super::opening::{Ended, LEFT_MIN, Opening};
use super::schedule::{Attempt, Failure, LANE_LEN, Schedule};
use crate::link::wire::{FAR_LANE_LEN, LONG_ROUND_TRIP};
use crossbeam_channel::Sender;
use haul_net::{Identity, Whereabouts, check_plain};
use haul_proto::{DirectOffer, LANES_MAX};
use std::io;
use std::num::NonZeroU8;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long a host may take to answer a call, while the job continues.
const CALL_MAX: Duration = Duration::from_secs(3);

/// The same where it can't.
const REQUIRED_CALL_MAX: Duration = Duration::from_secs(10);

/// The pause before a call that follows one that the host has hung up on.
const CALL_AGAIN: Duration = Duration::from_millis(50);

/// How many lanes there are at most, by the round trip: one of them is held up
/// by that the more, the longer an answer takes.
const BY_ROUND_TRIP: [(Duration, u8); 2] = [(Duration::from_millis(2), 2), (LONG_ROUND_TRIP, 4)];

/// Who calls, and whom.
pub(crate) struct Calling {
    /// The key that the one who is called knows.
    pub(crate) identity: Identity,
    /// Where that one is. An agent that calls another doesn't know: its client, which passes
    /// the other's words on, has looked at them.
    pub(crate) there: Option<Whereabouts>,
    /// How many connections there shall be, if that is not left to the time that a call takes.
    pub(crate) connections: Option<NonZeroU8>,
}

/// The agent that is called.
pub(crate) struct Callee {
    pub(super) calling: Calling,
    /// The agent's addresses, as soon as it has sent them.
    pub(super) offer: crossbeam_channel::Receiver<Result<DirectOffer, String>>,
    pub(super) is_required: bool,
    /// The same, once it was looked at.
    pub(super) door: OnceLock<DirectOffer>,
}

impl Callee {
    /// True if an agent calls, which another one knows by its key.
    pub(super) fn is_of_agent(&self) -> bool {
        self.calling.there.is_none()
    }

    /// True if it is a server.
    pub(super) fn is_server(&self) -> bool {
        self.calling.there.as_ref().is_some_and(Whereabouts::is_server)
    }

    /// How many lanes are of use where the round trip takes so long.
    pub(super) fn count_for(&self, round_trip: Duration) -> u8 {
        let by_time = || BY_ROUND_TRIP.iter().find(|(max, _)| round_trip < *max);
        match self.calling.connections {
            Some(connections) => connections.get().min(LANES_MAX),
            None => by_time().map_or(LANES_MAX, |(_, lanes)| *lanes),
        }
    }
}

impl<'scope, 'a: 'scope> Opening<'scope, '_, 'a> {
    /// Waits until the agent has sent its addresses, and there is enough to send. `None` if
    /// the job ends before.
    ///
    /// The first call is made alone, and shows how many others are of use. Where the host is
    /// known to be far away, as `beside` or the connection to a server shows, all are made at the
    /// same time: each takes some round trips until it is connected, and as many until it is fast.
    pub(super) fn when_to_call(
        &self,
        callee: &Callee,
        beside: Option<&Beside>,
    ) -> Option<Schedule> {
        let Callee { calling: Calling { there, connections, .. }, .. } = callee;
        let offer = self.wait_for(|| callee.offer.try_recv().ok())?;
        self.wait_for(|| self.is_time(callee).then_some(()))?;
        let of_server = || there.as_ref().and_then(Whereabouts::round_trip);
        let far = beside.and_then(Beside::round_trip).or_else(of_server);
        let far = far.filter(|time| *time >= LONG_ROUND_TRIP);
        self.hear_of_more(far.unwrap_or_default());
        let offer = offer.and_then(|offer| {
            let address = match there {
                Some(there) => there.to_call(offer.address)?,
                None => check_plain(offer.address).map(|()| offer.address)?,
            };
            Ok(DirectOffer { address, ..offer })
        });
        let is_far = far.is_some() && connections.is_none();
        let lane_len = if is_far { FAR_LANE_LEN } else { LANE_LEN };
        let count = far.map(|round_trip| callee.count_for(round_trip));
        Some(match offer {
            Ok(offer) => {
                callee.door.get_or_init(|| offer);
                Schedule::of_calls(count, lane_len)
            }
            Err(reason) => Schedule::without(reason),
        })
    }

    /// True if there is enough to send, or if some waits to be sent.
    fn is_time(&self, callee: &Callee) -> bool {
        match &self.part {
            // The figures are the client's.
            LaneRole::Sends(readers) if callee.is_of_agent() => readers.lanes.is_awaited(),
            // An empty file, or the end of one that is there, may have to be sent.
            _ if callee.is_required => self.has_files_left(),
            _ => self.left() >= LEFT_MIN,
        }
    }

    /// Waits so long for more to be listed: what there is at first says little of how many
    /// lanes there should be.
    fn hear_of_more(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let is_plain = || {
            let left = self.left();
            let is_all = self.has_listed_all();
            is_all || left >= u64::from(LANES_MAX) * FAR_LANE_LEN || Instant::now() >= until
        };
        self.wait_for(|| is_plain().then_some(()));
    }

    /// True if nothing more is listed.
    fn has_listed_all(&self) -> bool {
        self.control().monitor().progress().listed_all.load(Ordering::Relaxed)
    }

    /// True if listed files are not done.
    fn has_files_left(&self) -> bool {
        let progress = self.control().monitor().progress();
        let done = progress.files_done.load(Ordering::Relaxed);
        progress.files_total.load(Ordering::Relaxed) > done
    }

    /// Begins a call, on a thread of its own that reports the result.
    pub(super) fn begin_call(
        self: &Arc<Self>,
        callee: &Arc<Callee>,
        attempt: Attempt,
        tell: &Sender<Ended>,
    ) -> Result<(), Failure> {
        let (opening, callee, tell) = (Arc::clone(self), Arc::clone(callee), tell.clone());
        let call = move || {
            let stands = opening.call(attempt.lane, &callee).map_err(Failure::of_io);
            // Nobody takes it when the job has ended.
            let _ = tell.send((attempt, stands));
        };
        self.crew.try_begin("call", call).map_err(Failure::of_io)
    }

    /// Calls for one lane, again where the host hangs up: it does on some where many call.
    fn call(&self, lane: u8, callee: &Callee) -> io::Result<Carrier> {
        let Callee { calling: Calling { identity, .. }, is_required, door, .. } = callee;
        let Some(DirectOffer { address, key, .. }) = door.get().copied() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let patience = if *is_required { REQUIRED_CALL_MAX } else { CALL_MAX };
        let goes_on = || self.goes_on();
        let deadline = Instant::now() + patience;
        loop {
            let begun = Instant::now();
            match haul_net::Direct::connect(address, identity, key, patience, &goes_on) {
                Err(error) if is_hangup(&error) && begun < deadline && goes_on() => {
                    tracing::debug!(lane, %error, "the host closed the connection");
                    std::thread::sleep(CALL_AGAIN);
                }
                connected => {
                    let direct = connected?;
                    tracing::debug!(lane, round_trip = ?direct.round_trip(), "a call stands");
                    return Ok(Carrier::Direct(direct.into()));
                }
            }
        }
    }
}

/// True if somebody was there, and has left.
fn is_hangup(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(error.kind(), E::UnexpectedEof | E::ConnectionReset | E::BrokenPipe)
}

//! Calls to the port that an agent has opened: direct connections. Who calls is its client,
//! or another agent, to which the client has passed on where that port is.

use super::carrier::Carrier;
use super::joining::{CALLED_MIN, LANE_LEN, LaneRole, Opening};
use crate::LinkEvent;
use crate::control::CANCEL_POLL;
use crate::link::wire::{FAR_LANE_LEN, LONG_ROUND_TRIP};
use haul_model::{escape_controls, os_text};
use haul_net::{ConnectError, Identity, Whereabouts, check_plain};
use haul_proto::{DirectOffer, Join, LANES_MAX, Message, encode};
use std::io;
use std::num::NonZeroU8;
use std::thread::{Builder, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// How long a host may take to answer a call, where the job goes on meanwhile.
const CALL_MAX: Duration = Duration::from_secs(3);

/// The same where it can't.
const REQUIRED_CALL_MAX: Duration = Duration::from_secs(10);

/// The pause before a call that follows one that the host has hung up on.
const CALL_AGAIN: Duration = Duration::from_millis(50);

/// How many lanes there are at most, by the time that a call takes: one of them is held up
/// by that the more, the longer it takes to be heard.
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

/// The calls for lanes so far.
struct Called {
    /// Lanes that stand.
    stand: u8,
    /// The lane to call for next.
    next: u8,
    /// The last lane that may be called for.
    lanes_max: u8,
    /// Bytes left to send for which a further lane is worth its call.
    lane_len: u64,
}

/// The wish for direct connections.
pub(crate) struct Direct {
    pub(super) calling: Calling,
    /// Where the agent is reached, as soon as it has told.
    pub(super) offer: crossbeam_channel::Receiver<Result<DirectOffer, String>>,
    pub(super) is_required: bool,
}

impl Direct {
    /// True if an agent calls, which another one knows by its key.
    fn is_of_agent(&self) -> bool {
        self.calling.there.is_none()
    }
}

impl<'scope, 'a: 'scope> Opening<'scope, '_, 'a> {
    /// Calls the other side, as often as there shall be lanes; `round_trip` gives the time that
    /// is known to pass until it answers. `false` if it can't be reached so.
    pub(super) fn call(&self, direct: &Direct, round_trip: impl Fn() -> Option<Duration>) -> bool {
        let Direct { offer, is_required, .. } = direct;
        let Some(offer) = self.until_ended(|| offer.recv_timeout(CANCEL_POLL).ok()) else {
            return true;
        };
        let Some(()) = self.until_ended(|| self.wait_unless(self.is_time(direct))) else {
            return true;
        };
        let far = round_trip().filter(|time| *time >= LONG_ROUND_TRIP);
        self.hear_of_more(far.unwrap_or_default());
        let before = self.transferred();
        let offer = offer.and_then(|offer| {
            let address = match &direct.calling.there {
                Some(there) => there.to_call(offer.address)?,
                None => check_plain(offer.address).map(|()| offer.address)?,
            };
            Ok(DirectOffer { address, ..offer })
        });
        let called = offer.map_err(io::Error::other);
        let called = called.and_then(|offer| Ok((offer, self.call_lanes(direct, &offer, far)?)));
        let host = &*self.peer;
        match called {
            // The job has ended, which is no fault of the call.
            Ok((_, Called { stand: 0, .. })) => {}
            Err(_) if !self.goes_on() => {}
            Ok((offer, called)) => {
                // Where nothing has changed nothing goes over them. An agent calls when something
                // waits to be sent.
                let has_sent = || direct.is_of_agent() || self.transferred() > before;
                self.until_ended(|| self.wait_unless(has_sent()));
                if has_sent() {
                    let is_server =
                        direct.calling.there.as_ref().is_some_and(Whereabouts::is_server);
                    let connections = called.stand + u8::from(is_server);
                    self.tell(LinkEvent::Direct { host, connections });
                    self.call_more(direct, &offer, called);
                }
            }
            Err(error) if *is_required => {
                // The agent may be done without.
                self.control().linger();
                let (host, detail) = (self.peer.clone(), os_text(&error));
                self.control().fail(ConnectError::NotDirect { host, detail }.into());
            }
            Err(error) => {
                let reason = &*escape_controls(&os_text(&error));
                self.tell(LinkEvent::NotDirect { host, reason });
                return false;
            }
        }
        true
    }

    /// True if there is enough to send, or if some waits to be sent.
    fn is_time(&self, direct: &Direct) -> bool {
        match &self.part {
            // The figures are the client's.
            LaneRole::Sends(readers) if direct.is_of_agent() => readers.lanes.is_awaited(),
            // An empty file, or the end of one that is there, may have to be told.
            _ if direct.is_required => self.has_files_left(),
            _ => self.left() >= CALLED_MIN,
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
        self.until_ended(|| self.wait_unless(is_plain()));
    }

    /// Gives the first of them. `far` is the time that is known to pass until the host
    /// answers, where that is long. Those behind the first are called at the same time, and with
    /// it where the host is known to be far away: each takes some round trips until it stands,
    /// and as many until it is fast.
    fn call_lanes(
        &self,
        direct: &Direct,
        offer: &DirectOffer,
        far: Option<Duration>,
    ) -> io::Result<Called> {
        let connections = direct.calling.connections;
        let (first, took) = match far {
            Some(round_trip) => (1, round_trip),
            None => (2, self.call_lane(1, direct, offer)?),
        };
        let by_time = || BY_ROUND_TRIP.iter().find(|(max, _)| took < *max);
        let lanes_max = match connections {
            Some(connections) => connections.get().min(LANES_MAX),
            None => by_time().map_or(LANES_MAX, |(_, lanes)| *lanes),
        };
        let is_far = far.is_some() && connections.is_none();
        let lane_len = if is_far { FAR_LANE_LEN } else { LANE_LEN };
        let mut called = Called { stand: first - 1, next: first, lanes_max, lane_len };
        match self.call_worthy(direct, offer, &mut called) {
            Err(error) if called.stand == 0 => Err(error),
            // There are others, or there is nothing left to be sent.
            _ => Ok(called),
        }
    }

    /// Calls at the same time for all lanes that are worth it by now.
    ///
    /// # Errors
    /// The first, if any of them fails.
    fn call_worthy(
        &self,
        direct: &Direct,
        offer: &DirectOffer,
        called: &mut Called,
    ) -> io::Result<()> {
        let Called { stand, next, lanes_max, lane_len } = called;
        let is_worth_it =
            |lane: &u8| direct.is_of_agent() || self.left() >= u64::from(lane - 1) * *lane_len;
        let others = (*next..=*lanes_max).take_while(is_worth_it);
        let ends = std::thread::scope(|scope| {
            let call = |lane| {
                let begun = Builder::new().name("call".to_owned());
                let call = move || self.call_lane(lane, direct, offer);
                (lane, begun.spawn_scoped(scope, call))
            };
            let called: Vec<_> = others.map(call).collect();
            called.into_iter().map(|(lane, begun)| (lane, ended(begun))).collect::<Vec<_>>()
        });
        let mut failure = None;
        for (lane, end) in ends {
            *next = lane + 1;
            match end {
                Ok(_) => *stand += 1,
                Err(error) => {
                    tracing::debug!(lane, %error, "no further direct connection");
                    failure = failure.or(Some(error));
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Calls for further lanes where there turns out to be more to send, until all is listed,
    /// a call fails, or all lanes are lost. The user was told of that loss: none may come back
    /// in silence.
    fn call_more(&self, direct: &Direct, offer: &DirectOffer, mut called: Called) {
        while self.goes_on() && called.next <= called.lanes_max && !self.joined.has_lost_all() {
            let is_all = self.has_listed_all();
            if self.call_worthy(direct, offer, &mut called).is_err() || is_all {
                return;
            }
            std::thread::sleep(CANCEL_POLL);
        }
    }

    /// Calls for one lane, again where the host hangs up: it does on some where many call.
    /// Gives the time that a message took there and back.
    fn call_lane(&self, lane: u8, direct: &Direct, offer: &DirectOffer) -> io::Result<Duration> {
        let Direct { calling: Calling { identity, .. }, is_required, .. } = direct;
        let patience = if *is_required { REQUIRED_CALL_MAX } else { CALL_MAX };
        let goes_on = || self.goes_on();
        let deadline = Instant::now() + patience;
        let (begun, stands) = loop {
            let begun = Instant::now();
            let connected =
                haul_net::Direct::connect(offer.address, identity, offer.key, patience, &goes_on);
            match connected {
                Err(error) if is_hangup(&error) && begun < deadline && goes_on() => {
                    tracing::debug!(lane, %error, "the host closed the connection");
                    std::thread::sleep(CALL_AGAIN);
                }
                connected => break (begun, connected?),
            }
        };
        let joins = encode(&Message::Join(Join { lane, secret: None }));
        self.take(lane, Carrier::Direct(stands.into()), joins)?;
        let took = begun.elapsed() / 2;
        tracing::debug!(lane, ?took, "a direct connection stands");
        Ok(took)
    }
}

/// The result of a call by a thread of its own.
fn ended<T>(call: io::Result<ScopedJoinHandle<'_, io::Result<T>>>) -> io::Result<T> {
    let broken = |_| Err(io::Error::other("its thread has panicked"));
    call.and_then(|call| call.join().unwrap_or_else(broken))
}

/// True if somebody was there, and has left.
fn is_hangup(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(error.kind(), E::UnexpectedEof | E::ConnectionReset | E::BrokenPipe)
}

//! Calls of a client to the port that its agent has opened: its direct connections.

use super::carrier::Carrier;
use super::joining::{CALLED_MIN, LANE_LEN, Opening};
use crate::LinkEvent;
use crate::control::CANCEL_POLL;
use crossbeam_channel::Receiver as Told;
use haul_model::escape_controls;
use haul_net::{ConnectError, Identity};
use haul_proto::{DirectOffer, Join, LANES_MAX, Message, encode};
use std::io;
use std::time::{Duration, Instant};

/// How long a host may take to answer a call, where the job goes on meanwhile.
const CALL_MAX: Duration = Duration::from_secs(3);

/// The same where it can't.
const REQUIRED_CALL_MAX: Duration = Duration::from_secs(10);

/// How many lanes there are at most, by the time that a call takes: one of them is held up
/// by that the more, the longer it takes to be heard.
const BY_ROUND_TRIP: [(Duration, u8); 2] =
    [(Duration::from_millis(2), 2), (Duration::from_millis(20), 4)];

/// The wish of a client for direct connections.
pub(crate) struct Direct {
    pub(super) identity: Identity,
    /// Where the agent is reached, as soon as it has told.
    pub(super) offer: Told<Result<DirectOffer, String>>,
    pub(super) is_required: bool,
}

impl<'scope, 'a: 'scope> Opening<'scope, '_, 'a> {
    /// Calls the agent, as often as there shall be lanes. `false` if it can't be reached so.
    pub(super) fn call(&self, direct: &Direct) -> bool {
        let Direct { offer, is_required, .. } = direct;
        let Some(offer) = self.until_ended(|| offer.recv_timeout(CANCEL_POLL).ok()) else {
            return true;
        };
        let is_time = || match is_required {
            // An empty file, or the end of one that is there, may have to be told.
            true => self.has_files_left(),
            false => self.left() >= CALLED_MIN,
        };
        let Some(()) = self.until_ended(|| self.wait_unless(is_time())) else { return true };
        let before = self.transferred();
        let called = offer.map_err(io::Error::other);
        let called = called.and_then(|offer| self.call_lanes(direct, &offer));
        let host = &*self.peer;
        match called {
            // The job has ended, which is no fault of the call.
            Ok(0) => {}
            Err(_) if !self.goes_on() => {}
            Ok(connections) => {
                // Where nothing has changed nothing goes over them.
                let has_sent = || self.transferred() > before;
                self.until_ended(|| self.wait_unless(has_sent()));
                if has_sent() {
                    self.tell(LinkEvent::Direct { host, connections });
                }
            }
            Err(error) if *is_required => {
                // The agent may be done without.
                self.control().linger();
                let (host, detail) = (self.peer.clone(), error.to_string());
                self.control().fail(ConnectError::NotDirect { host, detail }.into());
            }
            Err(error) => {
                let reason = &*escape_controls(&error.to_string());
                self.tell(LinkEvent::NotDirect { host, reason });
                return false;
            }
        }
        true
    }

    /// Gives how many there are.
    fn call_lanes(&self, direct: &Direct, offer: &DirectOffer) -> io::Result<u8> {
        let Direct { identity, is_required, .. } = direct;
        let patience = if *is_required { REQUIRED_CALL_MAX } else { CALL_MAX };
        let (mut lanes_max, mut joined) = (LANES_MAX, 0);
        for lane in 1..=LANES_MAX {
            let is_worth_it = lane == 1 || self.left() >= u64::from(lane - 1) * LANE_LEN;
            if lane > lanes_max || !is_worth_it || self.control().stopped() {
                break;
            }
            let begin = Instant::now();
            let joins = encode(&Message::Join(Join { lane, secret: None }));
            let goes_on = || self.goes_on();
            let stands =
                haul_net::Direct::connect(offer.address, identity, offer.key, patience, &goes_on)
                    .and_then(|direct| self.take(lane, Carrier::Direct(direct.into()), joins));
            match stands {
                Ok(()) => joined = lane,
                Err(error) if lane == 1 => return Err(error),
                // There are others.
                Err(error) => {
                    tracing::debug!(lane, %error, "no further direct connection");
                    break;
                }
            }
            let took = begin.elapsed() / 2;
            tracing::debug!(lane, ?took, "a direct connection stands");
            let by_time = BY_ROUND_TRIP.iter().find(|(max, _)| took < *max);
            lanes_max = by_time.map_or(LANES_MAX, |(_, lanes)| *lanes);
        }
        Ok(joined)
    }
}

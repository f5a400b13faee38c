//! Decides whether further logins are worthwhile when the user has not set their number: from the
//! round trip to the host and the content left to send.
//!
//! An ssh connection has at most 2 MiB in flight, so it moves at most that much per round trip.
//! Several connections move as many times that. Each costs a login: processor time on both sides,
//! and a line in the logs of both. There are no further logins
//!
//! - before the first one is accepted,
//! - if the first one asked the user for something, or took so long that it may have,
//! - if the job would end before they are connected.
//!
//! The amount that a host has to send is unknown until its agent has greeted. Before that, a few
//! logins are allowed.

use super::Opening;
use crate::assembly::roster::POLL_INTERVAL;
use crate::assembly::schedule::Schedule;
use crate::control::Control;
use haul_net::{Closer, SshProcess};
use haul_proto::LANES_MAX;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Minimum content per further lane, in bytes, if the user did not ask for lanes: a lane takes some
/// round trips to become fast.
pub(in crate::assembly) const CHOSEN_LANE_LEN: u64 = 8 << 20;

/// The most bytes in flight on an ssh connection: OpenSSH's channel window.
const WINDOW_LEN: u64 = 2 << 20;

/// Bytes per second that all connections together should reach. Faster long-distance networks are
/// rare, and so are machines that encrypt faster.
const RATE_MAX: u64 = 160_000_000;

/// The rest of the job must take at least this many logins' time over one connection.
const LOGINS_WORTH: u32 = 2;

/// Further logins while the amount to send is unknown.
const UNKNOWN_MAX: u8 = 2;

/// Duration of a whole login, as a multiple of the time until it is accepted. The session, the
/// command and the agent's greeting follow that.
const LOGIN_TIME_FACTOR: u32 = 2;

/// The longest login without a question to the user: this many round trips, plus processor time on
/// both sides. OpenSSH takes about twelve round trips.
const LOGIN_ROUND_TRIPS: u32 = 20;
const LOGIN_WORK_MAX: Duration = Duration::from_secs(2);

/// Observes the first login, and keeps the result.
#[derive(Clone)]
pub(in crate::assembly) struct Choice {
    ssh: SshProcess,
    seen: Arc<OnceLock<ObservedLogin>>,
}

/// The first login, as observed.
#[derive(Debug, Clone, Copy)]
struct ObservedLogin {
    duration: Duration,
    /// It asked the user for something.
    has_asked: bool,
    /// The shortest round trip to the host; `None` if the system does not report it.
    round_trip: Option<Duration>,
}

impl Choice {
    /// `None` if the host at the other end of `closer` is not reached by ssh.
    pub(in crate::assembly) fn new(closer: &Closer) -> Option<Self> {
        closer.ssh_process().map(|ssh| Self { ssh, seen: Arc::default() })
    }

    /// True if the first login was accepted without any question to the user.
    pub(in crate::assembly) fn is_unattended(&self) -> bool {
        self.seen.get().is_some_and(|login| !login.may_have_asked())
    }

    /// The round trip to the host, if it is known.
    pub(in crate::assembly) fn round_trip(&self) -> Option<Duration> {
        self.seen.get()?.round_trip
    }

    /// Observes the first login until it is accepted or the job ends. Must run on an unconfined
    /// thread: a confined one can't see other processes.
    pub(in crate::assembly) fn watch(self, control: &Control<'_>) {
        let begun = Instant::now();
        let mut has_asked = false;
        let duration = loop {
            if control.stopped() {
                return;
            }
            if control.monitor().progress().reached() {
                break begun.elapsed();
            }
            has_asked |= self.ssh.inspect(haul_sys::has_terminal) == Some(true);
            if self.ssh.inspect(haul_sys::has_session) == Some(true) {
                break begun.elapsed() * LOGIN_TIME_FACTOR;
            }
            std::thread::sleep(POLL_INTERVAL);
        };
        let round_trip = self.ssh.inspect(haul_sys::round_trip_of).flatten();
        // Only this thread sets it.
        let _ = self.seen.set(ObservedLogin { duration, has_asked, round_trip });
    }

    /// Chooses further logins as soon as enough is left to send, or while that is unknown. `None`
    /// if they are not worthwhile, or if the job ends first.
    pub(super) fn choose(&self, opening: &Opening<'_, '_, '_>) -> Option<Schedule> {
        let login = opening.wait_for(|| self.seen.get().copied())?;
        let count = login.extra_logins();
        tracing::debug!(?login, count, "further logins");
        let round_trip = login.round_trip.filter(|_| count > 0)?;
        let left_min = content_min(round_trip, login.duration);
        let is_time = || opening.left_if_known().is_none_or(|left| left >= left_min);
        opening.wait_for(|| is_time().then_some(()))?;
        Some(Schedule::chosen(count, count.min(UNKNOWN_MAX), left_min))
    }
}

impl ObservedLogin {
    /// The number of useful further logins.
    fn extra_logins(&self) -> u8 {
        match self.round_trip {
            Some(round_trip) if !self.may_have_asked() => count_for(round_trip),
            _ => 0,
        }
    }

    /// True if the login asked the user for something, or took so long that it may have.
    fn may_have_asked(&self) -> bool {
        let takes_long =
            |round_trip: Duration| self.duration > round_trip * LOGIN_ROUND_TRIPS + LOGIN_WORK_MAX;
        self.has_asked || self.round_trip.is_some_and(takes_long)
    }
}

/// The number of further logins that fill a network with this round trip.
fn count_for(round_trip: Duration) -> u8 {
    let at_once = round_trip.as_secs_f64() * RATE_MAX as f64 / WINDOW_LEN as f64;
    // Subtract the first login.
    (at_once.ceil() as u8).saturating_sub(1).min(LANES_MAX)
}

/// Minimum content, in bytes, for which one connection alone takes far longer than a login.
fn content_min(round_trip: Duration, login: Duration) -> u64 {
    let round_trips = (login * LOGINS_WORTH).as_secs_f64() / round_trip.as_secs_f64();
    (round_trips * WINDOW_LEN as f64).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn further_logins_grow_with_the_round_trip_and_a_near_host_gets_none() {
        let counts = [0, 1, 13, 14, 50, 90, 100, 300].map(|ms| count_for(MS(ms)));
        assert_eq!(counts, [0, 0, 0, 1, 3, 6, 7, 7]);
    }

    #[test]
    fn a_login_that_may_have_asked_the_user_stays_the_only_one() {
        let extra_logins = |round_trip, duration, has_asked| {
            let seen = ObservedLogin {
                duration: MS(duration),
                has_asked,
                round_trip: Some(MS(round_trip)),
            };
            (seen.extra_logins(), seen.may_have_asked())
        };
        assert_eq!(extra_logins(100, 3_900, false), (7, false));
        assert_eq!(extra_logins(100, 3_900, true), (0, true));
        assert_eq!(extra_logins(100, 4_100, false), (0, true));
        assert_eq!(extra_logins(20, 2_500, false), (0, true));
    }

    #[test]
    fn the_worthwhile_content_follows_from_round_trip_and_login_time() {
        assert_eq!(content_min(MS(100), MS(1_500)), 60 << 20);
        assert_eq!(content_min(MS(20), MS(500)), 100 << 20);
    }
}

//! The choice whether further logins are worth it, where nobody has said: by the round trip to
//! the host and what is left to send.
//!
//! An ssh connection has 2 MiB on their way at most, so it moves that much in a round trip;
//! several move as many times that. What they cost is a login each, of all of which the
//! processors of both sides and their administrators see something. So there are none before
//! the first is accepted, none where that has asked the user for something, or took so long that
//! it may have, and none where the rest would be over before they are connected. What a host has to
//! send nobody knows until its agent has greeted: before that there are a few.

use super::opening::{LOOK_AGAIN, Opening};
use super::schedule::Schedule;
use crate::control::Control;
use haul_net::{Closer, Onlooker};
use haul_proto::LANES_MAX;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Content that a lane is worth, in bytes, for which nobody has asked: it takes some round trips
/// until it is fast.
pub(super) const CHOSEN_LANE_LEN: u64 = 8 << 20;

/// Bytes that an ssh connection has on their way at most: OpenSSH's window of a channel.
const WINDOW_LEN: u64 = 2 << 20;

/// Bytes in a second that all connections together are to be able to move. A faster network
/// that is long is rare, and so is a cipher that is faster by more.
const RATE_MAX: u64 = 160_000_000;

/// How many times as long as a login the rest has to take at least, with one connection.
const LOGINS_WORTH: u32 = 2;

/// Logins while nobody knows how much there is to send.
const UNKNOWN_MAX: u8 = 2;

/// The time of a login, in times of that until it is accepted: the session, the command and
/// the greeting of its agent come behind that.
const OF_LETTING_IN: u32 = 2;

/// The time of a login that asks nobody for anything: so many round trips, and what the
/// processors of both sides take for it. OpenSSH has some twelve round trips.
const LOGIN_ROUND_TRIPS: u32 = 20;
const LOGIN_WORK_MAX: Duration = Duration::from_secs(2);

/// The means by which the choice is made.
#[derive(Clone)]
pub(super) struct Choice {
    ssh: Onlooker,
    seen: Arc<OnceLock<Login>>,
}

/// The first login, as it was seen.
#[derive(Debug, Clone, Copy)]
struct Login {
    takes: Duration,
    /// It has asked the user for something.
    has_asked: bool,
    /// The shortest time in which the host has answered; `None` if the system does not say.
    round_trip: Option<Duration>,
}

impl Choice {
    /// For the host at the other end of `closer`; `None` if it is not reached by ssh.
    pub(super) fn new(closer: &Closer) -> Option<Self> {
        closer.onlooker().map(|ssh| Self { ssh, seen: Arc::default() })
    }

    /// True if the first login was accepted, and has asked the user for nothing.
    pub(super) fn needs_nobody(&self) -> bool {
        self.seen.get().is_some_and(|login| !login.may_have_asked())
    }

    /// The round trip to the host, if it is known.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.seen.get()?.round_trip
    }

    /// Watches the first login until it is accepted, or the job ends. It has to do so on a thread
    /// that is not confined: such a one sees nothing of another process.
    pub(super) fn watch(self, control: &Control<'_>) {
        let begun = Instant::now();
        let mut has_asked = false;
        let takes = loop {
            if control.stopped() {
                return;
            }
            if control.monitor().progress().reached() {
                break begun.elapsed();
            }
            has_asked |= self.ssh.look(haul_sys::has_terminal) == Some(true);
            if self.ssh.look(haul_sys::has_session) == Some(true) {
                break begun.elapsed() * OF_LETTING_IN;
            }
            std::thread::sleep(LOOK_AGAIN);
        };
        let round_trip = self.ssh.look(haul_sys::round_trip_of).flatten();
        // It is the only one that says so.
        let _ = self.seen.set(Login { takes, has_asked, round_trip });
    }
}

impl<'scope, 'a: 'scope> Opening<'scope, '_, 'a> {
    /// The further logins that there shall be, as soon as there is plainly so much to send that
    /// they are worth it, or nobody knows. `None` if they are not, or the job ends before.
    pub(super) fn choose(&self, choice: &Choice) -> Option<Schedule> {
        let login = self.wait_for(|| choice.seen.get().copied())?;
        let count = login.further();
        tracing::debug!(?login, count, "further logins");
        let round_trip = login.round_trip.filter(|_| count > 0)?;
        let left_min = worth(round_trip, login.takes);
        let is_time = || self.may_be_left().is_none_or(|left| left >= left_min);
        self.wait_for(|| is_time().then_some(()))?;
        Some(Schedule::chosen(count, count.min(UNKNOWN_MAX), left_min))
    }
}

impl Login {
    /// How many others are good for something.
    fn further(&self) -> u8 {
        match self.round_trip {
            Some(round_trip) if !self.may_have_asked() => count_for(round_trip),
            _ => 0,
        }
    }

    /// True if it has asked the user for something, or took so long that it may have.
    fn may_have_asked(&self) -> bool {
        let takes_long =
            |round_trip: Duration| self.takes > round_trip * LOGIN_ROUND_TRIPS + LOGIN_WORK_MAX;
        self.has_asked || self.round_trip.is_some_and(takes_long)
    }
}

/// How many further logins fill a network that is as far away.
fn count_for(round_trip: Duration) -> u8 {
    let at_once = round_trip.as_secs_f64() * RATE_MAX as f64 / WINDOW_LEN as f64;
    // The first is one of them.
    (at_once.ceil() as u8).saturating_sub(1).min(LANES_MAX)
}

/// The content in bytes, at least, for which one connection alone takes far longer than a login
/// does.
fn worth(round_trip: Duration, login: Duration) -> u64 {
    let round_trips = (login * LOGINS_WORTH).as_secs_f64() / round_trip.as_secs_f64();
    (round_trips * WINDOW_LEN as f64).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_farther_the_host_the_more_there_are_and_none_where_it_is_near() {
        let counts = [0, 1, 13, 14, 50, 90, 100, 300].map(|ms| count_for(MS(ms)));
        assert_eq!(counts, [0, 0, 0, 1, 3, 6, 7, 7]);
    }

    #[test]
    fn a_login_that_may_have_asked_for_something_is_the_only_one() {
        let further = |round_trip, takes, has_asked| {
            let seen = Login { takes: MS(takes), has_asked, round_trip: Some(MS(round_trip)) };
            (seen.further(), seen.may_have_asked())
        };
        assert_eq!(further(100, 3_900, false), (7, false));
        assert_eq!(further(100, 3_900, true), (0, true));
        assert_eq!(further(100, 4_100, false), (0, true));
        assert_eq!(further(20, 2_500, false), (0, true));
    }

    #[test]
    fn a_rest_that_is_over_soon_is_worth_no_login() {
        assert_eq!(worth(MS(100), MS(1_500)), 60 << 20);
        assert_eq!(worth(MS(20), MS(500)), 100 << 20);
    }
}

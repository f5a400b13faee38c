//! Decides when lanes are started: how many at a time, and the consequences of failed and lost
//! lanes. It opens nothing.

use super::opening::chosen::CHOSEN_LANE_LEN;
use super::roster::{Stage, Stages};
use haul_model::os_text;
use std::io;
use std::time::{Duration, Instant};

/// Minimum content per lane, in bytes.
pub(super) const LANE_LEN: u64 = 4 << 20;

/// The most unfinished logins after a failure. A server may refuse logins while more than a few are
/// unauthenticated (`MaxStartups`).
const AT_ONCE_MAX: usize = 2;

/// The most unfinished logins before a further login has succeeded without a question. OpenSSH 9.8
/// and later block an address for a while after three logins with rejected keys
/// (`PerSourcePenalties`).
const UNPROVEN_MAX: usize = 2;

/// The pause after a failed login. It doubles with each further failure.
const PAUSE_MIN: Duration = Duration::from_millis(250);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(4);

/// The most failed logins in a row.
const FAILURES_MAX: u32 = 6;

/// A lane that is being opened.
#[derive(Clone, Copy)]
pub(super) struct Attempt {
    pub(super) lane: u8,
    begun: Instant,
    /// The first login was not connected when this attempt started.
    is_early: bool,
}

/// The first login.
#[derive(Clone, Copy)]
pub(super) struct First {
    /// It is not connected yet.
    pub(super) is_early: bool,
    /// It was accepted without any question to the user.
    pub(super) is_unattended: bool,
}

impl First {
    /// It is connected, and no login needs to ask the user.
    pub(super) const CONNECTED: Self = Self { is_early: false, is_unattended: true };
}

/// A failed attempt.
pub(super) struct Failure {
    pub(super) reason: String,
    /// A retry would fail as well.
    pub(super) is_final: bool,
    /// The first login may ask the user for what this one lacked.
    pub(super) may_be_asked: bool,
    /// The host may have seen the lane's number.
    pub(super) has_greeted: bool,
}

impl Failure {
    /// A failure by an I/O error. No further lane is started.
    pub(super) fn of_io(error: io::Error) -> Self {
        let (is_final, may_be_asked, has_greeted) = (true, false, true);
        Self { reason: os_text(&error), is_final, may_be_asked, has_greeted }
    }
}

/// The rules and the state by which lanes are started.
#[derive(Default)]
pub(super) struct Schedule {
    /// The most lanes; and the most while the remaining content is unknown.
    count: u8,
    count_unknown: u8,
    /// Minimum content per lane, in bytes.
    lane_len: u64,
    /// Minimum remaining content to start any lane, in bytes.
    left_min: u64,
    /// The number of failures in a row after which it gives up.
    failures_max: u32,
    /// Lost lanes are replaced.
    replaces: bool,
    /// The first lane that joins shows how many are useful.
    is_measured: bool,
    /// Failures in a row. Attempts that were unfinished at the same time count once.
    failures: u32,
    has_failed: bool,
    /// Lanes whose loss was noticed.
    losses: usize,
    /// Only attempts that started after this time count as further failures.
    counts_from: Option<Instant>,
    /// No lane is started before this time.
    pause_until: Option<Instant>,
    /// Why no further lane is started.
    pub(super) given_up: Option<String>,
}

impl Schedule {
    /// Up to `count` logins that the user asked for.
    pub(super) fn wanted(count: u8) -> Self {
        Self::new(count, LANE_LEN, FAILURES_MAX)
    }

    /// Logins that haul has chosen: up to `count` if at least `left_min` bytes are left, and up to
    /// `count_unknown` while that is unknown. Nobody asked for them, so the first failure is final.
    pub(super) fn chosen(count: u8, count_unknown: u8, left_min: u64) -> Self {
        Self { count_unknown, left_min, ..Self::new(count, CHOSEN_LANE_LEN, 1) }
    }

    /// `count` calls. Without a count, one call measures how many others are useful. The user is
    /// told when all lanes are lost, so a lost lane is not replaced silently.
    pub(super) fn of_calls(count: Option<u8>, lane_len: u64) -> Self {
        let first = Self::new(count.unwrap_or(1), lane_len, 1);
        Self { replaces: false, is_measured: count.is_none(), ..first }
    }

    /// No lanes, for this reason.
    pub(super) fn without(reason: String) -> Self {
        Self { given_up: Some(reason), ..Self::new(0, LANE_LEN, 0) }
    }

    fn new(count: u8, lane_len: u64, failures_max: u32) -> Self {
        let (count_unknown, replaces) = (count, true);
        Self { count, count_unknown, lane_len, failures_max, replaces, ..Self::default() }
    }

    /// The next lane to start now. `left` is the remaining content in bytes, if known; `first` is
    /// the state of the first login.
    pub(super) fn next(
        &mut self,
        stages: &mut Stages,
        left: Option<u64>,
        first: First,
    ) -> Option<Attempt> {
        self.notice_losses(stages.count(Stage::Lost));
        let First { is_early, is_unattended } = first;
        let wanted = match left {
            None => self.count_unknown.into(),
            Some(left) if left < self.left_min => 0,
            Some(left) => left.div_ceil(self.lane_len).min(self.count.into()) as usize,
        };
        let at_once = match (self.has_failed, is_early) {
            (false, _) => wanted,
            (true, false) => AT_ONCE_MAX,
            (true, true) => 0,
        };
        let is_proven = is_unattended || stages.count(Stage::Joined) > 0 || self.losses > 0;
        let at_once = if is_proven { at_once } else { at_once.min(UNPROVEN_MAX) };
        let connecting = stages.count(Stage::Connecting);
        let is_time = self.given_up.is_none()
            && connecting < at_once
            && self.joined_count(stages) + connecting < wanted
            && self.pause_until.is_none_or(|until| Instant::now() >= until);
        let lane = if is_time { stages.begin() } else { None }?;
        Some(Attempt { lane, begun: Instant::now(), is_early })
    }

    /// Sets a pause before lost lanes are replaced.
    fn notice_losses(&mut self, losses: usize) {
        if self.replaces && losses > self.losses {
            self.has_failed = true;
            self.pause_until = Some(Instant::now() + self.pause());
            self.losses = losses;
        }
    }

    /// Lanes that have joined, without those that will be replaced.
    fn joined_count(&self, stages: &Stages) -> usize {
        let lost = if self.replaces { 0 } else { stages.count(Stage::Lost) };
        stages.count(Stage::Joined) + lost
    }

    /// True if no lane is being opened, and none will be before one is lost.
    pub(super) fn is_over(&self, stages: &Stages) -> bool {
        let is_all =
            self.joined_count(stages) >= self.count.into() || stages.count(Stage::Free) == 0;
        stages.count(Stage::Connecting) == 0 && (is_all || self.given_up.is_some())
    }

    /// The pause after failures and losses.
    fn pause(&self) -> Duration {
        let doublings = (self.failures as usize + self.losses).min(16);
        PAUSE_MIN.saturating_mul(1 << doublings).min(PAUSE_MAX)
    }

    /// A lane has joined. It shows that `count` lanes are useful.
    pub(super) fn join(&mut self, count: u8) {
        self.failures = 0;
        if std::mem::take(&mut self.is_measured) {
            (self.count, self.count_unknown) = (count, count);
        }
    }

    /// An attempt has failed.
    pub(super) fn fail(&mut self, stages: &mut Stages, attempt: Attempt, failure: Failure) {
        let Attempt { lane, begun, is_early } = attempt;
        let Failure { reason, is_final, may_be_asked, has_greeted } = failure;
        tracing::debug!(lane, %reason, "another connection failed");
        self.has_failed = true;
        stages.put(lane, if has_greeted { Stage::Spent } else { Stage::Free });
        if self.counts_from.is_none_or(|from| begun >= from) {
            let now = Instant::now();
            (self.counts_from, self.pause_until) = (Some(now), Some(now + self.pause()));
            self.failures += 1;
        }
        let is_final = is_final && !(is_early && may_be_asked);
        if is_final || self.failures >= self.failures_max {
            self.given_up = Some(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUCH: Option<u64> = Some(u64::MAX);

    /// A schedule, and the stages of its lanes.
    struct Lanes {
        schedule: Schedule,
        stages: Stages,
    }

    impl Lanes {
        fn of(schedule: Schedule) -> Self {
            Self { schedule, stages: Stages::default() }
        }

        /// The lanes that are started now, after a first login without a question to the user.
        fn begun(&mut self, left: Option<u64>, is_early: bool) -> Vec<Attempt> {
            self.begun_with(left, First { is_early, is_unattended: true })
        }

        fn begun_with(&mut self, left: Option<u64>, first: First) -> Vec<Attempt> {
            let next = || self.schedule.next(&mut self.stages, left, first);
            std::iter::from_fn(next).collect()
        }

        fn join(&mut self, lane: u8) {
            self.stages.put(lane, Stage::Joined);
            self.schedule.join(0);
        }

        fn fail(&mut self, attempt: Attempt, failure: Failure) {
            self.schedule.fail(&mut self.stages, attempt, failure);
        }

        fn is_over(&self) -> bool {
            self.schedule.is_over(&self.stages)
        }
    }

    fn failure(is_final: bool, may_be_asked: bool) -> Failure {
        Failure { reason: "no".to_owned(), is_final, may_be_asked, has_greeted: false }
    }

    fn numbers(attempts: &[Attempt]) -> Vec<u8> {
        attempts.iter().map(|attempt| attempt.lane).collect()
    }

    #[test]
    fn as_many_lanes_start_at_once_as_are_wanted_and_worthwhile() {
        let mut lanes = Lanes::of(Schedule::wanted(3));
        assert_eq!(numbers(&lanes.begun(MUCH, true)), [1, 2, 3]);
        let mut lanes = Lanes::of(Schedule::wanted(3));
        assert_eq!(numbers(&lanes.begun(Some(LANE_LEN + 1), false)), [1, 2]);
        lanes.join(1);
        assert_eq!(numbers(&lanes.begun(MUCH, false)), [3]);
        assert!(lanes.begun(MUCH, false).is_empty());
        lanes.join(2);
        lanes.join(3);
        assert!(lanes.is_over());
    }

    #[test]
    fn at_most_two_logins_start_before_one_is_accepted() {
        for is_early in [true, false] {
            let first = First { is_early, is_unattended: false };
            let mut lanes = Lanes::of(Schedule::wanted(7));
            assert_eq!(numbers(&lanes.begun_with(MUCH, first)), [1, 2]);
            let mut refused = Lanes::of(Schedule::wanted(7));
            for attempt in refused.begun_with(MUCH, first) {
                refused.fail(attempt, failure(true, false));
            }
            assert!(refused.is_over(), "no others are refused");
            lanes.join(1);
            assert_eq!(numbers(&lanes.begun_with(MUCH, first)), [3, 4, 5, 6, 7]);
        }
    }

    #[test]
    fn simultaneous_failures_count_once_and_then_fewer_start_at_once() {
        let mut lanes = Lanes::of(Schedule::wanted(7));
        let attempts = lanes.begun(MUCH, true);
        assert_eq!(attempts.len(), 7);
        for attempt in attempts {
            lanes.fail(attempt, failure(false, false));
        }
        assert_eq!((lanes.schedule.failures, lanes.stages.count(Stage::Connecting)), (1, 0));
        assert!(!lanes.is_over());
        std::thread::sleep(PAUSE_MIN);
        assert!(lanes.begun(MUCH, true).is_empty(), "the first does not stand");
        assert_eq!(lanes.begun(MUCH, false).len(), AT_ONCE_MAX);
    }

    #[test]
    fn a_lost_lane_is_replaced_after_a_growing_pause() {
        let mut lanes = Lanes::of(Schedule::wanted(3));
        assert_eq!(lanes.begun(MUCH, false).len(), 3);
        (1..=3).for_each(|lane| lanes.join(lane));
        for (lost, pause) in [(1, PAUSE_MIN), (2, PAUSE_MIN * 2), (3, PAUSE_MIN * 4)] {
            assert!(lanes.is_over());
            let before = Instant::now();
            lanes.stages.put(lost, Stage::Lost);
            assert!(lanes.begun(MUCH, false).is_empty(), "not at once");
            assert!(lanes.schedule.pause_until >= Some(before + pause) && !lanes.is_over());
            lanes.schedule.pause_until = None;
            assert_eq!(numbers(&lanes.begun(MUCH, false)), [lost + 3]);
            lanes.join(lost + 3);
        }
        // One number is left.
        lanes.stages.put(4, Stage::Lost);
        lanes.stages.put(5, Stage::Lost);
        assert!(lanes.begun(MUCH, false).is_empty());
        lanes.schedule.pause_until = None;
        assert_eq!(numbers(&lanes.begun(MUCH, false)), [7]);
        lanes.join(7);
        assert!(lanes.is_over());
    }

    #[test]
    fn a_lost_call_is_not_replaced_and_the_first_call_sets_the_count() {
        let mut lanes = Lanes::of(Schedule::of_calls(None, LANE_LEN));
        assert_eq!(numbers(&lanes.begun(MUCH, false)), [1]);
        lanes.stages.put(1, Stage::Joined);
        assert!(lanes.is_over());
        lanes.schedule.join(3);
        assert_eq!(numbers(&lanes.begun(Some(2 * LANE_LEN), false)), [2]);
        assert_eq!(numbers(&lanes.begun(MUCH, false)), [3]);
        (2..=3).for_each(|lane| lanes.join(lane));
        lanes.stages.put(2, Stage::Lost);
        assert!(lanes.is_over() && lanes.begun(MUCH, false).is_empty());
    }

    #[test]
    fn an_unknown_host_key_is_final_only_after_the_first_login() {
        for (is_early, may_be_asked, is_over) in
            [(true, true, false), (true, false, true), (false, true, true)]
        {
            let mut lanes = Lanes::of(Schedule::wanted(1));
            let attempt = lanes.begun(MUCH, is_early)[0];
            lanes.fail(attempt, failure(true, may_be_asked));
            assert_eq!(lanes.is_over(), is_over);
        }
    }

    #[test]
    fn the_first_refused_chosen_login_is_the_last() {
        let mut lanes = Lanes::of(Schedule::chosen(7, 2, 0));
        let attempts = lanes.begun(Some(CHOSEN_LANE_LEN * 3), false);
        assert_eq!(attempts.len(), 3, "they are not worth it for less");
        lanes.fail(attempts[0], failure(false, false));
        assert!(lanes.begun(MUCH, false).is_empty());
        lanes.join(2);
        assert!(!lanes.is_over(), "one is on its way");
        lanes.join(3);
        assert!(lanes.is_over());
    }

    #[test]
    fn few_chosen_logins_start_while_the_remaining_content_is_unknown() {
        const LEFT_MIN: u64 = CHOSEN_LANE_LEN * 10;
        let mut lanes = Lanes::of(Schedule::chosen(7, 2, LEFT_MIN));
        assert_eq!(lanes.begun(None, true).len(), 2);
        assert!(lanes.begun(Some(LEFT_MIN - 1), false).is_empty());
        assert_eq!(lanes.begun(Some(LEFT_MIN), false).len(), 5);
        assert_eq!(Lanes::of(Schedule::wanted(7)).begun(None, true).len(), 7);
    }
}

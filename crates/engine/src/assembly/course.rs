//! How far the further logins of a job are: how many are begun at a time, and what becomes of
//! those that fail or are lost.

use super::chosen::CHOSEN_LANE_LEN;
use super::joining::LANE_LEN;
use haul_proto::LANES_MAX;
use std::time::{Duration, Instant};

/// Logins that are made at the same time when one has failed: a server that is asked for more
/// before these are known may refuse them (`MaxStartups`).
const AT_ONCE_MAX: usize = 2;

/// Logins on their way as long as none beside the first is known to be let in without a
/// question: OpenSSH 9.8 and later refuse an address for a while after three that have failed
/// with keys that are not taken (`PerSourcePenalties`).
const UNPROVEN_MAX: usize = 2;

/// The pause after a login that failed; after each further one it is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(250);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(4);

/// Logins in a row that may fail.
const FAILURES_MAX: u32 = 6;

/// A login on its way.
#[derive(Clone, Copy)]
pub(super) struct Attempt {
    pub(super) lane: u8,
    begun: Instant,
    /// The first login did not stand when it was begun.
    is_early: bool,
}

/// The first login.
#[derive(Clone, Copy)]
pub(super) struct First {
    /// It does not stand yet.
    pub(super) is_early: bool,
    /// It is let in, and has asked the user for nothing.
    pub(super) needs_nobody: bool,
}

/// A login that came to nothing.
pub(super) struct Failure {
    pub(super) reason: String,
    /// Another one would fail as well.
    pub(super) is_final: bool,
    /// The user may be asked on the first login for what it lacked.
    pub(super) may_be_asked: bool,
    /// The host may have taken the lane's number.
    pub(super) has_greeted: bool,
}

/// How far the logins are.
pub(super) struct Course {
    /// How many there shall be, at most; and while nobody knows how much is left.
    count: u8,
    count_unknown: u8,
    /// Content that each is worth, in bytes.
    lane_len: u64,
    /// The content that has to be left for any to be begun, in bytes.
    left_min: u64,
    /// Failures in a row that are one too many.
    failures_max: u32,
    /// Numbers that no lane has had.
    free: Vec<u8>,
    on_their_way: usize,
    pub(super) joined: u8,
    /// Failures in a row; of logins that are on their way at the same time the first counts.
    failures: u32,
    has_failed: bool,
    /// Those that had joined and were lost.
    losses: u32,
    /// The time from which on a login was begun whose failure counts.
    counts_from: Instant,
    /// No login is begun before.
    pause_until: Instant,
    /// Why no further one is made.
    pub(super) given_up: Option<String>,
}

impl Course {
    /// As many as the user wants.
    pub(super) fn wanted(count: u8) -> Self {
        Self::new([count, count], [LANE_LEN, 0], FAILURES_MAX)
    }

    /// As many as haul has chosen, where so much is left, and while nobody knows: nobody has
    /// asked for them, so the first that is refused is the last.
    pub(super) fn chosen(count: u8, count_unknown: u8, left_min: u64) -> Self {
        Self::new([count, count_unknown], [CHOSEN_LANE_LEN, left_min], 1)
    }

    fn new(
        [count, count_unknown]: [u8; 2],
        [lane_len, left_min]: [u64; 2],
        failures_max: u32,
    ) -> Self {
        Self {
            count,
            count_unknown,
            lane_len,
            left_min,
            failures_max,
            free: (1..=LANES_MAX).rev().collect(),
            on_their_way: 0,
            joined: 0,
            failures: 0,
            has_failed: false,
            losses: 0,
            counts_from: Instant::now(),
            pause_until: Instant::now(),
            given_up: None,
        }
    }

    /// A login that is to be begun now, where so many bytes are `left` as far as anybody knows,
    /// and the `first` login is so far.
    pub(super) fn next(&mut self, left: Option<u64>, first: First) -> Option<Attempt> {
        let First { is_early, needs_nobody } = first;
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
        let is_proven = needs_nobody || self.joined > 0 || self.losses > 0;
        let at_once = if is_proven { at_once } else { at_once.min(UNPROVEN_MAX) };
        let is_time = self.given_up.is_none()
            && self.on_their_way < at_once
            && usize::from(self.joined) + self.on_their_way < wanted
            && Instant::now() >= self.pause_until;
        let lane = if is_time { self.free.pop() } else { None }?;
        self.on_their_way += 1;
        Some(Attempt { lane, begun: Instant::now(), is_early })
    }

    pub(super) fn is_over(&self) -> bool {
        let is_all = self.joined >= self.count || self.free.is_empty();
        self.on_their_way == 0 && (is_all || self.given_up.is_some())
    }

    /// True if another login is made when one that has joined is lost.
    pub(super) fn makes_again(&self) -> bool {
        self.given_up.is_none() && !self.free.is_empty()
    }

    /// So many that had joined were lost: there is a pause before others take their place.
    pub(super) fn lose(&mut self, lost: u8) {
        tracing::debug!(lost, "other logins were lost");
        self.joined = self.joined.saturating_sub(lost);
        self.has_failed = true;
        self.pause_until = Instant::now() + self.pause();
        self.losses += u32::from(lost);
    }

    fn pause(&self) -> Duration {
        PAUSE_MIN.saturating_mul(1 << (self.failures + self.losses).min(16)).min(PAUSE_MAX)
    }

    pub(super) fn join(&mut self) {
        self.on_their_way -= 1;
        self.joined += 1;
        self.failures = 0;
    }

    pub(super) fn fail(&mut self, attempt: Attempt, failure: Failure) {
        let Attempt { lane, begun, is_early } = attempt;
        let Failure { reason, is_final, may_be_asked, has_greeted } = failure;
        tracing::debug!(lane, %reason, "another login failed");
        self.on_their_way -= 1;
        self.has_failed = true;
        if !has_greeted {
            self.free.push(lane);
        }
        if begun >= self.counts_from {
            self.counts_from = Instant::now();
            self.pause_until = self.counts_from + self.pause();
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

    fn failure(is_final: bool, may_be_asked: bool) -> Failure {
        Failure { reason: "no".to_owned(), is_final, may_be_asked, has_greeted: false }
    }

    /// The logins that are begun now, where the first is let in without a question.
    fn begun(course: &mut Course, left: Option<u64>, is_early: bool) -> Vec<Attempt> {
        let first = First { is_early, needs_nobody: true };
        std::iter::from_fn(|| course.next(left, first)).collect()
    }

    fn lanes(attempts: &[Attempt]) -> Vec<u8> {
        attempts.iter().map(|attempt| attempt.lane).collect()
    }

    #[test]
    fn as_many_are_begun_at_once_as_are_wanted_and_worth_it() {
        let mut course = Course::wanted(3);
        assert_eq!(lanes(&begun(&mut course, MUCH, true)), [1, 2, 3]);
        let mut course = Course::wanted(3);
        assert_eq!(lanes(&begun(&mut course, Some(LANE_LEN + 1), false)), [1, 2]);
        course.join();
        assert_eq!(lanes(&begun(&mut course, MUCH, false)), [3]);
        assert!(begun(&mut course, MUCH, false).is_empty());
        course.join();
        course.join();
        assert!(course.is_over());
    }

    #[test]
    fn as_long_as_none_is_known_to_be_let_in_there_are_two() {
        for is_early in [true, false] {
            let mut course = Course::wanted(7);
            let first = First { is_early, needs_nobody: false };
            let next = |course: &mut Course| {
                std::iter::from_fn(|| course.next(MUCH, first)).collect::<Vec<_>>()
            };
            assert_eq!(lanes(&next(&mut course)), [1, 2]);
            let mut refused = Course::wanted(7);
            for attempt in next(&mut refused) {
                refused.fail(attempt, Failure { is_final: true, ..failure(false, false) });
            }
            assert!(refused.is_over(), "no others are refused");
            course.join();
            assert_eq!(lanes(&next(&mut course)), [3, 4, 5, 6, 7]);
        }
    }

    #[test]
    fn those_that_fail_together_are_one_failure_and_then_there_are_fewer_at_once() {
        let mut course = Course::wanted(7);
        let attempts = begun(&mut course, MUCH, true);
        assert_eq!(attempts.len(), 7);
        for attempt in attempts {
            course.fail(attempt, failure(false, false));
        }
        assert_eq!((course.failures, course.on_their_way), (1, 0));
        assert!(!course.is_over());
        std::thread::sleep(PAUSE_MIN);
        assert!(begun(&mut course, MUCH, true).is_empty(), "the first does not stand");
        assert_eq!(begun(&mut course, MUCH, false).len(), AT_ONCE_MAX);
    }

    #[test]
    fn another_takes_the_place_of_one_that_is_lost_after_a_pause_that_grows() {
        let mut course = Course::wanted(3);
        assert_eq!(begun(&mut course, MUCH, false).len(), 3);
        (0..3).for_each(|_| course.join());
        for (nth, pause) in [PAUSE_MIN, PAUSE_MIN * 2, PAUSE_MIN * 4].into_iter().enumerate() {
            assert!(course.is_over() && course.makes_again());
            let before = Instant::now();
            course.lose(1);
            assert!(course.pause_until >= before + pause && !course.is_over());
            assert!(begun(&mut course, MUCH, false).is_empty(), "not at once");
            course.pause_until = Instant::now();
            assert_eq!(lanes(&begun(&mut course, MUCH, false)), [nth as u8 + 4]);
            course.join();
        }
        // One number is left.
        course.lose(2);
        course.pause_until = Instant::now();
        assert_eq!(lanes(&begun(&mut course, MUCH, false)), [7]);
        course.join();
        assert!(course.is_over() && !course.makes_again());
    }

    #[test]
    fn a_key_that_the_user_is_asked_about_may_be_known_when_the_first_stands() {
        for (is_early, may_be_asked, is_over) in
            [(true, true, false), (true, false, true), (false, true, true)]
        {
            let mut course = Course::wanted(1);
            let attempt = begun(&mut course, MUCH, is_early)[0];
            course.fail(attempt, failure(true, may_be_asked));
            assert_eq!(course.is_over(), is_over);
        }
    }

    #[test]
    fn of_those_that_nobody_has_asked_for_the_first_that_is_refused_is_the_last() {
        let mut course = Course::chosen(7, 2, 0);
        let attempts = begun(&mut course, Some(CHOSEN_LANE_LEN * 3), false);
        assert_eq!(attempts.len(), 3, "they are not worth it for less");
        course.fail(attempts[0], failure(false, false));
        assert!(begun(&mut course, MUCH, false).is_empty());
        course.join();
        assert!(!course.is_over(), "one is on its way");
        course.join();
        assert!(course.is_over());
    }

    #[test]
    fn while_nobody_knows_how_much_is_left_there_are_few_unless_the_user_wants_more() {
        const LEFT_MIN: u64 = CHOSEN_LANE_LEN * 10;
        let mut course = Course::chosen(7, 2, LEFT_MIN);
        assert_eq!(begun(&mut course, None, true).len(), 2);
        assert!(begun(&mut course, Some(LEFT_MIN - 1), false).is_empty());
        assert_eq!(begun(&mut course, Some(LEFT_MIN), false).len(), 5);
        assert_eq!(begun(&mut Course::wanted(7), None, true).len(), 7);
    }
}

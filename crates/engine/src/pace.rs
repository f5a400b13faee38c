//! A bound on the bytes that a job moves in a second, kept in small steps.
//!
//! Threads that move something take turns, a step each. Every other turn goes to the one
//! whose content was begun first: so it is whole before long, however many there are, and
//! what is on record when the job breaks off grows from its beginning. The turns between go
//! to the one that has waited longest, so nobody is left out.
//!
//! On one machine contents go one after the other, in the order of the listing: more at once
//! would only mean more that is partial when the job breaks off.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// Steps of one second: after each there is a pause.
const STEPS_PER_SECOND: u64 = 20;

/// Parts of one second in which content is moved on one machine.
const PARTS_PER_SECOND: u64 = 8;

/// The shortest and the longest step, in bytes. Shorter ones would cost more than they
/// smooth; longer ones would let others wait for so long that they seem to be gone.
const STEP_LEN: (u64, u64) = (256, 128 << 10);

/// The time of rest that counts, at most: a pause is not followed by a flood.
const CREDIT_MAX: Duration = Duration::from_millis(100);

/// How long somebody sleeps who must see that the job ends.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// The pace of one job, for all of its threads.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: NonZeroU64,
    turns: Mutex<Turns>,
    /// Somebody has had a turn, or has left.
    changed: Condvar,
    /// The numbers of the files at work that go one after the other.
    in_order: Mutex<BTreeSet<u64>>,
    /// One of them is no longer at work.
    one_ended: Condvar,
}

/// The right to move the content of a file while later ones wait, until it is dropped.
#[derive(Debug)]
pub(crate) struct Precedence<'p> {
    pace: &'p Pace,
    number: u64,
}

impl Drop for Precedence<'_> {
    fn drop(&mut self) {
        self.pace.in_order.lock().remove(&self.number);
        self.pace.one_ended.notify_all();
    }
}

#[derive(Debug)]
struct Turns {
    /// The moment up to which all that was moved is paid for.
    paid: Instant,
    /// Those that wait for their turn, in the order in which they came: each with the rank
    /// of its content and a number of its own.
    waiting: Vec<(u64, u64)>,
    /// The number of who comes next.
    next: u64,
    /// The next turn is by rank.
    is_by_rank: bool,
}

impl Turns {
    /// The number of the one whose turn is next.
    fn first(&self) -> Option<u64> {
        let first = match self.is_by_rank {
            true => self.waiting.iter().min(),
            false => self.waiting.first(),
        };
        first.map(|(_, number)| *number)
    }

    fn come(&mut self, rank: u64) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting.push((rank, number));
        number
    }

    fn leave(&mut self, number: u64) {
        self.waiting.retain(|(_, other)| *other != number);
    }
}

impl Pace {
    /// One of `rate` bytes in a second.
    pub(crate) fn of(rate: NonZeroU64) -> Self {
        let turns = Turns { paid: Instant::now(), waiting: Vec::new(), next: 0, is_by_rank: true };
        let (in_order, one_ended) = (Mutex::default(), Condvar::new());
        Self { rate, turns: Mutex::new(turns), changed: Condvar::new(), in_order, one_ended }
    }

    /// Waits until no file with a lower number is at work, while it `goes_on`.
    pub(crate) fn precedence(&self, number: u64, goes_on: impl Fn() -> bool) -> Precedence<'_> {
        let precedence = Precedence { pace: self, number };
        let mut in_order = self.in_order.lock();
        in_order.insert(number);
        while in_order.first() != Some(&number) && goes_on() {
            self.one_ended.wait_for(&mut in_order, SLEEP_MAX);
        }
        drop(in_order);
        precedence
    }

    /// The most bytes that are to be moved at once.
    pub(crate) fn step(&self) -> usize {
        let (min, max) = STEP_LEN;
        (self.rate.get() / STEPS_PER_SECOND).clamp(min, max) as usize
    }

    /// The most bytes that are to be moved at once on one machine, where each part is told
    /// as progress.
    pub(crate) fn part(&self) -> u64 {
        (self.rate.get() / PARTS_PER_SECOND).max(STEP_LEN.1)
    }

    /// Waits until `len` bytes that were moved are within the bound, while it `goes_on`. They
    /// are of a content of that rank: a lower one was begun earlier.
    pub(crate) fn wait(&self, len: u64, rank: u64, goes_on: impl Fn() -> bool) {
        let Some(until) = self.take_turn(len, rank, &goes_on) else { return };
        while goes_on() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(SLEEP_MAX));
        }
    }

    /// Waits for a turn, and takes the time for `len` bytes. Gives its end, or nothing where
    /// it does not go on.
    fn take_turn(&self, len: u64, rank: u64, goes_on: impl Fn() -> bool) -> Option<Instant> {
        let mut turns = self.turns.lock();
        let number = turns.come(rank);
        while goes_on() {
            let now = Instant::now();
            let busy = turns.paid.saturating_duration_since(now);
            if busy.is_zero() && turns.first() == Some(number) {
                turns.is_by_rank = !turns.is_by_rank;
                let until = self.pay(&mut turns, len, now);
                self.end_turn(turns, number);
                return Some(until);
            }
            let patience = if busy.is_zero() { SLEEP_MAX } else { busy.min(SLEEP_MAX) };
            self.changed.wait_for(&mut turns, patience);
        }
        self.end_turn(turns, number);
        None
    }

    fn end_turn(&self, mut turns: MutexGuard<'_, Turns>, number: u64) {
        turns.leave(number);
        drop(turns);
        self.changed.notify_all();
    }

    /// Takes the time that `len` bytes need, and gives its end.
    fn pay(&self, turns: &mut Turns, len: u64, now: Instant) -> Instant {
        let nanos = u128::from(len) * 1_000_000_000 / u128::from(self.rate.get());
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let begin = turns.paid.max(now.checked_sub(CREDIT_MAX).unwrap_or(now));
        // What is too long to be told is waited for in parts.
        turns.paid = begin.checked_add(takes).unwrap_or(begin);
        turns.paid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(rate: u64) -> Pace {
        Pace::of(NonZeroU64::new(rate).expect("more than none"))
    }

    #[test]
    fn bytes_take_the_time_that_they_need() {
        let pace = pace(1000);
        let mut turns = pace.turns.lock();
        let now = turns.paid;
        assert_eq!(pace.pay(&mut turns, 500, now), now + Duration::from_millis(500));
        assert_eq!(pace.pay(&mut turns, 500, now), now + Duration::from_millis(1000));
        // Much later no more than a moment is in credit.
        let later = now + Duration::from_secs(100);
        let until = pace.pay(&mut turns, 500, later);
        assert_eq!(until, later + Duration::from_millis(500) - CREDIT_MAX);
    }

    #[test]
    fn who_waits_sees_the_end_of_the_job() {
        let pace = pace(1);
        let begin = Instant::now();
        let asked = std::cell::Cell::new(0);
        let goes_on = || asked.replace(asked.get() + 1) < 2;
        pace.wait(1000, 0, goes_on);
        // Nor does another wait for one that has left.
        pace.wait(1000, 0, || false);
        assert!(pace.turns.lock().waiting.is_empty());
        assert!(begin.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn every_other_turn_is_for_what_was_begun_first_and_nobody_is_left_out() {
        let pace = pace(1000);
        let mut turns = pace.turns.lock();
        for rank in [3, 1, 0, 2] {
            turns.come(rank);
        }
        let mut had = Vec::new();
        for _ in 0..12 {
            let number = turns.first().expect("all wait");
            let (rank, _) = *turns.waiting.iter().find(|it| it.1 == number).expect("it is there");
            turns.is_by_rank = !turns.is_by_rank;
            turns.leave(number);
            turns.come(rank);
            had.push(rank);
        }
        assert_eq!(had, [0, 3, 0, 1, 0, 2, 0, 3, 0, 1, 0, 2]);
    }

    #[test]
    fn several_threads_together_keep_the_rate_and_the_first_is_soonest_done() {
        const STEPS: u64 = 20;
        let pace = pace(1 << 20);
        let begin = Instant::now();
        let took = std::thread::scope(|scope| {
            let run = |rank| {
                let pace = &pace;
                scope.spawn(move || {
                    (0..STEPS).for_each(|_| pace.wait(4 << 10, rank, || true));
                    begin.elapsed()
                })
            };
            let threads = [0, 1, 2, 3, 4].map(run);
            threads.map(|thread| thread.join().expect("no panic"))
        });
        // 400 KiB at 1 MiB a second, but for what is in credit.
        let all = *took.iter().max().expect("there are some");
        assert!(all >= Duration::from_millis(390) - CREDIT_MAX, "{took:?}");
        assert_eq!(took.iter().min(), Some(&took[0]), "{took:?}");
    }

    #[test]
    fn a_later_file_waits_for_an_earlier_one_until_the_job_ends() {
        let pace = pace(1000);
        let first = pace.precedence(1, || true);
        // The job has ended.
        drop(pace.precedence(2, || false));
        let has_ended = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let later = scope.spawn(|| {
                let _later = pace.precedence(3, || true);
                has_ended.load(std::sync::atomic::Ordering::SeqCst)
            });
            while pace.in_order.lock().len() < 2 {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(20));
            has_ended.store(true, std::sync::atomic::Ordering::SeqCst);
            drop(first);
            assert!(later.join().expect("no panic"), "it did not wait");
        });
        assert!(pace.in_order.lock().is_empty());
    }

    #[test]
    fn steps_are_parts_of_a_second() {
        assert_eq!(pace(1).step(), 256);
        assert_eq!(pace(1 << 20).step(), (1 << 20) / 20);
        assert_eq!(pace(u64::MAX).step(), 128 << 10);
        assert_eq!(pace(4 << 20).part(), 512 << 10);
        assert_eq!(pace(1).part(), 128 << 10);
    }
}

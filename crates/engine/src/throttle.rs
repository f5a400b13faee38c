//! Limits the bytes per second of a job, in small steps.
//!
//! Threads take turns, one step each. Every second turn belongs to the content that was started
//! first. So it soon completes, and the part that is recorded when the job breaks off grows from
//! the beginning. The other turns belong to the thread that has waited longest, so every thread
//! makes progress.
//!
//! On one machine, contents are copied one after the other in the order of the listing. Copying
//! more at once would only leave more partial files when the job breaks off.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// Steps per second. A pause follows each step.
const STEPS_PER_SECOND: u64 = 20;

/// Parts per second in which content is copied on one machine, or sent.
const PARTS_PER_SECOND: u64 = 8;

/// The shortest and the longest step, in bytes. Shorter steps cost more than they smooth. Longer
/// steps make other threads wait so long that they seem dead.
const STEP_LEN: (u64, u64) = (256, 128 << 10);

/// The most idle time that is credited, so that no burst follows a pause.
const CREDIT_MAX: Duration = Duration::from_millis(100);

/// The longest sleep of a thread that must notice the end of the job.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// The rate limit of one job, shared by its threads.
#[derive(Debug)]
pub(crate) struct Throttle {
    rate: NonZeroU64,
    turns: Mutex<TurnQueue>,
    /// Notified when a thread had its turn, or left.
    changed: Condvar,
    /// The numbers of the files in progress that are copied in order.
    in_order: Mutex<BTreeSet<u64>>,
    /// Notified when one of them has ended.
    file_ended: Condvar,
}

/// The right to copy a file while later ones wait, until it is dropped.
#[derive(Debug)]
pub(crate) struct Precedence<'p> {
    throttle: &'p Throttle,
    number: u64,
}

impl Drop for Precedence<'_> {
    fn drop(&mut self) {
        self.throttle.in_order.lock().remove(&self.number);
        self.throttle.file_ended.notify_all();
    }
}

#[derive(Debug)]
struct TurnQueue {
    /// The time at which all bytes so far are within the limit.
    reserved_until: Instant,
    /// The waiting threads in order of arrival: the rank of the content, and a number.
    waiting: Vec<(u64, u64)>,
    /// The number of the next thread.
    next: u64,
    /// The next turn is given by rank.
    is_by_rank: bool,
}

impl TurnQueue {
    /// The number of the thread whose turn is next.
    fn first(&self) -> Option<u64> {
        let first = if self.is_by_rank { self.waiting.iter().min() } else { self.waiting.first() };
        first.map(|(_, number)| *number)
    }

    fn enqueue(&mut self, rank: u64) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting.push((rank, number));
        number
    }

    fn leave(&mut self, number: u64) {
        self.waiting.retain(|(_, other)| *other != number);
    }
}

impl Throttle {
    /// A limit of `rate` bytes per second.
    pub(crate) fn of(rate: NonZeroU64) -> Self {
        let reserved_until = Instant::now();
        let turns = TurnQueue { reserved_until, waiting: Vec::new(), next: 0, is_by_rank: true };
        let (in_order, file_ended) = (Mutex::default(), Condvar::new());
        Self { rate, turns: Mutex::new(turns), changed: Condvar::new(), in_order, file_ended }
    }

    /// Waits until no file with a lower number is in progress, while it `is_running`.
    pub(crate) fn precedence(&self, number: u64, is_running: impl Fn() -> bool) -> Precedence<'_> {
        let precedence = Precedence { throttle: self, number };
        let mut in_order = self.in_order.lock();
        in_order.insert(number);
        while in_order.first() != Some(&number) && is_running() {
            self.file_ended.wait_for(&mut in_order, SLEEP_MAX);
        }
        drop(in_order);
        precedence
    }

    /// The most bytes to transfer at once.
    pub(crate) fn step(&self) -> usize {
        let (min, max) = STEP_LEN;
        (self.rate.get() / STEPS_PER_SECOND).clamp(min, max) as usize
    }

    /// The most bytes of a file to copy at once on one machine, where each part is reported as
    /// progress, or to send in one frame.
    pub(crate) fn part(&self) -> u64 {
        (self.rate.get() / PARTS_PER_SECOND).max(STEP_LEN.1)
    }

    /// Waits until `len` transferred bytes are within the limit, while it `is_running`. Contents
    /// with lower ranks were started earlier.
    pub(crate) fn wait(&self, len: u64, rank: u64, is_running: impl Fn() -> bool) {
        let Some(until) = self.take_turn(len, rank, &is_running) else { return };
        while is_running() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(SLEEP_MAX));
        }
    }

    /// Waits for a turn, and reserves the time for `len` bytes. Returns its end; `None` if it does
    /// not go on.
    fn take_turn(&self, len: u64, rank: u64, is_running: impl Fn() -> bool) -> Option<Instant> {
        let mut turns = self.turns.lock();
        let number = turns.enqueue(rank);
        while is_running() {
            let now = Instant::now();
            let busy = turns.reserved_until.saturating_duration_since(now);
            if busy.is_zero() && turns.first() == Some(number) {
                turns.is_by_rank = !turns.is_by_rank;
                let until = self.reserve(&mut turns, len, now);
                self.end_turn(turns, number);
                return Some(until);
            }
            let timeout = if busy.is_zero() { SLEEP_MAX } else { busy.min(SLEEP_MAX) };
            self.changed.wait_for(&mut turns, timeout);
        }
        self.end_turn(turns, number);
        None
    }

    fn end_turn(&self, mut turns: MutexGuard<'_, TurnQueue>, number: u64) {
        turns.leave(number);
        drop(turns);
        self.changed.notify_all();
    }

    /// Reserves the time for `len` bytes. Returns its end.
    fn reserve(&self, turns: &mut TurnQueue, len: u64, now: Instant) -> Instant {
        let nanos = u128::from(len) * 1_000_000_000 / u128::from(self.rate.get());
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let begin = turns.reserved_until.max(now.checked_sub(CREDIT_MAX).unwrap_or(now));
        // A time that overflows is not reserved.
        turns.reserved_until = begin.checked_add(takes).unwrap_or(begin);
        turns.reserved_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttle(rate: u64) -> Throttle {
        Throttle::of(NonZeroU64::new(rate).expect("more than none"))
    }

    #[test]
    fn bytes_take_the_time_that_they_need() {
        let throttle = throttle(1000);
        let mut turns = throttle.turns.lock();
        let now = turns.reserved_until;
        assert_eq!(throttle.reserve(&mut turns, 500, now), now + Duration::from_millis(500));
        assert_eq!(throttle.reserve(&mut turns, 500, now), now + Duration::from_millis(1000));
        // After a long pause, only a moment is credited.
        let later = now + Duration::from_secs(100);
        let until = throttle.reserve(&mut turns, 500, later);
        assert_eq!(until, later + Duration::from_millis(500) - CREDIT_MAX);
    }

    #[test]
    fn a_waiting_thread_notices_the_end_of_the_job() {
        let throttle = throttle(1);
        let begin = Instant::now();
        let asked = std::cell::Cell::new(0);
        let is_running = || asked.replace(asked.get() + 1) < 2;
        throttle.wait(1000, 0, is_running);
        // A thread that has left blocks no other.
        throttle.wait(1000, 0, || false);
        assert!(throttle.turns.lock().waiting.is_empty());
        assert!(begin.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn every_second_turn_is_by_rank_and_all_threads_get_turns() {
        let throttle = throttle(1000);
        let mut turns = throttle.turns.lock();
        for rank in [3, 1, 0, 2] {
            turns.enqueue(rank);
        }
        let mut had = Vec::new();
        for _ in 0..12 {
            let number = turns.first().expect("all wait");
            let (rank, _) = *turns.waiting.iter().find(|it| it.1 == number).expect("it is there");
            turns.is_by_rank = !turns.is_by_rank;
            turns.leave(number);
            turns.enqueue(rank);
            had.push(rank);
        }
        assert_eq!(had, [0, 3, 0, 1, 0, 2, 0, 3, 0, 1, 0, 2]);
    }

    #[test]
    fn several_threads_share_the_rate_and_the_first_ends_first() {
        const STEPS: u64 = 20;
        let throttle = throttle(1 << 20);
        let begin = Instant::now();
        let took = std::thread::scope(|scope| {
            let run = |rank| {
                let throttle = &throttle;
                scope.spawn(move || {
                    (0..STEPS).for_each(|_| throttle.wait(4 << 10, rank, || true));
                    begin.elapsed()
                })
            };
            let threads = [0, 1, 2, 3, 4].map(run);
            threads.map(|thread| thread.join().expect("no panic"))
        });
        // 400 KiB at 1 MiB per second, minus the credit.
        let all = *took.iter().max().expect("there are some");
        assert!(all >= Duration::from_millis(390) - CREDIT_MAX, "{took:?}");
        assert_eq!(took.iter().min(), Some(&took[0]), "{took:?}");
    }

    #[test]
    fn a_later_file_waits_for_an_earlier_one_until_the_job_ends() {
        let throttle = throttle(1000);
        let first = throttle.precedence(1, || true);
        // The job has ended.
        drop(throttle.precedence(2, || false));
        let has_ended = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let later = scope.spawn(|| {
                let _later = throttle.precedence(3, || true);
                has_ended.load(std::sync::atomic::Ordering::SeqCst)
            });
            while throttle.in_order.lock().len() < 2 {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(20));
            has_ended.store(true, std::sync::atomic::Ordering::SeqCst);
            drop(first);
            assert!(later.join().expect("no panic"), "it did not wait");
        });
        assert!(throttle.in_order.lock().is_empty());
    }

    #[test]
    fn steps_are_fractions_of_a_second() {
        assert_eq!(throttle(1).step(), 256);
        assert_eq!(throttle(1 << 20).step(), (1 << 20) / 20);
        assert_eq!(throttle(u64::MAX).step(), 128 << 10);
        assert_eq!(throttle(4 << 20).part(), 512 << 10);
        assert_eq!(throttle(1).part(), 128 << 10);
    }
}

//! A bound on the bytes that a job moves in a second, kept in small steps.

use haul_tree::lock;
use std::num::NonZeroU64;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Steps of one second: after each there is a pause.
const STEPS_PER_SECOND: u64 = 20;

/// Parts of one second in which content is moved on one machine.
const PARTS_PER_SECOND: u64 = 8;

/// The shortest and the longest step, in bytes. Shorter ones would cost more than they
/// smooth.
const STEP_LEN: (u64, u64) = (1 << 10, 128 << 10);

/// The time of rest that counts, at most: a pause is not followed by a flood.
const CREDIT_MAX: Duration = Duration::from_millis(100);

/// How long somebody sleeps who must see that the job ends.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// The pace of one job, for all of its threads.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: NonZeroU64,
    /// The moment up to which all that was moved is paid for.
    paid: Mutex<Instant>,
}

impl Pace {
    /// One of `rate` bytes in a second.
    pub(crate) fn of(rate: NonZeroU64) -> Self {
        Self { rate, paid: Mutex::new(Instant::now()) }
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

    /// Waits until `len` bytes that were moved are within the bound, while it `goes_on`.
    pub(crate) fn wait(&self, len: u64, goes_on: impl Fn() -> bool) {
        let until = self.pay(len, Instant::now());
        while goes_on() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(SLEEP_MAX));
        }
    }

    /// Takes the time that `len` bytes need, and gives its end.
    fn pay(&self, len: u64, now: Instant) -> Instant {
        let nanos = u128::from(len) * 1_000_000_000 / u128::from(self.rate.get());
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let mut paid = lock(&self.paid);
        let begin = (*paid).max(now.checked_sub(CREDIT_MAX).unwrap_or(now));
        // What is too long to be told is waited for in parts.
        *paid = begin.checked_add(takes).unwrap_or(begin);
        *paid
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
        let now = *lock(&pace.paid);
        assert_eq!(pace.pay(500, now), now + Duration::from_millis(500));
        assert_eq!(pace.pay(500, now), now + Duration::from_millis(1000));
        // Much later no more than a moment is in credit.
        let later = now + Duration::from_secs(100);
        assert_eq!(pace.pay(500, later), later + Duration::from_millis(500) - CREDIT_MAX);
    }

    #[test]
    fn who_waits_sees_the_end_of_the_job() {
        let pace = pace(1);
        let begin = Instant::now();
        let asked = std::cell::Cell::new(0);
        pace.wait(1000, || asked.replace(asked.get() + 1) < 2);
        assert!(begin.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn steps_are_parts_of_a_second() {
        assert_eq!(pace(1).step(), 1 << 10);
        assert_eq!(pace(1 << 20).step(), (1 << 20) / 20);
        assert_eq!(pace(u64::MAX).step(), 128 << 10);
        assert_eq!(pace(4 << 20).part(), 512 << 10);
        assert_eq!(pace(1).part(), 128 << 10);
    }
}

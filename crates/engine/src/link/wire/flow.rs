//! The speed of a lane, and the amount of content queued for it.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// The bytes that the pace refers to.
const UNIT: u64 = 1 << 20;

/// The time between two reports of content as sent, and the bounds of one step in bytes. Progress
/// on a slow link stays visible, and a fast one is not slowed down.
const STEP_TIME: Duration = Duration::from_millis(100);
const STEP_LEN: (u64, u64) = (64 << 10, 256 << 10);

/// The content that is queued for one lane.
#[derive(Debug, Default)]
pub(super) struct Flow(Mutex<FlowState>);

#[derive(Debug, Default)]
struct FlowState {
    /// Bytes that are queued or being written.
    queued: u64,
    /// All bytes that were ever queued, after compression.
    all: u64,
    /// The same before compression.
    content: u64,
    /// The time for [`UNIT`] bytes; `None` until something has left.
    pace: Option<Duration>,
    /// When bytes last left, or were added to an empty queue.
    moved: Option<Instant>,
}

impl Flow {
    /// Adds `len` queued bytes, which had `content` bytes before compression.
    pub(super) fn queued(&self, len: usize, content: usize) {
        let mut state = self.0.lock();
        if state.queued == 0 {
            state.moved = Some(Instant::now());
        }
        state.queued += len as u64;
        state.all += len as u64;
        state.content += content as u64;
    }

    /// All bytes that were ever queued, after compression.
    pub(super) fn all(&self) -> u64 {
        self.0.lock().all
    }

    /// The same before compression.
    pub(super) fn content(&self) -> u64 {
        self.0.lock().content
    }

    /// Bytes that were written.
    pub(super) fn written(&self) -> u64 {
        let state = self.0.lock();
        state.all.saturating_sub(state.queued)
    }

    /// Removes `len` written bytes from the queue, and updates the pace.
    pub(super) fn left(&self, len: usize, took: Duration) {
        let mut state = self.0.lock();
        state.queued = state.queued.saturating_sub(len as u64);
        state.moved = Some(Instant::now());
        if len > 0 {
            let now = took.mul_f64(UNIT as f64 / len as f64);
            let pace = state.pace.unwrap_or(now);
            // A new connection becomes faster.
            state.pace = Some((pace + now) / 2);
        }
    }

    /// The time per MiB, so far.
    pub(super) fn pace(&self) -> Option<Duration> {
        self.0.lock().pace
    }

    /// True if the queue needs longer than `time` at the current pace, or if nothing has left for
    /// longer than `time`.
    pub(super) fn needs(&self, time: Duration) -> bool {
        let FlowState { queued, pace, moved, .. } = *self.0.lock();
        let needs = pace.map(|pace| pace.mul_f64(queued as f64 / UNIT as f64));
        let still = moved.map(|moved| moved.elapsed());
        [needs, still].into_iter().flatten().any(|needs| needs > time)
    }

    /// True if everything queued has left.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().queued == 0
    }

    /// Bytes that leave within `time`, at the current pace.
    pub(super) fn within(&self, time: Duration) -> Option<u64> {
        let pace = self.pace()?.max(Duration::from_nanos(1));
        Some((time.as_secs_f64() / pace.as_secs_f64() * UNIT as f64) as u64)
    }

    /// Bytes that leave within `time` after the queued ones; 0 if the pace is unknown.
    pub(super) fn capacity_within(&self, time: Duration) -> u64 {
        let within = self.within(time).unwrap_or(0);
        within.saturating_sub(self.0.lock().queued)
    }

    /// The bytes of content that are written per report of progress.
    pub(super) fn step(&self) -> usize {
        let (min, max) = STEP_LEN;
        self.within(STEP_TIME).unwrap_or(0).clamp(min, max) as usize
    }

    /// The time until the queue and `len` more bytes are written. Zero for the first bytes of a
    /// lane. While these are being sent, the pace is unknown and other lanes are preferred.
    pub(super) fn due(&self, len: u64) -> Duration {
        let state = self.0.lock();
        match state.pace {
            Some(pace) => pace.mul_f64((state.queued + len) as f64 / UNIT as f64),
            None if state.queued == 0 => Duration::ZERO,
            None => Duration::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_new_lane_is_tried_once_and_then_judged_by_its_pace() {
        let flow = Flow::default();
        assert_eq!(flow.due(UNIT), MS(0));
        flow.queued(UNIT as usize, UNIT as usize);
        assert_eq!(flow.due(UNIT), Duration::MAX);
        flow.left(UNIT as usize, MS(40));
        assert_eq!(flow.due(UNIT), MS(40));
        flow.queued(UNIT as usize / 2, UNIT as usize);
        assert_eq!(flow.due(UNIT), MS(60));
        assert_eq!([MS(10), MS(60)].map(|time| flow.capacity_within(time)), [0, UNIT]);
        flow.left(UNIT as usize / 2, MS(40));
        assert_eq!(flow.pace(), Some(MS(60)), "the last of it took 80 ms for each unit");
        assert_eq!(flow.due(UNIT), MS(60));
        assert_eq!(flow.within(MS(120)), Some(2 * UNIT));
        assert_eq!(flow.capacity_within(MS(120)), 2 * UNIT);
        flow.queued(1, 2);
        let sums = (flow.all(), flow.content(), flow.written());
        assert_eq!(sums, (UNIT * 3 / 2 + 1, UNIT * 2 + 2, UNIT * 3 / 2));
    }

    #[test]
    fn a_stalled_lane_needs_long() {
        let flow = Flow::default();
        assert!(!flow.needs(MS(0)), "it has nothing");
        flow.queued(UNIT as usize, UNIT as usize);
        assert!(!flow.needs(MS(60_000)), "nobody knows");
        std::thread::sleep(MS(20));
        assert!(flow.needs(MS(10)) && !flow.needs(MS(60_000)));
        flow.left(UNIT as usize / 2, MS(20));
        assert!(flow.needs(MS(19)) && !flow.needs(MS(60_000)));
    }

    #[test]
    fn steps_are_short_on_a_slow_link() {
        let flow = Flow::default();
        let step_at = |pace| {
            flow.0.lock().pace = Some(pace);
            flow.step() as u64
        };
        assert_eq!(step_at(MS(60_000)), STEP_LEN.0);
        assert_eq!(step_at(MS(1024)), UNIT * 100 / 1024);
        assert_eq!(step_at(MS(1)), STEP_LEN.1);
        assert_eq!(Flow::default().step() as u64, STEP_LEN.0);
    }
}

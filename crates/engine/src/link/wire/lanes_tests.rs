//! Tests of the lanes of a Sender.

use super::super::frame::{Body, OutFrame};
use super::super::squeeze::Left;
use super::*;
use crate::JobError;
use crate::monitor::Silent;
use haul_model::Compression;
use haul_proto::Caps;
use std::collections::BTreeSet;

/// A body of so many bytes that were compressed.
fn squeezed(len: usize) -> Body {
    Body::Squeezed { bytes: vec![0; len], len, took: Duration::ZERO }
}

/// Lanes without one that has joined, and the frames that are queued for the wire.
fn lanes(by_wire: ByWire) -> (Lanes, Frames) {
    let (main, frames) = Outbox::new(false);
    (Lanes::new(main, by_wire), frames)
}

/// The number of the lane for a content of so many bytes.
fn next_lane(lanes: &Lanes, len: u64, control: &Control<'_>) -> Option<u8> {
    lanes.of(0, Load { len, of_job: len }, control).map(|lane| lane.number)
}

/// So many lanes to a host that is far away join.
fn join_far(lanes: &Lanes, count: u8) -> Vec<Frames> {
    let join = |number| {
        let (outbox, frames) = lanes.beside();
        lanes.join(Lane::new(number, outbox), Some(LONG_ROUND_TRIP));
        frames
    };
    (1..=count).map(join).collect()
}

#[test]
fn what_shrinks_takes_no_more_lanes_than_what_is_left_of_it_is_worth() {
    const MANY: u8 = 4;
    let (lanes, _frames) = lanes(ByWire::Nothing);
    let _lanes_frames = join_far(&lanes, MANY);
    let worth = |len| lanes.worth(&lock(&lanes.joined), len);
    let len = u64::from(MANY) * FAR_LANE_LEN;
    assert_eq!(worth(len), 4, "nothing was sent yet");
    lanes.main.outbox.flow().queued(1000, 1000);
    assert_eq!(worth(len), 4, "it does not shrink");
    lanes.main.outbox.flow().queued(1000, 9000);
    assert_eq!([0, len, 2 * len, 5 * len, u64::MAX].map(worth), [1, 1, 2, 4, 4]);
    // All of them are free; those that are not worth it stay so.
    let load = Load { len: 1, of_job: len };
    let monitor = Silent::default();
    let control = Control::new(&monitor);
    for worker in 0..2 * usize::from(MANY) {
        assert_eq!(lanes.of(worker, load, &control).map(|lane| lane.number), Some(1));
    }
}

#[test]
fn on_a_long_way_a_block_waits_for_a_lane_that_is_free_and_what_is_small_does_not() {
    let (lanes, main_frames) = lanes(ByWire::Any);
    let _lanes_frames = join_far(&lanes, 1);
    let monitor = Silent::default();
    let control = Control::new(&monitor);
    let lane = |len| lanes.of(0, Load { len, of_job: len }, &control).expect("a lane");
    let (first, second) = (lane(BLOCK_LEN), lane(BLOCK_LEN));
    assert_eq!(BTreeSet::from([first.number, second.number]), BTreeSet::from([0, 1]));
    assert!(lane(BLOCK_LEN - 1).number <= 1, "it waits");
    let (main, joined) = if first.number == 0 { (first, second) } else { (second, first) };
    for _ in 0..2 {
        main.outbox.send(OutFrame::whole(vec![1])).expect("there is room");
    }
    drop(main);
    let is_taken = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let next = scope.spawn(|| {
            let next = lane(BLOCK_LEN);
            is_taken.store(true, Ordering::Relaxed);
            next.number
        });
        std::thread::sleep(10 * LOOK_AGAIN);
        assert!(!is_taken.load(Ordering::Relaxed), "one is held, for the other frames wait");
        main_frames.waiting.recv().expect("it waits");
        assert_eq!(next.join().expect("no panic"), 0);
    });
    drop(joined);
    assert!(lane(BLOCK_LEN).number <= 1, "what was held is held no more");
}

#[test]
fn a_login_that_is_near_has_shown_so_and_takes_a_block_behind_others() {
    let (lanes, _frames) = lanes(ByWire::Any);
    let (outbox, _login_frames) = lanes.beside();
    lanes.join(Lane::new(1, outbox), None);
    let login = lock(&lanes.joined)[0].clone();
    let _held = (login.hold(), lanes.main.hold());
    let load = Load { len: BLOCK_LEN, of_job: BLOCK_LEN };
    let next = || lanes.soonest(&lock(&lanes.joined), 0, load).map(|lane| lane.number);
    let flow = login.outbox.flow();
    let write = |len, took| {
        flow.queued(len, len);
        flow.left(len, took);
    };
    write(BUFFERED_MAX as usize - 1, Duration::from_millis(1));
    assert_eq!(next(), None, "buffers have taken it");
    write(1, Duration::from_nanos(1));
    assert_eq!(next(), Some(1));
    write(1 << 20, Duration::from_millis(50));
    assert_eq!(next(), None, "a block takes long");
}

#[test]
fn a_block_that_waits_for_a_lane_ends_with_the_job_and_goes_on_with_the_wire_alone() {
    let (lanes, _frames) = lanes(ByWire::Any);
    let _lanes_frames = join_far(&lanes, 1);
    let monitor = Silent::default();
    let control = Control::new(&monitor);
    let load = Load { len: BLOCK_LEN, of_job: BLOCK_LEN };
    let held: Vec<_> = (0..2).filter_map(|_| lanes.of(0, load, &control)).collect();
    std::thread::scope(|scope| {
        let next = scope.spawn(|| lanes.of(0, load, &control).map(|lane| lane.number));
        lanes.leave(1);
        assert_eq!(next.join().expect("no panic"), Some(0));
    });
    let _again = join_far(&lanes, 1);
    let _new = lanes.of(0, load, &control).expect("the lane that is new");
    std::thread::scope(|scope| {
        let next = scope.spawn(|| lanes.of(0, load, &control).is_none());
        control.fail(JobError::Usage(String::new()));
        assert!(next.join().expect("no panic"));
    });
    drop(held);
}

#[test]
fn a_lane_that_is_new_does_not_tell_that_the_link_takes_more() {
    let (lanes, _frames) = lanes(ByWire::Any);
    let squeeze = &lanes.main.outbox.squeeze;
    squeeze.wish(Compression::Auto);
    squeeze.allow(Caps::OURS);
    let _lanes_frames = join_far(&lanes, 1);
    let joined = lock(&lanes.joined)[0].clone();
    // From now on an empty queue counts.
    let swallowed = OutFrame::content(vec![1], squeezed(4 << 20));
    let body = swallowed.body.as_ref().expect("a body");
    squeeze.sent(Left::of(body, Instant::now(), Duration::ZERO, false));
    let begin = lanes.effort(&joined).expect("compressed");
    lanes.main.outbox.send(OutFrame::content(vec![1], squeezed(1))).expect("there is room");
    let by_joined = || lanes.effort(&joined).expect("compressed");
    assert!((0..100).all(|_| by_joined() == begin), "the wire of the job is short");
}

#[test]
fn the_first_content_goes_by_the_wire_and_more_waits_for_a_lane() {
    let monitor = Silent::default();
    let control = Control::new(&monitor);
    let (lanes, _frames) = lanes(ByWire::First);
    for _ in 0..2 {
        assert_eq!(next_lane(&lanes, RELAYED_FIRST / 2, &control), Some(0));
        lanes.main.outbox.flow().queued(RELAYED_FIRST as usize / 2, 0);
    }
    assert!(!lanes.is_awaited());
    std::thread::scope(|scope| {
        let next = scope.spawn(|| next_lane(&lanes, 1, &control));
        while !lanes.is_awaited() {
            std::thread::yield_now();
        }
        let (outbox, _frames) = lanes.beside();
        lanes.join(Lane::new(3, outbox), Some(Duration::ZERO));
        assert_eq!(next.join().expect("no panic"), Some(3));
    });
    // When that is lost nobody waits for another.
    lanes.leave(3);
    assert_eq!(next_lane(&lanes, u64::MAX, &control), Some(0));
}

#[test]
fn if_no_lane_joins_the_rest_goes_by_the_wire_before_long() {
    let monitor = Silent::default();
    let control = Control::new(&monitor);
    let (lanes, _frames) = lanes(ByWire::First);
    let begin = Instant::now();
    assert_eq!(next_lane(&lanes, RELAYED_FIRST + 1, &control), Some(0));
    assert!(begin.elapsed() >= AWAITED_MAX && lanes.is_awaited());
    assert_eq!(next_lane(&lanes, u64::MAX, &control), Some(0));
}

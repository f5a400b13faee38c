//! Tests of the lanes of a Sender.

use super::super::compression_control::SentFrame;
use super::super::frame::{Body, OutFrame};
use super::*;
use crate::JobError;
use crate::monitor::Silent;
use haul_model::Compression;
use haul_proto::Caps;

/// A compressed body of `len` bytes.
fn compressed(len: usize) -> Body {
    Body::Compressed { bytes: vec![0; len], len, took: Duration::ZERO }
}

/// Lanes of which none has joined, and the frames queued for the wire.
fn lanes(by_wire: ByWire) -> (Lanes, Frames) {
    let (main, frames) = Outbox::new(false);
    (Lanes::new(main, by_wire), frames)
}

/// The number of the lane for a content of `len` bytes.
fn next_lane(lanes: &Lanes, len: u64, control: &Control<'_>) -> Option<u8> {
    lanes.of(0, Load { len, is_block: false, of_job: len }, control).map(|lane| lane.number)
}

/// Lets `count` lanes to a distant host join.
fn join_far(lanes: &Lanes, count: u8) -> Vec<Frames> {
    let join = |number| {
        let (outbox, frames) = lanes.sibling();
        lanes.join(Lane::new(number, outbox), Some(LONG_ROUND_TRIP));
        frames
    };
    (1..=count).map(join).collect()
}

#[test]
fn compressed_content_uses_only_the_lanes_it_is_worth() {
    const MANY: u8 = 4;
    let (lanes, _frames) = lanes(ByWire::Nothing);
    let _lanes_frames = join_far(&lanes, MANY);
    let lanes_worth_using = |len| lanes.lanes_worth_using(&lanes.joined.lock(), len);
    let len = u64::from(MANY) * FAR_LANE_LEN;
    assert_eq!(lanes_worth_using(len), 4, "nothing was sent yet");
    lanes.main.outbox.flow().queued(1000, 1000);
    assert_eq!(lanes_worth_using(len), 4, "it does not shrink");
    lanes.main.outbox.flow().queued(1000, 9000);
    assert_eq!([0, len, 2 * len, 5 * len, u64::MAX].map(lanes_worth_using), [1, 1, 2, 4, 4]);
    // All lanes are free; lanes beyond the worth stay unused.
    let load = Load { len: 1, is_block: false, of_job: len };
    let monitor = Silent::default();
    let control = Control::new(&monitor);
    for worker in 0..2 * usize::from(MANY) {
        assert_eq!(lanes.of(worker, load, &control).map(|lane| lane.number), Some(1));
    }
}

/// The load of a block.
const BLOCK: Load = Load { len: BLOCK_LEN, is_block: true, of_job: BLOCK_LEN };

/// The number of the lane that a block gets now.
fn lane_of_block(lanes: &Lanes) -> Option<u8> {
    lanes.soonest(&lanes.joined.lock(), 0, BLOCK, Duration::ZERO).map(|lane| lane.number)
}

#[test]
fn on_a_long_link_a_block_waits_for_a_free_lane_and_small_content_does_not() {
    let (lanes, main_frames) = lanes(ByWire::Any);
    let _lanes_frames = join_far(&lanes, 1);
    let monitor = Silent::default();
    let control = Control::new(&monitor);
    let take = || lanes.of(0, BLOCK, &control).expect("a lane");
    let (joined, main) = (take(), take());
    assert_eq!([joined.number, main.number], [1, 0]);
    let small = Load { is_block: false, ..BLOCK };
    assert!(lanes.soonest(&lanes.joined.lock(), 0, small, Duration::ZERO).is_some());
    assert_eq!(lane_of_block(&lanes), None, "both are held");
    for _ in 0..=FREE_QUEUE_MAX {
        main.outbox.send(OutFrame::whole(vec![1])).expect("there is room");
    }
    drop(main);
    assert_eq!(lane_of_block(&lanes), None, "one is held, for the other too much waits");
    main_frames.waiting.recv().expect("it waits");
    assert_eq!(lane_of_block(&lanes), Some(0));
    drop(joined);
    assert_eq!(lane_of_block(&lanes), Some(1), "it is held no more");
}

#[test]
fn a_slow_lane_gets_no_block_that_would_delay_the_end() {
    const MIB: usize = 1 << 20;
    let (lanes, _frames) = lanes(ByWire::Nothing);
    let _lanes_frames = join_far(&lanes, 3);
    let joined = lanes.joined.lock().clone();
    let flow = |lane: usize| joined[lane - 1].outbox.flow();
    for (lane, pace) in [(1, 10), (2, 10), (3, 100)] {
        flow(lane).queued(MIB, MIB);
        flow(lane).left(MIB, Duration::from_millis(pace));
    }
    // On the slow lane a block takes 400 ms. In half of that, each other lane sends five.
    let held: Vec<_> = joined[..2].iter().cloned().map(Lane::held).collect();
    let lane_of = |left: u64, waited| {
        let load = Load { of_job: 3 * MIB as u64 + left, ..BLOCK };
        let waited = Duration::from_millis(waited);
        lanes.soonest(&joined, 0, load, waited).map(|lane| lane.number)
    };
    assert_eq!(lane_of(10 * BLOCK_LEN + 1, 0), Some(3), "there is enough for all");
    assert_eq!(lane_of(10 * BLOCK_LEN, 0), None);
    assert_eq!(lane_of(10 * BLOCK_LEN, 200), Some(3), "the others stand still");
    flow(1).queued(1, 1);
    assert_eq!(lane_of(10 * BLOCK_LEN, 0), Some(3), "one has something to send before");
    // The last block gets the fastest free lane, or the slow one if it is the only one.
    assert_eq!(lane_of(0, 0), None);
    drop(held);
    assert_eq!(lane_of(0, 0), Some(2));
    assert_eq!(lanes.soonest(&joined[2..], 0, BLOCK, Duration::ZERO).map(|it| it.number), Some(3));
}

#[test]
fn a_lane_that_delays_the_end_is_cut_if_another_is_far_faster() {
    const MIB: usize = 1 << 20;
    let ms = Duration::from_millis;
    // The paces of both lanes, the bytes left on the slow one, and whether the other is idle.
    for (paces, left, is_free, is_ended) in [
        ([400, 10], 3 * MIB, true, true),
        ([400, 10], 3 * MIB, false, false),
        // In half of the 1.6 s the other lane sends no block.
        ([400, 400], 4 * MIB, true, false),
        ([400, 180], 4 * MIB, true, true),
        // It ends soon.
        ([200, 10], 4 * MIB, true, false),
        ([400, 10], 0, true, false),
    ] {
        let (lanes, _frames) = lanes(ByWire::Nothing);
        let _lanes_frames = join_far(&lanes, 2);
        let joined = lanes.joined.lock().clone();
        for (lane, pace) in joined.iter().zip(paces) {
            lane.outbox.flow().queued(MIB, MIB);
            lane.outbox.flow().left(MIB, ms(pace));
        }
        joined[0].outbox.flow().queued(left, left);
        let _held = (!is_free).then(|| joined[1].clone().held());
        lanes.cut_if_slow(1);
        let numbers: Vec<_> = lanes.joined.lock().iter().map(|lane| lane.number).collect();
        assert_eq!(numbers, if is_ended { vec![2] } else { vec![1, 2] }, "{paces:?} {left}");
        // The last lane stays in any case.
        lanes.cut_if_slow(*numbers.last().expect("one is left"));
        assert_eq!(lanes.joined.lock().len(), numbers.len());
    }
}

#[test]
fn a_proven_quick_login_takes_a_block_behind_others() {
    let (lanes, _frames) = lanes(ByWire::Any);
    let (outbox, _login_frames) = lanes.sibling();
    lanes.join(Lane::new(1, outbox), None);
    let login = lanes.joined.lock()[0].clone();
    let _held = (login.clone().held(), lanes.main().held());
    let flow = login.outbox.flow();
    let write = |len, took| {
        flow.queued(len, len);
        flow.left(len, took);
    };
    write(BUFFERED_MAX as usize - 1, Duration::from_millis(1));
    assert_eq!(lane_of_block(&lanes), None, "buffers have taken it");
    write(1, Duration::from_nanos(1));
    assert_eq!(lane_of_block(&lanes), Some(1));
    write(1 << 20, 2 * QUICK_TIME);
    assert_eq!(lane_of_block(&lanes), None, "a block takes long");
}

#[test]
fn a_waiting_block_uses_the_wire_if_the_lane_is_lost_and_ends_with_the_job() {
    let (lanes, _frames) = lanes(ByWire::Any);
    let monitor = Silent::default();
    let control = Control::new(&monitor);
    let _lanes_frames = join_far(&lanes, 1);
    let _held: Vec<_> = (0..2).filter_map(|_| lanes.of(0, BLOCK, &control)).collect();
    assert_eq!(lane_of_block(&lanes), None);
    let next = || lanes.of(0, BLOCK, &control).map(|lane| lane.number);
    std::thread::scope(|scope| {
        let next = scope.spawn(next);
        lanes.end(1);
        assert_eq!(next.join().expect("no panic"), Some(0));
    });
    let _again = join_far(&lanes, 1);
    let _new = lanes.of(0, BLOCK, &control).expect("the lane that is new");
    assert_eq!(lane_of_block(&lanes), None);
    std::thread::scope(|scope| {
        let next = scope.spawn(next);
        control.fail(JobError::Usage(String::new()));
        assert_eq!(next.join().expect("no panic"), None);
    });
}

#[test]
fn the_empty_queue_of_a_new_lane_does_not_lower_the_compression() {
    let (lanes, _frames) = lanes(ByWire::Any);
    let compression_control = &lanes.main.outbox.compression_control;
    compression_control.set_mode(Compression::Auto);
    compression_control.allow(Caps::OURS);
    let _lanes_frames = join_far(&lanes, 1);
    let joined = lanes.joined.lock()[0].clone();
    // From now on an empty queue counts.
    let swallowed = OutFrame::content(vec![1], compressed(4 << 20));
    let body = swallowed.body.as_ref().expect("a body");
    compression_control.sent(SentFrame::of(body, Instant::now(), Duration::ZERO, false));
    let begin = lanes.effort(&joined).expect("compressed");
    lanes.main.outbox.send(OutFrame::content(vec![1], compressed(1))).expect("there is room");
    let by_joined = || lanes.effort(&joined).expect("compressed");
    assert!((0..100).all(|_| by_joined() == begin), "the wire of the job is short");
}

#[test]
fn the_first_content_uses_the_wire_and_later_content_waits_for_a_lane() {
    let monitor = Silent::default();
    let control = Control::new(&monitor);
    let (lanes, _frames) = lanes(ByWire::First);
    for _ in 0..2 {
        assert_eq!(next_lane(&lanes, RELAYED_FIRST / 2, &control), Some(0));
        lanes.main.outbox.flow().queued(RELAYED_FIRST as usize / 2, RELAYED_FIRST as usize / 2);
    }
    assert!(!lanes.is_awaited());
    std::thread::scope(|scope| {
        let next = scope.spawn(|| next_lane(&lanes, 1, &control));
        while !lanes.is_awaited() {
            std::thread::yield_now();
        }
        let (outbox, _frames) = lanes.sibling();
        lanes.join(Lane::new(3, outbox), Some(Duration::ZERO));
        assert_eq!(next.join().expect("no panic"), Some(3));
    });
    // When that lane is lost, no content waits for another.
    lanes.end(3);
    assert_eq!(next_lane(&lanes, u64::MAX, &control), Some(0));
}

#[test]
fn if_no_lane_joins_the_rest_uses_the_wire_after_a_bounded_wait() {
    let monitor = Silent::default();
    let control = Control::new(&monitor);
    let (lanes, _frames) = lanes(ByWire::First);
    let begin = Instant::now();
    assert_eq!(next_lane(&lanes, RELAYED_FIRST + 1, &control), Some(0));
    assert!(begin.elapsed() >= AWAITED_MAX && lanes.is_awaited());
    assert_eq!(next_lane(&lanes, u64::MAX, &control), Some(0));
}

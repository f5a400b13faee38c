//! A copy that is interrupted in an orderly way leaves nothing to the page
//! cache.

use super::*;
use haul_testkit::proc::Signal;

/// Large enough to be resumed, and too small for a checkpoint on the way.
const LEN: u64 = CHECKPOINT + 4321;

/// Bytes a second.
const RATE: u64 = 40 << 20;

/// Interrupts a copy in a way in which the receiving side is the one that is
/// interrupted: what an agent still does when its connection has ended is not
/// waited for.
fn nothing_is_moved_again_after(signal: Signal, way: Way) {
    let world = World::new();
    let scene = world.scene(way);
    let Some(mut target) = Target::new(&scene, Names::Posix) else { return };
    tree::random_file(scene.path("big"), LEN, 7).expect("a file");
    target.disk.throttle(RATE);
    let running = scene.copy(&["-q"], &["big"], "to/").spawn().expect("it starts");
    assert!(running.until(SOON, || target.on_record() >= 4), "it does not get on");
    running.signal(signal);
    running.wait().expect("it ends").expect_code(130);
    let blocks = target.on_record();
    assert!((4..CHECKPOINT / BLOCK).contains(&blocks), "{blocks} blocks");
    target.cut(Loss::Everything, 0);
    assert_eq!(target.finish(), LEN - blocks * BLOCK);
}

#[test]
fn after_ctrl_c_and_a_power_cut_nothing_is_moved_again() {
    nothing_is_moved_again_after(Signal::INT, Way::Download);
}

#[test]
fn after_sigterm_and_a_power_cut_nothing_is_moved_again() {
    nothing_is_moved_again_after(Signal::TERM, Way::Local);
}

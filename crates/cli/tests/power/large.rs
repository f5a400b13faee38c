//! A file that is large enough to be resumed, on a disk so slow that copying it
//! comes to a checkpoint.

use super::*;

/// A little more than what the first checkpoint takes.
const LEN: u64 = CHECKPOINT + 6 * BLOCK + 4321;

/// Bytes a second: the first checkpoint comes as soon as it may.
const RATE: u64 = CHECKPOINT / 5;

/// Syncs of a first checkpoint: data, names, journal.
const SYNCS: u64 = 3;

#[test]
fn a_copy_whose_power_was_cut_continues_from_its_last_checkpoint() {
    each_way_by_pipe(|scene| {
        let Some(mut target) = Target::new(scene, Names::Posix) else { return };
        tree::random_file(scene.path("big"), LEN, 7).expect("a file");
        target.disk.throttle(RATE);
        let running = scene.copy(&["-q"], &["big"], "to/").spawn().expect("it starts");
        let checkpoint = running.until(SOON, || target.disk.syncs() >= SYNCS);
        assert!(checkpoint, "no checkpoint after {} steps", target.disk.steps());
        target.disk.cut();
        let ended = running.wait().expect("it ends");
        assert_ne!(ended.code, Some(0), "{ended}");
        target.cut(Loss::ALL[scene.way as usize], scene.way as u64);
        let moved = target.finish();
        assert!(moved <= LEN - CHECKPOINT, "{moved} bytes were moved again");
        assert!(moved >= LEN % BLOCK, "what was never synced counts");
    });
}

#[test]
fn a_checkpoint_that_fails_fails_the_file() {
    each_of(
        &[Way::Local],
        |_| {},
        |scene| {
            let Some(target) = Target::new(scene, Names::Journaled) else { return };
            tree::random_file(scene.path("big"), LEN, 7).expect("a file");
            fs::write(scene.path("to/big"), "old").expect("written");
            target.disk.throttle(RATE);
            target.disk.fail_sync(1);
            let run = scene.copy(&[], &["big"], "to/").run().expect_code(1);
            assert_one_error(&run, "big: ", "Input/output error", "");
            assert_eq!(scene.read("to/big"), "old");
            assert_eq!(scene.list("to/"), ["big"], "something of haul's is left");
            assert_eq!(target.finish(), LEN, "what may be lost counts");
        },
    );
}

//! Failures that are not retried, and the end of retries.

use crate::common::*;
use crate::link::*;
use haul_testkit::proc::Signal;
use haul_testkit::{Link, holds_within, tree};
use std::time::{Duration, Instant};

#[test]
fn a_first_connection_that_fails_is_an_error_at_once() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("f", "1");
    let link = Link::to(scene.sshd()).expect("a link");
    link.take_down(true);
    let run = retrying(&scene, &link, "copy", &[], "f", "there/").run().expect_code(3);
    assert_eq!(told(&run), [0, 0], "{run}");
    assert!(run.err().starts_with("haul: can't reach haul-test: "), "{run}");
}

#[test]
fn without_retries_a_lost_connection_is_the_end() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    tree::random_file(scene.path("f"), 30 << 20, 1).expect("a file");
    let link = Link::to(scene.sshd()).expect("a link");
    link.limit(10 << 20);
    let copy = scene.copy_by(
        &through(&scene, &link),
        &["--retries", "0", "--via", "ssh"],
        &["f"],
        "there/",
    );
    let running = copy.env_remove("HAUL_RETRIES").spawn().expect("it starts");
    assert!(wait_for(&running, &link, 3 << 20));
    link.cut();
    let run = running.wait().expect("it ends").expect_code(3);
    assert_eq!(told(&run), [0, 0], "{run}");
}

#[test]
fn attempts_are_counted_until_the_job_comes_further() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    tree::random_file(scene.path("f"), 30 << 20, 1).expect("a file");
    let link = Link::to(scene.sshd()).expect("a link");
    link.limit(10 << 20);
    let flags = ["--retries", "2", "--via", "ssh"];
    let copy = scene.copy_by(&through(&scene, &link), &flags, &["f"], "there/");
    let running = copy.env_remove("HAUL_RETRIES").spawn().expect("it starts");
    assert!(wait_for(&running, &link, 3 << 20));
    link.take_down(true);
    link.cut();
    let begin = Instant::now();
    let run = running.wait().expect("it ends").expect_code(3);
    // One second before the first attempt, two before the second.
    assert!(begin.elapsed() >= Duration::from_secs(3), "{run}");
    assert_eq!(told(&run), [2, 0], "{run}");
    assert!(run.err().contains("connecting again in 2 s (attempt 2)"), "{run}");
    let lost = "\nhaul: the connection to haul-test was lost: it can't be reached again: ";
    assert!(run.err().contains(lost), "{run}");
    let hint = "  hint: run the same command again: finished files are skipped\n";
    assert!(run.err().ends_with(hint), "{run}");
}

#[test]
fn ctrl_c_ends_a_pause_at_once() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    tree::random_file(scene.path("f"), 30 << 20, 1).expect("a file");
    let link = Link::to(scene.sshd()).expect("a link");
    link.limit(10 << 20);
    let running = retrying(&scene, &link, "copy", &[], "f", "there/").spawn().expect("it starts");
    assert!(wait_for(&running, &link, 3 << 20));
    link.take_down(true);
    link.cut();
    // After the attempts at one, three and seven seconds comes a long pause.
    std::thread::sleep(Duration::from_secs(9));
    let begin = Instant::now();
    running.signal(Signal::INT);
    assert!(holds_within(Duration::from_secs(2), || !running.is_running()), "it waits on");
    let run = running.wait().expect("it ends").expect_code(130);
    assert!(begin.elapsed() < Duration::from_secs(4), "{run}");
}

//! Lanes that are lost while a job is at work: it goes on over the others, and nothing is
//! told twice.

use crate::common::*;
use crate::direct::reached;
use haul_testkit::tcp::{self, Tcp};
use haul_testkit::tree;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(60);

const WAYS: [Way; 2] = [Way::Upload, Way::Download];

/// A large file, a few that are not striped, and many small ones.
fn make_source(scene: &Scene<'_>) -> u64 {
    scene.mkdir("src/many");
    tree::random_file(scene.path("src/large"), (60 << 20) + 4321, 1).expect("a file");
    for at in 0..4 {
        tree::random_file(scene.path(format!("src/medium{at}")), 7 << 20, 9 + at).expect("a file");
    }
    for at in 0..300 {
        scene.file(format!("src/many/{at}"), vec![at as u8; 4 << 10]);
    }
    304 + 1
}

/// Copies over lanes, and ends so many of them.
fn copy_with_cuts(scene: &Scene<'_>, flags: &[&str], dest: &str, cuts: usize) {
    let files = make_source(scene);
    let summary = sync_with_cuts(scene, flags, dest, cuts);
    assert!(summary.contains(&format!("\"copied\":{files}")), "{summary}");
}

/// Makes `dest` the same as the source over lanes, and ends so many of them. Gives the line of
/// the summary.
fn sync_with_cuts(scene: &Scene<'_>, flags: &[&str], dest: &str, cuts: usize) -> String {
    let flags = [&["-a", "--json", "--bwlimit", "40m"], flags].concat();
    let sync = scene.transfer("sync", &scene.route(), &flags, &["src/"], dest).limit(SOON);
    let running = sync.spawn().expect("it starts");
    let begin = Instant::now();
    let mut cut = 0;
    while cut < cuts && begin.elapsed() < SOON && running.is_running() {
        std::thread::sleep(Duration::from_millis(150));
        cut += usize::from(tcp::cut_one(running.pid()));
    }
    let run = running.wait().expect("it ends").expect_ok();
    assert!(cut > 0, "no lane was ever there");
    let differences = scene.snapshot("src").differences(&scene.snapshot(dest), scene.rules());
    assert_eq!(differences, []);
    assert!(!run.out().contains("connection_lost"), "{run}");
    assert_no_strays(&scene.path(dest));
    run.out().lines().last().unwrap_or_default().to_owned()
}

#[test]
fn a_lane_that_is_lost_costs_what_was_on_it_and_no_new_connection() {
    each_of(&WAYS, reached, |scene| copy_with_cuts(scene, &["--via", "auto"], "dst", 1));
}

#[test]
fn when_all_lanes_are_lost_contents_go_through_ssh() {
    each_of(&WAYS, reached, |scene| copy_with_cuts(scene, &["--via", "auto"], "dst", 9));
}

#[test]
fn when_all_are_lost_and_nothing_else_may_be_taken_they_are_made_again() {
    // Once none can be made, which is nothing final where some have stood.
    let reached = |scene: &mut Scene<'_>| {
        let told = "export SSH_CONNECTION='127.0.0.1 1 127.0.0.1 2'";
        let lines = at_connection(scene, 2, "unset SSH_CONNECTION");
        let lines = format!("shift\n{told}\n{lines}\nexec sh -c \"$*\"");
        scene.reach_by(script(&scene.path("again"), &lines));
    };
    each_of(&WAYS, reached, |scene| {
        scene.mkdir("src");
        tree::random_file(scene.path("src/large"), 60 << 20, 1).expect("a file");
        let flags = ["-a", "--via", "tcp", "--bwlimit", "12m"];
        let sync = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").limit(SOON);
        let running = sync.env("HAUL_RETRIES", "3").spawn().expect("it starts");
        assert!(running.until(SOON, || !Tcp::of(running.pid()).is_empty()), "no lane");
        // A lane that is cut while it is being made was never there to be lost.
        std::thread::sleep(Duration::from_millis(1500));
        // All of them, and those that are made while they end.
        let cut = Instant::now();
        let is_left = || !Tcp::of(running.pid()).is_empty();
        while cut.elapsed() < Duration::from_millis(300) || cut.elapsed() < SOON && is_left() {
            tcp::cut_one(running.pid());
            std::thread::sleep(Duration::from_millis(5));
        }
        let run = running.wait().expect("it ends").expect_ok();
        let told = ["the direct connections to ", " were lost", "; reconnecting in 1 s"];
        assert!(told.iter().all(|told| run.err().contains(told)), "{run}");
        let told = ["no direct connection to ", "; reconnecting in "];
        let is_told = |line: &str| told.iter().all(|told| line.contains(told));
        assert!(run.err().lines().any(is_told), "{run}");
        assert_eq!(scene.snapshot("src").differences(&scene.snapshot("dst"), scene.rules()), []);
    });
}

#[test]
fn a_difference_on_a_lost_lane_is_made_up_for() {
    each_of(&WAYS, reached, |scene| {
        for (name, len) in [("a", 50 << 20), ("b", 30 << 20)] {
            scene.mkdir("src");
            scene.mkdir("dst");
            tree::random_file(scene.path(format!("src/{name}")), len, 5).expect("a file");
            let mut old = std::fs::read(scene.path(format!("src/{name}"))).expect("read");
            // Half of it, here and there, is not what it was.
            old.chunks_mut(2 << 20).step_by(2).for_each(|part| part.fill(7));
            old.truncate(old.len() - 12345);
            std::fs::write(scene.path(format!("dst/{name}")), old).expect("written");
        }
        let summary = sync_with_cuts(scene, &["--via", "auto"], "dst", 2);
        assert!(summary.contains("\"copied\":2"), "{summary}");
    });
}

//! Lanes that are lost while a job is at work: it goes on over the others, and nothing is
//! told twice.

use crate::beside::{at_servers, beside};
use crate::common::*;
use crate::direct::reached;
use haul_testkit::content::Stream;
use haul_testkit::haul::Running;
use haul_testkit::proc::{self, Signal};
use haul_testkit::tree;
use std::fs;
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
        cut += usize::from(proc::cut_tcp(running.pid()));
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
fn a_lane_that_is_lost_costs_what_was_on_it_and_no_connection_anew() {
    each_of(&WAYS, reached, |scene| copy_with_cuts(scene, &["--via", "auto"], "dst", 1));
}

#[test]
fn when_all_lanes_are_lost_contents_go_through_ssh() {
    each_of(&WAYS, reached, |scene| copy_with_cuts(scene, &["--via", "auto"], "dst", 9));
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

/// Runs of a job with cuts at other points.
const CAMPAIGN: u64 = 4;

/// Copies over lanes that `cut` ends one of, twice in each job, at points that are drawn: what
/// has a name is whole then, and in the end all is there.
fn cut_at_random(scene: &Scene<'_>, flags: &[&str], cut: &dyn Fn(&Running, u64) -> bool) {
    scene.mkdir("src");
    for (name, len) in [("large", (24 << 20) + 4321), ("medium", 7 << 20)] {
        tree::random_file(scene.path("src").join(name), len, len).expect("a file");
    }
    for at in 0..100_u8 {
        scene.file(format!("src/small{at}"), vec![at; 40 << 10]);
    }
    let mut lot = Stream::new(0x1a9e);
    let mut cuts = 0;
    for nth in 0..CAMPAIGN {
        let dest = format!("dst{nth}");
        let flags = [&["-a", "--bwlimit", "30m", "--retries", "8"], flags].concat();
        let sync = scene.transfer("sync", &scene.route(), &flags, &["src/"], &dest).limit(SOON);
        let running = sync.spawn().expect("it starts");
        // Before the first login nothing can be lost.
        assert!(running.until(SOON, || scene.exists(&dest)), "nothing is ever made");
        for _ in 0..2 {
            let point = Instant::now() + Duration::from_millis(lot.below(500));
            let drawn = lot.next_u64();
            let is_cut = || Instant::now() >= point && cut(&running, drawn);
            cuts += usize::from(running.until(SOON, is_cut));
            assert_whole(scene, &dest);
        }
        let run = running.wait().expect("it ends");
        // What was cut while it was made may be the last that was tried.
        match run.err().contains("haul: no direct connection to ") {
            true => scene.transfer("sync", &scene.route(), &flags, &["src/"], &dest).run(),
            false => run,
        }
        .expect_ok();
        let differences = scene.snapshot("src").differences(&scene.snapshot(&dest), scene.rules());
        assert_eq!(differences, [], "point {nth}");
        assert_no_strays(&scene.path(&dest));
    }
    assert!(cuts > 0, "no lane was ever there");
}

/// Files that have their names are those of the source.
fn assert_whole(scene: &Scene<'_>, dest: &str) {
    for entry in fs::read_dir(scene.path("src")).expect("read").flatten() {
        let there = scene.path(dest).join(entry.file_name());
        if let Ok(content) = fs::read(there) {
            let is_same = content == fs::read(entry.path()).expect("read");
            assert!(is_same, "{:?} is wrong", entry.file_name());
        }
    }
}

#[test]
fn a_direct_connection_that_ends_at_any_time_changes_nothing() {
    each_of(&WAYS, reached, |scene| {
        let cut = |running: &Running, drawn: u64| match drawn % 2 {
            0 => proc::cut_tcp(running.pid()),
            _ => agents_below(running).into_iter().any(proc::cut_tcp),
        };
        cut_at_random(scene, &["--via", "tcp"], &cut);
    });
}

fn agents_below(running: &Running) -> Vec<u32> {
    let below = proc::descendants(running.pid()).into_iter();
    below.filter(|pid| proc::is_agent(*pid)).collect()
}

#[test]
fn a_login_that_ends_at_any_time_changes_nothing() {
    at_servers(&[], |scene, sshd| {
        let kill = |running: &Running, drawn: u64| {
            let here = beside(running);
            let all = if drawn.is_multiple_of(2) { here.clone() } else { sshd.agents() };
            let drawn = all.get((drawn >> 8) as usize % all.len().max(1));
            let is_there = drawn.filter(|_| !here.is_empty());
            if let Some(pid) = is_there {
                proc::signal(*pid, Signal::KILL);
            }
            is_there.is_some()
        };
        cut_at_random(scene, &["--via", "ssh", "--parallel", "4"], &kill);
    });
}

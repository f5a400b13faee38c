//! Jobs from one host to another: each is a haul behind a pipe of its own, so that a test
//! can tell them apart, stop them and end them.

#![forbid(unsafe_code)]

#[path = "../common/mod.rs"]
mod common;
mod direct;

use common::*;
use haul_testkit::haul::{Outcome, Running};
use haul_testkit::proc::{self, Signal};
use haul_testkit::{Haul, assert_same, holds_within, tree};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// The time after which a run counts as hung.
const SOON: Duration = Duration::from_secs(60);

/// Bytes of the large file.
const LARGE: u64 = 48 << 20;

/// The hosts that a job goes between.
const HOSTS: [&str; 2] = ["from", "to"];

/// A scene whose hosts write down which process their agent is.
fn two_hosts<'w>(world: &'w World, name: &str) -> Scene<'w> {
    let mut scene = world.scene_called(name, Way::Between);
    let lines =
        format!("echo $$ > '{}'/agent-$1\nshift\nexec sh -c \"exec $*\"", scene.path("").display());
    let rsh = script(&scene.path("rsh"), &lines);
    scene.reach_by(rsh);
    scene
}

/// `path` of the scene on a host.
fn on(scene: &Scene<'_>, host: &str, path: &str) -> String {
    format!("{host}:{}", scene.path(path).display())
}

/// A job from one host to the other.
fn between(scene: &Scene<'_>, words: &[&str], source: &str, dest: &str) -> Haul {
    let haul = scene.haul().args(words).args(scene.remote()).arg("--");
    haul.arg(on(scene, "from", source)).arg(on(scene, "to", dest))
}

/// A job that has come to the middle of its large file, which it sends slowly.
fn in_the_middle(scene: &Scene<'_>, words: &[&str], retries: &str) -> Running {
    scene.mkdir("src");
    tree::random_file(scene.path("src/large"), LARGE, 1).expect("a file");
    scene.mkdir("dst");
    let words = [&["sync", "-t", "--bwlimit", "16m"], words].concat();
    let job = between(scene, &words, "src/large", "dst/").env("HAUL_RETRIES", retries);
    let running = job.spawn().expect("it starts");
    let begun = || {
        let parts = fs::read_dir(scene.path("dst")).expect("read").flatten();
        parts.filter_map(|part| part.metadata().ok()).any(|part| part.len() > 20 << 20)
    };
    assert!(running.until(SOON, begun), "it does not come to its middle");
    running
}

fn agent(scene: &Scene<'_>, host: &str) -> u32 {
    scene.read(format!("agent-{host}")).trim().parse().expect("a number")
}

/// No agent is left, and the same words again bring what is missing of the large file.
fn assert_goes_on(scene: &Scene<'_>) {
    let gone = || HOSTS.iter().all(|host| !proc::is_alive(agent(scene, host)));
    assert!(holds_within(SOON, gone), "an agent is left");
    let run = between(scene, &["sync", "-t", "--json"], "src/large", "dst/").run().expect_ok();
    assert_large_arrived(scene);
    let sent = run
        .out()
        .split("\"moved\":")
        .nth(1)
        .and_then(|rest| rest.split(',').next().and_then(|n| n.parse::<u64>().ok()));
    assert!(sent.is_some_and(|sent| sent <= LARGE - (8 << 20)), "{run}");
}

fn assert_large_arrived(scene: &Scene<'_>) {
    let [source, copy] = ["src/large", "dst/large"].map(|name| fs::read(scene.path(name)).ok());
    assert!(source.is_some() && source == copy, "the content differs");
    assert_eq!(scene.list("dst"), ["large"]);
}

#[test]
fn a_client_that_was_stopped_continues() {
    let world = World::new();
    let scene = two_hosts(&world, "stopped");
    let running = in_the_middle(&scene, &["--timeout", "2"], "3");
    let agents = HOSTS.map(|host| agent(&scene, host));
    running.signal(Signal::STOP);
    let gone = || agents.iter().all(|&agent| !proc::is_alive(agent));
    assert!(holds_within(SOON, gone), "an agent waits for its client");
    running.signal(Signal::CONT);
    let run = running.wait().expect("it ends").expect_ok();
    assert!(run.err().contains("reconnecting in"), "{run}");
    assert_large_arrived(&scene);
}

fn said(run: &Outcome) -> String {
    errors(run).join("\n")
}

#[test]
fn what_fails_names_the_host_that_it_is_on() {
    let world = World::new();
    let scene = two_hosts(&world, "named");
    scene.file("src/a", "a");
    let path = |name: &str| scene.path(name).display().to_string();
    let run = between(&scene, &["copy"], "nothing", "dst").run().expect_code(1);
    assert!(said(&run).starts_with(&format!("from:{}: ", path("nothing"))), "{run}");
    scene.file("file", "x");
    let run = between(&scene, &["copy"], "src/a", "file/below/").run().expect_code(4);
    assert!(said(&run).starts_with(&format!("to:{}", path("file/below"))), "{run}");
    scene.mkdir("dst/a/x");
    let run = between(&scene, &["copy"], "src/a", "dst/").run().expect_code(1);
    assert!(said(&run).starts_with(&format!("to:{}: ", path("dst/a"))), "{run}");
    let run = between(&scene, &["copy"], "src/a", "new").run().expect_ok();
    assert!(run.out().starts_with("copied 1 file, 1 B"), "{run}");
    let run = between(&scene, &["copy", "--via", "tcp"], "src/a", "no").run().expect_code(3);
    let words = "no direct connection to to: the host has no ssh connection";
    assert!(said(&run).starts_with(words), "{run}");
    let run = between(&scene, &["check"], "src/a", "new").run().expect_ok();
    assert!(run.out().starts_with("no difference"), "{run}");
}

#[test]
fn a_host_without_haul_is_named_with_the_way_that_there_is() {
    let world = World::new();
    for lacking in HOSTS {
        let mut scene = two_hosts(&world, lacking);
        scene.file("src/a", "a");
        let lines = format!(
            "[ $1 = {lacking} ] && {{ echo 'sh: haul: not found' >&2; exit 127; }}\nshift\nexec sh -c \"PATH=$PATH; $*\""
        );
        let rsh = script(&scene.path("lacking"), &lines);
        scene.reach_by(rsh);
        let dir = PathBuf::from(HAUL);
        let dir = dir.parent().expect("a directory").display().to_string();
        let path = format!("{dir}:{}", std::env::var("PATH").unwrap_or_default());
        let rsh = scene.path("lacking").display().to_string();
        let words =
            ["copy", "--rsh", &rsh, "--", &on(&scene, "from", "src/a"), &on(&scene, "to", "b")];
        let run = scene.haul().args(words).env("PATH", &path).run().expect_code(3);
        assert!(said(&run).contains(&format!("haul was not found on {lacking}")), "{run}");
        assert!(run.err().contains("copy to this machine first, then to to"), "{run}");
        assert!(!scene.exists("b"));
    }
    let scene = world.scene_called("sftp", Way::Between);
    let run = scene.haul().args(["copy", "from:a", "sftp://to/b"]).run().expect_code(2);
    assert!(said(&run).contains("to: a copy between hosts needs haul on both"), "{run}");
}

#[test]
fn an_agent_that_dies_is_reported_and_the_same_words_continue() {
    let world = World::new();
    for host in HOSTS {
        let scene = two_hosts(&world, host);
        let running = in_the_middle(&scene, &[], "0");
        proc::signal(agent(&scene, host), Signal::KILL);
        let run = running.wait().expect("it ends");
        assert!(said(&run).contains(host), "{run}");
        assert_ne!(run.code, Some(0), "{run}");
        assert_goes_on(&scene);
    }
}

#[test]
fn an_agent_that_is_stopped_is_given_up() {
    let world = World::new();
    for host in HOSTS {
        let scene = two_hosts(&world, host);
        let running = in_the_middle(&scene, &["--timeout", "2"], "0");
        let stopped = agent(&scene, host);
        proc::signal(stopped, Signal::STOP);
        let run = running.wait().expect("it ends");
        assert_eq!(errors(&run), [format!("no data from {host} for 2 s")]);
        proc::signal(stopped, Signal::CONT);
        assert_goes_on(&scene);
    }
}

#[test]
fn a_tree_goes_through_here_and_that_is_reported_on_demand() {
    let world = World::new();
    let scene = two_hosts(&world, "tree");
    tree::many(scene.path("src/many"), 300, 4 << 10, 4, 1).expect("a tree");
    tree::random_file(scene.path("src/large"), 20 << 20, 2).expect("a file");
    for (via, words) in [("auto", &["-rv"][..]), ("ssh", &["-r", "--fast"])] {
        let words = [&["copy", "--via", via], words].concat();
        let run = between(&scene, &words, "src/.", via).run().expect_ok();
        let begin =
            "haul: contents go to to without direct connections: the host has no ssh connection";
        let is_told = run.err().lines().any(|said| said.starts_with(begin));
        assert_eq!(is_told, via == "auto", "{run}");
        assert_eq!(run.out().contains("through this machine"), via == "auto", "{run}");
        assert_same(&scene.snapshot("src"), &scene.snapshot(via));
    }
    let run = between(&scene, &["copy", "-r", "--json"], "src/.", "auto").run().expect_ok();
    assert!(run.out().contains("\"skipped\":301"), "{run}");
}

#[test]
fn a_signal_ends_all_three_and_says_what_is_kept() {
    let world = World::new();
    let scene = two_hosts(&world, "signal");
    let running = in_the_middle(&scene, &[], "0");
    running.signal(Signal::TERM);
    let run = running.wait().expect("it ends");
    assert_eq!(said(&run), "interrupted: a partial file of large is kept", "{run}");
    assert_goes_on(&scene);
}

#[test]
fn a_lost_connection_to_either_is_made_again() {
    let world = World::new();
    for host in HOSTS {
        let scene = two_hosts(&world, host);
        let running = in_the_middle(&scene, &["--retries", "2"], "2");
        proc::signal(agent(&scene, host), Signal::KILL);
        let run = running.wait().expect("it ends").expect_ok();
        assert!(run.err().contains("reconnecting in 1 s"), "{run}");
        assert!(run.err().contains("haul: reconnected"), "{run}");
        assert_large_arrived(&scene);
    }
}

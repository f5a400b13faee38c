//! Connections that stay after a command, and the next command that uses them.

use crate::common::*;
use haul_testkit::Haul;
use haul_testkit::haul::Outcome;
use haul_testkit::wait::holds_within;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// `haul` with its sockets in a directory of the scene.
fn haul(scene: &Scene<'_>) -> Haul {
    scene.haul().env("XDG_RUNTIME_DIR", scene.runtime())
}

/// A copy that keeps its connection.
fn copy(scene: &Scene<'_>, name: &str, words: &[&str]) -> Outcome {
    let copy = scene.copy(words, &[name], format!("to-{name}"));
    copy.env("XDG_RUNTIME_DIR", scene.runtime()).run().expect_ok()
}

/// The kept connections, as JSON.
fn kept(scene: &Scene<'_>) -> Vec<serde_json::Value> {
    let run = haul(scene).args(["keep", "--json"]).run().expect_ok();
    run.out().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// True once all connections to the host have ended.
fn has_left(scene: &Scene<'_>) -> bool {
    holds_within(Duration::from_secs(10), || scene.sshd().sessions().is_empty())
}

/// The one agent on the host. The process of its last job may still be ending.
#[track_caller]
fn agent_of(scene: &Scene<'_>) -> u32 {
    let is_alone = || scene.sshd().agents().len() == 1;
    assert!(holds_within(Duration::from_secs(10), is_alone), "{:?}", scene.sshd().agents());
    scene.sshd().agents()[0]
}

fn holder(kept: &serde_json::Value) -> Pid {
    let id = kept["holder"].as_i64().expect("a process");
    Pid::from_raw(i32::try_from(id).expect("a process id")).expect("not 0")
}

#[test]
fn the_next_command_needs_no_login() {
    for way in Way::REMOTE {
        let world = World::new();
        let scene = &world.scene(way);
        scene.file("a", "content");
        scene.file("b", "another");
        copy(scene, "a", &["--keep=60s"]);
        let [first] = &*kept(scene) else { panic!("one is kept") };
        assert_eq!(
            (first["host"].as_str(), first["used"].as_bool()),
            (Some("haul-test"), Some(false))
        );
        let agent = agent_of(scene);
        copy(scene, "b", &["--keep=60s"]);
        let there = scene.there(scene.path("a"));
        let listed = haul(scene).args(["ls", "--keep=60s"]).args(scene.remote()).arg(&there).run();
        assert!(listed.expect_ok().out().contains("a"));
        let hashed =
            haul(scene).args(["hash", "--keep=60s"]).args(scene.remote()).arg(&there).run();
        hashed.expect_ok();
        assert_eq!(scene.read("to-b"), "another");
        assert_eq!(agent_of(scene), agent, "the same process serves all");
        let shown = haul(scene).arg("keep").run().expect_ok();
        assert!(shown.out().starts_with("haul-test: kept for 0:"), "{shown}");
        let stopped = haul(scene).args(["keep", "stop", "haul-test"]).run().expect_ok();
        assert_eq!(stopped.out(), "haul-test: closed\n", "{stopped}");
        assert!(has_left(scene));
        assert!(kept(scene).is_empty());
    }
}

#[test]
fn a_connection_that_is_not_to_be_kept_is_not() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "content");
    copy(&scene, "a", &[]);
    copy(&scene, "a", &["--keep=0"]);
    assert!(kept(&scene).is_empty());
    assert!(has_left(&scene));
}

#[test]
fn a_kept_connection_ends_when_its_time_is_over() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "content");
    let run = scene.copy(&[], &["a"], "b").env("HAUL_KEEP", "3s");
    run.env("XDG_RUNTIME_DIR", scene.runtime()).run().expect_ok();
    assert_eq!(kept(&scene).len(), 1);
    assert!(has_left(&scene));
    assert!(kept(&scene).is_empty());
}

#[test]
fn a_job_that_fails_leaves_no_connection_and_an_entry_that_fails_does() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "content");
    let words = ["copy", "--keep", "a", "missing"];
    let dest = scene.there(scene.path("d/"));
    let run = haul(&scene).args(words).args(scene.remote()).arg(&dest).run().expect_code(1);
    assert!(run.err().contains("missing"), "{run}");
    assert_eq!(kept(&scene).len(), 1, "{run}");
    // The destination's directory is a file.
    let dest = scene.there(scene.path("a/x"));
    let run = haul(&scene).args(["copy", "--keep", "a"]).args(scene.remote()).arg(&dest).run();
    assert_ne!(run.code, Some(0), "{run}");
    assert!(kept(&scene).is_empty(), "{run}");
    assert!(has_left(&scene));
}

#[test]
fn what_ends_while_it_is_kept_is_made_again() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    for name in ["a", "b", "c", "d"] {
        scene.file(name, name);
    }
    // The connection is cut.
    copy(&scene, "a", &["--keep"]);
    let first = agent_of(&scene);
    scene.sshd().cut();
    copy(&scene, "b", &["--keep"]);
    let second = agent_of(&scene);
    assert_ne!(first, second);
    // The agent does not answer.
    let agent = Pid::from_raw(i32::try_from(second).expect("an id")).expect("not 0");
    kill_process(agent, Signal::STOP).expect("stopped");
    let begun = Instant::now();
    copy(&scene, "c", &["--keep"]);
    assert!(begun.elapsed() < Duration::from_secs(20));
    let _ = kill_process(agent, Signal::KILL);
    // The holder is killed, and leaves its socket.
    let [third] = &*kept(&scene) else { panic!("one is kept") };
    kill_process(holder(third), Signal::KILL).expect("killed");
    copy(&scene, "d", &["--keep"]);
    for name in ["a", "b", "c", "d"] {
        assert_eq!(scene.read(format!("to-{name}")), name);
    }
    assert_eq!(kept(&scene).len(), 1);
    haul(&scene).args(["keep", "stop"]).run().expect_ok();
    assert!(has_left(&scene));
}

#[test]
fn a_command_that_is_killed_ends_the_connection_that_it_has() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "a");
    scene.file("big", vec![7; 64 << 20]);
    copy(&scene, "a", &["--keep"]);
    let slow = scene.copy(&["--keep", "--bwlimit", "1m"], &["big"], "to-big");
    let slow = slow.env("XDG_RUNTIME_DIR", scene.runtime()).spawn().expect("started");
    let is_used = || kept(&scene).first().is_some_and(|kept| kept["used"] == true);
    assert!(holds_within(Duration::from_secs(10), is_used));
    // Another command at the same time has a connection of its own.
    scene.file("b", "b");
    copy(&scene, "b", &["--keep"]);
    assert_eq!(scene.read("to-b"), "b");
    slow.kill_group();
    drop(slow.wait());
    let is_over = || kept(&scene).iter().all(|kept| kept["used"] == false);
    assert!(holds_within(Duration::from_secs(10), is_over));
    haul(&scene).args(["keep", "stop"]).run().expect_ok();
    assert!(has_left(&scene));
    scene.file("c", "c");
    copy(&scene, "c", &["--keep=1s"]);
    assert_eq!(scene.read("to-c"), "c");
}

#[test]
fn only_its_user_reaches_a_kept_connection() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "content");
    copy(&scene, "a", &["--keep"]);
    let dir = scene.runtime().join("haul");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    let socket = fs::read_dir(&dir).expect("read").next().expect("one").expect("read").path();
    assert_eq!(mode(&socket), 0o600);
    // One who says nothing holds up nobody for long.
    let idle = UnixStream::connect(&socket).expect("connected");
    copy(&scene, "a", &["--keep", "--force"]);
    drop(idle);
    // Sockets in a directory that others may enter are not used.
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("opened");
    let before = agent_of(&scene);
    scene.file("b", "b");
    let copied = copy(&scene, "b", &["--keep"]);
    let shown = format!("is not kept: {}: permission denied", dir.display());
    assert!(copied.err().contains(&shown), "{copied}");
    assert_eq!(scene.read("to-b"), "b");
    assert_eq!(agent_of(&scene), before, "the other was not kept");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).expect("closed");
    haul(&scene).args(["keep", "stop"]).run().expect_ok();
    assert!(has_left(&scene));
}

#[test]
fn another_configuration_of_ssh_is_another_connection() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    let config = fs::read_to_string(scene.sshd().ssh_config()).expect("read");
    let (main, more) = (scene.path("config"), scene.path("more"));
    fs::write(&main, format!("Include {}\n", more.display())).expect("written");
    fs::write(&more, &config).expect("written");
    scene.file("a", "content");
    let rsh = format!("ssh -F {}", main.display());
    let run = |name: &str| {
        let remote = ["--rsh", &rsh, "--remote-haul", HAUL];
        let copy = scene.copy_by(&remote, &["--keep"], &["a"], name);
        copy.env("XDG_RUNTIME_DIR", scene.runtime()).run().expect_ok();
        kept(&scene).len()
    };
    assert_eq!((run("b"), run("c")), (1, 1));
    fs::write(&more, format!("{config}\n# changed\n")).expect("written");
    assert_eq!(run("d"), 2);
    haul(&scene).args(["keep", "stop"]).run().expect_ok();
    assert!(has_left(&scene));
}

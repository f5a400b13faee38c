//! Connections that stand, and through which nothing comes any more: exit code 3
//! soon, nothing half done, and the host free for the same command again. And
//! those that are only slow.

use crate::common::*;
use crate::transfer::{RATE, Transfer, is_whole_or_absent};
use haul_testkit::haul::Outcome;
use haul_testkit::odd::{Call, OddMount, Quirks};
use haul_testkit::proc::{self, Signal};
use haul_testkit::{Link, assert_same, holds_within, tree};
use std::fs;
use std::time::Duration;

/// How late a silence of two seconds may be noticed on a machine that has more to
/// do, and far from what TCP would take.
const LATE_MAX: Duration = Duration::from_secs(30);

/// Lengths of the parts of a journal, as documented, and where it says how many blocks
/// are durable.
const JOURNAL_HEADER: usize = 256;
const JOURNAL_RECORD: usize = 32;
const JOURNAL_SLOTS: [usize; 2] = [112, 176];

#[track_caller]
fn assert_silent(run: &Outcome) {
    assert_eq!(errors(run), ["no data from haul-test for 2 s"], "{run}");
    assert!(run.err().contains("--timeout SECONDS waits longer"), "{run}");
    assert!(run.usage.wall < LATE_MAX, "{run}");
}

#[test]
fn a_host_whose_agent_is_stopped_is_given_up() {
    each_remote_way(|scene| {
        let transfer = Transfer::start_with(scene, &["--timeout", "2"]);
        let agent = transfer.agent();
        proc::signal(agent, Signal::STOP);
        let (source, run) = transfer.end();
        assert_silent(&run.expect_code(3));
        proc::signal(agent, Signal::CONT);
        assert!(holds_within(LATE_MAX, || !proc::is_alive(agent)));
        is_whole_or_absent(scene, &source);
    });
}

#[test]
fn a_client_that_was_stopped_leaves_its_host_free_and_continues() {
    each_remote_way(|scene| {
        let transfer = Transfer::start_with(scene, &["--timeout", "2", "--retries", "3"]);
        let agent = transfer.agent();
        // ssh goes on, as it does where a laptop's lid is closed on haul alone.
        transfer.running.signal(Signal::STOP);
        // Until then it came slowly, and was no silence.
        transfer.let_go();
        assert!(holds_within(LATE_MAX, || !proc::is_alive(agent)), "it waits for its client");
        transfer.running.signal(Signal::CONT);
        let (source, run) = transfer.end();
        let run = run.expect_ok();
        assert!(run.err().contains("the host timed out"), "{run}");
        assert_same(&source, &scene.snapshot("there/tree"));
        assert_no_strays(&scene.path("there"));
    });
}

#[test]
fn the_lock_of_a_large_file_goes_with_its_silent_client() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    tree::random_file(scene.path("big"), 96 << 20, 1).expect("a file");
    let link = Link::to(scene.sshd()).expect("a link");
    link.limit(RATE);
    let remote = ["--rsh", &link.rsh(scene.sshd()), "--remote-haul", HAUL];
    let copy = || scene.copy_by(&remote, &["--timeout", "2", "--via", "ssh"], &["big"], "there/");
    let first = copy().spawn().expect("it starts");
    let journal = || {
        let names = fs::read_dir(scene.path("there")).into_iter().flatten().flatten();
        let found = names
            .map(|entry| entry.path())
            .find(|path| path.extension() == Some("journal".as_ref()));
        found.and_then(|path| fs::read(path).ok()).unwrap_or_default()
    };
    let begun = || journal().len() > JOURNAL_HEADER + 3 * JOURNAL_RECORD;
    assert!(first.until(LATE_MAX, begun), "it does not come to its middle");
    first.signal(Signal::STOP);
    let agents = || scene.sshd().agents();
    assert!(holds_within(LATE_MAX, || agents().is_empty()), "it waits for its client");
    // What it has is durable: a cut of the power now would lose none of it.
    let journal = journal();
    let on_record = (journal.len() - JOURNAL_HEADER) / JOURNAL_RECORD;
    let committed = JOURNAL_SLOTS
        .map(|at| u64::from_le_bytes(journal[at..at + 8].try_into().expect("8 bytes")));
    assert!(committed.contains(&(on_record as u64)), "{committed:?} of {on_record} blocks");
    link.limit(0);
    copy().run().expect_ok();
    assert_same(&scene.snapshot("big"), &scene.snapshot("there/big"));
    first.kill_group();
    first.wait().expect("it ends");
}

/// haul as the host's, behind these pipes. What they start outlives them, and holds
/// the streams open.
fn through(scene: &Scene<'_>, name: &str, up: &str, down: &str) -> [std::ffi::OsString; 4] {
    let rsh =
        script(&scene.path(name), &format!("shift\n{{ {up}; }} | sh -c \"$*\" | {{ {down}; }}"));
    ["--rsh".into(), rsh.into(), "--remote-haul".into(), HAUL.into()]
}

#[test]
fn a_connection_that_falls_silent_at_any_byte_is_given_up() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    tree::many(scene.path("tree"), 20, 3000, 2, 1).expect("a tree");
    tree::random_file(scene.path("tree/large"), 3 << 20, 2).expect("a file");
    let source = scene.snapshot("tree");
    // Behind the greeting, within what follows it, and within contents. The tests of hostile
    // peers have each kind of job at each place.
    let places = [30, 400, 20_000];
    let silent = places.map(|bytes| format!("{}; sleep 50", first_bytes(bytes)));
    let verbs = ["upload", "download", "move", "check", "ls", "hash"];
    std::thread::scope(|scope| {
        for (at, verb) in verbs.into_iter().enumerate() {
            for (direction, is_up) in [("up", true), ("down", false)] {
                let (place, scene) = ((at + usize::from(is_up)) % places.len(), &scene);
                let silent = &silent[place];
                let (up, down) = if is_up { (&silent[..], "cat") } else { ("cat", &silent[..]) };
                let name = format!("{verb}-{direction}-{}", places[place]);
                scope.spawn(move || falls_silent(scene, verb, &name, up, down));
            }
        }
    });
    assert_same(&source, &scene.snapshot("tree"));
}

fn falls_silent(scene: &Scene<'_>, verb: &str, name: &str, up: &str, down: &str) {
    let there = |path: &str| scene.there(scene.path(path)).into_string().expect("text");
    let (to, mine) = (format!("to-{name}"), format!("mine-{name}"));
    scene.file(format!("{mine}/f"), vec![7; 100_000]);
    let words = match verb {
        "upload" => ["copy".into(), "-r".into(), "tree".into(), there(&to)],
        "download" => ["copy".into(), "-r".into(), there("tree"), to],
        "move" => ["move".into(), "-q".into(), there(&mine), to],
        "check" => ["check".into(), "-r".into(), "tree".into(), there("tree")],
        "ls" => ["ls".into(), "-l".into(), there("tree"), there("tree")],
        _ => ["hash".into(), there("tree/large"), there("tree/large"), there("tree/large")],
    };
    let remote = through(scene, &format!("rsh-{name}"), up, down);
    let haul = scene.haul().args(&words[..1]).args(remote).args(["--timeout", "2"]);
    let run = haul.args(&words[1..]).limit(LATE_MAX * 2).run();
    // What is small enough comes through.
    if run.code != Some(0) {
        assert_eq!(run.code, Some(3), "{name}: {run}");
        // The end of a connection is told once; a move also says what it means for it.
        let told = errors(&run).iter().filter(|line| !line.starts_with("the sources ")).count();
        assert_eq!(told, 1, "{name}: {run}");
    }
    assert!(run.usage.wall < LATE_MAX, "{name}: {run}");
}

#[test]
fn a_link_that_is_slow_is_not_silent() {
    // 50 KB/s, in both directions.
    const SLOW: &str = "while dd bs=5000 count=1 2> \"$0.$$.$1\" && \
        ! grep -q '^0+0 ' \"$0.$$.$1\"; do sleep 0.1; done";
    let world = World::new();
    let scene = world.scene(Way::Upload);
    tree::random_file(scene.path("large"), 250_000, 1).expect("a file");
    tree::many(scene.path("tree"), 20, 3000, 2, 2).expect("a tree");
    let slow = |end: &str| SLOW.replace("$1", end);
    std::thread::scope(|scope| {
        for what in ["large", "tree"] {
            for up in [true, false] {
                let (scene, slow) = (&scene, &slow);
                scope.spawn(move || {
                    let name = format!("{what}-{up}");
                    let script = format!("rsh-{name}");
                    let remote = through(scene, &script, &slow("up"), &slow("down"));
                    let there = scene.there(scene.path(if up { &name } else { what }));
                    let haul = scene.haul().args(["copy", "-r", "--timeout", "2"]).args(&remote);
                    let haul = match up {
                        true => haul.arg(what).arg(there),
                        false => haul.arg(there).arg(format!("got-{name}")),
                    };
                    haul.limit(LATE_MAX * 3).run().expect_ok();
                });
            }
        }
    });
    for name in ["large", "tree"] {
        for copy in [format!("{name}-true"), format!("got-{name}-false")] {
            assert_same(&scene.snapshot(name), &scene.snapshot(copy));
        }
    }
}

#[test]
fn a_host_that_is_at_work_for_long_is_not_silent() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    // Its disk takes longer for a single read than it may be silent.
    const TAKES: Duration = Duration::from_secs(4);
    let Some(disk) = OddMount::new(Quirks::default()) else { return };
    tree::random_file(disk.join("large"), 3 << 20, 1).expect("a file");
    disk.delay(Call::Read, TAKES, 1);
    let location = scene.there(disk.join("large"));
    let hash = scene.haul().args(["hash", "--timeout", "1"]).args(scene.remote()).arg(location);
    let run = hash.limit(LATE_MAX * 6).run().expect_ok();
    assert!(run.usage.wall > TAKES, "it was done too soon to tell: {run}");
}

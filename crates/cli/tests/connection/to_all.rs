//! One copy to several destinations: each gets the same, none waits for another, and what is
//! read here is read once.

use crate::common::*;
use haul_testkit::haul::{Haul, Outcome};
use haul_testkit::proc::Signal;
use haul_testkit::{holds_within, snapshot, tree};
use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time after which a run counts as hung.
const SOON: Duration = Duration::from_secs(60);

/// Bytes of the large file.
const LARGE: u64 = (40 << 20) + 1234;

fn scene(world: &World) -> Scene<'_> {
    let mut scene = world.scene(Way::Upload);
    // Each name is this machine, but for two: nothing listens where one is, and the other
    // never says a word.
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it").port();
    let lines = format!(
        "host=$1\nshift\ncase $host in\n\
         dead) exec {0} -p {port} haul-test \"$@\" ;;\n\
         silent) exec sleep 1000 ;;\n\
         *) exec {0} haul-test \"$@\" ;;\nesac",
        scene.sshd().rsh()
    );
    let rsh = script(&scene.path("rsh"), &lines);
    scene.reach_by(rsh);
    scene
}

fn make_source(scene: &Scene<'_>) {
    scene.mkdir("src/many");
    tree::random_file(scene.path("src/large"), LARGE, 1).expect("a file");
    tree::random_file(scene.path("src/middle"), 3 << 20, 2).expect("a file");
    tree::random_file(scene.path("src/block"), 4 << 20, 3).expect("a file");
    for at in 0..200 {
        scene.file(format!("src/many/{at}"), vec![at as u8; at * 40]);
    }
}

fn words(scene: &Scene<'_>, flags: &[&str], dests: &[&str]) -> Vec<OsString> {
    let place = |dest: &&str| match dest.split_once(':') {
        Some((host, path)) => format!("{host}:{}", scene.path(path).display()).into(),
        None => scene.path(dest).into_os_string(),
    };
    let flags = ["copy", "-r", "--to-all"].iter().chain(flags).map(OsString::from);
    let places = ["--".into(), "src".into()].into_iter().chain(dests.iter().map(place));
    flags.chain(scene.remote()).chain(places).collect()
}

fn copy(scene: &Scene<'_>, flags: &[&str], dests: &[&str]) -> Haul {
    scene.haul().args(words(scene, flags, dests))
}

#[track_caller]
fn assert_copied(scene: &Scene<'_>, dest: &str) {
    let differences = scene.snapshot("src").differences(&scene.snapshot(dest), scene.rules());
    assert_eq!(differences, [], "{dest}");
}

/// The line about `path`, of those on standard output.
#[track_caller]
fn outcome(run: &Outcome, path: &Path) -> String {
    let (out, ends) = (run.out(), format!("{}: ", path.display()));
    let mut lines = out.lines().filter_map(|line| line.split_once(&ends));
    let (_, outcome) = lines.next().unwrap_or_else(|| panic!("nothing of {path:?}\n{run}"));
    assert_eq!(lines.next(), None, "{run}");
    outcome.to_owned()
}

#[test]
fn each_destination_gets_the_same_and_has_a_line() {
    let world = World::new();
    let scene = scene(&world);
    make_source(&scene);
    let dests = ["one:a", "two:b", "three:c", "d"];
    for via in ["ssh", "auto"] {
        let run = copy(&scene, &["--via", via], &dests).run().expect_ok();
        assert_eq!(run.out().lines().count(), dests.len(), "{run}");
        for dest in ["a", "b", "c", "d"] {
            assert_copied(&scene, dest);
            let said = outcome(&run, &scene.path(dest));
            assert!(said.starts_with("copied 203 files, 47.8 MiB in "), "{run}");
        }
        let run = copy(&scene, &[], &dests).run().expect_ok();
        assert!(outcome(&run, &scene.path("c")).starts_with("copied nothing in "), "{run}");
        scene.clear(&["a", "b", "c", "d"]);
    }
}

#[test]
fn what_is_read_here_is_read_once() {
    let world = World::new();
    let scene = scene(&world);
    make_source(&scene);
    // A change that is just over may be followed by one at the same time.
    let changed = || fs::metadata(scene.path("src/many/199")).expect("it is there");
    let settled = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time");
        now.as_millis() > changed().ctime() as u128 * 1000 + 3100
    };
    assert!(holds_within(SOON, settled));
    // What a process has read counts for the one that has waited for it.
    let count = "\"$@\"; code=$?; grep rchar /proc/$$/io >&2; exit $code";
    let read = |dests: &[String]| {
        let dests: Vec<&str> = dests.iter().map(String::as_str).collect();
        let args = words(&scene, &["--via", "tcp", "-q"], &dests);
        let run = scene.program("sh").args(["-c", count, "sh", HAUL]).args(args).run().expect_ok();
        let said = run.err();
        let bytes = said.split("rchar: ").nth(1).and_then(|rest| rest.trim().parse::<u64>().ok());
        bytes.unwrap_or_else(|| panic!("{run}"))
    };
    let content = LARGE + (7 << 20);
    let one = read(&["one:a".to_owned()]);
    assert!(one > content);
    // A job that other tests slow down reads on its own, so that it delays nobody.
    let is_read_once = |nth| {
        let [b, c, d] = ["b", "c", "d"].map(|name| format!("{name}{nth}"));
        let dests = [("one", &b), ("two", &c), ("three", &d)];
        let three = read(&dests.map(|(host, dest)| format!("{host}:{dest}")));
        [b, c, d].iter().for_each(|dest| assert_copied(&scene, dest));
        eprintln!("{three} bytes were read of {content}, and {one} by one job");
        three < one + (4 << 20)
    };
    assert!((0..5).any(is_read_once));
}

#[test]
fn a_dead_host_and_a_silent_one_hold_up_nobody() {
    let world = World::new();
    let scene = scene(&world);
    make_source(&scene);
    let dests = ["dead:x", "silent:y", "one:a", "two:b"];
    let running = copy(&scene, &[], &dests).spawn().expect("it starts");
    let source = scene.snapshot("src");
    let is_whole = |dest: &str| {
        // Something may be renamed while it is looked at.
        let found = snapshot(scene.path(dest));
        found.is_ok_and(|found| source.differences(&found, scene.rules()).is_empty())
    };
    assert!(running.until(SOON, || is_whole("a") && is_whole("b")));
    // A Ctrl-C may be ignored where the tests were started.
    running.signal_group(Signal::TERM);
    let run = running.wait().expect("it ends").expect_code(130);
    let errors = errors(&run);
    assert_eq!(errors.len(), 2, "{run}");
    let dead = errors.iter().find(|error| error.starts_with("dead:")).expect("it is told");
    assert!(dead.contains("x: failed: ") && dead.contains("dead"), "{run}");
    let silent = errors.iter().find(|error| error.starts_with("silent:")).expect("it is told");
    assert!(silent.ends_with("y: interrupted"), "{run}");
}

#[test]
fn the_worst_end_decides_the_code_and_each_is_reported_in_json() {
    let world = World::new();
    let scene = scene(&world);
    make_source(&scene);
    scene.file("in-the-way", "x");
    let dests = ["one:a", "dead:x"];
    let run = copy(&scene, &["--json"], &dests).run().expect_code(3);
    let out = run.out();
    let lines: Vec<&str> = out.lines().collect();
    let a = format!(",\"dest\":\"one:{}\"}}", scene.path("a").display());
    let x = format!(",\"dest\":\"dead:{}\"}}", scene.path("x").display());
    let start = lines.first().expect("a line");
    assert!(start.contains(",\"dests\":[\"one:") && !start.contains("\"dest\":"), "{run}");
    let ends: Vec<_> =
        lines.iter().filter(|line| line.contains("\"type\":\"destination\"")).collect();
    assert_eq!(ends.len(), 2, "{run}");
    let end = |of: &str| {
        let dest = of.trim_matches([',', '}']);
        ends.iter().find(|line| line.contains(dest)).expect("it is told")
    };
    assert!(end(&a).contains("\"copied\":203,") && end(&a).contains("\"exit_code\":0,"), "{run}");
    assert!(end(&x).contains("\"message\":\"") && end(&x).contains("\"exit_code\":3,"), "{run}");
    let files = lines.iter().filter(|line| line.contains("\"type\":\"result\"")).count();
    let of_a =
        lines.iter().filter(|l| l.contains("\"type\":\"result\"") && l.ends_with(&a)).count();
    assert!(files == of_a && files >= 203, "{run}");
    let summary = lines.last().expect("a line");
    assert!(summary.starts_with("{\"type\":\"summary\",\"copied\":203,"), "{run}");
    assert!(summary.contains("\"exit_code\":3,"), "{run}");
    // A destination that can't be one is worse.
    let run = copy(&scene, &[], &["one:b", "dead:x", "two:in-the-way/"]).run().expect_code(4);
    assert_copied(&scene, "b");
    assert_eq!(errors(&run).len(), 2, "{run}");
}

#[test]
fn what_cannot_go_to_all_is_refused() {
    let world = World::new();
    let scene = scene(&world);
    make_source(&scene);
    run(std::process::Command::new("mkfifo").arg(scene.path("fifo")));
    let refused = |words: &[&str], said: &str| {
        let run = scene.haul().args(["copy", "--to-all"]).args(words).run().expect_code(2);
        assert!(errors(&run).concat().contains(said), "{said}\n{run}");
    };
    refused(&["src", "a", "b"], "--to-all needs a destination on a host");
    refused(&["one:src", "two:a"], "one:src: sources must be local");
    refused(&["src", "one:a", "two:a", "one:a"], "one:a: the destination is given twice");
    refused(&["fifo", "one:a", "two:a"], "fifo: a stream can be read only once");
}

#[test]
fn what_is_wrong_with_a_source_is_reported_once() {
    let world = World::new();
    let scene = scene(&world);
    scene.file("src/good", "good");
    scene.symlink("nowhere", "src/link");
    run(std::process::Command::new("mkfifo").arg(scene.path("src/fifo")));
    let run = copy(&scene, &["-L"], &["one:a", "two:b"]).run().expect_code(1);
    let said = run.err();
    assert_eq!(errors(&run).len(), 1, "{run}");
    assert_eq!(said.matches("src/fifo").count(), 1, "{run}");
    for dest in ["a", "b"] {
        let said = outcome(&run, &scene.path(dest));
        assert!(said.starts_with("copied 1 file, 4 B in ") && said.ends_with("failed 1"), "{run}");
    }
}

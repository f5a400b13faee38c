//! Output for scripts: one JSON object a line.

use crate::common::*;
use haul_testkit::haul::Outcome;
use haul_testkit::{Link, nasty};
use serde_json::Value;
use std::process::Command;

/// The objects of a run, by type.
#[track_caller]
fn objects(run: &Outcome) -> Vec<Value> {
    let lines = run.stdout.split_inclusive(|&byte| byte == b'\n');
    let objects = lines.map(|line| {
        assert_eq!(line.last(), Some(&b'\n'), "{run}");
        serde_json::from_slice(line).unwrap_or_else(|e| panic!("no JSON: {e}\n{run}"))
    });
    objects.collect()
}

fn of_type<'v>(objects: &'v [Value], kind: &str) -> Vec<&'v Value> {
    objects.iter().filter(|object| object["type"] == kind).collect()
}

/// `path outcome reason`, in order.
fn files(objects: &[Value]) -> Vec<String> {
    let word = |object: &Value, field: &str| object[field].as_str().unwrap_or("-").to_owned();
    let line = |object: &&Value| {
        ["path", "kind", "outcome", "reason"].map(|field| word(object, field)).join(" ")
    };
    let mut files: Vec<String> = of_type(objects, "result").iter().map(line).collect();
    files.sort();
    files
}

#[test]
fn a_copy_reports_its_start_every_entry_and_its_summary() {
    everywhere(|scene| {
        scene.file("tree/a", "12345");
        let same = scene.file("tree/same", "s");
        nasty::set_mtime(same, 100, 0).expect("a time");
        scene.symlink("a", "tree/link");
        run(Command::new("mkfifo").arg(scene.path("tree/fifo")));
        let same = scene.file("there/tree/same", "s");
        nasty::set_mtime(same, 100, 0).expect("a time");
        nasty::set_mtime(scene.path("there/tree"), 100, 0).expect("a time");
        let run = scene.copy(&["-r", "--json"], &["tree", "missing"], "there").run();
        let run = run.expect_code(1);
        assert_eq!(run.err(), "");
        let objects = objects(&run);

        let start = objects.first().expect("a start");
        assert_eq!((&start["type"], &start["schema"]), (&"start".into(), &1.into()));
        assert_eq!(start["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(start["dry_run"], false);
        let given = start["sources"].as_array().expect("a list");
        assert!(given[0].as_str().is_some_and(|path| path.ends_with("/tree")), "{start}");
        assert!(start["dest"].as_str().is_some_and(|path| path.ends_with("/there")), "{start}");

        assert_eq!(
            files(&objects),
            [
                "tree dir updated -",
                "tree/a file copied -",
                "tree/fifo special skipped special",
                "tree/link symlink copied -",
                "tree/same file skipped unchanged",
            ]
        );
        let a = objects.iter().find(|object| object["path"] == "tree/a").expect("its line");
        assert_eq!(a["size"], 5);
        let warnings = of_type(&objects, "warning");
        assert_eq!(warnings.len(), 1);
        assert_eq!(warnings[0]["path"], "tree/fifo");
        let errors = of_type(&objects, "error");
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0]["path"], scene.path("missing").display().to_string());
        assert_eq!(
            (&errors[0]["kind"], &errors[0]["side"]),
            (&"not_found".into(), &"source".into())
        );

        let summary = objects.last().expect("a summary");
        let figure = |field: &str| summary[field].as_u64();
        assert_eq!(summary["type"], "summary");
        let figures = ["copied", "dirs", "bytes", "skipped", "special", "failed", "exit_code"];
        let figures = figures.map(|field| figure(field).expect("a number"));
        assert_eq!(figures, [2, 0, 5, 1, 1, 1, 1], "{summary}");
        assert!(
            summary["seconds"].as_f64().is_some_and(|s| (0.0..100.0).contains(&s)),
            "{summary}"
        );
    });
}

#[test]
fn bytes_that_are_no_text_are_reported_in_full() {
    everywhere_by_pipe(|scene| {
        scene.file(os(b"tree/\xff\xfe"), "x");
        scene.file("tree/\u{9b}\"\\\n\u{1f980}", "x");
        let run = scene.copy(&["-r", "--json"], &["tree"], "copy").run().expect_ok();
        let objects = objects(&run);
        let files = of_type(&objects, "result");
        let raw = files.iter().find(|file| file["path_hex"].is_string()).expect("one with bytes");
        assert_eq!(raw["path"], "tree/\u{fffd}\u{fffd}");
        assert_eq!(raw["path_hex"], "747265652ffffe");
        // Escaped by the rules of JSON it reads as it is.
        assert!(files.iter().any(|file| file["path"] == "tree/\u{9b}\"\\\n\u{1f980}"), "{run}");
    });
}

#[test]
fn a_dry_run_says_that_it_is_one() {
    everywhere_by_pipe(|scene| {
        scene.file("tree/a", "x");
        let run = scene.copy(&["-rn", "--json"], &["tree"], "copy").run().expect_ok();
        let objects = objects(&run);
        assert_eq!(objects[0]["dry_run"], true);
        assert_eq!(files(&objects), ["tree dir would_copy -", "tree/a file would_copy -"]);
        assert!(!scene.exists("copy"));
    });
}

#[test]
fn a_copy_that_ends_early_has_its_error_and_its_summary() {
    each_way_by_pipe(|scene| {
        scene.file("a", "x");
        for (dest, flags, kind, code) in
            [("no/such", &["--json"][..], "destination", 4), ("no", &["--json"], "usage", 2)]
        {
            let sources: &[&str] = if code == 2 { &["a", "missing"] } else { &["a"] };
            let run = scene.copy(flags, sources, dest).run().expect_code(code);
            assert_eq!(run.err(), "");
            let mut objects = objects(&run);
            objects.retain(|object| object["type"] != "progress");
            let types: Vec<_> = objects.iter().map(|object| &object["type"]).collect();
            assert_eq!(types, ["start", "error", "summary"], "{run}");
            assert_eq!(objects[1]["kind"], kind);
            assert_eq!(objects[2]["exit_code"], code);
        }
    });
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "x");
    let haul = scene.haul().args(["copy", "--json", "--rsh", "/nowhere/ssh", "a", "host:"]);
    let run = haul.run().expect_code(3);
    let objects = objects(&run);
    assert_eq!(objects[1]["kind"], "connection");
    assert!(objects[1]["hint"].is_string() && objects[1]["path"].is_null(), "{run}");
    assert_eq!(objects[2]["exit_code"], 3);
}

#[test]
fn a_long_copy_reports_how_far_it_is() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    haul_testkit::tree::random_file(scene.path("big"), 40 << 20, 1).expect("a file");
    let link = Link::to(world.sshd()).expect("a link");
    // It takes long enough.
    link.limit(32 << 20);
    let rsh = link.rsh(world.sshd());
    let flags = ["--json", "--via", "ssh"];
    let copy = scene.copy_by(&["--rsh", &rsh, "--remote-haul", HAUL], &flags, &["big"], "b");
    let run = copy.run().expect_ok();
    let objects = objects(&run);
    let progress = of_type(&objects, "progress");
    assert!(!progress.is_empty(), "{run}");
    let done: Vec<u64> =
        progress.iter().map(|p| p["bytes_done"].as_u64().expect("a number")).collect();
    assert!(done.is_sorted() && done.iter().all(|&bytes| bytes <= 40 << 20), "{done:?}");
    let last = progress[progress.len() - 1];
    assert_eq!((&last["bytes_total"], &last["listed_all"]), (&(40 << 20).into(), &true.into()));
}

#[test]
fn what_waits_for_a_connection_is_not_done() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    haul_testkit::tree::random_file(scene.path("big"), 40 << 20, 1).expect("a file");
    // The link takes so much, stands still, and is lost.
    let stands = script(
        &scene.path("rsh"),
        "shift\n{ dd bs=64k count=30 2> /dev/null; sleep 2; } | sh -c \"$*\"",
    );
    let stands = stands.to_str().expect("UTF-8").to_owned();
    let flags = ["--json", "--via", "ssh", "--retries", "0"];
    let copy = scene.copy_by(&["--rsh", &stands, "--remote-haul", HAUL], &flags, &["big"], "b");
    let run = copy.run().expect_code(3);
    let objects = objects(&run);
    let done = |progress: &&serde_json::Value| progress["bytes_done"].as_u64().expect("a number");
    let most = of_type(&objects, "progress").iter().map(done).max();
    // Pipes on the way take some of it, too.
    assert!(most.is_some_and(|most| (1..4 << 20).contains(&most)), "{run}");
}

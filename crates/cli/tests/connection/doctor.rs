//! `haul doctor`.

use crate::common::*;
use haul_testkit::haul::Outcome;
use haul_testkit::{Haul, Link, Sshd, assert_same};
use std::net::TcpListener;
use std::path::Path;

/// The most that ssh moves, in bytes per second. Without a limit the measurement keeps the
/// machine busy, and shows nothing that this one doesn't.
const SSH_RATE: u64 = 16 << 20;

/// A link to the server, with that limit.
fn way_to(server: &Sshd) -> Link {
    let link = Link::to(server).expect("a link");
    link.limit(SSH_RATE);
    link
}

fn doctor(scene: &Scene<'_>, link: &Link, words: &[&str]) -> Haul {
    let rsh = link.rsh(scene.sshd());
    scene.haul().arg("doctor").args(["--rsh", &rsh, "--remote-haul", HAUL]).args(words)
}

/// Its findings, as the one line of JSON.
#[track_caller]
fn found(run: &Outcome) -> serde_json::Value {
    let out = run.out();
    let line = out.lines().last().unwrap_or_else(|| panic!("{run}"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {run}"))
}

/// The advice, in words for programs.
fn advice(found: &serde_json::Value) -> Vec<&str> {
    let advice = found["advice"].as_array().expect("a list");
    advice.iter().map(|one| one["advice"].as_str().expect("a word")).collect()
}

/// The table with a mark in place of each figure, and of what differs between machines.
fn redacted(table: &str) -> String {
    let table = table.replace(HAUL, "HAUL");
    let lines = table.lines().take_while(|line| !line.starts_with("- "));
    let redact = |line: &str| {
        let is_unit = |word| ["B/s", "KiB/s", "MiB/s", "GiB/s", "ms", "s"].contains(&word);
        let is_name = |word| ["cubic", "bbr", "reno"].contains(&word);
        let words: Vec<_> = line.split(' ').filter(|word| !word.is_empty()).collect();
        let redacted = words.iter().enumerate().map(|(at, word)| {
            let has_unit = words.get(at + 1).is_some_and(|next| is_unit(next));
            let is_figure = word.parse::<f64>().is_ok() && (word.contains('.') || has_unit);
            if is_figure || is_unit(word) || is_name(word) { "#" } else { word }
        });
        format!("{}\n", redacted.collect::<Vec<_>>().join(" "))
    };
    lines.map(redact).collect()
}

#[test]
fn the_table_shows_the_way_the_machines_and_the_disk_and_nothing_stays() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("dir/own", "own");
    let before = scene.snapshot("dir");
    let link = way_to(scene.sshd());
    let dir = scene.there(scene.path("dir"));
    let dir = dir.to_str().expect("text");
    // Both at the same time: most of it is waiting.
    let both = [&[dir][..], &["--json", dir]].map(|words| doctor(&scene, &link, words));
    let both = both.map(|doctor| doctor.spawn().expect("it starts"));
    let [run, json] = both.map(|running| running.wait().expect("it ends").expect_ok());
    let table = redacted(&run.out().replace(&scene.path("dir").display().to_string(), "DIR"));
    insta::assert_snapshot!(table);
    assert_same(&before, &scene.snapshot("dir"));
    let lines = run.out();
    assert!(lines.lines().any(|line| line.starts_with("- ")), "it advises something: {run}");

    let (run, found) = (&json, found(&json));
    assert_eq!((&found["type"], &found["host"]), (&"doctor".into(), &"haul-test".into()));
    assert_eq!(found["haul"]["path"], HAUL);
    assert_eq!(found["direct"], true);
    let rates = found["rates"].as_array().expect("a list");
    let ways: Vec<_> = rates.iter().map(|rate| (&rate["via"], &rate["connections"])).collect();
    assert_eq!(
        ways,
        [("ssh", 1), ("tcp", 1), ("tcp", 2), ("tcp", 4)]
            .map(|(via, n)| (serde_json::Value::from(via), serde_json::Value::from(n)))
            .each_ref()
            .map(|(via, n)| (via, n))
    );
    for figure in rates.iter().flat_map(|rate| [&rate["up"], &rate["down"]]) {
        assert!(figure.as_u64().is_some_and(|rate| rate > 1 << 20), "{run}");
    }
    for machine in [&found["here"], &found["there"]] {
        for name in ["blake3", "aes_256_gcm", "chacha20_poly1305"] {
            assert!(machine[name].as_u64().is_some_and(|rate| rate > 1 << 20), "{name}: {run}");
        }
    }
    // As the server has it, whose title tells it.
    assert_eq!(found["max_startups"], serde_json::json!({ "begin": 1000, "full": 1000 }));
    for name in ["write", "read"] {
        assert!(found["disk"][name].as_u64().is_some_and(|rate| rate > 0), "{name}: {run}");
    }
    for name in ["login_seconds", "round_trip_seconds"] {
        assert!(found[name].as_f64().is_some_and(|time| time > 0.0 && time < 60.0), "{run}");
    }
    assert_eq!(found["exit_code"], 0);
    assert_same(&before, &scene.snapshot("dir"));
}

#[test]
fn a_port_that_cant_be_had_is_named_and_ssh_is_measured() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let link = way_to(scene.sshd());
    let run = doctor(&scene, &link, &["--json", "--port-range", &port, "haul-test"]).run();
    let run = run.expect_ok();
    let found = found(&run);
    assert_eq!(found["direct"], false);
    assert!(
        found["direct_reason"].as_str().is_some_and(|r| r.contains("can't open a port")),
        "{run}"
    );
    assert_eq!(found["rates"].as_array().map(Vec::len), Some(1), "{run}");
    assert!(advice(&found).contains(&"other_ports"), "{run}");
    assert!(found.get("disk").is_none(), "no disk was named: {run}");
}

#[test]
fn a_place_where_nothing_can_be_written_is_an_error_and_the_rest_is_reported() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    let file = scene.file("file", "own");
    // Without a port it is sooner done.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let link = way_to(scene.sshd());
    // Nobody can make a file in /proc, and there is no room.
    let cases = [
        (
            Path::new("/proc"),
            "not enough free space to measure it",
            "name a directory with 64 MiB of free space",
        ),
        (&file, "not a directory", "name an existing directory; nothing is left in it"),
        (
            Path::new("/nonexistent/dir"),
            "no such file",
            "name an existing directory; nothing is left in it",
        ),
    ];
    // All at the same time: most of it is waiting.
    let all = cases.map(|(path, said, hint)| {
        let there = scene.there(path);
        let there = there.to_str().expect("text");
        let running = doctor(&scene, &link, &["--port-range", &port, there]).spawn();
        (running.expect("it starts"), path, said, hint)
    });
    for (running, path, said, hint) in all {
        let run = running.wait().expect("it ends").expect_code(1);
        assert_one_error(&run, &path.display().to_string(), "", hint);
        assert!(run.err().to_lowercase().contains(said), "{run}");
        assert!(run.out().contains("BLAKE3"), "{run}");
    }
    assert_eq!(scene.read("file"), "own");
}

#[test]
fn a_host_without_haul_is_reported_and_haul_is_advised() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    if ["/usr/local/bin/haul", "/opt/homebrew/bin/haul"].iter().any(|p| Path::new(p).exists()) {
        haul_testkit::fixture::skip("this machine has haul in a usual place");
        return;
    }
    let home = scene.mkdir("home").display().to_string();
    let builder = Sshd::builder().env("PATH", "/usr/bin:/bin").env("HOME", home);
    let server = builder.start().expect("sshd starts");
    let asked = |words: &[&str]| {
        scene.haul().arg("doctor").args(["--rsh", &server.rsh()]).args(words).run()
    };
    let run = asked(&["haul-test:dir"]).expect_code(1);
    let out = run.out();
    assert!(out.contains("haul there    none; SFTP answers"), "{run}");
    assert!(out.contains("round trip"), "{run}");
    assert!(out.contains("haul deploy haul-test"), "{run}");
    let run = asked(&["--json", "haul-test"]).expect_code(1);
    let found = found(&run);
    assert_eq!(advice(&found), ["deploy"]);
    assert!(found.get("haul").is_none() && found["exit_code"] == 1, "{run}");
    // Who asks for haul means no other.
    asked(&["--transport", "haul", "haul-test"]).expect_code(3);
}

#[test]
fn words_that_name_no_host_are_refused() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    for words in [&["/srv"][..], &["./a"], &[""], &["-x"], &["--port-range", "9-1", "h"]] {
        scene.haul().arg("doctor").args(words).run().expect_code(2);
    }
}

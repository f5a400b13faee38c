//! Copies, moves and checks through a host's SFTP server.

use crate::common::*;
use crate::without_haul::bare;
use crate::{by_sftp, copy, each_remote_way_by_pipe, rules, strays, summary};
use haul_testkit::haul::Outcome;
use haul_testkit::{Sshd, assert_same_with, nasty, tree};
use std::fs;

/// Two files with their times, and a directory that gets them.
fn two_files(scene: &Scene<'_>) {
    scene.file("a", "new a");
    scene.file("b", "new b");
    scene.file("to/a", "old");
    nasty::set_mtime(scene.path("a"), 1_500_000_000, 999_999_999).expect("a time");
    nasty::set_mtime(scene.path("b"), 1_500_000_000, 1).expect("a time");
}

fn events(run: &Outcome, kind: &str) -> Vec<serde_json::Value> {
    let out = run.out();
    let all =
        out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    all.filter(|event| event["type"] == kind).collect()
}

#[test]
fn a_tree_arrives_as_it_is_and_is_unchanged_the_next_time() {
    each_remote_way_by_pipe(|scene| {
        tree::sizes(scene.path("tree"), 5).expect("made");
        scene.file(os(b"tree/odd\xff\n"), "odd");
        scene.mkdir("tree/hollow");
        scene.symlink("nowhere", "tree/dangling");
        mode(scene.file("tree/one/closed", "x"), 0o400);
        mode(scene.path("tree/one"), 0o555);
        let run = copy(scene, &["-r"], &["tree"], "to").run().expect_ok();
        assert_eq!(run.err(), "", "{run}");
        assert_same_with(&scene.snapshot("tree"), &scene.snapshot("to"), rules());
        let run = copy(scene, &["-r", "--json"], &["tree/."], "to").run().expect_ok();
        let summary = summary(&run);
        assert_eq!((&summary["copied"], &summary["moved"]), (&0.into(), &0.into()), "{run}");
        assert_eq!(strays(&scene.path("to")), [""; 0].map(std::path::PathBuf::from));
    });
}

#[test]
fn without_haul_there_one_line_reports_what_would_be_faster() {
    let world = World::new();
    let up = world.scene(Way::Upload);
    let Some(server) = bare(&up, Sshd::builder()) else { return };
    let down = world.scene(Way::Download);
    for scene in [&up, &down] {
        scene.file("tree/a", "abc");
        scene.file("tree/dir/b", "def");
        let words = ["--rsh", &server.rsh()];
        let run = scene.copy_by(&words, &["-r"], &["tree"], "to").run().expect_ok();
        assert_same_with(&scene.snapshot("tree"), &scene.snapshot("to"), rules());
        let told: Vec<String> =
            run.err().lines().filter(|l| !l.starts_with("ssh: ")).map(str::to_owned).collect();
        assert_eq!(told.len(), 1, "{run}");
        assert!(told[0].starts_with("haul: warning: haul-test: no haul there"), "{run}");
        assert!(told[0].contains("'haul deploy haul-test'"), "{run}");
        let run = scene.copy_by(&words, &["-r", "--json"], &["tree/."], "to").run().expect_ok();
        assert_eq!(events(&run, "warning").len(), 1, "{run}");
        // What the configuration says of haul is no obstacle, but a word is.
        let run = scene.copy_by(&words, &["-r"], &["tree"], "set");
        let run = run.env("HAUL_COMPRESS", "lz4").env("HAUL_VIA", "tcp");
        run.env("HAUL_PORT_RANGE", "7000-7009").run().expect_ok();
        let typed = scene.copy_by(&words, &["-r", "--compress", "lz4"], &["tree"], "typed");
        let typed = typed.run().expect_code(2);
        assert!(
            typed.err().contains("SFTP can't compress: enable compression in ssh instead"),
            "{typed}"
        );
        let words = ["--rsh", &server.rsh(), "--transport", "haul"];
        let run = scene.copy_by(&words, &["-r"], &["tree"], "other").run().expect_code(3);
        assert_eq!(errors(&run), ["haul was not found on haul-test"], "{run}");
        assert!(!scene.exists("other"));
    }
    // A move is two jobs, and told once.
    let run = up.haul().args(["move", "--rsh", &server.rsh(), "tree"]);
    let run = run.arg(up.there(up.path("moved"))).run().expect_ok();
    assert!(!up.exists("tree") && up.read("moved/dir/b") == "def", "{run}");
    assert_eq!(run.err().matches("no haul there").count(), 1, "{run}");
}

#[test]
fn a_url_says_sftp_and_leads_there() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "abc");
    let url = |name: &str| format!("sftp://haul-test{}", scene.path(name).display());
    let rsh = scene.sshd().rsh();
    let run = |from: &str, to: &str| {
        let run = scene.haul().args(["copy", "--rsh", &rsh, from, to]).run().expect_ok();
        assert_eq!(run.err(), "", "{run}");
    };
    run("a", &url("b"));
    run(&url("b"), "c");
    assert_eq!((scene.read("b"), scene.read("c")), ("abc".into(), "abc".into()));
    let neither = scene.haul().args(["copy", "--transport", "haul", "a", &url("d")]).run();
    neither.expect_code(2);
    let through = scene.haul().args(["copy", "--rsh", &rsh, &url("a"), &url("d")]).run();
    assert!(!scene.exists("d"), "{through}");
    through.expect_code(2);
}

#[test]
fn several_connections_carry_one_file() {
    each_remote_way_by_pipe(|scene| {
        // Over several sessions a file is cut where blocks end.
        for (name, len) in [("large", (30 << 20) + 5), ("block", 4 << 20), ("more", (64 << 20) + 1)]
        {
            tree::random_file(scene.path("tree").join(name), len, len).unwrap_or_else(|_| {
                scene.mkdir("tree");
                tree::random_file(scene.path("tree").join(name), len, len).expect("made");
            });
        }
        scene.file("tree/small", "small");
        let run = copy(scene, &["-r", "--parallel", "3", "-V"], &["tree"], "to").run().expect_ok();
        assert_eq!(run.err(), "", "{run}");
        assert_same_with(&scene.snapshot("tree"), &scene.snapshot("to"), rules());
        assert_eq!(strays(&scene.path("to")).len(), 0);
    });
}

#[test]
fn what_is_replaced_is_what_the_flags_say() {
    let ways = [Way::SftpUpload, Way::SftpDownload];
    each_of(
        &ways,
        |scene| scene.reach_by_pipe(),
        |scene| {
            for (flags, a, copied) in [
                (&["--no-clobber"][..], "old", 1),
                (&["-u"], "old", 1),
                (&[], "new a", 2),
                (&["-V"], "new a", 2),
                (&["--sync"], "new a", 2),
                (&["--sync", "-V"], "new a", 2),
            ] {
                two_files(scene);
                let flags = [flags, &["--json"]].concat();
                let run = scene.copy(&flags, &["a", "b"], "to").run().expect_ok();
                assert_eq!(scene.read("to/a"), a, "{flags:?}: {run}");
                assert_eq!(scene.read("to/b"), "new b");
                assert_eq!(summary(&run)["copied"], copied, "{flags:?}: {run}");
                let warnings = events(&run, "warning").len();
                let is_told = flags.contains(&"--sync") && scene.way == Way::SftpUpload;
                assert_eq!(warnings, usize::from(is_told), "{flags:?}: {run}");
                // The same once more changes nothing, but by force.
                let again = scene.copy(&flags, &["b"], "to").run().expect_ok();
                assert_eq!(summary(&again)["copied"], 0, "{again}");
                let force = scene.copy(&["--force", "--json"], &["b"], "to").run().expect_ok();
                assert_eq!(summary(&force)["copied"], 1, "{force}");
                fs::remove_dir_all(scene.path("to")).expect("removed");
            }
            assert_eq!(strays(&scene.path("")).len(), 0);
        },
    );
}

#[test]
fn a_move_leaves_nothing_here_and_what_is_not_there_stays() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    let to = |name: &str, flags: &[&str]| {
        let haul = scene.haul().arg("move").args(flags).args(by_sftp(&scene));
        haul.arg(scene.path("tree")).arg(scene.there(scene.path(name)))
    };
    let a_tree = || {
        scene.file("tree/a", "aaaa");
        scene.file("tree/dir/large", vec![7; 5 << 20]);
        scene.mkdir("tree/hollow");
        scene.symlink("a", "tree/link");
    };
    a_tree();
    let before = scene.snapshot("tree");
    let run = to("moved", &[]).run().expect_ok();
    assert!(!scene.exists("tree"), "{run}");
    assert_same_with(&before, &scene.snapshot("moved"), rules());
    // What is to be kept there keeps what is here.
    a_tree();
    scene.file("kept/tree/a", "other");
    let run = to("kept", &["--no-clobber"]).run();
    assert_eq!((scene.read("tree/a"), scene.read("kept/tree/a")), ("aaaa".into(), "other".into()));
    assert!(!scene.exists("tree/dir") && scene.exists("kept/tree/dir/large"), "{run}");
    assert_eq!(strays(&scene.path("kept")).len(), 0);
}

#[test]
fn two_copies_of_the_same_tree_at_once_make_each_directory_together() {
    each_remote_way_by_pipe(|scene| {
        tree::many(scene.path("tree"), 300, 100, 150, 4).expect("made");
        scene.mkdir("to");
        let home = scene.mkdir("home");
        let haul = || copy(scene, &["-r"], &["tree"], "to/").home(&home);
        let both = [haul(), haul()].map(|haul| haul.spawn().expect("it starts"));
        for running in both {
            running.wait().expect("it ends").expect_ok();
        }
        let rules = rules().ignoring_dir_mtimes();
        assert_same_with(&scene.snapshot("tree"), &scene.snapshot("to/tree"), rules);
    });
}

#[test]
fn directories_far_down_get_their_modes_and_times() {
    /// More than are held open at a time, in each other and beside each other.
    const DEPTH: usize = 300;
    each_remote_way_by_pipe(|scene| {
        let mut dir = scene.path("tree");
        for level in 0..DEPTH {
            fs::create_dir_all(dir.join("beside")).expect("made");
            fs::write(dir.join("file"), "x").expect("written");
            dir.push("d");
            fs::create_dir(&dir).expect("made");
            mode(&dir, if level % 2 == 0 { 0o750 } else { 0o711 });
        }
        for (dir, secs) in dir.ancestors().take(DEPTH + 1).zip(1_600_000_000..) {
            nasty::set_mtime(dir, secs, 0).expect("a time");
        }
        let run = copy(scene, &["-r"], &["tree"], "to").run().expect_ok();
        assert_eq!(run.err(), "", "{run}");
        assert_same_with(&scene.snapshot("tree"), &scene.snapshot("to"), rules());
    });
}

#[test]
fn a_killed_job_continues_where_it_was_under_its_new_name() {
    let world = World::new();
    for way in Way::REMOTE {
        for command in ["copy", "move"] {
            let scene = world.scene_called(&format!("{way:?}-{command}"), way);
            haul_testkit::tree::many(scene.path("many"), 300, 20_000, 3, 7).expect("a tree");
            let before = scene.snapshot("many");
            let flags: &[&str] = if command == "copy" { &["-rq"] } else { &["-q"] };
            let words = || scene.transfer(command, &by_sftp(&scene), flags, &["many"], "bak");
            let running = words().spawn().expect("it starts");
            let soon = std::time::Duration::from_secs(30);
            running.until(soon, || scene.exists("bak") && !scene.list("bak").is_empty());
            running.signal(haul_testkit::proc::Signal::KILL);
            running.wait().expect("it ends");
            std::thread::sleep(std::time::Duration::from_millis(300));
            let run = words().run().expect_ok();
            let rules = rules().ignoring_dir_mtimes();
            assert_same_with(&before, &scene.snapshot("bak"), rules);
            assert_eq!(crate::strays(&scene.path("bak")).len(), 0, "{way:?} {command}: {run}");
            if command == "move" {
                assert!(!scene.exists("many"), "{run}");
            }
        }
    }
}

#[test]
fn no_source_replaces_what_another_has_brought() {
    each_remote_way_by_pipe(|scene| {
        scene.file("a/x", "first");
        scene.file("a/sub/y", "first");
        scene.file("b/x", "second");
        scene.file("b/sub/y", "the second");
        scene.file("b/sub/z", "other");
        nasty::set_mtime(scene.file("a/same", "same"), 1_500_000_000, 0).expect("a time");
        nasty::set_mtime(scene.file("b/same", "same"), 1_500_000_000, 0).expect("a time");
        for _ in 0..2 {
            let run = copy(scene, &["-r"], &["a/.", "b/."], "to/").run().expect_code(1);
            assert_eq!(
                run.err().matches("have the same destination: keeping the first").count(),
                2,
                "{run}"
            );
            let there = ["to/x", "to/sub/y", "to/sub/z", "to/same"].map(|path| scene.read(path));
            assert_eq!(there, ["first", "first", "other", "same"], "{run}");
        }
    });
}

#[test]
fn the_same_words_again_mean_the_same_place() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("many/a", "a");
    let run = |command: &str, flags: &[&str], source: &str| {
        let haul = scene.transfer(command, &by_sftp(&scene), flags, &[source], "bak");
        haul.env("XDG_STATE_HOME", scene.path("state")).run()
    };
    // One that would be made is none.
    run("copy", &["-rn"], "many").expect_ok();
    assert!(!scene.exists("state"));
    run("copy", &["-r"], "many").expect_ok();
    scene.file("many/b", "b");
    let checked = run("check", &["-r"], "many").expect_code(1);
    assert!(checked.out().contains("missing   many/b\n"), "{checked}");
    run("copy", &["-r"], "many").expect_ok();
    assert_eq!(scene.list("bak"), ["a", "b"]);
    run("check", &["-r"], "many").expect_ok();
    scene.file("many/c", "c");
    let moved = run("move", &[], "many").expect_ok();
    assert_eq!(
        (scene.list("bak"), scene.exists("many")),
        (list(&["a", "b", "c"]), false),
        "{moved}"
    );
    scene.file("many/d", "d");
    run("move", &[], "many").expect_ok();
    assert_eq!(scene.list("bak"), ["a", "b", "c", "d"]);
    // Other words mean a directory in it, and so does one without a record here.
    scene.file("other/many/e", "e");
    run("copy", &["-r"], "other/many").expect_ok();
    assert_eq!(scene.list("bak"), ["a", "b", "c", "d", "many", "many/e"]);
    scene.file("many/f", "f");
    fs::remove_dir_all(scene.path("state")).expect("removed");
    run("copy", &["-r"], "many").expect_ok();
    assert_eq!(scene.list("bak/many"), ["e", "f"]);
}

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn access_lists_stay_where_the_host_reports_none() {
    each_of(
        &[Way::SftpDownload],
        |scene| scene.reach_by_pipe(),
        |scene| {
            scene.file("src/d/f", "content");
            for (command, flags, source) in
                [("copy", ["-ra", "--json"], "src/."), ("sync", ["-aAX", "--json"], "src/")]
            {
                let copy = || scene.transfer(command, &scene.route(), &flags, &[source], "dst");
                copy().run();
                sh(scene, "setfacl -m u:1234:r dst/d/f; setfattr -n user.a -v b dst/d");
                let before = attributes(&scene.path("dst"));
                let run = copy().run().expect_ok();
                assert_eq!(attributes(&scene.path("dst")), before, "{command}");
                assert!(run.out().contains("\"updated\":0"), "{run}");
                scene.clear(&["dst"]);
            }
        },
    );
}

//! Most of a destination goes only when somebody at a terminal, if there is one, agrees.

use crate::common::*;
use haul_testkit::fixture;
use haul_testkit::haul::{Haul, Outcome};
use std::process::Command;

/// A source with 8 files, and a destination with 4 of them and so many others, half of
/// which are in a directory.
fn prepare(scene: &Scene<'_>, others: usize) {
    scene.clear(&["src", "dst"]);
    for at in 0..8 {
        scene.file(format!("src/d/file-{at}"), "new");
    }
    for at in 0..4 {
        scene.file(format!("dst/d/file-{at}"), "old content");
    }
    for at in 0..others {
        let dir = if at % 2 == 0 { "other/" } else { "" };
        scene.file(format!("dst/{dir}extra-{at}"), "x");
    }
}

fn sync(scene: &Scene<'_>, flags: &[&str]) -> Haul {
    scene.transfer("sync", &scene.route(), flags, &["src/"], "dst")
}

fn has_terminals() -> bool {
    let is_there = Command::new("script").arg("--version").output().is_ok();
    if !is_there {
        fixture::missing("`script`, which makes a terminal");
    }
    is_there
}

const ASKS: &str = "would be removed; continue? [y/N] ";

fn asked(run: &Outcome) -> bool {
    run.out().contains(ASKS)
}

#[test]
fn without_consent_nothing_is_changed() {
    if !has_terminals() {
        return;
    }
    everywhere_by_pipe(|scene| {
        prepare(scene, 10);
        let before = attributes(&scene.path("dst"));
        let whens = ["--delete", "--delete-before", "--delete-after"];
        let answers = ["n\n", "\n", "\u{4}"];
        let cases = whens.into_iter().flat_map(|when| answers.map(|answer| (when, answer)));
        for (when, answer) in scene.share(cases) {
            let run = sync(scene, &["-a", when]).on_terminal(answer).run().expect_code(25);
            // 10 files and their directory, beside one with 4.
            assert!(run.out().contains("haul: 11 of 16 entries in "), "{run}");
            assert!(run.out().contains("haul: cancelled: nothing was changed\r\n"), "{run}");
            assert!(run.out().contains("use -n to show what would be removed, --max-delete=N to limit it, or --yes to skip the question"), "{run}");
            assert_eq!(attributes(&scene.path("dst")), before);
        }
        let run = sync(scene, &["-ai", "--delete"]).on_terminal("y\n").run().expect_ok();
        assert!(asked(&run), "{run}");
        assert_eq!(run.out().matches("*deleting").count(), 11, "{run}");
        assert_eq!(scene.list("dst"), scene.list("src"));
        assert_eq!(scene.read("dst/d/file-0"), "new");
    });
}

#[test]
fn it_is_not_asked_where_there_is_no_need_or_nobody() {
    if !has_terminals() {
        return;
    }
    everywhere_by_pipe(|scene| {
        let goes = |others: usize, flags: &[&str]| {
            prepare(scene, others);
            let run = sync(scene, flags).on_terminal("").run().expect_ok();
            assert!(!asked(&run), "{flags:?}: {run}");
            run
        };
        goes(10, &["-a", "--delete", "--yes"]);
        assert_eq!(scene.list("dst"), scene.list("src"));
        goes(8, &["-a", "--delete"]);
        assert_eq!(scene.list("dst"), scene.list("src"));
        goes(10, &["-an", "--delete"]);
        goes(10, &["-a"]);
        assert!(scene.exists("dst/extra-1"));
        // It is no longer than the rest of the destination.
        prepare(scene, 10);
        for at in 0..12 {
            scene.file(format!("src/same-{at}"), "");
            scene.file(format!("dst/same-{at}"), "");
        }
        let run = sync(scene, &["-a", "--delete"]).on_terminal("").run().expect_ok();
        assert!(!asked(&run), "{run}");
        prepare(scene, 10);
        let run = sync(scene, &["-a", "--delete"]).stdin("n\n").run().expect_ok();
        assert!(!asked(&run) && !run.err().contains("would be removed"), "{run}");
        assert_eq!(scene.list("dst"), scene.list("src"));
    });
}

#[test]
fn what_rules_leave_out_does_not_count_and_what_is_asked_for_twice_is_reported_once() {
    if !has_terminals() {
        return;
    }
    each_way_by_pipe(|scene| {
        prepare(scene, 10);
        let flags = ["-a", "--delete", "--exclude=extra-*"];
        let run = sync(scene, &flags).on_terminal("").run().expect_ok();
        assert!(!asked(&run), "{run}");
        prepare(scene, 10);
        let flags = ["-a", "--delete", "--max-delete=3"];
        let run = sync(scene, &flags).on_terminal("").run().expect_code(25);
        assert!(!asked(&run), "{run}");
        prepare(scene, 12);
        // A warning of the first look is not repeated.
        sh(scene, "mkfifo src/pipe");
        let run = sync(scene, &["-rt", "--delete"]).on_terminal("y\n").run().expect_ok();
        assert!(asked(&run), "{run}");
        assert_eq!(run.out().matches("pipe").count(), 1, "{run}");
    });
}

#[test]
fn ctrl_c_ends_the_question() {
    if !has_terminals() {
        return;
    }
    let world = World::new();
    let scene = world.scene(Way::Local);
    prepare(&scene, 10);
    let before = attributes(&scene.path("dst"));
    // The key is pressed when the question is seen on the terminal. It has its meaning
    // even where the run was started in the background, and no shell stands between.
    let lines = format!(
        "(until grep -q 'y/N' ../terminal; do sleep 0.1; done; printf '\\003'; sleep 1) \\
         | script -qefc \"exec env --default-signal=INT '{HAUL}' sync -a --delete src/ dst\" \
         ../terminal"
    );
    scene.file("../terminal", "");
    let run = Haul::new("sh").args(["-c", &lines]).cwd(scene.path("")).run();
    let run = run.expect_code(20);
    assert!(asked(&run) && run.out().contains("haul: interrupted"), "{run}");
    assert_eq!(attributes(&scene.path("dst")), before);
}

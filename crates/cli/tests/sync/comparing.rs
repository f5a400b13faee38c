//! By what a file is known to be that of the source.

use crate::common::*;
use crate::oracle::Pair;
use haul_testkit::nasty;
use std::fs;

/// Trees in which contents and times tell different things.
fn prepare(scene: &Scene<'_>) {
    for tree in ["src", "dst"] {
        let _ = fs::remove_dir_all(scene.path(tree));
        for (name, content) in [
            ("same", "the same"),
            ("other-time", "the same, at another time"),
            ("other-mode", "the same with another mode"),
            ("empty", ""),
            ("d/same", "the same below"),
        ] {
            scene.file(format!("{tree}/{name}"), content);
        }
        scene.file(format!("{tree}/other-content"), format!("content of {tree}"));
        scene.file(format!("{tree}/large"), vec![tree.as_bytes()[0]; 3 << 20]);
        scene.file(
            format!("{tree}/other-length"),
            tree.repeat(tree.len() + tree.matches('d').count()),
        );
    }
    scene.file("src/missing", "missing");
    Pair::of(scene);
    for (name, time) in [
        ("src/other-content", 1_600_000_000),
        ("dst/other-content", 1_600_000_000),
        ("dst/other-time", 1_500_000_000),
        ("dst/empty", 1_400_000_000),
    ] {
        nasty::set_mtime(scene.path(name), time, 0).expect("a time");
    }
    mode(scene.path("dst/other-mode"), 0o600);
}

#[test]
fn contents_report_where_that_is_asked_for() {
    everywhere_by_pipe(|scene| {
        prepare(scene);
        let pair = Pair::with_times(scene);
        pair.run(&["-aicn"], &["src/"], "dst");
        pair.run(&["-aic"], &["src/"], "dst");
        pair.settles(&["-aic"], &["src/"], "dst");
    });
}

#[test]
fn nothing_is_sent_or_reported_of_what_has_the_same_content() {
    each_way_by_pipe(|scene| {
        scene.file("src/a", "content");
        scene.file("dst/a", "CONTENT");
        Pair::of(scene);
        fs::remove_file(scene.path("dst/a")).expect("removed");
        scene.file("dst/a", "content");
        let route = scene.route();
        let run = scene.transfer("sync", &route, &["-rci"], &["src/"], "dst").run().expect_ok();
        assert_eq!(run.out(), "", "{run}");
    });
}

#[test]
fn many_that_differ_are_all_sent() {
    each_way_by_pipe(|scene| {
        for at in 0..1500 {
            scene.file(format!("src/{at}"), format!("new {at}"));
            scene.file(format!("dst/{at}"), format!("old {at}"));
        }
        let route = scene.route();
        let run = scene.transfer("sync", &route, &["-rpc", "--stats"], &["src/"], "dst").run();
        assert!(run.expect_ok().out().contains("; 1,500 copied"));
        assert_eq!(scene.read("dst/1499"), "new 1499");
    });
}

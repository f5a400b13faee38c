//! Whatever is told is told once, and figures are those of the whole command.

use crate::common::*;
use crate::link::*;
use haul_testkit::{Link, assert_same, tree};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

const FILES: usize = 300;
const LEN: usize = 64 << 10;

/// A tree of files in directories, with links, and the number of its entries.
fn make_tree(scene: &Scene<'_>) -> usize {
    tree::many(scene.path("tree"), FILES as u64, LEN as u64, 10, 1).expect("a tree");
    for link in 0..20 {
        scene.symlink("nowhere", format!("tree/link-{link}"));
    }
    scene.list("tree").len() + 1
}

#[test]
fn a_copy_whose_connection_is_lost_continues_and_reports_each_entry_once() {
    each_remote_way(|scene| {
        let entries = make_tree(scene);
        let link = Link::to(scene.sshd()).expect("a link");
        link.limit(8 << 20);
        let copy = retrying(scene, &link, "copy", &["-r", "-v"], "tree", "new");
        let running = copy.spawn().expect("it starts");
        let mut cuts = 0;
        while cuts < 3 && wait_for(&running, &link, 3 << 20) {
            link.cut();
            cuts += 1;
        }
        let run = running.wait().expect("it ends").expect_ok();
        assert_eq!(cuts, 3, "it was done too soon: {run}");
        assert_eq!(told(&run), [3, 3], "{run}");
        assert_same(&scene.snapshot("tree"), &scene.snapshot("new"));
        let out = run.out();
        let lines: Vec<&str> = out.lines().filter(|line| line.starts_with("copied ")).collect();
        let (summary, lines) = lines.split_last().expect("lines");
        let once: BTreeSet<_> = lines.iter().collect();
        assert_eq!(once.len(), lines.len(), "told twice: {run}");
        assert_eq!(lines.len(), entries, "{run}");
        let files = FILES + 20;
        assert!(summary.starts_with(&format!("copied {files} files, 18.8 MiB in")), "{summary}");
        assert!(!summary.contains("skipped") && !summary.contains("already"), "{summary}");
    });
}

#[test]
fn progress_continues_from_where_it_was_and_events_come_once() {
    each_remote_way(|scene| {
        let entries = make_tree(scene);
        tree::random_file(scene.path("tree/zlarge"), 20 << 20, 3).expect("a file");
        // What is there already is told once as well.
        fs::create_dir_all(scene.path("there/tree")).expect("a directory");
        let kept = "tree/link-3";
        run(Command::new("cp").arg("-a").arg(scene.path(kept)).arg(scene.path("there/tree")));
        let link = Link::to(scene.sshd()).expect("a link");
        link.limit(12 << 20);
        let copy = retrying(scene, &link, "copy", &["-r", "--json"], "tree", "there/");
        let running = copy.spawn().expect("it starts");
        let mut cuts = 0;
        while cuts < 4 && wait_for(&running, &link, 7 << 20) {
            link.cut();
            cuts += 1;
        }
        let outcome = running.wait().expect("it ends").expect_ok();
        assert_eq!(cuts, 4, "it was done too soon: {outcome}");
        let run = &outcome;
        let lines: Vec<serde_json::Value> =
            run.out().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let of = |kind: &str| -> Vec<_> { lines.iter().filter(|l| l["type"] == kind).collect() };
        assert_eq!(of("connection_lost").len(), 4, "{run}");
        assert_eq!(of("connection_regained").len(), 4, "{run}");
        let paths: BTreeSet<_> = of("result").iter().map(|l| l["path"].to_string()).collect();
        assert_eq!(of("result").len(), paths.len(), "told twice: {run}");
        assert_eq!(paths.len(), entries + 1, "{run}");
        for field in ["files_done", "files_total", "bytes_done", "bytes_total"] {
            let values: Vec<_> = of("progress").iter().map(|l| l[field].as_u64()).collect();
            assert!(values.is_sorted(), "{field} goes back: {values:?}");
        }
        let all = (FILES * LEN + (20 << 20)) as u64;
        let last = of("progress").last().map(|l| l["bytes_done"].as_u64().expect("a number"));
        assert!(last.is_some_and(|done| done <= all), "{last:?} of {all}");
        let summary = of("summary")[0];
        assert_eq!(summary["copied"], FILES + 1 + 19, "{summary}");
        assert_eq!(summary["skipped"], 1, "{summary}");
        assert_eq!(summary["bytes"], all, "{summary}");
        assert_same(&scene.snapshot("tree"), &scene.snapshot("there/tree"));
    });
}

//! The plain lines of a copy.

use crate::common::*;
use haul_testkit::{Haul, Link, fixture, tree};
use std::process::Command;

/// The lines of standard output, the last one without its times.
fn lines(out: &str) -> Vec<String> {
    let mut lines: Vec<String> = out.lines().map(str::to_owned).collect();
    if let Some(last) = lines.last_mut()
        && let Some(start) = last.find(" in ")
    {
        let rest = last[start..].find(';').map_or("", |end| &last[start + end..]).to_owned();
        last.truncate(start);
        last.push_str(&rest);
    }
    lines
}

#[test]
fn a_copy_ends_with_a_line_that_sums_it_up() {
    each_way_by_pipe(|scene| {
        for n in 0..1200 {
            scene.file(format!("tree/{}/{n}", n % 3), "12345");
        }
        let run = scene.copy(&["-r"], &["tree"], "copy").run().expect_ok();
        assert_eq!(lines(&run.out()), ["copied 1,200 files, 5.9 KiB"]);
        assert!(run.out().trim_end().ends_with("B/s)"), "{run}");
        assert_eq!(run.err(), "");
        let again = scene.copy(&["-r"], &["tree/."], "copy").run().expect_ok();
        assert_eq!(lines(&again.out()), ["copied nothing; skipped 1,200"]);
        scene.mkdir("tree/empty");
        let again = scene.copy(&["-r"], &["tree/."], "copy").run().expect_ok();
        assert_eq!(lines(&again.out()), ["made 1 directory; skipped 1,200"]);
    });
}

#[test]
fn quiet_prints_nothing_when_all_goes_well() {
    everywhere(|scene| {
        scene.file("tree/a", "a");
        scene.symlink("a", "tree/link");
        run(Command::new("mkfifo").arg(scene.path("tree/fifo")));
        for _ in 0..2 {
            let run = scene.copy(&["-rq"], &["tree"], "there/").run().expect_ok();
            assert_eq!((run.out().as_str(), run.err().as_str()), ("", ""));
        }
        let run = scene.copy(&["-q"], &["tree"], "there").run().expect_code(1);
        assert_eq!(run.out(), "");
        let path = scene.path("tree").display().to_string();
        assert_one_error(&run, &path, "it is a directory", "use -r");
    });
}

#[test]
fn verbose_has_a_line_for_each_file() {
    everywhere_by_pipe(|scene| {
        scene.file("tree/sub/a", "a");
        scene.file("tree/b", "b");
        scene.symlink("b", "tree/link");
        let verbose = |flags| {
            let run = scene.copy(&[flags], &["tree"], "there/").run().expect_ok();
            assert_eq!(run.err(), "");
            let mut lines = lines(&run.out());
            let summary = lines.pop().expect("a summary");
            lines.sort();
            (lines, summary)
        };
        let (lines, summary) = verbose("-rv");
        assert_eq!(
            lines,
            [
                "copied tree/",
                "copied tree/b",
                "copied tree/link",
                "copied tree/sub/",
                "copied tree/sub/a"
            ]
        );
        assert_eq!(summary, "copied 3 files, 2 B");
        let (lines, summary) = verbose("-rv");
        assert!(lines.is_empty(), "{lines:?}");
        assert_eq!(summary, "copied nothing; skipped 3");
        let (lines, summary) = verbose("-rvv");
        assert_eq!(
            lines,
            [
                "skipped tree/b (unchanged)",
                "skipped tree/link (unchanged)",
                "skipped tree/sub/a (unchanged)"
            ]
        );
        assert_eq!(summary, "copied nothing; skipped 3");
        std::fs::remove_file(scene.path("there/tree/b")).expect("removed");
        scene.file("there/tree/b", "another one");
        let exists = scene.copy(&["-rvv", "--no-clobber"], &["tree"], "there").run().expect_ok();
        assert!(exists.out().contains("skipped tree/b (exists)\n"), "{exists}");
        let older = scene.copy(&["-rvvu"], &["tree"], "there").run().expect_ok();
        assert!(older.out().contains("skipped tree/b (not older than the source)\n"), "{older}");
    });
}

#[test]
fn a_renamed_tree_is_reported_under_its_own_name() {
    everywhere_by_pipe(|scene| {
        scene.file("tree/a", "a");
        let run = scene.copy(&["-rv"], &["tree"], "new-name").run().expect_ok();
        let out = run.out();
        let mut lines: Vec<&str> = out.lines().take(2).collect();
        // Several threads tell what became of entries, each when it knows.
        lines.sort_unstable();
        assert_eq!(lines, ["copied tree/", "copied tree/a"], "{run}");
        let run = scene.copy(&["-v"], &["tree/a"], "b").run().expect_ok();
        assert!(run.out().starts_with("copied a\n"), "{run}");
    });
}

#[test]
fn an_error_has_its_path_and_cause_and_a_hint_is_given_once() {
    each_way(|scene| {
        scene.file("one/x", "x");
        scene.file("two/x", "x");
        scene.file("a", "a");
        scene.mkdir("there");
        let run = scene.copy(&[], &["one", "a", "missing", "two"], "there").run().expect_code(1);
        let host = if scene.way == Way::Download { "haul-test:" } else { "" };
        let path = |name: &str| format!("{host}{}", scene.path(name).display());
        let left_out = |name| format!("haul: {}: it is a directory", path(name));
        assert_eq!(
            run.err().lines().collect::<Vec<_>>(),
            [
                left_out("one").as_str(),
                "  hint: use -r to copy directories",
                &format!("haul: {}: no such file or directory", path("missing")),
                &left_out("two"),
            ]
        );
        assert_eq!(lines(&run.out()), ["copied 1 file, 1 B; failed 3"]);
    });
}

#[test]
fn a_terminal_sees_how_far_it_is() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    if Command::new("script").arg("--version").output().is_err() {
        return fixture::missing("`script`, which makes a terminal");
    }
    tree::random_file(scene.path("big"), 40 << 20, 1).expect("a file");
    scene.mkdir("there");
    let link = Link::to(world.sshd()).expect("a link");
    // There is something to see.
    link.limit(32 << 20);
    let rsh = link.rsh(world.sshd());
    let (big, there) = (scene.path("big"), scene.path("there"));
    let words = format!(
        "'{HAUL}' copy --via ssh --rsh '{rsh}' --remote-haul '{HAUL}' missing '{}' 'haul-test:{}'",
        big.display(),
        there.display()
    );
    let script = |words: &str| {
        let terminal = Haul::new("script").args(["-qec", words, "/dev/null"]).env("TERM", "xterm");
        terminal.env("COLUMNS", "120").cwd(scene.path("")).run()
    };
    let run = script(&format!("stty rows 24 cols 120; {words}")).expect_code(1);
    let out = run.out();
    assert!(out.contains("haul: missing: no such file or directory\r\n"), "{run}");
    assert!(out.contains("%  1/1 files  ") || out.contains("%  0/1 files  "), "{run}");
    assert!(out.contains(" MiB/40.0 MiB  ") && out.contains("ETA 0:0"), "{run}");
    // What is left on the screen at last is the error and the summary.
    let last = out.lines().last().unwrap_or_default();
    let last = last.rsplit(['\r', '\x1b']).next().unwrap_or_default();
    assert!(last.contains("copied 1 file, 40.0 MiB in ") || out.contains("copied 1 file"), "{run}");
    let quiet = script(&words.replace(" copy ", " copy -q ")).expect_code(1);
    assert_eq!(quiet.out(), "haul: missing: no such file or directory\r\n");
}

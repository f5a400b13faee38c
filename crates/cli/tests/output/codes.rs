//! The exit codes.

use crate::common::*;
use haul_testkit::Haul;
use haul_testkit::proc::Signal;
use std::time::Duration;

#[test]
fn each_exit_code_means_what_the_table_says() {
    everywhere_by_pipe(|scene| {
        scene.file("a", "a");
        scene.file("tree/x", "x");
        scene.file("file", "f");
        scene.mkdir("there");
        for (flags, sources, dest, code) in [
            (&[][..], &["a"][..], "there", 0),
            (&[], &["a"], "there", 0),
            (&["-n"], &["a"], "elsewhere", 0),
            (&[], &["missing"], "there", 1),
            (&[], &["tree", "a"], "there", 1),
            (&["--no-such-flag"], &["a"], "there", 2),
            (&["-fu"], &["a"], "there", 2),
            (&[], &["a", "tree/x"], "file", 2),
            (&[], &["a"], "no/such/place", 4),
            (&[], &["a"], "file/", 4),
        ] {
            let run = scene.copy(flags, sources, dest).run();
            assert_eq!(run.code, Some(code), "{flags:?} {sources:?} {dest}\n{run}");
            assert_eq!(run.err().is_empty(), code == 0, "{run}");
        }
    });
}

#[test]
fn no_connection_is_3_and_an_interruption_130() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "a");
    let rsh = |lines| script(&scene.path("rsh"), lines);
    let broken = rsh("exit 255");
    for words in [&["copy", "a", "h:b"][..], &["copy", "h:a", "b"], &["ls", "h:"], &["hash", "h:a"]]
    {
        scene.haul().args(words).arg("--rsh").arg(&broken).run().expect_code(3);
    }
    let silent = rsh("exec sleep 60");
    let copy = scene.haul().args(["copy", "a", "h:b", "--rsh"]).arg(&silent);
    let running = copy.spawn().expect("it starts");
    let sleeps = || haul_testkit::proc::descendants(running.pid()).len() == 1;
    assert!(running.until(Duration::from_secs(20), sleeps));
    std::thread::sleep(Duration::from_millis(100));
    running.signal(Signal::INT);
    running.wait().expect("it ends").expect_code(130);
}

#[test]
fn an_error_of_one_host_does_not_keep_the_others_from_being_copied() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    scene.file("a", "a");
    scene.file("b", "b");
    scene.mkdir("there");
    let lines = "test \"$1\" = good || exit 255\nshift\nexec sh -c \"$*\"";
    let rsh = script(&scene.path("rsh"), lines);
    let haul = scene.haul().args(["copy", "--remote-haul", HAUL, "--rsh"]).arg(rsh);
    let location = |host: &str, path: &str| format!("{host}:{}", scene.path(path).display());
    let words = [location("bad", "a"), location("good", "b")];
    let run = haul.args(words).arg("there").run().expect_code(3);
    assert_eq!(scene.list("there"), ["b"], "{run}");
    assert_eq!(errors(&run).len(), 1, "{run}");
}

#[test]
fn output_that_cannot_be_written_is_an_error_and_the_copy_is_done() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("a", "a");
    for (n, words) in ["copy -v a", "copy --json a", "copy a"].into_iter().enumerate() {
        let dest = format!("b{n}");
        let command = format!("exec '{HAUL}' {words} {dest} >/dev/full");
        let run = Haul::new("sh").args(["-c", &command]).cwd(scene.path("")).run().expect_code(1);
        let error = "can't write to standard output: No space left on device";
        assert_eq!(errors(&run), [error], "{run}");
        assert_eq!(scene.read(dest), "a");
    }
    let mirrors = ["-i a m", "--json a m", "--list-only a m", "--stats a m", "-v --json a m"];
    let mirrors = mirrors.map(|words| (format!("sync -t {words}"), 23));
    let answers =
        ["check --json a b0", "ls -l .", "ls --json .", "stat a", "stat --json a", "hash --json a"];
    let others =
        ["clean .", "config", "config --json", "completions zsh", "--version", "help", "copy -h"];
    let others = [&answers[..], &others].concat().into_iter().map(|words| (words.to_owned(), 1));
    for (words, code) in mirrors.into_iter().chain(others) {
        for (stream, why) in [(">/dev/full", "No space left on device"), (">&-", "it is closed")] {
            let command = format!("exec '{HAUL}' {words} {stream}");
            let run = Haul::new("sh").args(["-c", &command]).cwd(scene.path("")).run();
            let run = run.expect_code(code);
            assert_eq!(errors(&run), [format!("can't write to standard output: {why}")], "{words}");
            let _ = std::fs::remove_file(scene.path("m"));
        }
    }
    let command = format!("exec '{HAUL}' copy -q a d >&-");
    Haul::new("sh").args(["-c", &command]).cwd(scene.path("")).run().expect_ok();
    // A reader that has seen enough is none.
    let command = format!("'{HAUL}' copy -v a c | true; '{HAUL}' ls / | true");
    let run = Haul::new("sh").args(["-c", &command]).cwd(scene.path("")).run().expect_ok();
    assert_eq!(run.err(), "");
    assert_eq!(scene.read("c"), "a");
}

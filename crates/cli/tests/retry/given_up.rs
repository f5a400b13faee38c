//! Failures that are not retried, and the end of retries.

use crate::common::*;
use crate::link::*;
use haul_testkit::haul::Outcome;
use haul_testkit::proc::Signal;
use haul_testkit::{Link, holds_within, tree};
use std::fs;
use std::time::{Duration, Instant};

#[test]
fn a_first_connection_that_fails_is_an_error_at_once() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("f", "1");
    let link = Link::to(scene.sshd()).expect("a link");
    link.take_down(true);
    let run = retrying(&scene, &link, "copy", &[], "f", "there/").run().expect_code(3);
    assert_eq!(told(&run), [0, 0], "{run}");
    assert!(run.err().starts_with("haul: can't reach haul-test: "), "{run}");
}

#[test]
fn without_retries_a_lost_connection_is_the_end() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    tree::random_file(scene.path("f"), 30 << 20, 1).expect("a file");
    let link = Link::to(scene.sshd()).expect("a link");
    link.limit(10 << 20);
    let copy = scene.copy_by(
        &through(&scene, &link),
        &["--retries", "0", "--via", "ssh"],
        &["f"],
        "there/",
    );
    let running = copy.env_remove("HAUL_RETRIES").spawn().expect("it starts");
    assert!(wait_for(&running, &link, 3 << 20));
    link.cut();
    let run = running.wait().expect("it ends").expect_code(3);
    assert_eq!(told(&run), [0, 0], "{run}");
}

#[test]
fn attempts_are_counted_until_the_job_comes_further() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    tree::random_file(scene.path("f"), 30 << 20, 1).expect("a file");
    let link = Link::to(scene.sshd()).expect("a link");
    link.limit(10 << 20);
    let flags = ["--retries", "2", "--via", "ssh"];
    let copy = scene.copy_by(&through(&scene, &link), &flags, &["f"], "there/");
    let running = copy.env_remove("HAUL_RETRIES").spawn().expect("it starts");
    assert!(wait_for(&running, &link, 3 << 20));
    link.take_down(true);
    link.cut();
    let begin = Instant::now();
    let run = running.wait().expect("it ends").expect_code(3);
    // One second before the first attempt, two before the second.
    assert!(begin.elapsed() >= Duration::from_secs(3), "{run}");
    assert_eq!(told(&run), [2, 0], "{run}");
    assert!(run.err().contains("reconnecting in 2 s (attempt 2)"), "{run}");
    let lost = "\nhaul: the connection to haul-test was lost: can't reconnect: ";
    assert!(run.err().contains(lost), "{run}");
    let hint = "  hint: run the same command again: finished files are skipped\n";
    assert!(run.err().ends_with(hint), "{run}");
}

/// A pattern is replaced before there is a job.
#[test]
fn a_question_before_a_job_is_given_up_as_a_job_is() {
    let world = World::new();
    let mut scene = world.scene(Way::Download);
    scene.file("src/f", "1");
    scene.mkdir("there");
    let calls = scene.path("calls");
    // The first connection ends behind the greeting, and there is no other.
    let lines = format!(
        "shift\necho >>{0}\n[ $(wc -l <{0}) = 1 ] || exit 255\n\
         sh -c \"$*\" | {{ {1}; kill $$; }}",
        calls.display(),
        first_bytes(60)
    );
    scene.reach_by(script(&scene.path("pipe"), &lines));
    let copy = |retries| {
        fs::write(&calls, "").expect("written");
        let flags = ["--json", "--retries", retries];
        let copy = scene.transfer("copy", &scene.route(), &flags, &["src/*"], "there");
        copy.env_remove("HAUL_RETRIES")
    };
    let types = |run: &Outcome| -> Vec<String> {
        let of = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
        run.out().lines().map(|line| of(line)["type"].as_str().expect("a type").into()).collect()
    };
    let run = copy("0").run().expect_code(3);
    assert_eq!(types(&run), ["start", "error", "summary"], "{run}");
    let run = copy("2").run().expect_code(3);
    let lost = "connection_lost";
    assert_eq!(types(&run), ["start", lost, lost, "error", "summary"], "{run}");
    let running = copy("9").spawn().expect("it starts");
    // One second before the second attempt, two before the third, then four.
    let attempts = || fs::read(&calls).expect("read").len();
    assert!(running.until(LONG, || attempts() == 3), "it does not connect again");
    let begin = Instant::now();
    running.signal(Signal::INT);
    let run = running.wait().expect("it ends").expect_code(130);
    assert!(begin.elapsed() < Duration::from_secs(3), "{run}");
    assert!(types(&run).ends_with(&["error".into(), "summary".into()]), "{run}");
    assert!(run.out().contains("interrupted"), "{run}");
}

/// Each connection brings more of a long listing, or none can be made any more.
#[test]
fn attempts_to_ask_again_are_counted_again_once_more_of_the_answer_has_come() {
    let world = World::new();
    let mut scene = world.scene(Way::Download);
    scene.mkdir("names/a");
    for number in 0..300 {
        for name in [&b"a-"[..], b"a.", b"a\xff", b"\xc3\xa9"] {
            let name = [name, number.to_string().as_bytes()].concat();
            fs::write(scene.path("names").join(os(&name)), "").expect("written");
        }
    }
    // Of the first $LOST connections each ends after $STEP bytes more than the one before. The
    // further ones are good, or can't be made.
    let lines = format!(
        "shift\necho >>$CALLS\ncall=$(wc -l <$CALLS)\n\
         [ $call -le $LOST ] || {{ [ $THEN = up ] && exec sh -c \"$*\"; exit 255; }}\n\
         sh -c \"$*\" | {{ {}; kill $$; }}",
        first_bytes("$((call * STEP))")
    );
    scene.reach_by(script(&scene.path("pipe"), &lines));
    let ask = |flags: &[&str], lost: u32, then: &str| {
        let calls = scene.path(format!("calls{}-{lost}", flags.concat()));
        let names = scene.there(scene.path("names"));
        let haul = scene.haul().arg("ls").args(scene.route()).args(flags).arg(names);
        let haul = haul.env("CALLS", calls).env("LOST", lost.to_string()).env("THEN", then);
        haul.env("STEP", "8000").env_remove("HAUL_RETRIES").run()
    };
    for how in ["--long", "--json"] {
        let whole = ask(&["--retries=1", how], 0, "up").expect_ok();
        let run = ask(&["--retries=1", how], 3, "up").expect_ok();
        let is_entry = |line: &&str| !line.contains(r#""type":"connection_"#);
        let entries = |run: &Outcome| run.out().lines().filter(is_entry).count();
        assert!(run.out().lines().filter(is_entry).eq(whole.out().lines()), "{run}");
        assert_eq!(entries(&run), 1201, "{run}");
        let lost = [run.out(), run.err()].concat();
        let firsts = ["(attempt 1)", r#""attempt":1"#].map(|words| lost.matches(words).count());
        assert_eq!(firsts.iter().sum::<usize>(), 3, "{run}");
    }
    let run = ask(&["--retries=2"], 1, "down").expect_code(3);
    assert_eq!(told(&run), [2, 0], "{run}");
    assert!(run.out().lines().count() > 10, "{run}");
    let lost = "\nhaul: the connection to haul-test was lost: can't reconnect: ";
    assert!(run.err().contains(lost), "{run}");
    // The hint does not speak of finished files.
    assert!(run.err().ends_with("  hint: run the same command again\n"), "{run}");
}

/// As in `haul ls HOST:DIR | head`: the reader has ended before the connection is lost.
#[test]
fn a_question_whose_answer_nobody_reads_is_not_asked_again() {
    let world = World::new();
    let mut scene = world.scene(Way::Download);
    tree::many(scene.path("names"), 300, 1, 1, 1).expect("a tree");
    let cut = format!("{{ {}; kill $$; }}", first_bytes(8000));
    let lines = format!("shift\necho >>calls\nsh -c \"$*\" | {cut}");
    scene.reach_by(script(&scene.path("pipe"), &lines));
    let unread = scene.program("sh").args(["-c", "{ \"$@\"; echo $? >code; } | true", "sh", HAUL]);
    let ls = unread.arg("ls").args(scene.route()).arg("--retries=2");
    let ls = ls.arg(scene.there(scene.path("names/*"))).env_remove("HAUL_RETRIES");
    let run = ls.run().expect_ok();
    assert_eq!(scene.read("code"), "0\n", "{run}");
    assert_eq!(scene.read("calls").lines().count(), 1, "{run}");
}

#[test]
fn ctrl_c_ends_a_pause_at_once() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    tree::random_file(scene.path("f"), 30 << 20, 1).expect("a file");
    let link = Link::to(scene.sshd()).expect("a link");
    link.limit(10 << 20);
    let running = retrying(&scene, &link, "copy", &[], "f", "there/").spawn().expect("it starts");
    assert!(wait_for(&running, &link, 3 << 20));
    link.take_down(true);
    link.cut();
    // Between the attempts at three and seven seconds is a long pause.
    std::thread::sleep(Duration::from_secs(4));
    let begin = Instant::now();
    running.signal(Signal::INT);
    assert!(holds_within(Duration::from_secs(2), || !running.is_running()), "it waits on");
    let run = running.wait().expect("it ends").expect_code(130);
    assert!(begin.elapsed() < Duration::from_secs(3), "{run}");
}

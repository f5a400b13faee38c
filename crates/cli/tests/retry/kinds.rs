//! Every kind of job that goes on by itself: what it leaves is what it would have left
//! without a cut.

use crate::common::*;
use crate::link::*;
use haul_testkit::{Link, assert_same, nasty, tree};
use std::ffi::OsString;
use std::fs;
use std::thread;

/// Runs `command` while its link is cut `cuts` times, each time after so many bytes.
fn cut_up(scene: &Scene<'_>, command: &str, flags: &[&str], names: [&str; 2]) -> String {
    let link = Link::to(scene.sshd()).expect("a link");
    link.limit(8 << 20);
    let running =
        retrying(scene, &link, command, flags, names[0], names[1]).spawn().expect("it starts");
    let mut cuts = 0;
    while cuts < 3 && wait_for(&running, &link, 2 << 20) {
        link.cut();
        cuts += 1;
    }
    let run = running.wait().expect("it ends").expect_ok();
    assert!(cuts >= 1, "it was done too soon: {run}");
    assert_eq!(told(&run)[0], cuts, "{run}");
    run.out()
}

#[test]
fn a_mirror_with_backups_keeps_what_was_there_before_the_command() {
    each_remote_way(|scene| {
        tree::many(scene.path("src/tree"), 200, 64 << 10, 10, 1).expect("a tree");
        tree::many(scene.path("there/tree"), 200, 100, 10, 2).expect("a tree");
        let old = scene.snapshot("there/tree");
        scene.file("there/extra/one", "extra");
        // A mirror compares times in whole seconds.
        for dir in ["src", "src/tree", "there", "there/tree"] {
            let seconds = if dir.starts_with("src") { 1_550_000_000 } else { 1_500_000_000 };
            nasty::set_mtime(scene.path(dir), seconds, 0).expect("a time");
        }
        let flags = ["-a", "-b", "-i", "--delete", "--backup-dir=../kept"];
        let out = cut_up(scene, "sync", &flags, ["src/", "there/"]);
        assert_same(&scene.snapshot("src"), &scene.snapshot("there"));
        // What was replaced is kept as it was, and nothing that this command has brought.
        for (path, facts) in old.files() {
            let kept = scene.path("kept/tree").join(os(path));
            let kept = fs::metadata(kept).map(|found| found.len());
            assert_eq!(kept.ok(), Some(facts.size), "{}", path.escape_ascii());
        }
        assert_eq!(scene.read("kept/extra/one"), "extra");
        let mut lines: Vec<&str> = out.lines().collect();
        let count = lines.len();
        lines.sort_unstable_by_key(|line| line.split(' ').next_back());
        lines.dedup_by_key(|line| line.split(' ').next_back());
        assert_eq!(lines.len(), count, "told twice: {out}");
    });
}

/// As if its file system were not mounted any more.
#[test]
fn a_source_that_is_another_directory_behind_a_cut_is_not_taken_for_the_first() {
    each_remote_way(|scene| {
        tree::many(scene.path("src"), 100, 64 << 10, 10, 1).expect("a tree");
        tree::many(scene.path("there"), 100, 100, 10, 2).expect("a tree");
        let before = scene.list("there").len();
        let link = Link::to(scene.sshd()).expect("a link");
        link.limit(4 << 20);
        for flags in [&["-a", "--delete"][..], &["-a"]] {
            let job = retrying(scene, &link, "sync", flags, "src/", "there/");
            let running = job.spawn().expect("it starts");
            assert!(wait_for(&running, &link, 1 << 20), "it was done too soon");
            fs::rename(scene.path("src"), scene.path("away")).expect("renamed");
            fs::create_dir(scene.path("src")).expect("a directory");
            link.cut();
            let run = running.wait().expect("it ends").expect_code(12);
            assert!(run.err().contains("the source is another directory"), "{run}");
            assert!(scene.list("there").len() >= before, "{run}");
            fs::remove_dir(scene.path("src")).expect("removed");
            fs::rename(scene.path("away"), scene.path("src")).expect("renamed");
        }
    });
}

#[test]
fn a_move_ends_with_all_at_its_new_place() {
    each_remote_way(|scene| {
        tree::many(scene.path("tree"), 200, 64 << 10, 10, 1).expect("a tree");
        let before = scene.snapshot("tree");
        let out = cut_up(scene, "move", &["-v"], ["tree", "new"]);
        assert_same(&before, &scene.snapshot("new"));
        assert!(!scene.exists("tree"), "{out}");
    });
}

/// A move logs in more than once: to ask, to copy, to ask again, and to remove.
#[test]
fn a_move_continues_whichever_of_its_logins_fails_behind_the_first() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    let link = Link::to(scene.sshd()).expect("a link");
    let (counts, real) = (scene.path("logins"), link.rsh(scene.sshd()));
    let shown = counts.display();
    let lines =
        format!("echo >>{shown}\n[ $(wc -l <{shown}) = 2 ] && exit 255\nexec {real} \"$@\"");
    let rsh = script(&scene.path("rsh"), &lines);
    let by = ["--rsh", &rsh.to_string_lossy(), "--remote-haul", HAUL].map(OsString::from);
    fs::create_dir_all(scene.path("there")).expect("a directory");
    // With the slash nobody has to ask before the copy.
    for dest in ["there", "there/"] {
        scene.file("f", dest);
        fs::write(&counts, "").expect("written");
        let run = scene.transfer("move", &by, &["--retries", "2", "--via", "ssh"], &["f"], dest);
        let run = run.env_remove("HAUL_RETRIES").run().expect_ok();
        assert_eq!(told(&run), [1, 1], "{run}");
        assert_eq!(scene.read("there/f"), dest);
    }
}

#[test]
fn a_check_reports_each_difference_once() {
    each_remote_way(|scene| {
        tree::many(scene.path("tree"), 20_000, 1, 200, 1).expect("a tree");
        fs::create_dir_all(scene.path("there/tree")).expect("a directory");
        let link = Link::to(scene.sshd()).expect("a link");
        link.limit(400 << 10);
        let check = retrying(scene, &link, "check", &["-r", "-v"], "tree", "there/");
        let running = check.spawn().expect("it starts");
        let mut cuts = 0;
        while cuts < 2 && wait_for(&running, &link, 150 << 10) {
            link.cut();
            cuts += 1;
        }
        let run = running.wait().expect("it ends").expect_code(1);
        assert_eq!(cuts, 2, "it was done too soon: {run}");
        let missing = run.out().lines().filter(|line| line.starts_with("missing   ")).count();
        let entries = scene.list("tree").len();
        assert_eq!(missing, entries, "{}", run.err());
        assert!(run.out().contains(&format!("missing {}", haul_count(entries))), "{}", run.err());
    });
}

/// A command that only asks: a directory may be half told.
#[test]
fn a_question_is_asked_again_and_its_answer_reported_once() {
    let world = World::new();
    let mut scene = world.scene(Way::Download);
    for dir in 0..3 {
        tree::many(scene.path(format!("logs/{dir}")), 200, 1, 1, dir).expect("a tree");
    }
    let lines = format!(
        "shift\necho >>$CALLS\n\
         [ $(wc -l <$CALLS) = 1 ] || exec sh -c \"$*\"\n\
         sh -c \"$*\" | tee $CALLS.said | {{ {}; kill $$; }}",
        first_bytes("$CUT")
    );
    scene.reach_by(script(&scene.path("pipe"), &lines));
    let calls = |command: &str, cut: u64| scene.path(format!("{command}-{cut}"));
    let ask = |(command, flag): (&str, &str), cut: u64| {
        let paths = ["logs/[0-2]/*", "logs/[0-2]/*/file-0000?"];
        let paths = paths.map(|path| scene.there(scene.path(path)));
        let haul = scene.haul().arg(command).args(scene.route()).arg(flag).args(&paths);
        let haul = haul.env("CALLS", calls(command, cut)).env("CUT", cut.to_string());
        haul.env_remove("HAUL_RETRIES").run().expect_ok()
    };
    let check = |question: (&str, &str), cut: u64, whole: &str| {
        let run = ask(question, cut);
        assert_eq!(told(&run), [1, 1], "{cut}: {run}");
        assert_eq!(run.out(), whole, "{cut}: {run}");
    };
    thread::scope(|scope| {
        let all = u64::from(u32::MAX);
        for (question, cuts) in [(("ls", "-l"), 5), (("stat", "-L"), 2)] {
            let whole = ask(question, all);
            let said = fs::metadata(format!("{}.said", calls(question.0, all).display()));
            let said = said.expect("it was kept").len();
            // The first is in the first pattern, behind the greeting.
            for cut in (0..cuts).map(|cut| 100 + cut * (said - 100) / cuts) {
                let whole = whole.out();
                scope.spawn(move || check(question, cut, &whole));
            }
        }
    });
}

/// A number as haul shows it.
fn haul_count(n: usize) -> String {
    format!("{},{:03}", n / 1000, n % 1000)
}

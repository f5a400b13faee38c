//! Sources that somebody else writes to while they are copied. The host is
//! behind a pipe that stops in the middle of the transfer, lets the change
//! happen, and goes on; a copy on one machine is stopped by a signal.

use crate::common::*;
use haul_testkit::haul::{Outcome, Running};
use haul_testkit::proc::Signal;
use haul_testkit::{Haul, assert_same, holds_within, tree};
use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// More than all buffers on the way can hold.
const BIG: u64 = 40 << 20;

/// Bytes that the pipe lets through before it stops: all that is said first, the small files,
/// and the beginning of the big one.
const BEFORE: u64 = 5 << 20;

/// The flag with which a file fails that changes in any way.
const STRICT: &[&str] = &["--strict-source"];

/// Runs `test` in every way with a tree of a big file between two small ones,
/// and an older version of the big one at the destination.
fn each_way_in_the_middle(flags: &[&str], change: &str, test: impl Fn(&Scene<'_>, Outcome) + Sync) {
    each_way_in_the_middle_of(BIG, flags, change, test);
}

/// The same with a file of `len` bytes.
fn each_way_in_the_middle_of(
    len: u64,
    flags: &[&str],
    change: &str,
    test: impl Fn(&Scene<'_>, Outcome) + Sync,
) {
    let through_pipe = |scene: &mut Scene<'_>| {
        tree::sizes(scene.path("tree"), 1).expect("a tree");
        tree::random_file(scene.path("tree/big"), len, 2).expect("a file");
        scene.file("there/tree/big", "old");
        scene.file("other", "other");
        let head = format!("stdbuf -o0 head -c {BEFORE}");
        let hold =
            format!("{{ {head}; (cd '{}'; {change}); exec cat; }}", scene.path("").display());
        reach_held_by(scene, &hold);
    };
    each_of(&Way::ALL, through_pipe, |scene| {
        let flags = [&["-r"], flags].concat();
        let copy = scene.copy(&flags, &["tree"], "there").limit(Duration::from_secs(30));
        let run = match scene.way {
            Way::Local => {
                let reset = || {
                    fs::remove_dir_all(scene.path("there")).expect("removed");
                    scene.file("there/tree/big", "old");
                };
                stopped_while_open(&copy, &scene.path("tree/big"), reset, || {
                    run(Command::new("sh").args(["-c", change]).current_dir(scene.path("")));
                })
            }
            _ => copy.run(),
        };
        test(scene, run);
        assert_no_strays(&scene.path("there"));
    });
}

/// Reaches the host by a pipe through which content goes as through `hold`.
fn reach_held_by(scene: &mut Scene<'_>, hold: &str) {
    // Called like ssh, for content is spliced to ssh alone; the command comes last.
    let ends = match scene.way {
        Way::Upload => format!("{hold} | sh -c \"$command\""),
        _ => format!("sh -c \"$command\" | {hold}"),
    };
    let lines = format!(
        "for command; do [ \"$command\" = -G ] && exit; done
        {ends}"
    );
    scene.mkdir("bin");
    scene.reach_by(script(&scene.path("bin/ssh"), &lines));
}

/// Stops the run when it has written a part of the content of `path`, calls `change`,
/// and lets it go on. Where it was stopped too early or too late it is ended, `reset`
/// makes everything as it was, and it runs again.
fn stopped_while_open(
    haul: &Haul,
    path: &Path,
    reset: impl Fn(),
    change: impl FnOnce(),
) -> Outcome {
    const TRIES: usize = 50;
    for _ in 0..TRIES {
        let running = haul.spawn().expect("it starts");
        let is_open = || open_lens(running.pid(), path).is_some();
        if running.until(Duration::from_secs(20), is_open) {
            stop(&running);
            if is_partly_written(running.pid(), path) {
                change();
                running.signal(Signal::CONT);
                return running.wait().expect("it ends");
            }
        }
        running.kill_group();
        drop(running);
        reset();
    }
    panic!("{} was never met in the middle", path.display());
}

/// The lengths of the regular files that the process has open beside `path`, if it
/// has that open.
fn open_lens(pid: u32, path: &Path) -> Option<Vec<u64>> {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let (mut is_open, mut lens) = (false, Vec::new());
    for fd in fds {
        match fs::read_link(fd.path()) {
            Ok(file) if file == path => is_open = true,
            Ok(_) => {
                lens.extend(fs::metadata(fd.path()).ok().filter(|m| m.is_file()).map(|m| m.len()))
            }
            Err(_) => {}
        }
    }
    is_open.then_some(lens)
}

/// True if the stopped process has `path` open, and a part of it in another file.
fn is_partly_written(pid: u32, path: &Path) -> bool {
    let len = fs::metadata(path).expect("it is there").len();
    let Some(lens) = open_lens(pid, path) else { return false };
    lens.iter().any(|written| (1..len).contains(written)) && !lens.contains(&len)
}

/// Stops all threads of the run.
fn stop(running: &Running) {
    running.signal(Signal::STOP);
    let is_stopped = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|fields| fields.starts_with(" T"))
    };
    let tasks = format!("/proc/{}/task", running.pid());
    let are_stopped = || fs::read_dir(&tasks).expect("it runs").flatten().all(is_stopped);
    assert!(holds_within(Duration::from_secs(20), are_stopped), "it does not stop");
}

/// The others are there, too.
fn assert_others(scene: &Scene<'_>, run: &Outcome) {
    let others = tree::count(scene.path("there/tree")).expect("counted").files;
    assert_eq!(others, 13, "{run}");
}

fn assert_changed(scene: &Scene<'_>, run: &Outcome) {
    let hint = "run the same command again when nothing writes to it";
    assert_one_error(run, "tree/big", "it changed while it was read: not copied", hint);
    assert_eq!(run.code, Some(1), "{run}");
    assert_eq!(scene.read("there/tree/big"), "old");
    assert_others(scene, run);
}

/// Changes of a file that are more than an appended end.
const CHANGES: [&str; 4] = [
    "truncate -s 1000000 tree/big",
    ": > tree/big",
    "printf changed | dd of=tree/big bs=1 seek=39000000 conv=notrunc status=none",
    // A part that was read already.
    "printf changed | dd of=tree/big bs=1 conv=notrunc status=none",
];

#[test]
fn a_file_that_changes_while_it_is_read_is_copied_as_it_is_then() {
    for change in CHANGES {
        each_way_in_the_middle(&["--json"], change, |scene, run| {
            assert_same(&scene.snapshot("tree"), &scene.snapshot("there/tree"));
            assert_others(scene, &run);
            // What was moved before is of no use.
            let len = fs::metadata(scene.path("tree/big")).expect("it is there").len();
            assert!(moved(&run) > len + (1 << 20), "{run}");
            assert!(run.out().contains("\"grown\":0"), "{run}");
            run.expect_ok();
        });
    }
}

#[test]
fn a_file_that_changes_is_not_published_where_sources_have_to_be_still() {
    for change in CHANGES.into_iter().chain(["printf x >> tree/big"]) {
        each_way_in_the_middle(STRICT, change, |scene, run| assert_changed(scene, &run));
    }
}

#[test]
fn a_file_that_grows_while_it_is_read_is_copied_as_it_was() {
    /// One in blocks that could be continued.
    const CONTINUED: u64 = 70 << 20;
    for len in [BIG, CONTINUED] {
        each_way_in_the_middle_of(len, &["-v"], "printf x >> tree/big", |scene, run| {
            let log = scene.path("tree/big");
            assert_eq!(fs::metadata(&log).expect("it is there").len(), len + 1);
            assert_prefix(scene, "tree/big", "there/tree/big", len);
            assert_others(scene, &run);
            let line = "copied tree/big (as it was when opened; it has grown since)\n";
            assert!(run.out().contains(line), "{run}");
            assert!(run.out().contains("; 1 grew during the copy"), "{run}");
            let said = run.err();
            let others = said.lines().filter(|line| !line.starts_with("haul: contents go to "));
            assert_eq!(others.count(), 0, "{run}");
            run.expect_ok();
        });
    }
}

/// Panics unless the copy is the first `len` bytes of the file.
fn assert_prefix(scene: &Scene<'_>, file: &str, copy: &str, len: u64) {
    let (file, copy) = (fs::read(scene.path(file)), fs::read(scene.path(copy)));
    let (file, copy) = (file.expect("a file"), copy.expect("a copy"));
    assert_eq!(copy.len() as u64, len);
    assert!(file.starts_with(&copy), "{:?}: it is another", scene.way);
}

#[test]
fn a_change_of_what_is_still_in_a_pipe_is_not_published() {
    /// Less than a pipe holds.
    const HELD: u64 = 300 << 10;
    const AT: u64 = BIG - (100 << 10);
    let through_pipe = |scene: &mut Scene<'_>| {
        tree::random_file(scene.path("big"), BIG, 2).expect("a file");
        scene.file("to/big", "old");
        // All of it was read and sent, and the last look at it was taken, when it changes.
        let hold = format!(
            "{{ stdbuf -o0 head -c {}; sleep 1; (cd '{}'; printf changed | \
             dd of=big bs=1 seek={AT} conv=notrunc status=none); exec cat; }}",
            BIG - HELD,
            scene.path("").display()
        );
        reach_held_by(scene, &hold);
    };
    each_of(&Way::REMOTE, through_pipe, |scene| {
        // In the order of the file: its end is what the pipe holds.
        let copy = scene.copy(&["--via", "ssh", "--parallel", "1"], &["big"], "to");
        let copy = copy.limit(Duration::from_secs(30));
        let run = copy.run().expect_code(1);
        assert_one_error(&run, "big", "", "");
        assert_eq!(scene.read("to/big"), "old", "{run}");
        assert_no_strays(&scene.path("to"));
    });
}

#[test]
fn a_file_that_changes_leaves_nothing_to_be_continued() {
    const CONTINUED: u64 = 70 << 20;
    let change = "printf changed | dd of=tree/big bs=1 seek=39000000 conv=notrunc status=none";
    each_way_in_the_middle_of(CONTINUED, STRICT, change, |scene, run| {
        assert_changed(scene, &run);
        assert_no_strays(&scene.path("there"));
    });
}

#[test]
fn a_file_that_loses_its_name_while_it_is_read_is_copied_as_it_was() {
    for change in ["mv tree/big kept", "ln tree/big kept; mv other tree/big"] {
        each_way_in_the_middle(&[], change, |scene, run| {
            run.expect_ok();
            assert_same(&scene.snapshot("kept"), &scene.snapshot("there/tree/big"));
        });
    }
}

/// Runs `test` to and from a host with a tree in which `change` happens to
/// `tree/m` when it has been listed and not been opened.
fn each_remote_way_before_it_is_opened(change: &str, test: impl Fn(&Scene<'_>, Outcome) + Sync) {
    /// The agent's greeting: header, magic, version, capabilities, and the
    /// program's version.
    const WELCOME_LEN: usize = 5 + 4 + 2 + 8 + env!("CARGO_PKG_VERSION").len();
    let through_pipe = |scene: &mut Scene<'_>| {
        for name in ["tree/a", "tree/m", "tree/z", "there/tree/m"] {
            scene.file(name, name);
        }
        scene.file("secret", "secret");
        let dir = scene.path("").display().to_string();
        // The greeting, then the first that asks for contents.
        let first = match scene.way {
            Way::Upload => format!("dd bs=1 count={WELCOME_LEN} status=none"),
            _ => "dd bs=1M count=1 status=none".to_owned(),
        };
        let hold = format!(
            "{{ {first}; dd bs=1M count=1 status=none of='{dir}/held'; \
             (cd '{dir}'; {change}); cat '{dir}/held'; exec cat; }}"
        );
        let lines = match scene.way {
            Way::Upload => format!("shift\nsh -c \"$*\" | {hold}"),
            _ => format!("shift\n{hold} | sh -c \"$*\""),
        };
        scene.reach_by(script(&scene.path("rsh"), &lines));
    };
    each_of(&Way::REMOTE, through_pipe, |scene| {
        let run = scene.copy(&["-r"], &["tree"], "there").limit(Duration::from_secs(20)).run();
        assert!(fs::metadata(scene.path("held")).is_ok_and(|held| held.len() > 0), "{run}");
        assert_eq!(scene.list("there/tree"), ["a", "m", "z"], "{run}");
        assert_no_strays(&scene.path("there"));
        test(scene, run);
    });
}

#[test]
fn a_file_that_vanishes_before_it_is_read_is_reported_and_the_old_one_stays() {
    each_remote_way_before_it_is_opened("rm tree/m", |scene, run| {
        let run = run.expect_code(1);
        assert_one_error(&run, "tree/m", "no such file or directory", "");
        assert_eq!(scene.read("there/tree/m"), "there/tree/m");
    });
}

#[test]
fn a_file_that_becomes_something_else_before_it_is_read_is_not_copied() {
    for (change, cause) in [
        ("rm tree/m; ln -s ../secret tree/m", "Too many levels of symbolic links"),
        ("rm tree/m; mkfifo tree/m", "it is not a regular file"),
        ("rm tree/m; mkdir tree/m", "s a directory"),
    ] {
        each_remote_way_before_it_is_opened(change, |scene, run| {
            let run = run.expect_code(1);
            let errors = errors(&run);
            assert!(
                matches!(&errors[..], [error] if is_about(error, "tree/m: can't open: ")
                    && error.contains(cause)),
                "{run}"
            );
            assert_eq!(scene.read("there/tree/m"), "there/tree/m");
        });
    }
}

#[test]
fn a_file_that_changed_before_it_was_opened_is_copied_as_it_is_now() {
    for change in ["printf more >> tree/m", "printf x > tree/m", ": > tree/m"] {
        each_remote_way_before_it_is_opened(change, |scene, run| {
            run.expect_ok();
            assert_same(&scene.snapshot("tree/m"), &scene.snapshot("there/tree/m"));
        });
    }
}

#[test]
fn a_file_here_that_vanishes_before_its_turn_is_reported() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    // Enough to keep every worker busy.
    let big = scene.path("big");
    tree::random_file(&big, BIG, 1).expect("a file");
    scene.file("tree/z", "new");
    scene.file("there/tree/z", "old");
    for n in 0..8 {
        fs::hard_link(&big, scene.path(format!("tree/big-{n}"))).expect("a hard link");
    }
    let copy = scene.copy(&["-r"], &["tree"], "there");
    let reset = || {
        fs::remove_dir_all(scene.path("there")).expect("removed");
        scene.file("there/tree/z", "old");
    };
    let run = stopped_while_open(&copy, &scene.path("tree/big-0"), reset, || {
        fs::remove_file(scene.path("tree/z")).expect("removed");
        symlink("elsewhere", scene.path("tree/later")).expect("a link");
    });
    let run = run.expect_code(1);
    assert_one_error(&run, "tree/z", "", "");
    assert_eq!(scene.read("there/tree/z"), "old");
    let copied = tree::count(scene.path("there/tree")).expect("counted");
    assert_eq!(copied.bytes, 8 * BIG + 3);
}

/// Does `write` to the file over and over while haul runs.
fn run_while(haul: &Haul, file: &Path, write: impl Fn(&fs::File)) -> Outcome {
    let file = fs::File::options().append(true).open(file).expect("a file");
    let running = haul.spawn().expect("it starts");
    while running.is_running() {
        write(&file);
        // The copy gets its turn as well.
        std::thread::sleep(Duration::from_micros(200));
    }
    running.wait().expect("it ends")
}

/// Runs until a change came at the right moment: between two looks at a small file, or while
/// a large one was read. It takes a few, and more where who changes it has few turns.
const TRIES: usize = 400;

fn append(mut file: &fs::File) {
    std::io::Write::write_all(&mut file, b"a line\n").expect("written");
}

#[test]
fn a_file_that_somebody_appends_to_all_the_time_is_copied_as_it_was() {
    for len in [10 << 10, 3 << 20, 70 << 20] {
        everywhere_by_pipe(|scene| {
            let log = scene.path("log");
            tree::random_file(&log, len, 1).expect("a file");
            let has_grown = (0..TRIES).any(|_| {
                scene.file("dest", "old");
                let before = fs::metadata(&log).expect("it is there").len();
                let run = run_while(&scene.copy(&["--json"], &["log"], "dest"), &log, append);
                let copied = fs::metadata(scene.path("dest")).expect("it is there").len();
                assert!(copied >= before, "{run}");
                assert_prefix(scene, "log", "dest", copied);
                let file = format!("\"size\":{copied},\"outcome\":\"copied\"");
                assert!(run.out().contains(&file), "{run}");
                let has_grown = run.out().contains("\"grew\":true}\n");
                assert_eq!(has_grown, run.out().contains("\"grown\":1"), "{run}");
                run.expect_ok();
                has_grown
            });
            assert!(has_grown, "{:?}: it never grew at the right time", scene.way);
            let strict = scene.copy(&["-f", "--strict-source"], &["log"], "dest");
            let is_refused = || {
                let run = run_while(&strict, &log, append);
                if run.code == Some(0) {
                    // Whoever appends had no turn meanwhile.
                    let copied = fs::metadata(scene.path("dest")).expect("it is there").len();
                    assert_prefix(scene, "log", "dest", copied);
                    return false;
                }
                let run = run.expect_code(1);
                assert_one_error(&run, "log", "it changed while", "run the same");
                true
            };
            // A smaller one may be still each time.
            let tries = if len > BIG { TRIES } else { 1 };
            let was_refused = (0..tries).any(|_| is_refused());
            assert!(was_refused || len < BIG, "{:?}: no change was seen", scene.way);
        });
    }
}

#[test]
fn a_file_that_somebody_rewrites_all_the_time_fails_after_a_second_try() {
    everywhere_by_pipe(|scene| {
        let file = scene.path("file");
        tree::random_file(&file, BIG, 1).expect("a file");
        scene.file("dest", "old");
        let turn = std::cell::Cell::new(0_u64);
        let rewrite = |_: &fs::File| {
            turn.set(turn.get() + 1);
            let file = fs::File::options().write(true).open(&file).expect("a file");
            // Its number is at both ends.
            for at in [0, BIG - 8] {
                file.write_all_at(&turn.get().to_le_bytes(), at).expect("written");
            }
            // A server without haul tells whole seconds.
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(turn.get());
            file.set_modified(time).expect("a time");
        };
        // From the first version on.
        rewrite(&fs::File::open(&file).expect("a file"));
        let copy = scene.copy(&["--json"], &["file"], "dest");
        let fails = || {
            let run = run_while(&copy, &file, rewrite);
            if run.code == Some(0) {
                // Who rewrites it had no turn while it was read: it is as it was then, and at
                // most the writing of one version had begun.
                let read = |path: &Path| fs::read(path).expect("read");
                let (now, copy) = (read(&file), read(&scene.path("dest")));
                let middle = 8..copy.len() - 8;
                assert!(now.len() == copy.len() && now[middle.clone()] == copy[middle], "{run}");
                let version = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8"));
                let (first, last) = (version(&copy[..8]), version(&copy[copy.len() - 8..]));
                let is_one = turn.get() >= first && (first == last || first == last + 1);
                assert!(is_one, "{first}, {last}: {run}");
                scene.file("dest", "old");
                return false;
            }
            let run = run.expect_code(1);
            assert!(run.out().contains("\"kind\":\"changed\""), "{run}");
            assert_eq!(scene.read("dest"), "old");
            // Of the second try, what was on its way when the change was seen need not arrive.
            let moved = moved(&run);
            assert!(BIG < moved && moved <= 2 * BIG, "{run}");
            assert_no_strays(&scene.path(""));
            true
        };
        assert!((0..TRIES).any(|_| fails()), "{:?}: no change was seen", scene.way);
    });
}

//! Ctrl-C and its relatives: exit code 130, nothing half done, and the same
//! command again does the rest.

use crate::common::*;
use crate::transfer::{HELD, RATE, SOON, Transfer};
use haul_testkit::haul::Outcome;
use haul_testkit::proc::{self, Signal};
use haul_testkit::{Link, assert_same, holds_within, tree};
use std::fs;
use std::time::{Duration, Instant};

#[track_caller]
fn assert_interrupted(run: &Outcome) {
    assert_eq!(errors(run), ["interrupted"], "{run}");
    let hint = "  hint: run the same command again: finished files are skipped\n";
    assert!(run.err().ends_with(hint), "{run}");
}

#[test]
fn ctrl_c_ends_a_copy_cleanly() {
    each_remote_way(|scene| {
        let transfer = Transfer::start(scene);
        // The terminal sends it to ssh too.
        transfer.running.signal_group(Signal::INT);
        assert_interrupted(&transfer.ends_with(130));
    });
}

#[test]
fn what_is_kept_of_a_large_file_is_reported_and_the_same_command_continues() {
    const BIG: u64 = 48 << 20;
    each_remote_way(|scene| {
        tree::random_file(scene.path("big"), BIG, 2).expect("a file");
        scene.mkdir("to");
        let link = Link::to(scene.sshd()).expect("a link");
        link.limit_behind(RATE, BIG / 2, HELD);
        let copy = |rsh: &str, more: &[&str]| {
            let flags = [&["--via", "ssh"], more].concat();
            scene.copy_by(&["--rsh", rsh, "--remote-haul", HAUL], &flags, &["big"], "to")
        };
        let bytes = || {
            let parts = fs::read_dir(scene.path("to")).expect("read").flatten();
            parts.filter_map(|part| part.metadata().ok()).map(|part| part.len()).max()
        };
        let running = copy(&link.rsh(scene.sshd()), &[]).spawn().expect("it starts");
        assert!(running.until(Duration::from_secs(60), || bytes() > Some(16 << 20)));
        running.signal_group(Signal::INT);
        let run = running.wait().expect("it ends").expect_code(130);
        link.limit(RATE);
        let said = errors(&run).concat();
        // Only the side that has it knows how much that is.
        let kept = match scene.way {
            Way::Upload => {
                assert_eq!(said, "interrupted: a partial file of big is kept", "{run}");
                8
            }
            _ => {
                let kept = said.strip_prefix("interrupted: about ");
                let kept = kept.and_then(|kept| kept.strip_suffix(".0 MiB of big are kept"));
                kept.and_then(|kept| kept.parse().ok()).unwrap_or_else(|| panic!("{run}"))
            }
        };
        assert!(run.err().ends_with("to resume it: finished files are skipped\n"), "{run}");
        assert!(holds_within(SOON, || scene.sshd().agents().is_empty()));
        let run = copy(&scene.sshd().rsh(), &["--json"]).run().expect_ok();
        assert!(moved(&run) <= BIG - (kept << 20), "{run}");
        assert_eq!(fs::read(scene.path("big")).ok(), fs::read(scene.path("to/big")).ok());
    });
}

#[test]
fn of_a_large_file_that_is_not_hashed_nothing_is_kept() {
    each_remote_way(|scene| {
        tree::random_file(scene.path("big"), 80 << 20, 2).expect("a file");
        scene.mkdir("to");
        let link = Link::to(scene.sshd()).expect("a link");
        link.limit_behind(RATE, 16 << 20, HELD);
        let reach = ["--rsh", &link.rsh(scene.sshd()), "--remote-haul", HAUL];
        let copy = scene.copy_by(&reach, &["--fast", "--via", "ssh"], &["big"], "to");
        let running = copy.spawn().expect("it starts");
        let passed = || link.passed().iter().any(|&bytes| bytes >= 16 << 20);
        assert!(running.until(Duration::from_secs(60), passed));
        running.signal_group(Signal::INT);
        assert_interrupted(&running.wait().expect("it ends").expect_code(130));
    });
}

#[test]
fn a_signal_to_haul_alone_ends_a_copy_cleanly() {
    for signals in [[Signal::INT, Signal::TERM], [Signal::HUP, Signal::INT]] {
        each_remote_way(|scene| {
            let transfer = Transfer::start(scene);
            transfer.running.signal(signals[usize::from(scene.way == Way::Upload)]);
            assert_interrupted(&transfer.ends_with(130));
        });
    }
}

/// A background job of a script that waits for it, whatever comes meanwhile, and
/// leaves it its input.
const IN_BACKGROUND: &str = "trap : INT
exec 3<&0
HAUL \"$@\" <&3 &
while :; do
    wait $!
    status=$?
    kill -0 $! || exit $status
done 2> /dev/null";

#[test]
fn what_is_ignored_from_the_start_ends_nothing() {
    let world = &World::new();
    let cases = [
        ("nohup", "exec nohup HAUL \"$@\"", Signal::HUP),
        ("hangup", "trap '' HUP; exec HAUL \"$@\"", Signal::HUP),
        ("ctrl-c", "trap '' INT; exec HAUL \"$@\"", Signal::INT),
        ("wish", "trap '' TERM; exec HAUL \"$@\"", Signal::TERM),
        ("background", IN_BACKGROUND, Signal::INT),
    ];
    std::thread::scope(|scope| {
        for (name, line, ignored) in cases {
            let scene = world.scene_called(name, Way::Upload);
            scope.spawn(move || ends_nothing(scene, line, ignored));
        }
    });
}

fn ends_nothing(mut scene: Scene<'_>, line: &str, ignored: Signal) {
    let program = scene.path("run");
    script(&program, &line.replace("HAUL", &format!("'{HAUL}'")));
    scene.run_as(program);
    let transfer = Transfer::start(&scene);
    transfer.running.signal_group(ignored);
    transfer.running.signal_group(ignored);
    let run = transfer.ends_with(0);
    assert!(!run.err().contains("interrupted"), "{run}");
    if line == IN_BACKGROUND {
        return;
    }
    // The others still do what they do.
    fs::remove_dir_all(scene.path("there")).expect("removed");
    let transfer = Transfer::start(&scene);
    transfer.running.signal_group(ignored);
    let other = if ignored == Signal::INT { Signal::TERM } else { Signal::INT };
    transfer.running.signal(other);
    assert_interrupted(&transfer.ends_with(130));
}

#[test]
fn ctrl_c_ends_a_copy_whose_host_hangs() {
    each_remote_way(|scene| {
        let transfer = Transfer::start(scene);
        let agent = transfer.agent();
        proc::signal(agent, Signal::STOP);
        std::thread::sleep(Duration::from_millis(300));
        transfer.running.signal_group(Signal::INT);
        let since = Instant::now();
        while transfer.running.is_running() {
            assert!(since.elapsed() < SOON, "it waits for the host");
            std::thread::sleep(Duration::from_millis(5));
        }
        proc::signal(agent, Signal::CONT);
        assert_interrupted(&transfer.ends_with(130));
    });
}

#[test]
fn ctrl_c_ends_a_copy_on_one_machine_cleanly() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    tree::many(scene.path("tree"), 4000, 1000, 10, 1).expect("a tree");
    tree::random_file(scene.path("tree/big"), 40 << 20, 2).expect("a file");
    scene.file("there/tree/dir-009/file-00009", "old");
    let source = scene.snapshot("tree");
    let copied = || {
        let files_of = |dir: u32| fs::read_dir(scene.path(format!("there/tree/dir-{dir:03}")));
        (0..10).filter_map(|dir| files_of(dir).ok()).map(Iterator::count).sum::<usize>()
    };
    for more in [1, 30, 300] {
        let before = copied();
        let running = scene.copy(&["-r"], &["tree"], "there").spawn().expect("it starts");
        let some = || copied() >= before + more;
        assert!(running.until(Duration::from_secs(20), some), "it does not come to its middle");
        running.signal_group(Signal::INT);
        let since = Instant::now();
        let run = running.wait().expect("it ends").expect_code(130);
        assert!(since.elapsed() < SOON, "{run}");
        assert_interrupted(&run);
        crate::transfer::is_whole_or_absent(&scene, &source);
    }
    scene.copy(&["-r"], &["tree"], "there").run().expect_ok();
    assert_same(&source, &scene.snapshot("there/tree"));
    assert_no_strays(&scene.path("there"));
}

#[test]
fn ctrl_c_while_ssh_still_connects_is_an_interruption() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "a");
    let config = scene.file("config", "Host haul-test\n  ProxyCommand sleep 60\n");
    let rsh = format!("ssh -F {}", config.display());
    for words in [["a", "haul-test:b"], ["haul-test:b", "b"]] {
        let haul = scene.haul().arg("copy").args(words).args(["--rsh", &rsh]);
        let running = haul.spawn().expect("it starts");
        let connects = || {
            let sleeps = |pid: &u32| proc::command_line(*pid).last().is_some_and(|w| w == b"60");
            proc::descendants(running.pid()).iter().any(sleeps)
        };
        assert!(running.until(Duration::from_secs(20), connects));
        running.signal_group(Signal::INT);
        let run = running.wait().expect("it ends").expect_code(130);
        assert!(run.usage.wall < Duration::from_secs(20), "{run}");
        assert_interrupted(&run);
    }
}

//! Named sources that are no regular files, and files whose size says nothing.

use crate::common::*;
use haul_testkit::Haul;
use haul_testkit::proc::Signal;
use std::fs;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// The ways on which the sources are here.
fn each_way_from_here(test: impl Fn(&Scene<'_>) + Sync) {
    each_of(&[Way::Local, Way::Upload], |_| {}, test);
}

fn fifo(scene: &Scene<'_>, name: &str) {
    run(Command::new("mkfifo").arg(scene.path(name)));
}

/// A shell that runs `line`, in which `"$@"` is haul and all its words.
fn shell(haul_words: &[String], line: &str, scene: &Scene<'_>) -> Haul {
    Haul::new("bash").args(["-c", line, "bash", HAUL]).args(haul_words).cwd(scene.path("."))
}

/// The words that come before the sources, and the destination `name`.
fn words(scene: &Scene<'_>, by_sftp: bool, name: &str) -> (Vec<String>, String) {
    let to = scene.path(name).display().to_string();
    if scene.way == Way::Local {
        return (vec!["copy".into()], to);
    }
    let rsh = scene.sshd().rsh();
    let by = if by_sftp { ["--transport", "sftp"] } else { ["--remote-haul", HAUL] };
    let words = ["copy", "--rsh", &rsh].into_iter().chain(by).map(str::to_owned);
    (words.collect(), format!("haul-test:{to}"))
}

#[test]
fn named_fifos_and_descriptors_are_read_to_their_end() {
    each_way_from_here(|scene| {
        fifo(scene, "fifo");
        scene.file("kept", "old");
        for by_sftp in [false, true] {
            let (before, to) = words(scene, by_sftp, "out");
            let kept = format!("seq 300000 > fifo & \"$@\" fifo {to}");
            let substituted = format!("\"$@\" <(seq 300000) {to}");
            let piped = format!("seq 300000 | \"$@\" /dev/stdin {to}");
            let given = format!("seq 300000 > given; \"$@\" /dev/fd/0 {to} < given");
            let empty = format!("\"$@\" <(true) {to}");
            for (line, last) in [(kept, 300_000), (substituted, 300_000), (piped, 300_000)]
                .into_iter()
                .chain([(given, 300_000), (empty, 0)])
            {
                shell(&before, &line, scene).run().expect_ok();
                assert!(fs::symlink_metadata(scene.path("out")).expect("there").is_file());
                let expected: String = (1..=last).map(|n| format!("{n}\n")).collect();
                assert!(scene.read("out") == expected, "{line}");
                fs::remove_file(scene.path("out")).expect("removed");
            }
        }
    });
}

#[test]
fn what_cannot_be_read_is_a_failure_and_trees_pass_it_over() {
    each_way_from_here(|scene| {
        let _socket = UnixListener::bind(scene.path("socket")).expect("a socket");
        scene.mkdir("tree");
        fifo(scene, "tree/fifo");
        let run = scene.copy(&[], &["socket"], "dest").run().expect_code(1);
        assert_one_error(&run, &scene.path("socket").display().to_string(), "can't read", "");
        let run = scene.copy(&["-r"], &["tree/fifo"], "dest").run().expect_code(1);
        assert!(run.err().contains("not copied with -r"), "{run}");
        assert!(!scene.exists("dest"));
        scene.copy(&["-r"], &["tree"], "dest").run().expect_ok();
        assert_eq!(scene.list("dest"), Vec::<String>::new());
        // A host's own can't be waited for from here.
        if scene.way == Way::Upload {
            let from = scene.there(scene.path("tree/fifo"));
            let run = scene.haul().arg("copy").args(scene.remote()).arg(from).arg("dest").run();
            assert!(run.expect_code(1).err().contains(
                "a FIFO, socket or device can be read only on the machine where haul is started"
            ));
        }
    });
}

#[test]
fn waiting_for_a_fifo_ends_with_a_signal() {
    each_of(
        &[Way::Local],
        |_| {},
        |scene| {
            fifo(scene, "fifo");
            let running = scene.copy(&[], &["fifo"], "dest").spawn().expect("started");
            thread::sleep(Duration::from_millis(500));
            assert!(running.is_running());
            let start = Instant::now();
            running.signal(Signal::TERM);
            running.wait().expect("waited").expect_code(130);
            assert!(start.elapsed() < Duration::from_secs(8), "it was waited for");
            assert!(!scene.exists("dest"));
        },
    );
}

#[test]
fn files_that_the_kernel_makes_up_are_copied_to_their_end() {
    each_way_by_pipe(|scene| {
        // Their sizes are told as 0 and as 4096.
        for file in ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"] {
            scene.copy(&[], &[file], "dest").run().expect_ok();
            assert_eq!(scene.read("dest"), fs::read_to_string(file).expect("it can be read"));
            fs::remove_file(scene.path("dest")).expect("removed");
        }
        scene.copy(&["-r"], &["/sys/kernel/mm/transparent_hugepage"], "tree").run().expect_ok();
        let name = "khugepaged/defrag";
        let there = format!("/sys/kernel/mm/transparent_hugepage/{name}");
        assert_eq!(scene.read(format!("tree/{name}")), fs::read_to_string(there).expect("read"));
        // None can be added to them.
        scene.mkdir("dir");
        for (flags, source) in [(&[][..], "/proc/version"), (&["-r"], "dir")] {
            let run = scene.copy(flags, &[source], "/proc/haul").run().expect_code(1);
            let cause = "the kernel generates its content, as in /proc: nothing can be added";
            if scene.way != Way::SftpUpload || source != "dir" {
                assert_one_error(&run, "/proc/haul", cause, "");
            }
        }
    });
}

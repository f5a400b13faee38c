//! Several connections to one host, which take different times.

use crate::common::*;
use haul_testkit::Haul;
use haul_testkit::proc::{self, Signal};
use std::fs;
use std::time::{Duration, Instant};

/// How soon everything has to be over.
const SOON: Duration = Duration::from_secs(20);

/// A copy of `a` over three connections. `ssh` does what `lines` say before each
/// that has a number of more than `good`.
fn copy_over_three(scene: &Scene<'_>, good: usize, lines: &str) -> Haul {
    scene.file("a", "content");
    let numbers = scene.mkdir("numbers");
    let lines = format!(
        "case \" $* \" in *' -'[GV]' '*) ;; *)
            n=1
            while ! mkdir '{}'/$n 2>/dev/null; do n=$((n + 1)); done
            if [ $n -gt {good} ]; then {lines}; fi
        esac",
        numbers.display()
    );
    let path = path_with_ssh(scene, scene.sshd(), &lines);
    let words = ["--transport", "sftp", "--rsh", "ssh"].map(str::to_owned);
    scene.copy_by(&words, &["--parallel", "3"], &["a"], "b").env("PATH", path)
}

#[test]
fn a_login_that_takes_long_holds_up_no_copy() {
    each_remote_way(|scene| {
        let start = Instant::now();
        // `sleep` stands for an ssh that waits for a word from its user.
        let sleeping = scene.path("sleeping");
        for sleeps in ["exec sleep 600", "trap '' TERM; exec sleep 600"] {
            let lines = format!("echo $$ >> '{}'; {sleeps}", sleeping.display());
            let run = copy_over_three(scene, 1, &lines).run().expect_ok();
            assert!(start.elapsed() < SOON, "{run}");
            assert_eq!(run.err(), "", "{run}");
            assert_eq!(scene.read("b"), "content");
            fs::remove_file(scene.path("b")).expect("removed");
            fs::remove_dir_all(scene.path("numbers")).expect("removed");
        }
        let sleeping = fs::read_to_string(sleeping).expect("some slept");
        let is_gone = |pid: &str| !proc::is_alive(pid.parse().expect("a number"));
        assert_eq!(sleeping.lines().filter(|pid| is_gone(pid)).count(), 4, "{sleeping}");
    });
}

#[test]
fn a_copy_does_without_a_connection_that_fails() {
    each_remote_way(|scene| {
        let refuses = "echo 'Too many logins.' >&2; exit 255";
        let haul = copy_over_three(scene, 2, refuses);
        // The one that fails may do so when all is done.
        let run = haul.run().expect_ok();
        assert_eq!(scene.read("b"), "content", "{run}");
        let run = copy_over_three(scene, 0, refuses).run().expect_code(3);
        assert!(run.err().contains("Too many logins."), "{run}");
    });
}

#[test]
fn an_interruption_ends_logins() {
    each_remote_way(|scene| {
        let running = copy_over_three(scene, 0, "exec sleep 600").spawn().expect("it starts");
        let all = || proc::descendants(running.pid()).len() == 3;
        assert!(running.until(SOON, all), "three connections");
        let logins = proc::descendants(running.pid());
        running.signal(Signal::TERM);
        let start = Instant::now();
        let run = running.wait().expect("waited for").expect_code(130);
        assert!(start.elapsed() < SOON, "{run}");
        assert_eq!(errors(&run), ["interrupted"], "{run}");
        assert!(logins.into_iter().all(|pid| !proc::is_alive(pid)), "{run}");
        assert!(!scene.exists("b"));
    });
}

//! Contents that go over several logins to a host: ssh connections of their own, which join
//! a job while it is at work.

use crate::common::*;
use haul_testkit::haul::Running;
use haul_testkit::proc::{self, Signal};
use haul_testkit::{Haul, Sshd, tree};
use std::path::Path;
use std::time::{Duration, Instant};

/// The time after which a run counts as hung.
const SOON: Duration = Duration::from_secs(60);

const WAYS: [Way; 2] = [Way::Upload, Way::Download];

/// A large file, a few that are not striped, and many small ones.
fn make_source(scene: &Scene<'_>) {
    scene.mkdir("src/many");
    tree::random_file(scene.path("src/large"), (40 << 20) + 4321, 1).expect("a file");
    for at in 0..3 {
        tree::random_file(scene.path(format!("src/medium{at}")), 7 << 20, 9 + at).expect("a file");
    }
    for at in 0..300 {
        scene.file(format!("src/many/{at}"), vec![at as u8; 4 << 10]);
    }
}

fn assert_copied(scene: &Scene<'_>, dest: &str) {
    let differences = scene.snapshot("src").differences(&scene.snapshot(dest), scene.rules());
    assert_eq!(differences, []);
    assert_no_strays(&scene.path(dest));
}

/// A copy at a rate that leaves time to look.
fn slowly(scene: &Scene<'_>, flags: &[&str], dest: &str) -> Haul {
    let flags = [&["-a", "--bwlimit", "20m"], flags].concat();
    let sync = scene.transfer("sync", &scene.route(), &flags, &["src/"], dest);
    sync.env("HAUL_LOG", "debug").limit(SOON)
}

fn begin(scene: &Scene<'_>, flags: &[&str], dest: &str) -> Running {
    slowly(scene, flags, dest).spawn().expect("it starts")
}

/// The connections of haul beside its first, by their processes.
pub(crate) fn beside(running: &Running) -> Vec<u32> {
    let is_beside = |pid: &u32| {
        let words = proc::command_line(*pid);
        let has = |word: &[u8]| words.iter().any(|it| it == word);
        has(b"-oBatchMode=yes") && has(b"-oControlPath=none") && !has(b"-G")
    };
    proc::descendants(running.pid()).into_iter().filter(is_beside).collect()
}

/// Runs `test` to a host and from it, each with an sshd that `lines` set up.
pub(crate) fn at_servers(lines: &[&str], test: impl Fn(&Scene<'_>, &Sshd) + Sync) {
    at_servers_behind("", lines, test);
}

/// The same where ssh does `before` each login.
fn at_servers_behind(before: &str, lines: &[&str], test: impl Fn(&Scene<'_>, &Sshd) + Sync) {
    each_of(
        &WAYS,
        |_| {},
        |scene| {
            let sshd = lines.iter().fold(Sshd::builder(), |sshd, line| sshd.server_line(*line));
            let sshd = sshd.start().expect("sshd starts");
            let ssh = format!("{before}\nexec {} \"$@\"", sshd.rsh());
            let rsh = script(&scene.mkdir("bin").join("ssh"), &ssh);
            let mut other = scene.another(&format!("{:?}-at", scene.way));
            other.reach_by(rsh);
            test(&other, &sshd);
        },
    );
}

#[test]
fn contents_go_over_as_many_logins_as_are_asked_for() {
    at_servers(&[], |scene, sshd| {
        make_source(scene);
        let running = begin(scene, &["--parallel", "4", "--via", "ssh"], "dst");
        assert!(running.until(SOON, || sshd.agents().len() == 4), "no further login");
        assert_eq!(beside(&running).len(), 3);
        let run = running.wait().expect("it ends").expect_ok();
        // The rate holds for all of them together.
        assert!(run.usage.wall > Duration::from_millis(2800), "{run}");
        assert!(!run.err().contains("another connection failed"), "{run}");
        assert_copied(scene, "dst");
        assert!(holds_soon(|| sshd.agents().is_empty()), "somebody stays");
    });
}

fn holds_soon(condition: impl FnMut() -> bool) -> bool {
    haul_testkit::holds_within(Duration::from_secs(10), condition)
}

#[test]
fn a_server_that_takes_few_logins_at_a_time_takes_eight_in_the_end() {
    std::thread::scope(|scope| {
        for startups in ["MaxStartups 2:30:10", "MaxStartups 1:100:1"] {
            scope.spawn(move || takes_eight_in_the_end(startups));
        }
    });
}

fn takes_eight_in_the_end(startups: &str) {
    at_servers(&[startups], |scene, sshd| {
        make_source(scene);
        let flags = ["--parallel", "8", "--via", "ssh", "--bwlimit", "10m"];
        let sync = slowly(scene, &flags, "dst").agents_below(sshd.pid());
        let running = sync.spawn().expect("it starts");
        let most = std::cell::Cell::new(0);
        running.until(SOON, || {
            most.set(most.get().max(sshd.agents().len()));
            most.get() == 8
        });
        let run = running.wait().expect("it ends").expect_ok();
        assert_eq!(most.get(), 8, "{run}");
        for peak in [run.usage.peak_rss_bytes, run.usage.agent_peak_rss_bytes] {
            assert!(peak.is_some_and(|peak| peak < 128 << 20), "{peak:?}");
        }
        assert_copied(scene, "dst");
    });
}

/// The first login takes long, as it does behind a long link.
const LATE: &str =
    "case \" $* \" in *' -'[GV]' '*|*BatchMode=yes*) ;; *) sleep 1; : > \"$0.late\" ;; esac";

#[test]
fn others_are_begun_while_the_first_login_is_in_transit() {
    at_servers_behind(LATE, &[], |scene, sshd| {
        make_source(scene);
        let running = begin(scene, &["--parallel", "4", "--via", "ssh"], "dst");
        // All, when one is known to be let in.
        assert!(running.until(SOON, || sshd.agents().len() == 2), "they wait for the first");
        assert!(!scene.exists("bin/ssh.late"), "the first was not late");
        assert!(running.until(SOON, || sshd.agents().len() == 4), "the first never stands");
        let run = running.wait().expect("it ends").expect_ok();
        assert!(!run.err().contains("another connection failed"), "{run}");
        assert_copied(scene, "dst");
    });
}

#[test]
fn little_that_is_to_be_sent_is_no_reason_for_another_login() {
    at_servers_behind(LATE, &[], |scene, sshd| {
        scene.file("src/small", vec![7; 100 << 10]);
        let running = begin(scene, &["--parallel", "4", "--via", "ssh"], "dst");
        let mut most = 0;
        running.until(SOON, || {
            most = most.max(beside(&running).len());
            false
        });
        running.wait().expect("it ends").expect_ok();
        // How much a host has to send is not known before it was reached.
        let may_be = if scene.way == Way::Upload { 0..=0 } else { 2..=3 };
        assert!(may_be.contains(&most), "{most}");
        assert_copied(scene, "dst");
        assert!(holds_soon(|| sshd.agents().is_empty()), "somebody stays");
    });
}

#[test]
fn a_login_that_is_lost_costs_what_was_on_it_and_another_takes_its_place() {
    at_servers(&[], |scene, sshd| {
        make_source(scene);
        let running = begin(scene, &["--parallel", "3", "--via", "ssh"], "dst");
        assert!(running.until(SOON, || sshd.agents().len() == 3), "no further login");
        std::thread::sleep(Duration::from_millis(300));
        let before = beside(&running);
        assert_eq!(before.len(), 2);
        proc::signal(before[0], Signal::KILL);
        let has_another = || {
            let now = beside(&running);
            now.len() == 2 && !now.contains(&before[0]) && sshd.agents().len() == 3
        };
        assert!(running.until(SOON, has_another), "nothing takes its place");
        let run = running.wait().expect("it ends").expect_ok();
        assert!(!run.err().contains("reconnecting"), "{run}");
        assert_copied(scene, "dst");
    });
}

#[test]
fn a_job_that_connects_again_logs_in_as_often_again() {
    at_servers(&[], |scene, sshd| {
        make_source(scene);
        let flags = ["--parallel", "3", "--via", "ssh", "--retries", "8"];
        let running = begin(scene, &flags, "dst");
        assert!(running.until(SOON, || sshd.agents().len() == 3), "no further login");
        let first = sshd.agents();
        sshd.cut();
        let has_new = || {
            let agents = sshd.agents();
            agents.len() == 3 && first.iter().all(|agent| !agents.contains(agent))
        };
        assert!(running.until(SOON, has_new), "no further login again");
        let run = running.wait().expect("it ends").expect_ok();
        assert!(run.err().contains("reconnecting"), "{run}");
        assert_copied(scene, "dst");
    });
}

/// The end of an ssh whose keys are not taken.
const REFUSED: &str = "echo 'you@haul-test: Permission denied (publickey).' >&2; exit 255";

/// Has ssh do `instead` where it logs in beside another connection.
fn beside_is(scene: &mut Scene<'_>, instead: &str) {
    after_the_first(scene, ":", instead);
}

/// The same, and what comes `before` the first login.
fn after_the_first(scene: &mut Scene<'_>, before: &str, instead: &str) {
    let rsh = scene.sshd().rsh();
    let lines = format!(
        "case \" $* \" in *' -'[GV]' '*) ;; *BatchMode=yes*) {instead} ;; *) {before} ;; esac\nexec {rsh} \"$@\""
    );
    let path: &Path = &scene.mkdir("bin").join("ssh");
    let rsh = script(path, &lines);
    scene.reach_by(rsh);
}

#[test]
fn where_others_would_be_refused_two_are_and_no_more() {
    let beside_is_refused = |scene: &mut Scene<'_>| {
        let refused = format!("echo no >> '{}'; {REFUSED}", scene.path("refused").display());
        // The first takes as long as if somebody typed a password.
        after_the_first(scene, "sleep 2.5", &refused);
    };
    each_of(&WAYS, beside_is_refused, |scene| {
        scene.mkdir("src");
        tree::random_file(scene.path("src/large"), 30 << 20, 1).expect("a file");
        let running = begin(scene, &["--parallel", "8", "--via", "ssh"], "dst");
        let run = running.wait().expect("it ends").expect_ok();
        assert!(run.err().contains("another connection failed"), "{run}");
        assert_eq!(scene.read("refused").lines().count(), 2, "{run}");
        assert_copied(scene, "dst");
    });
}

#[test]
fn logins_that_hang_or_fail_hold_up_nobody() {
    let cases = [
        ("exec sleep 600", None),
        ("trap '' TERM; exec sleep 600", None),
        (REFUSED, Some("another connection failed")),
    ];
    let holds_up_nobody = |instead, words: Option<&str>| {
        each_of(
            &WAYS,
            |scene| beside_is(scene, instead),
            |scene| {
                scene.mkdir("src");
                tree::random_file(scene.path("src/large"), 30 << 20, 1).expect("a file");
                let begun = Instant::now();
                let running = begin(scene, &["--parallel", "4", "--via", "ssh"], "dst");
                let run = running.wait().expect("it ends").expect_ok();
                assert!(begun.elapsed() < Duration::from_secs(15), "{run}");
                assert!(words.is_none_or(|words| run.err().contains(words)), "{run}");
                assert_copied(scene, "dst");
            },
        );
    };
    let holds_up_nobody = &holds_up_nobody;
    std::thread::scope(|scope| {
        for (instead, words) in cases {
            scope.spawn(move || holds_up_nobody(instead, words));
        }
    });
}

#[test]
fn where_no_direct_connection_stands_logins_take_their_place() {
    // The host listens where nobody can.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    at_servers(&[], |scene, sshd| {
        make_source(scene);
        let running = begin(scene, &["--parallel", "3", "--port-range", &port], "dst");
        assert!(running.until(SOON, || sshd.agents().len() == 3), "no further login");
        running.wait().expect("it ends").expect_ok();
        assert_copied(scene, "dst");
        let running = begin(scene, &["--parallel", "3"], "again");
        assert!(!running.until(SOON, || sshd.agents().len() > 1), "a login in vain");
        running.wait().expect("it ends").expect_ok();
        assert_copied(scene, "again");
    });
}

#[test]
fn it_is_reported_which_way_contents_go() {
    each_remote_way(|scene| {
        scene.mkdir("src");
        tree::random_file(scene.path("src/large"), 40 << 20, 1).expect("a file");
        let flags = ["-rv", "--parallel", "2", "--via", "ssh", "--bwlimit", "20m"];
        let run = scene.copy(&flags, &["src"], "dst").limit(SOON).run().expect_ok();
        let line = "haul: contents go to haul-test over 2 ssh connections\n";
        assert!(run.err().contains(line), "{run}");
    });
}

//! Contents that go past ssh: over connections that the two sides open for one job.

use crate::common::*;
use haul_testkit::odd::{Call, OddMount, Quirks};
use haul_testkit::proc::Signal;
use haul_testkit::{Tcp, same_content, tree};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time after which a run counts as hung.
const SOON: Duration = Duration::from_secs(60);

const WAYS: [Way; 2] = [Way::Upload, Way::Download];

/// Bytes of the large file.
const LARGE: u64 = 40 << 20;

/// The host is reached by a pipe, as `address` of this machine as far as it knows, and what
/// goes through the pipe in both directions is counted. The agent is heard `late` seconds
/// late.
fn reached_as(scene: &mut Scene<'_>, address: &str, late: &str) {
    let lines = format!(
        "shift\nexport SSH_CONNECTION='{address} 1 {address} 2'\n\
         {{ tee -a '{0}' | sh -c \"$*\" | {{ sleep {late}; tee -a '{0}'; }}; }}",
        scene.path("count").display()
    );
    let rsh = script(&scene.path("counting"), &lines);
    scene.reach_by(rsh);
}

pub(crate) fn reached(scene: &mut Scene<'_>) {
    reached_as(scene, "127.0.0.1", "0");
}

/// A port that nobody listens on.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

fn make_source(scene: &Scene<'_>) {
    scene.mkdir("src/many");
    tree::random_file(scene.path("src/large"), LARGE, 1).expect("a file");
    tree::random_file(scene.path("src/odd"), (12 << 20) + 4321, 2).expect("a file");
    let sparse = fs::File::create(scene.path("src/sparse")).expect("a file");
    sparse.set_len(30 << 20).expect("a length");
    drop(sparse);
    let mut sparse = fs::OpenOptions::new().write(true).open(scene.path("src/sparse")).expect("it");
    sparse.write_all(b"begins").expect("written");
    for at in 0..300 {
        scene.file(format!("src/many/{at}"), vec![at as u8; at * 40]);
    }
}

/// Bytes that have gone through the pipe.
fn through_pipe(scene: &Scene<'_>) -> u64 {
    let count = scene.path("count");
    let len = fs::metadata(&count).expect("it was counted").len();
    fs::remove_file(count).expect("removed");
    len
}

fn assert_copied(scene: &Scene<'_>, dest: &str) {
    let differences = scene.snapshot("src").differences(&scene.snapshot(dest), scene.rules());
    assert_eq!(differences, []);
}

#[test]
fn direct_connections_are_reported_of_where_contents_go_over_them() {
    each_of(&WAYS, reached, |scene| {
        tree::random_file(scene.path("large"), LARGE, 1).expect("a file");
        let copy = || scene.copy(&["-v", "--via", "tcp"], &["large"], "to/").run().expect_ok();
        let first = copy();
        assert!(first.err().contains("contents go to haul-test over"), "{first}");
        for _ in 0..4 {
            let again = copy();
            assert!(again.out().contains("skipped 1"), "{again}");
            assert!(!again.err().contains("contents go"), "{again}");
        }
    });
}

#[test]
fn there_are_as_many_direct_connections_as_are_asked_for() {
    each_of(&WAYS, reached, |scene| {
        tree::random_file(scene.path("large"), LARGE, 1).expect("a file");
        for (asked, told) in [("1", "over 1 direct connection\n"), ("4", "over 4 direct conn")] {
            let flags = ["-v", "--via", "tcp", "--parallel", asked];
            let run = scene.copy(&flags, &["large"], asked).run().expect_ok();
            assert!(run.err().contains(told), "{run}");
        }
    });
}

#[test]
fn more_are_opened_where_there_turns_out_to_be_more_to_send() {
    each_of(&WAYS, reached, |scene| {
        let Some(mount) = OddMount::new(Quirks::default()) else { return };
        scene.symlink(mount.path(), "src");
        // Less than a second connection is worth, until the last name is found.
        tree::random_file(mount.backing().join("first"), 3 << 20, 1).expect("a file");
        for at in 0..60 {
            let dir = mount.backing().join(format!("dir-{:02}", at / 5));
            fs::create_dir_all(&dir).expect("a directory");
            fs::write(dir.join(at.to_string()), "").expect("written");
        }
        tree::random_file(mount.backing().join("dir-11/large"), LARGE, 2).expect("a file");
        mount.delay_each(Call::Lookup, Duration::from_millis(30));
        let flags = ["-rv", "--via", "tcp", "--parallel", "4", "--bwlimit", "16m"];
        let running = scene.copy(&flags, &["src/"], "dst").spawn().expect("it starts");
        let stand = || Tcp::of(running.pid()).len();
        assert!(running.until(SOON, || stand() > 0), "none stands");
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(stand(), 1);
        assert!(running.until(SOON, || stand() == 4), "{} stand", stand());
        let run = running.wait().expect("it ends").expect_ok();
        assert_eq!(run.err().matches("contents go to haul-test over").count(), 1, "{run}");
        for name in ["first", "dir-11/large"] {
            let there = scene.path("dst").join(name);
            assert!(same_content(mount.backing().join(name), there).expect("read"), "{name}");
        }
    });
}

#[test]
fn contents_go_the_way_that_is_asked_for_and_arrive_the_same() {
    each_of(&WAYS, reached, |scene| {
        make_source(scene);
        let sent = |via: &str| {
            let dest = format!("dst-{via}");
            let flags = ["-r", "--compress", "none", "--via", via];
            scene.copy(&flags, &["src"], &dest).run().expect_ok();
            assert_copied(scene, &dest);
            through_pipe(scene)
        };
        let contents = LARGE + (12 << 20);
        assert!(sent("ssh") > contents);
        assert!(sent("tcp") < 1 << 20, "content went through ssh");
        assert!(sent("auto") < contents + (4 << 20));
        let again = ["-r", "--via", "tcp"];
        let run = scene.copy(&again, &["src"], "dst-tcp").run().expect_ok();
        assert!(run.out().starts_with("copied nothing"), "{run}");
    });
}

#[test]
fn through_real_ssh_the_host_reports_by_itself_where_it_is() {
    each_remote_way(|scene| {
        make_source(scene);
        let run = scene.copy(&["-rv", "--via", "tcp"], &["src"], "dst").run().expect_ok();
        assert_copied(scene, "dst");
        assert!(run.err().contains("haul: contents go to haul-test over "), "{run}");
    });
}

/// The host allows few open files, so it offers no lanes.
fn with_few_open_files(scene: &mut Scene<'_>) {
    let lines = "for word; do [ \"$word\" != -G ] || { echo 'hostname 127.0.0.1'; exit; }; done\n\
        for last; do :; done\nulimit -n 256\nexport SSH_CONNECTION='127.0.0.1 1 127.0.0.1 2'\n\
        exec sh -c \"$last\"";
    let ssh = script(&scene.path("ssh"), lines);
    scene.reach_by(ssh);
}

/// Their blocks come over the lanes, and their ends through ssh, which stalls for a second.
#[test]
fn many_sparse_files_may_be_ahead_of_their_ends() {
    let stalling = |scene: &mut Scene<'_>| {
        let lines = "shift\nexport SSH_CONNECTION='127.0.0.1 1 127.0.0.1 2'\n\
            { head -c 8000; sleep 1; cat; } | sh -c \"$*\"";
        let rsh = script(&scene.path("stalling"), lines);
        scene.reach_by(rsh);
    };
    each_of(&[Way::Upload], stalling, |scene| {
        scene.mkdir("src");
        for at in 0..200 {
            let file = fs::File::create(scene.path(format!("src/{at}"))).expect("a file");
            file.set_len(9 << 20).expect("a length");
        }
        let flags = ["-r", "--parallel", "4", "--via", "tcp"];
        scene.copy(&flags, &["src"], "dst").limit(SOON).run().expect_ok();
        assert_eq!(scene.list("src"), scene.list("dst"));
        assert!(same_content(scene.path("src/7"), scene.path("dst/7")).expect("read"));
    });
}

/// The client sends them in blocks, which could go over lanes.
#[test]
fn many_large_files_arrive_where_no_lane_joins() {
    each_of(&WAYS, with_few_open_files, |scene| {
        scene.mkdir("src");
        for at in 0..70 {
            let file = fs::File::create(scene.path(format!("src/{at}"))).expect("a file");
            file.set_len(9 << 20).expect("a length");
        }
        for via in ["ssh", "auto"] {
            let dest = format!("by-{via}");
            scene.copy(&["-r", "--via", via], &["src"], &dest).limit(SOON).run().expect_ok();
            assert_copied(scene, &dest);
        }
    });
}

#[test]
fn where_there_is_no_other_way_that_is_an_error_only_if_it_was_asked_for() {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = port.local_addr().expect("an address").port().to_string();
    let is_taken =
        format!("the host can't open a port: can't listen on port {taken}: address in use");
    type Setup<'s> = &'s (dyn Fn(&mut Scene<'_>) + Sync);
    let cases: [(Setup<'_>, &[&str], &str); 6] = [
        (&with_few_open_files, &[], "the host allows too few open files"),
        (
            &|scene| scene.reach_by_pipe(),
            &[],
            "the host has no ssh connection, or sshd does not report its address",
        ),
        (
            &|scene| reached_as(scene, "nowhere", "0"),
            &[],
            "the host was reached by an address without listening ports",
        ),
        // TEST-NET-1 is nobody's.
        (&|scene| reached_as(scene, "192.0.2.1", "0"), &[], "the host can't open a port"),
        (&reached, &["--port-range", &taken], &is_taken),
        (&|scene| reached_as(scene, "0.0.0.0", "0"), &[], "it reports the invalid address"),
    ];
    // The host tells it, or the client sees it, in both ways: each case runs in one.
    for (at, (setup, flags, words)) in cases.into_iter().enumerate() {
        each_of(&[WAYS[at % WAYS.len()]], setup, |scene| {
            scene.mkdir("src");
            // It is on its way for longer than looking for another takes.
            tree::random_file(scene.path("src/large"), 40 << 20, 1).expect("a file");
            let required = [&["-r", "--via", "tcp"], flags].concat();
            let run = scene.copy(&required, &["src"], "required").run().expect_code(3);
            assert!(run.err().contains("no direct connection to haul-test"), "{run}");
            assert!(run.err().contains(words), "{run}");
            assert!(!scene.exists("required/large"));
            assert_no_strays(&scene.path(""));
            let flags = [&["-rv", "--via", "auto"], flags].concat();
            let run = scene.copy(&flags, &["src"], "dst").run().expect_ok();
            assert_copied(scene, "dst");
            assert!(
                run.err().contains("haul: contents go to haul-test without direct connections: "),
                "{run}"
            );
            assert!(run.err().contains(words), "{run}");
        });
    }
}

/// The host is reached by what is called like ssh, which finds it at `address`. It says itself
/// that it is here.
fn found_at(scene: &mut Scene<'_>, address: &str) {
    let lines = format!(
        "for word; do [ \"$word\" != -G ] || {{ echo 'hostname {address}'; exit; }}; done\n\
         for last; do :; done\nexport SSH_CONNECTION='127.0.0.1 1 127.0.0.1 2'\nexec sh -c \"$last\""
    );
    let ssh = script(&scene.path("ssh"), &lines);
    scene.reach_by(ssh);
}

#[test]
fn a_host_elsewhere_is_not_called_at_this_machine() {
    for (address, is_here) in [("192.0.2.7", false), ("127.0.0.1", true)] {
        each_of(
            &WAYS,
            |scene| found_at(scene, address),
            |scene| {
                scene.mkdir("src");
                tree::random_file(scene.path("src/large"), LARGE, 1).expect("a file");
                let copy = |via: &str| scene.copy(&["-rv", "--via", via], &["src"], via).run();
                let words = "it reports the loopback address 127.0.0.1";
                let run = copy("auto").expect_ok();
                assert_copied(scene, "auto");
                assert_eq!(run.err().contains(words), !is_here, "{run}");
                let run = copy("tcp");
                assert_eq!(run.code, Some(if is_here { 0 } else { 3 }), "{run}");
                assert_eq!(run.err().contains(words), !is_here, "{run}");
            },
        );
    }
}

#[test]
fn strangers_at_the_port_hold_up_nobody_and_hear_nothing() {
    each_of(
        &WAYS,
        |scene| reached_as(scene, "127.0.0.1", "2"),
        |scene| {
            make_source(scene);
            let port = free_port();
            let range = port.to_string();
            let flags = ["-r", "--via", "tcp", "--port-range", &range];
            let running = scene.copy(&flags, &["src"], "dst").spawn().expect("it starts");
            let begin = Instant::now();
            let mut callers = Vec::new();
            while callers.len() < 100 && begin.elapsed() < Duration::from_secs(30) {
                match TcpStream::connect(("127.0.0.1", port)) {
                    Ok(mut caller) => {
                        let said: &[u8] = match callers.len() % 3 {
                            0 => b"",
                            1 => b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                            _ => b"GET / HTTP/1.0\r\n\r\n",
                        };
                        let _ = caller.write_all(said);
                        callers.push(caller);
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            }
            assert_eq!(callers.len(), 100, "the port was never open");
            running.wait().expect("it ends").expect_ok();
            assert_copied(scene, "dst");
            assert!(through_pipe(scene) < 1 << 20);
            assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "the port is open still");
            for mut caller in callers {
                caller.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
                let mut heard = Vec::new();
                let _ = caller.read_to_end(&mut heard);
                // An alert at most, after what is no greeting.
                assert!(heard.len() <= 7 && !heard.windows(4).any(|w| w == b"haul"), "{heard:?}");
            }
        },
    );
}

#[test]
fn a_copy_that_was_killed_continues_over_other_lanes() {
    const BIG: u64 = 200 << 20;
    each_of(&WAYS, reached, |scene| {
        scene.mkdir("src");
        tree::random_file(scene.path("src/big"), BIG, 3).expect("a file");
        let copy = |rate: &str, more: &[&str]| {
            let flags = [&["-a", "--via", "tcp", "--bwlimit", rate], more].concat();
            scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst")
        };
        let running = copy("60m", &[]).spawn().expect("it starts");
        let part = || largest(&scene.path("dst"));
        assert!(running.until(Duration::from_secs(60), || part() > 120 << 20));
        running.signal(Signal::KILL);
        running.kill_group();
        drop(running);
        let run = copy("0", &["--json"]).run().expect_ok();
        assert!(moved(&run) < BIG, "{run}");
        assert_copied(scene, "dst");
        assert_no_strays(&scene.path("dst"));
    });
}

/// The length of the largest file in a directory, in bytes.
fn largest(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|it| it.len()).max().unwrap_or(0)
}

#[test]
fn a_rate_holds_for_all_lanes_together() {
    each_of(&WAYS, reached, |scene| {
        scene.mkdir("src");
        tree::random_file(scene.path("src/a"), 12 << 20, 3).expect("a file");
        tree::random_file(scene.path("src/b"), 12 << 20, 4).expect("a file");
        let begin = Instant::now();
        let flags = ["-a", "--via", "tcp", "--bwlimit", "8m"];
        scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run().expect_ok();
        assert!(begin.elapsed() > Duration::from_millis(2500), "{:?}", begin.elapsed());
        assert_copied(scene, "dst");
    });
}

#[test]
fn a_move_goes_the_way_that_is_asked_for_and_compressed_as_asked() {
    each_of(&WAYS, reached, |scene| {
        let sent = |flags: &[&str]| {
            scene.file("src/text", vec![b'x'; 6 << 20]);
            tree::random_file(scene.path("src/noise"), 6 << 20, 1).expect("a file");
            let before = scene.snapshot("src");
            scene.transfer("move", &scene.route(), flags, &["src"], "dst/").run().expect_ok();
            let differences = before.differences(&scene.snapshot("dst/src"), scene.rules());
            assert_eq!(differences, []);
            assert!(!scene.exists("src"));
            fs::remove_dir_all(scene.path("dst")).expect("removed");
            through_pipe(scene)
        };
        assert!(sent(&["--via", "tcp"]) < 1 << 20);
        assert!(sent(&["--via", "ssh", "--compress", "none"]) > 12 << 20);
        assert!((6 << 20..8 << 20).contains(&sent(&["--via", "ssh", "--compress", "zstd"])));
    });
}

#[test]
fn what_has_no_bytes_does_not_wait_for_any() {
    each_of(&WAYS, reached, |scene| {
        scene.file("empty", "");
        let copy = || scene.copy(&["--via", "tcp"], &["empty"], "there").limit(SOON).run();
        copy().expect_ok();
        assert_eq!(scene.read("there"), "");
        copy().expect_ok();
        scene.mkdir("dir");
        scene.copy(&["-r", "--via", "tcp"], &["dir"], "dst").limit(SOON).run().expect_ok();
    });
}

#[test]
fn holes_and_what_is_behind_them_are_not_waited_for_in_vain() {
    each_of(&WAYS, reached, |scene| {
        scene.mkdir("src");
        let path = scene.path("src/sparse");
        tree::random_file(&path, 5 << 20, 1).expect("a file");
        let file = fs::OpenOptions::new().write(true).open(&path).expect("it");
        file.set_len(700 << 20).expect("a length");
        file.write_all_at(&vec![7; 9 << 20], 400 << 20).expect("written");
        drop(file);
        for via in ["tcp", "ssh"] {
            let copy = scene.copy(&["-r", "--via", via], &["src"], "dst").limit(SOON * 2);
            copy.run().expect_ok();
            assert_copied(scene, "dst");
            fs::remove_dir_all(scene.path("dst")).expect("removed");
        }
    });
}

#[test]
fn a_difference_that_fails_over_lanes_is_sent_whole() {
    each_of(&WAYS, reached, |scene| {
        scene.mkdir("src");
        scene.mkdir("dst");
        let part = |seed: u64, len: u64| {
            let path = scene.path("part");
            tree::random_file(&path, len, seed).expect("a file");
            fs::read(path).expect("read")
        };
        let (old, new, last) = (part(1, 60 << 20), part(2, 20 << 20), part(3, 40 << 20));
        fs::write(scene.path("dst/f"), &old).expect("written");
        fs::write(scene.path("src/f"), [&new, &old[..30 << 20], &last].concat()).expect("written");
        let flags = ["-a", "--via", "tcp", "--bwlimit", "20m"];
        let sync = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst");
        let running = sync.limit(SOON * 4).spawn().expect("it starts");
        let begun = || largest(&scene.path("dst")) > 60 << 20 || some_stage(scene);
        running.until(SOON, begun);
        std::thread::sleep(Duration::from_millis(700));
        let touched = fs::OpenOptions::new().write(true).open(scene.path("dst/f")).expect("it");
        touched.set_len(4096).expect("cut");
        running.wait().expect("it ends").expect_ok();
        assert_copied(scene, "dst");
    });
}

/// True if a file is on its way.
fn some_stage(scene: &Scene<'_>) -> bool {
    fs::read_dir(scene.path("dst")).is_ok_and(|entries| entries.count() > 1)
}

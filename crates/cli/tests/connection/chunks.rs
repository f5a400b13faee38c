//! Content that the other side has already is not sent, and what is copied is right whatever
//! becomes of the cache.

use crate::common::*;
use haul_testkit::{Haul, Sshd, tree};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const LEN: u64 = 6 << 20;

/// Two machines, each with a home directory that lasts, and a host that is reached by ssh.
struct Machines {
    dir: TempDir,
    sshd: Sshd,
}

impl Machines {
    fn new() -> Self {
        Self::with(|_| Vec::new())
    }

    /// The same with variables on the host.
    fn with(env: impl FnOnce(&Path) -> Vec<(&'static str, String)>) -> Self {
        let dir = TempDir::new().expect("a directory");
        for name in ["home", "there"] {
            fs::create_dir(dir.path().join(name)).expect("made");
        }
        let cache = dir.path().join("cache").display().to_string();
        let sshd = Sshd::builder().env("HAUL_CACHE_DIR", cache);
        let sshd =
            env(dir.path()).into_iter().fold(sshd, |sshd, (name, value)| sshd.env(name, value));
        Self { sshd: sshd.start().expect("an sshd"), dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file of random content here.
    fn random(&self, name: &str, len: u64, seed: u64) -> Vec<u8> {
        tree::random_file(self.path(name), len, seed).expect("a file");
        fs::read(self.path(name)).expect("read")
    }

    fn there(&self, name: &str) -> std::ffi::OsString {
        self.sshd.location(self.path("there").join(name))
    }

    fn haul(&self) -> Haul {
        let rsh = self.sshd.rsh();
        let haul = Haul::new(Path::new(HAUL)).cwd(self.dir.path());
        let haul = haul.env("HOME", self.path("home")).env("HAUL_CACHE_DIR", self.path("here"));
        haul.env("HAUL_RSH", rsh).env("HAUL_REMOTE_HAUL", HAUL)
    }

    /// Copies, and gives the bytes that were sent and those that were not.
    fn copy(
        &self,
        options: &[&str],
        from: impl AsRef<std::ffi::OsStr>,
        to: impl AsRef<std::ffi::OsStr>,
    ) -> (u64, u64) {
        let run = self.haul().args(["copy", "--json"]).args(options).arg(from).arg(to).run();
        figures(&run.expect_ok().out())
    }

    fn copied(&self, name: &str) -> Vec<u8> {
        fs::read(self.path("there").join(name)).expect("it is there")
    }
}

/// The bytes of content that a job has sent, and those that it has not.
fn figures(output: &str) -> (u64, u64) {
    let line = output.lines().last().expect("a summary");
    let summary: Value = serde_json::from_str(line).expect("JSON");
    let figure = |name: &str| summary[name].as_u64().expect("a number");
    (figure("moved"), figure("matched"))
}

/// Of so many bytes, some were known: on a busy machine, not all answers come in time.
#[track_caller]
fn assert_known((sent, known): (u64, u64), len: u64) {
    assert_eq!(sent + known, len);
    assert!(known >= len / 16, "{known} of {len}");
}

#[test]
fn what_a_host_has_is_not_sent_to_it_again() {
    let machines = Machines::new();
    let content = machines.random("a", LEN, 1);
    assert_eq!(machines.copy(&[], "a", machines.there("a")), (LEN, 0));
    assert_known(machines.copy(&[], "a", machines.there("b")), LEN);
    assert!(machines.copied("b") == content);
    // A new directory, and another place for the bytes.
    let longer = [&[7; 1000][..], &content].concat();
    fs::write(machines.path("longer"), &longer).expect("written");
    fs::create_dir(machines.path("there/new")).expect("made");
    let (sent, known) = machines.copy(&[], "longer", machines.there("new/longer"));
    assert_known((sent, known), longer.len() as u64);
    assert!(sent > 0);
    assert!(machines.copied("new/longer") == longer);
    assert_eq!(machines.copy(&["--no-cache"], "a", machines.there("c")), (LEN, 0));
    assert_eq!(machines.copy(&["--fast"], "a", machines.there("d")).1, 0);
    let shown = machines.haul().args(["cache", "--json", machines.sshd.host()]).run();
    let shown: Value = serde_json::from_str(&shown.expect_ok().out()).expect("JSON");
    assert!(shown["saved_bytes"].as_u64() > Some(LEN / 2), "{shown}");
    machines.haul().args(["cache", "clear", machines.sshd.host()]).run().expect_ok();
    assert_eq!(machines.copy(&[], "a", machines.there("e")), (LEN, 0));
}

#[test]
fn what_this_machine_has_is_not_sent_to_it_again() {
    let machines = Machines::new();
    let content = machines.random("there/a", LEN, 2);
    assert_eq!(machines.copy(&[], machines.there("a"), "a"), (LEN, 0));
    assert_known(machines.copy(&[], machines.there("a"), "b"), LEN);
    assert!(fs::read(machines.path("b")).expect("read") == content);
    let run = machines.haul().args(["cache", "verify"]).run().expect_ok();
    assert!(run.out().contains(" chunks are good, 0 dropped"), "{run}");
}

#[test]
fn known_content_is_used_on_every_way() {
    let machines = Machines::new();
    // Blocks of a large file go over several lanes.
    let len = 40 << 20;
    let content = machines.random("a", len, 8);
    machines.copy(
        &["--via", "ssh", "--parallel", "1", "--bwlimit", "60m"],
        "a",
        machines.there("a"),
    );
    for (at, options) in [
        &["--via", "tcp", "--parallel", "3"][..],
        &["--via", "ssh", "--parallel", "2"],
        &["--keep=20s"],
        &["--keep=20s", "--verify"],
        &["--compress", "zstd", "--sync"],
    ]
    .iter()
    .enumerate()
    {
        let name = format!("b{at}");
        assert_known(machines.copy(options, "a", machines.there(&name)), len);
        assert!(machines.copied(&name) == content, "{options:?}");
    }
    machines.haul().args(["keep", "stop"]).run().expect_ok();
    // From host to host, here both are one machine.
    let run = machines.haul().args(["copy", "--json"]).arg(machines.there("a"));
    assert_known(figures(&run.arg(machines.there("c")).run().expect_ok().out()), len);
    assert!(machines.copied("c") == content);
}

#[test]
fn a_mirror_and_a_move_use_what_is_known() {
    let machines = Machines::new();
    let content = machines.random("a", LEN, 3);
    machines.copy(&[], "a", machines.there("a"));
    fs::create_dir(machines.path("src")).expect("made");
    fs::write(machines.path("src/x"), &content).expect("written");
    let sync = |options: &[&str]| {
        let haul = machines.haul().args(["sync", "-a", "--json"]).args(options);
        figures(&haul.arg("src/").arg(machines.there("dst/")).run().expect_ok().out())
    };
    assert_known(sync(&[]), LEN);
    // The old version has half of it, another file the rest.
    let other = machines.random("other", LEN, 4);
    machines.copy(&[], "other", machines.there("other"));
    let half = LEN as usize / 2;
    let mixed = [&content[..half], &other[half..]].concat();
    let changed = machines.path("src/x");
    fs::write(&changed, &mixed).expect("written");
    // Its length is the same, and all of this may take less than a second.
    let other_time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::open(&changed).and_then(|file| file.set_modified(other_time)).expect("set");
    assert_known(sync(&[]), LEN);
    assert!(machines.copied("dst/x") == mixed);
    fs::write(machines.path("moved"), &content).expect("written");
    let run = machines.haul().args(["move", "-v", "moved"]).arg(machines.there("moved")).run();
    run.expect_ok();
    assert!(machines.copied("moved") == content && !machines.path("moved").exists());
}

#[test]
fn content_that_was_replaced_or_removed_is_kept_within_a_bound() {
    let machines = Machines::with(|_| vec![("HAUL_CACHE", "13MiB".to_owned())]);
    let contents: Vec<_> =
        (0..3).map(|at| machines.random(&format!("v{at}"), LEN, 10 + at)).collect();
    for at in 0..3 {
        machines.copy(&["--force"], format!("v{at}"), machines.there("v"));
        let kept = fs::read_dir(machines.path("cache/kept")).expect("it is there");
        let len: u64 =
            kept.map(|entry| entry.expect("an entry").metadata().expect("one").len()).sum();
        assert!(len <= 13 << 20, "{len}");
    }
    // Both old versions are kept.
    assert_known(machines.copy(&[], "v0", machines.there("again0")), LEN);
    assert_known(machines.copy(&[], "v1", machines.there("again1")), LEN);
    assert!(machines.copied("again1") == contents[1]);
    // What a mirror removes is kept, too.
    for dir in ["src", "empty"] {
        fs::create_dir(machines.path(dir)).expect("made");
    }
    machines.random("src/x", LEN, 20);
    let sync = |source: &str| {
        let haul = machines.haul().args(["sync", "-a", "--delete", "--yes", source]);
        haul.arg(machines.there("dst/")).run().expect_ok();
    };
    sync("src/");
    sync("empty/");
    assert!(!machines.path("there/dst/x").exists());
    assert_known(machines.copy(&[], "src/x", machines.there("x")), LEN);
}

#[test]
fn whatever_becomes_of_the_cache_the_copy_is_right() {
    let machines = Machines::new();
    let content = machines.random("a", LEN, 5);
    machines.copy(&[], "a", machines.there("a"));
    // The file is another one by now.
    fs::write(machines.path("there/a"), vec![0; LEN as usize]).expect("written");
    assert_eq!(machines.copy(&[], "a", machines.there("b")), (LEN, 0));
    assert!(machines.copied("b") == content);
    // All of it is damaged.
    for entry in fs::read_dir(machines.path("cache")).expect("it is there") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            fs::write(path, [0xff; 100]).expect("written");
        }
    }
    assert_eq!(machines.copy(&[], "a", machines.there("c")), (LEN, 0));
    assert_known(machines.copy(&[], "a", machines.there("d")), LEN);
    assert!(machines.copied("d") == content);
    // There is no room for it, as on a full disk, or it can't be made.
    fs::remove_dir_all(machines.path("cache")).expect("removed");
    fs::write(machines.path("cache"), "no directory").expect("written");
    assert_eq!(machines.copy(&[], "a", machines.there("e")), (LEN, 0));
    assert!(machines.copied("e") == content);
}

#[test]
fn many_agents_at_once_share_one_cache() {
    let machines = Machines::new();
    let contents: Vec<_> =
        (0..10).map(|at| machines.random(&format!("{at}"), 1 << 20, 30 + at)).collect();
    let copy_all = |suffix: &str| {
        std::thread::scope(|scope| {
            let copy = |at: usize| {
                let (machines, name) = (&machines, format!("{at}"));
                let to = machines.there(&format!("{at}{suffix}"));
                scope.spawn(move || machines.copy(&[], name, to))
            };
            let copies: Vec<_> = (0..10).map(copy).collect();
            copies.into_iter().map(|copy| copy.join().expect("no panic").1).sum::<u64>()
        })
    };
    assert_eq!(copy_all("a"), 0);
    assert!(copy_all("b") > 3 << 20);
    for (at, content) in contents.iter().enumerate() {
        assert!(machines.copied(&format!("{at}b")) == *content);
    }
}

#[test]
fn a_killed_job_leaves_a_cache_of_use() {
    let machines = Machines::new();
    let content = machines.random("a", LEN, 6);
    machines.copy(&[], "a", machines.there("a"));
    let large = [&content[..], &machines.random("b", 24 << 20, 7)].concat();
    fs::write(machines.path("b"), &large).expect("written");
    for _ in 0..3 {
        let haul = machines.haul().args(["copy", "-q", "--bwlimit", "20m", "b"]);
        let running = haul.arg(machines.there("b")).spawn().expect("it starts");
        std::thread::sleep(std::time::Duration::from_millis(300));
        for agent in machines.sshd.agents() {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(agent as i32).expect("a process"),
                rustix::process::Signal::KILL,
            );
        }
        running.kill_group();
    }
    machines.copy(&[], "b", machines.there("b"));
    assert!(machines.copied("b") == large);
    assert_known(machines.copy(&[], "a", machines.there("c")), LEN);
    let run = machines.haul().args(["cache", "verify", machines.sshd.host()]).run().expect_ok();
    assert!(run.out().contains(" chunks are good, 0 dropped"), "{run}");
}

#[test]
fn a_resumed_file_is_known_from_its_beginning() {
    let machines = Machines::new();
    let content = machines.random("a", 40 << 20, 8);
    let haul = machines.haul().args(["copy", "-q", "--bwlimit", "20m", "a"]);
    let running = haul.arg(machines.there("a")).spawn().expect("it starts");
    let received = || {
        let files = fs::read_dir(machines.path("there")).expect("it is there");
        let lens = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.blocks() * 512));
        lens.sum::<u64>()
    };
    while received() < 24 << 20 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    running.kill_group();
    // Chunks are offered to the end of the file where the link is slow.
    let (sent, _) = machines.copy(&["--bwlimit", "20m"], "a", machines.there("a"));
    assert!(sent < 40 << 20, "it was resumed");
    // On a busy machine an answer may come too late.
    let is_known = content[..20 << 20].chunks(4 << 20).enumerate().any(|(number, part)| {
        let name = format!("part-{number}");
        fs::write(machines.path(&name), part).expect("written");
        machines.copy(&[], &name, machines.there(&name)).1 > 0
    });
    assert!(is_known);
}

#[test]
fn what_lies_between_large_holes_is_known() {
    use std::os::unix::fs::FileExt;
    let machines = Machines::new();
    let content = machines.random("a", LEN, 9);
    let sparse = fs::File::create_new(machines.path("sparse")).expect("made");
    sparse.set_len(1 << 30).expect("set");
    sparse.write_all_at(&content, 1 << 29).expect("written");
    machines.copy(&[], "sparse", machines.there("sparse"));
    let (_, known) = machines.copy(&[], "sparse", machines.there("again"));
    assert!(known >= LEN / 16, "{known}");
    assert_known(machines.copy(&[], "a", machines.there("a")), LEN);
}

#[test]
fn a_provider_that_changes_while_lanes_use_it_costs_nothing_but_time() {
    use std::os::unix::fs::FileExt;
    let machines = Machines::new();
    let len = 40 << 20;
    let content = machines.random("a", len, 9);
    machines.copy(&["--via", "ssh", "--bwlimit", "60m"], "a", machines.there("a"));
    for way in [&["--via", "tcp", "--parallel", "3"][..], &["--via", "ssh", "--parallel", "2"]] {
        let haul = machines.haul().args(["copy", "-q", "--bwlimit", "20m"]).args(way);
        let running = haul.arg("a").arg(machines.there("b")).spawn().expect("it starts");
        let known =
            fs::OpenOptions::new().write(true).open(machines.path("there/a")).expect("open");
        let mut at = 0;
        while running.is_running() {
            known.write_all_at(&[1; 512], at % len).expect("written");
            at += 700_001;
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        running.wait().expect("it ends").expect_ok();
        assert!(machines.copied("b") == content);
        fs::remove_file(machines.path("there/b")).expect("removed");
        fs::write(machines.path("there/a"), &content).expect("written");
        machines.copy(&["--via", "ssh", "--bwlimit", "60m"], "a", machines.there("c"));
        fs::remove_file(machines.path("there/c")).expect("removed");
    }
}

#[test]
fn a_full_file_system_of_the_cache_costs_a_copy_nothing() {
    // Less than the index of one file, and room for the index of a few.
    for room in [4096, 40 << 10] {
        let Some(mount) = haul_testkit::Mount::tmpfs(room) else { return };
        let cache = mount.path().join("cache");
        let place = cache.display().to_string();
        let machines =
            Machines::with(|_| vec![("HAUL_CACHE_DIR", place), ("HAUL_CACHE", "1GiB".to_owned())]);
        for at in 0..6 {
            let content = machines.random("a", LEN, 40 + at);
            // Each replaces the one before, which would be kept.
            let run = machines.haul().args(["copy", "--json", "--force", "a"]);
            let run = run.arg(machines.there("a")).run().expect_ok();
            assert_eq!(figures(&run.out()), (LEN, 0), "{run}");
            assert!(machines.copied("a") == content);
        }
        assert_eq!(fs::read_dir(cache.join("kept")).expect("it is there").count(), 0);
        // Nothing is half written there.
        let run = machines.haul().args(["cache", "verify", machines.sshd.host()]).run();
        if room > 4096 {
            assert!(run.expect_ok().out().contains(" good"));
        }
    }
}

#[test]
fn an_older_haul_on_a_host_is_named() {
    let machines = Machines::new();
    let old = machines.path("old");
    fs::write(&old, "#!/bin/sh\nread -r line\necho 'haul: unknown words' >&2\nexit 2\n")
        .expect("written");
    haul_testkit::nasty::set_mode(&old, 0o755).expect("a mode");
    let haul = machines.haul().env("HAUL_REMOTE_HAUL", old);
    let run = haul.args(["cache", machines.sshd.host()]).run().expect_code(2);
    assert!(run.err().contains("is too old for 'haul cache'"), "{run}");
    assert!(run.err().contains("hint: run 'haul deploy "), "{run}");
}

//! A key with a command of its own in authorized_keys.

use crate::common::*;
use haul_testkit::haul::Outcome;
use haul_testkit::{Haul, Sshd, assert_same, tree};
use std::fs;
use std::path::PathBuf;

/// A server whose one key may reach `backup` alone, beside what it may not.
struct Login<'w> {
    scene: Scene<'w>,
    server: Sshd,
}

impl<'w> Login<'w> {
    fn new(world: &'w World, name: &str, rights: &str) -> Self {
        let scene = world.scene_called(name, Way::Upload);
        scene.file("backup/own", "own");
        scene.file("backup/d/f", "f");
        scene.file("outside/secret", "secret");
        scene.symlink("../outside", "backup/out");
        scene.symlink(scene.path("outside"), "backup/absolute");
        scene.symlink("../outside/secret", "backup/leak");
        scene.symlink("d/../own", "backup/inner");
        let server = Sshd::builder().start().expect("sshd starts");
        let dir = server.ssh_config().parent().expect("a directory").to_owned();
        let key = fs::read_to_string(dir.join("user_key.pub")).expect("a key");
        let root = scene.path("backup");
        let line =
            format!("restrict,command=\"{HAUL} serve --root {} {rights}\" {key}", root.display());
        fs::write(dir.join("authorized_keys"), line).expect("written");
        Self { scene, server }
    }

    /// Runs haul with these words.
    fn run(&self, words: &[&str]) -> Outcome {
        let (command, rest) = words.split_first().expect("a command");
        self.haul(command).args(rest).run()
    }

    fn haul(&self, command: &str) -> Haul {
        self.scene.haul().arg(command).args(["--rsh", &self.server.rsh()])
    }

    fn outside(&self) -> PathBuf {
        self.scene.path("outside")
    }

    /// Nothing happened where nothing may happen.
    #[track_caller]
    fn check(&self) {
        assert_eq!(self.scene.list("outside"), ["secret"]);
        assert_eq!(self.scene.read("outside/secret"), "secret");
    }
}

#[test]
fn a_key_that_is_bound_to_a_directory_copies_up_down_and_moves_in_it() {
    let world = World::new();
    let login = Login::new(&world, "write", "");
    let scene = &login.scene;
    tree::many(scene.path("tree"), 30, 2000, 3, 1).expect("a tree");
    tree::random_file(scene.path("tree/big"), 3 << 20, 2).expect("a file");
    let source = scene.snapshot("tree");
    // Paths from the root are taken from that of the key; so is the home directory.
    for (dest, at) in [("haul-test:/up", "up"), ("haul-test:", "tree"), ("haul-test:~/d", "d/tree")]
    {
        login.run(&["copy", "-r", "tree", dest]).expect_ok();
        assert_same(&source, &scene.snapshot(format!("backup/{at}")));
    }
    login.run(&["check", "-r", "--content", "tree", "haul-test:/up"]).expect_ok();
    login.run(&["copy", "-r", "--sync", "-V", "haul-test:up", "down"]).expect_ok();
    assert_same(&source, &scene.snapshot("down"));
    login.run(&["move", "haul-test:/up", "moved"]).expect_ok();
    assert_same(&source, &scene.snapshot("moved"));
    assert!(!scene.exists("backup/up"));
    login.run(&["move", "moved", "haul-test:/back/"]).expect_ok();
    assert_same(&source, &scene.snapshot("backup/back/moved"));
    let listed = login.run(&["ls", "haul-test:/"]).expect_ok();
    assert!(listed.out().contains("own"), "{listed}");
    let same = login.run(&["hash", "haul-test:own", "haul-test:/inner"]).expect_ok();
    assert_eq!(same.out().lines().map(|line| &line[..64]).collect::<Vec<_>>().len(), 2);
    login.check();
}

#[test]
fn rules_above_a_source_are_found_in_the_directory_of_the_key() {
    let world = World::new();
    let login = Login::new(&world, "rules", "--read-only");
    let scene = &login.scene;
    for name in ["f.o", "e/g", "e/g.o"] {
        scene.file(format!("backup/d/{name}"), name);
    }
    scene.file("backup/.rsync-filter", "- *.o\n-/ /d/f\n");
    for source in ["haul-test:d/", "haul-test:/d/"] {
        scene.clear(&["down"]);
        login.run(&["sync", "-aF", source, "down"]).expect_ok();
        assert_eq!(scene.list("down"), ["e", "e/g"]);
    }
    login.check();
}

#[test]
fn a_key_that_is_bound_has_measured_what_it_may() {
    let world = World::new();
    for (rights, code) in [("", 0), ("--read-only", 1)] {
        let login = Login::new(&world, &format!("doctor{rights}"), rights);
        let before = login.scene.snapshot("backup");
        let run = login.run(&["doctor", "--json", "haul-test:/d"]).expect_code(code);
        let line = run.out().lines().last().expect("a line").to_owned();
        let found: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(found["direct"], false, "{run}");
        let reason = found["direct_reason"].as_str().expect("a reason");
        assert!(reason.contains("opens no ports"), "{run}");
        // Nothing is told of what is outside.
        assert!(found["haul"].get("path").is_none(), "{run}");
        assert!(found["there"].get("congestion").is_none(), "{run}");
        assert!(found.get("max_startups").is_none(), "{run}");
        match rights {
            "" => assert!(found["disk"]["write"].as_u64() > Some(0), "{run}"),
            _ => assert!(run.out().contains("is read-only"), "{run}"),
        }
        assert_same(&before, &login.scene.snapshot("backup"));
        if rights.is_empty() {
            login.run(&["doctor", "haul-test:/out"]).expect_code(1);
        }
        login.check();
    }
}

#[test]
fn a_key_that_may_only_read_changes_nothing() {
    let world = World::new();
    let login = Login::new(&world, "read", "--read-only");
    let scene = &login.scene;
    scene.file("mine", "mine");
    let before = scene.snapshot("backup");
    for words in [
        &["copy", "mine", "haul-test:new"][..],
        &["copy", "-f", "mine", "haul-test:own"],
        &["copy", "-r", "outside", "haul-test:made/"],
        &["move", "mine", "haul-test:d/"],
        &["move", "haul-test:own", "taken"],
        &["move", "haul-test:d", "taken-too/"],
        &["sync", "--remove-source-files", "haul-test:own", "taken"],
    ] {
        let run = login.run(words);
        assert_ne!(run.code, Some(0), "{run}");
        assert!(run.err().contains("is read-only"), "{run}");
        assert_same(&before, &scene.snapshot("backup"));
        assert_eq!(scene.read("mine"), "mine");
        let copied = ["taken", "taken-too/d"].into_iter().find(|path| scene.exists(path));
        assert_eq!(copied, None, "it was copied in vain");
    }
    for words in [
        &["copy", "-n", "mine", "haul-test:new"][..],
        &["copy", "haul-test:own", "got"],
        &["copy", "-r", "haul-test:d", "got-tree"],
        &["ls", "-l", "haul-test:"],
        &["stat", "haul-test:own"],
        &["hash", "haul-test:own"],
        &["check", "own-copy", "haul-test:own"],
    ] {
        if words[0] == "check" {
            login.run(&["copy", "haul-test:own", "own-copy"]).expect_ok();
        }
        login.run(words).expect_ok();
        assert_same(&before, &scene.snapshot("backup"));
    }
    login.check();
}

#[test]
fn what_is_outside_is_neither_read_nor_written_nor_reported() {
    let world = World::new();
    let login = Login::new(&world, "outside", "");
    let scene = &login.scene;
    scene.file("mine", "mine");
    let outside = login.outside().display().to_string();
    let places = [
        "../outside".to_owned(),
        "d/../../outside".to_owned(),
        "out".to_owned(),
        "absolute".to_owned(),
        outside,
        "/../outside".to_owned(),
    ];
    for place in &places {
        let there = |name: &str| format!("haul-test:{place}{name}");
        for (command, flags) in [("copy", "-rL"), ("copy", "-r"), ("move", "-q"), ("check", "-rL")]
        {
            let run = login.run(&[command, flags, &there("/secret"), "got"]);
            assert_ne!(run.code, Some(0), "{run}");
            assert!(!scene.exists("got"), "{run}");
            let run = login.run(&[command, flags, "mine", &there("/new")]);
            assert_ne!(run.code, Some(0), "{run}");
        }
        for command in ["stat", "hash", "ls"] {
            let run = login.run(&[command, &there("/secret")]);
            assert_ne!(run.code, Some(0), "{run}");
            // Whether there is something must not show.
            let missing = login.run(&[command, &there("/nothing")]);
            let told = |run: &Outcome| run.err().replace("secret", "").replace("nothing", "");
            assert_eq!(told(&run), told(&missing));
        }
        login.check();
    }
    // Links lead nowhere.
    for command in ["hash", "ls"] {
        let run = login.run(&[command, "haul-test:leak"]);
        assert_ne!(run.code, Some(0), "{run}");
    }
    login.run(&["copy", "-r", "haul-test:/", "all"]).expect_ok();
    assert!(fs::symlink_metadata(scene.path("all/leak")).expect("there").is_symlink());
    let run = login.run(&["copy", "-rL", "haul-test:/", "followed"]).expect_code(1);
    assert!(!scene.exists("followed/leak") && !scene.exists("followed/out/secret"), "{run}");
    assert_eq!(scene.read("followed/inner"), "own");
    login.check();
}

#[test]
fn the_command_that_a_client_asks_for_is_not_run() {
    let world = World::new();
    let login = Login::new(&world, "command", "");
    let marker = login.scene.path("outside/ran");
    let mut asked = login.server.command(format!("touch {}", marker.display()));
    let _ = asked.stdin(std::process::Stdio::null()).output().expect("ssh runs");
    let run = login.haul("ls").args(["--transport", "sftp", "haul-test:/"]).run();
    assert_ne!(run.code, Some(0), "{run}");
    for command in ["deploy", "cache"] {
        let run = login.haul(command).arg("haul-test").run();
        assert_ne!(run.code, Some(0), "{run}");
        assert!(run.err().contains("this login to haul-test runs only haul\n"), "{run}");
        assert_eq!(run.out(), "", "{run}");
    }
    login.check();
}

#[test]
fn a_directory_that_is_not_there_serves_nobody() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    let run = scene.haul().args(["serve", "--root"]).arg(scene.path("missing")).run();
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.err().contains("can't restrict access to"), "{run}");
}

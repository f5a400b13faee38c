//! Patterns in the paths of hosts: what they stand for, with haul there and without.

use crate::common::logins::{count_logins, logins};
use crate::common::*;
use haul_testkit::haul::Outcome;

/// Runs `test` from a host, with haul there and through its SFTP server.
fn from_a_host(test: impl Fn(&Scene<'_>) + Sync) {
    each_of(&[Way::Download, Way::SftpDownload], |_| {}, test);
}

fn logs(scene: &Scene<'_>) {
    for name in ["a/1.gz", "a/2.gz", "a/.3.gz", "a/x.txt", "b/4.gz", "c", "one[5].gz", "one5.gz"] {
        scene.file(format!("logs/{name}"), name);
    }
    scene.mkdir("there");
}

/// Names of the scene's files as the user would write them on the host.
fn ask(scene: &Scene<'_>, command: &str, path: &str) -> Outcome {
    let path = scene.there(scene.path(path));
    scene.haul().arg(command).args(scene.remote()).arg("--").arg(path).run()
}

#[test]
fn a_pattern_stands_for_what_it_matches_on_the_host() {
    from_a_host(|scene| {
        logs(scene);
        scene.copy(&[], &["logs/a/*.gz"], "there").run().expect_ok();
        assert_eq!(scene.list("there"), ["1.gz", "2.gz"]);
        assert_eq!(scene.read("there/2.gz"), "a/2.gz");
        scene.copy(&[], &["logs/?/[34]*", "logs/a/.*"], "there").run().expect_ok();
        assert_eq!(scene.list("there"), [".3.gz", "1.gz", "2.gz", "4.gz"]);
        scene.mkdir("trees");
        let copy =
            |command, flags| scene.transfer(command, &scene.remote(), flags, &["logs/?"], "trees");
        copy("copy", &["-r"]).run().expect_ok();
        assert_eq!(scene.list("trees").len(), 8);
        copy("check", &["-r", "--content"]).run().expect_ok();
        copy("move", &[]).run().expect_ok();
        assert_eq!(scene.list("logs"), ["one5.gz", "one[5].gz"]);
    });
}

#[test]
fn a_name_that_is_there_is_no_pattern() {
    from_a_host(|scene| {
        logs(scene);
        scene.copy(&[], &["logs/one[5].gz"], "there").run().expect_ok();
        assert_eq!(scene.list("there"), ["one[5].gz"]);
        scene.copy(&[], &["logs/one[56].gz"], "new").run().expect_ok();
        assert_eq!(scene.read("new"), "one5.gz");
    });
}

#[test]
fn a_pattern_that_matches_nothing_fails_alone() {
    from_a_host(|scene| {
        logs(scene);
        let run = scene.copy(&[], &["logs/*.zip", "logs/c"], "there").run().expect_code(1);
        let path = format!("haul-test:{}", scene.path("logs/*.zip").display());
        assert_one_error(&run, &path, "no path matches this pattern", "");
        assert!(run.out().contains("failed 1"), "{run}");
        assert_eq!(scene.list("there"), ["c"]);
        for command in ["copy", "move", "check"] {
            let remote = scene.remote();
            let run = scene.transfer(command, &remote, &[], &["logs/*.zip"], "there").run();
            assert_eq!(run.code, Some(1), "{run}");
            assert_one_error(&run, &path, "no path matches this pattern", "");
        }
        assert!(ask(scene, "ls", "logs/*.zip").expect_code(1).out().is_empty());
    });
}

#[test]
fn several_names_that_a_pattern_stands_for_must_not_be_one() {
    from_a_host(|scene| {
        scene.file("a/x", "1");
        scene.file("b/x", "2");
        scene.mkdir("there");
        let run = scene.copy(&[], &["?/x"], "there").run().expect_code(2);
        assert!(run.err().contains("have the same destination: x\n  hint: "), "{run}");
        let run = scene.copy(&[], &["a/x", "?/*"], "missing").run().expect_code(2);
        assert!(!scene.exists("missing"), "{run}");
    });
}

#[test]
fn requests_take_patterns() {
    from_a_host(|scene| {
        logs(scene);
        let out = |command, path| ask(scene, command, path).expect_ok().out();
        let hashes = out("hash", "logs/a/?.gz");
        assert_eq!(hashes.lines().count(), 2, "{hashes}");
        assert!(hashes.ends_with("logs/a/2.gz\n"), "{hashes}");
        let listed = out("ls", "logs/[ab]");
        let [first, second] = ["a:\n.3.gz\n1.gz\n2.gz\nx.txt\n", "b:\n4.gz\n"];
        assert!(listed.contains(&format!("/logs/{first}")), "{listed}");
        assert!(listed.ends_with(&format!("/logs/{second}")), "{listed}");
    });
}

#[test]
fn a_pattern_costs_no_login() {
    each_of(&[Way::Download, Way::SftpDownload], count_logins, |scene| {
        logs(scene);
        let run = |command: &str, flags: &[&str], sources: &[&str]| {
            scene.transfer(command, &scene.remote(), flags, sources, "there").run().expect_ok();
            logins(scene)
        };
        assert_eq!(run("copy", &[], &["logs/a/*.gz", "logs/?/4*"]), 1);
        assert_eq!(scene.list("there"), ["1.gz", "2.gz", "4.gz"]);
        assert_eq!(run("check", &[], &["logs/a/*.gz"]), 1);
        if scene.is_sftp() {
            assert_eq!(run("copy", &["--parallel", "3", "-f"], &["logs/a/*.gz"]), 3);
        }
        let plain = run("move", &[], &["logs/a/1.gz"]);
        assert_eq!(run("move", &[], &["logs/a/2*"]), plain);
        assert!(!scene.exists("logs/a/2.gz"));
    });
}

#[test]
fn no_shell_on_the_host_sees_a_pattern() {
    from_a_host(|scene| {
        scene.file("logs/$(touch made)*.gz", "x");
        scene.mkdir("there");
        scene.copy(&[], &["logs/$(touch made)*"], "there").run().expect_ok();
        assert_eq!(scene.list("there"), ["$(touch made)*.gz"]);
        assert!(scene.list("").iter().all(|name| name != "made"));
    });
}

#[test]
fn words_for_this_machine_are_no_patterns() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("a.gz", "x");
    scene.mkdir("there");
    let run = scene.copy(&[], &["*.gz"], "there").run().expect_code(1);
    assert!(run.err().contains("no such file or directory"), "{run}");
}

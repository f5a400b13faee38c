//! No connection comes about: exit code 3, the host's name, and what to do.

use crate::common::*;
use haul_testkit::Link;
use haul_testkit::haul::Outcome;
use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

/// Runs `test` on what each command that needs a host says when that can't be
/// reached with `rsh`.
fn each_command(scene: &Scene<'_>, rsh: &str, test: impl Fn(&Outcome)) {
    scene.file("a", "a");
    for words in [
        &["copy", "a", "haul-test:b"][..],
        &["copy", "haul-test:a", "b"],
        &["ls", "haul-test:"],
        &["hash", "haul-test:a"],
    ] {
        let haul = scene.haul().args(words).args(["--rsh", rsh, "--remote-haul", HAUL]);
        let run = haul.limit(Duration::from_secs(20)).run();
        let run = run.expect_code(3);
        assert_eq!(run.out(), "", "{run}");
        test(&run);
        assert!(!scene.exists("b"));
    }
}

/// Panics unless ssh's own words about the failure are told once, in the error.
#[track_caller]
fn assert_says(run: &Outcome, error: &str, hint: &str) {
    let text = run.err();
    let about = ["ssh: ssh: ", "ssh: kex_", "ssh: banner exchange", "ssh: Connection closed by "];
    let twice = text.lines().find(|line| about.iter().any(|words| line.starts_with(words)));
    assert_eq!(twice, None, "{run}");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("ssh: ")).collect();
    let said = match lines[..] {
        [first, second] => first.starts_with(&format!("haul: {error}")) && second.contains(hint),
        _ => false,
    };
    assert!(said && lines[1].starts_with("  hint: "), "expected {error} and {hint}\n{run}");
}

#[test]
fn a_host_that_does_not_answer_is_unreachable() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    // Free for as long as nobody else takes it, and nobody listens.
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its number");
    let config = format!("Host haul-test\n  HostName 127.0.0.1\n  Port {}\n", port.port());
    let config = scene.file("config", config);
    let rsh = format!("ssh -F {}", config.display());
    each_command(&scene, &rsh, |run| {
        assert_says(run, "can't reach haul-test: connect to host 127.0.0.1", "'ssh haul-test'");
        assert!(run.err().contains("Connection refused"), "{run}");
    });
}

#[test]
fn a_host_that_nobody_knows_is_unreachable() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    let config = scene.file("config", "Host *\n  HostName no-such-host.invalid\n");
    let rsh = format!("ssh -F {}", config.display());
    each_command(&scene, &rsh, |run| {
        let error = "can't reach haul-test: Could not resolve hostname no-such-host.invalid";
        assert_says(run, error, "check host name, port and network");
    });
}

#[test]
fn a_proxy_command_that_fails_is_named_and_its_words_are_shown() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    let config = "Host haul-test\n  ProxyCommand sh -c 'echo no way there >&2; exit 3'\n";
    let rsh = format!("ssh -F {}", scene.file("config", config).display());
    each_command(&scene, &rsh, |run| {
        assert_says(run, "can't reach haul-test: ProxyCommand or ProxyJump failed", "'ssh haul");
        assert_eq!(run.err().matches("ssh: no way there").count(), 1, "{run}");
    });
}

#[test]
fn a_connection_that_ends_before_the_login_is_no_lost_one() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    // Hangs up at once, as a server does that has too many logins.
    let link = Link::to(scene.sshd()).expect("a link");
    link.take_down(true);
    let closing = "sh -c \"printf 'SSH-2.0-x\\r\\n'; exit 0\"";
    let [fails, closes] = ["false", closing].map(|proxy| {
        let name = format!("config-{}", proxy.len());
        let config = scene.file(name, format!("Host haul-test\n  ProxyCommand {proxy}\n"));
        format!("ssh -F {}", config.display())
    });
    let way = "ProxyCommand or ProxyJump failed";
    for (rsh, cause) in [
        (link.rsh(scene.sshd()), ""),
        (fails.clone(), way),
        (closes, way),
        (format!("{fails} -q"), "ssh exited with status 255 without a message (see LogLevel)"),
    ] {
        each_command(&scene, &rsh, |run| {
            assert_says(run, &format!("can't reach haul-test: {cause}"), "'ssh haul-test'");
            assert_eq!(run.err().lines().count(), 2, "{run}");
        });
    }
    // Nobody has connected before, so nothing is tried again.
    let copy = scene.haul().args(["copy", "--retries", "5", "--rsh", &fails, "a", "haul-test:b"]);
    let run = copy.env_remove("HAUL_RETRIES").limit(Duration::from_secs(20)).run().expect_code(3);
    assert_says(&run, "can't reach haul-test: ", "'ssh haul-test'");
    assert!(!run.err().contains("reconnecting"), "{run}");
}

#[test]
fn a_local_file_with_a_colon_in_its_name_is_suggested() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    let rsh = "sh -c 'echo ssh: Could not resolve hostname b: no >&2; exit 255'";
    let hint = "  hint: check host name, port and network, until 'ssh b' works; write './b:c' for the local file";
    scene.file("a", "a");
    for words in
        [&["copy", "b:c", "d"][..], &["copy", "a", "b:c"], &["hash", "b:c"], &["ls", "b:c"]]
    {
        let ask = || scene.haul().args(words).args(["--rsh", rsh]).run().expect_code(3);
        let _ = fs::remove_file(scene.path("b:c"));
        assert!(!ask().err().contains("./b:c"));
        scene.file("b:c", "c");
        let run = ask();
        assert!(run.err().lines().any(|line| line == hint), "{run}");
    }
    let run = scene.haul().args(["copy", "./b:c", "d"]).run();
    run.expect_ok();
}

#[test]
fn words_that_cannot_be_carried_out_are_refused_before_any_connection() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    let rsh = format!("touch {}", scene.path("asked").display());
    for command in [&["move"][..], &["sync", "--munge-links"], &["sync", "--remove-source-files"]] {
        let words = ["--rsh", &rsh, "one:*.gz", "other:"];
        let run = scene.haul().args(command).args(words).run();
        assert!(run.err().contains("from one host to another"), "{run}");
        assert!(matches!(run.code, Some(1 | 2)), "{run}");
    }
    assert!(!scene.exists("asked"));
    scene.haul().args(["copy", "--rsh", &rsh, "one:*.gz", "."]).run();
    assert!(scene.exists("asked"), "the connection would have been seen");
}

#[test]
fn a_login_that_is_refused_is_distinguished_from_a_host_that_is_not_there() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    let stranger = scene.path("stranger");
    run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&stranger));
    let config = fs::read_to_string(world.sshd().ssh_config()).expect("a configuration");
    let config = config.replace("user_key", "no_such_key");
    let config = scene.file("config", config);
    let rsh = format!("ssh -F {} -i {}", config.display(), stranger.display());
    each_command(&scene, &rsh, |run| {
        assert_says(run, "login to haul-test failed: ", "check the user name");
        assert!(run.err().contains("Permission denied (publickey)"), "{run}");
    });
}

#[test]
fn another_key_than_the_known_one_is_a_warning_to_take_seriously() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    let other = scene.path("other");
    run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&other));
    let key = fs::read_to_string(other.with_extension("pub")).expect("a key");
    let port = world.sshd().port();
    let known = scene.file("known", format!("[127.0.0.1]:{port} {key}"));
    let rsh = format!("{} -oUserKnownHostsFile={}", world.sshd().rsh(), known.display());
    each_command(&scene, &rsh, |run| {
        assert_says(run, "the key of haul-test has changed", "ask the administrator of haul-test");
    });
}

#[test]
fn a_program_in_place_of_ssh_that_is_not_there_is_reported() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    each_command(&scene, "/nowhere/my-ssh", |run| {
        let error = "can't start '/nowhere/my-ssh' to reach haul-test: No such file";
        assert_says(
            run,
            error,
            "install an OpenSSH client, or use another program with --rsh COMMAND",
        );
    });
}

#[test]
fn names_of_hosts_and_users_that_could_be_options_start_nothing() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "a");
    let trap = scene.path("trapped");
    let touch = format!("touch '{}'", trap.display());
    let rsh = script(&scene.path("ssh"), &touch);
    for location in [
        format!("-oProxyCommand={touch}:a"),
        format!("ssh://-oProxyCommand={touch}/a"),
        format!("-oProxyCommand={touch}@host:a"),
        "-v:a".to_owned(),
        "user@-v:a".to_owned(),
        "ssh://%2doProxyCommand=x/a".to_owned(),
        "host;touch trapped:a".to_owned(),
        "$(touch trapped):a".to_owned(),
        "`touch trapped`:a".to_owned(),
        "a|touch trapped:a".to_owned(),
        "host\n:a".to_owned(),
        "host name:a".to_owned(),
        ":a".to_owned(),
    ] {
        for words in [["copy", "--", "a", &location], ["copy", "--", &location, "b"]] {
            // A slash makes it a path here; so does nothing in front of the colon.
            let here = location.starts_with(':') || location.find('/') < location.find(':');
            if here && !location.starts_with("ssh://") {
                continue;
            }
            let haul = scene.haul().arg(words[0]).arg("--rsh").arg(&rsh).args(&words[1..]);
            let run = haul.run().expect_code(2);
            assert!(run.err().contains("invalid "), "{run}");
            assert_eq!(run.out(), "");
            assert!(!trap.exists() && !scene.exists("b"), "{location}");
        }
        let run = scene.haul().args(["ls", "--rsh"]).arg(&rsh).arg("--").arg(&location).run();
        assert_ne!(run.code, Some(0), "{run}");
        assert!(!trap.exists(), "{location}");
    }
}

#[test]
fn a_destination_that_is_wrong_costs_no_login() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    let trap = scene.path("started");
    let rsh = script(&scene.path("rsh"), &format!("touch '{}'\nsleep 5", trap.display()));
    for words in [&["copy", "a:x", "b:x", "here"][..], &["copy", "a:x"]] {
        let haul = scene.haul().args(words).arg("--rsh").arg(&rsh);
        haul.run().expect_code(2);
        assert!(!trap.exists());
    }
}

//! Commands of a client go to the server of a host that it is enrolled at, and to no other place
//! that its paths don't mean.

use super::*;

/// The name under which the client knows the server. No such host can be reached by ssh.
pub(crate) const HOST: &str = "box.invalid";

/// A server, and a user of another home directory who has accepted an invitation.
pub(crate) fn joined(options: &[&str]) -> Server {
    let server = Server::start();
    fs::create_dir(server.path("user")).expect("a directory");
    server.enroll("user", HOST, &server.root(), options).expect("enrolled");
    server
}

/// Runs haul as that user.
pub(crate) fn run(server: &Server, words: &[&str]) -> Output {
    command(server, words).env("HAUL_RETRIES", "0").output().expect("it runs")
}

/// haul as that user runs it.
pub(crate) fn command(server: &Server, words: &[&str]) -> Command {
    let mut command = server.program_of("user", words);
    command.current_dir(server.path("user"));
    command
}

#[track_caller]
fn ok(server: &Server, words: &[&str]) -> String {
    let output = run(server, words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[track_caller]
fn refused(server: &Server, words: &[&str], code: i32) -> String {
    let output = run(server, words);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
    String::from_utf8(output.stderr).expect("UTF-8")
}

#[test]
fn commands_go_to_the_server() {
    for (via, protocol) in [("server-tcp", "tcp"), ("quic", "quic")] {
        check_commands(via, protocol);
    }
}

fn check_commands(via: &str, protocol: &str) {
    let server = joined(&[]);
    let config = server.path("user/.config/haul");
    fs::create_dir_all(&config).expect("made");
    fs::write(config.join("config.toml"), format!("via = \"{via}\"\n")).expect("written");
    let user = server.path("user");
    fs::create_dir_all(user.join("tree/below")).expect("made");
    fs::write(user.join("tree/below/a"), "content").expect("written");
    fs::write(user.join("tree/b"), vec![7; 3 << 20]).expect("written");
    let there = |path: &str| format!("{HOST}:{path}");
    let copied = ok(&server, &["copy", "-r", "--json", "tree", &there("copy")]);
    let told =
        format!("{{\"type\":\"server\",\"host\":\"box.invalid\",\"protocol\":\"{protocol}\"}}");
    assert!(copied.contains(&told), "{copied}");
    let root = server.root();
    assert_eq!(fs::read(root.join("copy/b")).expect("there"), vec![7; 3 << 20]);
    let again = ok(&server, &["copy", "-r", "--via", via, "tree/.", &there("copy")]);
    assert!(again.starts_with("copied nothing"), "{again}");
    assert_eq!(ok(&server, &["ls", &there("copy")]), "b\nbelow/\n");
    assert!(ok(&server, &["hash", &there("/copy/b")]).contains("copy/b"));
    assert!(ok(&server, &["stat", &there("copy/b")]).contains("3.0 MiB"));
    ok(&server, &["copy", "-r", &there("copy"), "back"]);
    assert_eq!(fs::read_to_string(user.join("back/below/a")).expect("there"), "content");
    ok(&server, &["check", "-r", "tree/.", &there("copy")]);
    fs::write(user.join("tree/b"), "changed").expect("written");
    refused(&server, &["check", "-r", "tree/.", &there("copy")], 1);
    fs::remove_file(user.join("tree/below/a")).expect("removed");
    ok(&server, &["sync", "-a", "--delete", "tree/", &there("copy")]);
    assert!(!root.join("copy/below/a").exists());
    assert_eq!(fs::read_to_string(root.join("copy/b")).expect("there"), "changed");
    ok(&server, &["move", "tree", &there("moved")]);
    assert!(!user.join("tree").exists());
    assert_eq!(fs::read_to_string(root.join("moved/b")).expect("there"), "changed");
    let jobs = server.audit("job");
    assert!(jobs.iter().any(|job| job["task"] == "sync" && job["outcome"] == "done"), "{jobs:?}");
    // Those of ls, hash and stat.
    let requests = server.audit("requests");
    assert!(requests.len() >= 3, "{requests:?}");
    assert!(requests.iter().all(|line| line["count"].as_u64() > Some(0)), "{requests:?}");
}

#[test]
fn large_files_take_several_connections_to_the_server() {
    let server = joined(&[]);
    haul_testkit::tree::random_file(server.path("user/a"), 64 << 20, 7).expect("made");
    let content = fs::read(server.path("user/a")).expect("read");
    let there = format!("{HOST}:a");
    for (from, to, parallel, said) in [
        ("a", &*there, "--parallel=3", Some("over 3 direct connections")),
        (&*there, "b", "--parallel=2", Some("over 2 direct connections")),
        (&*there, "c", "--parallel=1", None),
    ] {
        let output = run(&server, &["copy", "-v", parallel, from, to]);
        assert!(output.status.success(), "{output:?}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(told.contains("direct"), said.is_some(), "{told}");
        assert!(told.contains(said.unwrap_or_default()), "{told}");
    }
    for copy in [server.root().join("a"), server.path("user/b"), server.path("user/c")] {
        assert!(fs::read(copy).expect("there") == content);
    }
}

#[test]
fn words_of_ssh_ask_for_ssh_and_via_server_asks_for_a_server() {
    let server = joined(&[]);
    fs::write(server.path("user/a"), "content").expect("written");
    let there = format!("{HOST}:a");
    // The host is known by its server alone.
    let user = format!("ann@{there}");
    for words in [
        &[&*there, "--via", "ssh"][..],
        &[&there, "--rsh", "ssh"],
        &[&there, "--remote-haul", "/bin/haul"],
        &[&user],
    ] {
        let said = refused(&server, &[&["copy", "a"], words].concat(), 3);
        assert!(said.contains("can't reach") || said.contains("ssh"), "{said}");
        assert!(!server.root().join("a").exists(), "{words:?}");
    }
    let said = refused(&server, &["copy", "--via", "server", "a", "other.invalid:a"], 2);
    assert!(said.contains("other.invalid: no server of this host is known"), "{said}");
    let said = refused(&server, &["copy", "--via", "server", "a", "sftp://box.invalid/a"], 2);
    assert!(said.contains("SFTP can't use a haul server"), "{said}");
}

#[test]
fn completions_ask_the_server() {
    let server = joined(&[]);
    fs::create_dir_all(server.root().join("photos/2026")).expect("made");
    let places = |word: &str| ok(&server, &["__places", word]);
    assert_eq!(places("box.inv"), "box.invalid:\n");
    assert_eq!(places("box.invalid:ph"), "box.invalid:photos/\n");
    assert_eq!(places("box.invalid:/photos/"), "box.invalid:/photos/2026/\n");
}

#[test]
fn doctor_measures_the_way_to_the_server() {
    let server = joined(&[]);
    let said = ok(&server, &["doctor", HOST]);
    assert!(said.contains("server        handshake "), "{said}");
    assert!(said.contains("connections   yes") && said.contains("direct, 2 connections"), "{said}");
    assert!(said.contains("contents go to the server") && !said.contains("ssh"), "{said}");
    let json = ok(&server, &["doctor", "--json", HOST]);
    assert!(json.contains("{\"via\":\"server\",\"connections\":1,"), "{json}");
    assert!(json.contains("{\"via\":\"tcp\",\"connections\":4,"), "{json}");
}

#[test]
fn a_job_between_hosts_goes_to_their_servers() {
    let server = joined(&[]);
    haul_testkit::tree::random_file(server.root().join("a"), 8 << 20, 7).expect("made");
    let there = |path: &str| format!("{HOST}:{path}");
    ok(&server, &["copy", &there("a"), &there("b")]);
    let content = fs::read(server.root().join("a")).expect("read");
    assert!(fs::read(server.root().join("b")).expect("there") == content);
    // A child of the server reports its job after its client has the result.
    until("both jobs are logged", || server.audit("job").len() == 2);
    // The first host answers, and the other one can't be reached.
    for words in
        [["copy", &there("a"), "other.invalid:b"], ["copy", "other.invalid:b", &there("c")]]
    {
        let said = refused(&server, &words, 3);
        assert!(said.contains("can't reach other.invalid"), "{said}");
    }
}

#[test]
fn a_server_that_is_gone_is_replaced_by_nothing() {
    let mut server = joined(&[]);
    fs::write(server.path("user/a"), "content").expect("written");
    let there = format!("{HOST}:a");
    server.kill().expect("killed");
    for words in [&["copy", "a", &*there][..], &["ls", &there], &["sync", "-a", "a", &there]] {
        let output = run(&server, words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{words:?}");
        assert!(said.contains("can't reach the server at box.invalid"), "{said}");
    }
}

#[test]
fn a_client_that_is_revoked_or_meets_another_key_is_reported_so() {
    let server = joined(&["--read-only"]);
    fs::write(server.path("user/a"), "content").expect("written");
    fs::write(server.root().join("there"), "content").expect("written");
    let there = format!("{HOST}:there");
    assert_eq!(ok(&server, &["ls", &there]), "there\n");
    let said = refused(&server, &["copy", "a", &format!("{HOST}:a")], 2);
    assert!(said.contains("read-only"), "{said}");
    let known = server.path("user/.local/state/haul/servers.toml");
    let right = fs::read_to_string(&known).expect("read");
    let key = server.status()["key"].as_str().expect("a key").to_owned();
    let other = Identity::new().expect("a key").key();
    fs::write(&known, right.replace(&key, &other.to_string())).expect("written");
    let said = refused(&server, &["ls", &there], 3);
    assert!(said.contains(&other.fingerprint()), "it names the stored key: {said}");
    fs::write(&known, right).expect("written");
    server.ok(&["revoke", "user"]);
    let said = refused(&server, &["ls", &there], 3);
    assert!(said.contains("does not accept this client's key"), "{said}");
}

#[test]
fn an_own_key_that_cannot_be_read_is_no_mistake_of_the_command() {
    let server = joined(&[]);
    fs::write(server.path("user/a"), "content").expect("written");
    let key = server.path("user/.local/state/haul/identity");
    fs::remove_file(&key).expect("it is there");
    fs::create_dir(&key).expect("a directory in its place");
    let there = format!("{HOST}:a");
    for words in [&["ls", &*there][..], &["copy", "a", &*there]] {
        let said = refused(&server, words, 1);
        assert!(said.contains("identity: "), "{said}");
    }
}

//! Enrolment, and commands about the server of a host, through a real ssh server.

use super::*;
use haul_testkit::Sshd;
use std::net::TcpListener;
use std::os::unix::fs::symlink;

/// A host with haul, and with a free port for a server.
fn host(server: &Server) -> Sshd {
    let bin = server.path("bin");
    fs::create_dir(&bin).expect("a directory");
    symlink(HAUL, bin.join("haul")).expect("a link");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let config = server.path("home/.config/haul");
    fs::create_dir_all(&config).expect("a directory");
    fs::write(config.join("server.toml"), format!("port = {port}\n")).expect("written");
    let sshd = Sshd::builder();
    let sshd = sshd.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    let sshd = sshd.env("HOME", server.path("home").display().to_string());
    sshd.start().expect("sshd starts")
}

/// The same, at whose server the client `ann` is enrolled through ssh.
fn enrolled(server: &Server) -> Sshd {
    let sshd = host(server);
    let config = server.path("client/.config/haul");
    fs::create_dir_all(&config).expect("a directory");
    fs::write(config.join("config.toml"), format!("rsh = '''{}'''\n", sshd.rsh())).expect("set");
    let root = format!("--root={}", server.root().display());
    let mut enroll = vec!["server", "enroll", "haul-test", &root, "--name=ann", "--yes"];
    if is_root() {
        enroll.push("--run-as=root");
    }
    let output = client(server, &enroll).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    sshd
}

/// A command of that client.
fn client(server: &Server, words: &[&str]) -> Command {
    let mut command = server.program_of("client", words);
    command.current_dir(server.path("client")).env("HAUL_RETRIES", "0");
    command
}

#[test]
fn a_host_is_enrolled_at_and_asked_through_ssh() {
    let server = Server::prepare();
    let sshd = host(&server);
    let rsh = sshd.rsh();
    let client = |words: &[&str]| {
        let mut all = words.to_vec();
        all.splice(1..1, ["-e", &*rsh]);
        all.push("haul-test");
        server.command_of("client", &all).output().expect("it runs")
    };
    let ok = |words: &[&str]| {
        let output = client(words);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let root = format!("--root={}", server.root().display());
    let mut enroll = vec!["enroll", &root, "--name=ann", "--read-only"];
    if is_root() {
        enroll.push("--run-as=root");
    }
    // Nobody can be asked, and nothing is started.
    let refused = client(&enroll);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("Start it") && error.contains("--yes"), "{error}");
    assert!(!server.haul(&["status"]).status.success());
    enroll.push("--yes");
    let said = ok(&enroll);
    assert!(said.contains("enrolled at haul-test as ann, with read-only access"), "{said}");
    assert!(said.contains("haul-test:PATH goes to the server now"), "{said}");
    // It is the server's own command that answers.
    assert_eq!(ok(&["clients"]), server.ok(&["clients"]));
    assert!(ok(&["status"]).contains("1 clients"));
    ok(&["rotate"]);
    ok(&["reload"]);
    // Again: the same key gets another right.
    let again: Vec<&str> = enroll.iter().copied().filter(|word| *word != "--read-only").collect();
    ok(&again);
    assert!(server.ok(&["clients"]).starts_with("ann  write "));
    // Jobs go to the server, so its cache of this client is meant.
    let words = ["cache", "-e", &*rsh, "--json", "haul-test"];
    let shown = server.program_of("client", &words).output().expect("it runs");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("haul/server/caches/ann-"), "{shown}");
    let said = ok(&["revoke", "ann"]);
    assert_eq!(said, "revoked ann\n");
    assert_eq!(client(&["revoke", "ann"]).status.code(), Some(2));
    ok(&["stop"]);
    assert_eq!(ok(&["config"]), server.ok(&["config"]));
    assert!(!client(&["status"]).status.success());
}

#[test]
fn words_for_another_machine_run_no_other_command() {
    let server = Server::prepare();
    for words in [r#"["words"]"#, r#"["run"]"#, r#"["enroll","nas"]"#, r#"["stop","nas"]"#, "{}"] {
        let mut command = server.command(&["words"]);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run");
        let mut input = child.stdin.take().expect("piped");
        std::io::Write::write_all(&mut input, format!("{words}\n").as_bytes()).expect("written");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(2), "{words}");
    }
}

#[test]
fn a_client_has_as_many_jobs_through_ssh_as_at_the_server() {
    let server = Server::prepare();
    let _sshd = enrolled(&server);
    let here = server.path("client");
    let command = |words: &[&str]| {
        let mut command = client(&server, words);
        command.stdout(Stdio::null());
        command
    };
    let settings = server.path("home/.config/haul/server.toml");
    let port = fs::read_to_string(&settings).expect("settings");
    fs::write(&settings, port + "jobs-per-client = 1\n").expect("written");
    server.ok(&["stop"]);
    haul_testkit::tree::random_file(here.join("large"), 64 << 20, 7).expect("made");
    let copying = |dest: &str| {
        let mut copying = command(&["copy", "--bwlimit", "4m", "large", dest]);
        copying.stderr(Stdio::null()).spawn().expect("run")
    };
    let refused = || {
        let output = command(&["ls", "haul-test:"]).output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{error}");
        assert!(error.contains("runs as many jobs of this client as it may"), "{error}");
        assert!(error.contains("'jobs-per-client'"), "{error}");
    };
    let state = || {
        let output = server.haul(&["status", "--json"]);
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
    };
    // An agent in place of the server holds the one slot, for others as for the server.
    let mut first = copying("haul-test:one");
    until("it copies", || state()["through_ssh"][0]["client"] == "ann");
    assert_eq!(state()["running"], false);
    let text = server.haul(&["status"]).stdout;
    assert!(String::from_utf8_lossy(&text).contains(" s, through ssh\n"));
    refused();
    assert_eq!(server.audit("refused")[0]["reason"], "too many jobs at once");
    server.ok(&["start"]);
    refused();
    first.kill().expect("killed");
    first.wait().expect("it ends");
    until("it has ended", || state()["through_ssh"].is_null());
    // A job at the server holds it as well.
    let mut second = copying("haul-test:two");
    until("it copies", || state()["jobs"][0]["client"] == "ann");
    refused();
    second.kill().expect("killed");
    second.wait().expect("it ends");
    until("it has ended", || state()["jobs"].as_array().is_some_and(Vec::is_empty));
    assert!(command(&["ls", "haul-test:"]).status().expect("it runs").success());
    server.ok(&["stop"]);
    server.ok(&["revoke", "ann"]);
    assert_eq!(fs::read_dir(server.state("slots")).expect("a directory").count(), 0);
}

#[test]
fn ssh_replaces_a_server_that_does_not_answer_and_means_the_same_files() {
    let server = Server::prepare();
    let _sshd = enrolled(&server);
    let here = server.path("client");
    let command = |words: &[&str]| client(&server, words);
    let run = |words: &[&str]| {
        let output = command(words).output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let ok = |words: &[&str]| {
        let (code, stdout, stderr) = run(words);
        assert_eq!(code, Some(0), "{words:?}: {stdout}{stderr}");
        stdout + &stderr
    };
    let there = |path: &str| format!("haul-test:{path}");
    fs::write(here.join("a"), "content").expect("written");
    assert!(ok(&["copy", "-v", "a", &there("a")]).contains("connected to the server"));
    server.ok(&["stop"]);
    let said = ok(&["copy", "-v", "a", &there("/b")]);
    assert!(said.contains("can't reach the server at haul-test") && said.contains("using ssh"));
    assert_ne!(run(&["copy", "a", &there("../c")]).0, Some(0));
    assert!(!server.path("c").exists());
    ok(&["sync", "-a", "--delete-after", "a", &there("d/")]);
    assert_eq!(ok(&["ls", &there("/")]), "a\nb\nd/\n");
    for name in ["a", "b", "d/a"] {
        assert_eq!(fs::read_to_string(server.root().join(name)).expect("there"), "content");
    }
    let json = ok(&["copy", "--json", &there("b"), "back"]);
    assert!(json.contains("{\"type\":\"server_away\",\"host\":\"haul-test\""), "{json}");
    // One of them was refused.
    let is_hers = |job: &serde_json::Value| job["client"] == "ann";
    until("all jobs are logged", || {
        server.audit("job").iter().filter(|job| is_hers(job)).count() == 6
    });
    // Who insists on the server gets no other way, and a right is kept to.
    assert_eq!(run(&["copy", "--via", "server", "a", &there("e")]).0, Some(3));
    let records = fs::read_to_string(server.state("clients.toml")).expect("records");
    let read_only = records.replace("right = \"write\"", "right = \"read\"");
    fs::write(server.state("clients.toml"), read_only).expect("written");
    assert_ne!(run(&["copy", "a", &there("e")]).0, Some(0));
    ok(&["copy", &there("b"), "again"]);
    // Without a haul there, nothing else takes its place: SFTP knows no root.
    fs::write(server.state("clients.toml"), &records).expect("written");
    let outside = server.path("outside");
    fs::create_dir(&outside).expect("made");
    let haul = server.path("bin/haul");
    fs::remove_file(&haul).expect("removed");
    let (code, _, stderr) = run(&["sync", "-a", "a", &there(&outside.display().to_string())]);
    assert!(code == Some(12) && stderr.contains("haul was not found"), "{code:?} {stderr}");
    assert!(!outside.join("a").exists());
    symlink(HAUL, &haul).expect("a link");
    // A revocation ends a job within a second.
    haul_testkit::tree::random_file(here.join("large"), 64 << 20, 7).expect("made");
    let mut copying = command(&["copy", "--bwlimit", "4m", "large", &there("large")]);
    let mut copying = copying.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("run");
    until("it copies", || server.audit("connected").len() > 8);
    thread::sleep(Duration::from_secs(1));
    server.ok(&["revoke", "ann"]);
    let revoked = Instant::now();
    until("it has ended", || copying.try_wait().expect("asked").is_some());
    assert!(revoked.elapsed() < Duration::from_secs(5), "{:?}", revoked.elapsed());
    assert!(!server.root().join("large").exists());
    let (code, _, stderr) = run(&["copy", &there("b"), "never"]);
    assert!(code == Some(3) && stderr.contains("does not accept"), "{code:?} {stderr}");
    assert!(!server.root().join("e").exists() && !here.join("never").exists());
}

#[test]
fn ssh_replaces_a_server_that_does_not_greet() {
    use rustix::process::{Pid, Signal, kill_process};
    let server = Server::prepare();
    let _sshd = enrolled(&server);
    fs::write(server.path("client/a"), "content").expect("written");
    // The process for QUIC finishes the handshake without the main process.
    let ways = "[[way]]\nhost = \"haul-test\"\nlossy = true\nquic-failed = false\n";
    fs::write(server.path("client/.local/state/haul/ways.toml"), ways).expect("written");
    let pid = server.status()["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let pid = pid.and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::STOP).expect("stopped");
    let begin = Instant::now();
    let words = ["copy", "-v", "--timeout=2", "--retries=2", "a", "haul-test:a"];
    let output = client(&server, &words).output().expect("it runs");
    kill_process(pid, Signal::CONT).expect("it goes on");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("using ssh to haul-test"), "{said}");
    assert_eq!(fs::read_to_string(server.root().join("a")).expect("there"), "content");
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
}

#[test]
fn a_job_in_place_of_the_server_is_logged_however_it_ends() {
    let server = Server::prepare();
    let _sshd = enrolled(&server);
    server.ok(&["stop"]);
    haul_testkit::tree::random_file(server.path("client/large"), 64 << 20, 7).expect("made");
    let ended = server.audit("disconnected").len();
    let ends = |nth: usize, outcome: &str| {
        until(outcome, || server.audit("disconnected").len() > ended + nth);
        assert_eq!(server.audit("disconnected")[ended + nth]["outcome"], outcome);
    };
    // Those that fail are not tried again, though they may be.
    let fails = |message: &str| {
        let mut command = client(&server, &["ls", "haul-test:"]);
        let output = command.env_remove("HAUL_RETRIES").output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{error}");
        assert!(error.contains(message) && !error.contains("reconnecting"), "{error}");
        assert!(!error.contains(&server.root().display().to_string()), "{error}");
    };
    let copies = || {
        let before = server.audit("connected").len();
        let mut command = client(&server, &["copy", "--bwlimit", "4m", "large", "haul-test:"]);
        let copying = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("run");
        until("it is served", || server.audit("connected").len() > before);
        let pid = server.audit("connected")[before]["pid"].as_i64().expect("a number");
        (copying, i32::try_from(pid).expect("a process"))
    };
    let (mut copying, pid) = copies();
    until("it has no log", || {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut files = files.filter_map(|file| fs::read_link(file.path()).ok());
        !files.any(|file| file == server.state("audit.jsonl"))
    });
    let child = rustix::process::Pid::from_raw(pid).expect("a process");
    rustix::process::kill_process(child, rustix::process::Signal::KILL).expect("killed");
    ends(0, "crashed");
    copying.wait().expect("it ends");

    fs::rename(server.root(), server.path("away")).expect("renamed");
    fails("the server at haul-test can't serve this client now; its audit log has the reason");
    ends(1, "refused");
    let refused = server.audit("refused");
    assert!(refused[0]["reason"].as_str().expect("a text").contains("root"), "{refused:?}");
    fs::rename(server.path("away"), server.root()).expect("renamed");

    let (copying, _) = copies();
    thread::sleep(Duration::from_secs(1));
    let jobs = server.audit("job").len();
    server.ok(&["revoke", "ann"]);
    ends(2, "revoked");
    // It was asked to end first.
    assert_eq!(server.audit("job").len(), jobs + 1);
    let output = copying.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("does not accept this client's key"), "{error}");
    fails("the server at haul-test does not accept this client's key");
    assert_eq!(server.audit("disconnected").len(), ended + 3, "it has no record");
}

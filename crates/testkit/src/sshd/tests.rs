//! The server answers, knows only its own keys, and leaves nothing behind.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::holds_within;

fn output(mut command: Command) -> (bool, String) {
    let done = command.stdin(Stdio::null()).output().expect("it starts");
    let text = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    let said = String::from_utf8_lossy(&done.stderr);
    (done.status.success(), if text.is_empty() { said.trim().to_owned() } else { text })
}

#[test]
fn two_servers_answer_side_by_side_and_sessions_get_their_variables() {
    let first = Sshd::start().expect("started");
    let second = Sshd::builder().env("GREETING", "good day").start().expect("started");
    assert_ne!(first.port(), second.port());
    assert_eq!(
        output(first.command("echo \"$GREETING.\"")),
        (true, ".".to_owned()),
        "{}",
        first.log()
    );
    assert_eq!(
        output(second.command("echo \"$GREETING.\"")),
        (true, "good day.".to_owned()),
        "{}",
        second.log()
    );
}

#[test]
fn a_server_can_have_another_name_and_address() {
    let address = Ipv4Addr::new(127, 0, 0, 2);
    let sshd = Sshd::builder().host("other").listen_on(address).start().expect("started");
    assert_eq!(sshd.location("/x"), "other:/x");
    assert!(output(sshd.command("true")).0, "{}", sshd.log());
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, sshd.port())).is_err());
}

#[test]
fn scp_and_sftp_work_with_the_same_configuration() {
    let sshd = Sshd::start().expect("started");
    let dir = TempDir::new().expect("a temporary directory");
    crate::tree::random_file(dir.path().join("a"), 100_000, 1).expect("made");
    let mut scp = Command::new("scp");
    scp.args(["-q", "-F"]).arg(sshd.ssh_config());
    scp.arg(dir.path().join("a")).arg(sshd.location(dir.path().join("b")));
    let (ok, said) = output(scp);
    assert!(ok, "{said}\n{}", sshd.log());
    assert_eq!(fs::read(dir.path().join("a")).ok(), fs::read(dir.path().join("b")).ok());
}

#[test]
fn the_users_choice_of_ciphers_reaches_ssh() {
    let sshd = Sshd::builder().ciphers("aes256-ctr").start().expect("started");
    let mut shown = Command::new("ssh");
    shown.arg("-G").arg("-F").arg(sshd.ssh_config()).arg(sshd.host());
    let (_, config) = output(shown);
    assert!(config.lines().any(|line| line == "ciphers aes256-ctr"), "{config}");
    assert!(output(sshd.command("true")).0);
}

#[test]
fn a_line_for_the_server_comes_first() {
    let sshd = Sshd::builder().server_line("PubkeyAuthentication no").start().expect("started");
    let (ok, said) = output(sshd.command("true"));
    assert!(!ok && said.contains("Permission denied"), "{said}");
}

#[test]
fn a_wrong_line_is_an_error_with_what_sshd_says() {
    let error =
        Sshd::builder().server_line("NoSuchOption yes").start().expect_err("it can't start");
    assert!(error.to_string().contains("NoSuchOption"), "{error}");
}

#[test]
fn cutting_and_dropping_end_every_session() {
    let sshd = Sshd::start().expect("started");
    // The second sleep leaves the session's group and outlives its parent.
    let start = || {
        sshd.command("setsid sleep 3000 & sleep 3000")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("started")
    };
    let sleeping = |sshd: &Sshd| {
        let sleeps =
            |pid: &u32| proc::command_line(*pid).first().is_some_and(|word| word == b"sleep");
        sshd.sessions().into_iter().filter(sleeps).collect::<Vec<u32>>()
    };
    let up = |sshd: &Sshd| {
        let are_up = holds_within(Duration::from_secs(20), || sleeping(sshd).len() >= 2);
        assert!(are_up, "the session does not start: {}", sshd.log());
        sleeping(sshd)
    };
    let mut client = start();
    let cut = up(&sshd);
    sshd.cut();
    assert!(!client.wait().expect("waited").success());
    assert!(cut.iter().all(|&pid| !proc::is_alive(pid)));
    assert!(output(sshd.command("true")).0, "the server went away too");

    let mut client = start();
    let dropped = up(&sshd);
    let (server, dir) = (sshd.pid(), sshd.ssh_config().to_path_buf());
    drop(sshd);
    assert!(!client.wait().expect("waited").success());
    assert!(dropped.iter().all(|&pid| !proc::is_alive(pid)));
    assert!(!proc::is_alive(server) && !dir.exists());
}

#[test]
fn agents_are_distinguished_from_the_shells_that_start_them_and_their_memory_is_seen() {
    let sshd = Sshd::start().expect("started");
    let dir = TempDir::new().expect("a temporary directory");
    let haul = dir.path().join("haul");
    fs::write(&haul, "#!/bin/sh\nread line\n").expect("written");
    fs::set_permissions(&haul, PermissionsExt::from_mode(0o755)).expect("set");
    let line = format!("sh -c '{} serve; true'", haul.display());
    let started = Instant::now();
    let mut client = sshd.command(&line).stdin(Stdio::piped()).spawn().expect("started");
    let is_up = holds_within(Duration::from_secs(20), || !sshd.agents().is_empty());
    assert!(is_up, "no agent: {}", sshd.log());
    assert_eq!(sshd.agents().len(), 1);
    let input = client.stdin.take();
    let ender = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        drop(input);
    });
    let watch = proc::Watch::new(Duration::from_secs(20)).sampling(Duration::from_millis(1));
    let ended = watch.agents_below(sshd.pid()).wait(&mut client, started).expect("waited");
    ender.join().expect("it ended");
    assert!(!ended.timed_out);
    assert!(ended.usage.agent_peak_rss_bytes.is_some_and(|bytes| bytes > 100_000), "{ended:?}");
}

//! Messages of ssh, and the errors that they become.

use super::*;

fn peer(name: &str, service: Service) -> Peer {
    Peer { name: name.into(), service, tried: None, address: name.into() }
}

fn after(code: i32, lines: &[&str]) -> Result<(), ConnectError> {
    ended(Some(ExitStatus::from_raw(code << 8)), lines, true)
}

/// The error of ssh when the host has sent nothing.
fn before_login(lines: &[&str]) -> ConnectError {
    ended(Some(ExitStatus::from_raw(SSH_FAILED << 8)), lines, false).unwrap_err()
}

fn ended(
    status: Option<ExitStatus>,
    lines: &[&str],
    has_received: bool,
) -> Result<(), ConnectError> {
    let peer = peer("ann@box", Service::Agent);
    let said = StderrTail {
        lines: lines.iter().map(|line| line.as_bytes().to_vec()).collect(),
        haul_missing: false,
    };
    diagnose(&peer, status, &said, has_received)
}

#[test]
fn failures_of_ssh_are_recognised_by_their_messages() {
    for line in [
        "ssh: Could not resolve hostname nope: Name or service not known",
        "ssh: connect to host box port 22: Connection refused",
        "ssh: connect to host box port 22: Connection timed out",
        "ssh: connect to host box port 22: No route to host",
        "Connection timed out during banner exchange",
        "channel 0: open failed: connect failed: Name or service not known",
    ] {
        let error = after(255, &[line]).unwrap_err();
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{line}");
        assert!(error.retriable());
    }
    for line in [
        "ann@box: Permission denied (publickey,password).",
        "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures",
    ] {
        let error = after(255, &[line]).unwrap_err();
        assert!(matches!(error, ConnectError::LoginRefused { .. }), "{line}");
        assert!(!error.retriable());
    }
    for line in [
        "Unable to negotiate with 10.0.0.1 port 22: no matching cipher found. Their offer: x",
        "/home/ann/.ssh/config: terminating, 1 bad configuration options",
        "Bad owner or permissions on /home/ann/.ssh/config",
    ] {
        let error = after(255, &[line]).unwrap_err();
        assert!(matches!(error, ConnectError::Setup { .. }), "{line}");
    }
    for line in [
        "Read from remote host box: Connection timed out",
        "Timeout, server box not responding.",
        "Connection to box closed by remote host.",
        "client_loop: send disconnect: Broken pipe",
        "kex_exchange_identification: Connection closed by remote host",
    ] {
        let error = after(255, &[line]).unwrap_err();
        assert!(matches!(error, ConnectError::Lost { .. }), "{line}");
        assert!(error.retriable());
    }
    assert!(matches!(after(255, &[]), Err(ConnectError::Lost { .. })));
}

#[test]
fn an_agent_that_lost_its_client_can_be_connected_to_again() {
    let status = i32::from(CLIENT_LOST_STATUS);
    let error = after(status, &[]).unwrap_err();
    assert!(matches!(error, ConnectError::Lost { .. }) && error.retriable(), "{error}");
    // A shell that exits with this status before any haul has greeted.
    let status = Some(ExitStatus::from_raw(status << 8));
    assert!(!ended(status, &[], false).unwrap_err().retriable());
}

#[test]
fn an_agent_in_place_of_a_server_refuses_by_exit_status() {
    for (refusal, is_retriable) in
        [(Refusal::Busy, true), (Refusal::NotEnrolled, false), (Refusal::Unserved, false)]
    {
        let status = i32::from(refusal.status());
        assert!(matches!(after(status, &[]), Err(ConnectError::Agent { .. })));
        let said = StderrTail { lines: Default::default(), haul_missing: false };
        let status = Some(ExitStatus::from_raw(status << 8));
        let error =
            diagnose(&peer("box", Service::ServerCommand), status, &said, false).unwrap_err();
        assert_eq!(error.to_string(), refusal.error("box".into()).to_string());
        assert_eq!(error.retriable(), is_retriable, "{error}");
    }
}

#[test]
fn a_changed_host_key_differs_from_an_unknown_one() {
    let unknown =
        after(255, &["No ED25519 host key is known for box.", "Host key verification failed."]);
    assert!(matches!(unknown, Err(ConnectError::HostKey { changed: false, .. })));
    let changed = after(
        255,
        &[
            "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @",
            "Host key verification failed.",
        ],
    );
    assert!(matches!(changed, Err(ConnectError::HostKey { changed: true, .. })));
}

#[test]
fn the_last_known_line_of_ssh_decides() {
    let error = after(
        255,
        &[
            "ann@box's password: Permission denied, please try again.",
            "ssh: connect to host box port 22: Connection refused",
            "something else",
        ],
    );
    assert!(matches!(error, Err(ConnectError::Unreachable { .. })));
    // A jump host's message comes before ssh's own last message.
    let error = after(
        255,
        &[
            "channel 0: open failed: connect failed: No route to host",
            "stdio forwarding failed",
            "kex_exchange_identification: Connection closed by remote host",
            "Connection closed by UNKNOWN port 65535",
        ],
    );
    assert!(matches!(error, Err(ConnectError::Unreachable { .. })));
}

#[test]
fn a_connect_timeout_is_reported_once() {
    let cause = "Connection timed out during banner exchange";
    let lines = [cause, "Connection to 10.0.0.1 port 22 timed out"];
    let error = after(255, &lines).unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    let told = error.to_string();
    for line in lines.map(str::as_bytes) {
        assert!(ends_connection(line) && is_repeated(line, &told), "{told}");
    }
    assert!(told.ends_with(cause), "{told}");
}

#[test]
fn a_failed_proxy_command_is_an_unreachable_host() {
    for lines in [
        &[
            "nc: no way",
            "kex_exchange_identification: Connection closed by remote host",
            "Connection closed by UNKNOWN port 65535",
        ][..],
        &["banner exchange: Connection to UNKNOWN port 65535: Broken pipe"],
    ] {
        let error = after(255, lines).unwrap_err();
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains("ProxyCommand"), "{error}");
    }
    let lost = after(255, &["Connection closed by UNKNOWN port 65535"]).unwrap_err();
    assert!(matches!(lost, ConnectError::Lost { .. }), "{lost}");
}

#[test]
fn an_end_before_the_login_is_an_unreachable_host() {
    for lines in [
        &[
            "kex_exchange_identification: Connection closed by remote host",
            "Connection closed by 10.0.0.1 port 22",
        ][..],
        &[
            "kex_exchange_identification: read: Connection reset by peer",
            "Connection reset by 10.0.0.1 port 22",
        ],
        &["Connection closed by 10.0.0.1 port 22"],
        &["Connection closed by UNKNOWN port 65535"],
        &["ssh_dispatch_run_fatal: Connection to 10.0.0.1 port 22: Broken pipe"],
        &["nobody knows this word"],
        &[],
    ] {
        let error = before_login(lines);
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{lines:?}: {error}");
        assert!(error.retriable());
        let lost = after(255, lines).unwrap_err();
        assert!(matches!(lost, ConnectError::Lost { .. }), "{lines:?}: {lost}");
    }
    let closed = before_login(&["Connection closed by 10.0.0.1 port 22", "haul: bye"]);
    assert_eq!(closed.to_string(), "can't reach ann@box: Connection closed by 10.0.0.1 port 22");
    let silent = before_login(&[]).to_string();
    assert_eq!(
        silent,
        "can't reach ann@box: ssh exited with status 255 without a message (see LogLevel)"
    );
    // ssh prints these only after the login.
    for line in ["Connection to box closed by remote host.", "Read from remote host box: x"] {
        assert!(matches!(before_login(&[line]), ConnectError::Lost { .. }), "{line}");
    }
    // If the system reports no status, the messages decide.
    let closed = ended(None, &["Connection closed by 10.0.0.1 port 22"], false);
    assert!(matches!(closed, Err(ConnectError::Unreachable { .. })));
    assert!(ended(None, &["all well"], false).is_ok());
}

#[test]
fn lines_that_the_error_repeats_are_withheld() {
    let line = b"ssh: connect to host box port 22: Connection refused";
    assert!(ends_connection(line));
    let error = after(255, &[str::from_utf8(line).unwrap()]).unwrap_err().to_string();
    assert!(is_repeated(line, &error) && is_repeated(b"Connection closed by x", &error));
    assert!(!is_repeated(b"ssh: connect to host jump port 22: Connection refused", &error));
    let shown = ["Permission denied, please try again.", "Welcome", "haul: x: (os error 13)"];
    assert!(shown.iter().all(|line| !ends_connection(line.as_bytes())));
}

#[test]
fn errors_of_the_agent_are_not_taken_for_ssh() {
    let error = after(255, &["haul: x: Permission denied (os error 13)"]);
    assert!(matches!(error, Err(ConnectError::Lost { .. })));
}

#[test]
fn failures_of_the_remote_command() {
    assert!(after(0, &["Permission denied (x)"]).is_ok());
    assert!(matches!(after(127, &["sh: 1: /x: not found"]), Err(ConnectError::HaulMissing { .. })));
    assert!(matches!(
        after(1, &["haul: Command not found."]),
        Err(ConnectError::HaulMissing { .. })
    ));
    assert!(matches!(
        after(126, &["sh: /x: Permission denied"]),
        Err(ConnectError::HaulUnusable { .. })
    ));
    let error = after(2, &["one", "two\x1b"]).unwrap_err();
    assert_eq!(error.to_string(), "the remote command on ann@box exited with status 2: two\\x1b");
    let killed = ended(Some(ExitStatus::from_raw(9)), &[], true).unwrap_err();
    assert_eq!(
        killed.to_string(),
        "the connection to ann@box was lost: ssh was killed by signal 9"
    );
}

#[test]
fn a_failure_while_deploying_is_no_missing_haul() {
    let peer = peer("ann@box", Service::Deploy);
    for status in [1, 126, 127] {
        let said = StderrTail { lines: [b"oops".to_vec()].into(), haul_missing: false };
        let error = diagnose(&peer, Some(ExitStatus::from_raw(status << 8)), &said, true);
        let error = error.unwrap_err();
        assert!(matches!(error, ConnectError::Agent { .. }), "{error}");
    }
}

#[test]
fn a_missing_subsystem_differs_from_a_failed_one() {
    let after = |status: i32, line: &str| {
        let peer = peer("ann@box", Service::Sftp);
        let said = StderrTail { lines: [line.as_bytes().to_vec()].into(), haul_missing: false };
        diagnose(&peer, Some(ExitStatus::from_raw(status)), &said, true)
    };
    assert!(after(0, "").is_ok());
    let refused = after(255 << 8, "subsystem request failed on channel 0");
    assert_eq!(refused.unwrap_err().to_string(), "ann@box offers no sftp");
    let not_there = after(127 << 8, "bash: line 1: /opt/sftp-server: No such file");
    assert!(matches!(not_there, Err(ConnectError::SubsystemMissing { .. })));
    let denied = after(255 << 8, "ann@box: Permission denied (publickey).");
    assert!(matches!(denied, Err(ConnectError::LoginRefused { .. })));
    assert!(matches!(after(255 << 8, ""), Err(ConnectError::Lost { .. })));
    assert!(matches!(after(9, ""), Err(ConnectError::Lost { .. })));
    assert!(matches!(after(1 << 8, "oops"), Err(ConnectError::Agent { status: 1, .. })));
}

#[test]
fn without_a_status_the_messages_decide() {
    assert!(ended(None, &["all well"], true).is_ok());
    let refused = ended(None, &["ann@box: Permission denied (publickey)."], true);
    assert!(matches!(refused, Err(ConnectError::LoginRefused { .. })));
}

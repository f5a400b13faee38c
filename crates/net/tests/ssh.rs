//! Connections through the real ssh to a real sshd.

mod common;

use common::{assert_echoes, quiet};
use haul_net::{ConnectError, Connection, Diagnostics, Service, SshTarget, connect};
use haul_testkit::Sshd;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A haul that echoes, in `dir`. Another process writes it: a descriptor that is
/// open for writing here could be inherited by a child of another test, and the
/// program would be "busy".
fn echoing_haul(dir: &Path) -> String {
    let path = dir.join("echo haul").to_str().unwrap().to_owned();
    let script = "#!/bin/sh\n[ \"$*\" = serve ] && exec cat\nexit 3\n";
    let write = "printf %s \"$1\" >\"$2\" && chmod 755 \"$2\"";
    let status = Command::new("sh").args(["-c", write, "sh", script, &path]).status();
    assert!(status.unwrap().success());
    path
}

fn target(sshd: &Sshd, more: &str) -> SshTarget {
    SshTarget::new(None, sshd.host()).unwrap().with_rsh(&format!("{} {more}", sshd.rsh())).unwrap()
}

/// Why there is no connection to `target`, seen as a caller sees it: the
/// greeting does not come.
fn refusal(target: &SshTarget) -> ConnectError {
    let Connection { mut reader, writer, closer } =
        connect(target, Service::Agent, quiet()).unwrap();
    let mut greeting = Vec::new();
    reader.read_to_end(&mut greeting).unwrap();
    assert!(greeting.is_empty());
    drop(writer);
    closer.explain()
}

#[test]
fn bytes_arrive_unchanged_both_ways() {
    let sshd = Sshd::start().unwrap();
    let dir = TempDir::new().unwrap();
    let haul = echoing_haul(dir.path());
    let target = target(&sshd, "").with_remote_haul(&haul).unwrap();
    assert_echoes(connect(&target, Service::Agent, quiet()).unwrap());
}

#[test]
fn haul_is_found_in_the_home_directory() {
    let home = TempDir::new().unwrap();
    let bin = home.path().join(".local/bin");
    fs::create_dir_all(&bin).unwrap();
    fs::rename(echoing_haul(home.path()), bin.join("haul")).unwrap();
    let sshd = Sshd::builder()
        .env("HOME", home.path().to_str().unwrap())
        .env("PATH", "/usr/bin:/bin")
        .start()
        .unwrap();
    assert_echoes(connect(&target(&sshd, ""), Service::Agent, quiet()).unwrap());
    let tilde = target(&sshd, "").with_remote_haul("~/.local/bin/haul").unwrap();
    assert_echoes(connect(&tilde, Service::Agent, quiet()).unwrap());
}

#[test]
fn settings_that_would_spoil_the_stream_are_overridden() {
    let dir = TempDir::new().unwrap();
    let haul = echoing_haul(dir.path());
    let control = dir.path().join("control");
    let sshd = Sshd::builder()
        .client_line("RemoteCommand echo spoiled")
        .client_line("RequestTTY force")
        .client_line("ControlMaster auto")
        .client_line(format!("ControlPath {}", control.display()))
        .client_line("ControlPersist 60")
        .client_line("PermitLocalCommand yes")
        .client_line("LocalCommand echo spoiled")
        .client_line("ForwardAgent yes")
        .client_line("SessionType none")
        .client_line("StdinNull yes")
        .client_line("ForkAfterAuthentication yes")
        .client_line("Tunnel yes")
        .client_line("EscapeChar a")
        .start()
        .unwrap();
    let target = target(&sshd, "").with_remote_haul(&haul).unwrap();
    assert_echoes(connect(&target, Service::Agent, quiet()).unwrap());
    assert_echoes(connect(&target, Service::BriefAgent, quiet()).unwrap());
    assert!(!control.exists());
    assert_sftp_answers(&target);
}

/// The cipher that ssh says it uses.
fn cipher_in_use(sshd: &Sshd, more: &str) -> String {
    let dir = TempDir::new().unwrap();
    let haul = echoing_haul(dir.path());
    let target = target(sshd, &format!("-v {more}")).with_remote_haul(&haul).unwrap();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let sink: Diagnostics = Arc::new(move |line: &[u8]| {
        sink.lock().unwrap().push(String::from_utf8_lossy(line).into_owned());
    });
    let Connection { reader, writer, closer } = connect(&target, Service::Agent, sink).unwrap();
    drop((reader, writer));
    closer.finish().unwrap();
    let lines = lines.lock().unwrap();
    let line = lines.iter().find(|line| line.contains("client->server cipher: "));
    let (_, cipher) = line.unwrap().split_once("cipher: ").unwrap();
    cipher.split(' ').next().unwrap().to_owned()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn aes_gcm_is_used_unless_the_user_chose_otherwise() {
    if !std::arch::is_x86_feature_detected!("aes") {
        return;
    }
    let sshd = Sshd::start().unwrap();
    assert_eq!(cipher_in_use(&sshd, ""), "aes128-gcm@openssh.com");
    assert_eq!(cipher_in_use(&sshd, "-c aes256-ctr"), "aes256-ctr");
    assert_eq!(cipher_in_use(&sshd, "-oCiphers=aes192-ctr"), "aes192-ctr");
    let chosen = Sshd::builder().ciphers("aes256-ctr").start().unwrap();
    assert_eq!(cipher_in_use(&chosen, ""), "aes256-ctr");
}

#[test]
fn a_missing_haul_is_reported() {
    let home = TempDir::new().unwrap();
    let sshd = Sshd::builder()
        .env("HOME", home.path().to_str().unwrap())
        .env("PATH", "/usr/bin:/bin")
        .start()
        .unwrap();
    let error = refusal(&target(&sshd, ""));
    assert_eq!(error.to_string(), "haul was not found on haul-test");
    let named = target(&sshd, "").with_remote_haul("/opt/no haul").unwrap();
    let error = refusal(&named);
    assert_eq!(error.to_string(), "haul was not found on haul-test at '/opt/no haul'");
    let unusable = target(&sshd, "").with_remote_haul("/etc/passwd").unwrap();
    let error = refusal(&unusable);
    assert!(matches!(error, ConnectError::HaulUnusable { .. }), "{error}");
}

#[test]
fn the_sftp_subsystem_answers() {
    assert_sftp_answers(&target(&Sshd::start().unwrap(), ""));
}

fn assert_sftp_answers(target: &SshTarget) {
    let connection = connect(target, Service::Sftp, quiet()).unwrap();
    let Connection { mut reader, mut writer, closer } = connection;
    // The client's version, 3, is answered with the server's.
    writer.write_all(&[0, 0, 0, 5, 1, 0, 0, 0, 3]).unwrap();
    let mut answer = [0; 9];
    reader.read_exact(&mut answer).unwrap();
    assert_eq!(answer[4..], [2, 0, 0, 0, 3]);
    drop((reader, writer));
    closer.finish().unwrap();
}

#[test]
fn a_server_without_sftp_is_reported() {
    let refusal = |sshd: Sshd| {
        let connection = connect(&target(&sshd, ""), Service::Sftp, quiet()).unwrap();
        let Connection { mut reader, writer, closer } = connection;
        reader.read_to_end(&mut Vec::new()).unwrap();
        drop(writer);
        closer.explain()
    };
    for builder in [Sshd::builder().without_sftp(), Sshd::builder().sftp("/nonexistent/server")] {
        let error = refusal(builder.start().unwrap());
        assert_eq!(error.to_string(), "haul-test offers no sftp");
        assert!(matches!(error, ConnectError::SubsystemMissing { name: "sftp", .. }), "{error}");
    }
    let error = refusal(Sshd::builder().sftp("/bin/false").start().unwrap());
    assert!(matches!(error, ConnectError::Agent { status: 1, .. }), "{error}");
}

#[test]
fn a_refused_login_is_reported() {
    let sshd = Sshd::builder().server_line("PubkeyAuthentication no").start().unwrap();
    let error = refusal(&target(&sshd, ""));
    assert!(matches!(error, ConnectError::LoginRefused { .. }), "{error}");
    assert!(!error.retriable());
}

#[test]
fn a_host_that_does_not_answer_is_reported() {
    let sshd = Sshd::start().unwrap();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    let error = refusal(&target(&sshd, "").with_port(port));
    assert!(error.to_string().contains("Connection refused"), "{error}");
    assert!(matches!(error, ConnectError::Unreachable { .. }) && error.retriable());

    let unknown =
        SshTarget::new(None, "no-such-host.invalid").unwrap().with_rsh(&sshd.rsh()).unwrap();
    let error = refusal(&unknown);
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
}

#[test]
fn a_host_with_another_key_is_reported() {
    let sshd = Sshd::start().unwrap();
    let dir = TempDir::new().unwrap();
    let known = dir.path().join("known_hosts");
    fs::write(&known, "").unwrap();
    let strict = format!("-oUserKnownHostsFile={} -oStrictHostKeyChecking=yes", known.display());
    let error = refusal(&target(&sshd, &strict));
    assert!(matches!(error, ConnectError::HostKey { changed: false, .. }), "{error}");

    let other_key = fs::read_to_string(sshd.ssh_config().with_file_name("user_key.pub")).unwrap();
    fs::write(&known, format!("[127.0.0.1]:{} {other_key}", sshd.port())).unwrap();
    let error = refusal(&target(&sshd, &strict));
    assert!(matches!(error, ConnectError::HostKey { changed: true, .. }), "{error}");
}

#[test]
fn a_wrong_configuration_is_reported() {
    let sshd = Sshd::start().unwrap();
    for words in ["-oNoSuchSetting=yes", "-oLogLevel=INFO -oCiphers=3des-cbc", "-F /nonexistent"] {
        let error = refusal(&target(&sshd, words));
        assert!(matches!(error, ConnectError::Setup { .. }), "{words}: {error}");
    }
}

#[test]
fn a_connection_that_is_cut_is_lost() {
    let sshd = Sshd::start().unwrap();
    let dir = TempDir::new().unwrap();
    let target = target(&sshd, "").with_remote_haul(&echoing_haul(dir.path())).unwrap();
    let Connection { mut reader, mut writer, closer } =
        connect(&target, Service::Agent, quiet()).unwrap();
    writer.write_all(b"x").unwrap();
    reader.read_exact(&mut [0]).unwrap();
    sshd.cut();
    reader.read_to_end(&mut Vec::new()).unwrap();
    let error = closer.explain();
    assert!(matches!(error, ConnectError::Lost { .. }) && error.retriable(), "{error}");
}

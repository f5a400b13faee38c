//! Connections over shell scripts that behave as ssh may.

mod common;

use common::{assert_echoes, quiet};
use haul_net::{ConnectError, Connection, Diagnostics, Service, SshTarget, connect};
use rustix::process::{Pid, test_kill_process};
use std::io::{self, Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Connects through `sh` running `script`, which finds the host in `$1` and the
/// remote command in `$2`.
fn through(script: &str, diagnostics: Diagnostics) -> Connection {
    let rsh = format!("sh -c {} sh", shell_words::quote(script));
    let target = SshTarget::new(None, "box").unwrap().with_rsh(&rsh).unwrap();
    connect(&target, Service::Agent, diagnostics).unwrap()
}

fn ended(script: &str) -> Result<(), ConnectError> {
    let Connection { mut reader, writer, closer } = through(script, quiet());
    drop(writer);
    reader.read_to_end(&mut Vec::new()).unwrap();
    closer.finish()
}

fn first_line(reader: &mut dyn Read) -> String {
    let mut line = String::new();
    let mut byte = [0];
    while reader.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0].into());
    }
    line
}

fn runs(pid: &str) -> bool {
    test_kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap()).is_ok()
}

#[test]
fn bytes_pass_both_ways_and_a_clean_end_is_no_error() {
    let connection = through("cat", quiet());
    assert_eq!(connection.closer.peer(), "box");
    assert_echoes(connection);
}

#[test]
fn the_host_and_the_remote_command_arrive_as_two_words() {
    let mut connection = through("printf '%s/' \"$#\" \"$1\" \"$2\"; echo", quiet());
    let line = first_line(&mut *connection.reader);
    assert!(line.starts_with("2/box/sh -c '") && line.ends_with("; exit 127'/"), "{line}");
}

#[test]
fn standard_error_reaches_the_program_and_the_diagnosis() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&heard);
    let connection = through(
        "printf 'Welcome\\033[2J\\r\\nssh: connect to host box port 22: Connection refused' >&2; exit 255",
        Arc::new(move |line: &[u8]| sink.lock().unwrap().push(line.to_vec())),
    );
    let error = connection.closer.explain();
    assert_eq!(
        error.to_string(),
        "can't reach box: connect to host box port 22: Connection refused"
    );
    assert!(error.retriable());
    // What the error says is not told before it.
    assert_eq!(*heard.lock().unwrap(), [b"Welcome\x1b[2J"]);
}

#[test]
fn haul_missing_is_reported_with_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let script = format!("HOME={} PATH=/usr/bin:/bin exec sh -c \"$2\"", home.path().display());
    let error = ended(&script).unwrap_err();
    assert_eq!(error.to_string(), "haul was not found on box");
    let ConnectError::HaulMissing { tried, address, .. } = error else { panic!("{error}") };
    assert_eq!((tried, address.as_str()), (None, "box"));
}

#[test]
fn a_peer_that_leaves_without_a_word_is_an_error_when_it_was_needed() {
    assert!(ended("exit 0").is_ok());
    let error = through("exit 0", quiet()).closer.explain();
    assert_eq!(
        error.to_string(),
        "the program that box runs instead of haul is not haul: it exited without a message"
    );
    assert!(!error.retriable());
    let Connection { mut reader, writer, closer } = through("echo up", quiet());
    assert_eq!(first_line(&mut *reader), "up");
    drop((reader, writer));
    assert!(matches!(closer.explain(), ConnectError::Lost { .. }));
    assert!(matches!(
        ended("kill -9 $$").unwrap_err(),
        ConnectError::Lost { detail, .. } if detail.contains("signal 9")
    ));
}

#[test]
fn a_killer_wakes_the_reader() {
    let Connection { mut reader, writer, closer } = through("echo up; exec sleep 60", quiet());
    assert_eq!(first_line(&mut *reader), "up");
    let killer = closer.killer();
    let start = Instant::now();
    thread::scope(|scope| {
        let reading = scope.spawn(|| reader.read_to_end(&mut Vec::new()).unwrap());
        thread::sleep(Duration::from_millis(20));
        killer.kill();
        assert_eq!(reading.join().unwrap(), 0);
    });
    drop(writer);
    assert!(matches!(closer.finish(), Err(ConnectError::Stopped { .. })));
    assert!(start.elapsed() < Duration::from_secs(5));
    killer.kill();
}

#[test]
fn a_dropped_connection_leaves_no_process_behind() {
    for script in ["echo $$; exec sleep 60", "echo $$; trap '' TERM; exec sleep 60"] {
        let mut connection = through(script, quiet());
        let pid = first_line(&mut *connection.reader);
        assert!(runs(&pid));
        drop(connection);
        // A zombie would still count as running.
        assert!(!runs(&pid), "{script}");
    }
}

#[test]
fn a_program_that_does_not_end_is_given_up() {
    let Connection { mut reader, writer, closer } = through("echo $$; exec sleep 60", quiet());
    let pid = first_line(&mut *reader);
    drop((reader, writer));
    let start = Instant::now();
    let error = closer.finish().unwrap_err();
    assert!(matches!(error, ConnectError::Lost { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(15));
    assert!(!runs(&pid));
}

#[test]
fn a_process_that_holds_standard_error_open_holds_nobody_up() {
    let start = Instant::now();
    let connection = through("sleep 8 >/dev/null & exit 0", quiet());
    drop((connection.reader, connection.writer));
    connection.closer.finish().unwrap();
    assert!(start.elapsed() < Duration::from_secs(4));
}

#[test]
fn a_program_that_is_not_there_is_reported() {
    let target = SshTarget::new(Some("ann"), "box").unwrap();
    for program in ["/nonexistent/ssh", "/nonexistent/rsh"] {
        let error = connect(&target.clone().with_rsh(program).unwrap(), Service::Agent, quiet())
            .unwrap_err();
        assert!(error.to_string().contains(program), "{error}");
        assert!(error.to_string().contains("ann@box"), "{error}");
        let ConnectError::Start { cause, .. } = error else { panic!("{error}") };
        assert_eq!(cause.kind(), std::io::ErrorKind::NotFound);
    }
}

/// A program called `ssh` is known by its name; this one answers the question
/// for its settings with nothing, and then echoes.
#[test]
fn an_ssh_that_reports_no_settings_is_left_its_ciphers() {
    let dir = tempfile::tempdir().unwrap();
    let ssh = dir.path().join("ssh");
    symlink("/bin/sh", &ssh).unwrap();
    let script = dir.path().join("script");
    std::fs::write(&script, "case \"$*\" in *-G*) exit 255;; esac\necho \"$*\"\n").unwrap();
    let rsh = format!("{} {}", ssh.display(), script.display());
    let target = SshTarget::new(Some("ann"), "box").unwrap().with_rsh(&rsh).unwrap();
    let mut connection = connect(&target.with_port(7), Service::Agent, quiet()).unwrap();
    let line = first_line(&mut *connection.reader);
    assert!(line.starts_with("-x -T -oForwardAgent=no"), "{line}");
    assert!(line.contains(" -p 7 -l ann -- box sh -c"), "{line}");
}

#[test]
fn a_connection_of_parts_has_nothing_to_close() {
    let mut connection = Connection::from_parts(&b"abc"[..], Vec::new());
    let mut text = String::new();
    connection.reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "abc");
    connection.closer.kill();
    connection.closer.killer().kill();
    connection.closer.finish().unwrap();
}

#[test]
fn a_connection_of_streams_ends_at_once_and_they_block_again() {
    let blocks = |stream: &UnixStream| {
        let flags = rustix::fs::fcntl_getfl(stream).unwrap();
        !flags.contains(rustix::fs::OFlags::NONBLOCK)
    };
    let (here, _there) = UnixStream::pair().unwrap();
    let (reader, writer) = (here.try_clone().unwrap(), here.try_clone().unwrap());
    let Connection { mut reader, mut writer, closer } =
        Connection::from_streams(reader, writer).unwrap();
    assert!(!blocks(&here));
    let reading = thread::spawn(move || reader.read(&mut [0]).unwrap());
    let writing = thread::spawn(move || writer.write_all(&vec![0; 8 << 20]));
    thread::sleep(Duration::from_millis(50));
    assert!(!reading.is_finished() && !writing.is_finished());
    closer.killer().kill();
    assert_eq!(reading.join().unwrap(), 0);
    assert_eq!(writing.join().unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    drop(closer);
    assert!(blocks(&here));
}

#[test]
fn a_full_pipe_of_a_connection_is_waited_for_until_it_is_killed() {
    let (_far_input, output) = io::pipe().unwrap();
    let (input, _far_output) = io::pipe().unwrap();
    let Connection { mut writer, closer, .. } = Connection::from_streams(input, output).unwrap();
    assert!(writer.pipe().is_some());
    writer.wait_writable().unwrap();
    let killer = closer.killer();
    let filling = thread::spawn(move || {
        let _ = writer.write_all(&vec![0; 8 << 20]);
        writer.wait_writable()
    });
    thread::sleep(Duration::from_millis(50));
    assert!(!filling.is_finished());
    killer.kill();
    assert_eq!(filling.join().unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn what_holds_on_at_the_other_end_is_waited_for_and_for_a_second_at_most_by_ssh() {
    let dir = tempfile::tempdir().unwrap();
    // The name is what makes it ssh.
    let ssh = dir.path().join("ssh");
    symlink("/bin/sh", &ssh).unwrap();
    let ssh = ssh.to_str().unwrap();
    for (program, seconds, is_waited_for) in
        [(ssh, "0.2", true), (ssh, "3", false), ("sh", "0.2", true), ("sh", "2", true)]
    {
        let done = dir.path().join(format!("done-{is_waited_for}-{seconds}"));
        let done_late = format!("cat >/dev/null; sleep {seconds}; touch '{}'", done.display());
        let script = format!("case \"$*\" in *-G*) exit 1;; esac; echo $$; {done_late}");
        let rsh = format!("{program} -c {} sh", shell_words::quote(&script));
        let target = SshTarget::new(None, "box").unwrap().with_rsh(&rsh).unwrap();
        let Connection { mut reader, writer, closer } =
            connect(&target, Service::Agent, quiet()).unwrap();
        let pid = first_line(&mut *reader);
        drop((reader, writer));
        closer.leave();
        assert_eq!(done.exists(), is_waited_for, "{program} {seconds}");
        assert!(!runs(&pid), "{program} {seconds}");
        let _ = std::fs::remove_file(done);
    }
}

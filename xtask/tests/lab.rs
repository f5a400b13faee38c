//! `cargo xtask lab` as a user runs it: the command finds the server, its exit
//! code comes back, and the lab is gone, however it ended.

#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use haul_testkit::proc::{self, Signal};
use haul_testkit::{TempDir, fixture};

/// A lab that keeps its keys and its configuration in `files`.
#[track_caller]
fn lab(files: &TempDir, script: &str) -> Option<Child> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/net/tun").exists() {
        fixture::missing("root or /dev/net/tun, for a lab");
        return None;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["lab", "--delay", "1ms", "--", "sh", "-c", script]);
    command.env("TMPDIR", files.path()).stdin(Stdio::null()).stdout(Stdio::piped());
    Some(command.spawn().expect("it starts"))
}

fn line(child: &mut Child) -> String {
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("read");
    line.trim().to_owned()
}

/// The processes that are in a network namespace.
fn living_in(namespace: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("read").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_in = |pid: &u32| {
        fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|id| id == Path::new(namespace))
    };
    pids.filter(is_in).filter(|&pid| proc::is_alive(pid)).collect()
}

#[test]
fn the_command_finds_the_server_and_its_exit_code_comes_back() {
    // What it leaves running on either host must not stay.
    let script = "sleep 1000 & ssh -F $HAUL_LAB_SSH_CONFIG haul-lab \
                  'setsid sleep 1000 >/dev/null 2>&1 & readlink /proc/self/ns/net' && \
                  exit 7";
    let files = TempDir::new().expect("a temporary directory");
    let Some(mut lab) = lab(&files, script) else { return };
    let server = line(&mut lab);
    assert!(server.starts_with("net:["), "{server}");
    assert_ne!(Path::new(&server), fs::read_link("/proc/self/ns/net").expect("read"));
    assert_eq!(lab.wait().expect("waited").code(), Some(7));
    assert_eq!(fs::read_dir(files.path()).expect("read").count(), 0);
    assert_eq!(living_in(&server), [0_u32; 0]);
}

#[test]
fn a_lab_that_is_killed_takes_everything_down() {
    let script = "sleep 1000 & readlink /proc/self/ns/net; \
                  ssh -F $HAUL_LAB_SSH_CONFIG haul-lab 'readlink /proc/self/ns/net; sleep 1000'";
    let files = TempDir::new().expect("a temporary directory");
    let Some(mut lab) = lab(&files, script) else { return };
    let mut lines = BufReader::new(lab.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("a line").expect("read");
    let hosts = [next(), next()];
    assert!(hosts.iter().all(|host| living_in(host).len() > 1), "{hosts:?}");
    proc::signal(lab.id(), Signal::KILL);
    lab.wait().expect("waited");
    let end = Instant::now() + Duration::from_secs(10);
    while hosts.iter().any(|host| !living_in(host).is_empty()) {
        assert!(Instant::now() < end, "still there: {:?}", hosts.map(|host| living_in(&host)));
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_lab_that_is_interrupted_takes_everything_down() {
    // Ctrl-C reaches the whole group; here it reaches the lab alone, and the
    // command has to be killed.
    let files = TempDir::new().expect("a temporary directory");
    let Some(mut lab) = lab(&files, "sleep 1000 & readlink /proc/self/ns/net; wait") else {
        return;
    };
    let client = line(&mut lab);
    assert!(!living_in(&client).is_empty());
    let begin = Instant::now();
    proc::signal(lab.id(), Signal::INT);
    assert_eq!(lab.wait().expect("waited").code(), Some(130));
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert_eq!(living_in(&client), [0_u32; 0]);
}

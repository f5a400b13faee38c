//! A lab is what it was asked to be, and nothing of it stays.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use haul_testkit::{Haul, fixture, proc, tree};

use super::cable::Via;
use super::hosts::SERVER;
use super::link::{Link, Rate, Share, Size};
use super::*;
use crate::repo;

/// 20 Mbit/s, a round trip of 40 ms.
fn plan() -> Plan {
    let link = Link {
        rate: Rate(20_000_000),
        delay: Duration::from_millis(40),
        loss: Share(0.0),
        queue: Some(Size(100_000)),
        mtu: 1500,
    };
    Plan { link, congestion: None, via: Some(Via::Shaper) }
}

#[track_caller]
fn can_make_labs() -> bool {
    let can = rustix::process::geteuid().is_root() && Path::new("/dev/net/tun").exists();
    if !can {
        fixture::missing("root or /dev/net/tun, for a lab");
    }
    can
}

/// All that is in a network namespace now: processes, threads of this one, and
/// what this one has open.
fn in_namespace(id: &Path) -> Vec<PathBuf> {
    let links = |dir: &str, rest: &str| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path().join(rest)).collect::<Vec<_>>()
    };
    let mut found = links("/proc", "ns/net");
    found.extend(links("/proc/self/task", "ns/net"));
    found.extend(links("/proc/self/fd", ""));
    // A path with an empty last component would be that of what it points to.
    let target = |path: &PathBuf| fs::read_link(path.components().collect::<PathBuf>());
    found.retain(|path| target(path).is_ok_and(|target| target == id));
    found
}

#[test]
fn a_lab_has_the_round_trip_and_the_rate_and_leaves_nothing() {
    /// Takes 0.8 s at the rate.
    const CONTENT_BYTES: usize = 2_000_000;
    if !can_make_labs() {
        return;
    }
    let lab = Lab::start(&plan()).expect("a lab");
    let ids = [lab.client().id().to_owned(), lab.server().id().to_owned()];
    assert_ne!(ids[0], ids[1]);

    let listening = lab.server().inside(|| TcpListener::bind((SERVER, 0)));
    let listener = listening.expect("entered").expect("bound");
    let at = listener.local_addr().expect("an address");
    assert!(TcpStream::connect_timeout(&at, Duration::from_millis(100)).is_err(), "no isolation");
    let server = thread::spawn(move || -> io::Result<usize> {
        let (mut stream, _) = listener.accept()?;
        let len = stream.read_to_end(&mut Vec::new())?;
        stream.write_all(b"!")?;
        Ok(len)
    });
    let begin = Instant::now();
    let connected = lab.client().inside(|| TcpStream::connect(at));
    let mut stream = connected.expect("entered").expect("connected");
    let handshake = begin.elapsed();
    let begin = Instant::now();
    stream.write_all(&vec![7; CONTENT_BYTES]).expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("shut down");
    stream.read_exact(&mut [0]).expect("answered");
    let took = begin.elapsed();
    assert_eq!(server.join().expect("it ended").expect("received"), CONTENT_BYTES);
    // Less is impossible; more may be a busy machine.
    let (handshake_ms, took_s) = (handshake.as_millis(), took.as_secs_f64());
    assert!((40..1000).contains(&handshake_ms), "{handshake_ms} ms");
    assert!((0.8..6.0).contains(&took_s), "{took_s} s");

    let login = lab.client().inside(|| lab.sshd().command("echo \"$SSH_CONNECTION\"").output());
    let login = login.expect("entered").expect("started");
    let said = String::from_utf8_lossy(&login.stdout).into_owned();
    assert!(said.starts_with("10.213.0.2 ") && said.contains(" 10.213.0.1 "), "{said}");

    let (sshd, files) = (lab.sshd().pid(), lab.sshd().ssh_config().to_owned());
    drop(stream);
    assert!(ids.iter().all(|id| !in_namespace(id).is_empty()));
    drop(lab);
    assert!(!proc::is_alive(sshd) && !files.exists());
    // Its devices go with a namespace, which goes with the last that is in it.
    for id in ids {
        assert_eq!(in_namespace(&id), Vec::<PathBuf>::new());
    }
}

#[test]
fn what_the_kernel_lacks_is_an_error_if_it_was_asked_for() {
    if !can_make_labs() {
        return;
    }
    let lab = Lab::start(&Plan { congestion: Some("no-such".to_owned()), ..plan() });
    let error = lab.err().expect("no lab").to_string();
    assert!(error.contains("can't be no-such"), "{error}");
}

/// Round trips to a host that is near, and to one that is far away.
const NEAR: Duration = Duration::from_millis(1);
const FAR: Duration = Duration::from_millis(240);

/// Bytes that haul sends in a job of which it decides by itself how it goes: over one
/// connection to the far host they take 12 s.
const SENT_LEN: u64 = 100 << 20;

/// The longest login after which a job of that length is worth others: the rest would be on
/// its way for twice as long. Its round trips are 4.6 s of it; the rest is what the
/// processors take, on a busy machine more.
const LOGIN_MAX: Duration = Duration::from_millis(5500);

/// How often a job is run whose login took longer.
const ATTEMPTS_MAX: usize = 6;

/// The time between two looks at the agents: a look through all processes takes milliseconds,
/// and those that are looked for stay.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// An upload through ssh, as it was seen.
struct Sent {
    /// The agents at the server that have taken part, at most.
    most: usize,
    /// The time of the first login, as haul has found it.
    login: Option<Duration>,
    words: String,
}

/// Sends a file to the server of a lab in which a message takes so long there and back.
fn send(delay: Duration, flags: &[&str]) -> Option<Sent> {
    if !can_make_labs() {
        return None;
    }
    let program = repo::target_dir().join("debug/haul");
    if !program.exists() {
        fixture::missing("haul, as cargo builds it for its tests");
        return None;
    }
    let link = Link { rate: Rate(200_000_000), delay, loss: Share(0.0), queue: None, mtu: 9000 };
    let lab = Lab::start(&Plan { link, ..plan() }).expect("a lab");
    let dir = tempfile::tempdir().expect("a directory");
    let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
    tree::random_file(&from, SENT_LEN, 1).expect("a file");
    let haul = Haul::new(&program)
        .args(["copy", "-v", "--via", "ssh", "--compress", "none"])
        .args(["--rsh", &lab.sshd().rsh(), "--remote-haul"])
        .arg(&program)
        .args(flags)
        .arg(&from)
        .arg(lab.sshd().location(&to))
        .env("HAUL_LOG", "debug")
        .limit(Duration::from_secs(60));
    let running = lab.client().inside(|| haul.spawn()).expect("entered").expect("it starts");
    let mut most = 0;
    running.until(Duration::from_secs(60), || {
        most = most.max(lab.sshd().agents().len());
        thread::sleep(POLL_INTERVAL);
        false
    });
    let run = running.wait().expect("it ends").expect_ok();
    let [sent, came] = [&from, &to].map(|path| fs::read(path).expect("read"));
    assert!(sent == came, "what came is not what was sent");
    let words = run.err();
    Some(Sent { most, login: login_in(&words), words })
}

/// The time of the login that haul has chosen by, from its log.
fn login_in(log: &str) -> Option<Duration> {
    let line = log.lines().find(|line| line.contains("further logins"))?;
    let time = line.split_once("duration: ")?.1.split_once(',')?.0;
    let seconds = match time.strip_suffix("ms") {
        Some(ms) => ms.parse::<f64>().ok()? / 1e3,
        None => time.strip_suffix('s')?.parse().ok()?,
    };
    Some(Duration::from_secs_f64(seconds))
}

#[test]
fn haul_logs_in_as_often_as_the_way_is_long_and_once_where_it_is_short_or_asked_to() {
    let is_told = |sent: &Sent| sent.words.contains("contents go to haul-lab over 8 ssh");
    for (delay, flags) in [(NEAR, &[][..]), (FAR, &["--parallel", "1"])] {
        let Some(sent) = send(delay, flags) else { return };
        assert!(sent.most == 1 && !is_told(&sent), "{delay:?} {flags:?}: {}", sent.words);
    }
    let mut words = String::new();
    for _ in 0..ATTEMPTS_MAX {
        let Some(sent) = send(FAR, &[]) else { return };
        let login = sent.login.expect("it is in the log");
        if sent.most == 8 && is_told(&sent) {
            return;
        }
        // On a busy machine a login may take too long to be worth others.
        assert!(login > LOGIN_MAX, "{}", sent.words);
        words = sent.words;
    }
    panic!("each login took too long to be worth others: {words}");
}

//! Callers without keys, in great numbers.

use super::*;
use std::io::Write;
use std::net::TcpStream;

/// The memory of a process, in KiB.
fn memory_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn raises_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

#[test]
fn strangers_cost_little_memory_and_keep_no_client_out() {
    raises_open_files();
    let server = Server::start();
    let client = server.client("ann", &[]);
    fs::write(server.root().join("x"), "x").expect("written");
    let socket = || TcpStream::connect((client.address.host(), client.address.port()));
    let idle: Vec<TcpStream> = (0..1000).filter_map(|_| socket().ok()).collect();
    assert!(idle.len() > 900);
    // Slow ones: a greeting that goes on for ever.
    idle.iter().take(300).for_each(|mut socket| drop(socket.write_all(&[22, 3, 1, 64, 0, 1])));
    let stranger = server.stranger();
    let slowest = thread::scope(|scope| {
        for nth in 0..4 {
            let (stranger, socket) = (&stranger, &socket);
            scope.spawn(move || {
                for _ in 0..2500 {
                    match nth {
                        0 => drop(stranger.connect()),
                        1 => drop(socket().map(|mut it| it.write_all(&[0; 4096]))),
                        _ => drop(socket()),
                    }
                }
            });
        }
        let mut slowest = Duration::ZERO;
        for _ in 0..10 {
            let begin = Instant::now();
            client.download("/x", server.dir()).expect("copied");
            slowest = slowest.max(begin.elapsed());
            thread::sleep(Duration::from_millis(50));
        }
        slowest
    });
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    let kib = memory_kib(server.pid());
    assert!(kib < 64 << 10, "{kib} KiB");
}

#[test]
fn an_idle_server_does_nothing_and_is_small() {
    let server = Server::start();
    let quic = server.status()["quic_process"].as_u64().expect("a process");
    let jiffies = || {
        let stats = [server.pid().into(), quic]
            .map(|pid: u64| fs::read_to_string(format!("/proc/{pid}/status")).expect("a process"));
        let lines = stats.iter().flat_map(|stat| stat.lines());
        let switches = lines.filter(|line| line.contains("ctxt_switches"));
        switches
            .map(|line| line.split('\t').nth(1).expect("a number").to_owned())
            .collect::<Vec<_>>()
    };
    thread::sleep(Duration::from_millis(300));
    let before = jiffies();
    thread::sleep(Duration::from_secs(2));
    assert_eq!(jiffies(), before, "it wakes up");
}

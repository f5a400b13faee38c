//! Callers at the port that a host has opened for one job, who are not its client: none is
//! let in, none holds up the job, and they cost the host little.

use crate::common::*;
use crate::direct::{free_port, reached};
use haul_net::{Direct, Identity};
use haul_proto::{DirectOffer, HEADER_LEN, Header, Join, Message, encode};
use haul_testkit::{haul::Running, proc, tree};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The time after which a run counts as hung.
const SOON: Duration = Duration::from_secs(60);

const WAYS: [Way; 2] = [Way::Upload, Way::Download];

/// Threads of the host's haul, at most: those of a job with all lanes, and of 32 callers.
const THREADS_MAX: usize = 96;

/// The same for its memory, in bytes.
const MEMORY_MAX: u64 = 128 << 20;

/// A job over direct connections alone that leaves time to call at its port.
struct Job {
    port: u16,
    running: Running,
}

impl Job {
    fn begin(scene: &Scene<'_>) -> Self {
        scene.mkdir("src");
        tree::random_file(scene.path("src/large"), 24 << 20, 1).expect("a file");
        let port = free_port();
        let range = port.to_string();
        // The port is closed once all lanes are there, which these are not.
        let flags = ["-a", "--via", "tcp", "--port-range", &range, "--bwlimit", "6m"];
        let flags = [&flags[..], &["--parallel", "2"]].concat();
        let sync = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").limit(SOON);
        let running = sync.spawn().expect("it starts");
        Self { port, running }
    }

    /// A connection to the port, as soon as that is open.
    fn call(&self) -> TcpStream {
        let mut called = None;
        let is_open = || {
            called = TcpStream::connect(("127.0.0.1", self.port)).ok();
            called.is_some()
        };
        assert!(self.running.until(SOON, is_open), "the port was never open");
        called.expect("it is")
    }

    fn agent(&self) -> u32 {
        let agents = || {
            let below = proc::descendants(self.running.pid()).into_iter();
            below.filter(|pid| proc::is_agent(*pid)).collect::<Vec<_>>()
        };
        assert!(self.running.until(SOON, || !agents().is_empty()), "no agent");
        agents()[0]
    }

    /// The job ends well, and as soon as its rate lets it.
    fn end(self, scene: &Scene<'_>) {
        let run = self.running.wait().expect("it ends").expect_ok();
        assert!(run.usage.wall < Duration::from_secs(20), "{run}");
        let differences = scene.snapshot("src").differences(&scene.snapshot("dst"), scene.rules());
        assert_eq!(differences, []);
        assert!(TcpStream::connect(("127.0.0.1", self.port)).is_err(), "the port is open still");
    }
}

/// Threads of a process.
fn threads_of(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// The words of the host that say where it is reached, out of all that went through the pipe.
fn overheard(scene: &Scene<'_>) -> Option<DirectOffer> {
    let said = fs::read(scene.path("count")).unwrap_or_default();
    said.windows(HEADER_LEN).enumerate().find_map(|(at, header)| {
        let header = Header::decode(header.try_into().ok()?).ok()?;
        let payload = said[at + HEADER_LEN..].get(..header.payload_len as usize)?;
        match haul_proto::decode(header.kind, payload) {
            Ok(Message::Direct(Ok(offer))) => Some(offer),
            _ => None,
        }
    })
}

#[test]
fn who_knows_all_but_the_clients_key_is_not_let_in() {
    each_of(&WAYS, reached, |scene| {
        let job = Job::begin(scene);
        let mut offer = None;
        let hears = || {
            offer = overheard(scene);
            offer.is_some()
        };
        assert!(job.running.until(SOON, hears), "the host never says where it is");
        let offer = offer.expect("it does");
        assert_eq!(offer.address.port(), job.port);
        for lane in 1..=7 {
            let own = Identity::new().expect("a key");
            let connected = Direct::connect(offer.address, &own, offer.key, SOON, &|| true);
            let heard = connected.and_then(|mut direct| {
                direct.write_all(&encode(&Message::Join(Join { lane, secret: None })))?;
                direct.set_timeout(Some(SOON))?;
                direct.read(&mut [0])
            });
            assert!(!matches!(heard, Ok(1..)), "a stranger hears something");
        }
        job.end(scene);
    });
}

#[test]
fn a_hundred_who_say_nothing_or_little_at_a_time_cost_little() {
    each_of(&WAYS, reached, |scene| {
        let job = Job::begin(scene);
        // The client is in, so that the job goes on for as long as is looked.
        let arrives = || scene.list("dst").iter().any(|name| name.contains(".haul-"));
        assert!(job.running.until(SOON, || scene.exists("dst") && arrives()), "nothing arrives");
        let mut idle: Vec<TcpStream> = (0..100).map(|_| job.call()).collect();
        let (agent, is_over) = (job.agent(), AtomicBool::new(false));
        let most = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            // They call again when they are hung up on.
            scope.spawn(|| {
                let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
                let mut said = 0;
                while !is_over.load(Ordering::Relaxed) {
                    for caller in &mut idle {
                        let byte = &hello[said % hello.len()..][..1];
                        if caller.write_all(byte).is_err()
                            && let Ok(again) = TcpStream::connect(("127.0.0.1", job.port))
                        {
                            *caller = again;
                        }
                    }
                    said += 1;
                    most.fetch_max(threads_of(agent), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            let begin = Instant::now();
            job.running.until(Duration::from_secs(2), || false);
            let peak = proc::peak_rss_bytes(agent);
            is_over.store(true, Ordering::Relaxed);
            assert!(begin.elapsed() >= Duration::from_secs(2), "it has ended too early to see");
            let peak = peak.expect("it is there");
            assert!(peak < MEMORY_MAX, "{peak}");
        });
        let most = most.into_inner();
        assert!((1..THREADS_MAX).contains(&most), "{most} threads");
        job.end(scene);
    });
}

/// Strangers who call at the same time, and how long each pauses before the next call.
const CALLERS: usize = 2;
const CALL_PAUSE: Duration = Duration::from_millis(1);

/// Calls that each of them leaves open.
const LEFT_OPEN: usize = 64;

#[test]
fn strangers_who_call_all_the_time_do_not_keep_the_client_out() {
    each_of(&WAYS, reached, |scene| {
        let job = Job::begin(scene);
        let (is_in, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
        let arrives = || scene.list("dst").iter().any(|name| name.contains(".haul-"));
        std::thread::scope(|scope| {
            for _ in 0..CALLERS {
                scope.spawn(|| {
                    let mut open = std::collections::VecDeque::new();
                    while !is_in.load(Ordering::Relaxed) {
                        if let Ok(caller) = TcpStream::connect(("127.0.0.1", job.port)) {
                            open.push_back(caller);
                            open.drain(..open.len().saturating_sub(LEFT_OPEN));
                            calls.fetch_add(1, Ordering::Relaxed);
                        }
                        std::thread::sleep(CALL_PAUSE);
                    }
                });
            }
            let comes_in = job.running.until(SOON, || scene.exists("dst") && arrives());
            is_in.store(true, Ordering::Relaxed);
            assert!(comes_in, "nothing arrives, after {calls:?} calls");
        });
        assert!(calls.into_inner() > 32, "nobody else has called");
        job.end(scene);
    });
}

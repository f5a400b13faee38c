//! A peer's claims and floods cost bounded memory. Each check has a process of its own:
//! the peak that the system keeps is the whole process's, and what another has given back to
//! the allocator would be taken by the next one unseen.

#![forbid(unsafe_code)]

#[path = "parts/ending.rs"]
mod ending;
#[allow(dead_code, reason = "floods need a part of it only")]
#[path = "parts/peer.rs"]
mod peer;
#[allow(dead_code, reason = "floods need a part of it only")]
#[path = "parts/watch.rs"]
mod watch;

use haul_engine::{Event, Job, JobError, Monitor, Outcome, Placement, Progress, SftpRoute};
use haul_model::{Fault, FaultKind, Kept, Kind, Policy, Side, Task};
use haul_net::Connection;
use haul_proto::{
    Caps, FrameType, HEADER_LEN, Hello, ListItem, Message, NamedDest, NamedSources, OutcomeItem,
    Role, encode, frame_bytes,
};
use haul_testkit::{OddSftp, Oddities};
use peer::{Peer, data, dir, dir_end, entry, file};
use std::env;
use std::fs;
use std::io::Write;
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use watch::Watch;

/// The environment variable that names the only check of a process.
const CHECK: &str = "HAUL_MEMORY_CHECK";

/// The most that either side of a job may take, in bytes.
const MEMORY_MAX: u64 = 64 << 20;

/// The same of one that keeps a million files of several names in mind.
const LINKED_MEMORY_MAX: u64 = 200 << 20;

/// How much is flooded with, in bytes: far more than may be kept.
const FLOOD_LEN: usize = 512 << 20;

/// A flood that nobody takes in for so long has met its bound.
const BLOCKED: Duration = Duration::from_secs(1);

/// Forgets the peak so far.
fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").expect("our own");
}

fn memory(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("our own");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("it is told");
    let kib: u64 = line
        .trim_start_matches(':')
        .trim()
        .trim_end_matches("kB")
        .trim()
        .parse()
        .expect("a number");
    kib << 10
}

/// Runs `attack`, and checks that the peak did not rise by more than is allowed.
#[track_caller]
fn check(what: &str, attack: impl FnOnce()) {
    check_within(MEMORY_MAX, what, attack);
}

#[track_caller]
fn check_within(memory_max: u64, what: &str, attack: impl FnOnce()) {
    match env::var(CHECK) {
        Err(_) => return check_alone(what),
        Ok(chosen) if chosen != what => return,
        Ok(_) => {}
    }
    forget_peak();
    let before = memory("VmRSS");
    let start = Instant::now();
    attack();
    let risen = memory("VmHWM").saturating_sub(before);
    eprintln!("{what}: {} MiB, {:?}", risen >> 20, start.elapsed());
    assert!(risen <= memory_max, "{what}: {} MiB", risen >> 20);
}

/// Runs this program again, for this check alone.
#[track_caller]
fn check_alone(what: &str) {
    let own = env::current_exe().expect("it is known");
    let words = ["--exact", "no_claim_and_no_flood_costs_more_than_is_allowed", "--nocapture"];
    let ended = Command::new(own).args(words).env(CHECK, what).status().expect("it starts");
    assert!(ended.success(), "{what}");
}

/// The payload of a job with so many sources, none of which has a name.
fn job_of_sources(count: u32) -> Vec<u8> {
    let of = |sources| {
        let role = Role::Sender(NamedSources { recursive: true, ..NamedSources::at(sources) });
        let frame = encode(&Message::Job(peer::job_for(Task::default(), role)));
        frame[HEADER_LEN..].to_vec()
    };
    let (none, one) = (of(Vec::new()), of(vec![Vec::new()]));
    // There it says how many there are, seven bits a byte.
    let at = none.iter().zip(&one).position(|(none, one)| none != one).expect("they differ");
    let mut payload = none[..at].to_vec();
    let mut left = count;
    while left >= 0x80 {
        payload.push(left as u8 | 0x80);
        left >>= 7;
    }
    payload.push(left as u8);
    payload.resize(payload.len() + count as usize, 0);
    payload.extend_from_slice(&none[at + 1..]);
    payload
}

/// A monitor that keeps nothing but how many entries there were, and how many failed.
#[derive(Default)]
struct Counted {
    progress: Progress,
    entries: AtomicU64,
    failed: AtomicU64,
}

impl Monitor for Counted {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn event(&self, event: Event<'_>) {
        if let Event::Entry { outcome, .. } = event {
            self.entries.fetch_add(1, Ordering::Relaxed);
            if let Outcome::Failed(fault) = outcome {
                assert!(fault.message.contains("those of this job need more"), "{}", fault.message);
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn cancelled(&self) -> bool {
        false
    }
}

/// A peer lists `dirs` directories of `files` files, each of which has other names, in a dry
/// run, so that nothing is made of them. Returns how many failed.
fn list_linked(job: Job, (dirs, files): (u64, u64), name_of: fn(u64) -> String) -> u64 {
    let policy = Policy { dry_run: true, keeps: Kept::LINKS, ..Policy::default() };
    let job = Job { task: Task::Copy(policy), ..job };
    let (connection, mut peer) = Peer::of_client();
    let client = thread::spawn(move || {
        let counted = Counted::default();
        let placement = Placement::download(connection);
        haul_engine::run(&job, placement, &counted).expect("it ends in order");
        (counted.entries.into_inner(), counted.failed.into_inner())
    });
    peer.answer();
    peer.list(vec![dir(0, "a")]);
    let mut index = 1;
    for number in 0..dirs {
        let below = entry(1, &format!("{number:09}"), Kind::Dir);
        index += 1;
        let dir = index;
        let linked = |n| {
            let mut item = file(dir, &name_of(n), 1000);
            if let ListItem::Entry { entry, .. } = &mut item {
                entry.links = number * files + n + 1;
            }
            item
        };
        let items = std::iter::once(below).chain((0..files).map(linked));
        peer.list(items.chain([dir_end(dir)]).collect());
        index += files;
        peer.await_outcome(index);
        peer.outcomes.clear();
    }
    peer.list(vec![dir_end(1), dir_end(0)]);
    peer.hear_out();
    let (entries, failed) = client.join().expect("it does not panic");
    assert_eq!(entries, 1 + dirs * (1 + files));
    failed
}

/// Says `frame` again and again, until the other side takes no more of it, or
/// nothing is left to say.
fn flood(mut stream: UnixStream, mut frame: impl FnMut(u64) -> Vec<u8>) {
    stream.set_write_timeout(Some(BLOCKED)).expect("set");
    let mut said = 0;
    for number in 0.. {
        let frame = frame(number);
        if frame.is_empty() {
            thread::sleep(BLOCKED / 20);
        }
        if frame.is_empty() || said > FLOOD_LEN || stream.write_all(&frame).is_err() {
            return;
        }
        said += frame.len();
    }
}

/// A client's job with an agent that greets and then floods, never listening.
fn client(
    placement: fn(Connection) -> Placement,
    job: Job,
    script: impl FnOnce(&mut Peer),
    frame: impl FnMut(u64) -> Vec<u8>,
) -> Result<(), JobError> {
    let (connection, mut peer) = Peer::of_client();
    let (done, result) = mpsc::channel();
    thread::spawn(move || {
        let watch = Watch::default();
        let _ = done.send(haul_engine::run(&job, placement(connection), &watch).map(|_| ()));
    });
    peer.answer();
    script(&mut peer);
    flood(peer.into_stream(), frame);
    // The peer has left: whatever waits for it goes on.
    result.recv_timeout(Duration::from_secs(60)).expect("the job ends")
}

fn download(dest: &Path) -> Job {
    Job {
        sources: NamedSources { recursive: true, ..NamedSources::at(vec![b"/there/a".to_vec()]) },
        dest: NamedDest { into_dir: true, ..NamedDest::at(dest.as_os_str().as_bytes()) },
        ..Job::default()
    }
}

#[test]
fn no_claim_and_no_flood_costs_more_than_is_allowed() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dest = temp.path().join("dest");
    fs::create_dir(&dest).expect("made");
    let get = |script: fn(&mut Peer), frame: &mut dyn FnMut(u64) -> Vec<u8>| {
        let _ = client(Placement::download, download(&dest), script, frame);
        fs::remove_dir_all(&dest).expect("removed");
        fs::create_dir(&dest).expect("made");
    };

    check("entries that are settled at once", || {
        // All of them have outcomes, which nobody reads.
        let mut part = |number: u64| {
            let name = |n| format!("{:012}", number * 250 + n);
            let items = (0..250).map(|n| entry(1, &name(n), Kind::Special)).collect();
            encode(&Message::List(if number == 0 { vec![dir(0, "a")] } else { items }))
        };
        get(|_| (), &mut part);
    });
    check("faults with long messages", || {
        let fault = Fault::new(Side::Source, FaultKind::Io, "x".repeat(60_000));
        let item = ListItem::Fault { dir: 0, name: b"a".to_vec(), fault };
        let frame = encode(&Message::List(vec![item; 2]));
        get(|_| (), &mut |_| frame.clone());
    });
    check("ends of directories behind what is not worked off", || {
        // The smallest items that there are, once the answers are stuck.
        let ends = encode(&Message::List(vec![dir_end(0); 40_000]));
        let mut part = |number: u64| {
            if number > 4000 {
                return ends.clone();
            }
            let name = |n| format!("{:012}", number * 20 + n);
            let items = (0..20).map(|n| entry(1, &name(n), Kind::Special)).collect();
            encode(&Message::List(if number == 0 { vec![dir(0, "a")] } else { items }))
        };
        get(|_| (), &mut part);
    });
    check("directories that are never ended", || {
        let mut part = |number: u64| {
            let level = |n| if n == 0 { dir(0, "a") } else { dir(n, "d") };
            let items = (number * 100..number * 100 + 100).map(level).collect();
            encode(&Message::List(items))
        };
        get(|_| (), &mut part);
    });
    check("as many files in pieces as there may be", || {
        let script = |peer: &mut Peer| {
            let files = (0..64).map(|n| file(1, &format!("{n:03}"), 32 << 20));
            peer.list(std::iter::once(dir(0, "a")).chain(files).collect());
            peer.await_wants(2..66);
        };
        let content = vec![1; 4 << 20];
        let mut part = |number: u64| data(2 + number % 64, number / 64 * (4 << 20), &content);
        get(script, &mut part);
    });
    check("claimed lengths", || {
        for kind in FrameType::ALL {
            let mut header = frame_bytes(kind, b"");
            header[..4].copy_from_slice(&kind.payload_max().to_le_bytes());
            get(|_| (), &mut |number| if number == 0 { header.clone() } else { Vec::new() });
        }
    });
    check("outcomes and wishes for an uploading client", || {
        let source = temp.path().join("source");
        fs::write(&source, "x").expect("written");
        for message in [
            Message::Outcomes(
                (0..20_000)
                    .map(|index| OutcomeItem { index, outcome: haul_engine::Outcome::Copied })
                    .collect(),
            ),
            peer::want(0..30_000),
        ] {
            let job = Job {
                sources: NamedSources::at(vec![source.as_os_str().as_bytes().to_vec()]),
                dest: NamedDest::at(b"/there"),
                ..Job::default()
            };
            let frame = encode(&message);
            let _ = client(Placement::upload, job, |_| (), |_| frame.clone());
        }
    });
    check("links of an SFTP server that point far", || {
        for (count, target_len, is_kept) in [(1_600, 250 << 10, false), (12_000, 4_000, true)] {
            let links = temp.path().join(format!("links-{target_len}/a"));
            fs::create_dir_all(&links).expect("made");
            for number in 0..count {
                let link = links.join(number.to_string());
                std::os::unix::fs::symlink("x", link).expect("linked");
            }
            let odd = Oddities { target_len: Some(target_len), ..Oddities::default() };
            let (_server, from, to) = OddSftp::serve(temp.path(), odd).expect("served");
            let connections = vec![Connection::from_parts(from, to)];
            let route =
                SftpRoute { open_session: None, connections, journals: None, silence_max: None };
            let job = Job {
                sources: NamedSources {
                    paths: vec![links.as_os_str().as_bytes().to_vec()],
                    ..download(&dest).sources
                },
                ..download(&dest)
            };
            let watch = Watch::default();
            let done = haul_engine::run(&job, Placement::SftpDownload(route), &watch);
            let summary = done.expect("it ends in order");
            assert_eq!(summary.failed == 0, is_kept, "{summary:?}");
            fs::remove_dir_all(&dest).expect("removed");
            fs::create_dir(&dest).expect("made");
        }
    });
    check("files of several names with too little memory for them", || {
        let job = Job { links_memory_max: NonZeroU64::new(8 << 20), ..download(&dest) };
        let failed = list_linked(job, (2000, 100), |n| format!("{n:0250}"));
        assert!((100_000..200_000).contains(&failed), "{failed}");
    });
    check_within(LINKED_MEMORY_MAX, "a million files of several names", || {
        for number in 0..10_000 {
            fs::create_dir_all(dest.join(format!("a/{number:09}"))).expect("made");
        }
        let name_of = |n| format!("a_file_of_several_{n:06}");
        assert_eq!(list_linked(download(&dest), (10_000, 100), name_of), 0);
        fs::remove_dir_all(dest.join("a")).expect("removed");
    });
    check("a job of very many sources", || {
        let (here, there) = UnixStream::pair().expect("a socket pair");
        let input = there.try_clone().expect("a second handle");
        let agent = thread::spawn(move || haul_engine::serve(input, there));
        let mut peer = Peer::at(here);
        peer.frame(FrameType::Hello, &Hello::ours(Caps::NONE, 60, "script").encode());
        peer.hear_greeting();
        // As many as a frame has room for.
        peer.frame(FrameType::Job, &job_of_sources(FrameType::Job.payload_max() - 100));
        thread::sleep(Duration::from_millis(300));
        peer.leave();
        let _ = agent.join().expect("the agent does not panic");
    });
}

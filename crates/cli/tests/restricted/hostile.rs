//! Clients that speak the protocol by themselves, and keep no rule of it.

use crate::common::*;
use haul_model::{Altered, BlockRanges, Compression, Filter, Moving, Policy, Remove, Task};
use haul_proto::{
    Abort, Caps, FrameType, HEADER_LEN, Header, Hello, How, JobRequest, Join, Marked, Message,
    NamedDest, NamedSources, Reply, Request, Role, Want, decode, encode, frame_bytes,
};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// An agent that keeps below a directory.
struct Agent(Child);

impl Agent {
    fn start(root: &Path, flags: &[&str]) -> Self {
        let mut agent = Command::new(HAUL)
            .args(["serve", "--root"])
            .arg(root)
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let hello = Hello::ours(Caps::OURS, 60, "script").encode();
        let input = agent.stdin.as_mut().expect("piped");
        input.write_all(&frame_bytes(FrameType::Hello, &hello)).expect("taken");
        let mut agent = Self(agent);
        assert_eq!(agent.hear().map(|(kind, _)| kind), Some(FrameType::Welcome));
        agent
    }

    fn tell(&mut self, message: &Message) {
        // It may have had enough.
        let _ = self.0.stdin.as_mut().expect("piped").write_all(&encode(message));
    }

    fn hear(&mut self) -> Option<(FrameType, Vec<u8>)> {
        let output = self.0.stdout.as_mut().expect("piped");
        let mut header = [0; HEADER_LEN];
        output.read_exact(&mut header).ok()?;
        let header = Header::decode(header).expect("it keeps to the protocol");
        let mut payload = vec![0; header.payload_len as usize];
        output.read_exact(&mut payload).ok()?;
        Some((header.kind, payload))
    }

    fn ask(&mut self, request: Request) -> Vec<Reply> {
        self.tell(&Message::Request(request));
        let mut replies = Vec::new();
        loop {
            let (kind, payload) = self.hear().expect("it answers");
            let Message::Reply(reply) = decode(kind, &payload).expect("a reply") else {
                panic!("{kind:?} where a reply is expected")
            };
            let is_last = !matches!(reply, Reply::Entries(_));
            replies.push(reply);
            if is_last {
                return replies;
            }
        }
    }

    /// All that it says, once this end says no more.
    fn says(mut self) -> Vec<u8> {
        drop(self.0.stdin.take());
        let mut said = Vec::new();
        let output = self.0.stdout.as_mut().expect("piped");
        output.read_to_end(&mut said).expect("read");
        said
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Content that must not come out, as it is and as its hash.
const SECRET: &str = "the secret that stays where it is";

fn furnished(scene: &Scene<'_>) {
    scene.file("root/own", "own");
    scene.mkdir("root/d/deep");
    scene.file("outside/secret", SECRET);
    scene.symlink("../outside", "root/out");
    scene.symlink("../../outside/secret", "root/d/leak");
    scene.symlink(scene.path("outside"), "root/absolute");
    scene.symlink("/proc/self/root", "root/magic");
    scene.symlink("/proc/self/cwd/..", "root/d/deep/cwd");
}

/// Ways to name what is outside, or might be.
fn ways_out(scene: &Scene<'_>) -> Vec<Vec<u8>> {
    let absolute = scene.path("outside").display().to_string();
    let mut ways: Vec<String> = [
        "..",
        "../outside",
        "/..",
        "/../outside",
        "d/../../outside",
        "./../outside",
        "d/deep/../../..",
        "out",
        "out/",
        "out/.",
        "/out",
        "absolute",
        "absolute/",
        "magic",
        "magic/etc",
        "d/deep/cwd",
        "d/deep/cwd/outside",
        "~/../outside",
        "~root",
        "/proc/self/root",
        "/proc/self/cwd/..",
        "/proc/1/root",
        "/dev/fd/0",
        "d/leak/x",
        "//../outside",
        "d//..//../outside",
        "out/../outside",
    ]
    .map(str::to_owned)
    .to_vec();
    ways.push(absolute.clone());
    ways.push(format!("/{absolute}"));
    ways.into_iter().map(String::into_bytes).collect()
}

/// Nothing outside was touched, and none of it came out.
#[track_caller]
fn check(scene: &Scene<'_>, said: &[u8], what: &str) {
    assert!(!said.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()), "{what}");
    assert_eq!(scene.list("outside"), ["secret"], "{what}");
    assert_eq!(scene.read("outside/secret"), SECRET, "{what}");
}

#[test]
fn the_kernel_holds_the_agent_from_its_first_moment_on() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    furnished(&scene);
    for flags in [&[][..], &["--read-only"]] {
        let agent = Agent::start(&scene.path("root"), flags);
        // All threads that are there, whatever they are for.
        for thread in fs::read_dir(format!("/proc/{}/task", agent.0.id())).expect("it runs") {
            let status = thread.expect("read").path().join("status");
            let status = fs::read_to_string(status).expect("read");
            // Nobody is confined by Landlock without it.
            assert!(status.contains("NoNewPrivs:\t1"), "{status}");
        }
    }
}

#[test]
fn no_request_reaches_what_is_outside() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    furnished(&scene);
    let mut agent = Agent::start(&scene.path("root"), &[]);
    for way in ways_out(&scene) {
        let shown = way.escape_ascii().to_string();
        for name in ["", "/secret", "/nothing", "/."] {
            let path = [&way[..], name.as_bytes()].concat();
            let hashed = agent.ask(Request::Hash { path: path.clone() });
            assert!(matches!(hashed[..], [Reply::Fault(_)]), "{shown}{name}: {hashed:?}");
            let listed = agent.ask(Request::List { path: path.clone() });
            assert!(matches!(listed[..], [Reply::Fault(_)]), "{shown}{name}: {listed:?}");
            let stat = agent.ask(Request::Stat { path: path.clone(), follow: true });
            assert!(matches!(stat[..], [Reply::Fault(_)]), "{shown}{name}: {stat:?}");
            let mark = agent.ask(Request::Marker { path, marker: None, both: true });
            assert!(matches!(mark[..], [Reply::Fault(_)]), "{shown}{name}: {mark:?}");
        }
        let fault = |name: &str| {
            let path = [&way[..], name.as_bytes()].concat();
            Request::Stat { path, follow: false }
        };
        // Whether there is something is not told either.
        assert_eq!(agent.ask(fault("/secret")), agent.ask(fault("/nothing")), "{shown}");
    }
    // A link itself is something of the directory's own.
    let stat = agent.ask(Request::Stat { path: b"d/leak".to_vec(), follow: false });
    assert!(matches!(stat[..], [Reply::Entry(_)]), "{stat:?}");
    let stat = agent.ask(Request::Stat { path: b"d/leak".to_vec(), follow: true });
    assert!(matches!(stat[..], [Reply::Fault(_)]), "{stat:?}");
    let listed = agent.ask(Request::List { path: b"/".to_vec() });
    assert!(matches!(listed.last(), Some(Reply::End)), "{listed:?}");
    check(&scene, &[], "requests");
}

/// A job with nothing in it that a user can ask for beside its task.
fn job_for(task: Task, role: Role) -> JobRequest {
    JobRequest {
        task,
        filter: Filter::default(),
        altered: Altered::default(),
        rate: None,
        compression: Compression::None,
        token: None,
        direct: None,
        joins: None,
        chunks: true,
        role,
    }
}

/// The role of who receives into the directory at `path`.
fn receives(path: &[u8]) -> Role {
    Role::Receiver { dest: NamedDest { into_dir: true, ..NamedDest::at(path) }, asked: None }
}

/// Every job that names `path`.
fn jobs(path: &[u8]) -> Vec<(&'static str, Message)> {
    let sources = vec![path.to_vec()];
    let sends = |follow| {
        Role::Sender(NamedSources { recursive: true, follow, ..NamedSources::at(sources.clone()) })
    };
    let receives = receives(path);
    let (copy, check) =
        (Task::default(), Task::Check { content: true, keeps: haul_model::Kept::OF_COPIES });
    let synced = Task::Copy(Policy { sync: true, ..Policy::default() });
    let remove = Task::Remove { rule: Remove::SameContent, moving: Moving::Whole };
    let job = |task, role| Message::Job(job_for(task, role));
    vec![
        ("download", job(copy, sends(false))),
        ("download, followed", job(copy, sends(true))),
        ("upload", job(copy, receives.clone())),
        ("upload, durable", job(synced, receives.clone())),
        ("check, down", job(check, sends(true))),
        ("check, up", job(check, receives)),
        ("move", job(remove, sends(false))),
    ]
}

#[test]
fn no_job_reaches_what_is_outside() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    furnished(&scene);
    for way in ways_out(&scene) {
        for name in ["", "/secret", "/new/"] {
            let path = [&way[..], name.as_bytes()].concat();
            for (what, job) in jobs(&path) {
                let mut agent = Agent::start(&scene.path("root"), &[]);
                agent.tell(&job);
                // What is listed is wanted, and what is taken is sent.
                agent.tell(&Message::Want((1..4).map(|index| want(index, &job)).collect()));
                let said = agent.says();
                check(&scene, &said, &format!("{what}: {}", path.escape_ascii()));
            }
        }
    }
}

/// A wish for a content, or where none is copied for its hash.
fn want(index: u64, job: &Message) -> Want {
    let Message::Job(JobRequest { task, .. }) = job else { panic!("{job:?} is no job") };
    match task.copies() {
        Some(_) => Want { index, how: How::PLAIN, blocks: BlockRanges::all(), into: None },
        None => Want { index, how: How::WHOLE_HASH, blocks: BlockRanges::none(), into: None },
    }
}

#[test]
fn a_login_that_may_only_read_is_refused_each_job_that_writes() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    furnished(&scene);
    let before = scene.snapshot("root");
    for (what, job) in jobs(b"d") {
        let mut agent = Agent::start(&scene.path("root"), &["--read-only"]);
        agent.tell(&job);
        let said = agent.says();
        let refused = said.windows(12).any(|part| part == b"is read-only");
        let writes = what.starts_with("upload") || what == "move";
        assert_eq!(refused, writes, "{what}");
        haul_testkit::assert_same(&before, &scene.snapshot("root"));
    }
}

#[test]
fn a_login_that_may_only_read_has_nothing_marked() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    furnished(&scene);
    let before = scene.snapshot("root");
    let mark = || Request::Marker { path: b"d".to_vec(), marker: None, both: true };
    let mut agent = Agent::start(&scene.path("root"), &["--read-only"]);
    let refused = agent.ask(mark());
    assert!(
        matches!(&refused[..], [Reply::Fault(fault)] if fault.message.contains("is read-only")),
        "{refused:?}"
    );
    haul_testkit::assert_same(&before, &scene.snapshot("root"));
    let mut agent = Agent::start(&scene.path("root"), &[]);
    let made = agent.ask(mark());
    assert!(matches!(made[..], [Reply::Marker(Marked::Made(_))]), "{made:?}");
    assert_eq!(agent.ask(Request::RemoveMarker), [Reply::End]);
    haul_testkit::assert_same(&before, &scene.snapshot("root"));
}

/// How long what was swapped in stays.
const STAYS: Duration = Duration::from_micros(200);

#[test]
fn links_that_are_swapped_in_lead_nowhere() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    furnished(&scene);
    scene.file("root/swapped/secret", "harmless");
    let stop = AtomicBool::new(false);
    let (swapped, away) = (scene.path("root/swapped"), scene.path("root/away"));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fs::rename(&swapped, &away).expect("renamed");
                std::os::unix::fs::symlink("../outside", &swapped).expect("linked");
                thread::sleep(STAYS);
                fs::remove_file(&swapped).expect("removed");
                fs::rename(&away, &swapped).expect("renamed");
                thread::sleep(STAYS);
            }
        });
        let mut agent = Agent::start(&scene.path("root"), &[]);
        let secret = haul_model::ContentHash::of(SECRET.as_bytes());
        let mut answers = 0;
        for _ in 0..3000 {
            let path = b"swapped/secret".to_vec();
            match &agent.ask(Request::Hash { path: path.clone() })[..] {
                [Reply::Hash(hash)] => {
                    assert_ne!(*hash, secret);
                    answers += 1;
                }
                [Reply::Fault(_)] => {}
                other => panic!("{other:?}"),
            }
            if let [Reply::Entry(entry)] = &agent.ask(Request::Stat { path, follow: true })[..] {
                assert_eq!(entry.size(), 8);
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(answers > 0, "nothing was ever there");
    });
    check(&scene, &[], "swapping");
}

#[test]
fn a_login_joins_the_job_whose_secret_it_knows_and_no_other() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    furnished(&scene);
    let (known, unknown) = ([0x5a; 16], [0xa5; 16]);
    let joins = |flags: &[&str], lane: u8, secret: Option<[u8; 16]>| {
        let mut agent = Agent::start(&scene.path("root"), flags);
        agent.tell(&Message::Join(Join { lane, secret }));
        // It waits a little for a job that is about to come.
        let mut heard = agent.hear();
        while matches!(heard, Some((FrameType::Alive, _))) {
            heard = agent.hear();
        }
        let heard = heard.map(|(kind, payload)| decode(kind, &payload).expect("a message"));
        (agent, heard)
    };
    let is_refused = |secret| {
        let (mut agent, heard) = joins(&[], 1, secret);
        assert!(matches!(heard, Some(Message::Abort(Abort::Usage(_)))), "{heard:?}");
        assert!(agent.hear().is_none());
    };
    is_refused(Some(known));
    let mut agent = Agent::start(&scene.path("root"), &[]);
    let job = job_for(Task::default(), receives(b"d"));
    agent.tell(&Message::Job(JobRequest { joins: Some(known), ..job }));
    // It waits for logins before it says anything.
    assert!(agent.hear().is_some());
    is_refused(Some(unknown));
    is_refused(None);
    for lane in [0, 8, 255] {
        let (_, heard) = joins(&[], lane, Some(known));
        assert!(heard.is_none(), "{heard:?}");
    }
    let (first, heard) = joins(&["--read-only"], 1, Some(known));
    assert_eq!(heard, Some(Message::Join(Join { lane: 1, secret: None })));
    let (_, heard) = joins(&[], 1, Some(known));
    assert!(heard.is_none(), "the lane is there already: {heard:?}");
    // Contents alone go over it.
    let mut first = first;
    first.tell(&Message::Request(Request::List { path: b".".to_vec() }));
    assert!(first.hear().is_none());
    drop(agent);
    is_refused(Some(known));
}

//! Peers that fall silent, at any time, and peers that only seem to.

use crate::attack::{bytes, serve, within};
use crate::peer::{Peer, data, dir_end, entry, file, job_for, pack, packed, receiving};
use crate::place::Place;
use crate::watch::Watch;
use haul_engine::{Job, JobError, Placement, Requests};
use haul_model::{Kind, Moving, Remove, Task};
use haul_net::{ConnectError, Connection, Timeouts};
use haul_proto::{
    Caps, FrameType, Hello, Message, NamedDest, NamedSources, Request, Role, frame_bytes,
};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// How long a peer may be silent here.
const SILENCE: Duration = Duration::from_millis(600);

/// The same where the protocol can say it.
const SILENCE_SECONDS: u32 = 1;

/// How much later it may be noticed.
const LATE_MAX: Duration = Duration::from_secs(10);

fn timeout() -> Timeouts {
    Timeouts { silence_max: Some(SILENCE), login_max: Some(SILENCE * 2) }
}

/// The work that a client is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Upload,
    Download,
    CheckUp,
    CheckDown,
    MoveDown,
}

const WORKS: [Work; 5] =
    [Work::Upload, Work::Download, Work::CheckUp, Work::CheckDown, Work::MoveDown];

impl Work {
    /// Does it, with what is at the other end of `connection`.
    fn run(self, place: &Place, connection: Connection) -> Result<(), JobError> {
        let up = matches!(self, Self::Upload | Self::CheckUp);
        let (sources, dest) = match up {
            true => (vec![bytes(&place.source("a"))], b"/there".to_vec()),
            false => (vec![b"/there/a".to_vec()], bytes(&place.dest(""))),
        };
        let task = match self {
            Self::Upload | Self::Download => Task::default(),
            Self::CheckUp | Self::CheckDown => {
                Task::Check { content: true, keeps: haul_model::Kept::OF_COPIES }
            }
            Self::MoveDown => Task::Remove { rule: Remove::SameContent, moving: Moving::Whole },
        };
        let job = Job {
            sources: NamedSources::at(sources),
            dest: NamedDest { into_dir: true, ..NamedDest::at(dest) },
            task,
            ..Job::default()
        };
        let placement =
            if up { Placement::upload(connection) } else { Placement::download(connection) };
        haul_engine::run(&job, placement, &Watch::default()).map(|_| ())
    }
}

/// Tries every kind of work, all at the same time: most of it is waiting.
fn each_work(attempt: impl Fn(Work) + Sync) {
    thread::scope(|scope| {
        for work in WORKS {
            let attempt = &attempt;
            scope.spawn(move || attempt(work));
        }
    });
}

/// A place with something at both ends.
fn furnished() -> Place {
    let place = Place::new();
    fs::write(place.source("a"), vec![1; 100_000]).expect("written");
    fs::write(place.dest("a"), vec![1; 100_000]).expect("written");
    place
}

/// Runs `work` against `script`, which keeps the connection when it ends. How the
/// work ended, and how long after the script did.
fn against(
    work: Work,
    script: impl FnOnce(&mut Peer) + Send + 'static,
) -> (Result<(), JobError>, Duration) {
    let (connection, mut peer) = Peer::of_client();
    let connection = connection.with_timeouts(timeout());
    let job = within(move || {
        let place = furnished();
        let result = work.run(&place, connection);
        place.check();
        (result, Instant::now())
    });
    let script = thread::spawn(move || {
        script(&mut peer);
        (Instant::now(), peer)
    });
    let (silent_since, peer) = script.join().expect("the script does not panic");
    // The threads of the job wait for the stream; a process would be ended.
    let ended = thread::spawn(move || {
        let mut peer = peer;
        thread::sleep(SILENCE * 4);
        peer.leave();
    });
    let (result, at) = job.end();
    ended.join().expect("it leaves");
    (result, at.saturating_duration_since(silent_since))
}

#[track_caller]
fn assert_silent(result: &Result<(), JobError>) {
    let is_silent = matches!(result, Err(JobError::Connection(ConnectError::Silent { .. })));
    assert!(is_silent, "{result:?}");
}

fn greet(peer: &mut Peer) {
    peer.hear_greeting();
    peer.frame(FrameType::Welcome, &Hello::ours(Caps::NONE, 60, "script").encode());
}

#[test]
fn an_agent_that_greets_and_falls_silent_is_given_up() {
    each_work(|work| {
        let (result, after) = against(work, greet);
        assert_silent(&result);
        assert!(after >= SILENCE / 2 && after < LATE_MAX, "{work:?}: {after:?}");
    });
}

#[test]
fn an_agent_that_never_greets_is_given_up_when_a_login_would_be_over() {
    each_work(|work| {
        let (result, after) = against(work, |_| {});
        let unanswered =
            matches!(result, Err(JobError::Connection(ConnectError::Unanswered { .. })));
        assert!(unanswered, "{work:?}: {result:?}");
        assert!(after >= SILENCE && after < LATE_MAX, "{work:?}: {after:?}");
    });
}

#[test]
fn an_agent_that_falls_silent_in_the_middle_of_a_file_is_given_up() {
    let (result, _) = against(Work::Download, |peer| {
        greet(peer);
        peer.list(vec![file(0, "a", 3 << 20)]);
        peer.await_wants([1]);
        let piece = data(1, 0, &vec![7; 1 << 20]);
        peer.raw(&piece[..piece.len() / 2]);
    });
    assert_silent(&result);
}

#[test]
fn an_agent_that_says_that_it_is_there_is_waited_for() {
    each_work(|work| {
        let (result, after) = against(work, |peer| {
            greet(peer);
            let begin = Instant::now();
            while begin.elapsed() < SILENCE * 4 {
                peer.frame(FrameType::Alive, &[]);
                thread::sleep(SILENCE / 6);
            }
        });
        assert_silent(&result);
        assert!(after >= SILENCE / 2 && after < LATE_MAX, "{work:?}: {after:?}");
    });
}

#[test]
fn a_client_says_that_it_is_there_while_it_waits() {
    each_work(|work| {
        let (result, _) = against(work, move |peer| {
            greet(peer);
            let begin = Instant::now();
            peer.await_that("it has said so a few times", |peer| peer.signs > 3);
            let (most, least) = (SILENCE * 3, SILENCE * 3 / 4);
            let after = begin.elapsed();
            assert!(after > least && after < most, "{work:?}: {after:?}");
        });
        assert_silent(&result);
    });
}

#[test]
fn a_request_to_an_agent_that_is_silent_ends() {
    for greets in [false, true] {
        let (connection, mut peer) = Peer::of_client();
        let connection = connection.with_timeouts(timeout());
        let asked = within(move || -> Result<(), JobError> {
            let mut requests = Requests::remote(connection)?;
            match requests.stat(b"/there", true) {
                Err(haul_engine::RequestError::Job(error)) => Err(error),
                other => panic!("{other:?}"),
            }
        });
        if greets {
            greet(&mut peer);
        }
        let error = asked.end().expect_err("nobody answers");
        match (greets, &error) {
            (true, JobError::Connection(ConnectError::Silent { .. })) => {}
            (false, JobError::Connection(ConnectError::Unanswered { .. })) => {}
            _ => panic!("{error:?}"),
        }
    }
}

#[test]
fn signs_of_life_may_stand_between_all_frames() {
    let alive = frame_bytes(FrameType::Alive, &[]);
    let told = alive.clone();
    let (result, _) = against(Work::Download, move |peer| {
        peer.hear_greeting();
        peer.frame(FrameType::Welcome, &Hello::ours(Caps::NONE, 60, "script").encode());
        peer.raw(&told);
        peer.raw(&told);
        peer.list(vec![file(0, "a", 1), dir_end(0)]);
        peer.raw(&told);
        peer.await_wants([1]);
        peer.raw(&[&told[..], &pack([packed(1, b"x")], b"x"), &told].concat());
    });
    assert!(result.is_ok(), "{result:?}");
    let place = Place::new();
    let dest = bytes(&place.dest(""));
    let attacked = serve(place, move |peer| {
        peer.frame(FrameType::Hello, &Hello::ours(Caps::NONE, 60, "script").encode());
        peer.raw(&alive);
        peer.tell(&Message::Request(Request::Stat { path: b"/".to_vec(), follow: true }));
        peer.raw(&alive);
        let role = receiving(dest, true);
        peer.tell(&Message::Job(job_for(Task::default(), role)));
        peer.raw(&alive);
        peer.list(vec![entry(0, "d", Kind::Dir), file(1, "a", 1), dir_end(1), dir_end(0)]);
        peer.raw(&alive);
        peer.await_wants([2]);
        peer.raw(&[&alive[..], &pack([packed(2, b"x")], b"x"), &alive].concat());
    });
    attacked.assert_done();
    assert_eq!(attacked.place.read("d/a"), "x");
}

#[test]
fn a_sign_of_life_is_no_greeting() {
    let attacked = serve(Place::new(), |peer| peer.frame(FrameType::Alive, &[]));
    attacked.assert_refused("greeting");
}

/// The jobs that a client announces before it falls silent.
fn jobs(place: &Place) -> Vec<(&'static str, Option<Message>)> {
    let sources = vec![bytes(&place.source("a"))];
    let sends = Role::Sender(NamedSources { recursive: true, ..NamedSources::at(sources) });
    let dest = bytes(&place.dest(""));
    let receives = receiving(dest, true);
    let job = |task, role: &Role| Some(Message::Job(job_for(task, role.clone())));
    let (copy, check) =
        (Task::default(), Task::Check { content: true, keeps: haul_model::Kept::OF_COPIES });
    let remove = Task::Remove { rule: Remove::SameContent, moving: Moving::Whole };
    vec![
        ("nothing", None),
        ("a request", Some(Message::Request(Request::Stat { path: b"/".to_vec(), follow: true }))),
        ("a download", job(copy, &sends)),
        ("an upload", job(copy, &receives)),
        ("a comparison, down", job(check, &sends)),
        ("a comparison, up", job(check, &receives)),
        ("a move", job(remove, &sends)),
    ]
}

#[test]
fn an_agent_leaves_a_client_that_is_silent() {
    // All at the same time: most of it is waiting.
    thread::scope(|scope| {
        for number in 0..jobs(&furnished()).len() {
            scope.spawn(move || leaves_a_silent_client(number));
        }
    });
}

/// Serves a client that sends nothing after the job of this number.
fn leaves_a_silent_client(number: usize) {
    let place = furnished();
    let (name, job) = jobs(&place).swap_remove(number);
    let begin = Instant::now();
    let attacked = serve(place, move |peer| {
        let hello = Hello::ours(Caps::NONE, SILENCE_SECONDS, "script");
        peer.frame(FrameType::Hello, &hello.encode());
        if let Some(job) = job {
            peer.tell(&job);
        }
        // It hears, and says nothing.
    });
    match &attacked.result {
        Err(JobError::Connection(ConnectError::Silent { seconds: 1, .. })) => {}
        other => panic!("{name}: {other:?}"),
    }
    assert!(attacked.peer.signs >= 2, "{name}: it says that it is there");
    assert!(begin.elapsed() < LATE_MAX, "{name}");
    attacked.place.check();
}

#[test]
fn an_agent_leaves_a_client_that_takes_nothing_any_more() {
    let place = Place::new();
    let large = fs::File::create(place.source("large")).expect("made");
    haul_testkit::tree::random_file(place.source("large"), 64 << 20, 1).expect("made");
    drop(large);
    let sources = vec![bytes(&place.source("large"))];
    let (here, there) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
    let agent = within(move || haul_engine::serve(there.try_clone().expect("a handle"), there));
    let mut peer = Peer::at(here);
    let hello = Hello::ours(Caps::NONE, SILENCE_SECONDS, "script");
    peer.frame(FrameType::Hello, &hello.encode());
    let role = Role::Sender(NamedSources::at(sources));
    peer.tell(&Message::Job(job_for(Task::default(), role)));
    peer.hear_greeting();
    peer.await_listing();
    peer.tell(&crate::peer::want([1]));
    // From here on it is stopped.
    let result = agent.end();
    let silent = matches!(result, Err(JobError::Connection(ConnectError::Silent { .. })));
    assert!(silent, "{result:?}");
}

#[test]
fn an_agent_stays_with_a_client_that_may_be_silent_for_ever() {
    let place = furnished();
    let attacked = serve(place, move |peer| {
        peer.frame(FrameType::Hello, &Hello::ours(Caps::NONE, 0, "script").encode());
        peer.hear_greeting();
        thread::sleep(SILENCE * 4);
        peer.tell(&Message::Request(Request::Stat { path: b"/".to_vec(), follow: true }));
        peer.await_that("it answers", |peer| !peer.messages.is_empty());
        peer.leave();
    });
    assert!(attacked.result.is_ok(), "{:?}", attacked.result);
    assert_eq!(attacked.peer.signs, 0);
}

//! Single requests: agents that answer something else, and clients that ask for
//! what would never end.

use crate::attack::{Attacked, bytes, serve};
use crate::peer::{Peer, TIME, data, dir_end, want};
use crate::place::Place;
use haul_engine::{JobError, RequestError, Requests, expand};
use haul_model::{Attributes, Entry, Fault, FaultKind, Kind, Name, Side};
use haul_proto::{Caps, FrameType, Header, Hello, Listed, Marked, Message, Reply, Request, encode};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::thread;

/// Asks an agent that answers the first question with these bytes, and leaves
/// when they are heard.
fn ask<T>(
    answer: Vec<u8>,
    question: impl FnOnce(&mut Requests) -> Result<T, RequestError>,
) -> Result<T, RequestError> {
    let (connection, mut peer) = Peer::of_client();
    let agent = thread::spawn(move || {
        peer.hear_greeting();
        peer.frame(FrameType::Welcome, &Hello::ours(Caps::OURS, 60, "script").encode());
        peer.await_that("it asks", |peer| !peer.messages.is_empty());
        peer.raw(&answer);
        peer.end_output();
        peer.hear_out();
    });
    let mut requests = Requests::remote(connection).expect("it greets");
    let answered = question(&mut requests);
    drop(requests);
    agent.join().expect("the script does not panic");
    answered
}

fn entry() -> Entry {
    Entry::new(None, Kind::Dir, Attributes::new(0o755, TIME))
}

#[track_caller]
fn assert_refused<T>(answered: Result<T, RequestError>, words: &str) {
    match answered {
        Err(RequestError::Job(JobError::Protocol(text))) => {
            assert!(text.contains(words), "{text}");
        }
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("an answer where \"{words}\" was expected"),
    }
}

#[test]
fn an_answer_to_another_question_is_refused() {
    let reply = |reply| encode(&Message::Reply(reply));
    let hash = Reply::Hash(haul_model::ContentHash::of(b""));
    for other in [hash, Reply::End, Reply::Entries(vec![Listed::Entry(entry())])] {
        let answered = ask(reply(other), |requests| requests.stat(b"/x", false));
        assert_refused(answered, "a different request");
    }
    let answered = ask(reply(Reply::Entry(entry())), |requests| requests.hash(b"/x", &mut |_| ()));
    assert_refused(answered, "a different request");
    let answered = ask(reply(Reply::Entry(entry())), |requests| requests.list(b"/x", &mut |_| ()));
    assert_refused(answered, "a different request");
}

#[test]
fn what_is_no_answer_is_refused() {
    for message in [want([1]), Message::List(vec![dir_end(0)])] {
        let answered = ask(encode(&message), |requests| requests.stat(b"/x", false));
        assert_refused(answered, "no valid answer");
    }
    let answered = ask(data(1, 0, b"x"), |requests| requests.hash(b"/x", &mut |_| ()));
    assert_refused(answered, "where a message is expected");
    let header = Header { kind: FrameType::Reply, payload_len: u32::MAX }.encode();
    assert_refused(ask(header.to_vec(), |requests| requests.hash(b"/x", &mut |_| ())), "at most");
}

#[test]
fn an_agent_that_leaves_in_a_listing_is_lost() {
    let part = encode(&Message::Reply(Reply::Entries(vec![Listed::Entry(entry())])));
    let mut seen = 0;
    let answered = ask(part, |requests| requests.list(b"/x", &mut |_| seen += 1));
    assert!(matches!(answered, Err(RequestError::Job(JobError::Connection(_)))));
    assert_eq!(seen, 1);
}

#[test]
fn a_fault_is_the_paths_and_the_connection_stays_of_use() {
    let fault = Fault::new(Side::Source, FaultKind::NotFound, "nothing is there");
    let mut frames = encode(&Message::Reply(Reply::Fault(fault)));
    frames.extend(encode(&Message::Reply(Reply::Entry(entry()))));
    let answered = ask(frames, |requests| {
        let fault = requests.stat(b"/x", false).expect_err("a fault");
        assert!(matches!(fault, RequestError::Fault(_)), "{fault:?}");
        requests.stat(b"/x", false)
    });
    assert_eq!(answered.expect("an answer"), entry());
}

/// Directories that match a pattern in [`many_paths_are_asked_about_at_the_same_time`].
const DIRS: usize = 100;

#[test]
fn many_paths_are_asked_about_at_the_same_time() {
    let (connection, mut peer) = Peer::of_client();
    let reply = |reply| Message::Reply(reply);
    let absent = || {
        let fault = Fault::new(Side::Source, FaultKind::NotFound, "nothing is there");
        Message::Reply(Reply::Fault(fault))
    };
    let agent = thread::spawn(move || {
        peer.hear_greeting();
        peer.frame(FrameType::Welcome, &Hello::ours(Caps::OURS, 60, "script").encode());
        peer.await_that("it looks for the pattern", |peer| peer.messages.len() == 1);
        peer.tell(&absent());
        peer.await_that("it lists", |peer| peer.messages.len() == 2);
        for number in 0..DIRS {
            let name = Name::new(format!("d{number:02}").as_bytes()).expect("a name");
            let entry = Entry { name: Some(name), ..entry() };
            peer.tell(&reply(Reply::Entries(vec![Listed::Entry(entry)])));
        }
        peer.tell(&reply(Reply::End));
        // Nothing is answered before all is asked.
        peer.await_that("it asks about all", |peer| peer.messages.len() == 2 + DIRS);
        for number in 0..DIRS {
            let is_there = number % 10 == 7;
            peer.tell(&if is_there { reply(Reply::Entry(entry())) } else { absent() });
        }
        peer.hear_out();
    });
    let mut requests = Requests::remote(connection).expect("it greets");
    let found = expand(&mut requests, b"/d*/x").expect("answers");
    let found: Vec<_> = found.paths.iter().map(|path| String::from_utf8_lossy(path)).collect();
    let expected: Vec<_> = (0..DIRS).step_by(10).map(|at| format!("/d{:02}/x", at + 7)).collect();
    assert_eq!(found, expected);
    drop(requests);
    agent.join().expect("the script does not panic");
}

/// Asks a real agent these, one after the other, and returns its answers.
fn ask_agent(place: Place, questions: Vec<Request>) -> (Attacked, Vec<Message>) {
    let count = questions.len();
    let mut attacked = serve(place, move |peer| {
        peer.frame(FrameType::Hello, &Hello::ours(Caps::OURS, 60, "script").encode());
        peer.hear_greeting();
        for question in questions {
            peer.tell(&Message::Request(question));
        }
        peer.await_that("all is answered", |peer| peer.messages.len() == count);
        peer.leave();
    });
    assert!(attacked.result.is_ok(), "{:?}", attacked.result);
    attacked.place.check();
    let messages = std::mem::take(&mut attacked.peer.messages);
    (attacked, messages)
}

#[test]
fn what_would_never_end_is_not_read() {
    let place = Place::new();
    let fifo = place.source("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
    fs::create_dir(place.source("dir")).expect("made");
    let paths = vec![
        bytes(&fifo),
        b"/dev/zero".to_vec(),
        bytes(&place.source("dir")),
        bytes(&place.source("dir/")),
        b"".to_vec(),
        b"/".to_vec(),
        b"\0".to_vec(),
        vec![b'x'; 200_000],
        bytes(&place.source("missing")),
    ];
    let questions = paths.into_iter().map(|path| Request::Hash { path });
    let (_attacked, answers) = ask_agent(place, questions.collect());
    for answer in answers {
        assert!(matches!(answer, Message::Reply(Reply::Fault(_))), "{answer:?}");
    }
}

#[test]
fn what_is_there_is_reported_and_what_is_not_is_a_fault() {
    let place = Place::new();
    fs::write(place.source("file"), "text").expect("written");
    let file = bytes(&place.source("file"));
    let questions = vec![
        Request::Stat { path: file.clone(), follow: false },
        Request::Hash { path: file.clone() },
        Request::List { path: file },
        Request::Stat { path: b"x\0".to_vec(), follow: true },
    ];
    let (_attacked, answers) = ask_agent(place, questions);
    assert!(
        matches!(
            &answers[..],
            [
                Message::Reply(Reply::Entry(Entry { kind: Kind::File { size: 4 }, .. })),
                Message::Reply(Reply::Hash(_)),
                Message::Reply(Reply::Fault(_)),
                Message::Reply(Reply::Fault(_)),
            ]
        ),
        "{answers:?}"
    );
}

#[test]
fn a_mark_is_there_until_its_end_is_asked_for_or_the_client_leaves() {
    let place = Place::new();
    let (one, other) = (place.source("one"), place.source("other"));
    fs::create_dir(&one).expect("made");
    fs::create_dir(&other).expect("made");
    fs::write(one.join("known"), "").expect("written");
    let time = fs::metadata(&one).and_then(|stat| stat.modified()).expect("a time");
    let marker = |path: &std::path::Path, name: &str, both| Request::Marker {
        path: bytes(path),
        marker: Some(Name::new(name.as_bytes()).expect("a name")),
        both,
    };
    let questions = vec![
        marker(&one, "known", true),
        marker(&one, "unknown", true),
        Request::List { path: bytes(&one) },
        Request::RemoveMarker,
        Request::List { path: bytes(&one) },
        // Nothing more is there to be removed.
        Request::RemoveMarker,
        marker(&one, "unknown", true),
        // The first goes when another is asked for, the last with the client.
        marker(&other, "unknown", true),
        marker(&one.join("known"), "unknown", true),
        marker(&one, "unknown", true),
    ];
    // A listing is told in two parts.
    let count = questions.len() + 2;
    let attacked = serve(place, move |peer| {
        peer.frame(FrameType::Hello, &Hello::ours(Caps::OURS, 60, "script").encode());
        peer.hear_greeting();
        for question in questions {
            peer.tell(&Message::Request(question));
        }
        peer.await_that("all is answered", |peer| peer.messages.len() == count);
        peer.leave();
    });
    assert!(attacked.result.is_ok(), "{:?}", attacked.result);
    let answers: Vec<&Reply> = attacked.peer.messages.iter().map(reply_of).collect();
    let Reply::Marker(Marked::Made(made)) = answers[1] else { panic!("{answers:?}") };
    assert_eq!(answers[0], &Reply::Marker(Marked::Shown));
    assert_eq!(names(answers[2]), [made.as_bytes(), b"known"].map(<[u8]>::to_vec));
    assert_eq!(names(answers[5]), [b"known".to_vec()]);
    assert!(matches!(answers[4], Reply::End) && matches!(answers[7], Reply::End), "{answers:?}");
    let is_made = |answer: &Reply| matches!(answer, Reply::Marker(Marked::Made(_)));
    assert!(is_made(answers[8]) && is_made(answers[9]) && is_made(answers[11]), "{answers:?}");
    let Reply::Fault(fault) = answers[10] else { panic!("{answers:?}") };
    assert_eq!(fault.kind, FaultKind::NotDirectory);
    assert_eq!(fs::read_dir(&one).expect("read").count(), 1);
    assert_eq!(fs::read_dir(&other).expect("read").count(), 0);
    let now = fs::metadata(&one).and_then(|stat| stat.modified()).expect("a time");
    assert_eq!(now, time, "it has its time back");
    attacked.place.check();
}

fn reply_of(message: &Message) -> &Reply {
    match message {
        Message::Reply(reply) => reply,
        other => panic!("{other:?}"),
    }
}

fn names(reply: &Reply) -> Vec<Vec<u8>> {
    let Reply::Entries(entries) = reply else { panic!("{reply:?}") };
    let name = |listed: &Listed| match listed {
        Listed::Entry(Entry { name: Some(name), .. }) => name.as_bytes().to_vec(),
        other => panic!("{other:?}"),
    };
    entries.iter().map(name).collect()
}

#[test]
fn a_mark_is_not_made_where_all_shows_at_once() {
    let Some(mount) = haul_testkit::Mount::tmpfs(1 << 20) else { return };
    let marker = Some(Name::new(b"unknown").expect("a name"));
    let question = Request::Marker { path: bytes(mount.path()), marker, both: false };
    let (_attacked, answers) = ask_agent(Place::new(), vec![question]);
    assert_eq!(answers, [Message::Reply(Reply::Marker(Marked::Hidden))]);
}

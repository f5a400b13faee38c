//! A host that is examined and lies, or sends without end; a client that has an agent
//! measure what it may not.

use crate::attack::{bytes, serve};
use crate::peer::{Peer, TIME};
use crate::place::Place;
use haul_engine::{Findings, JobError, Requests, Wish, examine};
use haul_model::{Attributes, Entry, Kind};
use haul_proto::{
    Amount, Caps, FILLER_LEN, Flow, FrameType, Hello, Machine, Measure, Measured, Message,
    ProcessorRates, Reply,
};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// How many times an agent is asked for a round trip before it is measured.
const ROUND_TRIPS: usize = 5;

/// Examines a host that answers the round trips as it should, and then does what `lies` says.
fn examined(lies: impl FnOnce(&mut Peer) + Send + 'static) -> Result<Findings, JobError> {
    let (connection, mut peer) = Peer::of_client();
    let agent = thread::spawn(move || {
        peer.hear_greeting();
        peer.frame(FrameType::Welcome, &Hello::ours(Caps::OURS, 60, "script").encode());
        let entry = Entry::new(None, Kind::Dir, Attributes::new(0o755, TIME));
        for asked in 1..=ROUND_TRIPS {
            peer.await_that("it asks", |peer| peer.messages.len() == asked);
            peer.tell(&Message::Reply(Reply::Entry(entry.clone())));
        }
        lies(&mut peer);
        peer.end_output();
        peer.hear_out();
    });
    let mut requests = Requests::remote(connection).expect("it greets");
    let wish = Wish { path: None, ports: None, told: &|_| () };
    let found = examine(&mut requests, &wish);
    drop(requests);
    agent.join().expect("the script does not panic");
    found
}

#[track_caller]
fn assert_refused(answers: &[Message], words: &str) {
    let answers = answers.to_vec();
    match examined(move |peer| answers.iter().for_each(|answer| peer.tell(answer))) {
        Err(JobError::Protocol(text)) => assert!(text.contains(words), "{text}"),
        other => panic!("{other:?}"),
    }
}

fn machine(blake3: u64) -> Message {
    let rates = ProcessorRates { blake3, ..ProcessorRates::default() };
    Message::Measured(Measured::Machine(Box::new(Machine { rates, ..Machine::default() })))
}

#[test]
fn a_host_that_claims_what_cant_be_is_refused() {
    assert_refused(&[machine(u64::MAX)], "the peer sent impossible figures");
    let program = Some(vec![b'x'; 100_000]);
    let long = Measured::Machine(Box::new(Machine { program, ..Machine::default() }));
    assert_refused(&[Message::Measured(long)], "the peer sent impossible figures");
    let flow = |bytes, nanos| Message::Measured(Measured::Flow(Amount { bytes, nanos }));
    assert_refused(&[machine(1), flow(u64::MAX, 1)], "the peer sent impossible figures");
    assert_refused(&[machine(1), flow(1, u64::MAX)], "the peer sent impossible figures");
    assert_refused(&[machine(1), flow(1, 0)], "the peer sent impossible figures");
    assert_refused(&[machine(1), Message::Reply(Reply::End)], "a different request");
    assert_refused(&[machine(1), machine(1)], "a different request");
}

#[test]
fn a_host_that_sends_more_than_it_was_asked_for_is_not_heard_out() {
    let begun = Instant::now();
    let found = examined(|peer| {
        peer.tell(&machine(1));
        // Each flow to it is answered, then it sends for ever.
        let mut seen = ROUND_TRIPS;
        loop {
            peer.await_that("it goes on", |peer| peer.messages.len() > seen);
            match peer.messages[seen] {
                Message::Filler(0) => {
                    let amount = Amount { bytes: 1, nanos: 1000 };
                    peer.tell(&Message::Measured(Measured::Flow(amount)));
                }
                Message::Measure(Measure::Flow(Flow { to_agent: false, .. })) => break,
                _ => {}
            }
            seen += 1;
        }
        (0..64).for_each(|_| peer.tell(&Message::Filler(FILLER_LEN as u32)));
    });
    let Err(JobError::Protocol(text)) = found else { panic!("{found:?}") };
    assert!(text.contains("more than requested"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn an_agent_takes_no_more_filler_than_was_told_and_none_that_was_not() {
    for messages in [
        vec![Message::Filler(1)],
        vec![
            Message::Measure(Measure::Flow(Flow { to_agent: true, bytes: 1, millis: 1 })),
            Message::Filler(FILLER_LEN as u32),
            Message::Filler(1),
        ],
        vec![Message::Measured(Measured::Flow(Amount { bytes: 1, nanos: 1 }))],
    ] {
        let attacked = serve(Place::new(), move |peer| {
            peer.frame(FrameType::Hello, &Hello::ours(Caps::OURS, 60, "script").encode());
            peer.hear_greeting();
            messages.iter().for_each(|message| peer.tell(message));
            peer.hear_out();
        });
        assert!(matches!(attacked.result, Err(JobError::Protocol(_))), "{:?}", attacked.result);
    }
}

#[test]
fn an_agent_bounds_what_it_is_asked_to_measure() {
    let place = Place::new();
    let dir = bytes(&place.dest("."));
    let asked = [
        Measure::Machine { millis: u32::MAX },
        Measure::Flow(Flow { to_agent: false, bytes: 1, millis: u32::MAX }),
        Measure::Disk { path: dir, bytes: u64::MAX, millis: 1 },
        Measure::Disk { path: b"/nonexistent".to_vec(), bytes: 1, millis: 1 },
    ];
    let begun = Instant::now();
    let attacked = serve(place, move |peer| {
        peer.frame(FrameType::Hello, &Hello::ours(Caps::OURS, 60, "script").encode());
        peer.hear_greeting();
        asked.into_iter().for_each(|asked| peer.tell(&Message::Measure(asked)));
        // The flow is a frame and its end.
        peer.await_that("all is answered", |peer| peer.messages.len() == 5);
        peer.leave();
    });
    assert!(attacked.result.is_ok(), "{:?}", attacked.result);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let answers = &attacked.peer.messages;
    assert!(matches!(answers[0], Message::Measured(Measured::Machine(_))), "{answers:?}");
    assert!(matches!(answers[1], Message::Filler(_)), "{answers:?}");
    assert!(matches!(answers[2], Message::Filler(0)), "{answers:?}");
    let Message::Measured(Measured::Disk { written, .. }) = answers[3] else {
        panic!("{answers:?}")
    };
    assert!(written.bytes <= haul_proto::DISK_BYTES_MAX, "{written:?}");
    assert!(matches!(answers[4], Message::Measured(Measured::Fault(_))), "{answers:?}");
    let left = fs::read_dir(attacked.place.dest(".")).expect("it is there").count();
    assert_eq!(left, 0);
}

//! A host that is measured and lies, or sends without end; a client that has an agent
//! measure what it may not.

use crate::attack::{bytes, serve};
use crate::peer::Peer;
use crate::place::Place;
use haul_engine::{JobError, Requests};
use haul_proto::{
    Amount, Caps, FILLER_LEN, Flow, FrameType, Hello, Machine, Measure, Measured, Message,
    ProcessorRates, Reply,
};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Has a host measured that does what `lies` says.
fn measured(
    asked: Measure,
    lies: impl FnOnce(&mut Peer) + Send + 'static,
) -> Result<Option<Measured>, JobError> {
    let (connection, mut peer) = Peer::of_client();
    let agent = thread::spawn(move || {
        peer.hear_greeting();
        peer.frame(FrameType::Welcome, &Hello::ours(Caps::OURS, 60, "script").encode());
        lies(&mut peer);
        peer.end_output();
        peer.hear_out();
    });
    let mut requests = Requests::remote(connection).expect("it greets");
    let found = requests.measure(asked);
    drop(requests);
    agent.join().expect("the script does not panic");
    found
}

#[track_caller]
fn assert_refused(asked: &Measure, answer: Message, words: &str) {
    match measured(asked.clone(), move |peer| peer.tell(&answer)) {
        Err(JobError::Protocol(text)) => assert!(text.contains(words), "{text}"),
        other => panic!("{other:?}"),
    }
}

fn machine(machine: Machine) -> Message {
    Message::Measured(Measured::Machine(Box::new(machine)))
}

#[test]
fn a_host_that_claims_what_cant_be_is_refused() {
    let impossible = "the peer sent impossible figures";
    let asked = Measure::Machine { millis: 1 };
    let rates = ProcessorRates { blake3: u64::MAX, ..ProcessorRates::default() };
    assert_refused(&asked, machine(Machine { rates, ..Machine::default() }), impossible);
    let program = Some(vec![b'x'; 100_000]);
    assert_refused(&asked, machine(Machine { program, ..Machine::default() }), impossible);
    assert_refused(&asked, Message::Reply(Reply::End), "a different request");
    let asked = Measure::Flow(Flow { to_agent: true, bytes: 1, millis: 1 });
    let flow = |bytes, nanos| Message::Measured(Measured::Flow(Amount { bytes, nanos }));
    assert_refused(&asked, flow(u64::MAX, 1), impossible);
    assert_refused(&asked, flow(1, u64::MAX), impossible);
    assert_refused(&asked, flow(1, 0), impossible);
    assert_refused(&asked, machine(Machine::default()), "a different request");
    let asked = Measure::Disk { path: b"/".to_vec(), bytes: 1, millis: 1 };
    let disk = |written, read| {
        let amount = |bytes| Amount { bytes, nanos: 1000 };
        Message::Measured(Measured::Disk { written: amount(written), read: amount(read) })
    };
    assert_refused(&asked, disk(u64::MAX, 1), impossible);
    assert_refused(&asked, disk(1, 2), impossible);
}

#[test]
fn a_host_that_sends_more_than_it_was_asked_for_is_not_heard_out() {
    let begun = Instant::now();
    let asked = Flow { to_agent: false, bytes: FILLER_LEN as u64, millis: 1000 };
    let found = measured(Measure::Flow(asked), |peer| {
        (0..64).for_each(|_| peer.tell(&Message::Filler(FILLER_LEN as u32)));
    });
    let Err(JobError::Protocol(text)) = found else { panic!("{found:?}") };
    assert!(text.contains("more than requested"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn an_agent_takes_no_more_filler_than_was_reported_and_none_that_was_not() {
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

//! Hosts that a job goes between, one of which breaks the rules: the other takes and gives
//! what was asked for alone, and the job ends.

use crate::attack::{bytes, serve, within};
use crate::peer::{Peer, block_seal, dir, dir_end, file, link, named, want};
use crate::place::Place;
use crate::watch::Watch;
use haul_engine::{
    Between, DirectPlan, Greeted, Job, JobError, Monitor, OpenConnection, Placement, Requests,
    Summary, WireOptions,
};
use haul_model::{Kind, Outcome, Task, Via};
use haul_net::{ConnectError, HostAddresses, Timeouts};
use haul_proto::{
    Arrived, Call, Called, Caps, DirectOffer, FrameType, Hello, LaneOver, ListItem, Message,
    NamedDest, NamedSources, OutcomeItem, Role, Taken,
};
use std::net::{IpAddr, TcpListener};

/// An agent that receives takes the sources that its client has named, from whomever.
#[test]
fn a_receiver_takes_the_named_sources_alone() {
    let attacks: [(&str, Vec<ListItem>, &str); 5] = [
        ("another name", vec![file(0, "evil", 1)], "a name that was not requested"),
        ("a hidden one", vec![file(0, ".bashrc", 1)], "a name that was not requested"),
        ("a second one", vec![dir(0, "x"), dir_end(1), dir(0, "x")], "not requested"),
        ("a link for a slash", vec![link(0, "y", "/etc")], "not requested"),
        ("nothing", vec![dir_end(0)], "the listing too early"),
    ];
    for (attack, items, words) in attacks {
        let place = Place::new();
        let dest = bytes(&place.dest(""));
        let sources = [&b"./x"[..], b"./y/"].map(<[u8]>::to_vec).to_vec();
        let asked = NamedSources { recursive: true, ..NamedSources::at(sources) };
        let attacked = serve(place, move |peer| {
            let role = Role::Receiver {
                dest: NamedDest { into_dir: true, ..NamedDest::at(dest) },
                asked: Some(Box::new(asked)),
            };
            peer.ask_for(Task::default(), role);
            peer.list(items);
        });
        eprintln!("{attack}");
        attacked.assert_refused(words);
    }
}

/// Greets as an agent does that has these capabilities.
fn greet(peer: &mut Peer, caps: Caps) {
    peer.hear_greeting();
    peer.frame(FrameType::Welcome, &Hello::ours(caps, 60, "script").encode());
}

fn greeted(requests: Requests) -> Greeted {
    match requests.into_connection() {
        Some(OpenConnection::Agent(greeted)) => greeted,
        _ => panic!("it has greeted"),
    }
}

/// Runs a job between two scripted agents, which never meet.
fn run(
    from: impl FnOnce(&mut Peer) + Send + 'static,
    to: impl FnOnce(&mut Peer) + Send + 'static,
) -> (Result<Summary, JobError>, [Peer; 2]) {
    run_via(Via::Ssh, Caps::NONE, from, to)
}

/// Where the two hosts are.
const FROM_AT: [u8; 4] = [192, 0, 2, 1];
const TO_AT: [u8; 4] = [192, 0, 2, 2];

/// The key of the one that sends.
const KEY: [u8; 32] = [7; 32];

/// The same where contents go this way, between agents with these capabilities.
fn run_via(
    via: Via,
    caps: Caps,
    from: impl FnOnce(&mut Peer) + Send + 'static,
    to: impl FnOnce(&mut Peer) + Send + 'static,
) -> (Result<Summary, JobError>, [Peer; 2]) {
    run_watched((Watch::default(), Timeouts::default()), (via, caps), from, to)
}

/// The same with a user of that patience who watches it.
pub(crate) fn run_watched(
    (monitor, timeout): (impl Monitor + Send + 'static, Timeouts),
    (via, caps): (Via, Caps),
    from: impl FnOnce(&mut Peer) + Send + 'static,
    to: impl FnOnce(&mut Peer) + Send + 'static,
) -> (Result<Summary, JobError>, [Peer; 2]) {
    let (to_from, mut from_peer) = Peer::of_client();
    let (to_to, mut to_peer) = Peer::of_client();
    let (to_from, to_to) = (to_from.with_timeouts(timeout), to_to.with_timeouts(timeout));
    let job = Job {
        sources: NamedSources {
            recursive: true,
            ..NamedSources::at(vec![b"/secret/way/x".to_vec()])
        },
        dest: NamedDest { into_dir: true, ..NamedDest::at(b"/there") },
        wire: WireOptions { via, ..WireOptions::default() },
        ..Job::default()
    };
    let from = within(move || {
        greet(&mut from_peer, caps);
        if via != Via::Ssh && caps.has(Caps::CALLS) {
            let asked = |peer: &Peer| peer.messages.iter().any(|m| matches!(m, Message::Call(_)));
            from_peer.await_that("it is to call", asked);
            from_peer.tell(&Message::Called(Called::Key(KEY)));
        }
        from(&mut from_peer);
        from_peer.hear_out();
        from_peer
    });
    let to = within(move || {
        greet(&mut to_peer, caps);
        to(&mut to_peer);
        to_peer.hear_out();
        to_peer
    });
    let between = within(move || {
        let requests = |connection| Requests::remote(connection).expect("it greets");
        let (to, mut from) = (requests(to_to), requests(to_from));
        let at = |ip: [u8; 4]| HostAddresses::at(vec![IpAddr::from(ip)]);
        let direct_plan = DirectPlan::prepare(&job, &mut from, [at(FROM_AT), at(TO_AT)])?;
        let hosts = Between { to: greeted(to), from: greeted(from), direct_plan };
        haul_engine::run(&job, Placement::Between(Box::new(hosts)), &monitor)
    });
    let result = between.end();
    (result, [from.end(), to.end()])
}

fn job_of(peer: &Peer) -> &Role {
    let job = peer.messages.iter().find_map(|message| match message {
        Message::Job(job) => Some(&job.role),
        _ => None,
    });
    job.expect("a job")
}

#[track_caller]
fn assert_refused(result: &Result<Summary, JobError>, words: &str) {
    match result {
        Err(JobError::Protocol(text)) => assert!(text.contains(words), "{text}"),
        other => panic!("{other:?} where \"{words}\" was expected"),
    }
}

#[test]
fn each_host_is_reported_its_own_part() {
    let from = |peer: &mut Peer| {
        peer.list(vec![file(0, "x", 0), dir_end(0)]);
        peer.await_outcome(1);
    };
    let to = |peer: &mut Peer| {
        peer.await_listing();
        peer.tell(&named(haul_model::Naming::Own));
        let outcome = OutcomeItem { index: 1, outcome: Outcome::Copied };
        peer.tell(&Message::Outcomes(vec![outcome]));
        peer.tell(&Message::Done(Summary { copied: 1, ..Summary::default() }));
    };
    let (result, [from, to]) = run(from, to);
    assert_eq!(result.expect("it is done").copied, 1);
    let Role::Sender(NamedSources { paths: sources, .. }) = job_of(&from) else {
        panic!("it sends")
    };
    assert_eq!(sources, &[b"/secret/way/x".to_vec()]);
    let Role::Receiver { asked: Some(asked), .. } = job_of(&to) else { panic!("it is told") };
    assert_eq!(asked.paths, [b"./x".to_vec()]);
    assert!(!format!("{:?}", from.messages).contains("there"), "it learns of the destination");
}

#[test]
fn hosts_that_say_what_has_no_place_end_the_job() {
    type Script = fn(&mut Peer);
    let lists: Script = |peer| peer.list(vec![file(0, "x", 9)]);
    let attacks: [(Script, Script, &str); 9] = [
        (lists, |peer| peer.frame(FrameType::Data, b"\x01\x00x"), "a Data frame where none"),
        (lists, |peer| peer.list(Vec::new()), "a List frame where none"),
        (lists, |peer| peer.frame(FrameType::Direct, b"\x01\x01x"), "a Direct frame where none"),
        (
            lists,
            |peer| {
                let item = OutcomeItem { index: 7, outcome: Outcome::Copied };
                peer.tell(&Message::Outcomes(vec![item]));
            },
            "an outcome of an unlisted entry",
        ),
        (lists, |peer| peer.tell(&Message::Done(Summary::default())), "before all outcomes"),
        (|peer| peer.tell(&want([1])), |_| (), "a Want frame where none"),
        (|peer| peer.list(vec![file(3, "x", 9)]), |_| (), "a directory that is not open"),
        (
            |peer| {
                let deep = (0..2100).map(|at| dir(at, "d"));
                deep.for_each(|item| peer.list(vec![item]));
            },
            |_| (),
            "too deep",
        ),
        (
            |peer| {
                for _ in 0..20 {
                    let name = "n".repeat(200);
                    let kind = |_| Kind::Symlink { target: vec![b'x'; 2000].into() };
                    let items = (0..200).map(|at| crate::peer::entry(0, &name, kind(at)));
                    for item in items {
                        peer.list(vec![item]);
                    }
                }
            },
            |_| (),
            "more than the window allows",
        ),
    ];
    for (from, to, words) in attacks {
        let (result, _) = run(from, to);
        assert_refused(&result, words);
    }
    let (result, [_, to]) = run(lists, |peer| peer.leave());
    assert!(matches!(result, Err(JobError::Connection(_))), "{result:?}");
    drop(to);
    let (result, _) = run(|peer| peer.tell(&block_seal(9, 0, b"x")), Peer::leave);
    assert!(result.is_err(), "{result:?}");
}

fn offer(ip: [u8; 4], port: u16) -> Message {
    Message::Direct(Ok(DirectOffer { address: (ip, port).into(), key: [9; 32] }))
}

/// The words about where the other host is reached, as the one that calls has heard them.
fn heard_offers(peer: &Peer) -> Vec<&Message> {
    peer.messages.iter().filter(|message| matches!(message, Message::Direct(_))).collect()
}

fn await_offer(peer: &mut Peer) {
    peer.await_that("it is told where to call", |peer| !heard_offers(peer).is_empty());
}

/// Copies the one file that is listed, as who receives tells it.
pub(crate) fn tell_copied(peer: &mut Peer) {
    peer.await_listing();
    let outcome = OutcomeItem { index: 1, outcome: Outcome::Copied };
    peer.tell(&Message::Outcomes(vec![outcome]));
    peer.tell(&Message::Done(Summary { copied: 1, ..Summary::default() }));
}

#[test]
fn hosts_are_reported_of_each_other_and_meet() {
    let from = |peer: &mut Peer| {
        await_offer(peer);
        peer.tell(&Message::Called(Called::Connected(2)));
        peer.list(vec![file(0, "x", 9), dir_end(0)]);
        peer.await_wants([1]);
        peer.tell(&Message::LaneOver(LaneOver { lane: 1 }));
        peer.await_outcome(1);
    };
    let to = |peer: &mut Peer| {
        peer.tell(&offer(TO_AT, 99));
        peer.tell(&named(haul_model::Naming::Own));
        peer.await_listing();
        peer.tell(&want([1]));
        peer.await_that("a lane is over", |peer| {
            peer.messages.contains(&Message::LaneOver(LaneOver { lane: 1 }))
        });
        peer.tell(&Message::Taken(Taken { lane: 1, frames: 3, is_over: true }));
        peer.tell(&arrived(9, Some(1), 0, None));
        tell_copied(peer);
    };
    let (result, [from, to]) = run_via(Via::Auto, Caps::CALLS, from, to);
    assert_eq!(result.expect("it is done").copied, 1);
    assert_eq!(heard_offers(&from), [&offer(TO_AT, 99)]);
    assert!(from.messages.contains(&Message::Call(Call { is_required: false, connections: 1 })));
    assert!(from.messages.iter().any(|message| matches!(message, Message::Taken(_))));
    assert!(to.messages.contains(&Message::LaneOver(LaneOver { lane: 1 })));
    let wished = to.messages.iter().find_map(|message| match message {
        Message::Job(job) => job.direct.as_ref(),
        _ => None,
    });
    assert!(wished.is_some_and(|wish| wish.key == KEY && !wish.is_required));
}

#[test]
fn a_host_is_called_nowhere_but_where_its_name_leads() {
    let other = [198, 51, 100, 7];
    for (ip, port) in [
        (other, 99),
        (FROM_AT, 99),
        (TO_AT, 0),
        ([127, 0, 0, 1], 9),
        ([0; 4], 9),
        ([224, 0, 0, 1], 9),
    ] {
        let fails = |peer: &mut Peer| {
            await_offer(peer);
            peer.tell(&Message::Called(Called::Failed("it is not called".to_owned())));
        };
        let from = move |peer: &mut Peer| {
            fails(peer);
            peer.list(vec![file(0, "x", 0), dir_end(0)]);
            peer.await_outcome(1);
        };
        let to = move |peer: &mut Peer| {
            peer.tell(&offer(ip, port));
            tell_copied(peer);
        };
        let (result, [heard, _]) = run_via(Via::Auto, Caps::CALLS, from, to);
        assert_eq!(result.expect("it goes on").copied, 1);
        assert!(matches!(*heard_offers(&heard), [Message::Direct(Err(_))]), "{ip:?}");
        let to = move |peer: &mut Peer| peer.tell(&offer(ip, port));
        let (result, [heard, _]) = run_via(Via::Tcp, Caps::CALLS, fails, to);
        match result {
            Err(JobError::Connection(ConnectError::NotDirect { host, detail })) => {
                assert!(detail.contains("it reports the "), "{host} {detail}");
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(*heard_offers(&heard), [Message::Direct(Err(_))]), "{ip:?}");
    }
}

#[test]
fn words_about_calls_have_their_turn() {
    type Script = fn(&mut Peer);
    let lists: Script = |peer| peer.list(vec![file(0, "x", 9)]);
    let nothing: Script = |_| ();
    let offers: Script = |peer| peer.tell(&offer(TO_AT, 99));
    let attacks: [(Script, Script, &str); 12] = [
        (|peer| peer.tell(&offer(TO_AT, 99)), nothing, "a Direct frame where none"),
        (|peer| peer.tell(&Message::Called(Called::Connected(1))), nothing, "a Called frame"),
        (
            |peer| {
                await_offer(peer);
                peer.tell(&Message::Called(Called::Key([8; 32])));
            },
            offers,
            "a Called frame where none",
        ),
        (
            |peer| {
                await_offer(peer);
                for _ in 0..20 {
                    peer.tell(&Message::Called(Called::Failed("x".to_owned())));
                }
            },
            offers,
            "a Called frame where none",
        ),
        (
            |peer| {
                await_offer(peer);
                peer.tell(&Message::Called(Called::Lost("they may go another way".to_owned())));
            },
            offers,
            "a Called frame where none",
        ),
        (|peer| peer.tell(&Message::LaneOver(LaneOver { lane: 8 })), nothing, "an unknown lane"),
        (lists, |peer| (0..2).for_each(|_| peer.tell(&offer(TO_AT, 99))), "a Direct frame where"),
        (lists, |peer| peer.tell(&Message::Called(Called::Connected(1))), "a Called frame where"),
        (
            lists,
            |peer| peer.tell(&Message::Taken(Taken { lane: 0, frames: 0, is_over: true })),
            "a Taken frame where none",
        ),
        (
            lists,
            |peer| peer.tell(&arrived(1 << 40, None, 0, None)),
            "the peer acknowledged too much at once",
        ),
        (
            lists,
            |peer| peer.tell(&arrived(0, Some(1), 0, Some(1 << 63))),
            "the peer acknowledged too much at once",
        ),
        (
            lists,
            |peer| peer.tell(&arrived(0, Some(1), 9, None)),
            "the peer acknowledged too much at once",
        ),
    ];
    for (from, to, words) in attacks {
        let (result, _) = run_via(Via::Auto, Caps::CALLS, from, to);
        assert_refused(&result, words);
    }
    let unwished: [(Script, Script, &str); 3] = [
        (|peer| peer.tell(&Message::LaneOver(LaneOver { lane: 1 })), nothing, "a LaneOver frame"),
        (
            lists,
            |peer| peer.tell(&Message::Taken(Taken { lane: 1, frames: 0, is_over: false })),
            "a Taken frame where none",
        ),
        (lists, |peer| peer.tell(&arrived(1, None, 0, None)), "a Arrived frame where none"),
    ];
    for (from, to, words) in unwished {
        for caps in [Caps::NONE, Caps::CALLS] {
            let via = if caps == Caps::NONE { Via::Auto } else { Via::Ssh };
            let (result, _) = run_via(via, caps, from, to);
            assert_refused(&result, words);
        }
    }
}

#[test]
fn calls_that_are_lost_may_be_made_again_where_nothing_else_carries_contents() {
    let loses = |peer: &mut Peer| {
        await_offer(peer);
        peer.tell(&Message::Called(Called::Connected(1)));
        peer.tell(&Message::Called(Called::Lost("cut \u{1b}".to_owned())));
    };
    let offers = |peer: &mut Peer| peer.tell(&offer(TO_AT, 99));
    let (result, _) = run_via(Via::Tcp, Caps::CALLS, loses, offers);
    match result {
        Err(JobError::Connection(error @ ConnectError::DirectLost { .. })) => {
            assert!(error.retriable() && error.to_string().ends_with("were lost: cut \\x1b"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn where_a_host_calls_nobody_that_is_an_error_only_if_it_has_to() {
    let lists = |peer: &mut Peer| {
        peer.list(vec![file(0, "x", 0), dir_end(0)]);
        peer.await_outcome(1);
    };
    let (result, _) = run_via(Via::Auto, Caps::NONE, lists, tell_copied);
    assert_eq!(result.expect("it goes on").copied, 1);
    let (result, _) = run_via(Via::Tcp, Caps::NONE, |_| (), |_| ());
    match result {
        Err(JobError::Connection(ConnectError::NotDirect { detail, .. })) => {
            assert_eq!(detail, "the haul there connects to no other hosts");
        }
        other => panic!("{other:?}"),
    }
}

fn arrived(bytes: u64, index: Option<u64>, blocks: u8, size: Option<u64>) -> Message {
    Message::Arrived(Arrived { bytes, index, blocks, size })
}

/// An agent that sends a file which is worth a call, to a client that has it call `ip`.
/// Gives what the client heard of it, and how many have called at a port of this machine.
fn told_to_call(ip: [u8; 4], caps: Caps) -> (Vec<Message>, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let port = listener.local_addr().expect("an address").port();
    let place = Place::new();
    std::fs::write(place.source("large"), vec![7; 3 << 20]).expect("written");
    let sources = vec![bytes(&place.source("large"))];
    let attacked = serve(place, move |peer| {
        peer.frame(FrameType::Hello, &Hello::ours(caps, 60, "script").encode());
        peer.tell(&Message::Call(Call { is_required: false, connections: 3 }));
        let role = Role::Sender(NamedSources { recursive: true, ..NamedSources::at(sources) });
        peer.tell(&Message::Job(crate::peer::job_for(Task::default(), role)));
        peer.hear_greeting();
        peer.tell(&offer(ip, port));
        peer.await_listing();
        peer.tell(&want([1]));
        // Nobody waits for the call, though it may take long.
        let has_end = |message: &Message| matches!(message, Message::FileEnd(_));
        peer.await_that("all is sent", |peer| peer.messages.iter().any(has_end));
        let is_told = |message: &Message| matches!(message, Message::Called(Called::Failed(_)));
        peer.await_that("it is told", |peer| peer.messages.iter().any(is_told));
        peer.leave();
    });
    let called = attacked.peer.messages.into_iter().filter(|m| matches!(m, Message::Called(_)));
    let mut calls = 0;
    while listener.accept().is_ok() {
        calls += 1;
    }
    (called.collect(), calls)
}

#[test]
fn an_agent_calls_no_address_that_is_no_hosts() {
    for ip in [[0; 4], [224, 0, 0, 1], [255; 4]] {
        let (heard, calls) = told_to_call(ip, Caps::CALLS);
        let [Message::Called(Called::Key(_)), Message::Called(Called::Failed(reason))] = &*heard
        else {
            panic!("{heard:?}")
        };
        assert!(reason.contains("it reports the invalid address"), "{reason}");
        assert_eq!(calls, 0);
    }
    // Who is there and has another key learns nothing more.
    let (heard, calls) = told_to_call([127, 0, 0, 1], Caps::CALLS);
    assert!(matches!(heard.last(), Some(Message::Called(Called::Failed(_)))), "{heard:?}");
    assert_eq!(calls, 1);
}

#[test]
fn a_client_has_nobody_call_who_does_not_send() {
    let place = Place::new();
    let dest = bytes(&place.dest(""));
    let attacked = serve(place, move |peer| {
        peer.frame(FrameType::Hello, &Hello::ours(Caps::CALLS, 60, "script").encode());
        peer.tell(&Message::Call(Call { is_required: false, connections: 1 }));
        let role = crate::peer::receiving(dest, true);
        peer.tell(&Message::Job(crate::peer::job_for(Task::default(), role)));
    });
    attacked.assert_refused("the client asked a host that sends nothing to connect");
    let attacked = serve(Place::new(), move |peer| {
        peer.frame(FrameType::Hello, &Hello::ours(Caps::NONE, 60, "script").encode());
        peer.tell(&Message::Call(Call { is_required: false, connections: 1 }));
    });
    attacked.assert_refused("neither a request nor a job");
}

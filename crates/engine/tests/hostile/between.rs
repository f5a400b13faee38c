//! Hosts that a job goes between, one of which breaks the rules: the other takes and gives
//! what was asked for alone, and the job ends.

use crate::attack::{bytes, serve, within};
use crate::peer::{Peer, block_seal, dir, dir_end, file, link, want};
use crate::place::Place;
use crate::watch::Watch;
use haul_engine::{Between, Greeted, Job, JobError, Placement, Requests, Standing, Summary};
use haul_model::{Kind, Outcome, Task, Via};
use haul_proto::{Caps, FrameType, Hello, ListItem, Message, NamedSources, OutcomeItem, Role};

/// An agent that receives takes the sources that its client has named, from whomever.
#[test]
fn a_receiver_takes_the_named_sources_alone() {
    let attacks: [(&str, Vec<ListItem>, &str); 5] = [
        ("another name", vec![file(0, "evil", 1)], "a name that was not asked for"),
        ("a hidden one", vec![file(0, ".bashrc", 1)], "a name that was not asked for"),
        ("a second one", vec![dir(0, "x"), dir_end(1), dir(0, "x")], "not asked for"),
        ("a link for a slash", vec![link(0, "y", "/etc")], "not asked for"),
        ("nothing", vec![dir_end(0)], "before it had told of all"),
    ];
    for (attack, items, words) in attacks {
        let place = Place::new();
        let dest = bytes(&place.dest(""));
        let sources = [&b"./x"[..], b"./y/"].map(<[u8]>::to_vec).to_vec();
        let asked = NamedSources { sources, base: None, recursive: true, follow: false };
        let attacked = serve(place, move |peer| {
            let role = Role::Receiver {
                dest,
                into_dir: true,
                origin: None,
                naming: None,
                bases: Vec::new(),
                backup: None,
                staging: None,
                asked: Some(Box::new(asked)),
            };
            peer.ask_for(Task::default(), role);
            peer.list(items);
        });
        eprintln!("{attack}");
        attacked.assert_refused(words);
    }
}

/// Greets as an agent does.
fn greet(peer: &mut Peer) {
    peer.hear_greeting();
    peer.frame(FrameType::Welcome, &Hello::ours(Caps::NONE, 60, "script").encode());
}

fn greeted(connection: haul_net::Connection) -> Greeted {
    let requests = Requests::remote(connection).expect("it greets");
    match requests.into_standing() {
        Some(Standing::Agent(greeted)) => greeted,
        _ => panic!("it has greeted"),
    }
}

/// Runs a job between two scripted agents.
fn run(
    from: impl FnOnce(&mut Peer) + Send + 'static,
    to: impl FnOnce(&mut Peer) + Send + 'static,
) -> (Result<Summary, JobError>, [Peer; 2]) {
    let (to_from, mut from_peer) = Peer::of_client();
    let (to_to, mut to_peer) = Peer::of_client();
    let job = Job {
        sources: vec![b"/secret/way/x".to_vec()],
        dest: b"/there".to_vec(),
        into_dir: true,
        recursive: true,
        via: Via::Ssh,
        ..Job::default()
    };
    let from = within(move || {
        greet(&mut from_peer);
        from(&mut from_peer);
        from_peer.hear_out();
        from_peer
    });
    let to = within(move || {
        greet(&mut to_peer);
        to(&mut to_peer);
        to_peer.hear_out();
        to_peer
    });
    let between = within(move || {
        let hosts = Between { to: greeted(to_to), from: greeted(to_from) };
        haul_engine::run(&job, Placement::Between(Box::new(hosts)), &Watch::default())
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
fn each_host_is_told_its_own_part() {
    let from = |peer: &mut Peer| {
        peer.list(vec![file(0, "x", 0), dir_end(0)]);
        peer.await_outcome(1);
    };
    let to = |peer: &mut Peer| {
        peer.await_listing();
        peer.tell(&Message::Naming(haul_model::Naming::Own));
        let outcome = OutcomeItem { index: 1, outcome: Outcome::Copied };
        peer.tell(&Message::Outcomes(vec![outcome]));
        peer.tell(&Message::Done(Summary { copied: 1, ..Summary::default() }));
    };
    let (result, [from, to]) = run(from, to);
    assert_eq!(result.expect("it is done").copied, 1);
    let Role::Sender { sources, .. } = job_of(&from) else { panic!("it sends") };
    assert_eq!(sources, &[b"/secret/way/x".to_vec()]);
    let Role::Receiver { asked: Some(asked), .. } = job_of(&to) else { panic!("it is told") };
    assert_eq!(asked.sources, [b"./x".to_vec()]);
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
            "an outcome of what was not listed",
        ),
        (lists, |peer| peer.tell(&Message::Done(Summary::default())), "before everything has"),
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

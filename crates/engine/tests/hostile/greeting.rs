//! Greetings that are none, and those of another version.

use crate::attack::{Attacked, bytes, run_client, serve, watched_client};
use crate::peer::{Peer, dir_end, file, job_for, pack, packed};
use crate::place::Place;
use crate::watch::Watch;
use haul_engine::{Job, JobError, Placement};
use haul_model::Task;
use haul_proto::{
    Caps, FRAME_MAX, FrameType, Header, Hello, Message, NamedDest, NamedSources, Request, Role,
    VERSION,
};
use std::sync::Arc;

fn client_meets(script: impl FnOnce(&mut Peer) + Send + 'static) -> Attacked {
    let place = Place::new();
    let job = Job {
        sources: NamedSources::at(vec![b"/there/a".to_vec()]),
        dest: NamedDest { into_dir: true, ..NamedDest::at(bytes(&place.dest(""))) },
        ..Job::default()
    };
    run_client(place, job, Placement::download, script)
}

fn agent_meets(script: impl FnOnce(&mut Peer) + Send + 'static) -> Attacked {
    serve(Place::new(), script)
}

fn hello(version: u16, caps: u64) -> Vec<u8> {
    Hello { version, caps: Caps::from_bits(caps), silence_seconds: 60, program: "7.7.7".into() }
        .encode()
}

#[test]
fn text_in_place_of_an_agent_is_shown_escaped() {
    let attacked = client_meets(|peer| {
        peer.raw(b"\x1b[31mWelcome\nto this machine!\n");
        peer.leave();
    });
    attacked.assert_lost();
    let error = attacked.result.expect_err("no agent").to_string();
    assert!(!error.contains(char::is_control), "{error:?}");
}

#[test]
fn an_upload_lists_its_sources_before_the_agent_has_greeted() {
    let place = Place::new();
    std::fs::write(place.source("a"), "content").expect("written");
    let job = Job {
        sources: NamedSources {
            recursive: true,
            ..NamedSources::at(vec![bytes(&place.source(""))])
        },
        dest: NamedDest::at(b"/there"),
        ..Job::default()
    };
    let attacked = run_client(place, job, Placement::upload, |peer| {
        // A login takes long, and nothing was said from here.
        peer.hear_greeting();
        peer.await_listing();
        peer.leave();
    });
    attacked.assert_lost();
    assert!(attacked.peer.listed().count() > 1);
}

#[test]
fn a_welcome_that_is_none_is_refused() {
    let too_long = Header { kind: FrameType::Welcome, payload_len: FRAME_MAX + 1 }.encode();
    client_meets(move |peer| peer.raw(&too_long)).assert_lost();
    client_meets(|peer| peer.frame(FrameType::Welcome, b"")).assert_refused("greeting");
    client_meets(|peer| peer.frame(FrameType::Welcome, b"haul")).assert_refused("greeting");
    let other = client_meets(|peer| peer.frame(FrameType::Welcome, b"HTTP/1.1 200 OK"));
    other.assert_refused("greeting");
    // Another frame than a greeting, though a good one.
    client_meets(|peer| peer.list(vec![dir_end(0)])).assert_lost();
}

#[test]
fn an_agent_of_another_version_is_distinguished_by_both_versions() {
    for version in [0, VERSION + 1, u16::MAX] {
        let attacked = client_meets(move |peer| {
            peer.frame(FrameType::Welcome, &hello(version, 0));
        });
        attacked.assert_refused(&format!("version {version}"));
        attacked.assert_refused(&format!("version {VERSION}"));
        attacked.assert_refused("7.7.7");
    }
}

#[test]
fn a_program_version_is_shown_escaped() {
    let attacked = client_meets(|peer| {
        let mut payload = hello(VERSION + 1, 0);
        payload.extend_from_slice(b"\x1b[2J\xff\n");
        peer.frame(FrameType::Welcome, &payload);
    });
    attacked.assert_refused("7.7.7\\x1b[2J\\xff\\n");
}

#[test]
fn a_capability_that_nobody_knows_is_ignored() {
    let attacked = client_meets(|peer| {
        peer.frame(FrameType::Welcome, &hello(VERSION, u64::MAX));
        peer.list(vec![file(0, "a", 4), dir_end(0)]);
        peer.await_that("it asks", |peer| peer.wanted == [1]);
        peer.raw(&pack([packed(1, b"text")], b"text"));
    });
    assert_eq!(attacked.assert_done().copied, 1);
    assert_eq!(attacked.place.read("a"), "text");
}

#[test]
fn an_agent_that_leaves_instead_of_greeting_is_lost() {
    client_meets(Peer::leave).assert_lost();
    let attacked = client_meets(|peer| {
        peer.frame(FrameType::Welcome, &hello(VERSION, 0));
        peer.leave();
    });
    attacked.assert_lost();
}

#[test]
fn a_user_need_not_wait_for_an_agent_that_is_silent() {
    for greets in [false, true] {
        let place = Place::new();
        let dest = bytes(&place.dest(""));
        let job = Job {
            sources: NamedSources::at(vec![b"a".to_vec()]),
            dest: NamedDest::at(dest),
            ..Job::default()
        };
        let watch = Arc::new(Watch::default());
        let user = Arc::clone(&watch);
        let attacked = watched_client(place, job, Placement::download, watch, move |peer| {
            if greets {
                peer.answer();
                peer.list(vec![file(0, "a", 4), dir_end(0)]);
                peer.await_wants([1]);
            }
            user.cancel();
        });
        assert!(matches!(attacked.result, Err(JobError::Interrupted)), "{:?}", attacked.result);
        attacked.place.check();
    }
}

/// The agent's reason to give up, as the peer heard it.
fn abort_of(attacked: &Attacked) -> String {
    let reason = attacked.peer.messages.iter().find_map(|message| match message {
        Message::Abort(haul_proto::Abort::Protocol(text)) => Some(text.clone()),
        _ => None,
    });
    reason.expect("the peer was told why")
}

#[test]
fn a_client_that_does_not_greet_is_refused_and_reported_so() {
    let request = Message::Request(Request::Stat { path: b"/".to_vec(), follow: true });
    let attacked = agent_meets(move |peer| peer.tell(&request));
    attacked.assert_refused("greeting");
    assert!(abort_of(&attacked).contains("greeting"));
    let attacked = agent_meets(|peer| peer.frame(FrameType::Hello, b"Hello, world"));
    attacked.assert_refused("greeting");
    agent_meets(|peer| peer.raw(b"GET / HTTP/1.1\r\n\r\n")).assert_refused("unknown type");
}

#[test]
fn a_client_of_another_version_receives_ours_before_it_is_refused() {
    let attacked = agent_meets(|peer| {
        peer.frame(FrameType::Hello, &hello(VERSION + 1, 0));
        let role = Role::Sender(NamedSources {
            recursive: true,
            follow: true,
            ..NamedSources::at(vec![b"/etc".to_vec()])
        });
        peer.tell(&Message::Job(job_for(Task::default(), role)));
        let welcome = peer.hear_greeting();
        assert_eq!(welcome.version, VERSION);
    });
    attacked.assert_refused(&format!("version {}", VERSION + 1));
    assert!(abort_of(&attacked).contains(&format!("version {}", VERSION + 1)));
    assert!(attacked.peer.contents.is_empty(), "nothing was sent");
}

#[test]
fn an_agent_welcomes_with_the_capabilities_that_both_have() {
    let attacked = agent_meets(|peer| {
        peer.frame(FrameType::Hello, &hello(VERSION, u64::MAX));
        let welcome = peer.hear_greeting();
        assert_eq!(welcome.caps, Caps::OURS);
        peer.leave();
    });
    assert!(attacked.result.is_ok(), "{:?}", attacked.result);
}

#[test]
fn a_client_that_asks_for_nothing_is_no_failure() {
    let attacked = agent_meets(|peer| {
        peer.frame(FrameType::Hello, &hello(VERSION, 0));
        peer.hear_greeting();
        peer.leave();
    });
    assert!(attacked.result.is_ok(), "{:?}", attacked.result);
    let attacked = agent_meets(Peer::leave);
    assert!(matches!(attacked.result, Err(JobError::Connection(_))), "{:?}", attacked.result);
}

#[test]
fn content_before_a_job_is_refused() {
    for frame in [pack([packed(1, b"x")], b"x"), crate::peer::data(1, 0, b"x")] {
        let attacked = agent_meets(move |peer| {
            peer.frame(FrameType::Hello, &hello(VERSION, 0));
            peer.hear_greeting();
            peer.raw(&frame);
        });
        attacked.assert_refused("where a message is expected");
    }
    let attacked = agent_meets(|peer| {
        peer.frame(FrameType::Hello, &hello(VERSION, 0));
        peer.hear_greeting();
        peer.list(vec![dir_end(0)]);
    });
    attacked.assert_refused("neither a request nor a job");
}

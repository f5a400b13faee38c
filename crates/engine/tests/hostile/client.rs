//! Clients that ask an agent for what makes no sense, or that it must not do.

use crate::attack::{Attacked, bytes, serve, within};
use crate::peer::{Peer, dir_end, file, job_for, receiving, want};
use crate::place::Place;
use haul_engine::{JobError, Outcome, Skip, Summary};
use haul_model::{Policy, Task};
use haul_proto::{
    Abort, FrameType, Hello, JobRequest, ListItem, Message, NamedSources, OutcomeItem, Role,
};
use std::fs;
use std::io::{self, Read, Write};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// An agent that sends these sources to `script`, which has heard the whole
/// listing.
fn download_with(
    place: Place,
    sources: Vec<Vec<u8>>,
    script: impl FnOnce(&mut Peer) + Send + 'static,
) -> Attacked {
    serve(place, |peer| {
        peer.ask(Role::Sender(NamedSources { recursive: true, ..NamedSources::at(sources) }));
        peer.await_listing();
        script(peer);
    })
}

/// A source with one file, one link and one directory: numbers 2, 3 and 4.
fn furnished() -> Place {
    let place = Place::new();
    fs::write(place.source("a"), "content").expect("written");
    symlink("../outside/secret", place.source("b")).expect("linked");
    fs::create_dir(place.source("c")).expect("made");
    place
}

fn source_of(place: &Place) -> Vec<Vec<u8>> {
    vec![bytes(&place.source(""))]
}

/// The agent's reason to give up, as the peer heard it.
fn abort_of(attacked: &Attacked) -> &Abort {
    let abort = attacked.peer.messages.iter().find_map(|message| match message {
        Message::Abort(abort) => Some(abort),
        _ => None,
    });
    abort.expect("the peer was told why")
}

#[test]
fn at_a_low_rate_other_messages_wait_for_little_content() {
    let place = Place::new();
    fs::write(place.source("a"), vec![7; 4 << 20]).expect("written");
    let role = Role::Sender(NamedSources::at(vec![bytes(&place.source("a"))]));
    serve(place, |peer| {
        peer.frame(FrameType::Hello, &Hello::ours(peer.caps, 60, "script").encode());
        let rate = NonZeroU64::new(1 << 20);
        peer.tell(&Message::Job(JobRequest { rate, ..job_for(Task::default(), role) }));
        peer.hear_greeting();
        peer.await_listing();
        peer.tell(&want([1]));
        peer.await_that("a part is sent", |peer| peer.contents.len() > 2);
        let longest = peer.contents.iter().map(|(_, payload)| payload.len()).max();
        assert!(longest < Some(129 << 10), "{longest:?}");
        peer.leave();
    });
}

#[test]
fn an_agent_sends_nothing_that_it_did_not_list() {
    for wants in [vec![0], vec![1], vec![3], vec![4], vec![5], vec![u64::MAX], vec![2, 2]] {
        let place = furnished();
        let sources = source_of(&place);
        let attacked = download_with(place, sources, move |peer| peer.tell(&want(wants)));
        attacked.assert_refused("request");
        assert!(matches!(abort_of(&attacked), Abort::Protocol(_)));
    }
}

#[test]
fn an_agent_does_not_believe_a_client_that_is_done_at_once() {
    let place = furnished();
    let sources = source_of(&place);
    let attacked =
        download_with(place, sources, |peer| peer.tell(&Message::Done(Summary::default())));
    attacked.assert_refused("ended the job");
}

#[test]
fn sources_that_cannot_be_are_faults_of_their_own() {
    let sources: Vec<Vec<u8>> = vec![
        b"\0".to_vec(),
        b"/nowhere/\0/x".to_vec(),
        b"/nowhere/at/all".to_vec(),
        vec![b'x'; 100_000],
        [b"/", &[b'x'; 300][..]].concat(),
        "/x".repeat(3000).into_bytes(),
    ];
    let count = sources.len() as u64;
    let attacked = download_with(Place::new(), sources, move |peer| {
        let skipped = |index| OutcomeItem { index, outcome: Outcome::Skipped(Skip::Special) };
        peer.tell(&Message::Outcomes((1..=count).map(skipped).collect()));
        peer.tell(&Message::Done(Summary::default()));
    });
    assert!(attacked.result.is_ok(), "{:?}", attacked.result);
    let faults = attacked.peer.listed().filter(|item| matches!(item, ListItem::Fault { .. }));
    assert_eq!(faults.count() as u64, count);
}

#[test]
fn a_destination_that_cannot_be_is_reported() {
    let place = Place::new();
    fs::write(place.dest("file"), "old").expect("written");
    let below_file = bytes(&place.dest("file/below"));
    let file_as_dir = bytes(&place.dest("file/"));
    let below_nothing = bytes(&place.dest("no/such"));
    for dest in [
        b"/nowhere\0".to_vec(),
        b"/nowhere/at/all".to_vec(),
        b"\x1b[31m/nowhere".to_vec(),
        [b"/", &[b'x'; 300][..]].concat(),
        below_file,
        file_as_dir,
        below_nothing,
    ] {
        let attacked = serve(Place::new(), |peer| {
            peer.ask(receiving(dest, false));
        });
        match abort_of(&attacked) {
            Abort::Destination { path, fault } => {
                assert!(!fault.message.contains(char::is_control), "{fault:?}");
                assert!(!path.iter().any(u8::is_ascii_control), "{path:?}");
            }
            other => panic!("{other:?}"),
        }
        attacked.place.check();
    }
    assert_eq!(place.read("file"), "old");
}

#[test]
fn several_sources_do_not_share_one_name() {
    let place = Place::new();
    let dest = bytes(&place.dest("new"));
    let attacked = serve(place, move |peer| {
        peer.ask(receiving(dest, false));
        peer.list(vec![file(0, "a", 1), file(0, "b", 1), dir_end(0)]);
    });
    attacked.assert_refused("several sources for one name");
    assert!(!attacked.place.has("new"));
}

#[test]
fn a_dry_run_changes_nothing_whatever_is_sent() {
    let place = Place::new();
    fs::write(place.dest("a"), "old").expect("written");
    let dest = bytes(&place.dest(""));
    let policy = Policy { dry_run: true, ..Policy::default() };
    let attacked = serve(place, move |peer| {
        let role = receiving(dest, true);
        peer.ask_for(Task::Copy(policy), role);
        let dir = crate::peer::dir(0, "d");
        let link = crate::peer::link(0, "l", "x");
        peer.list(vec![file(0, "a", 1), file(0, "b", 1), link, dir]);
        assert_eq!(peer.await_outcome(1), Outcome::WouldCopy);
        peer.raw(&crate::peer::pack([crate::peer::packed(1, b"x")], b"x"));
    });
    attacked.assert_refused("not requested");
    assert_eq!(attacked.place.read("a"), "old");
    assert_eq!(fs::read_dir(attacked.place.dest("")).expect("read").count(), 1);
}

#[test]
fn a_destination_that_is_a_link_is_followed_because_it_was_named() {
    let place = Place::new();
    fs::create_dir(place.dest("real")).expect("made");
    symlink("real", place.dest("link")).expect("linked");
    let dest = bytes(&place.dest("link"));
    let attacked = serve(place, move |peer| {
        peer.ask(receiving(dest, true));
        peer.list(vec![file(0, "a", 1), dir_end(0)]);
        peer.await_wants([1]);
        peer.raw(&crate::peer::pack([crate::peer::packed(1, b"x")], b"x"));
    });
    attacked.assert_done();
    assert_eq!(attacked.place.read("real/a"), "x");
}

#[test]
fn an_agent_whose_client_is_gone_ends() {
    let place = furnished();
    let sources = source_of(&place);
    let attacked = download_with(place, sources, Peer::leave);
    assert!(matches!(attacked.result, Err(JobError::Connection(_))), "{:?}", attacked.result);
}

/// A stream that tells by its second half who still has it.
struct Counted(UnixStream, #[expect(dead_code, reason = "it is counted")] Arc<()>);

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl AsFd for Counted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[test]
fn an_agent_leaves_no_thread_behind_though_its_client_stays() {
    let place = furnished();
    let (sources, dest) = (source_of(&place), bytes(&place.dest("")));
    let receiver = || receiving(dest.clone(), true);
    let done = |peer: &mut Peer| {
        peer.ask(receiver());
        peer.list(vec![dir_end(0)]);
        peer.await_that("it is done", |peer| {
            peer.messages.iter().any(|message| matches!(message, Message::Done(_)))
        });
    };
    let refused = |peer: &mut Peer| {
        peer.ask(receiver());
        peer.list(vec![dir_end(7)]);
    };
    let not_understood = |peer: &mut Peer| {
        peer.ask(Role::Sender(NamedSources {
            recursive: true,
            ..NamedSources::at(sources.clone())
        }));
        peer.await_listing();
        peer.tell(&want([u64::MAX]));
    };
    let no_greeting = |peer: &mut Peer| peer.raw(&[0; 64]);
    let scripts: [&dyn Fn(&mut Peer); 4] = [&done, &refused, &not_understood, &no_greeting];
    for (number, script) in scripts.into_iter().enumerate() {
        let (here, there) = UnixStream::pair().expect("a socket pair");
        let held = Arc::new(());
        let output = Counted(there.try_clone().expect("a second handle"), Arc::clone(&held));
        let input = Counted(there, Arc::clone(&held));
        let agent = within(move || haul_engine::serve(input, output));
        let mut peer = Peer::at(here);
        script(&mut peer);
        // It has said nothing of leaving.
        assert_eq!(agent.end().is_ok(), number == 0, "script {number}");
        assert_eq!(Arc::strong_count(&held), 1, "script {number}: somebody still has a stream");
    }
}

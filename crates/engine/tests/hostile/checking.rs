//! Peers that break the rules of a comparison: content where none belongs,
//! hashes that nobody asked for, and differences in a copy.

use crate::attack::{Attacked, bytes, receive_from_client, run_client, serve};
use crate::peer::{Peer, TIME, data, dir, dir_end, file, receiving, want_hashes};
use crate::place::Place;
use haul_engine::{Job, Outcome, Placement};
use haul_model::{
    Changes, ContentHash, Entry, Fault, FaultKind, Kind, Moving, Name, Policy, Remove, Side, Skip,
    Task,
};
use haul_proto::{
    Caps, Extra, FileEnd, FileSeal, FrameType, Hello, ListItem, Message, NamedDest, NamedSources,
    OutcomeItem, Rival,
};
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

const CONTENT: &[u8] = b"content";

/// A place whose destination holds `names` as they are listed.
fn furnished(names: &[&str]) -> Place {
    let place = Place::new();
    let time = SystemTime::UNIX_EPOCH + Duration::new(TIME.secs as u64, TIME.nanos);
    for name in names {
        let path = place.dest(name);
        fs::write(&path, CONTENT).expect("written");
        File::options().write(true).open(&path).expect("opened").set_modified(time).expect("set");
    }
    place
}

/// An agent that compares with what `script` lists: `names` were listed, from 1
/// on, and their hashes are wanted.
fn checked_by_agent(
    names: &'static [&'static str],
    script: impl FnOnce(&mut Peer) + Send + 'static,
) -> Attacked {
    let place = furnished(names);
    let dest = bytes(&place.dest(""));
    serve(place, |peer| {
        let role = receiving(dest, true);
        peer.ask_for(Task::Check { content: true, keeps: haul_model::Kept::OF_COPIES }, role);
        let files = names.iter().map(|name| file(0, name, CONTENT.len() as u64));
        peer.list(files.chain([dir_end(0)]).collect());
        peer.await_wants(1..=names.len() as u64);
        script(peer);
    })
}

#[test]
fn nothing_has_a_rival_in_a_comparison() {
    let ListItem::Entry { dir, entry } = file(0, "a", 1) else { unreachable!("it is an entry") };
    let first = Entry { name: None, ..entry.clone() };
    let fault = Fault::new(Side::Source, FaultKind::Taken, "taken");
    let rival = Rival { dir, entry, first, is_same: true, fault };
    let place = Place::new();
    let dest = bytes(&place.dest(""));
    let attacked = serve(place, |peer| {
        let role = receiving(dest, true);
        peer.ask_for(Task::Check { content: false, keeps: haul_model::Kept::OF_COPIES }, role);
        peer.list(vec![ListItem::Rival(Box::new(rival)), dir_end(0)]);
    });
    attacked.assert_refused("it listed a rival of an unknown entry");
}

fn hashed(index: u64, content: &[u8]) -> Message {
    let (size, hash) = (CONTENT.len() as u64, ContentHash::of(content));
    Message::FileEnd(FileEnd {
        index,
        result: Ok(FileSeal { size, mtime: TIME, hash: Some(hash), grew: false }),
        by_blocks: false,
    })
}

#[test]
fn only_hashes_are_compared_and_nothing_is_written() {
    type Expected = fn(&Outcome) -> bool;
    let cases: [(Message, Expected); 3] = [
        (hashed(1, CONTENT), |outcome| matches!(outcome, Outcome::Skipped(_))),
        (hashed(1, b"Content"), |outcome| *outcome == Outcome::Differs(Changes::CONTENT)),
        (
            Message::FileEnd(FileEnd {
                index: 1,
                result: Err(Fault::new(Side::Destination, FaultKind::NoSpace, "full")),
                by_blocks: false,
            }),
            |outcome| matches!(outcome, Outcome::Failed(fault) if fault.side == Side::Source),
        ),
    ];
    for (said, expected) in cases {
        let attacked = checked_by_agent(&["a"], move |peer| peer.tell(&said));
        attacked.assert_done();
        assert!(expected(&attacked.peer.outcomes[&1]), "{:?}", attacked.peer.outcomes);
        assert_eq!(fs::read(attacked.place.dest("a")).expect("read"), CONTENT);
    }
}

#[test]
fn content_and_hashes_that_were_not_asked_for_end_a_comparison() {
    checked_by_agent(&["a"], |peer| peer.raw(&data(1, 0, b"CONTENT"))).assert_refused("Data frame");
    // In each case what would end the job comes at the same time.
    for told in [&[2, 1][..], &[7, 1], &[1, 1, 2]] {
        let names: &[_] = if told.len() == 2 { &["a"] } else { &["a", "b"] };
        let attacked = checked_by_agent(names, move |peer| {
            for index in told {
                peer.tell(&hashed(*index, CONTENT));
            }
        });
        attacked.assert_refused("not requested");
    }
}

#[test]
fn a_copy_has_no_differences_and_no_extras() {
    let differs = OutcomeItem { index: 1, outcome: Outcome::Differs(Changes::MISSING) };
    let extra = Extra { path: b"more".to_vec(), kind: Kind::Dir };
    for said in [Message::Outcomes(vec![differs]), Message::Extras(vec![extra])] {
        let attacked = receive_from_client(|_| {}, move |peer| peer.tell(&said));
        attacked.assert_refused("it reported ");
    }
}

/// An agent that compares a directory `t`, which has `d` and more, with what `script`
/// lists in it.
fn tree_checked_by_agent(task: Task, script: impl FnOnce(&mut Peer) + Send + 'static) -> Attacked {
    let place = Place::new();
    fs::create_dir_all(place.dest("t/d")).expect("made");
    fs::write(place.dest("t/more"), CONTENT).expect("written");
    let dest = bytes(&place.dest(""));
    serve(place, move |peer| {
        let role = receiving(dest, true);
        peer.ask_for(task, role);
        peer.list(vec![dir(0, "t")]);
        script(peer);
    })
}

fn subdirs(dir: u64, names: &[&str]) -> ListItem {
    let names = names.iter().map(|name| Name::new(name.as_bytes()).expect("a name")).collect();
    ListItem::Subdirs { dir, names }
}

#[test]
fn extras_are_reported_before_the_first_directory_is_gone_into() {
    let attacked = tree_checked_by_agent(
        Task::Check { content: true, keeps: haul_model::Kept::OF_COPIES },
        |peer| {
            peer.list(vec![subdirs(1, &["c", "d"]), dir(1, "c")]);
            peer.await_that("the extra is told", |peer| {
                peer.messages.iter().any(|message| match message {
                    Message::Extras(extras) => extras.iter().map(|e| &e.path[..]).eq([b"t/more"]),
                    _ => false,
                })
            });
            peer.list(vec![dir_end(2), dir(1, "d"), dir_end(3), dir_end(1), dir_end(0)]);
        },
    );
    attacked.assert_done();
    let told = |message: &&Message| matches!(message, Message::Extras(_));
    assert_eq!(attacked.peer.messages.iter().filter(told).count(), 1);
}

#[test]
fn names_of_directories_come_in_order_and_in_a_comparison() {
    let check = Task::Check { content: true, keeps: haul_model::Kept::OF_COPIES };
    let no_order = "the names of directories out of order";
    for (task, items, rule) in [
        (Task::Copy(Policy::default()), vec![subdirs(1, &["d"])], "where none are expected"),
        (check, vec![dir_end(1), subdirs(0, &["d"])], "where none are expected"),
        (check, vec![subdirs(2, &["d"])], "into a directory that is not open"),
        (check, vec![subdirs(1, &["d", "d"])], no_order),
        (check, vec![subdirs(1, &["d", "c"])], no_order),
        (check, vec![subdirs(1, &["d"]), subdirs(1, &["c"])], no_order),
        (check, vec![dir(1, "c"), dir_end(2), subdirs(1, &["d"])], no_order),
        (check, vec![subdirs(1, &["d"]), file(1, "more", 7)], "out of order, or a name twice"),
    ] {
        let attacked = tree_checked_by_agent(task, move |peer| peer.list(items));
        attacked.assert_refused(rule);
    }
}

fn checking_client(script: impl FnOnce(&mut Peer) + Send + 'static) -> Attacked {
    let place = Place::new();
    let job = Job {
        sources: NamedSources {
            recursive: true,
            ..NamedSources::at(vec![bytes(&place.source(""))])
        },
        dest: NamedDest::at(b"/there"),
        task: Task::Check { content: true, keeps: haul_model::Kept::OF_COPIES },
        ..Job::default()
    };
    run_client(place, job, Placement::upload, script)
}

#[test]
fn nothing_is_copied_in_a_comparison() {
    let attacked = checking_client(|peer| {
        peer.hear_greeting();
        peer.frame(FrameType::Welcome, &Hello::ours(Caps::NONE, 60, "script").encode());
        let outcome = OutcomeItem { index: 1, outcome: Outcome::Copied };
        peer.tell(&Message::Outcomes(vec![outcome]));
    });
    attacked.assert_refused("this job can't have");
}

/// A client that moves a file with content and an empty one to `script`, which
/// says of both that it has them. Gives those that are left.
fn moved_to(script: impl FnOnce(&mut Peer, &Path) + Send + 'static) -> Vec<&'static str> {
    let place = Place::new();
    for (name, content) in [("full", CONTENT), ("nil", b"")] {
        fs::write(place.source(name), content).expect("written");
    }
    let job = Job {
        sources: NamedSources {
            recursive: true,
            ..NamedSources::at(vec![bytes(&place.source(""))])
        },
        dest: NamedDest::at(b"/there"),
        task: Task::Remove { rule: Remove::SameContent, moving: Moving::Lossy },
        ..Job::default()
    };
    let source = place.source("");
    let attacked = run_client(place, job, Placement::upload, move |peer| {
        peer.hear_greeting();
        peer.frame(FrameType::Welcome, &Hello::ours(Caps::NONE, 60, "script").encode());
        peer.await_that("all is listed", |peer| {
            peer.messages.iter().any(|message| match message {
                Message::List(items) => items.contains(&dir_end(0)),
                _ => false,
            })
        });
        script(peer, &source);
        let same = |index| OutcomeItem { index, outcome: Outcome::Skipped(Skip::Unchanged) };
        peer.tell(&Message::Outcomes(vec![same(1), same(2), same(3)]));
        peer.tell(&Message::Done(haul_engine::Summary::default()));
    });
    let left = ["full", "nil"].into_iter().filter(|name| attacked.place.source(name).exists());
    left.collect()
}

/// Asks for the hash of the file with content, and hears it.
fn hear_hash(peer: &mut Peer) {
    peer.tell(&want_hashes([2]));
    peer.await_that("the hash is told", |peer| {
        peer.messages.iter().any(|message| matches!(message, Message::FileEnd(_)))
    });
}

#[test]
fn a_source_is_removed_only_if_its_hash_was_reported_and_it_did_not_change() {
    assert_eq!(moved_to(|peer, _| hear_hash(peer)), [""; 0]);
    assert_eq!(moved_to(|_, _| {}), ["full"], "its hash was not even asked for");
    let appended = moved_to(|peer, source| {
        hear_hash(peer);
        fs::write(source.join("full"), "content, and more").expect("written");
    });
    assert_eq!(appended, ["full"]);
    let replaced = moved_to(|peer, source| {
        hear_hash(peer);
        let path = source.join("full");
        let time = fs::metadata(&path).and_then(|meta| meta.modified()).expect("a time");
        let new = source.join("new");
        fs::write(&new, b"CONTENT").expect("written");
        File::options().write(true).open(&new).expect("opened").set_modified(time).expect("set");
        fs::rename(&new, &path).expect("renamed");
    });
    assert_eq!(replaced, ["full"], "another object has its name, size and time");
}

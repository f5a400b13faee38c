//! Peers that break the rules of a move from an agent, or that are wrong about
//! what they have: only what they named goes, and only as it was hashed.

use crate::attack::{Attacked, bytes, run_client, serve};
use crate::peer::{Peer, TIME, dir, dir_end, file, name, receiving, want_hashes};
use crate::place::Place;
use haul_engine::{Job, JobError, Outcome, Placement, Summary};
use haul_model::{Changes, ContentHash, Fault, FaultKind, Kind, Moving, Remove, Side, Skip, Task};
use haul_proto::{
    Caps, FileEnd, FileSeal, FrameType, Hello, Message, NamedDest, NamedSources, OutcomeItem,
    Prove, Proven, Removal, Role,
};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

const CONTENT: &[u8] = b"content";

/// The numbers of the entries below, in the agent's listing.
const TREE: u64 = 1;
const FULL: u64 = 2;
const LINK: u64 = 3;
const NIL: u64 = 4;
const DIR: u64 = 5;
const BELOW: u64 = 6;

/// The paths in the source when it is moved.
const ALL: [&str; 6] = ["tree", "tree/dir", "tree/dir/below", "tree/full", "tree/link", "tree/nil"];

/// An agent that is asked to move `tree`, by a client that goes on as `script`
/// says when all was listed. Gives what is left of the tree, too.
fn moved_from(
    rule: Remove,
    script: impl FnOnce(&mut Peer, &Path) + Send + 'static,
) -> (Attacked, Vec<&'static str>) {
    let place = Place::new();
    fs::create_dir_all(place.source("tree/dir")).expect("made");
    for (name, content) in [("full", CONTENT), ("nil", b""), ("dir/below", CONTENT)] {
        fs::write(place.source("tree").join(name), content).expect("written");
    }
    symlink(place.outside("secret"), place.source("tree/link")).expect("made");
    fs::write(place.source("beside"), CONTENT).expect("written");
    let source = place.source("tree");
    let attacked = serve(place, move |peer| {
        let sources = vec![bytes(&source)];
        let task = Task::Remove { rule, moving: Moving::Whole };
        peer.ask_for(
            task,
            Role::Sender(NamedSources { recursive: true, ..NamedSources::at(sources) }),
        );
        peer.await_that("all is listed", |peer| {
            peer.messages.iter().any(|message| match message {
                Message::List(items) => items.contains(&dir_end(0)),
                _ => false,
            })
        });
        script(peer, &source);
    });
    assert_eq!(fs::read(attacked.place.source("beside")).expect("read"), CONTENT);
    let left =
        ALL.into_iter().filter(|name| attacked.place.source(name).symlink_metadata().is_ok());
    let left = left.collect();
    attacked.place.check();
    (attacked, left)
}

fn hear_hashes<const N: usize>(peer: &mut Peer, indexes: [u64; N]) {
    peer.tell(&want_hashes(indexes));
    peer.await_that("the hashes are told", |peer| {
        let hashes = |message: &&Message| matches!(message, Message::FileEnd(_));
        peer.messages.iter().filter(hashes).count() == N
    });
}

fn tell_all(peer: &mut Peer, outcome: impl Fn(u64) -> Outcome) {
    let items = [TREE, FULL, LINK, NIL, DIR, BELOW];
    let items = items.map(|index| OutcomeItem { index, outcome: outcome(index) });
    peer.tell(&Message::Outcomes(items.to_vec()));
    peer.tell(&Message::Done(Summary::default()));
}

fn same(_: u64) -> Outcome {
    Outcome::Skipped(Skip::Unchanged)
}

/// The agent's words about its sources, without the end, which has to come last.
#[track_caller]
fn removals(attacked: &Attacked) -> Vec<Removal> {
    let told = attacked.peer.messages.iter().filter_map(|message| match message {
        Message::Removed(removals) => Some(removals.clone()),
        _ => None,
    });
    let mut told: Vec<Removal> = told.flatten().collect();
    assert_eq!(told.pop(), Some(Removal::End), "{told:?}");
    told
}

#[test]
fn what_the_receiver_has_is_gone_and_reported() {
    let (attacked, left) = moved_from(Remove::SameContent, |peer, _| {
        hear_hashes(peer, [FULL, BELOW]);
        tell_all(peer, same);
    });
    assert!(attacked.result.is_ok(), "{:?}", attacked.result);
    assert_eq!(left, [""; 0]);
    let told = removals(&attacked).into_iter().map(|removal| match removal {
        Removal::Source { path, kind: _, result: Ok(()) } => {
            String::from_utf8(path).expect("the test's own names")
        }
        other => panic!("{other:?}"),
    });
    let mut told: Vec<String> = told.collect();
    told.sort();
    assert_eq!(told, ["tree/dir/below", "tree/full", "tree/link", "tree/nil"]);
}

#[test]
fn what_was_not_hashed_or_is_another_stays() {
    let (_, left) = moved_from(Remove::SameContent, |peer, _| tell_all(peer, same));
    assert_eq!(left, ["tree", "tree/dir", "tree/dir/below", "tree/full"]);
    let differs = |found: Changes| {
        move |index| if index == FULL { Outcome::Differs(found) } else { same(index) }
    };
    for (rule, found, stays) in [
        (Remove::SameContent, Changes::TIME.with(Changes::MODE), false),
        (Remove::SameContent, Changes::CONTENT, true),
        (Remove::SameContent, Changes::MISSING, true),
        (Remove::Same, Changes::TIME, true),
        (Remove::Same, Changes::MODE, true),
    ] {
        let (attacked, left) = moved_from(rule, move |peer, _| {
            hear_hashes(peer, [FULL, BELOW]);
            tell_all(peer, differs(found));
        });
        assert!(attacked.result.is_ok(), "{:?}", attacked.result);
        let expected: &[&str] = if stays { &["tree", "tree/full"] } else { &[] };
        assert_eq!(left, expected, "{rule:?} {found:?}");
    }
}

#[test]
fn directories_that_the_receiver_has_not_stay() {
    let (attacked, left) = moved_from(Remove::SameContent, |peer, _| {
        hear_hashes(peer, [FULL, BELOW]);
        tell_all(peer, |index| match index {
            DIR => Outcome::Differs(Changes::MISSING),
            index => same(index),
        });
    });
    assert!(attacked.result.is_ok(), "{:?}", attacked.result);
    assert_eq!(left, ["tree", "tree/dir"]);
}

#[test]
fn what_changed_after_it_was_hashed_stays_and_that_is_reported() {
    type Change = fn(&Path);
    let changes: [Change; 3] = [
        |tree| fs::write(tree.join("full"), "content, and more").expect("written"),
        |tree| {
            let time = fs::metadata(tree.join("full")).and_then(|meta| meta.modified());
            fs::write(tree.join("new"), b"CONTENT").expect("written");
            let new = fs::File::options().write(true).open(tree.join("new")).expect("opened");
            new.set_modified(time.expect("a time")).expect("set");
            fs::rename(tree.join("new"), tree.join("full")).expect("renamed");
        },
        |tree| {
            fs::remove_file(tree.join("full")).expect("removed");
            symlink("nil", tree.join("full")).expect("made");
        },
    ];
    for change in changes {
        let (attacked, left) = moved_from(Remove::SameContent, move |peer, tree| {
            hear_hashes(peer, [FULL, BELOW]);
            change(tree);
            tell_all(peer, same);
        });
        assert!(attacked.result.is_ok(), "{:?}", attacked.result);
        assert_eq!(left, ["tree", "tree/full"]);
        let told = removals(&attacked);
        let of_file = told.iter().find_map(|removal| match removal {
            Removal::Source { path, result: Err(fault), .. } if path == b"tree/full" => Some(fault),
            _ => None,
        });
        let fault = of_file.expect("it is told");
        assert_eq!((fault.kind, fault.side), (FaultKind::Changed, Side::Source));
        let last = told.last().expect("there are some");
        assert!(
            matches!(last, Removal::Source { kind: Kind::Dir, result: Err(_), .. }),
            "{last:?}"
        );
    }
}

#[test]
fn a_directory_that_is_exchanged_for_a_link_leads_nowhere() {
    let (attacked, _) = moved_from(Remove::SameContent, |peer, tree| {
        hear_hashes(peer, [FULL, BELOW]);
        fs::rename(tree.join("dir"), tree.join("kept")).expect("renamed");
        let outside = tree.join("../../outside/dir");
        fs::write(tree.join("kept/more"), "more").expect("written");
        symlink(outside, tree.join("dir")).expect("made");
        tell_all(peer, same);
    });
    assert!(attacked.result.is_ok(), "{:?}", attacked.result);
    // What was listed in it went through the held directory.
    assert!(attacked.place.source("tree/kept/more").exists());
    assert!(attacked.place.source("tree/dir").symlink_metadata().is_ok());
}

#[test]
fn a_directory_in_the_place_of_the_one_that_was_listed_stays_and_that_is_reported() {
    let (attacked, left) = moved_from(Remove::SameContent, |peer, tree| {
        hear_hashes(peer, [FULL, BELOW]);
        fs::rename(tree, tree.with_extension("away")).expect("renamed");
        fs::create_dir_all(tree.join("dir")).expect("made");
        tell_all(peer, same);
    });
    assert!(attacked.result.is_ok(), "{:?}", attacked.result);
    assert_eq!(left, ["tree", "tree/dir"]);
    let told = removals(&attacked);
    match told.last().expect("there are some") {
        Removal::Source { path, kind: Kind::Dir, result: Err(fault) } => {
            assert!(path.ends_with(b"/tree"));
            assert_eq!((fault.kind, fault.side), (FaultKind::Changed, Side::Source));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_goes_before_its_outcome_is_reported() {
    let (attacked, left) = moved_from(Remove::SameContent, |peer, _| {
        hear_hashes(peer, [FULL, BELOW]);
        peer.leave();
    });
    attacked.assert_lost();
    assert_eq!(left, ALL);
    let (attacked, left) = moved_from(Remove::SameContent, |peer, _| {
        hear_hashes(peer, [FULL, BELOW]);
        peer.tell(&Message::Done(Summary::default()));
    });
    attacked.assert_refused("before all outcomes");
    assert_eq!(left, ALL);
}

/// Names of the tree that are those of sources that were set aside.
fn parked(tree: &Path) -> usize {
    let is_aside = |dir: &Path| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().into_encoded_bytes());
        names.filter(|name| name.starts_with(b".haul-moving-")).count()
    };
    is_aside(tree) + is_aside(&tree.join("dir"))
}

#[test]
fn what_the_receiver_no_longer_has_gets_its_name_back_and_that_is_reported() {
    let (attacked, left) = moved_from(Remove::SameContent, |peer, _| {
        peer.proves = |index| {
            let fault = || Fault::new(Side::Source, FaultKind::Changed, "it is gone");
            Some(if index == FULL { Err(fault()) } else { Ok(()) })
        };
        hear_hashes(peer, [FULL, BELOW]);
        tell_all(peer, same);
    });
    assert!(attacked.result.is_ok(), "{:?}", attacked.result);
    assert_eq!(left, ["tree", "tree/full"]);
    assert_eq!(fs::read(attacked.place.source("tree/full")).expect("there"), CONTENT);
    let told = removals(&attacked);
    let of_file = told.iter().find_map(|removal| match removal {
        Removal::Source { path, result: Err(fault), .. } if path == b"tree/full" => Some(fault),
        _ => None,
    });
    let fault = of_file.expect("it is told");
    assert_eq!((fault.kind, fault.side), (FaultKind::Changed, Side::Destination));
    assert_eq!(fault.message, "it is gone");
}

#[test]
fn what_was_set_aside_gets_its_name_back_when_the_receiver_leaves() {
    let is_asked = |peer: &Peer| peer.messages.iter().any(|one| matches!(one, Message::Prove(_)));
    let (attacked, left) = moved_from(Remove::SameContent, move |peer, tree| {
        peer.proves = |_| None;
        hear_hashes(peer, [FULL, BELOW]);
        tell_all(peer, same);
        peer.await_that("it asks", is_asked);
        assert!(parked(tree) > 0, "nothing is set aside");
        peer.leave();
    });
    attacked.assert_lost();
    assert_eq!(left, ALL);
    assert_eq!(parked(&attacked.place.source("tree")), 0);
    // One that proves what it was not asked for is left, too.
    let (attacked, left) = moved_from(Remove::SameContent, move |peer, _| {
        peer.proves = |_| None;
        hear_hashes(peer, [FULL, BELOW]);
        tell_all(peer, same);
        peer.await_that("it asks", is_asked);
        peer.tell(&Message::Proven(vec![Proven { index: 77, result: Ok(()) }]));
    });
    attacked.assert_refused("it sent a proof that was not requested");
    assert_eq!(left, ALL);
    assert_eq!(parked(&attacked.place.source("tree")), 0);
}

#[test]
fn nothing_goes_after_its_outcome_before_it_was_proven() {
    let (attacked, left) = moved_from(Remove::SameContent, |peer, tree| {
        peer.proves = |_| None;
        hear_hashes(peer, [FULL, BELOW]);
        tell_all(peer, same);
        let of = |message: &Message| match message {
            Message::Prove(asked) => asked.len(),
            _ => 0,
        };
        peer.await_that("it asks", |peer| peer.messages.iter().map(of).sum::<usize>() == 4);
        assert_eq!(parked(tree), 4);
        // What is put in the place of one meanwhile stays, and so does the one.
        fs::write(tree.join("full"), "new").expect("written");
        let proven = |index| {
            let fault = Fault::new(Side::Destination, FaultKind::Changed, "gone");
            Proven { index, result: if index == FULL { Err(fault) } else { Ok(()) } }
        };
        peer.tell(&Message::Proven([FULL, LINK, NIL, BELOW].map(proven).to_vec()));
    });
    assert!(attacked.result.is_ok(), "{:?}", attacked.result);
    assert_eq!(left, ["tree", "tree/full"]);
    let tree = attacked.place.source("tree");
    assert_eq!((parked(&tree), fs::read(tree.join("full")).expect("there")), (1, b"new".to_vec()));
    let told = removals(&attacked);
    let is_told = |removal: &Removal| matches!(removal, Removal::Source { result: Err(fault), .. } if fault.message.contains("its name is now .haul-moving-"));
    assert!(told.iter().any(is_told), "{told:?}");
}

/// A client that moves `tree` from a scripted agent.
fn moving_client(place: Place, script: impl FnOnce(&mut Peer) + Send + 'static) -> Attacked {
    let job = Job {
        sources: NamedSources {
            recursive: true,
            ..NamedSources::at(vec![b"/there/tree".to_vec()])
        },
        dest: NamedDest { into_dir: true, ..NamedDest::at(bytes(&place.dest(""))) },
        task: Task::Remove { rule: Remove::SameContent, moving: Moving::Whole },
        ..Job::default()
    };
    run_client(place, job, Placement::download, script)
}

fn greet(peer: &mut Peer, caps: Caps) {
    peer.hear_greeting();
    peer.frame(FrameType::Welcome, &Hello::ours(caps, 60, "script").encode());
}

fn listed(peer: &mut Peer) {
    greet(peer, Caps::OURS);
    peer.list(vec![dir(0, "tree"), dir_end(1), dir_end(0)]);
}

/// Gives the hash of `index`, an empty file, when it is asked for.
fn hash_empty(peer: &mut Peer, index: u64) {
    peer.await_wants([index]);
    let seal = FileSeal { size: 0, mtime: TIME, hash: Some(ContentHash::of(b"")), grew: false };
    peer.tell(&Message::FileEnd(FileEnd { index, result: Ok(seal), by_blocks: false }));
}

fn is_done(peer: &Peer) -> bool {
    peer.messages.iter().any(|message| matches!(message, Message::Done(_)))
}

#[test]
fn a_client_waits_until_all_is_removed_and_believes_no_earlier_end() {
    let attacked = moving_client(Place::new(), |peer| {
        listed(peer);
        peer.await_that("it is done", is_done);
        let fault = Fault::new(Side::Destination, FaultKind::NoSpace, "full");
        let source = |result| Removal::Source { path: b"x".to_vec(), kind: Kind::Dir, result };
        peer.tell(&Message::Removed(vec![source(Ok(())), source(Err(fault)), Removal::End]));
    });
    attacked.assert_done();
    let attacked = moving_client(Place::new(), |peer| {
        listed(peer);
        peer.await_that("it is done", is_done);
        peer.leave();
    });
    attacked.assert_lost();
    let attacked = moving_client(Place::new(), |peer| {
        greet(peer, Caps::OURS);
        peer.tell(&Message::Removed(vec![Removal::End]));
    });
    attacked.assert_refused("it removed sources before all were compared");
}

/// The answer of a client that has `tree/f` and is asked for a proof, by an agent that
/// has set its own aside under `parked`, when `change` was made.
fn proof_of(parked: &'static str, change: fn(&Path)) -> Result<(), Fault> {
    let place = Place::new();
    fs::create_dir(place.dest("tree")).expect("made");
    let path = place.dest("tree/f");
    fs::write(&path, CONTENT).expect("written");
    haul_testkit::nasty::set_mtime(&path, TIME.secs, TIME.nanos).expect("a time");
    let attacked = moving_client(place, move |peer| {
        greet(peer, Caps::OURS);
        let len = CONTENT.len() as u64;
        peer.list(vec![dir(0, "tree"), file(1, "f", len), dir_end(1), dir_end(0)]);
        peer.await_wants([2]);
        let seal =
            FileSeal { size: len, mtime: TIME, hash: Some(ContentHash::of(CONTENT)), grew: false };
        peer.tell(&Message::FileEnd(FileEnd { index: 2, result: Ok(seal), by_blocks: false }));
        peer.await_that("it is done", is_done);
        change(&path);
        peer.tell(&Message::Prove(vec![Prove { index: 2, parked: Some(name(parked)) }]));
        let is_proven = |peer: &Peer| peer.messages.iter().any(|m| matches!(m, Message::Proven(_)));
        peer.await_that("it is proven", is_proven);
        peer.tell(&Message::Removed(vec![Removal::End]));
    });
    attacked.assert_done();
    let answer = attacked.peer.messages.iter().find_map(|message| match message {
        Message::Proven(proven) => Some(proven.clone()),
        _ => None,
    });
    let Some([Proven { index: 2, result }]) = answer.as_deref() else { panic!("{answer:?}") };
    result.clone()
}

#[test]
fn a_client_reports_what_it_still_has() {
    let kind = |result: Result<(), Fault>| result.map_err(|fault| (fault.side, fault.kind));
    let (gone, same) = (FaultKind::Changed, FaultKind::SameFile);
    assert_eq!(kind(proof_of("aside", |_| {})), Ok(()));
    let removed = proof_of("aside", |path| fs::remove_file(path).expect("removed"));
    assert_eq!(kind(removed), Err((Side::Destination, gone)));
    let other = proof_of("aside", |path| fs::write(path, "other").expect("written"));
    assert_eq!(kind(other), Err((Side::Destination, gone)));
    let shown = proof_of("aside", |path| {
        fs::write(path.with_file_name("aside"), "").expect("written");
    });
    assert_eq!(kind(shown), Err((Side::Destination, same)));
}

#[test]
fn a_proof_is_asked_for_once_and_only_of_what_was_reported_to_be_there() {
    let prove = |index| Message::Prove(vec![Prove { index, parked: Some(name("aside")) }]);
    let attacked = moving_client(Place::new(), move |peer| {
        listed(peer);
        peer.await_that("it is done", is_done);
        peer.tell(&prove(1));
    });
    attacked.assert_refused("it requested a proof of an unlisted entry");
    let place = Place::new();
    fs::write(place.dest("tree"), "").expect("written");
    haul_testkit::nasty::set_mtime(place.dest("tree"), TIME.secs, TIME.nanos).expect("a time");
    let attacked = moving_client(place, move |peer| {
        greet(peer, Caps::OURS);
        peer.list(vec![file(0, "tree", 0), dir_end(0)]);
        hash_empty(peer, 1);
        peer.await_outcome(1);
        peer.tell(&prove(1));
        peer.tell(&prove(1));
    });
    attacked.assert_refused("it requested a proof of an unlisted entry");
}

#[test]
fn what_is_set_aside_does_not_wait_for_what_takes_hours_to_hash() {
    const LARGE: [&str; 10] = ["l0", "l1", "l2", "l3", "l4", "l5", "l6", "l7", "l8", "l9"];
    /// As long as no machine reads it in a minute, in bytes; all of it is a hole.
    const LEN: u64 = 1 << 40;
    let place = Place::new();
    fs::create_dir(place.dest("tree")).expect("made");
    let put = |name: &str, len| {
        let path = place.dest("tree").join(name);
        fs::File::create_new(&path).and_then(|file| file.set_len(len)).expect("made");
        haul_testkit::nasty::set_mtime(&path, TIME.secs, TIME.nanos).expect("a time");
    };
    put("f", 1);
    LARGE.into_iter().for_each(|name| put(name, LEN));
    let attacked = moving_client(place, |peer| {
        greet(peer, Caps::OURS);
        peer.list(vec![dir(0, "tree"), file(1, "f", 1)]);
        peer.await_wants([2]);
        let seal =
            FileSeal { size: 1, mtime: TIME, hash: Some(ContentHash::of(&[0])), grew: false };
        peer.tell(&Message::FileEnd(FileEnd { index: 2, result: Ok(seal), by_blocks: false }));
        peer.await_outcome(2);
        peer.list(LARGE.map(|name| file(1, name, LEN)).to_vec());
        peer.await_wants(3..13);
        peer.tell(&Message::Prove(vec![Prove { index: 2, parked: Some(name("aside")) }]));
        let proven = Message::Proven(vec![Proven { index: 2, result: Ok(()) }]);
        peer.await_that("it is proven", |peer| {
            assert_eq!(peer.signs, 0, "nothing else is said");
            peer.messages.contains(&proven)
        });
        peer.leave();
    });
    attacked.assert_lost();
}

/// An agent to which a client moves `nil`, which is there already, and `missing`.
fn moved_to(script: impl FnOnce(&mut Peer) + Send + 'static) -> Attacked {
    let place = Place::new();
    fs::write(place.dest("nil"), "").expect("written");
    haul_testkit::nasty::set_mtime(place.dest("nil"), TIME.secs, TIME.nanos).expect("a time");
    let dest = bytes(&place.dest(""));
    serve(place, move |peer| {
        let task = Task::Remove { rule: Remove::Same, moving: Moving::Lossy };
        peer.ask_for(task, receiving(dest, true));
        peer.list(vec![file(0, "nil", 0), file(0, "missing", 0), dir_end(0)]);
        hash_empty(peer, 1);
        peer.await_that("it is done", is_done);
        script(peer);
    })
}

#[test]
fn an_agent_stays_and_proves_until_its_client_has_removed_all() {
    let attacked = moved_to(|peer| {
        peer.tell(&Message::Prove(vec![Prove { index: 1, parked: Some(name("aside")) }]));
        let proven = Message::Proven(vec![Proven { index: 1, result: Ok(()) }]);
        peer.await_that("it is proven", |peer| peer.messages.contains(&proven));
        peer.tell(&Message::Removed(vec![Removal::End]));
    });
    assert!(attacked.result.is_ok(), "{:?}", attacked.result);
    // Of what it does not have there is no proof.
    let attacked = moved_to(|peer| {
        peer.tell(&Message::Prove(vec![Prove { index: 2, parked: Some(name("aside")) }]));
    });
    attacked.assert_refused("it requested a proof of an unlisted entry");
    let attacked = moved_to(Peer::leave);
    attacked.assert_lost();
    // What a link leads to is nobody's to remove.
    let place = Place::new();
    fs::write(place.source("f"), CONTENT).expect("written");
    let sources = vec![bytes(&place.source("f"))];
    // Of a mirror, the links that were followed go themselves.
    let task = Task::Remove { rule: Remove::Same, moving: Moving::Lossy };
    let attacked = serve(place, move |peer| {
        let role = Role::Sender(NamedSources {
            recursive: true,
            follow: true,
            ..NamedSources::at(sources)
        });
        peer.ask_for(task, role);
    });
    attacked.assert_refused("the client asked to remove the targets of links");
    assert!(attacked.place.source("f").exists());
}

#[test]
fn a_comparison_reports_no_removal() {
    let place = Place::new();
    let job = Job {
        sources: NamedSources {
            recursive: true,
            ..NamedSources::at(vec![b"/there/tree".to_vec()])
        },
        dest: NamedDest { into_dir: true, ..NamedDest::at(bytes(&place.dest(""))) },
        task: Task::Check { content: true, keeps: haul_model::Kept::OF_COPIES },
        ..Job::default()
    };
    let attacked = run_client(place, job, Placement::download, |peer| {
        greet(peer, Caps::OURS);
        peer.tell(&Message::Removed(vec![Removal::End]));
    });
    attacked.assert_refused("where none is expected");
}

#[test]
fn a_hash_that_is_not_that_of_the_destination_is_reported_as_a_difference() {
    let place = Place::new();
    fs::create_dir(place.dest("tree")).expect("made");
    fs::write(place.dest("tree/f"), CONTENT).expect("written");
    let attacked = moving_client(place, |peer| {
        greet(peer, Caps::OURS);
        let len = CONTENT.len() as u64;
        peer.list(vec![dir(0, "tree"), file(1, "f", len), dir_end(1), dir_end(0)]);
        peer.await_wants([2]);
        let hash = ContentHash::of(b"Content");
        let seal = FileSeal { size: len, mtime: TIME, hash: Some(hash), grew: false };
        peer.tell(&Message::FileEnd(FileEnd { index: 2, result: Ok(seal), by_blocks: false }));
        peer.await_that("it is done", is_done);
        peer.tell(&Message::Removed(vec![Removal::End]));
    });
    attacked.assert_done();
    match &attacked.peer.outcomes[&2] {
        Outcome::Differs(found) => assert!(found.has(Changes::CONTENT)),
        other => panic!("{other:?}"),
    }
    assert!(!matches!(attacked.result, Err(JobError::Protocol(_))));
}

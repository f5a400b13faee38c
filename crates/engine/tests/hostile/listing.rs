//! Listings that name what they must not, or in an order that is none.

use crate::attack::{RECEIVERS, Victim, send_to};
use crate::peer::{Peer, TIME, dir, dir_end, entry, file, link, pack, packed};
use haul_model::{Attributes, Entry, Fault, FaultKind, Kind, MAX_DEPTH, Side};
use haul_proto::{LIST_WINDOW, ListItem, Message, Rival, encode};

/// Lists these to either receiver, whose job is for `a` and `b`, and expects
/// that a rule is broken by it.
#[track_caller]
fn assert_refused(items: &[ListItem], words: &str) {
    for victim in RECEIVERS {
        let items = items.to_vec();
        send_to(victim, &["a", "b"], |_| {}, move |peer| peer.list(items)).assert_refused(words);
    }
}

/// Lists these in frames of a usual length. The script does not listen at the
/// same time, so there must not be too many answers.
fn list_in_parts(peer: &mut Peer, items: Vec<ListItem>) {
    items.chunks(200).for_each(|part| peer.list(part.to_vec()));
}

/// The frame of a listing with `bad` where the name `"x"` stands.
fn list_named(bad: &[u8], in_dir: bool) -> Vec<u8> {
    let items = if in_dir { vec![dir(0, "a"), file(1, "X", 1)] } else { vec![file(0, "X", 1)] };
    let mut frame = encode(&Message::List(items));
    let at = frame.iter().position(|byte| *byte == b'X').expect("the name");
    frame[at - 1] = bad.len() as u8;
    frame.splice(at..=at, bad.iter().copied());
    let payload_len = (frame.len() - haul_proto::HEADER_LEN) as u32;
    frame[..4].copy_from_slice(&payload_len.to_le_bytes());
    frame
}

#[test]
fn a_name_that_leads_elsewhere_is_refused() {
    for bad in [
        &b".."[..],
        b".",
        b"",
        b"/",
        b"/etc",
        b"a/b",
        b"../outside/new",
        b"b/",
        b"a\0",
        b"\0",
        b"..\0",
    ] {
        for in_dir in [false, true] {
            for victim in RECEIVERS {
                let frame = list_named(bad, in_dir);
                let attacked = send_to(victim, &["a", "b"], |_| {}, move |peer| peer.raw(&frame));
                attacked.assert_refused("can't be read");
            }
        }
    }
    // The patched frame is one that is understood, but for the name.
    let frame = list_named(b"a", false);
    let attacked = send_to(
        Victim::Client,
        &["a"],
        |_| {},
        move |peer| {
            peer.raw(&frame);
            peer.list(vec![dir_end(0)]);
            peer.await_wants([1]);
            peer.raw(&pack([packed(1, b"x")], b"x"));
        },
    );
    attacked.assert_done();
}

#[test]
fn a_client_takes_only_names_that_it_asked_for() {
    for items in [
        vec![file(0, "c", 1)],
        vec![file(0, "a", 1), file(0, "a", 1)],
        vec![dir(0, "a"), dir_end(1), dir(0, "a")],
        vec![link(0, "a", "/"), dir(0, "a")],
        vec![dir(0, ".ssh")],
        vec![nameless(0, Kind::Dir)],
    ] {
        let attacked = send_to(Victim::Client, &["a", "b"], |_| {}, move |peer| peer.list(items));
        attacked.assert_refused("not requested");
    }
}

#[test]
fn a_source_is_listed_once_beside_one_without_a_name() {
    for items in [
        vec![file(0, "b", 1), file(0, "b", 1)],
        vec![nameless(0, Kind::Dir), dir_end(1), file(0, "b", 1), file(0, "b", 1)],
        vec![nameless(0, Kind::Dir), dir_end(1), nameless(0, Kind::Dir)],
        vec![file(0, "c", 1)],
    ] {
        let attacked = send_to(Victim::Client, &["a/.", "b"], |_| {}, move |peer| peer.list(items));
        attacked.assert_refused("not requested");
    }
    let items = vec![link(0, "b", "/")];
    let attacked = send_to(Victim::Client, &["a/.", "b/"], |_| {}, move |peer| peer.list(items));
    attacked.assert_refused("not requested");
}

/// An entry that stands for the root itself.
fn nameless(dir: u64, kind: Kind) -> ListItem {
    ListItem::Entry { dir, entry: Entry::new(None, kind, Attributes::new(0o755, TIME)) }
}

#[test]
fn an_entry_without_a_name_is_a_directory_or_nothing() {
    for kind in [Kind::File { size: 1 }, Kind::Special, Kind::Symlink { target: (*b"x").into() }] {
        assert_refused(&[nameless(0, kind)], "without a name");
    }
    assert_refused(&[dir(0, "a"), nameless(1, Kind::Dir)], "without a name");
    assert_refused(&[dir(0, "a"), nameless(1, Kind::File { size: 1 })], "without a name");
}

#[test]
fn a_name_twice_or_out_of_order_is_refused() {
    let special = |name| entry(1, name, Kind::Special);
    for items in [
        vec![special("x"), special("x")],
        vec![special("x"), file(1, "x", 1)],
        vec![link(1, "x", "/"), file(1, "x", 1)],
        vec![special("y"), special("x")],
        vec![dir(1, "x"), dir_end(2), dir(1, "x")],
        vec![dir(1, "y"), dir_end(2), dir(1, "x")],
        // What is no directory comes first.
        vec![dir(1, "x"), dir_end(2), special("y")],
        vec![dir(1, "x"), dir_end(2), file(1, "x", 1)],
    ] {
        assert_refused(&[vec![dir(0, "a")], items].concat(), "out of order, or a name twice");
    }
}

/// `item`, which is an entry, as the rival of one that is `first`.
fn rival(item: ListItem, first: Kind, is_same: bool) -> ListItem {
    let (ListItem::Entry { dir, entry }, ListItem::Entry { entry: other, .. }) =
        (item, entry(0, "x", first))
    else {
        unreachable!("both are entries")
    };
    let first = Entry { name: None, ..other };
    let fault = Fault::new(Side::Destination, FaultKind::NoSpace, "no\x1b[2J room");
    ListItem::Rival(Box::new(Rival { dir, entry, first, is_same, fault }))
}

#[test]
fn a_rival_keeps_the_rules_of_an_entry() {
    let of_file = |item| rival(item, Kind::File { size: 1 }, false);
    for item in [dir(0, "a"), nameless(0, Kind::Dir), entry(0, "a", Kind::Special)] {
        assert_refused(&[of_file(item)], "it listed a rival of an unknown entry");
    }
    assert_refused(&[of_file(nameless(0, Kind::File { size: 1 }))], "without a name");
    assert_refused(&[of_file(file(1, "x", 1))], "into a directory that is not open");
    let twice = [dir(0, "a"), file(1, "x", 1), of_file(file(1, "x", 1))];
    assert_refused(&twice, "out of order, or a name twice");
    let items = vec![of_file(file(0, "c", 1))];
    let attacked = send_to(Victim::Client, &["a", "b"], |_| {}, move |peer| peer.list(items));
    attacked.assert_refused("not requested");
}

#[test]
fn a_rival_changes_nothing_whatever_is_said_of_it() {
    for victim in RECEIVERS {
        let attacked = send_to(
            victim,
            &["a", "b"],
            |place| std::fs::write(place.dest("b"), "old").expect("written"),
            |peer| {
                let size = |size| Kind::File { size };
                peer.list(vec![dir(0, "a")]);
                peer.list(vec![
                    rival(file(1, "1", 1), size(2), false),
                    rival(file(1, "2", 1), size(1), false),
                    rival(file(1, "3", 1), size(2), true),
                    rival(file(1, "4", 1), Kind::Dir, false),
                    rival(file(1, "5", 1), Kind::Special, false),
                    rival(link(1, "6", "x"), Kind::Symlink { target: (*b"y").into() }, false),
                    rival(link(1, "7", "x"), Kind::Symlink { target: (*b"x").into() }, false),
                ]);
                peer.list(vec![dir_end(1), rival(file(0, "b", 1), size(2), false), dir_end(0)]);
            },
        );
        // A fault of the destination would end the job; it is not the peer's to tell.
        let summary = attacked.assert_done();
        assert_eq!((summary.copied, summary.skipped, summary.failed), (0, 3, 5));
        assert_eq!(attacked.place.read("b"), "old");
    }
}

#[test]
fn a_listing_goes_down_and_up_again_and_nowhere_else() {
    for items in [
        vec![file(1, "a", 1)],
        vec![file(u64::MAX, "a", 1)],
        vec![file(0, "a", 1), file(1, "x", 1)],
        vec![dir(0, "a"), dir_end(1), file(1, "x", 1)],
        // The directory below must be finished first.
        vec![dir(0, "a"), file(0, "b", 1)],
        vec![dir(0, "a"), dir(1, "x"), dir(1, "y")],
    ] {
        assert_refused(&items, "into a directory that is not open");
    }
    for items in [
        vec![dir_end(1)],
        vec![dir_end(u64::MAX)],
        vec![dir(0, "a"), dir_end(2)],
        vec![dir(0, "a"), dir_end(1), dir_end(1)],
        vec![dir(0, "a"), dir(1, "x"), dir_end(1)],
        vec![dir(0, "a"), dir_end(0)],
    ] {
        assert_refused(&items, "ended a directory that is not open");
    }
}

#[test]
fn the_end_of_everything_comes_once() {
    // The first file is still wanted, so that the job goes on.
    for more in [dir_end(0), file(0, "c", 1), dir(0, "c")] {
        assert_refused(&[file(0, "a", 1), file(0, "b", 1), dir_end(0), more], "that is not open");
    }
}

#[test]
fn a_tree_that_is_too_deep_is_refused() {
    for victim in RECEIVERS {
        let attacked = send_to(
            victim,
            &["a"],
            |_| {},
            |peer| {
                let levels = (0..MAX_DEPTH as u64 + 10)
                    .map(|level| dir(level, if level == 0 { "a" } else { "d" }));
                list_in_parts(peer, levels.collect());
            },
        );
        attacked.assert_refused("deeper than");
    }
}

#[test]
fn the_deepest_tree_with_the_longest_names_is_taken() {
    for victim in RECEIVERS {
        let depth = MAX_DEPTH as u64;
        let attacked = send_to(
            victim,
            &["a"],
            |_| {},
            move |peer| {
                let long = "n".repeat(haul_model::MAX_NAME_LEN);
                peer.list(vec![dir(0, "a")]);
                list_in_parts(peer, (1..depth).map(|level| dir(level, &long)).collect());
                peer.list(vec![file(depth, &long, 4)]);
                peer.await_wants([depth + 1]);
                peer.raw(&pack([packed(depth + 1, b"text")], b"text"));
                assert_eq!(peer.await_outcome(depth + 1), haul_engine::Outcome::Copied);
                list_in_parts(peer, (0..=depth).rev().map(dir_end).collect());
            },
        );
        let summary = attacked.assert_done();
        assert_eq!((summary.copied, summary.dirs_created, summary.failed), (1, depth, 0));
    }
}

#[test]
fn more_than_the_window_is_refused() {
    for victim in RECEIVERS {
        let attacked = send_to(
            victim,
            &["a"],
            |_| {},
            |peer| {
                peer.list(vec![dir(0, "a")]);
                let (mut open, mut listed) = (0, 0);
                // Each file is wanted and stays open, as it never comes. The script listens as
                // long as there is room, for the victim waits for that.
                while open < 2 * LIST_WINDOW {
                    let names = (listed..listed + 200).map(|n| format!("{n:0255}"));
                    let items: Vec<_> = names.map(|name| file(1, &name, 1)).collect();
                    open += items.iter().map(ListItem::cost).sum::<u64>();
                    listed += items.len();
                    peer.list(items);
                    if open < LIST_WINDOW {
                        peer.await_that("all are wanted", |peer| peer.wanted.len() == listed);
                    }
                }
            },
        );
        attacked.assert_refused("more than the window allows");
    }
}

#[test]
fn a_directory_where_something_else_stands_fails_with_all_below_it() {
    for victim in RECEIVERS {
        let attacked = send_to(
            victim,
            &["a", "b"],
            |place| {
                std::fs::write(place.dest("a"), "old").expect("written");
                std::os::unix::fs::symlink("../outside/dir", place.dest("b")).expect("linked");
            },
            |peer| {
                peer.list(vec![dir(0, "a"), file(1, "x", 1), dir(1, "y"), dir_end(3), dir_end(1)]);
                peer.list(vec![dir(0, "b"), file(4, "inside", 1), link(4, "l", "x")]);
                peer.list(vec![dir(4, "y"), dir_end(7), dir_end(4), dir_end(0)]);
            },
        );
        assert_eq!(attacked.assert_done().failed, 7);
        assert_eq!(attacked.fault(1).kind, FaultKind::NotDirectory);
        assert_eq!(attacked.fault(4).kind, FaultKind::Link);
        for below in [2, 3, 5, 6, 7] {
            assert_eq!(attacked.fault(below).kind, FaultKind::Parent);
        }
        assert_eq!(attacked.place.read("a"), "old");
    }
}

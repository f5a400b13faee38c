//! Owners that a peer tells: taken by their names, and only what may be given.

use crate::attack::{Attacked, bytes, serve};
use crate::peer::{TIME, dir, dir_end, name, pack, packed, receiving};
use crate::place::Place;
use haul_model::{Attributes, Entry, Kept, Kind, Moving, Policy, Task};
use haul_proto::{ACCOUNTS_MAX, Account, ListItem, NamedDest, Role};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// A number that no user and no group of any machine has.
const FREE: u32 = 3_000_000_001;
const ALSO_FREE: u32 = 3_000_000_002;
/// The numbers of the user `daemon` and the group of that name, on all systems.
const DAEMON: u32 = 1;

fn account(is_group: bool, number: u32, name: &[u8]) -> ListItem {
    ListItem::Account(Account { is_group, number, name: name.into() })
}

fn owned(text: &str, mode: u32, owner: Option<(u32, u32)>) -> ListItem {
    let (user, group) = owner.unzip();
    let attributes = Attributes { user, group, ..Attributes::new(mode, TIME) };
    let entry = Entry::new(Some(name(text)), Kind::File { size: 4 }, attributes);
    ListItem::Entry { dir: 0, entry }
}

/// An agent that receives what `items` list, by this policy.
fn sent(policy: Policy, items: Vec<ListItem>) -> Attacked {
    let place = Place::new();
    let dest = bytes(&place.dest(""));
    let count = items.iter().filter(|item| matches!(item, ListItem::Entry { .. })).count();
    serve(place, move |peer| {
        let role = receiving(dest, true);
        peer.ask_for(Task::Copy(policy), role);
        peer.list(items);
        peer.list(vec![dir_end(0)]);
        for index in 1..=count as u64 {
            peer.await_wants([index]);
            peer.raw(&pack([packed(index, b"text")], b"text"));
        }
    })
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

#[test]
fn users_and_groups_go_by_their_names_and_root_stays_root() {
    if !is_root() {
        return;
    }
    let keeps = Kept::OF_ARCHIVES;
    for numeric_ids in [false, true] {
        let policy = Policy { keeps, numeric_ids, ..Policy::default() };
        let attacked = sent(
            policy,
            vec![
                account(false, FREE, b"daemon"),
                account(true, FREE, b"daemon"),
                account(false, ALSO_FREE, b"nobody knows \xff"),
                // A name doesn't give away what is root's, nor the other way round.
                account(false, 0, b"daemon"),
                owned("a", 0o4755, Some((FREE, FREE))),
                owned("b", 0o6750, Some((ALSO_FREE, ALSO_FREE))),
                owned("c", 0o644, Some((0, 0))),
                // Of this nobody knows whose rights it lends.
                owned("d", 0o6755, None),
            ],
        );
        attacked.assert_done();
        let found = ["a", "b", "c", "d"].map(|name| {
            let meta = fs::metadata(attacked.place.dest(name)).expect("there");
            (meta.uid(), meta.gid(), meta.mode() & 0o7777)
        });
        let named = if numeric_ids { FREE } else { DAEMON };
        let expected =
            [(named, named, 0o4755), (ALSO_FREE, ALSO_FREE, 0o6750), (0, 0, 0o644), (0, 0, 0o755)];
        assert_eq!(found, expected, "numbers: {numeric_ids}");
    }
}

#[test]
fn owners_that_nobody_asked_for_are_not_given() {
    let attacked = sent(
        Policy::default(),
        vec![account(false, FREE, b"daemon"), owned("a", 0o4755, Some((FREE, FREE)))],
    );
    attacked.assert_done();
    let meta = fs::metadata(attacked.place.dest("a")).expect("there");
    let own = fs::metadata("/proc/self").expect("there").uid();
    assert_eq!((meta.uid(), meta.mode() & 0o7777), (own, 0o755));
}

#[test]
fn a_peer_that_names_users_without_end_is_left() {
    let policy = Policy { keeps: Kept::OF_ARCHIVES, ..Policy::default() };
    let place = Place::new();
    let dest = bytes(&place.dest(""));
    let attacked = serve(place, move |peer| {
        let role = receiving(dest, true);
        peer.ask_for(Task::Copy(policy), role);
        let numbers: Vec<u32> = (1..ACCOUNTS_MAX as u32 + 300).collect();
        for some in numbers.chunks(256) {
            peer.list(some.iter().map(|number| account(false, *number, b"root")).collect());
        }
    });
    attacked.assert_refused("it named more users and groups than it may");
}

#[test]
fn who_moves_is_reported_first_and_once_and_in_a_move_that_loses_nothing() {
    let moving = |moving| {
        let moving: Option<Moving> = moving;
        let keeps = moving.map_or(Kept::OF_COPIES, Moving::keeps);
        Policy { keeps, moving, ..Policy::default() }
    };
    let mover = || ListItem::Mover { user: FREE, group: FREE };
    for (policy, items) in [
        (moving(None), vec![mover()]),
        (moving(Some(Moving::Lossy)), vec![mover()]),
        (moving(Some(Moving::Whole)), vec![mover(), mover()]),
        (moving(Some(Moving::Whole)), vec![dir(0, "d"), mover()]),
    ] {
        let place = Place::new();
        let dest = bytes(&place.dest(""));
        let attacked = serve(place, move |peer| {
            let (bases, backup) = (Vec::new(), None);
            let role = Role::Receiver {
                dest: NamedDest { into_dir: true, bases, backup, ..NamedDest::at(dest) },
                asked: None,
            };
            peer.ask_for(Task::Copy(policy), role);
            peer.list(items);
        });
        attacked.assert_refused("it named who moves the sources where that is not expected");
    }
}

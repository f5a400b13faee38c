//! Agents that tell more, or less, of sources than the rules about the walk allow.

use crate::attack::{Attacked, run_client};
use crate::peer::{dir, dir_end, file};
use crate::place::Place;
use haul_engine::{Job, Placement};
use haul_model::{Delete, Mirror, Missing, Name, Policy, Task, Walking};
use haul_proto::ListItem;
use std::fs;

/// Lists `items` to a client that mirrors `a` and `b` by these rules, and has both.
fn list_to(walking: Walking, items: Vec<ListItem>) -> Attacked {
    let place = Place::new();
    fs::create_dir_all(place.dest("a")).expect("made");
    fs::write(place.dest("a/own"), "own").expect("written");
    fs::write(place.dest("b"), "own").expect("written");
    let mirror =
        Mirror { delete: Some(Delete::default()), makes_way: true, walking, ..Mirror::default() };
    let job = Job {
        sources: vec![b"a".to_vec(), b"b".to_vec()],
        dest: place.dest("").into_os_string().into_encoded_bytes(),
        into_dir: true,
        recursive: true,
        task: Task::Sync(Policy::default(), mirror),
        ..Job::default()
    };
    run_client(place, job, Placement::Download, move |peer| {
        peer.answer();
        peer.list(items);
    })
}

fn missing(name: &str) -> ListItem {
    ListItem::Missing(Name::new(name.as_bytes()).expect("a name"))
}

#[test]
fn only_missing_sources_are_removed_and_only_if_that_is_asked_for() {
    let removes = Walking { missing: Missing::Removed, ..Walking::default() };
    for (walking, items, rule) in [
        (Walking::default(), vec![missing("b")], "where that is a fault"),
        (removes, vec![missing("c")], "a name that was not asked for"),
        (removes, vec![missing("b"), missing("b")], "a name that was not asked for"),
        (removes, vec![dir(0, "a"), missing("b")], "into a directory that is not open"),
    ] {
        let attacked = list_to(walking, items);
        attacked.assert_refused(rule);
        assert!(attacked.place.has("a/own"));
    }
    let attacked = list_to(removes, vec![missing("b"), dir_end(0)]);
    attacked.assert_done();
    assert!(attacked.place.has("a/own") && !attacked.place.has("b"));
}

#[test]
fn sources_may_be_passed_over_only_if_that_is_asked_for() {
    let passes = Walking { missing: Missing::PassedOver, ..Walking::default() };
    list_to(passes, vec![dir_end(0)]).assert_done();
    let prunes = Walking { prunes_empty: true, ..Walking::default() };
    list_to(prunes, vec![dir_end(0)]).assert_done();
    list_to(Walking::default(), vec![dir_end(0)]).assert_refused("all that was asked for");
}

#[test]
fn what_is_closed_keeps_what_is_in_it_and_gets_nothing() {
    let alone = Walking { only_dirs: true, missing: Missing::PassedOver, ..Walking::default() };
    let closed = |dir| ListItem::Closed { dir };
    let attacked = list_to(alone, vec![dir(0, "a"), closed(1), dir_end(1), dir_end(0)]);
    attacked.assert_done();
    assert!(attacked.place.has("a/own"));
    for (items, rule) in [
        (vec![closed(0)], "where that is of no matter"),
        (vec![closed(1)], "into a directory that is not open"),
        (vec![dir(0, "a"), dir(1, "d"), file(2, "x", 4)], "that was to come without"),
    ] {
        list_to(alone, items).assert_refused(rule);
    }
}

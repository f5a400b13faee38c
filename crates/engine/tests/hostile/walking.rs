//! Agents that tell more, or less, of sources than the rules about the walk allow.

use crate::attack::{Attacked, run_client};
use crate::peer::{dir, dir_end, entry, file, link};
use crate::place::Place;
use haul_engine::{Job, Placement};
use haul_model::{Delete, Kind, Mirror, Missing, Name, Policy, Relative, Task, Walking};
use haul_proto::{ListItem, NamedDest, NamedSources};
use std::fs;

/// Lists `items` to a client that mirrors `a` and `b` by these rules, and has both.
fn list_to(walking: Walking, items: Vec<ListItem>) -> Attacked {
    list_of(&["a", "b"], walking, items)
}

/// The same to one that mirrors these sources.
fn list_of(sources: &[&str], walking: Walking, items: Vec<ListItem>) -> Attacked {
    let place = Place::new();
    fs::create_dir_all(place.dest("a")).expect("made");
    fs::write(place.dest("a/own"), "own").expect("written");
    fs::write(place.dest("b"), "own").expect("written");
    let mirror = Mirror {
        delete: Some(Delete::default()),
        replaces_dirs: true,
        walking,
        ..Mirror::default()
    };
    let job = Job {
        sources: NamedSources {
            recursive: true,
            ..NamedSources::at(sources.iter().map(|source| source.as_bytes().to_vec()).collect())
        },
        dest: NamedDest {
            into_dir: true,
            ..NamedDest::at(place.dest("").into_os_string().into_encoded_bytes())
        },
        task: Task::Sync(Policy::default(), mirror),
        ..Job::default()
    };
    run_client(place, job, Placement::download, move |peer| {
        peer.answer();
        peer.list(items);
    })
}

fn missing(name: &str) -> ListItem {
    let name = Name::new(name.as_bytes()).expect("a name");
    ListItem::Missing { dir: 0, name }
}

#[test]
fn only_missing_sources_are_removed_and_only_if_that_is_asked_for() {
    let removes = Walking { missing: Missing::Removed, ..Walking::default() };
    for (walking, items, rule) in [
        (Walking::default(), vec![missing("b")], "it reported a missing source unexpectedly"),
        (removes, vec![missing("c")], "a name that was not requested"),
        (removes, vec![missing("b"), missing("b")], "a name that was not requested"),
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
    let passes = Walking { missing: Missing::Ignored, ..Walking::default() };
    list_to(passes, vec![dir_end(0)]).assert_done();
    let prunes = Walking { prunes_empty: true, ..Walking::default() };
    list_to(prunes, vec![dir_end(0)]).assert_done();
    list_to(Walking::default(), vec![dir_end(0)]).assert_refused("the listing too early");
}

#[test]
fn what_is_closed_keeps_what_is_in_it_and_gets_nothing() {
    let alone = Walking { only_dirs: true, missing: Missing::Ignored, ..Walking::default() };
    let closed = |dir| ListItem::Closed { dir };
    let attacked = list_to(alone, vec![dir(0, "a"), closed(1), dir_end(1), dir_end(0)]);
    attacked.assert_done();
    assert!(attacked.place.has("a/own"));
    for (items, rule) in [
        (vec![closed(0)], "it closed a directory unexpectedly"),
        (vec![closed(1)], "into a directory that is not open"),
        (
            vec![dir(0, "a"), dir(1, "d"), file(2, "x", 4)],
            "it listed the content of a directory that was requested without it",
        ),
    ] {
        list_to(alone, items).assert_refused(rule);
    }
}

/// A directory that is on the way to a source.
fn way(dir: u64, name: &str) -> ListItem {
    match entry(dir, name, Kind::Dir) {
        ListItem::Entry { dir, entry } => {
            ListItem::Entry { dir, entry: haul_model::Entry { is_implied_dir: true, ..entry } }
        }
        _ => unreachable!("it is an entry"),
    }
}

#[test]
fn only_places_of_sources_and_the_ways_to_them_are_taken() {
    let relative = Walking { relative: Relative::Yes, ..Walking::default() };
    let sources = ["x/./a/c", "a/d/e/"];
    for (items, rule) in [
        (vec![file(0, "a", 1)], "not requested"),
        (vec![dir(0, "b")], "not requested"),
        (vec![dir(0, "c")], "not requested"),
        (vec![dir(0, "a"), file(1, "b", 1)], "not requested"),
        (vec![dir(0, "a"), dir(1, "b")], "not requested"),
        (vec![dir(0, "a"), file(1, "d", 1)], "not requested"),
        (vec![dir(0, "a"), dir(1, "d"), link(2, "e", "/")], "not requested"),
        (vec![dir(0, "a"), dir(1, "d"), file(2, "x", 1)], "not requested"),
        (vec![dir(0, "a"), dir_end(1), dir(0, "a")], "or a name twice"),
        (vec![dir(0, "a"), way(1, "c")], "it reported nothing about a source"),
        (vec![dir(0, "a"), dir_end(1), dir_end(0)], "the listing too early"),
    ] {
        list_of(&sources, relative, items).assert_refused(rule);
    }
}

#[test]
fn nothing_is_removed_on_the_way_to_a_source_whatever_the_peer_leaves_unsaid() {
    for relative in [Relative::Yes, Relative::WithoutImplied] {
        let walking = Walking { relative, missing: Missing::Ignored, ..Walking::default() };
        let on_way = || if relative == Relative::Yes { dir(0, "a") } else { way(0, "a") };
        let attacked = list_of(&["a/c"], walking, vec![on_way(), dir_end(1), dir_end(0)]);
        attacked.assert_done();
        assert!(attacked.place.has("a/own") && attacked.place.has("b"));
    }
    let walking =
        Walking { relative: Relative::Yes, missing: Missing::Ignored, ..Walking::default() };
    let root = ListItem::Entry {
        dir: 0,
        entry: match dir(0, "x") {
            ListItem::Entry { entry, .. } => haul_model::Entry { name: None, ..entry },
            _ => unreachable!("it is an entry"),
        },
    };
    let attacked = list_of(&["./a/c"], walking, vec![root.clone(), dir_end(1), dir_end(0)]);
    attacked.assert_done();
    assert!(attacked.place.has("a/own") && attacked.place.has("b"));
    list_of(&["a/c"], walking, vec![root]).assert_refused("not requested");
    let alone = Walking { only_dirs: true, missing: Missing::Ignored, ..Walking::default() };
    let attacked = list_to(alone, vec![dir(0, "a"), dir_end(1), dir_end(0)]);
    attacked.assert_done();
    assert!(attacked.place.has("a/own"));
}

#[test]
fn a_place_of_several_sources_is_reported_once() {
    for items in [
        vec![dir(0, "a"), dir_end(1), dir(0, "a")],
        vec![file(0, "b", 1), dir(0, "b")].into_iter().chain([dir_end(2), dir(0, "b")]).collect(),
    ] {
        let sources = ["x/a", "y/a", "x/b", "y/b"];
        list_of(&sources, Walking::default(), items).assert_refused("not requested");
    }
    let items = vec![link(0, "b", "x"), dir(0, "a"), dir_end(2), dir_end(0)];
    let attacked = list_of(&["x/a", "y/a", "b"], Walking::default(), items);
    attacked.assert_done();
    assert!(!attacked.place.has("a/own"));
}

#[test]
fn a_link_of_the_destination_leads_a_peer_nowhere_whether_links_are_kept_or_not() {
    for keeps_dir_links in [false, true] {
        let place = Place::new();
        fs::create_dir_all(place.dest("a")).expect("made");
        std::os::unix::fs::symlink(place.outside("dir"), place.dest("a/whole")).expect("linked");
        std::os::unix::fs::symlink("../../outside/dir", place.dest("a/up")).expect("linked");
        let mirror =
            Mirror { replaces_dirs: true, keeps_dir_links, links: true, ..Mirror::default() };
        let job = Job {
            sources: NamedSources { recursive: true, ..NamedSources::at(vec![b"a".to_vec()]) },
            dest: NamedDest {
                into_dir: true,
                ..NamedDest::at(place.dest("").into_os_string().into_encoded_bytes())
            },
            task: Task::Sync(Policy::default(), mirror),
            ..Job::default()
        };
        let items = vec![
            dir(0, "a"),
            link(1, "planted", "../../outside/dir"),
            dir(1, "up"),
            link(3, "l", "/"),
            dir_end(3),
            dir(1, "whole"),
            link(5, "l", "/"),
            dir_end(5),
            dir_end(1),
            dir_end(0),
        ];
        let attacked = run_client(place, job, Placement::download, move |peer| {
            peer.answer();
            peer.list(items);
        });
        attacked.place.check();
        assert_eq!(attacked.place.has("a/up/l"), !keeps_dir_links);
        assert_eq!(attacked.place.has("a/whole/l"), !keeps_dir_links);
    }
}

//! Tests of the plan without threads, and of the end of the threads.

use super::plan::{BATCH_DIRS_MAX, DIRS_MAX, DirState, ENTRIES_MAX, Plan};
use super::*;
use crate::{Attrs, Options, Session};
use haul_model::Name;
use haul_net::Connection;
use haul_testkit::{OddSftp, Oddities, TempDir};
use std::time::{Duration, Instant};

fn add(plan: &mut Plan, paths: &[&str]) {
    plan.add(paths.iter().map(|path| Arc::from(path.as_bytes())).collect());
}

fn add_many(plan: &mut Plan, name: &str, count: usize) {
    plan.add((0..count).map(|n| Arc::from(format!("{name}/{n}").into_bytes())).collect());
}

fn text(path: &[u8]) -> String {
    String::from_utf8(path.to_vec()).unwrap()
}

/// A listing with `entries` entries.
fn listing(entries: usize) -> Result<Vec<DirEntry>> {
    let entry = DirEntry { name: Name::new(b"x").unwrap(), attrs: Attrs::default() };
    Ok(vec![entry; entries])
}

/// Lists the next directory, with `entries` entries.
fn list_next(plan: &mut Plan, entries: usize) -> Option<String> {
    let begun = plan.begin()?;
    plan.finish(&begun, Some(listing(entries)));
    Some(text(&begun))
}

fn taken(plan: &mut Plan, path: &str) -> Option<usize> {
    match plan.take(path.as_bytes()) {
        DirState::Listed(listed) => Some(listed.unwrap().len()),
        DirState::InProgress | DirState::Queued => None,
    }
}

#[test]
fn long_names_count_more_than_once() {
    let entry =
        |len| DirEntry { name: Name::new(&vec![b'x'; len]).unwrap(), attrs: Attrs::default() };
    let weights = [1, 63, 64, 255].map(|len| entry(len).weight());
    assert_eq!(weights, [1, 1, 2, 4]);
}

#[test]
fn the_latest_batch_comes_first_in_its_order() {
    let mut plan = Plan::default();
    add(&mut plan, &["a", "b", "c"]);
    assert_eq!(list_next(&mut plan, 1).as_deref(), Some("a"));
    add(&mut plan, &["a/x", "a/y"]);
    // A directory that is queued again moves ahead, and is listed once.
    add(&mut plan, &["c"]);
    let order: Vec<_> = std::iter::from_fn(|| list_next(&mut plan, 1)).collect();
    assert_eq!(order, ["c", "a/x", "a/y", "b"]);
    for path in ["a", "b", "c", "a/x", "a/y"] {
        assert_eq!(taken(&mut plan, path), Some(1), "{path}");
        // A listing can be taken only once.
        assert_eq!(taken(&mut plan, path), None, "{path}");
    }
    assert_eq!(plan.queued(), 0);
}

#[test]
fn a_queued_directory_is_left_to_its_caller() {
    let mut plan = Plan::default();
    add(&mut plan, &["a", "b", "c", "d"]);
    assert!(matches!(plan.take(b"b"), DirState::Queued));
    assert!(matches!(plan.take(b"c"), DirState::Queued));
    let a = plan.begin().unwrap();
    assert!(matches!(plan.take(b"a"), DirState::InProgress));
    assert_eq!(list_next(&mut plan, 1).as_deref(), Some("d"));
    assert!(plan.begin().is_none());
    plan.finish(&a, Some(listing(3)));
    assert_eq!(taken(&mut plan, "a"), Some(3));
    // A failed listing, as when a thread panics, delays no caller.
    add(&mut plan, &["e"]);
    let e = plan.begin().unwrap();
    plan.finish(&e, None);
    assert!(matches!(plan.take(b"e"), DirState::Queued));
}

#[test]
fn a_taken_listing_frees_its_room() {
    let mut plan = Plan::default();
    for round in 0..2 * DIRS_MAX {
        let name = format!("{round}");
        add(&mut plan, &[&name]);
        assert_eq!(list_next(&mut plan, 1000), Some(name.clone()), "no room");
        assert_eq!(taken(&mut plan, &name), Some(1000));
        assert!(matches!(plan.take(name.as_bytes()), DirState::Queued));
    }
    assert!(plan.is_empty());
}

#[test]
fn a_batch_leaves_room_for_directories_needed_first() {
    let mut plan = Plan::default();
    add_many(&mut plan, "wide", 1000);
    let count = std::iter::from_fn(|| list_next(&mut plan, 1)).count();
    assert_eq!(count, BATCH_DIRS_MAX);
    add_many(&mut plan, "deep", 1000);
    let count = std::iter::from_fn(|| list_next(&mut plan, 1)).count();
    assert_eq!(count, BATCH_DIRS_MAX);
    assert_eq!(taken(&mut plan, "wide/0"), Some(1));
    assert_eq!(list_next(&mut plan, 1), Some(format!("wide/{BATCH_DIRS_MAX}")));
    assert_eq!(taken(&mut plan, "deep/0"), Some(1));
    assert_eq!(list_next(&mut plan, 1), Some(format!("deep/{BATCH_DIRS_MAX}")));
}

#[test]
fn the_plan_is_bounded_as_a_whole() {
    for (entries, dirs_expected) in [(1, DIRS_MAX), (1000, ENTRIES_MAX.div_ceil(1000))] {
        let mut plan = Plan::default();
        let mut listed = Vec::new();
        for batch in 0..200 {
            add_many(&mut plan, &format!("{batch}"), 1000);
            listed.extend(std::iter::from_fn(|| list_next(&mut plan, entries)));
        }
        assert_eq!(listed.len(), dirs_expected);
        assert!(taken(&mut plan, listed.last().unwrap()).is_some());
        assert!(list_next(&mut plan, entries).is_some());
        assert!(list_next(&mut plan, entries).is_none());
    }
}

#[test]
fn a_walk_leaves_nothing_behind() {
    let mut plan = Plan::default();
    let mut to_visit = vec!["root".to_owned()];
    let mut visited = 0;
    while let Some(dir) = to_visit.pop() {
        visited += 1;
        // The threads and the walk take the lead by turns.
        if visited % 3 > 0 {
            list_next(&mut plan, 1);
        }
        let _ = plan.take(dir.as_bytes());
        let depth = dir.matches('/').count();
        if depth < 5 {
            let below: Vec<_> = (0..4).map(|n| format!("{dir}/{n}")).collect();
            add(&mut plan, &below.iter().map(String::as_str).collect::<Vec<_>>());
            to_visit.extend(below.into_iter().rev());
        }
    }
    assert_eq!(visited, (0..6).map(|depth| 4_usize.pow(depth)).sum::<usize>());
    assert!(plan.begin().is_none());
    assert!(plan.is_empty());
}

#[test]
fn the_threads_end_with_the_lister() {
    let dir = TempDir::new().unwrap();
    let (_server, from, to) = OddSftp::serve(dir.path(), Oddities::default()).unwrap();
    let connection = Connection::from_parts(from, to);
    let session = Session::start(connection, Options::default()).unwrap();
    let lister = Lister::new(session.client(), 100);
    let threads = |lister: &Lister| Arc::strong_count(&lister.0) - 1;
    assert_eq!(threads(&lister), 0);
    lister.ahead([b".".to_vec()]);
    assert_eq!(threads(&lister), 1);
    lister.ahead((0..50).map(|n| format!("none-{n}").into_bytes()));
    assert_eq!(threads(&lister), THREADS_MAX);
    assert!(lister.list(b".").unwrap().is_empty());
    let shared = Arc::downgrade(&lister.0);
    drop(lister);
    let start = Instant::now();
    while shared.strong_count() > 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "{} threads", shared.strong_count());
        thread::sleep(Duration::from_millis(1));
    }
}

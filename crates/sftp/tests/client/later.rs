//! Answers that are taken later.

use crate::servers::{odd, odd_with, with_each};
use haul_sftp::{Attrs, Cause, Options, PendingAnswer, SessionError, StatusCode, Times};
use haul_testkit::{Fault, Oddities};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread;

#[test]
fn directories_are_made_and_set_together() {
    with_each(|bench| {
        let client = bench.client();
        let path = |n: u32| bench.path(&format!("dir-{n}"));
        let made: Vec<PendingAnswer> =
            (0..50).map(|n| client.make_dir_later(&path(n), 0o700)).collect();
        // In any order, from any thread, more than once.
        thread::scope(|scope| {
            for part in [&made[..], &made[20..]] {
                scope.spawn(|| part.iter().rev().for_each(|later| later.wait().unwrap()));
            }
        });
        let set: Vec<PendingAnswer> = (0..50)
            .map(|n| {
                let times = Some(Times { accessed: 1, modified: 1000 + n });
                client.set_attrs_later(
                    &path(n),
                    Attrs { mode: Some(0o750), times, ..Attrs::default() },
                )
            })
            .collect();
        set.iter().for_each(|later| later.wait().unwrap());
        for n in 0..50 {
            let meta = fs::metadata(bench.local(&format!("dir-{n}"))).unwrap();
            assert_eq!((meta.mode() & 0o7777, meta.mtime()), (0o750, 1000 + i64::from(n)));
        }
        // The requests of both kinds share their way; those of one kind too.
        if bench.name == "reversed" {
            assert!(bench.odd_server().max_pending() >= 5);
        }
    });
}

#[test]
fn each_answer_finds_who_wants_it() {
    let bench = odd("reversed", Oddities { reversed: true, ..Oddities::default() });
    let client = bench.client();
    fs::create_dir(bench.local("taken")).unwrap();
    let taken = client.make_dir_later(&bench.path("taken"), 0o700);
    let missing = client.make_dir_later(&bench.path("none/x"), 0o700);
    let good = client.make_dir_later(&bench.path("good"), 0o700);
    let unsent = client.set_attrs_later(b"a\0b", Attrs::default());
    assert_eq!(taken.wait().unwrap_err().status(), Some(StatusCode::Failure));
    let error = missing.clone().wait().unwrap_err();
    assert_eq!(error.status(), Some(StatusCode::NoSuchFile));
    assert!(error.to_string().starts_with("can't create the directory '"), "{error}");
    assert_eq!(missing.wait().unwrap_err().to_string(), error.to_string());
    good.wait().unwrap();
    assert!(matches!(unsent.wait().unwrap_err().cause, Cause::Path(_)));
}

#[test]
fn answers_that_nobody_takes_cost_no_room() {
    let options = Options { requests_max: 4, ..Options::default() };
    let bench = odd_with("narrow", Oddities::default(), options);
    for n in 0..50 {
        drop(bench.client().make_dir_later(&bench.path(&format!("dir-{n}")), 0o700));
    }
    bench.client().stat(&bench.path("dir-49")).unwrap();
    assert_eq!(fs::read_dir(bench.dir.path()).unwrap().count(), 50);
}

#[test]
fn the_end_of_the_session_is_reported_to_all_who_wait() {
    let bench = odd("dying", Oddities { fault: Some((3, Fault::Die)), ..Oddities::default() });
    let ask = |n| bench.client().make_dir_later(&bench.path(&format!("dir-{n}")), 0o700);
    let laters: Vec<PendingAnswer> = (0..10).map(ask).collect();
    let waiting = || laters.iter().map(|later| later.wait().is_ok()).collect::<Vec<_>>();
    thread::scope(|scope| {
        let (one, two) = (scope.spawn(waiting), scope.spawn(waiting));
        let (one, two) = (one.join().unwrap(), two.join().unwrap());
        assert!(one == two && !one[3..].contains(&true), "{one:?} {two:?}");
    });
    let error = ask(11).wait().unwrap_err();
    assert!(matches!(error.session(), Some(SessionError::Closed)), "{error}");
}

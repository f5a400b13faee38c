//! Listings by servers that do what no server does.

use crate::servers::{Bench, odd, odd_with};
use haul_sftp::{Cause, Lister, Options, SessionError};
use haul_testkit::{Fault, Listing, Oddities};
use std::fs;
use std::thread;
use std::time::Duration;

fn listing(listing: Listing) -> Bench {
    let bench = odd("listing", Oddities { listing, ..Oddities::default() });
    (0..10).for_each(|n| fs::write(bench.local(&format!("f{n}")), "x").unwrap());
    bench
}

/// That nothing is left in flight, and the session is as it was.
fn should_continue(bench: &Bench) {
    bench.client().stat(&bench.path("f1")).unwrap();
    // What was opened is closed.
    let count = |kind| bench.odd_server().asked().iter().filter(|asked| **asked == kind).count();
    assert_eq!(count(11), count(4));
}

#[test]
fn a_listing_without_end_is_stopped() {
    let bench = listing(Listing::Endless(b"."));
    let lister = Lister::new(bench.client(), 2);
    lister.ahead([bench.path("")]);
    let error = lister.list(&bench.path("")).unwrap_err();
    assert!(matches!(error.cause, Cause::TooManyEntries(_)), "{error}");
    should_continue(&bench);
    // No more was asked for than it took, and what was in flight.
    let asked = bench.odd_server().asked().iter().filter(|kind| **kind == 12).count();
    assert!((400..450).contains(&asked), "{asked}");
}

#[test]
fn an_entry_that_cannot_be_is_reported() {
    let long = &[b'x'; 256];
    for name in [&b"a/b"[..], b"", b"a\0", b"/etc/passwd", b"../x", long] {
        let bench = listing(Listing::And(name));
        let error = bench.client().list(&bench.path("")).unwrap_err();
        assert!(matches!(error.cause, Cause::EntryName(_)), "{name:?}: {error}");
        should_continue(&bench);
    }
    // An entry that is listed and gone, or never was, is the caller's to see.
    let bench = listing(Listing::And(b"ghost"));
    assert_eq!(bench.client().list(&bench.path("")).unwrap().len(), 11);
}

#[test]
fn an_answer_without_names_is_the_end() {
    let bench = listing(Listing::EndsEmpty);
    assert_eq!(bench.client().list(&bench.path("")).unwrap().len(), 10);
    should_continue(&bench);
}

#[test]
fn a_part_that_is_refused_fails_the_listing() {
    // Request 0 opens; then parts are asked for, two at first.
    for at in 1..6 {
        let fault = Some((at, Fault::Deny));
        let bench = odd("refusing", Oddities { fault, ..Oddities::default() });
        (0..10).for_each(|n| fs::write(bench.local(&format!("f{n}")), "x").unwrap());
        let error = bench.client().list(&bench.path("")).unwrap_err();
        assert!(error.to_string().starts_with("can't list '"), "{error}");
        assert_eq!(bench.client().list(&bench.path("")).unwrap().len(), 10);
        should_continue(&bench);
    }
}

#[test]
fn parts_that_are_answered_late_are_waited_for() {
    for at in 1..4 {
        let fault = Some((at, Fault::Late));
        let bench = odd("late", Oddities { fault, ..Oddities::default() });
        (0..10).for_each(|n| fs::write(bench.local(&format!("f{n}")), "x").unwrap());
        assert_eq!(bench.client().list(&bench.path("")).unwrap().len(), 10, "{at}");
        should_continue(&bench);
    }
}

#[test]
fn a_directory_that_is_made_late_holds_up_nobody_else() {
    let bench = odd("late", Oddities { fault: Some((0, Fault::Late)), ..Oddities::default() });
    let made = bench.client().make_dir_later(&bench.path("d"), 0o700);
    let waiting = {
        let made = made.clone();
        thread::spawn(move || made.wait())
    };
    thread::sleep(Duration::from_millis(30));
    assert!(!waiting.is_finished());
    bench.client().stat(&bench.path("d")).unwrap();
    waiting.join().unwrap().unwrap();
    made.wait().unwrap();
}

#[test]
fn a_server_that_falls_silent_ends_the_wait_for_what_is_listed_ahead() {
    let silence_max = Duration::from_millis(300);
    let options = Options { silence_max: Some(silence_max), ..Options::default() };
    let stalled = Oddities { fault: Some((2, Fault::Stall)), ..Oddities::default() };
    let bench = odd_with("stalling", stalled, options);
    let lister = Lister::new(bench.client(), 4);
    let paths: Vec<_> = (0..10).map(|_| bench.path("")).collect();
    lister.ahead(paths.clone());
    for path in paths {
        let error = lister.list(&path).unwrap_err();
        assert!(matches!(error.session(), Some(SessionError::Silent { .. })), "{error}");
    }
}

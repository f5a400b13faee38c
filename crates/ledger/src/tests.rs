//! Runs of a job that are lost, and the events of the next one.

use super::*;
use haul_model::{Fault, FaultKind, Kept, Mirror, Part, Policy, Relative, Side, Task, Walking};

const FILE: Kind = Kind::File { size: 1 };
const SAME: Outcome = Outcome::Skipped(Skip::Unchanged);

fn place(path: &str) -> Position {
    let is_dir = path.ends_with('/');
    let path = path.trim_end_matches('/').as_bytes().to_vec();
    Position { source: 1, path, is_dir, is_rival: false }
}

fn report_log() -> ReportLog {
    let report_log = ReportLog::default();
    report_log.keep(&Task::Copy(Policy { keeps: Kept::TIMES, ..Policy::default() }), &[], None);
    report_log
}

/// Lists entries, of which those with a bang have the outcome at once.
fn run(report_log: &ReportLog, entries: &[&str], outcome: &Outcome) -> Vec<String> {
    let mut heard = Vec::new();
    for (number, entry) in (1..).zip(entries) {
        let path = entry.trim_end_matches('!');
        report_log.listed(number, |last| *last = place(path));
        let kind = if path.ends_with('/') { Kind::Dir } else { FILE };
        let bytes = || place(path).path;
        if entry.ends_with('!')
            && let Some(outcome) = report_log.outcome(number, bytes, &kind, outcome)
        {
            heard.push(format!("{path} {outcome:?}"));
        }
    }
    heard
}

#[test]
fn the_order_is_that_of_the_walk() {
    let walk = ["t/", "t/b", "t/c.d", "t/a/", "t/a/z", "t/a/a/", "t/a.b/", "t/a.b/x", "t/b.c/"];
    for (at, one) in walk.iter().enumerate() {
        for (other_at, other) in walk.iter().enumerate() {
            assert_eq!(place(one).is_after(&place(other)), at > other_at, "{one} {other}");
        }
    }
    assert!(Position { source: 2, ..place("a/") }.is_after(&place("t/a.b/x")));
}

#[test]
fn what_goes_right_into_the_destination_comes_behind_that() {
    for name in ["a", "z/", "-"] {
        assert!(place(name).is_after(&place("./")) && !place("./").is_after(&place(name)));
    }
    assert_eq!(Keys::of_path(b"a").above, key(b"."));
    let report_log = report_log();
    run(&report_log, &["./"], &SAME);
    assert!(report_log.begin_rerun());
    assert_eq!(run(&report_log, &["./!", "a!"], &Outcome::Copied), ["./ Copied", "a Copied"]);
}

#[test]
fn what_was_reported_is_not_reported_again_and_what_was_lost_is() {
    let report_log = report_log();
    let first = run(&report_log, &["t/!", "t/a!", "t/b", "t/c!", "t/d/"], &Outcome::Copied);
    assert_eq!(first.len(), 3);
    assert!(report_log.begin_rerun());
    let begin_rerun = ["t/!", "t/a!", "t/b!", "t/c!", "t/d/!", "t/d/e!"];
    let reported_now = run(&report_log, &begin_rerun, &SAME);
    // The directory is of this job, and what was in it.
    let expected = ["t/b Copied", "t/d/ Copied", "t/d/e Skipped(Unchanged)"];
    assert_eq!(reported_now, expected);
}

#[test]
fn the_key_of_what_is_above_is_that_of_the_directory() {
    for (path, above) in [("t/a", "t"), ("t/sub/a", "t/sub"), ("t/a long name/b", "t/a long name")]
    {
        assert_eq!(Keys::of_path(path.as_bytes()).above, key(above.as_bytes()), "{path}");
        assert_ne!(key(path.as_bytes()), key(above.as_bytes()), "{path}");
    }
}

#[test]
fn of_two_with_one_place_the_first_was_asked_for() {
    let report_log = report_log();
    run(&report_log, &["a", "a"], &SAME);
    report_log.wanted(1);
    assert!(report_log.begin_rerun());
    run(&report_log, &["a", "a"], &SAME);
    assert!(report_log.is_doubtful(1) && !report_log.is_doubtful(2));
    let outcome = |number| report_log.outcome(number, || b"a".to_vec(), &FILE, &SAME);
    assert_eq!([outcome(1), outcome(2)], [Some(Outcome::Copied), Some(SAME)]);
    assert!(report_log.begin_rerun());
    assert_eq!(run(&report_log, &["a!", "a!"], &SAME), [""; 0]);
}

#[test]
fn of_sources_that_share_a_place_each_is_reported_once() {
    let other = |source, is_rival| Position { source, is_rival, ..place("a") };
    // Of a mirror all sources are walked as one.
    for places in [[other(1, false), other(2, true)], [other(0, false), other(0, true)]] {
        for first_reported in [1, 2] {
            let report_log = report_log();
            let list = || {
                for (number, place) in (1..).zip(&places) {
                    report_log.listed(number, |last| last.clone_from(place));
                }
            };
            let outcome = |number| report_log.outcome(number, || b"a".to_vec(), &FILE, &SAME);
            list();
            assert_eq!(outcome(first_reported), Some(SAME));
            assert!(report_log.begin_rerun());
            list();
            let lost = 3 - first_reported;
            assert!(
                report_log.is_doubtful(lost) && !report_log.is_doubtful(first_reported),
                "{places:?}"
            );
            assert_eq!([outcome(first_reported), outcome(lost)], [None, Some(SAME)], "{places:?}");
        }
    }
}

#[test]
fn of_sources_that_share_a_place_both_can_fail() {
    let failed = Outcome::Failed(Fault::new(Side::Source, FaultKind::Io, "can't read"));
    let report_log = report_log();
    let fail = || {
        let mut heard = 0;
        for number in [1, 2] {
            report_log.listed(number, |last| *last = Position { source: number, ..place("a") });
            let outcome = report_log.outcome(number, || b"a".to_vec(), &FILE, &failed);
            heard += usize::from(outcome.is_some());
        }
        heard
    };
    assert_eq!(fail(), 2);
    assert!(report_log.begin_rerun());
    assert_eq!(fail(), 0);
}

#[test]
fn a_run_that_is_lost_before_it_comes_as_far_forgets_nothing() {
    let report_log = report_log();
    assert_eq!(run(&report_log, &["t/!", "t/a!", "t/b", "t/c!", "t/e!"], &SAME).len(), 4);
    assert!(report_log.begin_rerun());
    assert!(run(&report_log, &["t/!", "t/a"], &SAME).is_empty());
    assert!(report_log.begin_rerun());
    // What came up behind the walk is taken as told.
    let third = ["t/!", "t/a!", "t/aa!", "t/b!", "t/c!", "t/e!", "t/f!"];
    let third = run(&report_log, &third, &SAME);
    assert_eq!(third, ["t/b Skipped(Unchanged)", "t/f Skipped(Unchanged)"]);
}

#[test]
fn a_run_that_is_lost_before_it_lists_anything_has_reported_nothing() {
    let report_log = report_log();
    assert!(report_log.begin_rerun() && report_log.begin_rerun());
    assert_eq!(run(&report_log, &["t/!", "t/a!"], &SAME).len(), 2);
}

#[test]
fn a_file_that_was_asked_for_was_copied() {
    let report_log = report_log();
    run(&report_log, &["a", "b"], &SAME);
    report_log.wanted(1);
    assert!(report_log.begin_rerun());
    report_log.listed(7, |last| *last = place("a"));
    assert!(report_log.is_doubtful(7));
    assert!(report_log.begin_rerun());
    let heard = run(&report_log, &["a!", "b!", "c!"], &SAME);
    assert_eq!(heard, ["a Copied", "b Skipped(Unchanged)", "c Skipped(Unchanged)"]);
    report_log.begin();
    report_log.keep(&Task::Sync(Policy::default(), Mirror::default()), &[], None);
    run(&report_log, &["a"], &SAME);
    report_log.wanted(1);
    assert!(report_log.begin_rerun());
    assert_eq!(
        run(&report_log, &["a!"], &SAME),
        [format!("a {:?}", Outcome::Synced(Changes::SENT))]
    );
}

#[test]
fn what_fails_after_all_leaves_the_outcome_as_it_is() {
    let report_log = report_log();
    assert_eq!(run(&report_log, &["t/!"], &SAME).len(), 1);
    assert!(report_log.late(b"t"));
    assert!(report_log.begin_rerun());
    report_log.listed(1, |last| *last = place("t/"));
    assert!(!report_log.late(b"t"), "it was told");
    assert_eq!(report_log.outcome(1, || b"t".to_vec(), &Kind::Dir, &SAME), None, "so was that");
}

#[test]
fn sources_that_go_are_gone_once_that_is_reported_or_they_are_not_found_again() {
    let report_log = ReportLog::default();
    let moving = haul_model::Moving::Whole;
    report_log.keep(&Task::Remove { rule: haul_model::Remove::SameContent, moving }, &[], None);
    let gone = || {
        let gone = report_log.take_removed().into_iter();
        gone.map(|(path, _)| String::from_utf8(path).expect("text")).collect::<Vec<_>>()
    };
    let all = ["t/", "t/a!", "t/b!", "t/c!", "t/d!", "t/e/", "t/e/f!"];
    assert_eq!(run(&report_log, &all, &SAME).len(), 5);
    report_log.removed(b"t/a");
    assert!(report_log.begin_rerun());
    // One stays that was to go, and its outcome is another.
    let other = Outcome::Differs(Changes::SIZE);
    assert_eq!(run(&report_log, &["t/", "t/c!"], &other).len(), 1);
    let failed = |kind| Outcome::Failed(Fault::new(Side::Source, kind, "no"));
    let missing = failed(FaultKind::NotFound);
    assert_eq!(report_log.outcome(4, || b"t/b".to_vec(), &FILE, &missing), None);
    assert_eq!(gone(), ["t/b", "t/d", "t/e/f"]);
    assert!(gone().is_empty());
}

#[test]
fn a_source_that_cant_be_looked_at_is_not_gone() {
    let failed = |kind| Outcome::Failed(Fault::new(Side::Source, kind, "no"));
    let (moving, rule) = (haul_model::Moving::Whole, haul_model::Remove::SameContent);
    // The root has its path in the user's words.
    for (path, kind) in [
        (&b"."[..], FaultKind::Io),
        (b"/mnt/photos", FaultKind::PermissionDenied),
        (b"/mnt/photos/.", FaultKind::NotFound),
    ] {
        let report_log = ReportLog::default();
        report_log.keep(&Task::Remove { rule, moving }, &[], None);
        run(&report_log, &["a!", "b!", "c"], &SAME);
        assert!(report_log.begin_rerun());
        let outcome = report_log.outcome(1, || path.to_vec(), &Kind::Special, &failed(kind));
        assert_eq!(outcome, Some(failed(kind)));
        assert_eq!(report_log.take_removed(), []);
    }
}

#[test]
fn a_named_source_that_was_removed_is_no_failure() {
    let (moving, rule) = (haul_model::Moving::Whole, haul_model::Remove::SameContent);
    let missing = Outcome::Failed(Fault::new(Side::Source, FaultKind::NotFound, "no"));
    let report_log = ReportLog::default();
    report_log.keep(&Task::Remove { rule, moving }, &[], None);
    run(&report_log, &["a!", "b!", "d/!", "c"], &SAME);
    report_log.removed(b"a");
    assert!(report_log.begin_rerun());
    let outcome = |path: &str| report_log.outcome(0, || path.into(), &Kind::Special, &missing);
    assert_eq!([outcome("/mnt/a"), outcome("sub/b")], [None, None]);
    assert!(outcome("/mnt/d").is_some(), "directories go when all was compared");
    run(&report_log, &["c!"], &SAME);
    assert!(report_log.listed_all());
    assert!(report_log.begin_rerun());
    assert_eq!(outcome("/mnt/e"), None);
}

#[test]
fn a_listed_source_that_was_removed_is_no_failure() {
    let missing = Outcome::Failed(Fault::new(Side::Source, FaultKind::NotFound, "no"));
    for base in [None, Some(b"/mnt")] {
        let walking = Walking { relative: Relative::Yes, ..Walking::default() };
        let mirror = Mirror { walking, part: Part::RemovesSources, ..Mirror::default() };
        let report_log = ReportLog::default();
        report_log.keep(&Task::Sync(Policy::default(), mirror), &[], base.map(|base| &base[..]));
        run(&report_log, &["d/", "d/e/", "d/a!", "d/e/b!", "c"], &SAME);
        report_log.removed(b"d/a");
        assert!(report_log.begin_rerun());
        let outcome = |path: &str| report_log.outcome(0, || path.into(), &Kind::Special, &missing);
        let outcomes = [outcome("d/./d//a"), outcome("d/e/b"), outcome("./d/a")];
        assert_eq!(outcomes, [None, None, None]);
        assert!(outcome("e/d/a").is_some() && outcome("a").is_some());
    }
}

#[test]
fn a_listed_directory_whose_content_is_meant_has_no_name_that_was_removed() {
    let missing = Outcome::Failed(Fault::new(Side::Source, FaultKind::NotFound, "no"));
    for (base, is_failure) in [(None, false), (Some(&b"/mnt"[..]), true)] {
        let mirror = Mirror { part: Part::RemovesSources, ..Mirror::default() };
        let report_log = ReportLog::default();
        report_log.keep(&Task::Sync(Policy::default(), mirror), &[], base);
        run(&report_log, &["d!"], &SAME);
        report_log.removed(b"d");
        assert!(report_log.begin_rerun());
        let outcome = report_log.outcome(0, || b"x/d/".to_vec(), &Kind::Special, &missing);
        assert_eq!(outcome.is_some(), is_failure, "{base:?}");
    }
}

#[test]
fn entries_with_one_path_have_keys_of_their_own() {
    let mut keys = FxHashSet::default();
    for (source, is_rival) in (0..8).flat_map(|source| [(source, false), (source, true)]) {
        assert!(keys.insert(Keys::of(&Position { source, is_rival, ..place("a") }).own));
    }
}

#[test]
fn failures_are_reported_once_unless_there_are_too_many() {
    let report_log = report_log();
    let failed = Outcome::Failed(Fault::new(Side::Source, FaultKind::Io, "can't read"));
    assert_eq!(run(&report_log, &["a!", "b!"], &failed).len(), 2);
    assert!(report_log.begin_rerun());
    assert!(run(&report_log, &["a!", "b!"], &failed).is_empty());
    // A file that was copied before and fails now is reported.
    assert_eq!(run(&report_log, &["c!"], &SAME).len(), 1);
    assert!(report_log.begin_rerun());
    assert_eq!(run(&report_log, &["a!", "b!", "c!"], &failed).len(), 1);
    for n in 0..SINGLE_MAX {
        report_log.outcome(0, || n.to_string().into_bytes(), &FILE, &failed);
    }
    assert!(!report_log.begin_rerun());
}

fn failed(side: Side, kind: FaultKind) -> Outcome {
    Outcome::Failed(Fault::new(side, kind, "no"))
}

/// The record of the end of a move.
fn moving() -> ReportLog {
    let (moving, rule) = (haul_model::Moving::Whole, haul_model::Remove::SameContent);
    let report_log = ReportLog::default();
    report_log.keep(&Task::Remove { rule, moving }, &[], None);
    report_log
}

fn mirror(part: Part, relative: Relative) -> Task {
    let walking = Walking { relative, ..Walking::default() };
    Task::Sync(Policy::default(), Mirror { walking, part, ..Mirror::default() })
}

fn paths_of(gone: Vec<(Vec<u8>, Kind)>) -> Vec<String> {
    gone.into_iter().map(|(path, _)| String::from_utf8(path).expect("text")).collect()
}

#[test]
fn of_a_job_that_is_run_once_nothing_is_kept() {
    let report_log = report_log();
    assert!(!report_log.is_rerun());
    assert_eq!(run(&report_log, &["a!"], &SAME).len(), 1);
    assert!(report_log.begin_rerun() && report_log.is_rerun());
    report_log.begin();
    assert!(!report_log.is_rerun());
    for _ in 0..2 {
        assert_eq!(run(&report_log, &["a!", "b"], &SAME).len(), 1);
        report_log.wanted(2);
        assert!(report_log.late(b"a") && report_log.extra(b"a"));
        assert!(report_log.begin_rerun() && !report_log.is_rerun() && !report_log.is_doubtful(2));
        assert_eq!(report_log.take_removed(), []);
    }
}

#[test]
fn what_only_the_destination_has_is_reported_once_where_each_run_finds_it() {
    for (task, is_found_again) in [
        (Task::Check { content: false, keeps: Kept::TIMES }, true),
        (Task::Sync(Policy::default(), Mirror::default()), false),
    ] {
        let report_log = ReportLog::default();
        report_log.keep(&task, &[], None);
        // What failed late is another thing.
        assert!(report_log.late(b"a") && report_log.extra(b"a") && report_log.extra(b"b"));
        assert!(report_log.begin_rerun());
        assert_eq!(report_log.extra(b"a"), !is_found_again);
        assert!(!report_log.late(b"a") && report_log.extra(b"c"));
    }
}

#[test]
fn what_failed_late_fails_once() {
    let report_log = report_log();
    assert!(report_log.late(b"a") && !report_log.late(b"a"));
    let io = failed(Side::Destination, FaultKind::Io);
    assert_eq!(run(&report_log, &["a!", "b!"], &io).len(), 1);
    assert!(report_log.begin_rerun());
    assert_eq!(run(&report_log, &["a!", "b!", "c!"], &io).len(), 1);
}

#[test]
fn a_lost_outcome_is_that_of_what_was_done() {
    let (missing, sent) = (Changes::MISSING, Changes::SENT);
    let special = Outcome::Skipped(Skip::Special);
    let synced = Outcome::Synced;
    let other = Outcome::Differs(Changes::SIZE);
    // Each row has the outcome of a copy, and that of a mirror.
    for (outcome, kind, is_new, expected) in [
        (&SAME, FILE, false, [Outcome::Copied, synced(sent)]),
        (&SAME, FILE, true, [Outcome::Copied, synced(missing.with(sent))]),
        (&SAME, Kind::Dir, true, [Outcome::Copied, synced(missing)]),
        (&synced(Changes::TIME), FILE, false, [Outcome::Copied, synced(Changes::TIME.with(sent))]),
        (&synced(Changes::TIME), Kind::Dir, false, [Outcome::Copied, synced(Changes::TIME)]),
        (&special, Kind::Special, true, [special.clone(), special.clone()]),
        (&other, FILE, true, [other.clone(), other.clone()]),
    ] {
        let done = [false, true].map(|is_mirror| as_done(outcome, &kind, is_new, is_mirror));
        assert_eq!(done, expected, "{outcome:?} {kind:?} {is_new}");
    }
    let made = [Outcome::Copied, synced(missing), synced(Changes::TIME), SAME];
    assert_eq!(made.each_ref().map(is_made), [true, true, false, false]);
}

#[test]
fn what_is_in_a_directory_that_was_there_is_not_new() {
    let report_log = ReportLog::default();
    report_log.keep(&mirror(Part::All, Relative::No), &[], None);
    let found = |changes| Outcome::Synced(changes);
    run(&report_log, &["t/!"], &found(Changes::TIME));
    run(&report_log, &["t/", "u/!", "t/a", "u/a"], &found(Changes::MISSING));
    assert!(report_log.begin_rerun());
    let heard = run(&report_log, &["t/a!", "u/a!"], &SAME);
    let new = Changes::MISSING.with(Changes::SENT);
    assert_eq!(heard, [format!("t/a {SAME:?}"), format!("u/a {:?}", found(new))]);
    // Only directories are remembered, and not too many.
    let made = || report_log.record.lock().made.len();
    assert_eq!(made(), 1);
    for number in 0..=MADE_MAX {
        let path = || number.to_string().into_bytes();
        report_log.outcome(0, path, &Kind::Dir, &Outcome::Copied);
    }
    assert_eq!(made(), MADE_MAX);
}

#[test]
fn beyond_the_bound_only_failures_that_are_remembered_are_known() {
    let report_log = report_log();
    let io = failed(Side::Source, FaultKind::Io);
    let outcome = |n: usize| report_log.outcome(0, || n.to_string().into_bytes(), &FILE, &io);
    for n in 0..SINGLE_MAX {
        assert!(outcome(n).is_some());
    }
    assert!(!report_log.record.lock().is_full);
    assert!(outcome(SINGLE_MAX).is_some() && outcome(0).is_none());
    assert_eq!(report_log.record.lock().single.len(), SINGLE_MAX);
    assert!(!report_log.begin_rerun());
}

#[test]
fn sources_are_gone_only_if_an_earlier_run_has_removed_them() {
    let report_log = moving();
    run(&report_log, &["a!", "b!", "c!", "d!"], &SAME);
    assert_eq!(report_log.take_removed(), []);
    // A failure in the first run says nothing of other sources.
    let io = failed(Side::Source, FaultKind::Io);
    assert_eq!(report_log.outcome(9, || b"e".to_vec(), &FILE, &io), Some(io.clone()));
    assert!(report_log.begin_rerun());
    // Both are there still: one goes again, one failed at the destination.
    assert_eq!(run(&report_log, &["a!"], &SAME).len(), 1);
    let full = failed(Side::Destination, FaultKind::NotFound);
    assert_eq!(run(&report_log, &["b!"], &full).len(), 1);
    assert_eq!(paths_of(report_log.take_removed()), ["c", "d"]);
    assert!(report_log.begin_rerun());
    assert_eq!(paths_of(report_log.take_removed()), ["a"]);
}

#[test]
fn a_source_that_stays_is_reported_once_beside_those_that_go() {
    let report_log = moving();
    run(&report_log, &["a!"], &SAME);
    let other = Outcome::Differs(Changes::SIZE);
    report_log.listed(2, |last| *last = place("b"));
    assert!(report_log.outcome(2, || b"b".to_vec(), &FILE, &other).is_some());
    assert!(report_log.begin_rerun());
    report_log.listed(1, |last| *last = place("b"));
    assert_eq!(report_log.outcome(1, || b"b".to_vec(), &FILE, &other), None);
}

#[test]
fn a_missing_source_is_a_failure_unless_a_run_was_complete() {
    let missing = failed(Side::Source, FaultKind::NotFound);
    let is_told = |report_log: &ReportLog| {
        assert!(report_log.begin_rerun());
        report_log.outcome(0, || b"/mnt/e".to_vec(), &Kind::Special, &missing).is_some()
    };
    let run_of = |report_log: &ReportLog, entries: &[&str], has_listed_all| {
        run(report_log, entries, &SAME);
        if has_listed_all {
            assert!(report_log.listed_all());
        }
    };
    for (entries, has_listed_all, expected) in
        [(&["a!"][..], true, false), (&["a!"], false, true), (&["a!", "b"], true, true)]
    {
        let report_log = moving();
        run_of(&report_log, entries, has_listed_all);
        assert_eq!(is_told(&report_log), expected, "{entries:?} {has_listed_all}");
    }
    // Once is enough, and only where directories of sources go.
    let report_log = moving();
    run_of(&report_log, &["a!"], true);
    assert!(report_log.begin_rerun() && !is_told(&report_log));
    for task in [mirror(Part::RemovesSources, Relative::No), Task::default()] {
        let report_log = ReportLog::default();
        report_log.keep(&task, &[], None);
        run_of(&report_log, &["a!"], true);
        assert!(is_told(&report_log), "{task:?}");
    }
}

#[test]
fn a_job_with_too_many_sources_that_go_is_not_run_again() {
    let report_log = moving();
    let outcome = |n: usize| report_log.outcome(0, || n.to_string().into_bytes(), &FILE, &SAME);
    for n in 0..removals::REMOVALS_MAX {
        outcome(n);
    }
    assert!(!report_log.record.lock().is_full);
    outcome(removals::REMOVALS_MAX);
    assert!(!report_log.begin_rerun());
}

#[test]
fn a_job_with_too_many_removed_sources_is_not_run_again_if_their_paths_are_asked_for() {
    for (part, relative, is_rerun) in [
        (Part::RemovesSources, Relative::Yes, false),
        (Part::RemovesSources, Relative::No, true),
        (Part::All, Relative::Yes, true),
    ] {
        let report_log = ReportLog::default();
        report_log.keep(&mirror(part, relative), &[], None);
        let remove = |n: usize| report_log.removed(n.to_string().as_bytes());
        (0..removals::REMOVED_MAX).for_each(remove);
        assert!(!report_log.record.lock().is_full);
        remove(removals::REMOVED_MAX);
        assert_eq!(report_log.begin_rerun(), is_rerun, "{part:?} {relative:?}");
    }
}

#[test]
fn a_run_that_lists_less_of_another_directory_is_incomplete() {
    for (objects, entries, is_complete) in [
        ([1, 1], &["./"][..], true),
        ([1, 9], &["./"], false),
        // The host has restarted, and all is there.
        ([1, 9], &["./", "a"], true),
        ([1, 9], &["./", "a", "b"], true),
        ([0, 9], &["./"], true),
    ] {
        let report_log = report_log();
        for (entries, object, is_last) in
            [(&["./", "a"][..], objects[0], false), (entries, objects[1], true)]
        {
            for (number, path) in (1..).zip(entries) {
                report_log.listed(number, |last| *last = place(path));
                if path.ends_with('/') {
                    assert!(report_log.is_same_dir(object), "nothing is removed");
                }
            }
            match is_last {
                true => assert_eq!(report_log.listed_all(), is_complete, "{objects:?} {entries:?}"),
                false => assert!(report_log.begin_rerun()),
            }
        }
    }
}

#[test]
fn a_mirror_that_removes_extras_continues_only_from_the_same_directories() {
    use haul_model::Delete;
    let lists = |delete, runs: [&[(&str, u64)]; 2]| {
        let report_log = ReportLog::default();
        let mirror = Mirror { delete, ..Mirror::default() };
        report_log.keep(&Task::Sync(Policy::default(), mirror), &[], None);
        let mut all_same = true;
        for entries in runs {
            for (number, (path, object)) in (1..).zip(entries) {
                report_log.listed(number, |last| *last = place(path));
                all_same &= report_log.is_same_dir(*object);
            }
            assert!(report_log.begin_rerun());
        }
        all_same
    };
    let delete = Some(Delete { ignore_errors: false });
    for (delete, runs, is_same) in [
        (delete, [&[("./", 1), ("a/", 2)][..], &[("./", 1), ("a/", 2)]], true),
        (delete, [&[("./", 1)], &[("./", 9)]], false),
        (delete, [&[("./", 1), ("a/", 2)], &[("./", 1), ("a/", 9)]], false),
        // Without a number, objects can't be compared.
        (delete, [&[("./", 1)], &[("./", 0)]], true),
        (delete, [&[("./", 0)], &[("./", 9)]], true),
        (delete, [&[("./", 1), ("a/b/", 2)], &[("./", 1), ("a/b/", 9), ("new/", 3)]], true),
        (None, [&[("./", 1)], &[("./", 9)]], true),
    ] {
        assert_eq!(lists(delete, runs), is_same, "{delete:?} {runs:?}");
    }
}

#[test]
fn extras_are_not_removed_below_another_directory_than_an_earlier_part_listed() {
    use haul_model::Delete;
    let report_log = ReportLog::default();
    let lists = |delete: bool, source: &str, object| {
        let delete = delete.then_some(Delete { ignore_errors: false });
        let mirror = Mirror { delete, ..Mirror::default() };
        report_log.begin();
        report_log.keep(&Task::Sync(Policy::default(), mirror), &[source.into()], None);
        report_log.listed(1, |last| *last = place("./"));
        report_log.is_same_dir(object)
    };
    for (deletes, source, object, is_same) in [
        (false, "/data", 1, true),
        (true, "/data", 1, true),
        (true, "/data", 9, false),
        (false, "/data", 9, true),
        // Other sources are other directories.
        (true, "/other", 9, true),
        (true, "/data", 8, true),
    ] {
        assert_eq!(lists(deletes, source, object), is_same, "{source} {object}");
    }
}

/// Where sources are removed, directories have other numbers than where they are copied.
#[test]
fn a_part_that_removes_sources_may_list_less_after_a_loss() {
    let report_log = ReportLog::default();
    for (part, object, runs) in [
        (Part::All, 1, &[&["./", "a"][..]][..]),
        (Part::RemovesSources, 7, &[&["./", "a"], &["./"]]),
    ] {
        report_log.begin();
        let mirror = Mirror { part, ..Mirror::default() };
        report_log.keep(&Task::Sync(Policy::default(), mirror), &[], None);
        for (nth, entries) in runs.iter().enumerate() {
            assert!(nth == 0 || report_log.begin_rerun());
            for (number, path) in (1..).zip(*entries) {
                report_log.listed(number, |last| *last = place(path));
                assert!(!path.ends_with('/') || report_log.is_same_dir(object));
            }
            assert!(report_log.listed_all(), "{part:?} {entries:?}");
        }
    }
}

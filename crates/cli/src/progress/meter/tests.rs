//! Tests of complete lines.

use super::*;

const MIB: u64 = 1 << 20;

fn counts(done: u64, listed_all: bool) -> Counts {
    Counts {
        files_done: done,
        files_total: 1200,
        bytes_done: done * MIB,
        bytes_total: 1200 * MIB,
        bytes_moved: done * MIB,
        listed_all,
        current: b"photos/2023/raw/a very long directory/img-0001.raw".to_vec(),
        ..Counts::default()
    }
}

fn at(second: u64) -> Duration {
    Duration::from_secs(second)
}

#[test]
fn totals_have_a_plus_while_listing_continues_and_the_end_is_reported_afterwards() {
    let mut meter = Meter::default();
    meter.line(Duration::ZERO, &counts(0, false), 120);
    insta::assert_snapshot!(
        meter.line(at(1), &counts(100, false), 120),
        @"100/1,200+ files  100.0 MiB/1.2 GiB+  100.0 MiB/s  photos/2023/raw/a very long directory/img-0001.raw"
    );
    insta::assert_snapshot!(
        meter.line(at(2), &counts(200, true), 120),
        @"16%  200/1,200 files  200.0 MiB/1.2 GiB  100.0 MiB/s  ETA 0:10  photos/2023/raw/a very long directory/img-0001.raw"
    );
}

#[test]
fn what_is_of_least_use_goes_first_and_names_are_cut_in_the_middle() {
    let mut lines = String::new();
    for columns in [100, 80, 60, 40, 30, 20, 10, 3, 2] {
        let mut meter = Meter::default();
        meter.line(Duration::ZERO, &counts(0, true), columns);
        let line = meter.line(at(2), &counts(200, true), columns);
        assert!(line.chars().count() <= columns, "{columns}: {line}");
        lines.push_str(&format!("{line}\n"));
    }
    for columns in [80, 40, 20] {
        let mut meter = Meter::default();
        meter.line(Duration::ZERO, &counts(0, false), columns);
        lines.push_str(&format!("{}\n", meter.line(at(2), &counts(200, false), columns)));
    }
    insta::assert_snapshot!(lines);
}

#[test]
fn the_rate_is_that_of_the_last_seconds() {
    let mut meter = Meter::default();
    for second in 0..=20 {
        meter.line(at(second), &counts(0, true), 80);
    }
    let mut line = String::new();
    for second in 21..=30 {
        line = meter.line(at(second), &counts(10 * (second - 20), true), 80);
    }
    assert!(line.contains("  10.0 MiB/s"), "{line}");
    assert!(meter.samples.len() < 8, "old samples are dropped");
}

#[test]
fn a_standstill_has_no_end_and_is_reported_after_five_seconds() {
    let mut meter = Meter::default();
    meter.line(Duration::ZERO, &counts(5, true), 80);
    let line = meter.line(at(4), &counts(5, true), 80);
    assert!(!line.contains("ETA") && !line.contains("nothing for"), "{line}");
    let line = meter.line(at(7), &counts(5, true), 40);
    assert!(line.contains("0 B/s  nothing for 7 s"), "{line}");
    let silent = Counts { silent: at(6), ..counts(5, true) };
    let line = meter.line(at(8), &silent, 40);
    assert!(line.contains("host silent for 6 s"), "{line}");
    assert!(meter.line(at(9), &counts(6, true), 80).contains("ETA"));
}

#[test]
fn all_is_done_when_the_last_file_is() {
    let nearly = Counts { files_done: 1199, ..counts(1200, true) };
    assert_eq!(nearly.percent(), Some(99));
    assert_eq!(counts(1200, true).percent(), Some(100));
    let empty = Counts { bytes_total: 0, bytes_done: 0, ..counts(300, true) };
    assert_eq!((empty.percent(), counts(300, false).percent()), (Some(25), None));
}

#[test]
fn nothing_is_drawn_before_the_other_side_is_there() {
    let mut listing = counts(0, false);
    assert!(!listing.has_begun(), "ssh may be asking for a password");
    listing.reached = true;
    assert!(listing.has_begun());
    assert!(!Counts { asking: true, ..listing }.has_begun());
}

#[test]
fn jobs_at_the_same_time_are_reported_as_one_and_one_that_has_failed_holds_back_nothing() {
    let job = |done: u64| Counts {
        files_done: done,
        files_total: 4,
        bytes_done: done * 10,
        bytes_total: 40,
        listed_all: true,
        reached: done > 0,
        silent: Duration::from_secs(9 * (1 - done.min(1))),
        current: b"name".to_vec(),
        ..Counts::default()
    };
    let all = job(3).merge(job(1)).merge(job(0));
    assert_eq!((all.files_done, all.files_total, all.bytes_done), (4, 12, 40));
    assert_eq!(
        (all.percent(), all.silent, &*all.current),
        (Some(33), Duration::ZERO, &b"name"[..])
    );
    let unreached = Counts { listed_all: false, ..Counts::default() };
    assert_eq!(job(4).merge(unreached.clone()).percent(), None);
    assert_eq!(job(4).merge(unreached.completed()).merge(job(1).completed()).percent(), Some(100));
}

//! Files that are opened without anybody waiting.

use crate::servers::{odd, odd_with, with_each};
use haul_sftp::{Cause, FileType, OpenFlags, Opening, Options, StatusCode};
use haul_testkit::{Fault, Oddities};
use std::fs;

/// Requests, as the draft numbers them.
const OPEN: u8 = 3;
const CLOSE: u8 = 4;

#[test]
fn files_are_opened_and_looked_at_together() {
    with_each(|bench| {
        let client = bench.client();
        let path = |n: usize| bench.path(&format!("file-{n}"));
        for n in 0..20 {
            fs::write(bench.local(&format!("file-{n}")), vec![7; n]).unwrap();
        }
        let asked: Vec<Opening> =
            (0..20).map(|n| client.open_later(&path(n), OpenFlags::Read)).collect();
        for (n, opening) in asked.into_iter().enumerate() {
            let (file, found) = opening.wait().unwrap();
            assert_eq!(found.size, Some(n as u64));
            let mut content = [0; 32];
            assert_eq!(file.read_at(&mut content, 0).unwrap(), n);
        }
        let (file, _) = client.open_later(&path(3), OpenFlags::Write).wait().unwrap();
        let mut writer = file.writer(4);
        writer.write_at(b"new+", 0).unwrap();
        writer.drain().unwrap();
        assert_eq!(file.attrs().unwrap().size, Some(4));
        file.close().unwrap();
        // What is written is looked at itself, and what is read is what a link leads to.
        std::os::unix::fs::symlink("file-3", bench.local("link")).unwrap();
        for (flags, kind) in
            [(OpenFlags::Read, FileType::File), (OpenFlags::Write, FileType::Symlink)]
        {
            let (_, found) = client.open_later(&bench.path("link"), flags).wait().unwrap();
            assert_eq!(found.file_type(), Some(kind));
        }
        assert_eq!(fs::read(bench.local("file-3")).unwrap(), b"new+");
    });
}

#[test]
fn what_is_not_answered_yet_is_not_waited_for() {
    let late = Oddities { fault: Some((0, Fault::Late)), ..Oddities::default() };
    let bench = odd("late", late);
    fs::write(bench.local("a"), "abc").unwrap();
    let mut opening = bench.client().open_later(&bench.path("a"), OpenFlags::Read);
    let opened = loop {
        if let Some(opened) = opening.poll() {
            break opened;
        }
        std::thread::yield_now();
    };
    assert_eq!(opened.unwrap().1.size, Some(3));
    // It was given away.
    assert!(opening.poll().is_none());
    let stall = Oddities { fault: Some((0, Fault::Stall)), ..Oddities::default() };
    let bench = odd("silent", stall);
    let mut opening = bench.client().open_later(&bench.path("a"), OpenFlags::Read);
    assert!(opening.poll().is_none());
    bench.client().end_session();
    let ended = opening.poll().expect("everyone is told").err().expect("it has no file");
    assert!(matches!(ended.cause, Cause::Session(_)), "{ended}");
}

#[test]
fn what_fails_says_which_of_both() {
    with_each(|bench| {
        let missing = bench.client().open_later(&bench.path("no"), OpenFlags::Read).wait();
        let error = missing.err().expect("it is missing");
        assert_eq!(error.status(), Some(StatusCode::NoSuchFile));
        assert!(error.to_string().starts_with("can't open '"), "{error}");
        let unsent = bench.client().open_later(b"a\0b", OpenFlags::Read).wait();
        assert!(matches!(unsent.err().expect("no path").cause, Cause::Path(_)));
    });
    let denied = Oddities { fault: Some((1, Fault::Deny)), ..Oddities::default() };
    let bench = odd("denying", denied);
    fs::write(bench.local("a"), "abc").unwrap();
    let error = bench.client().open_later(&bench.path("a"), OpenFlags::Read).wait();
    let error = error.err().expect("denied").to_string();
    assert!(error.starts_with("can't read the metadata of '"), "{error}");
    // The file was opened, and closed again.
    bench.client().stat(&bench.path("a")).unwrap();
    assert_eq!(bench.odd_server().asked().iter().filter(|kind| **kind == CLOSE).count(), 1);
}

#[test]
fn files_that_nobody_takes_are_closed() {
    // A server gives out only so many handles.
    let options = Options { requests_max: 4, ..Options::default() };
    let bench = odd_with("narrow", Oddities::default(), options);
    fs::write(bench.local("a"), "abc").unwrap();
    for _ in 0..30 {
        drop(bench.client().open_later(&bench.path("a"), OpenFlags::Read));
    }
    bench.client().stat(&bench.path("a")).unwrap();
    let count = |of| bench.odd_server().asked().iter().filter(|kind| **kind == of).count();
    assert_eq!((count(OPEN), count(CLOSE)), (30, 30));
}

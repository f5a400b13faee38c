//! Wishes that a small file takes along: to be durable, to be read back, to take the
//! place of another or not.

use crate::servers::{Bench, odd, openssh, with_each};
use crate::small::put;
use haul_sftp::{Attrs, Cause, Existing, Extension, Put, Puts, SftpError};
use haul_testkit::{Fault, Oddities, content};
use std::fs;
use std::os::unix::fs::MetadataExt;

type Done = Result<(), SftpError>;

/// Puts the files; their ends, in the order of their keys.
fn put_all(bench: &Bench, files: impl IntoIterator<Item = Put<u64>>) -> Vec<Done> {
    let mut puts = Puts::new(bench.client());
    files.into_iter().for_each(|file| puts.push(file));
    let mut results: Vec<_> = std::iter::from_fn(|| puts.next_done()).collect();
    results.sort_by_key(|(key, _)| *key);
    results.into_iter().map(|(_, result)| result.map(drop)).collect()
}

fn put_one(bench: &Bench, file: Put<u64>) -> Done {
    put_all(bench, [file]).pop().unwrap()
}

/// The names in the directory, in order.
fn names(bench: &Bench) -> Vec<String> {
    let names = fs::read_dir(bench.dir.path()).unwrap();
    let mut names: Vec<_> = names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A server without a rename that replaces in one step.
fn bare() -> Oddities {
    Oddities { extensions: Vec::new(), ..Oddities::default() }
}

fn syncing() -> Oddities {
    let extensions = vec!["posix-rename@openssh.com", "fsync@openssh.com"];
    Oddities { extensions, ..Oddities::default() }
}

#[test]
fn files_are_made_durable_and_read_back() {
    with_each(|bench| {
        let sizes = [0, 1, 999, 1000, 1001, (32 << 10) - 1, 32 << 10, (32 << 10) + 1, 300_000];
        let sync = bench.client().has(Extension::Fsync);
        let content_of = |key: usize| content::bytes(sizes[key], key as u64);
        let files = (0..sizes.len()).map(|key| Put {
            sync,
            verify: true,
            ..put(bench, key as u64, content_of(key))
        });
        for result in put_all(bench, files) {
            result.unwrap();
        }
        for key in 0..sizes.len() {
            let path = bench.local(&format!("file-{key}"));
            assert!(fs::read(&path).unwrap() == content_of(key), "{key}");
        }
        assert_eq!(names(bench).len(), sizes.len());
    });
}

#[test]
fn a_file_that_is_read_back_in_several_goes_is_whole() {
    // More than is asked for at once.
    let bench = odd("short", Oddities { short_reads: true, ..Oddities::default() });
    let bytes = content::bytes((9 << 20) + 5, 1);
    put_one(&bench, Put { verify: true, ..put(&bench, 1, bytes.clone()) }).unwrap();
    assert!(fs::read(bench.local("file-1")).unwrap() == bytes);
}

#[test]
fn what_is_asked_for_comes_in_the_right_order() {
    const OPEN: u8 = 3;
    const CLOSE: u8 = 4;
    const READ: u8 = 5;
    const WRITE: u8 = 6;
    const LSTAT: u8 = 7;
    const FSTAT: u8 = 8;
    const FSETSTAT: u8 = 10;
    const RENAME: u8 = 18;
    const EXTENDED: u8 = 200;
    let asked = |sync, verify, replace| {
        let bench = odd("syncing", syncing());
        let file = put(&bench, 1, vec![7; 100]);
        let existing = if replace { file.existing.clone() } else { Existing::Keep };
        put_one(&bench, Put { sync, verify, existing, ..file }).unwrap();
        bench.odd_server().asked()
    };
    // The last of them is the rename, posix-rename where it is to replace.
    let plain = [OPEN, WRITE, FSETSTAT, FSTAT, CLOSE, EXTENDED];
    assert_eq!(asked(false, false, true), plain);
    let kept = [OPEN, WRITE, FSETSTAT, FSTAT, CLOSE, LSTAT, RENAME];
    assert_eq!(asked(false, false, false), kept);
    let synced = [OPEN, WRITE, FSETSTAT, FSTAT, EXTENDED, CLOSE, EXTENDED];
    assert_eq!(asked(true, false, true), synced);
    let verified = [OPEN, WRITE, FSETSTAT, FSTAT, CLOSE, OPEN, READ, CLOSE, EXTENDED];
    assert_eq!(asked(false, true, true), verified);
    let both = [OPEN, WRITE, FSETSTAT, FSTAT, EXTENDED, CLOSE, OPEN, READ, CLOSE, EXTENDED];
    assert_eq!(asked(true, true, true), both);
}

#[test]
fn being_durable_needs_the_extension() {
    let bench = odd("plain", Oddities::default());
    let error = put_one(&bench, Put { sync: true, ..put(&bench, 1, vec![7]) }).unwrap_err();
    assert!(matches!(error.cause, Cause::Missing("fsync@openssh.com")), "{error}");
    assert_eq!(bench.odd_server().requests(), 0);
}

#[test]
fn a_file_that_fails_in_transit_leaves_nothing_behind() {
    // What is asked for is in the order of the test before.
    let files: [(usize, Fault, &str); 5] = [
        (4, Fault::Refuse, "can't make durable '"),
        (6, Fault::Refuse, "can't read back '"),
        (7, Fault::Refuse, "can't read back '"),
        (7, Fault::Garble, "it reads back different from what was written"),
        (9, Fault::Refuse, "can't rename '"),
    ];
    for (at, fault, message) in files {
        let bench = odd("failing", Oddities { fault: Some((at, fault)), ..syncing() });
        let file = |key| Put { sync: true, verify: true, ..put(&bench, key, vec![7; 100]) };
        let error = put_one(&bench, file(1)).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(matches!(error.cause, Cause::Differs), fault == Fault::Garble, "{error}");
        // A rename that is refused was done all the same.
        assert_eq!(names(&bench), if at == 9 { vec!["file-1"] } else { vec![] }, "{error}");
        put_one(&bench, file(2)).unwrap();
    }
}

#[test]
fn a_file_that_is_too_short_is_seen() {
    // Its last write is confirmed and not done.
    let fault = Some((2, Fault::Pretend));
    let bench = odd("pretending", Oddities { fault, ..Oddities::default() });
    let error = put_one(&bench, put(&bench, 1, vec![7; (32 << 10) + 1])).unwrap_err();
    assert!(matches!(error.cause, Cause::Length { written: 32_769, found: 32_768 }), "{error}");

    // What is read back ends early.
    let fault = Some((6, Fault::End));
    let bench = odd("ending", Oddities { fault, ..Oddities::default() });
    let file = Put { verify: true, ..put(&bench, 1, vec![7; 100]) };
    let error = put_one(&bench, file).unwrap_err();
    assert!(matches!(error.cause, Cause::Differs), "{error}");
    assert!(names(&bench).is_empty());
}

#[test]
fn a_file_that_its_owner_may_not_read_can_be_read_back() {
    for bench in [openssh(), odd("plain", Oddities::default())] {
        for len in [0, 100] {
            let file = put(&bench, 1, vec![7; len]);
            let attrs = Attrs { mode: Some(0o240), ..file.attrs };
            let file = Put { verify: true, attrs, ..file };
            put_one(&bench, file).unwrap();
            let meta = fs::metadata(bench.local("file-1")).unwrap();
            assert_eq!((meta.mode() & 0o7777, meta.mtime()), (0o240, 1_700_000_001));
            if let Some(odd) = bench.name.eq("plain").then(|| bench.odd_server()) {
                // The mode is set when it was read, before it gets its name.
                assert!(odd.asked().ends_with(&[9, 200]));
            }
        }
    }
}

#[test]
fn a_name_that_is_taken_is_kept_unless_it_is_to_be_replaced() {
    let over = || odd("over", Oddities { replaces_on_rename: true, ..bare() });
    for bench in [openssh(), odd("bare", bare()), over()] {
        fs::write(bench.local("file-1"), "old").unwrap();
        fs::create_dir(bench.local("file-4")).unwrap();
        std::os::unix::fs::symlink("nowhere", bench.local("file-5")).unwrap();
        let file = |key| Put { existing: Existing::Keep, ..put(&bench, key, b"new".to_vec()) };
        let nowhere = Put { path: bench.path("none/x"), ..file(3) };
        let results = put_all(&bench, [file(1), file(2), nowhere, file(4), file(5)]);
        let taken: Vec<bool> = results
            .iter()
            .map(|result| matches!(result, Err(SftpError { cause: Cause::NameExists, .. })))
            .collect();
        assert_eq!(taken, [true, false, false, true, true], "{}: {results:?}", bench.name);
        let error = results[0].as_ref().unwrap_err();
        assert_eq!(error.io_kind(), std::io::ErrorKind::AlreadyExists);
        assert!(error.to_string().ends_with("file-1': the name is taken"), "{error}");
        assert!(results[1].is_ok() && results[2].is_err());
        assert_eq!(fs::read(bench.local("file-1")).unwrap(), b"old");
        assert_eq!(fs::read(bench.local("file-2")).unwrap(), b"new");
        assert_eq!(names(&bench), ["file-1", "file-2", "file-4", "file-5"]);
    }
}

#[test]
fn a_name_that_is_taken_meanwhile_is_reported_as_that() {
    // The look before the rename finds nothing, for it is refused.
    let fault = Some((5, Fault::Refuse));
    let bench = odd("blind", Oddities { fault, ..bare() });
    fs::write(bench.local("file-1"), "old").unwrap();
    let file = Put { existing: Existing::Keep, ..put(&bench, 1, b"new".to_vec()) };
    let error = put_one(&bench, file).unwrap_err();
    assert!(matches!(error.cause, Cause::NameExists), "{error}");
    assert_eq!(fs::read(bench.local("file-1")).unwrap(), b"old");
    assert_eq!(names(&bench), ["file-1"]);
}

//! Many small files at a time.

use crate::servers::{Bench, odd, openssh, with_each};
use haul_sftp::{Attrs, Existing, Get, Gets, Put, Puts, Times};
use haul_testkit::{Fault, Oddities, content};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// A file that is to replace what has its name.
pub(crate) fn put(bench: &Bench, key: u64, content: Vec<u8>) -> Put<u64> {
    let times = Times { accessed: 1, modified: 1_700_000_000 + key as u32 };
    Put {
        key,
        stage: bench.path(&format!(".stage-{key}")),
        path: bench.path(&format!("file-{key}")),
        content,
        attrs: Attrs { times: Some(times), ..Attrs::with_mode(0o640) },
        existing: Existing::Replace { backup: bench.path(&format!(".aside-{key}")) },
        sync: false,
        verify: false,
        needs_attributes: false,
    }
}

fn sizes() -> impl Iterator<Item = (u64, usize)> {
    let special = [0, 1, 999, 1000, 1001, (32 << 10) - 1, 32 << 10, (32 << 10) + 1, 300_000];
    special.into_iter().chain((0..150).map(|n| n * 7)).enumerate().map(|(k, len)| (k as u64, len))
}

#[test]
fn small_files_arrive_whole_with_mode_and_time() {
    with_each(|bench| {
        fs::write(bench.local("file-3"), "old").unwrap();
        let mut puts = Puts::new(bench.client());
        for (key, len) in sizes() {
            puts.push(put(bench, key, content::bytes(len, key)));
        }
        let mut done = BTreeMap::new();
        while let Some((key, result)) = puts.next_done() {
            result.unwrap();
            assert!(done.insert(key, ()).is_none());
        }
        assert_eq!((done.len(), puts.pending()), (sizes().count(), 0));
        for (key, len) in sizes() {
            let path = bench.local(&format!("file-{key}"));
            assert!(fs::read(&path).unwrap() == content::bytes(len, key), "{key}");
            let meta = fs::metadata(&path).unwrap();
            assert_eq!((meta.mode() & 0o7777, meta.mtime()), (0o640, 1_700_000_000 + key as i64));
        }
        assert_eq!(fs::read_dir(bench.dir.path()).unwrap().count(), sizes().count());
    });
}

#[test]
fn small_files_are_read_whole() {
    with_each(|bench| {
        let mut gets = Gets::new(bench.client());
        for (key, len) in sizes() {
            let name = format!("file-{key}");
            fs::write(bench.local(&name), content::bytes(len, key)).unwrap();
            gets.push(Get { key, path: bench.path(&name), len: len as u32 });
        }
        gets.push(Get { key: 1000, path: bench.path("missing"), len: 10 });
        gets.push(Get { key: 1001, path: bench.path("file-20"), len: 100_000 });
        gets.push(Get { key: 1002, path: bench.path("file-20"), len: 10 });
        let len_20 = sizes().nth(20).unwrap().1;
        let mut seen = 0;
        while let Some((key, result)) = gets.next_done() {
            seen += 1;
            let len = match key {
                1000 => {
                    assert_eq!(result.unwrap_err().io_kind(), std::io::ErrorKind::NotFound);
                    continue;
                }
                1001 => len_20,
                1002 => 10,
                key => sizes().nth(key as usize).unwrap().1,
            };
            let got = result.unwrap();
            let seed = if key > 1000 { 20 } else { key };
            let expected = &content::bytes(len.max(len_20), seed)[..len];
            assert!(
                got.content == expected || key < 1000 && got.content == content::bytes(len, seed)
            );
            let modified = |attrs: Attrs| attrs.times.map(|times| times.modified);
            assert_eq!(got.before.size, got.after.size);
            assert_eq!(modified(got.before), modified(got.after));
            let size = if key > 1000 { len_20 } else { len };
            assert_eq!(got.after.size, Some(size as u64));
        }
        assert_eq!(seen, sizes().count() + 3);
    });
}

#[test]
fn small_files_share_their_round_trips() {
    let bench = odd("reversed", Oddities { reversed: true, ..Oddities::default() });
    let mut puts = Puts::new(bench.client());
    for key in 0..100 {
        puts.push(put(&bench, key, vec![7; 100]));
    }
    while let Some((_, result)) = puts.next_done() {
        result.unwrap();
    }
    // All are opened at once, then written, set, looked at and closed at once.
    let most = bench.odd_server().max_pending();
    assert!(most >= 50, "{most}");
    assert_eq!(bench.odd_server().requests(), 600);
}

#[test]
fn a_file_that_fails_leaves_nothing_behind_and_others_continue() {
    // The fault hits one of the second file's requests, each in turn: open,
    // write, set, look, close; and the rename.
    for refused in 6..12 {
        let fault = Some((refused, Fault::Refuse));
        let bench = odd("refusing", Oddities { fault, ..Oddities::default() });
        let mut results = Vec::new();
        for key in 0..3 {
            let mut puts = Puts::new(bench.client());
            puts.push(put(&bench, key, b"abc".to_vec()));
            results.push(puts.next_done().unwrap().1);
        }
        assert!(results[0].is_ok() && results[2].is_ok());
        let error = results[1].as_ref().unwrap_err();
        assert!(error.to_string().contains("file-1'"), "{error}");
        let names = fs::read_dir(bench.dir.path()).unwrap();
        let names: Vec<_> = names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        let is_staged = |name: &String| name.starts_with(".stage");
        match refused {
            // It did open and did rename, before it said no; a real server does not.
            6 => assert_eq!(names.iter().filter(|name| is_staged(name)).count(), 1),
            11 => assert!(names.contains(&"file-1".into())),
            _ => {
                assert!(!names.iter().any(is_staged), "{refused}: {names:?}");
                assert!(!names.contains(&"file-1".into()), "{refused}: {names:?}");
            }
        }
    }
}

#[test]
fn files_that_are_given_up_leave_nothing_behind() {
    let bench = openssh();
    let mut puts = Puts::new(bench.client());
    for key in 0..50 {
        puts.push(put(&bench, key, content::bytes(1000, key)));
    }
    puts.next_done().unwrap().1.unwrap();
    drop(puts);
    // Behind all that was asked.
    bench.client().stat(&bench.path("")).unwrap();
    let names = fs::read_dir(bench.dir.path()).unwrap();
    for name in names.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        assert!(name.starts_with("file-"), "{name}");
        assert_eq!(fs::metadata(bench.local(&name)).unwrap().len(), 1000);
    }
}

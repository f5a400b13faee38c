//! Directories that are listed ahead, and listings and links that are asked for
//! together.

use crate::servers::{Bench, odd, odd_with, openssh, with_each};
use haul_sftp::{Cause, FileType, Lister, Options, SessionError, SftpError, StatusCode};
use haul_testkit::{Fault, Oddities, holds_within};
use std::fs;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::Duration;

/// Four directories in each down to some depth, with files in each.
fn grow(bench: &Bench, dir: &str, depth: usize, all: &mut Vec<String>) {
    for n in 0..4 {
        let name = format!("{dir}/f{n}");
        fs::write(bench.local(&name), "x").unwrap();
        all.push(name);
        if depth > 0 {
            let name = format!("{dir}/d{n}");
            fs::create_dir(bench.local(&name)).unwrap();
            grow(bench, &name, depth - 1, all);
            all.push(name);
        }
    }
}

/// All that is below the directory, by a walk that goes into each directory
/// before the next one.
fn walk(bench: &Bench, lister: &Lister, root: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut to_visit = vec![root.to_owned()];
    while let Some(dir) = to_visit.pop() {
        let mut entries = lister.list(&bench.path(&dir)).unwrap();
        entries.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        let mut dirs = Vec::new();
        for entry in entries {
            let name = format!("{dir}/{}", String::from_utf8_lossy(entry.name.as_bytes()));
            if entry.attrs.file_type() == Some(FileType::Dir) {
                dirs.push(name.clone());
            }
            found.push(name);
        }
        lister.ahead(dirs.iter().map(|dir| bench.path(dir)));
        to_visit.extend(dirs.into_iter().rev());
    }
    found.sort();
    found
}

#[test]
fn a_walk_finds_all_there_is() {
    with_each(|bench| {
        let mut all = vec!["t".to_owned()];
        fs::create_dir(bench.local("t")).unwrap();
        grow(bench, "t", 2, &mut all);
        all.remove(0);
        all.sort();
        for threads in [0, 3, 8] {
            let lister = Lister::new(bench.client(), threads);
            assert_eq!(walk(bench, &lister, "t"), all, "{threads}");
        }
    });
}

#[test]
fn listings_of_different_directories_overlap() {
    let bench = odd("reversed", Oddities { reversed: true, ..Oddities::default() });
    let paths: Vec<_> = (0..50).map(|n| bench.path(&format!("d{n}"))).collect();
    paths.iter().for_each(|path| bench.client().make_dir(path, 0o700).unwrap());
    let lister = Lister::new(bench.client(), 8);
    lister.ahead(paths.clone());
    for path in &paths {
        assert!(lister.list(path).unwrap().is_empty());
    }
    // One listing has two requests at once; here there are eight at a time.
    let most = bench.odd_server().max_pending();
    assert!(most > 4, "{most}");
    // Each was listed once.
    let opened = bench.odd_server().asked().iter().filter(|kind| **kind == 11).count();
    assert_eq!(opened, 50);
}

#[test]
fn a_small_directory_takes_two_round_trips() {
    // The answer to the first part waits for the second to be asked for.
    let late = Oddities { fault: Some((1, Fault::Late)), ..Oddities::default() };
    let options = Options { silence_max: Some(Duration::from_secs(10)), ..Options::default() };
    let bench = odd_with("late", late, options);
    assert!(bench.client().list(&bench.path("")).unwrap().is_empty());
    bench.client().stat(&bench.path("")).unwrap();
    assert_eq!(bench.odd_server().asked(), [11, 12, 12, 4, 17]);
}

#[test]
fn an_error_is_for_who_asks_and_is_not_kept() {
    let bench = openssh();
    let lister = Lister::new(bench.client(), 2);
    let missing = bench.path("missing");
    lister.ahead([missing.clone()]);
    let error = lister.list(&missing).unwrap_err();
    assert_eq!(error.status(), Some(StatusCode::NoSuchFile));
    assert!(error.to_string().contains("missing'"), "{error}");
    fs::create_dir(bench.local("missing")).unwrap();
    assert!(lister.list(&missing).unwrap().is_empty());
}

#[test]
fn no_more_is_listed_than_there_is_room_for() {
    let bench = odd("plain", Oddities::default());
    let paths: Vec<_> = (0..500).map(|n| bench.path(&format!("d{n:03}"))).collect();
    for n in 0..500 {
        fs::create_dir(bench.local(&format!("d{n:03}"))).unwrap();
    }
    let lister = Lister::new(bench.client(), 4);
    lister.ahead(paths.clone());
    let opened = || bench.odd_server().asked().iter().filter(|kind| **kind == 11).count();
    assert!(holds_within(Duration::from_secs(20), || opened() >= 64), "{}", opened());
    thread::sleep(Duration::from_millis(50));
    assert_eq!(opened(), 64);
    // The last first: they are not begun, and who asks does not wait for room.
    for path in paths.iter().rev() {
        lister.list(path).unwrap();
    }
    assert_eq!(opened(), 500);
}

#[test]
fn several_can_ask() {
    let bench = openssh();
    let paths: Vec<_> = (0..100).map(|n| bench.path(&format!("d{n}"))).collect();
    paths.iter().for_each(|path| bench.client().make_dir(path, 0o700).unwrap());
    let lister = Lister::new(bench.client(), 3);
    lister.ahead(paths.clone());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| paths.iter().for_each(|path| drop(lister.list(path).unwrap())));
        }
    });
}

#[test]
fn the_end_of_the_session_ends_all_listings() {
    let bench = odd("dying", Oddities { fault: Some((20, Fault::Die)), ..Oddities::default() });
    let paths: Vec<_> = (0..20).map(|n| bench.path(&format!("d{n}"))).collect();
    (0..20).for_each(|n| fs::create_dir(bench.local(&format!("d{n}"))).unwrap());
    let lister = Lister::new(bench.client(), 8);
    lister.ahead(paths.clone());
    let results: Vec<_> = paths.iter().map(|path| lister.list(path)).collect();
    let is_end = |error: &SftpError| matches!(error.session(), Some(SessionError::Closed));
    assert!(is_end(results[19].as_ref().unwrap_err()));
    assert!(results.iter().all(|listed| listed.as_ref().map_or_else(is_end, Vec::is_empty)));
}

#[test]
fn many_links_are_read_at_once() {
    with_each(|bench| {
        let paths: Vec<_> = (0..600).map(|n| bench.path(&format!("l{n}"))).collect();
        for n in (0..600).filter(|n| n % 7 != 3) {
            symlink(format!("target/{n}"), bench.local(&format!("l{n}"))).unwrap();
        }
        fs::write(bench.local("l3"), "no link").unwrap();
        let mut asked = paths.clone();
        asked[5] = b"a\0b".to_vec();
        let mut told = 0;
        bench.client().read_links(
            asked.len(),
            |n| asked[n].clone(),
            |n, target| {
                told += 1;
                if n == 5 {
                    assert!(matches!(target.unwrap_err().cause, Cause::Path(_)));
                } else if n % 7 == 3 {
                    let error = target.unwrap_err();
                    assert!(error.to_string().contains(&format!("l{n}'")), "{error}");
                } else {
                    assert_eq!(&*target.unwrap(), format!("target/{n}").as_bytes());
                }
                true
            },
        );
        assert_eq!(told, asked.len());
        // What is not wanted any more is not asked.
        let mut told = 0;
        bench.client().read_links(
            asked.len(),
            |n| asked[n].clone(),
            |_, _| {
                told += 1;
                false
            },
        );
        assert!((1..=256).contains(&told), "{told}");
        if bench.name == "reversed" {
            let most = bench.odd_server().max_pending();
            assert!((100..=256).contains(&most), "{most}");
        }
    });
}

//! Files that are whole get their names, from one asker and from many at a time, at
//! servers that can replace in one step and at those that can't.

use crate::servers::{Bench, odd, openssh};
use crate::small::put;
use haul_sftp::{Cause, Existing, Put, Puts, SftpError};
use haul_testkit::{Fault, Oddities};
use std::fs;
use std::os::unix::fs::symlink;

const REMOVE: u8 = 13;
const STAT: u8 = 17;
const RENAME: u8 = 18;

/// A server without a rename that replaces in one step.
fn bare() -> Oddities {
    Oddities { extensions: Vec::new(), ..Oddities::default() }
}

/// The same that does what no server does with the request of this number.
fn failing(at: usize, fault: Fault) -> Bench {
    odd("failing", Oddities { fault: Some((at, fault)), ..bare() })
}

/// The names in the directory, in order.
fn names(bench: &Bench) -> Vec<String> {
    let names = fs::read_dir(bench.dir.path()).unwrap();
    let mut names: Vec<_> = names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn read(bench: &Bench, name: &str) -> String {
    fs::read_to_string(bench.local(name)).unwrap()
}

/// Gives the stage of file `key` its name.
type Way = fn(&Bench, u64) -> Result<(), SftpError>;

/// One stage after the other.
fn alone(bench: &Bench, key: u64) -> Result<(), SftpError> {
    let file = put(bench, key, Vec::new());
    fs::write(bench.local(&format!(".stage-{key}")), "new").unwrap();
    bench.client().name_file(&file.stage, &file.path, &file.existing)
}

/// As small files are.
fn among_many(bench: &Bench, key: u64) -> Result<(), SftpError> {
    let mut puts = Puts::new(bench.client());
    puts.push(put(bench, key, b"new".to_vec()));
    puts.next_done().unwrap().1.map(drop)
}

/// Each way, with the number of requests before the first rename.
const WAYS: [(Way, usize); 2] = [(alone, 0), (among_many, 5)];

#[test]
fn without_a_rename_that_replaces_the_old_file_waits_aside() {
    for (name, before) in WAYS {
        let bench = odd("bare", bare());
        fs::write(bench.local("file-1"), "old").unwrap();
        symlink("file-1", bench.local("file-2")).unwrap();
        fs::create_dir(bench.local("file-3")).unwrap();
        for key in 0..3 {
            name(&bench, key).unwrap();
            assert_eq!(read(&bench, &format!("file-{key}")), "new");
            assert!(fs::symlink_metadata(bench.local(&format!("file-{key}"))).unwrap().is_file());
        }
        // A directory is not removed for a file, also where it is empty.
        let error = name(&bench, 3).unwrap_err();
        assert!(error.to_string().starts_with("can't rename '"), "{error}");
        let _ = fs::remove_file(bench.local(".stage-3"));
        assert_eq!(names(&bench), ["file-0", "file-1", "file-2", "file-3"]);

        // Where every rename replaces, one is enough.
        let bench = odd("over", Oddities { replaces_on_rename: true, ..bare() });
        fs::write(bench.local("file-1"), "old").unwrap();
        name(&bench, 1).unwrap();
        assert_eq!(read(&bench, "file-1"), "new");
        assert_eq!(bench.odd_server().requests(), before + 1);
    }
    let bench = openssh();
    fs::write(bench.local("file-1"), "old").unwrap();
    alone(&bench, 1).unwrap();
    assert_eq!((read(&bench, "file-1"), names(&bench).len()), ("new".to_owned(), 1));
}

#[test]
fn a_name_that_is_taken_is_kept_where_that_is_asked_for() {
    for bench in [
        openssh(),
        odd("bare", bare()),
        odd("over", Oddities { replaces_on_rename: true, ..bare() }),
    ] {
        fs::write(bench.local(".stage"), "new").unwrap();
        symlink("nowhere", bench.local("taken")).unwrap();
        let name = |to: &str| {
            bench.client().name_file(&bench.path(".stage"), &bench.path(to), &Existing::Keep)
        };
        let error = name("taken").unwrap_err();
        assert!(matches!(error.cause, Cause::NameExists), "{error}");
        name("free").unwrap();
        assert_eq!(names(&bench), ["free", "taken"]);
    }
}

#[test]
fn whatever_is_refused_the_old_file_is_there_and_the_new_one_is_too() {
    // Rename, look, aside, rename, remove.
    for (name, before) in WAYS {
        for at in 0..5 {
            // What is denied is not done, and what is refused is done all the same.
            for fault in [Fault::Deny, Fault::Refuse] {
                let bench = failing(before + at, fault);
                fs::write(bench.local("file-1"), "old").unwrap();
                let named = name(&bench, 1);
                let is_new = named.is_ok() || (fault == Fault::Refuse && at == 3);
                let left = names(&bench);
                let about = format!("{at} {fault:?}: {named:?} {left:?}");
                let contents: Vec<String> = left.iter().map(|name| read(&bench, name)).collect();
                if is_new {
                    assert_eq!(read(&bench, "file-1"), "new", "{about}");
                } else {
                    assert!(contents.iter().any(|content| content == "old"), "{about}");
                }
                let error = named.err().map(|error| error.to_string()).unwrap_or_default();
                for kept in left.iter().filter(|name| *name != "file-1") {
                    // It is told where that is, or it is of no more use.
                    let told = format!("'{}'", bench.local(kept).display());
                    let useless = ["new", "old"][usize::from(is_new)];
                    assert!(error.contains(&told) || read(&bench, kept) == useless, "{about}");
                }
            }
        }
    }
}

#[test]
fn an_old_file_gets_its_name_back_when_the_new_one_is_refused_it() {
    for (name, before) in WAYS {
        let bench = failing(before + 3, Fault::Deny);
        fs::write(bench.local("file-1"), "old").unwrap();
        let error = name(&bench, 1).unwrap_err();
        assert!(error.to_string().starts_with("can't rename '"), "{error}");
        assert!(!matches!(error.cause, Cause::OnlyStaged(_)), "{error}");
        let _ = fs::remove_file(bench.local(".stage-1"));
        assert_eq!(
            (names(&bench), read(&bench, "file-1")),
            (vec!["file-1".to_owned()], "old".to_owned())
        );
    }
}

#[test]
fn where_nothing_gets_the_name_it_is_reported_where_both_are() {
    for (name, before) in WAYS {
        // The session is over in front of the second rename.
        let bench = failing(before + 3, Fault::Die);
        fs::write(bench.local("file-1"), "old").unwrap();
        let error = name(&bench, 1).unwrap_err();
        assert!(matches!(error.cause, Cause::OnlyStaged(_)), "{error}");
        assert!(error.session().is_some());
        for name in [".stage-1", ".aside-1"] {
            assert!(
                error.to_string().contains(&format!("'{}'", bench.local(name).display())),
                "{error}"
            );
        }
        assert_eq!(names(&bench), [".aside-1", ".stage-1"]);
        assert_eq!(
            (read(&bench, ".stage-1"), read(&bench, ".aside-1")),
            ("new".into(), "old".into())
        );
    }
}

#[test]
fn what_waits_aside_of_an_earlier_run_is_in_nobodys_way() {
    for (name, _) in WAYS {
        let bench = odd("bare", bare());
        fs::write(bench.local("file-1"), "old").unwrap();
        fs::write(bench.local(".aside-1"), "older").unwrap();
        name(&bench, 1).unwrap();
        assert_eq!(
            (names(&bench), read(&bench, "file-1")),
            (vec!["file-1".to_owned()], "new".to_owned())
        );
        // While nothing has its name, it is all that is left.
        fs::rename(bench.local("file-1"), bench.local(".aside-1")).unwrap();
        name(&bench, 1).unwrap();
        assert_eq!(names(&bench), [".aside-1", "file-1"]);
    }
}

#[test]
fn a_file_that_is_given_up_in_transit_leaves_the_old_one() {
    let bench = odd("bare", bare());
    fs::write(bench.local("file-1"), "old").unwrap();
    let mut puts = Puts::new(bench.client());
    // The server does all in order, and this one is done when the old file-1 is on
    // its way aside.
    puts.push(Put { verify: true, ..put(&bench, 0, b"other".to_vec()) });
    puts.push(put(&bench, 1, b"new".to_vec()));
    let (key, result) = puts.next_done().unwrap();
    result.unwrap();
    assert_eq!((key, puts.pending()), (0, 1));
    drop(puts);
    bench.client().stat(&bench.path("")).unwrap();
    assert!(bench.odd_server().asked().ends_with(&[RENAME, RENAME, REMOVE, STAT]));
    assert_eq!(names(&bench), ["file-0", "file-1"]);
    assert_eq!(read(&bench, "file-1"), "old");
}

//! Sources that fail in the middle of a pass that removes.

use crate::common::*;
use haul_testkit::odd::{Call, Errno, OddMount, Quirks};
use std::fs;

/// Directories of the source and of the destination, in the order of the walk. Each has a file
/// of both sides, and the second also one of its own.
const DIRS: [&str; 7] = ["", "a", "a/b", "c", "d", "d/e", "f"];

const WHENS: [&str; 5] =
    ["--delete", "--delete-before", "--delete-during", "--delete-after", "--delete-delay"];

/// As many as will come.
const FOR_GOOD: u64 = u64::MAX;

fn make_dest(scene: &Scene<'_>) {
    scene.clear(&["dst"]);
    for dir in DIRS {
        scene.file(format!("dst/{dir}/kept"), "kept");
        scene.file(format!("dst/{dir}/extra"), "extra");
    }
}

/// The first directory in the order of the walk of which, or of something in which, an error
/// tells.
fn first_told(errors: &[String]) -> Option<usize> {
    DIRS.iter().position(|dir| {
        let ends = match *dir {
            "" => ["src".to_owned(), "src/.".to_owned(), "src/kept".to_owned()],
            dir => [dir.to_owned(), format!("{dir}/kept"), format!("{dir}/extra")],
        };
        let tells = |end: &String| {
            errors.iter().any(|error| {
                error.contains(&format!("/{end}: ")) || error.starts_with(&format!("{end}: "))
            })
        };
        ends.iter().any(tells)
    })
}

#[test]
fn a_source_that_fails_halfway_has_nothing_removed_behind_it() {
    everywhere_by_pipe(|scene| {
        let Some(odd) = OddMount::new(Quirks::default()) else { return };
        for dir in DIRS {
            fs::create_dir_all(odd.backing().join(dir)).expect("made");
            fs::write(odd.backing().join(dir).join("kept"), "kept").expect("written");
        }
        scene.symlink(odd.path().to_str().expect("a plain path"), "src");
        let (mut failed, mut removed_some) = (0, 0);
        for (at, when) in WHENS.into_iter().enumerate() {
            make_dest(scene);
            let (route, lists) = (scene.route(), odd.calls(Call::List));
            let run = || scene.transfer("sync", &route, &["-a", when], &["src/"], "dst").run();
            run().expect_ok();
            let lists = odd.calls(Call::List) - lists;
            // Of both passes where there are two.
            for (place, times, errno) in [
                (lists / 4 + at as u64 % 2, 1, Errno::IO),
                (lists / 2, FOR_GOOD, Errno::STALE),
                (lists * 3 / 4, 1, Errno::ACCESS),
            ] {
                make_dest(scene);
                odd.refuse(Call::List, errno, place, times);
                let run = run();
                odd.refuse_nothing();
                let told = format!("{:?} {when}, {errno} after {place}: {run}", scene.way);
                let is_there = |dir: &&str, name| scene.exists(format!("dst/{dir}/{name}"));
                assert!(DIRS.iter().all(|dir| is_there(dir, "kept")), "{told}");
                let left: Vec<_> = DIRS.iter().map(|dir| is_there(dir, "extra")).collect();
                removed_some += usize::from(left.contains(&false) && left.contains(&true));
                let Some(first) = first_told(&errors(&run)) else {
                    assert_eq!((run.code, left.contains(&true)), (Some(0), false), "{told}");
                    continue;
                };
                failed += 1;
                assert_eq!(run.code, Some(23), "{told}");
                let is_in_first_pass = place < lists / 2;
                // Before anything is copied, the source was read as a whole.
                if when != "--delete-before" || is_in_first_pass {
                    assert!(left[first..].iter().all(|left| *left), "{left:?} {told}");
                }
                let removes_last = matches!(when, "--delete-after" | "--delete-delay");
                if removes_last && is_in_first_pass {
                    assert!(!left.contains(&false), "{left:?} {told}");
                }
            }
        }
        assert!(failed > 5 && removed_some > 0, "{:?}: {failed} {removed_some}", scene.way);
    });
}

#[test]
fn content_that_cannot_be_read_holds_back_what_is_removed_last() {
    everywhere_by_pipe(|scene| {
        let Some(odd) = OddMount::new(Quirks { uncached: true, ..Quirks::default() }) else {
            return;
        };
        fs::create_dir(odd.backing().join("a")).expect("made");
        fs::write(odd.backing().join("a/new"), "new").expect("written");
        scene.symlink(odd.path().to_str().expect("a plain path"), "src");
        for when in ["--delete-after", "--delete-delay"] {
            scene.clear(&["dst"]);
            scene.file("dst/a/extra", "extra");
            scene.file("dst/b/extra", "extra");
            odd.refuse(Call::Read, Errno::IO, 0, FOR_GOOD);
            let route = scene.route();
            let run = scene.transfer("sync", &route, &["-a", when], &["src/"], "dst").run();
            odd.refuse_nothing();
            assert!(scene.exists("dst/a/extra") && scene.exists("dst/b/extra"), "{when}: {run}");
            let run = run.expect_code(23);
            assert!(run.err().contains("skipping all removals"), "{run}");
            scene.transfer("sync", &route, &["-a", when], &["src/"], "dst").run().expect_ok();
            assert_eq!(scene.list("dst"), ["a", "a/new"]);
        }
    });
}

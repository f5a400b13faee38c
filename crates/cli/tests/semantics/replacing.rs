//! A file that is replaced: at every moment the old one or the new one, whole.

use crate::common::*;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

const SMALL: usize = 300_000;
const LARGE: usize = 5 << 20;

#[test]
fn a_reader_sees_the_old_file_or_the_new_one_whole() {
    everywhere(|scene| {
        let small = scene.file("small", vec![b's'; SMALL]);
        scene.file("large", vec![b'l'; LARGE]);
        let dest = scene.path("dest");
        fs::copy(&small, &dest).expect("a file to begin with");
        let done = AtomicBool::new(false);
        let seen = [const { AtomicUsize::new(0) }; 2];
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let contents = [vec![b's'; SMALL], vec![b'l'; LARGE]];
                while !done.load(Ordering::Relaxed) {
                    let content = fs::read(&dest).expect("it is always there");
                    let which = contents.iter().position(|whole| *whole == content);
                    let which = which.expect("a mixture of both, or a part of one");
                    seen[which].fetch_add(1, Ordering::Relaxed);
                }
            });
            let mut runs = Vec::new();
            for source in ["large", "small", "large"] {
                runs.push(scene.copy(&["--force"], &[source], "dest").run());
                // The reader reads once more before the next one.
                let count = || seen.each_ref().map(|count| count.load(Ordering::Relaxed));
                let before = count();
                while before == count() && !reader.is_finished() {
                    thread::yield_now();
                }
            }
            done.store(true, Ordering::Relaxed);
            runs.into_iter().for_each(|run| drop(run.expect_ok()));
        });
        assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) > 0), "{seen:?}");
        assert_no_strays(&scene.path(""));
    });
}

#[test]
fn who_has_the_old_file_open_or_linked_keeps_it() {
    everywhere_by_pipe(|scene| {
        scene.file("a", "new content");
        let dest = scene.file("dest", "old");
        fs::hard_link(&dest, scene.path("other-name")).expect("a hard link");
        let mut open = File::open(&dest).expect("opened");
        let inode = fs::metadata(&dest).expect("it is there").ino();
        scene.copy(&[], &["a"], "dest").run().expect_ok();
        let mut old = String::new();
        open.read_to_string(&mut old).expect("read");
        assert_eq!((old, scene.read("other-name")), ("old".into(), "old".into()));
        assert_eq!(scene.read("dest"), "new content");
        assert_ne!(fs::metadata(&dest).expect("it is there").ino(), inode);
    });
}

#[test]
fn the_new_file_has_the_rights_of_the_source() {
    everywhere_by_pipe(|scene| {
        mode(scene.file("tree/open", "new content"), 0o644);
        mode(scene.file("tree/secret", "new content"), 0o600);
        mode(scene.file("there/tree/open", "old"), 0o600);
        mode(scene.file("there/tree/secret", "old"), 0o4666);
        scene.copy(&["-r"], &["tree"], "there").run().expect_ok();
        assert_eq!(mode_of(scene.path("there/tree/open")), 0o644);
        assert_eq!(mode_of(scene.path("there/tree/secret")), 0o600);
        assert_eq!(scene.read("there/tree/secret"), "new content");
    });
}

//! Sources that are another file by the time the copy goes on, though their
//! size and time say that they are the same.

use crate::*;
#[cfg(target_os = "linux")]
use haul_testkit::odd::{OddMount, Quirks};
use haul_testkit::{nasty, same_content};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// How a source becomes another one.
#[derive(Debug, Clone, Copy)]
enum Replaced {
    /// Its content is written anew.
    InPlace,
    /// A few bytes in its first block are.
    InPart,
    /// Another file takes its name.
    ByRename,
}

/// Gives `big` another content, the same size, and its old time. Each `number` makes another
/// one.
fn replace(big: &Path, how: Replaced, number: u64) {
    let before = fs::metadata(big).expect("it is there");
    match how {
        Replaced::InPlace => tree::random_file(big, LEN, 8 + number).expect("a file"),
        Replaced::InPart => {
            let file = fs::File::options().write(true).open(big).expect("opened");
            let part = format!("another, {number}");
            std::os::unix::fs::FileExt::write_all_at(&file, part.as_bytes(), 77).expect("written");
        }
        Replaced::ByRename => {
            let other = big.with_extension("other");
            tree::random_file(&other, LEN, 8 + number).expect("a file");
            fs::rename(other, big).expect("renamed");
        }
    }
    let nanos = u32::try_from(before.mtime_nsec()).expect("less than a second");
    nasty::set_mtime(big, before.mtime(), nanos).expect("a time");
    let after = fs::metadata(big).expect("it is there");
    assert_eq!(
        (before.mtime(), before.mtime_nsec(), before.len()),
        (after.mtime(), after.mtime_nsec(), after.len())
    );
}

#[test]
fn a_source_that_was_replaced_with_its_old_size_and_time_is_copied_again() {
    everywhere_by_pipe(|scene| {
        make_big(scene);
        let hows = [Replaced::InPlace, Replaced::InPart, Replaced::ByRename];
        let all = [&[][..], &["-V"], &["--strict"]];
        let cases = hows.into_iter().flat_map(|how| all.map(|flags| (how, flags)));
        for (number, (how, flags)) in (1..).zip(scene.share(cases)) {
            interrupt(scene, 6);
            replace(&scene.path("big"), how, number);
            let run = scene.copy(flags, &["big"], "to").run().expect_ok();
            let same = same_content(scene.path("big"), scene.path("to/big")).expect("read");
            assert!(same, "{how:?} {flags:?}: half old, half new");
            assert_eq!(scene.list("to"), ["big"], "something of haul's is left");
            let told = "the source was replaced since its copy was interrupted";
            // Where --strict begins anew in any case, it need not be found out.
            let is_anew = scene.way == Way::SftpUpload && flags == ["--strict"];
            assert!(is_anew || run.err().contains(told), "{how:?} {flags:?}: {run}");
            fs::remove_file(scene.path("to/big")).expect("removed");
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn where_no_time_shows_a_change_what_is_there_is_compared_with_the_source() {
    everywhere_by_pipe(|scene| {
        let Some(odd) = OddMount::new(Quirks { no_ctime: true, ..Quirks::default() }) else {
            return;
        };
        scene.mkdir("to");
        scene.symlink(odd.path(), "from");
        let copy = |flags: &[&str]| scene.copy(flags, &["from/big"], "to").run();
        let is_same = || same_content(odd.join("big"), scene.path("to/big")).expect("read");
        // It is the same: the copy goes on.
        tree::random_file(odd.join("big"), LEN, 7).expect("a file");
        let there = interrupt_from(scene, "from/big", 6);
        let run = copy(&["--json"]).expect_ok();
        assert!(is_same() && moved(&run) == LEN - there * BLOCK, "{there}: {run}");
        // It is another: the copy begins anew, or the next one does.
        for how in [Replaced::InPlace, Replaced::InPart] {
            fs::remove_file(scene.path("to/big")).expect("removed");
            interrupt_from(scene, "from/big", 6);
            replace(&odd.join("big"), how, 0);
            let run = copy(&[]);
            if matches!(scene.way, Way::Local | Way::SftpDownload) {
                let told = "the source was replaced since its copy was interrupted";
                assert!(run.expect_ok().err().contains(told), "{how:?}");
            } else {
                let run = run.expect_code(1);
                assert!(run.err().contains("it was replaced since"), "{how:?}: {run}");
                copy(&[]).expect_ok();
            }
            assert!(is_same(), "{how:?}: half old, half new");
            assert_eq!(scene.list("to"), ["big"], "something of haul's is left");
        }
    });
}

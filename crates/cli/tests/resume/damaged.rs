//! Leftovers of a copy are believed no further than they can be proven.

use crate::common::*;
use crate::{BLOCK, HEADER, LEN, finish, interrupt, journals, left, make_big, on_record};
use haul_testkit::{nasty, tree};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).expect("opened");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 1], at).expect("written");
}

/// Interrupts a copy, does `damage` to the stage and its journal, and expects
/// that everything is moved anew.
fn is_copied_anew(flags: &[&str], damage: impl Fn(&Path, &Path, u64) + Sync) {
    everywhere_by_pipe(|scene| {
        make_big(scene);
        let blocks = interrupt(scene, 6);
        let (part, journal) = (&left(scene, ".part")[0], &journals(scene)[0]);
        damage(part, journal, blocks);
        assert_eq!(finish(scene, flags), LEN);
    });
}

#[test]
fn a_flipped_byte_in_the_last_staged_block_is_found() {
    is_copied_anew(&[], |part, _, blocks| flip(part, blocks * BLOCK - 77));
}

#[test]
fn a_flipped_byte_anywhere_is_found_by_strict() {
    is_copied_anew(&["--strict"], |part, _, _| flip(part, BLOCK + 5));
}

#[test]
fn a_damaged_journal_is_not_believed() {
    is_copied_anew(&[], |_, journal, _| flip(journal, 20));
}

#[test]
fn a_damaged_record_of_the_last_block_is_not_believed() {
    is_copied_anew(&[], |_, journal, blocks| flip(journal, HEADER + 32 * (blocks - 1)));
}

#[test]
fn a_journal_cut_short_is_not_believed() {
    is_copied_anew(&[], |_, journal, _| {
        File::options().write(true).open(journal).expect("opened").set_len(100).expect("cut");
    });
}

#[test]
fn a_stage_cut_short_is_not_continued() {
    is_copied_anew(&[], |part, _, blocks| {
        let len = blocks * BLOCK - 1;
        File::options().write(true).open(part).expect("opened").set_len(len).expect("cut");
    });
}

#[test]
fn a_stage_that_went_is_not_continued() {
    is_copied_anew(&[], |part, _, _| fs::remove_file(part).expect("removed"));
}

#[test]
fn what_the_journal_of_another_boot_has_not_committed_is_not_believed() {
    // The boot is in bytes 48 to 64, and a checksum over them follows: what is
    // changed here is no longer the header of any boot.
    is_copied_anew(&[], |_, journal, _| flip(journal, 50));
}

#[test]
fn strict_continues_when_all_is_well() {
    everywhere_by_pipe(|scene| {
        make_big(scene);
        let blocks = interrupt(scene, 6);
        assert_eq!(finish(scene, &["--strict"]), LEN - blocks * BLOCK);
    });
}

#[test]
fn a_source_that_changed_meanwhile_is_copied_again() {
    everywhere_by_pipe(|scene| {
        make_big(scene);
        interrupt(scene, 6);
        flip(&scene.path("big"), 5);
        assert_eq!(finish(scene, &[]), LEN);
    });
}

#[test]
fn a_source_that_was_replaced_by_one_of_the_same_size_and_time_is_copied_again() {
    everywhere_by_pipe(|scene| {
        make_big(scene);
        nasty::set_mtime(scene.path("big"), 1_600_000_000, 0).expect("a time");
        interrupt(scene, 6);
        tree::random_file(scene.path("other"), LEN, 8).expect("a file");
        nasty::set_mtime(scene.path("other"), 1_600_000_000, 0).expect("a time");
        fs::rename(scene.path("other"), scene.path("big")).expect("renamed");
        assert_eq!(finish(scene, &[]), LEN);
    });
}

#[test]
fn a_journal_grows_by_32_bytes_a_block() {
    everywhere_by_pipe(|scene| {
        make_big(scene);
        interrupt(scene, 3);
        let len = fs::metadata(&journals(scene)[0]).expect("there").len();
        assert_eq!((len - HEADER) % 32, 0);
        assert_eq!(len, HEADER + 32 * on_record(scene));
        assert!(on_record(scene) <= LEN.div_ceil(BLOCK));
    });
}

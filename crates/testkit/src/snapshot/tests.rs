//! Every kind of difference is seen, and only where there is one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use crate::nasty::{set_mode, set_mtime};
use crate::tree::random_file;

fn small_tree(root: &Path) {
    fs::create_dir_all(root.join("dir")).expect("made");
    random_file(root.join("dir/file"), 3 << 20, 1).expect("made");
    random_file(root.join("other"), 10, 2).expect("made");
    symlink("other", root.join("link")).expect("made");
    for path in ["link", "dir", ""] {
        set_mtime(root.join(path), 1_000_000_000, 7).expect("set");
    }
}

/// The differences found after `change` was done to a perfect copy.
fn after(rules: Compare, change: impl FnOnce(&Path)) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    small_tree(&a);
    small_tree(&b);
    let source = snapshot(&a).expect("read");
    assert_same(&source, &snapshot(&b).expect("read"));
    change(&b);
    let copy = snapshot(&b).expect("read");
    source.differences(&copy, rules).iter().map(ToString::to_string).collect()
}

fn quiet() -> Compare {
    Compare::everything().ignoring_dir_mtimes()
}

#[test]
fn a_missing_and_an_additional_file_are_seen() {
    let found =
        after(quiet(), |b| fs::rename(b.join("other"), b.join("new\nname")).expect("renamed"));
    assert_eq!(
        found,
        ["new\\nname: not in the source (file of 10 bytes)", "other: missing (file of 10 bytes)"]
    );
}

#[test]
fn one_changed_byte_is_seen_and_named() {
    let found = after(quiet().ignoring_mtimes(), |b| {
        let path = b.join("dir/file");
        let mut content = fs::read(&path).expect("read");
        content[2_000_001] ^= 1;
        fs::write(&path, content).expect("written");
    });
    assert_eq!(found, ["dir/file: content differs from byte 2000001 of 3145728"]);
}

#[test]
fn files_are_the_same_up_to_their_last_byte() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let of = |len: u64, seed| crate::content::bytes(len as usize, seed);
    for len in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1] {
        fs::write(&a, of(len, 1)).expect("written");
        fs::write(&b, of(len, 1)).expect("written");
        assert!(same_content(&a, &b).expect("read"), "{len}");
        fs::write(&b, of(len + 1, 1)).expect("written");
        assert!(!same_content(&a, &b).expect("read") && !same_content(&b, &a).expect("read"));
        let mut last = of(len, 1);
        let Some(byte) = last.last_mut() else { continue };
        *byte ^= 1;
        fs::write(&b, last).expect("written");
        assert!(!same_content(&a, &b).expect("read"), "{len}");
    }
    assert!(same_content(&a, dir.path().join("none")).is_err());
}

#[test]
fn swapped_words_and_a_changed_tail_change_the_digest() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("file");
    let mut seen = Vec::new();
    // Two rows, the same with all their words swapped, and with those of one lane alone.
    let rows = [[b'a'; ROW_BYTES], [b'b'; ROW_BYTES]].concat();
    let swapped = [[b'b'; ROW_BYTES], [b'a'; ROW_BYTES]].concat();
    let mut lone = rows.clone();
    let (first, second) = lone.split_at_mut(ROW_BYTES);
    first[16..24].swap_with_slice(&mut second[16..24]);
    for content in [
        &rows[..],
        &swapped,
        &lone,
        b"aaaaaaaabbbbbbbb",
        b"bbbbbbbbaaaaaaaa",
        b"aaaaaaaabbbbbbb",
        b"aaaaaaaabbbbbbb\0",
        b"",
        b"\0",
    ] {
        fs::write(&path, content).expect("written");
        let now = digest(&path).expect("read");
        assert!(!seen.contains(&now), "{content:?}");
        seen.push(now);
    }
}

#[test]
fn size_mode_time_target_and_kind_are_seen() {
    let found = after(quiet(), |b| fs::write(b.join("other"), b"short").expect("written"));
    assert_eq!(found, ["other: size 10 became 5"]);
    let found = after(quiet(), |b| set_mode(b.join("other"), 0o711).expect("set"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with("became 0711"), "{found:?}");
    let found = after(quiet(), |b| set_mtime(b.join("link"), 1_000_000_000, 8).expect("set"));
    assert_eq!(found, ["link: mtime 1000000000.000000007 became 1000000000.000000008"]);
    let found = after(quiet(), |b| {
        fs::remove_file(b.join("link")).expect("removed");
        symlink("dir", b.join("link")).expect("made");
    });
    assert_eq!(found, ["link: target \"other\" became \"dir\""]);
    let found = after(quiet(), |b| {
        fs::remove_file(b.join("link")).expect("removed");
        fs::create_dir(b.join("link")).expect("made");
    });
    assert_eq!(found, ["link: symlink to other became directory"]);
}

#[test]
fn directory_times_and_the_root_are_seen_unless_ignored() {
    let change = |b: &Path| {
        set_mtime(b.join("dir"), 5, 0).expect("set");
        set_mtime(b, 6, 0).expect("set");
    };
    let found = after(Compare::everything(), change);
    assert_eq!(
        found,
        [
            ".: mtime 1000000000.000000007 became 6.000000000",
            "dir: mtime 1000000000.000000007 became 5.000000000"
        ]
    );
    assert_eq!(after(Compare::everything().ignoring_root(), change).len(), 1);
    assert!(after(quiet(), change).is_empty());
}

#[test]
fn lost_holes_are_seen() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    File::create(&a).and_then(|file| file.set_len(8 << 20)).expect("made");
    fs::write(&b, vec![0; 8 << 20]).expect("written");
    let (a, b) = (snapshot(&a).expect("read"), snapshot(&b).expect("read"));
    let rules = Compare::everything().ignoring_mtimes();
    assert_eq!(a.differences(&b, rules).len(), 1);
    assert!(a.differences(&b, rules.ignoring_holes()).is_empty());
}

#[test]
#[should_panic(expected = "1 differences between")]
fn the_assertion_fails_when_it_should() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    small_tree(&dir.path().join("a"));
    small_tree(&dir.path().join("b"));
    fs::remove_file(dir.path().join("b/other")).expect("removed");
    let (a, b) = (snapshot(dir.path().join("a")), snapshot(dir.path().join("b")));
    assert_same_with(&a.expect("read"), &b.expect("read"), quiet());
}

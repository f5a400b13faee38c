//! Large files of which the destination has an older version: no more than the difference
//! goes over a wire, and about as few bytes as rsync sends.

use crate::common::*;
use haul_testkit::haul::Outcome;
use haul_testkit::{duplicate, tree};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;

pub(crate) const MIB: usize = 1 << 20;

/// The host is behind a pipe; what goes there and what comes back is kept.
fn count_bytes(scene: &mut Scene<'_>) {
    let (up, down) = (scene.path("up"), scene.path("down"));
    let lines = format!("shift\ntee '{}' | sh -c \"$*\" | tee '{}'", up.display(), down.display());
    scene.reach_by(script(&scene.path("counting"), &lines));
}

/// Bytes that went over the wire.
fn bytes_on_wire(scene: &Scene<'_>) -> u64 {
    let len = |name| fs::metadata(scene.path(name)).expect("it was kept").len();
    len("up") + len("down")
}

/// Bytes that do not repeat.
pub(crate) fn noise(scene: &Scene<'_>, len: usize, seed: u64) -> Vec<u8> {
    let path = scene.path("noise");
    tree::random_file(&path, len as u64, seed).expect("made");
    fs::read(path).expect("read")
}

#[test]
fn of_a_missing_file_what_a_similar_one_has_is_not_sent() {
    each_of(&Way::REMOTE, count_bytes, |scene| {
        let mut content = noise(scene, 2 * MIB, 7);
        scene.file("dst/release-1.0.tar", &content);
        scene.file("dst/quite different", noise(scene, 2 * MIB, 8));
        scene.symlink("/dev/zero", "dst/release-1.00.tar");
        content[MIB] ^= 1;
        content.truncate(2 * MIB - 100);
        scene.file("src/release-1.1.tar", &content);
        for (flags, is_sent) in [(&[][..], true), (&["-y"], false), (&["-y", "-W"], true)] {
            let _ = fs::remove_file(scene.path("dst/release-1.1.tar"));
            let run = sync(scene, flags).expect_ok();
            assert!(fs::read(scene.path("dst/release-1.1.tar")).expect("read") == content);
            assert_eq!(bytes_on_wire(scene) > MIB as u64, is_sent, "{flags:?} {run}");
            assert_eq!(figure(&run, "matched") == 0, is_sent, "{flags:?} {run}");
        }
        // What has got a new name, whatever that is, has its length and time.
        fs::rename(scene.path("src/release-1.1.tar"), scene.path("src/new")).expect("renamed");
        let run = sync(scene, &["--fuzzy"]).expect_ok();
        assert!(bytes_on_wire(scene) < MIB as u64 / 2, "{run}");
        assert!(fs::read(scene.path("dst/new")).expect("read") == content);
    });
}

#[test]
fn a_similar_file_is_of_no_matter_elsewhere() {
    everywhere_by_pipe(|scene| {
        scene.file("dst/log.1", vec![b'x'; MIB]);
        scene.file("src/log.2", vec![b'x'; MIB + 1]);
        let run = sync(scene, &["-y"]).expect_ok();
        assert_eq!(fs::metadata(scene.path("dst/log.2")).expect("there").len(), MIB as u64 + 1);
        assert_eq!(
            fs::metadata(scene.path("dst/log.1")).expect("there").len(),
            MIB as u64,
            "{run}"
        );
    });
}

pub(crate) fn place(scene: &Scene<'_>, old: &[u8], new: &[u8]) {
    scene.file("dst/f", old);
    scene.file("src/f", new);
}

pub(crate) fn sync(scene: &Scene<'_>, flags: &[&str]) -> Outcome {
    let flags = [&["-a", "--json"], flags].concat();
    scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run()
}

/// Bytes that rsync sends for it, both ways.
fn bytes_of_rsync(scene: &Scene<'_>, flags: &[&str]) -> u64 {
    let _ = fs::remove_dir_all(scene.path("theirs"));
    duplicate(scene.path("dst"), scene.path("theirs")).expect("a copy");
    let output = Command::new("rsync")
        .args(["-a", "--no-whole-file", "--no-compress", "--stats"])
        .args(flags)
        .arg(scene.path("src/"))
        .arg(scene.path("theirs/"))
        .output()
        .expect("rsync is installed");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let total = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("it is told");
        line.replace(',', "").trim().parse::<u64>().expect("a number")
    };
    total("Total bytes sent:") + total("Total bytes received:")
}

#[track_caller]
fn assert_mirrored(scene: &Scene<'_>, run: &Outcome) {
    let [source, dest] = ["src/f", "dst/f"].map(|name| fs::read(scene.path(name)).expect("read"));
    assert!(source == dest, "{run}");
    assert_no_strays(&scene.path("dst"));
}

/// A version of a file, and another one.
pub(crate) fn versions(scene: &Scene<'_>) -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let old = noise(scene, 8 * MIB, 1);
    let fresh = noise(scene, 3 * MIB + 5, 2);
    let mut pages = old.clone();
    for (at, page) in [3, 700, 701, 1_500, 2_047].into_iter().enumerate() {
        pages[page * 4096..][..4096].copy_from_slice(&fresh[at * 4096..][..4096]);
    }
    let mut halves = old[4 * MIB..].to_vec();
    halves.extend_from_slice(&old[..4 * MIB]);
    let mut zeros = vec![0; 3 * MIB];
    zeros.extend_from_slice(&old[..2 * MIB]);
    vec![
        ("pages", old.clone(), pages),
        ("in front", old.clone(), [&fresh[..1_000], &old].concat()),
        ("truncated", old.clone(), old[..5 * MIB + 77].to_vec()),
        ("appended", old.clone(), [&*old, &fresh].concat()),
        ("nothing in common", fresh.clone(), old.clone()),
        ("halves", old.clone(), halves),
        ("zeros", zeros.clone(), [&*zeros, &zeros].concat()),
        ("touched", old.clone(), old),
    ]
}

#[test]
fn little_more_than_the_difference_goes_over_a_wire() {
    each_of(&Way::REMOTE, count_bytes, |scene| {
        for (what, old, new) in versions(scene) {
            place(scene, &old, &new);
            let theirs = bytes_of_rsync(scene, &[]);
            let run = sync(scene, &[]).expect_ok();
            assert_mirrored(scene, &run);
            let ours = bytes_on_wire(scene);
            assert!(ours <= theirs + theirs / 10 + 2_000, "{what}: {ours}, and rsync's {theirs}");
            let [moved, matched] = ["moved", "matched"].map(|name| figure(&run, name));
            assert_eq!(moved + matched, new.len() as u64, "{what}: {run}");
            assert_eq!(matched == 0, what == "nothing in common", "{what}: {run}");
        }
    });
}

#[test]
fn blocks_are_as_long_as_is_asked_for() {
    each_of(&Way::REMOTE, count_bytes, |scene| {
        let (_, old, new) = versions(scene).swap_remove(0);
        for size in ["1000", "100K"] {
            place(scene, &old, &new);
            let theirs = bytes_of_rsync(scene, &["-B", size]);
            let run = sync(scene, &["-B", size]).expect_ok();
            assert_mirrored(scene, &run);
            let ours = bytes_on_wire(scene);
            assert!(ours <= theirs + theirs / 10 + 2_000, "{size}: {ours}, and rsync's {theirs}");
        }
        let run = sync(scene, &["-B", "200K"]).expect_code(1);
        assert!(run.err().contains("128 KiB"), "{run}");
    });
}

#[test]
fn files_are_sent_whole_where_that_is_asked_for_or_all_is_new() {
    each_of(&Way::REMOTE, count_bytes, |scene| {
        let (_, old, new) = versions(scene).swap_remove(0);
        place(scene, &old, &new);
        let run = sync(scene, &["-W"]).expect_ok();
        assert_mirrored(scene, &run);
        assert_eq!((figure(&run, "moved"), figure(&run, "matched")), (new.len() as u64, 0));
        fs::remove_file(scene.path("dst/f")).expect("removed");
        let run = sync(scene, &[]).expect_ok();
        assert_mirrored(scene, &run);
        assert_eq!(figure(&run, "moved"), new.len() as u64);
    });
}

#[test]
fn without_a_wire_files_are_copied_whole() {
    each_of(
        &[Way::Local, Way::SftpUpload, Way::SftpDownload],
        |scene| scene.reach_by_pipe(),
        |scene| {
            let (_, old, new) = versions(scene).swap_remove(0);
            place(scene, &old, &new);
            let run = sync(scene, &["--no-W"]).expect_ok();
            assert_mirrored(scene, &run);
            assert_eq!(figure(&run, "matched"), 0);
        },
    );
}

#[test]
fn a_dry_run_reads_nothing() {
    each_of(&Way::REMOTE, count_bytes, |scene| {
        let (_, old, new) = versions(scene).swap_remove(0);
        place(scene, &old, &new);
        let run = sync(scene, &["-n"]).expect_ok();
        assert!(bytes_on_wire(scene) < 2_000, "{run}");
        assert!(fs::read(scene.path("dst/f")).expect("read") == old);
    });
}

#[test]
fn many_changed_files_go_by_their_differences() {
    const FILES: usize = 150;
    each_of(&Way::REMOTE, count_bytes, |scene| {
        let old = noise(scene, MIB, 3);
        for file in 0..FILES {
            let mut new = old.clone();
            new[file * 5_000] ^= 1;
            scene.file(format!("src/{file}"), &new);
            scene.file(format!("dst/{file}"), &old);
        }
        let run = sync(scene, &["-c", "--fsync"]).expect_ok();
        assert!(bytes_on_wire(scene) < (FILES * 20_000) as u64, "{run}");
        for file in 0..FILES {
            let [one, other] =
                ["src", "dst"].map(|tree| fs::read(scene.path(format!("{tree}/{file}"))));
            assert!(one.expect("read") == other.expect("read"), "{file}");
        }
    });
}

#[test]
fn holes_stay_holes() {
    each_of(
        &Way::REMOTE,
        |scene| scene.reach_by_pipe(),
        |scene| {
            let old = noise(scene, 8 * MIB, 4);
            place(scene, &old, b"");
            let file = fs::File::create(scene.path("src/f")).expect("made");
            file.write_all_at(&old[..MIB], 0).expect("written");
            file.write_all_at(&old[4 * MIB..], 30 * MIB as u64 + 123).expect("written");
            drop(file);
            let run = sync(scene, &[]).expect_ok();
            assert_mirrored(scene, &run);
            assert!(figure(&run, "moved") < MIB as u64 / 2, "{run}");
            let blocks = |name| {
                use std::os::unix::fs::MetadataExt;
                fs::metadata(scene.path(name)).expect("it is there").blocks()
            };
            assert!(blocks("dst/f") <= blocks("src/f") + 64, "{run}");
        },
    );
}

/// The host is behind a pipe that does `change` when the first sums are on their way.
pub(crate) fn change_meanwhile(scene: &mut Scene<'_>, change: &str) {
    let old = scene.path("dst/f");
    let change = change.replace("OLD", &old.to_string_lossy());
    let change = format!("{{ stdbuf -o0 head -c 1000; {change}; cat; }}");
    let lines = match scene.way {
        Way::Upload => format!("shift\nsh -c \"$*\" | {change}"),
        _ => format!("shift\n{change} | sh -c \"$*\""),
    };
    scene.reach_by(script(&scene.path("changing"), &lines));
}

#[test]
fn an_old_version_that_changes_meanwhile_is_not_believed() {
    for change in [
        "printf changed | dd conv=notrunc status=none bs=1 seek=3000000 of=OLD",
        "truncate -s 1M OLD",
    ] {
        let prepare = |scene: &mut Scene<'_>| change_meanwhile(scene, change);
        each_of(&Way::REMOTE, prepare, |scene| {
            let old = noise(scene, 16 * MIB, 5);
            let new = [&old[..], b"and more"].concat();
            place(scene, &old, &new);
            let run = sync(scene, &[]).expect_ok();
            assert_mirrored(scene, &run);
            assert_eq!(figure(&run, "matched"), 0, "{run}");
            assert_eq!(figure(&run, "copied"), 1, "{run}");
        });
    }
}

#[test]
fn what_was_interrupted_is_continued_by_its_difference() {
    let cut_off = |scene: &mut Scene<'_>| {
        let lines = match scene.way {
            Way::Upload => "shift\nstdbuf -o0 head -c 4000000 | sh -c \"$*\"",
            _ => "shift\nsh -c \"$*\" | stdbuf -o0 head -c 4000000",
        };
        scene.reach_by(script(&scene.path("cut"), lines));
    };
    each_of(&Way::REMOTE, cut_off, |scene| {
        let old = noise(scene, 80 * MIB, 6);
        let fresh = noise(scene, 8 * MIB, 7);
        place(scene, &old, &[&old[..41 * MIB], &fresh, &old[41 * MIB..]].concat());
        let run = sync(scene, &[]);
        assert_ne!(run.code, Some(0), "{run}");
        assert!(fs::read(scene.path("dst/f")).expect("read") == old);
        let pipe = script(&scene.path("pipe"), "shift\nexec sh -c \"$*\"");
        let route: [&OsStr; 4] =
            ["--rsh".as_ref(), pipe.as_ref(), "--remote-haul".as_ref(), HAUL.as_ref()];
        let again = scene.transfer("sync", &route, &["-a", "--json"], &["src/"], "dst");
        let run = again.run().expect_ok();
        assert_mirrored(scene, &run);
        let [moved, matched, resumed] =
            ["moved", "matched", "resumed"].map(|name| figure(&run, name));
        assert!(resumed >= 40 * MIB as u64, "{run}");
        assert!(matched >= 38 * MIB as u64 && moved >= 4 * MIB as u64, "{run}");
        assert_eq!(moved + matched + resumed, 88 * MIB as u64, "{run}");
    });
}

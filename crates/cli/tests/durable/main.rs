//! The promises of `--sync` and `--verify` to a user, seen on a file system
//! whose device the test has in its hands.

#[path = "../common/mod.rs"]
mod common;

use common::*;
use haul_testkit::{FileSystem, Mount, assert_same, assert_same_with, snapshot, tree};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Room for what the tests copy, and for a second copy.
const ROOM: u64 = 400 << 20;

/// A file that is staged so that it can be resumed, in bytes.
const LARGE: u64 = 65 << 20;

#[track_caller]
fn ext4() -> Option<Mount> {
    Mount::image(FileSystem::Ext4, ROOM)
}

/// Files of all the sizes that are treated in their own way.
fn make_source(scene: &Scene<'_>) {
    tree::many(scene.path("src"), 300, 5_000, 3, 1).expect("a tree");
    tree::random_file(scene.path("src/middle"), 3_333_333, 2).expect("a file");
    tree::random_file(scene.path("src/large"), LARGE, 3).expect("a file");
    let sparse = fs::File::create_new(scene.path("src/sparse")).expect("a file");
    sparse.set_len(20 << 20).expect("a length");
    std::os::unix::fs::symlink("middle", scene.path("src/link")).expect("a link");
    scene.mkdir("src/empty");
}

#[test]
fn what_was_copied_with_sync_survives_a_power_cut() {
    everywhere(|scene| {
        let Some(mount) = ext4() else { return };
        make_source(scene);
        let source = scene.snapshot("src");
        scene.symlink(mount.path(), "disk");
        scene.copy(&["-r", "--sync"], &["src"], "disk/to").run().expect_ok();
        let cut = mount.after_power_cut().expect("a second file system");
        assert_same_with(&source, &snapshot(cut.join("to")).expect("a tree"), scene.rules());

        // Replaced, and into a directory that is made.
        let new = scene.path("src/large");
        tree::random_file(&new, LARGE + 1, 4).expect("a file");
        tree::random_file(scene.path("src/middle"), 1_000_000, 5).expect("a file");
        let source = scene.snapshot("src");
        let flags = ["-r", "--sync", "--force"];
        scene.copy(&flags, &["src/."], "disk/to/").run().expect_ok();
        scene.copy(&flags, &["src/middle"], "disk/made/").run().expect_ok();
        let cut = mount.after_power_cut().expect("a second file system");
        let all = scene.rules().ignoring_root();
        assert_same_with(&source, &snapshot(cut.join("to")).expect("a tree"), all);
        assert_eq!(fs::read(cut.join("made/middle")).expect("read").len(), 1_000_000);
        assert_no_strays(mount.path());
    });
}

#[test]
fn what_is_verified_is_read_from_its_device() {
    everywhere_by_pipe(|scene| {
        let Some(mount) = ext4() else { return };
        make_source(scene);
        let source = scene.snapshot("src");
        let len: u64 = source.files().map(|(_, facts)| facts.size).sum();
        scene.symlink(mount.path(), "disk");

        let before = mount.bytes_read().expect("a figure");
        scene.copy(&["-r"], &["src"], "disk/plain").run().expect_ok();
        let between = mount.bytes_read().expect("a figure");
        scene.copy(&["-r", "-V"], &["src"], "disk/verified").run().expect_ok();
        let after = mount.bytes_read().expect("a figure");

        assert!(between - before < len / 10, "{} bytes were read back", between - before);
        // The hole of the sparse file is not on the device.
        let data = len - (20 << 20);
        assert!(after - between >= data, "{} of {data} bytes were read back", after - between);
        let there = snapshot(mount.join("verified")).expect("a tree");
        assert_same_with(&source, &there, scene.rules());
        assert_no_strays(mount.path());
    });
}

#[test]
fn what_a_move_verifies_is_read_from_its_device() {
    everywhere_by_pipe(|scene| {
        let Some(mount) = ext4() else { return };
        let remote = scene.route();
        // How much is read from the device where the sources go. A large file is read
        // from there in any case: it leaves the page cache as it is written.
        let read_by = |flags: &[&str], dest: &str| {
            tree::many(scene.path("src"), 60, 5_000, 3, 1).expect("a tree");
            tree::random_file(scene.path("src/middle"), 3_333_333, 2).expect("a file");
            let source = scene.snapshot("src");
            let flags = [&["-q"], flags].concat();
            let haul = scene.transfer("move", &remote, &flags, &["src"], mount.join(dest));
            let before = mount.bytes_read().expect("a figure");
            // Each file waits for the medium, which others use, too.
            haul.limit(Duration::from_secs(400)).run().expect_ok();
            let after = mount.bytes_read().expect("a figure");
            assert!(!scene.exists("src"));
            let there = snapshot(mount.join(dest)).expect("a tree");
            assert_same_with(&source, &there, scene.rules());
            (after - before, source.files().map(|(_, facts)| facts.size).sum::<u64>())
        };
        let (read, len) = read_by(&["-V"], "verified");
        assert!(read >= len, "{read} of {len} bytes were read back");
        // The system may have reclaimed some of it meanwhile, but hardly each time.
        let from_memory = ["plain", "again", "once-more"].iter().any(|dest| {
            let (read, len) = read_by(&[], dest);
            read < len / 10
        });
        assert!(from_memory, "what is only compared was read from the device");
        assert_no_strays(mount.path());
    });
}

#[test]
fn verifying_works_where_nothing_but_memory_is() {
    everywhere_by_pipe(|scene| {
        let Some(mount) = Mount::tmpfs(ROOM) else { return };
        make_source(scene);
        scene.symlink(mount.path(), "disk");
        scene.copy(&["-r", "--verify", "--sync"], &["src"], "disk/to").run().expect_ok();
        let there = snapshot(mount.join("to")).expect("a tree");
        assert_same_with(&scene.snapshot("src"), &there, scene.rules());
        assert_no_strays(mount.path());
    });
}

/// Bytes of a file that may be in memory after a copy that leaves none there: the end of one
/// that is no whole number of blocks is already more.
const LEFT_MAX: u64 = 1 << 20;

/// The same where the system hands it over: what is on its way to ssh when the end is let go
/// stays, with the page of up to 2 MiB in which it lies.
const HANDED_OVER_LEFT_MAX: u64 = 4 << 20;

/// Bytes of a file that are in the page cache.
fn resident(path: &Path) -> u64 {
    let said = Command::new("fincore").args(["-b", "-n", "-o", "RES"]).arg(path).output();
    let text = String::from_utf8(said.expect("fincore").stdout).expect("a figure");
    text.trim().parse().expect("a figure")
}

#[test]
fn what_was_not_in_memory_before_a_large_copy_is_not_left_there() {
    everywhere(|scene| {
        let Some(mount) = ext4() else { return };
        scene.symlink(mount.path(), "disk");
        let source = scene.path("disk/big");
        tree::random_file(&source, LARGE, 6).expect("a file");
        fs::File::open(&source).expect("opened").sync_all().expect("synced");
        scene.mkdir("to");
        scene.copy(&[], &["disk/big"], "to/warm").run().expect_ok();
        // The system may reclaim some of it meanwhile.
        let left = resident(&source);
        assert!(left > LARGE / 2, "a warm file was dropped: {left} bytes are in memory");

        let forget = || {
            let words = ["oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"];
            run(Command::new("dd").arg("if=/dev/null").arg(os_of("of=", &source)).args(words));
            assert!(resident(&source) < LEFT_MAX);
        };
        forget();
        scene.copy(&[], &["disk/big"], "to/cold").run().expect_ok();
        let left = resident(&source);
        assert!(left <= LEFT_MAX, "{left} bytes were left in memory");

        // The kernel hands the content over.
        if matches!(scene.way, Way::Upload | Way::Download) {
            forget();
            scene.copy(&["--fast", "--via", "ssh"], &["disk/big"], "to/fast").run().expect_ok();
            let left = resident(&source);
            assert!(left < HANDED_OVER_LEFT_MAX, "{left} bytes were left in memory by --fast");
        }

        // Between two hauls, of a changed file the difference is sent.
        let file = fs::File::options().append(true).open(&source).expect("opened");
        file.set_len(LARGE + 4096).expect("longer");
        forget();
        let sync = scene.transfer("sync", &scene.route(), &["-t"], &["disk/big"], "to/cold");
        sync.run().expect_ok();
        assert_eq!(fs::metadata(scene.path("to/cold")).expect("there").len(), LARGE + 4096);
        let left = resident(&source);
        assert!(left <= LEFT_MAX, "{left} bytes were left in memory by a sync");
    });
}

/// `prefix` and a path, as one word.
fn os_of(prefix: &str, path: &Path) -> OsString {
    let mut word = OsString::from(prefix);
    word.push(path);
    word
}

/// Files that a process may have open where few are allowed.
const FEW_OPEN: u32 = 256;

#[test]
fn files_that_wait_to_be_durable_stay_within_the_limit_on_open_files() {
    let world = World::new();
    let mut scene = world.scene(Way::Upload);
    // The agent that this starts has the same limit.
    let limited = format!("exec prlimit --nofile={FEW_OPEN}:{FEW_OPEN} {HAUL} \"$@\"");
    scene.run_as(script(&scene.path("haul-limited"), &limited));
    scene.reach_by_pipe();
    // More than this come in a single pack.
    let empty = |at: u32| fs::write(scene.path(format!("src/{at}")), "").expect("a file");
    scene.mkdir("src");
    (0..4 * FEW_OPEN).for_each(empty);
    let run = scene.copy(&["-r", "--sync"], &["src"], "to/").run().expect_ok();
    assert_eq!(run.err(), "");
    assert_same(&scene.snapshot("src"), &scene.snapshot("to/src"));
}

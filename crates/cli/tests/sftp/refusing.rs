//! Servers that refuse to set modes and times.

use crate::common::*;
use crate::{rules, strays};
use haul_testkit::proc::Signal;
use haul_testkit::{Mount, assert_same_with, nasty, same_content, sshd, tree};
use std::fs;
use std::time::Duration;

const TOLD: &str = "the server refuses to set modes and mtimes: contents are complete, but may be readable only by their owner, and the next copy sends them again, unless it replaces only older files";

/// The host is the system's server from now on, which refuses these requests.
fn refuse(scene: &mut Scene<'_>, requests: &str) {
    let server = sshd::system_sftp_server().expect("an sftp-server");
    let asked = "for word; do [ \"$word\" != -G ] || exit 0; done";
    let lines = format!("{asked}\nexec {} -P {requests}", server.display());
    let ssh = scene.mkdir("refusing").join("ssh");
    scene.reach_by(script(&ssh, &lines));
}

/// A small file, and one that is written in blocks, in directories.
fn a_tree(scene: &Scene<'_>) {
    mode(scene.file("tree/sub/small", "small"), 0o640);
    tree::random_file(scene.path("tree/middle"), (3 << 20) + 1, 5).expect("a file");
    mode(scene.path("tree/sub"), 0o711);
}

#[test]
fn what_is_refused_through_handles_alone_is_set_by_paths() {
    let world = World::new();
    let mut scene = world.scene(Way::SftpUpload);
    refuse(&mut scene, "fsetstat");
    a_tree(&scene);
    mode(scene.file("tree/write-only", "secret"), 0o200);
    let source = scene.snapshot("tree");
    for flags in [&["-r"][..], &["-rV"]] {
        let run = scene.copy(flags, &["tree"], "to/").run().expect_ok();
        assert_eq!(run.err(), "", "{run}");
        assert_same_with(&source, &scene.snapshot("to/tree"), rules());
        let run = scene.copy(&["-r", "--json"], &["tree"], "to/").run().expect_ok();
        assert_eq!(moved(&run), 0, "{run}");
        fs::remove_dir_all(scene.path("to")).expect("removed");
    }
    let run = scene.transfer("move", &scene.route(), &[], &["tree"], "to/").run().expect_ok();
    assert!(!scene.exists("tree"), "{run}");
    assert_same_with(&source, &scene.snapshot("to/tree"), rules());
}

#[test]
fn what_is_refused_is_reported_once_and_the_content_arrives() {
    let world = World::new();
    let mut scene = world.scene(Way::SftpUpload);
    refuse(&mut scene, "fsetstat,setstat");
    a_tree(&scene);
    for flags in [&["-r"][..], &["-r", "--force", "-V"]] {
        let run = scene.copy(flags, &["tree"], "to/").run().expect_code(1);
        assert_eq!(errors(&run).len(), 1, "{run}");
        assert!(errors(&run)[0].contains(TOLD), "{run}");
        assert_eq!(run.err().lines().count(), 1, "{run}");
        assert!(
            run.out().contains("copied 2 files, ") && run.out().contains("; failed 1"),
            "{run}"
        );
        assert_eq!(scene.list("to"), ["tree", "tree/middle", "tree/sub", "tree/sub/small"]);
        for name in ["sub/small", "middle"] {
            let there = scene.path(format!("to/tree/{name}"));
            let same = same_content(&there, scene.path(format!("tree/{name}"))).expect("read");
            assert!(same, "{name}");
            // No more may look at it than may at its source.
            assert_eq!(mode_of(&there), 0o600, "{name}");
        }
        fs::remove_dir_all(scene.path("to")).expect("removed");
    }
    // What it says to do helps.
    let files = ["tree/middle", "tree/sub/small"];
    let run = scene.copy(&[], &files, "to/").run().expect_code(1);
    assert!(errors(&run).len() == 1 && run.err().contains(TOLD), "{run}");
    let run = scene.copy(&["--update", "--json"], &files, "to/").run().expect_ok();
    assert_eq!(moved(&run), 0, "{run}");
    let run = scene.transfer("sync", &scene.route(), &["-rt"], &["tree/sub/small"], "new").run();
    assert_eq!(run.expect_code(23).err().matches(TOLD).count(), 1);
    assert_eq!(scene.read("new"), "small");
}

#[test]
fn a_move_keeps_what_would_lose_its_mode_and_time() {
    let world = World::new();
    let mut scene = world.scene(Way::SftpUpload);
    refuse(&mut scene, "fsetstat,setstat");
    a_tree(&scene);
    scene.mkdir("to");
    let files = ["tree/middle", "tree/sub/small"];
    let run = scene.transfer("move", &scene.route(), &[], &files, "to/").run().expect_code(1);
    assert_eq!(errors(&run).iter().filter(|e| e.contains("permission denied")).count(), 2, "{run}");
    assert!(files.iter().all(|file| scene.exists(file)), "{run}");
    assert_eq!(scene.list("to"), [""; 0], "{run}");
}

#[test]
fn a_large_file_that_was_interrupted_completes() {
    const LEN: u64 = (72 << 20) + 4321;
    let world = World::new();
    let mut scene = world.scene(Way::SftpUpload);
    refuse(&mut scene, "fsetstat,setstat");
    tree::random_file(scene.path("big"), LEN, 7).expect("a file");
    nasty::set_mtime(scene.path("big"), 1_600_000_000, 0).expect("a time");
    scene.mkdir("to");
    let running = scene.copy(&[], &["big"], "to/").spawn().expect("it starts");
    let len = |path: &std::path::PathBuf| fs::metadata(path).map_or(0, |meta| meta.len());
    let begun = || strays(&scene.path("to")).iter().map(len).sum::<u64>() > 24 << 20;
    assert!(running.until(Duration::from_secs(20), begun), "it does not begin");
    running.signal(Signal::INT);
    running.wait().expect("it ends").expect_code(130);
    let run = scene.copy(&[], &["big"], "to/").run().expect_code(1);
    assert!(errors(&run).len() == 1 && run.err().contains(TOLD), "{run}");
    let same = same_content(scene.path("big"), scene.path("to/big")).expect("read");
    assert!(same, "the copy differs");
    assert_eq!(scene.list("to"), ["big"]);
}

#[test]
fn a_full_host_that_does_not_report_its_room_is_reported_as_far_as_that_is_known() {
    let Some(small) = Mount::tmpfs(1 << 20) else { return };
    let world = World::new();
    let mut scene = world.scene(Way::SftpUpload);
    refuse(&mut scene, "statvfs");
    scene.symlink(small.path(), "small");
    for len in [300 << 10, 3 << 20] {
        tree::random_file(scene.path("file"), len, 1).expect("a file");
        fs::write(small.join("filler"), vec![1; 1000 << 10]).expect("written");
        let run = scene.copy(&[], &["file"], "small").run().expect_code(1);
        let failed =
            "the server reports a failure without a reason; it does not report the free space";
        assert_one_error(&run, "file", failed, "");
    }
}

//! A copy without `--sync`: what is lost to a cut of the power, the same copy
//! brings again. Nothing is taken for whole that is not.

use super::*;
use haul_testkit::campaign;
use haul_testkit::content::Stream;
use haul_testkit::{Compare, FileSystem, Frozen, Haul, Mount, assert_same_with};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Moments of a copy at which its disk is looked at, in the short form of the
/// campaign.
const MOMENTS: u64 = 4;

/// Room for the image and what is written to it while others share it.
const HOST_LEN: u64 = 6 << 30;

/// Room for what is copied.
const IMAGE_LEN: u64 = 600 << 20;

/// A file that is staged so that it can be resumed, in bytes: a block more than the
/// smallest of them.
const LARGE: u64 = (68 << 20) + 4321;

fn moments() -> u64 {
    campaign::rounds(MOMENTS)
}

/// Files of all the sizes that are treated in their own way, and two with holes;
/// without those of which an upload through SFTP can't promise anything.
fn make_source(scene: &Scene<'_>, by: By) {
    scene.mkdir("src");
    if by != By::SftpUpload {
        tree::many(scene.path("src"), 60, 9_000, 20, 1).expect("a tree");
        for file in 0..4 {
            let path = scene.path(format!("src/middle-{file}"));
            tree::random_file(path, 3_333_333, file).expect("a file");
        }
    }
    tree::random_file(scene.path("src/large"), LARGE, 5).expect("a file");
    for (name, len, at) in [("sparse", 9 << 20, 5 << 20), ("large-sparse", LARGE, 65 << 20)] {
        let sparse = File::create_new(scene.path("src").join(name)).expect("a file");
        sparse.set_len(len).expect("a length");
        for at in [0, at] {
            sparse.write_all_at(&haul_testkit::content::bytes(2 << 20, 6), at).expect("written");
        }
    }
}

/// How a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Local,
    Upload,
    Download,
    SftpUpload,
    SftpDownload,
}

impl By {
    fn is_sftp(self) -> bool {
        [By::SftpUpload, By::SftpDownload].contains(&self)
    }
}

/// A copy through SFTP reaches its host by `ssh`.
fn copy(scene: &Scene<'_>, by: By, ssh: &OsStr, to: &Path) -> Haul {
    let haul = scene.haul().args(["copy", "-r", "-q"]).env("XDG_STATE_HOME", scene.path("state"));
    let haul = match by {
        By::Local => haul,
        By::Upload | By::Download => haul.args(scene.remote()),
        By::SftpUpload | By::SftpDownload => haul.args(["--transport", "sftp", "--rsh"]).arg(ssh),
    };
    let (source, to) = (scene.path("src"), to.join("to/"));
    match by {
        By::Local => haul.arg(source).arg(to),
        By::Upload | By::SftpUpload => haul.arg(source).arg(scene.there(to)),
        By::Download | By::SftpDownload => haul.arg(scene.there(source)).arg(to),
    }
}

/// Copies to `disk`, and freezes it at moments that are drawn by lot, while it is
/// written to, while nothing happens, and while it writes out what it was given.
fn frozen_while_copying(scene: &Scene<'_>, by: By, disk: &Mount, seed: u64) -> Vec<Frozen> {
    let done = AtomicBool::new(false);
    let ssh = if by.is_sftp() { scene.sshd().rsh() } else { String::new() };
    let mut random = Stream::new(campaign::seed(seed));
    thread::scope(|scope| {
        // A journal is written at any time: others have something to make durable.
        scope.spawn(|| {
            let other = File::create(disk.join("other")).expect("a file");
            while !done.load(Ordering::Relaxed) {
                other.write_all_at(b"x", 0).expect("written");
                other.sync_all().expect("synced");
                thread::sleep(Duration::from_millis(15));
            }
        });
        let copies = scope.spawn(|| {
            let copied = copy(scene, by, ssh.as_ref(), disk.path()).run();
            thread::sleep(Duration::from_millis(200));
            run(Command::new("sync").arg("-f").arg(disk.path()));
            done.store(true, Ordering::Relaxed);
            copied.expect_ok();
        });
        let mut frozen = Vec::new();
        while !copies.is_finished() && (frozen.len() as u64) < moments() {
            thread::sleep(Duration::from_millis(20 + random.below(150)));
            frozen.push(disk.freeze().expect("frozen"));
        }
        copies.join().expect("a copy");
        frozen
    })
}

/// Whatever was lost at any moment, a second copy brings.
fn is_whole_after_a_second_copy(kind: FileSystem, by: By) {
    let Some(host) = Mount::image(FileSystem::Xfs, HOST_LEN) else { return };
    let world = World::new();
    let mut scene = world.scene(Way::Upload);
    make_source(&scene, by);
    let source = scene.snapshot("src");
    let disk = host.image_on(kind, IMAGE_LEN).expect("a file system");
    let frozen = frozen_while_copying(&scene, by, &disk, kind as u64 * 3 + by as u64);
    disk.unmount().expect("unmounted");
    assert!(!frozen.is_empty());
    // As after a cut, the machine has been started since, as far as haul can see.
    thread::sleep(Duration::from_millis(1100));
    let text = fs::read_to_string("/proc/uptime").expect("a figure");
    let uptime = text.split('.').next().expect("a figure");
    let started = format!("exec unshare --time --fork --boottime -{uptime} {HAUL} \"$@\"");
    scene.run_as(script(&scene.path("haul-started"), &started));
    scene.reach_by_pipe();
    // What the copies after the cut are sent is not encrypted: there are many.
    let ssh = scene.sftp_server_by_pipe();
    let mut rules = Compare::everything();
    if kind == FileSystem::Xfs || by == By::SftpDownload {
        // XFS gives more room to what grows than it needs.
        rules = rules.ignoring_holes();
    }
    if by.is_sftp() {
        let seconds = |mtime_ns| mtime_ns / 1_000_000_000 * 1_000_000_000;
        rules = rules.keeping_mtimes_as(seconds).ignoring_dir_mtimes();
    }
    for (moment, frozen) in frozen.into_iter().enumerate() {
        let disk = frozen.mount().expect("it can be repaired");
        if moment % 2 == 1 {
            // Somebody looks at what is there, and what is missing is in memory as zeros.
            haul_testkit::snapshot(disk.path()).expect("a tree");
        }
        copy(&scene, by, ssh.as_os_str(), disk.path()).run().expect_ok();
        eprintln!("{kind:?} {by:?}: moment {moment}");
        if by == By::SftpUpload {
            // A stage whose renaming was lost is not known for one: its job has ended.
            run(Command::new("find").arg(disk.join("to")).args(["-name", ".haul-*", "-delete"]));
        }
        let found = haul_testkit::snapshot(disk.join("to/src")).expect("a tree");
        assert_same_with(&source, &found, rules);
    }
}

#[test]
fn what_is_lost_here_comes_again_on_ext4() {
    is_whole_after_a_second_copy(FileSystem::Ext4, By::Local);
}

#[test]
fn what_is_lost_here_comes_again_on_xfs() {
    is_whole_after_a_second_copy(FileSystem::Xfs, By::Local);
}

#[test]
fn what_is_lost_here_comes_again_on_btrfs() {
    is_whole_after_a_second_copy(FileSystem::Btrfs, By::Local);
}

#[test]
fn what_is_lost_on_a_host_comes_again() {
    for kind in [FileSystem::Ext4, FileSystem::Btrfs] {
        is_whole_after_a_second_copy(kind, By::Upload);
    }
}

#[test]
fn what_is_lost_on_a_host_without_haul_comes_again() {
    for kind in [FileSystem::Ext4, FileSystem::Btrfs] {
        is_whole_after_a_second_copy(kind, By::SftpUpload);
    }
}

#[test]
fn what_is_lost_of_a_download_comes_again() {
    for kind in [FileSystem::Ext4, FileSystem::Xfs] {
        is_whole_after_a_second_copy(kind, By::Download);
    }
}

#[test]
fn what_is_lost_of_a_download_from_a_host_without_haul_comes_again() {
    for kind in [FileSystem::Ext4, FileSystem::Xfs] {
        is_whole_after_a_second_copy(kind, By::SftpDownload);
    }
}

#[test]
fn what_was_lost_and_then_read_comes_again() {
    for kind in [FileSystem::Ext4, FileSystem::Xfs] {
        let Some(disk) = Mount::image(kind, IMAGE_LEN) else { return };
        each_of(
            &Way::ALL,
            |scene| scene.reach_by_pipe(),
            |scene| {
                let to = disk.join(format!("{:?}", scene.way));
                fs::create_dir(&to).expect("a directory");
                tree::random_file(scene.path("file"), 5_000_000, 1).expect("a file");
                scene.copy(&[], &["file"], to.as_os_str()).run().expect_ok();
                let there = to.join("file");
                lose_content(&there, 5_000_000);
                let copy = scene.copy(&["--json"], &["file"], to.as_os_str());
                assert_eq!(moved(&copy.run().expect_ok()), 5_000_000);
                let read = |path| fs::read(path).expect("read");
                assert!(read(there) == read(scene.path("file")), "{kind:?}: the copy differs");
                let again = scene.copy(&["--json"], &["file"], to.as_os_str());
                assert_eq!(moved(&again.run().expect_ok()), 0);
            },
        );
    }
}

/// Makes the file as a cut leaves it between giving it its blocks and writing them.
fn lose_content(there: &Path, len: u64) {
    let modified = fs::metadata(there).and_then(|stat| stat.modified());
    let file = File::options().write(true).open(there).expect("opened");
    file.set_len(0).expect("emptied");
    run(Command::new("fallocate").args(["-l", &len.to_string()]).arg(there));
    file.set_modified(modified.expect("a time")).expect("set");
    file.sync_all().expect("synced");
    assert!(fs::read(there).expect("read").iter().all(|byte| *byte == 0));
}

#[test]
fn a_file_that_lost_content_replaces_no_older_backup() {
    let Some(disk) = Mount::image(FileSystem::Ext4, IMAGE_LEN) else { return };
    each_of(
        &Way::ALL,
        |scene| scene.reach_by_pipe(),
        |scene| {
            for (nth, kept) in [(1, "file~"), (2, "file~"), (3, "kept/file")] {
                let flags = &["-ab", "--inplace", "--backup-dir=kept"][..nth];
                let to = disk.join(format!("{:?}{nth}", scene.way));
                fs::create_dir_all(to.join("kept")).expect("a directory");
                tree::random_file(scene.path("file"), 5_000_000, 1).expect("a file");
                let sync = || {
                    let route = scene.route();
                    scene.transfer("sync", &route, flags, &["file"], &to).run().expect_ok();
                };
                sync();
                fs::write(to.join(kept), "an older backup").expect("written");
                lose_content(&to.join("file"), 5_000_000);
                sync();
                let read = |path| fs::read(path).expect("read");
                assert!(read(to.join("file")) == read(scene.path("file")), "{flags:?}");
                assert_eq!(read(to.join(kept)), b"an older backup", "{flags:?}");
                // Without an older one, it is backed up.
                fs::remove_file(to.join(kept)).expect("removed");
                lose_content(&to.join("file"), 5_000_000);
                sync();
                assert_eq!(read(to.join(kept)), [0; 5_000_000], "{flags:?}");
            }
        },
    );
}

#[test]
fn a_small_file_with_holes_is_durable_before_it_gets_its_name() {
    // Nobody can see that it has lost content.
    each_way_by_pipe(|scene| {
        let Some(mut target) = Target::new(scene, Names::Posix) else { return };
        let sparse = File::create_new(scene.path("big")).expect("a file");
        sparse.set_len(300_000).expect("a length");
        sparse.write_all_at(b"content", 150_000).expect("written");
        scene.copy(&["-q"], &["big"], "to/").run().expect_ok();
        assert!(target.disk.syncs() > 0, "{:?}", scene.way);
        target.cut(Loss::Everything, 0);
        target.finish();
    });
}

#[test]
fn a_file_in_which_zeros_become_holes_is_durable_before_it_gets_its_name() {
    each_way_by_pipe(|scene| {
        let Some(mut target) = Target::new(scene, Names::Posix) else { return };
        tree::random_file(scene.path("big"), 2 << 20, 9).expect("a file");
        let route = scene.route();
        scene.transfer("sync", &route, &["-aS"], &["big"], "to/").run().expect_ok();
        assert!(target.disk.syncs() > 0, "{:?}", scene.way);
        target.cut(Loss::Everything, 0);
        target.finish();
    });
}

#[test]
fn a_file_is_updated_in_place_durably_before_it_gets_its_time() {
    // Nobody can see that it has lost content.
    each_way_by_pipe(|scene| {
        let Some(mut target) = Target::new(scene, Names::Posix) else { return };
        for (file, content) in [("big", "new content"), ("to/big", "old content")] {
            scene.file(file, content);
        }
        let old = File::open(scene.path("to/big")).expect("opened");
        old.sync_all().expect("synced");
        let (route, before) = (scene.route(), target.disk.syncs());
        let flags = ["-a", "--inplace", "--ignore-times"];
        scene.transfer("sync", &route, &flags, &["big"], "to/").run().expect_ok();
        assert!(target.disk.syncs() > before, "{:?}", scene.way);
        drop(old);
        target.cut(Loss::Everything, 0);
        target.finish();
    });
}

#[test]
fn a_large_file_is_whole_where_nothing_shows_a_loss() {
    let world = World::new();
    // Each loss with names of each kind.
    for seed in 0..campaign::rounds(6) {
        let scene = world.scene_called(&format!("cut-{seed}"), Way::Local);
        let names = if seed % 2 == 0 { Names::Posix } else { Names::Journaled };
        let Some(mut target) = Target::new(&scene, names) else { return };
        tree::random_file(scene.path("big"), LARGE, 7).expect("a file");
        scene.copy(&["-q"], &["big"], "to/").run().expect_ok();
        target.cut(Loss::ALL[(seed % 3) as usize], campaign::seed(seed));
        target.finish();
    }
}

//! A medium that fails, below real file systems: writing to it is refused from some
//! point on. What haul called durable is there when it works again.

use super::*;
use haul_testkit::{FileSystem, Mount};
use std::path::Path;
use std::process::Command;

/// Room for the tmpfs that holds an image.
const HOST_LEN: u64 = 1 << 30;

/// Room for what is copied.
const IMAGE_LEN: u64 = 400 << 20;

/// Bytes of all files below, about.
const TREE_LEN: u64 = 36 << 20;

const KINDS: [FileSystem; 3] = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];

fn make_source(scene: &Scene<'_>) {
    // More than are made durable at once.
    tree::many(scene.path("src"), 1_500, 16_000, 30, 1).expect("a tree");
    for file in 0..3 {
        let path = scene.path(format!("src/middle-{file}"));
        tree::random_file(path, 4_000_000, file).expect("a file");
    }
}

/// A file system on a medium that takes only so many bytes more, once `fail` is
/// called.
struct Medium {
    host: Mount,
    disk: Mount,
}

impl Medium {
    #[track_caller]
    fn new(kind: FileSystem) -> Option<Medium> {
        let host = Mount::tmpfs(HOST_LEN)?;
        let disk = host.image_on(kind, IMAGE_LEN).expect("a file system");
        disk.write_by_pages().expect("set");
        Some(Medium { host, disk })
    }

    fn fail_after(&self, bytes: u64) {
        // What making the file system has left to be written is none of it.
        self.sync();
        self.host.leave_room(bytes).expect("less room");
    }

    fn work_again(&self) {
        self.host.leave_room(HOST_LEN).expect("more room");
    }

    /// Has all written out that waits, and takes no notice of a failure.
    fn sync(&self) {
        let _ = Command::new("sync").arg("-f").arg(self.disk.path()).output();
    }

    fn mount_again(self) -> Medium {
        self.work_again();
        let Medium { host, disk } = self;
        Medium { disk: disk.mount_again().expect("mounted"), host }
    }
}

/// The files of `src` that `dir` lacks. Those that are there must be the same.
#[track_caller]
fn missing(scene: &Scene<'_>, dir: &Path) -> usize {
    let source = scene.snapshot("src");
    let mut missing = 0;
    for (path, _) in source.files() {
        let path = os(path);
        let wanted = fs::read(scene.path("src").join(path)).expect("read");
        match fs::read(dir.join(path)) {
            Ok(found) => assert!(found == wanted, "{} is not what it was", path.display()),
            Err(_) => missing += 1,
        }
    }
    missing
}

#[test]
fn what_has_its_name_is_durable_when_the_medium_fails() {
    for (at, kind) in KINDS.into_iter().enumerate() {
        // Each file system on two sides of the three, and each side with two file systems.
        let ways = [Way::ALL[at], Way::ALL[(at + 1) % Way::ALL.len()]];
        each_of(
            &ways,
            |scene| scene.reach_by_pipe(),
            |scene| {
                let Some(medium) = Medium::new(kind) else { return };
                make_source(scene);
                let files = scene.snapshot("src").files().count();
                medium.fail_after(TREE_LEN / 4 * (1 + scene.way as u64));
                let dest = medium.disk.join("to/");
                let run = scene.copy(&["-r", "--sync", "-q"], &["src"], dest.as_os_str()).run();
                let medium = medium.mount_again();
                let missing = missing(scene, &medium.disk.join("to/src"));
                eprintln!("{kind:?} {:?}: {missing} of {files} are missing", scene.way);
                assert_eq!(run.code == Some(0), missing == 0, "{run}");
                let dest = medium.disk.join("to/");
                scene.copy(&["-r", "--sync", "-q"], &["src"], dest.as_os_str()).run().expect_ok();
                let medium = medium.mount_again();
                assert_eq!(self::missing(scene, &medium.disk.join("to/src")), 0);
            },
        );
    }
}

/// A file system that goes on after a failure, with files that a copy without `--sync`
/// has left: their names are there and their content is in memory alone. The system
/// has told that to somebody else.
fn each_way_with_what_is_lost(test: impl Fn(&Scene<'_>, Medium) + Sync) {
    each_way_by_pipe(|scene| {
        let Some(medium) = Medium::new(FileSystem::Xfs) else { return };
        make_source(scene);
        medium.fail_after(TREE_LEN / 2);
        let dest = medium.disk.join("");
        scene.copy(&["-r", "-q"], &["src"], dest.as_os_str()).run().expect_ok();
        medium.sync();
        medium.sync();
        medium.work_again();
        test(scene, medium);
    });
}

#[test]
fn what_was_lost_before_is_copied_again_by_a_copy_that_is_to_be_durable() {
    each_way_with_what_is_lost(|scene, medium| {
        let dest = medium.disk.join("");
        scene.copy(&["-r", "-q", "--sync"], &["src"], dest.as_os_str()).run().expect_ok();
        let medium = medium.mount_again();
        assert_eq!(missing(scene, &medium.disk.join("src")), 0);
    });
}

#[test]
fn what_was_lost_before_is_moved_only_when_it_is_there() {
    each_way_with_what_is_lost(|scene, medium| {
        run(Command::new("cp").arg("-a").arg(scene.path("src")).arg(scene.path("kept")));
        let dest = medium.disk.join("");
        let remote = if scene.way == Way::Local { Vec::new() } else { scene.remote() };
        scene.transfer("move", &remote, &["-q"], &["src"], dest.as_os_str()).run().expect_ok();
        assert!(!scene.exists("src"));
        fs::rename(scene.path("kept"), scene.path("src")).expect("renamed");
        let medium = medium.mount_again();
        assert_eq!(missing(scene, &medium.disk.join("src")), 0);
    });
}

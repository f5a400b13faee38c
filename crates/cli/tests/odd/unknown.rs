//! File systems of which it is not known whether they keep all names apart: there the job
//! remembers its own entries, and must take nothing else for one of them.

use super::*;
use std::os::unix::fs::symlink;

/// How long a copy may take to begin.
const SOON: Duration = Duration::from_secs(20);

/// Mounts a file system for a scene.
type Make = fn(&Scene<'_>) -> Option<Mount>;

/// Runs `test` with each such file system behind the scene's `to`.
fn on_each(test: impl Fn(&Scene<'_>)) {
    let kinds: [(&str, Make); 3] = [
        ("xfs", |_| Mount::image(FileSystem::Xfs, 300 << 20)),
        ("overlay", |scene| Mount::overlay(&scene.mkdir("lower"), &scene.mkdir("upper"))),
        ("bindfs", |scene| Mount::bindfs(&scene.mkdir("shown"))),
    ];
    let world = World::new();
    for (kind, mount) in kinds {
        let scene = world.scene_called(kind, Way::Local);
        let Some(mount) = mount(&scene) else { continue };
        scene.symlink(mount.path(), "to");
        test(&scene);
    }
}

#[test]
fn a_directory_makes_way_for_whatever_the_source_has() {
    on_each(|scene| {
        scene.file("src/full", "a file");
        scene.file("src/empty", "a file");
        scene.symlink("nowhere", "src/link");
        sh(
            scene,
            "mkfifo src/fifo; cd to; mkdir -p full/below empty link fifo; echo > full/below/x",
        );
        let sync = |flags: &[&str]| {
            scene.haul().arg("sync").args(flags).arg(scene.path("src/")).arg(scene.path("to/"))
        };
        let told = sync(&["-ain", "--delete"]).run().expect_ok().out();
        assert_eq!(told.lines().filter(|line| line.contains("+++")).count(), 4, "{told}");
        sync(&["-ai", "--delete"]).run().expect_ok();
        assert_eq!(sync(&["-ai", "--delete"]).run().expect_ok().out(), "");
        let differences = scene.snapshot("src").differences(&scene.snapshot("to/."), scene.rules());
        assert!(differences.is_empty(), "{differences:?}");
    });
}

#[test]
fn a_name_that_another_program_makes_in_a_new_directory_is_not_an_entry_of_the_job() {
    each_way_to(&Quirks::default(), |scene, mount| {
        scene.file("tree/sub/z", "of the source");
        scene.file("tree/z", "of the source");
        mount.delay(Call::MakeDir, Duration::from_secs(1), 1);
        let running = scene.copy(&["-r"], &["tree"], "to/").spawn().expect("it starts");
        let tree = mount.backing().join("tree");
        assert!(running.until(SOON, || tree.is_dir()), "it does not begin");
        fs::create_dir(tree.join("sub")).expect("made before the job comes to it");
        symlink("elsewhere", tree.join("sub/z")).expect("made");
        symlink("elsewhere", tree.join("z")).expect("made");
        running.wait().expect("it ends").expect_ok();
        assert_eq!(scene.read("to/tree/z"), "of the source");
        assert_eq!(scene.read("to/tree/sub/z"), "of the source");
    });
}

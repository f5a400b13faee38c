//! Moves of something onto itself by way of a mount that shows it in a second place,
//! with numbers of files that are its own.

use super::common::*;
use haul_testkit::haul::Outcome;
use haul_testkit::{Compare, Mount, assert_same_with};
use std::fs;
use std::path::Path;

/// How the directory is shown in a second place.
#[derive(Debug, Clone, Copy)]
enum View {
    OverLower,
    OverUpper,
    Bind,
    BindFs,
}

impl View {
    const ALL: [View; 4] = [View::OverLower, View::OverUpper, View::Bind, View::BindFs];

    fn of(self, scene: &Scene<'_>, shown: &Path) -> Option<Mount> {
        let other = scene.mkdir("other");
        match self {
            View::OverLower => Mount::overlay(shown, &other),
            View::OverUpper => Mount::overlay(&other, shown),
            View::Bind => Mount::bind(shown),
            View::BindFs => Mount::bindfs(shown),
        }
    }
}

fn a_tree(scene: &Scene<'_>) {
    scene.file("shown/f", "precious");
    scene.file("shown/nil", "");
    scene.symlink("f", "shown/l");
    scene.file("shown/dir/g", "precious, too");
    scene.mkdir("shown/dir/hollow/deeper");
}

fn run_move(scene: &Scene<'_>, flags: &[&str], sources: &[&str], dest: &Path) -> Outcome {
    let sources = sources.iter().map(|source| scene.path(source));
    scene.haul().arg("move").args(flags).args(sources).arg(dest).run()
}

#[test]
fn what_a_mount_shows_is_not_moved_onto_itself() {
    let world = World::new();
    for view in View::ALL {
        let scene = world.scene_called(&format!("{view:?}"), Way::Local);
        a_tree(&scene);
        let Some(mount) = view.of(&scene, &scene.path("shown")) else { return };
        let before = scene.snapshot("shown");
        for sources in [
            &["shown/f"][..],
            &["shown/nil"],
            &["shown/l"],
            &["shown/dir"],
            &["shown/dir/"],
            &["shown/f", "shown/dir"],
            &["shown/dir/hollow/deeper"],
        ] {
            let dest = match sources[0] {
                "shown/dir/hollow/deeper" => mount.join("dir/hollow"),
                _ => mount.path().to_path_buf(),
            };
            for flags in [&["-q"][..], &["--force"]] {
                let run = run_move(&scene, flags, sources, &dest);
                assert!(run.err().contains("are the same"), "{view:?} {sources:?}: {run}");
                assert!(matches!(run.code, Some(1 | 4)), "{view:?}: {run}");
                let rules = Compare::everything().ignoring_dir_mtimes();
                assert_same_with(&before, &scene.snapshot("shown"), rules);
            }
        }
        // Under the name that it has there.
        let run = run_move(&scene, &[], &["shown/f"], &mount.join("f"));
        assert!(run.err().contains("are the same"), "{view:?}: {run}");
        // Another name beside it is another file.
        if !matches!(view, View::OverLower) {
            run_move(&scene, &[], &["shown/f"], &mount.join("h")).expect_ok();
            assert!(!scene.exists("shown/f") && scene.read("shown/h") == "precious", "{view:?}");
        }
    }
}

#[test]
fn what_is_shown_only_deeper_in_a_tree_stays_too() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    a_tree(&scene);
    fs::rename(scene.mkdir("shown/dir"), scene.path("tree-dir")).expect("renamed");
    scene.mkdir("tree");
    scene.file("tree/a", "a");
    fs::rename(scene.path("tree-dir"), scene.path("tree/dir")).expect("renamed");
    let Some(to) = Mount::tmpfs(4 << 20) else { return };
    fs::create_dir_all(to.join("tree/dir")).expect("made");
    let Some(_view) = Mount::bindfs_at(&scene.path("tree/dir"), &to.join("tree/dir")) else {
        return;
    };
    for flags in [&[][..], &["--force"]] {
        let run = run_move(&scene, flags, &["tree"], to.path()).expect_code(1);
        assert!(run.err().contains("tree/dir/g: "), "{run}");
        assert!(run.err().contains("are the same"), "{run}");
        assert_eq!(scene.list("tree/dir"), ["g", "hollow", "hollow/deeper"], "{run}");
        assert_eq!(scene.read("tree/dir/g"), "precious, too");
        assert_eq!(fs::read(to.join("tree/a")).expect("moved"), b"a");
    }
    // Also directories with nothing in them.
    fs::remove_file(scene.path("tree/dir/g")).expect("removed");
    run_move(&scene, &[], &["tree"], to.path()).expect_code(1);
    assert_eq!(scene.list("tree/dir"), ["hollow", "hollow/deeper"]);
}

#[test]
fn what_a_killed_move_has_set_aside_is_moved_by_the_next_one_and_no_litter() {
    let world = World::new();
    for way in Way::ALL {
        let mut scene = world.scene(way);
        scene.reach_by_pipe();
        let Some(to) = Mount::tmpfs(4 << 20) else { return };
        scene.file("tree/.haul-moving-0123abcd-a", "a");
        scene.file("tree/b", "b");
        scene.file("tree/dir/.haul-moving-0123abcd-c", "one");
        scene.file("tree/dir/c", "another");
        scene.file("tree/.haul-moving-4567abcd-deep/d", "d");
        scene.file(".haul-moving-0123abcd-named", "named");
        scene.haul().args(["clean", "-r", "--all", "."]).run().expect_ok();
        assert_eq!(scene.read("tree/.haul-moving-0123abcd-a"), "a");
        let remote = if way == Way::Local { Vec::new() } else { scene.remote() };
        let haul = scene.transfer("move", &remote, &[], &["tree", "named"], to.path());
        haul.run().expect_ok();
        assert!(!scene.exists("tree") && !scene.exists(".haul-moving-0123abcd-named"), "{way:?}");
        let moved = haul_testkit::snapshot(to.path()).expect("it is there");
        let names = ["named", "tree/a", "tree/b", "tree/deep/d", "tree/dir/c"];
        for name in names {
            assert!(moved.files().any(|(path, _)| path == name.as_bytes()), "{way:?} {name}");
        }
        // Both are there where the name was taken.
        let aside = to.join("tree/dir/.haul-moving-0123abcd-c");
        assert_eq!(fs::read(aside).expect("moved"), b"one");
        assert_eq!(fs::read(to.join("tree/dir/c")).expect("moved"), b"another");
    }
}

/// rclone remembers what was in a directory when it was first looked at, with
/// the cache also contents.
const REMEMBERING: [&[&str]; 2] = [&[], &["--vfs-cache-mode", "full"]];

#[test]
fn what_a_mount_remembers_is_no_copy() {
    let world = World::new();
    for (n, flags) in REMEMBERING.into_iter().enumerate() {
        let scene = world.scene_called(&n.to_string(), Way::Local);
        scene.file("shown/f", "precious");
        scene.file("shown/dir/g", "precious, too");
        let cache = scene.mkdir("cache").into_os_string().into_string().expect("a path");
        let flags = [flags, &["--cache-dir", &cache]].concat();
        let Some(mount) = Mount::rclone(&scene.path("shown"), &flags) else { return };
        haul_testkit::snapshot(mount.path()).expect("it is looked at");
        for flags in [&["-q"][..], &["--force"]] {
            for sources in [&["shown/f"][..], &["shown/dir"]] {
                let run = run_move(&scene, flags, sources, mount.path());
                assert!(run.err().contains("are the same"), "{sources:?}: {run}");
                assert_eq!(scene.list("shown"), ["dir", "dir/g", "f"], "{run}");
                assert_eq!(
                    scene.read("shown/f") + &scene.read("shown/dir/g"),
                    "preciousprecious, too"
                );
            }
        }
    }
}

/// Which of the ends of a move are mounts that remember.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Remembers {
    Source,
    Dest,
    Both,
}

#[test]
fn what_a_mount_on_either_machine_remembers_is_no_copy() {
    let world = World::new();
    for (n, flags) in REMEMBERING.into_iter().enumerate() {
        for who in [Remembers::Source, Remembers::Dest, Remembers::Both] {
            for way in Way::ALL {
                let mut scene = world.scene_called(&format!("{n}-{who:?}-{way:?}"), way);
                scene.reach_by_pipe();
                let shown = scene.file("shown/f", "precious");
                scene.file("shown/dir/g", "precious, too");
                let shown = shown.parent().expect("it is in a directory").to_path_buf();
                let mount = |name| {
                    let cache = scene.mkdir(name).into_os_string().into_string().expect("a path");
                    let mount = Mount::rclone(&shown, &[flags, &["--cache-dir", &cache]].concat())?;
                    haul_testkit::snapshot(mount.path()).expect("it is looked at");
                    Some(mount)
                };
                let (Some(one), Some(other)) = (mount("one"), mount("other")) else { return };
                let source = if who == Remembers::Dest { &shown } else { one.path() };
                let dest = if who == Remembers::Source { &shown } else { other.path() };
                let before = scene.snapshot("shown");
                for name in ["f", "dir"] {
                    let remote = if way == Way::Local { Vec::new() } else { scene.remote() };
                    let source = [source.join(name)];
                    let run = scene.transfer("move", &remote, &["-q"], &source, dest).run();
                    assert!(run.err().contains("are the same"), "{who:?} {way:?}: {run}");
                    let rules = Compare::everything().ignoring_dir_mtimes();
                    assert_same_with(&before, &scene.snapshot("shown"), rules);
                }
            }
        }
    }
}

#[test]
fn what_shows_where_nothing_can_be_written_is_no_copy() {
    let world = World::new();
    let mut scene = world.scene(Way::Download);
    scene.reach_by_pipe();
    scene.file("shown/f", "precious");
    let Some(view) = Mount::rclone(&scene.path("shown"), &["--read-only"]) else { return };
    haul_testkit::snapshot(view.path()).expect("it is looked at");
    let haul = scene.haul().args(["move", "-q"]).args(scene.remote());
    let run = haul.arg(scene.there(scene.path("shown/f"))).arg(view.path()).run().expect_code(4);
    assert!(run.err().contains("can't check whether it is the source itself: "), "{run}");
    assert_eq!((scene.list("shown"), scene.read("shown/f")), (vec!["f".into()], "precious".into()));
}

#[test]
fn a_file_system_that_fails_to_report_that_it_has_no_attributes_can_be_moved_from() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("shown/f", "x");
    scene.file("shown/dir/g", "y");
    let Some(mount) = Mount::rclone(&scene.path("shown"), &[]) else { return };
    scene.mkdir("to");
    let sources = [mount.join("f"), mount.join("dir")];
    let run = scene.haul().args(["move", "-q"]).args(sources).arg("to").run().expect_ok();
    assert_eq!(scene.list("to"), ["dir", "dir/g", "f"], "{run}");
    assert!(scene.list("shown").is_empty());
}

#[test]
fn what_a_mount_remembers_deeper_in_a_tree_is_no_copy() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("tree/dir/g", "precious");
    let Some(to) = Mount::tmpfs(4 << 20) else { return };
    fs::create_dir_all(to.join("tree/dir")).expect("made");
    let Some(_view) = Mount::rclone_at(&scene.path("tree/dir"), &[], &to.join("tree/dir")) else {
        return;
    };
    haul_testkit::snapshot(to.path()).expect("it is looked at");
    run_move(&scene, &["-q"], &["tree"], to.path()).expect_code(1);
    assert_eq!(scene.list("tree/dir"), ["g"]);
    assert_eq!(scene.read("tree/dir/g"), "precious");
}

#[test]
fn what_shows_deeper_in_a_tree_of_another_machine_is_no_copy() {
    let world = World::new();
    for by_rclone in [false, true] {
        for way in Way::REMOTE {
            let mut scene = world.scene_called(&format!("{way:?}-{by_rclone}"), way);
            scene.reach_by_pipe();
            scene.file("tree/dir/g", "precious");
            scene.file("tree/a", "a");
            let Some(to) = Mount::tmpfs(4 << 20) else { return };
            fs::create_dir_all(to.join("tree/dir")).expect("made");
            let place = to.join("tree/dir");
            let view = match by_rclone {
                true => Mount::rclone_at(&scene.path("tree/dir"), &[], &place),
                false => Mount::bindfs_at(&scene.path("tree/dir"), &place),
            };
            let Some(_view) = view else { return };
            haul_testkit::snapshot(to.path()).expect("it is looked at");
            for flags in [&["-q"][..], &["-q", "--force"]] {
                let haul = scene.transfer("move", &scene.remote(), flags, &["tree"], to.path());
                let run = haul.run().expect_code(1);
                assert_eq!(scene.list("tree"), ["dir", "dir/g"], "{run}");
                assert_eq!(scene.read("tree/dir/g"), "precious");
                assert_eq!(fs::read(to.join("tree/a")).expect("moved"), b"a");
            }
        }
    }
}

#[test]
fn directories_below_an_overlay_are_moved_out_of_it() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    a_tree(&scene);
    scene.mkdir("upper");
    let before = scene.snapshot("shown/dir");
    let Some(mount) = Mount::overlay(&scene.path("shown"), &scene.path("upper")) else { return };
    scene.mkdir("to");
    let run = scene.haul().arg("move").arg(mount.join("dir")).arg(scene.path("to")).run();
    run.expect_ok();
    assert!(!mount.join("dir").exists());
    let rules = Compare::everything();
    assert_same_with(&before, &scene.snapshot("to/dir"), rules);
}

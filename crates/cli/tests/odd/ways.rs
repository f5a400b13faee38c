//! File systems that lack the fast ways: whatever they say, the plain way is gone.

use super::*;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn whatever_a_fast_way_says_the_plain_way_is_gone() {
    everywhere_by_pipe(|scene| {
        for errno in [Errno::INVAL, Errno::IO, Errno::OPNOTSUPP, Errno::PERM, Errno::NOTTY] {
            let refused = Some(errno);
            let quirks = Quirks {
                rename_new: refused,
                link: refused,
                copy_range: refused,
                holes: refused,
                ..Quirks::default()
            };
            let mounts = (OddMount::new(quirks), OddMount::new(Quirks::default()));
            let (Some(mount), Some(back)) = mounts else { return };
            scene.symlink(mount.path(), "to");
            scene.symlink(back.path(), "back");
            fs::create_dir(scene.path("tree")).expect("made");
            scene.symlink("nowhere", "tree/link");
            // The largest once: that is work enough.
            let sizes = if errno == Errno::IO { &SIZES[..] } else { &SIZES[..2] };
            for (name, len) in sizes {
                tree::random_file(scene.path(format!("tree/{name}")), *len, 3).expect("a file");
            }
            let same = |name: &str| {
                let read = |path: String| fs::read(scene.path(path)).expect("read");
                assert!(read(format!("tree/{name}")) == read(format!("to/tree/{name}")));
            };
            for args in [&["-r", "-q"][..], &["-r", "-q", "-f"], &["-r", "-q", "--no-clobber"]] {
                scene.copy(args, &["tree"], "to/").run().expect_ok();
                sizes.iter().for_each(|(name, _)| same(name));
                assert_eq!(scene.list("to/tree").len(), sizes.len() + 1, "{args:?}");
            }
            // From there, too.
            fs::rename(mount.join("tree"), mount.join("again")).expect("renamed");
            scene.copy(&["-r", "-q"], &["to/again"], "back/").run().expect_ok();
            let middle = |mount: &OddMount| fs::read(mount.join("again/middle")).expect("read");
            assert!(middle(&back) == middle(&mount));
            moves(scene, &["-q"], &["to/again/small"], "to/").run().expect_ok();
            assert!(!mount.join("again/small").exists() && mount.join("small").exists());
            for name in ["tree", "to", "back"] {
                run(Command::new("rm").arg("-r").arg(scene.path(name)));
            }
        }
    });
}

#[test]
fn the_holes_of_a_file_are_not_read_for_its_hash() {
    each_way_by_pipe(|scene| {
        let Some(mount) = OddMount::new(Quirks::default()) else { return };
        const LEN: u64 = 256 << 20;
        let big = fs::File::create(mount.backing().join("big")).expect("made");
        big.write_all_at(b"data", LEN / 2).expect("written");
        big.set_len(LEN).expect("a hole");
        fs::write(scene.path("dense"), {
            let mut content = vec![0; LEN as usize];
            content[LEN as usize / 2..][..4].copy_from_slice(b"data");
            content
        })
        .expect("written");
        let hash = |path: PathBuf| {
            let location = match scene.way {
                Way::Local => path.into_os_string(),
                _ => scene.there(path),
            };
            let run = scene.haul().arg("hash").args(scene.route()).arg(location).run().expect_ok();
            run.out().split(' ').next().map(str::to_owned)
        };
        assert_eq!(hash(mount.join("big")), hash(scene.path("dense")));
        assert!(mount.calls(Call::Read) < 16, "{} reads", mount.calls(Call::Read));
    });
}

#[test]
fn where_files_are_written_in_their_order_alone_large_ones_are() {
    let quirks = Quirks { out_of_order: Some(Errno::SPIPE), ..Quirks::default() };
    each_way_to(&quirks, |scene, _| {
        for (name, len) in SIZES {
            tree::random_file(scene.path(name), len, 3).expect("a file");
            for flags in [&["-q"][..], &["-q", "-f", "-V"]] {
                scene.copy(flags, &[name], "to/").run().expect_ok();
                let read = |path: String| fs::read(scene.path(path)).expect("read");
                assert!(read(name.into()) == read(format!("to/{name}")), "{name} differs");
            }
        }
        assert_eq!(scene.list("to/"), ["large", "middle", "small"]);
    });
}

#[test]
fn a_source_that_is_reported_to_take_no_storage_has_no_holes_by_that() {
    let Some(disk) = Mount::image(FileSystem::Ext4, 64 << 20) else { return };
    each_way_by_pipe(|scene| {
        let Some(mount) = OddMount::new(Quirks { no_storage: true, ..Quirks::default() }) else {
            return;
        };
        scene.symlink(mount.path(), "from");
        let to = disk.join(format!("{:?}/", scene.way));
        fs::create_dir(&to).expect("made");
        for (name, len) in &SIZES[..2] {
            let source = format!("from/{name}");
            tree::random_file(scene.path(&source), *len, 3).expect("a file");
            scene.copy(&[], &[&source], to.as_os_str()).run().expect_ok();
            // What a cut of the power leaves.
            let there = fs::OpenOptions::new().write(true).open(to.join(name)).expect("opened");
            let modified = there.metadata().and_then(|stat| stat.modified()).expect("a time");
            there.set_len(0).expect("emptied");
            there.set_len(*len).expect("a hole");
            there.set_modified(modified).expect("set");
            let run = scene.copy(&["--json"], &[&source], to.as_os_str()).run().expect_ok();
            assert_eq!(moved(&run), *len, "{run}");
            let read = |path| fs::read(path).expect("read");
            assert!(read(to.join(name)) == read(scene.path(&source)), "{name} differs");
        }
    });
}

#[test]
fn the_same_words_mean_the_same_place_where_a_directory_keeps_nothing_in_mind() {
    // Of an agent nothing is on record, and what stands there stands for itself.
    for way in [Way::Local, Way::Download] {
        let world = World::new();
        let mut scene = world.scene(way);
        scene.reach_by_pipe();
        let Some(mount) = OddMount::new(Quirks::default()) else { return };
        scene.symlink(mount.path(), "to");
        scene.file("many/a", "a");
        let state = scene.path("state");
        let copy = |source: &str| {
            let copy = scene.copy(&["-r"], &[source], "to/bak").env("XDG_STATE_HOME", &state);
            copy.run().expect_ok()
        };
        copy("many");
        scene.file("many/b", "b");
        let run = copy("many");
        assert_eq!(scene.list("to/bak/"), ["a", "b"], "{run}");
        scene.file("other/many/c", "c");
        copy("other/many");
        assert_eq!(scene.list("to/bak/"), ["a", "b", "many", "many/c"]);
        // Where it can, nothing is put on record.
        fs::remove_dir_all(&state).expect("removed");
        let here = scene.copy(&["-r"], &["many"], "bak").env("XDG_STATE_HOME", &state);
        here.run().expect_ok();
        assert!(!state.exists());
        here.run().expect_ok();
        assert_eq!(scene.list("bak"), ["a", "b"]);
    }
}

/// The name of a small stage.
const SMALL: &str = ".haul-0123456789abcdef";

#[test]
fn what_an_earlier_run_of_the_system_has_left_goes_with_the_next_copy_there() {
    const LONG: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);
    let old = Quirks { changed_before: LONG, ..Quirks::default() };
    each_way_to(&old, |scene, mount| {
        let (dir, stage) = (mount.join("dir"), mount.join("dir").join(SMALL));
        fs::create_dir(&dir).expect("made");
        fs::write(&stage, "half").expect("written");
        nasty::set_mtime(&stage, 1_000_000_000, 0).expect("a time");
        fs::write(dir.join(".haul-0123456789abcde"), "no stage").expect("written");
        let held = fs::File::open(&stage).expect("opened");
        held.lock().expect("locked");
        scene.file("a", "a");
        scene.copy(&[], &["a"], "to/dir").run().expect_ok();
        assert!(stage.exists(), "somebody is at it");
        drop(held);
        scene.copy(&["--dry-run", "--force"], &["a"], "to/dir").run().expect_ok();
        assert!(stage.exists());
        scene.copy(&["--force"], &["a"], "to/dir").run().expect_ok();
        assert_eq!(scene.list("to/dir/"), [".haul-0123456789abcde", "a"]);
    });
}

#[test]
fn what_was_changed_since_or_who_knows_when_stays() {
    let quirks = [Quirks::default(), Quirks { no_ctime: true, ..Quirks::default() }];
    for quirks in quirks {
        each_way_to(&quirks, |scene, mount| {
            fs::write(mount.join(SMALL), "half").expect("written");
            nasty::set_mtime(mount.join(SMALL), 1_000_000_000, 0).expect("a time");
            scene.file("a", "a");
            scene.copy(&[], &["a"], "to/").run().expect_ok();
            assert_eq!(scene.list("to/"), [SMALL, "a"]);
        });
    }
}

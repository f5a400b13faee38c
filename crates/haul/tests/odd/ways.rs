//! File systems that lack the fast ways: whatever they say, the plain way is gone.

use super::*;

#[test]
fn whatever_a_fast_way_says_the_plain_way_is_gone() {
    for errno in [Errno::INVAL, Errno::IO, Errno::OPNOTSUPP, Errno::PERM, Errno::NOTTY] {
        let refused = Some(errno);
        let quirks = Quirks {
            rename_new: refused,
            link: refused,
            copy_range: refused,
            holes: refused,
            ..Quirks::default()
        };
        each_way_to(&quirks, |scene, mount| {
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
            let back = OddMount::new(Quirks::default());
            let Some(back) = back else { return };
            scene.symlink(back.path(), "back");
            fs::rename(mount.join("tree"), mount.join("again")).expect("renamed");
            scene.copy(&["-r", "-q"], &["to/again"], "back/").run().expect_ok();
            let middle = |mount: &OddMount| fs::read(mount.join("again/middle")).expect("read");
            assert!(middle(&back) == middle(mount));
            moves(scene, &["-q"], &["to/again/small"], "to/").run().expect_ok();
            assert!(!mount.join("again/small").exists() && mount.join("small").exists());
        });
    }
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

//! Names that are one at the destination: none of the job takes the place of
//! another.

use super::*;
use std::collections::BTreeMap;
use std::path::Path;

/// The files below a directory, by content, with the names that they have.
fn contents(root: &Path) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut left = vec![root.to_path_buf()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).expect("read") {
            let path = entry.expect("read").path();
            if path.is_dir() && !path.is_symlink() {
                left.push(path);
                continue;
            }
            let content = match fs::read_link(&path) {
                Ok(target) => format!("-> {}", target.display()),
                Err(_) => fs::read_to_string(&path).expect("text"),
            };
            let name = path.strip_prefix(root).expect("below").display().to_string();
            found.entry(content).or_default().push(name);
        }
    }
    found
}

/// Pairs of names, and what each pair is in the source.
fn source(scene: &Scene<'_>) {
    for (one, other) in [("README", "readme"), ("caf\u{e9}", "cafe\u{301}")] {
        fs::write(scene.path(format!("tree/{one}")), format!("first {one}")).expect("written");
        fs::write(scene.path(format!("tree/{other}")), format!("second {other}")).expect("written");
        scene.symlink("somewhere", format!("tree/l{one}"));
        fs::write(scene.path(format!("tree/l{other}")), "a file, no link").expect("written");
        for dir in [one, other] {
            let dir = scene.path(format!("tree/d{dir}"));
            fs::create_dir(&dir).expect("made");
            fs::write(dir.join("in"), format!("in {}", dir.display())).expect("written");
        }
    }
}

const KINDS: [Names; 2] = [Names::FoldCase, Names::Compose];

/// Runs `test` in every way with that source, into a directory that the job makes and
/// one that stands there.
fn each_way_with_pairs(test: impl Fn(&Scene<'_>, &OddMount) + Sync) {
    for names in KINDS {
        for stands in [false, true] {
            let quirks = Quirks { names, ..Quirks::default() };
            each_way_to(&quirks, |scene, mount| {
                fs::create_dir(scene.path("tree")).expect("made");
                source(scene);
                if stands {
                    fs::create_dir(mount.join("tree")).expect("made");
                }
                test(scene, mount);
            });
        }
    }
}

#[test]
fn of_two_names_that_are_one_the_second_fails_and_the_first_stays() {
    each_way_with_pairs(|scene, mount| {
        let run = scene.copy(&["-r"], &["tree"], "to/").run().expect_code(1);
        let errors = run.err().matches("its name is that of another entry of this job").count();
        assert_eq!(errors, 3, "{run}");
        // One of each pair, and all of the pairs that are told apart.
        let there = contents(&mount.join("tree"));
        let here = contents(&scene.path("tree"));
        assert!(there.keys().all(|content| here.contains_key(content)), "{there:?}");
        let files: usize = there.values().map(Vec::len).sum();
        assert_eq!(files, 6 + 3, "{there:?}");
    });
}

#[test]
fn what_one_source_brings_another_does_not_replace_under_another_spelling() {
    let quirks = Quirks { names: Names::FoldCase, ..Quirks::default() };
    each_way_to(&quirks, |scene, mount| {
        for (path, content) in [
            ("a/README", "first"),
            ("a/dir/one", "first one"),
            ("b/readme", "second"),
            ("b/other", "other"),
            ("b/DIR/ONE", "second one"),
        ] {
            scene.file(path, content);
        }
        let run = scene.copy(&["-r"], &["a/.", "b/."], "to/").run().expect_code(1);
        // What is in the directory fails with it.
        assert_eq!(
            run.err().matches("its name is that of another entry of this job").count(),
            2,
            "{run}"
        );
        let read = |name: &str| fs::read_to_string(mount.join(name)).expect("it is there");
        // Whichever has arrived first.
        assert!(["first", "second"].contains(&&*read("README")), "{run}");
        assert_eq!(read("dir/one"), "first one");
        assert_eq!(read("other"), "other");
    });
}

#[test]
fn a_move_loses_none_of_two_names_that_are_one() {
    each_way_with_pairs(|scene, mount| {
        let before = contents(&scene.path("tree"));
        let run = moves(scene, &[], &["tree"], "to/").run().expect_code(1);
        let mut after = contents(&scene.path("tree"));
        let there = contents(&mount.join("tree"));
        assert!(!there.is_empty(), "{run}");
        for (content, names) in there {
            after.entry(content).or_default().extend(names);
        }
        assert!(before.keys().eq(after.keys()), "{before:?} {after:?} {run}");
    });
}

#[test]
fn what_stood_there_is_replaced_once() {
    let quirks = Quirks { names: Names::FoldCase, ..Quirks::default() };
    each_way_to(&quirks, |scene, mount| {
        fs::create_dir(scene.path("tree")).expect("made");
        fs::create_dir(mount.join("tree")).expect("made");
        fs::write(mount.join("tree/readMe"), "old").expect("written");
        nasty::set_mtime(mount.join("tree/readMe"), 5, 5).expect("set");
        fs::write(scene.path("tree/README"), "first").expect("written");
        fs::write(scene.path("tree/readme"), "second").expect("written");
        let run = scene.copy(&["-r"], &["tree"], "to/").run().expect_code(1);
        assert_eq!(scene.list("to/tree"), ["readMe"]);
        if scene.way == Way::SftpUpload {
            // Which file has a name is not told there: neither replaces it.
            assert_eq!(
                run.err().matches("its name is that of another entry of this job").count(),
                2,
                "{run}"
            );
            assert_eq!(scene.read("to/tree/readMe"), "old");
            return;
        }
        assert_eq!(
            run.err().matches("its name is that of another entry of this job").count(),
            1,
            "{run}"
        );
        assert_eq!(scene.read("to/tree/readMe"), "first");
        // One alone is welcome to it.
        fs::remove_file(scene.path("tree/README")).expect("removed");
        scene.copy(&["-r"], &["tree"], "to/").run().expect_ok();
        assert_eq!(scene.read("to/tree/readMe"), "second");
    });
}

#[test]
fn hard_links_at_the_destination_are_no_names_that_are_one() {
    let quirks = Quirks { names: Names::FoldCase, ..Quirks::default() };
    each_way_to(&quirks, |scene, mount| {
        fs::create_dir(scene.path("tree")).expect("made");
        fs::create_dir(mount.join("tree")).expect("made");
        for name in ["a", "b", "c"] {
            fs::write(scene.path(format!("tree/{name}")), name).expect("written");
        }
        fs::write(mount.join("tree/a"), "old").expect("written");
        fs::hard_link(mount.join("tree/a"), mount.join("tree/b")).expect("linked");
        fs::hard_link(mount.join("tree/a"), mount.join("tree/c")).expect("linked");
        scene.copy(&["-r"], &["tree"], "to/").run().expect_ok();
        for name in ["a", "b", "c"] {
            assert_eq!(scene.read(format!("to/tree/{name}")), name);
        }
    });
}

#[test]
fn two_sources_whose_names_are_one_are_not_put_into_one_place() {
    let quirks = Quirks { names: Names::FoldCase, ..Quirks::default() };
    each_way_to(&quirks, |scene, mount| {
        // From elsewhere, and, for a move, on one file system.
        for from in ["", "to/"] {
            let path = |name: &str| format!("{from}{name}");
            fs::create_dir_all(mount.join("dest")).expect("made");
            fs::create_dir_all(scene.path(path("one"))).expect("made");
            fs::create_dir_all(scene.path(path("two"))).expect("made");
            fs::write(scene.path(path("one/FILE")), "one").expect("written");
            fs::write(scene.path(path("two/file")), "two").expect("written");
            let sources = [path("one/FILE"), path("two/file")];
            let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
            // Whichever comes first is there.
            scene.copy(&[], &sources, "to/dest").run().expect_code(1);
            assert!(["one", "two"].contains(&&*scene.read("to/dest/file")));
            fs::remove_file(mount.join("dest/file")).expect("removed");
            moves(scene, &[], &sources, "to/dest").run().expect_code(1);
            let left = sources.iter().filter(|path| scene.exists(path));
            let left: Vec<String> = left.map(|path| scene.read(path)).collect();
            let mut all = [&left[..], &[scene.read("to/dest/file")]].concat();
            all.sort();
            all.dedup();
            assert_eq!(all, ["one", "two"]);
            left.iter().for_each(|content| {
                fs::remove_file(scene.path(path(if content == "one" {
                    "one/FILE"
                } else {
                    "two/file"
                })))
                .expect("removed");
            });
            fs::remove_file(mount.join("dest/file")).expect("removed");
        }
    });
}

#[test]
fn two_names_that_stand_for_one_file_are_not_both_taken() {
    let quirks = Quirks { names: Names::FoldCase, ..Quirks::default() };
    each_way_to(&quirks, |scene, mount| {
        for old in [None, Some("FILE"), Some("file")] {
            for name in ["FILE", "file"] {
                scene.file(format!("from/{name}"), name);
            }
            if let Some(old) = old {
                fs::write(mount.join(old), "old").expect("written");
                nasty::set_mtime(mount.join(old), 5, 5).expect("set");
            }
            let sources = ["from/FILE", "from/file"];
            scene.copy(&[], &sources, "to/").run().expect_code(1);
            assert!(["FILE", "file"].contains(&&*scene.read("to/file")), "{old:?}");
            let run = moves(scene, &[], &sources, "to/").run();
            let all = [contents(&scene.path("to/")), contents(&scene.path("from"))];
            for name in ["FILE", "file"] {
                assert!(all.iter().any(|there| there.contains_key(name)), "{all:?} {run}");
            }
            fs::remove_file(mount.join("file")).expect("removed");
        }
    });
}

#[test]
fn a_mirror_removes_nothing_that_it_has_under_another_spelling() {
    for (there, here) in [("README", "readme"), ("cafe\u{301}", "caf\u{e9}")] {
        let names = if there == "README" { Names::FoldCase } else { Names::Compose };
        each_way_to(&Quirks { names, ..Quirks::default() }, |scene, mount| {
            for (dir, content) in [("changed", "old, and longer"), ("same", "new")] {
                scene.file(format!("src/{dir}/{here}"), "new");
                scene.file(format!("src/{dir}/d{here}/in"), "in");
                fs::create_dir_all(mount.join(format!("{dir}/d{there}"))).expect("made");
                fs::write(mount.join(format!("{dir}/{there}")), content).expect("written");
                fs::write(mount.join(format!("{dir}/d{there}/in")), "in").expect("written");
                fs::write(mount.join(format!("{dir}/extra")), "extra").expect("written");
                let ours = scene.path(format!("src/{dir}/{here}"));
                for path in [ours, mount.join(format!("{dir}/{there}"))] {
                    nasty::set_mtime(path, 5, 0).expect("set");
                }
            }
            for when in ["--delete", "--delete-before", "--delete-after"] {
                let route = if scene.way == Way::Local { Vec::new() } else { scene.remote() };
                let flags = ["-rlpt", when];
                let run = scene.transfer("sync", &route, &flags, &["src/"], "to/").run();
                for dir in ["changed", "same"] {
                    let read = |name: &str| {
                        fs::read_to_string(mount.join(format!("{dir}/{name}"))).unwrap_or_default()
                    };
                    let content = read(here);
                    assert!(content == "new" || content == "old, and longer", "{dir}: {run}");
                    assert_eq!(read(&format!("d{here}/in")), "in", "{dir}: {run}");
                    // Where objects can't be told, what may be another's stays.
                    let is_gone = !mount.join(format!("{dir}/extra")).exists();
                    assert!(is_gone || scene.way == Way::SftpUpload, "{run}");
                }
            }
        });
    }
}

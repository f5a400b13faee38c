//! Sources that keep their paths, and lists of such.

use crate::common::*;
use crate::oracle::Pair;
use std::fs;

/// A source with some depth, and a destination with a part of it and more.
fn build(scene: &Scene<'_>) {
    scene.clear(&["src", "dst"]);
    for name in ["a/h", "a/b/g", "a/b/c/f", "real/in/z", "top"] {
        scene.file(format!("src/{name}"), name);
    }
    scene.mkdir("src/empty/er");
    scene.symlink("real", "src/ln");
    scene.symlink("h", "src/a/to-h");
    mode(scene.path("src/a"), 0o710);
    mode(scene.path("src/a/b"), 0o701);
    for name in ["x", "a/x", "a/b/x", "a/b/c/q/x", "real/x", "a/h"] {
        scene.file(format!("dst/{name}"), "of the destination");
    }
}

#[test]
fn sources_keep_their_paths() {
    everywhere_by_pipe(|scene| {
        for (flags, sources) in scene.share([
            (&["-aiR"][..], &["src/./a/b/c"][..]),
            (&["-aiR"], &["src/./a/b/c/f", "src/./a/h"]),
            (&["-aiR"], &["src/a/./b/c/f", "src/./a/b/"]),
            (&["-aiR"], &["src/./a/b/.", "src/./top"]),
            (&["-aiR"], &["src/a/b/./", "src/./top"]),
            (&["-aiR"], &["src/./ln/in/z", "src/./a/to-h"]),
            (&["-aiR"], &["src/./ln"]),
            (&["-aiR"], &["src/a/././b/g", "src/././top"]),
            (&["-aiR"], &["src/././nope"]),
            (&["-aiR"], &["src/././top", "src/a/./"]),
            (&["-aiR"], &["src/./a/nope", "src/./nope/x", "src/./a/h", "src/./top/x"]),
            (&["-aiR"], &["src/./a/h/", "src/./top"]),
            (&["-tiR"], &["src/./a/b/c/f", "src/./a/b/c", "src/./a/h"]),
            (&["-dtiR"], &["src/./a/b/", "src/./empty"]),
            (&["-dtiR"], &["src/./a/b"]),
            (&["-aimR"], &["src/./a/b/c", "src/./empty"]),
            (&["-aimR", "--filter=P empty"], &["src/./a/b/c", "src/./empty"]),
            (&["-aiR", "--exclude=a"], &["src/./a/h", "src/./real"]),
            (&["-aiR", "--exclude=h"], &["src/./a/h", "src/./real"]),
            (&["-aiR", "--exclude=/a/b"], &["src/./a/b/c", "src/./a"]),
            (&["-aiR", "--existing"], &["src/./a/b/c/f", "src/./real/in"]),
            (&["-aiR", "--ignore-missing-args"], &["src/./a/nope", "src/./top"]),
            (&["-aiR", "--delete-missing-args"], &["src/./a/x", "src/./a/b/g"]),
        ]) {
            build(scene);
            let pair = Pair::of(scene);
            pair.run(&[flags, &["-n"]].concat(), sources, "dst");
            pair.run(flags, sources, "dst");
            // Where only one of several is there, rsync gives it the new name.
            if !sources.iter().any(|source| source.contains("nope")) {
                pair.run(flags, sources, "new");
                scene.clear(&["new"]);
            }
        }
    });
}

#[test]
fn what_leads_to_a_source_may_be_left_as_it_is() {
    everywhere_by_pipe(|scene| {
        for sources in scene.share([
            &["src/./a/b/c/f", "src/./real/"][..],
            &["src/./a/b", "src/./a/h"],
            &["src/././top", "src/./ln/in/z"],
            &["src/./a/nope", "src/./top"],
        ]) {
            let is_whole = !sources.iter().any(|source| source.contains("nope"));
            for dest in ["dst"].into_iter().chain(is_whole.then_some("new")) {
                build(scene);
                mode(scene.path("dst/a"), 0o777);
                let pair = Pair::of(scene);
                if dest == "dst" {
                    pair.run(&["-ainR", "--no-implied-dirs"], sources, dest);
                }
                pair.run(&["-aiR", "--no-implied-dirs"], sources, dest);
                let _ = fs::remove_dir_all(scene.path("new"));
            }
            build(scene);
            Pair::of(scene).run(&["-aiR", "--no-implied-dirs", "--delete"], sources, "dst");
        }
    });
}

#[test]
fn only_in_directories_that_are_taken_whole_is_anything_removed() {
    everywhere_by_pipe(|scene| {
        for (flags, sources) in scene.share([
            (&["-aiR", "--delete"][..], &["src/./a/b"][..]),
            (&["-aiR", "--delete"], &["src/./a/b/"]),
            (&["-aiR", "--delete-after"], &["src/./a/b/c", "src/./a/b/g"]),
            (&["-aiR", "--delete-before"], &["src/./real", "src/./a/b/c/f"]),
            (&["-aiR", "--delete"], &["src/a/./b", "src/./a/b/c"]),
            (&["-aiR", "--delete"], &["src/././a/b/c"]),
            (&["-aiR", "--delete-before"], &["src/./", "src/a/./b"]),
            (&["-aiR", "--delete-after"], &["src/./a/b"]),
            (&["-ainR", "--delete"], &["src/./a/b/"]),
            (&["-ainR", "--delete"], &["src/./real", "src/./a/b/c/f"]),
            (&["-dlptiR", "--delete"], &["src/./a/b"]),
            (&["-dlptiR", "--delete"], &["src/./a/b/"]),
        ]) {
            build(scene);
            Pair::of(scene).run(flags, sources, "dst");
        }
    });
}

#[test]
fn a_list_says_what_is_taken() {
    everywhere_by_pipe(|scene| {
        let list = scene.path("list");
        let from = "--files-from=list";
        let cases = [
            ("a/b/c\na/h\n", &["-ai"][..]),
            ("a/b/c\na/h\n", &["-ai", "--no-R"]),
            ("a/b/c\na/h\n", &["-ai", "--no-implied-dirs"]),
            ("a/b/\n", &["-ai"]),
            ("a/b/\n", &["-air", "--delete"]),
            ("a/b/\n", &["-ai", "--no-d"]),
            ("/a/b\n../top\na/../../a/./b/g\n", &["-ai"]),
            ("/a/b\n../top\na/../../a/./b/g\n", &["-ai", "--no-R"]),
            ("# no\n; no\n\na/h\r\nnope\na/nope\nnope/x\n", &["-ai"]),
            ("# no\n; no\n\na/h\r\nnope\na/nope\nnope/x\n", &["-ai", "--delete"]),
            (".\n", &["-ai"]),
            (".\n", &["-air", "--delete"]),
            (".\n", &["-ai", "--delete"]),
            ("./a/h\na\n", &["-ain"]),
            ("./a/h\na\n", &["-air"]),
            ("a/h\na/h\na/b/..\n", &["-ai"]),
            ("a/h\na/h\na/b/..\n", &["-ai", "--delete"]),
            ("", &["-ai"]),
            ("", &["-air", "--delete"]),
        ];
        // Links of a list are told by a server with haul alone.
        let links = [
            ("ln/in/z\nln\n", &["-ai"][..]),
            ("ln/in/z\nln\n", &["-ai", "--no-implied-dirs"]),
            ("ln/in/z\nln\n", &["-air", "--delete"]),
            ("ln/\n", &["-ai"]),
            ("ln/\n", &["-ain"]),
            ("ln/\n", &["-ai", "--no-R"]),
        ];
        let follows = [("ln/in/z\nln\n", &["-aiL"][..]), ("ln/\n", &["-aiL"])];
        let links = if scene.is_sftp() { Vec::new() } else { scene.share(links) };
        for (text, flags) in scene.share(cases).into_iter().chain(links).chain(follows) {
            fs::write(&list, text).expect("written");
            build(scene);
            let flags = [flags, &[from]].concat();
            Pair::of(scene).with_files(&["list"]).run(&flags, &["src"], "dst");
        }
        fs::write(&list, "a/h\0# no\0top\0").expect("written");
        build(scene);
        Pair::of(scene).with_files(&["list"]).run(&["-ai0", from], &["src/"], "new");
    });
}

#[test]
fn no_path_of_a_list_leads_out_of_its_directory() {
    everywhere_by_pipe(|scene| {
        build(scene);
        scene.file("outside/secret", "secret");
        scene.symlink("../outside", "src/out");
        scene.symlink(scene.path("outside"), "src/whole");
        scene.symlink("../../outside", "src/a/deep");
        let list = scene.path("list");
        fs::write(&list, "out/secret\nwhole/secret\na/deep/secret\nout/\nout/./secret\ntop\n")
            .expect("written");
        let from = format!("--files-from={}", list.display());
        let flags = ["-air", &from];
        let run = scene.transfer("sync", &scene.route(), &flags, &["src"], "dst").run();
        assert_eq!(run.code, Some(23), "{run}");
        assert!(
            run.err()
                .contains("a symbolic link on its path points outside the directory of the list"),
            "{run}"
        );
        assert!(scene.exists("dst/top"), "{run}");
        let found = scene.list("dst").concat();
        assert!(!found.contains("secret"), "{found}");
    });
}

#[test]
fn a_link_at_the_destination_is_no_way_out() {
    everywhere_by_pipe(|scene| {
        build(scene);
        scene.mkdir("outside");
        for flags in [&["-aiR"][..], &["-aiR", "--no-implied-dirs"], &["-aiR", "--delete"]] {
            let _ = fs::remove_dir_all(scene.path("dst"));
            scene.mkdir("dst");
            scene.symlink(scene.path("outside"), "dst/a");
            let run = scene.transfer("sync", &scene.route(), flags, &["src/./a/b/g"], "dst").run();
            let leaves = flags.contains(&"--no-implied-dirs");
            assert_eq!(run.code, Some(if leaves { 23 } else { 0 }), "{run}");
            assert_eq!(scene.exists("dst/a/b/g"), !leaves, "{run}");
            assert!(scene.list("outside").is_empty(), "{run}");
        }
    });
}

#[test]
fn a_link_on_an_implied_way_that_stays_in_the_destination_is_followed() {
    each_way_by_pipe(|scene| {
        for flags in [&["-aiR", "--no-implied-dirs"][..], &["-ainR", "--no-implied-dirs"]] {
            build(scene);
            let _ = fs::remove_dir_all(scene.path("dst"));
            scene.file("dst/real/b/g", "old");
            scene.symlink("real", "dst/a");
            Pair::of(scene).run(flags, &["src/./a/b/g", "src/./a/b/c/f"], "dst");
            assert!(scene.path("dst/a").is_symlink());
        }
        // What is a source itself is no way.
        let flags = ["-aiR", "--no-implied-dirs"];
        Pair::of(scene).run(&flags, &["src/./a"], "dst");
        assert!(!scene.path("dst/a").is_symlink());
    });
}

#[test]
fn lists_that_cannot_be_taken_are_refused() {
    each_way_by_pipe(|scene| {
        build(scene);
        let list = scene.file("list", "top\n");
        let from = format!("--files-from={}", list.display());
        for (flags, sources, cause) in [
            (
                &["-a", &*from][..],
                &["src", "dst"][..],
                "--files-from needs exactly one source: the directory of the paths",
            ),
            (&["-a", "--files-from=nowhere"], &["src"], "no such file"),
            (
                &["-a", "--files-from=host:list"],
                &["src"],
                "the list must be local, or on the host of this copy",
            ),
            (&["-aR"], &["src/../src/top"], "must not have \"..\""),
        ] {
            let run = scene.transfer("sync", &scene.route(), flags, sources, "new").run();
            assert_eq!(run.code, Some(1), "{run}");
            assert!(run.err().contains(cause), "{run}");
            assert!(!scene.exists("new"), "{run}");
        }
        let run = scene.transfer("sync", &scene.route(), &["-a", &from], &["nowhere"], "dst").run();
        assert_eq!(run.code, Some(23), "{run}");
    });
}

#[test]
fn a_list_may_be_on_the_host() {
    everywhere_by_pipe(|scene| {
        let (here, user) = (scene.way == Way::Local, "someone@haul-test");
        let reset = || {
            let _ = fs::remove_dir_all(scene.path("dst"));
        };
        scene.file("src/a", "a");
        scene.file("src/d/b", "b");
        scene.file("src/c", "c");
        let list = scene.file("list", "a\n; none\nd/b\n").display().to_string();
        let zeros = scene.file("zeros", "a\0d/b\0").display().to_string();
        for (flags, word) in [
            (&["-a"][..], format!("--files-from=:{list}")),
            (&["-a"], format!("--files-from=haul-test:{list}")),
            (&["-a0"], format!("--files-from=:{zeros}")),
        ] {
            reset();
            let flags = [flags, &[&*word]].concat();
            let run = scene.transfer("sync", &scene.route(), &flags, &["src"], "dst").run();
            if here {
                // As rsync refuses it.
                assert_eq!(run.code, Some(1), "{run}");
                assert!(!scene.exists("dst"));
                continue;
            }
            assert_eq!(run.code, Some(0), "{run}");
            assert_eq!(scene.list("dst"), ["a", "d", "d/b"], "{word}");
        }
        reset();
        for word in [
            format!("--files-from=other-host:{list}"),
            format!("--files-from={user}:{list}"),
            format!("--files-from=:{list}.none"),
            format!("--files-from=:{}", scene.path("src").display()),
        ] {
            let flags = ["-a", &*word];
            let run = scene.transfer("sync", &scene.route(), &flags, &["src"], "dst").run();
            assert_ne!(run.code, Some(0), "{word}: {run}");
            assert!(run.err().contains("--files-from"), "{word}: {run}");
            assert!(!scene.exists("dst"), "{word}");
        }
    });
}

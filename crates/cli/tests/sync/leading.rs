//! Symbolic links: those that lead out of what is copied, those to directories, and those
//! that are made to lead nowhere.

use crate::common::*;
use crate::oracle::Pair;
use std::fs;
use std::path::Path;

/// Targets that are judged by their text, most of which lead nowhere.
const TARGETS: [&str; 28] = [
    "f",
    "./f",
    "../f",
    "..//f",
    "../../f",
    "..///..//f",
    "..",
    "../",
    "../..",
    "../../",
    "d/../f",
    "d/..",
    "./../f",
    "../x/../f",
    "../..f",
    "..f",
    "d/..f/g",
    "/f",
    "/",
    "/rsyncd-munged/f",
    "/rsyncd-munged//rsyncd-munged/f",
    "/rsyncd-munged/",
    "/rsyncd-munged",
    "/rsyncd-munged/../f",
    ".",
    "../../../f",
    "a//../f",
    "...",
];

/// Links with all of these, at the top and two directories below it.
fn targets(scene: &Scene<'_>) {
    for tree in ["src", "dst"] {
        let _ = fs::remove_dir_all(scene.path(tree));
        scene.mkdir(tree);
    }
    for (at, target) in TARGETS.iter().enumerate() {
        for dir in ["", "p/", "p/q/"] {
            scene.mkdir(format!("src/{dir}"));
            scene.symlink(target, format!("src/{dir}{at:02}"));
        }
    }
    // Of these something is there at the destination already.
    scene.file("dst/00", "a file");
    scene.symlink("/else", "dst/17");
}

#[test]
fn links_that_lead_out_are_left_out() {
    everywhere_by_pipe(|scene| {
        for (flags, sources, dest) in scene.share([
            (&["-rlti", "--safe-links", "--delete"][..], &["src/"][..], "dst"),
            (&["-rlti", "--safe-links"], &["src"], "dst"),
            (&["-rlti", "--safe-links"], &["src/p/q/17", "src/p/q/00"], "dst"),
            (&["-rlti", "--safe-links"], &["src/"], "dst"),
            (&["-rlti", "--safe-links"], &["src/p/q/00"], "dst/new"),
        ]) {
            targets(scene);
            Pair::of(scene).run(flags, sources, dest);
        }
    });
}

#[test]
fn munged_targets_come_back_and_others_are_judged_as_they_were() {
    each_of(
        &[Way::Local, Way::Upload, Way::SftpUpload],
        |scene| scene.reach_by_pipe(),
        |scene| {
            for flags in
                [&["-rlti", "--munge-links"][..], &["-rlti", "--munge-links", "--safe-links"]]
            {
                targets(scene);
                // The time of a link can't be told through SFTP.
                fs::remove_file(scene.path("dst/17")).expect("removed");
                let pair = Pair::of(scene);
                pair.run(flags, &["src/"], "dst");
                pair.settles(flags, &["src/"], "dst");
            }
        },
    );
}

#[test]
fn links_of_a_host_can_be_made_to_lead_nowhere() {
    each_of(
        &[Way::Download, Way::SftpDownload],
        |scene| scene.reach_by_pipe(),
        |scene| {
            targets(scene);
            let _ = Pair::of(scene);
            let route = scene.route();
            let sync = |flags: &[&str]| {
                let flags = [&["-rlt", "--munge-links"][..], flags].concat();
                scene.transfer("sync", &route, &flags, &["src/"], "new").run().expect_ok()
            };
            sync(&[]);
            let target = |path: &str| fs::read_link(scene.path(path)).expect("a link");
            for (at, plain) in TARGETS.iter().enumerate() {
                let munged = target(&format!("new/p/{at:02}"));
                assert_eq!(munged.to_str(), Some(&*format!("/rsyncd-munged/{plain}")));
            }
            assert_eq!(sync(&["-i"]).out(), "");
            // The oracle has back what was there.
            sh(scene, "rsync -rlt --munge-links new/ back; rsync -rlt --safe-links new/ none");
            let rules = scene.rules().ignoring_root();
            let differences = scene.snapshot("src").differences(&scene.snapshot("back"), rules);
            assert!(differences.is_empty(), "{differences:?}");
            assert_eq!(scene.list("none"), ["p", "p/q"]);
        },
    );
}

/// Trees with links to files and directories, in the tree and out of it.
fn leading(scene: &Scene<'_>) {
    scene.clear(&["src", "dst", "out"]);
    scene.mkdir("dst");
    scene.file("src/f", "in the tree");
    scene.file("src/d/e/g", "further in");
    scene.file("out/of", "out of the tree");
    scene.file("out/od/in", "in a directory out of the tree");
    scene.file("out/od/sub/z", "and below");
    scene.file("out/large", vec![b'x'; 700 << 10]);
    for (target, name) in [
        ("f", "safe"),
        ("../out/of", "up"),
        ("../out/large", "large"),
        ("../../src/f", "d/up2"),
        ("../f", "d/upsafe"),
        ("../out/od", "updir"),
        ("d", "dirlink"),
        ("d/../f", "mid"),
        ("./f", "dot"),
        ("nowhere", "dangling"),
        ("d/e/", "slash"),
        ("up", "twice"),
        ("updir", "d/x"),
    ] {
        scene.symlink(target, format!("src/{name}"));
    }
    scene.symlink(scene.path("out/of"), "src/whole");
    scene.symlink("../sub", "out/od/lsub");
    scene.symlink("../../of", "out/od/sub/lof");
    scene.symlink("../../../out/od/in", "out/od/sub/far");
    sh(scene, "find out -exec touch -h -d @1500000000 {} +");
}

#[test]
fn unsafe_links_and_those_to_directories_are_copied_as_what_they_lead_to() {
    everywhere_by_pipe(|scene| {
        for (flags, source) in scene.share([
            (&["-rlti", "--copy-unsafe-links"][..], "src/"),
            (&["-rti", "--copy-unsafe-links"], "src"),
            (&["-rltik"], "src/"),
            (&["-rltik", "--copy-unsafe-links"], "src/"),
            (&["-rltik"], "src"),
            (&["-rtik"], "src/"),
            (&["-rlti", "--copy-unsafe-links", "--safe-links", "--delete"], "src/"),
            (&["-rlti", "--copy-unsafe-links"], "src"),
            (&["-rltin", "-k", "--copy-unsafe-links"], "src/"),
            (&["-rltik", "--safe-links", "--exclude=updir/", "--exclude=d/"], "src/"),
        ]) {
            leading(scene);
            Pair::of(scene).with_files(&["out"]).run(flags, &[source], "dst");
        }
    });
}

#[test]
fn named_links_are_judged_as_those_in_trees() {
    each_way_by_pipe(|scene| {
        for (flags, sources, dest) in scene.share([
            (
                &["-ai", "--copy-unsafe-links"][..],
                &["src/up", "src/updir", "src/d/upsafe"][..],
                "dst",
            ),
            (&["-ai", "--copy-unsafe-links"], &["src/updir"], "new"),
            (&["-ai", "--copy-unsafe-links"], &["src/dirlink"], "new"),
            (&["-ai", "-k"], &["src/dirlink"], "new"),
            (&["-ai", "-k"], &["src/safe"], "new"),
            (&["-ai", "-k", "--delete"], &["src/dirlink/"], "dst"),
            (&["-aiR", "--copy-unsafe-links"], &["src/./d"], "dst"),
            (&["-aiR", "--safe-links"], &["./././src/d"], "dst"),
            (&["-ai", "-k", "--existing"], &["src/"], "dst"),
        ]) {
            leading(scene);
            let _ = fs::remove_dir_all(scene.path("new"));
            let _ = fs::remove_file(scene.path("new"));
            let pair = Pair::of(scene).with_files(&["out"]);
            pair.run(flags, sources, dest);
        }
    });
}

#[test]
fn an_unsafe_link_to_nowhere_fails_and_holds_removals_back() {
    each_way_by_pipe(|scene| {
        leading(scene);
        scene.symlink("../nowhere", "src/up-to-nowhere");
        scene.file("dst/extra", "extra");
        let pair = Pair::of(scene).with_files(&["out"]);
        let run = pair.run(&["-ai", "--copy-unsafe-links", "--delete"], &["src/"], "dst");
        assert!(run.err().contains("the symbolic link is dangling"), "{run}");
        assert!(scene.exists("dst/extra"));
    });
}

#[test]
fn a_link_to_a_directory_above_it_ends_there() {
    each_way_by_pipe(|scene| {
        scene.file("src/d/f", "a file");
        scene.symlink("..", "src/d/up");
        let route = scene.route();
        let run = scene.transfer("sync", &route, &["-ak"], &["src/"], "dst").run();
        let run = run.expect_code(23);
        assert!(run.err().contains("the symbolic link points to a directory above it"), "{run}");
        assert_eq!(scene.list("dst"), ["d", "d/f"]);
    });
}

/// A destination with links to its own directories, and to others.
fn linked_there(scene: &Scene<'_>) {
    scene.clear(&["src", "dst", "out", "kept"]);
    scene.file("src/d/new", "new");
    scene.file("src/d/sub/new", "new below");
    scene.file("src/deep/up/x", "through a way up");
    scene.file("src/nowhere/y", "in the place of a link to nowhere");
    scene.file("src/to-file/z", "in the place of a link to a file");
    scene.file("src/real/old", "a new version");
    scene.file("dst/real/old", "an old one, and longer");
    scene.file("dst/real/extra", "extra");
    scene.file("dst/real/sub/extra", "extra below");
    scene.file("dst/other/in", "not in the source");
    scene.mkdir("dst/deep");
    scene.file("out/in", "out of it");
    scene.symlink("real", "dst/d");
    scene.symlink("../other", "dst/deep/up");
    scene.symlink("none", "dst/nowhere");
    scene.symlink("real/old", "dst/to-file");
}

#[test]
fn links_to_directories_of_the_destination_stay() {
    each_way_by_pipe(|scene| {
        for (flags, sources) in scene.share([
            (&["-rlpiK"][..], &["src/"][..]),
            (&["-rlpiKn"], &["src/"]),
            (&["-rlpiK", "--existing"], &["src/"]),
            (&["-rlpiK", "--delete"], &["src/d", "src/deep"]),
            (&["-rlpiK", "--delete-before"], &["src/d"]),
            (&["-rlpiKb"], &["src/"]),
            (&["-rlpiKR"], &["src/./d/sub/new"]),
            (&["-rlpiKR", "--no-implied-dirs"], &["src/./d/sub/new"]),
            (&["-rlpiK", "--delete", "--exclude=/real"], &["src/"]),
            (&["-rlpi"], &["src/"]),
        ]) {
            linked_there(scene);
            let pair = Pair::of(scene);
            pair.run(flags, sources, "dst");
            if !flags.contains(&"--delete") && flags[0].contains('K') {
                assert_eq!(fs::read_link(scene.path("dst/d")).expect("a link"), Path::new("real"));
            }
        }
    });
}

#[test]
fn a_directory_that_is_to_go_goes_before_a_link_to_it_is_followed() {
    each_way_by_pipe(|scene| {
        scene.file("src/d/new", "new");
        scene.file("src/d/sub/new", "new below");
        scene.file("dst/real/extra", "extra");
        scene.symlink("real", "dst/d");
        Pair::of(scene).run(&["-rlpiK", "--delete"], &["src/"], "dst");
        assert_eq!(scene.list("dst"), ["d", "d/new", "d/sub", "d/sub/new"]);
    });
}

#[test]
fn a_link_to_a_directory_that_is_mirrored_by_itself_is_not_followed() {
    each_way_by_pipe(|scene| {
        for when in ["--delete", "--delete-before", "--delete-after"] {
            scene.clear(&["src", "dst"]);
            scene.file("src/a/of-a", "through a link");
            scene.file("src/b/of-b", "at its own place");
            scene.file("src/c/of-c", "in a directory that goes");
            scene.file("dst/b/gone/old", "extra");
            scene.symlink("b", "dst/a");
            scene.symlink("b/gone", "dst/c");
            let sync = || {
                let flags = ["-aK", when];
                let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
                let run = run.expect_code(23);
                assert!(run.err().contains("is mirrored by itself"), "{run}");
                assert_eq!(scene.read("dst/b/of-b"), "at its own place", "{when}");
            };
            sync();
            sync();
            assert_eq!(scene.list("dst"), ["a", "b", "b/of-b", "c", "c/of-c"], "{when}");
        }
    });
}

#[test]
fn a_link_that_leads_out_of_the_destination_is_never_followed() {
    each_way_by_pipe(|scene| {
        for target in ["../out", "deep/../../out", "../dst/real", "../../out"] {
            linked_there(scene);
            let inside = scene.path("dst/real");
            fs::remove_file(scene.path("dst/d")).expect("removed");
            scene.symlink(target, "dst/d");
            scene.symlink(&inside, "dst/whole");
            scene.file("src/whole/in", "absolute target");
            let route = scene.route();
            let before = scene.snapshot("out");
            let flags = ["-rltK", "--delete"];
            let run = scene.transfer("sync", &route, &flags, &["src/"], "dst").run();
            let run = run.expect_code(23);
            if scene.path("dst").join(target).exists() {
                assert!(run.err().contains("outside the destination"), "{target}: {run}");
            }
            let differences = before.differences(&scene.snapshot("out"), scene.rules());
            assert!(differences.is_empty(), "{target}: {differences:?}");
            assert_eq!(scene.read("dst/deep/up/x"), "through a way up");
        }
    });
}

#[test]
fn through_sftp_links_are_not_kept_for_directories() {
    each_of(
        &[Way::SftpUpload],
        |scene| scene.reach_by_pipe(),
        |scene| {
            linked_there(scene);
            let route = scene.route();
            let run = scene.transfer("sync", &route, &["-rltK"], &["src/"], "dst").run();
            assert!(
                run.expect_code(1)
                    .err()
                    .contains("SFTP can't treat symbolic links at the destination as directories")
            );
            assert_eq!(scene.read("dst/real/old"), "an old one, and longer");
        },
    );
}

/// Words in which a path leads over a link of another user, and what they do with it if it is
/// one of root: true if they write behind it.
const LED: [(&[&str], &str, bool); 9] = [
    (&[], "public/link", true),
    (&[], "public/link/", true),
    (&["--mkpath"], "public/link/new/er/", true),
    (&["-b", "--backup-dir=../public/link/kept", "--delete"], "dst", true),
    (&["-b", "--backup-dir=../public/link", "--delete"], "dst/", true),
    (&["--temp-dir=../public/link"], "dst", false),
    (&["--link-dest=../public/link"], "dst", false),
    (&["--copy-dest=../public/link"], "dst", false),
    (&["--compare-dest=../public/link"], "dst", false),
];

#[test]
fn links_of_other_users_lead_nowhere() {
    if !is_root() {
        return;
    }
    let give = |scene: &Scene<'_>, user: u32| {
        std::os::unix::fs::lchown(scene.path("public/link"), Some(user), Some(user)).expect("given")
    };
    each_of(
        &[Way::Local, Way::Upload, Way::Download],
        |scene| scene.reach_by_pipe(),
        |scene| {
            let lifts = match scene.way {
                Way::Upload => "-M--insecure-links",
                _ => "--insecure-links",
            };
            for (words, dest, writes) in scene.share(LED) {
                scene.clear(&["src", "dst", "private", "public"]);
                scene.file("src/a", "new");
                scene.file("dst/extra", "extra");
                scene.mkdir("private");
                scene.mkdir("public");
                scene.symlink("../private", "public/link");
                give(scene, NOBODY);
                let route = scene.route();
                let sync = |more: &[&str]| {
                    let flags = [&["-a"][..], words, more].concat();
                    scene.transfer("sync", &route, &flags, &["src/"], dest).run()
                };
                let run = sync(&[]);
                assert_eq!(scene.list("private"), [""; 0], "{run}");
                assert!(run.err().contains("link is a symbolic link of another user"), "{run}");
                // A base that is not looked into has nothing.
                let is_base = words.iter().any(|word| word.contains("-dest="));
                assert_eq!(run.code == Some(0), is_base, "{run}");
                let advice = if is_base { "or allow such links if you trust all" } else { lifts };
                assert!(run.err().contains(advice), "{run}");
                assert_eq!(scene.exists("dst/a"), is_base, "{run}");
                assert_eq!(scene.exists("dst/extra"), !is_base || words.len() == 1, "{run}");
                let run = sync(&[lifts]).expect_ok();
                assert_eq!(scene.list("private").is_empty(), !writes, "{run}");
                // Those of root lead on.
                give(scene, 0);
                sync(&[]).expect_ok();
            }
        },
    );
    // Files that the command names are read, too.
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/a", "new");
    scene.file("private/list", "a\n");
    scene.mkdir("public");
    scene.symlink("../private", "public/link");
    give(&scene, NOBODY);
    for word in [
        "--files-from=public/link/list",
        "--exclude-from=public/link/list",
        "--include-from=public/link/list",
        "--filter=merge public/link/list",
        "--log-file=public/link/list",
    ] {
        let sync = |more: &[&str]| {
            scene.haul().args(["sync", "-a", word]).args(more).args(["src/", "dst/"]).run()
        };
        let run = sync(&[]).expect_code(1);
        assert!(run.err().contains("link is a symbolic link of another user"), "{run}");
        assert!(run.err().contains("use --insecure-links"), "{run}");
        assert!(!scene.exists("dst"), "{run}");
        if !word.contains("merge") {
            sync(&["--insecure-links"]).expect_ok();
            scene.clear(&["dst"]);
        }
    }
    // One that leads to no directory is replaced as any other, and followed no more than that.
    for target in ["missing", "../src/a"] {
        let link = scene.symlink(target, "public/other");
        std::os::unix::fs::lchown(&link, Some(NOBODY), Some(NOBODY)).expect("given");
        let flags = ["sync", "-rF", "--delete"];
        scene.haul().args(flags).args(["private/list", "public/other"]).run().expect_ok();
        assert!(fs::symlink_metadata(&link).expect("there").is_file());
        assert_eq!((scene.exists("public/missing"), &*scene.read("src/a")), (false, "new"));
        fs::remove_file(link).expect("removed");
    }
    // A descriptor is no link that anybody made.
    let haul = scene.haul();
    let run =
        haul.args(["sync", "-a", "--files-from=/dev/stdin", "src/", "dst/"]).stdin("a\n").run();
    run.expect_ok();
    assert_eq!(scene.list("dst"), ["a"]);
}

//! Copies of something onto itself, or into itself.

use crate::common::*;
use haul_testkit::assert_same;
use std::fs;
use std::path::Path;

#[test]
fn a_directory_is_not_copied_into_itself_however_it_is_spelled() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("tree/sub/x", "x");
    scene.symlink("tree", "link");
    scene.symlink("tree/sub", "link-to-sub");
    scene.symlink("..", "tree/up");
    let before = scene.snapshot("");
    for (source, dest) in [
        ("tree", "tree"),
        ("tree", "tree/"),
        ("tree", "tree/new"),
        ("tree", "tree/new/"),
        ("tree", "tree/sub"),
        ("tree", "tree/sub/../sub/new"),
        ("tree/", "link"),
        ("tree", "link-to-sub"),
        ("tree", "tree/up/tree/sub"),
        ("link/", "tree/sub"),
        ("tree/.", "tree/sub"),
        (".", "tree"),
        ("tree/sub/..", "tree/new"),
        ("tree/..", "tree"),
    ] {
        let run = scene.copy(&["-r"], &[source], dest).run().expect_code(1);
        let path = format!("{}", scene.path(source).display());
        let hint = "choose a destination outside of the source";
        assert_one_error(&run, &path, "the directory would be copied into itself", hint);
        assert!(!scene.exists("tree/new"), "nothing is made for it: {run}");
    }
    let rules = haul_testkit::Compare::everything().ignoring_dir_mtimes().ignoring_root();
    haul_testkit::assert_same_with(&before, &scene.snapshot(""), rules);
}

#[test]
fn a_destination_that_the_walk_comes_upon_is_left_out() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    // Links, followed, that lead out of the source to where it is copied to.
    scene.file("tree/x", "x");
    scene.symlink("../there", "tree/to-there");
    scene.mkdir("there");
    let run = scene.copy(&["-rL"], &["tree"], "there").run().expect_code(1);
    assert_one_error(&run, "tree/to-there", "copied into itself", "choose a destination");
    assert_eq!(scene.list("there"), ["tree", "tree/x"]);
}

#[test]
fn a_directory_beside_one_with_a_similar_name_is_no_part_of_it() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("tree/x", "x");
    scene.copy(&["-r"], &["tree"], "tree-2").run().expect_ok();
    scene.copy(&["-r"], &["tree"], "tree/../tree-3").run().expect_ok();
    assert_same(&scene.snapshot("tree"), &scene.snapshot("tree-2"));
    assert_same(&scene.snapshot("tree"), &scene.snapshot("tree-3"));
}

#[test]
fn a_file_is_not_copied_onto_itself_under_any_name() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    let file = scene.file("dir/file", "x");
    fs::hard_link(&file, scene.path("hard")).expect("a hard link");
    scene.symlink("dir", "link");
    let before = scene.snapshot("");
    for flags in [&[][..], &["--force"], &["-L"]] {
        for dest in ["dir/file", "dir", "dir/", "./dir/../dir/file", "hard", "link", "link/file"] {
            let run = scene.copy(flags, &["dir/file"], dest).run().expect_code(1);
            assert_one_error(&run, "", "source and destination are the same file", "");
        }
    }
    assert_same(&before, &scene.snapshot(""));
}

#[test]
fn a_tree_copied_onto_itself_stays_as_it_is() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("dir/tree/sub/x", "x");
    let before = scene.snapshot("dir");
    for flags in ["-r", "-rf"] {
        let run = scene.copy(&[flags], &["dir/tree"], "dir").run().expect_code(1);
        let cause = "source and destination are the same directory";
        assert_one_error(&run, "tree", cause, "");
        assert_same(&before, &scene.snapshot("dir"));
    }
}

#[test]
fn a_host_that_is_this_machine_loses_nothing_either() {
    each_remote_way(|scene| {
        scene.file("tree/x", "content");
        let before = scene.snapshot("tree");
        scene.copy(&["-rf"], &["tree/."], "tree").run().expect_code(1);
        let rules = haul_testkit::Compare::everything().ignoring_dir_mtimes();
        haul_testkit::assert_same_with(&before, &scene.snapshot("tree"), rules);
        assert_no_strays(&scene.path("tree"));
    });
}

#[test]
fn a_link_does_not_replace_the_file_that_it_leads_to() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("file", "precious");
    scene.symlink("file", "link");
    for (flags, cause) in [
        ("-rf", "the link points to the file or directory that it would replace"),
        ("-f", "are the same file"),
    ] {
        let run = scene.copy(&[flags], &["link"], "file").run();
        assert_one_error(&run, "file: ", cause, "");
        assert_eq!(run.code, Some(1), "{run}");
        assert_eq!(scene.read("file"), "precious");
    }
    scene.file("there/file", "precious");
    scene.mkdir("from");
    scene.symlink("../there/file", "from/file");
    let run = scene.copy(&["-r"], &["from/."], "there").run().expect_code(1);
    assert!(
        run.err().contains("the link points to the file or directory that it would replace"),
        "{run}"
    );
    assert_eq!(scene.read("there/file"), "precious");
}

#[test]
fn a_link_does_not_replace_the_file_that_it_would_lead_to_on_any_way() {
    each_way_by_pipe(|scene| {
        for (target, command) in
            [("../dst/f", "copy"), ("/", "copy"), ("/", "move"), ("f", "move"), ("/", "sync")]
        {
            scene.clear(&["src", "dst"]);
            scene.file("dst/f", "precious");
            let absolute = scene.path("dst/f");
            let target = if target == "/" { &*absolute } else { Path::new(target) };
            scene.mkdir("src");
            scene.symlink(target, "src/f");
            let (flags, source) = match command {
                "copy" => (&["-r"][..], "src/."),
                "move" => (&[][..], "src/f"),
                _ => (&["-a"][..], "src/"),
            };
            let run = scene.transfer(command, &scene.route(), flags, &[source], "dst").run();
            assert!(run.err().contains("that it would replace"), "{command}: {run}");
            assert_ne!(run.code, Some(0), "{command}: {run}");
            assert_eq!(scene.read("dst/f"), "precious");
            assert!(fs::symlink_metadata(scene.path("src/f")).is_ok(), "{command}: {run}");
            assert_no_strays(&scene.path("dst"));
        }
    });
}

#[test]
fn a_link_does_not_replace_the_directory_that_it_would_lead_to_on_any_way() {
    each_way_by_pipe(|scene| {
        for (flags, target) in [
            (&["-a", "--force"][..], "../dst/d"),
            (&["-a", "--delete"], "../dst/d"),
            (&["-a", "--delete"], "/"),
            (&["-a", "--force", "-n"], "/"),
            (&["-a", "--force", "--backup", "--backup-dir=../old"], "d"),
        ] {
            scene.clear(&["src", "dst"]);
            scene.file("dst/d/sub/f", "precious");
            let absolute = scene.path("dst/d");
            let target = if target == "/" { &*absolute } else { Path::new(target) };
            scene.mkdir("src");
            scene.symlink(target, "src/d");
            let run = scene.transfer("sync", &scene.route(), flags, &["src/"], "dst").run();
            assert_eq!(run.code, Some(23), "{flags:?}: {run}");
            let cause = "the link points to the file or directory that it would replace";
            assert!(run.err().contains(cause), "{flags:?}: {run}");
            assert_eq!(scene.read("dst/d/sub/f"), "precious", "{flags:?}");
            assert_no_strays(&scene.path("dst"));
        }
    });
}

#[test]
fn nothing_is_copied_onto_or_into_itself_by_way_of_a_host() {
    each_way_by_pipe(|scene| {
        let file = scene.file("dir/tree/file", "x");
        fs::hard_link(&file, scene.path("dir/hard")).expect("a hard link");
        scene.symlink("tree", "dir/link");
        scene.mkdir("dir/tree/sub");
        let before = scene.snapshot("dir");
        let same_file = "source and destination are the same file";
        let into_itself = "the directory would be copied into itself";
        for (source, dest, cause) in [
            ("dir/tree/file", "dir/tree/file", same_file),
            ("dir/tree/file", "dir/tree/", same_file),
            ("dir/tree/file", "dir/link/file", same_file),
            ("dir/tree/file", "dir/hard", same_file),
            ("dir/link", "dir/", same_file),
            ("dir/tree", "dir", "source and destination are the same directory"),
            ("dir/tree", "dir/tree/new", into_itself),
            ("dir/tree", "dir/tree/sub", into_itself),
            ("dir/tree/.", "dir/tree", into_itself),
            ("dir", "dir/link/", into_itself),
        ] {
            for flags in [&["-r"][..], &["-rf"], &["-rn"]] {
                let run = scene.copy(flags, &[source], dest).run().expect_code(1);
                assert!(errors(&run)[0].contains(cause), "{source} {dest}: {run}");
            }
        }
        let rules = haul_testkit::Compare::everything().ignoring_dir_mtimes();
        haul_testkit::assert_same_with(&before, &scene.snapshot("dir"), rules);
        // A copy that looks the same is another.
        scene.copy(&["-r"], &["dir/tree/file"], "dir/other").run().expect_ok();
        scene.copy(&["-rf"], &["dir/tree/file"], "dir/other").run().expect_ok();
    });
}

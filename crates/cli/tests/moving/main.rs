//! `haul move` as a user sees it: sources that are where they should be, whole,
//! and gone from where they were; and sources that stay because something is
//! not as it should be.

#[path = "../common/mod.rs"]
mod common;

mod against;
mod interrupted;
mod views;
mod whole;

use common::*;
use haul_testkit::haul::Outcome;
use haul_testkit::{Compare, Haul, Mount, assert_same_with, nasty, snapshot, tree};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Where things are moved to: a directory on the same file system, one on
/// another, one on a host, and from a host to one here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum To {
    Here,
    Elsewhere,
    Host,
    FromHost,
}

struct Stage<'s, 'w> {
    scene: &'s Scene<'w>,
    to: To,
    root: PathBuf,
    _mount: Option<Mount>,
}

/// Runs `test` for each, through SFTP too; `to/` is an empty directory at the destination.
fn each_target(test: impl Fn(&Stage<'_, '_>) + Sync) {
    everywhere_by_pipe(|scene| {
        let stage = |scene, to, mount: Option<Mount>, root: PathBuf| {
            fs::create_dir_all(root.join("to")).expect("a directory");
            test(&Stage { scene, to, root, _mount: mount });
        };
        let to = match scene.way {
            Way::Local => To::Here,
            Way::Between => unreachable!("nothing is moved from host to host"),
            Way::Upload | Way::SftpUpload => To::Host,
            Way::Download | Way::SftpDownload => To::FromHost,
        };
        stage(scene, to, None, scene.path("root"));
        if to == To::Here
            && let Some(mount) = Mount::tmpfs(64 << 20)
        {
            let root = mount.path().to_path_buf();
            stage(&scene.another("elsewhere"), To::Elsewhere, Some(mount), root);
        }
    });
}

impl Stage<'_, '_> {
    fn run(&self, flags: &[&str], sources: &[&str], dest: &str) -> Outcome {
        self.haul(flags, sources, dest).run()
    }

    fn haul(&self, flags: &[&str], sources: &[&str], dest: &str) -> Haul {
        let mut at = self.root.clone().into_os_string();
        at.push("/");
        at.push(dest);
        self.scene.transfer("move", &self.scene.route(), flags, sources, at)
    }

    fn there(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A path at the destination as errors tell it.
    fn told_there(&self, name: &str) -> String {
        let host = if self.to == To::Host { "haul-test:" } else { "" };
        format!("{host}{}", self.there(name).display())
    }

    /// A path of a source as errors tell it.
    fn told_source(&self, name: &str) -> String {
        let host = if self.to == To::FromHost { "haul-test:" } else { "" };
        format!("{host}{}", self.scene.path(name).display())
    }
}

fn a_tree(scene: &Scene<'_>) {
    scene.file("tree/a", "aaaa");
    scene.file("tree/empty", "");
    scene.file("tree/dir/deep/c", vec![7; 3 << 20]);
    scene.mkdir("tree/hollow/deeper");
    scene.symlink("a", "tree/link");
    scene.symlink("nowhere", "tree/dangling");
    mode(scene.path("tree/dir"), 0o700);
}

#[test]
fn a_tree_exists_and_is_removed_here() {
    each_target(|stage| {
        for (dest, at) in [("to", "to/tree"), ("made/", "made/tree"), ("renamed", "renamed")] {
            a_tree(stage.scene);
            let before = stage.scene.snapshot("tree");
            let run = stage.run(&["-v"], &["tree"], dest).expect_ok();
            let (lines, moved) = match stage.to {
                // It is one step.
                To::Here => ("tree", "moved 1 in "),
                _ => ("dir/deep/c", "moved 5 in "),
            };
            assert!(run.out().lines().any(|line| line.ends_with(lines)), "{run}");
            assert!(run.out().contains(moved), "{run}");
            // What such a host can't make durable is told each time.
            let promises_less = |line: &&str| {
                stage.scene.way == Way::SftpUpload && line.contains("flushing the contents of files, but not their names, which SFTP can't flush")
                    || line.starts_with("haul: contents go to ")
            };
            assert_eq!(run.err().lines().find(|line| !promises_less(line)), None, "{run}");
            assert!(!stage.scene.exists("tree"), "{:?}: {run}", stage.to);
            let there = snapshot(stage.there(at)).expect("it is there");
            assert_same_with(&before, &there, stage.scene.rules());
        }
        assert_no_strays(&stage.root);
        assert_no_strays(&stage.scene.path(""));
    });
}

#[test]
fn a_new_directory_with_the_path_of_a_moved_one_is_another_source() {
    each_target(|stage| {
        for content in ["one", "two"] {
            stage.scene.file("tree/a", content);
            stage.run(&[], &["tree"], "renamed").expect_ok();
        }
        for (name, content) in [("renamed/a", "one"), ("renamed/tree/a", "two")] {
            let there = fs::read_to_string(stage.there(name)).unwrap_or_default();
            assert_eq!(there, content, "{name}, {:?}", stage.to);
        }
    });
}

#[test]
fn files_are_renamed_replaced_or_kept_as_the_flags_say() {
    each_target(|stage| {
        let old = stage.there("to/f");
        let put_old = || {
            fs::write(&old, "there before").expect("written");
            nasty::set_mtime(&old, 1_700_000_000, 0).expect("a time");
        };
        // A file under another name; one over another.
        stage.scene.file("f", "one");
        stage.run(&[], &["f"], "other").expect_ok();
        assert_eq!(fs::read(stage.there("other")).expect("read"), b"one");
        assert!(!stage.scene.exists("f"));
        for (flags, is_replaced) in
            [(&[][..], true), (&["--force"], true), (&["--no-clobber"], false), (&["-u"], false)]
        {
            put_old();
            stage.scene.file("f", "new");
            let run = stage.run(flags, &["f"], "to").expect_ok();
            assert_eq!(stage.scene.exists("f"), !is_replaced, "{flags:?} {:?} {run}", stage.to);
            let expected = if is_replaced { "new" } else { "there before" };
            assert_eq!(fs::read(&old).expect("read"), expected.as_bytes(), "{flags:?}");
            assert_eq!(run.out().contains("kept 1"), !is_replaced, "{run}");
            assert_eq!(run.out().contains("moved 1"), is_replaced, "{run}");
        }
        nasty::set_mtime(&old, 5, 0).expect("a time");
        stage.run(&["-u"], &["f"], "to").expect_ok();
        assert!(!stage.scene.exists("f"));
    });
}

#[test]
fn several_sources_need_a_directory() {
    each_target(|stage| {
        stage.scene.file("a", "a");
        stage.scene.file("b", "b");
        fs::write(stage.there("file"), "old").expect("written");
        for dest in ["missing", "file"] {
            let run = stage.run(&["-q"], &["a", "b"], dest).expect_code(2);
            let cause = "not a directory, which several sources need; add a slash to create it";
            assert_one_error(&run, &stage.there(dest).display().to_string(), cause, "");
        }
        assert!(stage.scene.exists("a") && stage.scene.exists("b"));
        assert!(!stage.there("missing").exists());
        assert_eq!(fs::read(stage.there("file")).expect("read"), b"old");
    });
}

#[test]
fn directories_that_both_have_are_filled() {
    each_target(|stage| {
        a_tree(stage.scene);
        fs::create_dir_all(stage.there("to/tree/dir")).expect("made");
        fs::write(stage.there("to/tree/dir/mine"), "mine").expect("written");
        stage.scene.file("more", "x");
        stage.run(&[], &["tree", "more"], "to").expect_ok();
        assert!(!stage.scene.exists("tree") && !stage.scene.exists("more"));
        assert_eq!(fs::read(stage.there("to/tree/dir/mine")).expect("read"), b"mine");
        assert_eq!(fs::read(stage.there("to/tree/a")).expect("read"), b"aaaa");
        assert!(stage.there("to/tree/hollow/deeper").is_dir());
    });
}

#[test]
fn what_is_kept_there_or_has_the_same_size_and_time_but_another_content_stays() {
    each_target(|stage| {
        // Entry by entry, also on one file system.
        stage.scene.file("tree/f", "good");
        stage.scene.file("tree/g", "also");
        fs::create_dir_all(stage.there("to/tree")).expect("made");
        fs::write(stage.there("to/tree/f"), "other").expect("written");
        let run = stage.run(&["--no-clobber"], &["tree"], "to").expect_ok();
        assert!(run.out().contains("kept 1"), "{run}");
        assert_eq!(
            (stage.scene.list("tree"), stage.scene.read("tree/f")),
            (vec!["f".into()], "good".into())
        );
        assert_eq!(fs::read(stage.there("to/tree/f")).expect("read"), b"other");
        fs::write(stage.there("to/tree/f"), "evil").expect("written");
        let stat = fs::metadata(stage.scene.path("tree/f")).expect("there");
        nasty::set_mtime(stage.there("to/tree/f"), stat.mtime(), stat.mtime_nsec() as u32)
            .expect("a time");
        let run = stage.run(&["-q"], &["tree"], "to").expect_code(1);
        assert_one_error(&run, "tree/f: not removed", "another entry with this name (content", "");
        assert_eq!(stage.scene.list("tree"), ["f"]);
        assert_eq!(fs::read(stage.there("to/tree/g")).expect("read"), b"also");
        // What --force is for.
        stage.run(&["--force"], &["tree"], "to").expect_ok();
        assert!(!stage.scene.exists("tree"));
        assert_eq!(fs::read(stage.there("to/tree/f")).expect("read"), b"good");
    });
}

#[test]
fn what_fails_stays_with_its_directories() {
    each_target(|stage| {
        stage.scene.file("tree/sub/f", "x");
        stage.scene.file("tree/g", "y");
        fs::create_dir_all(stage.there("to/tree/sub/f/is a directory")).expect("made");
        let run = stage.run(&[], &["tree"], "to").expect_code(1);
        assert!(run.err().contains("tree/sub/f: the destination has a directory"), "{run}");
        assert_eq!(stage.scene.list("tree"), ["sub", "sub/f"]);
        assert!(run.out().contains("moved 1 in ") && run.out().contains("; failed 1"), "{run}");
        let run = stage.run(&[], &["missing"], "to").expect_code(1);
        assert!(run.err().contains("missing: "), "{run}");
    });
}

#[test]
fn an_error_names_the_whole_path_on_its_own_side() {
    each_target(|stage| {
        stage.scene.file("f", "x");
        stage.scene.file("g", "y");
        fs::create_dir_all(stage.there("to/f/is a directory")).expect("made");
        let run = stage.run(&[], &["f", "missing"], "to").expect_code(1);
        let errors = errors(&run);
        let stands = format!("{}: the destination has a directory", stage.told_there("to/f"));
        let missing = format!("{}: ", stage.told_source("missing"));
        assert_eq!(errors.len(), 2, "{run}");
        assert!(errors.iter().any(|error| error.starts_with(&stands)), "{stands}\n{run}");
        assert!(errors.iter().any(|error| error.starts_with(&missing)), "{missing}\n{run}");
        // The same where the one source gets another name.
        let run = stage.run(&[], &["g"], "to/f/is a directory/no/g").expect_code(4);
        let above = stage.told_there("to/f/is a directory/no/g");
        assert!(run.err().starts_with(&format!("haul: {above}: ")), "{above}\n{run}");
    });
}

#[test]
fn a_link_with_a_slash_is_refused_and_what_it_leads_to_stays() {
    each_target(|stage| {
        stage.scene.file("dir/f", "x");
        stage.scene.symlink("dir", "link");
        let run = stage.run(&[], &["link/", "dir/f/"], "to").expect_code(1);
        let said = "it is not a directory; leave out the slash to move it";
        assert_eq!(run.err().matches(said).count(), 2, "{run}");
        assert_eq!(stage.scene.list("dir"), ["f"], "{:?}", stage.to);
        assert_eq!(fs::read_dir(stage.there("to")).expect("read").count(), 0);
        stage.run(&[], &["link"], "to").expect_ok();
        assert!(!stage.scene.exists("link") && stage.scene.exists("dir/f"));
    });
}

#[test]
fn nothing_is_moved_onto_itself_by_way_of_a_host() {
    let world = World::new();
    for (name, way) in [("up", Way::Upload), ("down", Way::Download)] {
        // One of them by way of a real ssh.
        let mut scene = world.scene_called(name, way);
        if way == Way::Upload {
            scene.reach_by_pipe();
        }
        scene.file("dir/f", "precious");
        scene.symlink("f", "dir/l");
        scene.mkdir("dir/hollow/deeper");
        let before = scene.snapshot("dir");
        for source in ["dir", "dir/f", "dir/l", "dir/hollow"] {
            let dest = if source == "dir" { scene.path("") } else { scene.path("dir") };
            let (source, dest) = match way {
                Way::Download => (scene.there(scene.path(source)), dest.into_os_string()),
                _ => (scene.path(source).into_os_string(), scene.there(dest)),
            };
            for flags in [&["-q"][..], &["--force"]] {
                let haul = scene.haul().arg("move").args(flags).args(scene.remote());
                // Before anything is compared: that would not see it where a mount
                // has numbers of its own.
                let run = haul.arg(&source).arg(&dest).run().expect_code(1);
                assert!(run.err().contains("are the same"), "{run}");
                assert_eq!(errors(&run).len(), 1, "it is told once: {run}");
                let rules = Compare::everything().ignoring_dir_mtimes();
                assert_same_with(&before, &scene.snapshot("dir"), rules);
            }
        }
    }
    let scene = world.scene(Way::Local);
    scene.file("dir/f", "precious");
    // Here it is seen at once.
    let run = scene.haul().args(["move", "dir/f", "dir/"]).run().expect_code(1);
    assert!(run.err().contains("are the same"), "{run}");
    let run = scene.haul().args(["move", "dir", "dir/below"]).run().expect_code(1);
    assert!(run.err().contains("into itself"), "{run}");
    assert_eq!(scene.read("dir/f"), "precious");
}

#[test]
fn what_cannot_be_copied_stays() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    let Some(mount) = Mount::tmpfs(4 << 20) else { return };
    scene.file("tree/a", "a");
    run(std::process::Command::new("mkfifo").arg(scene.path("tree/pipe")));
    // What stands in the way of a FIFO is not replaced by it.
    fs::create_dir_all(mount.join("tree/pipe")).expect("made");
    let out = scene.haul().arg("move").arg("tree").arg(mount.path()).run().expect_code(1);
    assert!(out.err().contains("tree/pipe: the destination has a directory"), "{out}");
    assert_eq!(scene.list("tree"), ["pipe"]);
    // A destination that is full ends the move, and nothing is removed.
    scene.file("large/a", vec![1; 1 << 20]);
    scene.file("large/b", vec![2; 8 << 20]);
    let out = scene.haul().arg("move").arg("large").arg(mount.path()).run().expect_code(4);
    assert!(out.err().contains("not removing the sources"), "{out}");
    assert_eq!(scene.list("large"), ["a", "b"]);
}

#[test]
fn what_cannot_be_removed_stays_and_the_hint_says_why() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    let mounts = (Mount::tmpfs(4 << 20), Mount::tmpfs(4 << 20));
    let (Some(from), Some(to)) = mounts else { return };
    fs::create_dir(from.join("dir")).expect("made");
    fs::write(from.join("dir/f"), "x").expect("written");
    from.remount_read_only().expect("read-only");
    // It says nothing of the directory, which could not go either.
    let out = scene.haul().arg("move").arg(from.join("dir")).arg(to.path()).run().expect_code(1);
    assert_one_error(
        &out,
        "dir/f: can't remove it",
        "Read-only",
        "remount the source writable: nothing can be removed from it now",
    );
    assert_eq!(fs::read(from.join("dir/f")).expect("read"), b"x");
    // What is a mount point itself loses what is in it, and stays.
    from.remount_writable().expect("writable");
    let out = scene.haul().arg("move").arg(from.path()).arg(to.path()).run().expect_code(1);
    assert_one_error(&out, "", "a file system is mounted on it", "");
    assert!(!from.join("dir").exists());
}

#[test]
fn a_file_on_which_another_is_mounted_stays_and_that_is_reported() {
    each_target(|stage| {
        let scene = stage.scene;
        scene.file("tree/f", "below");
        scene.file("tree/g", "g");
        scene.file("shown", "above");
        fs::create_dir_all(stage.there("to/tree/mine")).expect("made");
        let place = scene.path("tree/f");
        let Some(_mounted) = Mount::bind_at(&scene.path("shown"), &place) else { return };
        let run = stage.run(&["-q"], &["tree"], "to").expect_code(1);
        let said = "a file system may be mounted on it";
        assert_one_error(&run, "tree/f: can't remove it", said, "");
        assert_eq!(scene.list("tree"), ["f"], "{:?}", stage.to);
        assert_eq!(scene.read("tree/f"), "above");
        assert_eq!(fs::read(stage.there("to/tree/f")).expect("copied"), b"above");
    });
}

#[test]
fn a_file_that_grows_while_it_is_moved_stays_with_all_that_was_written() {
    const LEN: u64 = 40 << 20;
    each_target(|stage| {
        let (log, there) = (stage.scene.path("log"), stage.there("to/log"));
        tree::random_file(&log, LEN, 1).expect("a file");
        let mut file = fs::File::options().append(true).open(&log).expect("a file");
        let running = stage.haul(&[], &["log"], "to").spawn().expect("it starts");
        while running.is_running() && !there.exists() {
            file.write_all(b"a line\n").expect("written");
        }
        let run = running.wait().expect("it ends");
        let written = file.metadata().expect("it is open").len();
        let copied = fs::read(&there).expect("it is there");
        if stage.to == To::Here {
            assert_eq!(copied.len() as u64, written, "it was renamed");
            run.expect_ok();
            return;
        }
        let cause = "not removed: the destination has another entry with this name (size";
        assert!(run.err().contains(cause), "{:?}: {run}", stage.to);
        let source = fs::read(&log).expect("it is still there");
        assert_eq!(source.len() as u64, written);
        assert!(copied.len() as u64 >= LEN && source.starts_with(&copied));
        run.expect_code(1);
    });
}

#[test]
fn a_mount_point_at_the_destination_is_filled() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    let Some(mount) = Mount::tmpfs(4 << 20) else { return };
    // Beside the mount point, on the file system that it is mounted on.
    let name = mount.path().file_name().expect("it has a name");
    let above = mount.path().parent().expect("it is in a directory");
    scene.file("dir/f", "x");
    let source = scene.path(name);
    fs::rename(scene.path("dir"), &source).expect("renamed");
    let out = scene.haul().arg("move").arg(&source).arg(above).run().expect_ok();
    assert_eq!(fs::read(mount.join("f")).expect("read"), b"x", "{out}");
    assert!(!source.exists());
}

#[test]
fn words_that_mean_nothing_are_refused() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("a", "x");
    let run = scene.haul().args(["move", "a", "host:a", "other:b"]).run().expect_code(2);
    assert_one_error(
        &run,
        "host:a: ",
        "can't move from one host to another",
        "to this machine first",
    );
    for home in ["host:", "host:~", "host:~/", "host:a/.."] {
        let run = scene.haul().args(["move", home, "b"]).run().expect_code(2);
        assert_one_error(&run, home, "it has no name of its own", "name its entries");
    }
    let run = scene.haul().args(["mv", ".", "b"]).run().expect_code(2);
    assert_one_error(&run, ".: not moved", "it has no name of its own", "name its entries");
    scene.haul().args(["move", "a", "nowhere/deep"]).run().expect_code(4);
    scene.haul().args(["move", "-f", "-u", "a", "b"]).run().expect_code(2);
    assert!(scene.exists("a"));
}

#[test]
fn json_reports_what_moved() {
    each_target(|stage| {
        stage.scene.file("f", "x");
        let run = stage.run(&["--json"], &["f"], "to").expect_ok();
        let out = run.out();
        let renamed = format!("\"renamed\":{}}}", stage.to == To::Here);
        assert!(out.contains("{\"type\":\"moved\",\"path\":\"") && out.contains(&renamed), "{out}");
        assert!(
            out.contains("{\"type\":\"move_summary\",\"moved\":1,\"kept\":0,\"failed\":0,"),
            "{out}"
        );
    });
}

/// A script in place of ssh that does `change` before one of the connections of a
/// move to a host or from one: the third comes when all was copied, the fourth is
/// the one through which sources are removed.
fn changing_before(connection: u32, scene: &mut Scene<'_>, change: &str) {
    let changing = at_connection(scene, connection, change);
    let rsh = script(&scene.path("changing"), &format!("shift\n{changing}\nexec sh -c \"$*\""));
    scene.reach_by(rsh);
}

fn from_host(scene: &Scene<'_>, flags: &[&str], source: &str, dest: &str) -> Outcome {
    let haul = scene.haul().arg("move").args(flags).args(scene.remote());
    haul.arg(scene.there(scene.path(source))).arg(scene.path(dest)).run()
}

#[test]
fn what_changes_on_the_host_after_it_was_copied_stays_there() {
    let world = World::new();
    let mut scene = world.scene(Way::Download);
    scene.file("tree/f", "first");
    scene.file("tree/gone", "gone");
    scene.file("tree/other", "other");
    let tree = scene.path("tree");
    let change = format!(
        "cd {0}; echo more >> f; rm gone; echo new > new; mkdir dir; touch dir/nil; cd - > /dev/null",
        tree.display()
    );
    changing_before(3, &mut scene, &change);
    scene.mkdir("to");
    let run = from_host(&scene, &[], "tree", "to").expect_code(1);
    for said in [
        "f: not removed: the destination has another entry with this name",
        "new: not removed: the destination does not have it",
    ] {
        let said = format!("haul: haul-test:{}/{said}", tree.display());
        assert!(run.err().contains(&said), "{said}\n{run}");
    }
    assert_eq!(scene.list("tree"), ["dir", "dir/nil", "f", "new"]);
    assert_eq!(
        (scene.read("to/tree/f"), scene.read("to/tree/gone")),
        ("first".into(), "gone".into())
    );
    // The same again moves the rest, and both files are there as they are.
    scene.reach_by_pipe();
    from_host(&scene, &["-q"], "tree", "to").expect_ok();
    assert!(!scene.exists("tree"));
    assert_eq!(scene.list("to/tree"), ["dir", "dir/nil", "f", "gone", "new", "other"]);
    assert_eq!(scene.read("to/tree/f"), "firstmore\n");
}

#[test]
fn a_directory_that_is_exchanged_after_it_was_copied_stays_with_what_took_its_place() {
    let world = World::new();
    let cases = [(3, "ln -s other tree"), (3, "mv other tree"), (4, "ln -s other tree")];
    for (number, (connection, change)) in cases.into_iter().enumerate() {
        for (dest, way) in [
            ("to", Way::Upload),
            ("to", Way::Download),
            ("renamed", Way::Upload),
            ("renamed", Way::Download),
        ] {
            let name = format!("{number}-{way:?}-{dest}");
            let mut scene = world.scene_called(&name, way);
            scene.file("tree/f", "precious");
            scene.mkdir("to");
            scene.mkdir("tree/hollow");
            // The same, to the last bit.
            run(std::process::Command::new("cp")
                .args(["-a", "tree", "other"])
                .current_dir(scene.path("")));
            let root = scene.path("");
            let change = format!("(cd {} && mv tree away && {change})", root.display());
            changing_before(connection, &mut scene, &change);
            let haul = scene.transfer("move", &scene.remote(), &[], &["tree"], dest);
            let run = haul.run().expect_code(1);
            let at = if scene.exists("other") { "other" } else { "tree" };
            assert_eq!(scene.list(at), ["f", "hollow"], "{name}: {run}");
            if connection == 3 {
                assert_eq!(scene.list("away"), ["f", "hollow"], "{name}: {run}");
                let said = "tree: not removed: it was replaced after it was copied";
                assert!(run.err().contains(said), "{name}: {run}");
                assert!(run.out().starts_with("moved nothing in "), "{name}: {run}");
            }
        }
    }
}

#[test]
fn a_haul_of_another_version_at_the_host_is_reported_before_anything_is_done() {
    let world = World::new();
    let mut scene = world.scene(Way::Download);
    scene.file("tree/f", "precious");
    // The greeting of version 2.
    let greeting = "\\027\\000\\000\\000\\002haul\\002\\000\\040\\000\\000\\000\\000\\000\\000\\000\\074\\000\\000\\0000.0.9";
    let rsh = script(&scene.path("old"), &format!("printf '{greeting}'\nexec cat > /dev/null"));
    scene.reach_by(rsh);
    let run = from_host(&scene, &[], "tree", "to").expect_code(3);
    let ours = format!("version {}", haul_engine::PROTOCOL);
    let both = ["0.0.9", "version 2", &*ours];
    assert!(both.iter().all(|said| run.err().contains(said)), "{run}");
    assert!(scene.exists("tree/f") && !scene.exists("to"));
}

#[test]
fn sources_on_hosts_and_here_go_into_one_directory() {
    let world = World::new();
    let mut scene = world.scene(Way::Download);
    scene.reach_by_pipe();
    scene.file("here/a", "a");
    scene.file("there/b", "b");
    scene.file("there/c/d", "d");
    let haul = scene.haul().arg("move").args(scene.remote());
    let words = ["there/b", "there/missing", "there/c"].map(|name| scene.there(scene.path(name)));
    let run = haul.arg("here/a").args(words).arg("to/").run().expect_code(1);
    assert!(run.err().contains("there/missing: "), "{run}");
    assert!(run.out().starts_with("moved 3 in "), "{run}");
    assert_eq!(scene.list("to"), ["a", "b", "c", "c/d"]);
    assert!(!scene.exists("here/a") && scene.list("there").is_empty());
}

#[test]
fn what_cannot_be_removed_on_the_host_stays_and_is_reported() {
    let world = World::new();
    let mut scene = world.scene(Way::Download);
    scene.reach_by_pipe();
    let Some(mount) = Mount::tmpfs(4 << 20) else { return };
    fs::create_dir_all(mount.join("dir/sub")).expect("made");
    fs::write(mount.join("dir/f"), "x").expect("written");
    mount.remount_read_only().expect("read-only");
    let move_it = || {
        let haul = scene.haul().arg("move").args(scene.remote());
        haul.arg(scene.there(mount.join("dir"))).arg("to/").run()
    };
    let run = move_it().expect_code(1);
    let said =
        format!("haul: haul-test:{}/dir/f: can't remove it: Read-only", mount.path().display());
    assert!(run.err().contains(&said), "{said}\n{run}");
    assert_eq!(scene.read("to/dir/f"), "x");
    mount.remount_writable().expect("writable");
    move_it().expect_ok();
    assert!(!mount.join("dir").exists());
}

/// The window of a listing is 4 MiB, and what is removed is told beside it.
#[test]
fn a_move_of_more_than_is_under_way_at_once_ends() {
    let world = World::new();
    let mut scene = world.scene(Way::Download);
    scene.reach_by_pipe();
    let name = |n: usize| format!("tree/{n:0>200}");
    scene.mkdir("tree");
    for n in 0..20_000 {
        std::os::unix::fs::symlink(".", scene.path(name(n))).expect("made");
    }
    let run = from_host(&scene, &["-v"], "tree", "to").expect_ok();
    assert_eq!(run.out().lines().count(), 20_001);
    assert!(run.out().contains("moved 20,000 in "), "{}", run.err());
    assert!(!scene.exists("tree"));
}

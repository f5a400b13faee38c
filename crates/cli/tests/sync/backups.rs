//! Backups of entries that are replaced or removed.

use crate::common::*;
use crate::oracle::Pair;
use haul_testkit::duplicate;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

fn target(link: impl AsRef<Path>) -> PathBuf {
    fs::read_link(link).expect("a link")
}

/// Trees of which much is replaced and removed.
fn prepare<'s, 'w>(scene: &'s Scene<'w>) -> Pair<'s, 'w> {
    scene.clear(&["src", "dst", "kept"]);
    let _ = Pair::usual(scene);
    scene.symlink("nowhere", "dst/d/link-that-goes");
    scene.file("dst/file-for-dir", "was a file");
    scene.file("src/file-for-dir/in", "now a directory");
    scene.file("dst/old~/sub/in", "in a directory that is called as a backup");
    scene.mkdir("dst/d/n~");
    scene.mkdir("kept");
    mode(scene.path("dst/d"), 0o711);
    mode(scene.path("src/d"), 0o711);
    Pair::of(scene)
}

#[test]
fn what_is_replaced_or_removed_is_kept() {
    everywhere_by_pipe(|scene| {
        for flags in scene.share([
            &["-ai", "-b"][..],
            &["-aib", "--suffix=.old"],
            &["-ai", "--backup-dir=../kept"],
            &["-ai", "--backup-dir=../kept", "--suffix=.old"],
            &["-ai", "-b", "--delete"],
            &["-ai", "-b", "--delete-excluded"],
            &["-ai", "-b", "--delete", "--filter=R *~"],
            &["-ai", "--backup-dir=../kept", "--delete"],
            &["-ai", "--backup-dir=../kept", "--delete-after", "--suffix=~"],
            &["-aib", "-n"],
            &["-ain", "--backup-dir=../kept", "--delete"],
        ]) {
            let pair = prepare(scene);
            pair.run(flags, &["src/"], "dst");
            let (ours, theirs) = (scene.snapshot("kept"), scene.snapshot("oracle/kept"));
            let differences = theirs.differences(&ours, scene.rules().ignoring_dir_mtimes());
            assert!(differences.is_empty(), "{flags:?}: {differences:?}");
        }
    });
}

#[test]
fn a_backup_replaces_no_entry_of_the_source() {
    everywhere_by_pipe(|scene| {
        for (flags, name) in scene.share([
            (&["-ab", "--delete"][..], "removed"),
            (&["-ab", "--delete-after"], "removed"),
            (&["-ab"], "replaced"),
            (&["-abc", "--inplace"], "replaced"),
            (&["-ab", "--suffix=d"], "replace"),
        ]) {
            scene.clear(&["src", "dst"]);
            let suffix = if flags.contains(&"--suffix=d") { "d" } else { "~" };
            let backup = format!("{name}{suffix}");
            scene.file(format!("src/{backup}"), "of the source");
            let sync = |flags: &[&str]| {
                let job = scene.transfer("sync", &scene.route(), flags, &["src/"], "dst");
                job.run().expect_ok();
            };
            sync(&["-a"]);
            scene.file(format!("dst/{name}"), "the old one");
            if name != "removed" {
                scene.file(format!("src/{name}"), "new");
            }
            sync(flags);
            assert_eq!(scene.read(format!("dst/{backup}")), "of the source", "{flags:?}");
            assert_eq!(scene.read(format!("dst/{backup}{suffix}")), "the old one", "{flags:?}");
        }
    });
}

#[test]
fn no_directory_of_the_source_is_also_that_of_the_backups() {
    each_way_by_pipe(|scene| {
        for more in [&[][..], &["--delete"], &["--delete-after"], &["--delay-updates"]] {
            scene.clear(&["src", "dst"]);
            scene.file("src/x", "new");
            scene.file("src/old/x", "of the source");
            scene.file("dst/x", "the old one");
            scene.file("dst/extra", "extra");
            let sync = |dir: &str, dest| {
                let dir = format!("--backup-dir={dir}");
                let flags = [&["-a", &*dir], more].concat();
                let job = scene.transfer("sync", &scene.route(), &flags, &["src/"], dest);
                let run = job.run().expect_code(23);
                assert!(run.err().contains("it is the directory of the backups"), "{run}");
            };
            sync("../src", "dst");
            assert_eq!(scene.read("src/x"), "new", "{more:?}");
            assert_eq!(scene.read("dst/x"), "the old one", "{more:?}");
            sync("old", "dst");
            assert_eq!(scene.read("dst/x"), "new", "{more:?}");
            assert_eq!(scene.read("dst/old/x"), "the old one", "{more:?}");
        }
    });
}

#[test]
fn a_backup_is_not_made_in_the_destination_if_its_directory_is_above() {
    each_way_by_pipe(|scene| {
        scene.file("src/x", "new");
        scene.file("src/dst/x", "new, below");
        scene.file("dst/dst/x", "the old one");
        let flags = ["-a", "--backup-dir=.."];
        let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
        let run = run.expect_code(23);
        assert!(run.err().contains("it would be in the destination"), "{run}");
        assert_eq!(scene.read("dst/x"), "new");
        assert_eq!(scene.read("dst/dst/x"), "the old one");
    });
}

#[test]
fn backups_alone_go_with_the_directory_that_they_are_in() {
    everywhere_by_pipe(|scene| {
        for flags in scene.share([
            &["-aib", "--delete-excluded"][..],
            &["-aincb", "--delete-excluded"],
            &["-aib", "--delete", "--filter=R *~"],
        ]) {
            scene.clear(&["src", "dst"]);
            scene.file("src/d", "takes the place of a directory");
            scene.file("dst/d/x~", "a backup");
            scene.file("dst/gone/x~", "a backup");
            scene.file("dst/gone/sub/~", "another");
            scene.file("dst/~", "is called as nothing's backup");
            Pair::of(scene).run(flags, &["src/"], "dst");
        }
    });
}

#[test]
fn what_is_called_as_a_backup_goes_where_no_rule_keeps_it() {
    everywhere_by_pipe(|scene| {
        for (flags, source) in scene.share([
            (&["-aib", "--delete-missing-args"][..], "src/x~"),
            (&["-aib", "--delete-missing-args", "--delete"], "src/x~"),
            (&["-aib", "--force"], "src/"),
        ]) {
            scene.clear(&["src", "dst"]);
            scene.file("src/d", "takes the place of a directory");
            scene.file("dst/d/y~", "a backup");
            scene.file("dst/x~", "a backup");
            Pair::of(scene).run(flags, &[source], "dst");
        }
    });
}

#[test]
fn a_backup_directory_that_is_the_destination_is_none() {
    everywhere_by_pipe(|scene| {
        for dir in scene.share(["--backup-dir=.", "--backup-dir=./.", "--backup-dir="]) {
            scene.clear(&["src", "dst"]);
            scene.file("src/a", "new");
            scene.file("dst/a", "old content");
            scene.file("dst/b.old", "a backup");
            let flags = ["-aib", "--delete", dir, "--suffix=.old"];
            Pair::of(scene).run(&flags, &["src/"], "dst");
            assert_eq!(scene.list("dst"), ["a", "a.old", "b.old"]);
        }
    });
}

#[test]
fn a_dry_run_reports_what_goes_to_a_directory_that_is_missing() {
    everywhere_by_pipe(|scene| {
        for flags in scene.share([
            &["-ain", "--backup-dir=../kept", "--delete"][..],
            &["-ain", "--backup-dir=../kept", "--delete", "--suffix=.old"],
            &["-ain", "--backup-dir=../kept/for/long", "--delete-after"],
        ]) {
            let pair = prepare(scene);
            fs::remove_dir_all(scene.path("kept")).expect("removed");
            let dry = pair.run(flags, &["src/"], "dst");
            assert!(dry.out().contains("*deleting   d/extra\n"), "{dry}");
            assert!(!scene.exists("kept"));
        }
    });
}

#[test]
fn a_server_without_links_keeps_copies() {
    let world = World::new();
    let mut scene = world.scene(Way::SftpUpload);
    let server = haul_testkit::sshd::system_sftp_server().expect("an sftp-server");
    let lines = format!(
        "for word; do [ \"$word\" != -G ] || exit 0; done\nexec {} -P hardlink",
        server.display()
    );
    scene.reach_by(script(&scene.path("ssh"), &lines));
    scene.file("src/a", "new");
    scene.file("src/same", "the same in both");
    scene.file("dst/a", "old content");
    scene.file("dst/extra", "extra");
    scene.mkdir("prev");
    duplicate(scene.path("src/same"), scene.path("prev/same")).expect("a copy");
    mode(scene.path("dst/a"), 0o640);
    let flags = ["-ab", "--delete", "--link-dest=../prev"];
    let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run().expect_ok();
    assert!(run.err().contains("the server can't create hard links: copying the files instead, through this machine; links, devices and FIFOs fail"), "{run}");
    assert_eq!((&*scene.read("dst/a"), &*scene.read("dst/a~")), ("new", "old content"));
    assert_eq!(mode_of(scene.path("dst/a~")), 0o640);
    assert_eq!(scene.read("dst/extra~"), "extra");
    assert_eq!(scene.read("dst/same"), "the same in both");
    assert_eq!(fs::metadata(scene.path("dst/same")).expect("there").nlink(), 1);
    assert_no_strays(&scene.path(""));
    // What can't be copied or made anew stays.
    scene.symlink("elsewhere", "dst/link");
    scene.symlink("here", "src/link");
    sh(&scene, "mkfifo dst/pipe");
    scene.file("src/pipe", "a file now");
    let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
    let run = run.expect_code(23);
    assert!(run.err().contains("pipe: can't back it up"), "{run}");
    let targets = ["dst/link", "dst/link~"].map(|name| target(scene.path(name)));
    assert_eq!(targets, ["here", "elsewhere"].map(PathBuf::from));
    let kept = fs::metadata(scene.path("dst/pipe")).expect("there").file_type();
    assert!(kept.is_fifo());
}

#[test]
fn what_has_no_room_for_its_suffix_is_named_and_stays() {
    let long = "n".repeat(254);
    everywhere_by_pipe(|scene| {
        scene.file("src/taken", "a file now");
        for dir in ["extra/below", "taken"] {
            scene.file(format!("dst/{dir}/{long}"), "old");
            scene.file(format!("dst/{dir}/short"), "old");
        }
        sh(scene, &format!("mkfifo dst/{}", "p".repeat(254)));
        let route = scene.route();
        let flags = ["-ab", "--delete", "--suffix=.old"];
        let run = scene.transfer("sync", &route, &flags, &["src/"], "dst").run();
        let run = run.expect_code(23);
        assert!(run.err().contains(&format!("{}: can't remove it", "p".repeat(254))), "{run}");
        assert!(scene.exists(format!("dst/{}", "p".repeat(254))), "{run}");
        for dir in ["extra/below", "taken"] {
            let why = "can't remove it: with its backup suffix, the name is longer than 255 bytes";
            let told = format!("{dir}/{long}: {why}");
            assert_eq!(run.err().matches(&told).count(), 1, "{run}");
            assert!(!run.err().contains(&format!("{dir}: {why}")), "{run}");
            assert_eq!(scene.read(format!("dst/{dir}/{long}")), "old");
            assert_eq!(scene.list(format!("dst/{dir}")), [&*long, "short.old"]);
        }
        let stays = "taken: can't make way: some entries of the directory there stay";
        assert!(run.err().contains(stays), "{run}");
    });
}

#[test]
fn an_empty_directory_makes_way_in_a_backup_directory_and_nowhere_else() {
    each_way_by_pipe(|scene| {
        for name in ["empty", "full", "beside"] {
            scene.file(format!("src/{name}"), "new");
            scene.file(format!("dst/{name}"), "old, and longer");
            scene.mkdir(format!("kept/{name}"));
        }
        scene.file("kept/full/a", "a");
        // The source's. It exists, or the backup could be made before it is.
        scene.mkdir("src/beside~");
        scene.mkdir("dst/beside~");
        let sync = |flags: &[&str]| {
            scene.transfer("sync", &scene.route(), flags, &["src/"], "dst").run().expect_code(23)
        };
        let run = sync(&["-ab"]);
        assert!(run.err().contains("beside: can't back it up"), "{run}");
        assert!(fs::metadata(scene.path("dst/beside~")).is_ok_and(|it| it.is_dir()));
        for name in ["empty", "full", "beside"] {
            scene.file(format!("dst/{name}"), "old, and longer");
        }
        let run = sync(&["-abn"]);
        assert!(run.err().contains("beside: can't back it up"), "{run}");
        for flags in [&["-an", "--backup-dir=../kept"][..], &["-a", "--backup-dir=../kept"]] {
            let run = sync(flags);
            assert!(run.err().contains("full: can't back it up"), "{run}");
            assert_eq!(run.err().matches("can't").count(), 1, "{run}");
        }
        for (name, content) in [
            ("dst/empty", "new"),
            ("kept/empty", "old, and longer"),
            ("dst/full", "old, and longer"),
            ("kept/full/a", "a"),
        ] {
            assert_eq!(scene.read(name), content);
        }
    });
}

#[test]
fn a_second_run_keeps_what_the_first_has_kept() {
    everywhere_by_pipe(|scene| {
        let pair = prepare(scene);
        let flags = ["-ai", "-b", "--delete"];
        pair.run(&flags, &["src/"], "dst");
        let run = pair.run(&flags, &["src/"], "dst");
        assert_eq!(scene.read("dst/changed~"), "old, and longer");
        assert!(!run.out().contains("changed"), "{run}");
        // The newest goes over the older.
        scene.file("src/changed", "newer, and much longer than before");
        let pair = Pair::with_times(scene);
        pair.run(&flags, &["src/"], "dst");
        assert_eq!(scene.read("dst/changed~"), "new 0");
    });
}

#[test]
fn backups_in_the_destination_are_no_extras() {
    each_way_by_pipe(|scene| {
        let _ = prepare(scene);
        let route = scene.route();
        let sync = || {
            let flags = ["-a", "--delete", "--backup-dir=kept"];
            scene.transfer("sync", &route, &flags, &["src/"], "dst").run().expect_ok()
        };
        sync();
        assert_eq!(scene.read("dst/kept/x/y/1"), "extra");
        sync();
        assert_eq!(scene.read("dst/kept/changed"), "old, and longer");
        assert_eq!(scene.read("dst/kept/x/y/1"), "extra");
    });
}

#[test]
fn a_backup_elsewhere_is_a_copy() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/a", "new content");
    scene.file("dst/a", "old content");
    mode(scene.path("dst/a"), 0o640);
    // Its mode says that the group may write, which it may not even read.
    sh(&scene, "setfacl -m u:1000:rw,g::-,m::rw dst/a");
    let old = fs::metadata(scene.path("dst/a")).expect("there").mtime_nsec();
    scene.symlink("elsewhere", "dst/link");
    scene.symlink("here", "src/link");
    sh(&scene, "mkfifo -m 620 dst/pipe; setfacl -m u:1000:r dst/pipe");
    scene.file("src/pipe", "a file now");
    let elsewhere = tempfile::tempdir_in("/dev/shm").expect("another file system");
    let flag = format!("--backup-dir={}", elsewhere.path().display());
    scene.haul().args(["sync", "-a", &flag, "src/", "dst"]).run().expect_ok();
    let backup = elsewhere.path().join("a");
    assert_eq!(fs::read(&backup).expect("read"), b"old content");
    let metadata = fs::metadata(&backup).expect("there");
    assert_eq!((metadata.mode() & 0o777, metadata.mtime_nsec()), (0o660, old));
    let list = attributes(elsewhere.path());
    assert!(list.contains("user:1000:rw-\ngroup::---"), "{list}");
    assert_eq!(scene.read("dst/a"), "new content");
    // What is no file is made once more.
    assert_eq!(target(elsewhere.path().join("link")), Path::new("elsewhere"));
    assert_eq!(target(scene.path("dst/link")), Path::new("here"));
    let kept = fs::metadata(elsewhere.path().join("pipe")).expect("there");
    assert!(kept.file_type().is_fifo() && kept.mode() & 0o777 == 0o660, "{:o}", kept.mode());
    assert!(list.contains("user:1000:r--\ngroup::-w-"), "{list}");
    assert_eq!(scene.read("dst/pipe"), "a file now");
}

#[test]
fn a_backup_of_another_users_file_has_its_attributes() {
    let world = World::new();
    let mut scene = world.scene(Way::Local);
    if !is_root() {
        return haul_testkit::fixture::missing("root, who makes another owner's file");
    }
    scene.become_nobody();
    scene.file("src/a", "new content");
    scene.file("dst/a", "old content");
    scene.file("dst/extra", "extra");
    sh(&scene, "setfattr -n user.note -v kept dst/*; chown -R 65534 src dst; chown 1 dst/*");
    // Who does not own a file makes no links of it where the kernel protects these.
    scene.haul().args(["sync", "-rtb", "--delete", "src/", "dst"]).run().expect_ok();
    let contents = ["a", "a~", "extra~"].map(|name| scene.read(format!("dst/{name}")));
    assert_eq!(contents, ["new content", "old content", "extra"]);
    let listed = attributes(&scene.path("dst"));
    assert_eq!(listed.matches("user.note=0x6b657074").count(), 2, "{listed}");
}

#[test]
fn what_cannot_be_kept_stays() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    let long = "x".repeat(255);
    scene.file(format!("src/{long}"), "new content");
    scene.file(format!("dst/{long}"), "old");
    scene.file("dst/extra", "extra");
    scene.symlink("elsewhere", "dst/link");
    scene.symlink("here", "src/link");
    let run = scene.haul().args(["sync", "-ab", "--delete", "src/", "dst"]).run();
    let run = run.expect_code(23);
    assert!(run.err().contains("back it up"), "{run}");
    assert_eq!(scene.read(format!("dst/{long}")), "old");
    assert_eq!(scene.read("dst/extra~"), "extra");
    let kept = fs::read_link(scene.path("dst/link~")).expect("a link");
    assert_eq!(kept.to_str(), Some("elsewhere"));
}

#[test]
fn who_could_not_read_it_cannot_read_its_backup() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/private/a", "new");
    scene.file("dst/private/a", "old, and secret");
    for tree in ["src", "dst"] {
        let dir = scene.path(format!("{tree}/private"));
        std::os::unix::fs::chown(&dir, Some(1000), Some(1001)).expect("given");
        mode(&dir, 0o2750);
    }
    scene.haul().args(["sync", "-a", "--backup-dir=../kept", "src/", "dst"]).run().expect_ok();
    assert_eq!(scene.read("kept/private/a"), "old, and secret");
    let kept = fs::metadata(scene.path("kept/private")).expect("there");
    assert_eq!((kept.mode() & 0o7777, kept.uid(), kept.gid()), (0o2750, 1000, 1001));
}

#[test]
fn what_is_the_same_in_a_base_is_no_reason_for_a_backup() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    for tree in ["src", "dst", "prev"] {
        scene.file(format!("{tree}/same"), "same");
        scene.file(format!("{tree}/other"), if tree == "dst" { "older" } else { "other" });
    }
    let pair = Pair::of(&scene);
    let _ = fs::remove_dir_all(scene.path("prev"));
    duplicate(scene.path("src"), scene.path("prev")).expect("a copy");
    pair.run(&["-ai", "--link-dest=../prev", "-n"], &["src/"], "dst");
    let flags = ["-a", "-b", "--link-dest=../prev"];
    scene.haul().arg("sync").args(flags).args(["src/", "dst"]).run().expect_ok();
    assert!(!scene.exists("dst/same~"));
    assert_eq!(scene.read("dst/other~"), "older");
}

#[test]
fn a_link_that_leads_out_has_no_backup_with_safe_links_and_is_reported_where_it_is_left_out() {
    each_of(
        &[Way::Local, Way::Upload],
        |scene| scene.reach_by_pipe(),
        |scene| {
            scene.file("src/was-link", "a file now");
            scene.mkdir("src/d");
            scene.symlink("/out", "src/d/out");
            scene.symlink("../was-link", "src/d/in");
            scene.mkdir("dst/d");
            for (name, target) in [("was-link", "../out"), ("d/out", "../../out"), ("d/in", "..")] {
                scene.symlink(target, format!("dst/{name}"));
            }
            let sync = |flags: &[&str]| {
                let flags = [&["-rlv", "--safe-links"], flags].concat();
                scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run().expect_ok()
            };
            let told = "ignoring unsafe symlink \"d/out\" -> \"/out\"\n";
            let run = sync(&["-b"]);
            assert!(run.out().contains(told), "{run}");
            assert_eq!(scene.list("dst"), ["d", "d/in", "d/in~", "d/out", "was-link"]);
            let run = sync(&["--info=symsafe0"]);
            assert!(!run.out().contains("unsafe symlink"), "{run}");
        },
    );
}

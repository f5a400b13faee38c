//! Large files that have got another name in the source get it in the destination, too.

use crate::common::*;
use crate::oracle::Pair;
use haul_testkit::haul::Outcome;
use haul_testkit::{duplicate, tree};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Longer than what is sent many at a time.
const LEN: u64 = 700 << 10;

/// Makes `src` with these files, and `dst` like it.
fn prepare(scene: &Scene<'_>, files: &[&str]) {
    for tree in ["src", "dst"] {
        let _ = fs::remove_dir_all(scene.path(tree));
    }
    for (seed, file) in files.iter().enumerate() {
        let path = scene.path(format!("src/{file}"));
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        tree::random_file(&path, LEN + seed as u64, seed as u64 + 1).expect("a file");
    }
    duplicate(scene.path("src"), scene.path("dst")).expect("a copy");
}

/// Gives the directories times that differ in whole seconds, as rsync sees them.
fn give_dir_times(scene: &Scene<'_>) {
    sh(
        scene,
        "find src -type d -exec touch -d @1600000100 {} +; find dst -type d -exec touch -d @1600000000 {} +",
    );
}

fn inode(scene: &Scene<'_>, path: &str) -> u64 {
    let metadata = fs::metadata(scene.path(path)).expect(path);
    assert_eq!(metadata.nlink(), 1, "{path}");
    metadata.ino()
}

fn sync(scene: &Scene<'_>, flags: &[&str]) -> Outcome {
    scene.transfer("sync", &scene.route(), flags, &["src/"], "dst").run()
}

const FILES: [&str; 6] = ["a/down", "b/up", "photos/1", "photos/2", "photos/sub/3", "same"];

/// Gives most of [`FILES`] other names: their old ones, and those.
fn rename_most(scene: &Scene<'_>) -> [(&'static str, &'static str); 5] {
    sh(
        scene,
        "cd src; mkdir z; mv a/down z/down; mv b/up a/up; mv photos images; mv images/2 images/2b",
    );
    [
        ("a/down", "z/down"),
        ("b/up", "a/up"),
        ("photos/1", "images/1"),
        ("photos/2", "images/2b"),
        ("photos/sub/3", "images/sub/3"),
    ]
}

#[test]
fn they_are_not_sent_and_all_looks_as_with_rsync() {
    each_way_by_pipe(|scene| {
        for when in scene.share(["--delete", "--delete-after", "--delete-delay"]) {
            prepare(scene, &FILES);
            let renamed = rename_most(scene);
            let before = renamed.map(|(old, _)| inode(scene, &format!("dst/{old}")));
            give_dir_times(scene);
            let pair = Pair::with_times(scene);
            pair.run(&["-ain", when], &["src/"], "dst");
            assert_eq!(renamed.map(|(old, _)| inode(scene, &format!("dst/{old}"))), before);
            pair.run(&["-ai", when], &["src/"], "dst");
            assert_eq!(renamed.map(|(_, new)| inode(scene, &format!("dst/{new}"))), before);
            pair.settles(&["-ai", when], &["src/"], "dst");
        }
        prepare(scene, &FILES);
        rename_most(scene);
        let run = sync(scene, &["-a", "--delete", "--json"]).expect_ok();
        assert_eq!([figure(&run, "renamed"), figure(&run, "copied")], [5, 5], "{run}");
        assert_eq!([figure(&run, "moved"), figure(&run, "deleted")], [0, 7], "{run}");
        prepare(scene, &FILES);
        rename_most(scene);
        let run = sync(scene, &["-a", "--delete", "--stats"]).expect_ok();
        assert!(run.out().contains(" bytes; 5 copied, 5 of them only renamed, "), "{run}");
    });
}

#[test]
fn they_are_sent_where_that_is_asked_for_or_their_old_names_stay() {
    each_way_by_pipe(|scene| {
        let sent = |flags: &[&str]| {
            prepare(scene, &FILES);
            rename_most(scene);
            let run = sync(scene, &[&["-a", "--json"], flags].concat());
            assert_eq!([figure(&run, "renamed"), figure(&run, "copied")], [0, 5], "{run}");
            assert!(figure(&run, "moved") > 5 * LEN, "{flags:?}: {run}");
        };
        for flags in scene.share([
            &["--delete", "--no-moves"][..],
            &["--delete-during"],
            &["--delete-before"],
            &["--delete", "--max-delete=2"],
            &["--delete", "--delay-updates"],
            &["--delete", "--backup-dir=../kept"],
            &[],
        ]) {
            sent(flags);
        }
        let protects = ["--filter=P /a/down", "--filter=P /b/up", "--filter=P /photos/***"];
        sent(&[&["--delete"][..], &protects].concat());
        sent(&[&["--delete-after"][..], &protects].concat());
        assert!(scene.exists("dst/photos/sub/3"));
    });
}

#[test]
fn they_get_what_has_changed_of_them_but_content() {
    each_way_by_pipe(|scene| {
        prepare(scene, &["a/x", "b/y", "c/z", "d/w"]);
        // The same length and time, and other content at the end.
        sh(
            scene,
            "cd src; mv b/y b/other; mv c/z z; chmod 640 z; touch -d @1600000000.5 d/w a/x ../dst/d/w",
        );
        sh(
            scene,
            "mv src/d/w src/d/v; mv src/a/x src/a/v; touch -d @1600000000.25 dst/d/w dst/a/x",
        );
        let other = scene.path("src/b/other");
        let time = fs::metadata(&other).expect("there").modified().expect("a time");
        let mut content = fs::read(&other).expect("read");
        *content.last_mut().expect("content") ^= 1;
        fs::write(&other, &content).expect("written");
        fs::File::options()
            .write(true)
            .open(&other)
            .expect("open")
            .set_modified(time)
            .expect("set");
        if is_root() {
            std::os::unix::fs::chown(scene.path("src/z"), Some(1), Some(1)).expect("given");
        }
        let before = inode(scene, "dst/c/z");
        give_dir_times(scene);
        Pair::with_times(scene).run(&["-ai", "--delete"], &["src/"], "dst");
        assert_eq!(inode(scene, "dst/z"), before);
        assert_eq!(mode_of(scene.path("dst/z")), 0o640);
        assert_eq!(fs::read(scene.path("dst/b/other")).expect("read"), content);
        let nanos = |path: &str| fs::metadata(scene.path(path)).expect("there").mtime_nsec();
        assert_eq!([nanos("dst/d/v"), nanos("dst/a/v")], [500_000_000; 2]);
    });
}

#[test]
fn one_that_has_other_names_or_attributes_which_a_new_one_would_not_have_is_sent() {
    each_way_by_pipe(|scene| {
        prepare(scene, &["linked", "marked", "many", "plain"]);
        sh(
            scene,
            "cd src; for f in *; do mv $f new-$f; done; cp -p new-plain copy-of-plain; mkdir ../beside; \
             ln ../dst/linked ../beside/linked; setfattr -n user.mark -v x ../dst/marked",
        );
        let [linked, many] = ["linked", "many"]
            .map(|name| fs::metadata(scene.path(format!("dst/{name}"))).expect("there").ino());
        let run = sync(scene, &["-a", "--delete", "--json"]).expect_ok();
        // One of the two that are the same.
        assert_eq!([figure(&run, "renamed"), figure(&run, "copied")], [2, 5], "{run}");
        assert_ne!(inode(scene, "dst/new-linked"), linked);
        assert!(!attributes(&scene.path("dst")).contains("user.mark"));
        assert_eq!(inode(scene, "dst/new-many"), many);
        let found = scene.snapshot("src").differences(&scene.snapshot("dst"), scene.rules());
        assert!(found.is_empty(), "{found:?}");
        // With -X the attribute goes.
        prepare(scene, &["marked"]);
        sh(scene, "mv src/marked src/new; setfattr -n user.mark -v x dst/marked");
        let before = inode(scene, "dst/marked");
        let run = sync(scene, &["-aX", "--delete", "--json"]).expect_ok();
        assert_eq!(figure(&run, "renamed"), 1, "{run}");
        assert_eq!(inode(scene, "dst/new"), before);
        assert!(!attributes(&scene.path("dst")).contains("user.mark"));
        fs::remove_dir_all(scene.path("beside")).expect("removed");
    });
}

#[test]
fn nothing_keeps_two_names_where_the_source_cannot_be_read() {
    everywhere_as_nobody(|scene| {
        if scene.is_sftp() {
            return;
        }
        prepare(scene, &["a/1", "b/2"]);
        sh(scene, "cd src; mv b/2 z; mkdir closed; touch closed/x; chmod 0 closed");
        scene.give_to_nobody("src");
        scene.give_to_nobody("dst");
        sync(scene, &["-a", "--delete-after"]).expect_code(23);
        mode(scene.path("src/closed"), 0o755);
        assert!(scene.exists("dst/b/2") && scene.exists("dst/z"));
        assert_eq!(fs::read(scene.path("dst/z")).ok(), fs::read(scene.path("dst/b/2")).ok());
    });
}

#[test]
fn whenever_it_is_killed_each_file_is_there_under_one_of_its_names() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    let names: Vec<String> = (0..24).map(|at| format!("old/{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for round in 0..12_u64 {
        prepare(&scene, &names);
        sh(&scene, "mv src/old src/new");
        let sync = scene.transfer("sync", &scene.route(), &["-a", "--delete"], &["src/"], "dst");
        let running = sync.spawn().expect("it starts");
        std::thread::sleep(std::time::Duration::from_millis(2 + 3 * round));
        running.signal(haul_testkit::proc::Signal::KILL);
        drop(running);
        for at in 0..24 {
            let content = fs::read(scene.path(format!("src/new/{at}"))).expect("read");
            let has_it = |dir: &str| {
                fs::read(scene.path(format!("dst/{dir}/{at}"))).is_ok_and(|there| there == content)
            };
            assert!(has_it("old") || has_it("new"), "{round} {at}");
        }
        sync.run().expect_ok();
        assert_eq!(scene.list("dst"), scene.list("src"), "{round}");
    }
}

//! Sources that go when they have arrived.

use crate::common::*;
use crate::oracle::Pair;
use haul_testkit::content::Stream;
use haul_testkit::proc::Signal;
use haul_testkit::{campaign, holds_within, nasty};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const REMOVES: &str = "--remove-source-files";

/// Trees of which the sources are to go.
fn prepare<'s, 'w>(scene: &'s Scene<'w>) -> Pair<'s, 'w> {
    scene.clear(&["src", "dst"]);
    Pair::usual(scene)
}

/// Runs both programs, and compares what is left of the sources.
fn run_both(pair: &Pair<'_, '_>, flags: &[&str], sources: &[&str]) {
    let scene = pair.scene;
    let run = pair.run(flags, sources, "dst");
    let (ours, theirs) = (scene.snapshot("src"), scene.snapshot("oracle/src"));
    let differences = theirs.differences(&ours, scene.rules().ignoring_dir_mtimes());
    assert!(differences.is_empty(), "{flags:?} {sources:?}: {differences:?}\nhaul: {run}");
    assert_no_strays(&scene.path("src"));
}

#[test]
fn sources_go_that_have_arrived() {
    everywhere_by_pipe(|scene| {
        for flags in scene.share([
            &["-ai"][..],
            &["-ai", "--delete"],
            &["-ai", "--delete-after", "--exclude=same"],
            &["-ain", "--delete"],
            &["-rti"],
            &["-ac", "--max-size=6"],
            &["-a", "--existing"],
        ]) {
            let pair = prepare(scene);
            run_both(&pair, &[flags, &[REMOVES]].concat(), &["src/"]);
        }
        let pair = prepare(scene);
        run_both(&pair, &["-a", REMOVES], &["src/same", "src/d", "src/link"]);
        assert!(scene.exists("src/d/e") && !scene.exists("src/d/e/same"));
    });
}

#[test]
fn sources_go_that_keep_their_paths() {
    each_way_by_pipe(|scene| {
        let pair = prepare(scene);
        run_both(&pair, &["-aR", REMOVES], &["src/./d/e", "src/./changed"]);
        scene.file("list", "d/same\nz\n");
        let pair = prepare(scene).with_files(&["list"]);
        run_both(&pair, &["-a", "-r", REMOVES, "--files-from=list"], &["src"]);
        assert!(scene.exists("src/d/changed"));
        // A link that leads to the directory is followed, as it was for the copy.
        let pair = prepare(scene).with_files(&["way"]);
        scene.symlink("src/d", "way");
        run_both(&pair, &["-a", REMOVES], &["way/"]);
        assert!(!scene.exists("src/d/same"));
    });
}

#[test]
fn through_sftp_sources_that_keep_their_paths_are_refused() {
    each_of(
        &[Way::SftpUpload, Way::SftpDownload],
        |scene| scene.reach_by_pipe(),
        |scene| {
            let _ = prepare(scene);
            let before = (scene.list("src"), scene.list("dst"));
            let flags = ["-aR", REMOVES];
            let run = scene.transfer("sync", &scene.route(), &flags, &["src/d"], "dst").run();
            assert_eq!(run.code, Some(1), "{run}");
            assert!(run.err().contains("SFTP can't remove sources that keep their paths"), "{run}");
            assert_eq!(before, (scene.list("src"), scene.list("dst")));
        },
    );
}

#[test]
fn what_has_failed_stays() {
    everywhere_by_pipe(|scene| {
        let pair = prepare(scene);
        // Without --force it does not make way.
        fs::remove_file(scene.path("dst/z/same")).expect("removed");
        scene.file("dst/z/same/in", "in the way");
        run_both(&pair, &["-a", REMOVES], &["src/"]);
        assert_eq!(scene.read("src/z/same"), "same 3");
    });
}

#[test]
fn what_changes_after_it_was_copied_stays() {
    each_of(
        &[Way::Upload, Way::Download],
        |_| {},
        |scene| {
            let mut scene = scene.another(&format!("{:?}-changing", scene.way));
            // What is removed is asked for over a connection of its own.
            let lines = "shift\n[ ! -e connected ] || echo more >> src/d/fresh\ntouch connected\nexec sh -c \"$*\"";
            let lines = format!("cd {}\n{lines}", scene.path("").display());
            scene.reach_by(script(&scene.path("pipe"), &lines));
            let _ = prepare(&scene);
            let flags = ["-a", REMOVES];
            let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
            assert_eq!(run.code, Some(23), "{run}");
            // It is seen before or after it is read again.
            let is_it = |line: &str| line.contains("src/d/fresh: ") && line.contains("changed");
            assert!(run.err().lines().any(is_it), "{run}");
            assert_eq!(scene.read("src/d/fresh"), "fresh 1more\n");
            assert_eq!(scene.read("dst/d/fresh"), "fresh 1");
            assert!(!scene.exists("src/fresh"));
        },
    );
}

#[test]
fn what_only_looks_the_same_stays() {
    everywhere_by_pipe(|scene| {
        let _ = prepare(scene);
        scene.file("src/lies", "one");
        scene.file("dst/lies", "two");
        let time = 1_600_000_000;
        for tree in ["src", "dst"] {
            haul_testkit::nasty::set_mtime(scene.path(format!("{tree}/lies")), time, 0)
                .expect("a time");
        }
        let flags = ["-a", REMOVES];
        let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
        assert_eq!(run.code, Some(23), "{run}");
        assert_eq!((&*scene.read("src/lies"), &*scene.read("dst/lies")), ("one", "two"));
        assert!(!scene.exists("src/same"));
    });
}

#[test]
fn what_is_the_destination_itself_stays() {
    each_way_by_pipe(|scene| {
        let _ = prepare(scene);
        let before = scene.snapshot("src");
        let flags = ["-a", REMOVES];
        let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "src").run();
        assert_ne!(run.code, Some(0), "{run}");
        let rules = scene.rules().ignoring_dir_mtimes();
        let differences = before.differences(&scene.snapshot("src"), rules);
        assert!(differences.is_empty(), "{differences:?} {run}");
    });
}

/// Sources with links of all kinds, beside what some of them lead to.
fn prepare_links<'s, 'w>(scene: &'s Scene<'w>) -> Pair<'s, 'w> {
    for tree in ["src", "dst", "out"] {
        let _ = fs::remove_dir_all(scene.path(tree));
    }
    scene.file("src/file", "file");
    scene.file("src/d/file", "file below");
    scene.file("out/file", "outside");
    scene.file("out/dir/file", "in a directory outside");
    scene.symlink("../out/file", "src/link-out");
    scene.symlink("../out/dir", "src/dir-out");
    scene.symlink("../../out/file", "src/d/link-out");
    nasty::set_mtime(scene.path("out/dir"), 1_600_000_000, 0).expect("a time");
    Pair::of(scene).with_files(&["out"])
}

#[test]
fn links_that_were_followed_go_and_what_they_lead_to_stays() {
    everywhere_by_pipe(|scene| {
        for flags in scene.share([&["-aL"][..], &["-rtL"], &["-ak"]]) {
            let pair = prepare_links(scene);
            // What is in a directory that a link leads to fails, as with rsync.
            run_both(&pair, &[flags, &[REMOVES]].concat(), &["src/"]);
            assert_eq!(scene.list("out"), ["dir", "dir/file", "file"], "{flags:?}");
            assert!(!scene.exists("src/link-out") && scene.exists("src/dir-out"), "{flags:?}");
            let again = scene.transfer("sync", &scene.route(), flags, &["src/"], "dst").run();
            assert_eq!(again.code, Some(0), "{again}");
        }
        // rsync takes such a link for a file that has changed.
        let _ = prepare_links(scene);
        fs::remove_file(scene.path("src/dir-out")).expect("removed");
        let flags = ["-a", "--copy-unsafe-links", REMOVES];
        let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
        assert_eq!(run.code, Some(0), "{run}");
        assert_eq!(scene.read("dst/link-out"), "outside");
        assert_eq!(scene.list("src"), ["d"]);
        assert_eq!(scene.list("out"), ["dir", "dir/file", "file"]);
    });
}

#[test]
fn links_that_are_munged_go() {
    everywhere_by_pipe(|scene| {
        let pair = prepare_links(scene);
        let munges = ["-a", "--munge-links", REMOVES];
        let run = scene.transfer("sync", &scene.route(), &munges, &["src/"], "dst").run();
        assert_eq!(run.code, Some(0), "{run}");
        assert_eq!(scene.list("src"), ["d"]);
        let target = fs::read_link(scene.path("dst/link-out")).expect("a link");
        let is_munged = target.starts_with("/rsyncd-munged");
        assert_eq!(is_munged, matches!(scene.way, Way::Download | Way::SftpDownload), "{run}");
        drop(pair);
    });
}

#[test]
fn a_link_to_what_takes_its_place_loses_nothing() {
    each_way_by_pipe(|scene| {
        // The destination has the content under its name, because the link leads there.
        scene.file("dst/file", "the only one");
        scene.mkdir("src");
        scene.symlink("../dst/file", "src/file");
        let flags = ["-aL", REMOVES];
        let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
        assert_eq!(scene.read("dst/file"), "the only one", "{run}");
    });
}

/// Files of which sources are removed while the program is killed.
const FILES: usize = 300;

fn content(number: usize) -> String {
    format!("{number} ").repeat(50 + number)
}

#[test]
fn a_kill_while_sources_go_loses_none() {
    let went_halfway = AtomicUsize::new(0);
    each_of(
        &Way::ALL,
        |scene| scene.reach_by_pipe(),
        |scene| {
            let mut random = Stream::new(campaign::seed(91 + scene.way as u64));
            let flags = ["-a", REMOVES];
            let sync = || scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst");
            for _ in 0..campaign::rounds(4) {
                for tree in ["src", "dst"] {
                    let _ = fs::remove_dir_all(scene.path(tree));
                }
                for number in 0..FILES {
                    scene.file(format!("src/{}/{number}", number % 3), content(number));
                }
                let left = || scene.list("src").len();
                let all = left();
                let running = sync().spawn().expect("it starts");
                // When the first is gone, or a moment later.
                let _ = running.until(Duration::from_secs(20), || left() < all);
                std::thread::sleep(Duration::from_micros(random.below(5_000)));
                running.signal(Signal::KILL);
                running.wait().expect("it ends");
                // An agent hears of it by and by.
                let quiet = holds_within(Duration::from_secs(20), || !scene.is_at_work());
                assert!(quiet, "the agent is still there");
                let sources = scene.list("src");
                for number in 0..FILES {
                    let dir = number % 3;
                    let name = format!("{dir}/{number}");
                    // It may be set aside.
                    let aside = |path: &&String| {
                        path.starts_with(&format!("{dir}/.haul-moving-"))
                            && path.ends_with(&format!("-{number}"))
                    };
                    let source = sources.iter().find(|path| **path == name || aside(path));
                    match source {
                        Some(path) => {
                            assert_eq!(scene.read(format!("src/{path}")), content(number));
                        }
                        None => assert_eq!(scene.read(format!("dst/{name}")), content(number)),
                    }
                }
                let gone = all - sources.len();
                went_halfway.fetch_add((gone > 0 && gone < FILES).into(), Ordering::Relaxed);
                let run = sync().run();
                assert_eq!(run.code, Some(0), "{run}");
                assert_eq!(scene.list("src"), ["0", "1", "2"], "{run}");
                for number in 0..FILES {
                    let path = format!("dst/{}/{number}", number % 3);
                    assert_eq!(scene.read(path), content(number));
                }
                assert_no_strays(&scene.path("dst"));
            }
        },
    );
    assert!(went_halfway.into_inner() > 0, "no kill came while sources went");
}

//! Files that wait for the end of the job, and those that are staged in another directory.

use crate::common::*;
use crate::lots::{DELAY, SOON, kill_when, that_are_named, that_wait, waiting_in};
use crate::oracle::Pair;
use haul_testkit::campaign;
use haul_testkit::content::Stream;
use haul_testkit::proc::Signal;
use haul_testkit::wait::holds_within;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Ways in which the destination is not behind an SFTP server.
const WAYS: [Way; 4] = [Way::Local, Way::Upload, Way::Download, Way::SftpDownload];

/// Files that wait before a job is ended.
const SOME: usize = 30;

/// A directory on another file system than the tests', which goes at the end.
struct OtherSystem(String);

impl OtherSystem {
    fn new(scene: &Scene<'_>) -> Self {
        let path = format!("/dev/shm/haul-test-{}-{:?}", std::process::id(), scene.way);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a directory");
        let devices = [&*path, &scene.path("").display().to_string()]
            .map(|path| fs::metadata(path).expect("there").dev());
        assert_ne!(devices[0], devices[1], "the two are one file system");
        Self(path)
    }
}

impl Drop for OtherSystem {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_rsync_left_of_delayed_files_goes_with_their_arrival() {
    each_way_by_pipe(|scene| {
        let prepare = || {
            scene.clear(&["src", "dst"]);
            for name in ["a", "d/b", "same"] {
                scene.file(format!("src/{name}"), "new");
            }
            scene.file("dst/same", "new");
            for name in [".~tmp~/a", "d/.~tmp~/b", "d/.~tmp~/other", "e/.~tmp~/c"] {
                scene.file(format!("dst/{name}"), "left by another run");
            }
        };
        prepare();
        let flags = ["-rc", "--delay-updates", "-i"];
        Pair::of(scene).run(&flags, &["src/"], "dst");
        assert!(!scene.exists("dst/.~tmp~"));
        assert!(scene.exists("dst/d/.~tmp~/other") && !scene.exists("dst/d/.~tmp~/b"));
        // What the job copies stays.
        prepare();
        scene.file("src/.~tmp~/a", "copied");
        let flags = ["-rc", "--delay-updates", "--include=.~tmp~/"];
        scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run().expect_ok();
        assert_eq!(fs::read(scene.path("dst/.~tmp~/a")).expect("a file"), b"copied");
    });
}

/// Trees that differ in all ways, with links and larger files.
fn prepare<'s, 'w>(scene: &'s Scene<'w>) -> Pair<'s, 'w> {
    scene.clear(&["src", "dst", "kept"]);
    let _ = Pair::usual(scene);
    scene.file("src/large", vec![7; 3 << 20]);
    scene.file("src/d/large", vec![8; 3 << 20]);
    scene.file("dst/d/large", vec![9; 2 << 20]);
    scene.file("src/way", "a file now");
    scene.mkdir("dst/way");
    scene.file("src/was-link", "a file now");
    scene.symlink("large", "dst/was-link");
    for name in ["one", "d/two", "z/three"] {
        scene.file(format!("dst/{name}"), format!("old {name}"));
    }
    scene.file("src/one", "of three names");
    for name in ["d/two", "z/three"] {
        fs::hard_link(scene.path("src/one"), scene.path(format!("src/{name}"))).expect("linked");
    }
    Pair::of(scene)
}

#[test]
fn files_that_wait_get_their_names_at_the_end_as_with_rsync() {
    each_of(
        &WAYS,
        |scene| scene.reach_by_pipe(),
        |scene| {
            for flags in scene.share([
                &["-ai", DELAY, "--delete"][..],
                &["-ain", DELAY, "--delete"],
                &["-aic", DELAY, "--force"],
                &["-rti", DELAY, "--delete-after"],
                &["-ai", DELAY, "--delete-before"],
                &["-ai", DELAY, "--delete-delay", "--fsync"],
                &["-aib", DELAY, "--delete"],
                &["-ai", DELAY, "--delete", "-b", "--backup-dir=../kept"],
            ]) {
                prepare(scene).run(flags, &["src/"], "dst");
                assert_no_strays(&scene.path(""));
                let has_kept = flags.contains(&"--backup-dir=../kept");
                assert_eq!(scene.exists("kept/changed"), has_kept, "{flags:?}");
            }
            fs::remove_dir_all(scene.path("dst")).expect("removed");
            let missing = Pair::with_times(scene);
            missing.run(&["-ai", DELAY], &["src/"], "dst");
            missing.run(&["-ai", DELAY], &["src/one"], "one");
            assert_no_strays(&scene.path(""));
        },
    );
}

#[test]
fn names_of_one_file_wait_together() {
    let ways = [Way::Local, Way::Upload, Way::Download];
    each_of(
        &ways,
        |scene| scene.reach_by_pipe(),
        |scene| {
            // Which name is the first, and told as the one that is sent, differs.
            for flags in [["-aH", DELAY, "--delete"], ["-aH", DELAY, "--fsync"]] {
                let pair = prepare(scene);
                pair.run(&flags, &["src/"], "dst");
                let number = |name: &str| fs::metadata(scene.path(name)).expect("there").ino();
                assert_eq!(number("dst/one"), number("dst/d/two"));
                assert_eq!(number("dst/one"), number("dst/z/three"));
                assert_eq!(scene.read("dst/d/two"), "of three names");
                assert_no_strays(&scene.path("dst"));
            }
        },
    );
}

/// A job that is slow at its last file, which is the large one.
fn slow(scene: &Scene<'_>, flags: &[&str]) -> haul_testkit::Haul {
    let flags = [&["-a", DELAY, "--bwlimit=4m"], flags].concat();
    scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst")
}

/// Trees with many small files and one that takes a while.
fn prepare_slow(scene: &Scene<'_>) {
    scene.clear(&["src", "dst"]);
    for dir in ["a", "b", "c"] {
        for file in 0..20 {
            scene.file(format!("src/{dir}/{file}"), format!("new {dir} {file}"));
            scene.file(format!("dst/{dir}/{file}"), format!("the old one of {dir} {file}"));
        }
        scene.file(format!("src/{dir}/fresh"), "fresh");
    }
    scene.file("src/z/z", vec![3; 32 << 20]);
    let _ = Pair::of(scene);
}

/// The files of the destination that are new; all others are old.
fn new_files(scene: &Scene<'_>) -> usize {
    let mut new = 0;
    for dir in ["a", "b", "c"] {
        for file in 0..20 {
            let content = scene.read(format!("dst/{dir}/{file}"));
            let is_new = content == format!("new {dir} {file}");
            let is_old = content == format!("the old one of {dir} {file}");
            assert!(is_new || is_old, "{dir}/{file}: {content}");
            new += usize::from(is_new);
        }
        let fresh = format!("dst/{dir}/fresh");
        if scene.exists(&fresh) {
            assert_eq!(scene.read(&fresh), "fresh");
            new += 1;
        }
    }
    new
}

/// How many files wait.
fn waiting(scene: &Scene<'_>) -> usize {
    waiting_in(&scene.path("dst"))
}

#[test]
fn nothing_is_new_before_all_is_and_what_was_killed_continues_waiting() {
    each_of(
        &[Way::Local, Way::Upload, Way::Download],
        |scene| scene.reach_by_pipe(),
        |scene| {
            prepare_slow(scene);
            kill_when(scene, &slow(scene, &[]), || waiting(scene) >= SOME);
            assert_eq!(new_files(scene), 0);
            let left = that_wait(scene);
            assert!(left.len() >= SOME, "nothing was left");
            // What has changed since then, or went, is not what waits.
            scene.file("src/a/0", "newer a 0");
            mode(scene.path("src/b/0"), 0o751);
            fs::remove_file(scene.path("src/c/0")).expect("removed");
            let run = scene
                .transfer("sync", &scene.route(), &["-a", DELAY, "--delete"], &["src/"], "dst")
                .run();
            assert_eq!(run.code, Some(0), "{run}");
            let differences =
                scene.snapshot("src").differences(&scene.snapshot("dst"), scene.rules());
            assert!(differences.is_empty(), "{differences:?}");
            assert_no_strays(&scene.path("dst"));
            // Of the files that waited, all but these three are there.
            let again = left.intersection(&that_are_named(scene)).count();
            assert!(again + 3 >= left.len(), "{again} of {}", left.len());
        },
    );
}

#[test]
fn an_interrupt_leaves_all_old_and_no_strays() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    prepare_slow(&scene);
    let running = slow(&scene, &[]).spawn().expect("it starts");
    assert!(running.until(SOON, || waiting(&scene) >= SOME), "nothing waits");
    running.signal(Signal::INT);
    let run = running.wait().expect("it ends");
    assert_ne!(run.code, Some(0), "{run}");
    assert_eq!(new_files(&scene), 0);
    assert_no_strays(&scene.path("dst"));
}

/// The words with which a job is killed, and each of which has another way to a file's name.
const KILLED_WITH: [&[&str]; 9] = [
    &["-a", DELAY],
    &["-a", DELAY, "--delete", KEEPS, "-b"],
    &["-a", "--delete-after", KEEPS, "-b"],
    &["-aH", "--delete-before"],
    &["-a", "-T", "../scratch", "--delete-during"],
    &["-a", "-T", "../scratch", DELAY],
    &["-a", "--link-dest=../prev", "--delete-delay", "--partial-dir=.partial"],
    &["-aH", "--copy-dest=../prev"],
    &["-aXS", "--fsync", "--no-whole-file"],
];

const KEEPS: &str = "--backup-dir=../kept";

/// Trees as of [`prepare_slow`], without what is slow, with all that [`KILLED_WITH`] asks for.
fn prepare_to_be_killed(scene: &Scene<'_>) {
    scene.clear(&["scratch", "prev", "kept"]);
    prepare_slow(scene);
    scene.mkdir("scratch");
    fs::write(scene.path("src/z/z"), "small").expect("written");
    fs::hard_link(scene.path("src/a/fresh"), scene.path("src/z/linked")).expect("linked");
    // A difference of it is sent, between two machines.
    let mut content = vec![4; 2 << 20];
    scene.file("dst/a/0", "the old one of a 0");
    scene.file("dst/large", &content);
    content[1 << 20] = 5;
    scene.file("src/large", &content);
    for file in 0..20 {
        scene.file(format!("dst/extra/{file}"), "extra");
    }
    let _ = Pair::of(scene);
    run(Command::new("cp").arg("-a").arg(scene.path("src")).arg(scene.path("prev")));
}

/// Checks what a kill has left of trees as of [`prepare_to_be_killed`]; true if something is
/// new, and something old.
fn is_halfway(scene: &Scene<'_>, flags: &[&str]) -> bool {
    let new = new_files(scene);
    let keeps = |name: &str, content: &str| {
        let has_it =
            scene.exists(format!("kept/{name}")) && scene.read(format!("kept/{name}")) == content;
        assert!(has_it || !flags.contains(&KEEPS), "{flags:?}: {name} has no backup");
    };
    for (dir, file) in ["a", "b", "c"].iter().flat_map(|dir| (0..20).map(move |file| (dir, file))) {
        let name = format!("{dir}/{file}");
        if scene.read(format!("dst/{name}")) == format!("new {dir} {file}") {
            keeps(&name, &format!("the old one of {dir} {file}"));
            let metadata = fs::metadata(scene.path(format!("dst/{name}"))).expect("there");
            let source = fs::metadata(scene.path(format!("src/{name}"))).expect("there");
            assert_eq!(metadata.mtime(), source.mtime(), "{flags:?}: {name}");
        }
    }
    let large = fs::read(scene.path("dst/large")).expect("there");
    let old = vec![4; 2 << 20];
    let is_old = large == old;
    assert!(is_old || large == fs::read(scene.path("src/large")).expect("there"), "{flags:?}");
    let extra = |file: &u32| scene.exists(format!("dst/extra/{file}"));
    let gone = (0..20).filter(|file| !extra(file));
    let deletes = flags.iter().any(|flag| flag.starts_with("--delete"));
    for file in gone.clone() {
        assert!(deletes, "{flags:?}: {file} is gone");
        keeps(&format!("extra/{file}"), "extra");
    }
    let all = gone.count() + new;
    all > 0 && (all < 80 || is_old)
}

#[test]
fn a_kill_leaves_old_files_and_new_ones() {
    let halfway = AtomicUsize::new(0);
    each_of(
        &[Way::Local, Way::Upload, Way::Download],
        |scene| scene.reach_by_pipe(),
        |scene| {
            let mut random = Stream::new(campaign::seed(77 + scene.way as u64));
            for flags in (0..campaign::rounds(1)).flat_map(|_| scene.share(KILLED_WITH)) {
                prepare_to_be_killed(scene);
                let prev = scene.snapshot("prev");
                let sync = || scene.transfer("sync", &scene.route(), flags, &["src/"], "dst");
                let running = sync().spawn().expect("it starts");
                // From when files wait on, or the first is new or gone, at some moment.
                let is_begun =
                    || waiting(scene) > 20 || new_files(scene) > 0 || !scene.exists("dst/extra/19");
                let _ = running.until(Duration::from_secs(2), is_begun);
                std::thread::sleep(Duration::from_micros(random.below(6_000)));
                running.signal(Signal::KILL);
                running.wait().expect("it ends");
                // An agent hears of it by and by.
                let is_quiet = holds_within(SOON, || !scene.is_at_work());
                assert!(is_quiet, "the agent is still there");
                halfway.fetch_add(is_halfway(scene, flags).into(), Ordering::Relaxed);
                let run = sync().run();
                assert_eq!(run.code, Some(0), "{flags:?}: {run}");
                is_halfway(scene, flags);
                // Between the two steps of replacing, the new file has a name that stays until
                // it is cleaned, of which the directory has the time. With -T that is in its place.
                let clean = || scene.haul().args(["clean", "-r"]);
                clean().arg(scene.path("dst")).arg(scene.path("scratch")).run().expect_ok();
                sync().run().expect_ok();
                if !flags.iter().any(|flag| flag.starts_with("--delete")) {
                    scene.clear(&["dst/extra"]);
                }
                let rules = scene.rules().ignoring_root();
                let differences = scene.snapshot("src").differences(&scene.snapshot("dst"), rules);
                assert!(differences.is_empty(), "{flags:?}: {differences:?}");
                let inodes = ["dst/a/fresh", "dst/z/linked"]
                    .map(|name| fs::metadata(scene.path(name)).expect("there").ino());
                assert!(!flags[0].contains('H') || inodes[0] == inodes[1], "{flags:?}");
                let differences = prev.differences(&scene.snapshot("prev"), scene.rules());
                assert!(differences.is_empty(), "{flags:?}: {differences:?}");
                for tree in ["dst", "scratch", "prev"] {
                    assert_no_strays(&scene.path(tree));
                }
            }
        },
    );
    assert!(halfway.into_inner() > 0, "no kill came in the middle");
}

#[test]
fn a_large_file_that_waited_is_not_sent_again() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    const LEN: u64 = 72 << 20;
    // More than goes beside the large file, which leaves time for the kill.
    const REST: u64 = 112 << 20;
    // Of the other one, what the killed job had not written down yet.
    const SLACK: u64 = 32 << 20;
    scene.file("src/a/large", vec![5; LEN as usize]);
    scene.file("src/z/z", vec![3; REST as usize]);
    scene.file("dst/a/large", "old");
    let flags = ["-a", DELAY, "--bwlimit=40m", "--json"];
    let slow = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst");
    let waits = || scene.list("dst").iter().any(|name| name.ends_with("-replacing/large"));
    kill_when(&scene, &slow, waits);
    assert_eq!(scene.read("dst/a/large"), "old");
    let parts = scene.list("dst").into_iter().filter(|name| name.starts_with("z/.haul-"));
    let other = parts.map(|name| fs::metadata(scene.path("dst").join(name)).expect("there").len());
    let other: u64 = other.sum();
    let run =
        scene.transfer("sync", &scene.route(), &["-a", DELAY, "--json"], &["src/"], "dst").run();
    assert_eq!(run.code, Some(0), "{run}");
    assert!(moved(&run) <= REST - other + SLACK, "{run}");
    assert_eq!(fs::metadata(scene.path("dst/a/large")).expect("there").len(), LEN);
    assert_no_strays(&scene.path("dst"));
}

#[test]
fn what_killed_jobs_left_waiting_is_cleaned_and_copied_nowhere() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    let lot = "tree/.haul-0123456789abcdef.late";
    scene.file(format!("{lot}/0-new/file"), "left");
    scene.file("tree/file", "file");
    let run = scene.transfer("sync", &[""; 0], &["-a"], &["tree/"], "other").run();
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(scene.list("other"), ["file"]);
    scene.file("other/extra", "extra");
    scene.file("other/.haul-0123456789abcdef.late/0-new/file", "left");
    let run = scene.transfer("sync", &[""; 0], &["-a", "--delete"], &["tree/"], "other").run();
    assert_eq!(run.code, Some(0), "{run}");
    assert!(!scene.exists("other/extra") && scene.exists("other/.haul-0123456789abcdef.late"));
    for dir in ["tree", "other"] {
        let run = scene.haul().arg("clean").arg(scene.path(dir)).run();
        assert_eq!(run.code, Some(0), "{run}");
        assert_no_strays(&scene.path(dir));
    }
}

#[test]
fn files_are_staged_elsewhere_as_with_rsync() {
    each_of(
        &WAYS,
        |scene| scene.reach_by_pipe(),
        |scene| {
            let other = OtherSystem::new(scene);
            let here = scene.mkdir("scratch").display().to_string();
            for (place, flags) in scene.share([
                (&other.0, &["-ai", "--delete"][..]),
                (&other.0, &["-ai", "--delete", DELAY]),
                (&other.0, &["-ai", "--force", "--fsync"]),
                (&other.0, &["-ain", "--delete"]),
                (&other.0, &["-rtib"]),
                (&here, &["-ai", "--delete"]),
                (&here, &["-ai", "--delete", DELAY]),
                (&here, &["-rtib"]),
            ]) {
                let word = format!("--temp-dir={place}");
                let flags = [flags, &[&*word]].concat();
                prepare(scene).run(&flags, &["src/"], "dst");
                assert_no_strays(&scene.path("dst"));
                assert_eq!(fs::read_dir(place).expect("read").count(), 0, "{flags:?}");
            }
        },
    );
}

#[test]
fn a_directory_for_stages_begins_in_the_destination_and_has_to_be_there() {
    each_of(
        &WAYS,
        |scene| scene.reach_by_pipe(),
        |scene| {
            prepare(scene).run(&["-a", "-T", "nowhere"], &["src/"], "dst");
            let _ = prepare(scene);
            scene.mkdir("dst/scratch");
            let pair = Pair::of(scene);
            pair.run(&["-aiO", "-T", "scratch"], &["src/"], "dst");
            let beside = scene.mkdir("beside");
            let _ = prepare(scene);
            let flags = ["-a", "--delete", "--force", "--inplace", "-T", "../beside"];
            let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
            assert_eq!(run.code, Some(0), "{run}");
            let rules = scene.rules();
            let differences = scene.snapshot("src").differences(&scene.snapshot("dst"), rules);
            assert!(differences.is_empty(), "{differences:?}");
            assert_eq!(fs::read_dir(beside).expect("read").count(), 0);
        },
    );
}

#[test]
fn a_server_takes_no_files_that_wait() {
    each_of(
        &[Way::SftpUpload],
        |scene| scene.reach_by_pipe(),
        |scene| {
            let _ = prepare(scene);
            let before = scene.snapshot("dst");
            for word in [DELAY, "--temp-dir=scratch"] {
                let flags = ["-a", word];
                let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
                assert_eq!(run.code, Some(1), "{run}");
                assert!(run.err().contains("SFTP can't delay updates"), "{run}");
            }
            let differences = before.differences(&scene.snapshot("dst"), scene.rules());
            assert!(differences.is_empty(), "{differences:?}");
        },
    );
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/file", "file");
    for word in ["--inplace", "--append"] {
        let mut rsync = Command::new("rsync");
        rsync.args(["-a", DELAY, word, "src/", "dst"]).current_dir(scene.path(""));
        let expected = rsync.output().expect("it runs").status.code();
        let run = scene.haul().args(["sync", "-a", DELAY, word, "src/", "dst"]).run();
        assert_eq!(run.code, expected, "{run}");
        assert!(run.err().contains(DELAY), "{run}");
    }
}

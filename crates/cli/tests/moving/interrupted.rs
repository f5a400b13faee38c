//! Moves that are killed or interrupted in their middle: at each moment every
//! file is whole in one of the two places, and the same command does the rest.

use super::common::{Way, World, is_root, script};
use super::{Stage, To, each_target};
use haul_testkit::campaign;
use haul_testkit::content::Stream;
use haul_testkit::proc::{self, Signal};
use haul_testkit::{assert_same_with, snapshot, tree};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How soon a move has to get on.
const SOON: Duration = Duration::from_secs(30);

/// Interruptions of each kind for each destination, in the short form of the
/// campaign.
const KILLS: u64 = 1;

/// The longest that a move is left alone after it has begun to copy, or to
/// remove, in milliseconds.
const PAUSE_MAX_MS: u64 = 12;

/// Who is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    /// The client, at once.
    Killed,
    /// The client, as by Ctrl-C.
    Interrupted,
    /// The program at the other end, and the way there.
    Agent,
}

/// Small files of the tree: enough for a move to be caught among them.
const FILES: u64 = 150;

/// Files of two names in that tree.
const NAMES: u32 = 40;

/// A file and what is in it.
type File = (String, Vec<u8>);

fn make_tree(stage: &Stage<'_, '_>, seed: u64) -> Vec<File> {
    let scene = stage.scene;
    let root = scene.path("tree");
    tree::many(&root, FILES, 2_000, 3, seed).expect("a tree");
    tree::random_file(root.join("big"), 5 << 20, seed).expect("a file");
    fs::write(root.join("empty"), "").expect("a file");
    if !scene.is_sftp() {
        make_names(&root);
    }
    let source = scene.snapshot("tree");
    let path = |path: &[u8]| String::from_utf8(path.to_vec()).expect("the test's own names");
    let paths: Vec<String> = source.files().map(|(name, _)| path(name)).collect();
    let read = |name: String| {
        let content = fs::read(root.join(&name)).expect("read");
        (name, content)
    };
    paths.into_iter().map(read).collect()
}

/// Files of two names in `root`, with owners of their own.
fn make_names(root: &Path) {
    for of in ["names", "names/other"] {
        fs::create_dir_all(root.join(of)).expect("a directory");
    }
    for number in 0..NAMES {
        let (one, other) = names_of(root, number);
        fs::write(&one, number.to_string()).expect("a file");
        fs::hard_link(&one, other).expect("a name");
        if is_root() {
            chown(one, Some(1000 + number), Some(2000 + number)).expect("given");
        }
    }
}

/// Both names of such a file.
fn names_of(root: &Path, number: u32) -> (PathBuf, PathBuf) {
    (root.join(format!("names/{number}")), root.join(format!("names/other/{number}")))
}

/// Panics unless such files have come along as what they were.
#[track_caller]
fn assert_names(stage: &Stage<'_, '_>, root: &Path) {
    let numbers = if stage.scene.is_sftp() { 0 } else { NAMES };
    for number in 0..numbers {
        let (one, other) = names_of(root, number);
        let (one, other) = (fs::metadata(one).expect("there"), fs::metadata(other).expect("there"));
        assert_eq!((one.ino(), one.nlink()), (other.ino(), 2), "{number} {:?}", stage.to);
        if is_root() {
            assert_eq!((one.uid(), one.gid()), (1000 + number, 2000 + number), "{:?}", stage.to);
        }
    }
}

/// Panics unless each file is whole at its source or, if it is not there any
/// more, at its destination.
#[track_caller]
fn assert_none_is_lost(stage: &Stage<'_, '_>, files: &[File]) {
    for (name, content) in files {
        // In this order: what goes from here is there by then.
        let found = fs::read(stage.scene.path("tree").join(name))
            .or_else(|_| fs::read(stage.there("to/tree").join(name)));
        assert!(found.is_ok_and(|found| found == *content), "{name} is lost: {:?}", stage.to);
    }
}

/// Files of the tree that are below `root`.
fn count(root: PathBuf, files: &[File]) -> usize {
    files.iter().filter(|(name, _)| root.join(name).exists()).count()
}

/// Removes the small stages whose process was killed: their names don't tell what they
/// were for, so no later copy does it.
fn clean(stage: &Stage<'_, '_>, tree: &str) {
    stage.scene.haul().args(["clean", "-r"]).arg(stage.there(tree)).run().expect_ok();
}

#[test]
fn a_move_that_is_interrupted_loses_nothing_and_continues() {
    let kills = campaign::rounds(KILLS);
    each_target(|stage| {
        if stage.to == To::Here {
            // It is one step.
            return;
        }
        let mut random = Stream::new(campaign::seed(1 + stage.to as u64));
        let mut caught = 0;
        for round in 0..6 * kills {
            let victim = [Victim::Killed, Victim::Interrupted, Victim::Agent][(round % 3) as usize];
            if victim == Victim::Agent && stage.to == To::Elsewhere {
                continue;
            }
            let removes = round % 6 >= 3;
            let files = make_tree(stage, round);
            let before = stage.scene.snapshot("tree");
            let running = stage.haul(&["-q"], &["tree"], "to").spawn().expect("it starts");
            let begun = || {
                assert_none_is_lost(stage, &files);
                match removes {
                    false => count(stage.there("to/tree"), &files) > 0,
                    true => count(stage.scene.path("tree"), &files) < files.len(),
                }
            };
            let got_on = running.until(SOON, begun);
            assert!(got_on || !running.is_running(), "it does not get on");
            std::thread::sleep(Duration::from_millis(random.below(PAUSE_MAX_MS)));
            match victim {
                Victim::Killed => running.signal(Signal::KILL),
                Victim::Interrupted => running.signal(Signal::INT),
                Victim::Agent => {
                    let agents = proc::descendants(running.pid());
                    agents.into_iter().for_each(|pid| proc::signal(pid, Signal::KILL));
                }
            }
            let run = running.wait().expect("it ends");
            assert_none_is_lost(stage, &files);
            let code = match victim {
                Victim::Killed => None,
                Victim::Interrupted => Some(130),
                Victim::Agent => Some(3),
            };
            assert!(run.code == code || run.code == Some(0), "{victim:?}: {run}");
            if stage.scene.exists("tree") {
                caught += 1;
                stage.run(&[], &["tree"], "to").expect_ok();
            }
            assert!(!stage.scene.exists("tree"), "round {round}: {:?}", stage.to);
            if victim != Victim::Interrupted {
                clean(stage, "to/tree");
            }
            let after = snapshot(stage.there("to/tree")).expect("it is there");
            // What went before it was interrupted gave its directory another time.
            assert_same_with(&before, &after, stage.scene.rules().ignoring_dir_mtimes());
            assert_names(stage, &stage.there("to/tree"));
            fs::remove_dir_all(stage.there("to/tree")).expect("removed");
        }
        assert!(caught > 0, "no move was caught in its middle");
    });
}

#[test]
fn a_killed_move_to_a_new_name_continues_under_that_name() {
    each_target(|stage| {
        if stage.to == To::Here {
            return;
        }
        for removes in [false, true] {
            let files = make_tree(stage, 3);
            let before = stage.scene.snapshot("tree");
            let running = stage.haul(&["-q"], &["tree"], "renamed").spawn().expect("it starts");
            let begun = || match removes {
                false => count(stage.there("renamed"), &files) > 0,
                true => count(stage.scene.path("tree"), &files) < files.len(),
            };
            running.until(SOON, begun);
            running.signal(Signal::KILL);
            running.wait().expect("it ends");
            if stage.scene.exists("tree") {
                // An agent is at it for a moment when its client has gone.
                std::thread::sleep(Duration::from_millis(300));
                stage.run(&[], &["tree"], "renamed").expect_ok();
            }
            assert!(!stage.scene.exists("tree"), "{:?}", stage.to);
            clean(stage, "renamed");
            let after = snapshot(stage.there("renamed")).expect("it is there");
            assert_same_with(&before, &after, stage.scene.rules().ignoring_dir_mtimes());
            assert_names(stage, &stage.there("renamed"));
            fs::remove_dir_all(stage.there("renamed")).expect("removed");
        }
    });
}

#[test]
fn a_mark_that_a_killed_move_has_left_in_its_source_is_in_nobodys_way() {
    let world = World::new();
    let mut scene = world.scene(Way::Upload);
    // Each answer comes late, so that a mark is there for a while.
    let part = scene.path("part.$$");
    let lines = format!(
        "shift\nsh -c \"$*\" | while dd of={0} bs=65536 count=1 2> {0}.log && [ -s {0} ]; do\n\
         sleep 0.1; cat {0}\ndone",
        part.display()
    );
    scene.reach_by(script(&scene.path("late"), &lines));
    scene.file("tree/f", "x");
    scene.mkdir("to");
    let marks = || {
        let names = fs::read_dir(scene.path("tree")).expect("read").flatten();
        names.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b".haul-")).count()
    };
    let running = scene.transfer("move", &scene.remote(), &["-q"], &["tree"], "to");
    let running = running.spawn().expect("it starts");
    assert!(running.until(SOON, || marks() > 0), "no mark was made");
    running.signal(Signal::KILL);
    running.wait().expect("it ends");
    assert_eq!(marks(), 1);
    scene.reach_by_pipe();
    let run = scene.transfer("move", &scene.remote(), &["-q"], &["tree"], "to").run().expect_ok();
    assert_eq!(run.err(), "");
    assert!(!scene.exists("tree"));
    assert_eq!(scene.list("to"), ["tree", "tree/f"]);
}

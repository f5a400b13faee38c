//! The promises of `--sync`, on a file system that keeps no more than POSIX
//! demands.

use super::*;
use haul_testkit::campaign;
use haul_testkit::content::Stream;
use haul_testkit::{Compare, Snapshot, assert_same, assert_same_with, snapshot};

/// Cuts in the short form of the campaign.
const CUTS: u64 = 10;

/// A file that is staged so that it can be resumed, in bytes.
const LARGE: u64 = (64 << 20) + 4321;

fn cuts() -> u64 {
    campaign::rounds(CUTS)
}

/// A tree with files of the sizes that are treated in their own way, but for
/// the largest.
fn make_source(scene: &Scene<'_>) {
    tree::many(scene.path("src"), 12, 300, 3, 1).expect("a tree");
    tree::random_file(scene.path("src/middle"), 1_333_333, 2).expect("a file");
    fs::write(scene.path("src/nothing"), "").expect("a file");
    mode(scene.path("src/nothing"), 0o751);
    std::os::unix::fs::symlink("middle", scene.path("src/link")).expect("a link");
    scene.mkdir("src/empty");
}

#[test]
fn all_that_was_copied_before_exit_code_0_is_there_after_a_cut() {
    each_way_by_pipe(|scene| {
        let Some(mut target) = Target::new(scene, Names::Posix) else { return };
        make_source(scene);
        tree::random_file(scene.path("src/large"), LARGE, 3).expect("a file");
        scene.copy(&["-r", "--sync"], &["src"], "to/").run().expect_ok();
        target.cut(Loss::Everything, 0);
        assert_same(&scene.snapshot("src"), &scene.snapshot("to/src"));

        // Once more into what is there: replaced, added, and left alone.
        tree::random_file(scene.path("src/middle"), 1_000_000, 5).expect("a file");
        tree::random_file(scene.path("src/dir-001/new"), 70_000, 6).expect("a file");
        scene.copy(&["-r", "--sync"], &["src"], "to/").run().expect_ok();
        target.cut(Loss::Everything, 0);
        assert_same(&scene.snapshot("src"), &scene.snapshot("to/src"));
        assert_eq!(scene.list("to/").iter().filter(|path| path.contains(".haul-")).count(), 0);
    });
}

/// The paths of all files but those that have a private name of haul's.
fn files(tree: &Snapshot) -> Vec<String> {
    let paths = tree.files().map(|(path, _)| String::from_utf8_lossy(path).into_owned());
    paths.filter(|path| !path.contains(".haul-")).collect()
}

#[test]
fn at_any_moment_a_name_shows_the_old_content_or_the_new_one() {
    let world = World::new();
    for seed in 0..cuts() {
        let scene = world.scene_called(&format!("cut-{seed}"), Way::Local);
        let names = if seed % 2 == 0 { Names::Posix } else { Names::Journaled };
        let loss = Loss::ALL[(seed % 3) as usize];
        let Some(mut target) = Target::new(&scene, names) else { return };
        make_source(&scene);
        // A link that leads to the right place is left alone, whatever its time,
        // which can't be made durable before its name.
        fs::remove_file(scene.path("src/link")).expect("removed");
        fs::create_dir(scene.path("to/src")).expect("a directory");
        fs::write(scene.path("to/src/middle"), "old").expect("written");
        target.disk.sync_all();
        let mut random = Stream::new(campaign::seed(seed));
        // A whole copy takes somewhat more.
        let after = random.below(100);
        let hint = format!("seed {seed}: {names:?} {loss:?} after {after}");
        target.disk.cut_after(after);
        let first = scene.copy(&["-r", "--sync", "-q"], &["src"], "to/").run();
        target.cut(loss, random.next_u64());

        let source = scene.snapshot("src");
        if first.code == Some(0) {
            assert_same(&source, &scene.snapshot("to/src"));
        }
        for name in files(&scene.snapshot("to/src")) {
            let there = scene.path(format!("to/src/{name}"));
            let old = name == "middle" && fs::read(&there).expect("read") == b"old";
            let same = || {
                let wanted = fs::read(scene.path(format!("src/{name}"))).expect("read");
                fs::read(&there).expect("read") == wanted
            };
            assert!(old || same(), "{name} is neither: {hint}");
        }

        scene.copy(&["-r", "--sync", "-q"], &["src"], "to/").run().expect_ok();
        target.cut(Loss::Everything, 0);
        // A stage that has no journal is left by what dies without a word, where
        // the file system knows no files without a name.
        let is_stray = |path: &String| path.contains(".haul-");
        for stray in scene.list("to/src").into_iter().filter(is_stray) {
            fs::remove_file(scene.path(format!("to/src/{stray}"))).expect("removed");
        }
        let found = snapshot(scene.path("to/src")).expect("a tree");
        assert_same_with(&source, &found, Compare::everything().ignoring_dir_mtimes());
    }
}

#[test]
fn a_file_that_cannot_be_made_durable_fails_and_the_old_one_stays() {
    for (len, ways) in [(1_000_000, &Way::ALL[..]), (300, &[Way::Local]), (LARGE, &[Way::Local])] {
        each_of(
            ways,
            |scene| scene.reach_by_pipe(),
            |scene| {
                let Some(mut target) = Target::new(scene, Names::Posix) else { return };
                tree::random_file(scene.path("big"), len, 7).expect("a file");
                fs::write(scene.path("to/big"), "old").expect("written");
                target.disk.sync_all();
                target.disk.fail_sync(1);
                let run = scene.copy(&["--sync"], &["big"], "to/").run().expect_code(1);
                assert_one_error(&run, "big: ", "Input/output error", "");
                assert_eq!(scene.read("to/big"), "old");
                assert_eq!(scene.list("to/"), ["big"], "something of haul's is left");
                // The system has told it once: nothing of it may count.
                let run = scene.copy(&["--sync", "--json"], &["big"], "to/").run().expect_ok();
                assert_eq!(moved(&run), len);
                target.cut(Loss::Everything, 0);
                assert_eq!(target.finish(), 0);
            },
        );
    }
}

#[test]
fn names_that_cannot_be_made_durable_fail_the_job() {
    each_way_by_pipe(|scene| {
        let Some(target) = Target::new(scene, Names::Posix) else { return };
        fs::write(scene.path("big"), "content").expect("written");
        // The content is the first.
        target.disk.fail_sync(2);
        let run = scene.copy(&["--sync"], &["big"], "to/").run();
        assert_ne!(run.code, Some(0), "{run}");
        let said = "to/: can't flush the directory: Input/output error";
        assert!(run.err().contains(said), "{run}");
    });
}

#[test]
fn what_was_moved_is_there_after_a_cut_with_the_directory_that_was_made_for_it() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    let Some(mut target) = Target::new(&scene, Names::Posix) else { return };
    scene.file("src/f", "one");
    scene.file("src/nothing", "");
    scene.file("other", "two");
    let source = scene.snapshot("src");
    scene.haul().args(["move", "src", "other", "to/made/"]).run().expect_ok();
    assert!(!scene.exists("src") && !scene.exists("other"));
    target.cut(Loss::Everything, 0);
    assert_same(&source, &scene.snapshot("to/made/src"));
    assert_eq!(scene.read("to/made/other"), "two");

    // A directory that another copy has made, and that was never durable.
    scene.file("more", "three");
    scene.mkdir("to/earlier");
    scene.haul().args(["copy", "--sync", "more", "to/earlier"]).run().expect_ok();
    target.cut(Loss::Everything, 0);
    assert_eq!(scene.read("to/earlier/more"), "three");
}

#[test]
fn what_was_there_already_is_made_durable_too() {
    each_way_by_pipe(|scene| {
        let Some(mut target) = Target::new(scene, Names::Posix) else { return };
        make_source(scene);
        scene.copy(&["-r"], &["src"], "to/").run().expect_ok();
        let again = scene.copy(&["-r", "--sync"], &["src"], "to/").run().expect_ok();
        assert!(again.out().starts_with("copied nothing"), "{again}");
        target.cut(Loss::Everything, 0);
        assert_same(&scene.snapshot("src"), &scene.snapshot("to/src"));
    });
}

#[test]
fn a_mode_that_cannot_be_made_durable_fails_the_file() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    let Some(target) = Target::new(&scene, Names::Posix) else { return };
    scene.file("f", "content");
    scene.copy(&["--sync"], &["f"], "to/").run().expect_ok();
    mode(scene.path("f"), 0o751);
    target.disk.fail_sync(1);
    let run = scene.copy(&["--sync"], &["f"], "to/").run().expect_code(1);
    assert_one_error(&run, "f: ", "Input/output error", "");
}

/// The system tells of a failure once: a move that was told of one does not count upon
/// what a later look is told.
#[test]
fn what_could_not_be_made_durable_stays_where_it_was() {
    for way in Way::ALL {
        let world = World::new();
        for nth in 1..=4 {
            let scene = world.scene_called(&format!("{way:?}-{nth}"), way);
            let Some(mut target) = Target::new(&scene, Names::Posix) else { return };
            scene.file("src/f", "precious");
            scene.copy(&["-r", "-q"], &["src"], "to/").run().expect_ok();
            target.disk.fail_sync(nth);
            let route = scene.route();
            let run = scene.transfer("move", &route, &[], &["src"], "to/").run();
            assert_ne!(run.code, Some(0), "{way:?} {nth}: {run}");
            assert_eq!(run.err().matches("can't flush").count(), 1, "{way:?} {nth}: {run}");
            assert!(scene.exists("src/f"), "{way:?} {nth}: {run}");
            target.cut(Loss::Everything, 0);
            assert_eq!(scene.read("src/f"), "precious");
        }
    }
}

#[test]
fn what_was_there_already_is_moved_when_it_is_durable() {
    for flags in [&[][..], &["--no-clobber"], &["--update"], &["--force"]] {
        each_way_by_pipe(|scene| {
            let Some(mut target) = Target::new(scene, Names::Posix) else { return };
            make_source(scene);
            let before = scene.snapshot("src");
            scene.copy(&["-r"], &["src"], "to/").run().expect_ok();
            let route = scene.route();
            scene.transfer("move", &route, flags, &["src"], "to/").run().expect_ok();
            assert!(!scene.exists("src"), "{flags:?}");
            target.cut(Loss::Everything, 0);
            assert_same(&before, &scene.snapshot("to/src"));
        });
    }
}

//! The directory on this machine in which uploads leave what the next one needs.

use crate::common::*;
use crate::resuming::{fill, haul};
use crate::summary;
use haul_testkit::haul::Outcome;
use haul_testkit::{Haul, Mount};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Why a directory for journals is needed, as the warning says it.
const LOST: &str = "large files can't be resumed";

/// A copy that works, and tells one thing that is not as it should be.
#[track_caller]
fn warned(haul: &Haul, path: &str, cause: &str) -> Outcome {
    warned_of(haul, path, cause, LOST)
}

/// The same of another loss.
#[track_caller]
fn warned_of(haul: &Haul, path: &str, cause: &str, lost: &str) -> Outcome {
    let run = haul.run().expect_ok();
    let err = run.err();
    assert_eq!(err.lines().count(), 1, "{run}");
    assert!(err.starts_with(&format!("haul: warning: {path}: ")), "{run}");
    assert!(err.contains(cause) && err.contains(lost), "{run}");
    run
}

#[test]
fn a_directory_of_journals_that_cannot_be_used_is_reported_and_left_alone() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "abc");
    scene.mkdir("to");
    let upload = haul(&scene, &["--force"], &["a"]);
    upload.run().expect_ok();
    let dir = scene.path("state/haul/uploads");
    let shown = dir.to_string_lossy().into_owned();
    assert_eq!(fs::metadata(&dir).expect("made").mode() & 0o777, 0o700);
    let id = fs::read(dir.join("id")).expect("an id");

    // Somebody else could have written what is in it.
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o770)).expect("a mode");
    warned(&upload, &shown, "other users can write to it");
    // Nothing is changed that would need it, and a script reads the same.
    haul(&scene, &["--force", "-n"], &["a"]).run().expect_ok();
    let run = haul(&scene, &["--force", "--json"], &["a"]).run().expect_ok();
    assert_eq!(run.err(), "");
    assert_eq!(run.out().matches(r#""type":"warning""#).count(), 1, "{run}");
    assert_eq!(summary(&run)["copied"], 1, "{run}");
    haul(&scene, &["--force", "-q"], &["a"]).run().expect_ok();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).expect("a mode");
    if is_root() {
        std::os::unix::fs::chown(&dir, Some(65534), None).expect("another owner");
        warned(&upload, &shown, "it belongs to another user");
        std::os::unix::fs::chown(&dir, Some(0), None).expect("the owner");
    }
    assert_eq!(fs::read(dir.join("id")).expect("an id"), id);

    fs::remove_dir_all(&dir).expect("removed");
    fs::write(&dir, "in the way").expect("written");
    warned(&upload, &shown, "can't create the directory");
    assert_eq!(scene.read("state/haul/uploads"), "in the way");
    assert_eq!(scene.read("to/a"), "abc");
    assert_eq!(scene.list("to"), ["a"]);
}

#[test]
fn a_record_of_stages_that_cannot_be_written_is_reported_once() {
    let Some(small) = Mount::tmpfs(1 << 20) else { return };
    let world = World::new();
    let scene = world.scene(Way::Upload);
    for name in ["a", "b", "c"] {
        scene.file(name, "abc");
    }
    scene.mkdir("to");
    let copy =
        |flags: &[&str]| haul(&scene, flags, &["a", "b", "c"]).env("XDG_STATE_HOME", small.path());
    copy(&[]).run().expect_ok();
    fill(&fs::File::create(small.join("filler")).expect("made"));
    let dir = small.join("haul/uploads");
    let shown = dir.to_string_lossy();
    let lost = "continuing without; if this upload is killed, run 'haul clean' on the host; make the directory writable";
    warned_of(&copy(&["--force"]), &shown, "No space left on device", lost);
    // Nothing is staged, and nothing is left of the attempt.
    assert_eq!(copy(&["--force", "-n"]).run().expect_ok().err(), "");
    assert_eq!(fs::read_dir(&dir).expect("read").count(), 1);
    fs::remove_file(small.join("filler")).expect("removed");
    assert_eq!(copy(&["--force"]).run().expect_ok().err(), "");
    assert_eq!(scene.list("to"), ["a", "b", "c"]);
}

#[test]
fn without_a_place_for_journals_that_is_reported() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "abc");
    scene.mkdir("to");
    let upload = haul(&scene, &["--force"], &["a"]).env("XDG_STATE_HOME", "state");
    warned(&upload.env_remove("HOME"), "XDG_STATE_HOME", "neither it nor HOME");
    assert!(!Path::new("state").exists() && !scene.exists("state"));
}

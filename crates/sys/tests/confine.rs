//! A confined thread can do below its directory what a copy needs, and nothing
//! elsewhere; as root, and as a user without any privilege.

use haul_model::Name;
use haul_sys::{Access, Dir, confine};
use haul_testkit::fixture;
use rustix::fs::{AtFlags, CWD, linkat};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// Tells the test program, started once more as another user, where to work.
const PLACE: &str = "HAUL_TEST_CONFINED_PLACE";

/// A user and a group without a name and without any right.
const NOBODY: &str = "65534";

/// Two directories beside each other: one to be confined to, one to stay out of.
struct Place {
    inside: PathBuf,
    outside: PathBuf,
}

impl Place {
    fn make(root: &Path) -> Self {
        let place = Self::at(root);
        fs::create_dir(&place.inside).expect("made");
        fs::create_dir(&place.outside).expect("made");
        fs::write(place.outside.join("old"), "old").expect("written");
        symlink("../outside", place.inside.join("way-out")).expect("linked");
        place
    }

    fn at(root: &Path) -> Self {
        Self { inside: root.join("inside"), outside: root.join("outside") }
    }

    fn assert_untouched(&self) {
        let names: Vec<_> = fs::read_dir(&self.outside).expect("read").collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(fs::read(self.outside.join("old")).expect("read"), b"old");
    }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a plain name")
}

/// Confines this thread to the inside and tries both. `false` if the kernel
/// has no such confinement.
fn work_confined(place: &Place) -> bool {
    let inside = Dir::open(&place.inside).expect("the inside opens");
    // Held from before: what is confined is the thread, not the handle.
    let outside = Dir::open(&place.outside).expect("the outside opens");
    if !confine(Access::Below { writes: std::slice::from_ref(&inside), reads: &[] }) {
        return false;
    }
    for refused in [
        fs::write(place.outside.join("new"), "new"),
        fs::write(place.outside.join("old"), "new"),
        fs::write(place.inside.join("way-out/new"), "new"),
        fs::remove_file(place.outside.join("old")),
        fs::create_dir(place.outside.join("dir")),
        symlink("x", place.outside.join("link")),
        fs::rename(place.inside.join("way-out"), place.outside.join("moved")),
        fs::read(place.outside.join("old")).map(|_| ()),
        outside.create_private(".private").map(|_| ()),
        outside.make_dir(&name("dir"), 0o700),
    ] {
        assert!(refused.is_err(), "something could be done outside");
    }
    fs::write(place.inside.join("plain"), "new").expect("written");
    inside.make_dir(&name("dir"), 0o700).expect("made");
    let below = inside.open_dir(&name("dir")).expect("opened");
    for dir in [&inside, &below] {
        publish_both_ways(dir);
    }
    // Threads that are started now are confined as well.
    let target = place.outside.join("by-thread");
    let refused = thread::spawn(move || fs::write(target, "new")).join().expect("no panic");
    assert!(refused.is_err());
    true
}

/// Publishes as a stage does: a file without a name gets one, and one with a private
/// name is renamed.
fn publish_both_ways(dir: &Dir) {
    if let Some(file) = dir.create_unnamed() {
        dir.link_unnamed(&file, b"unnamed").expect("named");
        // The way that older kernels leave to a user without privileges.
        let by_handle = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(CWD, by_handle, dir, "by-proc", AtFlags::SYMLINK_FOLLOW).expect("named");
        dir.link_unnamed(&file, b".private").expect("named");
        dir.publish_replacing(".private", &name("unnamed")).expect("renamed");
        // Two names of one file: a rename then does nothing.
        let _ = dir.remove_private(".private");
    }
    let file = dir.create_private(".private").expect("created");
    haul_sys::set_mode(&file, 0o644).expect("set");
    dir.publish_new(".private", &name("fresh")).expect("renamed");
    assert!(dir.stat(&name("fresh")).expect("there").is_file());
}

#[test]
fn a_confined_thread_writes_below_its_directory_only() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let place = Place::make(temp.path());
    let enforced = thread::scope(|scope| scope.spawn(|| work_confined(&place)).join());
    if !enforced.expect("no panic") {
        return fixture::missing("Landlock");
    }
    place.assert_untouched();
    // The thread that did not confine itself is free.
    fs::write(place.outside.join("new"), "new").expect("written");
}

#[test]
fn a_reader_writes_nowhere() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let place = Place::make(temp.path());
    let enforced = thread::scope(|scope| {
        let read_only = scope.spawn(|| {
            if !confine(Access::ReadOnly) {
                return false;
            }
            assert_eq!(fs::read(place.outside.join("old")).expect("read"), b"old");
            assert!(fs::read_dir(&place.inside).is_ok());
            for dir in [&place.inside, &place.outside] {
                assert!(fs::write(dir.join("new"), "new").is_err());
                assert!(fs::create_dir(dir.join("dir")).is_err());
                assert!(fs::remove_file(dir.join("old")).is_err());
                let held = Dir::open(dir).expect("reading is allowed");
                assert!(held.create_private(".private").is_err());
                let linked = match held.create_unnamed() {
                    Some(file) => held.link_unnamed(&file, b"unnamed"),
                    None => Err(std::io::ErrorKind::Unsupported.into()),
                };
                assert!(linked.is_err());
            }
            true
        });
        read_only.join()
    });
    if !enforced.expect("no panic") {
        return fixture::missing("Landlock");
    }
    place.assert_untouched();
}

#[test]
fn who_removes_writes_nothing_and_removes_nothing_elsewhere() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let place = Place::make(temp.path());
    fs::create_dir_all(place.inside.join("dir/below")).expect("made");
    fs::write(place.inside.join("dir/old"), "old").expect("written");
    fs::write(place.inside.join("stays"), "old").expect("written");
    let missing = temp.path().join("missing");
    let enforced = thread::scope(|scope| {
        let removes = scope.spawn(|| {
            if !confine(Access::Rename(&[&missing, &place.inside])) {
                return false;
            }
            assert_eq!(fs::read(place.outside.join("old")).expect("read"), b"old");
            for dir in [&place.inside, &place.outside] {
                assert!(fs::write(dir.join("new"), "new").is_err());
            }
            assert!(fs::create_dir(place.outside.join("new")).is_err());
            assert!(symlink("x", place.outside.join("new")).is_err());
            let stays = place.inside.join("stays");
            assert!(fs::write(&stays, "new").is_err());
            assert!(fs::rename(&stays, place.inside.join("dir/stays")).is_err());
            fs::rename(&stays, place.inside.join("aside")).expect("renamed");
            fs::rename(place.inside.join("aside"), &stays).expect("renamed");
            fs::rename(place.inside.join("dir"), place.inside.join("aside")).expect("renamed");
            fs::rename(place.inside.join("aside"), place.inside.join("dir")).expect("renamed");
            assert!(fs::rename(place.outside.join("old"), place.outside.join("aside")).is_err());
            assert!(fs::remove_file(place.inside.join("way-out/old")).is_err());
            assert!(fs::remove_file(place.outside.join("old")).is_err());
            assert!(fs::remove_dir(&place.outside).is_err());
            let inside = Dir::open(&place.inside).expect("opened");
            let dir = inside.open_dir(&name("dir")).expect("opened");
            dir.remove_file(&name("old")).expect("removed");
            dir.remove_dir(&name("below")).expect("removed");
            inside.remove_dir(&name("dir")).expect("removed");
            true
        });
        removes.join()
    });
    if !enforced.expect("no panic") {
        return fixture::missing("Landlock");
    }
    place.assert_untouched();
    assert_eq!(fs::read(place.inside.join("stays")).expect("read"), b"old");
}

/// The rights of root hide what an ordinary user's copy needs: this program
/// starts itself once more as nobody.
#[test]
fn a_user_without_privileges_publishes_below_its_directory() {
    if haul_sys::effective_user() != 0 {
        return fixture::skip("only root can become nobody; others have no privileges anyway");
    }
    let temp = tempfile::tempdir().expect("a temporary directory");
    let place = Place::make(temp.path());
    for dir in [temp.path(), &place.inside, &place.outside] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).expect("opened to all");
    }
    // Where nobody may enter the directory that it was built in.
    let program = temp.path().join("program");
    fs::copy(std::env::current_exe().expect("a running program"), &program).expect("copied");
    let output = Command::new("setpriv")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--no-new-privs"])
        .arg(&program)
        .args(["--exact", "what_nobody_does", "--nocapture"])
        .env(PLACE, temp.path())
        .current_dir("/")
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return fixture::missing(format_args!("setpriv ({error})")),
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
    place.assert_untouched();
    if !said.contains("skipped") {
        assert!(place.inside.join("dir/unnamed").exists(), "{said}");
        assert!(place.inside.join("dir/fresh").exists(), "{said}");
    }
}

/// Does nothing unless it was started by the test above.
#[test]
fn what_nobody_does() {
    let Some(root) = std::env::var_os(PLACE) else { return };
    assert_ne!(haul_sys::effective_user(), 0);
    if !work_confined(&Place::at(Path::new(&root))) {
        fixture::missing("Landlock");
    }
}

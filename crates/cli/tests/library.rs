//! The library that other programs embed: its examples run, and do what they say.

use haul::{Copy, ErrorKind, Event, Location, Move, Session, Silent, Sync};
use haul_testkit::sshd::Sshd;
use haul_testkit::tree;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

#[path = "../../haul/examples/copy.rs"]
#[expect(dead_code, reason = "an example has a main of its own")]
mod copy;
#[path = "../../haul/examples/events.rs"]
#[expect(dead_code, reason = "an example has a main of its own")]
mod events;
#[path = "../../haul/examples/mirror.rs"]
#[expect(dead_code, reason = "an example has a main of its own")]
mod mirror;
#[path = "../../haul/examples/upload.rs"]
#[expect(dead_code, reason = "an example has a main of its own")]
mod upload;
#[path = "../../haul/examples/verify.rs"]
#[expect(dead_code, reason = "an example has a main of its own")]
mod verify;

/// The program that is started on the host.
const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// The longest time until an agent has ended.
const SOON: Duration = Duration::from_secs(20);

/// A directory with a source of three files.
fn world() -> (TempDir, PathBuf, PathBuf) {
    let world = TempDir::new().expect("a directory");
    let (src, dst) = (world.path().join("src"), world.path().join("dst"));
    fs::create_dir_all(src.join("sub")).expect("a directory");
    for (name, len) in [("a", 10), ("sub/b", 3 << 20), ("sub/c", 0)] {
        tree::random_file(src.join(name), len, 7).expect("a file");
    }
    (world, src, dst)
}

fn location(path: &Path) -> Location {
    path.to_owned().into()
}

#[test]
fn a_copy_with_a_progress_bar() {
    let (_world, src, dst) = world();
    let summary = copy::copy(vec![location(&src), location(&dst)]).expect("copied");
    assert_eq!((summary.copied, summary.failed), (3, 0));
    assert_eq!(fs::read(src.join("sub/b")).ok(), fs::read(dst.join("sub/b")).ok());
}

#[test]
fn a_mirror_shows_its_changes_and_is_made_if_they_are_agreed_to() {
    let (_world, src, dst) = world();
    let contents: Location = format!("{}/", src.display()).parse().expect("a location");
    fs::create_dir(&dst).expect("a directory");
    fs::write(dst.join("old"), "x").expect("a file");
    let mut shown = Vec::new();
    let refused = mirror::mirror(contents.clone(), location(&dst), |lines| {
        shown = lines.to_vec();
        false
    });
    assert_eq!(refused.expect("it was tried"), None);
    assert!(shown.contains(&"remove old".to_owned()), "{shown:?}");
    assert!(shown.contains(&"change sub/b".to_owned()), "{shown:?}");
    assert!(dst.join("old").exists() && !dst.join("a").exists());
    let made = mirror::mirror(contents, location(&dst), |_| true).expect("made").expect("agreed");
    assert_eq!((made.copied, made.deleted), (3, 1));
    assert!(!dst.join("old").exists() && dst.join("a").exists());
}

#[test]
fn a_backup_is_verified_by_its_content() {
    let (_world, src, dst) = world();
    copy::copy(vec![location(&src), location(&dst)]).expect("copied");
    let same = verify::verify(location(&src), location(&dst)).expect("compared");
    assert!(!same.has_differences(), "{same:?}");
    let time = fs::metadata(dst.join("a")).and_then(|found| found.modified()).expect("a time");
    fs::write(dst.join("a"), "0123456789").expect("written");
    let file = fs::File::options().write(true).open(dst.join("a")).expect("a file");
    file.set_modified(time).expect("a time");
    let differ = verify::verify(location(&src), location(&dst)).expect("compared");
    assert_eq!((differ.different, differ.missing), (1, 0));
}

#[test]
fn failures_are_events_and_end_the_copy_if_there_are_too_many() {
    let (world, src, dst) = world();
    let missing = world.path().join("missing");
    fs::create_dir(&dst).expect("a directory");
    let failures = events::Failures::default();
    let locations = [&missing, &src, &dst].map(|path| location(path));
    let summary = events::copy(locations.to_vec(), &failures).expect("the others are copied");
    assert_eq!((summary.copied, summary.failed), (3, 1));
    let lines = failures.lines.into_inner().expect("no panic");
    assert!(lines.len() == 1 && lines[0].contains("missing: "), "{lines:?}");
    let cancelled = events::Failures::default();
    *cancelled.lines.lock().expect("no panic") = vec![String::new(); 101];
    let error = events::copy(locations.to_vec(), &cancelled).expect_err("cancelled");
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
}

/// A server, the location of `path` there, and the file that has a line for each start of ssh.
fn host(world: &TempDir, path: &Path) -> Option<(Sshd, Location, PathBuf)> {
    let sshd = haul_testkit::fixture::made("sshd", Sshd::start())?;
    let (ssh, logins) = (world.path().join("ssh"), world.path().join("logins"));
    let script =
        format!("#!/bin/sh\necho \"$*\" >> {}\nexec {} \"$@\"\n", logins.display(), sshd.rsh());
    fs::write(&ssh, script).expect("a script");
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).expect("a mode");
    let there = format!("{}:{}", sshd.host(), path.display()).parse::<Location>();
    let there = there.expect("a location").with_rsh(&ssh.display().to_string());
    let there = there.and_then(|there| there.with_remote_haul(HAUL)).expect("a host");
    Some((sshd, there, logins))
}

/// How often haul was started through ssh; its settings are asked for besides.
fn logins_in(starts: &Path) -> usize {
    let starts = fs::read_to_string(starts).expect("ssh was started");
    starts.lines().filter(|words| words.contains(HAUL)).count()
}

#[test]
fn jobs_of_a_session_share_a_login() {
    let (world, src, dst) = world();
    let Some((_sshd, there, logins)) = host(&world, &dst) else { return };
    fs::create_dir(&dst).expect("a directory");
    let sources = ["a", "sub"].map(|name| location(&src.join(name))).to_vec();
    assert_eq!(upload::upload(sources, &there).expect("copied"), (3, 0));
    assert_eq!(fs::read(src.join("sub/b")).ok(), fs::read(dst.join("sub/b")).ok());
    assert_eq!(logins_in(&logins), 1);
}

#[test]
fn a_session_closes_its_connections() {
    let (world, src, dst) = world();
    let Some((sshd, there, _)) = host(&world, &dst) else { return };
    let session = Session::new();
    let copy = Copy::new([location(&src.join("a"))], there);
    copy.run_in(&session, &Silent::default()).expect("copied");
    assert!(!sshd.agents().is_empty(), "it is kept");
    drop(session);
    assert!(haul_testkit::holds_within(SOON, || sshd.agents().is_empty()));
}

#[test]
fn other_words_for_ssh_are_another_login() {
    let (world, src, dst) = world();
    let Some((_sshd, there, logins)) = host(&world, &dst) else { return };
    fs::create_dir(&dst).expect("a directory");
    let (session, other) = (Session::new(), world.path().join("other"));
    fs::copy(world.path().join("ssh"), &other).expect("a script");
    let again = there.clone().with_rsh(&other.display().to_string()).expect("a host");
    for (name, dest) in [("a", there), ("sub", again)] {
        let copy = Copy::new([location(&src.join(name))], dest);
        copy.run_in(&session, &Silent::default()).expect("copied");
    }
    assert_eq!(logins_in(&logins), 2);
}

#[test]
fn a_session_logs_in_again_where_its_connection_is_gone() {
    let (world, src, dst) = world();
    let Some((sshd, there, logins)) = host(&world, &dst) else { return };
    fs::create_dir(&dst).expect("a directory");
    let session = Session::new();
    let copy = |name| Copy::new([location(&src.join(name))], there.clone());
    let silent = Silent::default();
    assert_eq!(copy("a").run_in(&session, &silent).expect("copied").copied, 1);
    sshd.cut();
    assert_eq!(copy("sub").run_in(&session, &silent).expect("copied").copied, 2);
    assert_eq!(logins_in(&logins), 2);
}

#[test]
fn a_session_notices_that_a_host_has_got_haul() {
    let (world, src, dst) = world();
    let home = world.path().join("home");
    fs::create_dir_all(home.join("bin")).expect("a directory");
    fs::create_dir(&dst).expect("a directory");
    let server = Sshd::builder().env("PATH", "/usr/bin:/bin");
    let server = server.env("HOME", home.display().to_string());
    let Some(sshd) = haul_testkit::fixture::made("sshd", server.start()) else { return };
    let there = format!("{}:{}", sshd.host(), dst.display()).parse::<Location>();
    let there = there.expect("a location").with_rsh(&sshd.rsh()).expect("a host");
    let (session, silent) = (Session::new(), Silent::default());
    let copy = |name| Copy::new([location(&src.join(name))], there.clone());
    assert_eq!(copy("a").run_in(&session, &silent).expect("copied").copied, 1);
    assert!(sshd.agents().is_empty(), "SFTP serves");
    std::os::unix::fs::symlink(HAUL, home.join("bin/haul")).expect("a link");
    assert_eq!(copy("sub").run_in(&session, &silent).expect("copied").copied, 2);
    assert!(!sshd.agents().is_empty(), "haul serves, and its connection is kept");
}

#[test]
fn a_move_to_a_host_removes_its_sources() {
    let (world, src, dst) = world();
    let Some((_sshd, there, _)) = host(&world, &dst) else { return };
    let moved = Move::new([location(&src)], there).run(&Silent::default()).expect("moved");
    assert_eq!((moved.moved, moved.failed), (3, 0));
    assert!(!src.exists() && dst.join("sub/c").exists());
}

#[test]
fn what_cannot_be_done_is_an_error_of_its_kind() {
    let (_world, src, dst) = world();
    let there: Location = "nowhere.invalid:x".parse().expect("a location");
    let unreachable = Copy::new([location(&src)], there.clone()).run(&Silent::default());
    assert_eq!(unreachable.expect_err("no such host").kind(), ErrorKind::Connection);
    let between = Move::new([there.clone()], there).run(&Silent::default());
    assert_eq!(between.expect_err("refused").kind(), ErrorKind::Usage);
    let twice = Copy::new([location(&src), location(&src)], location(&dst));
    assert_eq!(twice.run(&Silent::default()).expect_err("refused").kind(), ErrorKind::Usage);
    assert!("".parse::<Location>().is_err());
    let empty = || Location::from(PathBuf::new());
    let nowhere = Sync::new([location(&src)], empty()).delete(true).run(&Silent::default());
    assert_eq!(nowhere.expect_err("refused").kind(), ErrorKind::Usage);
    let nothing = Copy::new([], location(&dst)).run(&Silent::default());
    assert_eq!(nothing.expect_err("refused").kind(), ErrorKind::Usage);
}

/// A request and a session may be used by any thread, and an error sent to another.
#[test]
fn values_cross_threads() {
    fn send<T: Send + std::marker::Sync>() {}
    send::<Copy>();
    send::<Session>();
    send::<haul::Error>();
    let _: fn(Event<'_>) = |_| {};
}

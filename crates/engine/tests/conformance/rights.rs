//! An SFTP server that may not do everything: that of a user who is not root.
//! Run by root, who alone can start one; by another user the server is that
//! user's own.

use crate::link::by_sftp;
use crate::watch::Watch;
use haul_engine::{Job, NamedDest, NamedSources, Outcome, Placement, SftpRoute, Summary};
use haul_model::FaultKind;
use haul_testkit::nasty::set_mode;
use haul_testkit::sshd::system_sftp_server;
use haul_testkit::{TempDir, fixture, nasty};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// User and group that own nothing.
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    fs::metadata("/proc/self").expect("a mounted /proc").uid() == 0
}

fn server() -> Command {
    let program = system_sftp_server().expect("sftp-server is installed");
    if !is_root() {
        return Command::new(program);
    }
    let mut server = Command::new("setpriv");
    let ids = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
    server.args(ids).arg("--clear-groups").arg(program);
    server
}

/// Two directories, of which the server's user has one.
struct Two {
    temp: TempDir,
}

impl Two {
    fn new() -> Self {
        let temp = tempfile::tempdir().expect("a temporary directory");
        set_mode(temp.path(), 0o755).expect("set");
        for name in ["here", "there"] {
            fs::create_dir(temp.path().join(name)).expect("made");
        }
        Self { temp }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.temp.path().join(path)
    }

    fn file(&self, path: &str, mode: u32) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("below")).expect("made");
        fs::write(&path, "content").expect("written");
        set_mode(&path, mode).expect("set");
    }

    /// Gives all that is there to the server's user.
    fn give(&self) {
        let mut open = vec![self.path("there")];
        while let Some(path) = open.pop() {
            if is_root() {
                chown(&path, Some(NOBODY), Some(NOBODY)).expect("given");
            }
            if path.is_dir() {
                open.extend(fs::read_dir(path).expect("read").map(|e| e.expect("read").path()));
            }
        }
    }

    fn run(
        &self,
        [from, to]: [&str; 2],
        placement: fn(SftpRoute) -> Placement,
    ) -> (Summary, BTreeMap<String, Outcome>) {
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let job = Job {
            sources: NamedSources {
                recursive: true,
                ..NamedSources::at(vec![bytes(&self.path(from))])
            },
            dest: NamedDest::at(bytes(&self.path(to))),
            ..Job::default()
        };
        let (connections, servers) = by_sftp(1, server);
        let watch = Watch::default();
        let route =
            SftpRoute { open_session: None, connections, journals: None, silence_max: None };
        let summary = haul_engine::run(&job, placement(route), &watch).expect("the job ends");
        servers.join().expect("no panic").expect("served");
        (summary, watch.outcomes())
    }
}

impl Drop for Two {
    fn drop(&mut self) {
        let _ = nasty::unlock(self.temp.path());
    }
}

fn failed_with(outcomes: &BTreeMap<String, Outcome>, path: &str) -> Option<FaultKind> {
    match outcomes.get(path) {
        Some(Outcome::Failed(fault)) => Some(fault.kind),
        _ => None,
    }
}

#[test]
fn what_may_not_be_read_there_is_reported_and_the_rest_is_copied() {
    let two = Two::new();
    two.file("there/tree/good", 0o644);
    two.file("there/tree/closed", 0o000);
    for (dir, mode) in [("no-list", 0o311), ("no-search", 0o644), ("nothing", 0o000)] {
        two.file(&format!("there/tree/{dir}/inside"), 0o644);
        set_mode(two.path(&format!("there/tree/{dir}")), mode).expect("set");
    }
    two.give();
    let (summary, outcomes) = two.run(["there/tree", "here"], Placement::SftpDownload);
    assert_eq!((summary.copied, summary.failed), (1, 4), "{outcomes:?}");
    for path in ["closed", "no-list", "no-search", "nothing"] {
        let kind = failed_with(&outcomes, &format!("tree/{path}"));
        assert_eq!(kind, Some(FaultKind::PermissionDenied), "{path}: {outcomes:?}");
    }
    assert_eq!(fs::read_to_string(two.path("here/tree/good")).expect("read"), "content");
    assert!(!two.path("here/tree/closed").exists());
}

#[test]
fn a_directory_that_may_not_be_written_fails_with_each_file_and_nothing_else() {
    if !is_root() {
        return fixture::missing("root, who can give a directory away");
    }
    let two = Two::new();
    for name in ["a", "b", "dir/c"] {
        two.file(&format!("here/tree/{name}"), 0o644);
    }
    two.file("there/tree/kept", 0o644);
    let (summary, outcomes) = two.run(["here/tree", "there"], Placement::SftpUpload);
    assert_eq!((summary.copied, summary.failed), (0, 5), "{outcomes:?}");
    // Its own mode and time are another user's, too.
    for path in ["tree", "tree/a", "tree/b", "tree/dir"] {
        let kind = failed_with(&outcomes, path);
        assert_eq!(kind, Some(FaultKind::PermissionDenied), "{path}: {outcomes:?}");
    }
    let names = fs::read_dir(two.path("there/tree")).expect("read").count();
    assert_eq!(names, 1, "something is left");
}

#[test]
fn directories_that_are_read_only_are_filled_and_are_so_again() {
    let two = Two::new();
    two.file("here/tree/dir/new", 0o444);
    two.file("here/tree/made/new", 0o400);
    for dir in ["dir", "made"] {
        set_mode(two.path(&format!("here/tree/{dir}")), 0o555).expect("set");
    }
    two.file("there/tree/dir/old", 0o444);
    two.give();
    set_mode(two.path("there/tree/dir"), 0o500).expect("set");
    let (summary, outcomes) = two.run(["here/tree", "there"], Placement::SftpUpload);
    assert_eq!((summary.copied, summary.failed), (2, 0), "{outcomes:?}");
    for dir in ["dir", "made"] {
        let mode = fs::metadata(two.path(&format!("there/tree/{dir}"))).expect("there").mode();
        assert_eq!(mode & 0o7777, 0o555, "{dir}");
    }
}

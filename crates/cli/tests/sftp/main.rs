//! Hosts that have sshd and no haul.

#[path = "../common/mod.rs"]
mod common;

mod changing;
mod copying;
mod killed;
mod logins;
mod memory;
mod moving;
mod rclone;
mod refusing;
mod requests;
mod resuming;
mod stale;
mod state;
mod trouble;
mod without_haul;

use common::*;
use haul_testkit::{Compare, Haul};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The words that lead through the host's SFTP server.
fn by_sftp(scene: &Scene<'_>) -> Vec<String> {
    let rsh = scene.remote()[1].to_str().expect("text").to_owned();
    ["--rsh".to_owned(), rsh, "--transport".to_owned(), "sftp".to_owned()].to_vec()
}

/// Runs `test` to a host and from it, with its SFTP server behind a pipe: where ssh adds
/// nothing but the time for a login.
fn each_remote_way_by_pipe(test: impl Fn(&Scene<'_>) + Sync) {
    let by_pipe = |scene: &mut Scene<'_>| scene.reach_by(scene.sftp_server_by_pipe());
    each_of(&Way::REMOTE, by_pipe, test);
}

/// A copy through SFTP, in the scene's way.
fn copy<S: AsRef<OsStr>>(scene: &Scene<'_>, flags: &[&str], sources: &[S], dest: &str) -> Haul {
    scene.copy_by(&by_sftp(scene), flags, sources, dest)
}

/// The comparison of a copy with its source: it has whole seconds.
fn rules() -> Compare {
    const SECOND_NS: i128 = 1_000_000_000;
    Compare::everything().keeping_mtimes_as(|mtime_ns| mtime_ns / SECOND_NS * SECOND_NS)
}

/// The last event of a run with `--json`.
#[track_caller]
fn summary(run: &haul_testkit::haul::Outcome) -> serde_json::Value {
    let out = run.out();
    let summary = serde_json::from_str(out.lines().last().expect("a summary")).expect("JSON");
    let serde_json::Value::Object(_) = &summary else { panic!("no object: {run}") };
    assert_eq!(summary["type"], "summary", "{run}");
    summary
}

/// Whatever is below `dir`, the names that begin as haul's own do.
fn strays(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".haul-") {
            found.push(path.clone());
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(strays(&path));
        }
    }
    found
}

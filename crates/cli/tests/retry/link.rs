//! A scene whose host is reached through a link that can be cut.

use crate::common::*;
use haul_testkit::haul::Running;
use haul_testkit::{Haul, Link, holds_within};
use std::ffi::OsString;
use std::time::Duration;

/// How long anything may take on a machine that has others to serve.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The words that reach the host through `link`.
pub(crate) fn through(scene: &Scene<'_>, link: &Link) -> Vec<OsString> {
    let rsh = link.rsh(scene.sshd());
    ["--rsh", &rsh, "--remote-haul", HAUL].iter().map(OsString::from).collect()
}

/// `command` through `link`, which connects again.
pub(crate) fn retrying(
    scene: &Scene<'_>,
    link: &Link,
    command: &str,
    flags: &[&str],
    source: &str,
    dest: &str,
) -> Haul {
    // The link is one to ssh. A check moves no contents.
    let via: &[&str] = if command == "check" { &[] } else { &["--via", "ssh"] };
    let flags = [flags, &["--retries", "8"], via].concat();
    let haul = scene.transfer(command, &through(scene, link), &flags, &[source], dest);
    haul.env_remove("HAUL_RETRIES").limit(LONG * 2)
}

/// Waits until `bytes` more have passed, in both directions together; `false` if the
/// command ends before.
pub(crate) fn wait_for(running: &Running, link: &Link, bytes: u64) -> bool {
    let passed = || link.passed().iter().sum::<u64>();
    let end = passed() + bytes;
    holds_within(LONG, || passed() >= end || !running.is_running());
    running.is_running()
}

/// Lines of standard error that tell of lost connections, and of those that stand again.
pub(crate) fn told(run: &haul_testkit::haul::Outcome) -> [usize; 2] {
    let err = run.err();
    ["reconnecting in", "haul: reconnected"]
        .map(|words| err.lines().filter(|line| line.contains(words)).count())
}

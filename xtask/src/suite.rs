//! All tests in one command.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT};
use signal_hook::flag::register_conditional_shutdown;

use crate::{Result, SIGNALLED, fuzz, repo, setup};

/// How long each fuzz target runs as a part of the tests.
const FUZZ_SECONDS: u32 = 3;

/// How long the tests may take, building included, before they count as hung.
/// They take a few minutes on two cores.
const TEST_LIMIT: Duration = Duration::from_secs(40 * 60);

/// Sets up, runs the tests, then every fuzz target for a moment. With a filter,
/// only the tests that match it.
pub(crate) fn run(filter: Option<&str>) -> Result<()> {
    setup::run()?;
    hear_signals()?;
    let mut test = repo::cargo();
    test.args(["test", "--workspace"]);
    let Some(filter) = filter else {
        repo::run_within(TEST_LIMIT, &mut test)?;
        return fuzz::run(&fuzz::Args { seconds: FUZZ_SECONDS, target: None });
    };
    repo::run_within(TEST_LIMIT, test.args(["--", filter]))
}

/// Ends this process at Ctrl-C and when its terminal goes away, also where it was
/// started deaf to that, as by `nohup`, or in the background of a script. The tests
/// would be deaf as well, and so would what they interrupt: what a process listens to
/// itself, those that it starts don't ignore.
fn hear_signals() -> Result<()> {
    let ends = Arc::new(AtomicBool::new(true));
    for signal in [SIGHUP, SIGINT] {
        register_conditional_shutdown(signal, i32::from(SIGNALLED) + signal, Arc::clone(&ends))?;
    }
    Ok(())
}

/// Runs what continuous integration runs.
pub(crate) fn ci() -> Result<()> {
    repo::run(Command::new(repo::root().join(".ci/run")).current_dir(repo::root()))
}

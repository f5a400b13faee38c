//! All tests in one command.

use std::process::Command;
use std::time::Duration;

use crate::{Result, fuzz, repo, setup};

/// How long each fuzz target runs as a part of the tests.
const FUZZ_SECONDS: u32 = 3;

/// How long the tests may take, building included, before they count as hung.
/// They take a few minutes on two cores.
const TEST_LIMIT: Duration = Duration::from_secs(40 * 60);

/// Sets up, runs the tests, then every fuzz target for a moment. With a filter,
/// only the tests that match it.
pub(crate) fn run(filter: Option<&str>) -> Result<()> {
    setup::run()?;
    let mut test = repo::cargo();
    test.args(["test", "--workspace"]);
    let Some(filter) = filter else {
        repo::run_within(TEST_LIMIT, &mut test)?;
        return fuzz::run(&fuzz::Args { seconds: FUZZ_SECONDS, target: None });
    };
    repo::run_within(TEST_LIMIT, test.args(["--", filter]))
}

/// Runs what continuous integration runs.
pub(crate) fn ci() -> Result<()> {
    repo::run(Command::new(repo::root().join(".ci/run")).current_dir(repo::root()))
}

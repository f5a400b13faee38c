//! All tests in one command.

mod programs;
mod suite_progress;

use std::ffi::OsString;
use std::fs;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haul_testkit::{TempDir, fixture};
use signal_hook::consts::{SIGHUP, SIGINT};
use signal_hook::flag::register_conditional_shutdown;

use crate::{Result, SIGNALLED, fuzz, repo, setup};
pub(crate) use programs::Programs;

/// How long each fuzz target runs as a part of the tests.
const FUZZ_SECONDS: u32 = 2;

/// The seed of the fuzz targets in the tests: what they try first is always the
/// same. `cargo xtask soak` and `cargo xtask fuzz` take others.
const FUZZ_SEED: u64 = 1;

/// How long the tests may take, once they are built, before they count as hung.
/// They take a few minutes on two cores.
const TEST_LIMIT: Duration = Duration::from_secs(40 * 60);

/// The tests to run, and what they may do without.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run only the tests whose name contains this, and no fuzz targets
    filter: Option<String>,
    /// Run what one runs while working: the tests beside the code, the engine's
    /// jobs, and whole-program tests of copies and checks in every way. Leaves out
    /// the documentation's examples, fuzzing, the chores, and the programs that test
    /// output, bad input, the server, hostile peers, connections, jobs between two
    /// hosts, reconnecting, mirrors, moves, resuming, SFTP, deploying, restricted
    /// logins, durability, cuts of the power, odd file systems and scarce resources
    #[arg(long)]
    quick: bool,
    /// Skip the tests for which something is missing, as the right to mount,
    /// where they would fail for it
    #[arg(long)]
    allow_skips: bool,
}

/// Sets up, runs the tests and every fuzz target for a moment. With a filter,
/// only the tests that match it. Ends with what was skipped, and why.
pub(crate) fn run(args: &Args) -> Result<()> {
    eprintln!("xtask: {}", announcement(args));
    setup::run()?;
    handle_signals()?;
    let dir = TempDir::with_prefix("haul-skips-")?;
    let skips = dir.path().join("skips");
    let environment = |command: &mut Command| {
        command.env(fixture::SKIPS, &skips);
        if args.allow_skips {
            command.env_remove("CI").env_remove(fixture::REQUIRED);
        } else {
            command.env(fixture::REQUIRED, "1");
        }
    };
    let filter: Vec<OsString> = args.filter.iter().map(OsString::from).collect();
    let done = match args.quick {
        true => {
            Programs::build().and_then(|all| all.quick().run(&filter, &environment, TEST_LIMIT))
        }
        false => all(args, &filter, &environment),
    };
    print!("{}", skip_summary(&fs::read_to_string(&skips).unwrap_or_default()));
    done
}

/// The steps of the run, and how long they take on two processors.
fn announcement(args: &Args) -> String {
    let takes = match (args.quick, &args.filter) {
        (true, None) => "about a minute",
        (false, None) => "about eight minutes",
        (_, Some(_)) => "as long as the slowest of them",
    };
    format!(
        "sets up what the tests need, builds them, and runs them: {takes} on two processors, and several minutes more where nothing is built"
    )
}

/// Runs all test programs. A processor for which none is left runs the examples in the
/// documentation and, unless only some tests are wanted, the fuzz targets.
fn all(
    args: &Args,
    filter: &[OsString],
    environment: &(dyn Fn(&mut Command) + Sync),
) -> Result<()> {
    let programs = Programs::build()?;
    let fuzzing = fuzz::Args { seconds: FUZZ_SECONDS, target: None, seed: Some(FUZZ_SEED) };
    let targets = match args.filter {
        None => fuzz::Targets::build(&fuzzing)?,
        Some(_) => None,
    };
    let examples = Examples::new(filter);
    let rest = || {
        examples.run();
        targets.iter().for_each(fuzz::Targets::run);
    };
    let tested = programs.run_then(filter, environment, TEST_LIMIT, &rest);
    let fuzzed = targets.map_or(Ok(()), fuzz::Targets::end);
    let errors: Vec<_> = [tested, examples.end(), fuzzed]
        .into_iter()
        .filter_map(|done| done.err().map(|error| error.to_string()))
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n").into()) }
}

/// The examples in the documentation. Most of their time goes into compiling them, on one
/// processor.
struct Examples {
    waiting: Mutex<Option<Command>>,
    failed: Mutex<Option<String>>,
}

impl Examples {
    fn new(filter: &[OsString]) -> Self {
        let mut command = repo::cargo();
        command.args(["test", "--quiet", "--workspace", "--doc", "--"]).args(filter);
        Self { waiting: Mutex::new(Some(command)), failed: Mutex::default() }
    }

    /// Runs them, unless a thread has begun to.
    fn run(&self) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut command) = waiting else { return };
        if let Err(error) = repo::run_within(TEST_LIMIT, &mut command) {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            *failed = Some(error.to_string());
        }
    }

    /// Ends them.
    ///
    /// # Errors
    /// When an example has failed, or none was run.
    fn end(self) -> Result<()> {
        if self.waiting.into_inner().unwrap_or_else(PoisonError::into_inner).is_some() {
            return Err("the examples in the documentation were not run".into());
        }
        let failed = self.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// The last lines: each test and place once, for one can be met several times,
/// each with a temporary directory of its own in the reason.
fn skip_summary(skips: &str) -> String {
    let mut lines: Vec<&str> = skips.lines().collect();
    lines.sort_unstable();
    lines.dedup_by_key(|line| line.split_once("): ").map_or(*line, |(place, _)| place));
    if lines.is_empty() {
        return "no test was skipped\n".to_owned();
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Ends this process at Ctrl-C and when its terminal goes away, also where it was
/// started deaf to that, as by `nohup`, or in the background of a script. The tests
/// would be deaf as well, and so would what they interrupt: what a process listens to
/// itself, those that it starts don't ignore.
pub(crate) fn handle_signals() -> Result<()> {
    let finish_program = Arc::new(AtomicBool::new(true));
    for signal in [SIGHUP, SIGINT] {
        register_conditional_shutdown(
            signal,
            i32::from(SIGNALLED) + signal,
            Arc::clone(&finish_program),
        )?;
    }
    Ok(())
}

/// Runs what continuous integration runs.
pub(crate) fn ci() -> Result<()> {
    repo::run(&mut repo::in_root(repo::root().join(".ci/run")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_skipped_is_reported_once_and_that_nothing_was_too() {
        assert_eq!(skip_summary(""), "no test was skipped\n");
        let skips = "skipped: b (f:2): /1\nskipped: a (f:1): x\nskipped: b (f:2): /2\n";
        assert_eq!(skip_summary(skips), "skipped: a (f:1): x\nskipped: b (f:2): /1\n");
    }
}

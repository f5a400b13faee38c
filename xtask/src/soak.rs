//! The long campaigns: kills, cuts and fuzzing with new seeds, for as long as one
//! likes. The tests have a short form of each, with fixed seeds.

use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use haul_testkit::{campaign, fixture};

use crate::suite::{self, Programs};
use crate::{Result, fuzz, setup};

/// Test programs with campaigns, by package and target, and the names of the
/// campaigns in them. Without names it is all tests: their scenarios take turns in the suite.
const CAMPAIGNS: &[(&str, &[&str])] = &[
    ("cli resume", &["killed::", "replaced::"]),
    ("cli moving", &["against::", "interrupted::"]),
    ("cli retry", &["befallen::", "anywhere::"]),
    ("cli sync", &[]),
    ("cli semantics", &[]),
    ("cli check", &[]),
    ("cli bad_input", &[]),
    ("cli output", &[]),
    ("cli odd", &["refusing::"]),
    ("cli sftp", &["killed::", "the_next_run_removes_what_killed_ones_have_left"]),
    ("cli power", &["durable::at_any_moment", "plain::what_is_lost", "plain::a_large_file"]),
    ("store power", &["cuts::"]),
    ("engine ends", &["leaves_whole_files", "a_bit_that_is_turned_over"]),
];

/// By how much a campaign is longer than its short form in one round.
const TIMES: u64 = 4;

/// Time for each fuzz target in one round, in seconds.
const FUZZ_SECONDS: u32 = 20;

/// How long one program of a round may take before it counts as hung.
const PROGRAM_LIMIT: Duration = Duration::from_secs(30 * 60);

/// How long to go on, and from which seed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Begin no further round after so many minutes
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// The seed of the first round, in place of one made from the time; each
    /// further round has the next number
    #[arg(long)]
    seed: Option<u64>,
    /// Run only the programs whose name contains this, as in "cli resume", or
    /// "fuzz"
    only: Option<String>,
}

/// Runs rounds of all campaigns until the time is up. The first failure ends it,
/// with the words that run the same again.
pub(crate) fn run(args: &Args) -> Result<()> {
    setup::run()?;
    suite::handle_signals()?;
    let end = Instant::now() + Duration::from_secs(60 * args.minutes);
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let mut seed = args.seed.unwrap_or(since.as_secs());
    let is_wanted = |name: &str| args.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let wanted: Vec<_> = CAMPAIGNS.iter().filter(|(name, _)| is_wanted(name)).collect();
    if wanted.is_empty() && !is_wanted("fuzz") {
        return Err("no such campaign".into());
    }
    loop {
        println!("\n== round with seed {seed}");
        for (name, tests) in &wanted {
            let environment = |command: &mut Command| {
                command.env(campaign::SEED, seed.to_string());
                command.env(campaign::TIMES, TIMES.to_string()).env(fixture::REQUIRED, "1");
            };
            let tests: Vec<_> = tests.iter().map(Into::into).collect();
            Programs::build()?
                .only(name)
                .run(&tests, &environment, PROGRAM_LIMIT)
                .map_err(|error| rerun_hint(&error.to_string(), seed, name))?;
        }
        if is_wanted("fuzz") {
            let fuzzing = fuzz::Args { seconds: FUZZ_SECONDS, target: None, seed: Some(seed) };
            fuzz::run(&fuzzing).map_err(|error| rerun_hint(&error.to_string(), seed, "fuzz"))?;
        }
        if Instant::now() >= end {
            println!("\nno failure");
            return Ok(());
        }
        seed += 1;
    }
}

fn rerun_hint(error: &str, seed: u64, name: &str) -> String {
    format!("{error}\nthe same again: cargo xtask soak --minutes 0 --seed {seed} \"{name}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_how_to_run_it_again() {
        let told = rerun_hint("tests failed", 7, "cli resume");
        assert!(told.ends_with("--minutes 0 --seed 7 \"cli resume\""), "{told}");
    }
}

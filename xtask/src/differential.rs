//! `haul sync` beside rsync, on trees and with options drawn by lot: with new seeds, or with
//! one that made a difference.

use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_testkit::{campaign, fixture};

use crate::suite::{self, Programs};
use crate::{Result, setup};

/// The test program, by package and target, and its campaign.
const PROGRAM: &str = "cli differential";
const CAMPAIGN: &str = "both_make_the_same_of_whatever_they_are_given";

/// How long the last cases may take to become small, after the time that was given.
const SHRINKING_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Where to begin, and how long to go on.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The seed of the first case, in place of one made from the time; each further
    /// case has the next number
    #[arg(long)]
    seed: Option<u64>,
    /// Begin no further case after so many seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// Runs both programs on case after case until the time is up, and tells of each in which
/// they differ.
pub(crate) fn run(args: &Args) -> Result<()> {
    setup::run()?;
    suite::handle_signals()?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let seed = args.seed.unwrap_or(since.as_secs());
    let environment = |command: &mut Command| {
        command.env(campaign::SEED, seed.to_string()).env(fixture::REQUIRED, "1");
        command.env(campaign::SECONDS, args.seconds.to_string());
    };
    let words = [CAMPAIGN, "--nocapture"].map(Into::into);
    let limit = Duration::from_secs(args.seconds) + SHRINKING_LIMIT;
    Programs::build()?.only(PROGRAM).run(&words, &environment, limit)
}

//! Mutation tests of one crate: each decision in its code is changed in turn, and the tests of the
//! crate itself have to notice.

use crate::{Result, repo};

/// The cargo-mutants that is installed where there is none.
const VERSION: &str = "27.1.0";

/// Seconds after which the tests of a changed crate have hung.
const TIMEOUT_SECS: &str = "120";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The crate, without `haul-`
    name: String,
    /// Further arguments for cargo-mutants, such as `--file PATH` or `--re NAME`
    #[arg(last = true)]
    further: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut mutants = repo::tool("cargo-mutants", VERSION, &[])?;
    mutants.args(["mutants", "--package", &format!("haul-{}", args.name)]);
    mutants.args(["--timeout", TIMEOUT_SECS, "--output"]).arg(repo::target_dir());
    repo::run(mutants.args(&args.further))
}

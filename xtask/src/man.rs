//! The man pages of all commands, and the completions for shells, as the program in the
//! working tree makes them: `haul generate`.

use std::path::PathBuf;
use std::process::Command;

use crate::{Result, repo};

/// Where they go.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory to write to [default: target/share]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Builds the program, has it write them, and tells where they are.
pub(crate) fn run(args: &Args) -> Result<()> {
    repo::run(repo::cargo().args(["build", "--quiet", "--package", "haul-cli"]))?;
    let dir = args.dir.clone().unwrap_or_else(|| repo::target_dir().join("share"));
    let program = repo::target_dir().join("debug/haul");
    repo::run(Command::new(program).arg("generate").arg(&dir))?;
    println!("{}", dir.join("man/man1").display());
    Ok(())
}

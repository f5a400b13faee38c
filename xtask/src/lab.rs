//! A laboratory for the network: two hosts with an ssh server on one, a link
//! between them of a given rate, delay, loss, queue and MTU, and a command that
//! runs on the other.
//!
//! The hosts are network namespaces of this machine and share its files. The
//! parts, from the inside out: [`shaper`] is the link as arithmetic, [`carrier`]
//! does it to packets, [`cable`] lays it between two [`namespace`]s, [`hosts`]
//! puts a server there, [`command`] runs what the user wants to see.

mod cable;
mod carrier;
mod command;
mod hosts;
mod link;
mod namespace;
mod shaper;
#[cfg(test)]
mod tests;

use std::ffi::OsString;

pub(crate) use self::hosts::{Lab, Plan, SERVER};
pub(crate) use self::link::{Link, Rate, Share};

use self::command::Signals;
use crate::{Result, setup};

/// The lab's link, and the command that runs in it.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    plan: Plan,
    /// The command to run on the client, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Makes a lab, runs the command, and takes the lab down, whatever happens.
/// Gives the exit code of the command.
pub(crate) fn run(args: &Args) -> Result<u8> {
    setup::run()?;
    let signals = Signals::listen()?;
    let lab = Lab::start(&args.plan)?;
    let variables = command::variables(&lab);
    let variables = variables.map(|(name, value)| format!("  {name}={value}")).join("\n");
    eprintln!("lab: {}\n{variables}", lab.describe());
    command::run(&lab, &args.command, &signals)
}

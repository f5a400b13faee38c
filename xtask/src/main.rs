//! The project's chores: setting a machine up, testing, fuzzing, measuring,
//! building what is deployed, and the checks of the house that the compiler and
//! clippy don't make.
//!
//! `cargo xtask` lists them.

#![forbid(unsafe_code)]

mod bench;
mod book;
mod decisions;
mod differential;
mod dist;
mod fuzz;
#[cfg(target_os = "linux")]
mod lab;
mod man;
mod mutants;
mod repo;
mod session;
mod setup;
mod size;
mod soak;
mod suite;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// An error, in words for the person who ran the chore.
type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// The number that a shell adds to a signal's to make it an exit code.
const SIGNALLED: u8 = 128;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "haul's chores")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Install what the tests need, or say what that is
    Setup,
    /// Set up, run all tests, then each fuzz target for a moment
    Test(suite::Args),
    /// Run the long campaigns (kills, cuts, fuzzing) with new seeds
    Soak(soak::Args),
    /// Run `haul sync` beside rsync, on trees and with options drawn by lot
    Differential(differential::Args),
    /// Record what rsync decides in each case that the tests of the plan know
    Decisions,
    /// Run the fuzz targets
    Fuzz(fuzz::Args),
    /// Measure haul against the tools that people use now
    Bench(bench::Args),
    /// Build a haul that is statically linked, for any Linux host, and Debian packages of it
    Dist(dist::Args),
    /// Make the man pages of all commands, and the completions for shells
    Man(man::Args),
    /// Draw docs/session.svg from a real session: an upload, Ctrl-C, and its resumption
    Session(session::Args),
    /// Change each decision of a crate in turn, and see if its own tests notice
    Mutants(mutants::Args),
    /// Build the documents as a book, with mdBook
    Book,
    /// Run a command on one of two hosts with a link of a given kind between them
    #[cfg(target_os = "linux")]
    Lab(lab::Args),
    /// Count the product's lines of code, without blank lines, comments and tests
    Size,
    /// Check the rules of the house
    Tidy,
    /// Do all that is done before a change is accepted
    Ci,
}

fn main() -> ExitCode {
    run(Cli::parse().chore).unwrap_or_else(|error| {
        eprintln!("xtask: {error}");
        ExitCode::FAILURE
    })
}

fn run(chore: Chore) -> Result<ExitCode> {
    match chore {
        Chore::Setup => setup::run()?,
        Chore::Test(args) => suite::run(&args)?,
        Chore::Soak(args) => soak::run(&args)?,
        Chore::Differential(args) => differential::run(&args)?,
        Chore::Decisions => decisions::run()?,
        Chore::Fuzz(args) => fuzz::run(&args)?,
        Chore::Bench(args) => bench::run(&args)?,
        Chore::Dist(args) => dist::run(&args)?,
        Chore::Man(args) => man::run(&args)?,
        Chore::Session(args) => session::run(&args)?,
        Chore::Mutants(args) => mutants::run(&args)?,
        Chore::Book => book::run()?,
        #[cfg(target_os = "linux")]
        Chore::Lab(args) => return Ok(lab::run(&args)?.into()),
        Chore::Size => size::run(repo::root())?,
        Chore::Tidy => tidy::run()?,
        Chore::Ci => suite::ci()?,
    }
    Ok(ExitCode::SUCCESS)
}

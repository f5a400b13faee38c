//! The commands, one file each, and the loop that asks hosts about paths.

mod cache;
mod check;
mod clean;
mod config;
mod copy;
pub(crate) mod deploy;
mod doctor;
mod generate;
mod hash;
mod keep;
mod ls;
mod places;
mod relocate;
mod serve;
mod server;
mod stat;
mod sync;

#[cfg(test)]
pub(crate) use self::doctor::doctor_samples;

use crate::args::{Asked, Command};
use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::monitor::JobMonitor;
use crate::progress::{Screen, diagnostics};
use crate::report::Report;
use haul::{Hosts, Location, Peers, Questions};
use haul_engine::{RequestError, Requests};
use haul_model::Fault;
use std::cell::Cell;

/// Runs the command, prints its results, and returns the exit code.
pub(crate) fn run(command: Command) -> ExitCode {
    match command {
        Command::Copy(copy) => copy::run(&copy),
        Command::Move(copy) => relocate::run(&copy),
        Command::Sync(sync) => sync::run(&sync),
        Command::Check(check) => check::run(&check),
        Command::Ls(ls) => ls::run(&ls),
        Command::Stat(stat) => stat::run(&stat),
        Command::Hash(asked) => hash::run(&asked),
        Command::Clean(clean) => clean::run(&clean),
        Command::Config(asked) => config::run(&asked),
        Command::Cache(cache) => cache::run(&cache),
        Command::Keep(keep) => keep::run(&keep),
        Command::Deploy(deploy) => deploy::run(&deploy),
        Command::Doctor(doctor) => doctor::run(&doctor),
        Command::Completions(shell) => generate::print(shell),
        Command::Generate(generate) => generate::run(&generate),
        Command::Places(places) => places::run(&places),
        Command::Serve(serve) => serve::run(&serve),
        Command::Server(server) => server::run(&server),
    }
}

/// Asks one question about each of the paths, in order. A path with a fault is reported, and the next
/// one is asked about. A question whose connection is lost is asked again over a new one. Without a
/// new connection the command ends.
fn ask_each_path(
    asked: &Asked,
    mut ask: impl FnMut(&mut Requests, PathQuestion<'_>) -> Result<(), RequestError>,
) -> ExitCode {
    let screen = Screen::default();
    let report = &Report::new(asked.detail, &screen);
    let diagnostics = diagnostics(&screen);
    let hosts = Hosts::new(&diagnostics);
    let monitor = JobMonitor::of_questions(report);
    let abort = |error: CommandError| match error.kind {
        // Standard output is closed.
        ErrorKind::Interrupted => report.finish(ExitCode::Success),
        _ => report.abort(&error.for_query(), None),
    };
    let peers = Peers::new(&diagnostics);
    let mut questions = Questions::new(&hosts, peers, &monitor);
    let unmatched = &mut |host, path: &[u8], fault: &Fault| report.fault(host, path, fault);
    for given in &asked.paths {
        let locations = match given.expanded(&mut questions, unmatched) {
            Ok((locations, _)) => locations,
            Err(error) => return abort(CommandError::at(&given.machine)(error)),
        };
        for location in &locations {
            let (mut is_retry, parts) = (false, Cell::new(0));
            let answer = questions.ask_in_parts(&location.machine, &|| parts.get(), |requests| {
                let is_retry = std::mem::replace(&mut is_retry, true);
                ask(requests, PathQuestion { location, report, is_retry, parts: &parts })
            });
            match answer {
                Ok(Ok(())) => {}
                Ok(Err(fault)) => report.fault(location.machine.name(), &location.path, &fault),
                Err(error) => return abort(CommandError::at(&location.machine)(error)),
            }
            if report.output().is_broken() {
                return report.finish(ExitCode::Success);
            }
        }
    }
    report.finish(ExitCode::Success)
}

/// A question about one path.
#[derive(Clone, Copy)]
struct PathQuestion<'a> {
    location: &'a Location,
    report: &'a Report,
    /// The question was asked before, over a connection that was lost.
    is_retry: bool,
    /// The number of parts of the answer that were printed, over all connections.
    parts: &'a Cell<u64>,
}

//! The commands, one a file.

mod check;
mod clean;
mod config;
mod copy;
pub(crate) mod deploy;
mod doctor;
mod expand;
mod generate;
mod hash;
mod ls;
mod relocate;
mod serve;
mod stat;
mod sync;

use crate::args::Command;
use crate::error::ExitCode;
use crate::location::{Location, Machine};
use crate::peer::{Peers, Reaches};
use crate::progress::Screen;
use crate::report::{Detail, Report};
use haul_engine::{RequestError, Requests};

/// Does what was asked, says what came of it, and tells how it ended.
pub(crate) fn run(command: Command) -> ExitCode {
    match command {
        Command::Copy(copy) => copy::run(&copy),
        Command::Move(copy) => relocate::run(&copy),
        Command::Sync(sync) => sync::run(&sync),
        Command::Check(check) => check::run(&check),
        Command::Ls(ls) => ls::run(&ls),
        Command::Stat(stat) => stat::run(&stat),
        Command::Hash(hash) => hash::run(&hash),
        Command::Clean(clean) => clean::run(&clean),
        Command::Config(asked) => config::run(&asked),
        Command::Deploy(deploy) => deploy::run(&deploy),
        Command::Doctor(doctor) => doctor::run(&doctor),
        Command::Completions(shell) => generate::print(shell),
        Command::Generate(generate) => generate::run(&generate),
        Command::Serve(serve) => serve::run(&serve),
    }
}

/// Asks one thing about each of `paths`, in order. A path that can't be looked
/// at is reported and the next one asked about; a connection that fails is the
/// end.
fn each_path(
    detail: Detail,
    paths: &[Location],
    reaches: &Reaches,
    mut ask: impl FnMut(&mut Requests, &Location, &dyn Report) -> Result<(), RequestError>,
) -> ExitCode {
    let screen = Screen::default();
    let report = &*detail.report(&screen);
    let mut peers = Peers::new(report, &screen, reaches.clone());
    for given in paths {
        let locations = match expand::paths(given, &mut peers, report) {
            Ok((locations, _)) => locations,
            Err(error) => return report.refused(&error, None),
        };
        for location in &locations {
            let answer = match peers.at(&location.machine) {
                Ok(requests) => ask(requests, location, report),
                Err(error) => return report.refused(&error, None),
            };
            match answer {
                Ok(()) => {}
                Err(RequestError::Fault(fault)) => {
                    report.fault(host(&location.machine), &location.path, &fault);
                }
                Err(RequestError::Job(error)) => return report.refused(&error.into(), None),
            }
            // Without a reader the answers are of no use.
            if report.is_broken() {
                return report.finish(ExitCode::Success);
            }
        }
    }
    report.finish(ExitCode::Success)
}

/// The host's name, unless the place is here.
fn host(machine: &Machine) -> Option<String> {
    match machine {
        Machine::Here => None,
        Machine::There(target) | Machine::Sftp(target) => Some(target.display()),
    }
}

//! The commands, one a file.

mod check;
mod clean;
mod copy;
pub(crate) mod deploy;
mod hash;
mod ls;
mod relocate;
mod serve;
mod stat;

use crate::args::Command;
use crate::error::{CommandError, ExitCode};
use crate::location::{Location, Place};
use crate::peer::{Peers, WithoutHaul};
use crate::progress::Screen;
use crate::report::{Form, Report};
use haul_engine::{RequestError, Requests};

/// Does what was asked, says what came of it, and tells how it ended.
pub(crate) fn run(command: Command) -> ExitCode {
    match command {
        Command::Copy(copy) => copy::run(&copy),
        Command::Move(copy) => relocate::run(&copy),
        Command::Check(check) => check::run(&check),
        Command::Ls(ls) => ls::run(&ls),
        Command::Stat(stat) => stat::run(&stat),
        Command::Hash(hash) => hash::run(&hash),
        Command::Clean(clean) => clean::run(&clean),
        Command::Deploy(deploy) => deploy::run(&deploy),
        Command::Serve(serve) => serve::run(&serve),
    }
}

/// Ends the report; what went wrong with it counts only if all else is well.
fn finish(report: Report, code: ExitCode) -> ExitCode {
    match (code, report.finish()) {
        (ExitCode::Success, code) => code,
        (code, _) => code,
    }
}

/// Asks one thing about each of `paths`, in order. A path that can't be looked
/// at is reported and the next one asked about; a connection that fails is the
/// end.
fn each_path(
    form: Form,
    paths: &[Location],
    without_haul: WithoutHaul,
    mut ask: impl FnMut(&mut Requests, &Location, &mut Report) -> Result<(), RequestError>,
) -> ExitCode {
    let screen = Screen::default();
    let mut report = Report::new(form, screen.clone());
    let mut peers = Peers::new(screen, without_haul);
    for location in paths {
        let answer = match peers.at(&location.place, &mut report) {
            Ok(requests) => ask(requests, location, &mut report),
            Err(error) => return end(report, &error),
        };
        match answer {
            Ok(()) => {}
            Err(RequestError::Fault(fault)) => {
                report.fault_on(host(&location.place), &location.path, &fault)
            }
            Err(RequestError::Job(error)) => return end(report, &error.into()),
        }
        // Without a reader the answers are of no use.
        if report.is_broken() {
            break;
        }
    }
    report.finish()
}

/// The end of a command that can't go on.
fn end(mut report: Report, error: &CommandError) -> ExitCode {
    report.command_error(error);
    report.finish();
    error.kind.exit_code()
}

/// The host's name, unless the place is here.
fn host(place: &Place) -> Option<String> {
    match place {
        Place::Here => None,
        Place::There(target) | Place::Sftp(target) => Some(target.display()),
    }
}

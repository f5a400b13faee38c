//! `haul keep`: lists and closes kept connections, or holds one.

use crate::args::{Keep, KeepAction};
use crate::error::{CommandError, ExitCode};
use crate::json;
use crate::progress::Screen;
use crate::quantity;
use crate::report::{Lazy, Report, Show};
use haul::state;
use haul_net::Held;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub(super) fn run(keep: &Keep) -> ExitCode {
    let report = &Report::new(keep.detail, &Screen::default());
    match &keep.action {
        KeepAction::List => print_connections(report, haul_net::list, false),
        KeepAction::Stop(host) => {
            let stop = |dir: &Path| match haul_net::stop(dir, host.as_deref())? {
                none if none.is_empty() && host.is_some() => Err(io::Error::new(
                    io::ErrorKind::NotFound,
                    "no connection to the host is kept",
                )),
                stopped => Ok(stopped),
            };
            print_connections(report, stop, true)
        }
        KeepAction::Hold { dir, name, host } => hold(dir, name, host),
    }
}

/// Reports the connections that `find` returns. Its argument is the directory of their sockets.
fn print_connections(
    report: &Report,
    find: impl FnOnce(&Path) -> io::Result<Vec<Held>>,
    are_stopped: bool,
) -> ExitCode {
    let found = state::kept().map_or(Ok(Vec::new()), |dir| {
        find(&dir).map_err(|error| {
            let dir = haul_model::escape_text(&dir.to_string_lossy());
            let error = format!("{dir}: {error}");
            CommandError::io(error)
        })
    });
    match found {
        Ok(all) => {
            for held in &all {
                report.message(&Lazy {
                    level: Show::Quiet,
                    text: || kept_line(held, are_stopped),
                    json: || json::kept(held, are_stopped && !held.is_used),
                });
            }
            report.finish(ExitCode::Success)
        }
        Err(error) => report.abort(&error, None),
    }
}

/// Holds the connection whose streams are sent over standard input.
fn hold(dir: &Path, name: &str, host: &str) -> ExitCode {
    let user = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    let held = user.and_then(|user| haul_net::hold(user, dir, name, host));
    match held {
        Ok(()) => ExitCode::Success,
        Err(_) => ExitCode::SomeFailed,
    }
}

/// The line of a kept connection.
fn kept_line(held: &Held, is_stopped: bool) -> String {
    let Held { host, is_used, left, .. } = held;
    let state = match (is_stopped, is_used) {
        (_, true) => "in use".to_owned(),
        (true, false) => "closed".to_owned(),
        (false, false) => format!("kept for {}", quantity::remaining(Duration::from_secs(*left))),
    };
    format!("{host}: {state}\n")
}

//! A client that reaches the server's host through ssh, since the server does not answer. It
//! is served as the server would serve it: with its root, its right and its user.

use super::audit::{Audit, Event, Who};
use super::child::{Report, TOO_MANY, confine, refusal, serve_over};
use super::slots::Slot;
use super::{Client, JobStatus, Place, Records, Settings};
use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::interrupt;
use crate::report::end_of_command;
use crate::sshd;
use haul_engine::{JobError, fork};
use haul_net::{Connection, PublicKey};
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the record of a client is checked while the client is served.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// Serves the client that has this key, over standard input and output, as long as its record
/// stays. **No other thread runs yet.**
///
/// # Errors
/// When the client is not enrolled, or there can be no process for it. A client with too many
/// jobs is told so by the status.
pub(crate) fn serve(key: PublicKey) -> Result<ExitCode, CommandError> {
    let place = Place::find()?;
    let mut read = Records::state(&place);
    let client = Records::load(&place)?.clients.into_iter().find(|client| client.key == key);
    let client = client.ok_or_else(|| refused("this client is not enrolled at the server"))?;
    if let Some(reason) = refusal(&client) {
        return Err(refused(reason));
    }
    let settings = Settings::load(&place, &[])?;
    // Another program than sshd may have started this one.
    let from = sshd::login().and_then(|login| login.client);
    let who = Who::new(&client, from.unwrap_or((Ipv4Addr::LOCALHOST, 0).into()));
    let mut slot = Slot::take(&place, &client.key, settings.jobs_per_client)?;
    if slot.is_none() {
        Audit::open(&place, &settings)?.tell(&who, Event::Refused { reason: TOO_MANY });
        return Ok(ExitCode::Busy);
    }
    // The client's stream ends the process that serves it.
    interrupt::outlive_hangup().map_err(CommandError::io)?;
    let parent = std::process::id();
    let child = fork(|| {
        // It belongs to the parent, which frees it.
        slot = None;
        match serve_here(&place, &settings, &client, &who, parent) {
            Ok(code) => code.number(),
            Err(error) => end_of_command(&error).number(),
        }
    });
    let child = child.map_err(CommandError::io)?;
    let job = JobStatus { client: who.client.clone(), from: who.from, pid: child.id(), seconds: 0 };
    slot.iter_mut().try_for_each(|slot| slot.describe(&job)).map_err(CommandError::io)?;
    loop {
        if let Some(status) = child.wait_within(CHECK_EVERY).map_err(CommandError::io)? {
            return Ok(match status {
                Some(0) => ExitCode::Success,
                Some(status) if status == ExitCode::Connection.number() => ExitCode::Connection,
                _ => ExitCode::SomeFailed,
            });
        }
        let state = Records::state(&place);
        if state != read {
            read = state;
            let is_it = |known: &Client| known.is_served_like(&client);
            if !Records::load(&place).is_ok_and(|records| records.clients.iter().any(is_it)) {
                child.kill().map_err(CommandError::io)?;
            }
        }
    }
}

/// Serves `client` in a process of its own, which ends with `parent`.
fn serve_here(
    place: &Place,
    settings: &Settings,
    client: &Client,
    who: &Who,
    parent: u32,
) -> Result<ExitCode, CommandError> {
    let mut audit = Audit::open(place, settings)?;
    let cache = confine(place, settings.bounds(), parent, client).map_err(CommandError::io)?;
    let (input, output) = sshd::streams().map_err(CommandError::io)?;
    let begun = Instant::now();
    audit.tell(who, Event::Connected { pid: std::process::id() });
    let audit = Mutex::new(audit);
    let tell = |event: Event<'_>| {
        audit.lock().unwrap_or_else(PoisonError::into_inner).tell(who, event);
    };
    let report = |report: Report| match report {
        Report::Job(job) => tell(Event::Job(&job)),
        Report::Requests(count) => tell(Event::Requests { count }),
        Report::Ready | Report::Refused(_) | Report::Enrolled(_) => {}
    };
    let doorway = Err("a login restricted to a directory opens no ports");
    let connection = Connection::of_streams(input, output).map_err(CommandError::io)?;
    let (outcome, code) = match serve_over(connection, client, cache, doorway, &report) {
        Ok(()) => ("done", ExitCode::Success),
        Err(JobError::Connection(_)) => ("lost", ExitCode::Connection),
        // The client was told over the connection, or is gone.
        Err(_) => ("failed", ExitCode::SomeFailed),
    };
    tell(Event::Disconnected { seconds: begun.elapsed().as_secs(), outcome });
    Ok(code)
}

fn refused(reason: &str) -> CommandError {
    CommandError::new(ErrorKind::Refused, reason.to_owned())
}

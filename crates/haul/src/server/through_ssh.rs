//! A client that reaches the server's host through ssh, since the server does not answer. It
//! is served as the server would serve it: with its root, its right and its user.

use super::audit::{Audit, Event, Who};
use super::child::{confine, job_report, refusal};
use super::{Client, Place, Records, Settings};
use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::interrupt;
use crate::report::end_of_command;
use crate::sshd;
use haul_engine::{JobError, Serving, Summary, fork};
use haul_model::{Side, Task};
use haul_net::{Connection, PublicKey};
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the record of a client is checked while the client is served.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// Serves the client that has this key, over standard input and output, as long as its record
/// stays. **No other thread runs yet.**
///
/// # Errors
/// When the client is not enrolled, or there can be no process for it.
pub(crate) fn serve(key: PublicKey) -> Result<ExitCode, CommandError> {
    let place = Place::find()?;
    let mut read = Records::state(&place);
    let client = Records::load(&place)?.clients.into_iter().find(|client| client.key == key);
    let client = client.ok_or_else(|| refused("this client is not enrolled at the server"))?;
    if let Some(reason) = refusal(&client) {
        return Err(refused(reason));
    }
    let failed = |error: io::Error| CommandError::new(ErrorKind::Io, error);
    // The client's stream ends the process that serves it.
    interrupt::outlive_hangup().map_err(failed)?;
    let parent = std::process::id();
    let child = fork(|| match serve_here(&place, &client, parent) {
        Ok(code) => code.number(),
        Err(error) => end_of_command(&error).number(),
    });
    let child = child.map_err(failed)?;
    loop {
        if let Some(status) = child.wait_within(CHECK_EVERY).map_err(failed)? {
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
                child.kill().map_err(failed)?;
            }
        }
    }
}

/// Serves `client` in a process of its own, which ends with `parent`.
fn serve_here(place: &Place, client: &Client, parent: u32) -> Result<ExitCode, CommandError> {
    let settings = Settings::load(place, &[])?;
    let mut audit = Audit::open(settings.audit_log.as_deref().unwrap_or(&place.audit_log()))?;
    // Another program than sshd may have started this one.
    let from = sshd::login().and_then(|login| login.client);
    let who = Who::new(client, from.unwrap_or((Ipv4Addr::LOCALHOST, 0).into()));
    let failed = |error: io::Error| CommandError::new(ErrorKind::Io, error);
    let cache = confine(place, settings.bounds(), parent, client).map_err(failed)?;
    let (input, output) = sshd::streams().map_err(failed)?;
    let begun = Instant::now();
    audit.tell(&who, Event::Connected { pid: std::process::id() });
    let audit = Mutex::new(audit);
    let tell = |event: Event<'_>| {
        audit.lock().unwrap_or_else(PoisonError::into_inner).tell(&who, event);
    };
    let on_end = |task: &Task, side: Side, result: &Result<Summary, JobError>| {
        tell(Event::Job(&job_report(task, side, result)));
    };
    let on_requests = |count| tell(Event::Requests { count });
    let serving = Serving {
        rights: client.right.into(),
        on_failure: &interrupt::leave_in_time,
        doorway: Err("a login restricted to a directory opens no ports"),
        program: None,
        calls: false,
        on_end: &on_end,
        cache: &|| cache.clone(),
        on_requests: &on_requests,
    };
    let connection = Connection::of_streams(input, output).map_err(failed)?;
    let served = haul_engine::serve_with(serving, connection);
    let (outcome, code) = match served {
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

//! A client that reaches the server's host through ssh, since the server does not answer. It
//! is served as the server would serve it: with its root, its right and its user.

use super::audit::{Audit, Event, Who};
use super::child::{confine, job_report, refusal};
use super::{Client, Place, Records, Settings};
use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::interrupt;
use crate::report::end_of_command;
use haul_engine::{JobError, Serving, Summary, fork};
use haul_model::{Side, Task};
use haul_net::{Connection, PublicKey};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often is looked if the process that serves a client has ended, and how often at the
/// record of the client.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// Serves the client that has this key, over standard input and output, as long as its record
/// stays. **No other thread runs yet.**
///
/// # Errors
/// When the client is not enrolled, or there can be no process for it.
pub(crate) fn serve(key: PublicKey) -> Result<ExitCode, CommandError> {
    let place = Place::find()?;
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
    let mut checked = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(match status {
                Some(0) => ExitCode::Success,
                Some(status) if status == ExitCode::Connection.number() => ExitCode::Connection,
                _ => ExitCode::SomeFailed,
            });
        }
        if checked.elapsed() >= CHECK_EVERY {
            checked = Instant::now();
            let is_it = |known: &Client| known.is_served_like(&client);
            if !Records::load(&place).is_ok_and(|records| records.clients.iter().any(is_it)) {
                child.kill().map_err(failed)?;
            }
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Serves `client` in a process of its own, which ends with `parent`.
fn serve_here(place: &Place, client: &Client, parent: u32) -> Result<ExitCode, CommandError> {
    let settings = Settings::load(place, &[])?;
    let mut audit = Audit::open(settings.audit_log.as_deref().unwrap_or(&place.audit_log()))?;
    let who = Who::new(client, client_address());
    let failed = |error: io::Error| CommandError::new(ErrorKind::Io, error);
    confine(settings.bounds(), parent, client).map_err(failed)?;
    let input = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(failed)?);
    haul_net::enlarge_pipe(&input);
    haul_net::enlarge_pipe(&output);
    let begun = Instant::now();
    audit.tell(&who, Event::Connected { pid: std::process::id() });
    let audit = Mutex::new(audit);
    let tell = |event: Event<'_>| {
        audit.lock().unwrap_or_else(PoisonError::into_inner).tell(&who, event);
    };
    let on_end = |task: &Task, side: Side, result: &Result<Summary, JobError>| {
        tell(Event::Job(&job_report(task, side, result)));
    };
    let serving = Serving {
        rights: client.right.into(),
        on_failure: &interrupt::leave_in_time,
        doorway: Err("a login restricted to a directory opens no ports"),
        program: None,
        calls: false,
        on_end: &on_end,
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

/// The address of the client, as sshd tells it.
fn client_address() -> SocketAddr {
    let words = std::env::var("SSH_CONNECTION").unwrap_or_default();
    let mut words = words.split(' ');
    let ip = words.next().and_then(|ip| ip.parse::<IpAddr>().ok());
    let port = words.next().and_then(|port| port.parse().ok());
    SocketAddr::new(ip.unwrap_or(Ipv4Addr::LOCALHOST.into()), port.unwrap_or(0))
}

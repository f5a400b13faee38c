//! A client that reaches the server's host through ssh, since the server does not answer. It
//! is served as the server would serve it: with its root, its right and its user.

use super::audit::{Audit, Event, Who};
use super::child::{confine, job_report, refusal};
use super::{Place, Records, Settings};
use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::interrupt;
use haul_engine::{JobError, Serving, Summary};
use haul_model::{Side, Task};
use haul_net::{Connection, PublicKey};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Serves the client that has this key, over standard input and output. **No other thread runs
/// yet.**
///
/// # Errors
/// When the client is not enrolled, or can't be confined.
pub(crate) fn serve(key: PublicKey) -> Result<ExitCode, CommandError> {
    let place = Place::find()?;
    let records = Records::load(&place)?;
    let client = records.clients.into_iter().find(|client| client.key == key);
    let client = client.ok_or_else(|| refused("this client is not enrolled at the server"))?;
    if let Some(reason) = refusal(&client) {
        return Err(refused(reason));
    }
    let settings = Settings::load(&place, &[])?;
    let mut audit = Audit::open(settings.audit_log.as_deref().unwrap_or(&place.audit_log()))?;
    let who = Who::new(&client, client_address());
    let failed = |error: io::Error| CommandError::new(ErrorKind::Io, error);
    confine(settings.bounds(), None, &client).map_err(failed)?;
    interrupt::outlive_hangup().map_err(failed)?;
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

//! Serves a client that connects through ssh because the server does not answer. The client has the
//! same root, right and user as with the server. This process does for one child what the server's
//! main process does for all.

use super::audit::{Audit, ClientInfo, Event};
use super::child::{self, ChildContext, Reports, TOO_MANY};
use super::jobs::Job;
use super::slots::Slot;
use super::{Client, Records, ServerPaths, Settings};
use crate::error::{CommandError, ExitCode};
use crate::report::print_error;
use crate::{interrupt, sshd};
use haul_engine::fork;
use haul_net::{PublicKey, Refusal, wait_for_input};
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Interval for checking the client's record while a job runs.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// Serves the client with this key over standard input and output, while its record exists. **No
/// other thread may run yet.** The exit code tells the client why it is refused.
pub(crate) fn serve(key: PublicKey) -> ExitCode {
    serve_client(key).unwrap_or_else(|error| {
        print_error(&error);
        ExitCode::Refused(Refusal::Unserved)
    })
}

fn serve_client(key: PublicKey) -> Result<ExitCode, CommandError> {
    let paths = ServerPaths::find()?;
    let (records, mut read) = Records::load_with_state(&paths)?;
    let client = records.clients.into_iter().find(|client| client.key == key);
    let Some(client) = client else { return Ok(ExitCode::Refused(Refusal::NotEnrolled)) };
    let settings = Settings::load(&paths, &[])?;
    let mut audit = Audit::open(&settings.audit_log)?;
    // Another program than sshd may have started this process.
    let from = sshd::login().and_then(|login| login.client);
    let client_info = ClientInfo::new(&client, from.unwrap_or((Ipv4Addr::LOCALHOST, 0).into()));
    let slot = Slot::take(&paths, &client.key, settings.jobs_per_client);
    let begun = match (child::refusal(&client), slot) {
        (Some(reason), _) => Err((Refusal::Unserved, reason.to_owned())),
        (None, Ok(None)) => Err((Refusal::Busy, TOO_MANY.to_owned())),
        (None, Err(error)) => Err((Refusal::Unserved, error.to_string())),
        (None, Ok(Some(slot))) => {
            let begun = start(&paths, &settings, client_info.clone(), (client, slot), &mut audit);
            begun.map_err(|error| (Refusal::Unserved, error.to_string()))
        }
    };
    let mut job = match begun {
        Ok(job) => job,
        Err((refusal, reason)) => {
            audit.log(&client_info, Event::Refused { reason: &reason });
            return Ok(ExitCode::Refused(refusal));
        }
    };
    let mut is_known = true;
    while job.poll(wait_for_input(job.fd(), CHECK_EVERY).unwrap_or(true), &mut audit) {
        // Records that can't be read are read again later.
        if Records::state(&paths) != read
            && let Ok((records, state)) = Records::load_with_state(&paths)
        {
            read = state;
            is_known = records.clients.iter().any(|known| known.key == key);
            job.end_if_outdated(&records.clients);
        }
    }
    Ok(match job.outcome {
        "done" => ExitCode::Success,
        "refused" => ExitCode::Refused(Refusal::Unserved),
        "revoked" if !is_known => ExitCode::Refused(Refusal::NotEnrolled),
        "revoked" | "lost" => ExitCode::Connection,
        _ => ExitCode::SomeFailed,
    })
}

/// Starts the child that serves the client.
fn start(
    paths: &ServerPaths,
    settings: &Settings,
    client_info: ClientInfo,
    (client, slot): (Client, Slot),
    audit: &mut Audit,
) -> io::Result<Job> {
    // The child ends with the client's stream, not by SIGHUP.
    interrupt::ignore_hangup()?;
    let (reports, to) = io::pipe()?;
    let (bounds, parent) = (settings.bounds(), std::process::id());
    let mut slot = Some(slot);
    let child = fork(|| {
        // The child must not hold these.
        slot = None;
        audit.close_in_child();
        let context = ChildContext { paths, bounds, parent, reports: Reports(to.into()) };
        child::serve_streams(&context, &client)
    })?;
    let key = client.key;
    let served = slot.map(|slot| (client, slot));
    let mut job = Job::new(child, client_info, served, key, (reports, None), audit);
    job.describe();
    Ok(job)
}

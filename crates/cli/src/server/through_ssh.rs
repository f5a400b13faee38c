//! Serves a client that connects through ssh because the server does not answer. The client has the
//! same root, right and user as with the server. This process does for one child what the server's
//! main process does for all.

use super::audit::{Audit, Event, Who};
use super::child::{self, Around, Reports, TOO_MANY};
use super::jobs::Job;
use super::slots::Slot;
use super::{Client, Place, Records, Settings};
use crate::error::{CommandError, ExitCode};
use crate::report::end_of_command;
use crate::{interrupt, sshd};
use haul_engine::fork;
use haul_net::{PublicKey, Refusal, await_input};
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Interval for checking the client's record while a job runs.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// Serves the client with this key over standard input and output, while its record exists. **No
/// other thread may run yet.** The exit code tells the client why it is refused.
pub(crate) fn serve(key: PublicKey) -> ExitCode {
    serve_client(key).unwrap_or_else(|error| {
        end_of_command(&error);
        ExitCode::Refused(Refusal::Unserved)
    })
}

fn serve_client(key: PublicKey) -> Result<ExitCode, CommandError> {
    let place = Place::find()?;
    let (records, mut read) = Records::load_written(&place)?;
    let client = records.clients.into_iter().find(|client| client.key == key);
    let Some(client) = client else { return Ok(ExitCode::Refused(Refusal::NotEnrolled)) };
    let settings = Settings::load(&place, &[])?;
    let mut audit = Audit::open(&settings.audit_log)?;
    // Another program than sshd may have started this process.
    let from = sshd::login().and_then(|login| login.client);
    let who = Who::new(&client, from.unwrap_or((Ipv4Addr::LOCALHOST, 0).into()));
    let slot = Slot::take(&place, &client.key, settings.jobs_per_client);
    let begun = match (child::refusal(&client), slot) {
        (Some(reason), _) => Err((Refusal::Unserved, reason.to_owned())),
        (None, Ok(None)) => Err((Refusal::Busy, TOO_MANY.to_owned())),
        (None, Err(error)) => Err((Refusal::Unserved, error.to_string())),
        (None, Ok(Some(slot))) => {
            let begun = start(&place, &settings, who.clone(), (client, slot), &mut audit);
            begun.map_err(|error| (Refusal::Unserved, error.to_string()))
        }
    };
    let mut job = match begun {
        Ok(job) => job,
        Err((refusal, reason)) => {
            audit.tell(&who, Event::Refused { reason: &reason });
            return Ok(ExitCode::Refused(refusal));
        }
    };
    let mut is_known = true;
    while job.proceed(await_input(job.fd(), CHECK_EVERY).unwrap_or(true), &mut audit) {
        // Records that can't be read are read again later.
        if Records::state(&place) != read
            && let Ok((records, state)) = Records::load_written(&place)
        {
            read = state;
            is_known = records.clients.iter().any(|known| known.key == key);
            job.keep_to(&records.clients);
        }
    }
    Ok(match job.outcome() {
        "done" => ExitCode::Success,
        "refused" => ExitCode::Refused(Refusal::Unserved),
        "revoked" if !is_known => ExitCode::Refused(Refusal::NotEnrolled),
        "revoked" | "lost" => ExitCode::Connection,
        _ => ExitCode::SomeFailed,
    })
}

/// Starts the child that serves the client.
fn start(
    place: &Place,
    settings: &Settings,
    who: Who,
    (client, slot): (Client, Slot),
    audit: &mut Audit,
) -> io::Result<Job> {
    // The child ends with the client's stream, not by SIGHUP.
    interrupt::outlive_hangup()?;
    let (reports, to) = io::pipe()?;
    let (bounds, parent) = (settings.bounds(), std::process::id());
    let mut slot = Some(slot);
    let child = fork(|| {
        // The child must not hold these.
        slot = None;
        audit.abandon();
        let around = Around { place, bounds, parent, reports: Reports::new(to) };
        child::serve_streams(&around, &client)
    })?;
    let key = client.key;
    let served = slot.map(|slot| (client, slot));
    let mut job = Job::new(child, who, served, key, (reports, None), audit);
    job.describe();
    Ok(job)
}

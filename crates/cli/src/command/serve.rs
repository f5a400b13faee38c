//! `haul serve`: the agent that a client talks to through standard input and
//! output.

use crate::args::Serve;
use crate::cache;
use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::interrupt;
use crate::report;
use crate::sshd;
use haul_engine::{JobError, Rights, Serving};
use haul_model::escape_bytes;
use haul_net::{CLIENT_LOST_STATUS, Connection, Doorway};
use std::io;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;

const _: () = assert!(ExitCode::Connection.number() == CLIENT_LOST_STATUS);

/// Serves until the client is gone.
pub(super) fn run(words: &Serve) -> ExitCode {
    match serve(words) {
        Ok(code) => code,
        // The client reads this line from standard error and shows it.
        Err(error) => {
            report::end_of_command(&error);
            ExitCode::SomeFailed
        }
    }
}

fn serve(words: &Serve) -> Result<ExitCode, CommandError> {
    let failed = |error: io::Error| CommandError::new(ErrorKind::Io, error);
    let rights = if words.read_only { Rights::Read } else { Rights::Write };
    if let Some(root) = &words.root {
        // Before any thread is started.
        haul_engine::stay_below(root, false, rights, None).map_err(|error| {
            let root = escape_bytes(root.as_os_str().as_bytes());
            failed(io::Error::new(
                error.kind(),
                format!("can't restrict access to {root}: {error}"),
            ))
        })?;
    }
    interrupt::outlive_hangup().map_err(failed)?;
    let (input, output) = sshd::streams().map_err(failed)?;
    let doorway = match words.root {
        // Such a login is for files alone.
        Some(_) => Err("a login restricted to a directory opens no ports"),
        None => reached_address().map(Doorway::Port),
    };
    // What is outside of its directory is nobody's business.
    let program = std::env::current_exe().ok().filter(|_| words.root.is_none());
    let serving = Serving {
        rights,
        program: program.as_deref(),
        on_failure: &interrupt::leave_in_time,
        // Such a login is for files alone.
        calls: words.root.is_none(),
        doorway: doorway.as_ref().map_err(|reason| *reason),
        cache: &|| if words.root.is_none() { cache::open() } else { None },
        ..Serving::default()
    };
    let connection = Connection::of_streams(input, output).map_err(failed)?;
    let served = haul_engine::serve_with(serving, connection);
    Ok(match served {
        Ok(()) => ExitCode::Success,
        // There may have been no way to tell the client.
        Err(error @ JobError::Threads(_)) => return Err(error.into()),
        // A client that was only stopped, or asleep, finds this when it wakes up, and
        // connects again.
        Err(JobError::Connection(_)) => ExitCode::Connection,
        Err(error) => {
            // The client was told over the connection, or is gone; standard
            // error would tell its user the same a second time.
            tracing::debug!(%error, "the job failed");
            ExitCode::SomeFailed
        }
    })
}

/// The address of this machine that the client's ssh has reached.
fn reached_address() -> Result<IpAddr, &'static str> {
    let login = sshd::login()
        .ok_or("the host has no ssh connection, or sshd does not report its address")?;
    login.reached.ok_or("the host was reached by an address without listening ports")
}

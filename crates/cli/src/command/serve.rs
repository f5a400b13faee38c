//! `haul serve`: the agent. It serves a client over standard input and output.

use crate::args::Serve;
use crate::cache;
use crate::error::{CommandError, ExitCode};
use crate::interrupt;
use crate::report;
use crate::sshd;
use haul::files::shown;
use haul_engine::{JobError, Rights, ServeOptions};
use haul_net::{CLIENT_LOST_STATUS, Connection, ListenTarget};
use std::io;
use std::net::IpAddr;

const _: () = assert!(ExitCode::Connection.number() == CLIENT_LOST_STATUS);

/// Serves until the client disconnects.
pub(super) fn run(words: &Serve) -> ExitCode {
    match serve(words) {
        Ok(code) => code,
        // The client reads this line from standard error and shows it.
        Err(error) => {
            report::print_error(&error);
            ExitCode::SomeFailed
        }
    }
}

fn serve(words: &Serve) -> Result<ExitCode, CommandError> {
    let failed = |error: io::Error| CommandError::io(error);
    let rights = if words.read_only { Rights::Read } else { Rights::Write };
    if let Some(root) = &words.root {
        // The restriction must apply before any thread starts.
        haul_engine::confine_below(root, false, rights, None).map_err(|error| {
            let root = shown(root);
            failed(io::Error::new(
                error.kind(),
                format!("can't restrict access to {root}: {error}"),
            ))
        })?;
    }
    interrupt::ignore_hangup().map_err(failed)?;
    let (input, output) = sshd::streams().map_err(failed)?;
    let listen_target = match words.root {
        // A restricted login gives access to files only.
        Some(_) => Err("a login restricted to a directory opens no ports"),
        None => reached_address().map(ListenTarget::Port),
    };
    // The program is outside the directory of a restricted login.
    let program = std::env::current_exe().ok().filter(|_| words.root.is_none());
    let serving = ServeOptions {
        rights,
        program: program.as_deref(),
        on_failure: &interrupt::exit_after_cleanup_max,
        // A restricted login gives access to files only.
        calls: words.root.is_none(),
        listen_target: listen_target.as_ref().map_err(|reason| *reason),
        cache: &|| if words.root.is_none() { cache::open() } else { None },
        ..ServeOptions::default()
    };
    let connection = Connection::from_streams(input, output).map_err(failed)?;
    let served = haul_engine::serve_with(serving, connection);
    Ok(match served {
        Ok(()) => ExitCode::Success,
        // The client may not have received this error.
        Err(error @ JobError::Threads(_)) => return Err(error.into()),
        // A suspended client finds this status when it wakes up, and reconnects.
        Err(JobError::Connection(_)) => ExitCode::Connection,
        Err(error) => {
            // The client received the error over the connection, or has disconnected. On standard
            // error its user would see it a second time.
            tracing::debug!(%error, "the job failed");
            ExitCode::SomeFailed
        }
    })
}

/// The address of this machine to which the client's ssh connected.
fn reached_address() -> Result<IpAddr, &'static str> {
    let login = sshd::login()
        .ok_or("the host has no ssh connection, or sshd does not report its address")?;
    login.reached.ok_or("the host was reached by an address without listening ports")
}

//! `haul serve`: the agent that a client talks to through standard input and
//! output.

use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::interrupt;
use crate::report;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// Serves until the client is gone.
pub(super) fn run() -> ExitCode {
    match serve() {
        Ok(code) => code,
        // The client reads this line from standard error and shows it.
        Err(error) => {
            report::end_of_command(&error);
            ExitCode::SomeFailed
        }
    }
}

fn serve() -> Result<ExitCode, CommandError> {
    let failed = |error: io::Error| CommandError::new(ErrorKind::Io, error);
    interrupt::outlive_hangup().map_err(failed)?;
    // The descriptors themselves: Rust's own standard streams are buffered.
    let input = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(failed)?);
    haul_net::enlarge_pipe(&input);
    haul_net::enlarge_pipe(&output);
    let served = haul_engine::serve(input, output);
    // The process ends here, whatever its threads still hold.
    haul_engine::remove_unpublished();
    Ok(match served {
        Ok(()) => ExitCode::Success,
        Err(error) => {
            // The client was told over the connection, or is gone; standard
            // error would tell its user the same a second time.
            tracing::debug!(%error, "the job failed");
            ExitCode::SomeFailed
        }
    })
}

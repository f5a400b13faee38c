//! Runs a job in its own process, which confines itself. The process of the connection stays
//! unconfined for the client's next visit.

use super::conversation::Client;
use crate::JobError;
use haul_net::CLIENT_LOST_STATUS;

/// Exit status: the job has ended, and the connection is at rest.
const EXIT_IDLE: u8 = 0;

/// Exit status: the job has failed, or the client does not keep the connection.
const EXIT_CLOSED: u8 = 1;

/// Serves the job of `client` in a child process; the second argument of `serve` is true there.
/// Returns true if the connection is at rest afterwards. If this process has other threads, there
/// is no child, and the connection ends with the job.
///
/// # Errors
/// When no child can be created, or the client has left.
pub(super) fn serve(
    client: Client,
    serve: impl FnOnce(Client, bool) -> Result<(), JobError>,
) -> Result<bool, JobError> {
    // This ends the threads of the client.
    let streams = client.into_streams()?;
    if !haul_sys::is_single_threaded() {
        return serve(Client::from_streams(streams)?, false).map(|()| false);
    }
    let parent = std::process::id();
    let child = haul_sys::fork(|| {
        if let Err(error) = haul_sys::die_with_parent(parent) {
            tracing::debug!(%error, "the job may outlive the agent");
        }
        let served = Client::from_streams(streams).and_then(|client| serve(client, true));
        tracing::debug!(?served, "the connection ends with the job");
        match served {
            Err(JobError::Connection(_)) => CLIENT_LOST_STATUS,
            // The client was informed.
            Ok(()) | Err(_) => EXIT_CLOSED,
        }
    });
    match child.and_then(haul_sys::Child::wait).map_err(JobError::Threads)? {
        Some(EXIT_IDLE) => Ok(true),
        Some(CLIENT_LOST_STATUS) => Err(super::lost(&std::io::ErrorKind::BrokenPipe.into())),
        // A signal may have ended the child. The client sees the end.
        _ => Ok(false),
    }
}

/// Ends the process of a job whose connection is at rest.
pub(super) fn end_idle() -> ! {
    haul_sys::exit_at_once(EXIT_IDLE)
}

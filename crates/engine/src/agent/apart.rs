//! A job in a process of its own. That confines itself, and the process of the connection stays
//! as it is for the client's next visit.

use super::conversation::Client;
use crate::JobError;
use haul_net::CLIENT_LOST_STATUS;

/// The status of a process whose job has ended, and whose connection is at rest.
const AT_REST: u8 = 0;

/// The same of a job that has failed, or whose client does not keep the connection.
const OVER: u8 = 1;

/// Has a child process `serve` the job of `client`; the argument says whether it is one. Returns
/// true if the connection is at rest then. Where other threads run, there is no child, and the
/// connection ends with the job.
///
/// # Errors
/// When there is no child, or the client has left.
pub(super) fn serve(
    client: Client,
    serve: impl FnOnce(Client, bool) -> Result<(), JobError>,
) -> Result<bool, JobError> {
    // The threads of the client end with this.
    let line = client.into_line()?;
    if !haul_sys::is_single_threaded() {
        return serve(Client::of_line(line)?, false).map(|()| false);
    }
    let parent = std::process::id();
    let child = haul_sys::fork(|| {
        if let Err(error) = haul_sys::end_with_parent(parent) {
            tracing::debug!(%error, "the job may outlive the agent");
        }
        let served = Client::of_line(line).and_then(|client| serve(client, true));
        tracing::debug!(?served, "the connection ends with the job");
        match served {
            Err(JobError::Connection(_)) => CLIENT_LOST_STATUS,
            // The client knows.
            Ok(()) | Err(_) => OVER,
        }
    });
    match child.and_then(haul_sys::Child::wait).map_err(JobError::Threads)? {
        Some(AT_REST) => Ok(true),
        Some(CLIENT_LOST_STATUS) => Err(super::lost(&std::io::ErrorKind::BrokenPipe.into())),
        // A signal may have ended it. The client sees the end.
        _ => Ok(false),
    }
}

/// Ends the process of a job that has ended, and whose connection is at rest.
pub(super) fn end_at_rest() -> ! {
    haul_sys::exit_at_once(AT_REST)
}

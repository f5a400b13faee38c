//! Logins that join a job of another: the process that such a login has started finds the
//! agent of the job by the secret that the client tells both, hands its streams over, and
//! waits, so that sshd keeps the connection.

use super::CLIENT;
use super::conversation::Client;
use crate::JobError;
use haul_net::{Closer, ConnectError};
use haul_proto::{Abort, Join, JoinSecret, Message};
use haul_sys::{Handover, Taker};

/// Waits for those who know `secret`, if that can be done. **To be called before the thread
/// is confined.**
pub(super) fn open(secret: &JoinSecret) -> Option<Handover> {
    let handover = Handover::new(secret);
    if let Err(error) = &handover {
        tracing::debug!(%error, "no login can join");
    }
    handover.ok().flatten()
}

/// Hands the connection to `client`, which `closer` holds open, over to the agent of the job
/// that it `join`s, and returns when that lets go of it.
///
/// # Errors
/// When the client has gone, or does not wait for an answer.
pub(super) fn join(client: Client, join: Join, closer: &Closer) -> Result<(), JobError> {
    let found = join.secret.map(|secret| Taker::find(&secret));
    let (Some(Ok(taker)), Some([input, output])) = (found, closer.streams()) else {
        // Nothing is told of what else there is.
        client.tell(&Message::Abort(Abort::Usage("there is no such job to join".to_owned())));
        return client.into_line().map(|_| ());
    };
    // From here on the agent speaks.
    let line = client.into_line()?;
    if !line.input.buffer().is_empty() {
        return Err(JobError::Protocol("the client did not wait until it had joined".to_owned()));
    }
    let handed_over = taker.hand_over(join.lane, input, output);
    handed_over.map_err(|error| {
        let (host, detail) = (CLIENT.to_owned(), error.to_string());
        ConnectError::Lost { host, detail }.into()
    })
}

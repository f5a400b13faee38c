//! Logins that join an existing job. The process of such a login finds the job's agent by the
//! secret that the client sends to both. It hands over its streams and waits, so that sshd keeps
//! the connection.

use super::CLIENT;
use super::conversation::Client;
use crate::JobError;
use haul_net::{Closer, ConnectError};
use haul_proto::{Abort, Join, JoinSecret, Message};
use haul_sys::{Handover, HandoverTarget};
use std::io;
use std::time::{Duration, Instant};

/// How long a login may arrive before its job's own login: the client starts further logins while
/// the first is slow.
const EARLY_MAX: Duration = Duration::from_secs(3);

/// The interval at which it looks for the job's agent.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Waits for logins that know `secret`, if possible. **Call it before the thread is confined.**
pub(super) fn open(secret: &JoinSecret) -> Option<Handover> {
    let handover = Handover::new(secret);
    if let Err(error) = &handover {
        tracing::debug!(%error, "no login can join");
    }
    handover.ok().flatten()
}

/// Hands the connection to `client`, which `closer` holds open, over to the agent of the job that
/// it `join`s. Returns when the agent closes it.
///
/// # Errors
/// When the client has left, or does not wait for the answer.
pub(super) fn join(client: Client, join: Join, closer: &Closer) -> Result<(), JobError> {
    let found = join.secret.map(|secret| find(&secret));
    let (Some(Ok(taker)), Some([input, output])) = (found, closer.streams()) else {
        // Nothing else is revealed.
        client.send_message(&Message::Abort(Abort::Usage("no such job to join".to_owned())));
        return client.into_streams().map(|_| ());
    };
    // From here on the agent sends the messages.
    let streams = client.into_streams()?;
    if !streams.input.buffer().is_empty() {
        return Err(JobError::Protocol(
            "the client did not wait for the join to finish".to_owned(),
        ));
    }
    let handed_over = taker.hand_over(join.lane, input, output);
    handed_over.map_err(|error| ConnectError::lost(CLIENT, &error).into())
}

/// Finds the agent of a job, which may not have started yet.
fn find(secret: &JoinSecret) -> io::Result<HandoverTarget> {
    let begun = Instant::now();
    loop {
        match HandoverTarget::find(secret) {
            Err(error) if is_absent(&error) && begun.elapsed() < EARLY_MAX => {
                std::thread::sleep(POLL_INTERVAL);
            }
            found => return found,
        }
    }
}

/// True if no agent listens.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

//! Logins that join a job of another: the process that such a login has started finds the
//! agent of the job by the secret that the client sends both, hands its streams over, and
//! waits, so that sshd keeps the connection.

use super::CLIENT;
use super::conversation::Client;
use crate::JobError;
use haul_net::{Closer, ConnectError};
use haul_proto::{Abort, Join, JoinSecret, Message};
use haul_sys::{Handover, Taker};
use std::io;
use std::time::{Duration, Instant};

/// How long a login may come before that of its job: the client begins others when the first
/// takes long.
const EARLY_MAX: Duration = Duration::from_secs(3);

/// How often it looks whether that is there.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

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
/// When the client has left, or does not wait for an answer.
pub(super) fn join(client: Client, join: Join, closer: &Closer) -> Result<(), JobError> {
    let found = join.secret.map(|secret| find(&secret));
    let (Some(Ok(taker)), Some([input, output])) = (found, closer.streams()) else {
        // Nothing else is revealed.
        client.tell(&Message::Abort(Abort::Usage("no such job to join".to_owned())));
        return client.into_line().map(|_| ());
    };
    // From here on the agent speaks.
    let line = client.into_line()?;
    if !line.input.buffer().is_empty() {
        return Err(JobError::Protocol(
            "the client did not wait for the join to finish".to_owned(),
        ));
    }
    let handed_over = taker.hand_over(join.lane, input, output);
    handed_over.map_err(|error| ConnectError::lost(CLIENT, &error).into())
}

/// Finds the agent of a job, which may be about to come.
fn find(secret: &JoinSecret) -> io::Result<Taker> {
    let begun = Instant::now();
    loop {
        match Taker::find(secret) {
            Err(error) if is_absent(&error) && begun.elapsed() < EARLY_MAX => {
                std::thread::sleep(LOOK_AGAIN);
            }
            found => return found,
        }
    }
}

/// True if nobody listens.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

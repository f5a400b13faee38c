//! The successor of a job's agent, when a client retries after a lost connection. The previous
//! agent may not notice the loss for a long time, so it is made to leave and release its locks.

use haul_net::Killer;
use haul_proto::TOKEN_LEN;
use haul_sys::{Lease, Successor};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long the previous agent may take to leave, including a last checkpoint. Then it is killed.
const LEAVING_MAX: Duration = Duration::from_secs(5);

/// This agent's place in its job, until it is dropped.
pub(super) struct JobClaim {
    lease: Arc<Lease>,
    waiter: Option<JoinHandle<Option<Successor>>>,
}

impl JobClaim {
    /// Takes the place of the previous agent, if there is one. `killer` disconnects the client when
    /// a successor takes this place. `None` if agents can't find each other; then only locks
    /// protect the files. **Call it before the thread is confined.**
    pub(super) fn take(token: &[u8; TOKEN_LEN], killer: Killer) -> Option<Self> {
        let taken = Lease::take(token, LEAVING_MAX);
        if let Err(error) = &taken {
            tracing::debug!(%error, "the agent before can't be relieved");
        }
        let lease = Arc::new(taken.ok()??);
        let held = Arc::clone(&lease);
        let waiter = Builder::new().name("heir".to_owned()).spawn(move || {
            let successor = held.successor();
            if successor.is_some() {
                killer.kill();
            }
            successor
        });
        Some(Self { lease, waiter: waiter.ok() })
    }
}

impl Drop for JobClaim {
    fn drop(&mut self) {
        self.lease.leave();
        // The successor waits for this.
        if let Some(waiter) = self.waiter.take() {
            drop(waiter.join());
        }
    }
}

//! The next agent of the same job: a client whose connection was lost has begun it again.
//! The one before may not know of that for long, and leaves, so that its locks are free.

use haul_net::Killer;
use haul_proto::TOKEN_LEN;
use haul_sys::{Post, Successor};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long the agent before may take to leave, with a last checkpoint of what it is at,
/// until it is killed.
const LEAVING_MAX: Duration = Duration::from_secs(5);

/// This agent's place in its job, until it is dropped.
pub(super) struct Held {
    post: Arc<Post>,
    waits: Option<JoinHandle<Option<Successor>>>,
}

impl Held {
    /// Takes the place of the agent before, if there is one; `killer` lets go of the client
    /// when somebody takes this one's. `None` if there is no way to find each other: then
    /// locks tell. **To be called before the thread is confined.**
    pub(super) fn take(token: &[u8; TOKEN_LEN], killer: Killer) -> Option<Self> {
        let taken = Post::take(token, LEAVING_MAX);
        if let Err(error) = &taken {
            tracing::debug!(%error, "the agent before can't be relieved");
        }
        let post = Arc::new(taken.ok()??);
        let held = Arc::clone(&post);
        let waits = Builder::new().name("heir".to_owned()).spawn(move || {
            let successor = held.successor();
            if successor.is_some() {
                killer.kill();
            }
            successor
        });
        Some(Self { post, waits: waits.ok() })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.post.leave();
        // The successor waits until this is over.
        if let Some(waits) = self.waits.take() {
            drop(waits.join());
        }
    }
}

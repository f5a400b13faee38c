//! Requests whose answer is taken later, or by another thread.

use crate::codec::Request;
use crate::session::Batch;
use crate::{Client, Result};
use std::sync::{Arc, LazyLock};

/// Waits for the answer.
type Receive = Box<dyn FnOnce() -> Result<()> + Send>;

/// The pending answer to a request. Clones share it. If all are dropped, the result stays unknown.
/// The request's room in the session is freed once the server has answered.
#[derive(Clone)]
pub struct PendingAnswer(Arc<LazyLock<Result<()>, Receive>>);

impl PendingAnswer {
    /// Sends the request. [`Self::wait`] reports a failure to send it.
    pub(crate) fn send(client: &Client, request: Request<'_>, path: &[u8]) -> Self {
        let batch = Batch::of(client, path, &[request]);
        batch.flush();
        let receive: Receive = Box::new(|| {
            let [answer] = batch.answers();
            answer.map(drop)
        });
        Self(Arc::new(LazyLock::new(receive)))
    }

    /// Waits for the answer. Any number of threads may call it, any number of times.
    ///
    /// # Errors
    /// The server's refusal, or the end of the session.
    pub fn wait(&self) -> Result<()> {
        LazyLock::force(&self.0).clone()
    }
}

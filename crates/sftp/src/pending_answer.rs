//! Requests whose answer is taken later, or by another thread.

use crate::Client;
use crate::codec::Request;
use crate::error::SftpError;
use crate::session::Batch;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

type Result<T> = std::result::Result<T, SftpError>;

/// The pending answer to a request. Clones share it. If all are dropped, the result stays unknown.
/// The request's room in the session is freed once the server has answered.
#[derive(Clone)]
pub struct PendingAnswer(Arc<Pending>);

struct Pending {
    /// `None` once a thread waits.
    batch: Mutex<Option<Batch>>,
    outcome: OnceLock<Result<()>>,
}

impl PendingAnswer {
    /// Sends the request. [`Self::wait`] reports a failure to send it.
    pub(crate) fn send(client: &Client, request: Request<'_>, path: &[u8]) -> Self {
        let batch = Batch::of(client, path, &[request]);
        batch.flush();
        Self(Arc::new(Pending { batch: Mutex::new(Some(batch)), outcome: OnceLock::new() }))
    }

    /// Waits for the answer. Any number of threads may call it, any number of times.
    ///
    /// # Errors
    /// The server's refusal, or the end of the session.
    pub fn wait(&self) -> Result<()> {
        let receive = || {
            let batch = self.0.batch.lock().take();
            let [answer] = batch.expect("taken once").answers();
            answer.map(drop)
        };
        self.0.outcome.get_or_init(receive).clone()
    }
}

//! Requests whose answer is taken later, or by another thread.

use crate::Client;
use crate::codec::{Attrs, Request};
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
    fn send(client: &Client, request: Request<'_>, path: &[u8]) -> Self {
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

impl Client {
    /// Like [`Self::make_dir`], without waiting for the answer. The server may handle later
    /// requests first, so send those about entries of the directory after the answer.
    pub fn make_dir_later(&self, path: &[u8], mode: u32) -> PendingAnswer {
        PendingAnswer::send(self, Request::Mkdir { path, attrs: Attrs::with_mode(mode) }, path)
    }

    /// Like [`Self::remove_file`], without waiting for the answer.
    pub fn remove_file_later(&self, path: &[u8]) -> PendingAnswer {
        PendingAnswer::send(self, Request::Remove { path }, path)
    }

    /// Like [`Self::set_attrs`], without waiting for the answer.
    pub fn set_attrs_later(&self, path: &[u8], attrs: Attrs) -> PendingAnswer {
        PendingAnswer::send(self, Request::Setstat { path, attrs }, path)
    }
}

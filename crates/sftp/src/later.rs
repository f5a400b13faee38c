//! Requests whose answer is taken later, or by another thread.

use crate::Client;
use crate::codec::{Attrs, Request};
use crate::error::SftpError;
use crate::session::Batch;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

type Result<T> = std::result::Result<T, SftpError>;

/// The answer to a request that was sent. Clones share the answer. If it is dropped, the
/// outcome of the request stays unknown; its room in the session is free as soon as the
/// server has answered.
#[derive(Clone)]
pub struct Later(Arc<Pending>);

struct Pending {
    /// `None` once somebody waits.
    batch: Mutex<Option<Batch>>,
    outcome: OnceLock<Result<()>>,
}

impl Later {
    /// Sends the request; [`Self::wait`] reports what prevents that.
    fn send(client: &Client, request: Request<'_>, path: &[u8]) -> Self {
        let batch = Batch::of(client, path, &[request]);
        batch.flush();
        Self(Arc::new(Pending { batch: Mutex::new(Some(batch)), outcome: OnceLock::new() }))
    }

    /// Waits for the answer. Any number of threads can wait, as often as they like.
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
    /// Like [`Self::make_dir`], without waiting for the answer. The server may serve later
    /// requests first: send those about entries of the directory after the answer.
    pub fn make_dir_later(&self, path: &[u8], mode: u32) -> Later {
        Later::send(self, Request::Mkdir { path, attrs: Attrs::with_mode(mode) }, path)
    }

    /// Like [`Self::remove_file`], without waiting for the answer.
    pub fn remove_file_later(&self, path: &[u8]) -> Later {
        Later::send(self, Request::Remove { path }, path)
    }

    /// Like [`Self::set_attrs`], without waiting for the answer.
    pub fn set_attrs_later(&self, path: &[u8], attrs: Attrs) -> Later {
        Later::send(self, Request::Setstat { path, attrs }, path)
    }
}

//! Requests whose answer is wanted later, or by somebody else.

use crate::Client;
use crate::client::succeeded;
use crate::codec::{Attrs, Request};
use crate::error::{Cause, SftpError};
use crate::session::{Payload, Port};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

type Result<T> = std::result::Result<T, SftpError>;

/// The answer to a request that is on its way. Clones stand for the same answer.
/// Dropped, it leaves open what became of the request; what that takes of the
/// session's room is free as soon as the server has answered.
#[derive(Clone)]
pub struct Later(Arc<Pending>);

struct Pending {
    port: Mutex<Port>,
    operation: &'static str,
    path: Box<[u8]>,
    outcome: OnceLock<Result<()>>,
}

impl Later {
    /// Sends the request; what prevents that is told by [`Self::wait`].
    pub(crate) fn send(client: &Client, request: &Request<'_>, path: &[u8]) -> Self {
        let mut port = client.port();
        let sent = client.check(request, path).and_then(|()| {
            port.send(0, request, Payload::NONE)?;
            Ok(port.flush()?)
        });
        let pending = Pending {
            port: Mutex::new(port),
            operation: request.operation(),
            path: path.into(),
            outcome: OnceLock::new(),
        };
        if let Err(cause) = sent {
            let failed = Err(SftpError::new(request, path, cause));
            pending.outcome.set(failed).expect("nobody has asked yet");
        }
        Self(Arc::new(pending))
    }

    /// Waits for the answer. Any thread can ask, and any number of them, as often
    /// as they like.
    ///
    /// # Errors
    /// The server's refusal, or the end of the session.
    pub fn wait(&self) -> Result<()> {
        self.0.outcome.get_or_init(|| self.0.receive()).clone()
    }
}

impl Pending {
    fn receive(&self) -> Result<()> {
        let mut port = self.port.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, answer) = port.next().expect("one thing was asked");
        answer
            .map_err(Cause::from)
            .and_then(succeeded)
            .map(drop)
            .map_err(|cause| SftpError::of(self.operation, &self.path, cause))
    }
}

impl Client {
    /// Like [`Self::make_dir`], without waiting for the answer. What is asked
    /// before that has come may be served first: ask for what is below the
    /// directory when it is there.
    pub fn make_dir_later(&self, path: &[u8], mode: u32) -> Later {
        Later::send(self, &Request::Mkdir { path, attrs: Attrs::with_mode(mode) }, path)
    }

    /// Like [`Self::remove_file`], without waiting for the answer.
    pub fn remove_file_later(&self, path: &[u8]) -> Later {
        Later::send(self, &Request::Remove { path }, path)
    }

    /// Like [`Self::set_attrs`], without waiting for the answer.
    pub fn set_attrs_later(&self, path: &[u8], attrs: Attrs) -> Later {
        Later::send(self, &Request::Setstat { path, attrs }, path)
    }
}

//! Requests that are sent together, and so take one round trip. Most are about one file.

use super::{Payload, Port};
use crate::Client;
use crate::codec::{Answer, Attrs, FsStats, PacketError, Request};
use crate::error::{SessionError, SftpError};

type Result<T> = std::result::Result<T, SftpError>;

/// Requests that were sent or queued, and whose answers are taken together.
pub struct Batch {
    port: Port,
    /// For messages.
    path: Box<[u8]>,
    operations: Vec<&'static str>,
    /// Why the session did not take the rest of them.
    unsent: Option<SftpError>,
}

impl Batch {
    /// An empty batch about the file at `path`.
    pub(crate) fn new(port: Port, path: &[u8]) -> Self {
        Self { port, path: path.into(), operations: Vec::new(), unsent: None }
    }

    /// A batch of these requests. From the first one that [`Client::check`] rejects on, none is
    /// sent.
    pub(crate) fn of(client: &Client, path: &[u8], requests: &[Request<'_>]) -> Self {
        let mut batch = Self::new(client.port(), path);
        for request in requests {
            match client.check(request, path) {
                Ok(()) => batch.send(request, Payload::NONE),
                Err(cause) => batch.refuse(request, SftpError::new(request, path, cause)),
            }
        }
        batch
    }

    /// Adds a request. It may stay queued until [`Self::flush`] or [`Self::wait`].
    pub(crate) fn send(&mut self, request: &Request<'_>, payload: Payload<'_>) {
        if let Some(unsent) = self.unsent.clone() {
            return self.refuse(request, unsent);
        }
        let tag = self.operations.len() as u64;
        match self.port.send(tag, request, payload) {
            Ok(()) => self.operations.push(request.operation()),
            Err(error) => self.refuse(request, SftpError::new(request, &self.path, error)),
        }
    }

    /// Adds a request that is not sent, like all that follow.
    fn refuse(&mut self, request: &Request<'_>, error: SftpError) {
        self.operations.push(request.operation());
        self.unsent.get_or_insert(error);
    }

    /// Sends queued requests.
    pub(crate) fn flush(&self) {
        // If that fails, every request gets the reason as its answer.
        let _ = self.port.flush();
    }

    /// Waits for all answers, in the order of their requests.
    pub(crate) fn wait(mut self) -> Vec<Result<Answer>> {
        let mut answers: Vec<_> = self.operations.iter().map(|_| None).collect();
        while let Some((tag, answer)) = self.port.next() {
            let failed = |cause| SftpError::of(self.operations[tag as usize], &self.path, cause);
            answers[tag as usize] = Some(answer.map_err(failed));
        }
        let stopped = || SftpError::of("reach", &self.path, SessionError::Stopped);
        let unsent = || Err(self.unsent.clone().unwrap_or_else(stopped));
        answers.into_iter().map(|answer| answer.unwrap_or_else(unsent)).collect()
    }

    /// Waits for the answers to exactly `N` requests.
    pub(crate) fn answers<const N: usize>(self) -> [Result<Answer>; N] {
        self.wait().try_into().expect("one answer for each request")
    }
}

impl Answer {
    pub(crate) fn handle(self) -> Result<Box<[u8]>> {
        expected(if let Self::Handle(handle) = self { Some(handle) } else { None })
    }

    pub(crate) fn attrs(self) -> Result<Attrs> {
        expected(if let Self::Attrs(attrs) = self { Some(attrs) } else { None })
    }

    pub(crate) fn path(self) -> Result<Box<[u8]>> {
        expected(if let Self::Path(path) = self { Some(path) } else { None })
    }

    pub(crate) fn fs_stats(self) -> Result<FsStats> {
        expected(if let Self::FsStats(stats) = self { Some(stats) } else { None })
    }
}

/// The content of an answer. [`crate::codec::Expected`] admits no other kind, so the error never
/// occurs.
fn expected<T>(content: Option<T>) -> Result<T> {
    let wrong = || SessionError::from(PacketError::EmptySuccess("a request"));
    content.ok_or_else(|| SftpError::of("understand the answer about", b"a file", wrong()))
}

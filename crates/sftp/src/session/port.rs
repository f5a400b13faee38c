//! One caller's end of a session. It sends many requests, and receives the answers in the order of
//! their arrival.

use super::payload::Payload;
use super::shared::{Buf, SessionState};
use crate::codec::{Answer, Request, StatusCode, TARGET_LEN_MAX};
use crate::error::{Cause, SessionError};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

type Result<T, E = SessionError> = std::result::Result<T, E>;

/// The answers for one port. It holds at most one per request of the port.
#[derive(Default)]
pub(super) struct Inbox {
    answers: Mutex<VecDeque<(u64, Result<Answer>)>>,
    arrived: Condvar,
}

impl Inbox {
    pub(super) fn deliver(&self, tag: u64, answer: Result<Answer>) {
        self.answers.lock().push_back((tag, answer));
        self.arrived.notify_one();
    }
}

/// Sends requests, and counts those without an answer.
pub(crate) struct Port {
    shared: Arc<SessionState>,
    inbox: Arc<Inbox>,
    outstanding: usize,
    /// Its requests are about small files.
    is_small: bool,
}

impl Port {
    pub(crate) fn new(shared: &Arc<SessionState>, is_small: bool) -> Self {
        let (shared, inbox) = (Arc::clone(shared), Arc::default());
        Self { shared, inbox, outstanding: 0, is_small }
    }

    /// Sends a request, whose answer will have `tag`. Waits for room in the session, not for the
    /// answer. The request may stay queued until [`Self::next`] or [`Self::flush`], so that many
    /// requests leave in one write. After an error the request was not sent, and gets no answer.
    pub(crate) fn send(
        &mut self,
        tag: u64,
        request: &Request<'_>,
        payload: Payload<'_>,
    ) -> Result<()> {
        let is_slow = request.is_slow(self.is_small);
        self.shared.submit(Some(&self.inbox), tag, request, payload, is_slow)?;
        self.outstanding += 1;
        Ok(())
    }

    /// Sends queued requests.
    pub(crate) fn flush(&self) -> Result<()> {
        self.shared.flush()
    }

    /// Waits for the next answer, and returns it with its tag; `None` if all requests are answered.
    pub(crate) fn next(&mut self) -> Option<(u64, Result<Answer, Cause>)> {
        if self.outstanding == 0 {
            return None;
        }
        if let Some(answer) = self.try_next() {
            return Some(answer);
        }
        // If that fails, every request gets the reason as its answer.
        let _ = self.flush();
        let mut answers = self.inbox.answers.lock();
        loop {
            if let Some((tag, answer)) = answers.pop_front() {
                self.outstanding -= 1;
                return Some((tag, succeeded(answer)));
            }
            self.inbox.arrived.wait(&mut answers);
        }
    }

    /// The next answer, if it has arrived.
    pub(crate) fn try_next(&mut self) -> Option<(u64, Result<Answer, Cause>)> {
        let (tag, answer) = self.inbox.answers.lock().pop_front()?;
        self.outstanding -= 1;
        Some((tag, succeeded(answer)))
    }

    /// Sends a request whose answer is ignored. It may stay queued, as in [`Self::send`].
    pub(crate) fn send_unanswered(&self, request: &Request<'_>) -> Result<()> {
        let is_slow = request.is_slow(self.is_small);
        self.shared.submit(None, 0, request, Payload::NONE, is_slow)
    }

    /// Arrived content, in a buffer that is reused after it is dropped.
    pub(crate) fn content(&self, buffer: Vec<u8>, len: usize) -> Buf {
        Buf::new(buffer, len, Arc::clone(&self.shared))
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if self.outstanding > 0 {
            // Other callers may wait for the room of these requests. If the session has ended, all
            // callers have their answers.
            let _ = self.flush();
        }
    }
}

/// The answer, unless it is a failure.
fn succeeded(answer: Result<Answer>) -> Result<Answer, Cause> {
    match answer? {
        Answer::Status(status) if status.code != StatusCode::Ok => Err(Cause::Status(status)),
        Answer::LongTarget => Err(Cause::LongTarget(TARGET_LEN_MAX)),
        answer => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Options;
    use haul_net::Connection;
    use std::io::{self, Write};

    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn unsent_requests_are_answered_once_under_their_own_tags() {
        // The answers at a session's end arrive in any order, so each is tested several times.
        for _ in 0..16 {
            let Connection { writer, closer, .. } = Connection::from_parts(io::empty(), Broken);
            let shared = SessionState::new(writer, closer.killer(), Options::default());
            let mut port = Port::new(&shared, false);
            let mut sent = Vec::new();
            for tag in 0..8 {
                let request = Request::Write { handle: b"h", offset: 0, len: 1 << 16 };
                if tag < 7 {
                    let request = Request::Lstat { path: b"/queued" };
                    port.send(tag, &request, Payload::NONE).expect("it is queued");
                    sent.push(tag);
                } else if port.send(tag, &request, Payload::Bytes(&[0; 1 << 16])).is_ok() {
                    sent.push(tag);
                }
            }
            let mut answered = Vec::new();
            while let Some((tag, answer)) = port.next() {
                assert!(answer.is_err());
                answered.push(tag);
            }
            answered.sort_unstable();
            assert_eq!(answered, sent);
            assert!(port.send(9, &Request::Lstat { path: b"/late" }, Payload::NONE).is_err());
            assert!(port.next().is_none(), "what was not asked has no answer");
        }
    }
}

//! One asker's end of a session: it asks much, and gets the answers in the order
//! in which they come.

use super::payload::Payload;
use super::shared::{Buf, State};
use crate::codec::{Answer, Request};
use crate::error::SessionError;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

type Result<T> = std::result::Result<T, SessionError>;

/// Where the answers for one port arrive. It holds no more than the port has
/// asked for.
#[derive(Default)]
pub(super) struct Inbox {
    answers: Mutex<VecDeque<(u64, Result<Answer>)>>,
    arrived: Condvar,
}

impl Inbox {
    pub(super) fn deliver(&self, tag: u64, answer: Result<Answer>) {
        self.lock().push_back((tag, answer));
        self.arrived.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, Result<Answer>)>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks, and keeps count of what is not answered yet.
pub(crate) struct Port {
    shared: Arc<State>,
    inbox: Arc<Inbox>,
    outstanding: usize,
    /// It asks for small files.
    is_small: bool,
}

impl Port {
    pub(crate) fn new(shared: &Arc<State>) -> Self {
        let (shared, inbox) = (Arc::clone(shared), Arc::default());
        Self { shared, inbox, outstanding: 0, is_small: false }
    }

    /// One that asks for small files, at which no server is for long.
    pub(crate) fn for_small(shared: &Arc<State>) -> Self {
        let mut port = Self::new(shared);
        port.is_small = true;
        port
    }

    /// Asks, and calls it `tag`. Waits for room in the session, not for the
    /// answer. What is asked may stay queued until [`Self::next`] or
    /// [`Self::flush`], so that many requests leave in one write. After an error
    /// nothing was asked, and nothing comes.
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

    /// Sends what is queued.
    pub(crate) fn flush(&self) -> Result<()> {
        self.shared.flush()
    }

    /// The next answer and the tag of what it answers, as soon as it is there;
    /// `None` if nothing is asked.
    pub(crate) fn next(&mut self) -> Option<(u64, Result<Answer>)> {
        if self.outstanding == 0 {
            return None;
        }
        if let Some(answer) = self.try_next() {
            return Some(answer);
        }
        // If that fails, everything that was asked is answered with the reason.
        let _ = self.flush();
        let mut answers = self.inbox.lock();
        loop {
            if let Some(answer) = answers.pop_front() {
                self.outstanding -= 1;
                return Some(answer);
            }
            answers = self.inbox.arrived.wait(answers).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next answer, if it is there.
    pub(crate) fn try_next(&mut self) -> Option<(u64, Result<Answer>)> {
        if self.outstanding == 0 {
            return None;
        }
        let answer = self.inbox.lock().pop_front()?;
        self.outstanding -= 1;
        Some(answer)
    }

    /// True if something that was asked is not taken yet.
    pub(crate) fn waits(&self) -> bool {
        self.outstanding > 0
    }

    /// Asks one thing and waits for the answer. Nothing else may be asked.
    pub(crate) fn ask(&mut self, request: &Request<'_>) -> Result<Answer> {
        debug_assert_eq!(self.outstanding, 0);
        self.send(0, request, Payload::NONE)?;
        match self.next() {
            Some((_, answer)) => answer,
            None => Err(SessionError::Stopped),
        }
    }

    /// Asks without wanting an answer. It may stay queued, as with
    /// [`Self::send`].
    pub(crate) fn tell(&self, request: &Request<'_>) -> Result<()> {
        let is_slow = request.is_slow(self.is_small);
        self.shared.submit(None, 0, request, Payload::NONE, is_slow)
    }

    /// Content that has arrived, in a buffer that goes home by itself.
    pub(crate) fn content(&self, buffer: Vec<u8>, len: usize) -> Buf {
        Buf::new(buffer, len, Arc::clone(&self.shared))
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if self.outstanding > 0 {
            // Others may wait for the room that these take. A session that has
            // ended has told everyone.
            let _ = self.flush();
        }
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
    fn what_was_asked_and_not_sent_is_answered_once_and_under_its_own_tag() {
        // The answers of a session's end come in no order: several times, for each.
        for _ in 0..16 {
            let Connection { writer, closer, .. } = Connection::from_parts(io::empty(), Broken);
            let shared = State::new(writer, closer.killer(), Options::default());
            let mut port = Port::new(&shared);
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

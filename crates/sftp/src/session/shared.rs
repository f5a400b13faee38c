//! State that the threads of a session share: the requests in flight, their bounds, and the end of
//! the session.

use super::Options;
use super::activity::Activity;
use super::outbox::Outbox;
use super::payload::Payload;
use super::port::Inbox;
use crate::codec::{Answer, CHUNK_LEN_MAX, Expected, Request};
use crate::error::SessionError;
use haul_net::{Killer, Writer};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// Most buffers that are kept for reuse. With the default options no more are in use at once.
const BUFFERS_KEPT_MAX: usize = 64;

/// Timeout for ssh to exit by itself after the stream has ended. Its exit status shows the reason.
const EXIT_WAIT_MAX: Duration = Duration::from_secs(1);

pub(crate) struct SessionState {
    table: Mutex<Table>,
    /// Notified when a reply makes room for a request, and at the end.
    capacity: Condvar,
    /// Notified at the end.
    ended: Condvar,
    outbox: Outbox,
    killer: Killer,
    options: Options,
    pub(super) activity: Arc<Activity>,
    buffers: Mutex<Vec<Vec<u8>>>,
}

#[derive(Default)]
struct Table {
    waiting: HashMap<u32, InFlight>,
    next_id: u32,
    /// The cost of the requests in flight.
    bytes: usize,
    /// How many of them may take a server minutes.
    slow: usize,
    /// The number of threads that wait for room.
    blocked: usize,
    end: Option<SessionError>,
}

/// A request in flight.
pub(super) struct InFlight {
    /// The receiver of the answer; `None` if it is ignored.
    pub(super) inbox: Option<Arc<Inbox>>,
    /// The caller's tag.
    pub(super) tag: u64,
    pub(super) expected: Expected,
    /// The operation, for messages.
    pub(super) operation: &'static str,
    pub(super) cost: usize,
    /// It may take a server minutes.
    is_slow: bool,
}

/// The state of the requests that wait for the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PendingState {
    No,
    Quick,
    /// At least one request may take the server minutes.
    Slow,
}

impl SessionState {
    pub(super) fn new(writer: Writer, killer: Killer, options: Options) -> Arc<Self> {
        let activity = Arc::<Activity>::default();
        Arc::new(Self {
            table: Mutex::default(),
            capacity: Condvar::new(),
            ended: Condvar::new(),
            outbox: Outbox::new(writer, Arc::clone(&activity)),
            killer,
            options,
            activity,
            buffers: Mutex::default(),
        })
    }

    /// Sends a request once there is room for it. It may stay queued until [`Self::flush`].
    /// `is_slow` is true if it may take a server minutes.
    ///
    /// After an error the request was not accepted. If an accepted request can't be sent, the
    /// session ends, and the reason is its answer. So a caller that counts answers misses none.
    pub(super) fn submit(
        &self,
        inbox: Option<&Arc<Inbox>>,
        tag: u64,
        request: &Request<'_>,
        payload: Payload<'_>,
        is_slow: bool,
    ) -> Result<(), SessionError> {
        let cost = request.cost();
        let mut table = self.table.lock();
        while table.end.is_none() && !self.fits(&table, cost) {
            // Queued requests may take up the room.
            drop(table);
            self.flush()?;
            table = self.table.lock();
            if table.end.is_some() || self.fits(&table, cost) {
                break;
            }
            table.blocked += 1;
            self.capacity.wait(&mut table);
            table.blocked -= 1;
        }
        if let Some(end) = &table.end {
            return Err(end.clone());
        }
        let mut id = table.next_id;
        while table.waiting.contains_key(&id) {
            id = id.wrapping_add(1);
        }
        table.next_id = id.wrapping_add(1);
        table.bytes += cost;
        table.slow += usize::from(is_slow);
        table.waiting.insert(
            id,
            InFlight {
                inbox: inbox.cloned(),
                tag,
                expected: request.expected(),
                operation: request.operation(),
                cost,
                is_slow,
            },
        );
        drop(table);
        if let Err(error) = self.outbox.send(payload, |out| request.encode(id, out)) {
            self.end(error);
        }
        Ok(())
    }

    /// Sends queued requests.
    pub(super) fn flush(&self) -> Result<(), SessionError> {
        self.outbox.flush().map_err(|error| self.fail(error))
    }

    fn fits(&self, table: &Table, cost: usize) -> bool {
        let requests = table.waiting.len();
        requests == 0
            || (requests < self.options.requests_max
                && table.bytes + cost <= self.options.bytes_max)
    }

    /// Removes the request with this ID from those in flight and returns it.
    pub(super) fn take(&self, id: u32) -> Option<InFlight> {
        let mut table = self.table.lock();
        let waiting = table.waiting.remove(&id)?;
        table.bytes -= waiting.cost;
        table.slow -= usize::from(waiting.is_slow);
        if table.blocked > 0 {
            self.capacity.notify_all();
        }
        Some(waiting)
    }

    /// Ends the session with `error`, unless it has ended. Returns the reason of its end.
    pub(super) fn fail(&self, error: SessionError) -> SessionError {
        self.end(error);
        self.table.lock().end.clone().unwrap_or(SessionError::Stopped)
    }

    /// Ends the session now and cuts the connection. All waiting callers get `reason`, or the
    /// reason of an earlier end.
    pub(crate) fn end(&self, reason: SessionError) {
        let has_ended = matches!(reason, SessionError::Closed | SessionError::Broken(_));
        if self.stop(reason) && !(has_ended && self.killer.wait_for_exit(EXIT_WAIT_MAX)) {
            // Wakes a thread that is blocked in a write.
            self.killer.kill();
        }
        self.outbox.close();
    }

    /// Ends the session without cutting the connection: the server sees the end of its input.
    pub(super) fn close_input(&self) {
        self.stop(SessionError::Stopped);
        self.outbox.close();
    }

    /// Answers all requests with the reason. Returns true if the session had not ended before.
    fn stop(&self, reason: SessionError) -> bool {
        let mut table = self.table.lock();
        let is_first = table.end.is_none();
        let reason = table.end.get_or_insert(reason).clone();
        let waiting = std::mem::take(&mut table.waiting);
        (table.bytes, table.slow) = (0, 0);
        drop(table);
        self.capacity.notify_all();
        self.ended.notify_all();
        for (_, waiting) in waiting {
            waiting.deliver(Err(reason.clone()));
        }
        is_first
    }

    /// True if the session was lost, not ended by this side.
    pub(super) fn has_ended(&self) -> bool {
        self.table.lock().end.as_ref().is_some_and(|end| !matches!(end, SessionError::Stopped))
    }

    pub(super) fn is_open(&self) -> bool {
        self.table.lock().end.is_none()
    }

    /// Waits up to `timeout` for the end of the session. If it has not ended, returns whether
    /// requests wait for the server.
    pub(super) fn wait_ended(&self, timeout: Duration) -> Option<PendingState> {
        let mut table = self.table.lock();
        self.ended.wait_while_for(&mut table, |table| table.end.is_none(), timeout);
        let waits = match (table.waiting.is_empty(), table.slow) {
            (true, _) => PendingState::No,
            (false, 0) => PendingState::Quick,
            (false, _) => PendingState::Slow,
        };
        table.end.is_none().then_some(waits)
    }

    /// A number that changes whenever bytes move on the stream; `None` while no request waits for
    /// the server.
    pub(crate) fn activity_awaited(&self) -> Option<u64> {
        let waits = {
            let table = self.table.lock();
            table.end.is_none() && !table.waiting.is_empty()
        };
        (waits && !self.activity.is_reading_file()).then(|| self.activity.moved())
    }

    /// A buffer of at least `len` bytes, with unspecified content.
    pub(super) fn buffer(&self, len: usize) -> Vec<u8> {
        let kept = self.buffers.lock().pop();
        let mut buffer = kept.unwrap_or_default();
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        buffer
    }
}

impl InFlight {
    pub(super) fn deliver(&self, answer: Result<Answer, SessionError>) {
        if let Some(inbox) = &self.inbox {
            inbox.deliver(self.tag, answer);
        }
    }
}

/// Content in a buffer that is reused after this is dropped.
pub(crate) struct Buf {
    bytes: Vec<u8>,
    len: usize,
    pool: Arc<SessionState>,
}

impl Buf {
    pub(super) fn new(bytes: Vec<u8>, len: usize, pool: Arc<SessionState>) -> Self {
        Self { bytes, len, pool }
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        let mut kept = self.pool.buffers.lock();
        if kept.len() < BUFFERS_KEPT_MAX && self.bytes.len() <= CHUNK_LEN_MAX as usize {
            kept.push(std::mem::take(&mut self.bytes));
        }
    }
}

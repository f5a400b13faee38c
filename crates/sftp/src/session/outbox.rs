//! Sends requests.
//!
//! No thread is dedicated to writing. One caller at a time writes its own request and those that
//! others have queued. So content moves from the caller's buffer to the stream without a copy, and
//! requests of the same moment leave in one write.

use super::activity::Activity;
use super::payload::Payload;
use crate::error::SessionError;
use haul_net::{Writer, write_both};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::io::{self, Write};
use std::sync::Arc;

/// Limit of queued requests, in bytes. Only small ones are queued.
const QUEUED_LEN_MAX: usize = 64 << 10;

pub(super) struct Outbox {
    state: Mutex<OutboxState>,
    /// Notified when the writer is free, and when the queue is shorter.
    free: Condvar,
    activity: Arc<Activity>,
}

struct OutboxState {
    queued: Vec<u8>,
    /// `None` while a caller writes.
    writer: Option<Writer>,
    closed: bool,
}

impl Outbox {
    pub(super) fn new(writer: Writer, activity: Arc<Activity>) -> Self {
        let state = OutboxState { queued: Vec::new(), writer: Some(writer), closed: false };
        Self { state: Mutex::new(state), free: Condvar::new(), activity }
    }

    /// Queues a packet and its payload, or sends both at once if the payload is large. Queued
    /// packets may stay there until [`Self::flush`].
    pub(super) fn send(
        &self,
        payload: Payload<'_>,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), SessionError> {
        let mut state = self.state.lock();
        if let Some(bytes) = payload.queueable() {
            while state.queued.len() >= QUEUED_LEN_MAX && !state.closed {
                match state.writer {
                    Some(_) => state = self.drain(state, Payload::NONE)?,
                    None => self.free.wait(&mut state),
                }
            }
            state.open()?;
            encode(&mut state.queued);
            state.queued.extend_from_slice(bytes);
            return Ok(());
        }
        while state.writer.is_none() && !state.closed {
            self.free.wait(&mut state);
        }
        state.open()?;
        encode(&mut state.queued);
        self.drain(state, payload).map(drop)
    }

    /// Sends the queue, unless another caller is sending it.
    pub(super) fn flush(&self) -> Result<(), SessionError> {
        let state = self.state.lock();
        if state.queued.is_empty() || state.writer.is_none() {
            return state.open();
        }
        self.drain(state, Payload::NONE).map(drop)
    }

    /// Drops the writer, so that the server sees the end of its input.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let writer = state.writer.take();
        self.free.notify_all();
        drop(state);
        drop(writer);
    }

    /// Writes the queue, then `payload`, then requests that were queued meanwhile.
    fn drain<'a>(
        &'a self,
        mut state: MutexGuard<'a, OutboxState>,
        mut payload: Payload<'_>,
    ) -> Result<MutexGuard<'a, OutboxState>, SessionError> {
        let Some(mut writer) = state.writer.take() else {
            return Ok(state);
        };
        let mut result = Ok(());
        while result.is_ok() && !state.closed && !(state.queued.is_empty() && payload.is_empty()) {
            let queued = std::mem::take(&mut state.queued);
            self.free.notify_all();
            drop(state);
            result = self.write(&mut writer, &queued, payload);
            payload = Payload::NONE;
            state = self.state.lock();
            if state.queued.capacity() == 0 {
                // The next queue reuses this memory.
                state.queued = queued;
                state.queued.clear();
            }
        }
        if state.closed || result.is_err() {
            state.closed = true;
        } else {
            state.writer = Some(writer);
        }
        self.free.notify_all();
        result?;
        state.open().map(|()| state)
    }

    /// Writes packets, and the payload of the last one.
    fn write(&self, out: &mut Writer, packets: &[u8], payload: Payload<'_>) -> io::Result<()> {
        let bytes = if let Payload::Bytes(bytes) = payload { bytes } else { &[] };
        write_both(out, packets, bytes, || self.activity.count())?;
        out.flush()?;
        match payload {
            Payload::Bytes(_) => Ok(()),
            Payload::File(range) => range.send(out, &self.activity),
        }
    }
}

impl OutboxState {
    fn open(&self) -> Result<(), SessionError> {
        if self.closed { Err(SessionError::Closed) } else { Ok(()) }
    }
}

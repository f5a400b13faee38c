//! The queue of outgoing frames, filled by ports and workers. The listing has its own queue
//! (`listed.rs`). The writer (`writer.rs`) sends both.

use super::compression_control::CompressionControl;
use super::flow::Flow;
use super::frame::OutFrame;
use super::ledger::{Implausible, Ledger};
use super::listed::{ListingReceiver, ListingSender, lists};
use crate::control::CANCEL_POLL;
use crossbeam_channel::SendTimeoutError;
use haul_proto::{Caps, Message};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The most frames that may wait for the writer.
const OUTBOX_FRAMES_MAX: usize = 8;

/// The writer's end of the queue.
pub(crate) struct Frames {
    pub(super) waiting: crossbeam_channel::Receiver<OutFrame>,
    pub(super) listed: ListingReceiver,
    pub(super) compression_control: Arc<CompressionControl>,
    pub(super) flow: Arc<Flow>,
    /// Set for a lane that may be lost.
    ledger: Option<Arc<Ledger>>,
}

impl Frames {
    /// Handles a broken connection: queued frames never leave. **Close the outbox first.** Returns
    /// when no more frames can be queued.
    pub(crate) fn lose(self) {
        for frame in self.waiting {
            if let (Some(ledger), Some(on_fate)) = (&self.ledger, frame.on_fate) {
                // The ledger is settled only after this returns.
                ledger.unsent(on_fate);
            }
        }
    }

    /// Records that `frame` is about to leave. Returns false for a mark, which is not sent.
    pub(super) fn note(&self, frame: &mut OutFrame) -> io::Result<bool> {
        let is_frame = !frame.head.is_empty();
        let Some(ledger) = &self.ledger else { return Ok(is_frame) };
        if is_frame {
            ledger.write();
        }
        if let Some(on_fate) = frame.on_fate.take() {
            ledger.part(on_fate).map_err(|Implausible(rule)| io::Error::other(rule))?;
        }
        Ok(is_frame)
    }
}

/// Takes frames for the writer. It is closed when the job has nothing more to send.
pub(crate) struct Outbox {
    frames: Mutex<Option<crossbeam_channel::Sender<OutFrame>>>,
    lists: ListingSender,
    splices: bool,
    /// The compression of frames.
    pub(crate) compression_control: Arc<CompressionControl>,
    flow: Arc<Flow>,
    /// Counts the workers that hold this lane: each has a clone.
    pub(super) held: Arc<()>,
    /// No thread waits for room any more.
    cut: AtomicBool,
    /// The connection is kept after the job.
    rests: AtomicBool,
    /// Chunks may be offered.
    dedups: AtomicBool,
    /// See [`Frames::ledger`].
    pub(super) ledger: Option<Arc<Ledger>>,
}

impl Outbox {
    /// The queue of outgoing frames, and its end for the writer. `splices` is set if the writer can
    /// splice file content.
    pub(crate) fn new(splices: bool) -> (Arc<Self>, Frames) {
        Self::with(splices, None, Arc::default())
    }

    fn with(
        splices: bool,
        ledger: Option<Arc<Ledger>>,
        compression_control: Arc<CompressionControl>,
    ) -> (Arc<Self>, Frames) {
        let (frames, waiting) = crossbeam_channel::bounded(OUTBOX_FRAMES_MAX);
        let (lists, listed) = lists();
        let flow: Arc<Flow> = Arc::default();
        let outbox = Self {
            frames: Mutex::new(Some(frames)),
            lists,
            splices,
            compression_control: Arc::clone(&compression_control),
            flow: Arc::clone(&flow),
            held: Arc::default(),
            cut: AtomicBool::new(false),
            rests: AtomicBool::new(false),
            dedups: AtomicBool::new(false),
            ledger: ledger.clone(),
        };
        (Arc::new(outbox), Frames { waiting, listed, compression_control, flow, ledger })
    }

    /// Another queue with the same compression, for a lane that may be lost.
    pub(super) fn sibling(&self) -> (Arc<Self>, Frames) {
        Self::with(false, Some(Arc::default()), Arc::clone(&self.compression_control))
    }

    /// Applies the capabilities that both greetings have negotiated.
    pub(crate) fn greeted(&self, caps: Caps) {
        self.compression_control.allow(caps);
        self.rests.store(caps.has(Caps::SESSIONS), Ordering::Relaxed);
        self.dedups.store(caps.has(Caps::DEDUP), Ordering::Relaxed);
    }

    /// True if chunks may be offered.
    pub(super) fn dedups(&self) -> bool {
        self.dedups.load(Ordering::Relaxed)
    }

    /// True if content leaves so fast that sending less gains nothing.
    pub(crate) fn is_fast(&self) -> bool {
        self.compression_control.is_link_fast()
    }

    /// True if the connection is kept after the job: each side ends with [`Message::Rest`].
    pub(crate) fn rests(&self) -> bool {
        self.rests.load(Ordering::Relaxed)
    }

    /// True if ranges of files may be sent as [`Body::Range`](super::frame::Body::Range).
    pub(crate) fn splices(&self) -> bool {
        self.splices
    }

    /// The number of frames that wait for the writer.
    pub(super) fn waiting(&self) -> usize {
        self.frames.lock().as_ref().map_or(0, crossbeam_channel::Sender::len)
    }

    /// The content that is queued.
    pub(super) fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Queues a frame when there is room; `None` if the writer has ended or was cut.
    pub(crate) fn send(&self, frame: OutFrame) -> Option<()> {
        if let Some(body) = &frame.body {
            self.flow.queued(body.len(), body.content_len());
        }
        self.send_within(frame, Duration::MAX)
    }

    /// The same, waiting at most `timeout`.
    pub(crate) fn send_within(&self, mut frame: OutFrame, timeout: Duration) -> Option<()> {
        let frames = self.frames.lock().clone()?;
        let mut waited = Duration::ZERO;
        loop {
            frame = match frames.send_timeout(frame, CANCEL_POLL) {
                Ok(()) => return Some(()),
                Err(SendTimeoutError::Timeout(frame))
                    if waited < timeout && !self.cut.load(Ordering::Relaxed) =>
                {
                    frame
                }
                Err(_) => return None,
            };
            waited += CANCEL_POLL;
        }
    }

    /// Queues an encoded, uncompressed part of the listing when there is room.
    pub(crate) fn list(&self, frame: Vec<u8>) -> Option<()> {
        self.lists.send(frame)
    }

    /// Queues a message.
    pub(crate) fn send_message(&self, message: &Message) {
        self.send(OutFrame::message(message));
    }

    /// Queues messages with up to `max` of `items` each.
    pub(crate) fn send_parts<T: Clone>(
        &self,
        items: &[T],
        max: usize,
        message: impl Fn(Vec<T>) -> Message,
    ) {
        items.chunks(max).for_each(|part| self.send_message(&message(part.to_vec())));
    }

    /// Queues a message, if there is room for it within `timeout`.
    pub(crate) fn send_message_within(&self, message: &Message, timeout: Duration) {
        self.send_within(OutFrame::message(message), timeout);
    }

    /// Closes the queue. The writer ends once it has sent what is queued.
    pub(crate) fn close(&self) {
        self.lists.close();
        self.frames.lock().take();
    }

    /// True if the queue is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.frames.lock().is_none()
    }

    /// Releases threads that wait for a blocked writer.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }
}

//! A frame on its way out, and the content that it has.

use super::ledger::OnFate;
use crate::pool::Buf;
use haul_proto::{Message, encode};
use haul_tree::{SharedBlock, SourceFile};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A frame on its way out.
pub(crate) struct OutFrame {
    /// Header and description, or the whole frame.
    pub(super) head: Vec<u8>,
    /// The content that follows.
    pub(super) body: Option<Body>,
    /// True if it may wait for others.
    pub(super) patient: bool,
    /// With it a leased content ends.
    pub(super) on_fate: Option<OnFate>,
    /// The contents that it has, in its order, as far as they count as sent when they leave.
    pub(super) counts: Vec<Counted>,
    /// Contents of a lower rank were begun earlier.
    pub(super) rank: u64,
}

impl OutFrame {
    /// A frame that holds a message.
    pub(crate) fn message(message: &Message) -> Self {
        let patient = match message {
            Message::Outcomes(_) => true,
            Message::Taken(taken) => !taken.is_over,
            _ => false,
        };
        Self { patient, ..Self::whole(encode(message)) }
    }

    /// A frame that is encoded already.
    pub(crate) fn whole(head: Vec<u8>) -> Self {
        Self { head, body: None, patient: false, on_fate: None, counts: Vec::new(), rank: 0 }
    }

    /// No frame: the mark behind the frames of a content.
    pub(crate) fn mark() -> Self {
        Self::whole(Vec::new())
    }

    /// The same frame, with which a leased content ends.
    pub(crate) fn with_fate(self, on_fate: OnFate) -> Self {
        Self { on_fate: Some(on_fate), ..self }
    }

    /// A frame with a content, behind its header and description.
    pub(crate) fn content(head: Vec<u8>, body: Body) -> Self {
        Self { body: Some(body), ..Self::whole(head) }
    }

    /// The same frame, whose content counts as it leaves: these, in this order.
    pub(crate) fn counting(self, counts: Vec<Counted>) -> Self {
        Self { counts, ..self }
    }

    /// The same frame, whose content has that rank.
    pub(crate) fn ranked(self, rank: u64) -> Self {
        Self { rank, ..self }
    }
}

/// Content of a file that counts as sent when it leaves.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counted {
    /// The number of the file.
    pub(crate) index: u64,
    /// Its length, in bytes.
    pub(crate) len: u64,
    /// The account of the block that it is of, if that may be sent again by itself.
    pub(crate) tally: Option<Tally>,
}

/// The bytes of a block that count as sent: it may be lost when a part of it has left.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally(Arc<AtomicU64>);

impl Tally {
    /// So many bytes more count.
    pub(crate) fn add(&self, len: u64) {
        self.0.fetch_add(len, Ordering::Relaxed);
    }

    /// All that count.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Content on its way out.
pub(crate) enum Body {
    /// Bytes in memory.
    Bytes(Buf),
    /// A part of a block that other jobs send, too.
    Shared {
        /// The block.
        block: Arc<SharedBlock>,
        /// The part.
        part: Range<usize>,
        /// An empty buffer: so no more blocks are held than there are buffers.
        _held: Buf,
    },
    /// Bytes, compressed.
    Squeezed {
        /// The bytes that it shrank to.
        bytes: Vec<u8>,
        /// Its own length, in bytes.
        len: usize,
        /// The time that the codec took.
        took: Duration,
    },
    /// A range of a file of this machine, to be spliced.
    Range {
        /// The file.
        source: Arc<dyn SourceFile>,
        /// Where the range begins, in bytes.
        offset: u64,
        /// How long it is, in bytes.
        len: usize,
    },
}

impl Body {
    /// The content itself, if that is in memory.
    pub(super) fn content(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(_) | Self::Shared { .. } => Some(self.bytes()),
            Self::Squeezed { .. } | Self::Range { .. } => None,
        }
    }

    /// The bytes that are in memory, as they go out.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Shared { block, part, .. } => &block.bytes()[part.clone()],
            Self::Squeezed { bytes, .. } => bytes,
            Self::Range { .. } => &[],
        }
    }

    /// The length of the content before it was compressed, in bytes.
    pub(super) fn content_len(&self) -> usize {
        match self {
            Self::Squeezed { len, .. } => *len,
            Self::Bytes(_) | Self::Shared { .. } | Self::Range { .. } => self.len(),
        }
    }

    /// Bytes that go out.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bytes(_) | Self::Shared { .. } | Self::Squeezed { .. } => self.bytes().len(),
            Self::Range { len, .. } => *len,
        }
    }
}

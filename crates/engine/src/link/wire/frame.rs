//! A frame to be sent, and its content.

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
    /// The frame may wait for others.
    pub(super) patient: bool,
    /// Called with the fate of the leased content that ends with this frame.
    pub(super) on_fate: Option<OnFate>,
    /// The contents of the frame, in order, as far as they count as sent when they leave.
    pub(super) counts: Vec<Counted>,
    /// Contents with lower ranks were started earlier.
    pub(super) rank: u64,
}

impl OutFrame {
    /// A frame with a message.
    pub(crate) fn message(message: &Message) -> Self {
        let patient = match message {
            Message::Outcomes(_) => true,
            Message::Taken(taken) => !taken.is_over,
            _ => false,
        };
        Self { patient, ..Self::whole(encode(message)) }
    }

    /// An encoded frame.
    pub(crate) fn whole(head: Vec<u8>) -> Self {
        Self { head, body: None, patient: false, on_fate: None, counts: Vec::new(), rank: 0 }
    }

    /// Not a frame: the mark after the frames of a content.
    pub(crate) fn mark() -> Self {
        Self::whole(Vec::new())
    }

    /// Adds the callback of the leased content that ends with this frame.
    pub(crate) fn with_fate(self, on_fate: OnFate) -> Self {
        Self { on_fate: Some(on_fate), ..self }
    }

    /// A frame with content after its header and description.
    pub(crate) fn content(head: Vec<u8>, body: Body) -> Self {
        Self { body: Some(body), ..Self::whole(head) }
    }

    /// Adds the contents that count as the frame leaves, in order.
    pub(crate) fn counting(self, counts: Vec<Counted>) -> Self {
        Self { counts, ..self }
    }

    /// Adds the rank of the content.
    pub(crate) fn ranked(self, rank: u64) -> Self {
        Self { rank, ..self }
    }
}

/// Content of a file that counts as sent when it leaves.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counted {
    /// The number of the file.
    pub(crate) index: u64,
    /// Its length in bytes.
    pub(crate) len: u64,
    /// The tally of its block, if the block may be sent again separately.
    pub(crate) tally: Option<SentTally>,
}

/// The bytes of a block that were counted as sent. A block may be lost after a part of it has left.
#[derive(Debug, Clone, Default)]
pub(crate) struct SentTally(Arc<AtomicU64>);

impl SentTally {
    /// Adds `len` bytes.
    pub(crate) fn add(&self, len: u64) {
        self.0.fetch_add(len, Ordering::Relaxed);
    }

    /// All counted bytes.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Content to be sent.
pub(crate) enum Body {
    /// Bytes in memory.
    Bytes(Buf),
    /// A part of a block that other jobs send, too.
    ///
    /// - `_held`: an empty buffer, so that the number of held blocks is bounded by that of buffers.
    Shared { block: Arc<SharedBlock>, part: Range<usize>, _held: Buf },
    /// Compressed bytes.
    ///
    /// - `bytes`: the compressed bytes.
    /// - `len`: the length before compression, in bytes.
    /// - `took`: the time of the compression.
    Compressed { bytes: Vec<u8>, len: usize, took: Duration },
    /// A range of a local file, to be spliced.
    ///
    /// - `source`: the file.
    /// - `offset`: the start of the range, in bytes.
    /// - `len`: the length of the range, in bytes.
    Range { source: Arc<dyn SourceFile>, offset: u64, len: usize },
}

impl Body {
    /// The uncompressed content, if it is in memory.
    pub(super) fn content(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(_) | Self::Shared { .. } => Some(self.bytes()),
            Self::Compressed { .. } | Self::Range { .. } => None,
        }
    }

    /// The bytes in memory, as they are sent.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Shared { block, part, .. } => &block.bytes()[part.clone()],
            Self::Compressed { bytes, .. } => bytes,
            Self::Range { .. } => &[],
        }
    }

    /// The length of the content before compression, in bytes.
    pub(super) fn content_len(&self) -> usize {
        match self {
            Self::Compressed { len, .. } => *len,
            Self::Bytes(_) | Self::Shared { .. } | Self::Range { .. } => self.len(),
        }
    }

    /// The number of bytes that are sent.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bytes(_) | Self::Shared { .. } | Self::Compressed { .. } => self.bytes().len(),
            Self::Range { len, .. } => *len,
        }
    }
}

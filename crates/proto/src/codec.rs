//! Converts messages to frames and back. Structures are encoded with postcard. Contents follow
//! their description unchanged, so that they need no copy.

use crate::message::Message;
use crate::{DATA_MAX, FrameType, HEADER_LEN, Header, PackItem};
use serde::{Serialize, de::DeserializeOwned};
use std::ops::Range;

/// Maximum length of the description before a pack's contents, in bytes.
pub(crate) const PACK_HEAD_MAX: usize = 128 << 10;

/// The reason why a payload can't be decoded.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum DecodeError {
    /// The bytes are not such a message.
    ///
    /// - `kind`: the type in the frame's header.
    /// - `cause`: the decoder's error.
    #[error("the peer sent a {kind:?} frame that can't be read: {cause}")]
    Malformed { kind: FrameType, cause: postcard::Error },
    /// The message ends before the frame, or lengths are inconsistent.
    #[error("the peer sent a {0:?} frame of inconsistent length")]
    Length(FrameType),
    /// This type of frame has no message of its own.
    #[error("the peer sent a {0:?} frame where none is expected")]
    Unexpected(FrameType),
}

/// Defines [`encode`] and [`decode`]. A message and its frame have the same name, and most messages
/// have one structure, which is encoded with postcard.
macro_rules! codec {
    ($($name:ident),+) => {
        /// Encodes a message as a whole frame.
        ///
        /// The caller must keep lists short enough for the bound of their frame; see
        /// [`FrameType::payload_max`].
        pub fn encode(message: &Message) -> Vec<u8> {
            match message {
                $(Message::$name(content) => frame(FrameType::$name, content),)+
                Message::Rest => frame_bytes(FrameType::Rest, &[]),
                Message::Filler(len) => frame_bytes(FrameType::Filler, &vec![0; *len as usize]),
            }
        }

        /// Decodes the payload of a frame that is one structure.
        ///
        /// # Errors
        /// See [`DecodeError`]; greetings and contents are [`DecodeError::Unexpected`].
        pub fn decode(kind: FrameType, payload: &[u8]) -> Result<Message, DecodeError> {
            Ok(match kind {
                $(FrameType::$name => Message::$name(value(kind, payload)?),)+
                FrameType::Rest => value(kind, payload).map(|()| Message::Rest)?,
                FrameType::Filler => Message::Filler(payload.len() as u32),
                FrameType::Hello
                | FrameType::Welcome
                | FrameType::Alive
                | FrameType::Wrapped
                | FrameType::Pack
                | FrameType::Data => {
                    return Err(DecodeError::Unexpected(kind));
                }
            })
        }
    };
}

codec! {
    Job, Removed, Prove, Proven, Extras, Request, Reply, List, Want, FileEnd, Outcomes, Done,
    BlockSeal, Warning, Late, Signature, Offer, Known, Reuse, Naming, Abort, Direct, Join, Taken,
    LaneOver, Call, Called, Arrived, Measure, Measured
}

/// A frame with a payload of bytes, such as a greeting.
pub fn frame_bytes(kind: FrameType, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_LEN + payload.len());
    out.extend_from_slice(&header(kind, payload.len()));
    out.extend_from_slice(payload);
    out
}

fn frame<T: Serialize>(kind: FrameType, value: &T) -> Vec<u8> {
    let mut out = postcard::to_extend(value, vec![0; HEADER_LEN])
        .expect("these structures have no unsized parts, and a Vec takes all bytes");
    let header = header(kind, out.len() - HEADER_LEN);
    out[..HEADER_LEN].copy_from_slice(&header);
    out
}

fn header(kind: FrameType, payload_len: usize) -> [u8; HEADER_LEN] {
    debug_assert!(payload_len <= kind.payload_max() as usize, "{kind:?} of {payload_len} bytes");
    Header { kind, payload_len: payload_len as u32 }.encode()
}

fn value<T: DeserializeOwned>(kind: FrameType, payload: &[u8]) -> Result<T, DecodeError> {
    let (value, rest) = postcard::take_from_bytes(payload)
        .map_err(|cause| DecodeError::Malformed { kind, cause })?;
    if rest.is_empty() { Ok(value) } else { Err(DecodeError::Length(kind)) }
}

/// The beginning of a Data frame with `len` bytes of the file `index` at `offset`. The bytes follow
/// it.
pub fn data_head(index: u64, offset: u64, len: usize) -> Vec<u8> {
    debug_assert!(len <= DATA_MAX);
    let mut out =
        postcard::to_extend(&(index, offset), vec![0; HEADER_LEN]).expect("a Vec takes all bytes");
    let header = header(FrameType::Data, out.len() - HEADER_LEN + len);
    out[..HEADER_LEN].copy_from_slice(&header);
    out
}

/// Maximum length of the description in a Data frame's payload, in bytes: two numbers.
pub const DATA_HEAD_MAX: usize = 20;

/// A piece of a file in a Data frame's payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataView {
    /// The file's number.
    pub index: u64,
    /// The offset of the piece in the file, in bytes.
    pub offset: u64,
    /// The range of the piece's bytes in the payload.
    pub content: Range<usize>,
}

/// Decodes a Data frame's payload.
///
/// # Errors
/// See [`DecodeError`]; an empty piece, or one that ends past 2^63, is
/// [`DecodeError::Length`].
pub fn decode_data(payload: &[u8]) -> Result<DataView, DecodeError> {
    decode_data_start(payload, payload.len())
}

/// Decodes the `start` of a payload of `payload_len` bytes. [`DATA_HEAD_MAX`] bytes are enough.
///
/// # Errors
/// See [`decode_data`].
pub fn decode_data_start(start: &[u8], payload_len: usize) -> Result<DataView, DecodeError> {
    let kind = FrameType::Data;
    let ((index, offset), rest): ((u64, u64), &[u8]) =
        postcard::take_from_bytes(start).map_err(|cause| DecodeError::Malformed { kind, cause })?;
    let content = start.len() - rest.len()..payload_len;
    let end = offset.checked_add(content.len() as u64).filter(|end| *end <= i64::MAX as u64);
    if content.is_empty() || content.len() > DATA_MAX || end.is_none() {
        return Err(DecodeError::Length(kind));
    }
    Ok(DataView { index, offset, content })
}

/// Builds the description of a pack. The caller collects the contents.
#[derive(Debug, Default)]
pub struct PackBuilder {
    items: Vec<PackItem>,
    content_len: usize,
    /// An upper bound of the encoded length of `items`.
    head_len_max: usize,
}

impl PackBuilder {
    /// Adds an item. The contents of files must follow each other in the same order.
    pub fn push(&mut self, item: PackItem) {
        self.head_len_max += Self::item_len_max(&item);
        if let PackItem::File { len, .. } = item {
            self.content_len += len as usize;
        }
        self.items.push(item);
    }

    /// True if another item may be added: neither the description nor the contents have reached
    /// their limit.
    pub fn has_room(&self) -> bool {
        self.content_len < crate::PACK_TARGET && self.head_len_max < PACK_HEAD_MAX / 2
    }

    /// True if nothing was added.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Length of all contents in bytes.
    pub fn content_len(&self) -> usize {
        self.content_len
    }

    /// The beginning of the Pack frame; the contents follow it.
    pub fn head(&self) -> Vec<u8> {
        let start = HEADER_LEN + 4;
        let mut out = postcard::to_extend(&self.items, vec![0; start])
            .expect("these structures have no unsized parts, and a Vec takes all bytes");
        let head_len = (out.len() - start) as u32;
        out[HEADER_LEN..start].copy_from_slice(&head_len.to_le_bytes());
        let header = header(FrameType::Pack, out.len() - HEADER_LEN + self.content_len);
        out[..HEADER_LEN].copy_from_slice(&header);
        out
    }

    fn item_len_max(item: &PackItem) -> usize {
        match item {
            PackItem::File { .. } => 80,
            PackItem::Fault { fault, .. } => 32 + fault.message.len(),
        }
    }
}

/// The files in a Pack frame's payload.
#[derive(Debug)]
pub struct PackView {
    /// The items, each with the range of its content in the payload.
    pub items: Vec<(PackItem, Range<usize>)>,
}

/// Decodes a Pack frame's payload.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode_pack(payload: &[u8]) -> Result<PackView, DecodeError> {
    let kind = FrameType::Pack;
    let (head_len, rest) = payload.split_first_chunk().ok_or(DecodeError::Length(kind))?;
    let head_len = u32::from_le_bytes(*head_len) as usize;
    if head_len > PACK_HEAD_MAX || head_len > rest.len() {
        return Err(DecodeError::Length(kind));
    }
    let items: Vec<PackItem> = value(kind, &rest[..head_len])?;
    let mut at = 4 + head_len;
    let mut placed = Vec::with_capacity(items.len());
    for item in items {
        let len = match item {
            PackItem::File { len, .. } => len as usize,
            PackItem::Fault { .. } => 0,
        };
        let end = at.checked_add(len).filter(|end| *end <= payload.len());
        let end = end.ok_or(DecodeError::Length(kind))?;
        placed.push((item, at..end));
        at = end;
    }
    if at != payload.len() {
        return Err(DecodeError::Length(kind));
    }
    Ok(PackView { items: placed })
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;

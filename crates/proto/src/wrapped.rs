//! Compressed frames: a frame of type [`FrameType::Wrapped`] contains one of another type.
//!
//! The payload has the type of the inner frame (1 byte), the codec (1 byte), the length of the
//! inner payload (4 bytes, little-endian), and the compressed inner payload. Decompression stops at
//! that length, which is bounded by the inner type.

use crate::{FrameType, HEADER_LEN, Header};

/// Length of the description before the compressed payload, in bytes.
pub const WRAP_HEAD_LEN: usize = 6;

/// Minimum saving of a compressed frame: one part in this number.
const SAVES_MIN: usize = 20;

/// A compression codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// An LZ4 block, without an LZ4 frame.
    Lz4,
    /// A Zstandard frame.
    Zstd,
}

impl Codec {
    /// Every codec.
    pub const ALL: [Self; 2] = [Self::Lz4, Self::Zstd];

    /// The codec's byte.
    pub fn byte(self) -> u8 {
        match self {
            Self::Lz4 => 0x01,
            Self::Zstd => 0x02,
        }
    }
}

/// The reason why a wrapped frame can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum UnwrapError {
    /// It ends within its description.
    #[error("the peer sent a compressed frame without its description")]
    Short,
    /// Frames of this type are never compressed, or the type is unknown.
    #[error("the peer sent a compressed frame of the type 0x{0:02x}, which is never compressed")]
    Type(u8),
    /// No codec has this byte.
    #[error("the peer sent a frame compressed by the unknown codec 0x{0:02x}")]
    Codec(u8),
    /// It is longer than its type allows.
    ///
    /// - `kind`: the type of the inner frame.
    /// - `len`: the claimed length.
    /// - `max`: the bound for its type.
    #[error("the peer sent a compressed {kind:?} frame of {len} bytes; at most {max} are allowed")]
    TooLong { kind: FrameType, len: u32, max: u32 },
    /// The content is damaged, or does not have the claimed length.
    #[error("the peer sent a compressed {0:?} frame that can't be decompressed to its length")]
    Damaged(FrameType),
}

/// A compressed frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrapped {
    /// The header and the description of the frame.
    pub head: [u8; HEADER_LEN + WRAP_HEAD_LEN],
    /// The compressed inner payload.
    pub content: Vec<u8>,
}

/// Compresses frames, one after the other. Memory is allocated on first use.
#[derive(Default)]
pub struct Wrapper {
    /// The compressor, and its level.
    zstd: Option<(zstd::bulk::Compressor<'static>, i32)>,
    plain: Vec<u8>,
}

impl Wrapper {
    /// Wraps the frame of `head`, which begins with its header, and `body`. `level` is for
    /// Zstandard, see [`zstd::compression_level_range`]. `None` if that would save less than a
    /// twentieth, or frames of this type are never compressed.
    pub fn wrap(&mut self, codec: Codec, level: i32, head: &[u8], body: &[u8]) -> Option<Wrapped> {
        let (header, description) = head.split_first_chunk::<HEADER_LEN>()?;
        let kind = Header::decode(*header).ok()?.kind;
        if !is_wrapped(kind) {
            return None;
        }
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        plain.extend_from_slice(description);
        plain.extend_from_slice(body);
        let wrapped = self.compress(codec, level, kind, &plain);
        self.plain = plain;
        wrapped
    }

    /// True if `sample` has repetitions that a codec would find.
    pub fn repeats(sample: &[u8]) -> bool {
        let len = lz4_flex::block::compress(sample).len();
        len < sample.len() - sample.len() / SAVES_MIN
    }

    fn compress(
        &mut self,
        codec: Codec,
        level: i32,
        kind: FrameType,
        plain: &[u8],
    ) -> Option<Wrapped> {
        let max = (plain.len() - plain.len() / SAVES_MIN).checked_sub(WRAP_HEAD_LEN)?;
        let content = match codec {
            Codec::Lz4 => {
                let content = lz4_flex::block::compress(plain);
                (content.len() <= max).then_some(content)?
            }
            Codec::Zstd => {
                let mut content = vec![0; max];
                // Compression fails if the result does not fit.
                let len = self.zstd(level)?.compress_to_buffer(plain, &mut content[..]).ok()?;
                content.truncate(len);
                content
            }
        };
        let payload_len = (WRAP_HEAD_LEN + content.len()) as u32;
        let mut head = [0; HEADER_LEN + WRAP_HEAD_LEN];
        let (header, rest) = head.split_at_mut(HEADER_LEN);
        header.copy_from_slice(&Header { kind: FrameType::Wrapped, payload_len }.encode());
        rest[0] = kind.byte();
        rest[1] = codec.byte();
        rest[2..].copy_from_slice(&(plain.len() as u32).to_le_bytes());
        Some(Wrapped { head, content })
    }

    /// The compressor with this level. `None` if there is no memory for it.
    fn zstd(&mut self, level: i32) -> Option<&mut zstd::bulk::Compressor<'static>> {
        match &mut self.zstd {
            Some((_, now)) if *now == level => {}
            Some((compressor, now)) => {
                compressor.set_compression_level(level).ok()?;
                *now = level;
            }
            none => *none = Some((zstd::bulk::Compressor::new(level).ok()?, level)),
        }
        self.zstd.as_mut().map(|(compressor, _)| compressor)
    }
}

/// Decompresses frames, one after the other. Memory is allocated on first use.
#[derive(Default)]
pub struct Unwrapper {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    plain: Vec<u8>,
}

impl Unwrapper {
    /// The header and the payload of the inner frame.
    ///
    /// # Errors
    /// See [`UnwrapError`].
    pub fn unwrap(&mut self, payload: &[u8]) -> Result<(Header, &[u8]), UnwrapError> {
        let (head, content) =
            payload.split_first_chunk::<WRAP_HEAD_LEN>().ok_or(UnwrapError::Short)?;
        let [type_byte, codec_byte, a, b, c, d] = *head;
        let kind = FrameType::ALL
            .into_iter()
            .find(|kind| kind.byte() == type_byte && is_wrapped(*kind))
            .ok_or(UnwrapError::Type(type_byte))?;
        let codec = Codec::ALL
            .into_iter()
            .find(|codec| codec.byte() == codec_byte)
            .ok_or(UnwrapError::Codec(codec_byte))?;
        let (len, max) = (u32::from_le_bytes([a, b, c, d]), kind.payload_max());
        if len > max {
            return Err(UnwrapError::TooLong { kind, len, max });
        }
        let room = len as usize;
        if self.plain.len() < room {
            self.plain.resize(room, 0);
        }
        let plain = &mut self.plain[..room];
        let written = match codec {
            Codec::Lz4 => lz4_flex::block::decompress_into(content, plain).ok(),
            Codec::Zstd => {
                if self.zstd.is_none() {
                    self.zstd = zstd::bulk::Decompressor::new().ok();
                }
                let zstd = self.zstd.as_mut();
                zstd.and_then(|zstd| zstd.decompress_to_buffer(content, plain).ok())
            }
        };
        if written != Some(room) {
            return Err(UnwrapError::Damaged(kind));
        }
        Ok((Header { kind, payload_len: len }, &self.plain[..room]))
    }
}

/// True if frames of this type may be compressed: frames of a Sender that can be large.
fn is_wrapped(kind: FrameType) -> bool {
    matches!(kind, FrameType::List | FrameType::Pack | FrameType::Data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Message, data_head, encode, frame_bytes};

    /// The payload of a frame around `content`, which claims to be `len` bytes of `kind`.
    fn payload(kind: u8, codec: u8, len: u32, content: &[u8]) -> Vec<u8> {
        [&[kind, codec][..], &len.to_le_bytes(), content].concat()
    }

    fn text(len: usize) -> Vec<u8> {
        b"all work and no play makes a dull boy. ".iter().copied().cycle().take(len).collect()
    }

    #[test]
    fn a_frame_is_the_same_behind_either_codec() {
        let (body, mut wrapper, mut unwrapper) =
            (text(1 << 20), Wrapper::default(), Unwrapper::default());
        let head = data_head(7, 1 << 20, body.len());
        for (codec, level) in
            [(Codec::Lz4, 0), (Codec::Zstd, 1), (Codec::Zstd, 9), (Codec::Zstd, 1)]
        {
            let wrapped = wrapper.wrap(codec, level, &head, &body).expect("it shrinks");
            assert!(wrapped.content.len() < body.len() / 10);
            let (header, rest) = wrapped.head.split_first_chunk().expect("a header");
            let header = Header::decode(*header).expect("within its bound");
            assert_eq!(header.kind, FrameType::Wrapped);
            let payload = [rest, &wrapped.content].concat();
            assert_eq!(header.payload_len as usize, payload.len());
            let (header, plain) = unwrapper.unwrap(&payload).expect("it is whole");
            assert_eq!(header.encode()[..], head[..HEADER_LEN]);
            assert_eq!(plain, [&head[HEADER_LEN..], &body].concat());
        }
    }

    #[test]
    fn frames_that_do_not_shrink_or_are_small_go_as_they_are() {
        let noise = noise(64 << 10, 0);
        let mut wrapper = Wrapper::default();
        for codec in Codec::ALL {
            let mut wrap = |body: &[u8]| wrapper.wrap(codec, 1, &data_head(1, 0, body.len()), body);
            assert_eq!(wrap(&noise), None);
            assert_eq!(wrap(b""), None);
            assert_eq!(wrap(b"aa"), None);
            let list = encode(&Message::List(Vec::new()));
            assert_eq!(wrapper.wrap(codec, 1, &list, &[]), None);
        }
    }

    #[test]
    fn only_content_and_listings_are_wrapped() {
        for kind in FrameType::ALL {
            let head = frame_bytes(kind, &text(kind.payload_max().min(4000) as usize));
            let wraps = matches!(kind, FrameType::List | FrameType::Pack | FrameType::Data);
            for codec in Codec::ALL {
                assert_eq!(
                    Wrapper::default().wrap(codec, 1, &head, &[]).is_some(),
                    wraps,
                    "{kind:?}"
                );
            }
            let inside = lz4_flex::block::compress(b"text");
            let read = payload(kind.byte(), Codec::Lz4.byte(), 4, &inside);
            let expected = if wraps { Ok(()) } else { Err(UnwrapError::Type(kind.byte())) };
            assert_eq!(Unwrapper::default().unwrap(&read).map(|_| ()), expected);
        }
    }

    #[test]
    fn bombs_and_damaged_frames_are_refused_within_their_bound() {
        let mut unwrapper = Unwrapper::default();
        let bomb = vec![0; 64 << 20];
        let list = FrameType::List.byte();
        for codec in Codec::ALL {
            let inside = match codec {
                Codec::Lz4 => lz4_flex::block::compress(&bomb),
                Codec::Zstd => zstd::bulk::compress(&bomb, 3).expect("compressed"),
            };
            let max = FrameType::List.payload_max();
            let mut unwrap = |len: u32, content: &[u8]| {
                let payload = payload(list, codec.byte(), len, content);
                unwrapper.unwrap(&payload).map(|_| ())
            };
            let too_long = UnwrapError::TooLong { kind: FrameType::List, len: max + 1, max };
            assert_eq!(unwrap(max + 1, &inside), Err(too_long));
            let damaged = Err(UnwrapError::Damaged(FrameType::List));
            assert_eq!(unwrap(max, &inside), damaged);
            assert_eq!(unwrap(0, &inside), damaged);
            let whole = match codec {
                Codec::Lz4 => lz4_flex::block::compress(&bomb[..1000]),
                Codec::Zstd => zstd::bulk::compress(&bomb[..1000], 3).expect("compressed"),
            };
            assert_eq!(unwrap(1000, &whole), Ok(()));
            assert_eq!(unwrap(1001, &whole), damaged);
            assert_eq!(unwrap(999, &whole), damaged);
            assert_eq!(unwrap(1000, &whole[..whole.len() - 1]), damaged);
            assert_eq!(unwrap(1000, &[]), damaged);
            assert!(unwrapper.plain.len() <= max as usize);
        }
        assert_eq!(unwrapper.unwrap(&[list, 1, 0, 0, 0]).map(|_| ()), Err(UnwrapError::Short));
        let unknown = payload(list, 0x7f, 0, &[]);
        assert_eq!(unwrapper.unwrap(&unknown).map(|_| ()), Err(UnwrapError::Codec(0x7f)));
    }

    /// Bytes without repetitions, and behind them zeros.
    fn noise(len: usize, zeros: usize) -> Vec<u8> {
        let mut noise = vec![0; len + zeros];
        let mut state = 1_u64;
        for byte in &mut noise[..len] {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
        noise
    }

    #[test]
    fn a_frame_is_wrapped_if_that_saves_a_twentieth() {
        let mut wraps = Vec::new();
        for zeros in 0..200 {
            let body = noise(1000, zeros);
            let head = data_head(1, 0, body.len());
            let plain = [&head[HEADER_LEN..], &body].concat();
            let len = lz4_flex::block::compress(&plain).len();
            let is_shorter = WRAP_HEAD_LEN + len <= plain.len() - plain.len() / 20;
            let wrapped = Wrapper::default().wrap(Codec::Lz4, 0, &head, &body);
            assert_eq!(wrapped.is_some(), is_shorter, "{zeros}");
            let is_repetitive = len < plain.len() - plain.len() / 20;
            assert_eq!(Wrapper::repeats(&plain), is_repetitive, "{zeros}");
            wraps.push(is_shorter);
        }
        assert!(!wraps[0] && wraps[199]);
        let zstd = |zeros| {
            let body = noise(1000, zeros);
            let head = data_head(1, 0, body.len());
            Wrapper::default().wrap(Codec::Zstd, 1, &head, &body).is_some()
        };
        assert!(!zstd(20) && zstd(199));
    }

    #[test]
    fn a_compressor_takes_the_level_of_each_frame() {
        let body = text(1 << 16);
        let head = data_head(1, 0, body.len());
        let plain = [&head[HEADER_LEN..], &body].concat();
        let mut wrapper = Wrapper::default();
        for level in [1, 19, 1, 1] {
            let wrapped = wrapper.wrap(Codec::Zstd, level, &head, &body).expect("it shrinks");
            let alone = zstd::bulk::compress(&plain, level).expect("compressed");
            assert_eq!(wrapped.content, alone, "{level}");
        }
    }
}

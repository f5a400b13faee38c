//! Replies of a server.

use super::wire::Decoder;
use super::{
    Attrs, CHUNK_LEN_MAX, HANDLE_LEN_MAX, PACKET_LEN_MAX, PacketError, Status, StatusCode,
};

/// Bytes before each reply's payload: length, type and ID.
pub const HEADER_LEN: usize = 9;

/// Bytes of the header that the length counts.
const COUNTED_LEN: u32 = 5;

/// The types of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ReplyKind {
    /// The server's greeting. Its ID is the version.
    Version = 2,
    /// Success or failure.
    Status = 101,
    /// An open file or directory.
    Handle = 102,
    /// Content.
    Data = 103,
    /// Names in a directory, or one path.
    Name = 104,
    /// Attributes.
    Attrs = 105,
    /// The reply to an extension's request.
    Extended = 201,
}

impl ReplyKind {
    const ALL: [Self; 7] = [
        Self::Version,
        Self::Status,
        Self::Handle,
        Self::Data,
        Self::Name,
        Self::Attrs,
        Self::Extended,
    ];
}

/// The first nine bytes of a reply, decoded and within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Its kind.
    pub kind: ReplyKind,
    /// The ID of the request that it answers.
    pub id: u32,
    /// The number of bytes after the header.
    pub payload_len: u32,
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// [`PacketError::TooLong`], [`PacketError::Truncated`] when the length does not
    /// cover type and number, and [`PacketError::UnknownType`].
    pub fn decode(bytes: [u8; HEADER_LEN]) -> Result<Self, PacketError> {
        let [l0, l1, l2, l3, type_byte, i0, i1, i2, i3] = bytes;
        let len = u32::from_be_bytes([l0, l1, l2, l3]);
        if len > PACKET_LEN_MAX {
            return Err(PacketError::TooLong { len, max: PACKET_LEN_MAX });
        }
        let payload_len = len.checked_sub(COUNTED_LEN).ok_or(PacketError::Truncated)?;
        let kind = ReplyKind::ALL.into_iter().find(|kind| *kind as u8 == type_byte);
        let kind = kind.ok_or(PacketError::UnknownType(type_byte))?;
        Ok(Self { kind, id: u32::from_be_bytes([i0, i1, i2, i3]), payload_len })
    }
}

/// The longest link target, in bytes: no system has longer paths.
pub const TARGET_LEN_MAX: usize = 4096;

/// The successful answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Success without a result.
    Done,
    /// The handle of an open file or directory.
    Handle,
    /// At least one byte of content, and at most `len_max`.
    Data {
        /// The limit, in bytes.
        len_max: u32,
    },
    /// Entries of a directory.
    Names,
    /// One path.
    Path,
    /// The target of a link.
    Target,
    /// Attributes.
    Attrs,
    /// The space of a file system.
    FsStats,
    /// The server's limits.
    Limits,
}

/// An answer in the expected form, or a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Success without a result, or a failure.
    Status(Status),
    /// An open file or directory.
    Handle(Box<[u8]>),
    /// Content: the first `len` bytes of the buffer.
    Data {
        /// The buffer.
        buffer: Vec<u8>,
        /// The length of the content, in bytes.
        len: usize,
    },
    /// Entries of a directory.
    Names(Names),
    /// A path.
    Path(Box<[u8]>),
    /// A link target of more than [`TARGET_LEN_MAX`] bytes, which is dropped.
    LongTarget,
    /// Attributes.
    Attrs(Attrs),
    /// The space of a file system.
    FsStats(FsStats),
    /// The server's limits.
    Limits(Limits),
}

/// Entries of a directory in their encoded form, so that many of them take no more memory than
/// their packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    count: u32,
    /// The encoded entries, which were checked once.
    packed: Box<[u8]>,
}

/// A directory entry as a server sends it. The name can be any bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawEntry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The attributes of the entry. A link is not followed.
    pub attrs: Attrs,
}

impl Names {
    fn decode(payload: &[u8]) -> Result<Self, PacketError> {
        let mut from = Decoder::new(payload);
        let count = from.u32()?;
        let start = payload.len() - from.remaining();
        // The count is not trusted: each entry takes bytes of the packet.
        for _ in 0..count {
            RawEntry::decode(&mut from)?;
        }
        let end = payload.len() - from.remaining();
        Ok(Self { count, packed: payload[start..end].into() })
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// True if there are no entries, which no server should send.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The entries, in the server's order.
    pub fn iter(&self) -> impl Iterator<Item = RawEntry<'_>> {
        let mut from = Decoder::new(&self.packed);
        (0..self.count).map_while(move |_| RawEntry::decode(&mut from).ok())
    }
}

impl<'a> RawEntry<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, PacketError> {
        let name = from.string()?;
        let _shown_by_ls = from.string()?;
        Ok(Self { name, attrs: Attrs::decode(from)? })
    }
}

/// The limits of a server; 0 if not reported (`limits@openssh.com`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// The longest packet, in bytes.
    pub packet_len: u64,
    /// The most content in the answer to one read, in bytes.
    pub read_len: u64,
    /// The most content in one write, in bytes.
    pub write_len: u64,
    /// The maximum number of open files and directories.
    pub open_handles: u64,
}

/// The space of a file system (`statvfs@openssh.com`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FsStats {
    /// The unit in which blocks are counted, in bytes.
    pub block_len: u64,
    /// All blocks.
    pub blocks: u64,
    /// Free blocks for the user.
    pub blocks_available: u64,
    /// Maximum number of files; 0 if not counted.
    pub files: u64,
    /// How many files the user can still create.
    pub files_available: u64,
    /// True if the file system is read-only.
    pub read_only: bool,
    /// The longest name, in bytes.
    pub name_len_max: u64,
}

impl Expected {
    /// Checks that a reply of this kind can answer `request`. A status always can: [`Self::decode`]
    /// finds out whether it is a failure.
    ///
    /// # Errors
    /// [`PacketError::WrongReply`].
    pub fn check(self, header: &Header, request: &'static str) -> Result<(), PacketError> {
        let wanted = match self {
            Self::Done => ReplyKind::Status,
            Self::Handle => ReplyKind::Handle,
            Self::Data { .. } => ReplyKind::Data,
            Self::Names | Self::Path | Self::Target => ReplyKind::Name,
            Self::Attrs => ReplyKind::Attrs,
            Self::FsStats | Self::Limits => ReplyKind::Extended,
        };
        if header.kind != ReplyKind::Status && header.kind != wanted {
            return Err(PacketError::WrongReply { request, reply: header.kind });
        }
        Ok(())
    }

    /// Decodes the payload of a reply that [`Self::check`] has accepted. Content is not decoded: it
    /// is read into its buffer. `request` is for messages.
    ///
    /// # Errors
    /// Any [`PacketError`] but those of headers.
    pub fn decode(
        self,
        kind: ReplyKind,
        payload: &[u8],
        request: &'static str,
    ) -> Result<Answer, PacketError> {
        let mut from = Decoder::new(payload);
        if kind == ReplyKind::Status {
            let status = Status::decode(&mut from)?;
            if status.code == StatusCode::Ok && self != Self::Done {
                return Err(PacketError::EmptySuccess(request));
            }
            return Ok(Answer::Status(status));
        }
        Ok(match self {
            Self::Handle => {
                let handle = from.string()?;
                if handle.len() > HANDLE_LEN_MAX {
                    return Err(PacketError::HandleTooLong(handle.len()));
                }
                Answer::Handle(handle.into())
            }
            Self::Names => Answer::Names(Names::decode(payload)?),
            Self::Path => Answer::Path(decode_path(&mut from)?.into()),
            Self::Target => match decode_path(&mut from)? {
                target if target.len() > TARGET_LEN_MAX => Answer::LongTarget,
                target => Answer::Path(target.into()),
            },
            Self::Attrs => Answer::Attrs(Attrs::decode(&mut from)?),
            Self::FsStats => Answer::FsStats(decode_fs_stats(&mut from)?),
            Self::Limits => Answer::Limits(Limits {
                packet_len: from.u64()?,
                read_len: from.u64()?,
                write_len: from.u64()?,
                open_handles: from.u64()?,
            }),
            Self::Done | Self::Data { .. } => {
                return Err(PacketError::WrongReply { request, reply: kind });
            }
        })
    }
}

/// The length of the content of a data packet, from the first four bytes of its payload.
///
/// # Errors
/// [`PacketError`] if it does not match the packet's length, is 0, or is more than requested.
pub(crate) fn data_len(
    header: &Header,
    prefix: [u8; 4],
    len_max: u32,
) -> Result<usize, PacketError> {
    let len = u32::from_be_bytes(prefix);
    let max = len_max.min(CHUNK_LEN_MAX);
    if len > max {
        return Err(PacketError::TooLong { len, max });
    }
    if len == 0 {
        return Err(PacketError::EmptyData);
    }
    // Both are below `PACKET_LEN_MAX`.
    if header.payload_len != len + 4 {
        return Err(PacketError::Truncated);
    }
    Ok(len as usize)
}

fn decode_path<'a>(from: &mut Decoder<'a>) -> Result<&'a [u8], PacketError> {
    match from.u32()? {
        1 => from.string(),
        count => Err(PacketError::NameCount(count)),
    }
}

fn decode_fs_stats(from: &mut Decoder) -> Result<FsStats, PacketError> {
    const READ_ONLY: u64 = 0x1;
    let mut numbers = [0; 11];
    for number in &mut numbers {
        *number = from.u64()?;
    }
    let [_preferred_len, block_len, blocks, _free_for_root, blocks_available, files, ..] = numbers;
    let [.., _files_free_for_root, files_available, _id, flags, name_len_max] = numbers;
    let read_only = flags & READ_ONLY != 0;
    Ok(FsStats {
        block_len,
        blocks,
        blocks_available,
        files,
        files_available,
        read_only,
        name_len_max,
    })
}

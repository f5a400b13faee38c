//! The packets of SFTP version 3, without I/O: requests to bytes, bytes to replies. The format is
//! that of draft-ietf-secsh-filexfer-02, with OpenSSH's extensions (its file `PROTOCOL`, section
//! 4).
//!
//! A packet is a length (4 bytes, big-endian, not counting itself), a type (1 byte), an ID that
//! ties the reply to its request (4 bytes), and the rest.

mod attrs;
mod greeting;
mod reply;
mod request;
mod status;
#[cfg(test)]
mod tests;
mod wire;

pub use attrs::{Attrs, FileType, Times};
pub use greeting::{Extension, Extensions, decode_version};
pub use reply::{
    Answer, Expected, FsStats, HEADER_LEN, Header, Limits, Names, RawEntry, ReplyKind,
    TARGET_LEN_MAX,
};
pub use request::{OpenFlags, Request};
pub use status::{Status, StatusCode};

pub(crate) use greeting::{INIT, VERSION};
pub(crate) use reply::data_len;
pub(crate) use request::PATH_LEN_MAX;

/// The longest packet from a server, in bytes after its length. OpenSSH's own client has the same
/// limit, so every server that works with it is accepted.
pub const PACKET_LEN_MAX: u32 = 256 << 10;

/// The longest piece of a file in one packet, in bytes. OpenSSH's server has this limit. It leaves
/// room for the other fields.
pub const CHUNK_LEN_MAX: u32 = 255 << 10;

/// The longest handle of an open file, in bytes (section 6.2 of the draft).
pub const HANDLE_LEN_MAX: usize = 256;

/// A violation of the protocol by a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The packet is longer than any packet may be, or than requested.
    #[error("a packet of {len} bytes; at most {max} are allowed")]
    TooLong {
        /// The announced length.
        len: u32,
        /// The limit.
        max: u32,
    },
    /// The packet ends before its content does.
    #[error("a packet that ends too early")]
    Truncated,
    /// No reply has this type.
    #[error("a packet of the unknown type {0}")]
    UnknownType(u8),
    /// No request has this ID, or it was answered already.
    #[error("an answer to the unknown request {0}")]
    UnknownId(u32),
    /// A reply of this type can't answer the request.
    #[error("{reply:?} as the answer to {request}")]
    WrongReply {
        /// The request.
        request: &'static str,
        /// The reply.
        reply: ReplyKind,
    },
    /// Success without a result, for a request that needs one.
    #[error("success without a result as the answer to {0}")]
    EmptySuccess(&'static str),
    /// A handle is longer than [`HANDLE_LEN_MAX`].
    #[error("a file handle of {0} bytes")]
    HandleTooLong(usize),
    /// Attributes have flags that version 3 does not know, so their end is unknown.
    #[error("attributes with the unknown flags {0:#x}")]
    UnknownAttrs(u32),
    /// A request for one path was answered with another number of paths.
    #[error("{0} names where one was requested")]
    NameCount(u32),
    /// A read was answered with no data instead of the end of the file.
    #[error("an empty answer to a read")]
    EmptyData,
}

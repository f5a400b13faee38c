//! The wire as bytes in and messages out: frames, handshake, capabilities and
//! the codec. No I/O and no clock; see `docs/protocol.md` for the whole.
//!
//! # Rooms
//!
//! - `frame.rs`: the types of frames and their bounds.
//! - `account.rs`: users and groups. `handshake.rs`: the greeting. `caps.rs`: capability bits.
//! - `message.rs`: every structure, and the bounds that both sides keep; `want.rs`: what
//!   a receiver asks for.
//! - `codec.rs`: postcard; packs and pieces, whose contents are decoded without a copy.

#![forbid(unsafe_code)]

mod account;
mod caps;
mod codec;
mod frame;
mod handshake;
mod message;
mod want;

pub use account::{ACCOUNT_NAME_MAX, ACCOUNTS_MAX, Account};
pub use caps::Caps;
pub use codec::{
    DATA_HEAD_MAX, DataView, DecodeError, PackBuilder, PackView, data_head, decode, decode_data,
    decode_data_start, decode_pack, encode, frame_bytes,
};
pub use frame::{FRAME_MAX, FrameError, FrameType, HEADER_LEN, Header};
pub use handshake::{HandshakeError, Hello, MAGIC, VERSION, Welcome, check_hello, check_welcome};
pub use message::{
    Abort, BlockSeal, DATA_MAX, Extra, FileEnd, FileSeal, Hashing, JobRequest, LIST_WINDOW, Late,
    ListItem, Listed, Marked, Message, OutcomeItem, PACK_FILE_MAX, PACK_TARGET, PackItem, Prove,
    Proven, Removal, Reply, Request, Rival, Role, SOURCES_MAX, Warning,
};
pub use want::{How, Want};

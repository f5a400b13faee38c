//! The wire protocol: frames, handshake, capabilities and the codec. It converts between bytes and
//! messages, without I/O or a clock. See `docs/protocol.md` for the whole protocol.
//!
//! # Rooms
//!
//! - `frame.rs`: the types of frames and their bounds.
//! - `handshake.rs`: the greeting, and capability bits.
//! - `listing.rs`: the items of a listing, with users and groups. `want.rs`: requests of a
//!   Receiver. `delta.rs`: content that the Receiver has already. `message.rs`: all other
//!   structures, and bounds.
//! - `lanes.rs`: further connections of a job. `measure.rs`: measurements.
//!   `wrapped.rs`: compressed frames.
//! - `codec.rs`: postcard; packs and pieces, whose contents are decoded without a copy.
//! - `document_tests.rs`: checks the tables of `docs/protocol.md` against all of these.

#![forbid(unsafe_code)]

mod codec;
mod delta;
mod frame;
mod handshake;
mod lanes;
mod listing;
mod measure;
mod message;
mod want;
mod wrapped;

#[cfg(test)]
mod document_tests;

pub use codec::{
    DATA_HEAD_MAX, DataView, DecodeError, PackBuilder, PackView, data_head, decode, decode_data,
    decode_data_start, decode_pack, encode, frame_bytes,
};
pub use delta::{
    Known, OFFERED_PER_FRAME_MAX, Offer, OfferedChunk, Reuse, SIGNED_MAX, SUMS_LEN_MAX,
    SUMS_PER_FRAME_MAX, Signature,
};
pub use frame::{FRAME_MAX, FrameError, FrameType, HEADER_LEN, Header};
pub use handshake::Caps;
pub use handshake::{HandshakeError, Hello, MAGIC, VERSION, Welcome, check_hello, check_welcome};
pub use lanes::{
    ARRIVED_MAX, Arrived, Call, Called, DirectKey, DirectOffer, DirectWish, INCOMING_MAX,
    JOIN_SECRET_LEN, Join, JoinSecret, LANES_MAX, LaneOver, Taken,
};
pub use listing::{ACCOUNT_NAME_MAX, ACCOUNTS_MAX, Account};
pub use listing::{ITEM_COST_MIN, ListItem, Rival};
pub use measure::{
    Amount, DISK_BYTES_MAX, FILLER_LEN, FLOW_BYTES_MAX, Flow, MEASURE_MILLIS_MAX, Machine, Measure,
    Measured, ProcessorRates, Startups,
};
pub use message::{
    Abort, BlockSeal, DATA_MAX, Extra, FileEnd, FileSeal, Hashing, JobRequest, LIST_WINDOW, Late,
    Listed, Marked, Message, NAMES_WAITING_MAX, Named, NamedDest, NamedSources, OutcomeItem,
    PACK_FILE_MAX, PACK_TARGET, PackItem, Prove, Proven, Removal, Reply, Request, Role,
    SOURCES_MAX, TOKEN_LEN, Warning,
};
pub use want::{How, Object, Want};
pub use wrapped::{Codec, UnwrapError, Unwrapper, WRAP_HEAD_LEN, Wrapped, Wrapper};

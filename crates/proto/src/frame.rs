//! Frames: `[4-byte little-endian payload length][1-byte type][payload]`.
//!
//! Every type has its own bound on the payload. It is checked before memory is allocated, so that a
//! peer can't cause a large allocation with a length alone.

use crate::FILLER_LEN;

/// Length of the header before every payload, in bytes.
pub const HEADER_LEN: usize = 5;

/// Maximum payload of any frame, in bytes.
pub const FRAME_MAX: u32 = 16 << 20;

/// Maximum payload of a frame without content, in bytes. The decoded structures are several times
/// as large.
const CONTROL_MAX: u32 = 256 << 10;

/// Maximum payload of a listing, in bytes. Its smallest items take 3 bytes here and about a hundred
/// in memory.
const LIST_MAX: u32 = 144 << 10;

/// Maximum payload of a frame with file content, in bytes: one block and its description.
const CONTENT_MAX: u32 = (4 << 20) + CONTROL_MAX;

/// Defines [`FrameType`], and the array of all of them.
macro_rules! frame_types {
    ($($(#[$doc:meta])* $name:ident = $byte:literal,)+) => {
        /// The type of a frame.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum FrameType {
            $($(#[$doc])* $name = $byte,)+
        }

        impl FrameType {
            /// Every type.
            pub const ALL: [Self; [$($byte),+].len()] = [$(Self::$name),+];
        }
    };
}

frame_types! {
    /// Client's greeting.
    Hello = 0x01,
    /// Agent's greeting.
    Welcome = 0x02,
    /// Client starts a job.
    Job = 0x03,
    /// Client sends a request.
    Request = 0x04,
    /// Agent's answer to a request, or a part of it.
    Reply = 0x05,
    /// A compressed frame of another type.
    Wrapped = 0x06,
    /// Client names the lane of a further connection, as its first message. Agent repeats it on a
    /// login.
    Join = 0x07,
    /// Either side reports that it is alive, when it has sent nothing else.
    Alive = 0x08,
    /// Sender lists entries.
    List = 0x10,
    /// Receiver requests contents.
    Want = 0x11,
    /// Sender sends several whole small files.
    Pack = 0x12,
    /// Sender sends a piece of a file.
    Data = 0x13,
    /// Sender has sent all of a file.
    FileEnd = 0x14,
    /// Receiver reports the outcomes of entries.
    Outcomes = 0x15,
    /// Receiver has finished the job.
    Done = 0x16,
    /// Either side aborts the job.
    Abort = 0x17,
    /// Receiver sends a warning.
    Warning = 0x18,
    /// Sender states the hash of a whole block of a file that is sent in pieces.
    BlockSeal = 0x19,
    /// Receiver reports entries that only the destination has.
    Extras = 0x1a,
    /// Sender reports the sources that it has removed.
    Removed = 0x1b,
    /// Receiver reports an entry that failed after its outcome.
    Late = 0x1c,
    /// Sender has set sources aside, and asks whether the Receiver still has them.
    Prove = 0x1d,
    /// Receiver answers [`Self::Prove`].
    Proven = 0x1e,
    /// Receiver reports the names that entries get, before anything else.
    Naming = 0x1f,
    /// Receiver sends the sums of a file's old version.
    Signature = 0x20,
    /// Sender refers to a part of a file that the Receiver has.
    Reuse = 0x21,
    /// Agent sends the address and key for direct connections.
    Direct = 0x22,
    /// Receiver reports the amount that arrived over a lane.
    Taken = 0x24,
    /// Sender can send nothing more over a lane.
    LaneOver = 0x25,
    /// Client requests that the agent call another host in the next job.
    Call = 0x26,
    /// Agent answers [`Self::Call`], and later reports its result.
    Called = 0x27,
    /// Client requests a measurement.
    Measure = 0x28,
    /// Agent answers [`Self::Measure`].
    Measured = 0x29,
    /// Either side sends meaningless bytes for a measurement.
    Filler = 0x2a,
    /// Receiver reports to the client the content that arrived from the other host.
    Arrived = 0x2b,
    /// Either side has sent everything of a visit. The client may begin another on this connection.
    Rest = 0x2c,
    /// Sender sends the chunks of a file before their content.
    Offer = 0x2d,
    /// Receiver answers with the chunks that it has.
    Known = 0x2e,
}

impl FrameType {
    /// The type's byte.
    pub fn byte(self) -> u8 {
        self as u8
    }

    /// Maximum payload of this type, in bytes.
    pub fn payload_max(self) -> u32 {
        match self {
            Self::Hello | Self::Welcome => 4 << 10,
            Self::Pack | Self::Data | Self::Wrapped => CONTENT_MAX,
            // The sources of a job. The smallest take 2 bytes here and 56 in memory.
            Self::Job => 4 << 20,
            Self::List => LIST_MAX,
            Self::Alive | Self::Rest => 0,
            Self::Join => 32,
            Self::Arrived => 48,
            Self::Taken | Self::LaneOver | Self::Call => 16,
            Self::Filler => FILLER_LEN as u32,
            _ => CONTROL_MAX,
        }
    }
}

/// A decoded frame header, within its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The type of the payload.
    pub kind: FrameType,
    /// The length of the payload in bytes.
    pub payload_len: u32,
}

/// The reason why five bytes are not a [`Header`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum FrameError {
    /// No frame has this type byte.
    #[error("the peer sent a frame of the unknown type 0x{0:02x}")]
    UnknownType(u8),
    /// The payload is longer than its type allows.
    ///
    /// - `kind`: the frame's type.
    /// - `len`: the claimed length.
    /// - `max`: the bound for its type.
    #[error("the peer sent a {kind:?} frame of {len} bytes; at most {max} are allowed")]
    TooLong { kind: FrameType, len: u32, max: u32 },
}

impl Header {
    /// Decodes a header.
    ///
    /// # Errors
    /// See [`FrameError`].
    pub fn decode(bytes: [u8; HEADER_LEN]) -> Result<Self, FrameError> {
        let [a, b, c, d, type_byte] = bytes;
        let payload_len = u32::from_le_bytes([a, b, c, d]);
        let kind = FrameType::ALL
            .into_iter()
            .find(|kind| kind.byte() == type_byte)
            .ok_or(FrameError::UnknownType(type_byte))?;
        let max = kind.payload_max();
        if payload_len > max {
            return Err(FrameError::TooLong { kind, len: payload_len, max });
        }
        Ok(Self { kind, payload_len })
    }

    /// Encodes the header.
    pub fn encode(self) -> [u8; HEADER_LEN] {
        let [a, b, c, d] = self.payload_len.to_le_bytes();
        [a, b, c, d, self.kind.byte()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_as_it_was_written() {
        for kind in FrameType::ALL {
            for payload_len in [0, kind.payload_max() / 2, kind.payload_max()] {
                let header = Header { kind, payload_len };
                assert_eq!(Header::decode(header.encode()), Ok(header));
            }
            assert!(kind.payload_max() <= FRAME_MAX);
        }
    }

    #[test]
    fn lengths_past_the_bound_and_unknown_types_are_refused() {
        for kind in FrameType::ALL {
            let len = kind.payload_max() + 1;
            let bytes = Header { kind, payload_len: len }.encode();
            let max = kind.payload_max();
            assert_eq!(Header::decode(bytes), Err(FrameError::TooLong { kind, len, max }));
        }
        assert_eq!(Header::decode([0, 0, 0, 0, 0x7f]), Err(FrameError::UnknownType(0x7f)));
    }
}

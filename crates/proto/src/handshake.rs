//! The greeting: the version, the capabilities and the program of a peer.
//!
//! Both greetings begin with [`MAGIC`] and the version at fixed offsets. So any two versions can
//! read that part of each other's greeting, and report a mismatch.

use haul_model::bit_set;
use serde::{Deserialize, Serialize};

/// The first bytes of a greeting's payload.
pub const MAGIC: [u8; 4] = *b"haul";

/// The version of the protocol that this build speaks.
pub const VERSION: u16 = 13;

/// The first version whose greeting has the timeout.
const SILENCE_SINCE: u16 = 2;

/// Maximum length of the program's version in a greeting, in bytes.
pub(crate) const PROGRAM_MAX: usize = 64;

/// The client's greeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Version of the protocol.
    pub version: u16,
    /// The capabilities of this side.
    pub caps: Caps,
    /// The timeout: seconds of silence after which the other side counts as lost; 0 for none. Both
    /// sides use the client's.
    pub silence_seconds: u32,
    /// Version of the program, only for messages. At most 64 bytes are sent.
    pub program: String,
}

/// The agent's greeting. Its capabilities are those in force.
pub type Welcome = Hello;

/// The reason why a greeting is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum HandshakeError {
    /// The bytes are not a greeting.
    #[error("the peer did not send haul's greeting")]
    NotHaul,
    /// The peer speaks another version.
    ///
    /// - `theirs`: the peer's version of the protocol.
    /// - `their_program`: the peer's version of the program, escaped.
    #[error(
        "the haul there ({their_program}) has protocol version {theirs}, this one has version {VERSION}"
    )]
    Version { theirs: u16, their_program: String },
}

impl Hello {
    /// This build's greeting with these capabilities and this timeout.
    pub fn ours(caps: Caps, silence_seconds: u32, program: &str) -> Self {
        Self { version: VERSION, caps, silence_seconds, program: program.to_owned() }
    }

    /// Encodes the payload: magic, version, capabilities, timeout, and the program's version as
    /// text.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(18 + self.program.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.caps.bits().to_le_bytes());
        if self.version >= SILENCE_SINCE {
            out.extend_from_slice(&self.silence_seconds.to_le_bytes());
        }
        let program = self.program.as_bytes();
        out.extend_from_slice(&program[..program.len().min(PROGRAM_MAX)]);
        out
    }

    /// Decodes a payload. Later versions may have further fields, which count as part of the
    /// program text. It is cut at its bound.
    ///
    /// # Errors
    /// [`HandshakeError::NotHaul`].
    pub fn decode(payload: &[u8]) -> Result<Self, HandshakeError> {
        let (magic, rest) = payload.split_first_chunk().ok_or(HandshakeError::NotHaul)?;
        let (version, rest) = rest.split_first_chunk().ok_or(HandshakeError::NotHaul)?;
        let (caps, rest) = rest.split_first_chunk().ok_or(HandshakeError::NotHaul)?;
        if *magic != MAGIC {
            return Err(HandshakeError::NotHaul);
        }
        let version = u16::from_le_bytes(*version);
        let (silence_seconds, rest) = match version {
            SILENCE_SINCE.. => {
                let (bytes, rest) = rest.split_first_chunk().ok_or(HandshakeError::NotHaul)?;
                (u32::from_le_bytes(*bytes), rest)
            }
            _ => (0, rest),
        };
        Ok(Self {
            version,
            silence_seconds,
            caps: Caps::from_bits(u64::from_le_bytes(*caps)),
            program: haul_model::escape_bytes(&rest[..rest.len().min(PROGRAM_MAX)]),
        })
    }
}

/// Checks the client's greeting for the agent. Returns the capabilities in force.
///
/// # Errors
/// [`HandshakeError::Version`] if the client speaks another version.
pub fn check_hello(hello: &Hello) -> Result<Caps, HandshakeError> {
    check_version(hello)?;
    Ok(hello.caps.and(Caps::OURS))
}

/// Checks the agent's greeting for the client. Returns the capabilities in force.
///
/// # Errors
/// [`HandshakeError::Version`] if the agent speaks another version.
pub fn check_welcome(welcome: &Welcome) -> Result<Caps, HandshakeError> {
    check_version(welcome)?;
    Ok(welcome.caps.and(Caps::OURS))
}

fn check_version(greeting: &Hello) -> Result<(), HandshakeError> {
    if greeting.version == VERSION {
        return Ok(());
    }
    Err(HandshakeError::Version {
        theirs: greeting.version,
        their_program: greeting.program.clone(),
    })
}

/// A set of capabilities. The capabilities that both sides offer are in force, so a bit that one
/// side does not know is ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caps(u64);

impl Caps {
    /// Nothing beyond the base protocol.
    pub const NONE: Self = Self(0);
    /// Frames may be compressed with LZ4.
    pub const LZ4: Self = Self(0x01);
    /// Frames may be compressed with Zstandard.
    pub const ZSTD: Self = Self(0x02);
    /// The Sender may offer the chunks of large files. Chunks that the Receiver has are not sent.
    pub const DEDUP: Self = Self(0x04);
    /// The Receiver may omit its own hash of the content.
    pub const FAST: Self = Self(0x08);
    /// The Receiver can flush what it publishes.
    pub const SYNC: Self = Self(0x10);
    /// Further connections may join a job, if the job requests them.
    pub const LANES: Self = Self(0x80);
    /// Entries may carry owners, device numbers, link groups, and the hashes of access control
    /// lists and extended attributes.
    pub const ATTRIBUTES: Self = Self(0x100);

    /// Measurements may be requested.
    pub const MEASURES: Self = Self(0x200);

    /// A sending agent may be told to call the receiving agent, which may report to the client what
    /// has arrived.
    pub const CALLS: Self = Self(0x400);

    /// The connection can be used after a job. A client offers this if it keeps the connection.
    pub const SESSIONS: Self = Self(0x800);

    /// The capabilities of this build. The other bits above are reserved, and not implemented.
    pub const OURS: Self = Self::LZ4
        .with(Self::ZSTD)
        .with(Self::DEDUP)
        .with(Self::LANES)
        .with(Self::MEASURES)
        .with(Self::CALLS)
        .with(Self::SESSIONS);

    /// The set with these bits.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits of the set.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

bit_set!(Caps);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_reads_as_it_was_written() {
        for silence_seconds in [0, 60, u32::MAX] {
            let hello = Hello::ours(Caps::from_bits(u64::MAX), silence_seconds, "0.1.0");
            assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        }
    }

    #[test]
    fn the_greeting_of_an_earlier_version_is_still_read() {
        let payload = b"haul\x01\x00\x60\0\0\0\0\0\0\x000.0.9";
        let hello = Hello::decode(payload).expect("a greeting");
        assert_eq!((hello.version, &*hello.program, hello.silence_seconds), (1, "0.0.9", 0));
        assert_eq!(hello.encode(), payload);
    }

    #[test]
    fn an_unknown_capability_is_ignored() {
        let hello = Hello::ours(Caps::from_bits(1 << 63), 60, "9.9.9");
        assert_eq!(check_hello(&hello), Ok(Caps::NONE));
    }

    #[test]
    fn another_version_is_an_error_that_names_both() {
        let mut hello = Hello::ours(Caps::NONE, 60, "7.0.0");
        hello.version = VERSION + 1;
        let text = check_welcome(&hello).expect_err("another version").to_string();
        assert!(
            text.contains(&format!("version {}", VERSION + 1))
                && text.contains(&format!("version {VERSION}")),
            "{text}"
        );
        assert!(text.contains("7.0.0"), "{text}");
    }

    #[test]
    fn garbage_is_no_greeting() {
        for bytes in [&b""[..], b"haul", b"Welcome to host!"] {
            assert_eq!(Hello::decode(bytes), Err(HandshakeError::NotHaul));
        }
    }

    #[test]
    fn in_force_is_what_both_sides_offer() {
        let some = Caps::ZSTD.with(Caps::SYNC);
        let hello = Hello::ours(some, 60, "0.1.0");
        assert_eq!(check_hello(&hello), Ok(Caps::ZSTD));
        assert_eq!(check_welcome(&hello), Ok(Caps::ZSTD));
        let other = Hello { version: VERSION - 1, ..hello };
        assert!(check_hello(&other).is_err() && check_welcome(&other).is_err());
    }

    #[test]
    fn a_greeting_has_a_bound_and_reports_silence_from_its_second_version_on() {
        let hello = Hello::ours(Caps::NONE, 60, &"x".repeat(PROGRAM_MAX + 1));
        let payload = hello.encode();
        assert_eq!(payload.len(), 18 + PROGRAM_MAX);
        let longer = [&payload[..], b"x"].concat();
        for payload in [&payload, &longer] {
            let read = Hello::decode(payload).expect("a greeting");
            assert_eq!(read.program, "x".repeat(PROGRAM_MAX));
        }
        let second = Hello { version: SILENCE_SINCE, program: String::new(), ..hello };
        assert_eq!(Hello::decode(&second.encode()), Ok(second.clone()));
        assert_eq!(second.encode().len(), 18);
        let first = Hello { version: 1, ..second };
        assert_eq!(first.encode().len(), 14);
        let wrong = b"hauk\x01\x00\x60\0\0\0\0\0\0\x000.0.9";
        assert_eq!(Hello::decode(wrong), Err(HandshakeError::NotHaul));
    }

    #[test]
    fn sets_are_joined_and_taken_apart() {
        let (both, other) = (Caps::LZ4.with(Caps::LANES), Caps::LANES.with(Caps::CALLS));
        assert_eq!((both.bits(), both.with(other).bits()), (0x81, 0x481));
        assert_eq!(both.and(other), Caps::LANES);
        assert_eq!(both.without(other), Caps::LZ4);
        assert!(both.has(Caps::LZ4) && both.has(both) && both.has(Caps::NONE));
        assert!(!both.has(other) && !both.has(Caps::CALLS));
        assert_eq!(Caps::OURS.bits(), 0xe87);
    }
}

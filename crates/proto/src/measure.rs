//! Measurements beside jobs: of the way to an agent, of its machine, and of a disk there.

use crate::{DirectOffer, DirectWish};
use haul_model::Fault;
use serde::{Deserialize, Serialize};

/// Longest payload of a [`crate::FrameType::Filler`] frame, in bytes.
pub const FILLER_LEN: usize = 64 << 10;

/// Filler of one flow, in bytes, at most.
pub const FLOW_BYTES_MAX: u64 = 4 << 30;

/// Bytes that are written to a disk for one measurement, at most.
pub const DISK_BYTES_MAX: u64 = 256 << 20;

/// How long a measurement may take, in milliseconds, at most; what is on its way then, or
/// has to become durable, comes on top.
pub const MEASURE_MILLIS_MAX: u32 = 3_000;

/// One measurement that a client asks for. An agent takes a figure that is over its bound
/// for the bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Measure {
    /// Tell about the machine, and how fast its processor hashes and encrypts.
    Machine {
        /// How long each rate may be measured, in milliseconds.
        millis: u32,
    },
    /// Open a port for direct connections, in place of one that was opened before. Who is
    /// let in there says [`crate::Join`] first, then asks for flows.
    Door(Box<DirectWish>),
    /// Filler goes from the client to the agent, or from the agent to the client, and ends
    /// with an empty frame.
    Flow(Flow),
    /// Write to the disk at a path, make that durable, and read it back.
    Disk {
        /// A directory. Nothing stays in it.
        path: Vec<u8>,
        /// How much is written, in bytes, at most.
        bytes: u64,
        /// How long may be written, and how long read, in milliseconds.
        millis: u32,
    },
}

/// Filler that is about to go in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The client sends it.
    pub to_agent: bool,
    /// How much, in bytes, at most.
    pub bytes: u64,
    /// For how long, in milliseconds, at most.
    pub millis: u32,
}

/// The answer to a [`Measure`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Measured {
    /// To `Machine`.
    Machine(Box<Machine>),
    /// To `Door`: how the agent is reached, or why it can't be.
    Door(Result<DirectOffer, String>),
    /// To a `Flow` to the agent, behind its end: what came in the later half of its time.
    Flow(Amount),
    /// To `Disk`.
    Disk {
        /// Written and made durable.
        written: Amount,
        /// Read back, past the page cache where that can be done.
        read: Amount,
    },
    /// To any: it can't be done.
    Fault(Fault),
}

/// Bytes, and the time that they took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Bytes.
    pub bytes: u64,
    /// Nanoseconds, never 0.
    pub nanos: u64,
}

impl Amount {
    /// Bytes per second.
    pub fn per_second(self) -> u64 {
        let rate = u128::from(self.bytes) * 1_000_000_000 / u128::from(self.nanos.max(1));
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

/// An agent's machine, as it tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The path of the agent's program, unless that is nobody's business.
    pub program: Option<Vec<u8>>,
    /// How fast its processor is.
    pub rates: ProcessorRates,
    /// The congestion control of its TCP connections, where the system tells.
    pub congestion: Option<String>,
    /// The connections that its sshd lets log in at the same time, where that can be seen.
    pub startups: Option<Startups>,
}

/// Bytes that one thread of a processor gets through in a second; 0 if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorRates {
    /// Hashed with BLAKE3.
    pub blake3: u64,
    /// Encrypted with AES-256-GCM.
    pub aes_256_gcm: u64,
    /// Encrypted with ChaCha20-Poly1305.
    pub chacha20_poly1305: u64,
}

/// The setting `MaxStartups` of an sshd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Startups {
    /// So many connections may be logging in before some are refused.
    pub begin: u32,
    /// The share that is refused from there on, in percent, where that can be seen.
    pub rate: Option<u32>,
    /// So many before all are refused.
    pub full: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_a_second() {
        for (bytes, nanos, rate) in [
            (0, 1, 0),
            (10, 2_000_000_000, 5),
            (3, 2, 1_500_000_000),
            (7, 0, 7_000_000_000),
            (u64::MAX, 1, u64::MAX),
            (u64::MAX, 1_000_000_000, u64::MAX),
        ] {
            assert_eq!(Amount { bytes, nanos }.per_second(), rate, "{bytes} in {nanos}");
        }
    }
}

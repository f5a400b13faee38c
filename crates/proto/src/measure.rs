//! Measurements outside of jobs: of the connection to an agent, of its machine, and of a disk
//! there.

use crate::{DirectOffer, DirectWish};
use haul_model::Fault;
use serde::{Deserialize, Serialize};

/// Maximum payload of a [`crate::FrameType::Filler`] frame, in bytes.
pub const FILLER_LEN: usize = 64 << 10;

/// Maximum filler of one flow, in bytes.
pub const FLOW_BYTES_MAX: u64 = 4 << 30;

/// Maximum number of bytes that one measurement writes to a disk.
pub const DISK_BYTES_MAX: u64 = 256 << 20;

/// Maximum duration of a measurement, in milliseconds. Data in transit and flushing take additional
/// time.
pub const MEASURE_MILLIS_MAX: u32 = 3_000;

/// A measurement that a client requests. An agent lowers a number above its bound to the bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum Measure {
    /// Describe the machine, and measure hashing and encrypting on its processor.
    ///
    /// - `millis`: duration of the measurement of each rate, in milliseconds.
    Machine { millis: u32 },
    /// Open a port for direct connections, in place of an earlier one. The client sends
    /// [`crate::Join`] on each connection first, and then requests flows.
    DirectPort(Box<DirectWish>),
    /// Send filler from the client to the agent, or from the agent to the client. An empty frame
    /// ends it.
    Flow(Flow),
    /// Write to the disk at a path, flush, and read it back.
    ///
    /// - `path`: a directory. Nothing is left in it.
    /// - `bytes`: maximum number of bytes to write.
    /// - `millis`: maximum duration of writing, and of reading, in milliseconds.
    Disk { path: Vec<u8>, bytes: u64, millis: u32 },
}

/// A flow of filler in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The client sends it.
    pub to_agent: bool,
    /// Maximum number of bytes.
    pub bytes: u64,
    /// Maximum duration in milliseconds.
    pub millis: u32,
}

/// The answer to a [`Measure`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum Measured {
    /// The answer to `Machine`.
    Machine(Box<Machine>),
    /// The answer to `DirectPort`: the address and key of the agent, or why there is none.
    DirectPort(Result<DirectOffer, String>),
    /// The answer to a `Flow` to the agent, after its end: what arrived in the second half of its
    /// time.
    Flow(Amount),
    /// The answer to `Disk`.
    ///
    /// - `written`: written and flushed.
    /// - `read`: read back, without the page cache if possible.
    Disk { written: Amount, read: Amount },
    /// The answer to any: it failed.
    Fault(Fault),
}

/// A number of bytes, and the time that they took.
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

/// The machine of an agent, as reported.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The path of the agent's program, unless the client may not know it.
    pub program: Option<Vec<u8>>,
    /// The speed of its processor.
    pub rates: ProcessorRates,
    /// The congestion control of its TCP connections, if the system reports it.
    pub congestion: Option<String>,
    /// The number of simultaneous logins that its sshd allows, if that can be determined.
    pub startups: Option<Startups>,
}

/// Bytes per second of one thread of a processor; 0 if unknown.
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
    /// Number of connections that may be logging in before some are refused.
    pub begin: u32,
    /// The percentage that is refused above that, if that can be determined.
    pub rate: Option<u32>,
    /// Number of connections at which all are refused.
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

//! The bounds of a gate.

use crate::direct::HANDSHAKE_MAX;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Bits of the prefix of an IPv6 address that one subscriber has.
const SUBSCRIBER_BITS: u32 = 64;

/// Bounds of a [`Gate`](crate::Gate).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateLimits {
    /// Concurrent handshakes. A new one replaces the oldest.
    pub handshakes_max: usize,
    /// The same for one address (IPv6: for its first 64 bits).
    pub per_source_max: usize,
    /// Timeout of a handshake.
    pub handshake_max: Duration,
}

impl Default for GateLimits {
    fn default() -> Self {
        Self { handshakes_max: 256, per_source_max: 64, handshake_max: HANDSHAKE_MAX }
    }
}

/// The part of an address that identifies one subscriber.
pub(crate) fn source(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => {
            let mask = u128::MAX << (u128::BITS - SUBSCRIBER_BITS);
            Ipv6Addr::from_bits(ip.to_bits() & mask).into()
        }
        ip => ip,
    }
}

//! This machine, as far as it has to do with how fast it copies.

use haul_model::ContentHasher;
use haul_net::DirectCipher;
use haul_proto::{Machine, ProcessorRates, Startups};
use std::time::{Duration, Instant};

/// Bytes that are hashed between two looks at the clock.
const HASHED_LEN: usize = 1 << 20;

/// How long each rate of a processor may be measured at most.
const RATE_MAX: Duration = Duration::from_millis(500);

/// Describes this machine, and measures each rate of its processor for so many milliseconds,
/// as far as that is within its bound.
pub(super) fn machine(program: Option<&[u8]>, millis: u32) -> Machine {
    let time = Duration::from_millis(millis.into()).min(RATE_MAX);
    let limit = haul_sys::login_limit();
    Machine {
        program: program.map(<[u8]>::to_vec),
        rates: ProcessorRates {
            blake3: hash_rate(time),
            aes_256_gcm: DirectCipher::Aes256Gcm.rate(time),
            chacha20_poly1305: DirectCipher::ChaCha20Poly1305.rate(time),
        },
        congestion: haul_sys::congestion_control(),
        startups: limit.map(|limit| Startups {
            begin: limit.begin,
            rate: limit.rate,
            full: limit.full,
        }),
    }
}

/// Bytes that one thread hashes in a second.
fn hash_rate(time: Duration) -> u64 {
    let bytes = vec![7; HASHED_LEN];
    let mut hasher = ContentHasher::new();
    let begun = Instant::now();
    loop {
        hasher.update(&bytes);
        let took = begun.elapsed();
        if took >= time {
            return (hasher.len() as f64 / took.as_secs_f64()) as u64;
        }
    }
}

//! The properties of this machine that affect the speed of copies.

use haul_model::ContentHasher;
use haul_net::DirectCipher;
use haul_proto::{Machine, ProcessorRates, Startups};
use std::time::{Duration, Instant};

/// Bytes that are hashed between two checks of the clock.
const HASHED_LEN: usize = 1 << 20;

/// The longest time for measuring one rate of a processor.
const RATE_MAX: Duration = Duration::from_millis(500);

/// Describes this machine, and measures each rate of its processor for `millis` milliseconds, up to
/// [`RATE_MAX`].
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

/// Bytes that one thread hashes per second.
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

//! Measures how fast this processor encrypts with the ciphers of direct connections.

use ring::aead::{AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use std::time::{Duration, Instant};

/// Bytes of a TLS record.
const RECORD_LEN: usize = 16 << 10;

/// Records between two reads of the clock.
const RECORDS_AT_ONCE: usize = 16;

/// A cipher of direct connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectCipher {
    /// AES-256-GCM, which most processors support in hardware.
    Aes256Gcm,
    /// ChaCha20-Poly1305, for other processors.
    ChaCha20Poly1305,
}

impl DirectCipher {
    /// Measures for `time` how many bytes one thread encrypts per second. 0 if the cipher is not
    /// available.
    pub fn rate(self, time: Duration) -> u64 {
        let algorithm: &Algorithm = match self {
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        // The result is sent to nobody, so any key and nonce will do.
        let Ok(key) = UnboundKey::new(algorithm, &[7; 32]) else { return 0 };
        let key = LessSafeKey::new(key);
        let mut record = vec![0; RECORD_LEN];
        let (begun, mut records) = (Instant::now(), 0u64);
        loop {
            for _ in 0..RECORDS_AT_ONCE {
                let nonce = Nonce::assume_unique_for_key([0; 12]);
                if key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut record).is_err() {
                    return 0;
                }
            }
            records += RECORDS_AT_ONCE as u64;
            let took = begun.elapsed();
            if took >= time {
                return ((records * RECORD_LEN as u64) as f64 / took.as_secs_f64()) as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_measured_within_the_given_time() {
        for cipher in [DirectCipher::Aes256Gcm, DirectCipher::ChaCha20Poly1305] {
            let begun = Instant::now();
            assert!(cipher.rate(Duration::from_millis(20)) > 1 << 20, "{cipher:?}");
            assert!(begun.elapsed() < Duration::from_secs(2), "{cipher:?}");
        }
    }
}

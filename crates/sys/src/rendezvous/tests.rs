//! Parts that tests of processes with a secret share.

#![cfg(target_os = "linux")]

use super::SECRET_LEN;

/// A secret that no other test uses with this `number`, in this process or another.
pub(crate) fn secret(number: u8) -> [u8; SECRET_LEN] {
    let mut secret = [number; SECRET_LEN];
    secret[..4].copy_from_slice(&std::process::id().to_le_bytes());
    secret
}

//! The sums of an old file's blocks.

use crate::shape::{Shape, WEAK_LEN};

/// The key of a signature's strong sums. It must be unknown when the files are created.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u8; Key::LEN]);

impl Key {
    /// Its length in bytes.
    pub const LEN: usize = 32;

    /// The bytes of the key.
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl From<[u8; Key::LEN]> for Key {
    fn from(bytes: [u8; Key::LEN]) -> Self {
        Self(bytes)
    }
}

/// The key is secret.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// More sums arrived than there are blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManySums;

/// The sums of an old file, as they arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    shape: Shape,
    key: Key,
    sums: Vec<u8>,
}

impl Signature {
    /// A signature without sums.
    pub fn new(shape: Shape, key: Key) -> Self {
        Self { shape, key, sums: Vec::new() }
    }

    /// Adds the next bytes of the sums.
    ///
    /// # Errors
    /// [`TooManySums`] if there are too many.
    pub fn take(&mut self, sums: &[u8]) -> Result<(), TooManySums> {
        if sums.len() > self.shape.sums_len() - self.sums.len() {
            return Err(TooManySums);
        }
        self.sums.extend_from_slice(sums);
        Ok(())
    }

    /// True if all sums have arrived.
    pub fn is_complete(&self) -> bool {
        self.sums.len() == self.shape.sums_len()
    }

    /// The cut of the old file.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// The rolling sum of a block.
    pub(crate) fn weak(&self, block: usize) -> u32 {
        let at = block * self.shape.sum_len();
        let weak = self.sums[at..].first_chunk::<WEAK_LEN>();
        u32::from_le_bytes(*weak.expect("the signature is whole"))
    }

    /// The strong sum of a block.
    pub(crate) fn strong(&self, block: usize) -> &[u8] {
        let at = block * self.shape.sum_len();
        &self.sums[at + WEAK_LEN..at + self.shape.sum_len()]
    }
}

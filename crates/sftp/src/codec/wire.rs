//! Numbers, which are big-endian, and strings, which are bytes after a length.

use super::PacketError;

/// Decodes values from the front of a packet.
#[derive(Debug)]
pub(super) struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The number of remaining bytes.
    pub(super) fn remaining(&self) -> usize {
        self.0.len()
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PacketError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(PacketError::Truncated)?;
        self.0 = rest;
        Ok(*array)
    }

    pub(super) fn u32(&mut self) -> Result<u32, PacketError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, PacketError> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string of any length that fits the packet.
    pub(super) fn string(&mut self) -> Result<&'a [u8], PacketError> {
        let len = self.u32()? as usize;
        let (string, rest) = self.0.split_at_checked(len).ok_or(PacketError::Truncated)?;
        self.0 = rest;
        Ok(string)
    }
}

/// Appends values to a packet.
pub(super) trait Put {
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    fn put_string(&mut self, value: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_string(&mut self, value: &[u8]) {
        let len = u32::try_from(value.len()).expect("paths and handles are bounded");
        self.put_u32(len);
        self.extend_from_slice(value);
    }
}

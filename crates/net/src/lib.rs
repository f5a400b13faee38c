//! Authenticated byte streams to other machines. Knows no messages.

#![forbid(unsafe_code)]

use std::io::{Read, Write};

/// Why a connection could not be made or did not last.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ConnectError {
    /// What happened, escaped for showing.
    pub message: String,
}

/// A byte stream in both directions, and what ends it.
pub struct Connection {
    /// Bytes from the peer.
    pub reader: Box<dyn Read + Send>,
    /// Bytes to the peer.
    pub writer: Box<dyn Write + Send>,
}

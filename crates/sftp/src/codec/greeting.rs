//! The first packets, and the extensions that a server announces in its own.

use super::PacketError;
use super::wire::Decoder;

/// The only supported version.
pub(crate) const VERSION: u32 = 3;

/// The client's whole greeting.
pub(crate) const INIT: [u8; 9] = [0, 0, 0, 5, 1, 0, 0, 0, VERSION as u8];

/// An extension that haul can use if the server announces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    /// A rename that replaces an existing file in one step.
    PosixRename,
    /// Making content durable.
    Fsync,
    /// The free space of a file system.
    Statvfs,
    /// Setting attributes of a symbolic link itself.
    Lsetstat,
    /// The server's limits.
    Limits,
    /// Hard links.
    HardLink,
}

impl Extension {
    /// Every extension in order, with its name on the wire and the supported version, as servers
    /// announce them.
    pub const ALL: [(Self, &'static str, &'static [u8]); 6] = [
        (Self::PosixRename, "posix-rename@openssh.com", b"1"),
        (Self::Fsync, "fsync@openssh.com", b"1"),
        (Self::Statvfs, "statvfs@openssh.com", b"2"),
        (Self::Lsetstat, "lsetstat@openssh.com", b"1"),
        (Self::Limits, "limits@openssh.com", b"1"),
        (Self::HardLink, "hardlink@openssh.com", b"1"),
    ];

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// The extensions that a server has announced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extensions(u16);

impl Extensions {
    /// True if the server has this one.
    pub fn has(self, extension: Extension) -> bool {
        self.0 & extension.bit() != 0
    }

    fn add(&mut self, name: &[u8], version: &[u8]) {
        let is_it = |known: &&(_, &str, &[u8])| (known.1.as_bytes(), known.2) == (name, version);
        if let Some((known, ..)) = Extension::ALL.iter().find(is_it) {
            self.0 |= known.bit();
        }
    }
}

/// Reads the rest of a server's greeting, after the version.
///
/// # Errors
/// [`PacketError::Truncated`].
pub fn decode_version(payload: &[u8]) -> Result<Extensions, PacketError> {
    let mut from = Decoder::new(payload);
    let mut extensions = Extensions::default();
    while from.remaining() > 0 {
        extensions.add(from.string()?, from.string()?);
    }
    Ok(extensions)
}

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
    /// Every extension.
    pub const ALL: [Self; 6] = [
        Self::PosixRename,
        Self::Fsync,
        Self::Statvfs,
        Self::Lsetstat,
        Self::Limits,
        Self::HardLink,
    ];

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::PosixRename => "posix-rename@openssh.com",
            Self::Fsync => "fsync@openssh.com",
            Self::Statvfs => "statvfs@openssh.com",
            Self::Lsetstat => "lsetstat@openssh.com",
            Self::Limits => "limits@openssh.com",
            Self::HardLink => "hardlink@openssh.com",
        }
    }

    /// The supported version of the extension, as servers announce it.
    fn version(self) -> &'static [u8] {
        match self {
            Self::Statvfs => b"2",
            _ => b"1",
        }
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
        let known = Extension::ALL.into_iter().find(|known| known.name().as_bytes() == name);
        if let Some(known) = known.filter(|known| known.version() == version) {
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

//! The first packets, and what a server says in its own that it can do beyond
//! the draft.

use super::PacketError;
use super::wire::Take;

/// The only version that is spoken.
pub(crate) const VERSION: u32 = 3;

/// The client's greeting, whole.
pub(crate) const INIT: [u8; 9] = [0, 0, 0, 5, 1, 0, 0, 0, VERSION as u8];

/// An extension that haul can use. Each is asked for, never assumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    /// A rename that replaces what has the name, in one step.
    PosixRename,
    /// Content made durable.
    Fsync,
    /// How much room a file system has.
    Statvfs,
    /// Attributes of a symbolic link itself.
    Lsetstat,
    /// The server's limits.
    Limits,
    /// Further names of files.
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

    /// The version of it that is understood here, as servers announce it.
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

/// Reads what follows the version in a server's greeting.
///
/// # Errors
/// [`PacketError::Cut`].
pub fn decode_version(payload: &[u8]) -> Result<Extensions, PacketError> {
    let mut from = Take::new(payload);
    let mut extensions = Extensions::default();
    while from.left() > 0 {
        extensions.add(from.string()?, from.string()?);
    }
    Ok(extensions)
}

//! The attributes of a file in version 3 (section 5 of the draft).

use super::PacketError;
use super::wire::{Decoder, Put};

const SIZE: u32 = 0x1;
const OWNER: u32 = 0x2;
const MODE: u32 = 0x4;
const TIMES: u32 = 0x8;
const EXTENDED: u32 = 0x8000_0000;

/// Known attributes of a file, or attributes to set. Each is optional on the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attrs {
    /// Length in bytes. Setting it truncates or extends the file.
    pub size: Option<u64>,
    /// The IDs of its user and group.
    pub owner: Option<(u32, u32)>,
    /// `st_mode`: the file type and the mode bits. Setting it uses the low 12 bits.
    pub mode: Option<u32>,
    /// The times of its last read and its last write.
    pub times: Option<Times>,
}

/// Seconds since 1970-01-01 00:00 UTC, up to 2106. The protocol has no finer and no earlier times:
/// servers send those cut to 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The time of the last read.
    pub accessed: u32,
    /// The time of the last change of content.
    pub modified: u32,
}

impl Times {
    /// True if a file that was set to these times may report `found`. Some servers keep even
    /// seconds only. If nothing is reported, no time is known to be lost.
    pub fn are_kept_as(&self, found: &Attrs) -> bool {
        let is_kept = |found: u32| found == self.modified || found == self.modified & !1;
        found.times.is_none_or(|times| is_kept(times.modified))
    }
}

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// Any other kind.
    Special,
}

impl Attrs {
    /// The mode only, for new files and directories.
    pub fn with_mode(mode: u32) -> Self {
        Self { mode: Some(mode), ..Self::default() }
    }

    /// The kind of file; `None` if the server does not report modes.
    pub fn file_type(&self) -> Option<FileType> {
        /// `S_IFMT`. Its values are the same on all systems.
        const TYPE_MASK: u32 = 0o170_000;
        Some(match self.mode? & TYPE_MASK {
            0o100_000 => FileType::File,
            0o040_000 => FileType::Dir,
            0o120_000 => FileType::Symlink,
            _ => FileType::Special,
        })
    }

    pub(super) fn decode(from: &mut Decoder) -> Result<Self, PacketError> {
        let flags = from.u32()?;
        let unknown = flags & !(SIZE | OWNER | MODE | TIMES | EXTENDED);
        if unknown != 0 {
            return Err(PacketError::UnknownAttrs(unknown));
        }
        let mut attrs = Self::default();
        if flags & SIZE != 0 {
            attrs.size = Some(from.u64()?);
        }
        if flags & OWNER != 0 {
            attrs.owner = Some((from.u32()?, from.u32()?));
        }
        if flags & MODE != 0 {
            attrs.mode = Some(from.u32()?);
        }
        if flags & TIMES != 0 {
            attrs.times = Some(Times { accessed: from.u32()?, modified: from.u32()? });
        }
        if flags & EXTENDED != 0 {
            // Each pair takes bytes of the packet, so a large count ends soon.
            for _ in 0..from.u32()? {
                let _ = (from.string()?, from.string()?);
            }
        }
        Ok(attrs)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        out.put_u32(
            flag(self.size.is_some(), SIZE)
                | flag(self.owner.is_some(), OWNER)
                | flag(self.mode.is_some(), MODE)
                | flag(self.times.is_some(), TIMES),
        );
        if let Some(size) = self.size {
            out.put_u64(size);
        }
        if let Some((user, group)) = self.owner {
            out.put_u32(user);
            out.put_u32(group);
        }
        if let Some(mode) = self.mode {
            out.put_u32(mode);
        }
        if let Some(times) = self.times {
            out.put_u32(times.accessed);
            out.put_u32(times.modified);
        }
    }
}

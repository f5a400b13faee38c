//! Converts attributes between the server's form and the tree's.

use crate::{Meta, MetaKind, Owner, Seal};
use haul_model::{Attributes, Kept, Special, Timestamp};
use haul_sftp::{Attrs, FileType, Times};
use std::io;

/// The bits of a mode that hold the file type, and two of their values (POSIX).
const TYPE_OF_MODE: u32 = 0o170_000;
const FIFO: u32 = 0o010_000;
const SOCKET: u32 = 0o140_000;

/// True if a listing has reported all needed attributes.
pub(super) fn is_complete(attrs: &Attrs) -> bool {
    attrs.times.is_some()
        && attrs.file_type().is_some_and(|kind| kind != FileType::File || attrs.size.is_some())
}

/// The metadata in `attrs`. An error if the server leaves out a part of it.
pub fn meta_of(attrs: &Attrs) -> io::Result<Meta> {
    let untold = |what| io::Error::other(format!("the server does not report {what}"));
    let kind = match attrs.file_type().ok_or_else(|| untold("its type"))? {
        FileType::File => MetaKind::File { size: attrs.size.ok_or_else(|| untold("its size"))? },
        FileType::Dir => MetaKind::Dir,
        FileType::Symlink => MetaKind::Symlink,
        FileType::Special => MetaKind::Special,
    };
    let times = attrs.times.ok_or_else(|| untold("its mtime"))?;
    let mtime = Timestamp { secs: times.modified.into(), nanos: 0 };
    let attributes = Attributes::new(attrs.mode.unwrap_or(0) & 0o7777, mtime);
    let owner = attrs.owner.map(|(user, group)| Owner { user, group });
    // The protocol does not report the numbers of a device.
    let special = match attrs.mode.map(|mode| mode & TYPE_OF_MODE) {
        Some(FIFO) => Some(Special::Fifo),
        Some(SOCKET) => Some(Special::Socket),
        _ => None,
    };
    Ok(Meta { owner, special, ..Meta::new(kind, attributes) })
}

/// The metadata that reveals a change of a file.
pub(super) fn seal_of(attrs: &Attrs) -> io::Result<Seal> {
    let meta = meta_of(attrs)?;
    match meta.kind {
        MetaKind::File { size } => Ok(Seal { size, mtime: meta.attributes.mtime }),
        MetaKind::Dir => Err(io::ErrorKind::IsADirectory.into()),
        MetaKind::Symlink | MetaKind::Special => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
        }
    }
}

/// The request to set those of `attributes` in `which`. Bits of the mode that are not kept are left
/// out.
pub(super) fn attrs_for(attributes: &Attributes, which: Kept) -> Attrs {
    let Attributes { mode, mtime, .. } = attributes.over(0, Kept::OF_COPIES);
    Attrs {
        mode: which.has(Kept::MODE).then_some(mode),
        times: which.has(Kept::TIMES).then(|| times_of(mtime)),
        ..Attrs::default()
    }
}

/// The times of a file with `mtime`. The protocol has whole seconds from 1970 to 2106; other times
/// become the nearest of these.
pub(super) fn times_of(mtime: Timestamp) -> Times {
    let secs = mtime.secs.clamp(0, u32::MAX.into()) as u32;
    Times { accessed: secs, modified: secs }
}

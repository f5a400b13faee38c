//! Proves, at the moment when a source is removed, that the destination has another copy of it.
//! File numbers prove nothing: some mounts show the same file with another number, and the compared
//! entry may have been moved since.

use crate::dirs::DirNode;
use haul_model::{Fault, FaultKind, FileId, Name, Side, words::may_be_same_name};
use haul_tree::{Meta, MetaKind, TreeDir};
use std::io;
use std::sync::Arc;

/// An entry of the destination that was found to be the same as a source.
pub(crate) struct Proof {
    /// The directory that contains it, on this machine.
    pub(crate) dir: Arc<DirNode>,
    /// Its name in `dir`.
    pub(crate) name: Name,
    /// The name of the source.
    pub(crate) source: Name,
    /// Its metadata when it was compared. Any directory counts as the same.
    pub(crate) meta: Meta,
}

impl Proof {
    /// Checks that the entry still exists, after the source was set aside under the unique name
    /// `parked`. If `parked` appears in this directory, it is the source's own directory, and the
    /// entry is the source itself. Two opposite moves both set aside before they check, so at most
    /// one check succeeds.
    ///
    /// # Errors
    /// The reason why the source must stay.
    pub(crate) fn holds(&self, parked: &Name) -> Result<(), Fault> {
        let looked = self.dir.handle().and_then(|dir| {
            let is_one_name = may_be_same_name(self.source.as_bytes(), self.name.as_bytes());
            if is_one_name && dir.stat(parked, false)?.is_some() {
                return Ok(None);
            }
            let now = dir.stat(&self.name, false)?;
            let is_still = now.is_some_and(|now| self.is_still(&*dir, &now));
            if is_still && !dir.has_known_file_system() {
                self.read_some(&*dir)?;
            }
            Ok(Some(is_still))
        });
        match looked {
            Ok(Some(true)) => Ok(()),
            Ok(None) => Err(same()),
            Ok(Some(false)) => Err(missing()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing()),
            Err(error) => Err(Fault::from_io(
                Side::Destination,
                "read the metadata of the destination",
                &error,
            )),
        }
    }

    /// Reads a byte, so that a mount whose cached metadata is outdated notices that the file is
    /// gone.
    fn read_some(&self, dir: &dyn TreeDir) -> io::Result<()> {
        if let MetaKind::File { size: 1.. } = self.meta.kind {
            let mut first = [0];
            dir.open_file(&self.name, false)?.read_at(&mut first, 0)?;
        }
        Ok(())
    }

    fn is_still(&self, dir: &dyn TreeDir, now: &Meta) -> bool {
        let Meta { kind, ref attributes, id, .. } = self.meta;
        now.kind == kind
            && may_be_same_object(dir, now.id, id)
            && (kind == MetaKind::Dir || now.attributes.mtime == attributes.mtime)
    }
}

/// True if two numbers of an entry of `dir` can belong to one object. File systems in user space
/// may renumber their entries.
pub(crate) fn may_be_same_object(
    dir: &dyn TreeDir,
    one: Option<FileId>,
    other: Option<FileId>,
) -> bool {
    one == other || !dir.has_known_file_system()
}

/// Source and destination are one object.
pub(crate) fn same() -> Fault {
    let message = "source and destination are the same";
    Fault::new(Side::Destination, FaultKind::SameFile, message)
}

fn missing() -> Fault {
    let message = "not removed: its copy has changed since";
    Fault::new(Side::Destination, FaultKind::Changed, message)
}

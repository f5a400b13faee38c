//! The proof, at the moment in which a source is removed, that the destination has
//! it and is another. Numbers of files don't tell: through some mounts the same file
//! has another, and what was there when it was compared may have been moved away.

use crate::dirs::DirNode;
use haul_model::words::may_be_one_name;
use haul_model::{Fault, FaultKind, FileId, Name, Side};
use haul_tree::{Meta, MetaKind, TreeDir};
use std::io;
use std::sync::Arc;

/// An entry of the destination that was found to be the same as a source.
pub(crate) struct Proof {
    /// Where it is, on this machine.
    pub(crate) dir: Arc<DirNode>,
    /// Its name there.
    pub(crate) name: Name,
    /// The name of the source.
    pub(crate) source: Name,
    /// Which object it was; of a directory any will do.
    pub(crate) meta: Meta,
}

impl Proof {
    /// Looks whether it is still there, now that the source was set aside under
    /// the name `aside`, which was never used before. If that shows here too, it is
    /// the same directory by another way, and what has the source's name there is
    /// the source itself. Of two moves against each other
    /// both set aside before either looks, so not both can find what they look for.
    ///
    /// # Errors
    /// Why the source must stay.
    pub(crate) fn holds(&self, aside: &Name) -> Result<(), Fault> {
        let looked = self.dir.handle().and_then(|dir| {
            let is_one_name = may_be_one_name(self.source.as_bytes(), self.name.as_bytes());
            if is_one_name && dir.stat(aside, false)?.is_some() {
                return Ok(None);
            }
            let now = dir.stat(&self.name, false)?;
            let is_still = now.is_some_and(|now| self.is_still(&*dir, &now));
            if is_still && !dir.is_known() {
                self.read_some(&*dir)?;
            }
            Ok(Some(is_still))
        });
        match looked {
            Ok(Some(true)) => Ok(()),
            Ok(None) => Err(same()),
            Ok(Some(false)) => Err(gone()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(gone()),
            Err(error) => Err(Fault::from_io(
                Side::Destination,
                "read the metadata of the destination",
                &error,
            )),
        }
    }

    /// Has a mount find the file, which may tell what it remembers of it, and not
    /// have it any more.
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
            && may_be_one(dir, now.id, id)
            && (kind == MetaKind::Dir || now.attributes.mtime == attributes.mtime)
    }
}

/// True if two numbers that an entry of `dir` had can be those of one object: file
/// systems in user space may number what they show anew.
pub(crate) fn may_be_one(dir: &dyn TreeDir, one: Option<FileId>, other: Option<FileId>) -> bool {
    one == other || !dir.is_known()
}

/// Source and destination are one object.
pub(crate) fn same() -> Fault {
    let message = "source and destination are the same";
    Fault::new(Side::Destination, FaultKind::SameFile, message)
}

fn gone() -> Fault {
    let message = "not removed: its copy has changed since";
    Fault::new(Side::Destination, FaultKind::Changed, message)
}

//! Entries without content that are created in one step: symbolic links, FIFOs, sockets, devices
//! and hard links. They can't be locked under a private name.

use crate::stage::{NAME_ATTEMPTS_MAX, with_private_name};
use crate::{OnExisting, Publication};
use haul_model::{Attributes, Fault, FileId, Kept, Name, NewEntry};
use haul_sys::Dir;
use std::io;
use std::sync::Arc;

impl Publication {
    /// Creates the entry `name` in `dir` in one step, with the `kept` part of `attributes`. A link
    /// to the file that it would replace is refused: the content could be lost.
    ///
    /// # Errors
    /// Errors of `symlinkat`, `mknodat` and `renameat`, of setting the attributes, and
    /// [`Fault::of_link_to_itself`].
    pub fn create_entry(
        dir: &Arc<Dir>,
        new: NewEntry<'_>,
        name: &Name,
        attributes: &Attributes,
        kept: Kept,
        on_existing: OnExisting,
    ) -> io::Result<Self> {
        if let (NewEntry::Symlink(target), OnExisting::Replace) = (new, on_existing)
            && dir.leads_to(target, name)
        {
            return Err(io::Error::other(Fault::of_link_to_itself()));
        }
        again_if_removed(|| {
            let (mut temp, ()) =
                with_private_name(dir, |temp| dir.make_entry(new, temp, attributes, kept))?;
            temp.publish(name, on_existing)
        })
    }

    /// Creates the hard link `name` in `dir` to the file `of` in `from`, in one step. If `id` is
    /// given, the file must have it.
    ///
    /// # Errors
    /// Errors of `linkat` and `renameat`; [`io::ErrorKind::NotFound`] if the file has another id.
    pub fn create_hard_link(
        dir: &Arc<Dir>,
        from: &Dir,
        of: &Name,
        id: Option<FileId>,
        name: &Name,
        on_existing: OnExisting,
    ) -> io::Result<Self> {
        if on_existing == OnExisting::Keep {
            // A hard link never replaces.
            return Self::of(dir.make_hard_link(from, of, id, name.as_bytes()), on_existing);
        }
        again_if_removed(|| {
            let (mut temp, ()) =
                with_private_name(dir, |temp| dir.make_hard_link(from, of, id, temp.as_bytes()))?;
            let published = temp.publish(name, on_existing)?;
            // Renaming onto another name of the same file keeps both names.
            temp.remove_if_exists();
            Ok(published)
        })
    }
}

/// Makes an entry with `make`, under a private name first. If another process removes that as a
/// leftover, since it is not locked, the entry is made again.
fn again_if_removed(make: impl Fn() -> io::Result<Publication>) -> io::Result<Publication> {
    let mut attempts = 1;
    loop {
        match make() {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && attempts < NAME_ATTEMPTS_MAX =>
            {
                attempts += 1;
            }
            made => return made,
        }
    }
}

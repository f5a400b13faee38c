//! Entries without content of their own that appear in one step: symbolic links, FIFOs,
//! sockets, devices, and further names of files. None can be locked under its private name.

use crate::stage::{NAME_ATTEMPTS_MAX, with_private_name};
use crate::{OnExisting, Publication};
use haul_model::{Attributes, Fault, FileId, Kept, Name, Special};
use haul_sys::Dir;
use std::io;
use std::sync::Arc;

impl Publication {
    /// Makes a symbolic link `name` in `dir` that points to `target`, with those of
    /// `attributes` that are `kept`, in one step. One that leads to the file that it would
    /// replace is not made: the content could be lost.
    ///
    /// # Errors
    /// Those of `symlinkat` and `renameat`, and [`Fault::of_link_to_itself`].
    pub fn of_symlink(
        dir: &Arc<Dir>,
        target: &[u8],
        name: &Name,
        attributes: &Attributes,
        kept: Kept,
        on_existing: OnExisting,
    ) -> io::Result<Self> {
        if on_existing == OnExisting::Replace && dir.leads_to(target, name) {
            return Err(io::Error::other(Fault::of_link_to_itself()));
        }
        Self::of_made(dir, name, on_existing, |temp| {
            dir.make_symlink(target, temp, attributes, kept)
        })
    }

    /// Makes the FIFO, socket or device `name` in `dir`, with those of `attributes` that are
    /// `kept`, in one step.
    ///
    /// # Errors
    /// Those of `mknodat`, of setting the attributes, and of `renameat`.
    pub fn of_special(
        dir: &Arc<Dir>,
        special: Special,
        name: &Name,
        attributes: &Attributes,
        kept: Kept,
        on_existing: OnExisting,
    ) -> io::Result<Self> {
        Self::of_made(dir, name, on_existing, |temp| {
            dir.make_special(special, temp, attributes, kept)
        })
    }

    /// Gives what is called `of` in `from`, which must be the object `id` if that is known,
    /// the further name `name` in `dir`, in one step.
    ///
    /// # Errors
    /// Those of `linkat` and `renameat`; [`io::ErrorKind::NotFound`] if it is another
    /// object.
    pub fn of_hard_link(
        dir: &Arc<Dir>,
        from: &Dir,
        of: &Name,
        id: Option<FileId>,
        name: &Name,
        on_existing: OnExisting,
    ) -> io::Result<Self> {
        if on_existing == OnExisting::Keep {
            // A hard link never replaces.
            return match dir.make_hard_link(from, of, id, name.as_bytes()) {
                Ok(()) => Ok(Self::Published),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Self::Kept),
                Err(error) => Err(error),
            };
        }
        let (mut temp, ()) =
            with_private_name(dir, |temp| dir.make_hard_link(from, of, id, temp.as_bytes()))?;
        let published = temp.publish(name, on_existing)?;
        // A name that is replaced by one of the same object leaves both where they are.
        temp.remove_rest();
        Ok(published)
    }

    /// Gives its name to what `make` makes under a private one, and what can't be locked.
    fn of_made(
        dir: &Arc<Dir>,
        name: &Name,
        on_existing: OnExisting,
        make: impl Fn(&str) -> io::Result<()>,
    ) -> io::Result<Self> {
        let mut attempts = 0;
        loop {
            let made = with_private_name(dir, &make);
            attempts += 1;
            match made.and_then(|(mut temp, ())| temp.publish(name, on_existing)) {
                // Somebody has removed it: nothing tells that it is not left behind.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound && attempts < NAME_ATTEMPTS_MAX => {}
                made => return made,
            }
        }
    }
}

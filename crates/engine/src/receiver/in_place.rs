//! Updates in place: the new content is staged and verified as usual, and then written into the
//! existing file. The file keeps its other names, too.

use super::backing::not_backed_up;
use super::{DirState, Naming, Pending, parent_fault};
use crate::dirs::{number_here, object_here};
use crate::originals::also_a_source;
use haul_model::{Changes, Entry, Fault, FaultKind, Outcome, Side, Updating};
use haul_proto::Object;
use haul_store::OnExisting;
use haul_tree::{Meta, SealedFile};
use std::io;

impl Naming<'_> {
    /// The existing file of `pending`, if it will be updated in place. A file that is also a source
    /// must not change: it is replaced if it has other names, and fails otherwise.
    pub(super) fn to_update(&self, pending: &Pending) -> Result<Option<Meta>, Fault> {
        let Some(there) = self.in_its_place(pending)? else { return Ok(None) };
        if self.job.ends.sender_knows_sources {
            return Ok(
                Some(there).filter(|there| pending.into.is_some() && pending.into == there.id)
            );
        }
        match self.originals.as_ref().zip(there.id) {
            Some((originals, id)) if originals.may_have(number_here(id), self.job.control) => {
                if there.links == 1 {
                    Err(also_a_source(Side::Destination))
                } else {
                    Ok(None)
                }
            }
            _ => Ok(Some(there)),
        }
    }

    /// Finds the file into which `pending` will be written. Returns its object for the Sender,
    /// which knows whether it is a source.
    pub(super) fn tell_into(&self, pending: &mut Pending) -> Option<Object> {
        if !self.job.ends.sender_knows_sources {
            return None;
        }
        // A fault is reported when the content has arrived.
        pending.into = self.in_its_place(pending).ok().flatten().and_then(|there| there.id);
        pending.into.map(object_here)
    }

    fn in_its_place(&self, pending: &Pending) -> Result<Option<Meta>, Fault> {
        let updates = self.job.plan.updating != Updating::Replaces;
        let is_new = pending.on_existing == OnExisting::Keep
            || pending.found.has(Changes::KIND)
            || pending.found.has(Changes::MISSING);
        if !updates || is_new {
            return Ok(None);
        }
        let DirState::Open(node) = &pending.dir.state else { return Err(parent_fault()) };
        let looked = node.handle().and_then(|handle| self.job.look_at(&*handle, &pending.name));
        match looked.map_err(|error| failed(&error))? {
            Some(there) if there.is_file() => Ok(Some(there)),
            // The file was removed meanwhile.
            None => Ok(None),
            // The content of a base replaces the entry.
            Some(_) if pending.base.is_some() => Ok(None),
            Some(_) => {
                let message = "something else replaced it";
                Err(Fault::new(Side::Destination, FaultKind::Changed, message))
            }
        }
    }

    /// Writes the staged content into the file `there`, and sets its attributes.
    pub(super) fn update(
        &self,
        pending: &Pending,
        there: &Meta,
        sealed: Box<dyn SealedFile>,
    ) -> Result<Outcome, Fault> {
        let Pending { dir, name, entry, .. } = pending;
        let DirState::Open(node) = &dir.state else { return Err(parent_fault()) };
        let Some(id) = there.id else {
            return Err(failed(&io::ErrorKind::Unsupported.into()));
        };
        if let Some(claims) = dir.claims()
            && !claims.has(id)
            && !node
                .handle()
                .and_then(|handle| self.is_free(dir, &*handle, name, there))
                .map_err(|error| failed(&error))?
        {
            return Err(super::naming::another());
        }
        // Another entry may be another name of the same file: they are updated one by one.
        let _turn = (there.links != 1).then(|| self.updating.lock());
        self.backups.back_up_apart(node, name).map_err(not_backed_up)?;
        let mtime = sealed.write_into(name, id).map_err(|error| failed(&error))?;
        let mut attributes = entry.attributes.clone();
        attributes.mtime = mtime;
        let entry = Entry { attributes, ..entry.clone() };
        let looked = node.handle().and_then(|handle| self.job.look_at(&*handle, name));
        let now = looked.map_err(|error| failed(&error))?;
        self.refresh(node, name, &entry, now.as_ref())?;
        if self.job.policy.sync {
            node.handle().and_then(|handle| handle.sync(Some(name))).map_err(|error| {
                Fault::from_io(Side::Destination, "flush it to stable storage", &error)
            })?;
        }
        sealed.discard();
        Ok(Outcome::Copied)
    }
}

fn failed(error: &io::Error) -> Fault {
    Fault::from_io(Side::Destination, "write into the file", error)
}

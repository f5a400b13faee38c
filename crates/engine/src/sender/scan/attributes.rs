//! The attributes of an entry that are listed, and warnings about attributes that are not kept.

use crate::dirs::DirNode;
use crate::not_kept;
use crate::sender::Sender;
use crate::{Event, Job, Munging};
use haul_model::{
    Attributes, Fault, Filter, FilterSide, Kept, Kind, ModeChanges, Name, OrFault, Side, Xattr,
    links,
};
use haul_tree::{Meta, Owner};
use std::sync::Arc;

/// Reads the attributes that a job lists.
pub(super) struct AttributeReader<'s> {
    /// The attributes that are listed.
    pub(super) keeps: Kept,
    /// Changes to modes before they are listed.
    modes: &'s ModeChanges,
    filter: &'s Filter,
    /// Munged links are listed with their original targets.
    unmunges: bool,
    /// Attributes that are checked once, for a warning if the sources' tree lacks them.
    to_check: Kept,
    /// Owners are checked until the user is warned that they are not kept.
    checks_owners: bool,
}

impl<'s> AttributeReader<'s> {
    /// The reader of a job.
    pub(super) fn of(job: &'s Job) -> Self {
        // A move keeps all attributes it can. Its last job follows one that has already warned.
        let is_move = job.task.mirrors().is_none() && job.task.moving().is_some();
        let warns_missing = !is_move && job.task.removes().is_none();
        Self {
            keeps: job.task.keeps(),
            modes: &job.altered.modes,
            filter: &job.filter,
            unmunges: job.munging == Munging::Undone,
            to_check: job.task.keeps().only_if(warns_missing),
            checks_owners: not_kept::warns_about_owners(&job.task),
        }
    }

    /// Warns once if the tree of `node` lacks attributes that the job keeps.
    pub(super) fn warn_unsupported(
        &mut self,
        sender: &Sender<'_>,
        node: &Arc<DirNode>,
        path: &[u8],
    ) {
        let requested = std::mem::replace(&mut self.to_check, Kept::NONE);
        if requested.is_empty() {
            return;
        }
        if let Ok(handle) = node.handle()
            && let Some(message) =
                not_kept::not_kept_message(requested, handle.capabilities().keeps)
        {
            warn(sender, path, message);
        }
    }

    /// Warns root once that copies get another owner. Other users can't keep owners, and expect
    /// that. Returns the owner if the Receiver must know it, because the Receiver may run as root.
    pub(super) fn check_owner(
        &mut self,
        sender: &Sender<'_>,
        meta: &Meta,
        path: impl FnOnce() -> Vec<u8>,
    ) -> Option<Owner> {
        let owner = meta.owner.filter(|_| self.checks_owners)?;
        if !not_kept::has_other_owner(owner) {
            return None;
        }
        self.checks_owners = false;
        let is_wire = sender.is_wire();
        // The user is at the other end of a wire, unless there is a reporter here.
        if haul_sys::is_root() && (!is_wire || sender.reporter.is_some()) {
            warn(sender, &path(), &not_kept::owner_not_kept(owner));
            return None;
        }
        Some(owner).filter(|_| is_wire)
    }

    /// `attributes` with the mode that the job lists for such an entry.
    pub(super) fn listed(&self, mut attributes: Attributes, is_dir: bool) -> Attributes {
        if !self.modes.is_empty() {
            attributes.mode = self.modes.apply(attributes.mode, is_dir, haul_sys::umask());
        }
        attributes
    }

    /// The attributes of `dir` that the job keeps. `attributes` are those that need no extra call.
    pub(super) fn kept_of_dir(
        &self,
        dir: &Arc<DirNode>,
        attributes: Attributes,
    ) -> Result<Attributes, Fault> {
        self.kept_of(dir, None, self.listed(attributes, true))
    }

    /// The attributes of the entry `name` of `dir` that the job keeps. `is_link` is set for a
    /// symbolic link that is not followed.
    pub(super) fn kept_of_entry(
        &self,
        dir: &Arc<DirNode>,
        name: (&Name, bool),
        is_link: bool,
        meta: &Meta,
    ) -> Result<Attributes, Fault> {
        let attributes = meta.attributes.clone();
        // The mode of a link means nothing.
        let listed = if is_link { attributes } else { self.listed(attributes, false) };
        self.kept_of(dir, Some(name), listed)
    }

    fn kept_of(
        &self,
        dir: &Arc<DirNode>,
        name: Option<(&Name, bool)>,
        listed: Attributes,
    ) -> Result<Attributes, Fault> {
        let mode = listed.mode;
        let mut attributes = listed.only(self.keeps);
        if self.keeps.has_any(Kept::EXTENDED) {
            let read = dir.handle().and_then(|dir| dir.extended(name, self.keeps));
            let what = "read its extended attributes";
            attributes.extended = match read {
                Err(_) if self.keeps.has(Kept::AS_POSSIBLE) => None,
                read => read.or_fault(Side::Source, what)?,
            };
            if let Some(extended) = attributes.extended.as_mut() {
                let is_excluded =
                    |xattr: &Xattr| self.filter.excludes_xattr(&xattr.name, FilterSide::Sender);
                extended.xattrs.retain(|xattr| !is_excluded(xattr));
            }
            // An ACL contains the mode. Unchanged, it would undo the changes to the listed mode.
            let acl = attributes.extended.as_mut().and_then(|all| all.acl.as_mut());
            if let Some(acl) = acl.filter(|_| !self.modes.is_empty()) {
                acl.set_mode(mode);
            }
        }
        Ok(attributes)
    }

    /// `kind`, with the original target of a munged link.
    pub(super) fn unmunged(&self, kind: Kind) -> Kind {
        match &kind {
            Kind::Symlink { target } if self.unmunges => match links::unmunged(target) {
                Some(target) => Kind::Symlink { target: target.into() },
                None => kind,
            },
            _ => kind,
        }
    }
}

/// Reports a warning about the source `path`.
pub(super) fn warn(sender: &Sender<'_>, path: &[u8], message: &str) {
    sender.control.monitor().event(Event::Warning { side: Some(Side::Source), path, message });
}

/// Adds `owner` to `attributes` that were read without it.
pub(super) fn with_owner(mut attributes: Attributes, owner: Option<Owner>) -> Attributes {
    if let Some(Owner { user, group }) = owner {
        (attributes.user, attributes.group) = (Some(user), Some(group));
    }
    attributes
}

/// True if a file appears to have holes.
pub(super) fn has_holes(dir: &Arc<DirNode>, (name, follow): (&Name, bool), meta: &Meta) -> bool {
    if !meta.is_thin {
        return false;
    }
    // A compressed file takes little storage, and some file systems report none. Neither is a
    // hole. If the file can't be opened, the error is reported when it is read.
    let opened = dir.handle().and_then(|dir| dir.open_file(name, follow));
    opened.and_then(|file| file.has_holes()).unwrap_or(true)
}

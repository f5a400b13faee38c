//! The attributes of an entry that are listed, and warnings about attributes that are not kept.

use super::{Scan, Stopped};
use crate::Event;
use crate::dirs::DirNode;
use crate::not_kept;
use crate::sender::loss;
use haul_model::{Attributes, Fault, FilterSide, Kept, Kind, Name, Side, Xattr, links};
use haul_proto::ListItem;
use haul_tree::{Meta, Owner};
use std::sync::Arc;

impl Scan<'_, '_> {
    /// Warns root once that copies get another owner. Other users can't keep owners, and expect
    /// that. Returns the owner if the Receiver must know it, because the Receiver may run as root.
    pub(super) fn check_owner(
        &mut self,
        meta: &Meta,
        path: impl FnOnce() -> Vec<u8>,
    ) -> Option<Owner> {
        let owner = meta.owner.filter(|_| self.checks_owners)?;
        if !not_kept::has_other_owner(owner) {
            return None;
        }
        self.checks_owners = false;
        let is_wire = self.sender.is_wire();
        // The user is at the other end of a wire, unless there is a reporter here.
        if haul_sys::is_root() && (!is_wire || self.reporter.is_some()) {
            let message = not_kept::owner_not_kept(owner);
            let monitor = self.sender.control.monitor();
            monitor.event(Event::Warning {
                side: Some(Side::Source),
                path: &path(),
                message: &message,
            });
            return None;
        }
        Some(owner).filter(|_| is_wire)
    }

    /// Adds `owner` to `attributes` that were read without it.
    pub(super) fn with_owner(mut attributes: Attributes, owner: Option<Owner>) -> Attributes {
        if let Some(Owner { user, group }) = owner {
            (attributes.user, attributes.group) = (Some(user), Some(group));
        }
        attributes
    }

    /// Sends the user and group that perform the move, if sources must not lose attributes.
    pub(super) fn send_mover(&mut self) -> Result<(), Stopped> {
        if !self.sender.removing.must_be_lossless() {
            return Ok(());
        }
        let (user, group) = (haul_sys::effective_user(), haul_sys::effective_group());
        self.push(ListItem::Mover { user, group })
    }

    /// The reason why the entry `name` of `node`, or `node` itself, stays: a move would lose some
    /// of its attributes.
    pub(super) fn loss(&self, node: &Arc<DirNode>, name: Option<&Name>) -> Option<Fault> {
        if !self.sender.removing.must_be_lossless() {
            return None;
        }
        let dir = match node.handle() {
            Ok(dir) => dir,
            Err(error) => return Some(Fault::from_io(Side::Source, "open", &error)),
        };
        let inspected = loss::loss(&*dir, name);
        inspected.unwrap_or_else(|error| {
            Some(Fault::from_io(Side::Source, "read its attributes", &error))
        })
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
                read => read.map_err(|error| Fault::from_io(Side::Source, what, &error))?,
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

    /// True if a file appears to have holes.
    pub(super) fn has_holes(
        &self,
        dir: &Arc<DirNode>,
        (name, follow): (&Name, bool),
        meta: &Meta,
    ) -> bool {
        if !meta.is_thin {
            return false;
        }
        // A compressed file takes little storage, and some file systems report none. Neither is a
        // hole. If the file can't be opened, the error is reported when it is read.
        let opened = dir.handle().and_then(|dir| dir.open_file(name, follow));
        opened.and_then(|file| file.has_holes()).unwrap_or(true)
    }
}

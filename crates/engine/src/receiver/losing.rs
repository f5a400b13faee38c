//! Losses of a move: attributes of a source that this side can't set. Such a source stays where it
//! is, unless the user accepts the loss.

use super::{Broken, Owners};
use crate::lacks::would_lose;
use haul_model::{Entry, Fault, FaultKind, Kept, Kind, Moving, SET_ID_MODE, Side, Special, Task};
use haul_sys::{AccountKind, NotKept};
use haul_tree::{Meta, Owner};
use std::io;
use std::sync::OnceLock;

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;

/// The attributes that moved entries can have here.
pub(super) struct Losing {
    /// Sources that would lose something stay.
    is_whole: bool,
    gives: Kept,
    /// The user and group that move the sources, at the Sender.
    mover: OnceLock<Owner>,
}

impl Losing {
    /// `gives`: the attributes that this side can set.
    pub(super) fn of(task: &Task, gives: Kept) -> Self {
        let is_whole = task.moving() == Some(Moving::Whole);
        Self { is_whole, gives, mover: OnceLock::new() }
    }

    /// True if `number` is the user or group that moves the sources. It maps to the one of this
    /// process.
    fn is_own(&self, of: impl Fn(&Owner) -> u32, number: u32) -> bool {
        self.mover.get().is_some_and(|mover| of(mover) == number)
    }
}

impl Owners<'_> {
    /// True if sources that would lose something stay.
    pub(super) fn moves_whole(&self) -> bool {
        self.losing.is_whole
    }

    /// Takes the user who moves the sources, which must be listed first.
    pub(super) fn take_mover(&self, mover: Owner, is_first: bool) -> Result<(), Broken> {
        if !self.losing.is_whole || !is_first || self.losing.mover.set(mover).is_err() {
            return Err(Broken("it named who moves the sources where that is not expected"));
        }
        Ok(())
    }

    /// The owner here of a source of `user`, if that is the mover and this side can't set owners:
    /// the user of this process.
    pub(super) fn own_user(&self, user: u32) -> Option<u32> {
        let is_own = self.losing.is_whole
            && !self.losing.gives.has(Kept::USER)
            && self.losing.is_own(|mover| mover.user, user);
        is_own.then(haul_sys::effective_user)
    }

    /// The reason why an entry stays, if it would lose something here. `entry` is as the Sender
    /// listed it.
    pub(super) fn loss(&self, entry: &Entry) -> Option<Fault> {
        if !self.losing.is_whole {
            return None;
        }
        if let Some(special) = entry.special.filter(|one| !self.losing.gives.has(one.kept())) {
            let message = match special {
                Special::Fifo | Special::Socket => {
                    "not moved: the destination can't hold FIFOs and sockets"
                }
                Special::Block(_) | Special::Char(_) => {
                    "not moved: only root can create devices at the destination"
                }
            };
            return Some(Fault::new(Side::Source, FaultKind::Special, message));
        }
        would_lose(entry.kind == Kind::Dir, &self.lost(entry))
    }

    /// The attributes that an entry would lose, in words.
    fn lost(&self, entry: &Entry) -> Vec<String> {
        let (losing, gives) = (&self.losing, self.losing.gives);
        let attributes = &entry.attributes;
        let mut lost = Vec::new();
        // The set-ID bits that the entry can have here.
        let mut lends = 0;
        if let Some(user) = attributes.user {
            let here = self.number_here(AccountKind::User, user);
            let is_same = gives.has(Kept::USER) || here == haul_sys::effective_user();
            lends |= if is_same { SET_USER_ID } else { 0 };
            if !is_same && !losing.is_own(|mover| mover.user, user) {
                lost.push(format!("its owner ({user})"));
            }
        }
        if let Some(group) = attributes.group {
            let here = self.number_here(AccountKind::Group, group);
            let is_same = gives.has(Kept::GROUP) && haul_sys::is_of_group(here);
            lends |= if is_same { SET_GROUP_ID } else { 0 };
            if !is_same && !losing.is_own(|mover| mover.group, group) {
                lost.push(format!("its group ({group})"));
            }
        }
        let has_mode = !matches!(entry.kind, Kind::Symlink { .. });
        let lends = match (&entry.kind, gives.has(Kept::SET_ID)) {
            (Kind::File { .. }, true) => lends,
            // The set-user-ID bit has no effect on a directory.
            (Kind::Dir, true) => lends | SET_USER_ID,
            _ => 0,
        };
        if has_mode && attributes.mode & SET_ID_MODE & !lends != 0 {
            lost.push("its set-ID bits".to_owned());
        }
        let (acl, default_acl) = attributes.acls();
        if acl.or(default_acl).is_some() && !gives.has(Kept::ACL) {
            lost.push("its ACL".to_owned());
        }
        let is_root = haul_sys::is_root();
        let mut xattrs = attributes.xattrs().iter();
        if xattrs
            .any(|one| !gives.has(Kept::XATTRS) || !(is_root || one.name.starts_with(b"user.")))
        {
            lost.push("its extended attributes".to_owned());
        }
        lost
    }

    /// The fault of a source whose copy `there` lacks its set-ID bits. File systems need not keep
    /// modes exactly, but these bits must not be lost unseen.
    pub(super) fn lent_less(&self, entry: &Entry, there: &Meta) -> Option<Fault> {
        let has_mode = !matches!(entry.kind, Kind::Symlink { .. });
        let lacks = entry.attributes.mode & !there.attributes.mode & SET_ID_MODE != 0;
        (self.losing.is_whole && self.job.removes() && has_mode && lacks).then(|| {
            let message = "not removed: its copy lacks the set-ID bits";
            Fault::new(Side::Source, FaultKind::Lossy, message)
        })
    }
}

/// The fault of an entry whose `action` failed with `error` at the destination. A source that is
/// moved whole stays if an attribute can't be set there.
pub(super) fn not_kept(moving: Option<Moving>, action: &str, error: &io::Error) -> Fault {
    match moving {
        Some(Moving::Whole) if NotKept::is(error) => {
            let mut fault = Fault::from_io(Side::Destination, action, error);
            fault.kind = FaultKind::Lossy;
            fault
        }
        _ => Fault::from_io(Side::Destination, action, error),
    }
}

//! The loss of an entry by a move: attributes that this side can't give to it. Such a source
//! stays where it is, unless the user does without.

use super::{Broken, Owners};
use crate::lacks::would_lose;
use haul_model::{Entry, Fault, FaultKind, Kept, Kind, Moving, SET_ID_MODE, Side, Special, Task};
use haul_sys::{AccountKind, NotKept};
use haul_tree::{Meta, Owner};
use std::io;
use std::sync::OnceLock;

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;

/// The attributes that entries of a move can be given here.
pub(super) struct Losing {
    /// Sources that would lose something stay.
    is_whole: bool,
    gives: Kept,
    /// Who moves the sources, at the Sender.
    mover: OnceLock<Owner>,
}

impl Losing {
    /// Those of a task, of which this side `gives` so many.
    pub(super) fn of(task: &Task, gives: Kept) -> Self {
        let is_whole = task.moving() == Some(Moving::Whole);
        Self { is_whole, gives, mover: OnceLock::new() }
    }

    /// The same user or group as the one that is moving the sources, who becomes the one
    /// that this process runs as.
    fn is_own(&self, of: impl Fn(&Owner) -> u32, number: u32) -> bool {
        self.mover.get().is_some_and(|mover| of(mover) == number)
    }
}

impl Owners<'_> {
    /// True if sources that would lose something stay.
    pub(super) fn moves_whole(&self) -> bool {
        self.losing.is_whole
    }

    /// Takes the user who moves the sources, which is listed first.
    pub(super) fn take_mover(&self, mover: Owner, is_first: bool) -> Result<(), Broken> {
        if !self.losing.is_whole || !is_first || self.losing.mover.set(mover).is_err() {
            return Err(Broken("it named who moves the sources where that is not expected"));
        }
        Ok(())
    }

    /// The user who owns a source of that user, where this side gives files to nobody else:
    /// the one who receives it, if the source is the mover's own.
    pub(super) fn own_user(&self, user: u32) -> Option<u32> {
        let is_own = self.losing.is_whole
            && !self.losing.gives.has(Kept::USER)
            && self.losing.is_own(|mover| mover.user, user);
        is_own.then(haul_sys::effective_user)
    }

    /// Why an entry stays, if it would lose something here. The entry is as the Sender has
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

    /// In words.
    fn lost(&self, entry: &Entry) -> Vec<String> {
        let (losing, gives) = (&self.losing, self.losing.gives);
        let attributes = &entry.attributes;
        let mut lost = Vec::new();
        // The set-ID bits that it can have here.
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
            // That of its user means nothing there.
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

    /// The fault of a source whose set-ID bits the entry that is `there` lacks: no file
    /// system has to keep modes exactly, but what these lend is not lost unseen.
    pub(super) fn lent_less(&self, entry: &Entry, there: &Meta) -> Option<Fault> {
        let has_mode = !matches!(entry.kind, Kind::Symlink { .. });
        let lacks = entry.attributes.mode & !there.attributes.mode & SET_ID_MODE != 0;
        (self.losing.is_whole && self.job.removes() && has_mode && lacks).then(|| {
            let message = "not removed: its copy lacks the set-ID bits";
            Fault::new(Side::Source, FaultKind::Lossy, message)
        })
    }
}

/// The fault of an entry for which an `action` has failed with `error` at the destination:
/// where an attribute can't be had there, a source that is `moving` whole stays.
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

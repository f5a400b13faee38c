//! Losses of a move: attributes of a source that this side can't set. Such a source stays where it
//! is, unless the user accepts the loss.

use crate::not_kept::would_lose;
use crate::receiver::{Owners, ProtocolViolation};
use haul_model::{Entry, Fault, FaultKind, Kept, Kind, Moving, SET_ID_MODE, Side, Special};
use haul_sys::{AccountKind, NotKept};
use haul_tree::{Meta, Owner};
use std::io;
use std::sync::OnceLock;

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;

/// The attributes that moved entries can have here.
pub(crate) struct LossCheck {
    /// Sources that would lose something stay.
    is_lossless: bool,
    settable: Kept,
    /// The user and group that move the sources, at the Sender.
    mover: OnceLock<Owner>,
}

impl LossCheck {
    /// `is_lossless`: the job belongs to a move that must lose nothing. `settable`: the attributes
    /// that this side can set.
    pub(crate) fn of(is_lossless: bool, settable: Kept) -> Self {
        Self { is_lossless, settable, mover: OnceLock::new() }
    }

    /// True if `number` is the user or group that moves the sources. It maps to the one of this
    /// process.
    fn is_mover(&self, of: impl Fn(&Owner) -> u32, number: u32) -> bool {
        self.mover.get().is_some_and(|mover| of(mover) == number)
    }
}

impl Owners<'_> {
    /// True if sources that would lose something stay.
    pub(crate) fn moves_whole(&self) -> bool {
        self.loss_check.is_lossless
    }

    /// Takes the user who moves the sources, which must be listed first.
    pub(crate) fn take_mover(&self, mover: Owner, is_first: bool) -> Result<(), ProtocolViolation> {
        if !self.loss_check.is_lossless || !is_first || self.loss_check.mover.set(mover).is_err() {
            return Err(ProtocolViolation(
                "it named who moves the sources where that is not expected",
            ));
        }
        Ok(())
    }

    /// The owner here of a source of `user`, if that is the mover and this side can't set owners:
    /// the user of this process.
    pub(crate) fn mover_user(&self, user: u32) -> Option<u32> {
        let is_mover = self.loss_check.is_lossless
            && !self.loss_check.settable.has(Kept::USER)
            && self.loss_check.is_mover(|mover| mover.user, user);
        is_mover.then(haul_sys::effective_user)
    }

    /// The reason why an entry stays, if it would lose something here. `entry` is as the Sender
    /// listed it.
    pub(crate) fn loss(&self, entry: &Entry) -> Option<Fault> {
        if !self.loss_check.is_lossless {
            return None;
        }
        if let Some(special) = entry.special.filter(|one| !self.loss_check.settable.has(one.kept()))
        {
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
        would_lose(entry.kind == Kind::Dir, &self.lost_attributes(entry))
    }

    /// The attributes that an entry would lose, in words.
    fn lost_attributes(&self, entry: &Entry) -> Vec<String> {
        let (loss_check, settable) = (&self.loss_check, self.loss_check.settable);
        let attributes = &entry.attributes;
        let mut lost_attributes = Vec::new();
        // The set-ID bits that the entry can have here.
        let mut kept_set_id = 0;
        if let Some(user) = attributes.user {
            let here = self.local_id(AccountKind::User, user);
            let is_same = settable.has(Kept::USER) || here == haul_sys::effective_user();
            kept_set_id |= if is_same { SET_USER_ID } else { 0 };
            if !is_same && !loss_check.is_mover(|mover| mover.user, user) {
                lost_attributes.push(format!("its owner ({user})"));
            }
        }
        if let Some(group) = attributes.group {
            let here = self.local_id(AccountKind::Group, group);
            let is_same = settable.has(Kept::GROUP) && haul_sys::is_in_group(here);
            kept_set_id |= if is_same { SET_GROUP_ID } else { 0 };
            if !is_same && !loss_check.is_mover(|mover| mover.group, group) {
                lost_attributes.push(format!("its group ({group})"));
            }
        }
        let has_mode = !matches!(entry.kind, Kind::Symlink { .. });
        let kept_set_id = match (&entry.kind, settable.has(Kept::SET_ID)) {
            (Kind::File { .. }, true) => kept_set_id,
            // The set-user-ID bit has no effect on a directory.
            (Kind::Dir, true) => kept_set_id | SET_USER_ID,
            _ => 0,
        };
        if has_mode && attributes.mode & SET_ID_MODE & !kept_set_id != 0 {
            lost_attributes.push("its set-ID bits".to_owned());
        }
        let (acl, default_acl) = attributes.acls();
        if acl.or(default_acl).is_some() && !settable.has(Kept::ACL) {
            lost_attributes.push("its ACL".to_owned());
        }
        let is_root = haul_sys::is_root();
        let mut xattrs = attributes.xattrs().iter();
        if xattrs
            .any(|one| !settable.has(Kept::XATTRS) || !(is_root || one.name.starts_with(b"user.")))
        {
            lost_attributes.push("its extended attributes".to_owned());
        }
        lost_attributes
    }

    /// The fault of a source whose copy `existing` lacks its set-ID bits. File systems need not
    /// keep modes exactly, but these bits must not be lost unseen.
    pub(crate) fn lost_set_id_fault(&self, entry: &Entry, existing: &Meta) -> Option<Fault> {
        let has_mode = !matches!(entry.kind, Kind::Symlink { .. });
        let not_kept = entry.attributes.mode & !existing.attributes.mode & SET_ID_MODE != 0;
        (self.loss_check.is_lossless && self.job.removes() && has_mode && not_kept).then(|| {
            let message = "not removed: its copy lacks the set-ID bits";
            Fault::new(Side::Source, FaultKind::Lossy, message)
        })
    }
}

/// The fault of an entry whose `action` failed with `error` at the destination. A source that is
/// moved whole stays if an attribute can't be set there.
pub(crate) fn not_kept(moving: Option<Moving>, action: &str, error: &io::Error) -> Fault {
    match moving {
        Some(Moving::Whole) if NotKept::is(error) => {
            let mut fault = Fault::from_io(Side::Destination, action, error);
            fault.kind = FaultKind::Lossy;
            fault
        }
        _ => Fault::from_io(Side::Destination, action, error),
    }
}

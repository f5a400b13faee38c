//! The attributes that a listed entry is given here: with this machine's numbers for its
//! users and groups, and without those that can't be given.

use super::Receiver;
use super::listing::Broken;
use crate::control;
use crate::monitor::{Event, Monitor};
use haul_model::{AclWho, Attributes, Entry, Kept, Kind, SET_ID_MODE};
use haul_proto::{ACCOUNTS_MAX, Account};
use haul_sys::AccountKind;
use haul_tree::lock;
use std::collections::HashMap;
use std::sync::Mutex;

/// This machine's numbers of users and groups that the Sender has told the names of, by the
/// Sender's.
#[derive(Default)]
pub(super) struct Numbers(Mutex<HashMap<(AccountKind, u32), u32>>);

/// The number of the user and of the group that are the same everywhere.
const ROOT: u32 = 0;

impl Receiver<'_> {
    /// Learns the name of a user or group of the Sender's.
    pub(super) fn take_account(&self, account: &Account) -> Result<(), Broken> {
        let kind = kind_of(account.is_group);
        // A name that is none here keeps its number, as in rsync.
        let here = std::str::from_utf8(&account.name)
            .ok()
            .and_then(|name| haul_sys::account_number(kind, name))
            .unwrap_or(account.number);
        let mut numbers = lock(&self.numbers.0);
        if numbers.len() >= ACCOUNTS_MAX {
            return Err(Broken("it named more users and groups than it may"));
        }
        if account.number != ROOT && !self.policy.numeric_ids {
            numbers.insert((kind, account.number), here);
        }
        Ok(())
    }

    fn number_here(&self, kind: AccountKind, number: u32) -> u32 {
        lock(&self.numbers.0).get(&(kind, number)).copied().unwrap_or(number)
    }

    /// `entry` with the attributes that it can be given here.
    pub(super) fn as_given(&self, mut entry: Entry) -> Entry {
        let Attributes { mode, user, group, extended, .. } = &mut entry.attributes;
        *user = user.map(|user| self.number_here(AccountKind::User, user));
        *group = group.map(|group| self.number_here(AccountKind::Group, group));
        if self.policy.keeps.has(Kept::GROUP) {
            // As in rsync: others than root give what they can.
            *group = group.filter(|group| haul_sys::is_of_group(*group));
        }
        if entry.kind != Kind::Dir {
            // Nobody is to lend the rights of somebody else.
            let lent = |is_known, bit| if is_known { 0 } else { bit };
            *mode &= !(SET_ID_MODE & lent(user.is_some(), 0o4000));
            *mode &= !(SET_ID_MODE & lent(group.is_some(), 0o2000));
        }
        for acl in
            extended.iter_mut().flat_map(|all| all.acl.iter_mut().chain(&mut all.default_acl))
        {
            for line in &mut acl.0 {
                match &mut line.who {
                    AclWho::User(number) => *number = self.number_here(AccountKind::User, *number),
                    AclWho::Group(number) => {
                        *number = self.number_here(AccountKind::Group, *number);
                    }
                    _ => {}
                }
            }
            acl.0.sort_unstable_by_key(|line| line.who);
        }
        if haul_sys::effective_user() != ROOT
            && let Some(extended) = extended
        {
            // As in rsync: those of the system are root's to give.
            extended.xattrs.retain(|xattr| xattr.name.starts_with(b"user."));
        }
        extended.take_if(|extended| extended.is_empty());
        entry
    }
}

fn kind_of(is_group: bool) -> AccountKind {
    if is_group { AccountKind::Group } else { AccountKind::User }
}

/// Tells once that not all that is `asked` for can be kept in `path`.
pub(super) fn tell_lacks(monitor: &dyn Monitor, path: &[u8], asked: Kept, kept: Kept) {
    if let Some(message) = control::lacking(asked, kept) {
        monitor.event(Event::Warning { path, message });
    }
}

/// Those of `asked` that this process can give, where nobody is told that others are not:
/// as in rsync, who is not root does not try.
pub(super) fn allowed(asked: Kept) -> Kept {
    let of_root = Kept::USER.with(Kept::DEVICES);
    if haul_sys::effective_user() == ROOT { asked } else { asked.without(of_root) }
}

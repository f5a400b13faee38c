//! Names of users and groups, each told once: numbers mean nothing on another machine.

use haul_model::{AclWho, Attributes};
use haul_proto::{ACCOUNT_NAME_MAX, ACCOUNTS_MAX, Account};
use haul_sys::AccountKind;
use std::collections::HashSet;

/// Users and groups whose names were told.
#[derive(Default)]
pub(super) struct Names(HashSet<(AccountKind, u32)>);

impl Names {
    /// The names that belong to `attributes` and were not told before. Beyond
    /// [`ACCOUNTS_MAX`], and where there is no name, the number is all that is told.
    pub(super) fn of(&mut self, attributes: &Attributes) -> Vec<Account> {
        let Attributes { user, group, .. } = attributes;
        let owner = user.iter().map(|user| (AccountKind::User, *user));
        let owner = owner.chain(group.iter().map(|group| (AccountKind::Group, *group)));
        let (acl, default_acl) = attributes.acls();
        let lines = acl.into_iter().chain(default_acl).flat_map(|acl| &acl.0);
        let listed = lines.filter_map(|line| match line.who {
            AclWho::User(user) => Some((AccountKind::User, user)),
            AclWho::Group(group) => Some((AccountKind::Group, group)),
            _ => None,
        });
        owner.chain(listed).filter_map(|(kind, number)| self.account(kind, number)).collect()
    }

    fn account(&mut self, kind: AccountKind, number: u32) -> Option<Account> {
        if self.0.len() >= ACCOUNTS_MAX || !self.0.insert((kind, number)) {
            return None;
        }
        let name = haul_sys::account_name(kind, number)?.into_bytes();
        let is_group = kind == AccountKind::Group;
        let account = Account { is_group, number, name: name.into() };
        (account.name.len() <= ACCOUNT_NAME_MAX).then_some(account)
    }
}

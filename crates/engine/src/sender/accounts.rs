//! Names of users and groups. Each is sent once, because numbers mean nothing on another machine.

use haul_model::{AclWho, Attributes};
use haul_proto::{ACCOUNT_NAME_MAX, ACCOUNTS_MAX, Account};
use haul_sys::AccountKind;
use std::collections::HashSet;

/// Users and groups whose names were sent.
#[derive(Default)]
pub(super) struct SentAccounts(HashSet<(AccountKind, u32)>);

impl SentAccounts {
    /// The accounts of `attributes` that were not sent before; `None` if there are more than
    /// [`ACCOUNTS_MAX`] users and groups. An account without a name is left out: the attributes
    /// have its number.
    pub(super) fn of(&mut self, attributes: &Attributes) -> Option<Vec<Account>> {
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
        let new = owner.chain(listed).filter(|account| self.0.insert(*account));
        let new_accounts = new.filter_map(|(kind, number)| account(kind, number)).collect();
        (self.0.len() <= ACCOUNTS_MAX).then_some(new_accounts)
    }
}

/// The name of a user or group, if it has one that can be sent.
fn account(kind: AccountKind, number: u32) -> Option<Account> {
    let name = haul_sys::account_name(kind, number)?.into_bytes();
    let is_group = kind == AccountKind::Group;
    let account = Account { is_group, number, name: name.into() };
    (account.name.len() <= ACCOUNT_NAME_MAX).then_some(account)
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::Timestamp;

    #[test]
    fn more_accounts_than_the_bound_are_an_error() {
        let mut names = SentAccounts::default();
        let mut of = |user| {
            let time = Timestamp { secs: 0, nanos: 0 };
            names.of(&Attributes { user: Some(user), ..Attributes::new(0o644, time) })
        };
        // Numbers without an account.
        let first = 1 << 30;
        assert!((0..ACCOUNTS_MAX as u32).all(|at| of(first + at) == Some(Vec::new())));
        assert_eq!(of(first), Some(Vec::new()));
        assert_eq!(of(first + ACCOUNTS_MAX as u32), None);
    }
}

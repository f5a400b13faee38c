//! Attributes that entries get in place of those of the sources: modes that the Sender
//! changes before anything is compared, and users and groups that become others at the
//! Receiver.

mod accounts;
mod modes;

pub use accounts::{AccountMap, MapError, MapFrom, MapRule, MapTo};
pub use modes::{ModeChange, ModeChanges, ModeError, ModeOf, ModeStep};

use serde::{Deserialize, Serialize};

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Altered {
    /// Changes of modes.
    pub modes: ModeChanges,
    /// Users that become others.
    pub users: AccountMap,
    /// Groups that become others.
    pub groups: AccountMap,
}

impl Altered {
    /// True if entries keep what the sources have.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The most bytes that they take in a message.
    pub fn encoded_len_max(&self) -> usize {
        let Self { modes, users, groups } = self;
        modes.encoded_len_max() + users.encoded_len_max() + groups.encoded_len_max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_them_takes_its_room() {
        let mut altered = Altered::default();
        assert!(altered.is_empty());
        assert_eq!(altered.encoded_len_max(), 0);
        altered.modes.add(b"u+x").expect("words");
        let of_modes = altered.encoded_len_max();
        altered.users = AccountMap::all_to(b"7").expect("a number");
        let of_users = altered.encoded_len_max() - of_modes;
        altered.groups = AccountMap::all_to(b"name").expect("a name");
        assert!(of_modes > 0 && of_users > 0 && !altered.is_empty());
        assert_eq!(altered.encoded_len_max(), of_modes + 2 * of_users + 4);
    }
}

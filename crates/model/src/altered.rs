//! Changes of the sources' attributes. The Sender changes modes before anything is compared. The
//! Receiver replaces users and groups.

mod accounts;
mod modes;

pub use accounts::{AccountMap, MapError, MapFrom, MapRule, MapTo};
pub use modes::{ModeChange, ModeChanges, ModeError, ModeOf, ModeStep};

use serde::{Deserialize, Serialize};

/// All changes of attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Altered {
    /// Changes of modes.
    pub modes: ModeChanges,
    /// Replacements of users.
    pub users: AccountMap,
    /// Replacements of groups.
    pub groups: AccountMap,
}

impl Altered {
    /// True if entries keep the attributes of the sources.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Maximum length in a message, in bytes.
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

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

//! Users and groups on the wire. They are sent by name, because their numbers have no meaning
//! elsewhere.

use serde::{Deserialize, Deserializer, Serialize};

/// Maximum number of users and groups in one job.
pub const ACCOUNTS_MAX: usize = 64 << 10;

/// Maximum length of the name of a user or group, in bytes.
pub const ACCOUNT_NAME_MAX: usize = 256;

/// A user or group of the Sender's machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// It is a group.
    pub is_group: bool,
    /// Its number there.
    pub number: u32,
    /// Its name there.
    #[serde(deserialize_with = "short_name")]
    pub name: Box<[u8]>,
}

fn short_name<'de, D: Deserializer<'de>>(input: D) -> Result<Box<[u8]>, D::Error> {
    let name = Box::<[u8]>::deserialize(input)?;
    if name.len() > ACCOUNT_NAME_MAX {
        return Err(serde::de::Error::custom("the name of a user or group is too long"));
    }
    Ok(name)
}

//! `clients.toml`: the clients of a server, and its open invitations.

use super::ServerPaths;
use crate::error::CommandError;
use haul::files;
use haul_engine::Rights;
use haul_model::escape_text;
use haul_net::PublicKey;
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Validity of an invitation.
pub(crate) const INVITATION_SPAN: Duration = Duration::from_secs(600);

/// Maximum number of clients, and of invitations.
const RECORDS_MAX: usize = 10_000;

/// The right of a client below its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Right {
    /// The client may only read.
    Read,
    /// The client may read and write.
    Write,
}

impl Right {
    pub(crate) fn of(read_only: bool) -> Self {
        if read_only { Self::Read } else { Self::Write }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

impl From<Right> for Rights {
    fn from(right: Right) -> Self {
        match right {
            Right::Read => Self::Read,
            Right::Write => Self::Write,
        }
    }
}

/// An enrolled client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) key: PublicKey,
    /// The directory that the client may access.
    pub(crate) root: PathBuf,
    pub(crate) right: Right,
    /// The system user that runs the client's jobs, on a server of root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    /// The time of enrollment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) added: Option<String>,
    /// The server's newest key that the client is known to have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_key: Option<PublicKey>,
}

impl Client {
    /// True if `other` is the same client with the same rights.
    pub(super) fn has_same_rights(&self, other: &Self) -> bool {
        let Self { name, key, root, right, user, .. } = self;
        (name, key, root, right, user)
            == (&other.name, &other.key, &other.root, &other.right, &other.user)
    }
}

/// An invitation that was not used yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct InvitationRecord {
    /// The key derived from the invitation's secret.
    pub(crate) key: PublicKey,
    /// The name of the client; `None`: the guest chooses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    pub(crate) root: PathBuf,
    pub(crate) right: Right,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    /// In seconds since 1970.
    pub(crate) expires: u64,
}

impl InvitationRecord {
    /// True if it can be used at `now`. The clock may jump, so a running server also measures the
    /// time itself.
    fn is_open(&self, now: SystemTime) -> bool {
        self.expiry() > now
    }

    pub(super) fn expiry(&self) -> SystemTime {
        files::unix_time(self.expires).unwrap_or(UNIX_EPOCH)
    }
}

/// Metadata of the file: inode number, size and mtime. A difference means that it has changed.
pub(super) type RecordsState = Option<(u64, u64, i64, i64)>;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Records {
    #[serde(default, rename = "client")]
    pub(crate) clients: Vec<Client>,
    #[serde(default, rename = "invitation")]
    pub(crate) invitations: Vec<InvitationRecord>,
}

impl Records {
    pub(super) fn state(paths: &ServerPaths) -> RecordsState {
        let found = fs::metadata(paths.clients()).ok()?;
        Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
    }

    /// Loads the records.
    ///
    /// # Errors
    /// If the file can't be read, or is invalid.
    pub(crate) fn load(paths: &ServerPaths) -> Result<Self, CommandError> {
        Ok(files::load_own(&paths.clients())?)
    }

    /// Loads the records, with the state of their file.
    ///
    /// # Errors
    /// See [`Self::load`].
    pub(super) fn load_with_state(
        paths: &ServerPaths,
    ) -> Result<(Self, RecordsState), CommandError> {
        let state = Self::state(paths);
        Ok((Self::load(paths)?, state))
    }

    /// Changes the records under their lock. If `change` fails, nothing is written.
    ///
    /// # Errors
    /// The error of `change`, and errors of the file system.
    pub(crate) fn change<T>(
        paths: &ServerPaths,
        change: impl FnOnce(&mut Self) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        paths.make()?;
        let _lock = files::lock(&paths.clients_lock(), "clients")?;
        Self::change_locked(paths, change)
    }

    /// Like [`Self::change`], without waiting: `None` if another process holds the lock.
    ///
    /// # Errors
    /// See [`Self::change`].
    pub(super) fn try_change<T>(
        paths: &ServerPaths,
        change: impl FnOnce(&mut Self) -> Result<T, CommandError>,
    ) -> Result<Option<T>, CommandError> {
        let lock = files::try_lock(&paths.clients_lock())?;
        lock.map(|_lock| Self::change_locked(paths, change)).transpose()
    }

    fn change_locked<T>(
        paths: &ServerPaths,
        change: impl FnOnce(&mut Self) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        let mut records = Self::load(paths)?;
        let before = records.clone();
        let now = SystemTime::now();
        records.invitations.retain(|invited| invited.is_open(now));
        let result = change(&mut records)?;
        if records != before {
            files::save(&paths.clients(), &records)?;
        }
        Ok(result)
    }

    /// Adds a client. It replaces one with the same key.
    ///
    /// # Errors
    /// If a client with another key has the name, or there are too many clients.
    pub(crate) fn add(&mut self, client: Client) -> Result<(), CommandError> {
        self.clients.retain(|known| known.key != client.key);
        self.check_name_free(&client.name)?;
        if self.clients.len() >= RECORDS_MAX {
            return Err(CommandError::usage("there are too many clients"));
        }
        self.clients.push(client);
        Ok(())
    }

    fn check_name_free(&self, name: &str) -> Result<(), CommandError> {
        if self.clients.iter().any(|known| known.name == name) {
            let message = format!("a client is named '{}' already", escape_text(name));
            return Err(CommandError::usage(message)
                .with_hint("choose another name, or revoke that client first"));
        }
        Ok(())
    }

    /// Adds an invitation.
    ///
    /// # Errors
    /// If a client has its name, or there are too many invitations.
    pub(crate) fn invite(&mut self, invited: InvitationRecord) -> Result<(), CommandError> {
        invited.name.as_deref().map_or(Ok(()), |name| self.check_name_free(name))?;
        if self.invitations.len() >= RECORDS_MAX {
            return Err(CommandError::usage("there are too many invitations"));
        }
        self.invitations.push(invited);
        Ok(())
    }

    /// True if all clients know the server's key `newest` and no invitation is open. An invitation
    /// may name an older key.
    pub(super) fn all_know(&self, newest: &PublicKey, now: SystemTime) -> bool {
        self.clients.iter().all(|client| client.server_key.as_ref() == Some(newest))
            && !self.invitations.iter().any(|invited| invited.is_open(now))
    }

    /// The keys that are accepted, each with its expiry.
    pub(super) fn keys(&self) -> impl Iterator<Item = (PublicKey, Option<SystemTime>)> {
        let clients = self.clients.iter().map(|client| (client.key, None));
        clients.chain(self.invitations.iter().map(|it| (it.key, Some(it.expiry()))))
    }
}

/// The current time in whole seconds, as in records and logs.
pub(crate) fn timestamp_now() -> String {
    let now = jiff::Timestamp::now();
    jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_net::Identity;

    fn client(name: &str) -> Client {
        Client {
            name: name.to_owned(),
            key: Identity::new().expect("a key").key(),
            root: "/srv/\"a\\b".into(),
            right: Right::Read,
            user: Some("ann".to_owned()),
            added: Some(timestamp_now()),
            server_key: None,
        }
    }

    #[test]
    fn records_read_the_same_once_they_are_written() {
        let records = Records { clients: vec![client("ann")], invitations: vec![invited(7)] };
        let text = toml::to_string(&records).expect("a text");
        assert_eq!(toml::from_str::<Records>(&text).expect("records"), records);
        assert_eq!(toml::from_str::<Records>("").expect("records"), Records::default());
    }

    fn invited(expires: u64) -> InvitationRecord {
        let key = client("x").key;
        InvitationRecord {
            key,
            name: None,
            root: "/srv".into(),
            right: Right::Write,
            user: None,
            expires,
        }
    }

    #[test]
    fn an_invitation_is_open_until_it_expires_by_any_clock() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let before = UNIX_EPOCH - Duration::from_secs(1);
        for (expires, now, is_open) in [
            (100, at(99), true),
            (100, at(100), false),
            (100, at(1 << 40), false),
            (100, before, true),
            (0, UNIX_EPOCH, false),
            // No clock can represent it, so it counts as expired.
            (u64::MAX, at(100), false),
        ] {
            assert_eq!(invited(expires).is_open(now), is_open, "{expires} {now:?}");
        }
    }

    #[test]
    fn an_old_key_is_needed_until_all_know_the_newest_one() {
        let (newest, old) = (client("x").key, client("x").key);
        let knows = |key| Client { server_key: key, ..client("ann") };
        let now = UNIX_EPOCH + Duration::from_secs(100);
        for (clients, invitations, all_know) in [
            (vec![], vec![], true),
            (vec![], vec![invited(101)], false),
            (vec![knows(Some(newest))], vec![], true),
            (vec![knows(Some(newest)), knows(None)], vec![], false),
            (vec![knows(Some(old))], vec![], false),
            (vec![knows(Some(newest))], vec![invited(101)], false),
            (vec![knows(Some(newest))], vec![invited(100)], true),
        ] {
            let records = Records { clients, invitations };
            assert_eq!(records.all_know(&newest, now), all_know, "{records:?}");
        }
    }

    #[test]
    fn a_name_is_of_one_key_and_a_key_has_one_record() {
        let mut records = Records::default();
        let ann = client("ann");
        records.add(ann.clone()).expect("added");
        records.add(client("ann")).expect_err("the name is taken");
        let named = |name: &str| InvitationRecord { name: Some(name.to_owned()), ..invited(7) };
        records.invite(named("ann")).expect_err("the name is taken");
        records.invite(named("bob")).expect("it is free");
        records.add(Client { right: Right::Write, ..ann.clone() }).expect("replaced");
        records.add(Client { name: "laptop".to_owned(), ..ann }).expect("replaced");
        assert_eq!(records.clients.len(), 1);
        assert_eq!(records.clients[0].name, "laptop");
    }
}

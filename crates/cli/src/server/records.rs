//! `clients.toml`: the clients of a server, and its invitations that nobody has used yet.

use super::Place;
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

/// How long an invitation is valid.
pub(crate) const INVITATION_SPAN: Duration = Duration::from_secs(600);

/// The most clients, and the most invitations.
const RECORDS_MAX: usize = 10_000;

/// The right of a client below its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Right {
    /// Changes nothing.
    Read,
    /// Reads and changes.
    Write,
}

impl Right {
    /// The right for one that is `read_only`, or not.
    pub(crate) fn of(read_only: bool) -> Self {
        if read_only { Self::Read } else { Self::Write }
    }

    /// The word for it.
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

/// A client that is enrolled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) key: PublicKey,
    /// The directory that it may reach.
    pub(crate) root: PathBuf,
    pub(crate) right: Right,
    /// The system's user that its jobs run as, on a server of root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    /// When it was enrolled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) added: Option<String>,
    /// The server's newest key that it is known to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_key: Option<PublicKey>,
}

impl Client {
    /// True if `other` is the same client with the same rights.
    pub(super) fn is_served_like(&self, other: &Self) -> bool {
        let Self { name, key, root, right, user, .. } = self;
        (name, key, root, right, user)
            == (&other.name, &other.key, &other.root, &other.right, &other.user)
    }
}

/// An invitation that nobody has used yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Invited {
    /// The key that is made from its secret.
    pub(crate) key: PublicKey,
    /// The name of the client, if the guest does not choose it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    pub(crate) root: PathBuf,
    pub(crate) right: Right,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    /// Seconds since 1970.
    pub(crate) expires: u64,
}

impl Invited {
    /// True if it can be used at `now`. The clock may jump: a running server measures the time
    /// itself.
    fn is_open(&self, now: SystemTime) -> bool {
        self.expiry() > now
    }

    /// When it expires.
    pub(super) fn expiry(&self) -> SystemTime {
        files::unix_time(self.expires).unwrap_or(UNIX_EPOCH)
    }
}

/// The facts by which another content of the records shows without reading them.
pub(super) type RecordsState = Option<(u64, u64, i64, i64)>;

/// All clients and invitations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Records {
    #[serde(default, rename = "client")]
    pub(crate) clients: Vec<Client>,
    #[serde(default, rename = "invitation")]
    pub(crate) invitations: Vec<Invited>,
}

impl Records {
    /// The state of their file.
    pub(super) fn state(place: &Place) -> RecordsState {
        let found = fs::metadata(place.clients()).ok()?;
        Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
    }

    /// Those of `place`.
    ///
    /// # Errors
    /// When the file can't be read, or is not right.
    pub(crate) fn load(place: &Place) -> Result<Self, CommandError> {
        Ok(files::load_own(&place.clients())?)
    }

    /// The same, with their state.
    ///
    /// # Errors
    /// See [`Self::load`].
    pub(super) fn load_written(place: &Place) -> Result<(Self, RecordsState), CommandError> {
        let state = Self::state(place);
        Ok((Self::load(place)?, state))
    }

    /// Changes the records of `place`; no other process changes them meanwhile. If `change`
    /// fails, they stay.
    ///
    /// # Errors
    /// That of `change`, and those of the file system.
    pub(crate) fn change<T>(
        place: &Place,
        change: impl FnOnce(&mut Self) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        place.make()?;
        let _lock = files::lock(&place.clients_lock(), "clients")?;
        Self::change_locked(place, change)
    }

    /// The same at once; `None` while another process changes them.
    ///
    /// # Errors
    /// See [`Self::change`].
    pub(super) fn try_change<T>(
        place: &Place,
        change: impl FnOnce(&mut Self) -> Result<T, CommandError>,
    ) -> Result<Option<T>, CommandError> {
        let lock = files::try_lock(&place.clients_lock())?;
        lock.map(|_lock| Self::change_locked(place, change)).transpose()
    }

    fn change_locked<T>(
        place: &Place,
        change: impl FnOnce(&mut Self) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        let mut records = Self::load(place)?;
        let before = records.clone();
        let now = SystemTime::now();
        records.invitations.retain(|invited| invited.is_open(now));
        let result = change(&mut records)?;
        if records != before {
            files::save(&place.clients(), &records)?;
        }
        Ok(result)
    }

    /// Adds a client. One with the same key is replaced.
    ///
    /// # Errors
    /// If the name is taken by another key.
    pub(crate) fn add(&mut self, client: Client) -> Result<(), CommandError> {
        self.clients.retain(|known| known.key != client.key);
        self.expect_free(&client.name)?;
        if self.clients.len() >= RECORDS_MAX {
            return Err(CommandError::usage("there are too many clients"));
        }
        self.clients.push(client);
        Ok(())
    }

    fn expect_free(&self, name: &str) -> Result<(), CommandError> {
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
    /// If its name is a client's, and if there are too many.
    pub(crate) fn invite(&mut self, invited: Invited) -> Result<(), CommandError> {
        invited.name.as_deref().map_or(Ok(()), |name| self.expect_free(name))?;
        if self.invitations.len() >= RECORDS_MAX {
            return Err(CommandError::usage("there are too many invitations"));
        }
        self.invitations.push(invited);
        Ok(())
    }

    /// True if all clients know the server's key `newest`, and nobody can use an invitation,
    /// which may name an older one.
    pub(super) fn all_know(&self, newest: &PublicKey, now: SystemTime) -> bool {
        self.clients.iter().all(|client| client.server_key.as_ref() == Some(newest))
            && !self.invitations.iter().any(|invited| invited.is_open(now))
    }

    /// The keys that are let in, each with its expiry.
    pub(super) fn keys(&self) -> impl Iterator<Item = (PublicKey, Option<SystemTime>)> {
        let clients = self.clients.iter().map(|client| (client.key, None));
        clients.chain(self.invitations.iter().map(|it| (it.key, Some(it.expiry()))))
    }
}

/// The time now, to the second, as records and logs have it.
pub(crate) fn now_text() -> String {
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
            added: Some(now_text()),
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

    fn invited(expires: u64) -> Invited {
        let key = client("x").key;
        Invited { key, name: None, root: "/srv".into(), right: Right::Write, user: None, expires }
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
            // No clock reaches it, so it counts as expired.
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
        let named = |name: &str| Invited { name: Some(name.to_owned()), ..invited(7) };
        records.invite(named("ann")).expect_err("the name is taken");
        records.invite(named("bob")).expect("it is free");
        records.add(Client { right: Right::Write, ..ann.clone() }).expect("replaced");
        records.add(Client { name: "laptop".to_owned(), ..ann }).expect("replaced");
        assert_eq!(records.clients.len(), 1);
        assert_eq!(records.clients[0].name, "laptop");
    }
}

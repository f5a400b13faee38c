//! The client's side: the servers that this user is enrolled at, and how they are reached.

use super::store;
use crate::error::{CommandError, ErrorKind};
use crate::state;
use haul_engine::try_lock;
use haul_net::{
    ConnectError, Connection, Diagnostics, Identity, Patience, PublicKey, ServerAddress, SshTarget,
    connect_server,
};
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// How often the lock of the file is asked for, and how long it is waited in between.
const LOCK_ASKS_MAX: u32 = 500;
const LOCK_POLL: Duration = Duration::from_millis(10);

/// A server that this user is enrolled at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Known {
    /// The host as the user types it.
    pub(crate) host: String,
    pub(crate) addresses: Vec<ServerAddress>,
    pub(crate) key: PublicKey,
    /// Set if the user has enrolled through ssh: how the host is reached when the server does
    /// not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) login: Option<Login>,
}

/// A login through ssh to the account that the server belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
}

impl Login {
    /// The one that `target` stands for.
    pub(crate) fn of(target: &SshTarget) -> Self {
        Self { user: target.user().map(str::to_owned), port: target.port() }
    }

    /// Connects by ssh to the haul there, which serves the client with the key `client` as the
    /// server would. Where paths lead is decided there, by the record of the client.
    ///
    /// # Errors
    /// Those of ssh.
    pub(crate) fn connect(
        &self,
        target: &SshTarget,
        client: PublicKey,
        diagnostics: Diagnostics,
    ) -> Result<Connection, ConnectError> {
        let target = target.clone().with_login(self.user.as_deref(), self.port)?;
        let mut connection = haul_net::connect_server_command(&target, diagnostics)?;
        let words = format!("[\"agent\",\"{client}\"]\n");
        // If ssh has ended, the greeting fails as well, and tells why.
        if let Err(error) = connection.writer.write_all(words.as_bytes()) {
            tracing::debug!(%error, "ssh takes no words");
        }
        Ok(connection)
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Servers {
    #[serde(default, rename = "server")]
    servers: Vec<Known>,
}

/// The files of the client's side.
struct Files {
    dir: PathBuf,
}

impl Files {
    fn find() -> Result<Self, CommandError> {
        let nowhere = || CommandError::usage("there is no place for keys: HOME is not set");
        state::dir().map(|dir| Self { dir }).ok_or_else(nowhere)
    }

    fn servers(&self) -> PathBuf {
        self.dir.join("servers.toml")
    }

    /// Changes the file; no other process changes it meanwhile.
    fn change(&self, change: impl FnOnce(&mut Servers)) -> Result<(), CommandError> {
        let failed = |error| super::place::failed(&self.servers(), &error);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(failed)?;
        let mut open = OpenOptions::new();
        open.write(true).create(true).truncate(false).mode(0o600);
        let lock = open.open(self.dir.join("servers.lock")).map_err(failed)?;
        let mut asks = 0;
        while !try_lock(&lock).map_err(failed)? {
            asks += 1;
            if asks > LOCK_ASKS_MAX {
                let message = "another process is changing the servers";
                return Err(CommandError::new(ErrorKind::Io, message));
            }
            thread::sleep(LOCK_POLL);
        }
        let mut servers: Servers = store::load(&self.servers())?;
        change(&mut servers);
        store::save(&self.servers(), &servers)
    }
}

/// This user's key, which is created if there is none.
///
/// # Errors
/// Those of the file system, and if others know the key.
pub(crate) fn identity() -> Result<Identity, CommandError> {
    let path = Files::find()?.dir.join("identity");
    Identity::load_or_create(&path).map_err(|error| super::place::failed(&path, &error))
}

/// The server of `host`, as the user has typed that, if this user is enrolled there.
///
/// # Errors
/// When the file of the servers can't be read, or is not right.
pub(crate) fn find(host: &str) -> Result<Option<Known>, CommandError> {
    let Ok(files) = Files::find() else { return Ok(None) };
    let Servers { servers } = store::load(&files.servers())?;
    Ok(servers.into_iter().find(|known| known.host.eq_ignore_ascii_case(host)))
}

/// The hosts of all servers that this user is enrolled at.
///
/// # Errors
/// See [`find`].
pub(crate) fn hosts() -> Result<Vec<String>, CommandError> {
    let Ok(files) = Files::find() else { return Ok(Vec::new()) };
    let Servers { servers } = store::load(&files.servers())?;
    Ok(servers.into_iter().map(|known| known.host).collect())
}

/// Stores a server, in place of one with the same host.
///
/// # Errors
/// Those of the file system.
pub(crate) fn remember(known: Known) -> Result<(), CommandError> {
    Files::find()?.change(|Servers { servers }| {
        servers.retain(|other| !other.host.eq_ignore_ascii_case(&known.host));
        servers.push(known);
    })
}

/// Stores `new` as the key of all servers that had the key `old`.
fn replace_key(old: PublicKey, new: PublicKey) -> Result<(), CommandError> {
    Files::find()?.change(|Servers { servers }| {
        servers.iter_mut().filter(|known| known.key == old).for_each(|known| known.key = new);
    })
}

/// Connects to the server of `host`, and greets it.
///
/// # Errors
/// When this user is not enrolled there, and those of the connection.
pub(crate) fn greet(host: &str, identity: &Identity) -> Result<(), CommandError> {
    let unknown = || CommandError::usage(format!("no server of {host} is known"));
    let known = find(host)?.ok_or_else(unknown)?;
    let connection = known.connect(identity, Patience::default())?;
    haul_engine::Requests::remote(connection).map(drop)?;
    Ok(())
}

impl Known {
    /// Connects. A new key that the server announces is stored, for the next time.
    ///
    /// Whether the server accepts this user's key shows when something is read.
    ///
    /// # Errors
    /// See [`connect_server`].
    pub(crate) fn connect(
        &self,
        identity: &Identity,
        patience: Patience,
    ) -> Result<Connection, ConnectError> {
        let old = self.key;
        let store = move |new: PublicKey| {
            if let Err(error) = replace_key(old, new) {
                tracing::warn!(%error, "the new key of the server is not stored");
            }
        };
        connect_server(&self.host, &self.addresses, self.key, identity, patience, store)
    }
}

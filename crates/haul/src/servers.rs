//! The client's side: the servers that this user is enrolled at, and how they are reached.

use crate::error::Error;
use crate::files::{self, FileError};
use crate::host::Host;
use crate::state;
use haul_engine::Requests;
use haul_net::{
    ConnectError, Connection, Diagnostics, Identity, Measured, Patience, PublicKey, Reaching,
    ServerAddress, ServerVia, SshTarget, connect_server,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A server that this user is enrolled at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Known {
    /// The host as the user types it.
    pub host: String,
    /// Where the server listens.
    pub addresses: Vec<ServerAddress>,
    /// The key of the server.
    pub key: PublicKey,
    /// Set if the user has enrolled through ssh: how the host is reached when the server does
    /// not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<Login>,
}

/// A login through ssh to the account that the server belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
}

impl Login {
    /// The one that `host` stands for.
    pub fn of(host: &Host) -> Self {
        Self { user: host.user().map(str::to_owned), port: host.port() }
    }

    /// The login at the host of `target`.
    ///
    /// # Errors
    /// If the user is invalid.
    pub fn target(&self, target: &SshTarget) -> Result<SshTarget, ConnectError> {
        target.clone().with_login(self.user.as_deref(), self.port)
    }

    /// Connects by ssh to the haul there, which serves the client with the key `client` as the
    /// server would. Where paths lead is decided there, by the record of the client.
    ///
    /// # Errors
    /// When ssh does not start, or the login has an invalid user.
    pub fn connect(
        &self,
        target: &SshTarget,
        client: PublicKey,
        diagnostics: Diagnostics,
    ) -> Result<Connection, ConnectError> {
        let target = self.target(target)?;
        let connection = haul_net::connect_server_command(&target, diagnostics)?;
        let mut connection = connection.standing_in();
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
    fn find() -> Result<Self, Error> {
        let nowhere = || Error::usage("there is no place for keys: HOME is not set");
        state::dir().map(|dir| Self { dir }).ok_or_else(nowhere)
    }

    fn servers(&self) -> PathBuf {
        self.dir.join("servers.toml")
    }

    fn ways(&self) -> PathBuf {
        self.dir.join("ways.toml")
    }

    /// Changes a file; no other process changes one meanwhile.
    fn change<T: Serialize + DeserializeOwned + Default>(
        &self,
        path: &Path,
        change: impl FnOnce(&mut T),
    ) -> Result<(), Error> {
        let failed = |error| FileError::io(path, error);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(failed)?;
        let _lock = files::lock(&self.dir.join("servers.lock"), "servers")?;
        let mut value: T = files::load_own(path)?;
        change(&mut value);
        Ok(files::save(path, &value)?)
    }

    fn change_servers(&self, change: impl FnOnce(&mut Servers)) -> Result<(), Error> {
        self.change(&self.servers(), change)
    }
}

/// The way to a server, as earlier commands have found it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct WayTo {
    host: String,
    /// Packets are lost on it.
    lossy: bool,
    /// No packet of QUIC was answered.
    quic_failed: bool,
    /// The last time when the server did not answer at all: seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    away_at: Option<u64>,
}

/// How long after that the server is tried for a short time only.
const AWAY_SPAN: Duration = Duration::from_secs(600);

/// The time for which it is tried then.
const AWAY_TRIES_MAX: Duration = Duration::from_secs(2);

impl WayTo {
    /// True if the server did not answer a while ago, at `now`.
    fn is_away(&self, now: SystemTime) -> bool {
        let ago =
            self.away_at.and_then(files::unix_time).and_then(|at| now.duration_since(at).ok());
        ago.is_some_and(|ago| ago < AWAY_SPAN)
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ways {
    #[serde(default, rename = "way")]
    ways: Vec<WayTo>,
}

impl Ways {
    fn of(&mut self, host: &str) -> &mut WayTo {
        let found = self.ways.iter().position(|way| way.host.eq_ignore_ascii_case(host));
        let at = found.unwrap_or_else(|| {
            self.ways.push(WayTo { host: host.to_owned(), ..WayTo::default() });
            self.ways.len() - 1
        });
        &mut self.ways[at]
    }
}

/// Packets below which their losses say nothing about the way.
const PACKETS_MIN: u64 = 2000;

/// The share of lost packets from which on a way is lossy: one of so many.
const LOSSY_ONE_IN: u64 = 200;

/// The round trip from which on losses slow TCP down.
const ROUND_TRIP_MIN: Duration = Duration::from_millis(10);

/// Tells if the way is lossy; `None` if too little was sent, or too near.
fn is_lossy(measured: &Measured) -> Option<bool> {
    let Measured { packets, lost, round_trip } = *measured;
    let tells = packets >= PACKETS_MIN && round_trip >= ROUND_TRIP_MIN;
    tells.then_some(lost.saturating_mul(LOSSY_ONE_IN) >= packets)
}

/// This user's key, which is created if there is none.
///
/// # Errors
/// Those of the file system, and if others know the key.
pub fn identity() -> Result<Identity, Error> {
    let path = Files::find()?.dir.join("identity");
    Identity::load_or_create(&path).map_err(|error| FileError::io(&path, error).into())
}

/// The server of `host`, as the user has typed that, if this user is enrolled there.
///
/// # Errors
/// When the file of the servers can't be read, or is not right.
pub fn find(host: &str) -> Result<Option<Known>, Error> {
    let Ok(files) = Files::find() else { return Ok(None) };
    let Servers { servers } = files::load_own(&files.servers())?;
    Ok(servers.into_iter().find(|known| known.host.eq_ignore_ascii_case(host)))
}

/// The hosts of all servers that this user is enrolled at.
///
/// # Errors
/// See [`find`].
pub fn hosts() -> Result<Vec<String>, Error> {
    let Ok(files) = Files::find() else { return Ok(Vec::new()) };
    let Servers { servers } = files::load_own(&files.servers())?;
    Ok(servers.into_iter().map(|known| known.host).collect())
}

/// Stores a server, in place of one with the same host.
///
/// # Errors
/// Those of the file system.
pub fn remember(known: Known) -> Result<(), Error> {
    Files::find()?.change_servers(|Servers { servers }| {
        servers.retain(|other| !other.host.eq_ignore_ascii_case(&known.host));
        servers.push(known);
    })
}

/// Stores `new` as the key of all servers that had the key `old`.
fn replace_key(old: PublicKey, new: PublicKey) -> Result<(), Error> {
    Files::find()?.change_servers(|Servers { servers }| {
        servers.iter_mut().filter(|known| known.key == old).for_each(|known| known.key = new);
    })
}

/// Notes something about the way to `host`, if it is new.
fn note(host: &str, change: impl Fn(&mut WayTo)) {
    let noted = Files::find().and_then(|files| {
        let mut ways: Ways = files::load_own(&files.ways())?;
        let before = ways.of(host).clone();
        change(ways.of(host));
        if *ways.of(host) == before {
            return Ok(());
        }
        files.change(&files.ways(), |ways: &mut Ways| change(ways.of(host)))
    });
    if let Err(error) = noted {
        tracing::warn!(%error, "what is known of the way is not stored");
    }
}

/// Notes that the server of `host` does not answer, or does again.
pub(crate) fn note_away(host: &str, is_away: bool) {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    note(host, |way| way.away_at = is_away.then_some(since_1970.as_secs()));
}

/// Connects to the server of `host`, and greets it.
///
/// # Errors
/// When this user is not enrolled there, and those of the connection.
pub fn greet(host: &str, identity: &Identity) -> Result<(), Error> {
    let unknown = || Error::NotEnrolled { host: host.to_owned() };
    let known = find(host)?.ok_or_else(unknown)?;
    let connection = known.connect(identity, Patience::default())?;
    Requests::remote(connection)?;
    Ok(())
}

impl Known {
    /// The protocols by which it is tried, unless the user chooses one.
    pub fn usual_via(&self) -> ServerVia {
        match self.way() {
            Ok(WayTo { lossy: true, quic_failed: false, .. }) => ServerVia::QuicFirst,
            Ok(_) => ServerVia::TcpFirst,
            Err(error) => {
                tracing::warn!(%error, "what is known of the way is not read");
                ServerVia::TcpFirst
            }
        }
    }

    fn way(&self) -> Result<WayTo, Error> {
        let mut ways: Ways = files::load_own(&Files::find()?.ways())?;
        Ok(ways.of(&self.host).clone())
    }

    /// Connects. A new key that the server announces is stored, for the next time.
    ///
    /// Whether the server accepts this user's key shows when something is read.
    ///
    /// # Errors
    /// See [`connect_server`].
    pub fn connect(
        &self,
        identity: &Identity,
        reaching: impl Into<Reaching>,
    ) -> Result<Connection, ConnectError> {
        let old = self.key;
        let store = move |new: PublicKey| {
            if let Err(error) = replace_key(old, new) {
                tracing::warn!(%error, "the new key of the server is not stored");
            }
        };
        let now = SystemTime::now();
        let was_away = self.way().is_ok_and(|way| way.is_away(now));
        let mut reaching: Reaching = reaching.into();
        // A server has no login: it greets at once.
        let silence_max = reaching.patience.silence_max;
        reaching.patience.login_max = silence_max;
        if was_away {
            reaching.tries_max = AWAY_TRIES_MAX;
            reaching.patience.login_max = silence_max.map(|max| max.min(AWAY_TRIES_MAX));
        }
        let connected =
            connect_server(&self.host, &self.addresses, self.key, identity, reaching, store);
        let is_away = matches!(connected, Err(ConnectError::NoServer { .. }));
        if is_away || was_away {
            note_away(&self.host, is_away);
        }
        let mut connection = connected?;
        let is_quic = connection.closer.is_quic();
        if is_quic || reaching.via == ServerVia::QuicFirst {
            note(&self.host, |way| way.quic_failed = !is_quic);
        }
        let host = self.host.clone();
        connection.closer.on_end(move |measured| {
            if let Some(is_lossy) = is_lossy(&measured) {
                note(&host, |way| way.lossy = is_lossy);
            }
        });
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_lossy_when_enough_packets_are_lost_far_away() {
        for (packets, lost, ms, told) in [
            (2000, 10, 10, Some(true)),
            (2000, 9, 10, Some(false)),
            (1999, 1000, 10, None),
            (100_000, 5000, 9, None),
            (100_000, 0, 200, Some(false)),
        ] {
            let measured = Measured { packets, lost, round_trip: Duration::from_millis(ms) };
            assert_eq!(is_lossy(&measured), told, "{measured:?}");
        }
    }

    #[test]
    fn a_server_is_away_for_ten_minutes() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let away = WayTo { away_at: Some(1000), ..WayTo::default() };
        for (now, is_away) in [(999, false), (1000, true), (1599, true), (1600, false)] {
            assert_eq!(away.is_away(at(now)), is_away, "{now}");
        }
        assert!(!WayTo::default().is_away(at(1000)));
    }

    #[test]
    fn a_host_has_one_way_whatever_its_case() {
        let mut ways = Ways::default();
        ways.of("nas").lossy = true;
        ways.of("NAS").quic_failed = true;
        assert_eq!(ways.ways.len(), 1);
        assert!(ways.of("Nas").lossy && !ways.of("box").lossy);
    }
}

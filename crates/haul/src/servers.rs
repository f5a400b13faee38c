//! The servers that this user is enrolled at, and connecting to them.

use crate::error::Error;
use crate::files::{self, FileError};
use crate::host::Host;
use crate::state;
use haul_engine::Requests;
use haul_net::{
    ConnectError, ConnectOptions, Connection, Diagnostics, Identity, PacketStats, PublicKey,
    ServerAddress, ServerVia, Service, SshTarget, Timeouts, connect_server,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A server that this user is enrolled at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct EnrolledServer {
    /// The host as the user types it.
    pub host: String,
    /// The addresses of the server.
    pub addresses: Vec<ServerAddress>,
    /// The key of the server.
    pub key: PublicKey,
    /// The login to use when the server does not answer. Set if the user has enrolled through ssh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<Login>,
}

/// A login through ssh to the server's account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
}

impl Login {
    /// The user and port of `host`.
    pub fn of(host: &Host) -> Self {
        Self { user: host.user().map(str::to_owned), port: host.port() }
    }

    /// `target` with this user and port.
    ///
    /// # Errors
    /// If the user is invalid.
    pub fn target(&self, target: &SshTarget) -> Result<SshTarget, ConnectError> {
        target.clone().with_login(self.user.as_deref(), self.port)
    }

    /// Connects through ssh to the haul there, which serves the client with the key `client` as the
    /// server would. The client's record on the host decides which paths it may use.
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
        let connection = haul_net::connect(&target, Service::ServerCommand, diagnostics)?;
        let mut connection = connection.as_fallback();
        let words = format!("[\"agent\",\"{client}\"]\n");
        // If ssh has ended, the greeting fails as well, with the reason.
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
    servers: Vec<EnrolledServer>,
}

/// The file of the servers, in the directory of [`dir`].
const SERVERS: &str = "servers.toml";

/// The file of the properties of connections, in the same directory.
const SERVER_PATHS: &str = "ways.toml";

/// The directory of the client's files.
fn dir() -> Result<PathBuf, Error> {
    state::dir().ok_or_else(|| Error::usage("there is no place for keys: HOME is not set"))
}

/// Changes the file `name` under the lock of all these files.
fn change<T: Serialize + DeserializeOwned + Default>(
    name: &str,
    change: impl FnOnce(&mut T),
) -> Result<(), Error> {
    let dir = dir()?;
    let path = dir.join(name);
    let failed = |error| FileError::io(&path, error);
    DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(failed)?;
    let _lock = files::lock(&dir.join("servers.lock"), "servers")?;
    let mut value: T = files::load_own(&path)?;
    change(&mut value);
    Ok(files::save(&path, &value)?)
}

/// All servers that this user is enrolled at.
fn servers() -> Result<Vec<EnrolledServer>, Error> {
    let Some(dir) = state::dir() else { return Ok(Vec::new()) };
    let Servers { servers } = files::load_own(&dir.join(SERVERS))?;
    Ok(servers)
}

/// The properties of the connection to a server, as earlier commands found them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ServerPath {
    host: String,
    /// Packets are lost on the path to the server.
    lossy: bool,
    /// The server did not answer over QUIC.
    quic_failed: bool,
    /// The last time when the server did not answer at all, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    away_at: Option<u64>,
}

/// After a failure to connect, attempts are short for this time.
const UNAVAILABLE_TIME: Duration = Duration::from_secs(600);

/// The maximum duration of a short attempt.
const UNAVAILABLE_CONNECT_MAX: Duration = Duration::from_secs(2);

impl ServerPath {
    /// True if the server recently did not answer.
    fn is_unavailable(&self, now: SystemTime) -> bool {
        let ago =
            self.away_at.and_then(files::unix_time).and_then(|at| now.duration_since(at).ok());
        ago.is_some_and(|ago| ago < UNAVAILABLE_TIME)
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerPaths {
    #[serde(default, rename = "way")]
    server_paths: Vec<ServerPath>,
}

impl ServerPaths {
    fn of(&mut self, host: &str) -> &mut ServerPath {
        let found = self
            .server_paths
            .iter()
            .position(|server_path| server_path.host.eq_ignore_ascii_case(host));
        let at = found.unwrap_or_else(|| {
            self.server_paths.push(ServerPath { host: host.to_owned(), ..ServerPath::default() });
            self.server_paths.len() - 1
        });
        &mut self.server_paths[at]
    }
}

/// Minimum number of packets for a statement about losses.
const PACKETS_MIN: u64 = 2000;

/// A path is lossy if at least one packet in this number is lost.
const LOSSY_ONE_IN: u64 = 200;

/// The shortest round trip at which losses slow down TCP.
const ROUND_TRIP_MIN: Duration = Duration::from_millis(10);

/// True if the path is lossy. `None` if too few packets were sent, or the round trip is too short.
fn is_lossy(packet_stats: &PacketStats) -> Option<bool> {
    let PacketStats { packets, lost, round_trip } = *packet_stats;
    let is_significant = packets >= PACKETS_MIN && round_trip >= ROUND_TRIP_MIN;
    is_significant.then_some(lost.saturating_mul(LOSSY_ONE_IN) >= packets)
}

/// Loads this user's key. It is created if there is none.
///
/// # Errors
/// Errors of the file system, or a key file that others can read.
pub fn identity() -> Result<Identity, Error> {
    let path = dir()?.join("identity");
    Identity::load_or_create(&path).map_err(|error| FileError::io(&path, error).into())
}

/// The server of `host`, as the user types the name, if this user is enrolled there.
///
/// # Errors
/// If the file of the servers can't be read or parsed.
pub fn find(host: &str) -> Result<Option<EnrolledServer>, Error> {
    Ok(servers()?.into_iter().find(|known| known.host.eq_ignore_ascii_case(host)))
}

/// The hosts of all servers that this user is enrolled at.
///
/// # Errors
/// See [`find`].
pub fn hosts() -> Result<Vec<String>, Error> {
    Ok(servers()?.into_iter().map(|known| known.host).collect())
}

/// Stores a server. Replaces an entry with the same host.
///
/// # Errors
/// Errors of the file system.
pub fn remember(known: EnrolledServer) -> Result<(), Error> {
    change(SERVERS, |Servers { servers }| {
        servers.retain(|other| !other.host.eq_ignore_ascii_case(&known.host));
        servers.push(known);
    })
}

/// Stores `new` as the key of all servers with the key `old`.
fn replace_key(old: PublicKey, new: PublicKey) -> Result<(), Error> {
    change(SERVERS, |Servers { servers }| {
        servers.iter_mut().filter(|known| known.key == old).for_each(|known| known.key = new);
    })
}

/// The properties of the connection to the server of `host`.
fn server_path(host: &str) -> Result<ServerPath, Error> {
    let mut server_paths: ServerPaths = files::load_own(&dir()?.join(SERVER_PATHS))?;
    Ok(server_paths.of(host).clone())
}

/// Stores a property of the connection to `host`, if it has changed.
fn note(host: &str, set: impl Fn(&mut ServerPath)) {
    let noted = server_path(host).and_then(|before| {
        let mut after = before.clone();
        set(&mut after);
        match after == before {
            true => Ok(()),
            false => change(SERVER_PATHS, |paths: &mut ServerPaths| set(paths.of(host))),
        }
    });
    if let Err(error) = noted {
        tracing::warn!(%error, "what is known of the way is not stored");
    }
}

/// Records whether the server of `host` does not answer.
pub(crate) fn record_availability(host: &str, is_unavailable: bool) {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    note(host, |server_path| server_path.away_at = is_unavailable.then_some(since_1970.as_secs()));
}

/// Connects to the server of `host`, and waits for its greeting.
///
/// # Errors
/// If this user is not enrolled there, or the connection fails.
pub fn greet(host: &str, identity: &Identity) -> Result<(), Error> {
    let unknown = || Error::NotEnrolled { host: host.to_owned() };
    let known = find(host)?.ok_or_else(unknown)?;
    let connection = known.connect(identity, Timeouts::default())?;
    Requests::remote(connection)?;
    Ok(())
}

impl EnrolledServer {
    /// The protocols to try, unless the user chooses one.
    pub fn usual_via(&self) -> ServerVia {
        match server_path(&self.host) {
            Ok(ServerPath { lossy: true, quic_failed: false, .. }) => ServerVia::QuicFirst,
            Ok(_) => ServerVia::TcpFirst,
            Err(error) => {
                tracing::warn!(%error, "what is known of the way is not read");
                ServerVia::TcpFirst
            }
        }
    }

    /// Connects to the server. If the server announces a new key, it is stored for the next time.
    ///
    /// The first read shows whether the server accepts this user's key.
    ///
    /// # Errors
    /// See [`connect_server`].
    pub fn connect(
        &self,
        identity: &Identity,
        options: impl Into<ConnectOptions>,
    ) -> Result<Connection, ConnectError> {
        let old = self.key;
        let store = move |new: PublicKey| {
            if let Err(error) = replace_key(old, new) {
                tracing::warn!(%error, "the new key of the server is not stored");
            }
        };
        let now = SystemTime::now();
        let was_unavailable =
            server_path(&self.host).is_ok_and(|server_path| server_path.is_unavailable(now));
        let mut options: ConnectOptions = options.into();
        // A server has no login, and greets at once.
        let silence_max = options.timeouts.silence_max;
        options.timeouts.login_max = silence_max;
        if was_unavailable {
            options.tries_max = UNAVAILABLE_CONNECT_MAX;
            options.timeouts.login_max = silence_max.map(|max| max.min(UNAVAILABLE_CONNECT_MAX));
        }
        let connected =
            connect_server(&self.host, &self.addresses, self.key, identity, options, store);
        let is_unavailable = matches!(connected, Err(ConnectError::NoServer { .. }));
        if is_unavailable || was_unavailable {
            record_availability(&self.host, is_unavailable);
        }
        let mut connection = connected?;
        let is_quic = connection.closer.is_quic();
        if is_quic || options.via == ServerVia::QuicFirst {
            note(&self.host, |server_path| server_path.quic_failed = !is_quic);
        }
        let host = self.host.clone();
        connection.closer.on_end(move |packet_stats| {
            if let Some(is_lossy) = is_lossy(&packet_stats) {
                note(&host, |server_path| server_path.lossy = is_lossy);
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
            let packet_stats = PacketStats { packets, lost, round_trip: Duration::from_millis(ms) };
            assert_eq!(is_lossy(&packet_stats), told, "{packet_stats:?}");
        }
    }

    #[test]
    fn a_server_is_away_for_ten_minutes() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let away = ServerPath { away_at: Some(1000), ..ServerPath::default() };
        for (now, is_unavailable) in [(999, false), (1000, true), (1599, true), (1600, false)] {
            assert_eq!(away.is_unavailable(at(now)), is_unavailable, "{now}");
        }
        assert!(!ServerPath::default().is_unavailable(at(1000)));
    }

    #[test]
    fn a_host_has_one_way_whatever_its_case() {
        let mut server_paths = ServerPaths::default();
        server_paths.of("nas").lossy = true;
        server_paths.of("NAS").quic_failed = true;
        assert_eq!(server_paths.server_paths.len(), 1);
        assert!(server_paths.of("Nas").lossy && !server_paths.of("box").lossy);
    }
}

//! How a client reaches a server whose key it knows.

use crate::direct::{Direct, HANDSHAKE_MAX};
use crate::duplex::{OnNewKey, Opening};
use crate::quic;
use crate::tls::TlsFailure;
use crate::{Congestion, ConnectError, Connection, Identity, PublicKey, Timeouts};
use haul_model::os_text;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

/// Timeout for one address of a server.
const TRY_MAX: Duration = Duration::from_secs(5);

/// Timeout for all addresses together.
const TRIES_MAX: Duration = Duration::from_secs(15);

/// Most calls to an address that closes the connection before it answers. A server with too many
/// callers drops some of them.
const CALLS_MAX: usize = 4;

/// Pause before the next such call.
const CALL_PAUSE: Duration = Duration::from_millis(20);

/// The longest name of a host, in bytes.
const HOST_LEN_MAX: usize = 255;

/// A server's address: a host name or IP address, and a port. Its text is `HOST:PORT`, with an IPv6
/// address in brackets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServerAddress {
    host: String,
    port: u16,
}

impl ServerAddress {
    /// Makes an address. `None` if `host` is no name or address, or `port` is 0.
    pub fn new(host: &str, port: u16) -> Option<Self> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
        let is_name = !host.is_empty() && host.len() <= HOST_LEN_MAX && host.chars().all(fits);
        let valid = is_name && !host.starts_with('-') && port > 0;
        valid.then(|| Self { host: host.to_owned(), port })
    }

    /// The name or address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for ServerAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = "not an address: write HOST:PORT, with an IPv6 address in brackets";
        let (host, port) = text.rsplit_once(':').ok_or(wanted)?;
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if inner.is_none() && host.contains(':') {
            return Err(wanted);
        }
        let port = port.parse().map_err(|_| wanted)?;
        Self::new(inner.unwrap_or(host), port).ok_or(wanted)
    }
}

impl TryFrom<String> for ServerAddress {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ServerAddress> for String {
    fn from(address: ServerAddress) -> Self {
        address.to_string()
    }
}

impl From<SocketAddr> for ServerAddress {
    fn from(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: address.port() }
    }
}

/// The transport protocol of a connection to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Quic,
}

/// The protocols to try, in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServerVia {
    /// TLS over TCP, then QUIC if no server answers.
    #[default]
    TcpFirst,
    /// QUIC, then TLS over TCP if no server answers.
    QuicFirst,
    /// TLS over TCP only.
    Tcp,
    /// QUIC only.
    Quic,
}

impl ServerVia {
    fn order(self) -> &'static [Protocol] {
        match self {
            Self::TcpFirst => &[Protocol::Tcp, Protocol::Quic],
            Self::QuicFirst => &[Protocol::Quic, Protocol::Tcp],
            Self::Tcp => &[Protocol::Tcp],
            Self::Quic => &[Protocol::Quic],
        }
    }
}

/// How to reach a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Timeouts once it has answered.
    pub timeouts: Timeouts,
    /// The protocols to try.
    pub via: ServerVia,
    /// The congestion control for data that this side sends by QUIC.
    pub congestion: Congestion,
    /// Timeout for all its addresses and protocols together: at most 15 s.
    pub tries_max: Duration,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            timeouts: Timeouts::default(),
            via: ServerVia::default(),
            congestion: Congestion::default(),
            tries_max: TRIES_MAX,
        }
    }
}

impl From<Timeouts> for ConnectOptions {
    fn from(timeouts: Timeouts) -> Self {
        Self { timeouts, ..Self::default() }
    }
}

/// Connects to the server with the key `server`, at the first of `addresses` where it answers.
/// Messages call it `host`. If the server announces a new key that will replace this one, the first
/// read calls `on_new_key` with it.
///
/// The first read also shows whether the server accepts the key of `identity`. If not,
/// [`crate::Closer::explain`] returns [`ConnectError::NotEnrolled`].
///
/// # Errors
/// - [`ConnectError::ServerKey`] if a server with another key answers. The caller must not fall
///   back to a weaker connection then.
/// - [`ConnectError::NoServer`] if no server answers. The reason is that of the first protocol.
pub fn connect_server(
    host: &str,
    addresses: &[ServerAddress],
    server: PublicKey,
    identity: &Identity,
    options: impl Into<ConnectOptions>,
    on_new_key: impl FnOnce(PublicKey) + Send + 'static,
) -> Result<Connection, ConnectError> {
    let options = options.into();
    let no_server = |error: &io::Error| ConnectError::NoServer {
        host: host.to_owned(),
        detail: os_text(error),
    };
    let end = Instant::now() + options.tries_max.min(TRIES_MAX);
    let mut first_error = None;
    for protocol in options.via.order() {
        let call = |address: SocketAddr, left: Duration| -> io::Result<Called> {
            let (host, timeout) = (host.to_owned(), options.timeouts);
            Ok(match protocol {
                Protocol::Tcp => {
                    let direct = call(address, server, identity, left)?.established();
                    Box::new(move |opening| direct.into_connection(host, timeout, opening))
                }
                Protocol::Quic => {
                    let (silence_max, congestion) = (timeout.silence_max, options.congestion);
                    let (job, linger) =
                        quic::call(address, server, identity, left, silence_max, congestion)?;
                    Box::new(move |opening| {
                        job.into_connection(host, timeout, opening, Some(linger))
                    })
                }
            })
        };
        match connect_first(addresses, end, call) {
            Ok(called) => {
                let opening = Opening::Receive(Box::new(on_new_key) as OnNewKey);
                return called(opening).map_err(|error| no_server(&error));
            }
            Err(error) if TlsFailure::of(&error) == Some(TlsFailure::WrongKey) => {
                let stored = server.fingerprint();
                return Err(ConnectError::ServerKey { host: host.to_owned(), stored });
            }
            Err(error) => drop(first_error.get_or_insert(error)),
        }
    }
    let error = first_error.unwrap_or_else(|| io::ErrorKind::InvalidInput.into());
    Err(no_server(&error))
}

/// Makes the connection, after a handshake that is complete on this side.
type Called = Box<dyn FnOnce(Opening) -> io::Result<Connection>>;

/// True if the server closed the connection before it answered.
fn is_early_close(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Calls the first of `addresses` that answers. A server with another key counts as an answer.
fn connect_first(
    addresses: &[ServerAddress],
    end: Instant,
    call: impl Fn(SocketAddr, Duration) -> io::Result<Called>,
) -> io::Result<Called> {
    let mut last_error = io::Error::new(io::ErrorKind::NotFound, "no address is known");
    for address in addresses {
        let found = match (address.host(), address.port()).to_socket_addrs() {
            Ok(found) => found,
            Err(error) => {
                last_error = error;
                continue;
            }
        };
        for address in found {
            let left = || end.saturating_duration_since(Instant::now()).min(TRY_MAX);
            if left().is_zero() {
                break;
            }
            let mut called = call(address, left());
            for _ in 1..CALLS_MAX {
                if !called.as_ref().is_err_and(is_early_close) {
                    break;
                }
                thread::sleep(CALL_PAUSE);
                called = call(address, left());
            }
            match called {
                Err(error) if TlsFailure::of(&error) != Some(TlsFailure::WrongKey) => {
                    last_error = error
                }
                answered => return answered,
            }
        }
    }
    Err(last_error)
}

fn call(
    address: SocketAddr,
    server: PublicKey,
    identity: &Identity,
    timeout: Duration,
) -> io::Result<Direct> {
    let begin = Instant::now();
    let should_continue = || begin.elapsed() < timeout + HANDSHAKE_MAX;
    Direct::connect(address, identity, *server.as_bytes(), timeout, &should_continue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_disconnects_is_called_again() {
        let address = ServerAddress::new("127.0.0.1", 1).expect("an address");
        for (kind, expected) in [
            (io::ErrorKind::ConnectionReset, CALLS_MAX),
            (io::ErrorKind::UnexpectedEof, CALLS_MAX),
            (io::ErrorKind::ConnectionRefused, 1),
        ] {
            let calls = std::cell::Cell::new(0);
            let call = |_, _| {
                calls.set(calls.get() + 1);
                Err(kind.into())
            };
            let end = Instant::now() + TRIES_MAX;
            assert!(connect_first(std::slice::from_ref(&address), end, call).is_err());
            assert_eq!(calls.get(), expected, "{kind}");
        }
    }

    #[test]
    fn a_server_address_round_trips_as_text() {
        for text in ["nas:28790", "192.0.2.7:1", "[2001:db8::1]:65535", "[fe80::1%eth0]:7"] {
            let address: ServerAddress = text.parse().expect("an address");
            assert_eq!(address.to_string(), text);
        }
        for text in ["", "nas", "nas:0", "nas:65536", "::1:7", "-x:7", "a b:7", "a\x1b:7", ":7"] {
            assert!(text.parse::<ServerAddress>().is_err(), "{text}");
        }
    }
}

//! The addresses and sockets of a server.

use super::Settings;
use crate::error::CommandError;
pub(super) use haul_engine::Activated as Sockets;
use haul_engine::sockets_from_parent;
use haul_net::{Gate, QUIC_SOCKETS_MAX, bind_udp, listen_on};
use std::env;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// The default port.
pub(crate) const PORT: u16 = 28790;

/// Maximum number of ports that are tried until both TCP and UDP are free.
const PORT_TRIES_MAX: usize = 16;

/// Maximum time to wait for an address in use at the start: processes of a killed server end a
/// little later.
const BIND_RETRY_MAX: Duration = Duration::from_secs(2);

/// Interval between attempts.
const BIND_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The variables of systemd's socket activation.
const PID: &str = "LISTEN_PID";
const COUNT: &str = "LISTEN_FDS";

/// Parses an address; `port` is the default port.
pub(super) fn parse(text: &str, port: u16) -> Result<SocketAddr, CommandError> {
    let ip = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, port));
    let address = ip.or_else(|_| text.parse::<SocketAddr>());
    address.map_err(|_| {
        let text = haul_model::escape_text(text);
        CommandError::usage(format!("invalid address to listen on: '{text}'"))
            .with_hint("write an IP address, such as 192.0.2.7, [2001:db8::7]:443 or 0.0.0.0")
    })
}

/// True if another machine can reach one of `addresses`.
pub(crate) fn is_reachable(addresses: &[SocketAddr]) -> bool {
    addresses.iter().any(|address| !address.ip().to_canonical().is_loopback())
}

/// The TCP and QUIC addresses as text.
pub(crate) fn shown(addresses: &[SocketAddr], quic: &[SocketAddr]) -> String {
    let texts =
        |all: &[SocketAddr]| all.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ");
    let by = match quic {
        [] => " by TCP".to_owned(),
        quic if quic == addresses => " by TCP and QUIC".to_owned(),
        quic => format!(" by TCP, {} by QUIC", texts(quic)),
    };
    let only = if is_reachable(addresses) { "" } else { " (this machine only)" };
    format!("{}{by}{only}", texts(addresses))
}

/// The sockets that systemd opened, or else sockets at the addresses in `settings`. Those for UDP
/// are for QUIC.
pub(super) fn sockets(settings: &Settings) -> Result<Sockets, CommandError> {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let mut sockets = match (number(PID), number(COUNT)) {
        (Some(pid), Some(count)) if pid == std::process::id() => sockets_from_parent(count),
        _ => Sockets::default(),
    };
    if sockets.tcp.is_empty() {
        return bind(&settings.addresses()?, settings.quic, BIND_RETRY_MAX);
    }
    sockets.udp.truncate(if settings.quic { QUIC_SOCKETS_MAX } else { 0 });
    Ok(sockets)
}

/// Opens sockets on `addresses`. Without IPv6, its loopback and unspecified addresses are skipped.
/// An address in use is retried for `timeout`.
fn bind(addresses: &[SocketAddr], quic: bool, timeout: Duration) -> Result<Sockets, CommandError> {
    let deadline = Instant::now() + timeout;
    let mut bound = Sockets::default();
    for address in addresses {
        match bind_until(*address, quic, deadline) {
            Ok((tcp, udp)) => {
                bound.tcp.push(tcp);
                bound.udp.extend(udp);
            }
            Err(error) if is_ipv6_missing(address, &error) && addresses.len() > 1 => {}
            Err(error) => return Err(cannot_listen(*address, &error)),
        }
    }
    match bound.tcp.is_empty() {
        true => Err(CommandError::usage("there is no address to listen on")),
        false => Ok(bound),
    }
}

fn bind_until(
    address: SocketAddr,
    quic: bool,
    deadline: Instant,
) -> io::Result<(TcpListener, Option<UdpSocket>)> {
    loop {
        match bind_one(address, quic) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                thread::sleep(BIND_RETRY_INTERVAL);
            }
            bound => return bound,
        }
    }
}

/// Opens the sockets of one address. Port 0: both get the same free port.
fn bind_one(address: SocketAddr, quic: bool) -> io::Result<(TcpListener, Option<UdpSocket>)> {
    for _ in 0..PORT_TRIES_MAX {
        let tcp = listen_on(address)?;
        if !quic {
            return Ok((tcp, None));
        }
        match bind_udp(tcp.local_addr()?) {
            Ok(udp) => return Ok((tcp, Some(udp))),
            Err(error) if address.port() != 0 || error.kind() != io::ErrorKind::AddrInUse => {
                return Err(error);
            }
            Err(_) => {}
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> CommandError {
    let message = format!("can't listen on {address}: {error}");
    CommandError::io(message)
        .with_hint("choose another address or port in server.toml, or with --listen")
}

/// True if the machine has no IPv6, or no address of it.
fn is_ipv6_missing(address: &SocketAddr, error: &io::Error) -> bool {
    use io::ErrorKind as E;
    let ip = address.ip();
    let is_general = ip.is_ipv6() && (ip.is_loopback() || ip.is_unspecified());
    is_general && matches!(error.kind(), E::AddrNotAvailable | E::Unsupported)
}

/// The sockets for `settings`: existing ones of `gate`, and new ones.
pub(super) fn rebind(settings: &Settings, gate: &Gate) -> Result<Sockets, CommandError> {
    let (mut sockets, mut new) = (Sockets::default(), Vec::new());
    for address in settings.addresses()? {
        let Some(listener) = gate.listener(address).map_err(CommandError::io)? else {
            new.push(address);
            continue;
        };
        sockets.tcp.push(listener);
        if settings.quic {
            let socket = match gate.quic_socket(address).map_err(CommandError::io)? {
                Some(socket) => socket,
                None => bind_udp(address).map_err(|error| cannot_listen(address, &error))?,
            };
            sockets.udp.push(socket);
        }
    }
    if !new.is_empty() {
        let Sockets { tcp, udp } = bind(&new, settings.quic, Duration::ZERO)?;
        sockets.tcp.extend(tcp);
        sockets.udp.extend(udp);
    }
    Ok(sockets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_a_killed_server_still_has_is_waited_for() {
        // Another test may listen on the same port of TCP.
        let both = |_| {
            let tcp = TcpListener::bind("127.0.0.1:0").ok()?;
            let udp = UdpSocket::bind(tcp.local_addr().ok()?).ok()?;
            Some((tcp, udp))
        };
        let taken = (0..100).find_map(both).expect("two sockets");
        let address = taken.1.local_addr().expect("an address");
        assert!(bind(&[address], true, Duration::ZERO).is_err());
        let leaving = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            drop(taken);
        });
        let bound = bind(&[address], true, Duration::from_secs(20)).expect("it is free");
        assert_eq!(bound.udp[0].local_addr().expect("an address"), address);
        leaving.join().expect("no panic");
    }

    #[test]
    fn an_address_of_loopback_is_not_reachable() {
        let parsed = |text: &str| parse(text, 7).expect("an address");
        let local = ["127.0.0.1", "::1", "[::1]:9", "::ffff:127.0.0.1"].map(parsed);
        assert!(!is_reachable(&local));
        for text in ["0.0.0.0", "::", "192.0.2.7:9"] {
            assert!(is_reachable(&[parsed(text)]), "{text}");
        }
        assert_eq!(parsed("192.0.2.7").port(), 7);
        assert!(parse("nas", 7).is_err() && parse("127.0.0.1:x", 7).is_err());
    }
}

//! The addresses of a server, and its sockets.

use crate::error::{CommandError, ErrorKind};
use haul_engine::listeners_from_parent;
use haul_net::{Gate, listen_on};
use std::env;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};

/// The port, unless another one is chosen.
pub(crate) const PORT: u16 = 28790;

/// The variables of systemd's socket activation.
const PID: &str = "LISTEN_PID";
const COUNT: &str = "LISTEN_FDS";

/// The address in `text`, which has the port `port` unless it says another one.
pub(super) fn parse(text: &str, port: u16) -> Result<SocketAddr, CommandError> {
    let ip = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, port));
    let address = ip.or_else(|_| text.parse::<SocketAddr>());
    address.map_err(|_| {
        let text = haul_model::escape_text(text);
        CommandError::usage(format!("invalid address to listen on: '{text}'"))
            .with_hint("write an IP address, such as 192.0.2.7, [2001:db8::7]:443 or 0.0.0.0")
    })
}

/// True if other machines reach one of `addresses`.
pub(crate) fn is_reachable(addresses: &[SocketAddr]) -> bool {
    addresses.iter().any(|address| !address.ip().to_canonical().is_loopback())
}

/// The sockets that systemd has opened, or else those on `addresses`.
pub(super) fn sockets(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, CommandError> {
    let handed = from_system();
    if handed.is_empty() { bind(addresses) } else { Ok(handed) }
}

fn from_system() -> Vec<TcpListener> {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    match (number(PID), number(COUNT)) {
        (Some(pid), Some(count)) if pid == std::process::id() => listeners_from_parent(count),
        _ => Vec::new(),
    }
}

/// Sockets on `addresses`. On a machine without IPv6, general addresses of it are passed over.
pub(super) fn bind(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, CommandError> {
    let mut bound = Vec::new();
    for address in addresses {
        match listen_on(*address) {
            Ok(listener) => bound.push(listener),
            Err(error) if lacks_ipv6(address, &error) && addresses.len() > 1 => {}
            Err(error) => {
                let message = format!("can't listen on {address}: {error}");
                return Err(CommandError::new(ErrorKind::Io, message)
                    .with_hint("choose another address or port in server.toml, or with --listen"));
            }
        }
    }
    match bound.is_empty() {
        true => Err(CommandError::usage("there is no address to listen on")),
        false => Ok(bound),
    }
}

/// True if that is why there is no socket: the machine has no IPv6, or no address of it.
fn lacks_ipv6(address: &SocketAddr, error: &io::Error) -> bool {
    use io::ErrorKind as E;
    let ip = address.ip();
    let is_general = ip.is_ipv6() && (ip.is_loopback() || ip.is_unspecified());
    is_general && matches!(error.kind(), E::AddrNotAvailable | E::Unsupported)
}

/// Sockets on `addresses`: those that `gate` has, and new ones.
pub(super) fn rebind(
    addresses: &[SocketAddr],
    gate: &Gate,
) -> Result<Vec<TcpListener>, CommandError> {
    let failed = |error: io::Error| CommandError::new(ErrorKind::Io, error);
    let (mut kept, mut new) = (Vec::new(), Vec::new());
    for address in addresses {
        match gate.listener(*address).map_err(failed)? {
            Some(listener) => kept.push(listener),
            None => new.push(*address),
        }
    }
    if !new.is_empty() {
        kept.extend(bind(&new)?);
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

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

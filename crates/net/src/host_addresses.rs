//! The addresses that a host's name resolves to here, and the addresses that the host may claim as
//! its own. A host that tells others where to call must not direct them to another host.

use crate::SshTarget;
use crate::connection::Closer;
use crate::ssh::host_name;
use parking_lot::{Condvar, Mutex};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Most addresses of one name.
const ADDRESSES_MAX: usize = 64;

/// Timeout for the result of a lookup. ssh has done the same lookup by then.
const LOOKUP_MAX: Duration = Duration::from_secs(1);

/// The addresses of a host, as its name resolves here. A background thread looks them up.
#[derive(Clone)]
pub struct HostAddresses {
    shared: Arc<Shared>,
    /// It is reached by ssh, not by another program, which may lead anywhere.
    is_ssh: bool,
    /// For a server: the address where it was reached, and the round trip if known.
    server: Option<(SocketAddr, Option<Duration>)>,
}

impl Closer {
    /// The addresses of the host as its name resolves here. The lookup runs in the background.
    pub fn host_addresses(&self) -> HostAddresses {
        match (self.extra_logins(), self.server()) {
            (Some(extra_logins), _) => HostAddresses::of(&extra_logins.0),
            (None, Some((server, round_trip))) => HostAddresses::of_server(server, round_trip),
            (None, None) => HostAddresses::at(Vec::new()),
        }
    }
}

#[derive(Default)]
struct Shared {
    resolved: Mutex<Option<Vec<IpAddr>>>,
    is_resolved: Condvar,
}

impl Shared {
    fn set_addresses(&self, addresses: Vec<IpAddr>) {
        *self.resolved.lock() = Some(addresses);
        self.is_resolved.notify_all();
    }
}

impl HostAddresses {
    /// Starts to look up the addresses of `target`.
    pub fn of(target: &SshTarget) -> Self {
        let shared = Arc::new(Shared::default());
        let (finds, sought, is_ssh) =
            (Arc::clone(&shared), target.clone(), target.shell().is_ssh());
        let look = move || finds.set_addresses(look_up(&sought));
        if thread::Builder::new().name("looking up".to_owned()).spawn(look).is_err() {
            shared.set_addresses(Vec::new());
        }
        Self { shared, is_ssh, server: None }
    }

    /// A server that was reached at `address`.
    pub(crate) fn of_server(address: SocketAddr, round_trip: Option<Duration>) -> Self {
        Self { server: Some((address, round_trip)), ..Self::at(vec![address.ip()]) }
    }

    /// A host at these addresses, or unknown ones if empty, that is not reached by ssh.
    pub fn at(addresses: Vec<IpAddr>) -> Self {
        let shared = Arc::new(Shared::default());
        shared.set_addresses(addresses);
        Self { shared, is_ssh: false, server: None }
    }

    /// True for a server. The connection to it is like the direct ones.
    pub fn is_server(&self) -> bool {
        self.server.is_some()
    }

    /// The round trip to a server, if known.
    pub fn round_trip(&self) -> Option<Duration> {
        self.server.and_then(|(_, round_trip)| round_trip)
    }

    /// The host's addresses. Empty if its name does not resolve, or not in time.
    fn addresses(&self) -> Vec<IpAddr> {
        let mut resolved = self.shared.resolved.lock();
        let unknown = |resolved: &mut Option<Vec<IpAddr>>| resolved.is_none();
        self.shared.is_resolved.wait_while_for(&mut resolved, unknown, LOOKUP_MAX);
        resolved.clone().unwrap_or_default()
    }

    /// The address to call from here, if the host claims `address`. It must be a valid host
    /// address. It must not lead to this machine if the host is another. A server is called where
    /// it was reached: it may not know that address.
    ///
    /// # Errors
    /// The reason for refusing `address`, safe to show.
    pub fn checked_address(&self, address: SocketAddr) -> Result<SocketAddr, String> {
        if let Some((reached, _)) = self.server {
            return Ok(reached);
        }
        check_host_address(address)?;
        if !address.ip().to_canonical().is_loopback() {
            return Ok(address);
        }
        let addresses = self.addresses();
        let may_be_here = match addresses.is_empty() {
            true => !self.is_ssh,
            false => all_loopback(&addresses),
        };
        may_be_here.then_some(address).ok_or_else(|| loops_back_error(address))
    }
}

fn look_up(target: &SshTarget) -> Vec<IpAddr> {
    let Some(name) = host_name(target) else { return Vec::new() };
    // The port is irrelevant here.
    let resolved = (name.as_str(), 0).to_socket_addrs();
    let resolved = resolved.into_iter().flatten().map(|address| address.ip().to_canonical());
    resolved.take(ADDRESSES_MAX).collect()
}

/// Checks that the host `from` may call `address`, which the host `to` claims. The name of `to`
/// must resolve to it here, and it must not lead `from` to itself.
///
/// # Errors
/// The reason for refusing it, safe to show.
pub fn check_route_between(
    address: SocketAddr,
    from: &HostAddresses,
    to: &HostAddresses,
) -> Result<(), String> {
    check_host_address(address)?;
    let ip = address.ip().to_canonical();
    if !to.addresses().contains(&ip) {
        return Err(format!("it reports the address {ip}, which its name does not resolve to"));
    }
    // A loopback address is valid only if both hosts are this machine.
    if ip.is_loopback() && !all_loopback(&from.addresses()) {
        return Err(loops_back_error(address));
    }
    Ok(())
}

fn all_loopback(addresses: &[IpAddr]) -> bool {
    !addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback)
}

fn loops_back_error(address: SocketAddr) -> String {
    let ip = address.ip().to_canonical();
    format!("it reports the loopback address {ip}")
}

/// Refuses port 0 and addresses that are not of a single host.
///
/// # Errors
/// The reason, safe to show.
pub fn check_host_address(address: SocketAddr) -> Result<(), String> {
    let ip = address.ip().to_canonical();
    let is_nobodys = match ip {
        IpAddr::V4(ip) => ip == Ipv4Addr::BROADCAST || ip.octets()[0] == 0,
        IpAddr::V6(ip) => ip.is_unspecified(),
    };
    match is_nobodys || ip.is_multicast() || address.port() == 0 {
        true => Err(format!("it reports the invalid address {address}")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> SocketAddr {
        address.parse().expect("an address")
    }

    fn host(addresses: &[&str]) -> HostAddresses {
        HostAddresses::at(addresses.iter().map(|ip| ip.parse().expect("an address")).collect())
    }

    /// A host that is reached by ssh.
    fn by_ssh(addresses: &[&str]) -> HostAddresses {
        HostAddresses { is_ssh: true, ..host(addresses) }
    }

    #[test]
    fn addresses_of_no_host_are_not_called() {
        for address in [
            "0.0.0.0:7",
            "0.1.2.3:7",
            "255.255.255.255:7",
            "224.0.0.1:7",
            "239.255.255.250:1900",
            "[::]:7",
            "[ff02::1]:7",
            "[::ffff:0.0.0.0]:7",
            "[::ffff:224.0.0.1]:7",
            "192.0.2.7:0",
        ] {
            let there = host(&["192.0.2.7", "224.0.0.1", "0.0.0.0", "::"]);
            assert!(there.checked_address(at(address)).is_err(), "{address}");
            assert!(check_route_between(at(address), &there, &there).is_err(), "{address}");
        }
    }

    #[test]
    fn a_host_is_called_at_its_claimed_address_unless_that_is_loopback() {
        let elsewhere = by_ssh(&["192.0.2.7"]);
        assert_eq!(elsewhere.checked_address(at("192.0.2.7:7")), Ok(at("192.0.2.7:7")));
        // A host's name may resolve to other addresses than the host knows of itself.
        assert_eq!(elsewhere.checked_address(at("198.51.100.1:7")), Ok(at("198.51.100.1:7")));
        for own in ["127.0.0.1:22", "127.9.9.9:22", "[::1]:22", "[::ffff:127.0.0.1]:22"] {
            assert!(elsewhere.checked_address(at(own)).is_err(), "{own}");
            assert!(by_ssh(&[]).checked_address(at(own)).is_err(), "{own}");
            assert!(by_ssh(&["127.0.0.1", "192.0.2.7"]).checked_address(at(own)).is_err(), "{own}");
            assert_eq!(by_ssh(&["127.0.0.1"]).checked_address(at(own)), Ok(at(own)));
            // Another program may lead anywhere.
            assert_eq!(host(&[]).checked_address(at(own)), Ok(at(own)));
        }
    }

    #[test]
    fn one_host_calls_another_only_where_its_name_resolves() {
        let (from, to) = (by_ssh(&["192.0.2.7"]), by_ssh(&["198.51.100.1", "2001:db8::1"]));
        for own in ["198.51.100.1:7", "[2001:db8::1]:7", "[::ffff:198.51.100.1]:7"] {
            assert_eq!(check_route_between(at(own), &from, &to), Ok(()), "{own}");
        }
        for other in ["198.51.100.2:7", "192.0.2.7:7", "[2001:db8::2]:7", "127.0.0.1:7"] {
            assert!(check_route_between(at(other), &from, &to).is_err(), "{other}");
            assert!(check_route_between(at(other), &from, &by_ssh(&[])).is_err(), "{other}");
        }
        let here = by_ssh(&["127.0.0.1", "::1"]);
        assert_eq!(check_route_between(at("127.0.0.1:7"), &here, &here), Ok(()));
        assert!(check_route_between(at("127.0.0.1:7"), &from, &here).is_err());
        assert!(check_route_between(at("127.0.0.1:7"), &by_ssh(&[]), &here).is_err());
    }

    #[test]
    fn a_server_is_called_where_it_was_reached() {
        let there = HostAddresses::of_server(at("127.0.0.1:7"), None);
        for own in ["192.0.2.7:9", "127.0.0.1:9", "0.0.0.0:0"] {
            assert_eq!(there.checked_address(at(own)), Ok(at("127.0.0.1:7")), "{own}");
        }
    }

    #[test]
    fn a_name_is_looked_up_as_ssh_does_it() {
        let target = |name: &str, rsh: &str| {
            SshTarget::new(None, name).and_then(|target| target.with_rsh(rsh)).expect("a target")
        };
        let addresses = |name: &str, rsh: &str| HostAddresses::of(&target(name, rsh)).addresses();
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let by_name = "ssh -F /dev/null -oHostName=192.0.2.9";
        assert_eq!(addresses("box", by_name), [ip("192.0.2.9")]);
        assert_eq!(addresses("192.0.2.8", "ssh -F /dev/null"), [ip("192.0.2.8")]);
        assert_eq!(addresses("::1", "my-rsh"), [ip("::1")]);
        assert_eq!(addresses("box.invalid", "my-rsh"), Vec::<IpAddr>::new());
    }
}

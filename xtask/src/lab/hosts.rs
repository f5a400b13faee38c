//! Two hosts and a link between them: the server, with an sshd of its own, and
//! the client.

use std::net::Ipv4Addr;

use haul_testkit::Sshd;
use tempfile::TempDir;

use super::cable::{Cable, DEVICE, Via};
use super::link::Link;
use super::namespace::Namespace;
use crate::Result;

/// The name by which ssh on the client knows the server.
pub(crate) const HOST: &str = "haul-lab";

/// Every lab has the same addresses: none sees another's.
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 213, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 213, 0, 2);
const NETWORK: &str = "10.213.0.0/30";

/// The congestion control of sockets unless told otherwise, where the kernel has it.
const CONGESTION: &str = "cubic";

/// The settings of a lab.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) link: Link,
    /// The congestion control of all sockets [default: cubic, if the kernel has it]
    #[arg(long, value_name = "NAME")]
    pub(crate) congestion: Option<String>,
    /// The way in which the link is made [default: netem, if the kernel has it]
    #[arg(long, value_enum)]
    pub(crate) via: Option<Via>,
}

/// Two hosts at work. Dropping it ends all that runs on them, and they are gone.
/// They share this machine's files.
pub(crate) struct Lab {
    // In the order in which they end.
    sshd: Sshd,
    /// The chunk cache of the host.
    _cache: TempDir,
    cable: Cable,
    client: Namespace,
    server: Namespace,
    link: Link,
    congestion: String,
}

impl Lab {
    /// Makes the hosts and waits until the server answers. Needs root.
    pub(crate) fn start(plan: &Plan) -> Result<Lab> {
        let (server, client) = (Namespace::new()?, Namespace::new()?);
        for host in [&server, &client] {
            configure(host)?;
        }
        let ends = [(&server, SERVER), (&client, CLIENT)];
        let cable = Cable::connect(&plan.link, plan.via, ends)?;
        let congestion = set_congestion(&ends, plan.congestion.as_deref())?;
        let cache = TempDir::with_prefix("haul-lab-")?;
        let place = cache.path().join("cache").display().to_string();
        let builder = Sshd::builder().usual_logins().host(HOST).listen_on(SERVER);
        let builder = builder.env("HAUL_CACHE_DIR", place);
        let sshd = server.inside(|| builder.start())??;
        let link = plan.link.clone();
        Ok(Lab { sshd, cable, client, server, link, congestion, _cache: cache })
    }

    pub(crate) fn client(&self) -> &Namespace {
        &self.client
    }

    pub(crate) fn server(&self) -> &Namespace {
        &self.server
    }

    pub(crate) fn sshd(&self) -> &Sshd {
        &self.sshd
    }

    /// The link and what carries it, in words.
    pub(crate) fn describe(&self) -> String {
        format!("{}, by {}", self.link, self.implementation())
    }

    /// The carrier of the link, and its congestion control.
    pub(crate) fn implementation(&self) -> String {
        format!("{}, {}", self.cable.kind(), self.congestion)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.client.kill_processes();
        // The listening server too, which is reaped by the value that stands
        // for it.
        self.server.kill_processes();
    }
}

/// The things that both hosts have in common.
fn configure(host: &Namespace) -> Result<()> {
    host.run("ip", &["link", "set", "lo", "up"])?;
    // A connection must not know how those before it fared.
    host.set("ipv4/tcp_no_metrics_save", "1")?;
    // The link carries what was asked for and nothing else. A kernel without
    // IPv6 has nothing to turn off.
    let _ = host.set("ipv6/conf/all/disable_ipv6", "1");
    Ok(())
}

/// Sets the congestion control of what goes over the link, and gives its name.
///
/// It is set on the route. The namespace's parameter would be refused where the
/// machine does not allow everyone the algorithm, and the machine's own
/// parameters are not ours to change.
fn set_congestion(ends: &[(&Namespace, Ipv4Addr)], wanted: Option<&str>) -> Result<String> {
    let name = wanted.unwrap_or(CONGESTION);
    for (host, address) in ends {
        let (network, source) = (NETWORK, address.to_string());
        let route = ["route", "replace", network, "dev", DEVICE, "proto", "kernel"];
        let rest = ["scope", "link", "src", &source, "congctl", name];
        if let Err(e) = host.run("ip", &[&route[..], &rest].concat()) {
            if wanted.is_some() {
                return Err(format!("the congestion control can't be {name}: {e}").into());
            }
            return host.get("ipv4/tcp_congestion_control");
        }
    }
    Ok(name.to_owned())
}

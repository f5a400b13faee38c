//! The link between two namespaces, laid: a device at each end, and what makes
//! it as slow, long and lossy as it is to be.

use std::net::Ipv4Addr;

use super::carrier::Carrier;
use super::link::Link;
use super::namespace::Namespace;
use crate::Result;

/// The device's name, in either namespace.
pub(super) const DEVICE: &str = "haul0";

/// How many packets may wait in a tun device before they are read. The queue
/// that counts is the shaper's, so this one must never be full.
const DEVICE_QUEUE_PACKETS: &str = "20000";

/// The part of the link that delays, limits and loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Via {
    /// The kernel's netem, on a veth pair
    Netem,
    /// Threads of this program, between two tun devices
    Shaper,
}

/// A laid link. Its devices go with it, or with the namespaces.
pub(crate) struct Cable {
    via: Via,
    /// Held for what it does.
    _carrier: Option<Carrier>,
}

impl Cable {
    /// Lays it: netem where the kernel has it, unless told otherwise.
    pub(crate) fn connect(
        link: &Link,
        via: Option<Via>,
        ends: [(&Namespace, Ipv4Addr); 2],
    ) -> Result<Cable> {
        let [(one, _), (other, _)] = ends;
        let via = via.unwrap_or_else(|| if has_netem(one) { Via::Netem } else { Via::Shaper });
        let carrier = match via {
            Via::Netem => {
                let far = ["peer", "name", DEVICE, "netns", &other.path()];
                one.run("ip", &[&["link", "add", DEVICE, "type", "veth"], &far[..]].concat())?;
                None
            }
            Via::Shaper => Some(Carrier::start(link, open(one, link)?, open(other, link)?)),
        };
        for (end, address) in ends {
            let (mtu, address) = (link.mtu.to_string(), format!("{address}/30"));
            end.run("ip", &["address", "add", &address, "dev", DEVICE])?;
            end.run("ip", &["link", "set", DEVICE, "mtu", &mtu])?;
            match via {
                Via::Netem => add_netem(end, link)?,
                Via::Shaper => {
                    end.run("ip", &["link", "set", DEVICE, "txqueuelen", DEVICE_QUEUE_PACKETS])?;
                }
            }
            end.run("ip", &["link", "set", DEVICE, "up"])?;
        }
        Ok(Cable { via, _carrier: carrier })
    }

    /// The kind of the link, in words.
    pub(crate) fn kind(&self) -> &'static str {
        match self.via {
            Via::Netem => "netem",
            Via::Shaper => "a shaper in user space",
        }
    }
}

/// True if the kernel has netem: the only way to know is to use it.
fn has_netem(namespace: &Namespace) -> bool {
    let had = namespace.run("tc", &["qdisc", "add", "dev", "lo", "root", "netem"]).is_ok();
    had && namespace.run("tc", &["qdisc", "delete", "dev", "lo", "root"]).is_ok()
}

/// Opens a new tun device, which is there until it is closed.
fn open(namespace: &Namespace, link: &Link) -> Result<tun::Device> {
    let mut wanted = tun::configure();
    wanted.tun_name(DEVICE).mtu(link.mtu);
    let device = namespace.inside(|| tun::create(&wanted))?;
    device.map_err(|e| format!("can't open a tun device: {e} (see `ls -l /dev/net/tun`)").into())
}

/// Makes what leaves a veth device slow, late and lost. netem holds what waits
/// and what is on its way in one queue, which it counts in packets, so that
/// segments must leave one by one.
fn add_netem(end: &Namespace, link: &Link) -> Result<()> {
    let in_flight_bytes = link.rate.0 as f64 / 8.0 * link.one_way_delay().as_secs_f64();
    let packets = (in_flight_bytes as u64 + link.queue_bytes()).div_ceil(link.mtu.into());
    end.run("ip", &["link", "set", DEVICE, "gso_max_segs", "1"])?;
    let (rate, delay) =
        (format!("{}bit", link.rate.0), format!("{}us", link.one_way_delay().as_micros()));
    let (loss, limit) = (format!("{}%", link.loss.0 * 100.0), packets.to_string());
    let mut words = vec!["qdisc", "add", "dev", DEVICE, "root", "netem", "limit", &limit];
    words.extend(["rate", &rate, "delay", &delay, "loss", &loss]);
    end.run("tc", &words)
}

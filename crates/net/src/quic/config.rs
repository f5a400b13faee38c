//! The settings of a QUIC connection.

use crate::identity::Identity;
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, EndpointConfig, HashedConnectionIdGenerator, MtuDiscoveryConfig, ServerConfig,
    TransportConfig, VarInt,
};
use ring::{hkdf, hmac};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The protocol that both sides name in their handshake (ALPN).
const PROTOCOL: &[u8] = b"haul";

/// Bytes in flight to this side: twice the bandwidth-delay product of 1 Gbit/s and 100 ms.
const RECEIVE_WINDOW: u32 = 24 << 20;

/// Minimum of the bytes that this side keeps until they are acknowledged.
pub(super) const SEND_WINDOW_MIN: u64 = 512 << 10;
/// Maximum of the same.
pub(super) const SEND_WINDOW_MAX: u64 = 32 << 20;

/// The assumed round trip before the first measurement. The first packet is sent again after three
/// times as long.
const FIRST_ROUND_TRIP: Duration = Duration::from_millis(100);

/// The longest pause between two packets of an idle connection.
const KEEP_ALIVE_MAX: Duration = Duration::from_secs(5);

/// Bytes of the IPv4 and UDP headers of a packet.
const HEADERS_V4: u16 = 28;
/// Bytes of the IPv6 and UDP headers of a packet.
const HEADERS_V6: u16 = 48;

/// The packet size that every path must carry (RFC 9000, section 14).
pub(super) const PACKET_LEN_MIN: u16 = 1200;

/// The largest UDP payload over IPv4.
pub(super) const PACKET_LEN_MAX: u16 = u16::MAX - HEADERS_V4;

/// The upper bound for path MTU discovery if the system does not report the MTU.
const PACKET_LEN_DEFAULT: u16 = 1452;

/// The congestion control of a QUIC connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Congestion {
    /// Follows the measured bandwidth and round trip. A lost packet does not slow it down.
    #[default]
    Bbr,
    /// RFC 9438.
    Cubic,
    /// RFC 9002, section 7.
    NewReno,
}

impl Congestion {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Bbr, "bbr"), (Self::Cubic, "cubic"), (Self::NewReno, "newreno")];

    fn factory(self) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self {
            Self::Bbr => Arc::new(BbrConfig::default()),
            Self::Cubic => Arc::new(CubicConfig::default()),
            Self::NewReno => Arc::new(NewRenoConfig::default()),
        }
    }
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(it, _)| it == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

/// A text that names no [`Congestion`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not bbr, cubic or newreno")]
pub struct UnknownCongestion;

impl FromStr for Congestion {
    type Err = UnknownCongestion;

    fn from_str(text: &str) -> Result<Self, UnknownCongestion> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text);
        found.map(|(it, _)| *it).ok_or(UnknownCongestion)
    }
}

/// Settings that may differ between the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TransportSettings {
    pub(super) congestion: Congestion,
    /// The timeout for a silent peer.
    pub(super) silence_max: Option<Duration>,
    /// The largest packet that may fit the path to the peer.
    pub(super) packet_len_max: u16,
}

/// The largest packet for a path with this MTU.
pub(super) fn packet_len_of(mtu: Option<u32>, is_ipv6: bool) -> u16 {
    let headers = if is_ipv6 { HEADERS_V6 } else { HEADERS_V4 };
    let fits = |mtu: u32| u16::try_from(mtu).unwrap_or(u16::MAX).saturating_sub(headers);
    mtu.map_or(PACKET_LEN_DEFAULT, fits).clamp(PACKET_LEN_MIN, PACKET_LEN_MAX)
}

impl TransportSettings {
    pub(super) fn transport(&self) -> Arc<TransportConfig> {
        let mut mtu = MtuDiscoveryConfig::default();
        mtu.upper_bound(self.packet_len_max);
        let idle = self.silence_max.and_then(|max| max.try_into().ok());
        let keep_alive = self.silence_max.map_or(KEEP_ALIVE_MAX, |max| max / 3);
        let mut config = TransportConfig::default();
        config
            .max_concurrent_bidi_streams(1u32.into())
            .max_concurrent_uni_streams(0u32.into())
            .datagram_receive_buffer_size(None)
            .receive_window(RECEIVE_WINDOW.into())
            .stream_receive_window(RECEIVE_WINDOW.into())
            .send_window(SEND_WINDOW_MIN)
            .initial_rtt(FIRST_ROUND_TRIP)
            .max_idle_timeout(idle)
            .keep_alive_interval(Some(keep_alive.min(KEEP_ALIVE_MAX)))
            .mtu_discovery_config(Some(mtu))
            .allow_spin(false)
            .congestion_controller_factory(self.congestion.factory());
        Arc::new(config)
    }
}

/// The configuration of a client, with the settings of its TLS connections.
pub(super) fn client(
    mut tls: rustls::ClientConfig,
    settings: TransportSettings,
) -> io::Result<ClientConfig> {
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    let crypto = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(settings.transport());
    Ok(config)
}

/// The configuration of a server, with the settings of its TLS connections. `own` is its newest
/// key.
pub(super) fn server(
    tls: &rustls::ServerConfig,
    own: &Identity,
    settings: TransportSettings,
) -> io::Result<ServerConfig> {
    let mut tls = tls.clone();
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    // RFC 9001, section 4.6.1: no early data.
    tls.max_early_data_size = 0;
    let crypto = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
    let tokens = hkdf::Salt::new(hkdf::HKDF_SHA256, b"haul quic token").extract(own.seed());
    let mut config = ServerConfig::new(Arc::new(crypto), Arc::new(tokens));
    config.validation_token.sent(0);
    config.transport_config(settings.transport());
    config.migration(true);
    Ok(config)
}

/// The configuration of a server's sockets, whose newest key is `own`, or of a client's. A
/// restarted server can reset the connections of its predecessor, because the keys for resets and
/// connection IDs derive from `own`.
pub(super) fn endpoint(own: Option<&Identity>) -> io::Result<EndpointConfig> {
    let mut config = match own {
        None => EndpointConfig::default(),
        Some(own) => {
            let reset = derive_key(own, b"haul quic reset")?;
            let [a, b, c, d, e, f, g, h, ..] = derive_key(own, b"haul quic id")?;
            let ids = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
            let mut config =
                EndpointConfig::new(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &reset)));
            config.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(ids)));
            config
        }
    };
    config.max_udp_payload_size(PACKET_LEN_MAX).map_err(io::Error::other)?;
    Ok(config)
}

/// Derives a key for one purpose.
fn derive_key(own: &Identity, purpose: &[u8]) -> io::Result<[u8; 32]> {
    let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, purpose).extract(own.seed());
    let mut key = [0; 32];
    let filled = secret.expand(&[b"key"], hkdf::HKDF_SHA256).and_then(|it| it.fill(&mut key));
    filled.map_err(|_| io::Error::other("can't derive a key"))?;
    Ok(key)
}

/// The code for closing a connection after all data was moved.
pub(super) const ENDED: VarInt = VarInt::from_u32(0);
/// The code for closing it earlier.
pub(super) const CLOSED_EARLY: VarInt = VarInt::from_u32(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mtu_of_a_path_bounds_its_packets() {
        for (mtu, is_ipv6, len) in [
            (Some(1500), false, 1472),
            (Some(1500), true, 1452),
            (Some(9000), false, 8972),
            (Some(65_536), false, PACKET_LEN_MAX),
            (Some(576), false, 1200),
            (None, true, 1452),
        ] {
            assert_eq!(packet_len_of(mtu, is_ipv6), len, "{mtu:?}");
        }
    }

    #[test]
    fn a_congestion_control_round_trips_as_text() {
        for (it, name) in Congestion::ALL {
            assert_eq!((it.to_string().as_str(), name.parse()), (name, Ok(it)));
        }
        assert_eq!("reno".parse::<Congestion>(), Err(UnknownCongestion));
    }
}

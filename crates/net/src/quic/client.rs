//! A client's connection. A thread moves its packets until all written data has arrived.

use super::config::{self, Congestion, TransportSettings};
use super::driver::{Driver, DriverEvent, is_wrong_key, was_refused};
use super::ends::Ends;
use super::udp::{Udp, bind_udp};
use crate::tls::{TlsFailure, accept_only, client_config};
use crate::{Identity, PacketStats, PublicKey};
use quinn_proto::{ClientConfig, ConnectionError};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The thread of a connection. It ends when the connection does.
struct Thread(Option<JoinHandle<()>>);

impl Drop for Thread {
    fn drop(&mut self) {
        // The thread does not panic. If it did, the job would see a broken connection.
        let _ = self.0.take().map(JoinHandle::join);
    }
}

/// Connects to the server with the key `server` at `address`, within `timeout`. Later the server
/// is considered lost if it is silent for `silence_max`. Returns the job's side, and a value whose
/// drop waits until all written data has arrived.
///
/// # Errors
/// When no server answers, or one with another key ([`TlsFailure::WrongKey`]).
pub(crate) fn call(
    address: SocketAddr,
    server: PublicKey,
    identity: &Identity,
    timeout: Duration,
    silence_max: Option<Duration>,
    congestion: Congestion,
) -> io::Result<(Ends, Box<dyn Send + Sync>)> {
    let tls = client_config(identity, accept_only(server))?;
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let udp = Udp::new(bind_udp(SocketAddr::new(any, 0))?)?;
    let packet_len_max = udp.packet_len_to(address);
    let config =
        config::client(tls, TransportSettings { congestion, silence_max, packet_len_max })?;
    let (job, ours) = Ends::pairs()?;
    let (result, received) = sync_channel(1);
    let begun = Call { address, name: server.label(), deadline: Instant::now() + timeout, result };
    let run = move || begun.run(udp, config, ours);
    let thread = thread::Builder::new().name("quic".to_owned()).spawn(run)?;
    let thread = Thread(Some(thread));
    let ended = || io::Error::other("the thread of the connection has ended");
    received.recv().map_err(|_| ended())??;
    Ok((job, Box::new(thread)))
}

/// A connection attempt.
struct Call {
    address: SocketAddr,
    /// The label of the server's key.
    name: String,
    deadline: Instant,
    /// Gets one message: the result of the attempt.
    result: SyncSender<io::Result<()>>,
}

impl Call {
    fn run(self, udp: Udp, config: ClientConfig, ends: Ends) {
        let result = self.result.clone();
        if let Err(error) = self.connect(udp, config, ends) {
            // After the connection is made, the pair reports how it ends.
            let _ = result.try_send(Err(error));
        }
    }

    /// Connects, then moves packets until the connection has ended.
    fn connect(self, udp: Udp, config: ClientConfig, ends: Ends) -> io::Result<()> {
        let mut driver = Driver::new(config::endpoint(None)?, None);
        let socket = driver.add_client_socket(udp)?;
        let id = driver.connect(socket, config, self.address, &self.name)?;
        let packet_stats = Arc::clone(&ends.packet_stats);
        let mut ends = Some(ends);
        while ends.is_some() {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            driver.turn(&[], Some(left))?;
            for events in driver.events() {
                match (events, ends.take()) {
                    (DriverEvent::Connected(id), Some(ends)) => driver.link(id, ends)?,
                    (DriverEvent::Failed(reason), _) => return Err(failed(&reason)),
                    (DriverEvent::Connected(_), None) => {}
                }
            }
            if driver.is_peer_unreachable(socket) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
        }
        let _ = self.result.send(Ok(()));
        while driver.linked() > 0 {
            driver.turn(&[], None)?;
        }
        *packet_stats.lock() = driver.quic(id).map(|quic| {
            let path = quic.stats().path;
            let (packets, lost) = (path.sent_packets, path.lost_packets);
            PacketStats { packets, lost, round_trip: path.min_rtt }
        });
        Ok(())
    }
}

/// The error of a handshake that failed.
fn failed(reason: &ConnectionError) -> io::Error {
    match reason {
        reason if is_wrong_key(reason) => io::Error::other(TlsFailure::WrongKey),
        reason if was_refused(reason) => io::Error::other(TlsFailure::Refused),
        ConnectionError::TimedOut => io::ErrorKind::TimedOut.into(),
        ConnectionError::ConnectionClosed(_) | ConnectionError::ApplicationClosed(_) => {
            io::ErrorKind::ConnectionRefused.into()
        }
        _ => io::Error::other(TlsFailure::Invalid),
    }
}

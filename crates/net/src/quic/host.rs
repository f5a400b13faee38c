//! The server's process for QUIC. It has the UDP sockets and the server's keys, and opens no file.
//! It passes each caller with a known key to the main process, with one end of a socket pair. It
//! moves the bytes behind the other end as long as it runs.

use super::config::{self, TransportSettings};
use super::driver::{Driver, DriverEvent, Rules};
use super::ends::Ends;
use super::messages::{Arrival, Setup};
use crate::gate::{AcceptedKeys, tls_config};
use crate::{PublicKey, Timeouts};
use haul_sys::{Access, ResourceLimits, become_user, confine, die_with_parent, is_root};
use quinn_proto::ConnectionHandle;
use quinn_proto::crypto::rustls::HandshakeData;
use rustls::pki_types::CertificateDer;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Timeouts for a message from and to the main process. It is short for sending because otherwise
/// the main process waits for this one.
const RECEIVE_MAX: Duration = Duration::from_secs(5);
const SEND_MAX: Duration = Duration::from_millis(20);

/// Timeout for sending the jobs' last bytes when the server stops.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// The user without rights on most systems.
const NOBODY: &str = "nobody";

/// Resource limits of the process. A connection has two descriptors.
const BOUNDS: ResourceLimits = ResourceLimits { open_files_max: 8192, memory_max: 64 << 30 };

/// The process for QUIC before it runs.
pub struct QuicChild {
    pub(super) control: UnixStream,
    pub(super) sockets: Vec<UdpSocket>,
    pub(super) setup: Setup,
}

impl QuicChild {
    /// Runs the process, whose parent is `parent`, and returns its exit status. **Call it in a
    /// process of its own that has no other thread.**
    pub fn run(self, parent: u32) -> u8 {
        let served = drop_privileges(parent).and_then(|()| self.serve());
        match served {
            Ok(()) => 0,
            Err(error) => {
                tracing::warn!(%error, "the process for QUIC has failed");
                1
            }
        }
    }

    /// Serves until the main process has closed its end.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn serve(self) -> io::Result<()> {
        let Self { control, sockets, setup } = self;
        control.set_read_timeout(Some(RECEIVE_MAX))?;
        control.set_write_timeout(Some(SEND_MAX))?;
        let newest = setup.own()?;
        let driver = Driver::new(config::endpoint(newest.first())?, None);
        let mut host = Host { control, known: AcceptedKeys::default(), driver };
        host.set_up(setup)?;
        host.driver.listen(sockets)?;
        host.run()
    }
}

/// Drops root's rights and the access to all files.
fn drop_privileges(parent: u32) -> io::Result<()> {
    if is_root() {
        match become_user(NOBODY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                tracing::debug!("there is no user 'nobody'");
            }
            become_nobody => become_nobody?,
        }
    }
    die_with_parent(parent)?;
    confine(Access::Below { writes: &[], reads: &[] });
    BOUNDS.apply()
}

struct Host {
    control: UnixStream,
    known: AcceptedKeys,
    driver: Driver,
}

impl Host {
    fn set_up(&mut self, setup: Setup) -> io::Result<()> {
        let own = setup.own()?;
        *self.known.lock() = setup.known;
        if !setup.is_open {
            self.driver.set_rules(None);
            return Ok(());
        }
        let newest = own.first().ok_or(io::ErrorKind::InvalidData)?;
        let settings = TransportSettings {
            congestion: setup.congestion,
            silence_max: Timeouts::default().silence_max,
            // Each connection sets the limit of its own path.
            packet_len_max: config::PACKET_LEN_MAX,
        };
        let config = config::server(&*tls_config(&own, &self.known)?, newest, settings)?;
        let rules = Rules { config: config.into(), settings, limits: setup.limits };
        self.driver.set_rules(Some(rules));
        Ok(())
    }

    fn run(&mut self) -> io::Result<()> {
        loop {
            let asked = self.driver.turn(&[self.control.as_fd()], None)?;
            if asked.first() == Some(&true) {
                match Setup::receive(&self.control)? {
                    Some((setup, sockets)) => {
                        self.set_up(setup)?;
                        sockets.map_or(Ok(()), |sockets| self.driver.listen(sockets))?;
                    }
                    None => return self.drain(),
                }
            }
            for events in self.driver.events() {
                let DriverEvent::Connected(id) = events else { continue };
                if let Err(error) = self.hand_over(id) {
                    tracing::warn!(%error, "a caller can't be handed over");
                    self.driver.close(id);
                }
            }
        }
    }

    /// Passes a caller to the main process.
    fn hand_over(&mut self, id: ConnectionHandle) -> io::Result<()> {
        let missing = || io::Error::from(io::ErrorKind::NotConnected);
        let quic = self.driver.quic(id).ok_or_else(missing)?;
        let session = quic.crypto_session();
        let keys =
            session.peer_identity().and_then(|it| it.downcast::<Vec<CertificateDer<'_>>>().ok());
        let key = keys.and_then(|keys| PublicKey::from_der(keys.first()?));
        let data = session.handshake_data().and_then(|it| it.downcast::<HandshakeData>().ok());
        let from: SocketAddr = quic.remote_address();
        let arrival = Arrival {
            key: key.ok_or_else(missing)?,
            from,
            reached: self.driver.local(id).ok_or_else(missing)?,
            label: data.and_then(|data| data.server_name),
        };
        let (job, ours) = Ends::pairs()?;
        arrival.send(&self.control, &job)?;
        self.driver.link(id, ours)
    }

    /// Sends the remaining data of the jobs, which have ended.
    fn drain(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + DRAIN_MAX;
        self.driver.set_rules(None);
        while self.driver.linked() > 0 && Instant::now() < deadline {
            self.driver.turn(&[], Some(deadline.saturating_duration_since(Instant::now())))?;
        }
        Ok(())
    }
}

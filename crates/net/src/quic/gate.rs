//! The main process's side of QUIC: it has the sockets, starts the process that serves them, and
//! receives callers from it.

use super::config::Congestion;
use super::ends::JobStream;
use super::host::QuicChild as Child;
use super::messages::{Arrival, Setup};
use crate::gate::{Caller, Line};
use crate::{GateLimits, Identity, PublicKey};
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, SystemTime};

pub use super::host::QuicChild;

/// Timeout for a message to or from the process. It is killed on a timeout.
const MESSAGE_MAX: Duration = Duration::from_secs(2);

/// Timeout for the process to exit once it is not needed.
const EXIT_MAX: Duration = Duration::from_secs(3);

/// The keys of clients, each with its time of expiry.
pub(crate) type KnownKeys = Vec<(PublicKey, Option<SystemTime>)>;

/// The sockets and the process.
pub(crate) struct QuicGate {
    sockets: Vec<UdpSocket>,
    congestion: Congestion,
    is_open: bool,
    /// The socket to the process; `None` while none runs.
    control: Option<UnixStream>,
    process: Option<haul_sys::Child>,
}

impl QuicGate {
    /// Serves nobody until a process runs; see [`Self::begin`].
    pub(crate) fn new(sockets: Vec<UdpSocket>, congestion: Congestion) -> Self {
        Self { sockets, congestion, is_open: true, control: None, process: None }
    }

    /// Prepares a process. Call [`Self::set_process`] once it runs. `None` if there are no sockets.
    ///
    /// # Errors
    /// Errors of `socketpair` and `dup`.
    pub(crate) fn begin(
        &mut self,
        own: &[Identity],
        known: KnownKeys,
        limits: GateLimits,
    ) -> io::Result<Option<Child>> {
        if self.sockets.is_empty() || !self.is_open {
            return Ok(None);
        }
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(MESSAGE_MAX))?;
        ours.set_write_timeout(Some(MESSAGE_MAX))?;
        let sockets = self.sockets.iter().map(UdpSocket::try_clone).collect::<io::Result<_>>()?;
        let setup = Setup::new(own, known, limits, self.congestion, true);
        self.control = Some(ours);
        Ok(Some(Child { control: theirs, sockets, setup }))
    }

    /// Records the running process.
    pub(crate) fn set_process(&mut self, process: haul_sys::Child) {
        self.process = Some(process);
    }

    /// Sends the process its settings. If it does not take them, it is killed, and the next turn
    /// notices.
    pub(crate) fn update(&mut self, own: &[Identity], known: KnownKeys, limits: GateLimits) {
        let setup = Setup::new(own, known, limits, self.congestion, self.is_open);
        self.send(setup, false);
    }

    fn send(&mut self, setup: Setup, with_sockets: bool) {
        let Some(control) = &self.control else { return };
        if let Err(error) = setup.send(control, with_sockets.then_some(&self.sockets)) {
            tracing::warn!(%error, "the process for QUIC does not take its settings");
            self.kill();
        }
    }

    /// Replaces the sockets.
    pub(crate) fn listen(
        &mut self,
        sockets: Vec<UdpSocket>,
        congestion: Congestion,
        own: &[Identity],
        known: KnownKeys,
        limits: GateLimits,
    ) {
        (self.sockets, self.congestion) = (sockets, congestion);
        self.send(Setup::new(own, known, limits, congestion, self.is_open), true);
    }

    /// True if a process runs, or none is needed.
    pub(crate) fn is_served(&self) -> bool {
        self.control.is_some() || self.sockets.is_empty() || !self.is_open
    }

    /// The process ID, if one runs.
    pub(crate) fn process(&self) -> Option<u32> {
        self.process.as_ref().map(haul_sys::Child::id)
    }

    pub(crate) fn sockets(&self) -> &[UdpSocket] {
        &self.sockets
    }

    /// The descriptor that callers arrive at.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.control.as_ref().map(AsFd::as_fd)
    }

    /// Receives the next caller; `None` if the process has ended. Call it when the descriptor is
    /// readable.
    pub(crate) fn next(&mut self) -> Option<Caller> {
        match self.control.as_ref().map(Arrival::receive)? {
            Ok(Some((Arrival { key, from, reached, label }, ends))) => {
                let line = Line::Quic { job_stream: JobStream::new(ends), reached, label };
                Some(Caller { key, from, line })
            }
            ended => {
                if let Err(error) = ended {
                    tracing::warn!(%error, "the process for QUIC sent something invalid");
                }
                self.kill();
                None
            }
        }
    }

    /// Kills the process.
    fn kill(&mut self) {
        self.control = None;
        if let Some(process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Stops accepting callers. Existing connections continue.
    pub(crate) fn close(&mut self, own: &[Identity], limits: GateLimits) {
        self.is_open = false;
        self.update(own, KnownKeys::new(), limits);
        self.sockets.clear();
    }

    /// In a child, closes its copies of all descriptors.
    pub(crate) fn close_in_child(&mut self) {
        (self.control, self.process) = (None, None);
        self.sockets.clear();
    }

    /// Lets the process exit once it has sent the jobs' remaining data. Kills it after
    /// [`EXIT_MAX`].
    pub(crate) fn end(&mut self) {
        self.control = None;
        let Some(process) = self.process.take() else { return };
        if matches!(process.wait_within(EXIT_MAX), Ok(None)) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

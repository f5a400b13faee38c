//! The main process's side of QUIC: it has the sockets, starts the process that serves them, and
//! receives callers from it.

use super::config::Congestion;
use super::messages::{Arrival, Setup};
use crate::gate::{Caller, Line};
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

pub use super::host::QuicChild;

/// Timeout for a message to or from the process. It is killed on a timeout.
const MESSAGE_MAX: Duration = Duration::from_secs(2);

/// Timeout for the process to exit once it is not needed.
const EXIT_MAX: Duration = Duration::from_secs(3);

/// The sockets and the process.
pub struct QuicGate {
    pub(crate) sockets: Vec<UdpSocket>,
    pub(crate) congestion: Congestion,
    /// Callers are accepted.
    pub(crate) is_open: bool,
    /// The socket to the process; `None` while none runs.
    control: Option<UnixStream>,
    process: Option<haul_sys::Child>,
}

impl QuicGate {
    /// Serves nobody until a process runs; see [`Self::prepare`].
    pub(crate) fn new(sockets: Vec<UdpSocket>, congestion: Congestion) -> Self {
        Self { sockets, congestion, is_open: true, control: None, process: None }
    }

    /// Prepares a process. Call [`Self::set_process`] once it runs. `None` if there are no sockets.
    ///
    /// # Errors
    /// Errors of `socketpair` and `dup`.
    pub(crate) fn prepare(&mut self, setup: Setup) -> io::Result<Option<QuicChild>> {
        if self.sockets.is_empty() || !self.is_open {
            return Ok(None);
        }
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(MESSAGE_MAX))?;
        ours.set_write_timeout(Some(MESSAGE_MAX))?;
        let sockets = self.sockets.iter().map(UdpSocket::try_clone).collect::<io::Result<_>>()?;
        self.control = Some(ours);
        Ok(Some(QuicChild { control: theirs, sockets, setup }))
    }

    /// Records the running process.
    pub fn set_process(&mut self, process: haul_sys::Child) {
        self.process = Some(process);
    }

    /// Sends the process its settings, with the sockets if they are new. If it does not take them,
    /// it is killed, and the next turn notices.
    pub(crate) fn send(&mut self, setup: Setup, with_sockets: bool) {
        let Some(control) = &self.control else { return };
        if let Err(error) = setup.send(control, with_sockets.then_some(&self.sockets)) {
            tracing::warn!(%error, "the process for QUIC does not take its settings");
            self.kill();
        }
    }

    /// True if a process runs, or none is needed.
    pub fn is_served(&self) -> bool {
        self.control.is_some() || self.sockets.is_empty() || !self.is_open
    }

    /// The process ID, if one runs.
    pub fn process(&self) -> Option<u32> {
        self.process.as_ref().map(haul_sys::Child::id)
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
                let line = Line::Quic { ends, reached, label };
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

    /// In a child, closes its copies of all descriptors.
    pub(crate) fn close_in_child(&mut self) {
        (self.control, self.process) = (None, None);
        self.sockets.clear();
    }

    /// Lets the process exit once it has sent the jobs' remaining data. Kills it after 3 s.
    pub fn end(&mut self) {
        self.control = None;
        let Some(process) = self.process.take() else { return };
        if matches!(process.wait_within(EXIT_MAX), Ok(None)) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

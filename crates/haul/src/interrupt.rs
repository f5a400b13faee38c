//! What the user's Ctrl-C and the system's wish to end the program come to.

use crate::error::{CommandError, ErrorKind, ExitCode};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set for good by the first SIGINT, SIGTERM or SIGHUP. A SIGINT or SIGTERM
/// that comes when it is set ends the process at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on.
    pub(crate) fn listen() -> Result<Self, CommandError> {
        Self::register().map_err(|error| CommandError::new(ErrorKind::Io, error))
    }

    fn register() -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // Registered before the one that sets the flag, and run in that
            // order, so it sees the flag of an earlier signal only.
            let code = i32::from(ExitCode::Interrupted.number());
            flag::register_conditional_shutdown(signal, code, Arc::clone(&flag))?;
        }
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Self(flag))
    }

    /// Whether it was set.
    pub(crate) fn happened(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Keeps a hang-up and a terminal's Ctrl-C from ending this process: an agent
/// ends when its client's stream does, after tidying up.
pub(crate) fn outlive_hangup() -> io::Result<()> {
    for signal in [SIGHUP, SIGINT] {
        flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

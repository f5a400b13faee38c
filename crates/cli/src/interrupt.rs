//! Handles Ctrl-C and signals that end the program.

use crate::error::{CommandError, ExitCode};
use haul_engine::JobError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::low_level::pipe;
use std::io::{self, PipeWriter, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{process, thread};

/// Maximum time to clean up after a signal. A job through SFTP needs a little less to close its
/// sessions.
const CLEANUP_MAX: Duration = Duration::from_secs(10);

/// Maximum time for an agent to clean up after a failed job. Its client does not ask it to hurry,
/// and a slow medium may be writing a last checkpoint.
const AGENT_CLEANUP_MAX: Duration = Duration::from_secs(60);

/// A flag that the first SIGINT, SIGTERM or SIGHUP sets. Signals that are ignored at the start stay
/// ignored: nohup ignores SIGHUP, and shells ignore SIGINT for background jobs of scripts. A second
/// SIGINT or SIGTERM ends the process at once. So does the first, if the program has not ended
/// within [`CLEANUP_MAX`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Handles signals from now on.
    pub(crate) fn listen() -> Result<Self, CommandError> {
        let (reader, writer) = io::pipe().map_err(CommandError::io)?;
        let interrupt = Self::register(&writer).map_err(CommandError::io)?;
        let watch = move || exit_after_signal(reader, CLEANUP_MAX);
        let started = thread::Builder::new().name("signals".to_owned()).spawn(watch);
        started.map_err(JobError::Threads)?;
        Ok(interrupt)
    }

    /// Registers the handlers. Each signal also writes a byte to `writer`.
    fn register(writer: &PipeWriter) -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // The parent process wants this one to continue.
            if ignores(&status, signal) {
                continue;
            }
            if signal != SIGHUP {
                // Handlers run in the order of registration. This one runs before the flag is set,
                // so it ends the process only at a second signal.
                let code = i32::from(ExitCode::Interrupted.number());
                flag::register_conditional_shutdown(signal, code, Arc::clone(&flag))?;
            }
            flag::register(signal, Arc::clone(&flag))?;
            pipe::register(signal, writer.try_clone()?)?;
        }
        Ok(Self(flag))
    }

    /// True if a signal was received.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Waits for a signal, then ends the process after `timeout`. A thread may be blocked by an
/// unresponsive file system or program.
fn exit_after_signal(mut reader: impl Read, timeout: Duration) {
    if reader.read_exact(&mut [0]).is_err() {
        return;
    }
    thread::sleep(timeout);
    haul_engine::remove_unpublished();
    // If that fails, there is no other place to report it.
    let _ = io::stderr().write_all(
        b"haul: interrupted: exiting without waiting for an operation that does not end\n",
    );
    process::exit(ExitCode::Interrupted.number().into());
}

/// Makes a write beyond the file size limit (`ulimit -f`) an error of that file. By default SIGXFSZ
/// ends the process. Child processes keep the default.
pub(crate) fn ignore_size_limit_signal() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(drop)
}

/// Prevents SIGHUP and Ctrl-C from ending this process. An agent cleans up and ends when its
/// client's stream ends.
pub(crate) fn ignore_hangup() -> io::Result<()> {
    for signal in [SIGHUP, SIGINT] {
        flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

/// Ends the process after [`AGENT_CLEANUP_MAX`], even if threads are blocked.
pub(crate) fn exit_after_cleanup_max() {
    let end = || {
        thread::sleep(AGENT_CLEANUP_MAX);
        haul_engine::remove_unpublished();
        process::exit(ExitCode::SomeFailed.number().into());
    };
    // Without the thread, the process waits for the other threads.
    let _ = thread::Builder::new().name("leaving".to_owned()).spawn(end);
}

/// True if a process with this /proc status (Linux) ignores `signal`. False for an empty status.
fn ignores(status: &str, signal: i32) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|digits| u128::from_str_radix(digits.trim(), 16).ok());
    // Signal numbers start at 1.
    ignored.is_some_and(|set| set >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read_as_the_system_writes_it() {
        let status = |digits: &str| {
            format!("Name:\thaul\nSigBlk:\t{0}\nSigIgn:\t{digits}\nSigCgt:\t{0}\n", "f".repeat(16))
        };
        assert!(ignores(&status("0000000000000001"), SIGHUP));
        assert!(ignores(&status("0000000000001003"), SIGHUP));
        assert!(ignores(&status("0000000000001002"), SIGINT));
        assert!(!ignores(&status("0000000000001002"), SIGHUP));
        assert!(!ignores(&status("0000000000000000"), SIGHUP));
        assert!(!ignores(&status("what?"), SIGHUP));
        assert!(!ignores("", SIGHUP));
    }
}

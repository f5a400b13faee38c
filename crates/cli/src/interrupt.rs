//! Handles the user's Ctrl-C and the system's wish to end the program.

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

/// How long the program may take to leave everything in order after a signal. A
/// little more than a job through SFTP takes to leave its sessions.
const TIDYING_MAX: Duration = Duration::from_secs(10);

/// How long an agent may take for the same after a job that has failed. Its client has
/// not asked it to hurry, and a slow medium may be taking a last checkpoint.
const LEAVING_MAX: Duration = Duration::from_secs(60);

/// Set for good by the first SIGINT, SIGTERM or SIGHUP. Those that were ignored when
/// the program was started stay ignored: a SIGHUP as nohup has it, a SIGINT as a
/// script's shell has it for what it starts in the background. A SIGINT or SIGTERM
/// that comes when it is set ends the process at once. The first does it too if the
/// program has not ended within [`TIDYING_MAX`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on.
    pub(crate) fn listen() -> Result<Self, CommandError> {
        let (told, tell) = io::pipe().map_err(CommandError::io)?;
        let interrupt = Self::register(&tell).map_err(CommandError::io)?;
        let watch = move || see_to_the_end(told, TIDYING_MAX);
        let begun = thread::Builder::new().name("signals".to_owned()).spawn(watch);
        begun.map_err(JobError::Threads)?;
        Ok(interrupt)
    }

    /// Sets what each signal does; what comes in `tell` for it, nobody counts.
    fn register(tell: &PipeWriter) -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Who has started it so wants it to go on.
            if ignores(&status, signal) {
                continue;
            }
            if signal != SIGHUP {
                // Registered before the one that sets the flag, and run in that
                // order, so it sees the flag of an earlier signal only.
                let code = i32::from(ExitCode::Interrupted.number());
                flag::register_conditional_shutdown(signal, code, Arc::clone(&flag))?;
            }
            flag::register(signal, Arc::clone(&flag))?;
            pipe::register(signal, tell.try_clone()?)?;
        }
        Ok(Self(flag))
    }

    /// True if it was set.
    pub(crate) fn happened(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Waits for a signal, and ends the process if it has not ended by itself within
/// `patience`: a thread may wait for a file system or a program that answers nothing.
fn see_to_the_end(mut told: impl Read, patience: Duration) {
    if told.read_exact(&mut [0]).is_err() {
        return;
    }
    thread::sleep(patience);
    haul_engine::remove_unpublished();
    // There is no other place to say it.
    let _ = io::stderr().write_all(
        b"haul: interrupted: exiting without waiting for an operation that does not end\n",
    );
    process::exit(ExitCode::Interrupted.number().into());
}

/// Turns a write beyond the limit on the size of a file (`ulimit -f`) into an error of that
/// file: the signal that comes with it would end the process. Programs that this one starts
/// have the signal as usual.
pub(crate) fn outlive_size_limit() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(drop)
}

/// Keeps a hang-up and a terminal's Ctrl-C from ending this process: an agent
/// ends when its client's stream does, after tidying up.
pub(crate) fn outlive_hangup() -> io::Result<()> {
    for signal in [SIGHUP, SIGINT] {
        flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

/// Ends the process if it still runs after [`LEAVING_MAX`], whatever its threads wait
/// for.
pub(crate) fn leave_in_time() {
    let end = || {
        thread::sleep(LEAVING_MAX);
        haul_engine::remove_unpublished();
        process::exit(ExitCode::SomeFailed.number().into());
    };
    // Without that thread, they are waited for.
    let _ = thread::Builder::new().name("leaving".to_owned()).spawn(end);
}

/// True if the process of that `status`, as /proc shows it on Linux, ignores
/// `signal`. An empty one says that it doesn't.
fn ignores(status: &str, signal: i32) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|digits| u128::from_str_radix(digits.trim(), 16).ok());
    // The first signal is 1.
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

//! The child process behind a connection: shared between who closes it and who
//! may have to kill it, and never signalled after it was reaped.

use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a child may take to end after it was asked to. ssh uses it to give
/// the terminal its echo back if it was asking for a password.
const ASKED_WAIT_MAX: Duration = Duration::from_millis(500);

/// How often a child that was asked to end is looked at.
const ASKED_POLL: Duration = Duration::from_millis(2);

/// A child that is reaped under the same lock under which it is signalled, so
/// that no signal can meet a stranger who got its process id.
pub(crate) struct Process(Mutex<State>);

struct State {
    child: Child,
    asked: bool,
}

impl Process {
    pub(crate) fn new(child: Child) -> Self {
        Self(Mutex::new(State { child, asked: false }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it ended, or `None` while it runs.
    pub(crate) fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        self.state().child.try_wait()
    }

    /// Asks it to end with SIGTERM; from the second time on, SIGKILL. Does
    /// nothing once it has ended.
    pub(crate) fn kill(&self) {
        let mut state = self.state();
        if !matches!(state.child.try_wait(), Ok(None)) {
            return;
        }
        let signal = if state.asked { Signal::KILL } else { Signal::TERM };
        // It can only fail because the child has ended, which is what is wanted.
        let _ = kill_process(Pid::from_child(&state.child), signal);
        state.asked = true;
    }

    /// Calls `look` with its number, which no other process gets before that has returned;
    /// `None` if it has ended.
    pub(crate) fn look_at<T>(&self, look: impl FnOnce(u32) -> T) -> Option<T> {
        let mut state = self.state();
        matches!(state.child.try_wait(), Ok(None)).then(|| look(state.child.id()))
    }

    /// True if [`Self::kill`] met it alive.
    pub(crate) fn was_killed(&self) -> bool {
        self.state().asked
    }

    /// Ends it and reaps it.
    pub(crate) fn end(&self) {
        self.kill();
        let deadline = Instant::now() + ASKED_WAIT_MAX;
        while matches!(self.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                self.kill();
                // SIGKILL can't be refused, so this wait is short.
                let _ = self.state().child.wait();
                return;
            }
            thread::sleep(ASKED_POLL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_that_ignores_the_question_is_killed() {
        let mut child = Command::new("sh")
            .args(["-c", "trap '' TERM; echo ready; while :; do sleep 1; done"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        io::Read::read_exact(&mut child.stdout.take().unwrap(), &mut ready).unwrap();
        let process = Process::new(child);
        let start = Instant::now();
        process.end();
        assert!(start.elapsed() >= ASKED_WAIT_MAX);
        assert!(matches!(process.try_wait(), Ok(Some(_))));
        assert!(process.was_killed());
        // Nobody is left to be signalled.
        process.kill();
    }

    #[test]
    fn a_child_that_has_ended_counts_as_left_alone() {
        let process = Process::new(Command::new("true").spawn().unwrap());
        while matches!(process.try_wait(), Ok(None)) {
            thread::sleep(ASKED_POLL);
        }
        process.kill();
        process.end();
        assert!(!process.was_killed());
    }
}

//! The child process behind a connection. Several threads may wait for it or kill it, but it is
//! never signalled after it was reaped.

use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Timeout for a child to exit after SIGTERM. ssh uses the time to restore the terminal's echo if
/// it was asking for a password.
const TERM_WAIT_MAX: Duration = Duration::from_millis(500);

/// Pause between two checks whether a child has exited.
const EXIT_POLL: Duration = Duration::from_millis(1);

/// Timeout for a program whose answer needs no network. After that the answer is unknown.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Most bytes of a short answer.
const ANSWER_LEN_MAX: u64 = 4096;

/// Most bytes of a whole output.
const OUTPUT_LEN_MAX: u64 = 1 << 20;

/// Runs `command` and returns its status. `None` if it can't be started or takes too long; then it
/// is killed.
pub(crate) fn status_of(command: &mut Command) -> Option<ExitStatus> {
    let process = Process::new(command.spawn().ok()?);
    status_within(&process, ANSWER_MAX)
}

fn status_within(process: &Process, timeout: Duration) -> Option<ExitStatus> {
    let status = process.ends_within(timeout).then(|| process.try_wait().ok().flatten()).flatten();
    if status.is_none() {
        process.kill_and_reap();
    }
    status
}

/// Runs `command` and returns the beginning of its standard error. `None` if it can't be started or
/// takes too long; then it is killed.
pub(crate) fn stderr_of(command: &mut Command) -> Option<Vec<u8>> {
    let mut child = command.stderr(Stdio::piped()).spawn().ok()?;
    let stderr = child.stderr.take()?;
    let process = Process::new(child);
    let answer = read_within(ANSWER_MAX, stderr.take(ANSWER_LEN_MAX));
    process.kill_and_reap();
    answer
}

/// Runs `command` and returns its standard output. `None` if it can't be started, fails or takes
/// too long; then it is killed.
pub(crate) fn stdout_of(command: &mut Command) -> Option<Vec<u8>> {
    stdout_within(ANSWER_MAX, command)
}

fn stdout_within(timeout: Duration, command: &mut Command) -> Option<Vec<u8>> {
    let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
    let stdout = child.stdout.take()?;
    let process = Process::new(child);
    let answer = read_within(timeout, stdout.take(OUTPUT_LEN_MAX));
    // A program that has not closed its output by now gets no more time.
    let timeout = if answer.is_some() { timeout } else { Duration::ZERO };
    status_within(&process, timeout).filter(ExitStatus::success).and(answer)
}

/// Reads `pipe` to its end. `None` on a timeout: the program's own children may hold its pipe open
/// after its end.
fn read_within(timeout: Duration, mut pipe: impl Read + Send + 'static) -> Option<Vec<u8>> {
    let (told, heard) = mpsc::channel();
    let read = move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = told.send(bytes);
    };
    thread::Builder::new().name("answer".to_owned()).spawn(read).ok()?;
    heard.recv_timeout(timeout).ok()
}

/// A child that is reaped and signalled under one lock, so that no signal can reach another process
/// that got its ID.
pub(crate) struct Process(Mutex<KilledChild>);

struct KilledChild {
    child: Child,
    term_sent: bool,
}

impl Process {
    pub(crate) fn new(child: Child) -> Self {
        Self(Mutex::new(KilledChild { child, term_sent: false }))
    }

    fn state(&self) -> MutexGuard<'_, KilledChild> {
        self.0.lock()
    }

    /// The child's status, or `None` while it runs.
    pub(crate) fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        self.state().child.try_wait()
    }

    /// Sends SIGTERM the first time, then SIGKILL. Does nothing once the child has exited.
    pub(crate) fn kill(&self) {
        let mut state = self.state();
        if !matches!(state.child.try_wait(), Ok(None)) {
            return;
        }
        let signal = if state.term_sent { Signal::KILL } else { Signal::TERM };
        // It can only fail because the child has exited.
        let _ = kill_process(Pid::from_child(&state.child), signal);
        state.term_sent = true;
    }

    /// Calls `look` with the process ID, which is not reused before `look` returns. `None` if the
    /// child has exited.
    pub(crate) fn inspect<T>(&self, look: impl FnOnce(u32) -> T) -> Option<T> {
        let mut state = self.state();
        matches!(state.child.try_wait(), Ok(None)).then(|| look(state.child.id()))
    }

    /// True if [`Self::kill`] was called while the child ran.
    pub(crate) fn was_killed(&self) -> bool {
        self.state().term_sent
    }

    /// Kills the child and reaps it.
    pub(crate) fn kill_and_reap(&self) {
        self.kill();
        if !self.ends_within(TERM_WAIT_MAX) {
            self.kill();
            // SIGKILL can't be refused, so this wait is short.
            let _ = self.state().child.wait();
        }
    }

    /// Waits up to `timeout` until the child has exited. Returns whether it has.
    pub(crate) fn ends_within(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        while matches!(self.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(EXIT_POLL);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_that_ignores_sigterm_is_killed() {
        let mut child = Command::new("sh")
            .args(["-c", "trap '' TERM; echo ready; while :; do sleep 1; done"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        io::Read::read_exact(&mut child.stdout.take().unwrap(), &mut ready).unwrap();
        let process = Process::new(child);
        let start = Instant::now();
        process.kill_and_reap();
        assert!(start.elapsed() >= TERM_WAIT_MAX);
        assert!(matches!(process.try_wait(), Ok(Some(_))));
        assert!(process.was_killed());
        // The child is gone, so there is nothing to signal.
        process.kill();
    }

    #[test]
    fn a_child_that_has_exited_was_not_killed() {
        let process = Process::new(Command::new("true").spawn().unwrap());
        while matches!(process.try_wait(), Ok(None)) {
            thread::sleep(EXIT_POLL);
        }
        process.kill();
        process.kill_and_reap();
        assert!(!process.was_killed());
    }

    #[test]
    fn a_command_is_answered_or_times_out() {
        let shell = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line]).stdin(Stdio::null());
            command
        };
        assert_eq!(stderr_of(&mut shell("echo it >&2")).as_deref(), Some(&b"it\n"[..]));
        assert_eq!(status_of(&mut shell("exit 3")).and_then(|status| status.code()), Some(3));
        assert_eq!(stderr_of(&mut Command::new("/nonexistent")), None);
        assert_eq!(stdout_of(&mut shell("echo it")).as_deref(), Some(&b"it\n"[..]));
        assert_eq!(stdout_of(&mut shell("echo it; exit 3")), None);
        let silent = "echo it; exec sleep 600";
        assert_eq!(stdout_within(Duration::from_millis(50), &mut shell(silent)), None);
        let process = Process::new(shell("exec sleep 600").spawn().expect("started"));
        assert_eq!(status_within(&process, Duration::from_millis(20)), None);
        assert!(process.was_killed());
    }
}

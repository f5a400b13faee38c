//! A child process with a copy of this process's memory.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

/// Exit status of a child that panicked, as for a Rust program.
const PANICKED: u8 = 101;

/// How long the system may still count a joined thread.
const THREAD_EXIT_MAX: Duration = Duration::from_millis(100);

/// Pause between two counts.
const THREADS_POLL: Duration = Duration::from_micros(100);

/// Pause between two checks of a process, if the system can't report its end.
const EXIT_POLL: Duration = Duration::from_millis(5);

/// A child process started by [`fork`]. It keeps running when this is dropped.
#[derive(Debug)]
pub struct Child(Pid);

/// Starts a child process that runs `work` and exits with the status that it returns.
///
/// The child has copies of this process's memory and descriptors. It runs only the destructors of
/// `work`.
///
/// # Errors
/// When this process has more than one thread: locks of the others would stay locked in the child.
/// Otherwise those of `fork`.
pub fn fork(work: impl FnOnce() -> u8) -> io::Result<Child> {
    if !is_single_threaded() {
        return Err(io::Error::other("can't fork while other threads run"));
    }
    // SAFETY: no other thread runs, so the child finds no lock taken and no half-done change.
    #[allow(unsafe_code)]
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    if let Some(child) = Pid::from_raw(pid) {
        return Ok(Child(child));
    }
    exit_at_once(catch_unwind(AssertUnwindSafe(work)).unwrap_or(PANICKED))
}

/// Ends this process, whatever its threads are doing. No destructors run.
pub fn exit_at_once(status: u8) -> ! {
    // SAFETY: it ends the process and accesses no memory.
    #[allow(unsafe_code)]
    unsafe {
        libc::_exit(status.into())
    }
}

/// True if this process has one thread. Waits for a thread that was just joined, which the system
/// may still count.
pub fn is_single_threaded() -> bool {
    let begun = Instant::now();
    while thread_count().is_some_and(|count| count > 1) {
        if begun.elapsed() > THREAD_EXIT_MAX {
            return false;
        }
        thread::sleep(THREADS_POLL);
    }
    true
}

/// The number of this process's threads, if the system reports it.
fn thread_count() -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    // A directory has a link for each subdirectory, and two of its own.
    Some(std::fs::metadata("/proc/self/task").ok()?.nlink().saturating_sub(2))
}

impl Child {
    /// The process ID. It is not reused before [`Self::wait`] has returned.
    pub fn id(&self) -> u32 {
        self.0.as_raw_nonzero().get().unsigned_abs()
    }

    /// Waits until the process has ended. Returns its status, or `None` if a signal ended it.
    ///
    /// # Errors
    /// Errors of `waitpid`.
    pub fn wait(self) -> io::Result<Option<u8>> {
        loop {
            match waitpid(Some(self.0), WaitOptions::empty()) {
                Ok(Some((_, status))) => return Ok(exit_status(status)),
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Like [`Self::wait`], without waiting. The outer `None` means that the process still runs.
    /// **Do not call it again once it has returned a status.**
    ///
    /// # Errors
    /// Errors of `waitpid`.
    pub fn try_wait(&self) -> io::Result<Option<Option<u8>>> {
        let ended = waitpid(Some(self.0), WaitOptions::NOHANG)?;
        Ok(ended.map(|(_, status)| exit_status(status)))
    }

    /// Like [`Self::try_wait`], but waits for the end up to `timeout`.
    ///
    /// # Errors
    /// Errors of `waitpid`.
    pub fn wait_within(&self, timeout: Duration) -> io::Result<Option<Option<u8>>> {
        let deadline = Instant::now() + timeout;
        loop {
            let ended = self.try_wait()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if ended.is_some() || left.is_zero() {
                return Ok(ended);
            }
            if !wait_for_end(self.0, left) {
                thread::sleep(left.min(EXIT_POLL));
            }
        }
    }

    /// Sends SIGTERM.
    ///
    /// # Errors
    /// Errors of `kill`.
    pub fn terminate(&self) -> io::Result<()> {
        Ok(kill_process(self.0, Signal::TERM)?)
    }

    /// Sends SIGKILL.
    ///
    /// # Errors
    /// Errors of `kill`.
    pub fn kill(&self) -> io::Result<()> {
        Ok(kill_process(self.0, Signal::KILL)?)
    }
}

/// Waits up to `timeout` until the process `pid` has ended. Returns false if the system can't wait
/// for it.
#[cfg(target_os = "linux")]
fn wait_for_end(pid: Pid, timeout: Duration) -> bool {
    use crate::waiting::wait_ready;
    use rustix::event::{PollFd, PollFlags};
    use rustix::process::{PidfdFlags, pidfd_open};
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    wait_ready(&mut [PollFd::new(&process, PollFlags::IN)], Some(timeout)).is_ok()
}

elsewhere!(fn wait_for_end(Pid, Duration) -> bool = false);

fn exit_status(status: rustix::process::WaitStatus) -> Option<u8> {
    status.exit_status().and_then(|status| u8::try_from(status).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn waiting_ends_with_the_process_or_the_timeout() {
        let start = |seconds: &str| {
            let program = std::process::Command::new("sleep").arg(seconds).spawn();
            let id = i32::try_from(program.expect("it starts").id()).expect("a process id");
            Child(Pid::from_raw(id).expect("a process id"))
        };
        let begin = Instant::now();
        let ended = start("0").wait_within(Duration::from_secs(20)).expect("asked");
        assert_eq!(ended, Some(Some(0)));
        let running = start("60");
        assert_eq!(running.wait_within(Duration::from_millis(10)).expect("asked"), None);
        running.kill().expect("killed");
        assert_eq!(running.wait_within(Duration::from_secs(20)).expect("asked"), Some(None));
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_with_several_threads_cannot_fork() {
        let other = thread::spawn(|| thread::sleep(THREAD_EXIT_MAX * 3));
        fork(|| 0).expect_err("another thread runs");
        other.join().expect("no panic");
    }
}

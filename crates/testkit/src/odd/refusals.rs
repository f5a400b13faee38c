//! Calls that an odd file system refuses, or takes long for, by plan.

use rustix::io::Errno;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A call of the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Finds a name.
    Lookup,
    /// Tells what an object is.
    Stat,
    /// Cuts or extends a file.
    SetSize,
    /// Sets permission bits.
    SetMode,
    /// Sets times.
    SetTimes,
    /// Tells where a link points.
    ReadLink,
    /// Makes a directory.
    MakeDir,
    /// Makes a symbolic link.
    MakeSymlink,
    /// Makes a file and opens it.
    Create,
    /// Gives a file one more name.
    Link,
    /// Takes away a name that is no directory's.
    RemoveFile,
    /// Removes a directory.
    RemoveDir,
    /// Renames, with whatever flags.
    Rename,
    /// Opens a file that is there.
    Open,
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Comes with each handle that is closed.
    Close,
    /// Makes a file durable.
    Sync,
    /// Makes names durable.
    SyncDir,
    /// Reads a directory.
    List,
    /// Looks for data or for a hole.
    Holes,
    /// Tells of the room that is left.
    Room,
}

impl Call {
    /// All of them, each at the place of its number.
    pub const ALL: [Call; 22] = [
        Call::Lookup,
        Call::Stat,
        Call::SetSize,
        Call::SetMode,
        Call::SetTimes,
        Call::ReadLink,
        Call::MakeDir,
        Call::MakeSymlink,
        Call::Create,
        Call::Link,
        Call::RemoveFile,
        Call::RemoveDir,
        Call::Rename,
        Call::Open,
        Call::Read,
        Call::Write,
        Call::Close,
        Call::Sync,
        Call::SyncDir,
        Call::List,
        Call::Holes,
        Call::Room,
    ];
}

/// The calls that are refused, and how many there were.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<RefusalState>);

#[derive(Debug, Default)]
struct RefusalState {
    calls: [u64; Call::ALL.len()],
    plan: Option<Plan>,
}

#[derive(Debug)]
struct Plan {
    call: Call,
    /// Calls that are answered before.
    answered: u64,
    /// Calls that are so then.
    refusals_left: u64,
    /// How they are answered, and after what time.
    answer: Result<(), Errno>,
    duration: Duration,
}

impl Refusals {
    fn state(&self) -> MutexGuard<'_, RefusalState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error with which `call` is refused, if it is; takes the time planned for it.
    pub(super) fn check(&self, call: Call) -> Result<(), Errno> {
        let mut state = self.state();
        state.calls[call as usize] += 1;
        let Some(plan) =
            state.plan.as_mut().filter(|plan| plan.call == call && plan.refusals_left > 0)
        else {
            return Ok(());
        };
        if plan.answered > 0 {
            plan.answered -= 1;
            return Ok(());
        }
        plan.refusals_left -= 1;
        let (answer, duration) = (plan.answer, plan.duration);
        drop(state);
        std::thread::sleep(duration);
        answer
    }

    pub(super) fn count(&self, call: Call) -> u64 {
        self.state().calls[call as usize]
    }

    pub(super) fn refuse(&self, call: Call, errno: Errno, answered: u64, refusals_left: u64) {
        let (answer, duration) = (Err(errno), Duration::ZERO);
        self.state().plan = Some(Plan { call, answered, refusals_left, answer, duration });
    }

    pub(super) fn delay(&self, call: Call, duration: Duration, answered: u64, refusals_left: u64) {
        self.state().plan = Some(Plan { call, answered, refusals_left, answer: Ok(()), duration });
    }

    pub(super) fn end(&self) {
        self.state().plan = None;
    }
}

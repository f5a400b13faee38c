//! The question at a terminal before most of a destination is removed. The user may have given the
//! wrong source or destination.

use crate::error::{CommandError, ErrorKind};
use crate::monitor::SideMonitor;
use crate::progress::Screen;
use crate::quantity;
use haul::{Hosts, Location, Machine};
use haul_engine::{Event, Monitor, Outcome, RoutedJob, Skip};
use haul_model::{Part, Task};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Minimum number of removals for a question.
const CONFIRM_MIN: u64 = 10;

/// Interval at which an interrupt is checked while the question waits.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// Counts the entries that the jobs of `routed_jobs` would remove. If that is more than half of the
/// destination, the user is asked. Without a terminal nothing is counted or asked.
///
/// # Errors
/// If the answer is no, the user interrupts, or the destination can't be read.
pub(super) fn confirm(
    dest: &Location,
    routed_jobs: &[RoutedJob<Machine>],
    monitor: &dyn Monitor,
    hosts: &Hosts,
    screen: &Screen,
) -> Result<(), CommandError> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(());
    }
    let (progress, removed, kept): (_, AtomicU64, AtomicU64) = Default::default();
    let is_kept = |outcome: &Outcome| *outcome == Outcome::Skipped(Skip::Unchanged);
    // Failures are ignored: the jobs that follow report them.
    let counter = SideMonitor::new(monitor, &progress, is_kept, |event| match event {
        Event::Deleted { .. } => drop(removed.fetch_add(1, Ordering::Relaxed)),
        // The destination itself always stays.
        Event::Entry { path, outcome, .. } if path != b"." && is_kept(outcome) => {
            kept.fetch_add(1, Ordering::Relaxed);
        }
        _ => {}
    });
    for routed_job in routed_jobs {
        let counted = hosts.run(&counting_leg(routed_job), &counter);
        counted.map_err(|error| match monitor.cancelled() {
            true => CommandError::interrupted(),
            false => CommandError::from_routed_job(error, routed_job),
        })?;
    }
    let (removed, kept) = (removed.into_inner(), kept.into_inner());
    if !needs_confirmation(removed, kept) {
        return Ok(());
    }
    screen.above(|| {
        let mut stderr = io::stderr().lock();
        let (removed, all) = (quantity::count(removed), quantity::count(removed + kept));
        let _ = write!(
            stderr,
            "haul: {removed} of {all} entries in {} would be removed; continue? [y/N] ",
            dest
        );
        let _ = stderr.flush();
    });
    match read_answer(monitor)?.trim() {
        "y" | "Y" | "yes" | "Yes" | "YES" => Ok(()),
        _ => Err(CommandError::new(ErrorKind::Refused, "cancelled: nothing was changed")
            .with_hint("use -n to show what would be removed, --max-delete=N to limit it, or --yes to skip the question")),
    }
}

/// True if the number of removals requires a question.
fn needs_confirmation(removed: u64, kept: u64) -> bool {
    removed >= CONFIRM_MIN && removed > kept
}

/// The job that counts what the job of `routed_job` would remove.
fn counting_leg(routed_job: &RoutedJob<Machine>) -> RoutedJob<Machine> {
    let mut counting = routed_job.clone();
    if let Task::Sync(policy, mirror) = &mut counting.job.task {
        (policy.dry_run, mirror.part) = (true, Part::Counts);
    }
    counting.job.dest.origin = None;
    counting
}

/// The line that the user enters. It has no line end if the input ends.
fn read_answer(monitor: &dyn Monitor) -> Result<String, CommandError> {
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        let mut line = String::new();
        // A read error leaves the line empty, which is no consent.
        let _ = io::stdin().read_line(&mut line);
        let _ = sender.send(line);
    };
    let spawned = thread::Builder::new().name("answer".to_owned()).spawn(read);
    spawned.map_err(haul_engine::JobError::Threads)?;
    loop {
        match receiver.recv_timeout(CANCEL_POLL) {
            Ok(line) => return Ok(line),
            Err(RecvTimeoutError::Disconnected) => return Ok(String::new()),
            Err(RecvTimeoutError::Timeout) if monitor.cancelled() => {
                let _ = io::stderr().write_all(b"\n");
                return Err(CommandError::interrupted());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_is_more_than_half_and_not_just_a_few() {
        let asked: Vec<_> = [(9, 0), (10, 0), (10, 9), (10, 10), (11, 10), (1000, 1001)]
            .into_iter()
            .map(|(removed, kept)| needs_confirmation(removed, kept))
            .collect();
        assert_eq!(asked, [false, true, true, false, true, false]);
    }
}

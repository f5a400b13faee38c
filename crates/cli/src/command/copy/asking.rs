//! The question at a terminal before most of a destination is removed. The user may have given the
//! wrong source or destination.

use crate::error::{CommandError, ErrorKind};
use crate::progress::Screen;
use crate::quantity;
use haul::{Hosts, Location, Machine};
use haul_engine::{Event, Job, Leg, Monitor, Outcome, Progress, Skip};
use haul_model::{Kind, Mirror, Part, Policy, Task};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Minimum number of removals for a question.
const ASKED_MIN: u64 = 10;

/// Interval at which an interrupt is checked while the question waits.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// Counts the entries that the jobs of `legs` would remove. If that is more than half of the
/// destination, the user is asked. Without a terminal nothing is counted or asked.
///
/// # Errors
/// If the answer is no, the user interrupts, or the destination can't be read.
pub(super) fn settle(
    dest: &Location,
    legs: &[Leg<Machine>],
    monitor: &dyn Monitor,
    hosts: &Hosts,
    screen: &Screen,
) -> Result<(), CommandError> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(());
    }
    let counting = Counting::of(monitor);
    for leg in legs {
        let counted = hosts.run(&counting_leg(leg), &counting);
        counted.map_err(|error| match monitor.cancelled() {
            true => CommandError::interrupted(),
            false => CommandError::of_leg(error, leg),
        })?;
    }
    let (gone, stays) = (counting.gone.into_inner(), counting.stays.into_inner());
    if !is_much(gone, stays) {
        return Ok(());
    }
    screen.above(|| {
        let mut stderr = io::stderr().lock();
        let (gone, all) = (quantity::count(gone), quantity::count(gone + stays));
        let _ = write!(
            stderr,
            "haul: {gone} of {all} entries in {} would be removed; continue? [y/N] ",
            dest
        );
        let _ = stderr.flush();
    });
    match answer(monitor)?.trim() {
        "y" | "Y" | "yes" | "Yes" | "YES" => Ok(()),
        _ => Err(CommandError::new(ErrorKind::Refused, "cancelled: nothing was changed")
            .with_hint("use -n to show what would be removed, --max-delete=N to limit it, or --yes to skip the question")),
    }
}

/// True if the number of removals requires a question.
fn is_much(gone: u64, stays: u64) -> bool {
    gone >= ASKED_MIN && gone > stays
}

/// The job that counts what the job of `leg` would remove.
fn counting_leg(leg: &Leg<Machine>) -> Leg<Machine> {
    let task = match leg.job.task {
        Task::Sync(policy, mirror) => {
            Task::Sync(Policy { dry_run: true, ..policy }, Mirror { part: Part::Counts, ..mirror })
        }
        other => other,
    };
    Leg { job: Job { task, origin: None, ..leg.job.clone() }, ..leg.clone() }
}

/// The line that the user enters. It has no line end if the input ends.
fn answer(monitor: &dyn Monitor) -> Result<String, CommandError> {
    let (tell, told) = mpsc::channel();
    let read = move || {
        let mut line = String::new();
        // A read error leaves the line empty, which is no consent.
        let _ = io::stdin().read_line(&mut line);
        let _ = tell.send(line);
    };
    let begun = thread::Builder::new().name("answer".to_owned()).spawn(read);
    begun.map_err(haul_engine::JobError::Threads)?;
    loop {
        match told.recv_timeout(CANCEL_POLL) {
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

/// The monitor of the jobs that count. It forwards connections and warnings. Failures are ignored:
/// the jobs that follow report them.
struct Counting<'m> {
    monitor: &'m dyn Monitor,
    progress: Progress,
    gone: AtomicU64,
    stays: AtomicU64,
}

impl<'m> Counting<'m> {
    fn of(monitor: &'m dyn Monitor) -> Self {
        let (gone, stays) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { monitor, progress: Progress::default(), gone, stays }
    }
}

impl Monitor for Counting<'_> {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn event(&self, event: Event<'_>) {
        match event {
            Event::Deleted { .. } => drop(self.gone.fetch_add(1, Ordering::Relaxed)),
            // The destination itself always stays.
            Event::Entry { path, outcome: Outcome::Skipped(Skip::Unchanged), .. }
                if path != b"." =>
            {
                self.stays.fetch_add(1, Ordering::Relaxed);
            }
            Event::Warning { .. } | Event::Link(_) => self.monitor.event(event),
            _ => {}
        }
    }

    fn shows(&self, _: &Kind, outcome: &Outcome) -> bool {
        matches!(outcome, Outcome::Skipped(Skip::Unchanged))
    }

    fn cancelled(&self) -> bool {
        self.monitor.cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_is_more_than_half_and_not_just_a_few() {
        let asked: Vec<_> = [(9, 0), (10, 0), (10, 9), (10, 10), (11, 10), (1000, 1001)]
            .into_iter()
            .map(|(gone, stays)| is_much(gone, stays))
            .collect();
        assert_eq!(asked, [false, true, true, false, true, false]);
    }
}

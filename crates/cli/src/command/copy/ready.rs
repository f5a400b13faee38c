//! The beginning of a command that copies or compares: its words are completed and planned,
//! and whatever can be known to be wrong is found, before anything is done.

use super::plan;
use crate::args::Copy;
use crate::command::expand;
use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::monitor::JobMonitor;
use crate::progress::{Screen, diagnostics};
use crate::report::Report;
use haul::Machine::{self, Here};
use haul::Peers;
use haul::{Hosts, Questions};
use haul_engine::{Leg, Monitor};
use haul_model::{Side, Task};

/// A command that copies or compares, and that can begin.
pub(in crate::command) struct Ready {
    /// Its words, complete and without patterns.
    pub(in crate::command) copy: Copy,
    /// The number of patterns of which nothing is copied, each of which was reported.
    pub(in crate::command) unmatched: u64,
    pub(in crate::command) legs: Vec<Leg<Machine>>,
    pub(in crate::command) interrupt: Interrupt,
    pub(in crate::command) hosts: Hosts,
    /// The hosts that were asked, whose connections stand.
    pub(in crate::command) peers: Peers,
}

/// Makes `copy` ready: has the command `refuse` what it can't do and `complete` its words,
/// replaces patterns, and finds out all that can be known to be wrong before anything is done.
///
/// # Errors
/// When a host can't be asked, the user interrupts, or the words are refused.
pub(in crate::command) fn prepare(
    copy: &Copy,
    task: Task,
    screen: &Screen,
    report: &dyn Report,
    refuse: impl Fn(&Copy) -> Result<(), CommandError>,
    complete: impl FnOnce(Copy, &mut Questions<'_>) -> Result<Copy, CommandError>,
) -> Result<Ready, CommandError> {
    // What the words alone can tell comes before any connection.
    refuse(copy)?;
    refuse_between_hosts(copy, task)?;
    let interrupt = Interrupt::listen()?;
    let diagnostics = diagnostics(screen);
    let hosts = Hosts::new(&diagnostics);
    let monitor = JobMonitor::new(report, task, interrupt.clone());
    // What a host lacks the copy tells.
    let peers = Peers::new(&diagnostics).quietly().before(task);
    let mut questions = Questions::new(&hosts, peers, &monitor);
    let asked = complete(copy.clone(), &mut questions)
        .and_then(|copy| expand::sources(&copy, &mut questions, report));
    let (copy, unmatched) = asked.map_err(|error| match monitor.cancelled() {
        // Ctrl-C ends ssh too, and what is seen of it first is a broken connection.
        true => monitor.interrupted(),
        false => error.of_task(&task),
    })?;
    let peers = questions.into_peers();
    refuse(&copy)?;
    let legs = plan(&copy, task)?;
    Ok(Ready { copy, unmatched, legs, interrupt, hosts, peers })
}

/// Refuses what this machine's side does, where neither side is here.
fn refuse_between_hosts(copy: &Copy, task: Task) -> Result<(), CommandError> {
    let is_between =
        copy.dest.machine != Here && copy.sources.iter().any(|source| source.machine != Here);
    let refused = match task {
        _ if !is_between => None,
        _ if copy.munges => Some("--munge-links is not possible"),
        _ if [Side::Source, Side::Destination].iter().any(|side| task.fakes(*side)) => {
            Some("--fake-super is not possible")
        }
        _ if task.lists() => Some("--list-only is not possible"),
        _ if task.moving().is_some() || task.removes().is_some() => {
            Some("removing sources is not possible")
        }
        _ => None,
    };
    refused.map_or(Ok(()), |what| {
        Err(CommandError::usage(format!("{what} from one host to another"))
            .with_hint("copy to this machine first, then to the other host"))
    })
}

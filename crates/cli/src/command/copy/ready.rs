//! The start of a command that copies or compares.

use crate::args::Copy;
use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::monitor::JobMonitor;
use crate::progress::{Screen, diagnostics};
use crate::report::Report;
use haul::{Hosts, Peers, Questions, Ready, Request};
use haul_engine::Monitor;
use haul_model::{Fault, Task};

/// A command that copies or compares, ready to run.
pub(in crate::command) struct Prepared {
    /// The request. Sources that were not found are already reported.
    pub(in crate::command) ready: Ready,
    pub(in crate::command) interrupt: Interrupt,
    pub(in crate::command) hosts: Hosts,
}

/// A check of a request that asks no host.
pub(in crate::command) type Refuse = dyn Fn(&Request) -> Result<(), haul::Error>;

/// Prepares the request of `copy`. The command can `refuse` and `complete` it; see
/// [`Request::prepare`].
///
/// # Errors
/// If a host can't be asked, the user interrupts, or the request is refused.
pub(in crate::command) fn prepare(
    copy: &Copy,
    task: Task,
    screen: &Screen,
    report: &Report,
    refuse: &Refuse,
    complete: impl FnOnce(&mut Request, &mut Questions<'_>) -> Result<(), CommandError>,
) -> Result<Prepared, CommandError> {
    let interrupt = Interrupt::listen()?;
    let diagnostics = diagnostics(screen);
    let hosts = Hosts::new(&diagnostics);
    let monitor = JobMonitor::new(report, task, interrupt.clone());
    // The copy itself reports hosts without haul.
    let peers = Peers::new(&diagnostics).quietly().before(task);
    let questions = Questions::new(&hosts, peers, &monitor);
    let not_found = &mut |host, path: &[u8], fault: &Fault| report.fault(host, path, fault);
    let ready = copy.request.prepare(task, questions, refuse, complete, not_found);
    let ready = ready.map_err(|error| match monitor.cancelled() {
        // Ctrl-C also interrupts ssh, so the first symptom is a broken connection.
        true => monitor.interrupted(),
        false => error.for_task(&task),
    })?;
    Ok(Prepared { ready, interrupt, hosts })
}

//! `haul move`: the words become a move of the engine, whose machines are reached here.

mod figures;

use self::figures::Figures;
use super::copy::{Ready, Started, missing, prepare, run_legs, shown};
use crate::args::Copy;
use crate::cache;
use crate::error::{CommandError, ExitCode};
use crate::monitor::JobMonitor;
use crate::progress::Screen;
use haul::Hosts;
use haul::Peers;
use haul::state;
use haul::{Location, Machine};
use haul_engine::{
    Leg, Machines, Monitor, MoveJob, NotCopied, RequestError, Requests, Summary, run_move,
};
use haul_model::{Fault, Task, words};
use std::time::Instant;

/// Moves, and says what came of it.
pub(super) fn run(copy: &Copy) -> ExitCode {
    let started = Instant::now();
    let task = Task::Copy(copy.policy);
    let screen = Screen::default();
    let report = &*copy.detail.report(&screen);
    report.tell(&Started { copy, dry_run: copy.policy.dry_run });
    let figures = |summary, code| Figures { summary, time: started.elapsed(), code };
    let Ready { copy, legs, unmatched, interrupt, hosts, peers } =
        match prepare(copy, task, &screen, report, refuse, |copy, _| Ok(copy)) {
            Ok(ready) => ready,
            Err(error) => {
                let none = figures(Summary::default(), error.kind.exit_code());
                return report.refused(&error, Some(&none));
            }
        };
    let copy = &copy;
    // Those of several places are told of one after the other.
    let (legs, missing) = match legs.len() {
        1 => missing::left_out(copy, task, legs, report),
        _ => (legs, 0),
    };
    if legs.is_empty() {
        let code = ExitCode::SomeFailed;
        let none = Summary { failed: unmatched + missing, ..Summary::default() };
        return report.conclude(code, &figures(none, code));
    }
    let job = MoveJob {
        sources: copy.sources.iter().map(Location::spot).collect(),
        dest: copy.dest.spot(),
        dest_shown: copy.dest.to_string(),
        policy: copy.policy,
        state: state::journals(),
        rate: copy.passage.rate,
        compression: copy.passage.compression,
        via: copy.passage.via,
        ports: copy.passage.ports,
        cache: cache::place(&copy.passage),
    };
    let monitor = JobMonitor::new(report, task, interrupt);
    let mut reached = Reached { hosts: &hosts, monitor: &monitor, peers: Some(peers) };
    let (mut summary, result) = shown(&monitor, || run_move(&job, &mut reached, &monitor));
    summary.failed += unmatched;
    let error = result.err();
    let kind = error.as_ref().map(|error| error.kind);
    let code = ExitCode::of(kind, summary.failed > 0 || report.has_failed());
    if let Some(error) = &error {
        report.command_error(error);
    }
    report.conclude(code, &figures(summary, code))
}

/// Refuses what can't be moved, before anything is.
fn refuse(copy: &Copy) -> Result<(), CommandError> {
    let mut sources = copy.sources.iter();
    if copy.dest.machine != Machine::Here
        && let Some(source) = sources.find(|source| source.machine != Machine::Here)
    {
        let message = format!("{source}: can't move from one host to another");
        return Err(CommandError::usage(message).with_hint("move it to this machine first"));
    }
    if let Some(source) = copy.sources.iter().find(|source| is_nameless(source)) {
        return Err(CommandError::usage(format!("{source}: not moved: it has no name of its own"))
            .with_hint("name its entries"));
    }
    Ok(())
}

/// True if a source has no name to move it under. On a host `~` is the home
/// directory.
fn is_nameless(source: &Location) -> bool {
    let is_home = source.machine != Machine::Here && words::split(&source.path).whole == b"~";
    source.final_name().is_none() || is_home
}

/// The machines of a move, as its words say that they are reached.
struct Reached<'m> {
    hosts: &'m Hosts,
    monitor: &'m JobMonitor<'m>,
    /// Those who are asked at the moment.
    peers: Option<Peers>,
}

impl Machines for Reached<'_> {
    type Host = Machine;
    type Error = CommandError;

    fn ask<T>(
        &mut self,
        host: Option<&Machine>,
        question: impl FnMut(&mut Requests) -> Result<T, RequestError>,
    ) -> Result<Result<T, Fault>, CommandError> {
        // The copy will tell of hosts without haul.
        let new = || Peers::new(self.hosts.diagnostics()).quietly();
        let (peers, machine) = (self.peers.get_or_insert_with(new), host.unwrap_or(&Machine::Here));
        let asked = self.hosts.ask(machine, peers, self.monitor, &|| 0, question);
        asked.map_err(CommandError::at(machine))
    }

    fn hang_up(&mut self) {
        self.peers = None;
    }

    fn copy(
        &mut self,
        legs: Vec<Leg<Machine>>,
        not_copied: &NotCopied,
    ) -> Result<Summary, CommandError> {
        let watch = not_copied.watch(self.monitor);
        let (summary, error) = run_legs(legs, self.monitor, &watch, self.hosts);
        match error {
            None => Ok(summary),
            // What it was is told.
            Some(kind) => Err(CommandError::new(kind, "not removing the sources")),
        }
    }

    fn remove(&mut self, leg: &Leg<Machine>, monitor: &dyn Monitor) -> Result<(), CommandError> {
        self.monitor.locate_by(leg);
        match self.hosts.run(leg, monitor) {
            Ok(_) => Ok(()),
            Err(_) if monitor.cancelled() => Err(CommandError::interrupted()),
            Err(error) => Err(CommandError::of_leg(error, leg)),
        }
    }
}

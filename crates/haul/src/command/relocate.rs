//! `haul move`: sources get their new names where they can; else they are
//! copied, compared with their copies by content, and removed.

use super::copy::{Step, plan, start, watch_steps};
use super::{end, finish};
use crate::args::{Copy, Detail};
use crate::error::{CommandError, ExitCode};
use crate::hosts::Hosts;
use crate::interrupt::Interrupt;
use crate::json::{self, Line, MoveSummaryLine};
use crate::location::{Location, Place};
use crate::monitor::{CopyMonitor, MoveMonitor, Show};
use crate::peer::{Peers, WithoutHaul};
use crate::progress::Screen;
use crate::quantity;
use crate::report::{Form, Report};
use haul_engine::{JobError, Outcome, RequestError, Requests};
use haul_model::{Check, Conflict, Fault, FaultKind, Kind, Remove, Side};
use std::time::{Duration, Instant};

/// Moves, and says what came of it.
pub(super) fn run(copy: &Copy) -> ExitCode {
    let started = Instant::now();
    let form = copy.detail.form();
    let screen = Screen::default();
    let mut report = Report::new(form, screen.clone());
    if form == Form::Json {
        report.json(&Line::Start(start(copy)));
    }
    let mut figures = Figures::default();
    let listening = Interrupt::listen();
    let ready = refuse(copy).and_then(|()| {
        plan(copy)?;
        listening
    });
    let interrupt = match ready {
        Ok(interrupt) => interrupt,
        Err(error) if form == Form::Plain => return end(report, &error),
        Err(error) => return conclude(report, copy, &figures, started, Some(error)),
    };
    let hosts = Hosts::new(copy.reach, &screen);
    let mut job =
        Move { copy, interrupt: &interrupt, hosts: &hosts, figures: &mut figures, copy_failed: 0 };
    let (report, error) = job.run(report);
    conclude(report, copy, &figures, started, error)
}

/// What came of it.
#[derive(Debug, Default, Clone, Copy)]
struct Figures {
    moved: u64,
    kept: u64,
    failed: u64,
}

/// Says how the command ended.
fn conclude(
    mut report: Report,
    copy: &Copy,
    figures: &Figures,
    started: Instant,
    error: Option<CommandError>,
) -> ExitCode {
    let code = match &error {
        Some(error) => error.kind.exit_code(),
        None if figures.failed > 0 || report.has_failed() => ExitCode::SomeFailed,
        None => ExitCode::Success,
    };
    if let Some(error) = &error {
        report.command_error(error);
    }
    let Figures { moved, kept, failed } = *figures;
    match copy.detail {
        Detail::Quiet => {}
        Detail::Json => {
            let (seconds, exit_code) = (json::seconds(started.elapsed()), code.number());
            let line = MoveSummaryLine { moved, kept, failed, seconds, exit_code };
            report.json(&Line::MoveSummary(line));
        }
        Detail::Normal | Detail::Verbose => {
            report.print(figures.line(started.elapsed()).as_bytes());
        }
    }
    finish(report, code)
}

impl Figures {
    /// The line at the end.
    fn line(&self, time: Duration) -> String {
        let done = match self.moved {
            0 => "moved nothing".to_owned(),
            moved => format!("moved {}", quantity::count(moved)),
        };
        let mut line = format!("{done} in {}", quantity::duration(time));
        for (n, word) in [(self.kept, "kept"), (self.failed, "failed")] {
            if n > 0 {
                line.push_str(&format!("; {word} {}", quantity::count(n)));
            }
        }
        line.push('\n');
        line
    }
}

/// Refuses what can't be moved, before anything is.
fn refuse(copy: &Copy) -> Result<(), CommandError> {
    if let Some(source) = copy.sources.iter().find(|source| source.place != Place::Here) {
        return Err(CommandError::usage(format!("{source}: moving from a host is not there yet"))
            .with_hint("run \"haul move\" on the host, or copy, check and remove"));
    }
    if let Some(source) = copy.sources.iter().find(|source| source.final_name().is_none()) {
        return Err(CommandError::usage(format!("{source}: it has no name of its own, and stays"))
            .with_hint("name what is in it"));
    }
    Ok(())
}

/// A move under way.
struct Move<'m> {
    copy: &'m Copy,
    interrupt: &'m Interrupt,
    hosts: &'m Hosts,
    figures: &'m mut Figures,
    /// Entries that could not be copied, and were told.
    copy_failed: u64,
}

impl Move<'_> {
    fn run(&mut self, mut report: Report) -> (Report, Option<CommandError>) {
        let copy = self.copy;
        let several = copy.sources.len() > 1;
        let (left, into) = match copy.dest.place {
            Place::Here => match self.rename(&mut report) {
                Ok(renamed) => renamed,
                Err(error) => return (report, Some(error.into())),
            },
            Place::There(_) | Place::Sftp(_) => match self.is_directory(&mut report) {
                Ok(is_directory) => (self.find(&mut report), several || is_directory),
                Err(error) => return (report, Some(error)),
            },
        };
        if left.is_empty() {
            return (report, None);
        }
        let mut dest = copy.dest.clone();
        if into && !dest.path.ends_with(b"/") {
            dest.path.push(b'/');
        }
        let copy = Copy { sources: left, dest, ..copy.clone() };
        let (report, error) = self.copy(&copy, report);
        match error {
            Some(error) => (report, error),
            None => self.remove(&copy, into, report),
        }
    }

    /// Gives sources their new names; gives those that have to be copied, and
    /// whether they go into the destination.
    fn rename(&mut self, report: &mut Report) -> Result<(Vec<Location>, bool), JobError> {
        let copy = self.copy;
        let paths: Vec<_> = copy.sources.iter().map(|source| source.path.clone()).collect();
        let several = copy.sources.len() > 1;
        let conflict = copy.policy.conflict;
        let renamed = haul_engine::relocate(&paths, &copy.dest.path, several, conflict)?;
        let mut left = Vec::new();
        for (source, outcome) in copy.sources.iter().zip(renamed.outcomes) {
            match outcome {
                None => left.push(source.clone()),
                Some(Outcome::Failed(fault)) => {
                    self.figures.failed += 1;
                    report.fault(&source.path, &fault);
                }
                Some(Outcome::Skipped(_)) => self.figures.kept += 1,
                Some(_) => {
                    self.figures.moved += 1;
                    MoveMonitor::tell_moved(report, copy.detail, &source.path, true);
                }
            }
        }
        Ok((left, renamed.into))
    }

    /// The sources but for those that can't be moved, which are told.
    fn find(&mut self, report: &mut Report) -> Vec<Location> {
        let mut found = self.copy.sources.clone();
        found.retain(|source| match haul_engine::find_source(&source.path) {
            Ok(()) => true,
            Err(fault) => {
                self.figures.failed += 1;
                report.fault(&source.path, &fault);
                false
            }
        });
        found
    }

    /// Whether the destination on a host is a directory, or shall be one.
    fn is_directory(&self, report: &mut Report) -> Result<bool, CommandError> {
        let dest = &self.copy.dest;
        if dest.path.ends_with(b"/") {
            return Ok(true);
        }
        let without_haul = match self.copy.reach.without_haul {
            WithoutHaul::Fail => WithoutHaul::Fail,
            // The copy will tell.
            WithoutHaul::GoOn | WithoutHaul::GoOnQuietly => WithoutHaul::GoOnQuietly,
        };
        let mut peers = Peers::new(self.hosts.screen().clone(), without_haul);
        match peers.at(&dest.place, report)?.stat(&dest.path, true) {
            Ok(entry) => Ok(entry.kind == Kind::Dir),
            Err(RequestError::Fault(Fault { kind: FaultKind::NotFound, .. })) => Ok(false),
            Err(RequestError::Fault(fault)) => {
                let fault = Fault { side: Side::Destination, ..fault };
                Err(JobError::Destination { path: dest.to_string(), fault }.into())
            }
            Err(RequestError::Job(error)) => Err(error.into()),
        }
    }

    /// Copies and makes durable. The inner error is one that was told already.
    fn copy(&mut self, copy: &Copy, report: Report) -> (Report, Option<Option<CommandError>>) {
        let steps = match plan(copy) {
            Ok(steps) => steps,
            Err(error) => return (report, Some(Some(error))),
        };
        let shows = copy.detail != Detail::Quiet;
        let progress = copy.detail == Detail::Json || (shows && Screen::is_terminal());
        let show = Show { warnings: shows, progress, ..Show::default() };
        let monitor =
            CopyMonitor::new(show, self.interrupt.clone(), report, self.hosts.screen().clone());
        let (summary, error) = watch_steps(steps, &monitor, self.interrupt, self.hosts);
        self.copy_failed = summary.failed;
        let report = monitor.into_report();
        match error {
            None => (report, None),
            Some(kind) => {
                (report, Some(Some(CommandError::new(kind, "the sources stay where they are"))))
            }
        }
    }

    /// Removes what the destination has.
    fn remove(
        &mut self,
        copy: &Copy,
        into: bool,
        report: Report,
    ) -> (Report, Option<CommandError>) {
        // With --no-clobber and --update what stands there may be another's.
        let rule = match copy.policy.conflict {
            Conflict::ReplaceChanged | Conflict::ReplaceAll => Remove::SameContent,
            Conflict::Keep | Conflict::ReplaceOlder => Remove::Same,
        };
        let kind = |source: &Location| {
            Requests::local().stat(&source.path, false).map(|entry| entry.kind).ok()
        };
        let mut compared = copy.clone();
        if !into && compared.sources.iter().any(|source| kind(source) == Some(Kind::Dir)) {
            // The directory has become the destination: what is in it is compared
            // with what is in that.
            compared.sources[0].path.extend_from_slice(b"/.");
            compared.dest.path.push(b'/');
        }
        let mut steps = match plan(&compared) {
            Ok(steps) => steps,
            Err(error) => return (report, Some(error)),
        };
        let keeps = rule == Remove::Same;
        let monitor = MoveMonitor::new(
            report,
            copy.detail,
            self.interrupt.clone(),
            self.copy_failed > 0,
            keeps,
        );
        for step in &mut steps {
            step.job.check = Some(Check { content: true, remove: Some(rule) });
            if let Err(error) = self.run_step(step, &monitor) {
                let (report, removed) = monitor.end();
                self.figures.moved += removed.moved;
                return (report, Some(error));
            }
        }
        let (mut report, removed) = monitor.end();
        self.figures.moved += removed.moved;
        self.figures.kept += removed.kept;
        // What failed to be copied differs for that, and counts once.
        self.figures.failed += self.copy_failed.max(removed.failed);
        if removed.keeps_dirs {
            return (report, None);
        }
        let all_gone = self.figures.failed == 0 && self.figures.kept == 0;
        for source in &copy.sources {
            let gone = match haul_engine::remove_empty(&source.path) {
                Ok(false) if all_gone => {
                    let message = "something is in it that was not moved; it stays";
                    Err(Fault::new(Side::Source, FaultKind::Changed, message))
                }
                Ok(_) => Ok(()),
                Err(fault) => Err(fault),
            };
            if let Err(fault) = gone {
                self.figures.failed += 1;
                report.not_removed(&source.path, &fault);
            }
        }
        (report, None)
    }

    fn run_step(&self, step: &Step<'_>, monitor: &MoveMonitor) -> Result<(), CommandError> {
        match self.hosts.run(&step.job, step.route, monitor) {
            Ok(_) => Ok(()),
            Err(_) if self.interrupt.happened() => Err(CommandError::interrupted()),
            Err(error) => Err(error),
        }
    }
}

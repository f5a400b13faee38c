//! `haul move`: sources get their new names where they can; else they are
//! copied, compared with their copies by content, and removed.

mod figures;

use self::figures::conclude;
use super::copy::{Step, origin, plan, start, watch_steps};
use super::end;
use crate::args::{Copy, Detail};
use crate::error::{CommandError, ExitCode};
use crate::hosts::Hosts;
use crate::interrupt::Interrupt;
use crate::json::Line;
use crate::location::{Location, Place};
use crate::monitor::{CopyMonitor, MoveMonitor, Show};
use crate::peer::{Peers, WithoutHaul};
use crate::progress::Screen;
use crate::report::{Form, Report};
use crate::state;
use haul_engine::{JobError, Near, Outcome, RequestError, Requests, Summary};
use haul_model::{Conflict, Entry, Fault, FaultKind, Kind, Moving, Remove, Side, Task};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::time::Instant;

/// Moves, and says what came of it.
pub(super) fn run(copy: &Copy) -> ExitCode {
    let started = Instant::now();
    let form = copy.detail.form();
    let screen = Screen::default();
    let mut report = Report::new(form, screen.clone());
    if form == Form::Json {
        report.json(&Line::Start(start(copy)));
    }
    let mut figures = Summary::default();
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
    let mut job = Move {
        copy,
        interrupt: &interrupt,
        hosts: &hosts,
        figures: &mut figures,
        copy_failed: 0,
        dirs: Vec::new(),
    };
    let (report, error) = job.run(report);
    conclude(report, copy, &figures, started, error)
}

/// Refuses what can't be moved, before anything is.
fn refuse(copy: &Copy) -> Result<(), CommandError> {
    let mut sources = copy.sources.iter();
    if copy.dest.place != Place::Here
        && let Some(source) = sources.find(|source| source.place != Place::Here)
    {
        let message = format!("{source}: moving from one host to another is not there yet");
        return Err(CommandError::usage(message).with_hint("move it to here first"));
    }
    if let Some(source) = copy.sources.iter().find(|source| is_nameless(source)) {
        return Err(CommandError::usage(format!("{source}: it has no name of its own, and stays"))
            .with_hint("name what is in it"));
    }
    Ok(())
}

/// Whether a source has no name to move it under. On a host `~` is the home
/// directory.
fn is_nameless(source: &Location) -> bool {
    let is_home = || source.place != Place::Here && without_slash(&source.path) == b"~";
    source.final_name().is_none() || is_home()
}

/// `path` without the slashes at its end.
fn without_slash(path: &[u8]) -> &[u8] {
    let len = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    &path[..len]
}

/// Whether `now` is still the directory `before`. Hosts without haul have no
/// numbers of directories.
fn is_same_dir(before: &Entry, now: &Entry) -> bool {
    now.kind == Kind::Dir && (now.id, now.inode) == (before.id, before.inode)
}

/// A move under way.
struct Move<'m> {
    copy: &'m Copy,
    interrupt: &'m Interrupt,
    hosts: &'m Hosts,
    figures: &'m mut Summary,
    /// Entries that could not be copied, and were told.
    copy_failed: u64,
    /// The sources to be copied that are directories, as they were before.
    dirs: Vec<FoundDir>,
}

/// A source that is a directory, as it was found.
struct FoundDir {
    source: Location,
    entry: Entry,
    /// The directory, if it is here. As long as it is open its number stays its
    /// own: some file systems forget that of what nobody uses, others give it away.
    _held: Option<File>,
}

impl Move<'_> {
    fn run(&mut self, mut report: Report) -> (Report, Option<CommandError>) {
        let copy = self.copy;
        let several = copy.sources.len() > 1;
        let (left, into) = match copy.dest.place {
            Place::Here => {
                let found = self.find(&mut report);
                match found.and_then(|found| Ok(self.rename(&mut report, found)?)) {
                    Ok(renamed) => renamed,
                    Err(error) => return (report, Some(error)),
                }
            }
            Place::There(_) | Place::Sftp(_) => match self.is_directory(&mut report) {
                Ok(is_directory) => (self.find_here(&mut report), several || is_directory),
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
        self.look_at_dirs(&left);
        let mut copy = Copy { sources: left, dest, ..copy.clone() };
        // Before a copy replaces what it is the copy of.
        if let Err(error) = self.refuse_itself(&copy, into, true, &mut self.peers(), &mut report) {
            return (report, Some(error));
        }
        let (mut report, error) = self.copy(&copy, report);
        if let Some(error) = error {
            return (report, error);
        }
        let mut peers = self.peers();
        let refused = self
            .refuse_itself(&copy, into, false, &mut peers, &mut report)
            .and_then(|()| self.leave_exchanged(&mut copy, &mut peers, &mut report));
        drop(peers);
        match refused {
            Err(error) => (report, Some(error)),
            Ok(()) if copy.sources.is_empty() => {
                self.figures.failed += self.copy_failed;
                (report, None)
            }
            Ok(()) => self.remove(&copy, into, report),
        }
    }

    /// Keeps in mind which of `sources` are directories here, and which ones. Those
    /// on hosts are known.
    fn look_at_dirs(&mut self, sources: &[Location]) {
        for source in sources.iter().filter(|source| source.place == Place::Here) {
            let path = without_slash(&source.path);
            // What is wrong with one the copy tells.
            if let Ok(entry) = Requests::local().stat(path, false)
                && entry.kind == Kind::Dir
            {
                // With the dot nothing but a directory is opened.
                let held = File::open(OsString::from_vec([path, b"/."].concat())).ok();
                self.dirs.push(FoundDir { source: source.clone(), entry, _held: held });
            }
        }
    }

    /// Leaves out the directories that are not those that were copied any more, and
    /// tells of them. Through SFTP one can't be told from another.
    fn leave_exchanged(
        &mut self,
        copy: &mut Copy,
        peers: &mut Peers,
        report: &mut Report,
    ) -> Result<(), CommandError> {
        for FoundDir { source, entry: before, .. } in &self.dirs {
            let path = without_slash(&source.path);
            match peers.at(&source.place, report)?.stat(path, false) {
                Ok(now) if is_same_dir(before, &now) => {}
                Ok(_) => {
                    let message = "another has taken its place since it was copied, and stays";
                    let fault = Fault::new(Side::Source, FaultKind::Changed, message);
                    report.not_removed(path, &fault);
                    self.figures.failed += 1;
                    copy.sources.retain(|one| one != source);
                }
                // The comparison will tell.
                Err(RequestError::Fault(_)) => {}
                Err(RequestError::Job(error)) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Gives those of `sources` that are here their new names; gives those that
    /// have to be copied, and whether they go into the destination.
    fn rename(
        &mut self,
        report: &mut Report,
        sources: Vec<Location>,
    ) -> Result<(Vec<Location>, bool), JobError> {
        let copy = self.copy;
        let is_here = |source: &&Location| source.place == Place::Here;
        let paths: Vec<_> = sources.iter().filter(is_here).map(|s| s.path.clone()).collect();
        let several = copy.sources.len() > 1;
        let renamed = haul_engine::relocate(
            &paths,
            &copy.dest.path,
            several,
            copy.policy.conflict,
            origin(copy),
            state::journals(),
        )?;
        let mut left = Vec::new();
        let mut outcomes = renamed.outcomes.into_iter();
        for source in sources {
            let outcome = match source.place {
                Place::Here => outcomes.next().flatten(),
                Place::There(_) | Place::Sftp(_) => None,
            };
            match outcome {
                None => left.push(source),
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

    /// The sources but for those on hosts that can't be moved, which are told.
    fn find(&mut self, report: &mut Report) -> Result<Vec<Location>, CommandError> {
        let mut peers = self.peers();
        let mut found = Vec::new();
        for source in &self.copy.sources {
            if source.place == Place::Here {
                found.push(source.clone());
                continue;
            }
            let requests = peers.at(&source.place, report)?;
            let path = match without_slash(&source.path) {
                b"" => b"/",
                path => path,
            };
            let looked = match requests.stat(path, false) {
                Err(RequestError::Fault(fault)) if fault.kind == FaultKind::NotFound => {
                    match requests.restore(path) {
                        Ok(true) => requests.stat(path, false),
                        Err(RequestError::Job(error)) => return Err(error.into()),
                        Ok(false) | Err(RequestError::Fault(_)) => Err(fault.into()),
                    }
                }
                looked => looked,
            };
            let fault = match looked {
                Ok(entry) if entry.kind != Kind::Dir && source.path.ends_with(b"/") => {
                    let message = "it is no directory; without the slash it is moved itself";
                    Fault::new(Side::Source, FaultKind::NotDirectory, message)
                }
                Ok(entry) => {
                    if entry.kind == Kind::Dir {
                        self.dirs.push(FoundDir { source: source.clone(), entry, _held: None });
                    }
                    found.push(source.clone());
                    continue;
                }
                Err(RequestError::Fault(fault)) => fault,
                Err(RequestError::Job(error)) => return Err(error.into()),
            };
            self.figures.failed += 1;
            report.fault(&source.path, &fault);
        }
        Ok(found)
    }

    /// The sources but for those that can't be moved, which are told. All are here.
    fn find_here(&mut self, report: &mut Report) -> Vec<Location> {
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

    /// Those who are asked before anything is copied.
    fn peers(&self) -> Peers {
        let without_haul = match self.copy.reach.without_haul {
            WithoutHaul::Fail => WithoutHaul::Fail,
            // The copy will tell.
            WithoutHaul::GoOn | WithoutHaul::GoOnQuietly => WithoutHaul::GoOnQuietly,
        };
        Peers::new(self.hosts.screen().clone(), without_haul)
    }

    /// Whether the destination on a host is a directory, or shall be one.
    fn is_directory(&self, report: &mut Report) -> Result<bool, CommandError> {
        let dest = &self.copy.dest;
        if dest.path.ends_with(b"/") {
            return Ok(true);
        }
        let mut peers = self.peers();
        let (requests, state) = (peers.at(&dest.place, report)?, state::journals());
        let found = requests.stat(&dest.path, true).and_then(|entry| {
            let is_dir = entry.kind == Kind::Dir;
            // The directory that an earlier run has made is the new name.
            let is_name = match origin(self.copy) {
                Some(origin) if is_dir => {
                    requests.is_of_origin(&dest.path, origin, state.as_deref())?
                }
                _ => false,
            };
            Ok(is_dir && !is_name)
        });
        match found {
            Ok(is_directory) => Ok(is_directory),
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

    /// Refuses to move sources onto themselves, by way of a mount: those that stay
    /// on this machine, or the others.
    fn refuse_itself(
        &self,
        copy: &Copy,
        into: bool,
        within: bool,
        peers: &mut Peers,
        report: &mut Report,
    ) -> Result<(), CommandError> {
        let mut tried = BTreeSet::new();
        for source in &copy.sources {
            let (near, far) = match (&source.place, &copy.dest.place) {
                (Place::Here, far) => (Near::Source, far),
                (far, _) => (Near::Destination, far),
            };
            if within != (*far == Place::Here) {
                continue;
            }
            let (path, dest) = (&source.path, &copy.dest.path);
            let requests = peers.at(far, report)?;
            match haul_engine::is_onto_itself(path, dest, into, near, requests, &mut tried) {
                Ok(false) => {}
                Ok(true) => {
                    let message = "source and destination are the same";
                    let fault = Fault::new(Side::Destination, FaultKind::SameFile, message);
                    let path = copy.dest.to_string();
                    return Err(JobError::Destination { path, fault }.into());
                }
                Err(RequestError::Fault(fault)) => {
                    return Err(JobError::Destination { path: copy.dest.to_string(), fault }.into());
                }
                Err(RequestError::Job(error)) => return Err(error.into()),
            }
        }
        Ok(())
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
        let is_dir = |source: &Location| self.dirs.iter().any(|dir| dir.source == *source);
        let mut compared = copy.clone();
        if !into && compared.sources.iter().any(is_dir) {
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
            let moving = copy.policy.moving.unwrap_or(Moving::Whole);
            step.job.task = Task::Remove { rule, moving };
            step.job.origin = origin(copy);
            if let Err(error) = self.run_step(step, &monitor) {
                let (mut report, removed) = monitor.end();
                self.figures.moved += removed.moved;
                self.tell_left(&mut report, &removed.left_dirs, false);
                return (report, Some(error));
            }
        }
        let (mut report, removed) = monitor.end();
        self.figures.moved += removed.moved;
        self.figures.kept += removed.kept;
        // What failed to be copied differs for that, and counts once.
        self.figures.failed += self.copy_failed.max(removed.failed);
        let all_gone = self.figures.failed == 0 && self.figures.kept == 0;
        self.tell_left(&mut report, &removed.left_dirs, all_gone);
        (report, None)
    }

    /// Tells of sources that are directories and stay: of those that something is
    /// in only if all that was to go is gone.
    fn tell_left(&mut self, report: &mut Report, left: &[(Vec<u8>, Fault)], all_gone: bool) {
        for (path, fault) in left {
            if all_gone || fault.kind != FaultKind::Changed {
                self.figures.failed += 1;
                report.not_removed(path, fault);
            }
        }
    }

    fn run_step(&self, step: &Step<'_>, monitor: &MoveMonitor) -> Result<(), CommandError> {
        match self.hosts.run(&step.job, step.route, monitor) {
            Ok(_) => Ok(()),
            Err(_) if self.interrupt.happened() => Err(CommandError::interrupted()),
            Err(error) => Err(error),
        }
    }
}

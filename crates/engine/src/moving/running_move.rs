//! The steps of a move.

use super::{Event, FaultLocation, Machines, MoveJob, NotCopied};
use super::{Removed, Removing};
use crate::onto_itself::{LocalEnd, is_onto_itself};
use crate::origin::{forget_origin, has_origin};
use crate::relocate::{Relocated, find_source, relocate};
use crate::routed_jobs::origin_of;
use crate::{HostPath, Job, JobError, Monitor, RequestError, Requests, routed_jobs};
use haul_model::{
    Conflict, Entry, Fault, FaultKind, Kind, Moving, Naming, Outcome, Remove, Side, Summary, Task,
    words,
};
use haul_proto::{NamedDest, NamedSources};
use haul_tree::{LocalTree, Tree};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;

/// Runs a move. The figures (`moved`, `kept` and `failed`) also count if the move ends early.
///
/// # Errors
/// When the move as a whole fails. Sources that were not removed yet are unchanged, and the same
/// move may be run again.
pub fn run_move<M: Machines>(
    job: &MoveJob<M::Host>,
    machines: &mut M,
    monitor: &dyn Monitor,
) -> (Summary, Result<(), M::Error>) {
    let figures = Summary::default();
    let (dirs, not_copied) = (Vec::new(), NotCopied::default());
    let origin = origin_of(&job.sources, &job.dest.path, true);
    let mut running_move =
        RunningMove { job, machines, monitor, figures, not_copied, dirs, origin };
    let result = running_move.run();
    running_move.machines.hang_up();
    (running_move.figures, result)
}

/// A move in progress.
struct RunningMove<'m, M: Machines> {
    job: &'m MoveJob<M::Host>,
    machines: &'m mut M,
    monitor: &'m dyn Monitor,
    figures: Summary,
    /// Entries that could not be copied. They were reported.
    not_copied: NotCopied,
    /// The source directories to be copied, as they were before.
    dirs: Vec<FoundDir<M::Host>>,
    /// The number that identifies the destination; that of a copy, if a copy has created it.
    origin: Option<[u8; 16]>,
}

/// A source directory, as it was found.
struct FoundDir<H> {
    source: HostPath<H>,
    entry: Entry,
    /// The directory, if it is on this machine. While it is open it keeps its number: some file
    /// systems forget or reuse the numbers of unused directories.
    _held: Option<File>,
}

/// The sources that could not be renamed.
struct NotRenamed<H> {
    sources: Vec<HostPath<H>>,
    dest: HostPath<H>,
    /// They keep their names, in the destination.
    into: bool,
}

impl<M: Machines> RunningMove<'_, M> {
    fn run(&mut self) -> Result<(), M::Error> {
        let job = self.job;
        let (sources, into) = match &job.dest.host {
            None => {
                let found = self.find()?;
                // Nothing is created at the destination if no source exists.
                if found.is_empty() {
                    return Ok(());
                }
                let renamed = self.rename(&found)?;
                (self.report_renamed(found, renamed.outcomes, renamed.into), renamed.into)
            }
            Some(_) => {
                let is_directory = self.is_directory()?;
                if job.sources.len() > 1 && !is_directory {
                    return Err(JobError::needs_directory(&job.dest.path).into());
                }
                (self.find_local(), is_directory)
            }
        };
        self.machines.hang_up();
        if sources.is_empty() {
            return Ok(());
        }
        let mut dest = job.dest.clone();
        if into && !dest.path.ends_with(b"/") {
            dest.path.push(b'/');
        }
        let mut rest = NotRenamed { sources, dest, into };
        self.inspect_dirs(&rest.sources);
        // Before the copy, which might replace a source by its own copy.
        self.refuse_itself(&rest, true)?;
        let mut copies = routed_jobs(&rest.sources, &rest.dest, &self.like(Task::Copy(job.policy)));
        copies.iter_mut().for_each(|copy| copy.job.dest.origin = self.origin);
        let copied = self.machines.copy(copies, &self.not_copied)?;
        self.figures.failed += copied.failed;
        self.not_copied.warn_if_coarse(self.monitor);
        // A source that the copy refused was reported, and stays.
        rest.sources.retain(|source| !self.not_copied.has_source(&source.path));
        self.refuse_itself(&rest, false)?;
        self.drop_replaced(&mut rest.sources)?;
        self.machines.hang_up();
        if rest.sources.is_empty() {
            return Ok(());
        }
        self.remove(&rest)
    }

    /// A job with the settings that all jobs of the move share.
    fn like(&self, task: Task) -> Job {
        let sources = NamedSources { recursive: true, ..NamedSources::default() };
        Job { sources, task, ..self.job.like.clone() }
    }

    /// Reports that a source stays because of `fault` in the source.
    fn report_failed(&mut self, source: &HostPath<M::Host>, fault: &Fault) {
        self.figures.failed += 1;
        let (path, host) = (&*source.path, host_of(source));
        let at = FaultLocation::Named { host: host.as_deref(), path };
        self.monitor.event(Event::Stays { path, at, fault, is_copied: false });
    }

    /// Reports that a source can't be removed because of `fault`.
    fn report_not_removed(&mut self, path: &[u8], at: FaultLocation<'_>, fault: &Fault) {
        self.figures.failed += 1;
        self.monitor.event(Event::Stays { path, at, fault, is_copied: true });
    }

    /// Reports that a local source can't be renamed because of `fault`.
    fn report_not_renamed(&mut self, source: &HostPath<M::Host>, into: bool, fault: &Fault) {
        let dest = &self.job.dest.path;
        let there = match words::split(&source.path).name {
            Some(name) if into => words::join(dest, name),
            _ => words::split(dest).whole.to_vec(),
        };
        let path = &*source.path;
        let at = match fault.side {
            Side::Source => path,
            Side::Destination => &there,
        };
        self.figures.failed += 1;
        let at = FaultLocation::Named { host: None, path: at };
        self.monitor.event(Event::Stays { path, at, fault, is_copied: false });
    }

    /// The error for a destination that can't be used.
    fn unusable(&self, fault: Fault) -> M::Error {
        JobError::Destination { path: self.job.dest_shown.clone(), fault }.into()
    }

    /// Records which of `sources` are directories on this machine. Those on hosts are already
    /// known.
    fn inspect_dirs(&mut self, sources: &[HostPath<M::Host>]) {
        for source in sources.iter().filter(|source| source.host.is_none()) {
            let path = words::split(&source.path).whole;
            // The copy reports its fault.
            if let Ok(entry) = Requests::local().stat(path, false)
                && entry.kind == Kind::Dir
            {
                // The dot restricts this to directories.
                let held = File::open(OsString::from_vec([path, b"/."].concat())).ok();
                self.dirs.push(FoundDir { source: source.clone(), entry, _held: held });
            }
        }
    }

    /// Drops and reports directories that were replaced since the copy. Through SFTP this can't be
    /// detected.
    fn drop_replaced(&mut self, sources: &mut Vec<HostPath<M::Host>>) -> Result<(), M::Error> {
        let dirs = std::mem::take(&mut self.dirs);
        for FoundDir { source, entry: before, .. } in &dirs {
            let path = words::split(&source.path).whole;
            match self.machines.ask(source.host.as_ref(), |asked| asked.stat(path, false))? {
                Ok(now) if is_same_dir(before, &now) => {}
                Ok(_) => {
                    let message = "not removed: it was replaced after it was copied";
                    let fault = Fault::new(Side::Source, FaultKind::Changed, message);
                    let host = host_of(source);
                    self.report_not_removed(
                        path,
                        FaultLocation::Named { host: host.as_deref(), path },
                        &fault,
                    );
                    sources.retain(|one| one != source);
                }
                // The comparison will report it.
                Err(_) => {}
            }
        }
        self.dirs = dirs;
        Ok(())
    }

    /// Renames those of `sources` that are on this machine.
    fn rename(&mut self, sources: &[HostPath<M::Host>]) -> Result<Relocated, JobError> {
        let job = self.job;
        let copied = origin_of(&job.sources, &job.dest.path, false);
        if let (Some(origin), Ok(dir)) = (copied, LocalTree::PLAIN.open(&job.dest.path))
            && has_origin(job.like.state.as_deref(), &*dir, &origin)
        {
            self.origin = copied;
        }
        let is_local = |source: &&HostPath<M::Host>| source.host.is_none();
        let paths: Vec<_> = sources.iter().filter(is_local).map(|s| s.path.clone()).collect();
        let dest = NamedDest {
            into_dir: job.sources.len() > 1,
            origin: self.origin,
            ..NamedDest::at(job.dest.path.clone())
        };
        let destination = Job { dest, state: job.like.state.clone(), ..Job::default() };
        relocate(&paths, &destination, job.policy.conflict)
    }

    /// Reports the `outcomes` of renaming the local `sources`, `into` the destination or to its
    /// name. Returns the sources that must be copied.
    fn report_renamed(
        &mut self,
        mut sources: Vec<HostPath<M::Host>>,
        outcomes: Vec<Option<Outcome>>,
        into: bool,
    ) -> Vec<HostPath<M::Host>> {
        let mut outcomes = outcomes.into_iter();
        sources.retain(|source| {
            let outcome = if source.host.is_none() { outcomes.next().flatten() } else { None };
            match outcome {
                None => return true,
                Some(Outcome::Failed(fault)) => self.report_not_renamed(source, into, &fault),
                Some(Outcome::Skipped(_)) => self.figures.kept += 1,
                Some(_) => {
                    self.figures.moved += 1;
                    self.monitor.event(Event::Moved { path: &source.path, renamed: true });
                }
            }
            false
        });
        sources
    }

    /// The sources, without those on hosts that can't be moved, which are reported.
    fn find(&mut self) -> Result<Vec<HostPath<M::Host>>, M::Error> {
        let mut found = Vec::new();
        for source in &self.job.sources {
            if source.host.is_none() {
                found.push(source.clone());
                continue;
            }
            let path = words::split(&source.path).whole;
            let looked =
                self.machines.ask(source.host.as_ref(), |asked| stat_restored(asked, path));
            let fault = match looked? {
                Ok(entry) if entry.kind != Kind::Dir && source.path.ends_with(b"/") => {
                    let message = "it is not a directory; leave out the slash to move it";
                    Fault::new(Side::Source, FaultKind::NotDirectory, message)
                }
                Ok(entry) => {
                    if entry.kind == Kind::Dir {
                        self.dirs.push(FoundDir { source: source.clone(), entry, _held: None });
                    }
                    found.push(source.clone());
                    continue;
                }
                Err(fault) => fault,
            };
            self.report_failed(source, &fault);
        }
        // No connection stays idle while sources are renamed.
        self.machines.hang_up();
        Ok(found)
    }

    /// The sources, without those that can't be moved, which are reported. All are on this machine.
    fn find_local(&mut self) -> Vec<HostPath<M::Host>> {
        let mut found = self.job.sources.clone();
        found.retain(|source| match find_source(&source.path) {
            Ok(()) => true,
            Err(fault) => {
                self.report_failed(source, &fault);
                false
            }
        });
        found
    }

    /// True if the destination on a host is a directory, or must become one.
    fn is_directory(&mut self) -> Result<bool, M::Error> {
        let MoveJob { sources, dest, like: Job { state, .. }, .. } = self.job;
        if dest.path.ends_with(b"/") {
            return Ok(true);
        }
        let numbers = [false, true].map(|is_move| origin_of(sources, &dest.path, is_move));
        let found = self.machines.ask(dest.host.as_ref(), |asked| {
            let is_dir = asked.stat(&dest.path, true)?.kind == Kind::Dir;
            // A directory that an earlier run created is the new name.
            for origin in numbers.into_iter().flatten().filter(|_| is_dir) {
                if asked.has_origin(&dest.path, origin, state.as_deref())? {
                    return Ok((false, Some(origin)));
                }
            }
            Ok((is_dir, None))
        });
        match found? {
            Ok((is_directory, origin)) => {
                self.origin = origin.or(self.origin);
                Ok(is_directory)
            }
            Err(Fault { kind: FaultKind::NotFound, .. }) => Ok(false),
            Err(fault) => Err(self.unusable(Fault { side: Side::Destination, ..fault })),
        }
    }

    /// Refuses to move sources onto themselves through a mount: sources that stay `within` this
    /// machine, or the others.
    fn refuse_itself(&mut self, rest: &NotRenamed<M::Host>, within: bool) -> Result<(), M::Error> {
        let mut tried = BTreeSet::new();
        for source in &rest.sources {
            let (near, far) = match (&source.host, &rest.dest.host) {
                (None, far) => (LocalEnd::Source, far),
                (far, _) => (LocalEnd::Destination, far),
            };
            if within != far.is_none() {
                continue;
            }
            let (path, dest) = (&source.path, &rest.dest.path);
            let is_itself = self.machines.ask(far.as_ref(), |asked| {
                is_onto_itself(path, dest, rest.into, near, asked, &mut tried)
            });
            match is_itself? {
                Ok(false) => {}
                Ok(true) => {
                    let message = "source and destination are the same";
                    let fault = Fault::new(Side::Destination, FaultKind::SameFile, message);
                    return Err(self.unusable(fault));
                }
                Err(fault) => return Err(self.unusable(fault)),
            }
        }
        Ok(())
    }

    /// Removes the sources that the destination has.
    fn remove(&mut self, rest: &NotRenamed<M::Host>) -> Result<(), M::Error> {
        let policy = &self.job.policy;
        // If existing files are kept, the existing one may be a different file.
        let rule = match policy.conflict {
            Conflict::ReplaceChanged | Conflict::ReplaceAll => Remove::SameContent,
            Conflict::Keep | Conflict::ReplaceOlder => Remove::Same,
        };
        let moving = policy.moving.unwrap_or(Moving::Whole);
        let is_dir = |source: &HostPath<M::Host>| self.dirs.iter().any(|dir| dir.source == *source);
        let (mut sources, mut dest) = (rest.sources.clone(), rest.dest.clone());
        let is_nameless = !rest.into && sources.iter().any(is_dir);
        if is_nameless {
            // The directory has become the destination: their entries are compared.
            sources[0].path.extend_from_slice(b"/.");
            dest.path.push(b'/');
        }
        let filter = self.not_copied.rules(is_nameless);
        let like = Job { filter, ..self.like(Task::Remove { rule, moving }) };
        let mut removals = routed_jobs(&sources, &dest, &like);
        let removing = Removing::new(self.monitor, rule);
        for routed_job in &mut removals {
            routed_job.job.dest.origin = self.origin;
            if let Err(error) = self.machines.remove(routed_job, &removing) {
                let naming = removing.naming();
                let Removed { moved, left_dirs, .. } = removing.end();
                self.figures.moved += moved;
                self.report_remaining(&left_dirs, naming, false);
                return Err(error);
            }
        }
        let naming = removing.naming();
        let Removed { moved, kept, failed, left_dirs } = removing.end();
        self.figures.moved += moved;
        self.figures.kept += kept;
        self.figures.failed += failed;
        let all_removed = self.figures.failed == 0 && self.figures.kept == 0;
        self.report_remaining(&left_dirs, naming, all_removed);
        if let (true, None, Some(origin)) =
            (all_removed && left_dirs.is_empty(), &rest.dest.host, self.origin)
            && let Ok(dir) = LocalTree::PLAIN.open(&rest.dest.path)
        {
            // A later source with this path must not be taken for this one.
            forget_origin(self.job.like.state.as_deref(), &*dir, &origin);
        }
        Ok(())
    }

    /// Reports source directories that stay. A directory with remaining entries is reported only if
    /// everything else was removed.
    fn report_remaining(&mut self, left: &[(Vec<u8>, Fault)], naming: Naming, all_removed: bool) {
        for (path, fault) in left {
            if all_removed || fault.kind != FaultKind::Changed {
                self.report_not_removed(path, FaultLocation::Entry(naming), fault);
            }
        }
    }
}

/// The name of the host of `host_path`; `None` for this machine.
fn host_of<H: fmt::Display>(host_path: &HostPath<H>) -> Option<String> {
    host_path.host.as_ref().map(H::to_string)
}

/// The entry at `path`. If a killed move has set it aside, its name is restored first.
fn stat_restored(requests: &mut Requests, path: &[u8]) -> Result<Entry, RequestError> {
    let fault = match requests.stat(path, false) {
        Err(RequestError::Fault(fault)) if fault.kind == FaultKind::NotFound => fault,
        looked => return looked,
    };
    match requests.restore(path) {
        Ok(true) => requests.stat(path, false),
        Err(RequestError::Job(error)) => Err(error.into()),
        Ok(false) | Err(RequestError::Fault(_)) => Err(fault.into()),
    }
}

/// True if `now` is still the directory `before`. Hosts without haul report no directory numbers.
fn is_same_dir(before: &Entry, now: &Entry) -> bool {
    now.kind == Kind::Dir && (now.id, now.inode) == (before.id, before.inode)
}

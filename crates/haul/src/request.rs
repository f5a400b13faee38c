//! A request: sources, a destination and options. It is checked, completed with answers from hosts,
//! and split into jobs. Running the jobs is left to `routed_jobs.rs` and `hosts.rs`.

use crate::error::Error;
use crate::hosts::Questions;
use crate::location::{Location, Machine};
use crate::peer::Peers;
use crate::state;
use haul_engine::{
    CacheConfig, Expanded, Job, Munging, Route, RoutedJob, WireOptions, expand, routed_jobs,
};
use haul_model::{
    Altered, Backup, Compression, Fault, FaultKind, Filter, Mirror, Missing, Part, Policy, Ports,
    Relative, Side, Task, Via, escape_bytes,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStrExt;

/// How contents are sent between machines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransferOptions {
    /// Maximum rate of content, in bytes per second.
    pub rate: Option<NonZeroU64>,
    /// The compression of what is sent.
    pub compression: Compression,
    /// The connections for contents to a haul.
    pub via: Via,
    /// The ports that haul may open for them. Default: any.
    pub ports: Option<Ports>,
    /// Do not use the chunk cache: send content that the other side already has, and record none.
    pub no_cache: bool,
    /// Maximum size, in bytes, of the content that the chunk cache keeps after its file is gone.
    pub kept_max: u64,
}

impl TransferOptions {
    /// The chunk cache of this machine. `None` if it may not be used.
    pub fn cache(&self) -> Option<CacheConfig> {
        let dir = || state::cache_dir().unwrap_or_default();
        (!self.no_cache).then(|| CacheConfig { dir: dir(), kept_max: self.kept_max })
    }

    /// A job with these options, and the records of this user.
    pub(crate) fn job(&self) -> Job {
        let Self { rate, compression, via, ports, .. } = *self;
        let (cache, state) = (self.cache(), state::journals());
        let wire = WireOptions { rate, compression, via, ports, ..WireOptions::default() };
        Job { wire, cache, state, ..Job::default() }
    }
}

/// Sources, a destination, and options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The sources, in their order.
    pub sources: Vec<Location>,
    /// The destination: a directory for the sources, or the new name of one.
    pub dest: Location,
    /// Directories are copied with their content.
    pub recursive: bool,
    /// Symbolic links are followed.
    pub follow: bool,
    /// The rules that exclude parts of the sources.
    pub filter: Filter,
    /// Attributes that replace those of the sources.
    pub altered: Altered,
    /// The rules for each entry.
    pub policy: Policy,
    /// The base directories of a mirror, where it looks for content besides the destination.
    pub bases: Vec<Vec<u8>>,
    /// The backups of a mirror.
    pub backup: Option<Backup>,
    /// The staging directory of a mirror. Default: the directory of the file's final name.
    pub staging: Option<Vec<u8>>,
    /// The paths below a mirror's only source that take part. Default: all.
    pub list: Option<Vec<Vec<u8>>>,
    /// Targets of links are munged on a download, and unmunged otherwise.
    pub munges: bool,
    /// How contents are sent.
    pub transfer_options: TransferOptions,
}

/// Receives each missing source, pattern, or path that matched a pattern, of which nothing is copied:
/// the name of the host, the path there, and the reason.
pub type Unmatched<'u> = dyn FnMut(Option<String>, &[u8], &Fault) + 'u;

impl Request {
    /// A plain copy of `sources`, without the content of directories.
    pub fn new(sources: Vec<Location>, dest: Location) -> Self {
        Self {
            sources,
            dest,
            recursive: false,
            follow: false,
            filter: Filter::default(),
            altered: Altered::default(),
            policy: Policy::default(),
            bases: Vec::new(),
            backup: None,
            staging: None,
            list: None,
            munges: false,
            transfer_options: TransferOptions::default(),
        }
    }

    /// Replaces the patterns among the sources by the paths that they match. Returns the request,
    /// and the number of failures, each of which is passed to `unmatched`.
    ///
    /// # Errors
    /// If a host can't be asked.
    pub fn expanded(
        self,
        questions: &mut Questions<'_>,
        unmatched: &mut Unmatched<'_>,
    ) -> Result<(Self, u64), Error> {
        let (mut sources, mut failed) = (Vec::with_capacity(self.sources.len()), 0);
        for source in &self.sources {
            let (paths, missed) = source.expanded(questions, unmatched)?;
            sources.extend(paths);
            failed += missed;
        }
        Ok((Self { sources, ..self }, failed))
    }

    /// The jobs with this task, one for each machine of the sources.
    ///
    /// # Errors
    /// If sources would replace each other.
    pub fn routed_jobs(&self, task: Task) -> Result<Vec<RoutedJob<Machine>>, Error> {
        // The sources of a mirror are merged.
        if task.mirrors().is_none() {
            self.check_names()?;
        }
        let mut like = Job {
            task,
            filter: self.filter.clone(),
            altered: self.altered.clone(),
            spool: Some(std::env::temp_dir()),
            ..self.transfer_options.job()
        };
        (like.sources.recursive, like.sources.follow) = (self.recursive, self.follow);
        (like.dest.bases, like.dest.backup) = (self.bases.clone(), self.backup.clone());
        like.dest.staging.clone_from(&self.staging);
        let sources: Vec<_> = self.sources.iter().map(Location::host_path).collect();
        let mut routed_jobs = routed_jobs(&sources, &self.dest.host_path(), &like);
        if let (Some(list), [routed_job]) = (&self.list, &mut *routed_jobs) {
            let sources = &mut routed_job.job.sources;
            sources.base = Some(std::mem::replace(&mut sources.paths, list.clone()).concat());
        }
        for routed_job in routed_jobs.iter_mut().filter(|_| self.munges) {
            routed_job.job.munging = match routed_job.route {
                Route::Download(_) => Munging::Done,
                Route::Local | Route::Upload(_) | Route::Between(..) => Munging::Undone,
            };
        }
        Ok(routed_jobs)
    }

    /// Refuses sources with the same name, of which the later would replace the earlier. If a
    /// source has no name, all must be on one machine, where they are compared entry by entry.
    /// Names that the filter excludes in any case do not count.
    fn check_names(&self) -> Result<(), Error> {
        let sources = &self.sources;
        if let Some(whole) = sources.iter().find(|source| source.final_name().is_none())
            && let Some(other) = sources.iter().find(|source| source.machine != whole.machine)
        {
            let what =
                format!("{other}: it may have the same names as {whole}, and would replace them");
            return Err(Error::refused(what, "copy them separately"));
        }
        let mut names: HashMap<&[u8], &Location> = HashMap::with_capacity(sources.len());
        for source in sources {
            let Some(name) = source.final_name() else { continue };
            if [true, false].iter().all(|is_dir| self.filter.hides(name, *is_dir) == Some(true)) {
                continue;
            }
            if let Some(earlier) = names.insert(name, source) {
                let name = escape_bytes(name);
                let what = format!("{earlier} and {source} have the same destination: {name}");
                let instead = "copy them separately, to different names or directories";
                return Err(Error::refused(what, instead));
            }
        }
        Ok(())
    }

    /// Refuses a request without sources, and a path that is empty or has a NUL byte.
    fn refuse_no_place(&self) -> Result<(), Error> {
        if self.sources.is_empty() {
            return Err(Error::usage("there is no source"));
        }
        let all = || self.sources.iter().chain([&self.dest]);
        match all().find(|place| place.path.is_empty() || place.path.contains(&0)) {
            Some(place) => {
                Err(Error::usage(format!("'{place}': the path is empty, or has a NUL byte")))
            }
            None => Ok(()),
        }
    }

    /// Refuses options that need a local side, if neither side is local.
    ///
    /// # Errors
    /// If the request has such an option.
    fn refuse_between_hosts(&self, task: Task) -> Result<(), Error> {
        let is_local = |location: &Location| location.machine == Machine::Local;
        let is_between = !is_local(&self.dest) && !self.sources.iter().all(is_local);
        let refused = match task {
            _ if !is_between => None,
            _ if self.munges => Some("munge-links is not possible"),
            _ if [Side::Source, Side::Destination].iter().any(|side| task.fakes(*side)) => {
                Some("fake-super is not possible")
            }
            _ if task.lists() => Some("list-only is not possible"),
            _ if task.moving().is_some() || task.removes().is_some() => {
                Some("removing sources is not possible")
            }
            _ => None,
        };
        refused.map_or(Ok(()), |what| {
            let what = format!("{what} from one host to another");
            Err(Error::refused(what, "copy to this machine first, then to the other host"))
        })
    }

    /// Refuses a request that a copy accepts, but a comparison can't.
    ///
    /// # Errors
    /// If one of several sources has no name.
    pub fn refuse_to_check(&self) -> Result<(), Error> {
        if self.sources.len() > 1
            && let Some(source) = self.sources.iter().find(|source| source.final_name().is_none())
        {
            let what = format!(
                "{source}: it has no name of its own, and would be compared with all of {}",
                self.dest
            );
            return Err(Error::refused(what, "compare it alone"));
        }
        Ok(())
    }
}

/// A request that is checked, completed, and split into jobs.
pub struct Ready {
    /// The request, complete and without patterns.
    pub request: Request,
    /// The number of sources that are missing, and of failures of patterns.
    pub failed: u64,
    /// The jobs of the request.
    pub routed_jobs: Vec<RoutedJob<Machine>>,
    /// The hosts that were asked, with their open connections.
    pub peers: Peers,
}

impl Request {
    /// Prepares the request: refuses what is not possible, has hosts `complete` it, replaces
    /// patterns, and creates the jobs. Jobs without an existing source are left out.
    ///
    /// # Errors
    /// If a host can't be asked, the caller has cancelled, or the request is refused.
    pub fn prepare<E: From<Error>>(
        &self,
        task: Task,
        questions: Questions<'_>,
        refuse: &dyn Fn(&Self) -> Result<(), Error>,
        complete: impl FnOnce(&mut Self, &mut Questions<'_>) -> Result<(), E>,
        not_found: &mut Unmatched<'_>,
    ) -> Result<Ready, E> {
        // Checks that need no host come before any connection.
        self.refuse_no_place()?;
        refuse(self)?;
        self.refuse_between_hosts(task)?;
        let (mut request, mut questions) = (self.clone(), questions);
        complete(&mut request, &mut questions)?;
        let (request, unmatched) = request.expanded(&mut questions, not_found)?;
        refuse(&request)?;
        let routed_jobs = request.routed_jobs(task)?;
        let (routed_jobs, missing) = without_missing(&request, task, routed_jobs, not_found);
        let (failed, peers) = (unmatched + missing, questions.into_peers());
        Ok(Ready { request, failed, routed_jobs, peers })
    }
}

/// The time at which a mirror removes entries that the sources do not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DeleteTiming {
    /// In each directory, as soon as all names in it are known.
    #[default]
    During,
    /// Before anything is copied.
    Before,
    /// After everything is copied.
    After,
}

impl DeleteTiming {
    /// The tasks of `mirror`, in their order.
    pub fn parts(self, policy: Policy, mirror: &Mirror) -> Vec<Task> {
        let part = |part| Task::Sync(policy, Mirror { part, ..*mirror });
        match (mirror.delete, self) {
            (None, _) | (_, Self::During) => vec![Task::Sync(policy, *mirror)],
            (Some(_), Self::Before) => vec![part(Part::RemovesFirst), part(Part::AllElse)],
            (Some(_), Self::After) => vec![part(Part::AllElse), part(Part::RemovesLast)],
        }
    }
}

impl Location {
    /// The locations that match this one, or itself if it is not a pattern. Also returns the number
    /// of failures, each of which is passed to `unmatched`.
    ///
    /// # Errors
    /// If the host can't be asked.
    pub fn expanded(
        &self,
        questions: &mut Questions<'_>,
        unmatched: &mut Unmatched<'_>,
    ) -> Result<(Vec<Self>, u64), Error> {
        if !self.is_pattern() {
            return Ok((vec![self.clone()], 0));
        }
        let failed =
            |fault| Expanded { paths: Vec::new(), faults: vec![(self.path.clone(), fault)] };
        let asked = questions.ask(&self.machine, |requests| expand(requests, &self.path))?;
        let found = match asked {
            Ok(found) if found.paths.is_empty() && found.faults.is_empty() => {
                let message = "no path matches this pattern";
                failed(Fault::new(Side::Source, FaultKind::NotFound, message))
            }
            Ok(found) => found,
            Err(fault) => failed(fault),
        };
        for (path, fault) in &found.faults {
            unmatched(self.machine.name(), path, fault);
        }
        let paths = found.paths.into_iter().map(|path| self.on_same_machine(path)).collect();
        Ok((paths, found.faults.len() as u64))
    }
}

/// Removes the jobs from `routed_jobs` whose sources are local and all missing. Returns the others,
/// and the number of missing sources, each of which is passed to `missing`. rsync creates no
/// destination then either.
fn without_missing(
    request: &Request,
    task: Task,
    routed_jobs: Vec<RoutedJob<Machine>>,
    missing: &mut Unmatched<'_>,
) -> (Vec<RoutedJob<Machine>>, u64) {
    let reports_each = match task {
        // With several jobs, each job of a move reports its own missing sources.
        Task::Copy(policy) => policy.moving.is_none() || routed_jobs.len() == 1,
        // With a list or relative paths, the engine reports other paths.
        Task::Sync(_, mirror) => {
            let walking = mirror.walking;
            walking.missing == Missing::Fails
                && walking.relative == Relative::No
                && request.list.is_none()
        }
        Task::Check { .. } | Task::Remove { .. } => false,
    };
    if !reports_each {
        return (routed_jobs, 0);
    }
    let is_mirror = task.mirrors().is_some();
    let is_empty = |routed_job: &RoutedJob<Machine>| {
        let has_local_sources = matches!(routed_job.route, Route::Local | Route::Upload(_));
        has_local_sources && routed_job.job.sources.paths.iter().all(|source| is_missing(source))
    };
    let (empty, routed_jobs): (Vec<_>, Vec<_>) = routed_jobs.into_iter().partition(is_empty);
    let mut failed = 0;
    for source in empty.iter().flat_map(|routed_job| &routed_job.job.sources.paths) {
        // The source of a mirror ended with a slash before "." was added: report that form.
        let source = match source.strip_suffix(b".") {
            Some(typed) if is_mirror && typed.ends_with(b"/") => typed,
            _ => source,
        };
        // It is reported even if it exists by now: its job is not run.
        missing(None, source, &Fault::missing(Side::Source));
        failed += 1;
    }
    (routed_jobs, failed)
}

/// True if the local source does not exist.
fn is_missing(source: &[u8]) -> bool {
    let looked = fs::symlink_metadata(OsStr::from_bytes(source));
    looked.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn request(words: &[&str]) -> Request {
        let mut locations: Vec<Location> = words
            .iter()
            .map(|words| Location::parse(OsStr::new(words)).expect("a location"))
            .collect();
        let dest = locations.pop().expect("a destination");
        Request::new(locations, dest)
    }

    fn host(machine: &Machine) -> String {
        let way = if machine.is_by_sftp() { "sftp " } else { "" };
        format!("{way}{machine}")
    }

    /// The steps as `route: sources -> dest`, or the refusal.
    fn planned(words: &[&str]) -> String {
        let routed_jobs = match request(words).routed_jobs(Task::default()) {
            Ok(routed_jobs) => routed_jobs,
            Err(error) => return format!("refused: {error:?}\n"),
        };
        let line = |routed_job: &RoutedJob<Machine>| {
            let route = match &routed_job.route {
                Route::Local => "local".to_owned(),
                Route::Upload(machine) => format!("up to {}", host(machine)),
                Route::Download(machine) => format!("down from {}", host(machine)),
                Route::Between(from, to) => format!("from {} to {}", host(from), host(to)),
            };
            let sources: Vec<String> =
                routed_job.job.sources.paths.iter().map(|s| escape_bytes(s)).collect();
            let into = if routed_job.job.dest.into_dir { " (directory)" } else { "" };
            let dest = escape_bytes(&routed_job.job.dest.path);
            format!("{route}: {} -> {dest}{into}\n", sources.join(" "))
        };
        routed_jobs.iter().map(line).collect()
    }

    #[test]
    fn sources_on_one_machine_are_one_job() {
        let plans = [
            planned(&["a", "b"]),
            planned(&["a", "b", "d/"]),
            planned(&["a", "b", "u@host:d"]),
            planned(&["host:", "."]),
            planned(&["host:a", "host:b", "other:c", "d", "host:e", "dir"]),
            planned(&["u@host:a", "host:b", "dir"]),
            planned(&[".", "..", "dir"]),
            planned(&["a:x", "b:y"]),
            planned(&["a:x", "x.txt", "a:z", "a:y"]),
        ];
        insta::assert_snapshot!(plans.concat());
    }

    #[test]
    fn impossible_requests_are_refused_before_anything_is_done() {
        let plans = [planned(&["a/x", "b/x/", "dir"]), planned(&["x", "host:x", "dir"])];
        insta::assert_snapshot!(plans.concat());
    }
}

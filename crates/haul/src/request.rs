//! A request: sources, a destination, and how the one becomes the other. It is completed by what
//! hosts answer, checked, and becomes jobs.

use crate::error::Error;
use crate::hosts::Questions;
use crate::location::{Location, Machine};
use crate::peer::Peers;
use crate::state;
use haul_engine::{CachePlace, Expanded, Job, Leg, Munging, Route, expand, legs};
use haul_model::{
    Altered, Backup, Compression, Fault, FaultKind, Filter, Mirror, Part, Policy, Ports, Side,
    Task, Via, escape_bytes,
};
use std::collections::HashMap;
use std::num::NonZeroU64;

/// The way that contents take between machines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passage {
    /// Bytes of content that may be moved in a second.
    pub rate: Option<NonZeroU64>,
    /// The way in which what travels is compressed.
    pub compression: Compression,
    /// The connections that contents take to a haul.
    pub via: Via,
    /// The ports that it may open for them, if not any.
    pub ports: Option<Ports>,
    /// Content that the other side has already is sent all the same, and none is remembered.
    pub no_cache: bool,
    /// Bytes of content that would be lost and is kept in the chunk cache, at most.
    pub kept_max: u64,
}

impl Passage {
    /// The chunk cache of this machine; `None` if none may be used.
    pub fn cache(&self) -> Option<CachePlace> {
        let dir = || state::cache_dir().unwrap_or_default();
        (!self.no_cache).then(|| CachePlace { dir: dir(), kept_max: self.kept_max })
    }
}

/// Sources, a destination, and how the one becomes the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The sources, in their order.
    pub sources: Vec<Location>,
    /// The destination: a directory for the sources, or the new name of one.
    pub dest: Location,
    /// Directories are copied with all that is in them.
    pub recursive: bool,
    /// Symbolic links are followed.
    pub follow: bool,
    /// The rules that leave out parts of the sources.
    pub filter: Filter,
    /// Attributes that entries get in place of those of the sources.
    pub altered: Altered,
    /// The rules for each entry.
    pub policy: Policy,
    /// The directories that a mirror looks into besides the destination.
    pub bases: Vec<Vec<u8>>,
    /// The backups that a mirror makes.
    pub backup: Option<Backup>,
    /// The directory in which files of a mirror are staged, if not where they will appear.
    pub staging: Option<Vec<u8>>,
    /// Of the one source of a mirror, the paths below it that take part, if not all.
    pub list: Option<Vec<Vec<u8>>>,
    /// Targets of links are munged on a download, and unmunged elsewhere.
    pub munges: bool,
    /// The way that contents take.
    pub passage: Passage,
}

/// Hears of a pattern, or a path that it stands for, of which nothing is copied: the name of the
/// host, the path there, and why.
pub type Unmatched<'u> = dyn FnMut(Option<String>, &[u8], &Fault) + 'u;

impl Request {
    /// A plain copy of what is named, without what is in directories.
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
            passage: Passage::default(),
        }
    }

    /// The same without patterns in its sources, and the number of those of which nothing is
    /// copied. Hosts are asked by `questions`.
    ///
    /// # Errors
    /// When a host can't be asked.
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

    /// The jobs with that task, one for each place that sources are on, with all that can be
    /// known to be wrong before anything is done.
    ///
    /// # Errors
    /// When sources would replace each other.
    pub fn legs(&self, task: Task) -> Result<Vec<Leg<Machine>>, Error> {
        // Those of a mirror become one.
        if task.mirrors().is_none() {
            self.check_names()?;
        }
        let like = Job {
            recursive: self.recursive,
            follow: self.follow,
            task,
            filter: self.filter.clone(),
            altered: self.altered.clone(),
            bases: self.bases.clone(),
            backup: self.backup.clone(),
            staging: self.staging.clone(),
            rate: self.passage.rate,
            compression: self.passage.compression,
            via: self.passage.via,
            ports: self.passage.ports,
            cache: self.passage.cache(),
            state: state::journals(),
            spool: Some(std::env::temp_dir()),
            ..Job::default()
        };
        let sources: Vec<_> = self.sources.iter().map(Location::spot).collect();
        let mut legs = legs(&sources, &self.dest.spot(), &like);
        if let (Some(list), [leg]) = (&self.list, &mut *legs) {
            leg.job.base = Some(std::mem::replace(&mut leg.job.sources, list.clone()).concat());
        }
        for leg in legs.iter_mut().filter(|_| self.munges) {
            leg.job.munging = match leg.route {
                Route::Download(_) => Munging::Done,
                Route::Local | Route::Upload(_) | Route::Between(..) => Munging::Undone,
            };
        }
        Ok(legs)
    }

    /// Refuses sources that would arrive under one name: the later would replace
    /// the earlier. Where one has no name, the others must be in the same place, where
    /// they can be compared entry by entry. What rules leave out, whatever it is, does not
    /// arrive.
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

    /// Refuses a request without sources, and paths that name nothing.
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

    /// Refuses what this machine's side does, where neither side is here.
    ///
    /// # Errors
    /// When the request does such a thing.
    fn refuse_between_hosts(&self, task: Task) -> Result<(), Error> {
        let is_here = |location: &Location| location.machine == Machine::Here;
        let is_between = !is_here(&self.dest) && !self.sources.iter().all(is_here);
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

    /// Refuses what a copy takes and a comparison can't tell apart.
    ///
    /// # Errors
    /// When one of several sources has no name.
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

/// A request of which all is known that can be known before anything is done.
pub struct Ready {
    /// The request, complete and without patterns.
    pub request: Request,
    /// The number of patterns of which nothing is copied.
    pub unmatched: u64,
    /// Its jobs.
    pub legs: Vec<Leg<Machine>>,
    /// The hosts that were asked, whose connections stand.
    pub peers: Peers,
}

impl Request {
    /// Makes the request ready: refuses what can't be done, has hosts `complete` it, replaces
    /// patterns, and finds the jobs.
    ///
    /// # Errors
    /// When a host can't be asked, the caller has cancelled, or the request is refused.
    pub fn prepare<E: From<Error>>(
        &self,
        task: Task,
        questions: Questions<'_>,
        refuse: &dyn Fn(&Self) -> Result<(), Error>,
        complete: impl FnOnce(&mut Self, &mut Questions<'_>) -> Result<(), E>,
        unmatched: &mut Unmatched<'_>,
    ) -> Result<Ready, E> {
        // What the request alone can tell comes before any connection.
        self.refuse_no_place()?;
        refuse(self)?;
        self.refuse_between_hosts(task)?;
        let (mut request, mut questions) = (self.clone(), questions);
        complete(&mut request, &mut questions)?;
        let (request, unmatched) = request.expanded(&mut questions, unmatched)?;
        refuse(&request)?;
        let legs = request.legs(task)?;
        Ok(Ready { request, unmatched, legs, peers: questions.into_peers() })
    }
}

/// The time at which a mirror removes what the sources do not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum When {
    /// In each directory, as soon as all names in it are known.
    #[default]
    During,
    /// Before anything is copied.
    Before,
    /// When all is copied.
    After,
}

impl When {
    /// The tasks that `mirror` takes, one after the other.
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
    /// The locations that this one stands for, itself if it is no pattern, and the number of
    /// failures, each of which `unmatched` hears.
    ///
    /// # Errors
    /// When the host can't be asked.
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
        let paths = found.paths.into_iter().map(|path| self.beside(path)).collect();
        Ok((paths, found.faults.len() as u64))
    }
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
        let legs = match request(words).legs(Task::default()) {
            Ok(legs) => legs,
            Err(error) => return format!("refused: {error:?}\n"),
        };
        let line = |leg: &Leg<Machine>| {
            let route = match &leg.route {
                Route::Local => "local".to_owned(),
                Route::Upload(machine) => format!("up to {}", host(machine)),
                Route::Download(machine) => format!("down from {}", host(machine)),
                Route::Between(from, to) => format!("from {} to {}", host(from), host(to)),
            };
            let sources: Vec<String> = leg.job.sources.iter().map(|s| escape_bytes(s)).collect();
            let into = if leg.job.into_dir { " (directory)" } else { "" };
            let dest = escape_bytes(&leg.job.dest);
            format!("{route}: {} -> {dest}{into}\n", sources.join(" "))
        };
        legs.iter().map(line).collect()
    }

    #[test]
    fn sources_of_one_place_are_one_job() {
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
    fn what_can_not_be_done_is_refused_before_anything_is() {
        let plans = [planned(&["a/x", "b/x/", "dir"]), planned(&["x", "host:x", "dir"])];
        insta::assert_snapshot!(plans.concat());
    }
}

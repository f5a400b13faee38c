//! Finds the host and path of a job's entries on both sides, for messages.

use crate::report::HostPath;
use haul::Machine;
use haul_engine::{NamedDest, NamedSources, Route, RoutedJob};
use haul_model::{Name, Naming, Place, Relative, Side, words};

/// The sources and the destination of a job, as the user wrote them.
#[derive(Debug, Default)]
pub(super) struct JobPaths {
    sources: Vec<Vec<u8>>,
    /// See [`NamedSources::base`].
    base: Option<Vec<u8>>,
    relative: Relative,
    /// Set for a mirror: a source with a trailing slash has a dot appended.
    is_mirror: bool,
    source_host: Option<String>,
    dest: Vec<u8>,
    /// The possible paths of base directories.
    bases: Vec<Vec<u8>>,
    dest_host: Option<String>,
}

impl JobPaths {
    pub(super) fn of(routed_job: &RoutedJob<Machine>) -> Self {
        let (source_host, dest_host) = match &routed_job.route {
            Route::Local => (None, None),
            Route::Upload(machine) => (None, machine.name()),
            Route::Download(machine) => (machine.name(), None),
            Route::Between(from, to) => (from.name(), to.name()),
        };
        let relative = routed_job.job.task.mirrors().map(|mirror| mirror.walking.relative);
        let (is_mirror, relative) = (relative.is_some(), relative.unwrap_or_default());
        let NamedSources { paths: sources, base, .. } = routed_job.job.sources.clone();
        let NamedDest { path: dest, bases, .. } = routed_job.job.dest.clone();
        let bases = bases.iter().flat_map(|base| base_paths(&dest, base)).collect();
        Self { sources, base, relative, is_mirror, source_host, dest, bases, dest_host }
    }

    /// True if `path` is a source, as it was given.
    pub(super) fn is_source(&self, path: &[u8]) -> bool {
        self.sources.iter().any(|source| source == path)
    }

    /// The host of the source, destination or base at `path`. `None` for this machine, and for
    /// other paths.
    pub(super) fn host_of(&self, path: &[u8]) -> Option<&str> {
        let is_of_dest = path == self.dest || self.bases.iter().any(|base| base == path);
        match self.is_source(path) {
            _ if is_of_dest => self.dest_host.as_deref(),
            true => self.source_host.as_deref(),
            false => None,
        }
    }

    /// The location of the entry at `path` on `side`.
    pub(super) fn locate(&self, side: Side, path: &[u8], naming: Naming) -> HostPath {
        match side {
            Side::Source => (self.source_host.clone(), self.source(path)),
            Side::Destination => (self.dest_host.clone(), self.dest_path(path, naming)),
        }
    }

    fn source(&self, path: &[u8]) -> Vec<u8> {
        // A missing source is reported as it was given.
        if self.sources.iter().any(|source| source == path) {
            let path = match path.strip_suffix(b".") {
                Some(typed) if self.is_mirror && typed.ends_with(b"/") => typed,
                _ => path,
            };
            return match &self.base {
                Some(base) => words::join(base, path),
                None => path.to_vec(),
            };
        }
        if self.base.is_some() || self.relative != Relative::No {
            return self.relative_source(path);
        }
        let (name, below) = split_first(path);
        let named = |source: &&Vec<u8>| words::split(source).name == Some(name);
        if let Some(source) = self.sources.iter().find(named) {
            return words::join(source, below);
        }
        let mut nameless = self.sources.iter().filter(|source| words::split(source).name.is_none());
        match (nameless.next(), nameless.next()) {
            (Some(source), None) => words::join(words::without_dot(source), path),
            _ => path.to_vec(),
        }
    }

    /// The path if sources keep their paths: below the first source whose place contains `path` or
    /// is inside it.
    fn relative_source(&self, path: &[u8]) -> Vec<u8> {
        let start = |source: &Vec<u8>| {
            let place = Place::of(source, self.base.as_deref(), self.relative).ok()?;
            let names = place.names.iter().map(Name::as_bytes).collect::<Vec<_>>().join(&b'/');
            let is_in = |outer: &[u8], inner: &[u8]| {
                inner.strip_prefix(outer).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
            };
            let is_it = names.is_empty() || is_in(&names, path) || is_in(path, &names);
            is_it.then_some(place.start)
        };
        match self.sources.iter().find_map(start) {
            Some(start) => words::join(&start, path),
            None => path.to_vec(),
        }
    }

    fn dest_path(&self, path: &[u8], naming: Naming) -> Vec<u8> {
        match naming {
            _ if self.dest.is_empty() => path.to_vec(),
            Naming::Given => words::join(&self.dest, split_first(path).1),
            Naming::Own => words::join(&self.dest, path),
        }
    }
}

/// The possible paths of a base directory. A relative one starts in `dest` or in a parent of it.
fn base_paths(dest: &[u8], mut path: &[u8]) -> Vec<Vec<u8>> {
    if path.starts_with(b"/") {
        return vec![path.to_vec()];
    }
    let mut start = dest;
    let mut paths = vec![words::join(words::split(dest).parent, path), words::join(dest, path)];
    while let Some(rest) = path.strip_prefix(b"../") {
        (start, path) = (words::split(start).parent, rest);
        paths.push(words::join(start, path));
    }
    paths
}

/// Splits a path after its first component.
fn split_first(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().position(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (path, b""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(sources: &[&str], dest: &str) -> JobPaths {
        let sources = sources.iter().map(|source| source.as_bytes().to_vec()).collect();
        JobPaths { sources, dest: dest.into(), ..JobPaths::default() }
    }

    #[test]
    fn what_a_job_names_is_reported_with_its_host() {
        let bases = base_paths(b"to/new", b"../old");
        let ends = JobPaths { bases, dest_host: Some("nas".into()), ..ends(&["src"], "to/new") };
        for path in ["to/new", "to/new/../old", "to/old"] {
            assert_eq!(ends.host_of(path.as_bytes()), Some("nas"), "{path}");
        }
        assert_eq!(ends.host_of(b"src"), None);
        assert_eq!(ends.host_of(b"old"), None, "an entry");
        assert_eq!(base_paths(b"to", b"/old"), [b"/old"]);
    }

    #[test]
    fn a_path_is_that_of_its_own_side() {
        let line = |ends: &JobPaths, side, path: &str, naming| {
            let (_, path) = ends.locate(side, path.as_bytes(), naming);
            String::from_utf8(path).expect("text")
        };
        let many = ends(&["/data/src/", "b", "c/."], "to/");
        let source = |path| line(&many, Side::Source, path, Naming::Own);
        assert_eq!(source("src/d/one"), "/data/src/d/one");
        assert_eq!(source("b"), "b");
        assert_eq!(source("x/y"), "c/x/y");
        assert_eq!(source("c/."), "c/.");
        let mirror = JobPaths { is_mirror: true, ..ends(&["c/.", "d."], "to/") };
        assert_eq!(line(&mirror, Side::Source, "c/.", Naming::Own), "c/");
        assert_eq!(line(&mirror, Side::Source, "d.", Naming::Own), "d.");
        let two = ends(&["a/.", "b/."], "to");
        assert_eq!(line(&two, Side::Source, "x", Naming::Own), "x");
        let dest = |ends: &JobPaths, path, naming| line(ends, Side::Destination, path, naming);
        assert_eq!(dest(&many, "src/d/one", Naming::Own), "to/src/d/one");
        assert_eq!(dest(&ends(&["s"], "/"), "s", Naming::Own), "/s");
        assert_eq!(dest(&ends(&["s"], "."), "s/x", Naming::Own), "s/x");
        let one = ends(&["src"], "/ro/new");
        assert_eq!(dest(&one, "src/d/one", Naming::Given), "/ro/new/d/one");
        assert_eq!(dest(&one, "src", Naming::Given), "/ro/new");
        assert_eq!(dest(&one, "src/d", Naming::Own), "/ro/new/src/d");
    }
}

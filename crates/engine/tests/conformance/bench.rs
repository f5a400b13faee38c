//! A source, a destination for each link, and the comparison of what came of
//! one job over all of them.

use crate::exceptions;
use crate::link::{Link, links};
use crate::watch::Watch;
use haul_engine::{Job, NamedDest, NamedSources, Outcome, Summary};
use haul_testkit::{Compare, FileSystem, Mount, assert_same_with, nasty, snapshot};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A source, and a destination for each link.
pub(crate) struct Bench {
    temp: TempDir,
    /// Furnishes a destination before the job.
    pub(crate) before: fn(&Path),
    /// The paths below the source that are copied.
    pub(crate) sources: &'static [&'static str],
    /// Appended to the destination's path.
    pub(crate) dest: &'static str,
    pub(crate) job: Job,
    /// Other file systems for destinations here, once a job was checked.
    places: OnceCell<Vec<(Place, Mount)>>,
}

/// A file system on which a job's destination lies, other than that of temporary files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Xfs,
    /// It is not known if names are told apart here, nor on the next.
    Overlay,
    /// In user space.
    BindFs,
}

impl Place {
    /// Mounts it; `below` has room for what it shows.
    fn mount(self, below: &Path) -> Option<Mount> {
        let made = |name: &str| {
            let dir = below.join(name);
            fs::create_dir(&dir).expect("made");
            dir
        };
        match self {
            Self::Xfs => Mount::image(FileSystem::Xfs, 300 << 20),
            Self::Overlay => Mount::overlay(&made("lower"), &made("upper")),
            Self::BindFs => Mount::bindfs(&made("shown")),
        }
    }
}

/// The outcome of a job.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Came {
    pub(crate) summary: Summary,
    pub(crate) outcomes: BTreeMap<String, Outcome>,
    pub(crate) warnings: Vec<String>,
}

impl Bench {
    /// Copies `sources` recursively into an empty directory.
    pub(crate) fn new(sources: &'static [&'static str], make: impl FnOnce(&Path)) -> Self {
        let temp = tempfile::tempdir().expect("a temporary directory");
        for dir in ["source", "journals"] {
            fs::create_dir(temp.path().join(dir)).expect("made");
        }
        make(&temp.path().join("source"));
        let job = Job {
            sources: NamedSources { recursive: true, ..NamedSources::default() },
            dest: NamedDest { into_dir: sources.len() > 1, ..NamedDest::default() },
            ..Job::default()
        };
        let places = OnceCell::new();
        Self { temp, before: |_| (), sources, dest: "", job, places }
    }

    pub(crate) fn source(&self) -> PathBuf {
        self.temp.path().join("source")
    }

    /// Where uploads through SFTP keep their journals.
    pub(crate) fn journals(&self) -> PathBuf {
        self.temp.path().join("journals")
    }

    pub(crate) fn dest(&self, link: Link) -> PathBuf {
        self.temp.path().join(format!("{link:?}"))
    }

    /// The job with its destination here, which is furnished unless it is there.
    pub(crate) fn job_into(&self, root: &Path) -> Job {
        if !root.exists() {
            fs::create_dir(root).expect("made");
            (self.before)(root);
        }
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let below = |name: &&str| [&bytes(&self.source())[..], b"/", name.as_bytes()].concat();
        Job {
            sources: NamedSources {
                paths: self.sources.iter().map(below).collect(),
                ..self.job.clone().sources
            },
            dest: NamedDest {
                path: [&bytes(root)[..], b"/", self.dest.as_bytes()].concat(),
                ..self.job.clone().dest
            },
            ..self.job.clone()
        }
    }

    /// Runs the job over this link.
    pub(crate) fn run(&self, link: Link) -> Came {
        self.run_into(&self.dest(link), link)
    }

    fn run_into(&self, dest: &Path, link: Link) -> Came {
        let job = Job { wire: link.wire(), ..self.job_into(dest) };
        let watch = Watch::default();
        let (placement, agent) = link.placement(&self.journals());
        let summary = haul_engine::run(&job, placement, &watch)
            .unwrap_or_else(|error| panic!("{link:?}: {error}"));
        if let Some(agent) = agent {
            let served = agent.join().expect("the agent does not panic");
            assert!(served.is_ok(), "{link:?}: {served:?}");
        }
        let mut warnings = watch.warnings();
        warnings.sort();
        Came { summary, outcomes: watch.outcomes(), warnings }
    }

    /// Runs the job over all links, and expects that the same comes of it.
    pub(crate) fn check(&self) -> Came {
        let expected = self.run(Link::Memory);
        let tree = snapshot(self.dest(Link::Memory)).expect("read");
        for link in links().skip(1) {
            let came = self.run(link);
            let came_tree = snapshot(self.dest(link)).expect("read");
            // What stood before keeps its own time, which is that of its making.
            let rules = Compare::everything().ignoring_root();
            let rules = if self.makes_all() { rules } else { rules.ignoring_dir_mtimes() };
            assert_same_with(&tree, &came_tree, exceptions::rules(link, rules));
            let outcomes = |came: &Came| exceptions::comparable(link, &came.outcomes);
            assert_eq!(outcomes(&came), outcomes(&expected), "{link:?}");
            let figures = [came.summary, expected.summary].map(exceptions::figures);
            assert_eq!(figures[0], figures[1], "{link:?}");
            let warnings = exceptions::warnings(link, &came.warnings);
            assert_eq!(warnings, expected.warnings, "{link:?}");
        }
        for (place, mount) in self.places() {
            let dest = mount.join("dest");
            let came = self.run_into(&dest, Link::Memory);
            let rules = Compare::everything().ignoring_root();
            let rules = if self.makes_all() { rules } else { rules.ignoring_dir_mtimes() };
            let came_tree = snapshot(&dest).expect("read");
            assert_same_with(&tree, &came_tree, exceptions::rules_at(*place, rules));
            let figures = [came.summary, expected.summary].map(exceptions::figures);
            assert_eq!(figures[0], figures[1], "{place:?}");
            let outcomes = |came: &Came| exceptions::comparable(Link::Memory, &came.outcomes);
            assert_eq!(outcomes(&came), outcomes(&expected), "{place:?}");
            assert_eq!(came.warnings, expected.warnings, "{place:?}");
        }
        let entries = fs::read_dir(self.journals()).expect("read");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        // The directory's own id stays.
        let left: Vec<_> = names.filter(|name| name != "id").collect();
        assert!(left.is_empty(), "journals are left: {left:?}");
        expected
    }

    /// Other file systems, as far as this machine can mount them.
    fn places(&self) -> &[(Place, Mount)] {
        self.places.get_or_init(|| {
            let places = [Place::Xfs, Place::Overlay, Place::BindFs].into_iter();
            let mounted = |place: Place| Some((place, place.mount(self.temp.path())?));
            places.filter_map(mounted).collect()
        })
    }

    /// True if nothing stood at the destination before the job, and the job was
    /// told to make no part of the destination itself.
    fn makes_all(&self) -> bool {
        let empty = tempfile::tempdir().expect("a temporary directory");
        (self.before)(empty.path());
        self.dest.is_empty() && fs::read_dir(empty.path()).expect("read").next().is_none()
    }

    /// Every copy of `source` is the same as it.
    pub(crate) fn check_copies(&self, source: &str, copy: &str) {
        let source = snapshot(self.source().join(source)).expect("read");
        for link in links() {
            let copy = snapshot(self.dest(link).join(copy)).expect("read");
            assert_same_with(&source, &copy, exceptions::rules(link, Compare::everything()));
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // What they show lies in the directory that goes.
        self.places.take();
        let _ = nasty::unlock(self.temp.path());
        // Trees that are deeper than a path can say are too much for a
        // temporary directory to remove by itself.
        let _ = Command::new("rm").arg("-rf").arg(self.temp.path()).status();
    }
}

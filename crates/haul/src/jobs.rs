//! The requests that a caller builds: [`struct@Copy`], [`Sync`], [`Move`] and [`Check`].

use crate::error::Error;
use crate::location::Location;
use crate::request::{Request, When};
use crate::session::Session;
use haul_engine::{Monitor, Summary};
use haul_model::{
    Action, Compression, Conflict, Delete, FilterError, Kept, Mirror, Moving, Pattern, Policy,
    Rule, Sameness, Task,
};
use std::num::NonZeroU64;

/// Methods that all requests have.
macro_rules! common {
    () => {
        /// Runs it over connections of its own, and reports to `events`.
        ///
        /// What fails with a single entry is an event and counts in [`Summary::failed`]; the
        /// others go on. Call it again after an error: what is finished is skipped, and an
        /// unfinished large file is continued.
        ///
        /// # Errors
        /// When the request can't be carried out, no connection can be made, the destination as
        /// a whole can't be used, or `events` has cancelled it.
        pub fn run(&self, events: &dyn Monitor) -> Result<Summary, Error> {
            self.run_in(&Session::new(), events)
        }

        /// Leaves out entries that match `pattern`, a pattern of rsync: `*.o` matches in every
        /// directory, `/build/` the directory at the top of a source.
        ///
        /// # Errors
        /// When the pattern is empty or too long, or there are too many.
        pub fn exclude(mut self, pattern: &str) -> Result<Self, FilterError> {
            let pattern = Pattern::new(pattern.as_bytes())?;
            self.request.filter.push(Rule::new(Action::Exclude, pattern))?;
            Ok(self)
        }
    };
}

/// Methods of requests that copy contents.
macro_rules! with_contents {
    () => {
        common!();

        /// Moves at most `bytes` of content in a second over connections to other machines.
        #[must_use]
        pub fn rate_max(mut self, bytes: NonZeroU64) -> Self {
            self.request.passage.rate = Some(bytes);
            self
        }

        /// Compresses what goes to other machines; by default where that is faster.
        #[must_use]
        pub fn compression(mut self, compression: Compression) -> Self {
            self.request.passage.compression = compression;
            self
        }

        /// Reads each file back from its medium before it gets its name.
        #[must_use]
        pub fn verify(mut self, verify: bool) -> Self {
            self.request.policy.verify = verify;
            self
        }
    };
}

/// Methods of requests that can be tried.
macro_rules! with_dry_run {
    () => {
        /// Changes nothing, and reports what would be done.
        #[must_use]
        pub fn dry_run(mut self, dry_run: bool) -> Self {
            self.request.policy.dry_run = dry_run;
            self
        }

        /// Flushes everything to stable storage before it ends.
        #[must_use]
        pub fn flush(mut self, flush: bool) -> Self {
            self.request.policy.sync = flush;
            self
        }
    };
}

/// Copies files and directories. Existing files that differ are replaced; nothing is removed.
///
/// ```
/// use haul::{Copy, Silent};
///
/// # let dir = tempfile::tempdir()?;
/// # let (from, to) = (dir.path().join("a"), dir.path().join("b"));
/// # std::fs::write(&from, "hello")?;
/// let summary = Copy::new([from.into()], to.clone().into()).run(&Silent::default())?;
/// assert_eq!(summary.copied, 1);
/// assert_eq!(std::fs::read(to)?, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Copy {
    request: Request,
}

impl Copy {
    /// Copies `sources`, directories with their content, into the directory `dest`. A single
    /// source gets the name `dest` if that is not a directory. Modes and times are kept.
    pub fn new(sources: impl IntoIterator<Item = Location>, dest: Location) -> Self {
        let mut request = Request::new(sources.into_iter().collect(), dest);
        request.recursive = true;
        request.policy.keeps = Kept::OF_COPIES;
        Self { request }
    }

    /// Keeps all attributes that the destination can hold: owners, hard links, ACLs, extended
    /// attributes and special files, too.
    #[must_use]
    pub fn archive(mut self, archive: bool) -> Self {
        self.request.policy.keeps = if archive { Kept::OF_ARCHIVES } else { Kept::OF_COPIES };
        self
    }

    /// Copies what symbolic links lead to, and not the links.
    #[must_use]
    pub fn follow_links(mut self, follow: bool) -> Self {
        self.request.follow = follow;
        self
    }

    /// Replaces or keeps existing files by this rule.
    #[must_use]
    pub fn existing(mut self, conflict: Conflict) -> Self {
        self.request.policy.conflict = conflict;
        self
    }

    with_contents!();
    with_dry_run!();

    /// Runs it over the connections of `session`; see [`Self::run`].
    ///
    /// # Errors
    /// See [`Self::run`].
    pub fn run_in(&self, session: &Session, events: &dyn Monitor) -> Result<Summary, Error> {
        let task = Task::Copy(self.request.policy);
        session.run(&self.request, task, &[task], &|_| Ok(()), events)
    }
}

/// Makes a directory like another, as `haul sync -a` and `rsync -a` do: only what has changed is
/// copied, of a changed file only the difference.
///
/// A source that ends with a slash stands for what is in it.
#[derive(Debug, Clone)]
pub struct Sync {
    request: Request,
    mirror: Mirror,
}

impl Sync {
    /// Makes `dest` like `sources`, which are on one machine. Modes, times, owners, links and
    /// special files are kept.
    pub fn new(sources: impl IntoIterator<Item = Location>, dest: Location) -> Self {
        let mut request = Request::new(sources.into_iter().collect(), dest);
        request.recursive = true;
        request.policy.keeps = Kept::OF_COPIES
            .with(Kept::SET_ID)
            .with(Kept::LENT)
            .with(Kept::LINK_TIMES)
            .with(Kept::OWNER)
            .with(Kept::DEVICES)
            .with(Kept::SPECIALS);
        let mirror = Mirror { links: true, delta: true, window: Some(0), ..Mirror::default() };
        Self { request, mirror }
    }

    /// Removes what only the destination has. Nothing is removed in a directory of which the
    /// source could not be read whole.
    #[must_use]
    pub fn delete(mut self, delete: bool) -> Self {
        self.mirror.delete = delete.then(Delete::default);
        self.mirror.makes_way = delete;
        self
    }

    /// Removes at most so many entries.
    #[must_use]
    pub fn delete_max(mut self, entries: u64) -> Self {
        self.mirror.delete_max = Some(entries);
        self
    }

    /// Compares the contents of files, and not their sizes and times.
    #[must_use]
    pub fn checksum(mut self, checksum: bool) -> Self {
        self.mirror.sameness = if checksum { Sameness::Content } else { Sameness::default() };
        self
    }

    /// The task that it stands for.
    pub fn task(&self) -> Task {
        Task::Sync(self.request.policy, self.mirror)
    }

    with_contents!();
    with_dry_run!();

    /// Runs it over the connections of `session`; see [`Self::run`].
    ///
    /// # Errors
    /// See [`Self::run`].
    pub fn run_in(&self, session: &Session, events: &dyn Monitor) -> Result<Summary, Error> {
        let parts = When::During.parts(self.request.policy, &self.mirror);
        session.run(&self.request, self.task(), &parts, &Request::refuse_to_mirror, events)
    }
}

/// Moves files and directories: a source is renamed where that is possible, else copied, compared
/// with its copy by content, and removed.
#[derive(Debug, Clone)]
pub struct Move {
    request: Request,
}

impl Move {
    /// Moves `sources` into the directory `dest`. A single source gets the name `dest` if that is
    /// not a directory. A source of which the destination can't hold all attributes stays.
    pub fn new(sources: impl IntoIterator<Item = Location>, dest: Location) -> Self {
        let mut request = Request::new(sources.into_iter().collect(), dest);
        let moving = Moving::Whole;
        request.recursive = true;
        let keeps = moving.keeps();
        request.policy = Policy { sync: true, moving: Some(moving), keeps, ..Policy::default() };
        Self { request }
    }

    /// Replaces or keeps existing files by this rule.
    #[must_use]
    pub fn existing(mut self, conflict: Conflict) -> Self {
        self.request.policy.conflict = conflict;
        self
    }

    with_contents!();

    /// Runs it over the connections of `session`; see [`Self::run`].
    ///
    /// # Errors
    /// See [`Self::run`].
    pub fn run_in(&self, session: &Session, events: &dyn Monitor) -> Result<Summary, Error> {
        session.run_move(&self.request, events)
    }
}

/// Compares sources with a destination, and changes nothing.
///
/// [`Summary::has_differences`] tells if there are any; each is an event.
#[derive(Debug, Clone)]
pub struct Check {
    request: Request,
    by_content: bool,
}

impl Check {
    /// Compares what a [`struct@Copy`] with the same sources and destination would copy with what is
    /// there: kinds, sizes, modes and times.
    pub fn new(sources: impl IntoIterator<Item = Location>, dest: Location) -> Self {
        let Copy { request } = Copy::new(sources, dest);
        Self { request, by_content: false }
    }

    /// Compares the contents of files by their hashes, too.
    #[must_use]
    pub fn content(mut self, by_content: bool) -> Self {
        self.by_content = by_content;
        self
    }

    common!();

    /// Runs it over the connections of `session`; see [`Self::run`].
    ///
    /// # Errors
    /// See [`Self::run`].
    pub fn run_in(&self, session: &Session, events: &dyn Monitor) -> Result<Summary, Error> {
        let task = Task::Check { content: self.by_content, keeps: self.request.policy.keeps };
        session.run(&self.request, task, &[task], &Request::refuse_to_check, events)
    }
}

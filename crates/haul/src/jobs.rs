//! The requests that a caller builds: [`struct@Copy`], [`Sync`], [`Move`] and [`Check`].

use crate::error::Error;
use crate::location::Location;
use crate::request::{DeleteTiming, Request};
use crate::session::Session;
use haul_engine::{Monitor, Summary};
use haul_model::{
    Action, Compression, Conflict, Delete, FilterError, Kept, Mirror, Moving, Pattern, Policy,
    Rule, Sameness, Task,
};
use std::num::NonZeroU64;

/// Methods of all requests.
macro_rules! common {
    () => {
        /// Runs the request over connections of its own, and reports to `events`.
        ///
        /// The failure of a single entry is an event, and is counted in [`Summary::failed`]. The
        /// other entries are processed. After an error, call this again: it skips finished files
        /// and resumes an unfinished large file.
        ///
        /// # Errors
        /// If the request is invalid, a connection fails, the destination as a whole can't be used,
        /// or `events` cancels the request.
        pub fn run(&self, events: &dyn Monitor) -> Result<Summary, Error> {
            self.run_in(&Session::new(), events)
        }
    };
}

/// Methods of requests that can leave entries out. A move takes all that is named.
macro_rules! with_rules {
    () => {
        /// Excludes entries that match `pattern`, with the syntax of rsync: `*.o` matches in every
        /// directory, `/build/` the directory at the top of a source.
        ///
        /// # Errors
        /// If the pattern is empty or too long, or there are too many.
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

        /// Sends at most `bytes` of content per second over connections to other machines. Default:
        /// no limit.
        #[must_use]
        pub fn rate_max(mut self, bytes: NonZeroU64) -> Self {
            self.request.transfer_options.rate = Some(bytes);
            self
        }

        /// Sets the compression of data for other machines. By default haul compresses where that
        /// is faster.
        #[must_use]
        pub fn compression(mut self, compression: Compression) -> Self {
            self.request.transfer_options.compression = compression;
            self
        }

        /// Reads each file back from its medium before it gets its name. Default: false.
        #[must_use]
        pub fn verify(mut self, verify: bool) -> Self {
            self.request.policy.verify = verify;
            self
        }
    };
}

/// Methods of requests that support a dry run.
macro_rules! with_dry_run {
    () => {
        /// Changes nothing, and reports what would be done. Default: false.
        #[must_use]
        pub fn dry_run(mut self, dry_run: bool) -> Self {
            self.request.policy.dry_run = dry_run;
            self
        }

        /// Flushes everything to stable storage before the request ends. Default: false.
        #[must_use]
        pub fn flush(mut self, flush: bool) -> Self {
            self.request.policy.sync = flush;
            self
        }
    };
}

/// A request that copies files and directories. It replaces existing files that differ, and removes
/// nothing.
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
    /// Copies `sources`, directories with their content, into the directory `dest`. If `dest` is
    /// not a directory, a single source gets that name. Modes and times are kept.
    pub fn new(sources: impl IntoIterator<Item = Location>, dest: Location) -> Self {
        let mut request = Request::new(sources.into_iter().collect(), dest);
        request.recursive = true;
        request.policy.keeps = Kept::OF_COPIES;
        Self { request }
    }

    /// Keeps all attributes that the destination can hold: also owners, hard links, ACLs, extended
    /// attributes and special files. Default: false.
    #[must_use]
    pub fn archive(mut self, archive: bool) -> Self {
        self.request.policy.keeps = if archive { Kept::OF_ARCHIVES } else { Kept::OF_COPIES };
        self
    }

    /// Copies the targets of symbolic links in place of the links. Default: false.
    #[must_use]
    pub fn follow_links(mut self, follow: bool) -> Self {
        self.request.follow = follow;
        self
    }

    /// Sets when existing files are replaced. Default: when they differ.
    #[must_use]
    pub fn existing(mut self, conflict: Conflict) -> Self {
        self.request.policy.conflict = conflict;
        self
    }

    with_contents!();
    with_rules!();
    with_dry_run!();

    /// Runs the request over the connections of `session`; see [`Self::run`].
    ///
    /// # Errors
    /// See [`Self::run`].
    pub fn run_in(&self, session: &Session, events: &dyn Monitor) -> Result<Summary, Error> {
        let task = Task::Copy(self.request.policy);
        session.run(&self.request, task, &[task], &|_| Ok(()), events)
    }
}

/// A request that makes a directory like another, as `haul sync -a` and `rsync -a` do. It copies
/// only changed files, and of a changed file only the difference.
///
/// A source that ends with a slash stands for the content of the directory.
#[derive(Debug, Clone)]
pub struct Sync {
    request: Request,
    mirror: Mirror,
}

impl Sync {
    /// Makes `dest` like `sources`, which must be on one machine. Modes, times, owners, links and
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

    /// Removes entries that only the destination has. Nothing is removed in a directory whose
    /// source could not be read completely. Default: false.
    #[must_use]
    pub fn delete(mut self, delete: bool) -> Self {
        self.mirror.delete = delete.then(Delete::default);
        self.mirror.replaces_dirs = delete;
        self
    }

    /// Removes at most `entries` entries. Default: no limit.
    #[must_use]
    pub fn delete_max(mut self, entries: u64) -> Self {
        self.mirror.delete_max = Some(entries);
        self
    }

    /// Compares the contents of files in place of their sizes and times. Default: false.
    #[must_use]
    pub fn checksum(mut self, checksum: bool) -> Self {
        self.mirror.sameness = if checksum { Sameness::Content } else { Sameness::default() };
        self
    }

    /// The task of the request.
    pub fn task(&self) -> Task {
        Task::Sync(self.request.policy, self.mirror)
    }

    with_contents!();
    with_rules!();
    with_dry_run!();

    /// Runs the request over the connections of `session`; see [`Self::run`].
    ///
    /// # Errors
    /// See [`Self::run`].
    pub fn run_in(&self, session: &Session, events: &dyn Monitor) -> Result<Summary, Error> {
        let parts = DeleteTiming::During.parts(self.request.policy, &self.mirror);
        session.run(&self.request, self.task(), &parts, &Request::refuse_to_mirror, events)
    }
}

/// A request that moves files and directories. It renames a source where possible. Otherwise it
/// copies the source, compares the contents with the copy, and removes the source.
#[derive(Debug, Clone)]
pub struct Move {
    request: Request,
}

impl Move {
    /// Moves `sources` into the directory `dest`. If `dest` is not a directory, a single source
    /// gets that name. A source is kept if the destination can't hold all its attributes.
    pub fn new(sources: impl IntoIterator<Item = Location>, dest: Location) -> Self {
        let mut request = Request::new(sources.into_iter().collect(), dest);
        let moving = Moving::Whole;
        request.recursive = true;
        let keeps = moving.keeps();
        request.policy = Policy { sync: true, moving: Some(moving), keeps, ..Policy::default() };
        Self { request }
    }

    /// Sets when existing files are replaced. Default: when they differ.
    #[must_use]
    pub fn existing(mut self, conflict: Conflict) -> Self {
        self.request.policy.conflict = conflict;
        self
    }

    with_contents!();

    /// Runs the request over the connections of `session`; see [`Self::run`].
    ///
    /// # Errors
    /// See [`Self::run`].
    pub fn run_in(&self, session: &Session, events: &dyn Monitor) -> Result<Summary, Error> {
        session.run_move(&self.request, events)
    }
}

/// A request that compares sources with a destination, and changes nothing.
///
/// Each difference is an event. [`Summary::has_differences`] is true if there are any.
#[derive(Debug, Clone)]
pub struct Check {
    request: Request,
    by_content: bool,
}

impl Check {
    /// Compares the entries that a [`struct@Copy`] of `sources` to `dest` would copy with the
    /// existing entries: kinds, sizes, modes and times.
    pub fn new(sources: impl IntoIterator<Item = Location>, dest: Location) -> Self {
        let Copy { request } = Copy::new(sources, dest);
        Self { request, by_content: false }
    }

    /// Compares the contents of files by their hashes, too. Default: false.
    #[must_use]
    pub fn content(mut self, by_content: bool) -> Self {
        self.by_content = by_content;
        self
    }

    common!();
    with_rules!();

    /// Runs the request over the connections of `session`; see [`Self::run`].
    ///
    /// # Errors
    /// See [`Self::run`].
    pub fn run_in(&self, session: &Session, events: &dyn Monitor) -> Result<Summary, Error> {
        let task = Task::Check { content: self.by_content, keeps: self.request.policy.keeps };
        session.run(&self.request, task, &[task], &Request::refuse_to_check, events)
    }
}

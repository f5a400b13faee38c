//! Events and figures of a running job. The engine never prints: it counts into
//! [`Progress`] and hands [`Event`]s to the [`Monitor`] that the caller gave.

use crate::census::{Census, Counting};
use crate::told::Told;
use haul_model::{
    Changes, ContentHash, Entry, Fault, Kind, Naming, Outcome, Side, Skip, Summary, Task,
};
use parking_lot::Mutex;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Something that the monitor may show.
#[derive(Debug)]
pub enum Event<'a> {
    /// The fate of an entry is known. `path` is relative to the destination
    /// and raw: escape it before showing it.
    Entry {
        /// The number by which [`Monitor::listed`] was told of it; none if it has an outcome
        /// besides.
        number: Option<u64>,
        /// The entry's path, beginning with the source's own name; empty if
        /// [`Monitor::shows`] said that it is not needed.
        path: &'a [u8],
        /// Its kind.
        kind: &'a Kind,
        /// Its fate.
        outcome: &'a Outcome,
    },
    /// In a check: only the destination has it. What is in a directory that only
    /// the destination has is not told of.
    Extra {
        /// Its path, as that of an entry would be, raw.
        path: &'a [u8],
        /// Its kind.
        kind: &'a Kind,
    },
    /// The Receiver has made the destination; in a dry run it would. Told before the first
    /// outcome.
    Made {
        /// The path of the destination, raw; that of the directory above, if the source gets
        /// the destination's name.
        path: &'a [u8],
        /// How many directories were missing on the way to it, with itself.
        dirs: u64,
    },
    /// In a job that lists its sources: one of their entries, in their order.
    Listed {
        /// Its path, as that of an entry would be, raw.
        path: &'a [u8],
        /// All that was asked for of it.
        entry: &'a Entry,
    },
    /// In a mirror: only the destination had it, and it was removed; in a dry run it would
    /// be. What is in a directory is told before it.
    Deleted {
        /// Its path, as that of an entry would be, raw.
        path: &'a [u8],
        /// Its kind.
        kind: &'a Kind,
    },
    /// In a move: what the destination has now was removed from the source, or
    /// could not be.
    Removed {
        /// Its path, raw.
        path: &'a [u8],
        /// Its kind.
        kind: &'a Kind,
        /// Why it stays, if it does.
        result: Result<(), &'a Fault>,
    },
    /// In a move: a source, or a file or link of one, is at its new place and removed from the
    /// old.
    Moved {
        /// Its path, raw.
        path: &'a [u8],
        /// It has got a new name, and was not copied.
        renamed: bool,
    },
    /// In a move: something stays, and counts as failed.
    Stays {
        /// Its path, raw.
        path: &'a [u8],
        /// The place that the fault is about.
        at: At<'a>,
        /// Why.
        fault: &'a Fault,
        /// The destination has it: only removing it has failed.
        is_copied: bool,
    },
    /// Worth telling, though nothing failed.
    Warning {
        /// The side that it is about; `None` if that is a host, or the way to it.
        side: Option<Side>,
        /// The path that it is about, raw.
        path: &'a [u8],
        /// The words.
        message: &'a str,
    },
    /// News of the connection.
    Link(LinkEvent<'a>),
}

/// The place that a fault is about.
#[derive(Debug, Clone, Copy)]
pub enum At<'a> {
    /// On that host, or here.
    Named {
        /// Its name, safe to show.
        host: Option<&'a str>,
        /// The path there, raw, as the user's words make it.
        path: &'a [u8],
    },
    /// The entry of the event, on the fault's side of the job that removes: the last of
    /// [`Machines::remove`](crate::Machines::remove).
    Entry(Naming),
}

/// News of the connections to a host.
#[derive(Debug, Clone, Copy)]
pub enum LinkEvent<'a> {
    /// It was lost or could not be made again, and will be made once more.
    Lost {
        /// The host, safe to show.
        host: &'a str,
        /// Why, safe to show.
        reason: &'a str,
        /// The number of the coming attempt, from 1, since the job has come further last.
        attempt: u32,
        /// How long is waited before it.
        pause: Duration,
    },
    /// After that, the host has greeted again.
    Regained,
    /// The host is reached by its server.
    Server {
        /// The host, safe to show.
        host: &'a str,
        /// By QUIC, and not by TCP.
        is_quic: bool,
    },
    /// The server of the host does not answer, and ssh takes its place.
    ServerAway {
        /// The host, safe to show.
        host: &'a str,
        /// Why it does not, safe to show.
        reason: &'a str,
    },
    /// Contents take connections past ssh from now on.
    Direct {
        /// The host, safe to show.
        host: &'a str,
        /// How many there are.
        connections: u8,
    },
    /// There are none of these, and contents go through ssh.
    NotDirect {
        /// The host, safe to show.
        host: &'a str,
        /// Why, safe to show.
        reason: &'a str,
    },
    /// Contents take further logins, too.
    LoggedIn {
        /// The host, safe to show.
        host: &'a str,
        /// How many connections there are, with the first.
        connections: u8,
    },
    /// The host had no haul, and has one now.
    Deployed {
        /// The host, safe to show.
        host: &'a str,
        /// The length of the program, in bytes.
        bytes: u64,
        /// The change there.
        change: Change,
    },
    /// No further login joins the job any more.
    NotLoggedIn {
        /// The host, safe to show.
        host: &'a str,
        /// Why, safe to show.
        reason: &'a str,
    },
}

impl LinkEvent<'_> {
    /// True if it says by which connections contents go, and nothing is wrong.
    pub fn is_detail(&self) -> bool {
        !matches!(self, Self::Lost { .. } | Self::Regained | Self::Deployed { .. })
    }
}

/// The result of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// There was none.
    New,
    /// Another one was replaced.
    Replaced,
    /// The very same was there, and nothing was done.
    Nothing,
}

/// Figures of a running job, or of jobs that run one after the other. Totals and sums only
/// grow, except that a file which is begun once more takes its bytes back.
#[derive(Debug, Default)]
pub struct Progress {
    /// Regular files found so far.
    pub files_total: AtomicU64,
    /// Bytes in them.
    pub bytes_total: AtomicU64,
    /// All entries were found: the totals are final.
    pub listed_all: AtomicBool,
    /// Regular files whose fate is known.
    pub files_done: AtomicU64,
    /// Bytes of content copied, skipped or given up, holes included.
    pub bytes_done: AtomicU64,
    /// Bytes of content that were transferred, without holes, for the rate.
    pub bytes_transferred: AtomicU64,
    /// Bytes of content that have passed through this process, from one host to another.
    pub relayed: AtomicU64,
    /// More connections are being made: ssh may be asking for a password on the
    /// terminal.
    pub asking: AtomicBool,
    /// Bytes that a comparison has hashed on this side, for the rate.
    pub bytes_hashed: AtomicU64,
    /// The other side is there, or it is this one: nobody has to log in any more.
    pub reached: AtomicBool,
    /// For how long nothing has come from a peer that is listened to, in milliseconds.
    pub silent_ms: AtomicU64,
    current: Current,
    unfinished: Mutex<Option<Unfinished>>,
    /// The names that entries get are [`Naming::Given`].
    gives_name: AtomicBool,
    /// The job that runs has told its names.
    has_named: AtomicBool,
    pub(crate) tally: Tally,
    pub(crate) census: Counting,
    pub(crate) told: Told,
    counted: Counted,
}

/// The counters that a job fills from the start again each time that it is run.
#[derive(Debug, Default)]
struct Counted {
    /// The part of each counter that earlier runs have counted and this one has not yet.
    ahead: [AtomicU64; 4],
    /// Its value when the job began.
    at_begin: [AtomicU64; 4],
}

/// One of the counters that are filled again.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Counter {
    FilesTotal,
    BytesTotal,
    FilesDone,
    BytesDone,
}

/// A file of which a part is kept when the job ends now, for a later one to go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    index: u64,
    /// Its path, raw, and as that of its entry.
    pub path: Vec<u8>,
    /// The bytes that a later job finds there, or more; `None` if only the other machine
    /// knows.
    pub bytes: Option<u64>,
}

/// The file that is at work, noted only if somebody has asked for it.
#[derive(Debug, Default)]
struct Current {
    asked: AtomicBool,
    path: Mutex<Vec<u8>>,
}

impl Progress {
    /// Adds `n` to a counter.
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    /// Adds `n` to a counter, unless an earlier run of the job has.
    pub(crate) fn count(&self, which: Counter, n: u64) {
        let ahead = &self.counted.ahead[which as usize];
        let mut n = n;
        if ahead.load(Ordering::Relaxed) > 0 {
            let taken = ahead.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |ahead| {
                Some(ahead.saturating_sub(n))
            });
            n -= taken.unwrap_or(0).min(n);
        }
        Self::add(self.counters()[which as usize], n);
    }

    /// Takes `n` off a counter, which then counts them again.
    pub(crate) fn take_off(counter: &AtomicU64, n: u64) {
        let less = |now: u64| Some(now.saturating_sub(n));
        let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    fn counters(&self) -> [&AtomicU64; 4] {
        [&self.files_total, &self.bytes_total, &self.files_done, &self.bytes_done]
    }

    /// The job that was begun may lose its connection, and be run again. The paths of its
    /// sources begin in `base`.
    pub fn keep(&self, task: &Task, base: Option<&[u8]>) {
        self.told.keep(task, base);
    }

    /// The job is run again, since its connection was lost: what it has told and counted
    /// is not told and counted again. `false` if it can't be: see [`Self::keep`].
    pub fn again(&self) -> bool {
        if !self.told.again() {
            return false;
        }
        for (at, counter) in self.counters().into_iter().enumerate() {
            let begin = self.counted.at_begin[at].load(Ordering::Relaxed);
            let so_far = counter.load(Ordering::Relaxed).saturating_sub(begin);
            self.counted.ahead[at].store(so_far, Ordering::Relaxed);
        }
        self.census.begin();
        self.asking.store(true, Ordering::Relaxed);
        self.reached.store(false, Ordering::Relaxed);
        self.silent_ms.store(0, Ordering::Relaxed);
        true
    }

    /// A number that changes when the job that runs comes further than it ever was.
    pub fn furthest(&self) -> u64 {
        let outcomes = Summary { bytes_transferred: 0, bytes_resumed: 0, ..self.summary() };
        let done = [&self.files_done, &self.bytes_done].map(|done| done.load(Ordering::Relaxed));
        let mut hasher = DefaultHasher::new();
        format!("{outcomes:?} {done:?}").hash(&mut hasher);
        hasher.finish()
    }

    /// The path of a file that was at work when this was asked the last time, or since;
    /// raw, and as that of its entry. Empty if there was none.
    pub fn current(&self) -> Vec<u8> {
        self.current.asked.store(true, Ordering::Relaxed);
        self.current.path.lock().clone()
    }

    /// The file that a later job goes on with; of several, the one that came further last.
    pub fn unfinished(&self) -> Option<Unfinished> {
        self.unfinished.lock().clone()
    }

    /// The names that entries get at the destination, once the Receiver has told them.
    pub fn naming(&self) -> Naming {
        if self.gives_name.load(Ordering::Relaxed) { Naming::Given } else { Naming::Own }
    }

    /// A job begins: what was known of the one before it means nothing any more.
    pub fn begin(&self) {
        self.listed_all.store(false, Ordering::Relaxed);
        self.reached.store(false, Ordering::Relaxed);
        self.set_naming(Naming::Own);
        self.has_named.store(false, Ordering::Relaxed);
        self.asking.store(false, Ordering::Relaxed);
        *self.unfinished.lock() = None;
        self.told.begin();
        self.census.begin();
        for (at, counter) in self.counters().into_iter().enumerate() {
            let begin = counter.load(Ordering::Relaxed);
            self.counted.at_begin[at].store(begin, Ordering::Relaxed);
            self.counted.ahead[at].store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn set_naming(&self, naming: Naming) {
        self.gives_name.store(naming == Naming::Given, Ordering::Relaxed);
        self.has_named.store(true, Ordering::Relaxed);
    }

    /// True if the other side of the job that runs, or has ended, has greeted.
    pub fn reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    /// The names that the Receiver has told, if it has.
    pub fn named(&self) -> Option<Naming> {
        self.has_named.load(Ordering::Relaxed).then(|| self.naming())
    }

    /// Of the large file with that number so many bytes are kept, which only the other
    /// machine knows if there are none.
    pub(crate) fn keeps(&self, index: u64, bytes: Option<u64>, path: impl FnOnce() -> Vec<u8>) {
        if bytes == Some(0) {
            return;
        }
        match &mut *self.unfinished.lock() {
            Some(unfinished) if unfinished.index == index => unfinished.bytes = bytes,
            unfinished => *unfinished = Some(Unfinished { index, path: path(), bytes }),
        }
    }

    /// Of a file that a later job goes on with no more than so many bytes are kept.
    pub(crate) fn keeps_at_most(&self, bytes: u64) {
        let mut unfinished = self.unfinished.lock();
        if bytes == 0 {
            *unfinished = None;
        }
        if let Some(unfinished) = &mut *unfinished {
            unfinished.bytes = Some(unfinished.bytes.map_or(bytes, |there| there.min(bytes)));
        }
    }

    /// The large file at `path` has come to its end.
    pub(crate) fn keeps_none(&self, path: &[u8]) {
        let mut unfinished = self.unfinished.lock();
        unfinished.take_if(|unfinished| unfinished.path == path);
    }

    /// The file at `path` is at work.
    pub(crate) fn at(&self, path: impl FnOnce() -> Vec<u8>) {
        let asked = &self.current.asked;
        // Reading alone is as good as free, and that is what many threads do.
        if asked.load(Ordering::Relaxed) && asked.swap(false, Ordering::Relaxed) {
            *self.current.path.lock() = path();
        }
    }

    /// All entries were found.
    pub(crate) fn has_listed_all(&self) {
        self.listed_all.store(true, Ordering::Relaxed);
        self.told.listed_all();
    }

    /// The entries by their kinds: found by the job that runs, or ran last, and made and
    /// removed by all jobs.
    pub fn census(&self) -> Census {
        self.census.read()
    }

    /// The figures so far, of all jobs; those of a job that ended early, too.
    pub fn summary(&self) -> Summary {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let tally = &self.tally;
        Summary {
            copied: get(&tally.copied),
            dirs_made: get(&tally.dirs_made),
            bytes: get(&tally.bytes),
            bytes_transferred: get(&self.bytes_transferred),
            bytes_resumed: get(&tally.bytes_resumed),
            bytes_matched: get(&tally.bytes_matched),
            skipped: get(&tally.skipped),
            special: get(&tally.special),
            different: get(&tally.different),
            missing: get(&tally.missing),
            extra: get(&tally.extra),
            failed: get(&tally.failed),
            grown: get(&tally.grown),
            updated: get(&tally.updated),
            linked: get(&tally.linked),
            deleted: get(&tally.deleted),
            spared: get(&tally.spared),
            renamed: get(&tally.renamed),
            // Those of a move are counted where its parts are put together.
            ..Summary::default()
        }
    }
}

/// Entries, counted by what became of them. The fields are those of [`Summary`].
#[derive(Debug, Default)]
pub(crate) struct Tally {
    copied: AtomicU64,
    dirs_made: AtomicU64,
    bytes: AtomicU64,
    pub(crate) bytes_resumed: AtomicU64,
    pub(crate) bytes_matched: AtomicU64,
    skipped: AtomicU64,
    special: AtomicU64,
    different: AtomicU64,
    missing: AtomicU64,
    pub(crate) extra: AtomicU64,
    failed: AtomicU64,
    grown: AtomicU64,
    updated: AtomicU64,
    linked: AtomicU64,
    pub(crate) deleted: AtomicU64,
    pub(crate) spared: AtomicU64,
    pub(crate) renamed: AtomicU64,
}

impl Tally {
    /// The fate of an entry is known.
    pub(crate) fn count(&self, kind: &Kind, outcome: &Outcome) {
        if *outcome == Outcome::Grew {
            Progress::add(&self.grown, 1);
        }
        let is_new = |found: &Changes| match kind {
            Kind::Dir => found.has_any(Changes::MISSING.with(Changes::LOCAL)),
            _ => found.has_any(Changes::SENT.with(Changes::LOCAL)),
        };
        let counter = match (outcome, kind) {
            (Outcome::Linked { first, .. }, _) if first.is_empty() => &self.skipped,
            (Outcome::Linked { .. }, _) => &self.linked,
            (Outcome::Synced(found), _) if found.has(Changes::LOCAL.with(Changes::LINKED)) => {
                &self.linked
            }
            (Outcome::Synced(found), _) if !is_new(found) => &self.updated,
            (Outcome::Synced(_), Kind::Dir) => &self.dirs_made,
            (Outcome::Copied | Outcome::WouldCopy, Kind::Dir) => &self.dirs_made,
            (Outcome::Copied | Outcome::WouldCopy | Outcome::Grew | Outcome::Synced(_), _) => {
                if let Kind::File { size } = kind {
                    Progress::add(&self.bytes, *size);
                }
                &self.copied
            }
            (Outcome::Skipped(Skip::Special), _) => &self.special,
            // That a directory exists is no news, nor what rules are not about.
            (Outcome::Skipped(_), Kind::Dir) | (Outcome::Skipped(Skip::Ruled), _) => return,
            (Outcome::Skipped(_), _) => &self.skipped,
            (Outcome::Failed(_), _) => &self.failed,
            (Outcome::Differs(found), _) if found.has(Changes::MISSING) => &self.missing,
            (Outcome::Differs(_), _) => &self.different,
        };
        Progress::add(counter, 1);
    }
}

/// Receives what a job tells. Called from several threads at once.
pub trait Monitor: Sync {
    /// The counters that the job updates and that the monitor may read any time.
    fn progress(&self) -> &Progress;

    /// Takes an event; must be quick, the job waits for it.
    fn event(&self, event: Event<'_>);

    /// An entry of the sources was listed, and gets that number until its fate is known. Must
    /// be as quick as possible.
    fn listed(&self, _number: u64, _entry: &Entry) {}

    /// False if [`Event::Entry`] of such an entry is counted only: its path may be left
    /// empty then. Must be as quick as possible.
    fn shows(&self, _kind: &Kind, _outcome: &Outcome) -> bool {
        true
    }

    /// True if [`Self::hashed`] is of use: local copies are hashed for that alone.
    fn wants_hashes(&self) -> bool {
        false
    }

    /// The content of the file of that number has this hash. Called before its fate is known,
    /// where this side knows the hash.
    fn hashed(&self, _number: u64, _hash: ContentHash) {}

    /// True if the job shall stop: asked often, and answered `true` for good
    /// once the user has interrupted.
    fn cancelled(&self) -> bool;
}

/// A monitor for a job that nobody watches.
#[derive(Debug, Default)]
pub struct Silent(Progress);

impl Monitor for Silent {
    fn progress(&self) -> &Progress {
        &self.0
    }

    fn event(&self, _: Event<'_>) {}

    fn shows(&self, _: &Kind, _: &Outcome) -> bool {
        false
    }

    fn cancelled(&self) -> bool {
        false
    }
}

//! Retries after a lost connection. The job is run again: it skips finished files by comparison,
//! and resumes an unfinished file from its journal.
//!
//! Only failures that may pass by themselves are retried: a connection that broke, is silent, or
//! can't be made at the moment. The host must have greeted in this command.

use crate::error::Error;
use haul_engine::{Event, Job, JobError, LinkEvent, Monitor, Progress, Summary};
use haul_model::{
    Conflict, ContentHash, Entry, Kept, Kind, Mirror, Naming, Outcome, Sameness, Task, Updating,
};
use haul_net::ConnectError;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The pause before the first attempt. It doubles with each further attempt.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Interval at which a pause checks whether the user has cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// A job that is run again after each lost connection.
pub(crate) struct Retry<'j, 'm> {
    pub(crate) job: &'j Job,
    /// The destination is on the host.
    pub(crate) is_upload: bool,
    /// The sources are on this machine.
    pub(crate) has_local_sources: bool,
    /// Maximum number of attempts in a row to reconnect.
    pub(crate) retries: u32,
    pub(crate) monitor: &'m dyn Monitor,
    /// The host, for messages.
    pub(crate) host: String,
    /// Returns true if the host has greeted in this command, or all hosts that take part.
    pub(crate) has_greeted: &'j dyn Fn() -> bool,
}

impl Retry<'_, '_> {
    /// Runs the job with `once`, whose second argument is true in the first run. Returns the
    /// figures of all runs.
    ///
    /// # Errors
    /// The error of the last run.
    pub(crate) fn run(
        self,
        mut once: impl FnMut(&Job, bool, &dyn Monitor) -> Result<Summary, Error>,
    ) -> Result<Summary, Error> {
        let (progress, mut job) = (self.monitor.progress(), self.job.clone());
        if self.retries == 0 || !may_be_repeated(&job, self.is_upload, self.has_local_sources) {
            return once(&job, true, self.monitor);
        }
        // Without a token, the agent of a lost connection holds its locks until it notices the
        // loss.
        job.token = haul_engine::secret().ok();
        progress.keep(&job.task, &job.sources);
        let watch = WarnOnce::new(self.monitor);
        let before = progress.summary();
        let (mut furthest, mut attempt, mut is_first) = (progress.furthest(), 0, true);
        let (mut was_reached, mut has_greeted) = (false, false);
        loop {
            let lost = match once(&job, is_first, &watch) {
                Ok(summary) if is_first => return Ok(summary),
                Ok(last) => return Ok(total_of_runs(progress.summary().since(before), last)),
                Err(Error::Job(JobError::Connection(error))) if watch.is_loss(&error) => error,
                Err(error) => return Err(error),
            };
            is_first = false;
            was_reached |= progress.reached();
            has_greeted |= was_reached || (self.has_greeted)();
            if std::mem::replace(&mut furthest, progress.furthest()) != furthest {
                attempt = 0;
            }
            let next = next_run(&job, self.job, progress, before, was_reached);
            let may_go_on = has_greeted && attempt < self.retries && progress.begin_rerun();
            let Some(next) = next.filter(|_| may_go_on) else {
                return Err(given_up(lost, has_greeted).into());
            };
            job = next;
            attempt += 1;
            pause(self.monitor, &self.host, attempt, &lost.to_string())?;
        }
    }
}

/// True if the user has cancelled, perhaps a moment after a connection broke: Ctrl-C reaches ssh,
/// too, and the broken connection may be noticed before the signal.
fn is_cancelled_soon(monitor: &dyn Monitor) -> bool {
    monitor.cancelled() || {
        thread::sleep(CANCEL_POLL);
        monitor.cancelled()
    }
}

/// True if the user has cancelled, which may have caused `error`.
pub(crate) fn is_interrupted(error: &Error, monitor: &dyn Monitor) -> bool {
    match error.connection().is_some_and(ConnectError::retriable) {
        true => is_cancelled_soon(monitor),
        false => monitor.cancelled(),
    }
}

/// Reports a lost connection to `host`, and waits before the next attempt.
///
/// # Errors
/// If the user cancels.
fn pause(monitor: &dyn Monitor, host: &str, attempt: u32, reason: &str) -> Result<(), JobError> {
    if is_cancelled_soon(monitor) {
        return Err(JobError::Interrupted);
    }
    let pause = PAUSE_MIN.saturating_mul(1 << (attempt - 1).min(16)).min(PAUSE_MAX);
    monitor.event(Event::Link(LinkEvent::Lost { host, reason, attempt, pause }));
    let end = Instant::now() + pause;
    while Instant::now() < end {
        if monitor.cancelled() {
            return Err(JobError::Interrupted);
        }
        thread::sleep(CANCEL_POLL.min(end.saturating_duration_since(Instant::now())));
    }
    Ok(())
}

/// Attempts in a row to ask a host something. An error that can't be retried ends them at once.
pub(crate) struct Attempts<'m> {
    monitor: &'m dyn Monitor,
    failed: u32,
    /// `Lost` was reported, but `Reconnected` was not.
    is_lost: bool,
}

impl<'m> Attempts<'m> {
    /// Creates the counter. `monitor` is notified of lost and regained connections.
    pub(crate) fn new(monitor: &'m dyn Monitor) -> Self {
        Self { monitor, failed: 0, is_lost: false }
    }

    /// Records that a connection was made.
    pub(crate) fn connected(&mut self) {
        if std::mem::take(&mut self.is_lost) {
            self.monitor.event(Event::Link(LinkEvent::Reconnected));
        }
    }

    /// Records that the connection returned a new part of the answer. Failed attempts are counted
    /// from 0 again.
    pub(crate) fn made_progress(&mut self) {
        self.failed = 0;
    }

    /// Waits after an attempt that failed with `error`, if fewer than `retries` failed in a row.
    /// `retries` is 0 for a host that has not greeted.
    ///
    /// # Errors
    /// `error`, if there is no further attempt. Also if the user cancels.
    pub(crate) fn wait(&mut self, host: &str, retries: u32, error: Error) -> Result<(), Error> {
        let is_lost = error.connection().is_some_and(ConnectError::retriable);
        if !is_lost || self.failed >= retries {
            return Err(match is_interrupted(&error, self.monitor) {
                true => JobError::Interrupted.into(),
                false => match error {
                    Error::Job(JobError::Connection(lost)) if is_lost && retries > 0 => {
                        given_up(lost, true).into()
                    }
                    error => error,
                },
            });
        }
        (self.failed, self.is_lost) = (self.failed + 1, true);
        Ok(pause(self.monitor, host, self.failed, &error.to_string())?)
    }
}

/// The error of a job that is not run again. If a host had greeted, a failure to reconnect is
/// reported as a lost connection.
fn given_up(error: ConnectError, has_greeted: bool) -> ConnectError {
    match error {
        ConnectError::Unreachable { host, detail } if has_greeted => {
            ConnectError::Lost { host, detail: format!("can't reconnect: {detail}") }
        }
        error => error,
    }
}

/// The job for the next run. `None` if it could have another meaning by now, which is possible only
/// if the other side was reached.
fn next_run(
    job: &Job,
    first: &Job,
    progress: &Progress,
    before: Summary,
    was_reached: bool,
) -> Option<Job> {
    let mut job = Job { token: job.token, ..first.clone() };
    // The first run may have created the destination under this name, so that its meaning depends
    // on it.
    let may_be_name = !job.dest.into_dir && !job.dest.path.ends_with(b"/");
    // A move has found out before: without a slash, the destination is the new name.
    let is_moved = job.task.moving().is_some() && job.task.mirrors().is_none();
    job.dest.naming = progress.named().or((may_be_name && is_moved).then_some(Naming::Given));
    if was_reached && job.dest.naming.is_none() && job.dest.origin.is_some() && may_be_name {
        return None;
    }
    if job.dest.naming == Some(Naming::Own) && job.task.mirrors().is_none() {
        job.dest.origin = None;
    }
    if let Task::Sync(_, Mirror { delete_max: Some(max), .. }) = &mut job.task {
        *max = max.saturating_sub(progress.summary().since(before).deleted);
    }
    Some(job)
}

/// The figures of all runs. Some are counted by the other side alone, and come from the `last` run.
fn total_of_runs(all: Summary, last: Summary) -> Summary {
    let (failed, spared) = (all.failed.max(last.failed), all.spared.max(last.spared));
    Summary { failed, spared, renamed: all.renamed.max(last.renamed), ..all }
}

/// True if a second run of the job keeps what the first has finished.
fn may_be_repeated(job: &Job, is_upload: bool, has_local_sources: bool) -> bool {
    if job.task.lists() {
        return false;
    }
    let Some(policy) = job.task.copies().filter(|policy| !policy.dry_run) else { return true };
    let sameness = job.task.mirrors().map(|mirror| mirror.sameness).unwrap_or_default();
    let is_known = match policy.conflict {
        Conflict::ReplaceAll => false,
        Conflict::Keep | Conflict::ReplaceOlder => true,
        Conflict::ReplaceChanged => {
            sameness != Sameness::SizeAndTime || policy.keeps.has(Kept::TIMES)
        }
    };
    // Removals that were not reported can't be counted.
    let is_counted =
        is_upload && job.task.mirrors().is_some_and(|mirror| mirror.delete_max.is_some());
    // A file that was partly overwritten would be kept as newer, or backed up as the old version.
    let hides_mixture = job.task.mirrors().is_some_and(|mirror| {
        let is_hidden = mirror.skips_newer || job.dest.backup.is_some();
        mirror.updating != Updating::Replaces && is_hidden
    });
    let is_read_once = has_local_sources && job.sources.paths.iter().any(|path| is_stream(path));
    is_known && ![is_counted, hides_mixture, is_read_once].contains(&true)
}

/// True if the local file at `path` can be read only once.
pub fn is_stream(path: &[u8]) -> bool {
    let kind = fs::metadata(OsStr::from_bytes(path)).map(|found| found.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_char_device() || kind.is_socket())
}

/// Maximum number of messages that are remembered.
const REPORTED_MAX: usize = 4096;

/// The messages that were reported, to report each once. These are messages about sources, which
/// are the same for all destinations, and warnings of a job that is run again.
#[derive(Default)]
pub struct ReportedOnce(Mutex<HashSet<u64>>);

impl ReportedOnce {
    /// True if the message was not reported before. At most `REPORTED_MAX` messages are remembered.
    pub fn is_new(&self, path: &[u8], message: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        (path, message).hash(&mut hasher);
        let mut reported = self.0.lock();
        match reported.len() {
            REPORTED_MAX.. => !reported.contains(&hasher.finish()),
            _ => reported.insert(hasher.finish()),
        }
    }
}

/// The monitor of several runs, which passes on each warning once.
pub struct WarnOnce<'m> {
    monitor: &'m dyn Monitor,
    warned: ReportedOnce,
    /// Direct connections were open.
    used_direct: AtomicBool,
}

impl<'m> WarnOnce<'m> {
    /// Creates one that passes events on to `monitor`.
    pub fn new(monitor: &'m dyn Monitor) -> Self {
        Self { monitor, warned: ReportedOnce::default(), used_direct: AtomicBool::new(false) }
    }

    /// True if a run that ends with `error` may be retried. If direct connections were open before,
    /// the failure to make one counts as a loss, too.
    fn is_loss(&self, error: &ConnectError) -> bool {
        if matches!(error, ConnectError::DirectLost { .. }) {
            self.used_direct.store(true, Ordering::Relaxed);
        }
        let used_direct = self.used_direct.load(Ordering::Relaxed);
        let is_undone = matches!(error, ConnectError::NotDirect { .. });
        error.retriable() || is_undone && used_direct
    }
}

impl Monitor for WarnOnce<'_> {
    fn progress(&self) -> &Progress {
        self.monitor.progress()
    }

    fn event(&self, event: Event<'_>) {
        if let Event::Warning { path, message, .. } = event
            && !self.warned.is_new(path, message)
        {
            return;
        }
        if let Event::Link(LinkEvent::Direct { .. }) = event {
            self.used_direct.store(true, Ordering::Relaxed);
        }
        self.monitor.event(event);
    }

    fn listed(&self, number: u64, entry: &Entry) {
        self.monitor.listed(number, entry);
    }

    fn shows(&self, kind: &Kind, outcome: &Outcome) -> bool {
        self.monitor.shows(kind, outcome)
    }

    fn wants_hashes(&self) -> bool {
        self.monitor.wants_hashes()
    }

    fn hashed(&self, number: u64, hash: ContentHash) {
        self.monitor.hashed(number, hash);
    }

    fn cancelled(&self) -> bool {
        self.monitor.cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::Policy;

    #[test]
    fn a_mirror_that_would_take_a_mixture_for_a_newer_file_is_not_run_again() {
        let policy = Policy { keeps: Kept::TIMES, ..Policy::default() };
        let repeats = |skips_newer, updating| {
            let task = Task::Sync(policy, Mirror { skips_newer, updating, ..Mirror::default() });
            may_be_repeated(&Job { task, ..Job::default() }, true, true)
        };
        for updating in [Updating::Replaces, Updating::InPlace, Updating::Appends] {
            assert!(repeats(false, updating), "{updating:?}");
            assert_eq!(repeats(true, updating), updating == Updating::Replaces, "{updating:?}");
        }
    }
}

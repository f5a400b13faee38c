//! The course of a command's jobs, which run one after the other, as it is reported to the user.

use super::JobMonitor;
use super::job_paths::JobPaths;
use crate::error::{CommandError, ErrorKind};
use haul::{JobObserver, Machine, Next};
use haul_engine::{Monitor, Route, RoutedJob, Summary};
use haul_model::{Mirror, Part};
use std::sync::atomic::Ordering;

impl JobObserver for JobMonitor {
    fn begins(&self, routed_job: &RoutedJob<Machine>, has_more: bool) {
        self.has_more_jobs.store(has_more, Ordering::Relaxed);
        self.progress.begin();
        let is_outgoing = matches!(routed_job.route, Route::Upload(_) | Route::Between(..));
        self.lines.begin(is_outgoing);
        self.removes(routed_job);
        *self.before.lock() = self.progress.summary();
        *self.running.lock() = true;
    }

    fn ends(&self) -> Summary {
        *self.running.lock() = false;
        self.lines.release_all();
        self.report.progress(None);
        self.progress.summary().since(*self.before.lock())
    }

    fn fails(&self, routed_job: &RoutedJob<Machine>, error: haul::Error) -> Next {
        let error = match self.cancelled() {
            // Ctrl-C also interrupts ssh, so the first symptom is a broken connection.
            true => self.interrupted(),
            false => CommandError::from_routed_job(error, routed_job),
        };
        self.report.command_error(&error);
        let mut first_error = self.first_error.lock();
        match error.kind {
            ErrorKind::Interrupted => *first_error = Some(error.kind),
            kind => drop(first_error.get_or_insert(kind)),
        }
        match error.kind {
            // The next host may be reachable.
            ErrorKind::Connection | ErrorKind::Protocol => Next::Continue,
            _ => Next::Stop,
        }
    }

    fn skips_removal(&self, mirror: &Mirror, has_failed: bool) -> bool {
        let ignores = mirror.delete.is_some_and(|delete| delete.ignore_errors);
        let is_unread = self.unread.load(Ordering::Relaxed) > 0 && !ignores;
        let skips_removal = mirror.part == Part::RemovesLast && (has_failed || is_unread);
        if skips_removal && self.report.shows_warnings() {
            let message = "skipping all removals: not all of the source could be read";
            self.report.warning(b".", message);
        }
        skips_removal
    }

    fn removes(&self, routed_job: &RoutedJob<Machine>) {
        // From now on, faults of entries are located by this job.
        *self.job_paths.lock() = JobPaths::of(routed_job);
    }
}

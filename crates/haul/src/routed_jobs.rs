//! The jobs of a request, one after the other.

use crate::error::Error;
use crate::hosts::Hosts;
use crate::location::Machine;
use haul_engine::{Monitor, RoutedJob, Summary};
use haul_model::{Mirror, Task};

/// The decision about further jobs after one that ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The next job is run: its hosts may answer.
    Continue,
    /// No further job is run.
    Stop,
}

/// An observer of jobs that run one after the other.
pub trait JobObserver {
    /// The job of `routed_job` begins; `has_more` if others follow it.
    fn begins(&self, routed_job: &RoutedJob<Machine>, has_more: bool);

    /// The job has ended. Returns its figures as its monitor counted them.
    fn ends(&self) -> Summary;

    /// The job has ended early with `error`.
    fn fails(&self, routed_job: &RoutedJob<Machine>, error: Error) -> Next;

    /// True if the removing part of a mirror is skipped: not all entries of the sources are known,
    /// because a job `has_failed` or for another reason.
    fn skips_removal(&self, _mirror: &Mirror, _has_failed: bool) -> bool {
        false
    }

    /// The job of `routed_job` removes sources of a move.
    fn removes(&self, _leg: &RoutedJob<Machine>) {}
}

/// Runs the jobs of `routed_jobs`, which report to `monitor`. Returns the sum of their figures, and
/// true if one of them ended early.
pub fn run_routed_jobs(
    routed_jobs: Vec<RoutedJob<Machine>>,
    hosts: &Hosts,
    monitor: &dyn Monitor,
    observer: &dyn JobObserver,
) -> (Summary, bool) {
    let (mut total, mut has_failed) = (Summary::default(), false);
    let mut routed_jobs = routed_jobs.into_iter();
    while let Some(routed_job) = routed_jobs.next() {
        if routed_job
            .job
            .task
            .mirrors()
            .is_some_and(|mirror| observer.skips_removal(mirror, has_failed))
        {
            continue;
        }
        let routed_job = with_remaining_limit(routed_job, total.deleted);
        observer.begins(&routed_job, routed_jobs.len() > 0);
        let result = hosts.run(&routed_job, monitor);
        let figures = observer.ends();
        match result {
            Ok(summary) => total += summary,
            Err(error) => {
                total += figures;
                has_failed = true;
                if observer.fails(&routed_job, error) == Next::Stop {
                    break;
                }
            }
        }
    }
    (total, has_failed)
}

/// The jobs of `routed_jobs`, each once for every task of `parts`.
pub fn in_parts(routed_jobs: Vec<RoutedJob<Machine>>, parts: &[Task]) -> Vec<RoutedJob<Machine>> {
    let of_parts = |routed_job: RoutedJob<Machine>| {
        parts.iter().map(move |part| {
            // A mirror's destination is what the request names, even if an earlier job created it.
            let mut routed_job = routed_job.clone();
            routed_job.job.task = *part;
            routed_job.job.dest.origin.take_if(|_| part.mirrors().is_some());
            routed_job
        })
    };
    routed_jobs.into_iter().flat_map(of_parts).collect()
}

/// `routed_job` of a request that has removed `deleted` entries already.
fn with_remaining_limit(mut routed_job: RoutedJob<Machine>, deleted: u64) -> RoutedJob<Machine> {
    if let Task::Sync(_, Mirror { delete_max: Some(max), .. }) = &mut routed_job.job.task {
        *max = max.saturating_sub(deleted);
    }
    routed_job
}

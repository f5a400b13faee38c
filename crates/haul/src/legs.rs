//! The jobs of a request, one after the other.

use crate::error::Error;
use crate::hosts::Hosts;
use crate::location::Machine;
use haul_engine::{Job, Leg, Monitor, Summary};
use haul_model::{Mirror, Task};

/// The decision about further jobs after one that ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The next job is run: its hosts may answer.
    GoesOn,
    /// No further job is run.
    Ends,
}

/// An observer of jobs that run one after the other.
pub trait Course {
    /// The job of `leg` begins; `has_more` if others follow it.
    fn begins(&self, leg: &Leg<Machine>, has_more: bool);

    /// The job has ended. Returns its figures as its monitor counted them.
    fn ends(&self) -> Summary;

    /// The job has ended early with `error`.
    fn fails(&mut self, leg: &Leg<Machine>, error: Error) -> Next;

    /// True if the removing part of a mirror is skipped: not all entries of the sources are known,
    /// because a job `has_failed` or for another reason.
    fn withholds(&self, _mirror: &Mirror, _has_failed: bool) -> bool {
        false
    }

    /// The job of `leg` removes sources of a move.
    fn removes(&self, _leg: &Leg<Machine>) {}
}

/// Runs the jobs of `legs`, which report to `monitor`. Returns the sum of their figures, and true
/// if one of them ended early.
pub fn run_legs(
    legs: Vec<Leg<Machine>>,
    hosts: &Hosts,
    monitor: &dyn Monitor,
    course: &mut dyn Course,
) -> (Summary, bool) {
    let (mut total, mut has_failed) = (Summary::default(), false);
    let mut legs = legs.into_iter();
    while let Some(leg) = legs.next() {
        if leg.job.task.mirrors().is_some_and(|mirror| course.withholds(mirror, has_failed)) {
            continue;
        }
        let leg = with_removals_left(leg, total.deleted);
        course.begins(&leg, legs.len() > 0);
        let result = hosts.run(&leg, monitor);
        let told = course.ends();
        match result {
            Ok(summary) => total += summary,
            Err(error) => {
                total += told;
                has_failed = true;
                if course.fails(&leg, error) == Next::Ends {
                    break;
                }
            }
        }
    }
    (total, has_failed)
}

/// The jobs of `legs`, each once for every task of `parts`.
pub fn in_parts(legs: Vec<Leg<Machine>>, parts: &[Task]) -> Vec<Leg<Machine>> {
    let of_parts = |leg: Leg<Machine>| {
        parts.iter().map(move |part| {
            // A mirror's destination is what the request names, even if an earlier job created it.
            let origin = leg.job.origin.filter(|_| part.mirrors().is_none());
            Leg { job: Job { task: *part, origin, ..leg.job.clone() }, ..leg.clone() }
        })
    };
    legs.into_iter().flat_map(of_parts).collect()
}

/// `leg` of a request that has removed `deleted` entries already.
fn with_removals_left(mut leg: Leg<Machine>, deleted: u64) -> Leg<Machine> {
    if let Task::Sync(_, Mirror { delete_max: Some(max), .. }) = &mut leg.job.task {
        *max = max.saturating_sub(deleted);
    }
    leg
}

//! The end of a mirror that removes its sources: each source is compared with its copy by content,
//! and removed if they are equal.

use super::watch_legs;
use crate::error::ErrorKind;
use crate::monitor::{JobMonitor, SideMonitor};
use haul::{Hosts, Machine};
use haul_engine::{Monitor, NotCopied, Outcome, RoutedJob, Skip, Summary};
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs `routed_jobs`, then `removals`. If one of the `routed_jobs` ended early, no removal runs.
/// Entries that failed, and everything in them, are kept.
pub(super) fn run(
    routed_jobs: Vec<RoutedJob<Machine>>,
    removals: Vec<RoutedJob<Machine>>,
    monitor: &JobMonitor,
    hosts: &Hosts,
) -> (Summary, Option<ErrorKind>) {
    let not_copied = NotCopied::default();
    let (mut summary, error) = watch_legs(routed_jobs, monitor, &not_copied.watch(monitor), hosts);
    if error.is_some() || not_copied.has_all() {
        return (summary, error);
    }
    let mut ready = Vec::with_capacity(removals.len());
    for mut routed_job in removals {
        match routed_job.job.filter.behind(not_copied.rules(false)) {
            Ok(filter) => routed_job.job.filter = filter,
            Err(error) => {
                monitor.report.warning(b".", &format!("not removing any source: {error}"));
                return (Summary { failed: summary.failed + 1, ..summary }, None);
            }
        }
        ready.push(routed_job);
    }
    let failed = AtomicU64::new(0);
    let differs = |outcome: &Outcome| *outcome != Outcome::Skipped(Skip::Unchanged);
    let removal = SideMonitor::new(monitor, monitor.progress(), differs, |event| {
        failed.fetch_add(monitor.report_removal(event).into(), Ordering::Relaxed);
    });
    let (_, error) = watch_legs(ready, monitor, &removal, hosts);
    summary.failed += failed.into_inner();
    (summary, error)
}

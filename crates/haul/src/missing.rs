//! Jobs whose sources all do not exist: no host is asked for them, and no destination is created.

use crate::location::Machine;
use crate::request::{Request, Unmatched};
use haul_engine::{Route, RoutedJob};
use haul_model::{Fault, Missing, Relative, Side, Task};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;

/// Removes the jobs from `routed_jobs` whose sources are local and all missing. Returns the others,
/// and the number of missing sources, each of which is passed to `missing`. rsync creates no
/// destination then either.
pub(crate) fn without_missing(
    request: &Request,
    task: Task,
    routed_jobs: Vec<RoutedJob<Machine>>,
    missing: &mut Unmatched<'_>,
) -> (Vec<RoutedJob<Machine>>, u64) {
    let reports_each = match task {
        // With several jobs, each job of a move reports its own missing sources.
        Task::Copy(policy) => policy.moving.is_none() || routed_jobs.len() == 1,
        // With a list or relative paths, the engine reports other paths.
        Task::Sync(_, mirror) => {
            let walking = mirror.walking;
            walking.missing == Missing::Fails
                && walking.relative == Relative::No
                && request.list.is_none()
        }
        Task::Check { .. } | Task::Remove { .. } => false,
    };
    if !reports_each {
        return (routed_jobs, 0);
    }
    let is_mirror = task.mirrors().is_some();
    let is_empty = |routed_job: &RoutedJob<Machine>| {
        let has_local_sources = matches!(routed_job.route, Route::Local | Route::Upload(_));
        has_local_sources && routed_job.job.sources.paths.iter().all(|source| is_missing(source))
    };
    let (empty, routed_jobs): (Vec<_>, Vec<_>) = routed_jobs.into_iter().partition(is_empty);
    let mut failed = 0;
    for source in empty.iter().flat_map(|routed_job| &routed_job.job.sources.paths) {
        // The source of a mirror ended with a slash before "." was added: report that form.
        let source = match source.strip_suffix(b".") {
            Some(typed) if is_mirror && typed.ends_with(b"/") => typed,
            _ => source,
        };
        // It is reported even if it exists by now: its job is not run.
        missing(None, source, &Fault::missing(Side::Source));
        failed += 1;
    }
    (routed_jobs, failed)
}

/// True if the local source does not exist.
fn is_missing(source: &[u8]) -> bool {
    let looked = fs::symlink_metadata(OsStr::from_bytes(source));
    looked.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

//! Jobs whose sources all do not exist: no host is asked for them, and no destination is created.

use crate::location::Machine;
use crate::request::{Request, Unmatched};
use haul_engine::{Leg, Route};
use haul_model::{Fault, Missing, Relative, Side, Task};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;

/// Removes the jobs from `legs` whose sources are local and all missing. Returns the others, and
/// the number of missing sources, each of which is passed to `missing`. rsync creates no
/// destination then either.
pub fn left_out(
    request: &Request,
    task: Task,
    legs: Vec<Leg<Machine>>,
    missing: &mut Unmatched<'_>,
) -> (Vec<Leg<Machine>>, u64) {
    let tells_of_each = match task {
        Task::Copy(_) => true,
        // With a list or relative paths, the engine reports other paths.
        Task::Sync(_, mirror) => {
            let walking = mirror.walking;
            walking.missing == Missing::Fails
                && walking.relative == Relative::No
                && request.list.is_none()
        }
        Task::Check { .. } | Task::Remove { .. } => false,
    };
    if !tells_of_each {
        return (legs, 0);
    }
    let is_mirror = task.mirrors().is_some();
    let is_empty = |leg: &Leg<Machine>| {
        let reads_here = matches!(leg.route, Route::Local | Route::Upload(_));
        reads_here && leg.job.sources.iter().all(|source| is_missing(source))
    };
    let (empty, legs): (Vec<_>, Vec<_>) = legs.into_iter().partition(is_empty);
    let mut failed = 0;
    for source in empty.iter().flat_map(|leg| &leg.job.sources) {
        // The source of a mirror ended with a slash before "." was added: report that form.
        let source = match source.strip_suffix(b".") {
            Some(typed) if is_mirror && typed.ends_with(b"/") => typed,
            _ => source,
        };
        if is_missing(source) {
            missing(None, source, &Fault::missing(Side::Source));
            failed += 1;
        }
    }
    (legs, failed)
}

/// True if the local source does not exist.
fn is_missing(source: &[u8]) -> bool {
    let looked = fs::symlink_metadata(OsStr::from_bytes(source));
    looked.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

//! Jobs of which no source is there: for them no host is asked, and nothing is made.

use crate::args::Copy;
use crate::location::Machine;
use crate::report::Report;
use haul_engine::{Leg, Route};
use haul_model::{Fault, FaultKind, Missing, Relative, Side, Task};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;

/// `legs` without those whose sources are here, and are all missing; and the number of
/// these sources, of which each was told. rsync makes no destination either then.
pub(in crate::command) fn left_out(
    copy: &Copy,
    task: Task,
    legs: Vec<Leg<Machine>>,
    report: &dyn Report,
) -> (Vec<Leg<Machine>>, u64) {
    let tells_of_each = match task {
        Task::Copy(_) => true,
        // With a list, or on a way that is kept, other places are named.
        Task::Sync(_, mirror) => {
            let walking = mirror.walking;
            walking.missing == Missing::Fails
                && walking.relative == Relative::No
                && copy.list.is_none()
        }
        Task::Check { .. } | Task::Remove { .. } => false,
    };
    if !tells_of_each {
        return (legs, 0);
    }
    let is_empty = |leg: &Leg<Machine>| {
        let reads_here = matches!(leg.route, Route::Local | Route::Upload(_));
        reads_here && leg.job.sources.iter().all(|source| is_missing(source))
    };
    let (empty, legs): (Vec<_>, Vec<_>) = legs.into_iter().partition(is_empty);
    let sources = empty.iter().flat_map(|leg| &leg.job.sources);
    let failed = sources.map(|source| {
        let fault = Fault::new(Side::Source, FaultKind::NotFound, "nothing is there");
        report.fault(None, shown(source), &fault);
    });
    let failed = failed.count() as u64;
    (legs, failed)
}

fn is_missing(source: &[u8]) -> bool {
    let found = fs::symlink_metadata(OsStr::from_bytes(source));
    found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// A path as the engine tells of it, without the end by which a mirror takes what is in it.
fn shown(source: &[u8]) -> &[u8] {
    let source = source.strip_suffix(b"/.").unwrap_or(source);
    source.strip_suffix(b"/").filter(|rest| !rest.is_empty()).unwrap_or(source)
}

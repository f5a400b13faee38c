//! Jobs of which no source is there: for them no host is asked, and nothing is made.

use crate::args::Copy;
use crate::location::Machine;
use crate::report::Report;
use haul_engine::{Leg, Route};
use haul_model::{Fault, FaultKind, Missing, Relative, Side, Task};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

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
    let is_mirror = task.mirrors().is_some();
    let is_empty = |leg: &Leg<Machine>| {
        let reads_here = matches!(leg.route, Route::Local | Route::Upload(_));
        reads_here && leg.job.sources.iter().all(|source| missing(source).is_some())
    };
    let (empty, legs): (Vec<_>, Vec<_>) = legs.into_iter().partition(is_empty);
    let mut failed = 0;
    for source in empty.iter().flat_map(|leg| &leg.job.sources) {
        // A mirror has been told so of a path that ends with a slash.
        let source = match source.strip_suffix(b".") {
            Some(typed) if is_mirror && typed.ends_with(b"/") => typed,
            _ => source,
        };
        if let Some(error) = missing(source) {
            report.fault(None, source, &fault(source, &error));
            failed += 1;
        }
    }
    (legs, failed)
}

/// The error of looking for a source that is not there; `None` if it is.
fn missing(source: &[u8]) -> Option<io::Error> {
    let error = fs::symlink_metadata(OsStr::from_bytes(source)).err()?;
    (error.kind() == ErrorKind::NotFound).then_some(error)
}

/// The same as a fault, in the words of a job: a directory on the way can't be opened.
fn fault(source: &[u8], error: &io::Error) -> Fault {
    let above = match Path::new(OsStr::from_bytes(source)).parent() {
        Some(above) if above != Path::new("") => above,
        _ => Path::new("."),
    };
    match above.is_dir() && !source.ends_with(b"/.") {
        true => Fault::new(Side::Source, FaultKind::NotFound, "nothing is there"),
        false => Fault::from_io(Side::Source, "open", error),
    }
}

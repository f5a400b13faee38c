//! Patterns in the paths of hosts, replaced by the paths that they stand for. On this
//! machine the shell has done that.

use crate::args::Copy;
use crate::error::CommandError;
use crate::report::Report;
use haul::Location;
use haul::Questions;
use haul_engine::{Expanded, expand};
use haul_model::{Fault, FaultKind, Side};

/// `copy` without patterns in its sources, and the number of failures: of each that was
/// told its source is left out. Hosts are asked by `questions`.
///
/// # Errors
/// When a host can't be asked.
pub(super) fn sources(
    copy: &Copy,
    questions: &mut Questions<'_>,
    report: &dyn Report,
) -> Result<(Copy, u64), CommandError> {
    let mut expanded = Copy { sources: Vec::with_capacity(copy.sources.len()), ..copy.clone() };
    let mut failed = 0;
    for source in &copy.sources {
        let (paths, missed) = paths(source, questions, report)?;
        expanded.sources.extend(paths);
        failed += missed;
    }
    Ok((expanded, failed))
}

/// The locations that `location` stands for, itself if it is no pattern, and the number
/// of failures that were told.
///
/// # Errors
/// When the host can't be asked.
pub(super) fn paths(
    location: &Location,
    questions: &mut Questions<'_>,
    report: &dyn Report,
) -> Result<(Vec<Location>, u64), CommandError> {
    if !location.is_pattern() {
        return Ok((vec![location.clone()], 0));
    }
    let asked = questions.ask(&location.machine, |requests| expand(requests, &location.path))?;
    let found = match asked {
        Ok(found) if found.paths.is_empty() && found.faults.is_empty() => nothing(location),
        Ok(found) => found,
        Err(fault) => failed(location, fault),
    };
    for (path, fault) in &found.faults {
        report.fault(location.machine.name(), path, fault);
    }
    let paths = found.paths.into_iter().map(|path| location.beside(path)).collect();
    Ok((paths, found.faults.len() as u64))
}

fn nothing(location: &Location) -> Expanded {
    let message = "no path matches this pattern";
    failed(location, Fault::new(Side::Source, FaultKind::NotFound, message))
}

fn failed(location: &Location, fault: Fault) -> Expanded {
    Expanded { paths: Vec::new(), faults: vec![(location.path.clone(), fault)] }
}

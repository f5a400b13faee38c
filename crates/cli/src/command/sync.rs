//! `haul sync`: makes a destination tree equal to the sources, with rsync's options.

mod fetching;
mod figures;
mod listing;

use self::figures::Figures;
use super::copy::execute;
use crate::args::Sync;
use crate::error::ExitCode;
use haul::{Questions, Request};
use haul_model::{Mirror, Part, Task};

pub(super) fn run(sync: &Sync) -> ExitCode {
    let Sync { copy, mirror, when, removes_sources, list, remote_list, stats, readable } = sync;
    if let Some(columns) = list {
        return listing::run(copy.clone(), remote_list.as_ref(), *mirror, *columns);
    }
    let complete = |request: &mut Request, questions: &mut Questions<'_>| {
        fetching::complete(request, remote_list.as_ref(), questions)?;
        Ok(request.complete_mirror(mirror, questions)?)
    };
    let task = Task::Sync(copy.request.policy, *mirror);
    let (dry_run, unhashed) = (copy.request.policy.dry_run, !copy.request.policy.wants_hashes());
    let figures = |end| Figures { end, stats: *stats, dry_run, readable: *readable, unhashed };
    let mut parts = when.parts(copy.request.policy, mirror);
    if *removes_sources {
        let mirror = Mirror { part: Part::RemovesSources, delete: None, ..*mirror };
        parts.push(Task::Sync(copy.request.policy, mirror));
    }
    execute(copy, task, &parts, &Request::refuse_to_mirror, complete, figures)
}

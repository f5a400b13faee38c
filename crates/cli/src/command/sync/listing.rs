//! `haul sync --list-only`: lists the sources, and changes nothing.

use super::fetching;
use crate::args::{Copy, ListThere};
use crate::command::copy::{End, carry_out_in_parts};
use crate::error::ExitCode;
use crate::lines::Columns;
use crate::report::{Report, Statement};
use haul::{Location, Questions, Request, take_what_is_in};
use haul_engine::Summary;
use haul_model::{Kept, Mirror, Part, Policy, Relative, Task};

/// Lists the sources. `list_there` is a list of paths on their host.
pub(super) fn run(
    mut copy: Copy,
    list_there: Option<&ListThere>,
    mirror: Mirror,
    columns: Columns,
) -> ExitCode {
    if mirror.walking.relative == Relative::No {
        take_what_is_in(&mut copy.request.sources);
    }
    // The destination is never accessed, on whichever machine it would be.
    copy.request.dest = Location::root();
    copy.request.backup = None;
    copy.request.staging = None;
    copy.request.bases = Vec::new();
    copy.lines = copy.lines.of_list(columns);
    let shown = Kept::OF_COPIES.with(Kept::SET_ID).with(Kept::DEVICES).with(Kept::SPECIALS);
    let keeps = shown.with(Kept::ATIMES.only_if(columns.atimes));
    copy.request.policy = Policy { keeps, numeric_ids: true, ..Policy::default() };
    let mirror = Mirror { part: Part::Lists, delete: None, bases: None, ..mirror };
    let is_partial =
        |summary: &Summary, report: &dyn Report| summary.failed > 0 || report.has_failed();
    let complete = |request: &mut Request, questions: &mut Questions<'_>| {
        fetching::complete(request, list_there, questions)
    };
    let task = Task::Sync(copy.request.policy, mirror);
    carry_out_in_parts(
        &copy,
        task,
        &[task],
        &Request::refuse_to_mirror,
        complete,
        is_partial,
        |_: End| Nothing,
    )
}

/// A list has no figures.
struct Nothing;

impl Statement for Nothing {}

//! `haul sync --list-only`: lists the sources, and changes nothing.

use super::fetching;
use crate::args::{Copy, RemoteList};
use crate::command::copy::execute;
use crate::error::End;
use crate::error::ExitCode;
use crate::lines::Columns;
use haul::{Location, Questions, Request, use_dir_contents};
use haul_model::{Kept, Mirror, Part, Policy, Relative, Task};

/// Lists the sources. `remote_list` is a list of paths on their host.
pub(super) fn run(
    mut copy: Copy,
    remote_list: Option<&RemoteList>,
    mirror: Mirror,
    columns: Columns,
) -> ExitCode {
    if mirror.walking.relative == Relative::No {
        use_dir_contents(&mut copy.request.sources);
    }
    // The destination is never accessed, on whichever machine it would be.
    copy.request.dest = Location::root();
    copy.request.backup = None;
    copy.request.staging = None;
    copy.request.bases = Vec::new();
    copy.lines = copy.lines.for_list(columns);
    let shown = Kept::OF_COPIES.with(Kept::SET_ID).with(Kept::DEVICES).with(Kept::SPECIALS);
    let keeps = shown.with(Kept::ATIMES.only_if(columns.atimes));
    copy.request.policy = Policy { keeps, numeric_ids: true, ..Policy::default() };
    let mirror = Mirror { part: Part::Lists, delete: None, bases: None, ..mirror };
    let complete = |request: &mut Request, questions: &mut Questions<'_>| {
        fetching::complete(request, remote_list, questions)
    };
    let task = Task::Sync(copy.request.policy, mirror);
    // A list has no figures.
    let none = |_: End| String::new();
    execute(&copy, task, &[task], &Request::refuse_to_mirror, complete, none)
}

//! `haul sync`: makes a destination tree equal to the sources, with rsync's options.

use crate::args::{Copy, LIST_LEN_MAX, RemoteList, Stats, Sync, paths_of_list};
use crate::command::copy::{UNHASHED, execute, relay_note};
use crate::error::{CommandError, End, ExitCode};
use crate::json::{self, Object};
use crate::lines::Columns;
use crate::monitor::SideMonitor;
use crate::quantity;
use crate::report::{Message, Show};
use haul::{Location, Machine, Questions, Request, use_dir_contents};
use haul_engine::{
    Event, Job, Kinds, NamedDest, NamedSources, Progress, Route, RoutedJob, Summary,
};
use haul_model::{Kept, Mirror, Outcome, Part, Policy, Relative, Task, escape_bytes};
use parking_lot::Mutex;
use std::fs::{self, DirBuilder};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

pub(super) fn run(sync: &Sync) -> ExitCode {
    let Sync { copy, mirror, when, removes_sources, list, remote_list, stats, readable } = sync;
    if let Some(columns) = list {
        return list_sources(copy.clone(), remote_list.as_ref(), *mirror, *columns);
    }
    let complete = |request: &mut Request, questions: &mut Questions<'_>| {
        add_remote_list(request, remote_list.as_ref(), questions)?;
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

/// Lists the sources. `remote_list` is a list of paths on their host.
fn list_sources(
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
        add_remote_list(request, remote_list, questions)
    };
    let task = Task::Sync(copy.request.policy, mirror);
    // A list has no figures.
    let none = |_: End| String::new();
    execute(&copy, task, &[task], &Request::refuse_to_mirror, complete, none)
}

/// Adds the paths of the remote list to `request`, if there is one.
///
/// # Errors
/// If the host can't be reached, or has no such file.
fn add_remote_list(
    request: &mut Request,
    list: Option<&RemoteList>,
    questions: &Questions<'_>,
) -> Result<(), CommandError> {
    if let Some(list) = list {
        request.list = Some(fetch(request, list, questions)?);
    }
    Ok(())
}

/// Fetches `list` over a connection of its own into a private directory, and parses its paths.
fn fetch(
    request: &Request,
    list: &RemoteList,
    questions: &Questions<'_>,
) -> Result<Vec<Vec<u8>>, CommandError> {
    let source = request.sources.first().map(|source| &source.machine);
    let machine =
        source.filter(|machine| **machine != Machine::Local).unwrap_or(&request.dest.machine);
    let shown = escape_bytes(&list.path);
    let failed = |reason: String| CommandError::usage(format!("--files-from: {shown}: {reason}"));
    let dir = PrivateTempDir::new().map_err(|error| failed(format!("can't fetch it: {error}")))?;
    let file = dir.0.join("list");
    let mirror = Mirror { size_max: Some(LIST_LEN_MAX), ..Mirror::default() };
    let job = Job {
        sources: NamedSources { follow: true, ..NamedSources::at(vec![list.path.clone()]) },
        dest: NamedDest::at(file.as_os_str().as_bytes()),
        task: Task::Sync(Policy::default(), mirror),
        ..Job::default()
    };
    let routed_job = RoutedJob { job, route: Route::Download(machine.clone()) };
    let (progress, reason) = (Progress::default(), Mutex::new(None));
    let monitor = SideMonitor::new(
        questions.monitor(),
        &progress,
        |_| true,
        |event| {
            if let Event::Entry { outcome: Outcome::Failed(fault), .. } = event {
                reason.lock().get_or_insert_with(|| fault.message.clone());
            }
        },
    );
    questions
        .hosts()
        .run(&routed_job, &monitor)
        .map_err(|error| CommandError::from_routed_job(error, &routed_job))?;
    if let Some(reason) = reason.into_inner() {
        return Err(failed(reason));
    }
    let text = fs::read(&file)
        .map_err(|_| failed(format!("not a file, or larger than {} MiB", LIST_LEN_MAX >> 20)))?;
    Ok(paths_of_list(&text, list.zeros))
}

/// A private temporary directory; dropping it removes it with its content.
struct PrivateTempDir(PathBuf);

impl PrivateTempDir {
    fn new() -> std::io::Result<Self> {
        let number = u128::from_le_bytes(haul_engine::secret()?);
        let path = std::env::temp_dir().join(format!("haul-{number:032x}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for PrivateTempDir {
    fn drop(&mut self) {
        // After a failure the name shows that the directory is haul's.
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Figures {
    end: End,
    stats: Stats,
    dry_run: bool,
    /// The format of lengths in the block, as in lists.
    readable: u8,
    unhashed: bool,
}

impl Message for Figures {
    fn text(&self) -> Vec<u8> {
        let text = match self.stats {
            Stats::None => String::new(),
            // rsync prints the empty line too: scripts recognise the end of the names by it.
            Stats::Line => format!("\n{}", self.line()),
            Stats::Block => format!("{}\n{}", self.block(), self.line()),
        };
        text.into_bytes()
    }

    fn json(&self) -> Option<Object> {
        Some(json::sync_summary(&self.end, self.unhashed))
    }

    fn level(&self) -> Show {
        Show::Normal
    }
}

impl Figures {
    /// The lines of rsync for which haul has figures.
    fn block(&self) -> String {
        let End { summary, entry_counts, .. } = &self.end;
        let bytes = |n| format!("{} bytes", quantity::rsync_number(n, self.readable));
        let lines = [
            ("Number of files", by_kind(entry_counts.found)),
            ("Number of created files", by_kind(entry_counts.made)),
            ("Number of deleted files", by_kind(entry_counts.removed)),
            ("Number of regular files transferred", quantity::count(entry_counts.sent)),
            ("Total file size", bytes(entry_counts.size)),
            ("Total transferred file size", bytes(entry_counts.sent_size)),
            ("Literal data", bytes(summary.bytes_transferred)),
            ("Matched data", bytes(summary.bytes_matched)),
        ];
        lines.map(|(label, figure)| format!("\n{label}: {figure}")).concat() + "\n"
    }

    /// One line about the work done. It begins as rsync's last line does, because scripts search
    /// for that.
    fn line(&self) -> String {
        let End { summary, time, relayed, entry_counts, .. } = self.end;
        let total = quantity::rsync_number(entry_counts.size, self.readable);
        let Summary { copied, linked, dirs_created, updated, deleted, bytes, .. } = summary;
        let parts = [
            (copied, "copied"),
            (summary.renamed, "of them only renamed"),
            (linked, "linked"),
            (dirs_created, "directories made"),
            (updated, "updated"),
            (deleted, "removed"),
            (summary.spared, "spared"),
            (summary.failed, "failed"),
        ];
        let parts = parts.into_iter().filter(|(n, _)| *n > 0);
        let mut parts: Vec<_> =
            parts.map(|(n, word)| format!("{} {word}", quantity::count(n))).collect();
        if parts.is_empty() {
            parts.push("nothing changed".to_owned());
        }
        let would = if self.dry_run { " (dry run)" } else { "" };
        let (parts, bytes) = (parts.join(", "), quantity::bytes(bytes));
        let matched = match summary.bytes_matched {
            0 => String::new(),
            matched => format!("; {} already there", quantity::bytes(matched)),
        };
        let unhashed = if self.unhashed && copied > 0 { UNHASHED } else { "" };
        let (time, here) = (quantity::duration(time), relay_note(relayed));
        format!(
            "total size is {total} bytes; {parts}; {bytes} in {time}{matched}{unhashed}{here}{would}\n"
        )
    }
}

/// The total, and the number of entries of each kind.
fn by_kind(kinds: Kinds) -> String {
    let Kinds { files, dirs, links, devices, specials } = kinds;
    let all =
        [("reg", files), ("dir", dirs), ("link", links), ("dev", devices), ("special", specials)];
    let each = all.into_iter().filter(|(_, n)| *n > 0);
    let each: Vec<_> = each.map(|(kind, n)| format!("{kind}: {}", quantity::count(n))).collect();
    match each.is_empty() {
        true => "0".to_owned(),
        false => format!("{} ({})", quantity::count(kinds.total()), each.join(", ")),
    }
}

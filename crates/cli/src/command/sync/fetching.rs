//! The list of paths that is on the host which takes part: fetched first, as any file is, over
//! a connection of its own, into a directory of this machine that nobody else can enter.

use crate::args::{LIST_LEN_MAX, ListThere, paths_of_list};
use crate::error::CommandError;
use haul::{Machine, Questions, Request};
use haul_engine::{Event, Job, Leg, Monitor, Progress, Route};
use haul_model::{Mirror, Outcome, Policy, Task, escape_bytes};
use parking_lot::Mutex;
use std::fs::{self, DirBuilder};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// Gives `request` the paths of the list that is there, if it has one.
///
/// # Errors
/// When there is no way to the host, or it has no such file.
pub(super) fn complete(
    request: &mut Request,
    list: Option<&ListThere>,
    questions: &Questions<'_>,
) -> Result<(), CommandError> {
    if let Some(list) = list {
        request.list = Some(fetch(request, list, questions)?);
    }
    Ok(())
}

/// The paths of `list` for `request`.
fn fetch(
    request: &Request,
    list: &ListThere,
    questions: &Questions<'_>,
) -> Result<Vec<Vec<u8>>, CommandError> {
    let source = request.sources.first().map(|source| &source.machine);
    let machine =
        source.filter(|machine| **machine != Machine::Here).unwrap_or(&request.dest.machine);
    let shown = escape_bytes(&list.path);
    let failed = |why: String| CommandError::usage(format!("--files-from: {shown}: {why}"));
    let dir = Scratch::new().map_err(|error| failed(format!("can't fetch it: {error}")))?;
    let file = dir.0.join("list");
    let mirror = Mirror { size_max: Some(LIST_LEN_MAX), ..Mirror::default() };
    let job = Job {
        sources: vec![list.path.clone()],
        dest: file.as_os_str().as_bytes().to_vec(),
        follow: true,
        task: Task::Sync(Policy::default(), mirror),
        ..Job::default()
    };
    let leg = Leg { job, route: Route::Download(machine.clone()) };
    let watch = Watch::of(questions.monitor());
    questions.hosts().run(&leg, &watch).map_err(|error| CommandError::of_leg(error, &leg))?;
    if let Some(why) = watch.why.into_inner() {
        return Err(failed(why));
    }
    let text = fs::read(&file)
        .map_err(|_| failed(format!("not a file, or larger than {} MiB", LIST_LEN_MAX >> 20)))?;
    Ok(paths_of_list(&text, list.zeros))
}

/// A directory that goes with all that is in it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Self> {
        let number = u128::from_le_bytes(haul_engine::secret()?);
        let path = std::env::temp_dir().join(format!("haul-{number:032x}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It is recognisable as haul's own.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Keeps in mind why the file could not be had, and hands on what concerns the host.
struct Watch<'m> {
    monitor: &'m dyn Monitor,
    progress: Progress,
    why: Mutex<Option<String>>,
}

impl<'m> Watch<'m> {
    fn of(monitor: &'m dyn Monitor) -> Self {
        Self { monitor, progress: Progress::default(), why: Mutex::default() }
    }
}

impl Monitor for Watch<'_> {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn event(&self, event: Event<'_>) {
        match event {
            Event::Entry { outcome: Outcome::Failed(fault), .. } => {
                let mut why = self.why.lock();
                why.get_or_insert_with(|| fault.message.clone());
            }
            Event::Link(_) | Event::Warning { .. } => self.monitor.event(event),
            _ => {}
        }
    }

    fn cancelled(&self) -> bool {
        self.monitor.cancelled()
    }
}

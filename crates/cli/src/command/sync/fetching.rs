//! Fetches a list of paths (`--files-from`) that is on the remote host. The file is copied over a
//! connection of its own into a private directory of this machine.

use crate::args::{LIST_LEN_MAX, RemoteList, paths_of_list};
use crate::error::CommandError;
use crate::monitor::SideMonitor;
use haul::{Machine, Questions, Request};
use haul_engine::{Event, Job, NamedDest, NamedSources, Progress, Route, RoutedJob};
use haul_model::{Mirror, Outcome, Policy, Task, escape_bytes};
use parking_lot::Mutex;
use std::fs::{self, DirBuilder};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// Adds the paths of the remote list to `request`, if there is one.
///
/// # Errors
/// If the host can't be reached, or has no such file.
pub(super) fn complete(
    request: &mut Request,
    list: Option<&RemoteList>,
    questions: &Questions<'_>,
) -> Result<(), CommandError> {
    if let Some(list) = list {
        request.list = Some(fetch(request, list, questions)?);
    }
    Ok(())
}

/// Fetches `list`, and parses its paths.
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

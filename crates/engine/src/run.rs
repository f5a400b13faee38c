//! Runs a job: places its roles, and waits for its end.

use crate::control::Control;
use crate::crew::Crew;
use crate::receiver::{Destination, Tasks, run_worker};
use crate::relocate::Twins;
use crate::roles::Roles;
use crate::sender::Scan;
use crate::sftp::Far;
use crate::workers::workers;
use crate::{CopyJob, JobError, Monitor, Placement, Summary, remote, sftp};
use haul_tree::LocalTree;

/// Tasks that may wait for each worker.
const TASKS_PER_WORKER: usize = 4;

/// Runs `job` to its end.
///
/// One entry's failure is an [`crate::Event::Entry`] and counts in
/// [`Summary::failed`]; the job goes on.
///
/// # Errors
/// When the job as a whole can't go on. What was published until then stays,
/// and the same job may be run again.
pub fn run(
    job: &CopyJob,
    placement: Placement,
    monitor: &dyn Monitor,
) -> Result<Summary, JobError> {
    JobError::of_open_files()?;
    haul_sys::boot_id();
    match placement {
        Placement::Local => run_local(job, monitor),
        Placement::Upload(connection) => remote::upload(job, connection, monitor),
        Placement::Download(connection) => remote::download(job, connection, monitor),
        Placement::SftpUpload(route) => sftp::run(job, Far::Destination, route, monitor),
        Placement::SftpDownload(route) => sftp::run(job, Far::Source, route, monitor),
    }
}

fn run_local(job: &CopyJob, monitor: &dyn Monitor) -> Result<Summary, JobError> {
    let mut destination = Destination::find(&LocalTree, job)?;
    destination.sources_are_here = true;
    // What is only compared may be compared with a part of itself.
    let around_dest = if job.task.copies().is_none() { Vec::new() } else { destination.lineage() };
    let twins = Twins::new(&destination, job).map_err(|e| JobError::unusable(&job.dest, &e))?;
    let control = Control::new(monitor);
    let (tasks, work) = crossbeam_channel::bounded(workers() * TASKS_PER_WORKER);
    let Roles { sender, receiver } =
        Roles::connect(&control, job, destination, Tasks::to_all(tasks), None)?;
    let result = std::thread::scope(|scope| {
        let crew = Crew::new(scope, &control);
        crew.begin("scan", || Scan::new(&sender, &LocalTree, job, &around_dest).run(&job.sources));
        let worker = (&receiver, work);
        crew.begin_several("worker", workers(), move || run_worker(worker.0, &worker.1));
        let result = control.wait();
        receiver.close_tasks();
        result
    });
    if result.is_ok() {
        sender.remove_dirs(&LocalTree, &job.sources, Some(&twins), &mut |removal| {
            sender.tell_removal(removal)
        });
    }
    result
}

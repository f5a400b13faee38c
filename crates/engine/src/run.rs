//! Runs a job: places its roles, and waits for its end.

use crate::assembly::{Assembly, Placed, Receiving, Sending};
use crate::control::Control;
use crate::receiver::Destination;
use crate::sender::Twins;
use crate::sftp::RemoteEnd;
use crate::{Between, Job, JobError, Monitor, Session, SftpRoute, Summary, relay, remote, sftp};
use haul_model::{Mirror, Side};
use haul_tree::Sharer;
use std::sync::Arc;

/// The places of the two roles.
pub enum Placement {
    /// Both on this machine.
    Local,
    /// The Receiver runs in the agent at the other end.
    Upload(Session),
    /// The same, while other jobs of this process send the same sources.
    UploadShared(Session, Arc<Sharer>),
    /// The Sender runs in the agent at the other end.
    Download(Session),
    /// Each in an agent. This process forwards between them.
    Between(Box<Between>),
    /// Both on this machine. The destination is on a host without haul.
    SftpUpload(SftpRoute),
    /// Both on this machine. The sources are on a host without haul.
    SftpDownload(SftpRoute),
}

impl Placement {
    /// The Receiver runs in the agent at the other end of `session`.
    pub fn upload(session: impl Into<Session>) -> Self {
        Self::Upload(session.into())
    }

    /// The Sender runs in the agent at the other end of `session`.
    pub fn download(session: impl Into<Session>) -> Self {
        Self::Download(session.into())
    }
}

/// The most waiting tasks per worker.
const TASKS_PER_WORKER: usize = 4;

/// Runs `job` to its end.
///
/// A failed entry is reported as an [`crate::Event::Entry`] and counted in [`Summary::failed`]; the
/// job continues.
///
/// # Errors
/// When the job as a whole fails. Published entries stay, and the same job may be run again.
pub fn run(job: &Job, placement: Placement, monitor: &dyn Monitor) -> Result<Summary, JobError> {
    JobError::of_open_files()?;
    haul_sys::boot_id();
    haul_sys::umask();
    match placement {
        Placement::Local => run_local(job, monitor),
        Placement::Upload(line) => remote::upload(job, line, job.local_tree(Side::Source), monitor),
        Placement::UploadShared(line, sharer) => remote::upload(job, line, &*sharer, monitor),
        Placement::Download(line) => remote::download(job, line, monitor),
        Placement::Between(hosts) => relay::between(job, *hosts, monitor),
        Placement::SftpUpload(route) => sftp::run(job, RemoteEnd::Destination, route, monitor),
        Placement::SftpDownload(route) => sftp::run(job, RemoteEnd::Source, route, monitor),
    }
}

fn run_local(job: &Job, monitor: &dyn Monitor) -> Result<Summary, JobError> {
    let [from, to] = [Side::Source, Side::Destination].map(|side| job.local_tree(side));
    let mut destination = Destination::find(to, job)?;
    destination.expect_sources(from, job);
    // Only in a comparison may the destination be inside a source.
    let dest_lineage = if job.task.copies().is_none() { Vec::new() } else { destination.lineage() };
    let twins = Twins::new(&destination.root, destination.rename.as_ref(), job)
        .map_err(|error| JobError::unusable(&job.dest.path, &error))?;
    let sending = Sending { dest_lineage: &dest_lineage, twins: Some(&twins), ..Sending::of(from) };
    let mut receiving = Receiving::of(to, destination);
    // Otherwise workers request contents themselves, and must not wait for each other.
    let asks_at_once = !job.task.mirrors().is_some_and(Mirror::asks_late);
    receiving.tasks_max = asks_at_once.then_some(receiving.workers * TASKS_PER_WORKER);
    let control = Control::new(monitor);
    Assembly { job, control: &control, job_connection: &() }.run(Placed::Both(sending, receiving))
}

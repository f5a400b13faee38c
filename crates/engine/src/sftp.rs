//! A job through a host's SFTP server. Both roles run here, and one of them works on the host's
//! tree.

use crate::assembly::{
    Assembly, EndingThreads, JobConnection, Placed, Receiving, Sending, wait_until_left,
};
use crate::control::{Control, Lifeline, Reporter};
use crate::dirs::OpenDirs;
use crate::logins::SftpLogins;
use crate::receiver::Destination;
use crate::sender::Source;
use crate::{Event, Job, JobError, Monitor, SftpRoute, Summary};
use haul_model::{
    Bases, Compression, Fault, FaultKind, Kind, Mirror, Moving, Name, Outcome, Relative, Side,
    Updating, Via, escape_bytes, words,
};
use haul_sftp::{Client, Extension, Options, Session, SessionError};
use haul_store::Records;
use haul_tree::map_parallel;
use haul_tree::sftp::{SessionLoss, Sessions, SftpHost, SftpTree};
use haul_tree::{Tree, TreeDir};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

/// Threads that work on files, links and directories. Each waits for answers most of the time.
/// Small files have threads of their own.
const WORKERS: usize = 16;

/// Threads that remove the sources of a move on a host. Each always waits for answers.
const REMOVERS: usize = 16;

/// The most bytes in flight in one session to a server: the 2 MiB that ssh allows, and as many
/// waiting at either end. OpenSSH's server receives small requests faster than it processes them,
/// and copies all waiting ones for each that it receives. With 16 MiB it was ten times slower.
const UPLOAD_BYTES_MAX: usize = 4 << 20;

/// How long threads may take to leave a job that ends early, while temporary files are made ready
/// to be resumed. Then the session is ended.
const LEAVE_MAX: Duration = Duration::from_secs(5);

impl Lifeline for SftpHost {
    fn is_lost(&self) -> bool {
        self.lost.is_lost()
    }

    fn error(&self) -> Option<JobError> {
        let cause = self.lost.reason()?.clone();
        Some(JobError::Sftp { host: self.lost.host().to_owned(), cause })
    }

    fn activity_awaited(&self) -> Option<u64> {
        self.sessions.activity_awaited()
    }
}

/// The role that works on the host's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemoteEnd {
    Source,
    Destination,
}

pub(crate) fn run(
    job: &Job,
    far: RemoteEnd,
    route: SftpRoute,
    monitor: &dyn Monitor,
) -> Result<Summary, JobError> {
    let new = route.connections.first().map(|one| one.closer.peer());
    let peer =
        route.open_session.as_ref().map(Session::peer).or(new).unwrap_or_default().to_owned();
    let is_upload = far == RemoteEnd::Destination;
    if let Some(message) = obstacle(job, is_upload) {
        return Err(JobError::Usage(format!("{peer}: {message}")));
    }
    let mut options = Options { silence_max: route.silence_max, ..Options::default() };
    if is_upload {
        options.bytes_max = UPLOAD_BYTES_MAX;
    }
    std::thread::scope(|scope| {
        let mut logins = SftpLogins::begin(route.open_session, route.connections, options);
        let logins_end = logins.end_on_drop();
        let first = logins.first(monitor)?;
        let lost = SessionLoss::new(&peer);
        let state = route.journals.as_deref();
        let journals = state.and_then(|path| open_journals(path, monitor));
        let holds = job.task.copies().is_some_and(|policy| policy.sync || policy.verify);
        let sessions = Sessions::new(first.client().clone(), logins.left());
        let host = SftpHost::new(sessions, &lost, journals, holds, needs_times(job));
        let joining = {
            let host = Arc::clone(&host);
            let join = move || logins.join(&host, monitor);
            Builder::new().name("joining".to_owned()).spawn_scoped(scope, join)
        };
        let joining = joining.map_err(JobError::Threads)?;
        let result = SftpJob { job, is_upload, state, host: &host, monitor }.run();
        host.sessions.close();
        match result {
            Ok(_) => logins_end.end_after_grace(),
            Err(_) => drop(logins_end),
        }
        let joined = joining.join().expect("a panic here is a bug and ends the job");
        let sessions: Vec<Session> = std::iter::once(first).chain(joined).collect();
        // A session that was ended from here has abandoned its temporary files too.
        if sessions.iter().all(Session::is_open) {
            host.records.iter().for_each(Records::finish);
        }
        drop(host);
        conclude(result, sessions)
    })
}

/// The reason why no server can run this job, or not on that side.
fn obstacle(job: &Job, is_upload: bool) -> Option<&'static str> {
    let side = if is_upload { Side::Destination } else { Side::Source };
    let has = |rule: fn(&Mirror) -> bool| job.task.mirrors().is_some_and(rule);
    let gets = |rule: fn(&Mirror) -> bool| is_upload && has(rule);
    let updates_in_place = gets(|mirror| mirror.updating != Updating::Replaces);
    let fakes = job.task.fakes(side);
    let preallocates = gets(|mirror| mirror.preallocates);
    let stages_elsewhere =
        gets(|mirror| mirror.delays_updates) || is_upload && job.dest.staging.is_some();
    let keeps_paths = job.sources.base.is_some() || has(|it| it.walking.relative != Relative::No);
    let moves_paths = job.task.moving().is_some() && keeps_paths;
    let keeps_dir_links = gets(|mirror| mirror.keeps_dir_links);
    let compresses = !matches!(job.wire.compression, Compression::Auto | Compression::None);
    let obstacles = [
        (updates_in_place, "SFTP can't update files in place: it replaces them"),
        (fakes, "SFTP can't store or read privileged attributes: install haul on the host"),
        (preallocates, "SFTP can't allocate space for files"),
        (stages_elsewhere, "SFTP can't delay updates or use another directory for temporary files"),
        (moves_paths, "SFTP can't remove sources that keep their paths"),
        (keeps_dir_links, "SFTP can't treat symbolic links at the destination as directories"),
        (compresses, "SFTP can't compress: enable compression in ssh instead"),
        (job.wire.rate.is_some(), "SFTP can't limit the rate"),
        (job.wire.via == Via::Tcp, "SFTP can't use direct connections"),
        (job.wire.via.is_server(), "SFTP can't use a haul server"),
    ];
    obstacles.into_iter().find_map(|(applies, message)| applies.then_some(message))
}

/// Opens the journals in the directory `path`. Warns if that fails.
fn open_journals(path: &Path, monitor: &dyn Monitor) -> Option<Records> {
    let warn = |error| {
        let message = format!(
            "{error}: uploading without journals: large files can't be resumed, and a killed upload leaves temporary files; make it a directory that only you can write to"
        );
        let path = path.as_os_str().as_encoded_bytes();
        monitor.event(Event::Warning { side: None, path, message: &message });
    };
    Records::open(path).map_err(warn).ok()
}

/// A job over open sessions.
struct SftpJob<'j> {
    job: &'j Job,
    /// The host has the destination.
    is_upload: bool,
    /// The directory for the journals, if it is used.
    state: Option<&'j Path>,
    host: &'j Arc<SftpHost>,
    monitor: &'j dyn Monitor,
}

impl SftpJob<'_> {
    fn run(&self) -> Result<Summary, JobError> {
        let Self { job, is_upload, host, monitor, .. } = *self;
        let there = if is_upload { SftpTree::destination(host) } else { SftpTree::source(host) };
        let (source, target): (&dyn Tree, &dyn Tree) = match is_upload {
            true => (job.local_tree(Side::Source), &there),
            false => (&there, job.local_tree(Side::Destination)),
        };
        let destination = self.find_destination(source, target);
        // If the session has ended, that is the error.
        let destination = destination.map_err(|error| host.error().unwrap_or(error))?;
        let made = job.dest.origin.zip(destination_of(job, &destination));
        let control = Control::over(monitor, Arc::<SftpHost>::clone(host));
        let removers = if is_upload { 0 } else { REMOVERS };
        let sending = Sending { removers, ..Sending::of(source) };
        let receiving = Receiving {
            // The server can cause writes.
            confined_to: destination.handles().ok(),
            workers: WORKERS,
            ..Receiving::of(target, destination)
        };
        let assembly = Assembly { job, control: &control, job_connection: &**host };
        let result = assembly.run(Placed::Both(sending, receiving));
        if is_upload {
            // The server may not have confirmed all written bytes.
            monitor.progress().limit_kept(host.results.kept_len());
        }
        if host.results.has_lost_times() && !needs_times(job) {
            self.warn_about_destination(
                "the server does not store mtimes: files have the time of the copy, and the next copy sends them again, unless it replaces only older files",
            );
        }
        if let (Ok(Summary { failed: 0, .. }), Some((origin, made))) = (&result, made) {
            remove_origin_record(job, &origin, made);
        }
        // That leaves nothing to resume.
        result.map(|summary| match host.results.has_lost_attributes() {
            true => report_lost_attributes(monitor, summary),
            false => summary,
        })
    }

    fn warn_about_destination(&self, message: &str) {
        let (side, path) = (Some(Side::Destination), &*self.job.dest.path);
        self.monitor.event(Event::Warning { side, path, message });
    }

    /// The prepared destination of the job.
    fn find_destination(
        &self,
        source: &dyn Tree,
        target: &dyn Tree,
    ) -> Result<Destination, JobError> {
        let Self { job, is_upload, .. } = *self;
        let mut destination = Destination::find(target, job)?;
        destination.whole_seconds |= source.capabilities().keeps_whole_seconds;
        destination.has_basic_attributes = !is_upload;
        if is_upload && !job.task.keeps_destination() {
            self.warn_about_guarantees();
            self.begin_stages(&destination);
        }
        if job.task.removes().is_some() && !destination.absent {
            refuse_itself(job, source, &destination)?;
        }
        Ok(destination)
    }

    /// Records the names of the job's temporary files in the directory for journals. Warns if that
    /// fails.
    fn begin_stages(&self, destination: &Destination) {
        let Some(state) = self.state else { return };
        // The next job may use the directory with the new name.
        let names = [None, destination.rename.as_ref()];
        let named = if destination.rename.is_some() { &names[..] } else { &names[..1] };
        let places: Vec<_> =
            named.iter().filter_map(|name| destination.root.origin_key(*name)).collect();
        let Some(records) = &self.host.records else { return };
        if let Err(error) = records.begin(&places) {
            let message = format!(
                "can't record the names of temporary files: {error}: continuing without; if this upload is killed, run 'haul clean' on the host; make the directory writable"
            );
            let path = state.as_os_str().as_encoded_bytes();
            self.monitor.event(Event::Warning { side: None, path, message: &message });
        }
    }

    /// Warns about guarantees that the job can't give because the server lacks an extension.
    fn warn_about_guarantees(&self) {
        let (job, client) = (self.job, self.host.client());
        let links = job.dest.backup.is_some()
            || job.task.mirrors().is_some_and(|mirror| mirror.bases == Some(Bases::Link));
        if links && !client.has(Extension::HardLink) {
            self.warn_about_destination(
                "the server can't create hard links: copying the files instead, through this machine; links, devices and FIFOs fail",
            );
        }
        if !client.has(Extension::PosixRename) {
            self.warn_about_destination(
                "the server can't replace a file in one step: renaming in two steps; if the connection breaks between them, the old and the new file have names that begin with .haul-",
            );
        }
        if job.task.copies().is_some_and(|policy| policy.sync) {
            self.warn_about_destination(if client.has(Extension::Fsync) {
                "flushing the contents of files, but not their names, which SFTP can't flush"
            } else {
                "the server can't flush files: continuing without flushing"
            });
        }
    }
}

/// Reports that the server refuses to set modes and times: contents are complete, but not all
/// attributes are kept.
fn report_lost_attributes(monitor: &dyn Monitor, summary: Summary) -> Summary {
    let message = "the server refuses to set modes and mtimes: contents are complete, but may be readable only by their owner, and the next copy sends them again, unless it replaces only older files";
    let fault = Fault::new(Side::Destination, FaultKind::Io, message);
    Reporter::new(monitor).outcome(0, Vec::new, &Kind::Dir, 0, &Outcome::Failed(fault));
    Summary { failed: summary.failed + 1, ..summary }
}

/// True if a file fails when its time can't be set, because only its source would have it.
fn needs_times(job: &Job) -> bool {
    job.task.moving() == Some(Moving::Whole)
}

/// Threads that wait for answers leave when the sessions end.
impl JobConnection for SftpHost {
    fn end(&self, result: &Result<Summary, JobError>, leaving: EndingThreads<'_>) {
        self.sessions.close();
        if result.is_err() && !wait_until_left(&leaving.others, LEAVE_MAX) {
            self.sessions.joined().for_each(Client::end_session);
        }
    }
}

/// Forgets that the job created its directory, once everything is done.
fn remove_origin_record(job: &Job, origin: &[u8; 16], (root, name): NamedIn) {
    // A move is done only after the comparison of its copies.
    let is_done = job.task.copies().is_none_or(|policy| policy.moving.is_none());
    let dir = name.map_or(Ok(Arc::clone(&root)), |name| root.open_dir(&name, false));
    if let (true, Ok(dir)) = (is_done, dir) {
        dir.remove_origin_record(origin);
    }
}

/// A directory, and a name in it; `None` for the directory itself.
type NamedIn = (Arc<dyn TreeDir>, Option<Name>);

/// The directory on a server in which the single source may have got a new name, or which is that
/// source.
fn destination_of(job: &Job, destination: &Destination) -> Option<NamedIn> {
    let is_name = destination.rename.is_some() || job.task.removes().is_some();
    (is_name
        && destination.root.capabilities().has_visible_origin
        && !job.task.copies().is_some_and(|policy| policy.dry_run))
    .then(|| (Arc::clone(&destination.root), destination.rename.clone()))
}

/// Refuses to remove the sources of a move if the destination is the same: the directory that
/// contains a source, or the source if both are directories.
fn refuse_itself(job: &Job, source: &dyn Tree, destination: &Destination) -> Result<(), JobError> {
    let fails = |fault| JobError::Destination { path: escape_bytes(&job.dest.path), fault };
    let open = Arc::new(OpenDirs::default());
    let root = &destination.root;
    let is_same =
        |dir: &Arc<dyn TreeDir>, dest: &Arc<dyn TreeDir>| match (dir.local_dir(), dest.local_dir())
        {
            (Ok(near), Err(_)) => dest.is_same_dir(&near),
            (Err(_), Ok(near)) => dir.is_same_dir(&near),
            _ => Ok(true),
        };
    let one_name =
        |(to, name): (&Name, &Name)| words::may_be_same_name(to.as_bytes(), name.as_bytes());
    let mut seen = BTreeSet::new();
    for path in &job.sources.paths {
        let split = words::split(path);
        let mut is_same_destination = || {
            // Through a link, the source may contain the same entries as the destination.
            let is_into_dir = split.slash || split.name.is_none();
            if is_into_dir
                && seen.insert(split.whole)
                && let Ok(dir) = source.open(split.whole)
                && is_same(&dir, root)?
            {
                return Ok(true);
            }
            let (dir, name) = match Source::find(source, path, true, &open) {
                Ok(Source::Named { dir, name, .. }) => (dir, Some(name)),
                Ok(Source::Whole(dir)) => (dir, None),
                // The scan reports it.
                Err(_) => return Ok(false),
            };
            if !destination.rename.as_ref().zip(name.as_ref()).is_none_or(one_name) {
                return Ok(false);
            }
            let place = if name.is_some() { split.parent } else { split.whole };
            let dir = dir.handle()?;
            if seen.insert(place) && is_same(&dir, root)? {
                return Ok(true);
            }
            // A directory in it may be mounted in both places.
            let Some(name) = &name else { return Ok(false) };
            match (dir.open_dir(name, false), root.open_dir(name, false)) {
                (Ok(dir), Ok(dest)) => is_same(&dir, &dest),
                _ => Ok(false),
            }
        };
        match is_same_destination() {
            Ok(false) => {}
            Ok(true) => {
                let message = "source and destination are the same";
                return Err(fails(Fault::new(Side::Destination, FaultKind::SameFile, message)));
            }
            Err(error) => {
                let action = "check whether it is the source itself";
                return Err(fails(Fault::from_io(Side::Destination, action, &error)));
            }
        }
    }
    Ok(())
}

/// Ends the sessions. If one broke, finds out why.
fn conclude(
    result: Result<Summary, JobError>,
    sessions: Vec<Session>,
) -> Result<Summary, JobError> {
    let mut sessions = sessions.into_iter();
    match result {
        Err(JobError::Sftp { cause: SessionError::Closed | SessionError::Broken(_), .. }) => {
            let broken = sessions.find(|session| session.has_ended());
            match broken.or_else(|| sessions.next()) {
                Some(session) => Err(session.explain().into()),
                None => result,
            }
        }
        Ok(summary) => {
            // All entries are at their final places, so the result of closing does not matter.
            map_parallel(sessions.collect(), Session::finish);
            Ok(summary)
        }
        Err(error) => Err(error),
    }
}

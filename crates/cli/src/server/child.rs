//! The code of one child: it drops all privileges it does not need, and serves one client. Its
//! parent is the main process of a server, or an agent that ssh starts in its place.

use super::ServerPaths;
use super::audit::JobReport;
use super::cache;
use super::guest;
use super::records::{Client, InvitationRecord};
use crate::interrupt;
use crate::sshd;
use haul::files::shown;
use haul_engine::{
    ChunkCache, JobError, ResourceLimits, Rights, ServeOptions, Summary, become_user,
    die_with_parent, is_root,
};
use haul_model::{Side, Task};
use haul_net::{Caller, Connection, Forwarded, Killer, ListenTarget, PublicKey, Refusal};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use signal_hook::consts::SIGTERM;
use signal_hook::low_level::pipe;
use std::io::{self, PipeWriter, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

/// Maximum length of a report line, in bytes. It is written in one piece.
pub(super) const REPORT_LEN_MAX: usize = 2048;

/// Maximum length of a text in a report before escaping, in characters.
const REPORTED_CHARS_MAX: usize = 300;

/// The exit status if the client disconnected during a job.
pub(super) const CLIENT_LOST: u8 = 3;

/// The reason for refusing a client at its job limit.
pub(super) const TOO_MANY: &str = "too many jobs at once";

/// Maximum time for a refused client to disconnect.
const REFUSING_MAX: Duration = Duration::from_secs(2);

/// A report to the main process, sent as a line of JSON.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// From now on SIGTERM ends the child cleanly.
    Ready,
    /// The child can't serve the client; the reason.
    Refused(String),
    Job(JobReport),
    /// The number of requests in a visit without a job.
    Requests(u64),
    /// A guest was enrolled under this name.
    Enrolled(String),
}

/// The pipe to the main process.
pub(super) struct Reports(pub(super) Mutex<PipeWriter>);

impl Reports {
    fn send_refusal(&self, reason: &str) {
        self.send(&Report::Refused(truncated(reason)));
    }

    fn send(&self, report: &Report) {
        let Ok(mut line) = serde_json::to_vec(report) else { return };
        line.push(b'\n');
        if line.len() <= REPORT_LEN_MAX {
            // Without a main process the log is not written.
            let _ = self.0.lock().write_all(&line);
        }
    }
}

/// The child's context, set by the main process.
pub(super) struct ChildContext<'a> {
    pub(super) paths: &'a ServerPaths,
    pub(super) bounds: ResourceLimits,
    /// The process ID of the parent.
    pub(super) parent: u32,
    pub(super) reports: Reports,
}

impl ChildContext<'_> {
    /// Reports that the client can't be served. Returns the exit status.
    fn fail(&self, error: &io::Error) -> u8 {
        self.reports.send_refusal(&error.to_string());
        1
    }
}

/// The child's connection.
pub(super) struct ChildConnection {
    pub(super) caller: Caller,
    /// The server's newest key, unless the client already has it.
    pub(super) new_key: Option<PublicKey>,
    /// Further connections of the client.
    pub(super) forwarded: Forwarded,
}

/// The reason why a client can't be served.
pub(super) fn refusal(client: &Client) -> Option<&'static str> {
    let is_user_missing = is_root() && client.user.is_none();
    is_user_missing.then_some("the server runs as root, and the client has no user")
}

/// Serves `client`. **No other thread may run yet.**
pub(super) fn serve(context: &ChildContext<'_>, call: ChildConnection, client: &Client) -> u8 {
    let ChildConnection { caller, new_key, forwarded } = call;
    let cache = match confine(context, client) {
        Ok(cache) => cache,
        Err(error) => {
            return refuse(context, caller, Refusal::Unserved, &error.to_string());
        }
    };
    let begun = caller.socket().try_clone_to_owned().and_then(|socket| {
        Ok((TcpStream::from(socket), caller.into_connection(client.name.clone(), new_key)?))
    });
    match begun {
        Err(error) => context.fail(&error),
        Ok((socket, connection)) => {
            let listen_target = ListenTarget::Server(forwarded);
            let status = serve_over(context, connection, client, cache, Ok(&listen_target));
            read_rest(socket);
            status
        }
    }
}

/// Serves `client` over standard input and output, through ssh.
pub(super) fn serve_streams(context: &ChildContext<'_>, client: &Client) -> u8 {
    let begun = confine(context, client).and_then(|cache| {
        let (input, output) = sshd::streams()?;
        Ok((Connection::from_streams(input, output)?, cache))
    });
    let listen_target = Err("a login restricted to a directory opens no ports");
    match begun {
        Err(error) => context.fail(&error),
        Ok((connection, cache)) => serve_over(context, connection, client, cache, listen_target),
    }
}

fn serve_over(
    context: &ChildContext<'_>,
    connection: Connection,
    client: &Client,
    cache: Option<ChunkCache>,
    listen_target: Result<&ListenTarget, &'static str>,
) -> u8 {
    if let Err(error) = close_on_sigterm(connection.closer.killer()) {
        return context.fail(&error);
    }
    context.reports.send(&Report::Ready);
    let send = |report: Report| context.reports.send(&report);
    let serving = ServeOptions {
        rights: client.right.into(),
        on_failure: &interrupt::exit_after_cleanup_max,
        listen_target,
        program: None,
        calls: false,
        on_end: &|task, side, result| send(Report::Job(job_report(task, side, result))),
        cache: &|| cache.clone(),
        on_requests: &|count| send(Report::Requests(count)),
    };
    match haul_engine::serve_with(serving, connection) {
        Ok(()) => 0,
        Err(JobError::Connection(_)) => CLIENT_LOST,
        // The client received the error, or has disconnected.
        Err(_) => 1,
    }
}

/// Restricts this process to the client's rights. Returns its chunk cache. This process then ends
/// with its parent.
fn confine(context: &ChildContext<'_>, client: &Client) -> io::Result<Option<ChunkCache>> {
    let context_error = |what: &str, error: io::Error| {
        io::Error::new(error.kind(), format!("can't {what}: {error}"))
    };
    let writes = Rights::from(client.right) == Rights::Write;
    let cache = if writes { cache::open(context.paths, client) } else { None };
    if let Some(user) = &client.user {
        become_user(user)
            .map_err(|error| context_error(&format!("become the user {user}"), error))?;
    }
    die_with_parent(context.parent)?;
    let root = shown(&client.root);
    let stay = haul_engine::confine_below(&client.root, true, client.right.into(), cache.as_ref());
    stay.map_err(|error| context_error(&format!("restrict access to {root}"), error))?;
    context.bounds.apply().map_err(|error| context_error("limit the process", error))?;
    Ok(cache)
}

/// Reads pending input. Closing a socket with unread input discards its unsent output.
fn read_rest(mut socket: TcpStream) {
    let mut bytes = [0; 4096];
    let ended = socket.set_nonblocking(true);
    while ended.is_ok() && matches!(socket.read(&mut bytes), Ok(1..)) {}
}

/// Closes the connection on SIGTERM. The job ends as with a lost connection, so its partial files
/// can be resumed.
fn close_on_sigterm(killer: Killer) -> io::Result<()> {
    let (mut reader, writer) = io::pipe()?;
    pipe::register(SIGTERM, writer)?;
    let wait = move || {
        if reader.read_exact(&mut [0]).is_ok() {
            killer.kill();
        }
    };
    thread::Builder::new().name("ending".to_owned()).spawn(wait).map(drop)
}

/// The start of a text, short enough for a report.
fn truncated(text: &str) -> String {
    text.chars().take(REPORTED_CHARS_MAX).collect()
}

fn job_report(task: &Task, side: Side, result: &Result<Summary, JobError>) -> JobReport {
    let task = match task {
        Task::Copy(policy) if policy.moving.is_some() => "move",
        Task::Copy(_) => "copy",
        Task::Check { .. } => "check",
        Task::Remove { .. } => "remove",
        Task::Sync(..) => "sync",
    };
    let role = if side == Side::Source { "send" } else { "receive" };
    let summary = result.as_ref().ok().copied().unwrap_or_default();
    let Summary { copied, dirs_created, skipped, updated, linked, deleted, failed, .. } = summary;
    let outcome = match result {
        Ok(_) if failed > 0 => "some failed".to_owned(),
        Ok(_) => "done".to_owned(),
        Err(error) => truncated(&error.to_string()),
    };
    JobReport {
        task: task.to_owned(),
        role: role.to_owned(),
        entries: copied + dirs_created + skipped + updated + linked + deleted + failed,
        bytes: summary.bytes,
        failed,
        outcome,
    }
}

/// Refuses a client. The main process logs the `reason`.
pub(super) fn refuse(
    context: &ChildContext<'_>,
    caller: Caller,
    refusal: Refusal,
    reason: &str,
) -> u8 {
    let begun = context.bounds.apply().and_then(|()| die_with_parent(context.parent));
    context.reports.send_refusal(reason);
    u8::from(begun.and_then(|()| caller.refuse(refusal, REFUSING_MAX)).is_err())
}

/// Enrolls the guest with this invitation.
pub(super) fn receive(
    context: &ChildContext<'_>,
    caller: Caller,
    invited: &InvitationRecord,
) -> u8 {
    let begun = context.bounds.apply().and_then(|()| die_with_parent(context.parent));
    let enrolled = begun.and_then(|()| guest::receive(context.paths, caller, invited));
    match enrolled {
        Ok(name) => {
            context.reports.send(&Report::Enrolled(name));
            0
        }
        Err(error) => context.fail(&error),
    }
}

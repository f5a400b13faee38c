//! A job between two hosts, each with one role. Their agents exchange frames through this process,
//! which is connected to both as their client. It assigns the roles, and forwards the messages
//! unchanged. `tracker.rs` reads from them the progress of the job, and `forwarding.rs` forwards
//! the frames. Contents use direct connections between the hosts where possible (`direct_plan.rs`).
//!
//! Neither host is trusted more than in a job with this machine. The receiver knows which sources
//! were named, and accepts no others. It tells the sender only which contents it wants, and their
//! outcomes.

mod direct_plan;
mod forwarding;
mod tracker;

pub use self::direct_plan::DirectPlan;

use self::direct_plan::DirectCalls;
use self::forwarding::Forwarder;
use self::tracker::JobTracker;
use crate::assembly::wait_until_left;
use crate::control::Control;
use crate::job::{Job, JobError};
use crate::link::wire::{Outbox, ReadEnd, run_writer};
use crate::remote::{self, AGENT_EXIT_MAX, CLOSE_MAX, EXIT_WAIT_MAX, TERMINATE_MAX};
use crate::request::Greeted;
use crate::threads::JobThreads;
use crate::watchdog::keepalive_after;
use crate::{Monitor, Summary};
use crossbeam_channel::{Receiver as Left, bounded};
use haul_model::{Compression, Place, Relative, words};
use haul_net::{Closer, ConnectError, Killer};
use haul_proto::{DirectWish, JobRequest, Message, NamedSources, Role, encode};
use parking_lot::Mutex;
use std::sync::Arc;

/// Two agents of a job.
pub struct Between {
    /// The agent with the sources.
    pub from: Greeted,
    /// The agent with the destination.
    pub to: Greeted,
    /// Set if the first host may call the second.
    pub direct_plan: Option<DirectPlan>,
}

/// One of the two agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentSide {
    From,
    To,
}

/// The two agents while a job runs: their names, and the one that was lost.
struct Hosts<'a> {
    control: &'a Control<'a>,
    names: [String; 2],
    calls: DirectCalls<'a>,
    /// The first agent whose connection broke.
    lost: Mutex<Option<AgentSide>>,
}

/// Runs `job` between two hosts to its end.
pub(crate) fn between(
    job: &Job,
    hosts: Between,
    monitor: &dyn Monitor,
) -> Result<Summary, JobError> {
    let Between { from, to, direct_plan } = hosts;
    // Each agent must understand the compression of the other.
    let compression = if from.caps == to.caps { job.wire.compression } else { Compression::None };
    let names = [from.closer.peer().to_owned(), to.closer.peer().to_owned()];
    let peers = [(&from.watchdog, &*names[0]), (&to.watchdog, &*names[1])];
    let control = Control::between(monitor, peers);
    control.finish_reading();
    let direct_plan = direct_plan.map(|direct_plan| direct_plan.check_caps(to.caps));
    let calls = DirectCalls::new(job, &control, &names[1], direct_plan)?;
    let requests = [sending(job, compression)?, receiving(job, &calls)?];
    let hosts = Hosts { control: &control, names, calls, lost: Mutex::default() };
    let (result, closers) = run(job, &hosts, [from, to], requests);
    conclude(result, *hosts.lost.lock(), closers)
}

/// The request to the agent that sends.
fn sending(job: &Job, compression: Compression) -> Result<Vec<u8>, JobError> {
    Ok(request(job, compression, job.token, None, remote::sender(job)?))
}

/// The request to the agent that receives. It names the sources, so that the agent accepts no
/// others, without their directories.
fn receiving(job: &Job, calls: &DirectCalls<'_>) -> Result<Vec<u8>, JobError> {
    let (dest, asked) = (job.dest.clone(), named_sources(job));
    remote::check_len(job, remote::dest_len(&dest) + remote::sources_len(&asked))?;
    // Both agents may run on one machine, where a token identifies one agent.
    let token = job.token.map(|token| token.map(|byte| !byte));
    let direct = calls.wish(job);
    let role = Role::Receiver { dest, asked: Some(Box::new(asked)) };
    Ok(request(job, job.wire.compression, token, direct, role))
}

fn request(
    job: &Job,
    compression: Compression,
    token: Option<[u8; 16]>,
    direct: Option<Box<DirectWish>>,
    role: Role,
) -> Vec<u8> {
    let request = remote::request_of(job, role);
    encode(&Message::Job(JobRequest { compression, token, direct, ..request }))
}

/// The sources of `job`, each reduced to the part of its path that determines its place.
fn named_sources(job: &Job) -> NamedSources {
    let relative = job.task.mirrors().map(|mirror| mirror.walking.relative).unwrap_or_default();
    let is_plain = relative == Relative::No && job.sources.base.is_none();
    let cut = |path: &Vec<u8>| if is_plain { shortest_path(path) } else { path.clone() };
    NamedSources { paths: job.sources.paths.iter().map(cut).collect(), ..job.sources.clone() }
}

/// The shortest path with the same place as `path`.
fn shortest_path(path: &[u8]) -> Vec<u8> {
    let Ok(place) = Place::of(words::without_tilde(path), None, Relative::No) else {
        // Such a path fails later.
        return path.to_vec();
    };
    let Some(name) = place.names.first() else { return b".".to_vec() };
    // The `./` keeps a name of a single "~" from meaning the home directory.
    let slash: &[u8] = if place.slash { b"/" } else { b"" };
    [b"./", name.as_bytes(), slash].concat()
}

fn run(
    job: &Job,
    hosts: &Hosts<'_>,
    [from, to]: [Greeted; 2],
    [to_sender, to_receiver]: [Vec<u8>; 2],
) -> (Result<Summary, JobError>, [Closer; 2]) {
    let control = hosts.control;
    let tracker = JobTracker::new(job, control);
    if let Some(reason) = hosts.calls.refusal() {
        hosts.calls.report_not_direct(reason);
    }
    let (at_work, left) = bounded::<()>(0);
    let (from_closer, to_closer) = (from.closer, to.closer);
    let killers = [from_closer.killer(), to_closer.killer()];
    let (from_box, from_frames) = Outbox::new(false);
    let (to_box, to_frames) = Outbox::new(false);
    let result = std::thread::scope(|scope| {
        let threads = JobThreads::new(scope, control);
        let writers = [
            (AgentSide::From, from.output, from_frames, to_sender, from.watchdog),
            (AgentSide::To, to.output, to_frames, to_receiver, to.watchdog),
        ];
        for (side, mut output, frames, request, watchdog) in writers {
            let at_work = at_work.clone();
            threads.spawn("writer", move || {
                let _at_work = at_work;
                let keepalive_after = keepalive_after(watchdog.max());
                let sent = run_writer(&mut output, &frames, request, keepalive_after, None);
                drop((frames, output));
                if let Err(error) = sent {
                    // The host may have sent the reason, or that the job is done.
                    control.linger_for(Some(&watchdog));
                    hosts.agent_ended(side, ReadEnd::Lost(error));
                }
            });
        }
        let forwarding = [
            (AgentSide::From, from.input, Arc::clone(&to_box)),
            (AgentSide::To, to.input, Arc::clone(&from_box)),
        ];
        let tracker = &tracker;
        for (side, input, output) in forwarding {
            let at_work = at_work.clone();
            threads.spawn("reader", move || {
                let _at_work = at_work;
                let forwarding = Forwarder::new((tracker, &hosts.calls), control, output);
                let read = match side {
                    AgentSide::From => forwarding.contents(input),
                    AgentSide::To => forwarding.answers(input),
                };
                match read {
                    // The sender received Done first, and left.
                    Err(ReadEnd::Lost(_)) if side == AgentSide::From && tracker.is_done() => {}
                    Err(end) => hosts.agent_ended(side, end),
                    Ok(()) => {}
                }
            });
        }
        drop(at_work);
        let result = control.wait();
        for outbox in [&from_box, &to_box] {
            outbox.close();
            if result.is_err() {
                outbox.cut();
            }
        }
        hosts.release(&result, &killers, &left);
        result
    });
    (result, [from_closer, to_closer])
}

impl Hosts<'_> {
    /// Releases all threads that wait for a host, when the job has ended.
    fn release(&self, result: &Result<Summary, JobError>, killers: &[Killer; 2], left: &Left<()>) {
        let is_over = match result {
            // A process that the login started may hold its stream open forever.
            Ok(_) => wait_until_left(left, CLOSE_MAX),
            // The exit of ssh shows why a connection broke.
            Err(JobError::Connection(ConnectError::Lost { .. })) => {
                let lost = *self.lost.lock();
                lost.map(|side| killers[side as usize].wait_for_exit(EXIT_WAIT_MAX));
                false
            }
            // The host that sent the reason tidies up, as in a job with this machine.
            Err(JobError::Destination { .. }) => {
                killers[AgentSide::To as usize].wait_for_exit(AGENT_EXIT_MAX);
                false
            }
            Err(_) => false,
        };
        if is_over {
            return;
        }
        killers.iter().for_each(Killer::kill);
        // A stopped or hanging process does not end when it is asked to.
        if !wait_until_left(left, TERMINATE_MAX) {
            killers.iter().for_each(Killer::kill);
        }
    }

    /// Handles the early end of the conversation with `side`.
    fn agent_ended(&self, side: AgentSide, end: ReadEnd) {
        let name = &self.names[side as usize];
        match end {
            ReadEnd::Lost(_) if !self.control.stopped() => {
                self.lost.lock().get_or_insert(side);
                end.report(self.control, name);
            }
            ReadEnd::Refused(error) => self.control.fail(with_host(name, error)),
            end => end.report(self.control, name),
        }
    }
}

/// `error` with the name of the host that reported or caused it.
fn with_host(name: &str, error: JobError) -> JobError {
    match error {
        JobError::Protocol(words) => JobError::Protocol(format!("{name}: {words}")),
        JobError::Usage(words) => JobError::Usage(format!("{name}: {words}")),
        error => error,
    }
}

/// Closes both connections. If one broke, finds out why.
fn conclude(
    result: Result<Summary, JobError>,
    lost: Option<AgentSide>,
    [from, to]: [Closer; 2],
) -> Result<Summary, JobError> {
    match result {
        Err(JobError::Connection(error @ ConnectError::Lost { .. })) => {
            let closer = if lost == Some(AgentSide::To) { to } else { from };
            Err(remote::with_exit_reason(error, closer).into())
        }
        Ok(summary) => {
            from.leave();
            to.leave();
            Ok(summary)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_gets_only_the_name_of_a_source() {
        let shortest =
            |path: &str| String::from_utf8(shortest_path(path.as_bytes())).expect("text");
        let paths =
            ["/home/ann/secret/x", "x/", "a/b/.", "~", "~/", "/", "..", "a/~", "a/..", "x/./"];
        let names = paths.map(shortest);
        assert_eq!(names, ["./x", "./x/", ".", ".", ".", ".", ".", "./~", ".", "."]);
    }
}

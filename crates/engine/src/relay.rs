//! A job between two hosts, each of which has a role: their agents talk to each other
//! through this process, frame by frame. Who logs in to both is their client, and tells
//! each its part; what the roles say passes through here as it is, and is looked at as far
//! as it takes to show how the job goes (`course.rs`). `passing.rs` moves the frames.
//! Contents go straight from one host to the other where that can be (`straight.rs`).
//!
//! Neither host is believed more than in a job with this machine. The receiver is told
//! which sources were named, and takes nothing else; it tells the sender nothing but which
//! contents it wants, and what came of them.

mod course;
mod passing;
mod straight;

pub use self::straight::Straight;

use self::course::Course;
use self::passing::Passing;
use self::straight::Calls;
use crate::assembly::leave_within;
use crate::control::Control;
use crate::crew::Crew;
use crate::job::{Job, JobError};
use crate::link::wire::{Outbox, ReadEnd, run_writer};
use crate::remote::{self, ASKED_MAX, CLOSE_MAX, LAST_WORDS_MAX, TIDYING_MAX};
use crate::request::Greeted;
use crate::vigil::sign_after;
use crate::{Monitor, Summary};
use crossbeam_channel::{Receiver as Left, bounded};
use haul_model::{Compression, Place, Relative, words};
use haul_net::{Closer, ConnectError, Killer};
use haul_proto::{DirectWish, JobRequest, Message, NamedSources, Role, encode};
use parking_lot::Mutex;
use std::sync::Arc;

/// Two agents of a job.
pub struct Between {
    /// The one with the sources.
    pub from: Greeted,
    /// The one with the destination.
    pub to: Greeted,
    /// Set if the first may call the second.
    pub straight: Option<Straight>,
}

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    From,
    To,
}

/// The two agents while a job runs: their names, and which of them has ended it.
struct Hosts<'a> {
    control: &'a Control<'a>,
    names: [String; 2],
    calls: Calls<'a>,
    /// The one whose connection has broken.
    lost: Mutex<Option<Side>>,
}

/// Runs `job` between two hosts to its end.
pub(crate) fn between(
    job: &Job,
    hosts: Between,
    monitor: &dyn Monitor,
) -> Result<Summary, JobError> {
    let Between { from, to, straight } = hosts;
    // What one compresses the other has to read.
    let compression = match from.caps == to.caps {
        true => job.compression,
        false => Compression::None,
    };
    let names = [from.closer.peer().to_owned(), to.closer.peer().to_owned()];
    let peers = [(&from.vigil, &*names[0]), (&to.vigil, &*names[1])];
    let control = Control::between(monitor, peers);
    control.hear_out();
    let straight = straight.map(|straight| straight.calling_one_with(to.caps));
    let calls = Calls::new(job, &control, &names[1], straight)?;
    let requests = [sending(job, compression)?, receiving(job, &calls)?];
    let hosts = Hosts { control: &control, names, calls, lost: Mutex::default() };
    let (result, closers) = run(job, &hosts, [from, to], requests);
    conclude(result, *hosts.lost.lock(), closers)
}

/// The request to the agent that sends.
fn sending(job: &Job, compression: Compression) -> Result<Vec<u8>, JobError> {
    Ok(request(job, compression, job.token, None, remote::sender(job)?))
}

/// The request to the one that receives. It is told how the sources are named, so that it
/// takes no others, and not where they are.
fn receiving(job: &Job, calls: &Calls<'_>) -> Result<Vec<u8>, JobError> {
    let asked = named_sources(job);
    let paths_len = remote::paths_len(&asked.sources, &asked.base);
    remote::check_len(job, remote::receiver_words_len(job) + paths_len)?;
    // Both may be on one machine, where one token is one agent.
    let token = job.token.map(|token| token.map(|byte| !byte));
    let direct = calls.wish(job);
    Ok(request(job, job.compression, token, direct, remote::receiver(job, Some(asked))))
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

/// The sources of `job`, each cut to the part of its path that gives it its place.
fn named_sources(job: &Job) -> NamedSources {
    let relative = job.task.mirrors().map(|mirror| mirror.walking.relative).unwrap_or_default();
    let is_plain = relative == Relative::No && job.base.is_none();
    let cut = |path: &Vec<u8>| match is_plain {
        true => name_alone(path),
        false => path.clone(),
    };
    NamedSources {
        sources: job.sources.iter().map(cut).collect(),
        base: job.base.clone(),
        recursive: job.recursive,
        follow: job.follow,
    }
}

/// A path with the same place as `path`, which says no more than that.
fn name_alone(path: &[u8]) -> Vec<u8> {
    let Ok(place) = Place::of(words::without_tilde(path), None, Relative::No) else {
        // It can only fail.
        return path.to_vec();
    };
    let Some(name) = place.names.first() else { return b".".to_vec() };
    // A name of a single "~" is no home directory.
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
    let course = Course::new(job, control);
    if let Some(reason) = hosts.calls.unmade() {
        hosts.calls.tell_not_direct(reason);
    }
    let (at_work, left) = bounded::<()>(0);
    let (from_closer, to_closer) = (from.closer, to.closer);
    let killers = [from_closer.killer(), to_closer.killer()];
    let (from_box, from_frames) = Outbox::new(false);
    let (to_box, to_frames) = Outbox::new(false);
    let result = std::thread::scope(|scope| {
        let crew = Crew::new(scope, control);
        let writers = [
            (Side::From, from.output, from_frames, to_sender, from.vigil),
            (Side::To, to.output, to_frames, to_receiver, to.vigil),
        ];
        for (side, mut output, frames, request, vigil) in writers {
            let at_work = at_work.clone();
            crew.begin("writer", move || {
                let _at_work = at_work;
                let sign_after = sign_after(vigil.max());
                let sent = run_writer(&mut output, &frames, request, sign_after, None);
                drop((frames, output));
                if let Err(error) = sent {
                    // The host may have said why before, or that all is done.
                    control.linger_for(Some(&vigil));
                    hosts.ends(side, ReadEnd::Lost(error));
                }
            });
        }
        let passing = [
            (Side::From, from.input, Arc::clone(&to_box)),
            (Side::To, to.input, Arc::clone(&from_box)),
        ];
        let course = &course;
        for (side, input, onwards) in passing {
            let at_work = at_work.clone();
            crew.begin("reader", move || {
                let _at_work = at_work;
                let passing = Passing::new((course, &hosts.calls), control, onwards);
                let read = match side {
                    Side::From => passing.contents(input),
                    Side::To => passing.answers(input),
                };
                match read {
                    // The sender has heard so first.
                    Err(ReadEnd::Lost(_)) if side == Side::From && course.is_done() => {}
                    Err(end) => hosts.ends(side, end),
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
        hosts.let_go(&result, &killers, &left);
        result
    });
    (result, [from_closer, to_closer])
}

impl Hosts<'_> {
    /// Sees that no thread waits for a host any more, when the job has ended.
    fn let_go(&self, result: &Result<Summary, JobError>, killers: &[Killer; 2], left: &Left<()>) {
        let is_over = match result {
            // What a login started may hold its stream open for ever.
            Ok(_) => leave_within(left, CLOSE_MAX),
            // Why a connection broke shows in how ssh ends by itself.
            Err(JobError::Connection(ConnectError::Lost { .. })) => {
                let lost = *self.lost.lock();
                lost.map(|side| killers[side as usize].ends_within(LAST_WORDS_MAX));
                false
            }
            // The one that has told why tidies up, as in a job from here.
            Err(JobError::Destination { .. }) => {
                killers[Side::To as usize].ends_within(TIDYING_MAX);
                false
            }
            Err(_) => false,
        };
        if is_over {
            return;
        }
        killers.iter().for_each(Killer::kill);
        // One that was stopped, or hangs, does not end when it is asked to.
        if !leave_within(left, ASKED_MAX) {
            killers.iter().for_each(Killer::kill);
        }
    }

    /// The conversation with one of them has ended before its time.
    fn ends(&self, side: Side, end: ReadEnd) {
        let name = &self.names[side as usize];
        match end {
            ReadEnd::Lost(_) if !self.control.stopped() => {
                self.lost.lock().get_or_insert(side);
                end.report(self.control, name);
            }
            ReadEnd::Refused(error) => self.control.fail(by(name, error)),
            end => end.report(self.control, name),
        }
    }
}

/// `error`, which names the host that has said it or is at fault.
fn by(name: &str, error: JobError) -> JobError {
    match error {
        JobError::Protocol(words) => JobError::Protocol(format!("{name}: {words}")),
        JobError::Usage(words) => JobError::Usage(format!("{name}: {words}")),
        error => error,
    }
}

/// Closes both connections, and finds out why one broke if it did.
fn conclude(
    result: Result<Summary, JobError>,
    lost: Option<Side>,
    [from, to]: [Closer; 2],
) -> Result<Summary, JobError> {
    match result {
        Err(JobError::Connection(error @ ConnectError::Lost { .. })) => {
            let closer = if lost == Some(Side::To) { to } else { from };
            Err(remote::explained(error, closer).into())
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
    fn a_receiver_learns_no_more_of_a_source_than_its_name() {
        let told = |path: &str| String::from_utf8(name_alone(path.as_bytes())).expect("text");
        let paths =
            ["/home/ann/secret/x", "x/", "a/b/.", "~", "~/", "/", "..", "a/~", "a/..", "x/./"];
        let names = paths.map(told);
        assert_eq!(names, ["./x", "./x/", ".", ".", ".", ".", ".", "./~", ".", "."]);
    }
}

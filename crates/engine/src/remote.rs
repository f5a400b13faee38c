//! A job with one role here and the other in the agent at the other end of a
//! connection.

use crate::control::{Control, Reporter, leave_within};
use crate::crew::Crew;
use crate::job::{CopyJob, JobError};
use crate::link::wire::{
    self, LISTS_MAX, OutFrame, Outbox, READ_AHEAD, ReadEnd, RemoteReceiver, RemoteSender,
    read_header, read_payload, refused,
};
use crate::pool::Pool;
use crate::receiver::{Asked, Destination, Receiver, Tasks, run_worker};
use crate::sender::{Remover, Scan, Sender, run_reader};
use crate::vigil::{Vigil, sign_after, silence_seconds};
use crate::workers::workers;
use crate::{Monitor, Summary};
use haul_net::{Closer, ConnectError, Connection, Patience, Writer};
use haul_proto::{
    Caps, FrameType, Header, Hello, JobRequest, Message, Removal, Role, Welcome, check_welcome,
    encode, frame_bytes,
};
use haul_tree::LocalTree;
use std::io::{BufReader, Read};
use std::sync::Arc;
use std::time::Duration;

/// The program's version, told in greetings.
pub(crate) const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// How long ssh may take to end by itself when the connection has broken.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);

/// How long the threads of a connection may take to leave it after a job that is
/// done.
const CLOSE_MAX: Duration = Duration::from_secs(2);

/// How long ssh may take to end when it was asked to.
const ASKED_MAX: Duration = Duration::from_secs(1);

/// Buffers in circulation on one side of a job.
pub(crate) fn pool_len() -> usize {
    (workers() * 2 + 2).min(8)
}

/// The receiver runs in the agent.
pub(crate) fn upload(
    job: &CopyJob,
    connection: Connection,
    monitor: &dyn Monitor,
) -> Result<Summary, JobError> {
    let peer = connection.closer.peer().to_owned();
    let patience = connection.closer.patience();
    let vigil = Vigil::new(patience);
    let control = Control::with(monitor, &vigil, &peer);
    let reporter = Reporter::new(monitor);
    let (outbox, frames) = Outbox::new(connection.writer.pipe().is_some());
    let (queue, wanted) = crossbeam_channel::unbounded();
    let receiver = Arc::new(RemoteReceiver(Arc::clone(&outbox)));
    let (heard, to_remove) = crossbeam_channel::unbounded();
    let heard = job.task.removes().is_some().then_some(heard);
    let sender = Sender::new(&control, Some(&reporter), receiver, job, Some(queue), heard);
    let pool = Pool::new(pool_len());
    let role =
        Role::Receiver { dest: job.dest.clone(), into_dir: job.into_dir, origin: job.origin };
    let greeting = greeting(patience, job, role);
    let Connection { reader, writer, closer } = connection;
    let (at_work, all_left) = crossbeam_channel::bounded(0);
    let result = std::thread::scope(|scope| {
        let (peer, control, sender, vigil) = (peer.as_str(), &control, &sender, &vigil);
        let crew = Crew::new(scope, control);
        let (sends, reads) = (at_work.clone(), at_work);
        crew.begin("writer", move || {
            let _at_work = sends;
            send_all(writer, frames, greeting, patience, control, peer);
        });
        crew.begin("reader", move || {
            let _at_work = reads;
            let mut input = BufReader::with_capacity(READ_AHEAD, vigil.listen(reader));
            let read = welcome(&mut input, peer).and_then(|_| {
                vigil.greeted(patience.silence_max);
                wire::read_for_sender(input, &**sender)
            });
            if let Err(end) = read {
                end.report(control, peer);
            }
        });
        crew.begin("scan", || {
            Scan::new(sender, &LocalTree, job, &[]).run(&job.sources);
        });
        let read = || run_reader(sender, &wanted, &outbox, &pool, control);
        crew.begin_several("file reader", workers(), read);
        if job.task.removes().is_some() {
            crew.begin("remover", || {
                let tell = |removals| tell_removals(sender, &outbox, removals);
                Remover::new(sender, &LocalTree, &job.sources, &tell).run(&to_remove);
            });
        }
        let result = control.wait();
        sender.close_queue();
        outbox.close();
        cut_off(&result, &closer, &all_left);
        result
    });
    conclude(result, closer)
}

/// Tells the user what was removed here, and the agent when that is all.
fn tell_removals(sender: &Sender<'_>, outbox: &Outbox, removals: Vec<Removal>) {
    for removal in removals {
        match removal {
            Removal::End => outbox.tell(&Message::Removed(vec![Removal::End])),
            removal => sender.tell_removal(removal),
        }
    }
}

/// Sends `greeting` and what is queued until the job has nothing more to say. When
/// the connection breaks, what the agent said last may tell why, and comes first.
fn send_all(
    mut writer: Writer,
    frames: crossbeam_channel::Receiver<OutFrame>,
    greeting: Vec<u8>,
    patience: Patience,
    control: &Control<'_>,
    peer: &str,
) {
    let sign_after = sign_after(patience.silence_max);
    let sent = wire::run_writer(&mut writer, &frames, greeting, sign_after);
    drop((frames, writer));
    if let Err(error) = sent {
        control.linger();
        ReadEnd::Lost(error).report(control, peer);
    }
}

/// The sender runs in the agent.
pub(crate) fn download(
    job: &CopyJob,
    connection: Connection,
    monitor: &dyn Monitor,
) -> Result<Summary, JobError> {
    let mut destination = Destination::find(&LocalTree, job)?;
    destination.expect_peer();
    let root = destination.root.system_handle().map_err(|e| JobError::unusable(&job.dest, &e))?;
    let words: usize = job.sources.iter().map(|path| path.len() + 5).sum();
    if words > FrameType::Job.payload_max() as usize {
        return Err(JobError::Usage("too many sources for one command".to_owned()));
    }
    let peer = connection.closer.peer().to_owned();
    let patience = connection.closer.patience();
    let vigil = Vigil::new(patience);
    let control = Control::with(monitor, &vigil, &peer);
    let (outbox, frames) = Outbox::new(connection.writer.pipe().is_some());
    let (tasks, work) = crossbeam_channel::unbounded();
    let (lists, listed) = crossbeam_channel::bounded(LISTS_MAX);
    let sender = Arc::new(RemoteSender(Arc::clone(&outbox)));
    let receiver = Receiver::new(
        &control,
        sender,
        destination,
        job,
        Some(Asked::of(job)),
        Tasks::to_all(tasks),
    )
    .map_err(|error| JobError::unusable(&job.dest, &error))?;
    let pool = Pool::new(pool_len());
    let (sources, recursive, follow) = (job.sources.clone(), job.recursive, job.follow);
    let greeting = greeting(patience, job, Role::Sender { sources, recursive, follow });
    let Connection { reader, writer, closer } = connection;
    let (at_work, all_left) = crossbeam_channel::bounded(0);
    let result = std::thread::scope(|scope| {
        let (receiver, pool, control, peer) = (&receiver, &pool, &control, peer.as_str());
        let vigil = &vigil;
        let crew = Crew::new(scope, control);
        let (sends, reads) = (at_work.clone(), at_work);
        crew.begin("writer", move || {
            let _at_work = sends;
            send_all(writer, frames, greeting, patience, control, peer);
        });
        // What a peer can cause happens in threads that can't write elsewhere.
        crew.begin("confined", move || {
            job.confine_receiver(&root);
            crew.begin("lister", move || listed.iter().for_each(|items| receiver.take_list(items)));
            crew.begin("reader", move || {
                let _at_work = reads;
                let mut input = BufReader::with_capacity(READ_AHEAD, vigil.listen(reader));
                let read = welcome(&mut input, peer).and_then(|_| {
                    vigil.greeted(patience.silence_max);
                    wire::read_for_receiver(input, receiver, &lists, pool)
                });
                if let Err(end) = read {
                    end.report(control, peer);
                }
            });
            crew.begin_several("worker", workers(), move || run_worker(receiver, &work));
        });
        let result = control.wait();
        receiver.close_tasks();
        outbox.close();
        cut_off(&result, &closer, &all_left);
        result
    });
    conclude(result, closer)
}

/// Hello and the job in one go: a job costs no round trip before it starts.
fn greeting(patience: Patience, job: &CopyJob, role: Role) -> Vec<u8> {
    let mut greeting = hello(patience);
    greeting.extend_from_slice(&encode(&Message::Job(JobRequest { task: job.task, role })));
    greeting
}

/// The client's greeting, by one who has this patience.
pub(crate) fn hello(patience: Patience) -> Vec<u8> {
    let hello = Hello::ours(Caps::OURS, silence_seconds(patience), PROGRAM);
    frame_bytes(FrameType::Hello, &hello.encode())
}

/// Reads and checks the agent's greeting.
pub(crate) fn welcome(input: &mut BufReader<impl Read>, peer: &str) -> Result<Caps, ReadEnd> {
    check_welcome(&read_welcome(input, peer)?).map_err(refused)
}

/// Reads the agent's greeting, of whatever version it is.
pub(crate) fn read_welcome(
    input: &mut BufReader<impl Read>,
    peer: &str,
) -> Result<Welcome, ReadEnd> {
    let mut first = [0; haul_proto::HEADER_LEN];
    input.read_exact(&mut first)?;
    let header = match Header::decode(first) {
        Ok(header) if header.kind == FrameType::Welcome => header,
        _ => {
            let text = [&first, input.buffer()].concat();
            return Err(ReadEnd::Refused(ConnectError::noisy_shell(peer, &text).into()));
        }
    };
    let payload = read_payload(input, header)?;
    let welcome = Hello::decode(&payload).map_err(refused)?;
    tracing::debug!(program = welcome.program, caps = welcome.caps.bits(), "the agent greets");
    Ok(welcome)
}

/// Makes sure that no thread waits for a peer that has nothing more to say.
fn cut_off(
    result: &Result<Summary, JobError>,
    closer: &Closer,
    all_left: &crossbeam_channel::Receiver<()>,
) {
    let is_over = match result {
        // What the login started on the host may hold the stream open for ever.
        Ok(_) => leave_within(all_left, CLOSE_MAX),
        // Why a connection broke shows in how ssh ends by itself.
        Err(JobError::Connection(ConnectError::Lost { .. })) => {
            closer.killer().ends_within(LAST_WORDS_MAX)
        }
        Err(_) => false,
    };
    if !is_over {
        closer.killer().kill();
        // One that was stopped, or hangs, does not end when it is asked to.
        if !leave_within(all_left, ASKED_MAX) {
            closer.killer().kill();
        }
    }
}

/// Closes the connection, and finds out why it broke if it did.
fn conclude(result: Result<Summary, JobError>, closer: Closer) -> Result<Summary, JobError> {
    match result {
        Err(JobError::Connection(lost @ ConnectError::Lost { .. })) => {
            Err(JobError::Connection(match closer.explain() {
                ConnectError::Stopped { .. } => lost,
                reason => reason,
            }))
        }
        // Everything is in its place.
        Ok(summary) => {
            closer.leave();
            Ok(summary)
        }
        Err(error) => Err(error),
    }
}

/// Reads a frame that carries one message.
pub(crate) fn read_message(input: &mut impl Read) -> Result<Message, ReadEnd> {
    read_message_behind(read_header(input)?, input)
}

/// Reads the message behind `header`.
pub(crate) fn read_message_behind(
    header: Header,
    input: &mut impl Read,
) -> Result<Message, ReadEnd> {
    if header.kind.payload_max() > FrameType::Job.payload_max() {
        return Err(refused("the peer sent content where a message is expected"));
    }
    let payload = read_payload(input, header)?;
    haul_proto::decode(header.kind, &payload).map_err(refused)
}

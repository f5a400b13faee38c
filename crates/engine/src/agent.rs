//! The other end of a connection: greets, answers requests, and plays its role
//! in one job.

use crate::control::{CANCEL_POLL, Control};
use crate::link::wire::{
    self, LISTS_MAX, Outbox, READ_AHEAD, ReadEnd, RemoteReceiver, RemoteSender, read_header,
    read_payload, refused,
};
use crate::monitor::Silent;
use crate::pool::Pool;
use crate::receiver::{Destination, Receiver, Tasks, run_worker};
use crate::remote::{PROGRAM, pool_len, read_message};
use crate::request;
use crate::sender::{Scan, Sender, run_reader, run_remover};
use crate::tree::LocalTree;
use crate::words;
use crate::workers::workers;
use crate::{CopyJob, JobError};
use crossbeam_channel::RecvTimeoutError;
use haul_model::{Check, Fault, Side};
use haul_net::Writer;
use haul_proto::{
    Abort, Caps, CheckRequest, CopyRequest, FrameType, Hello, ListItem, Message, MoveRequest, Role,
    check_hello, encode, frame_bytes,
};
use haul_sys::{Access, confine};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;

/// Serves one client: reads requests and jobs from `input`, answers on
/// `output`, and returns after one job, or when the client is gone.
///
/// The calling process is confined to what the job needs, and threads may
/// still wait for `input` afterwards, with stages in their hands: it is expected
/// to call [`crate::remove_unpublished`] and to exit.
///
/// # Errors
/// When the client breaks the protocol or the streams fail.
pub fn serve(
    input: impl Read + Send + 'static,
    mut output: impl Write + AsFd + Send + 'static,
) -> Result<(), JobError> {
    haul_sys::raise_open_files();
    haul_sys::boot_id();
    let mut input = BufReader::with_capacity(READ_AHEAD, input);
    let job = match greet(&mut input, &mut output) {
        Ok(Some(job)) => job,
        Ok(None) => return Ok(()),
        Err(ReadEnd::Refused(error)) => {
            let abort = Message::Abort(Abort::Protocol(error.to_string()));
            let _ = output.write_all(&encode(&abort));
            return Err(error);
        }
        Err(ReadEnd::Lost(error)) => return Err(lost(&error)),
    };
    let (role, check) = job;
    match role {
        Role::Receiver { dest, into_dir, policy } => {
            let dest = words::without_tilde(&dest).to_vec();
            let job = CopyJob { dest, into_dir, policy, check, ..CopyJob::default() };
            receive(input, output, &job)
        }
        Role::Sender { sources, recursive, follow } => {
            let sources = sources.iter().map(|path| words::without_tilde(path).to_vec()).collect();
            let job = CopyJob { sources, recursive, follow, check, ..CopyJob::default() };
            send(input, output, job)
        }
    }
}

/// A job: the agent's part in it, and how trees are compared if it compares.
type Asked = (Role, Option<Check>);

/// Greets and answers requests until a job comes; `None` if none does.
fn greet(input: &mut impl BufRead, output: &mut impl Write) -> Result<Option<Asked>, ReadEnd> {
    let header = read_header(input)?;
    if header.kind != FrameType::Hello {
        return Err(refused("the client did not greet"));
    }
    let hello = Hello::decode(&read_payload(input, header)?).map_err(refused)?;
    let caps = check_hello(&hello);
    // Another version is told ours, and can say what is wrong.
    let welcome = Hello::ours(caps.clone().unwrap_or_default(), PROGRAM);
    output.write_all(&frame_bytes(FrameType::Welcome, &welcome.encode()))?;
    output.flush()?;
    let caps = caps.map_err(refused)?;
    // A client that goes away between two messages has what it wanted.
    while !input.fill_buf()?.is_empty() {
        match read_message(input)? {
            Message::Copy(CopyRequest { role }) => return Ok(Some((role, None))),
            Message::Check(_) if !caps.has(Caps::CHECK) => return Err(not_offered()),
            Message::Move(_) if !caps.has(Caps::MOVE) => return Err(not_offered()),
            Message::Check(CheckRequest { role, content }) => {
                return Ok(Some((role, Some(Check { content, remove: None }))));
            }
            Message::Move(MoveRequest { sources, rule }) => {
                let role = Role::Sender { sources, recursive: true, follow: false };
                return Ok(Some((role, Some(Check { content: true, remove: Some(rule) }))));
            }
            Message::Request(request) => request::answer(request, output)?,
            _ => return Err(refused("the client sent what is neither a request nor a job")),
        }
    }
    Ok(None)
}

fn not_offered() -> ReadEnd {
    refused("the client asks for what it did not say that it knows")
}

/// What the threads of an agent's job share. It lives as long as the process:
/// one that waits for input can't be waited for.
fn control() -> &'static Control<'static> {
    static SILENT: Silent = Silent::new();
    Box::leak(Box::new(Control::new(&SILENT)))
}

fn receive(
    input: impl Read + Send + 'static,
    mut output: impl Write + AsFd + Send + 'static,
    job: &CopyJob,
) -> Result<(), JobError> {
    let dest = &job.dest;
    let found = Destination::find(&LocalTree, job).and_then(|found| {
        let root = found.local_root();
        let fault = |e| Fault::from_io(Side::Destination, "open the directory", &e);
        let root = root.map_err(|error| JobError::Destination {
            path: haul_model::escape_bytes(dest),
            fault: fault(error),
        })?;
        Ok((found, root))
    });
    let (destination, root) = match found {
        Ok(found) => found,
        Err(error) => {
            output.write_all(&encode(&Message::Abort(abort(&error)))).map_err(|e| lost(&e))?;
            return Ok(());
        }
    };
    let confined = confine(match job.check {
        Some(_) => Access::ReadOnly,
        None => Access::Below(&root),
    });
    tracing::debug!(confined, "receiving");
    let control = control();
    let pipe = haul_sys::pipe_of(&output);
    let (outbox, frames) = Outbox::new(pipe.is_some());
    let writer = start_writer(control, Writer::new(output, pipe), frames);
    let (tasks, work) = crossbeam_channel::unbounded();
    let (lists, listed) = crossbeam_channel::bounded(LISTS_MAX);
    let sender = Arc::new(RemoteSender(Arc::clone(&outbox)));
    let receiver = Receiver::new(
        control,
        sender,
        destination,
        job.policy,
        job.check,
        None,
        Tasks::to_all(tasks),
    );
    let receiver = receiver.map_err(|error| lost(&error))?;
    let mut publishing = Vec::new();
    for _ in 0..workers() {
        let (receiver, work) = (Arc::clone(&receiver), work.clone());
        publishing.push(thread::spawn(move || run_worker(&receiver, &work)));
    }
    let lister = Arc::clone(&receiver);
    publishing.push(thread::spawn(move || run_lister(&lister, &listed)));
    let ending = Arc::clone(&receiver);
    thread::spawn(move || {
        let pool = Pool::new(pool_len());
        if let Err(end) = wire::read_for_receiver(input, &receiver, &lists, &pool) {
            end.report(control, CLIENT);
        }
    });
    let result = end(control, &outbox, writer);
    if result.is_err() {
        // What is about to get its name gets it before the process ends: the
        // way there can lead over a private name.
        ending.close_tasks();
        for thread in publishing {
            let _ = thread.join();
        }
    }
    result
}

/// Looks at the parts of a listing as they come, until the job ends.
fn run_lister(receiver: &Receiver<'_>, listed: &crossbeam_channel::Receiver<Vec<ListItem>>) {
    loop {
        match listed.recv_timeout(CANCEL_POLL) {
            Ok(items) => receiver.take_list(items),
            Err(RecvTimeoutError::Timeout) if !receiver.control.stopped() => {}
            Err(_) => return,
        }
    }
}

fn send(
    input: impl Read + Send + 'static,
    output: impl Write + AsFd + Send + 'static,
    job: CopyJob,
) -> Result<(), JobError> {
    let removes = job.removes();
    let confined = if removes {
        confine(Access::Removing(&holding(&job.sources)))
    } else {
        confine(Access::ReadOnly)
    };
    tracing::debug!(confined, "sending");
    // sshd takes small pieces out of its pipe, and has more to do than haul.
    haul_sys::wait_for_turns();
    let control = control();
    let pipe = haul_sys::pipe_of(&output);
    let (outbox, frames) = Outbox::new(pipe.is_some());
    let writer = start_writer(control, Writer::new(output, pipe), frames);
    let (queue, wanted) = crossbeam_channel::unbounded();
    let receiver = Arc::new(RemoteReceiver(Arc::clone(&outbox)));
    let (heard, to_remove) = crossbeam_channel::unbounded();
    let heard = removes.then_some(heard);
    let sender = Sender::new(control, None, receiver, job.follow, job.check, Some(queue), heard);
    let pool = Arc::new(Pool::new(pool_len()));
    for _ in 0..workers() {
        let (sender, wanted) = (Arc::clone(&sender), wanted.clone());
        let (outbox, pool) = (Arc::clone(&outbox), Arc::clone(&pool));
        thread::spawn(move || run_reader(&sender, &wanted, &outbox, &pool, control));
    }
    if removes {
        let (sender, outbox, sources) =
            (Arc::clone(&sender), Arc::clone(&outbox), job.sources.clone());
        thread::spawn(move || run_remover(&sender, &to_remove, &LocalTree, &sources, &outbox));
    }
    let scanner = Arc::clone(&sender);
    thread::spawn(move || Scan::new(&scanner, &LocalTree, job.recursive, &[]).run(&job.sources));
    thread::spawn(move || {
        if let Err(end) = wire::read_for_sender(input, &*sender) {
            end.report(control, CLIENT);
        }
    });
    end(control, &outbox, writer)
}

/// The directories that hold `sources`, each once.
fn holding(sources: &[Vec<u8>]) -> Vec<&Path> {
    let above = sources.iter().map(|path| words::split(words::without_dot(path)).parent);
    let above: BTreeSet<&[u8]> = above.collect();
    above.into_iter().map(|path| Path::new(OsStr::from_bytes(path))).collect()
}

/// How the client is called in messages.
const CLIENT: &str = "the client";

fn start_writer(
    control: &'static Control<'static>,
    output: Writer,
    frames: crossbeam_channel::Receiver<wire::OutFrame>,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        if let Err(error) = wire::run_writer(output, &frames, Vec::new()) {
            ReadEnd::Lost(error).report(control, CLIENT);
        }
    })
}

/// Waits for the end of the job, and tells the client if it is an early one.
fn end(
    control: &Control<'_>,
    outbox: &Outbox,
    writer: thread::JoinHandle<()>,
) -> Result<(), JobError> {
    let result = control.wait();
    match &result {
        Ok(_) | Err(JobError::Connection(_)) => {}
        Err(error) => outbox.tell(&Message::Abort(abort(error))),
    }
    outbox.close();
    // A panic in it was reported already.
    let _ = writer.join();
    result.map(|_| ())
}

fn abort(error: &JobError) -> Abort {
    match error {
        JobError::Usage(words) => Abort::Usage(words.clone()),
        JobError::Destination { path, fault } => Abort::Destination {
            path: words::shown(path.as_bytes().to_vec()),
            fault: fault.clone(),
        },
        JobError::Connection(_) | JobError::Sftp { .. } => Abort::Protocol(error.to_string()),
        JobError::Protocol(words) => Abort::Protocol(words.clone()),
        JobError::Interrupted => Abort::Cancelled,
    }
}

fn lost(error: &std::io::Error) -> JobError {
    haul_net::ConnectError::Lost { host: CLIENT.to_owned(), detail: error.to_string() }.into()
}

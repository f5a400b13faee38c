//! The other end of a connection: greets, answers requests, and plays its role
//! in one job.

mod conversation;

use self::conversation::{Begun, Client, Streams};
use crate::control::{CANCEL_POLL, Control, leave_within};
use crate::crew::DetachedCrew;
use crate::link::wire::{
    self, LISTS_MAX, Outbox, READ_AHEAD, ReadEnd, RemoteReceiver, RemoteSender,
};
use crate::monitor::Silent;
use crate::pool::Pool;
use crate::receiver::{Destination, Receiver, Tasks, run_worker};
use crate::remote::pool_len;
use crate::sender::{Remover, Scan, Sender, run_reader};
use crate::vigil::{Vigil, sign_after};
use crate::workers::workers;
use crate::{CopyJob, JobError};
use crossbeam_channel::RecvTimeoutError;
use haul_model::words;
use haul_model::{Fault, Side, Task};
use haul_net::{ConnectError, Patience, Writer};
use haul_proto::{Abort, JobRequest, ListItem, Message, Removal, Role};
use haul_sys::{Access, confine};
use haul_tree::LocalTree;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Serves one client: reads requests and jobs from `input`, answers on
/// `output`, and returns after one job, or when the client is gone.
///
/// The calling process is confined to what the job needs, and threads may
/// still wait for `input` afterwards, with stages in their hands: it is expected
/// to call [`crate::remove_unpublished`] and to exit.
///
/// # Errors
/// When the client breaks the protocol or the streams fail.
///
/// A client that is silent for longer than it has said is gone, and not waited for.
pub fn serve(
    input: impl Read + Send + 'static,
    output: impl Write + AsFd + Send + 'static,
) -> Result<(), JobError> {
    serve_with(Rights::Write, input, output)
}

/// What a client may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Nothing that writes or removes.
    Read,
    /// Everything.
    Write,
}

impl Rights {
    /// Why a client that has these rights is refused that part in a job.
    fn refuse(self, role: &Role, task: &Task) -> Option<&'static str> {
        let reads = match role {
            Role::Receiver { .. } => task.keeps_destination(),
            // The copy of a move is refused, too, before it is made in vain.
            Role::Sender { .. } => task.moving().is_none(),
        };
        (self == Self::Read && !reads).then_some(
            "this login may only read there: nothing can be copied to it or moved from it",
        )
    }
}

/// Keeps this process, and so whoever it serves, below the directory `root`; with
/// [`Rights::Read`] nothing there can be changed either. **To be called before any
/// other thread is started.** Paths are taken as in a chroot.
///
/// # Errors
/// Where the kernel can't enforce it, and those of opening the directory.
pub fn stay_below(root: &Path, rights: Rights) -> std::io::Result<()> {
    // It is read where nothing can be opened afterwards.
    haul_sys::boot_id();
    haul_sys::enter_jail(root, rights == Rights::Write)
}

/// As [`serve`], for a client that has these rights.
///
/// # Errors
/// See [`serve`].
pub fn serve_with(
    rights: Rights,
    input: impl Read + Send + 'static,
    output: impl Write + AsFd + Send + 'static,
) -> Result<(), JobError> {
    haul_sys::boot_id();
    let vigil = Vigil::new(Patience::default());
    let input = BufReader::with_capacity(READ_AHEAD, vigil.listen(input));
    let pipe = haul_sys::pipe_of(&output);
    let output = Writer::new(output, pipe);
    let Some(Begun { client, job: JobRequest { task, role } }) =
        conversation::begin(input, output, &vigil, rights)?
    else {
        return Ok(());
    };
    if let Err(error) = JobError::of_open_files() {
        client.tell(&Message::Abort(abort(&error)));
        return client.into_streams().and(Err(error));
    }
    if let Some(reason) = rights.refuse(&role, &task) {
        client.tell(&Message::Abort(Abort::Usage(reason.to_owned())));
        return client.into_streams().map(|_| ());
    }
    match role {
        Role::Receiver { dest, into_dir, origin } => {
            let dest = words::without_tilde(&dest).to_vec();
            let job = CopyJob { dest, into_dir, origin, task, ..CopyJob::default() };
            receive(client, &job)
        }
        Role::Sender { sources, recursive, follow } => {
            let sources = sources.iter().map(|path| words::without_tilde(path).to_vec()).collect();
            let job = CopyJob { sources, recursive, follow, task, ..CopyJob::default() };
            send(client, job)
        }
    }
}

/// What the threads of an agent's job share. It lives as long as the process:
/// one that waits for input can't be waited for.
fn control(vigil: &Arc<Vigil>) -> &'static Control<'static> {
    let silent = Box::leak(Box::<Silent>::default());
    Box::leak(Box::new(Control::with(silent, vigil, CLIENT)))
}

fn receive(client: Client<impl Read + Send + 'static>, job: &CopyJob) -> Result<(), JobError> {
    let dest = &job.dest;
    let found = Destination::find(&LocalTree, job).and_then(|mut found| {
        found.expect_peer();
        let root = found.root.system_handle();
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
            client.tell(&Message::Abort(abort(&error)));
            return client.into_streams().map(|_| ());
        }
    };
    // What writes from here on is confined with the rest.
    let Streams { input, output, vigil } = client.into_streams()?;
    job.confine_receiver(&root);
    let control = control(&vigil);
    let crew = DetachedCrew(control);
    let (outbox, frames) = Outbox::new(output.pipe().is_some());
    let writer = start_writer(crew, output, frames, &vigil);
    let (tasks, work) = crossbeam_channel::unbounded();
    let (lists, listed) = crossbeam_channel::bounded(LISTS_MAX);
    let sender = Arc::new(RemoteSender(Arc::clone(&outbox)));
    let receiver = Receiver::new(control, sender, destination, job, None, Tasks::to_all(tasks));
    let receiver = match receiver {
        Ok(receiver) => receiver,
        Err(error) => {
            control.fail(JobError::unusable(dest, &error));
            return end(control, &outbox, writer, &vigil);
        }
    };
    let worker = Arc::clone(&receiver);
    let lister = Arc::clone(&receiver);
    let lister = crew.begin("lister", move || run_lister(&lister, &listed));
    let mut publishing = Vec::from_iter(lister.ok());
    let ending = Arc::clone(&receiver);
    // If it can't be had, the job has ended.
    let _ = crew.begin("reader", move || {
        let pool = Pool::new(pool_len());
        if let Err(end) = wire::read_for_receiver(input, &receiver, &lists, &pool) {
            end.report(control, CLIENT);
        }
    });
    let worker = move || run_worker(&worker, &work);
    publishing.extend(crew.begin_several("worker", workers(), worker));
    let result = end(control, &outbox, writer, &vigil);
    if result.is_err() {
        // What is about to get its name gets it before the process ends: the
        // way there can lead over a private name.
        ending.close_tasks();
        for thread in publishing {
            let _ = thread.join();
        }
        // The reader has what came in pieces, and may wait for ever.
        haul_store::checkpoint_unfinished();
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

fn send(client: Client<impl Read + Send + 'static>, job: CopyJob) -> Result<(), JobError> {
    // What writes from here on is confined with the rest.
    let Streams { input, output, vigil } = client.into_streams()?;
    let removes = job.task.removes().is_some();
    let confined = match job.task.moving() {
        // What is set aside is renamed, and back, also before anything is copied.
        Some(_) => confine(Access::Moving(&holding(&job.sources))),
        None => confine(Access::ReadOnly),
    };
    tracing::debug!(confined, "sending");
    // sshd takes small pieces out of its pipe, and has more to do than haul.
    haul_sys::wait_for_turns();
    let control = control(&vigil);
    let crew = DetachedCrew(control);
    let (outbox, frames) = Outbox::new(output.pipe().is_some());
    let writer = start_writer(crew, output, frames, &vigil);
    let (queue, wanted) = crossbeam_channel::unbounded();
    let receiver = Arc::new(RemoteReceiver(Arc::clone(&outbox)));
    let (heard, to_remove) = crossbeam_channel::unbounded();
    let heard = removes.then_some(heard);
    let sender = Sender::new(control, None, receiver, &job, Some(queue), heard);
    let pool = Arc::new(Pool::new(pool_len()));
    let files = (Arc::clone(&sender), wanted, Arc::clone(&outbox), pool);
    let remover = removes.then(|| {
        let (sender, outbox, sources) =
            (Arc::clone(&sender), Arc::clone(&outbox), job.sources.clone());
        crew.begin("remover", move || {
            let tell = |removals| tell_removals(&outbox, removals);
            Remover::new(&sender, &LocalTree, &sources, &tell).run(&to_remove);
        })
    });
    let scanner = Arc::clone(&sender);
    // If one can't be had, the job has ended.
    let _ = crew.begin("scan", move || {
        Scan::new(&scanner, &LocalTree, &job, &[]).run(&job.sources);
    });
    let _ = crew.begin("reader", move || {
        if let Err(end) = wire::read_for_sender(input, &*sender) {
            end.report(control, CLIENT);
        }
    });
    crew.begin_several("file reader", workers(), move || {
        let (sender, wanted, outbox, pool) = &files;
        run_reader(sender, wanted, outbox, pool, control);
    });
    let result = end(control, &outbox, writer, &vigil);
    if let Some(Ok(remover)) = remover {
        // What is set aside gets its name back before the process ends.
        let _ = remover.join();
    }
    result
}

/// Removals that are told in one frame, at most: with paths as long as they are
/// told, it stays below its bound.
const REMOVALS_PER_FRAME_MAX: usize = 32;

fn tell_removals(outbox: &Outbox, removals: Vec<Removal>) {
    for part in removals.chunks(REMOVALS_PER_FRAME_MAX) {
        outbox.tell(&Message::Removed(part.to_vec()));
    }
}

/// The directories that hold `sources`, each once.
fn holding(sources: &[Vec<u8>]) -> Vec<&Path> {
    let above = sources.iter().map(|path| words::split(words::without_dot(path)).parent);
    let above: BTreeSet<&[u8]> = above.collect();
    above.into_iter().map(|path| Path::new(OsStr::from_bytes(path))).collect()
}

/// How the client is called in messages.
const CLIENT: &str = "the client";

/// The thread that writes to the client.
struct WriterThread {
    /// It holds the other end.
    left: crossbeam_channel::Receiver<()>,
    /// What it would have done, if there is none.
    instead: Option<Box<dyn FnOnce() + Send>>,
}

fn start_writer(
    crew: DetachedCrew,
    mut output: Writer,
    frames: crossbeam_channel::Receiver<wire::OutFrame>,
    vigil: &Vigil,
) -> WriterThread {
    let sign_after = sign_after(vigil.max());
    let (at_work, left) = crossbeam_channel::bounded(0);
    let write = move || {
        let _at_work = at_work;
        if let Err(error) = wire::run_writer(&mut output, &frames, Vec::new(), sign_after) {
            ReadEnd::Lost(error).report(crew.0, CLIENT);
        }
    };
    let write: Box<dyn FnOnce() + Send> = Box::new(write);
    WriterThread { left, instead: crew.begin("writer", write).err() }
}

/// Waits for the end of the job, and tells the client if it is an early one. The
/// last words may take as long as silence may: nobody may listen any more.
fn end(
    control: &Control<'_>,
    outbox: &Outbox,
    writer: WriterThread,
    vigil: &Vigil,
) -> Result<(), JobError> {
    let result = control.wait();
    if !matches!(result, Err(JobError::Connection(ConnectError::Silent { .. }))) {
        let patience = vigil.max().unwrap_or(Duration::MAX);
        if let Err(error) = &result
            && !matches!(error, JobError::Connection(_))
        {
            outbox.tell_within(&Message::Abort(abort(error)), patience);
        }
        outbox.close();
        if let Some(write) = writer.instead {
            write();
        }
        leave_within(&writer.left, patience);
    }
    outbox.cut();
    result.map(|_| ())
}

fn abort(error: &JobError) -> Abort {
    match error {
        JobError::Usage(words) => Abort::Usage(words.clone()),
        JobError::Destination { path, fault } => Abort::Destination {
            path: words::shown(path.as_bytes().to_vec()),
            fault: fault.clone(),
        },
        JobError::Connection(_)
        | JobError::Sftp { .. }
        | JobError::Threads(_)
        | JobError::OpenFiles(_)
        | JobError::Panicked => Abort::Protocol(error.to_string()),
        JobError::Protocol(words) => Abort::Protocol(words.clone()),
        JobError::Interrupted => Abort::Cancelled,
    }
}

fn lost(error: &std::io::Error) -> JobError {
    haul_net::ConnectError::Lost { host: CLIENT.to_owned(), detail: error.to_string() }.into()
}

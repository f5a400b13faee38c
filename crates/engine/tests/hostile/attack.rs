//! Runs one conversation between a scripted peer and a real role.

use crate::peer::{Peer, receiving};
use crate::place::Place;
use crate::watch::Watch;
use haul_engine::{Job, JobError, Outcome, Placement, ServeOptions, Summary, WireOptions};
use haul_model::{Fault, Policy, Task, Via};
use haul_proto::{Message, NamedDest, NamedSources, Role};
use std::net::{IpAddr, Shutdown};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// How long a job may take to end; every one here is over in moments.
const TIME_MAX: Duration = Duration::from_secs(30);

/// The scripted side of a conversation. It is boxed, so that what runs it is compiled once,
/// and not anew for each script.
type Script = Box<dyn FnOnce(&mut Peer) + Send>;

/// Who receives from the scripted sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    /// A client that downloads.
    Client,
    /// An agent that a client uploads to.
    Agent,
}

/// Both of them: the rules of a listing and of contents are the same.
pub(crate) const RECEIVERS: [Victim; 2] = [Victim::Client, Victim::Agent];

/// The outcome of a conversation.
pub(crate) struct Attacked {
    /// Where it happened.
    pub(crate) place: Place,
    /// How the job ended on the victim's side.
    pub(crate) result: Result<Option<Summary>, JobError>,
    /// The peer, with all that it heard.
    pub(crate) peer: Peer,
    /// All that the victim's user was told, where there is one.
    pub(crate) watch: Arc<Watch>,
}

impl Attacked {
    /// The job failed because a rule was broken, and the message says which.
    /// Nothing was written elsewhere.
    #[track_caller]
    pub(crate) fn assert_refused(&self, words: &str) {
        match &self.result {
            Err(error @ (JobError::Protocol(_) | JobError::Version { .. })) => {
                assert!(error.to_string().contains(words), "{error}");
            }
            other => panic!("{other:?} where \"{words}\" was expected"),
        }
        self.place.check();
    }

    /// The connection was lost.
    #[track_caller]
    pub(crate) fn assert_lost(&self) {
        assert!(matches!(self.result, Err(JobError::Connection(_))), "{:?}", self.result);
        self.place.check();
    }

    /// The job came to its end, and the peer was told so.
    #[track_caller]
    pub(crate) fn assert_done(&self) -> Summary {
        assert!(self.result.is_ok(), "{:?}", self.result);
        self.place.check();
        let done = self.peer.messages.iter().find_map(|message| match message {
            Message::Done(summary) => Some(*summary),
            _ => None,
        });
        done.expect("the peer was told that it is done")
    }

    /// The fault of an entry.
    #[track_caller]
    pub(crate) fn fault(&self, index: u64) -> &Fault {
        match self.peer.outcomes.get(&index) {
            Some(Outcome::Failed(fault)) => fault,
            other => panic!("{other:?} where entry {index} should have failed"),
        }
    }
}

/// Lets `script` be the sender of a job that asks for `asked`, in a place that
/// `prepare` has furnished. The peer stays until the victim has closed the
/// connection, unless it leaves by itself.
pub(crate) fn send_to(
    victim: Victim,
    asked: &[&str],
    prepare: impl FnOnce(&Place),
    script: impl FnOnce(&mut Peer) + Send + 'static,
) -> Attacked {
    let place = Place::new();
    prepare(&place);
    send_into(victim, place, asked, Policy::default(), script)
}

/// The same in a place where something may have happened before.
pub(crate) fn send_into(
    victim: Victim,
    place: Place,
    asked: &[&str],
    policy: Policy,
    script: impl FnOnce(&mut Peer) + Send + 'static,
) -> Attacked {
    send_by(victim, place, asked, Task::Copy(policy), script)
}

/// The same in a job of any kind.
pub(crate) fn send_by(
    victim: Victim,
    place: Place,
    asked: &[&str],
    task: Task,
    script: impl FnOnce(&mut Peer) + Send + 'static,
) -> Attacked {
    send_script(victim, place, asked, task, Box::new(script))
}

fn send_script(
    victim: Victim,
    place: Place,
    asked: &[&str],
    task: Task,
    script: Script,
) -> Attacked {
    match victim {
        Victim::Client => {
            let sources = asked.iter().map(|name| format!("/there/{name}").into_bytes());
            let job = Job {
                sources: NamedSources { recursive: true, ..NamedSources::at(sources.collect()) },
                dest: NamedDest { into_dir: true, ..NamedDest::at(bytes(&place.dest(""))) },
                task,
                wire: WireOptions { via: Via::Ssh, ..WireOptions::default() },
                ..Job::default()
            };
            run_client(place, job, Placement::download, |peer| {
                assert!(matches!(peer.answer().role, Role::Sender(_)));
                script(peer);
            })
        }
        Victim::Agent => {
            let dest = bytes(&place.dest(""));
            serve(place, move |peer| {
                peer.ask_for(task, receiving(dest, true));
                script(peer);
            })
        }
    }
}

/// Lets `script` be the receiver of a job that uploads the place's source.
pub(crate) fn receive_from_client(
    prepare: impl FnOnce(&Place),
    script: impl FnOnce(&mut Peer) + Send + 'static,
) -> Attacked {
    receive_by(Task::default(), prepare, script)
}

/// The same in a job of any kind.
pub(crate) fn receive_by(
    task: Task,
    prepare: impl FnOnce(&Place),
    script: impl FnOnce(&mut Peer) + Send + 'static,
) -> Attacked {
    let place = Place::new();
    prepare(&place);
    receive_script(task, place, Box::new(script))
}

fn receive_script(task: Task, place: Place, script: Script) -> Attacked {
    let job = Job {
        sources: NamedSources {
            recursive: true,
            ..NamedSources::at(vec![bytes(&place.source("")), b"missing".to_vec()])
        },
        dest: NamedDest { into_dir: true, ..NamedDest::at(b"/there") },
        task,
        wire: WireOptions { via: Via::Ssh, ..WireOptions::default() },
        ..Job::default()
    };
    run_client(place, job, Placement::upload, |peer| {
        assert!(matches!(peer.answer().role, Role::Receiver { .. }));
        script(peer);
    })
}

/// Runs a client's job with a scripted agent.
pub(crate) fn run_client(
    place: Place,
    job: Job,
    placement: fn(haul_net::Connection) -> Placement,
    script: impl FnOnce(&mut Peer) + Send + 'static,
) -> Attacked {
    watched_client(place, job, placement, Arc::default(), script)
}

/// The same with a monitor that the caller knows.
pub(crate) fn watched_client(
    place: Place,
    job: Job,
    placement: fn(haul_net::Connection) -> Placement,
    watch: Arc<Watch>,
    script: impl FnOnce(&mut Peer) + Send + 'static,
) -> Attacked {
    watched_script(place, job, placement, watch, Box::new(script))
}

fn watched_script(
    place: Place,
    job: Job,
    placement: fn(haul_net::Connection) -> Placement,
    watch: Arc<Watch>,
    script: Script,
) -> Attacked {
    let (connection, peer) = Peer::of_client();
    let told = Arc::clone(&watch);
    let job = within(move || haul_engine::run(&job, placement(connection), &*told));
    let script = play(peer, script);
    let result = job.end().map(Some);
    Attacked { place, result, peer: script.end(), watch }
}

/// Runs an agent with a scripted client.
pub(crate) fn serve(place: Place, script: impl FnOnce(&mut Peer) + Send + 'static) -> Attacked {
    serve_at(None, place, script)
}

/// The same where it was reached by this address.
pub(crate) fn serve_at(
    address: Option<IpAddr>,
    place: Place,
    script: impl FnOnce(&mut Peer) + Send + 'static,
) -> Attacked {
    serve_script(address, place, Box::new(script))
}

fn serve_script(address: Option<IpAddr>, place: Place, script: Script) -> Attacked {
    let (here, there) = UnixStream::pair().expect("a socket pair");
    // An agent confines the thread that it runs in.
    let agent = within(move || {
        let input = there.try_clone().expect("a second handle");
        let last = there.try_clone().expect("a third handle");
        let listen_target = address.map(haul_net::ListenTarget::Port);
        let mut serving = ServeOptions::default();
        serving.listen_target = listen_target.as_ref().map_or(serving.listen_target, Ok);
        let connection = haul_net::Connection::from_streams(input, there).expect("sockets");
        let result = haul_engine::serve_with(serving, connection);
        // Its process would end here, and the connection with it.
        let _ = last.shutdown(Shutdown::Both);
        result
    });
    let script = play(Peer::at(here), script);
    let result = agent.end().map(|()| None);
    Attacked { place, result, peer: script.end(), watch: Arc::default() }
}

fn play(mut peer: Peer, script: Script) -> Running<Peer> {
    within(move || {
        script(&mut peer);
        peer.hear_out();
        peer
    })
}

/// Something on a thread of its own that is over soon.
pub(crate) struct Running<T> {
    thread: thread::JoinHandle<()>,
    result: mpsc::Receiver<T>,
}

pub(crate) fn within<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Running<T> {
    let (done, result) = mpsc::channel();
    let work: Box<dyn FnOnce() + Send> = Box::new(move || {
        let _ = done.send(work());
    });
    let thread = thread::spawn(work);
    Running { thread, result }
}

impl<T> Running<T> {
    /// Its result.
    #[track_caller]
    pub(crate) fn end(self) -> T {
        match self.result.recv_timeout(TIME_MAX) {
            Ok(result) => result,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("it goes on after {TIME_MAX:?}"),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let panic = self.thread.join().expect_err("it sent no result");
                std::panic::resume_unwind(panic)
            }
        }
    }
}

/// A path as jobs take it.
pub(crate) fn bytes(path: &std::path::Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

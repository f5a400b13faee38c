//! Peers that leave when all is said: however late that is heard, it is the end of the job,
//! and what can't be told them any more is no loss.

use crate::attack::{bytes, within};
use crate::between::{run_watched, tell_copied};
use crate::peer::{Peer, dir_end, file, named};
use crate::place::Place;
use haul_engine::{Event, Job, JobError, Monitor, Placement, Progress, Summary};
use haul_model::{Fault, FaultKind, Kept, Kind, Moving, Outcome, Remove, Side, Skip, Task, Via};
use haul_net::{Connection, Timeouts};
use haul_proto::{Caps, Message, NamedDest, NamedSources, OutcomeItem, Removal};
use std::fs;
use std::thread;
use std::time::Duration;

/// How long a peer may be silent. Each side says that it is there after a quarter of it, and
/// finds out by that that nobody listens.
const SILENCE: Duration = Duration::from_millis(2400);

/// How long whoever shows what happens is held up: for less than that, and for longer than is
/// waited for a peer's last words when it has been found out.
const HELD_UP: Duration = Duration::from_millis(2000);

/// A user whose terminal shows no such event for a while.
struct HeldUp {
    progress: Progress,
    by: fn(&Event<'_>) -> bool,
}

impl HeldUp {
    fn by(by: fn(&Event<'_>) -> bool) -> Self {
        Self { progress: Progress::default(), by }
    }
}

fn is_entry(event: &Event<'_>) -> bool {
    matches!(event, Event::Entry { .. })
}

fn is_removal(event: &Event<'_>) -> bool {
    matches!(event, Event::Removed { .. })
}

impl Monitor for HeldUp {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn event(&self, event: Event<'_>) {
        if (self.by)(&event) {
            thread::sleep(HELD_UP);
        }
    }

    fn cancelled(&self) -> bool {
        false
    }
}

fn timeout() -> Timeouts {
    Timeouts { silence_max: Some(SILENCE), login_max: None }
}

/// How `job` ends, with a `script` at the other end of its connection that leaves at once.
fn against(
    user: HeldUp,
    job: Job,
    placement: fn(Connection) -> Placement,
    script: impl FnOnce(&mut Peer) + Send + 'static,
) -> Result<Summary, JobError> {
    let (connection, mut peer) = Peer::of_client();
    let connection = connection.with_timeouts(timeout());
    let script = within(move || {
        peer.answer();
        script(&mut peer);
        peer.leave();
    });
    let run = within(move || haul_engine::run(&job, placement(connection), &user));
    let result = run.end();
    script.end();
    result
}

#[test]
fn an_agent_that_has_compared_all_may_leave_before_its_client_has_heard_so() {
    let place = Place::new();
    fs::write(place.source("a"), "x").expect("written");
    let job = Job {
        sources: NamedSources::at(vec![bytes(&place.source("a"))]),
        dest: NamedDest::at(b"/there"),
        task: Task::Check { content: false, keeps: Kept::OF_COPIES },
        ..Job::default()
    };
    let result = against(HeldUp::by(is_entry), job, Placement::upload, |peer| {
        peer.tell(&named(haul_model::Naming::Own));
        peer.await_listing();
        let outcome = Outcome::Skipped(Skip::Unchanged);
        peer.tell(&Message::Outcomes(vec![OutcomeItem { index: 1, outcome }]));
        peer.tell(&Message::Done(Summary { skipped: 1, ..Summary::default() }));
    });
    assert_eq!(result.expect("it is done").skipped, 1);
}

#[test]
fn an_agent_that_has_removed_all_may_leave_before_its_client_has_heard_so() {
    let place = Place::new();
    let task = Task::Remove { rule: Remove::SameContent, moving: Moving::Whole };
    let (sources, dest) = (vec![b"/there/a".to_vec()], bytes(&place.dest("")));
    let job = Job {
        sources: NamedSources::at(sources),
        dest: NamedDest { into_dir: true, ..NamedDest::at(dest) },
        task,
        ..Job::default()
    };
    let result = against(HeldUp::by(is_removal), job, Placement::download, |peer| {
        peer.list(vec![file(0, "a", 1), dir_end(0)]);
        peer.await_outcome(1);
        let path = b"/there/a".to_vec();
        let fault = Fault::new(Side::Source, FaultKind::Io, "no");
        let stays = Removal::Source { path, kind: Kind::File { size: 1 }, result: Err(fault) };
        peer.tell(&Message::Removed(vec![stays, Removal::End]));
    });
    assert_eq!(result.expect("it is done").missing, 1);
}

#[test]
fn two_agents_may_leave_before_their_client_has_heard_that_all_is_done() {
    let from = |peer: &mut Peer| {
        peer.list(vec![file(0, "x", 0), dir_end(0)]);
        peer.await_that("all is done", |peer| {
            peer.messages.iter().any(|message| matches!(message, Message::Done(_)))
        });
        peer.leave();
    };
    let to = |peer: &mut Peer| {
        tell_copied(peer);
        peer.leave();
    };
    let user = (HeldUp::by(is_entry), timeout());
    let (result, _) = run_watched(user, (Via::Ssh, Caps::NONE), from, to);
    assert_eq!(result.expect("it is done").copied, 1);
}

//! A copy that is caught in the middle, and what must hold after it.

use crate::common::*;
use haul_testkit::haul::{Outcome, Running};
use haul_testkit::proc;
use haul_testkit::{Link, Snapshot, assert_same, holds_within, snapshot, tree};
use std::fs;
use std::time::{Duration, Instant};

/// How soon everything has to be over, on a machine that has others to serve.
pub(crate) const SOON: Duration = Duration::from_secs(10);

const BIG: u64 = 32 << 20;

/// Bytes that the link takes in a second: all take one at least.
pub(crate) const RATE: u64 = 32 << 20;

/// The same where the copy is held in its middle: all would take minutes.
pub(crate) const HELD: u64 = 64 << 10;

/// Bytes that have been moved when the copy is in its middle.
const MIDDLE: u64 = 4 << 20;

/// A tree of small files and a big one, of which an older version is at the
/// destination, on its way.
pub(crate) struct Transfer<'s, 'w> {
    scene: &'s Scene<'w>,
    source: Snapshot,
    agent: u32,
    pub(crate) running: Running,
    since: Instant,
    link: Link,
}

impl<'s, 'w> Transfer<'s, 'w> {
    /// Starts it, and returns when it is in its middle, where it is held.
    pub(crate) fn start(scene: &'s Scene<'w>) -> Transfer<'s, 'w> {
        Self::start_with(scene, &[])
    }

    /// The same with more words.
    pub(crate) fn start_with(scene: &'s Scene<'w>, more: &[&str]) -> Transfer<'s, 'w> {
        tree::sizes(scene.path("tree"), 1).expect("a tree");
        tree::random_file(scene.path("tree/big"), BIG, 2).expect("a file");
        scene.file("there/tree/big", "old");
        let source = snapshot(scene.path("tree")).expect("the tree can be read");
        let link = Link::to(scene.sshd()).expect("a link");
        link.limit_behind(RATE, MIDDLE, HELD);
        let remote = ["--rsh", &link.rsh(scene.sshd()), "--remote-haul", HAUL];
        let flags = [&["-r", "--no-resume", "--via", "ssh"], more].concat();
        let haul = scene.copy_by(&remote, &flags, &["tree"], "there");
        let running = haul.spawn().expect("it starts");
        let moved = || link.passed().iter().any(|&bytes| bytes >= MIDDLE);
        assert!(running.until(Duration::from_secs(20), moved), "it does not come to its middle");
        let agent = agent_of(scene).expect("an agent at work");
        Transfer { scene, source, agent, running, since: Instant::now(), link }
    }

    /// The ssh of the running copy.
    pub(crate) fn ssh(&self) -> u32 {
        ssh_of(&self.running).expect("it runs")
    }

    /// The agent of the running copy.
    pub(crate) fn agent(&self) -> u32 {
        self.agent
    }

    /// Ends the hold: the copy goes on.
    pub(crate) fn let_go(&self) {
        self.link.limit(RATE);
    }

    /// Waits for its end, which has to come soon unless it copies all, and checks that
    /// nothing is half done; then the same command finishes.
    pub(crate) fn ends_with(self, code: i32) -> Outcome {
        let Transfer { scene, source, agent, running, since, link } = self;
        link.limit(if code == 0 { 0 } else { RATE });
        let run = running.wait().expect("it ends").expect_code(code);
        assert!(code == 0 || since.elapsed() < SOON, "{:?}\n{run}", since.elapsed());
        is_gone_soon(agent);
        is_whole_or_absent(scene, &source);
        finishes(scene, &source);
        run
    }

    /// Waits for its end: what it copies, and how it ended.
    pub(crate) fn end(self) -> (Snapshot, Outcome) {
        self.let_go();
        (self.source, self.running.wait().expect("it ends"))
    }

    /// The same for a copy that was killed and says nothing any more.
    pub(crate) fn was_killed(self) {
        let Transfer { scene, source, agent, running, since: _, link } = self;
        link.limit(RATE);
        let run = running.wait().expect("it ends");
        assert_eq!(run.signal, Some(9), "{run}");
        is_gone_soon(agent);
        is_whole_or_absent(scene, &source);
        finishes(scene, &source);
    }
}

/// The ssh that makes the connection, not the one that is asked for settings.
pub(crate) fn ssh_of(running: &Running) -> Option<u32> {
    proc::descendants(running.pid()).into_iter().find(|&pid| {
        let words = proc::command_line(pid);
        words.first().is_some_and(|word| word == b"ssh")
            && !words.iter().any(|word| word == b"-G" || word == b"-V")
    })
}

/// The agent that works in the scene's directory: the server may have others.
pub(crate) fn agent_of(scene: &Scene<'_>) -> Option<u32> {
    let works_here = |&pid: &u32| {
        let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        fds.filter_map(|fd| fs::read_link(fd.path()).ok())
            .any(|path| path.starts_with(scene.path("")))
    };
    scene.sshd().agents().into_iter().find(works_here)
}

fn is_gone_soon(agent: u32) {
    assert!(holds_within(SOON, || !proc::is_alive(agent)), "the agent is still there");
}

/// Every file at the destination is the source's, or the one from before.
pub(crate) fn is_whole_or_absent(scene: &Scene<'_>, source: &Snapshot) {
    assert_no_strays(&scene.path("there"));
    let there = scene.snapshot("there/tree");
    let there_file = |path: &[u8]| scene.path("there/tree").join(os(path));
    for (path, facts) in there.files() {
        if facts.size == 3 {
            assert_eq!(fs::read(there_file(path)).expect("a file"), b"old");
            continue;
        }
        let whole = source.files().find(|(name, _)| *name == path).map(|(_, whole)| whole);
        let whole = whole.expect("a file of the source");
        assert_eq!(facts.digest, whole.digest, "half a file: {}", path.escape_ascii());
    }
}

/// The same command does the rest.
pub(crate) fn finishes(scene: &Scene<'_>, source: &Snapshot) {
    scene.copy(&["-r"], &["tree"], "there").run().expect_ok();
    assert_same(source, &scene.snapshot("there/tree"));
    assert_no_strays(&scene.path("there"));
}

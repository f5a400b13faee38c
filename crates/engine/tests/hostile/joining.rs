//! Sessions that join a job while it is at work, or never.

use crate::attack::{bytes, within};
use crate::place::Place;
use crate::watch::Watch;
use haul_engine::{Job, JobError, NamedDest, NamedSources, Placement, SftpRoute, Summary};
use haul_net::Connection;
use haul_testkit::{Fault, OddSftp, Oddities, holds_within, tree};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, SystemTime};

/// How long a server may take until it has seen something.
const PATIENCE: Duration = Duration::from_secs(60);

/// Length of the file that is copied, in bytes: fifteen blocks, and a part of one.
const FILE_LEN: u64 = (60 << 20) + 5;

/// The requests for one block's content at such a server.
const REQUESTS_PER_BLOCK: usize = (4 << 20) / (32 << 10);

/// When it was modified.
const SOME_TIME: SystemTime = SystemTime::UNIX_EPOCH;

/// Requests, as the draft numbers them.
const OPEN: u8 = 3;
const CLOSE: u8 = 4;
const READ: u8 = 5;
const WRITE: u8 = 6;

/// Length of a server's answers to a part of the file, in bytes: far from all
/// of it, and enough for it to see the requests for a block.
const STEP_UP: usize = 4 << 10;
const STEP_DOWN: usize = 5 << 20;

/// A stream from a server that says so many bytes as it is let say, or ends if it
/// never will be let.
struct Gate<R> {
    left: usize,
    more: Receiver<usize>,
    said: Arc<AtomicUsize>,
    stream: R,
}

impl<R: Read> Read for Gate<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 {
            match self.more.recv() {
                Ok(more) => self.left = more,
                Err(_) => return Ok(0),
            }
        }
        let room = buf.len().min(self.left);
        let len = self.stream.read(&mut buf[..room])?;
        self.left -= len;
        self.said.fetch_add(len, Ordering::Relaxed);
        Ok(len)
    }
}

/// Servers that answer when they are let, and no more than they are let.
struct Servers {
    all: Vec<OddSftp>,
    gates: Vec<Option<Sender<usize>>>,
    said: Vec<Arc<AtomicUsize>>,
    step: usize,
    route: Option<SftpRoute>,
}

impl Servers {
    fn start(dir: &Path, others: usize) -> Self {
        Self::start_with(dir, others, &Oddities::default())
    }

    /// The same, with others that are odd.
    fn start_with(dir: &Path, others: usize, odd: &Oddities) -> Self {
        let (mut all, mut gates, mut said) = (Vec::new(), Vec::new(), Vec::new());
        let mut connections = Vec::new();
        for index in 0..=others {
            let odd = if index > 0 { odd.clone() } else { Oddities::default() };
            let (server, stream, to) = OddSftp::serve(dir, odd).expect("served");
            let (gate, more) = mpsc::channel();
            let has_said = Arc::new(AtomicUsize::new(0));
            said.push(Arc::clone(&has_said));
            let gate_of_it = Gate { left: 0, more, said: has_said, stream };
            connections.push(Connection::from_parts(gate_of_it, to));
            gates.push(Some(gate));
            all.push(server);
        }
        let route =
            SftpRoute { open_session: None, connections, journals: None, silence_max: None };
        Self { all, gates, said, step: 0, route: Some(route) }
    }

    /// Lets the first serve a part of the file, and waits until it has seen so many
    /// requests.
    fn begin(&self, requests: usize) {
        self.let_say(0, self.step);
        wait_until(|| self.all[0].requests() >= requests);
    }

    /// Lets another greet, and serve a part of the file.
    fn join(&self, index: usize) {
        self.let_say(index, self.step);
        wait_until(|| self.said[index].load(Ordering::Relaxed) > 0);
    }

    /// Lets two others join, the one after the other, while the first is at work.
    fn join_both(&mut self) {
        self.begin(REQUESTS_PER_BLOCK);
        self.join(1);
        self.let_say(0, self.step);
        wait_until(|| self.all[1].requests() > 0);
        self.join(2);
    }

    /// Lets all go on that were not given up.
    fn end(&self) {
        (0..self.gates.len()).for_each(|index| self.let_say(index, usize::MAX));
    }

    fn let_say(&self, index: usize, len: usize) {
        if let Some(gate) = &self.gates[index] {
            // The job may have ended.
            let _ = gate.send(len);
        }
    }

    fn asked(&self, index: usize, kind: u8) -> usize {
        self.all[index].asked().iter().filter(|asked| **asked == kind).count()
    }
}

#[track_caller]
fn wait_until(is_so: impl Fn() -> bool) {
    assert!(holds_within(PATIENCE, is_so), "it does not come to that");
}

/// A place with one large file.
fn place() -> Place {
    let place = Place::new();
    tree::random_file(place.source("large"), FILE_LEN, 7).expect("made");
    let file = fs::File::options().write(true).open(place.source("large")).expect("opened");
    file.set_modified(SOME_TIME).expect("set");
    place
}

/// Copies the file while `meanwhile` happens.
fn copy(
    place: &Place,
    servers: &mut Servers,
    to: fn(SftpRoute) -> Placement,
    meanwhile: impl FnOnce(&mut Servers),
) -> (Result<Summary, JobError>, Watch) {
    let job = Job {
        sources: NamedSources::at(vec![bytes(&place.source("large"))]),
        dest: NamedDest::at(bytes(&place.dest(""))),
        ..Job::default()
    };
    let placement = to(servers.route.take().expect("one job"));
    servers.step = match placement {
        Placement::SftpUpload(_) => STEP_UP,
        _ => STEP_DOWN,
    };
    let running = within(move || {
        let watch = Watch::default();
        (haul_engine::run(&job, placement, &watch), watch)
    });
    meanwhile(servers);
    servers.end();
    running.end()
}

#[track_caller]
fn check(place: &Place, ran: &(Result<Summary, JobError>, Watch), warnings: usize) {
    let (result, watch) = ran;
    let summary = result.as_ref().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((summary.copied, summary.failed), (1, 0), "{:?}", watch.outcomes());
    assert_eq!(watch.warnings().len(), warnings, "{:?}", watch.warnings());
    let [there, here] = [place.dest("large"), place.source("large")].map(fs::read);
    assert!(there.expect("a copy") == here.expect("a source"), "the content differs");
    let times = [place.dest("large"), place.source("large")]
        .map(|path| fs::metadata(path).expect("there").modified().expect("told"));
    assert_eq!(times, [SOME_TIME; 2]);
}

#[test]
fn a_session_that_comes_late_takes_its_part_of_an_upload() {
    let place = place();
    let mut servers = Servers::start(&place.dest(""), 2);
    let ran = copy(&place, &mut servers, Placement::SftpUpload, Servers::join_both);
    check(&place, &ran, 0);
    assert!(servers.asked(0, WRITE) >= REQUESTS_PER_BLOCK);
    assert!(servers.asked(1, WRITE) > 0 && servers.asked(2, WRITE) > 0);
    for index in 0..=2 {
        assert_eq!(servers.asked(index, OPEN), servers.asked(index, CLOSE), "session {index}");
    }
    place.check();
}

#[test]
fn a_session_that_comes_late_takes_its_part_of_a_download() {
    let place = place();
    let mut servers = Servers::start(&place.source(""), 2);
    let ran = copy(&place, &mut servers, Placement::SftpDownload, Servers::join_both);
    check(&place, &ran, 0);
    assert!(servers.asked(1, READ) > 0 && servers.asked(2, READ) > 0);
    place.check();
}

#[test]
fn a_file_that_is_another_one_in_a_late_session_is_not_read_there() {
    let place = place();
    let begun = fs::read(place.source("large")).expect("read");
    let mut servers = Servers::start(&place.source(""), 1);
    let (result, watch) = copy(&place, &mut servers, Placement::SftpDownload, |servers| {
        servers.begin(REQUESTS_PER_BLOCK);
        fs::write(place.source("new"), "another").expect("written");
        fs::rename(place.source("new"), place.source("large")).expect("replaced");
        servers.join(1);
    });
    assert_eq!(result.expect("it ends").failed, 0, "{:?}", watch.outcomes());
    assert!(fs::read(place.dest("large")).expect("read") == begun, "it is a mixture");
    assert_eq!(servers.asked(1, READ), 0);
}

#[test]
fn a_session_that_refuses_the_file_is_done_without() {
    for to in [Placement::SftpUpload as fn(SftpRoute) -> Placement, Placement::SftpDownload] {
        let place = place();
        let odd = Oddities { fault: Some((0, Fault::Deny)), ..Oddities::default() };
        let mut servers = Servers::start_with(&place.dest(""), 1, &odd);
        let ran = copy(&place, &mut servers, to, |servers| {
            servers.begin(REQUESTS_PER_BLOCK);
            servers.join(1);
        });
        check(&place, &ran, 0);
        assert_eq!(servers.asked(1, OPEN), 1);
        assert_eq!(servers.asked(1, WRITE) + servers.asked(1, READ), 0);
        place.check();
    }
}

#[test]
fn a_link_in_the_place_of_a_file_in_transit_is_not_written_through() {
    let place = place();
    let mut servers = Servers::start(&place.dest(""), 1);
    let (result, watch) = copy(&place, &mut servers, Placement::SftpUpload, |servers| {
        servers.begin(REQUESTS_PER_BLOCK);
        let mut there = fs::read_dir(place.dest("")).expect("read");
        let stage = there.next().expect("a stage").expect("read").path();
        fs::rename(&stage, place.dest("aside")).expect("renamed");
        symlink(place.outside("secret"), &stage).expect("linked");
        servers.join(1);
        // Else the first may copy the rest before the other has joined.
        servers.let_say(0, servers.step);
        wait_until(|| servers.asked(1, OPEN) > 0);
    });
    assert_eq!(result.expect("it ends").failed, 1, "{:?}", watch.outcomes());
    assert_eq!(servers.asked(1, WRITE), 0);
    assert!(!place.has("large"));
    place.check();
}

#[test]
fn a_job_continues_without_a_session_that_fails_and_reports_it() {
    for to in [Placement::SftpUpload as fn(SftpRoute) -> Placement, Placement::SftpDownload] {
        let place = place();
        let mut servers = Servers::start(&place.dest(""), 2);
        let ran = copy(&place, &mut servers, to, |servers| {
            servers.begin(REQUESTS_PER_BLOCK);
            servers.gates[1] = None;
            servers.begin(2 * REQUESTS_PER_BLOCK);
            servers.join(2);
        });
        check(&place, &ran, 1);
        let warnings = ran.1.warnings();
        assert!(warnings[0].contains("one of 3 connections failed"), "{warnings:?}");
        assert_eq!(servers.asked(1, OPEN), 0);
        assert!(servers.asked(2, WRITE) + servers.asked(2, READ) > 0);
        place.check();
    }
}

#[test]
fn a_job_that_no_session_begins_for_fails() {
    let place = place();
    let mut servers = Servers::start(&place.dest(""), 2);
    let route = servers.route.as_mut().expect("not used");
    drop(route.connections.remove(0));
    let (result, _) = copy(&place, &mut servers, Placement::SftpUpload, |servers| {
        servers.gates.clear();
    });
    assert!(matches!(result, Err(JobError::Connection(_))), "{result:?}");
    assert!(!place.has("large"));
    place.check();
}

//! SFTP servers that are odd, go away, or lie: a job over one ends soon, does
//! what it says, and no half file has its name.

use crate::place::Place;
use crate::watch::Watch;
use haul_engine::{
    Event, Job, JobError, Monitor, NamedDest, NamedSources, Placement, Progress, RequestError,
    Requests, SftpRoute, Summary,
};
use haul_model::{ContentHash, FaultKind, Moving, Name, Policy, Remove, Task};
use haul_net::Connection;
use haul_sftp::{Options, Session};
use haul_testkit::snapshot::FileFacts;
use haul_testkit::{
    Compare, Fault, Listing, OddSftp, Oddities, assert_same_with, content, snapshot, tree,
};
use haul_tree::Tree;
use haul_tree::sftp::{SessionLoss, Sessions, SftpHost, SftpTree};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long a job may take, however the server behaves.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a server may be silent in these tests.
const SILENCE_MAX: Duration = Duration::from_millis(250);

/// Requests of a job at which a server misbehaves, at most.
const FAULTS: usize = 10;

/// Jobs of one way and one fault that run at the same time: some wait for a long time.
const AT_ONCE: usize = 4;

/// Which of the roles is at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Up,
    Down,
}

const WAYS: [Way; 2] = [Way::Up, Way::Down];

fn a_tree(place: &Place) {
    tree::many(place.source("tree"), 12, 900, 2, 1).expect("made");
    tree::random_file(place.source("tree/middle"), 700 << 10, 2).expect("made");
    fs::create_dir(place.source("tree/hollow")).expect("made");
    symlink("middle", place.source("tree/link")).expect("linked");
}

pub(crate) struct Ran {
    pub(crate) result: Result<Summary, JobError>,
    /// Requests that the server has seen.
    pub(crate) requests: usize,
    /// See [`OddSftp::gather_timeouts`].
    gather_timeouts: usize,
    watch: Watch,
}

/// A copy of the tree `tree`.
fn job(place: &Place, policy: Policy) -> Job {
    let bytes = |path: PathBuf| path.into_os_string().into_encoded_bytes();
    Job {
        sources: NamedSources {
            recursive: true,
            ..NamedSources::at(vec![bytes(place.source("tree"))])
        },
        dest: NamedDest::at(bytes(place.dest(""))),
        task: Task::Copy(policy),
        ..Job::default()
    }
}

/// Copies the tree `tree` through the server.
pub(crate) fn run(place: &Place, way: Way, odd: &Oddities, policy: Policy) -> Ran {
    run_job(place, way, odd, job(place, policy))
}

fn run_job(place: &Place, way: Way, odd: &Oddities, job: Job) -> Ran {
    let dir = place.source("");
    let (server, from, to) = OddSftp::serve(&dir, odd.clone()).expect("served");
    let connections = vec![Connection::from_parts(from, to)];
    let journals = Some(place.outside("journals"));
    // One that only differs may be slow on a machine that is busy.
    let silence_max = odd.fault.map(|_| SILENCE_MAX);
    let route = SftpRoute { open_session: None, connections, journals, silence_max };
    let placement = match way {
        Way::Up => Placement::SftpUpload(route),
        Way::Down => Placement::SftpDownload(route),
    };
    let (done, ended) = mpsc::channel();
    thread::spawn(move || {
        let watch = Watch::default();
        let result = haul_engine::run(&job, placement, &watch);
        let _ = done.send((result, watch));
    });
    let (result, watch) = match ended.recv_timeout(PATIENCE) {
        Ok(ended) => ended,
        Err(error) => panic!("{way:?} {odd:?}: no end, {error}"),
    };
    let (requests, gather_timeouts) = (server.requests(), server.gather_timeouts());
    Ran { result, requests, gather_timeouts, watch }
}

/// A place with the tree to be copied, and room for journals.
fn place() -> Place {
    let place = Place::new();
    fs::create_dir(place.outside("journals")).expect("made");
    a_tree(&place);
    place
}

fn rules() -> Compare {
    const SECOND_NS: i128 = 1_000_000_000;
    Compare::everything().keeping_mtimes_as(|mtime_ns| mtime_ns / SECOND_NS * SECOND_NS)
}

/// The tree is there, as far as the server can set times: links keep their own.
#[track_caller]
fn check_copy(place: &Place) {
    let [source, copy] = [place.source("tree"), place.dest("tree")];
    let [a, b] = [&source, &copy].map(|dir| fs::read_link(dir.join("link")).expect("a link"));
    assert_eq!(a, b);
    fs::remove_file(copy.join("link")).expect("removed");
    let without_link = |dir: &PathBuf| snapshot(dir).expect("read");
    let (source, copy) = (without_link(&source), without_link(&copy));
    let differences = source.differences(&copy, rules().ignoring_dir_mtimes());
    let left: Vec<_> = differences.iter().filter(|one| one.path != b"link").collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Whatever has a name of the source is whole.
#[track_caller]
fn check_whole(place: &Place, what: &str) {
    if !place.has("tree") {
        return;
    }
    let source = snapshot(place.source("tree")).expect("read");
    let copy = snapshot(place.dest("tree")).expect("read");
    let facts = |file: &FileFacts| (file.size, file.digest);
    for (path, file) in copy.files() {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        if name.starts_with(b".haul-") {
            continue;
        }
        let found = source.files().find(|(of, _)| *of == path);
        let (_, whole) = found.unwrap_or_else(|| panic!("{what}: {}", path.escape_ascii()));
        assert_eq!(facts(whole), facts(file), "{what}: {}", path.escape_ascii());
    }
}

#[test]
fn servers_that_differ_as_they_may_get_and_give_the_same() {
    let plain = Oddities::default;
    let limits = vec!["limits@openssh.com", "posix-rename@openssh.com", "fsync@openssh.com"];
    for (name, odd) in [
        ("plain", plain()),
        ("reversed", Oddities { reversed: true, ..plain() }),
        ("short reads", Oddities { short_reads: true, ..plain() }),
        ("untimed", Oddities { listing: Listing::Untimed, ..plain() }),
        ("nothing else", Oddities { extensions: Vec::new(), ..plain() }),
        ("renames over", Oddities { extensions: Vec::new(), replaces_on_rename: true, ..plain() }),
        (
            "tiny",
            Oddities {
                chunk_max: 1000,
                extensions: limits,
                reversed: true,
                short_reads: true,
                ..plain()
            },
        ),
    ] {
        for way in WAYS {
            for policy in
                [Policy::default(), Policy { sync: true, verify: true, ..Policy::default() }]
            {
                let place = place();
                let ran = run(&place, way, &odd, policy);
                let summary = ran.result.unwrap_or_else(|error| panic!("{name} {way:?}: {error}"));
                let figures = (summary.copied, summary.failed);
                assert_eq!(figures, (14, 0), "{name} {way:?}: {:?}", ran.watch.outcomes());
                check_whole(&place, name);
                // Again: all is there, and then all is replaced.
                let again = run(&place, way, &odd, policy).result.expect("it runs");
                assert_eq!((again.copied, again.failed), (0, 0), "{name} {way:?}: {again:?}");
                let conflict = haul_model::Conflict::ReplaceAll;
                let again = run(&place, way, &odd, Policy { conflict, ..policy });
                let again = again.result.expect("it runs");
                // A link that points there already is left as it is.
                assert_eq!((again.copied, again.failed), (13, 0), "{name} {way:?}: {again:?}");
                check_copy(&place);
            }
        }
    }
}

/// Runs jobs over servers that misbehave once, at different requests.
fn misbehave(ways: &[Way], faults: &[Fault], policy: Policy) {
    thread::scope(|scope| {
        for &way in ways {
            let most = run(&place(), way, &Oddities::default(), policy).requests;
            for (&fault, first) in
                faults.iter().flat_map(|fault| (0..AT_ONCE).map(move |at| (fault, at)))
            {
                let numbers = (first..FAULTS).step_by(AT_ONCE);
                scope.spawn(move || {
                    numbers.for_each(|number| misbehave_at(way, fault, (most, number), policy))
                });
            }
        }
    });
}

fn misbehave_at(way: Way, fault: Fault, (most, number): (usize, usize), policy: Policy) {
    let after = most * number / FAULTS;
    let odd = Oddities { fault: Some((after, fault)), ..Oddities::default() };
    let place = place();
    let ran = run(&place, way, &odd, policy);
    let what = format!("{way:?} {fault:?} at {after} of {most}");
    check_whole(&place, &what);
    let lies = matches!(fault, Fault::Pretend | Fault::Garble);
    match ran.result {
        Ok(summary) if summary.failed == 0 && !lies => {
            // Nothing that matters was lost.
            assert!(place.has("tree"), "{what}: {summary:?}");
            let told = !ran.watch.warnings().is_empty();
            // A file that the server has made, and said that it had not, stays.
            let is_named = |path: &[u8]| !path.windows(6).any(|part| part == b".haul-");
            let there = snapshot(place.dest("tree")).expect("read");
            let named = there.files().filter(|(path, _)| is_named(path)).count();
            assert_eq!(named, 13, "{what} {told}: {summary:?}");
        }
        Ok(_) => {}
        Err(error) => {
            let text = error.to_string();
            assert!(!text.is_empty() && !text.contains('\x1b'), "{what}: {text}");
            assert!(!matches!(error, JobError::Interrupted), "{what}: {text}");
        }
    }
}

#[test]
fn servers_that_break_the_protocol_end_the_job() {
    let faults = [
        Fault::Claim(u32::MAX),
        Fault::Claim(4),
        Fault::UnknownId,
        Fault::Twice,
        Fault::WrongKind,
        Fault::UnknownType,
        Fault::EmptySuccess,
        Fault::TooMuch,
        Fault::Nothing,
    ];
    misbehave(&WAYS, &faults, Policy::default());
}

#[test]
fn servers_that_go_away_end_the_job() {
    misbehave(&WAYS, &[Fault::Die, Fault::DieInAnswer], Policy::default());
}

#[test]
fn servers_that_fall_silent_end_the_job() {
    misbehave(&WAYS, &[Fault::Stall], Policy::default());
}

#[test]
fn servers_that_refuse_cost_what_they_refuse() {
    misbehave(&WAYS, &[Fault::Refuse, Fault::Deny], Policy::default());
}

#[test]
fn what_a_server_only_pretends_to_have_written_is_found_by_verifying() {
    let policy = Policy { verify: true, ..Policy::default() };
    misbehave(&[Way::Up], &[Fault::Pretend, Fault::Garble], policy);
}

#[test]
fn a_file_that_is_longer_than_the_server_reports_is_not_copied() {
    let place = place();
    let odd = Oddities { hidden: 1, ..Oddities::default() };
    let ran = run(&place, Way::Down, &odd, Policy::default());
    let summary = ran.result.expect("it runs");
    // The link is there.
    assert_eq!((summary.copied, summary.failed), (1, 13), "{:?}", ran.watch.outcomes());
    assert_eq!(snapshot(place.dest("tree")).expect("read").files().count(), 0);
}

#[test]
fn a_file_of_which_the_server_sends_less_than_it_has_reported_has_no_hash() {
    let place = Place::new();
    let path = place.source("file");
    let whole = content::bytes(100_000, 1);
    fs::write(&path, &whole).expect("written");
    let mut shrunk = 0;
    for after in 0..8 {
        let odd = Oddities { fault: Some((after, Fault::End)), ..Oddities::default() };
        let (_server, from, to) = OddSftp::serve(&place.source(""), odd).expect("served");
        let Ok(mut requests) = Requests::sftp(Connection::from_parts(from, to)) else { continue };
        match requests.hash(path.as_os_str().as_encoded_bytes(), &mut |_| ()) {
            Ok(hash) => assert_eq!(hash, ContentHash::of(&whole), "{after}"),
            Err(RequestError::Fault(fault)) => {
                shrunk += usize::from(fault.kind == FaultKind::Changed)
            }
            Err(error) => panic!("{after}: {error}"),
        }
    }
    assert!(shrunk > 0, "no read was answered with the end");
}

#[test]
fn nothing_is_removed_through_a_link_that_has_replaced_a_directory() {
    let place = Place::new();
    let files = ["here/dir/f", "here/dir/deeper/f", "elsewhere/f", "elsewhere/deeper/f"];
    for file in files.map(|file| place.source(file)) {
        fs::create_dir_all(file.parent().expect("a directory")).expect("made");
        fs::write(file, "x").expect("written");
    }
    let (_server, from, to) =
        OddSftp::serve(&place.source(""), Oddities::default()).expect("served");
    let session = Session::start(Connection::from_parts(from, to), Options::default());
    let session = session.expect("greeted");
    let sessions = Sessions::new(session.client().clone(), 0);
    let host = SftpHost::new(sessions, &SessionLoss::new("host"), None, false, false);
    let here = place.source("here");
    let name = |name: &str| Name::new(name.as_bytes()).expect("a name");
    let open = || {
        let here = SftpTree::destination(&host).open(here.as_os_str().as_encoded_bytes());
        let dir = here.expect("open").open_dir(&name("dir"), false).expect("open");
        let deeper = dir.open_dir(&name("deeper"), false).expect("open");
        [deeper, dir]
    };
    let dirs = open();
    fs::rename(here.join("dir"), here.join("away")).expect("renamed");
    symlink("../elsewhere", here.join("dir")).expect("linked");
    for dir in &dirs {
        dir.remove_file(&name("f")).expect_err("it is elsewhere");
        dir.remove_dir(&name("f")).expect_err("it is elsewhere");
    }
    assert!(files[2..].iter().all(|file| place.source(file).exists()));
    fs::remove_file(here.join("dir")).expect("removed");
    fs::rename(here.join("away"), here.join("dir")).expect("renamed");
    for dir in dirs {
        dir.remove_file(&name("f")).expect("removed");
    }
    open()[1].remove_dir(&name("deeper")).expect("removed");
}

/// A removal asks what is there, for a link where it points, and then removes it.
/// While the answers of one are awaited, others are asked for.
#[test]
fn sources_without_content_are_removed_many_at_a_time() {
    const REMOVE: u8 = 13;
    let place = place();
    fs::create_dir_all(place.source("tree")).expect("there");
    for number in 0..100 {
        fs::write(place.source(&format!("tree/nil-{number}")), "").expect("written");
        symlink(".", place.source(&format!("tree/link-{number}"))).expect("linked");
    }
    let mut job = job(&place, Policy { sync: true, ..Policy::default() });
    let copied = run_job(&place, Way::Down, &Oddities::default(), job.clone());
    copied.result.expect("it is copied");
    job.task = Task::Remove { rule: Remove::SameContent, moving: Moving::Lossy };
    let gathering = Oddities { gathered: Some((REMOVE, 4)), ..Oddities::default() };
    let ran = run_job(&place, Way::Down, &gathering, job);
    ran.result.expect("it is moved");
    assert!(!place.source("tree").exists());
    // The last ones are fewer, and so may be those whose content is compared.
    assert!(ran.gather_timeouts <= 5, "one after another: {} times", ran.gather_timeouts);
}

/// A user who interrupts when some of the sources are removed.
#[derive(Default)]
struct Impatient {
    progress: Progress,
    removed: AtomicUsize,
}

/// How many they are.
const SOME: usize = 50;

impl Monitor for Impatient {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn event(&self, event: Event<'_>) {
        if let Event::Removed { .. } = event {
            self.removed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn cancelled(&self) -> bool {
        self.removed.load(Ordering::Relaxed) >= SOME
    }
}

#[test]
fn a_move_that_is_interrupted_while_it_removes_reports_it() {
    let place = place();
    fs::remove_dir_all(place.source("tree")).expect("removed");
    fs::create_dir(place.source("tree")).expect("made");
    // Nothing is to be hashed: all is compared long before all is removed.
    let names = (0..6 * SOME).map(|number| place.source(&format!("tree/nil-{number}")));
    let names: Vec<PathBuf> = names.collect();
    names.iter().for_each(|name| fs::write(name, "").expect("written"));
    let gathering = Oddities { reversed: true, ..Oddities::default() };
    let mut job = job(&place, Policy { sync: true, ..Policy::default() });
    run_job(&place, Way::Down, &gathering, job.clone()).result.expect("it is copied");
    job.task = Task::Remove { rule: Remove::SameContent, moving: Moving::Lossy };
    let (_server, from, to) = OddSftp::serve(&place.source(""), gathering).expect("served");
    let connections = vec![Connection::from_parts(from, to)];
    let route = SftpRoute { open_session: None, connections, journals: None, silence_max: None };
    let result = haul_engine::run(&job, Placement::SftpDownload(route), &Impatient::default());
    assert!(matches!(result, Err(JobError::Interrupted)), "{result:?}");
    assert!(names.iter().any(|name| name.exists()), "all was removed");
}

#[test]
fn a_large_file_whose_server_dies_is_completed_by_the_next_job() {
    for way in WAYS {
        let place = place();
        fs::remove_dir_all(place.source("tree")).expect("removed");
        fs::create_dir(place.source("tree")).expect("made");
        tree::random_file(place.source("tree/large"), (65 << 20) + 7, 9).expect("made");
        let chunk_max = 200 << 10;
        let extensions = vec!["limits@openssh.com", "posix-rename@openssh.com"];
        let plain = Oddities { chunk_max, extensions, ..Oddities::default() };
        let dying = Oddities { fault: Some((150, Fault::Die)), ..plain.clone() };
        let policy = Policy::default();
        let ran = run(&place, way, &dying, policy);
        assert!(matches!(ran.result, Err(JobError::Connection(_))), "{way:?}: {:?}", ran.result);
        assert!(!place.has("tree/large"), "{way:?}");
        let summary = run(&place, way, &plain, policy).result.expect("it runs");
        // Without fsync at the server, all that it confirmed is gone on with.
        assert!(summary.bytes_resumed > 0, "{way:?}: {summary:?}");
        let [source, copy] = [place.source("tree"), place.dest("tree")];
        let [source, copy] = [source, copy].map(|path| snapshot(path).expect("read"));
        assert_same_with(&source, &copy, rules().ignoring_dir_mtimes());
        // The directory's own id.
        assert_eq!(fs::read_dir(place.outside("journals")).expect("read").count(), 1);
    }
}

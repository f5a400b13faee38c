//! Installations with an unusual SFTP server, and a shell with scripted output.

use super::host::Host;
use super::place::InstallDir;
use super::*;
use haul_engine::PROTOCOL;
use haul_model::HostFacts;
use haul_net::{Connection, DEPLOY_DIR, DEPLOY_MARKER};
use haul_proto::{Caps, FrameType, Hello, frame_bytes};
use haul_testkit::{Fault, OddSftp, Oddities, TempDir};
use std::cell::Cell;
use std::fs::{self, File};
use std::io::{Cursor, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A home directory, and an SFTP server for it.
struct Bench {
    home: TempDir,
    session: Session,
    server: OddSftp,
}

impl Bench {
    fn new(odd: Oddities) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let (server, input, output) = OddSftp::serve(home.path(), odd).expect("it serves");
        let connection = Connection::from_parts(input, output);
        let session = Session::start(connection, Options::default()).expect("it greets");
        Self { home, session, server }
    }

    /// The shell of this host, which sends `said` once it has executed the upload.
    fn shell(&self, said: &[u8]) -> Result<Shell, DeployError> {
        let home = self.home.path().canonicalize().expect("a path");
        let user = rustix::process::geteuid().as_raw();
        let host = format!("haul-deploy\nLinux x86_64\n{user}\n-\n1\n{}\n", home.display());
        let stream = Cursor::new([host.as_bytes(), said].concat());
        Shell::start(Connection::from_parts(stream, std::io::sink()))
    }

    fn deploy(&self, is_cancelled: &dyn Fn() -> bool) -> Result<Deployed, DeployError> {
        let program = program();
        let shell = self.shell(&greeting(PROTOCOL, VERSION))?;
        let (client, begun) = (self.session.client(), Instant::now());
        Upload { client, program: &program, is_cancelled, begun }.deploy(shell)
    }

    fn dir(&self) -> PathBuf {
        self.home.path().join(DEPLOY_DIR)
    }
}

/// The beginning of this program, with haul's marker, in place of haul: it is never started. It is
/// short, so that the upload takes few requests.
fn program() -> Program {
    const HEAD_LEN: u64 = 700 << 10;
    let own = File::open(std::env::current_exe().expect("a path")).expect("opened");
    let mut part = tempfile::NamedTempFile::new().expect("a file");
    assert_eq!(std::io::copy(&mut own.take(HEAD_LEN), &mut part).expect("copied"), HEAD_LEN);
    part.write_all(DEPLOY_MARKER.as_bytes()).expect("written");
    Program::own(part.path()).expect("a program")
}

fn greeting(version: u16, program: &str) -> Vec<u8> {
    let welcome = Hello { version, caps: Caps::OURS, silence_seconds: 60, program: program.into() };
    frame_bytes(FrameType::Welcome, &welcome.encode())
}

fn names_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect()
}

#[test]
fn a_server_without_atomic_replace_accepts_only_the_first_haul() {
    let bench = Bench::new(Oddities { extensions: Vec::new(), ..Oddities::default() });
    assert_eq!(bench.deploy(&|| false).expect("deployed").change, Change::New);
    let haul = bench.dir().join(DEPLOYED_NAME);
    assert_eq!(fs::metadata(&haul).expect("a file").permissions().mode() & 0o7777, PRIVATE_MODE);
    assert_eq!(bench.deploy(&|| false).expect("nothing to do").change, Change::Nothing);
    fs::write(&haul, "another").expect("a file");
    let error = bench.deploy(&|| false).expect_err("it can't be replaced");
    assert!(error.to_string().ends_with("the server can't replace a file in one step"), "{error}");
    assert!(matches!(error, DeployError::Irreplaceable { .. }), "{error}");
    assert_eq!(fs::read(&haul).expect("a file"), b"another");
    assert_eq!(names_in(&bench.dir()), [DEPLOYED_NAME]);
}

#[test]
fn a_failed_request_leaves_nothing_or_a_complete_haul() {
    for number in 0.. {
        let fault = Some((number, Fault::Refuse));
        // Large pieces, so that there are few requests.
        let odd = Oddities { fault, chunk_max: 255 << 10, ..Oddities::default() };
        let odd =
            Oddities { extensions: vec!["posix-rename@openssh.com", "limits@openssh.com"], ..odd };
        let bench = Bench::new(odd);
        let done = bench.deploy(&|| false);
        let asked = bench.server.requests();
        match done {
            Ok(_) => assert_eq!(names_in(&bench.dir()), [DEPLOYED_NAME], "request {number}"),
            // The server executes the request, but reports an error. A tested haul is installed
            // then, and the client can't know.
            Err(DeployError::Upload { fault, .. }) if fault.message.starts_with("can't rename") => {
                assert_eq!(names_in(&bench.dir()), [DEPLOYED_NAME], "request {number}");
            }
            Err(error) => {
                let is_told =
                    matches!(error, DeployError::Sftp { .. } | DeployError::Upload { .. });
                assert!(is_told, "request {number}: {error}");
                assert_eq!(names_in(bench.home.path()), [""; 0], "request {number}: {error}");
            }
        }
        if asked <= number {
            let writes = bench.server.asked().into_iter().filter(|kind| *kind == 6).count();
            assert!(writes > 2, "{writes} pieces: none is in the middle");
            return;
        }
    }
}

#[test]
fn the_upload_is_flushed_if_the_server_can() {
    // Of the extended requests, one is the rename.
    let extended = |extensions: &[&'static str]| {
        let bench = Bench::new(Oddities { extensions: extensions.to_vec(), ..Oddities::default() });
        bench.deploy(&|| false).expect("deployed");
        bench.server.asked().into_iter().filter(|kind| *kind == 200).count()
    };
    let replaces = "posix-rename@openssh.com";
    assert_eq!(extended(&[replaces]), 1);
    assert_eq!(extended(&[replaces, "fsync@openssh.com"]), 2);
}

#[test]
fn a_deployment_can_be_cancelled_at_any_step() {
    for steps in 0_u32.. {
        let bench = Bench::new(Oddities::default());
        let left = Cell::new(steps);
        let is_cancelled = || left.replace(left.get().saturating_sub(1)) == 0;
        match bench.deploy(&is_cancelled) {
            Ok(_) => {
                assert!(steps > 2, "it is asked before it is sent, checked, and run");
                return;
            }
            Err(DeployError::Job(JobError::Interrupted)) => {
                assert_eq!(names_in(bench.home.path()), [""; 0], "step {steps}");
            }
            Err(error) => panic!("step {steps}: {error}"),
        }
    }
}

#[test]
fn a_server_that_reports_no_owner_is_refused() {
    let bench = Bench::new(Oddities::default());
    let host = bench.shell(b"").expect("a host").host;
    let place = InstallDir::make(bench.session.client(), &host).expect("a place");
    let own = (host.facts.user, 0);
    let whole = Attrs { owner: Some(own), mode: Some(0o040_700), ..Attrs::default() };
    place.check_dir(4, &whole).expect("a directory that is well");
    for attrs in [
        Attrs { owner: None, ..whole },
        Attrs { mode: None, ..whole },
        Attrs { mode: Some(0o700), ..whole },
    ] {
        place.check_dir(4, &attrs).expect_err("what is not told counts as wrong");
    }
    // The user's own group may write there, too.
    let facts = HostFacts { own_group: Some(7), ..host.facts.clone() };
    let host = Host { facts, ..host.clone() };
    let place = InstallDir::make(bench.session.client(), &host).expect("a place");
    for (depth, mode, group, is_well) in [
        (2, 0o040_775, 7, true),
        (2, 0o040_775, 8, false),
        (2, 0o040_777, 7, false),
        (3, 0o040_775, 7, false),
    ] {
        let attrs = Attrs { owner: Some((host.facts.user, group)), mode: Some(mode), ..whole };
        assert_eq!(place.check_dir(depth, &attrs).is_ok(), is_well, "{depth} {mode:o} {group}");
    }
    // Root may own only the directories above haul's own.
    let of_root = Attrs { owner: Some((0, 0)), ..whole };
    place.check_dir(2, &of_root).expect("a directory of root's");
    assert_eq!(place.check_dir(3, &of_root).is_ok(), host.facts.user == 0);
}

#[test]
fn only_this_version_of_haul_counts_as_started() {
    let bench = Bench::new(Oddities::default());
    let started = |said: &[u8]| {
        let mut shell = bench.shell(said)?;
        shell.stage("0123456789abcdef").expect("a sink takes it");
        shell.run(&program(), GREETING_MAX)
    };
    started(&greeting(PROTOCOL, VERSION)).expect("this version");
    for (version, program) in [(PROTOCOL, "7.8.9"), (PROTOCOL + 1, VERSION)] {
        let error = started(&greeting(version, program)).expect_err("another version");
        assert!(matches!(error, DeployError::Version { .. }), "{error}");
    }
    for said in [&b"serve\n"[..], b"", &greeting(PROTOCOL, VERSION)[..10]] {
        let error = started(said).expect_err("no haul");
        assert!(matches!(error, DeployError::DoesNotStart { .. }), "{error}");
    }
}

#[test]
fn the_exit_status_decides_the_likely_cause() {
    let dir = tempfile::tempdir().expect("a directory");
    let said = dir.path().join("said");
    fs::write(&said, "haul-deploy\nLinux x86_64\n0\n-\n1\n/\n").expect("a file");
    let ends = |status: i32, program: &Program| {
        let rsh =
            format!("sh -c 'read -r hello; cat {}; read -r go; exit {status}' sh", said.display());
        let target = SshTarget::new(None, "box").and_then(|target| target.with_rsh(&rsh));
        let diagnostics: Diagnostics = Arc::new(|_| {});
        let shell = log_in(&target.expect("words that are right"), &diagnostics).expect("a shell");
        shell.run(program, GREETING_MAX).expect_err("no haul")
    };
    let suspect = |status| match ends(status, &program()) {
        DeployError::DoesNotStart { suspect, .. } => suspect,
        error => panic!("{error}"),
    };
    assert_eq!([127, 1].map(suspect), [LikelyCause::Libraries; 2]);
    assert_eq!(suspect(126), LikelyCause::Directory);
    let other = dir.path().join("other");
    fs::write(&other, "x").expect("a file");
    let other = Program { file: File::open(other).expect("opened"), ..program() };
    assert!(matches!(ends(126, &other), DeployError::NoHaul { .. }));
}

#[test]
fn an_upload_that_never_greets_times_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let said = "haul-deploy\nLinux x86_64\n0\n-\n1\n/\n";
    let rsh = dir.path().join("said");
    fs::write(&rsh, said).expect("a file");
    let rsh = format!("sh -c 'cat {}; exec sleep 60' sh", rsh.display());
    let target = SshTarget::new(None, "box").and_then(|target| target.with_rsh(&rsh));
    let diagnostics: Diagnostics = Arc::new(|_| {});
    let started = Instant::now();
    let shell = log_in(&target.expect("words that are right"), &diagnostics).expect("a shell");
    let error = shell.run(&program(), Duration::from_millis(1200)).expect_err("it is silent");
    let text = error.to_string();
    assert!(text.ends_with("on box: no greeting within 1 s"), "{text}");
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_file_that_is_no_program_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("a\x1bscript");
    fs::write(&script, "#!/bin/sh\n").expect("a file");
    let huge = dir.path().join("huge");
    File::create(&huge).and_then(|file| file.set_len(PROGRAM_LEN_MAX + 1)).expect("a file");
    let text = |path: &Path| Program::open(path).expect_err("no program").to_string();
    let script_text = text(&script);
    assert!(script_text.ends_with("/a\\x1bscript: not an ELF program"), "{script_text}");
    assert!(text(&huge).ends_with("it is larger than 1024 MiB, so it is not haul"));
    assert!(text(dir.path()).ends_with("it is not a regular file"));
    assert!(text(Path::new("/nowhere")).contains("can't read it: "));
    assert!(text(Path::new("/dev/zero")).ends_with("it is not a regular file"));
    fs::write(&script, "").expect("a file");
    assert!(text(&script).ends_with("not an ELF program"));
}

#[test]
fn the_marker_is_found_at_any_offset() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("program");
    let own = Executable { system: "linux", processor: "x86_64", dynamic: true };
    let has = |content: &[u8]| {
        fs::write(&path, content).expect("a file");
        Program::read(&path, |_| Ok(own)).expect("a program").looks_like_haul()
    };
    let words = DEPLOY_MARKER.as_bytes();
    for at in [0, 1, READ_LEN - words.len(), READ_LEN - 5, READ_LEN - 1, READ_LEN, READ_LEN + 1] {
        let content = [&vec![b'x'; at][..], words, b"x"].concat();
        assert!(has(&content), "{at}");
        assert!(!has(&content[..content.len() - 2]), "{at}");
    }
    assert!(!has(b""));
}

#[test]
fn the_hash_is_the_hash_of_the_file() {
    let own = std::env::current_exe().expect("a path");
    let program = Program::own(&own).expect("a program");
    let content = fs::read(&own).expect("a file");
    assert_eq!(program.len, content.len() as u64);
    assert_eq!(program.hash, ContentHash::of(&content));
    assert_eq!(program.machine().processor, std::env::consts::ARCH);
}

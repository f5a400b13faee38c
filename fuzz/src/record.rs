//! Records the seeds: real copies, comparisons and moves between a client and an
//! agent in this process, up and down, cut into what each target takes.

use haul_engine::{Job, Placement};
use haul_fuzz::{ASKED, Faked, Journal, Place, Quiet, comparison, job, removal};
use haul_net::Connection;
use haul_proto::{FrameType, HEADER_LEN, Header};
use std::error::Error;
use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

/// As much of a program as its ELF header and program headers take.
const PROGRAM_SEED_LEN: usize = 1 << 10;

/// A recording of one direction.
#[derive(Clone, Default)]
struct Tape(Arc<Mutex<Vec<u8>>>);

impl Tape {
    fn push(&self, bytes: &[u8]) {
        self.0.lock().expect("nobody panicked").extend_from_slice(bytes);
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("nobody panicked").clone()
    }
}

/// A stream whose bytes are kept.
struct Taped<T>(T, Tape);

impl<T: Read> Read for Taped<T> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.0.read(buf)?;
        self.1.push(&buf[..len]);
        Ok(len)
    }
}

impl<T: AsFd> AsFd for Taped<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl<T: Write> Write for Taped<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.0.write(bytes)?;
        self.1.push(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Patterns of what is left out, each with a path below it.
const FILTERS: [&str; 7] = [
    "*.o\na/b.o",
    "/a/**/z\na/b/c/z",
    "d/***\nd/e",
    "[!a-c[:digit:]]?\nd/xy",
    "a/[]/-]\\*/\na/-*",
    "*a*a*a*a*a*b\naaaaaaaaaaaaaaaaaaaaaaaa",
    "**/*?**/x\na/b/c/d/e/x",
];

/// Files with rules, each behind the byte that says how it is written.
const RULES: [&str; 4] = [
    " - *.o\n+ /a/**\n# none\nP x\n!\n-,!/sp y\n",
    " merge,e- more\n: ../.rules\ndir-merge,nw- .x\n:C\n-C\n",
    "!*.o core\n! keep/",
    "\"- a + b\tH_c",
];

fn main() -> Result<(), Box<dyn Error>> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    if seeds.exists() {
        fs::remove_dir_all(&seeds)?;
    }
    type Way = fn(Connection) -> Placement;
    type Rules = fn(Vec<Vec<u8>>, &Path) -> Job;
    let recorded: [(&str, Way, Rules, &str); 6] = [
        ("upload", Placement::upload, job, "sender"),
        ("download", Placement::download, job, "receiver"),
        ("check-up", Placement::upload, comparison, "sender"),
        ("check-down", Placement::download, comparison, "checker"),
        ("move-up", Placement::upload, removal, "mover"),
        ("move-down", Placement::download, removal, "checker"),
    ];
    for (name, way, job, target) in recorded {
        let mut place = Place::with_sources();
        let job = job(place.sources(), &place.dest());
        if job.task.copies().is_none() {
            place.furnish()
        } else {
            place.clear()
        }
        let (client, agent) = converse(way, &job)?;
        store(&seeds, name, &client, &agent)?;
        fs::create_dir_all(seeds.join(target))?;
        fs::write(seeds.join(target).join(name), after_greeting(&agent))?;
    }
    record_deploy(&seeds)?;
    fs::create_dir_all(seeds.join("journal"))?;
    fs::write(seeds.join("journal/one"), Journal::new().after_header())?;
    fs::create_dir_all(seeds.join("path"))?;
    for (number, name) in haul_testkit::nasty::NAMES.iter().enumerate() {
        fs::write(seeds.join(format!("path/{number:02}")), name)?;
    }
    for (name, path) in [("climbs", &b"a/../b"[..]), ("absolute", b"/etc"), ("deep", b"a/b/c")] {
        fs::write(seeds.join("path").join(name), path)?;
    }
    fs::create_dir_all(seeds.join("filter"))?;
    for (number, seed) in FILTERS.iter().enumerate() {
        fs::write(seeds.join(format!("filter/{number:02}")), seed)?;
    }
    fs::create_dir_all(seeds.join("rules"))?;
    for (number, seed) in RULES.iter().enumerate() {
        fs::write(seeds.join(format!("rules/{number:02}")), seed)?;
    }
    record_faked(&seeds)?;
    record_sftp(&seeds)?;
    Ok(())
}

/// Attributes of root as rsync writes them down.
fn record_faked(seeds: &Path) -> io::Result<()> {
    // Of `setfacl -m u:77:rw,g:88:r`: owner, group, mask and others, then whom a line names,
    // and its rights.
    let list = [[0x80, 4, 6, 0x80], [77, 1 << 31 | 6, 88, 4]].concat();
    let list: Vec<u8> = list.into_iter().flat_map(u32::to_le_bytes).collect();
    let seeds = seeds.join("faked");
    fs::create_dir_all(&seeds)?;
    type Attributes<'a> = &'a [(u8, &'a [u8])];
    let recorded: [(&str, bool, Attributes<'_>); 6] = [
        ("file", false, &[(0, b"104755 0,0 1000:12")]),
        ("device", false, &[(0, b"60640 7,5 0:6")]),
        ("link", false, &[(0, b"120777 0,0 5:6"), (5, b"away/nowhere")]),
        ("dir", true, &[(0, b"41777 0,0 1:2"), (1, &list), (2, &list)]),
        ("list", false, &[(1, &list), (6, b"a\0value"), (6, b"rsync.%other\0x")]),
        ("system", false, &[(3, b"value"), (4, b"\x01\0\0\x02"), (6, b"rsync.user.b\0")]),
    ];
    for (name, is_dir, attributes) in recorded {
        fs::write(seeds.join(name), Faked::bytes(is_dir, attributes))?;
    }
    Ok(())
}

/// Seeds for what is read before haul is put onto a host: the head of a program, and the
/// lines of a host.
fn record_deploy(seeds: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(seeds.join("executable"))?;
    let program = fs::read(std::env::current_exe()?)?;
    fs::write(seeds.join("executable/own"), &program[..PROGRAM_SEED_LEN])?;
    fs::create_dir_all(seeds.join("host"))?;
    for (name, lines) in [
        ("linux", "Linux x86_64\n1000\n1000\n1700000000\n/home/user\n"),
        ("mac", "Darwin arm64\n501\n-\n1700000000\n/Users/user\n"),
    ] {
        fs::write(seeds.join("host").join(name), lines)?;
    }
    Ok(())
}

/// A conversation with OpenSSH's SFTP server, whole and cut into packets.
fn record_sftp(seeds: &Path) -> Result<(), Box<dyn Error>> {
    let program = haul_testkit::sshd::system_sftp_server().ok_or("sftp-server is not installed")?;
    let mut server = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (input, output) = (server.stdin.take(), server.stdout.take());
    let (input, output) = input.zip(output).ok_or("both are pipes")?;
    let tape = Tape::default();
    let temp = tempfile::tempdir()?;
    let connection = Connection::from_parts(Taped(output, tape.clone()), input);
    haul_fuzz::sftp::converse(connection, temp.path().as_os_str().as_encoded_bytes());
    server.wait()?;
    let stream = tape.bytes();
    for target in ["sftp", "sftp_packet"] {
        fs::create_dir_all(seeds.join(target))?;
    }
    fs::write(seeds.join("sftp/openssh"), &stream)?;
    let (mut rest, mut number) = (&stream[..], 0);
    while let Some(len) = rest.first_chunk() {
        let (packet, next) = rest.split_at(u32::from_be_bytes(*len) as usize + 4);
        fs::write(seeds.join(format!("sftp_packet/{number:02}")), packet)?;
        (rest, number) = (next, number + 1);
    }
    Ok(())
}

/// Runs the job and returns what the client said, and the agent.
fn converse(
    place_roles: fn(Connection) -> Placement,
    job: &Job,
) -> Result<(Vec<u8>, Vec<u8>), Box<dyn Error>> {
    let (here, there) = UnixStream::pair()?;
    let (client, agent) = (Tape::default(), Tape::default());
    let input = Taped(there.try_clone()?, client.clone());
    // The agent confines the thread that it runs in.
    let served = thread::spawn(move || {
        let ending = there.try_clone().map_err(|e| e.to_string())?;
        let served = haul_engine::serve(input, there).map_err(|e| e.to_string());
        // As the end of its process would.
        let _ = ending.shutdown(Shutdown::Both);
        served
    });
    let reader = Taped(here.try_clone()?, agent.clone());
    let connection = Connection::from_parts(reader, here);
    let summary = haul_engine::run(job, place_roles(connection), &Quiet::default())?;
    served.join().expect("the agent does not panic")?;
    assert!(summary.copied + summary.skipped > ASKED.len() as u64, "{summary:?}");
    Ok((client.bytes(), agent.bytes()))
}

/// Stores both directions whole, and the payloads that have a target of their
/// own.
fn store(seeds: &Path, job: &str, client: &[u8], agent: &[u8]) -> io::Result<()> {
    for (who, stream) in [("client", client), ("agent", agent)] {
        let write = |target: &str, number: usize, bytes: &[u8]| {
            let dir = seeds.join(target);
            fs::create_dir_all(&dir)?;
            fs::write(dir.join(format!("{job}-{who}-{number}")), bytes)
        };
        write("frame", 0, stream)?;
        for (number, (kind, payload)) in frames(stream).into_iter().enumerate() {
            match kind {
                FrameType::Hello | FrameType::Welcome => write("greeting", number, payload)?,
                FrameType::List => write("listing", number, payload)?,
                FrameType::Pack => write("pack", number, payload)?,
                _ => {}
            }
        }
    }
    Ok(())
}

/// The frames of a recorded stream.
fn frames(mut stream: &[u8]) -> Vec<(FrameType, &[u8])> {
    let mut frames = Vec::new();
    while let Some((header, rest)) = stream.split_first_chunk() {
        let header = Header::decode(*header).expect("recorded");
        let (payload, rest) = rest.split_at(header.payload_len as usize);
        frames.push((header.kind, payload));
        stream = rest;
    }
    frames
}

/// The frames behind the greeting.
fn after_greeting(stream: &[u8]) -> &[u8] {
    let greeting = frames(stream)[0].1.len();
    &stream[HEADER_LEN + greeting..]
}

//! Measurements of a host and of the connection to it, one at a time: the client's side, and the
//! agent's. Both sides bound the time and bytes of each. None of the user's files is changed.

mod flow;

use self::flow::{Bounds, FLOW_MAX, noise, receive_filler, send_filler};
use super::Peer;
use crate::callers::accept;
use crate::copy::Aligned;
use crate::link::greeting::read_message;
use crate::link::wire::{OutFrame, Outbox, ReadEnd, refused};
use crate::{JobError, Rights};
use haul_model::{ContentHasher, Fault, FaultKind, Side, words};
use haul_net::{Direct, DirectCipher, Killer, ListenTarget};
use haul_proto::{
    Amount, DISK_BYTES_MAX, DirectOffer, DirectWish, Flow, MEASURE_MILLIS_MAX, Machine, Measure,
    Measured, Message, ProcessorRates, Startups, encode,
};
use haul_sys::Dir;
use parking_lot::Mutex;
use std::fs::File;
use std::io::{self, PipeWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The longest time for an answer that is not a flow. A disk may be slow to flush its data.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A rate that no machine reaches, in bytes per second. Higher claims are refused.
const RATE_MAX: u64 = 1 << 40;

/// The longest accepted path of a program, in bytes.
const PATH_MAX: usize = 4096;

/// Measures this machine, if `asked` needs no connection.
pub(super) fn here(asked: &Measure) -> Option<Measured> {
    let Measure::Machine { millis } = asked else { return None };
    let machine = describe_machine(None, *millis);
    Some(Measured::Machine(Box::new(machine)))
}

/// Lets `peer` measure, and checks its figures.
pub(super) fn at(peer: &mut Peer, asked: Measure) -> Result<Measured, JobError> {
    measured(peer, asked).map_err(|end| peer.broken(end))
}

fn measured(peer: &mut Peer, asked: Measure) -> Result<Measured, ReadEnd> {
    let begun = Instant::now();
    let (flow, limit) = match asked {
        Measure::Flow(flow) => (Some(flow), FLOW_MAX),
        _ => (None, ANSWER_MAX),
    };
    peer.send_frame(OutFrame::message(&Message::Measure(asked)), limit);
    let poured = match flow {
        None => None,
        Some(flow @ Flow { to_agent: false, .. }) => return filler(peer, Bounds::of(flow)),
        Some(flow) => Some(send_filler(flow, |frame| {
            let sent = peer.send_frame(OutFrame::whole(frame.to_vec()), limit);
            sent.ok_or_else(|| io::ErrorKind::TimedOut.into())
        })),
    };
    // If the host takes no more data, the answer contains the reason.
    let Message::Measured(measured) = receive_answer(peer, limit)? else {
        return Err(other_answer());
    };
    let took = begun.elapsed();
    Ok(match (measured, poured) {
        (Measured::Flow(amount), Some(Ok(sent))) => Measured::Flow(within(amount, sent, took)?),
        (Measured::Machine(machine), None) => Measured::Machine(Box::new(checked(*machine)?)),
        (Measured::Disk { written, read }, None) => {
            let written = within(written, DISK_BYTES_MAX, took)?;
            Measured::Disk { written, read: within(read, written.bytes, took)? }
        }
        (Measured::Fault(fault), None) => Measured::Fault(fault.clipped()),
        (direct_port @ Measured::DirectPort(_), None) => direct_port,
        _ => return Err(other_answer()),
    })
}

/// Receives the filler of a flow.
fn filler(peer: &mut Peer, mut bounds: Bounds) -> Result<Measured, ReadEnd> {
    loop {
        let Message::Filler(len) = receive_answer(peer, FLOW_MAX)? else {
            return Err(other_answer());
        };
        if let Some(amount) = bounds.take(len)? {
            return plausible(amount).map(Measured::Flow);
        }
    }
}

fn receive_answer(peer: &mut Peer, limit: Duration) -> Result<Message, ReadEnd> {
    peer.receive_within(limit).map_err(ReadEnd::Refused)
}

fn other_answer() -> ReadEnd {
    refused("the peer answered a different request")
}

/// Measures a flow over a direct connection to the port that the agent opened for
/// [`Measure::DirectPort`]. The connection's timeout bounds each read and write.
///
/// # Errors
/// When the connection breaks, or the agent breaks the protocol.
pub fn measure_directly(direct: &mut Direct, flow: Flow) -> io::Result<Amount> {
    let begun = Instant::now();
    direct.write_all(&encode(&Message::Measure(Measure::Flow(flow))))?;
    if !flow.to_agent {
        return Ok(receive_filler(flow, direct).and_then(plausible)?);
    }
    let sent = send_filler(flow, |frame| direct.write_all(frame))?;
    direct.flush()?;
    match read_message(direct)? {
        Message::Measured(Measured::Flow(amount)) => Ok(within(amount, sent, begun.elapsed())?),
        _ => Err(other_answer().into()),
    }
}

/// A peer's amount, if it is at most `bytes_max` in at most `time_max`.
fn within(amount: Amount, bytes_max: u64, time_max: Duration) -> Result<Amount, ReadEnd> {
    let time = Duration::from_nanos(amount.nanos);
    match amount.bytes <= bytes_max && !time.is_zero() && time <= time_max {
        true => plausible(amount),
        false => Err(absurd()),
    }
}

/// The amount, if its rate is possible.
fn plausible(amount: Amount) -> Result<Amount, ReadEnd> {
    if amount.per_second() <= RATE_MAX { Ok(amount) } else { Err(absurd()) }
}

fn absurd() -> ReadEnd {
    refused("the peer sent impossible figures")
}

/// A peer's description of its machine, if it is possible.
fn checked(machine: Machine) -> Result<Machine, ReadEnd> {
    let ProcessorRates { blake3, aes_256_gcm, chacha20_poly1305 } = machine.rates;
    let is_true = [blake3, aes_256_gcm, chacha20_poly1305].iter().all(|rate| *rate <= RATE_MAX)
        && machine.program.as_ref().is_none_or(|path| path.len() <= PATH_MAX)
        && machine.congestion.as_ref().is_none_or(|name| haul_sys::is_congestion_name(name));
    if is_true { Ok(machine) } else { Err(absurd()) }
}

/// Answers the measurements of one client.
pub(crate) struct Measuring {
    rights: Rights,
    /// The way in which direct connections arrive, or the reason why there are none.
    listen_target: Result<ListenTarget, String>,
    /// The path of this program, if the client may know it.
    program: Option<Vec<u8>>,
    direct_port: Option<DirectPort>,
}

impl Measuring {
    /// For a client with these rights. Its direct connections arrive through `listen_target`.
    pub(crate) fn new(
        rights: Rights,
        listen_target: Result<ListenTarget, String>,
        program: Option<Vec<u8>>,
    ) -> Self {
        Self { rights, listen_target, program, direct_port: None }
    }

    /// Performs the measurement. A flow to the agent is read from `input`; everything else is
    /// written to `output`.
    ///
    /// # Errors
    /// When the client breaks the protocol, or has left.
    pub(crate) fn answer(
        &mut self,
        asked: Measure,
        input: &mut impl Read,
        output: &Outbox,
    ) -> Result<(), ReadEnd> {
        let send = |frame| -> io::Result<()> {
            output.send(frame).ok_or_else(|| io::ErrorKind::BrokenPipe.into())
        };
        let measured = match asked {
            Measure::Machine { millis } => {
                Measured::Machine(Box::new(describe_machine(self.program.as_deref(), millis)))
            }
            Measure::DirectPort(wish) => {
                // It may use the wanted port.
                self.direct_port = None;
                let listen_target = self.listen_target.as_ref().map_err(Clone::clone);
                let opened =
                    listen_target.and_then(|listen_target| DirectPort::open(&wish, listen_target));
                Measured::DirectPort(opened.map(|(direct_port, offer)| {
                    self.direct_port = Some(direct_port);
                    offer
                }))
            }
            Measure::Flow(flow @ Flow { to_agent: true, .. }) => {
                Measured::Flow(receive_filler(flow, input)?)
            }
            Measure::Flow(flow) => {
                send_filler(flow, |frame| send(OutFrame::whole(frame.to_vec())))?;
                return Ok(());
            }
            Measure::Disk { .. } if self.rights == Rights::Read => {
                let message = "can't write there: this login is read-only";
                let kind = FaultKind::PermissionDenied;
                Measured::Fault(Fault::new(Side::Destination, kind, message))
            }
            Measure::Disk { path, bytes, millis } => {
                let found = measure_disk(words::without_tilde(&path), bytes, millis);
                found.map_or_else(Measured::Fault, |(written, read)| Measured::Disk {
                    written,
                    read,
                })
            }
        };
        Ok(send(OutFrame::message(&Message::Measured(measured)))?)
    }
}

/// The longest pause between two measurements before the client is disconnected.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// A port that is open for measuring direct connections, until the client leaves or starts a job.
/// It closes when this is dropped.
struct DirectPort {
    joined: Arc<Joined>,
    thread: Option<JoinHandle<()>>,
    /// Dropped to end the wait for callers.
    runs: Option<PipeWriter>,
}

/// Accepted connections, and whether the port is closed.
#[derive(Default)]
struct Joined(Mutex<(Vec<Killer>, bool)>);

impl Joined {
    fn is_closed(&self) -> bool {
        self.0.lock().1
    }
}

impl DirectPort {
    /// Opens a port for a client with this `wish`.
    ///
    /// # Errors
    /// A message, when no port can be opened.
    fn open(wish: &DirectWish, way: &ListenTarget) -> Result<(Self, DirectOffer), String> {
        let open = || {
            let listener = way.open(wish.ports, wish.key)?;
            let offer = DirectOffer { address: listener.address(), key: listener.key() };
            let joined = Arc::<Joined>::default();
            let held = Arc::clone(&joined);
            let (ended, runs) = io::pipe()?;
            let serve = move || {
                let is_running = || !held.is_closed();
                accept(&listener, Some(&ended), &is_running, &|_, direct| serve(direct, &held));
            };
            let thread = Some(Builder::new().name("door".to_owned()).spawn(serve)?);
            Ok((Self { joined, thread, runs: Some(runs) }, offer))
        };
        open().map_err(|error: io::Error| format!("the host can't open a port: {error}"))
    }
}

impl Drop for DirectPort {
    fn drop(&mut self) {
        let killers = {
            let mut joined = self.joined.0.lock();
            joined.1 = true;
            std::mem::take(&mut joined.0)
        };
        killers.iter().for_each(Killer::kill);
        self.runs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers the client's measurements on a direct connection, until it leaves.
fn serve(mut direct: Direct, joined: &Joined) -> io::Result<()> {
    let killer = direct.killer()?;
    {
        let mut joined = joined.0.lock();
        if joined.1 {
            return Ok(());
        }
        joined.0.push(killer);
    }
    direct.set_timeout(Some(IDLE_MAX))?;
    loop {
        let Message::Measure(Measure::Flow(flow)) = read_message(&mut direct)? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        if flow.to_agent {
            let amount = receive_filler(flow, &mut direct)?;
            direct.write_all(&encode(&Message::Measured(Measured::Flow(amount))))?;
        } else {
            send_filler(flow, |frame| direct.write_all(frame))?;
        }
        direct.flush()?;
    }
}

/// Bytes that are written or read at once.
const STEP_LEN: usize = 4 << 20;

/// Bytes that are flushed first, to estimate how much can be written in the time.
const FIRST_LEN: u64 = 2 * STEP_LEN as u64;

/// The used share of the free space is at most one part in this many: others may need space
/// meanwhile.
const OF_FREE: u64 = 8;

/// Writes to the disk of the directory at `path`, flushes, and reads the data back. Each takes at
/// most `millis` milliseconds and `bytes` bytes, within the bounds of the protocol. The file is
/// removed.
///
/// # Errors
/// When nothing, or hardly anything, can be written there.
fn measure_disk(path: &[u8], bytes: u64, millis: u32) -> Result<(Amount, Amount), Fault> {
    let failed = |action| move |e: io::Error| Fault::from_io(Side::Destination, action, &e);
    let path = if path.is_empty() { b"." } else { path };
    let dir = Dir::open_raw(path).map_err(failed("open the directory"))?;
    let free_space =
        haul_sys::free_space(&dir).map_or(u64::MAX, |free_space| free_space.bytes / OF_FREE);
    if free_space < FIRST_LEN {
        let message = "not enough free space to measure it";
        return Err(Fault::new(Side::Destination, FaultKind::NoSpace, message));
    }
    let bytes = bytes.min(DISK_BYTES_MAX).min(free_space);
    let time = Duration::from_millis(millis.min(MEASURE_MILLIS_MAX).into());
    haul_store::with_temporary_file(&Arc::new(dir), |file| {
        let written = write(file, bytes, time)?;
        Ok((written, read(file, written.bytes, time)?))
    })
    .map_err(failed("write there"))
}

/// Writes and flushes about as many bytes as take `time`, at most `bytes`.
fn write(file: &File, bytes: u64, time: Duration) -> io::Result<Amount> {
    // Incompressible data, for file systems that compress.
    let noise = noise(STEP_LEN);
    let begun = Instant::now();
    let mut written = 0;
    let mut until = bytes.min(FIRST_LEN);
    loop {
        while written < until {
            haul_sys::write_out_at(file, &noise, written)?;
            written += noise.len() as u64;
        }
        file.sync_data()?;
        let took = begun.elapsed();
        let left = time.saturating_sub(took);
        let further = written as f64 * left.as_secs_f64() / took.as_secs_f64();
        let next = bytes.min(written.saturating_add(further as u64));
        if next < written + STEP_LEN as u64 {
            return Ok(amount(written, took));
        }
        until = next;
    }
}

/// Reads the first `bytes`, or as many as take `time`, past the page cache if possible.
fn read(file: &File, bytes: u64, time: Duration) -> io::Result<Amount> {
    haul_sys::drop_cached(file, 0..0);
    haul_sys::read_directly(file);
    let mut buffer = Aligned::new(STEP_LEN);
    let begun = Instant::now();
    let mut done = 0;
    while done < bytes && begun.elapsed() < time {
        match file.read_at(buffer.bytes(), done) {
            Ok(0) => break,
            Ok(len) => done += len as u64,
            // The file system does not support direct reads, although it accepted the flag.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput && done == 0 => {
                haul_sys::read_cached(file);
                done += file.read_at(buffer.bytes(), done)? as u64;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(amount(done, begun.elapsed()))
}

fn amount(bytes: u64, took: Duration) -> Amount {
    Amount { bytes, nanos: u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1) }
}

/// Bytes that are hashed between two checks of the clock.
const HASHED_LEN: usize = 1 << 20;

/// The longest time for measuring one rate of a processor.
const RATE_TIME_MAX: Duration = Duration::from_millis(500);

/// Describes this machine, and measures each rate of its processor for `millis` milliseconds, up to
/// [`RATE_TIME_MAX`].
fn describe_machine(program: Option<&[u8]>, millis: u32) -> Machine {
    let time = Duration::from_millis(millis.into()).min(RATE_TIME_MAX);
    let limit = haul_sys::login_limit();
    Machine {
        program: program.map(<[u8]>::to_vec),
        rates: ProcessorRates {
            blake3: hash_rate(time),
            aes_256_gcm: DirectCipher::Aes256Gcm.rate(time),
            chacha20_poly1305: DirectCipher::ChaCha20Poly1305.rate(time),
        },
        congestion: haul_sys::congestion_control(),
        startups: limit.map(|limit| Startups {
            begin: limit.begin,
            rate: limit.rate,
            full: limit.full,
        }),
    }
}

/// Bytes that one thread hashes per second.
fn hash_rate(time: Duration) -> u64 {
    let bytes = vec![7; HASHED_LEN];
    let mut hasher = ContentHasher::new();
    let begun = Instant::now();
    loop {
        hasher.update(&bytes);
        let took = begun.elapsed();
        if took >= time {
            return (hasher.len() as f64 / took.as_secs_f64()) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn figures_that_cant_be_true_are_refused() {
        let second = Duration::from_secs(1);
        let is_taken = |bytes, nanos| within(Amount { bytes, nanos }, 1000, second).is_ok();
        assert!(is_taken(1000, 1_000_000_000));
        assert!(is_taken(0, 1));
        assert!(!is_taken(1001, 1000));
        assert!(!is_taken(10, 0));
        assert!(!is_taken(10, 1_000_000_001));
        assert!(within(Amount { bytes: 1 << 40, nanos: 1 }, u64::MAX, second).is_err());
    }

    #[test]
    fn a_machine_that_cant_be_is_refused() {
        let machine = |blake3, congestion: &str| {
            let rates = ProcessorRates { blake3, ..ProcessorRates::default() };
            checked(Machine {
                rates,
                congestion: Some(congestion.to_owned()),
                ..Machine::default()
            })
        };
        assert!(machine(1 << 33, "bbr").is_ok());
        assert!(machine(u64::MAX, "bbr").is_err());
        for name in ["", "\x1b[2J", "a name", "abcdefghijklmnop"] {
            assert!(machine(0, name).is_err(), "{name}");
        }
        let program = Some(vec![b'x'; PATH_MAX + 1]);
        assert!(checked(Machine { program, ..Machine::default() }).is_err());
    }

    #[test]
    fn a_disk_is_measured_and_nothing_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("own"), "own").expect("written");
        let before = fs::metadata(dir.path()).expect("it is there");
        let path = dir.path().as_os_str().as_bytes();
        let (written, read) = measure_disk(path, FIRST_LEN, 100).expect("it can be written to");
        assert_eq!(written.bytes, FIRST_LEN);
        assert!(read.bytes > 0 && read.bytes <= FIRST_LEN && read.nanos > 0);
        let names = fs::read_dir(dir.path()).expect("it is there").count();
        let after = fs::metadata(dir.path()).expect("it is there");
        assert_eq!((names, after.mtime_nsec()), (1, before.mtime_nsec()));
    }

    #[test]
    fn an_unwritable_directory_is_an_error() {
        let none = measure_disk(b"/nonexistent/dir", FIRST_LEN, 100).expect_err("there is none");
        assert_eq!(none.kind, FaultKind::NotFound);
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().as_os_str().as_bytes();
        assert_eq!(
            measure_disk(path, FIRST_LEN, 100).expect_err("a file").kind,
            FaultKind::NotDirectory
        );
    }
}

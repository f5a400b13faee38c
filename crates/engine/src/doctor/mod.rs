//! Finds out how fast a host is, and the way to it: the client's side. Everything is bounded
//! in time and bytes on both sides, and nothing of the user's is changed.

mod answering;
mod disk;
mod door;
mod flow;
mod lanes;
mod processor;

pub(crate) use answering::Measuring;

use self::flow::{Bounds, FLOW_MAX, pour};
use self::lanes::Called;
use crate::link::wire::{OutFrame, ReadEnd, refused};
use crate::request::Peer;
use crate::{JobError, RequestError, Requests};
use haul_model::{Fault, Ports, escape_controls};
use haul_net::Identity;
use haul_proto::{
    Amount, Caps, DISK_BYTES_MAX, DirectOffer, DirectWish, FLOW_BYTES_MAX, Flow, Machine, Measure,
    Measured, Message, ProcessorRates,
};
use std::io;
use std::time::{Duration, Instant};

/// How often the host is asked for nothing but an answer. The shortest time counts.
const ROUND_TRIPS: usize = 5;

/// How long a flow takes at least, so that it can be measured...
const FLOW_MILLIS: u32 = 1_000;

/// ...and the round trips that a connection may need until it has found its pace.
const PACE_ROUND_TRIPS: u32 = 10;

/// With these it takes no longer.
const FLOW_MILLIS_MAX: u32 = 2_000;

/// Bytes with which a flow over the connection itself begins, and each further one: on a slow way they take
/// long enough, and what would wait in ssh and its pipes is not sent.
const STEPS: [u64; 4] = [64 << 10, 512 << 10, 4 << 20, FLOW_BYTES_MAX];

/// How long each rate of a processor is measured.
const RATE_MILLIS: u32 = 150;

/// How long is written to a disk, and how long read.
const DISK_MILLIS: u32 = 1_000;

/// How long the host may take for an answer that is no flow. A disk may be slow to make
/// durable what it has.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Rates that no machine has, in bytes per second: who claims more lies.
const RATE_MAX: u64 = 1 << 40;

/// The longest path of a program that is believed, in bytes.
const PATH_MAX: usize = 4096;

/// The longest reason, in bytes; what is more is cut.
const REASON_MAX: usize = 512;

/// The numbers of direct connections that are measured.
pub(crate) const LANES: [u8; 3] = [1, 2, 4];

/// The questions of an examination.
pub struct Wish<'w> {
    /// The directory of the host whose disk is written to, if any is.
    pub path: Option<&'w [u8]>,
    /// The ports that the host may open, if not any.
    pub ports: Option<Ports>,
    /// Told of each step before it begins.
    pub told: &'w dyn Fn(Step),
}

/// A step of an examination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// How long an answer takes.
    RoundTrip,
    /// The processors.
    Processors,
    /// The connection itself.
    One,
    /// That many direct connections.
    Direct(u8),
    /// The disk.
    Disk,
}

/// The findings about a host.
#[derive(Debug)]
pub struct Findings {
    /// The shortest time in which the host answered.
    pub round_trip: Duration,
    /// This machine.
    pub here: Machine,
    /// The findings of the haul there; `None` where there is none.
    pub there: Option<Examined>,
}

/// The findings of which the haul of a host has a part.
#[derive(Debug)]
pub struct Examined {
    /// Its version, safe to show.
    pub version: String,
    /// The host; `None` if its haul can't measure.
    pub machine: Option<Machine>,
    /// Rates of the connection itself.
    pub one: Option<Rates>,
    /// Rates of direct connections, or why there are none.
    pub direct: Result<Vec<Lanes>, NotDirect>,
    /// The disk, if one was asked for: written and read.
    pub disk: Option<Result<(Amount, Amount), Fault>>,
}

/// Why there are no direct connections to a host; with the reason, safe to show.
#[derive(Debug)]
pub enum NotDirect {
    /// No port was opened: the haul there can't measure, this machine has no key, or the host
    /// could open none.
    Closed(String),
    /// The host opened no port, where `--port-range` said which ones it may.
    ClosedAsked(String),
    /// It is not called where it says that it is.
    Implausible(String),
    /// It can't be reached at the port that it has opened.
    Unreached(String),
}

impl NotDirect {
    /// The reason.
    pub fn reason(&self) -> &str {
        match self {
            Self::Closed(reason)
            | Self::ClosedAsked(reason)
            | Self::Implausible(reason)
            | Self::Unreached(reason) => reason,
        }
    }
}

/// Rates of so many direct connections together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lanes {
    /// How many.
    pub lanes: u8,
    /// Their rates.
    pub rates: Rates,
}

/// Bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// To the host.
    pub up: u64,
    /// From it.
    pub down: u64,
}

/// Finds out what is wished for about the host where `requests` are answered.
///
/// # Errors
/// When the connection fails, or the host breaks the rules.
pub fn examine(requests: &mut Requests, wish: &Wish<'_>) -> Result<Findings, JobError> {
    (wish.told)(Step::RoundTrip);
    let round_trip = round_trip(requests)?;
    (wish.told)(Step::Processors);
    let there = match requests.agent() {
        Some(peer) => Some(examine_agent(peer, round_trip, wish)?),
        None => None,
    };
    let here = processor::machine(None, Duration::from_millis(RATE_MILLIS.into()));
    Ok(Findings { round_trip, here, there })
}

/// The shortest time in which the host answers.
fn round_trip(requests: &mut Requests) -> Result<Duration, JobError> {
    let mut shortest = Duration::MAX;
    for _ in 0..ROUND_TRIPS {
        let asked = Instant::now();
        match requests.stat(b".", true) {
            // That, too, is an answer.
            Ok(_) | Err(RequestError::Fault(_)) => {}
            Err(RequestError::Job(error)) => return Err(error),
        }
        shortest = shortest.min(asked.elapsed());
    }
    Ok(shortest)
}

fn examine_agent(
    peer: &mut Peer,
    round_trip: Duration,
    wish: &Wish<'_>,
) -> Result<Examined, JobError> {
    let version = peer.version().to_owned();
    if !peer.caps().has(Caps::MEASURES) {
        let reason = "the haul there does not support measurements".to_owned();
        let direct = Err(NotDirect::Closed(reason));
        return Ok(Examined { version, machine: None, one: None, direct, disk: None });
    }
    let machine = match ask(peer, Measure::Machine { millis: RATE_MILLIS })? {
        Measured::Machine(machine) => checked(*machine).map_err(|end| peer.broken(end))?,
        _ => return Err(other_answer(peer)),
    };
    let pace = u32::try_from(round_trip.as_millis()).unwrap_or(u32::MAX);
    let millis = FLOW_MILLIS.saturating_add(pace.saturating_mul(PACE_ROUND_TRIPS));
    let millis = millis.min(FLOW_MILLIS_MAX);
    (wish.told)(Step::One);
    let up = rate_of_one(peer, true, millis)?;
    let down = rate_of_one(peer, false, millis)?;
    let direct = directly(peer, millis, wish)?;
    let disk = match wish.path {
        Some(path) => {
            (wish.told)(Step::Disk);
            Some(disk(peer, path)?)
        }
        None => None,
    };
    let (machine, one) = (Some(machine), Some(Rates { up, down }));
    Ok(Examined { version, machine, one, direct, disk })
}

/// Asks for a measurement that has one answer.
fn ask(peer: &mut Peer, asked: Measure) -> Result<Measured, JobError> {
    peer.say(OutFrame::message(&Message::Measure(asked)), ANSWER_MAX);
    match peer.hear_within(ANSWER_MAX)? {
        Message::Measured(measured) => Ok(measured),
        _ => Err(other_answer(peer)),
    }
}

fn other_answer(peer: &mut Peer) -> JobError {
    peer.broken(refused("the peer answered a different request"))
}

/// The rate of one direction: of the first flow that takes long enough.
fn rate_of_one(peer: &mut Peer, to_agent: bool, millis: u32) -> Result<u64, JobError> {
    let mut rate = 0;
    for bytes in STEPS {
        let begun = Instant::now();
        let flow = Flow { to_agent, bytes, millis };
        let amount = if to_agent { flow_to(peer, flow)? } else { flow_from(peer, flow)? };
        rate = rate_of(amount).map_err(|end| peer.broken(end))?;
        if begun.elapsed() >= Duration::from_millis(FLOW_MILLIS.into()) {
            break;
        }
    }
    Ok(rate)
}

/// Sends filler; the agent tells how much came how fast.
fn flow_to(peer: &mut Peer, flow: Flow) -> Result<Amount, JobError> {
    let begun = Instant::now();
    peer.say(OutFrame::message(&Message::Measure(Measure::Flow(flow))), FLOW_MAX);
    let poured = pour(flow, |frame| {
        let sent = peer.say(OutFrame::whole(frame.to_vec()), FLOW_MAX);
        sent.ok_or_else(|| io::ErrorKind::TimedOut.into())
    });
    // Where nothing is taken any more, that tells why.
    match (peer.hear_within(FLOW_MAX)?, poured) {
        (Message::Measured(Measured::Flow(amount)), Ok(sent)) => {
            within(amount, sent, begun.elapsed()).map_err(|end| peer.broken(end))
        }
        _ => Err(other_answer(peer)),
    }
}

/// Has filler sent.
fn flow_from(peer: &mut Peer, flow: Flow) -> Result<Amount, JobError> {
    peer.say(OutFrame::message(&Message::Measure(Measure::Flow(flow))), FLOW_MAX);
    let mut bounds = Bounds::of(flow);
    loop {
        let Message::Filler(len) = peer.hear_within(FLOW_MAX)? else {
            return Err(other_answer(peer));
        };
        if let Some(amount) = bounds.take(len).map_err(|end| peer.broken(end))? {
            return Ok(amount);
        }
    }
}

/// The rates of direct connections, or why there are none.
fn directly(
    peer: &mut Peer,
    millis: u32,
    wish: &Wish<'_>,
) -> Result<Result<Vec<Lanes>, NotDirect>, JobError> {
    let identity = match Identity::new() {
        Ok(identity) => identity,
        Err(error) => return Ok(Err(NotDirect::Closed(error.to_string()))),
    };
    let ports = wish.ports.map(|ports| (ports.0, ports.1));
    let wished = DirectWish { key: identity.public(), is_required: false, ports };
    let offer = match ask(peer, Measure::Door(Box::new(wished)))? {
        Measured::Door(Ok(offer)) => offer,
        Measured::Door(Err(reason)) => {
            let reason = reason_of(&reason);
            return Ok(Err(match wish.ports {
                Some(_) => NotDirect::ClosedAsked(reason),
                None => NotDirect::Closed(reason),
            }));
        }
        _ => return Err(other_answer(peer)),
    };
    let offer = match peer.whereabouts().to_call(offer.address) {
        Ok(address) => DirectOffer { address, ..offer },
        Err(reason) => return Ok(Err(NotDirect::Implausible(reason))),
    };
    let measured = Called::call(&offer, &identity).and_then(|mut called| {
        let mut found = Vec::new();
        for lanes in LANES {
            (wish.told)(Step::Direct(lanes));
            if !called.has(&offer, &identity, lanes) {
                // Some are better than none.
                break;
            }
            let up = called.rate(lanes, true, millis)?;
            let down = called.rate(lanes, false, millis)?;
            found.push(Lanes { lanes, rates: Rates { up, down } });
        }
        Ok(found)
    });
    Ok(measured.map_err(|error| NotDirect::Unreached(reason_of(&error.to_string()))))
}

/// A reason of the host's, safe to show and not too long.
fn reason_of(reason: &str) -> String {
    escape_controls(&reason[..reason.floor_char_boundary(REASON_MAX)])
}

/// Has a disk of the host measured.
fn disk(peer: &mut Peer, path: &[u8]) -> Result<Result<(Amount, Amount), Fault>, JobError> {
    let asked = Instant::now();
    let path = path.to_vec();
    match ask(peer, Measure::Disk { path, bytes: DISK_BYTES_MAX, millis: DISK_MILLIS })? {
        Measured::Disk { written, read } => {
            let took = asked.elapsed();
            let checked = within(written, DISK_BYTES_MAX, took)
                .and_then(|written| Ok((written, within(read, written.bytes, took)?)));
            checked.map(Ok).map_err(|end| peer.broken(end))
        }
        Measured::Fault(fault) => Ok(Err(fault.clipped())),
        _ => Err(other_answer(peer)),
    }
}

/// An amount that a peer tells, if it can be true: of so many bytes at most, in that time at
/// most.
fn within(amount: Amount, bytes_max: u64, time_max: Duration) -> Result<Amount, ReadEnd> {
    let time = Duration::from_nanos(amount.nanos);
    let is_true = amount.bytes <= bytes_max && !time.is_zero() && time <= time_max;
    match is_true && rate_of(amount).is_ok() {
        true => Ok(amount),
        false => Err(absurd()),
    }
}

/// Bytes per second.
fn rate_of(amount: Amount) -> Result<u64, ReadEnd> {
    let rate = amount.per_second();
    if rate <= RATE_MAX { Ok(rate) } else { Err(absurd()) }
}

fn absurd() -> ReadEnd {
    refused("the peer sent impossible figures")
}

/// A peer's machine, as it tells, if that can be true.
fn checked(machine: Machine) -> Result<Machine, ReadEnd> {
    let ProcessorRates { blake3, aes_256_gcm, chacha20_poly1305 } = machine.rates;
    let is_true = [blake3, aes_256_gcm, chacha20_poly1305].iter().all(|rate| *rate <= RATE_MAX)
        && machine.program.as_ref().is_none_or(|path| path.len() <= PATH_MAX)
        && machine.congestion.as_ref().is_none_or(|name| haul_sys::is_congestion_name(name));
    if is_true { Ok(machine) } else { Err(absurd()) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_reason_is_cut_and_escaped() {
        let reason = reason_of(&format!("\x1b[2J{}", "ä".repeat(1000)));
        assert!(reason.starts_with("\\x1b[2J") && reason.len() < 600, "{reason}");
    }
}

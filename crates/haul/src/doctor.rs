//! Measures a host and the connection to it. The engine bounds and checks the measurements. None of
//! the user's files is changed.

use haul_engine::{JobError, RequestError, Requests, measure_directly};
use haul_model::{Fault, Ports, escape_controls};
use haul_net::{Direct, Identity};
pub use haul_proto::{Amount, Machine, ProcessorRates, Startups};
use haul_proto::{
    DISK_BYTES_MAX, DirectOffer, DirectWish, FLOW_BYTES_MAX, Flow, Join, Measure, Measured,
    Message, encode,
};
use std::io::{self, Write};
use std::panic::resume_unwind;
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

/// Number of requests that measure the round trip. The shortest time counts.
const ROUND_TRIPS: usize = 5;

/// Minimum duration of a flow, without the time to reach full speed.
const FLOW_MILLIS: u32 = 1_000;

/// Round trips that a connection may need to reach full speed. They are added to a flow's duration.
const PACE_ROUND_TRIPS: u32 = 10;

/// Maximum duration of a flow.
const FLOW_MILLIS_MAX: u32 = 2_000;

/// Sizes, in bytes, of successive flows over the connection itself. A slow connection stops at a
/// small flow, so that little data queues up in ssh and its pipes.
const STEPS: [u64; 4] = [64 << 10, 512 << 10, 4 << 20, FLOW_BYTES_MAX];

/// The measurement of a machine's processors, with the duration for each rate.
const MACHINE: Measure = Measure::Machine { millis: 150 };

/// Duration of writing to a disk, and of reading from it.
const DISK_MILLIS: u32 = 1_000;

/// Maximum length of a reason in bytes. The rest is cut.
const REASON_MAX: usize = 512;

/// The numbers of direct connections that are measured.
const LANES: [u8; 3] = [1, 2, 4];

/// The parameters of an examination.
pub struct ExamineOptions<'w> {
    /// The directory on the host whose disk is measured. `None` measures no disk.
    pub path: Option<&'w [u8]>,
    /// The ports that the host may open. Default: any.
    pub ports: Option<Ports>,
    /// Called before each step.
    pub on_step: &'w dyn Fn(ExamineStep),
}

/// A step of an examination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExamineStep {
    /// The round trip.
    RoundTrip,
    /// The processors.
    Processors,
    /// The connection itself.
    One,
    /// This number of direct connections.
    Direct(u8),
    /// The disk.
    Disk,
}

/// The results about a host.
#[derive(Debug)]
pub struct Findings {
    /// The shortest round trip.
    pub round_trip: Duration,
    /// This machine.
    pub here: Machine,
    /// The results that need a haul on the host. `None` if it has none.
    pub there: Option<Examined>,
}

/// The results that need a haul on the host.
#[derive(Debug)]
pub struct Examined {
    /// The version of the haul, safe to show.
    pub version: String,
    /// The host; `None` if its haul can't measure.
    pub machine: Option<Machine>,
    /// Rates of the connection itself.
    pub one: Option<Rates>,
    /// Rates of direct connections, or why there are none.
    pub direct: Result<Vec<Lanes>, NotDirect>,
    /// Writing to the disk and reading from it, if a path was given.
    pub disk: Option<Result<(Amount, Amount), Fault>>,
}

/// The reason why there are no direct connections to a host. The text is safe to show.
#[derive(Debug)]
pub enum NotDirect {
    /// No port was opened: the haul there can't measure, this machine could not create a key, or
    /// the host could not open a port.
    Closed(String),
    /// The host could open none of the ports in [`ExamineOptions::ports`].
    ClosedAsked(String),
    /// The address that the host reports is not plausible.
    Implausible(String),
    /// The host can't be reached at the port that it opened.
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

/// The rates of several direct connections together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lanes {
    /// The number of connections.
    pub lanes: u8,
    /// The sum of their rates.
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

/// Measures the host that answers `requests`.
///
/// # Errors
/// If the connection fails, or the host violates the protocol.
pub fn examine(
    requests: &mut Requests,
    options: &ExamineOptions<'_>,
) -> Result<Findings, JobError> {
    (options.on_step)(ExamineStep::RoundTrip);
    let round_trip = round_trip(requests)?;
    (options.on_step)(ExamineStep::Processors);
    let version = requests.version().map(str::to_owned);
    let there = version.map(|version| examine_agent(requests, version, round_trip, options));
    let there = there.transpose()?;
    let Some(Measured::Machine(here)) = Requests::local().measure(MACHINE)? else {
        return Err(other_answer());
    };
    Ok(Findings { round_trip, here: *here, there })
}

/// The shortest of several round trips.
fn round_trip(requests: &mut Requests) -> Result<Duration, JobError> {
    let mut shortest = Duration::MAX;
    for _ in 0..ROUND_TRIPS {
        let asked = Instant::now();
        match requests.stat(b".", true) {
            // An error of the host is an answer, too.
            Ok(_) | Err(RequestError::Fault(_)) => {}
            Err(RequestError::Job(error)) => return Err(error),
        }
        shortest = shortest.min(asked.elapsed());
    }
    Ok(shortest)
}

fn examine_agent(
    requests: &mut Requests,
    version: String,
    round_trip: Duration,
    options: &ExamineOptions<'_>,
) -> Result<Examined, JobError> {
    let machine = match requests.measure(MACHINE)? {
        Some(Measured::Machine(machine)) => Some(*machine),
        Some(_) => return Err(other_answer()),
        None => {
            let reason = "the haul there does not support measurements".to_owned();
            let direct = Err(NotDirect::Closed(reason));
            return Ok(Examined { version, machine: None, one: None, direct, disk: None });
        }
    };
    let pace = u32::try_from(round_trip.as_millis()).unwrap_or(u32::MAX);
    let millis = FLOW_MILLIS.saturating_add(pace.saturating_mul(PACE_ROUND_TRIPS));
    let millis = millis.min(FLOW_MILLIS_MAX);
    (options.on_step)(ExamineStep::One);
    let up = rate_of_one(requests, true, millis)?;
    let down = rate_of_one(requests, false, millis)?;
    let direct = direct_rates(requests, millis, options)?;
    let disk = options.path.map(|path| disk(requests, path, options)).transpose()?;
    Ok(Examined { version, machine, one: Some(Rates { up, down }), direct, disk })
}

fn other_answer() -> JobError {
    JobError::Protocol("the peer answered a different request".to_owned())
}

/// The rate in one direction: that of the first flow that takes long enough.
fn rate_of_one(requests: &mut Requests, to_agent: bool, millis: u32) -> Result<u64, JobError> {
    let mut rate = 0;
    for bytes in STEPS {
        let begun = Instant::now();
        let flow = Measure::Flow(Flow { to_agent, bytes, millis });
        let Some(Measured::Flow(amount)) = requests.measure(flow)? else {
            return Err(other_answer());
        };
        rate = amount.per_second();
        if begun.elapsed() >= Duration::from_millis(FLOW_MILLIS.into()) {
            break;
        }
    }
    Ok(rate)
}

/// The rates of direct connections, or why there are none.
fn direct_rates(
    requests: &mut Requests,
    millis: u32,
    options: &ExamineOptions<'_>,
) -> Result<Result<Vec<Lanes>, NotDirect>, JobError> {
    let identity = match Identity::new() {
        Ok(identity) => identity,
        Err(error) => return Ok(Err(NotDirect::Closed(error.to_string()))),
    };
    let ports = options.ports.map(|ports| (ports.0, ports.1));
    let request = DirectWish { key: identity.public(), is_required: false, ports };
    let offer = match requests.measure(Measure::DirectPort(Box::new(request)))? {
        Some(Measured::DirectPort(Ok(offer))) => offer,
        Some(Measured::DirectPort(Err(reason))) => {
            let closed = if ports.is_some() { NotDirect::ClosedAsked } else { NotDirect::Closed };
            return Ok(Err(closed(reason_of(&reason))));
        }
        _ => return Err(other_answer()),
    };
    let offer = match requests.host_addresses().checked_address(offer.address) {
        Ok(address) => DirectOffer { address, ..offer },
        Err(reason) => return Ok(Err(NotDirect::Implausible(reason))),
    };
    let measure = || {
        let (mut called, mut found) = (DirectLanes::default(), Vec::new());
        called.join(&offer, &identity)?;
        for lanes in LANES {
            (options.on_step)(ExamineStep::Direct(lanes));
            if !called.has(&offer, &identity, lanes) {
                // Report the rates that were measured.
                break;
            }
            let up = called.rate(lanes, true, millis)?;
            let down = called.rate(lanes, false, millis)?;
            found.push(Lanes { lanes, rates: Rates { up, down } });
        }
        Ok(found)
    };
    Ok(measure().map_err(|error: io::Error| NotDirect::Unreached(reason_of(&error.to_string()))))
}

/// The host's reason, safe to show and not too long.
fn reason_of(reason: &str) -> String {
    escape_controls(&reason[..reason.floor_char_boundary(REASON_MAX)])
}

/// Measures a disk of the host.
fn disk(
    requests: &mut Requests,
    path: &[u8],
    options: &ExamineOptions<'_>,
) -> Result<Result<(Amount, Amount), Fault>, JobError> {
    (options.on_step)(ExamineStep::Disk);
    let path = path.to_vec();
    let asked = Measure::Disk { path, bytes: DISK_BYTES_MAX, millis: DISK_MILLIS };
    match requests.measure(asked)? {
        Some(Measured::Disk { written, read }) => Ok(Ok((written, read))),
        Some(Measured::Fault(fault)) => Ok(Err(fault)),
        _ => Err(other_answer()),
    }
}

/// Timeout of connecting to the host.
const CALL_MAX: Duration = Duration::from_secs(3);

/// Timeout of a measurement over all connections, and of each read or write.
const RATE_TIME_MAX: Duration = Duration::from_secs(20);

/// The open connections.
#[derive(Default)]
struct DirectLanes(Vec<Direct>);

impl DirectLanes {
    /// Connects until `lanes` connections are open; true if they are.
    fn has(&mut self, offer: &DirectOffer, identity: &Identity, lanes: u8) -> bool {
        while self.0.len() < lanes.into() {
            if let Err(error) = self.join(offer, identity) {
                tracing::debug!(%error, "no further direct connection");
                return false;
            }
        }
        true
    }

    /// Connects once more.
    ///
    /// # Errors
    /// If the agent can't be reached.
    fn join(&mut self, offer: &DirectOffer, identity: &Identity) -> io::Result<()> {
        let mut direct = Direct::connect(offer.address, identity, offer.key, CALL_MAX, &|| true)?;
        direct.set_timeout(Some(RATE_TIME_MAX))?;
        let lane = u8::try_from(self.0.len() + 1).expect("they are few");
        direct.write_all(&encode(&Message::Join(Join { lane, secret: None })))?;
        self.0.push(direct);
        Ok(())
    }

    /// The rate in one direction over `lanes` connections at the same time, in bytes per second.
    ///
    /// # Errors
    /// If a connection fails, or the agent violates the protocol.
    fn rate(&mut self, lanes: u8, to_agent: bool, millis: u32) -> io::Result<u64> {
        let flow = Flow { to_agent, bytes: FLOW_BYTES_MAX, millis };
        scope(|scope| {
            let begun = self.0[..lanes.into()].iter_mut().map(|direct| {
                let killer = direct.killer()?;
                let measure = move || {
                    // A stuck measurement ends with its connection.
                    match killer.within(Some(RATE_TIME_MAX), || measure_directly(direct, flow))? {
                        (_, true) => Err(io::ErrorKind::TimedOut.into()),
                        (amount, false) => amount,
                    }
                };
                Builder::new().name("lane".to_owned()).spawn_scoped(scope, measure)
            });
            let mut begun = begun.collect::<io::Result<Vec<_>>>()?.into_iter();
            begun.try_fold(0u64, |sum, lane| {
                let amount = lane.join().unwrap_or_else(|panic| resume_unwind(panic));
                Ok(sum.saturating_add(amount?.per_second()))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_haul_only_this_machine_is_measured() {
        let steps = std::cell::RefCell::new(Vec::new());
        let on_step = |step| steps.borrow_mut().push(step);
        let options = ExamineOptions { path: Some(b"/"), ports: None, on_step: &on_step };
        let found = examine(&mut Requests::local(), &options).expect("it needs no connection");
        assert!(found.there.is_none() && found.here.rates.blake3 > 0, "{found:?}");
        assert_eq!(steps.take(), [ExamineStep::RoundTrip, ExamineStep::Processors]);
    }

    #[test]
    fn a_reason_is_cut_and_escaped() {
        let reason = reason_of(&format!("\x1b[2J{}", "ä".repeat(1000)));
        assert!(reason.starts_with("\\x1b[2J") && reason.len() < 600, "{reason}");
    }
}

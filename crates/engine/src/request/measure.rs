//! The client's side of measurements of a host and of the connection to it, one at a time. Both
//! sides bound the time and bytes of each. None of the user's files is changed.

mod answering;
mod direct_port;
mod disk;
mod flow;
mod processor;

pub(crate) use answering::Measuring;

use self::flow::{Bounds, FLOW_MAX, receive_filler, send_filler};
use super::Peer;
use crate::JobError;
use crate::link::greeting::read_message;
use crate::link::wire::{OutFrame, ReadEnd, refused};
use haul_net::Direct;
use haul_proto::{
    Amount, DISK_BYTES_MAX, Flow, Machine, Measure, Measured, Message, ProcessorRates, encode,
};
use std::io::{self, Write};
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
    let machine = processor::machine(None, *millis);
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
}

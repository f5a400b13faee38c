//! The greetings of both sides, and messages outside of jobs.

use super::wire::{ReadEnd, read_header, read_payload, refused};
use crate::JobError;
use crate::watchdog::silence_seconds;
use haul_net::{ConnectError, Timeouts};
use haul_proto::{Caps, FrameType, Header, Hello, Message, Welcome, check_welcome, frame_bytes};
use std::io::{self, BufReader, Read, Write};

/// The program's version, sent in greetings.
pub(crate) const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// Greets the agent at the other end of the two streams, and returns its greeting, of any version.
/// `peer` is its name in messages. The caller must notice an agent that is silent for longer than
/// `timeouts`.
///
/// # Errors
/// When a stream fails. The inner error is for a peer that sends no greeting.
pub fn greet(
    input: &mut BufReader<impl Read>,
    output: &mut impl Write,
    peer: &str,
    timeouts: Timeouts,
) -> io::Result<Result<Welcome, JobError>> {
    output.write_all(&hello(false, timeouts))?;
    output.flush()?;
    match read_welcome(input, peer) {
        Err(ReadEnd::Lost(error)) => Err(error),
        Err(ReadEnd::Refused(error)) => Ok(Err(error)),
        Ok(welcome) => Ok(Ok(welcome)),
    }
}

/// The greeting of a client with these timeouts. `keeps` offers to keep the connection.
pub(crate) fn hello(keeps: bool, timeouts: Timeouts) -> Vec<u8> {
    let hello = Hello::ours(offered(keeps), silence_seconds(timeouts), PROGRAM);
    frame_bytes(FrameType::Hello, &hello.encode())
}

/// The capabilities that a client offers.
fn offered(keeps: bool) -> Caps {
    if keeps { Caps::OURS } else { Caps::OURS.without(Caps::SESSIONS) }
}

/// Reads and checks the agent's answer to [`hello`]. Returns it with the negotiated capabilities.
pub(crate) fn welcome(
    input: &mut BufReader<impl Read>,
    peer: &str,
    keeps: bool,
) -> Result<Welcome, ReadEnd> {
    let welcome = read_welcome(input, peer)?;
    let caps = check_welcome(&welcome)
        .map_err(|cause| ReadEnd::Refused(JobError::Version { host: peer.to_owned(), cause }))?;
    let caps = caps.and(offered(keeps));
    Ok(Welcome { caps, ..welcome })
}

/// Reads the agent's greeting, of any version.
fn read_welcome(input: &mut BufReader<impl Read>, peer: &str) -> Result<Welcome, ReadEnd> {
    let mut first = [0; haul_proto::HEADER_LEN];
    input.read_exact(&mut first)?;
    let header = match Header::decode(first) {
        Ok(header) if header.kind == FrameType::Welcome => header,
        _ => {
            let text = [&first, input.buffer()].concat();
            return Err(ReadEnd::Refused(ConnectError::noisy_shell(peer, &text).into()));
        }
    };
    let payload = read_payload(input, header)?;
    let welcome = Hello::decode(&payload).map_err(refused)?;
    tracing::debug!(program = welcome.program, caps = welcome.caps.bits(), "the agent greets");
    Ok(welcome)
}

/// Reads a frame that carries one message.
pub(crate) fn read_message(input: &mut impl Read) -> Result<Message, ReadEnd> {
    read_message_behind(read_header(input)?, input)
}

/// Reads the message after `header`.
pub(crate) fn read_message_behind(
    header: Header,
    input: &mut impl Read,
) -> Result<Message, ReadEnd> {
    if header.kind.payload_max() > FrameType::Job.payload_max() {
        return Err(refused("the peer sent content where a message is expected"));
    }
    let payload = read_payload(input, header)?;
    haul_proto::decode(header.kind, &payload).map_err(refused)
}

//! Filler that goes over a connection to be measured, in one direction at a time.

use crate::link::greeting::read_message_behind;
use crate::link::wire::{ReadEnd, read_header, refused, unexpected};
use haul_proto::{
    Amount, FILLER_LEN, FLOW_BYTES_MAX, Flow, FrameType, MEASURE_MILLIS_MAX, Message, encode,
    frame_bytes,
};
use std::io::{self, Read};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long a flow may take from its first byte to its last, with all that was on its way when
/// its sender stopped.
pub(super) const FLOW_MAX: Duration = Duration::from_secs(20);

/// How often is noted how much has come.
const NOTED_EVERY: Duration = Duration::from_millis(10);

/// At least `len` bytes that don't compress: Marsaglia's xorshift (2003).
pub(super) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes
}

/// The frame in which filler travels. A flow repeats it: what ssh compresses with looks back
/// half as far.
fn full() -> &'static [u8] {
    static FULL: OnceLock<Vec<u8>> = OnceLock::new();
    FULL.get_or_init(|| frame_bytes(FrameType::Filler, &noise(FILLER_LEN)))
}

/// Sends the filler of `flow`, in whole frames, and its end, as far as it is within the bounds
/// of the protocol. Gives how many bytes that were.
///
/// # Errors
/// That of `send`.
pub(super) fn pour(
    flow: Flow,
    mut send: impl FnMut(&'static [u8]) -> io::Result<()>,
) -> io::Result<u64> {
    static END: OnceLock<Vec<u8>> = OnceLock::new();
    let frames = flow.bytes.min(FLOW_BYTES_MAX).div_ceil(FILLER_LEN as u64);
    let time = Duration::from_millis(flow.millis.min(MEASURE_MILLIS_MAX).into());
    let begun = Instant::now();
    let mut sent = 0;
    while sent < frames && begun.elapsed() < time {
        send(full())?;
        sent += 1;
    }
    send(END.get_or_init(|| encode(&Message::Filler(0))))?;
    Ok(sent * FILLER_LEN as u64)
}

/// Reads the filler of a flow up to its end. Gives what came in the later half of its time.
///
/// # Errors
/// When something else comes, more than `flow` says, or no end.
pub(super) fn drain(flow: Flow, input: &mut impl Read) -> Result<Amount, ReadEnd> {
    let mut bounds = Bounds::of(flow);
    let mut payload = vec![0; FILLER_LEN];
    loop {
        let header = read_header(input)?;
        if header.kind != FrameType::Filler {
            return match read_message_behind(header, input)? {
                Message::Abort(abort) => Err(ReadEnd::Refused(crate::link::wire::aborted(abort))),
                _ => Err(unexpected(header.kind)),
            };
        }
        // Its bound was checked with the header.
        let len = header.payload_len as usize;
        input.read_exact(&mut payload[..len])?;
        if let Some(amount) = bounds.take(header.payload_len)? {
            return Ok(amount);
        }
    }
}

/// Counts the filler that comes, and sees that it ends.
pub(super) struct Bounds {
    left: u64,
    meter: Option<Meter>,
}

impl Bounds {
    pub(super) fn of(flow: Flow) -> Self {
        // It comes in whole frames.
        let left = flow.bytes.min(FLOW_BYTES_MAX).next_multiple_of(FILLER_LEN as u64);
        Self { left, meter: None }
    }

    /// Takes a frame of filler with so many bytes; gives the amount at the end.
    ///
    /// # Errors
    /// When there is more than there should be, or no end.
    pub(super) fn take(&mut self, len: u32) -> Result<Option<Amount>, ReadEnd> {
        let left = self.left.checked_sub(len.into());
        self.left = left.ok_or_else(|| refused("the peer sent more than requested"))?;
        let meter = self.meter.get_or_insert_with(Meter::begin);
        if meter.begun.elapsed() > FLOW_MAX {
            return Err(refused("the peer did not stop sending"));
        }
        if len == 0 {
            return Ok(Some(meter.later_half()));
        }
        meter.count(len.into());
        Ok(None)
    }
}

/// Notes how much has come by when. Its first moment is that of the first byte.
struct Meter {
    begun: Instant,
    bytes: u64,
    /// Times since the beginning in ascending order, with the bytes by then.
    notes: Vec<(Duration, u64)>,
}

impl Meter {
    fn begin() -> Self {
        Self { begun: Instant::now(), bytes: 0, notes: vec![(Duration::ZERO, 0)] }
    }

    fn count(&mut self, len: u64) {
        self.bytes += len;
        let now = self.begun.elapsed();
        // There are at most as many as fit into the longest flow.
        if self.notes.last().is_none_or(|(noted, _)| now >= *noted + NOTED_EVERY) {
            self.notes.push((now, self.bytes));
        }
    }

    /// The amount of the later half of the time: a connection takes a while to find its pace.
    fn later_half(&self) -> Amount {
        half_of(&self.notes, self.begun.elapsed(), self.bytes)
    }
}

fn half_of(notes: &[(Duration, u64)], end: Duration, bytes: u64) -> Amount {
    let half = notes.partition_point(|(at, _)| *at < end / 2);
    // Where nothing was noted in that half, all of it counts.
    let (at, before) = notes.get(half).copied().filter(|(at, _)| *at < end).unwrap_or_default();
    let nanos = u64::try_from((end - at).as_nanos()).unwrap_or(u64::MAX).max(1);
    Amount { bytes: bytes - before, nanos }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn said(flow: Flow) -> (Vec<u8>, u64) {
        let mut bytes = Vec::new();
        let sent = pour(flow, |frame| {
            bytes.extend_from_slice(frame);
            Ok(())
        });
        (bytes, sent.expect("a vector takes all"))
    }

    #[test]
    fn what_is_poured_is_drained() {
        for bytes in [0, 1, FILLER_LEN as u64, FILLER_LEN as u64 * 3 + 1] {
            let flow = Flow { to_agent: true, bytes, millis: 1000 };
            let (said, sent) = said(flow);
            assert_eq!(sent, bytes.next_multiple_of(FILLER_LEN as u64));
            let amount = drain(flow, &mut &said[..]).ok().expect("it is a flow");
            assert!(amount.bytes <= sent && amount.nanos > 0);
        }
    }

    #[test]
    fn a_flow_ends_when_its_time_is_over() {
        let flow = Flow { to_agent: true, bytes: u64::MAX, millis: 0 };
        assert_eq!(said(flow).1, 0);
    }

    #[test]
    fn more_than_was_asked_for_is_refused() {
        let flow = Flow { to_agent: false, bytes: FILLER_LEN as u64, millis: 1000 };
        let (said, _) = said(Flow { bytes: FILLER_LEN as u64 * 2, ..flow });
        assert!(matches!(drain(flow, &mut &said[..]), Err(ReadEnd::Refused(_))));
        let other = encode(&Message::Request(haul_proto::Request::Unmark));
        assert!(matches!(drain(flow, &mut &other[..]), Err(ReadEnd::Refused(_))));
        assert!(matches!(drain(flow, &mut &[][..]), Err(ReadEnd::Lost(_))));
    }

    #[test]
    fn the_later_half_counts() {
        let notes = [(Duration::ZERO, 0), (10 * MS, 1), (50 * MS, 100), (90 * MS, 900)];
        let amount = half_of(&notes, 100 * MS, 1000);
        assert_eq!(amount, Amount { bytes: 900, nanos: 50_000_000 });
        let amount = half_of(&notes[..2], 100 * MS, 1000);
        assert_eq!(amount, Amount { bytes: 1000, nanos: 100_000_000 });
        assert_eq!(half_of(&[], Duration::ZERO, 5), Amount { bytes: 5, nanos: 1 });
    }
}

//! Filler data for measuring a connection, in one direction at a time.

use crate::link::greeting::read_message_behind;
use crate::link::wire::{ReadEnd, read_header, refused, unexpected};
use haul_proto::{
    Amount, FILLER_LEN, FLOW_BYTES_MAX, Flow, FrameType, MEASURE_MILLIS_MAX, Message, encode,
    frame_bytes,
};
use std::io::{self, Read};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The longest time of a flow from its first byte to its last, including the bytes in flight when
/// its sender stops.
pub(super) const FLOW_MAX: Duration = Duration::from_secs(20);

/// The interval at which the received bytes are recorded.
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

/// The frame of filler that a flow repeats. The window of ssh's compression is half as long, so it
/// finds no repetition.
fn full() -> &'static [u8] {
    static FULL: OnceLock<Vec<u8>> = OnceLock::new();
    FULL.get_or_init(|| frame_bytes(FrameType::Filler, &noise(FILLER_LEN)))
}

/// Sends the filler of `flow` in whole frames, and its end, within the bounds of the protocol.
/// Returns the number of bytes.
///
/// # Errors
/// The errors of `send`.
pub(super) fn send_filler(
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

/// Reads the filler of a flow up to its end. Returns the amount of the later half of its time.
///
/// # Errors
/// When another message arrives, more than `flow` allows, or no end.
pub(super) fn receive_filler(flow: Flow, input: &mut impl Read) -> Result<Amount, ReadEnd> {
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
        // The bound of the length was checked with the header.
        let len = header.payload_len as usize;
        input.read_exact(&mut payload[..len])?;
        if let Some(amount) = bounds.take(header.payload_len)? {
            return Ok(amount);
        }
    }
}

/// Counts the received filler, and checks that it ends.
pub(super) struct Bounds {
    left: u64,
    meter: Option<Meter>,
}

impl Bounds {
    pub(super) fn of(flow: Flow) -> Self {
        // It arrives in whole frames.
        let left = flow.bytes.min(FLOW_BYTES_MAX).next_multiple_of(FILLER_LEN as u64);
        Self { left, meter: None }
    }

    /// Counts a frame of filler with `len` bytes. Returns the amount at the end.
    ///
    /// # Errors
    /// When there is too much filler, or no end.
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

/// Records the received bytes over time, from the first byte on.
struct Meter {
    begun: Instant,
    bytes: u64,
    /// Ascending times since the start, and the bytes up to then.
    notes: Vec<(Duration, u64)>,
}

impl Meter {
    fn begin() -> Self {
        Self { begun: Instant::now(), bytes: 0, notes: vec![(Duration::ZERO, 0)] }
    }

    fn count(&mut self, len: u64) {
        self.bytes += len;
        let now = self.begun.elapsed();
        // Their number is bounded by the longest flow.
        if self.notes.last().is_none_or(|(noted, _)| now >= *noted + NOTED_EVERY) {
            self.notes.push((now, self.bytes));
        }
    }

    /// The amount of the later half of the time: a connection takes a while to reach its speed.
    fn later_half(&self) -> Amount {
        half_of(&self.notes, self.begun.elapsed(), self.bytes)
    }
}

fn half_of(notes: &[(Duration, u64)], end: Duration, bytes: u64) -> Amount {
    let half = notes.partition_point(|(at, _)| *at < end / 2);
    // If nothing was recorded in that half, the whole time counts.
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
        let sent = send_filler(flow, |frame| {
            bytes.extend_from_slice(frame);
            Ok(())
        });
        (bytes, sent.expect("a vector takes all"))
    }

    #[test]
    fn a_flow_is_received_as_sent() {
        for bytes in [0, 1, FILLER_LEN as u64, FILLER_LEN as u64 * 3 + 1] {
            let flow = Flow { to_agent: true, bytes, millis: 1000 };
            let (said, sent) = said(flow);
            assert_eq!(sent, bytes.next_multiple_of(FILLER_LEN as u64));
            let amount = receive_filler(flow, &mut &said[..]).ok().expect("it is a flow");
            assert!(amount.bytes <= sent && amount.nanos > 0);
        }
    }

    #[test]
    fn a_flow_ends_when_its_time_is_over() {
        let flow = Flow { to_agent: true, bytes: u64::MAX, millis: 0 };
        assert_eq!(said(flow).1, 0);
    }

    #[test]
    fn more_than_requested_is_refused() {
        let flow = Flow { to_agent: false, bytes: FILLER_LEN as u64, millis: 1000 };
        let (said, _) = said(Flow { bytes: FILLER_LEN as u64 * 2, ..flow });
        assert!(matches!(receive_filler(flow, &mut &said[..]), Err(ReadEnd::Refused(_))));
        let other = encode(&Message::Request(haul_proto::Request::RemoveMarker));
        assert!(matches!(receive_filler(flow, &mut &other[..]), Err(ReadEnd::Refused(_))));
        assert!(matches!(receive_filler(flow, &mut &[][..]), Err(ReadEnd::Lost(_))));
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

//! The choice whether a frame is compressed, and how.
//!
//! The queue of ready frames shows what is short. While it is empty the link takes
//! more than this side makes, and time spent on compressing would make it less; while frames
//! wait, something behind them is what everything waits for, and there is time to compress
//! better. So each frame moves a gear by one step, up or down, and the gear decides how the
//! frame is compressed. All connections of a job move the same gear; a queue that is empty while
//! frames wait for another connection moves nothing.
//!
//! What is short may be the processors of either side, which a codec makes shorter still. So
//! the writer measures how much content leaves in its time, as it is and compressed, and the
//! faster of the two stays; the other is tried again after ever longer runs. Where less leaves
//! than any processor could make, and than a thread of the codec does make, the link is what is
//! short, and nothing is tried.
//!
//! Content that doesn't shrink is found out by a sample before all of it is compressed, and
//! after some such samples of one file most of its frames are sent without one.

use super::frame::{Body, OutFrame};
use haul_model::Compression;
use haul_proto::{Caps, Codec, Wrapper};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Codecs and their levels, from those that take the least time to those that save the most.
const LADDER: [Effort; 4] = [
    Effort { codec: Codec::Lz4, level: 0 },
    Effort { codec: Codec::Zstd, level: 1 },
    Effort { codec: Codec::Zstd, level: 3 },
    Effort { codec: Codec::Zstd, level: 6 },
];

/// Frames for each rung of the ladder.
const STEPS: u32 = 4;

/// The gear in which a job begins: a few frames later the link is measured.
const START: u32 = 2 * STEPS;

/// The highest gear.
const TOP: u32 = STEPS * (LADDER.len() as u32 + 1) - 1;

/// Compressed bytes that leave before an empty queue means anything: pipes, ssh and
/// sockets take that much of any link at once.
const SWALLOWED: usize = 3 << 20;

/// Frames of one way after which what it yields is believed.
const BELIEVED: u32 = 6;

/// The weight of the frames before, when one is added to what a way has yielded.
const KEPT: f64 = 0.9;

/// Compressed frames in front of the first that is sent as it is, to compare; and the most
/// between two of these.
const PROBE_GAP: (u32, u32) = (8, 256);

/// Frames that are sent as they are before compressing is tried again where it has yielded
/// less; and the most.
const PAUSE: (u32, u32) = (32, 1024);

/// Content that leaves in a second, in bytes, below which the link is what is short: processors
/// that are slower have links that are.
const SLOW_MAX: f64 = 64e6;

/// The frames, the last ones, by which it is seen how much leaves.
const LAST_MANY: usize = 16;

/// Bytes on the wire by which a link is judged, at least. A pipe, ssh and sockets take some
/// megabytes at once.
const JUDGED_LEN_MIN: usize = 10 << 20;

/// How long a judgement is good for after the last frame.
const RECENT_MAX: Duration = Duration::from_millis(500);

/// Frames that wait while the link is what is short. There are no more buffers than that
/// on small machines, besides those that are being filled and sent.
pub(super) const WAITING_MANY: usize = 2;

/// The sample of a frame's content: parts of so many bytes, spread evenly.
const SAMPLE_PARTS: usize = 4;
const SAMPLE_PART_LEN: usize = 4 << 10;

/// Content that is shorter isn't sampled.
const SAMPLED_MIN: usize = 4 * SAMPLE_PARTS * SAMPLE_PART_LEN;

/// Of content whose bytes have more bits of entropy than this on average, nothing is
/// saved that way; only repetitions may shrink it.
const ENTROPY_MAX: f64 = 7.5;

/// The most frames of a file that are sent without a sample after one that didn't shrink.
const PASSED_MAX: u32 = 63;

/// How a frame is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effort {
    codec: Codec,
    level: i32,
}

impl Effort {
    fn is_taken(self, caps: Caps) -> bool {
        caps.has(match self.codec {
            Codec::Lz4 => Caps::LZ4,
            Codec::Zstd => Caps::ZSTD,
        })
    }
}

/// A frame with content that has left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    /// The length of the content, in bytes.
    pub(super) len: usize,
    /// If it was compressed: as long as that was on the wire, and the time of the codec.
    pub(super) squeezed: Option<(usize, Duration)>,
    /// The time since the frame before it had left.
    pub(super) took: Duration,
    /// The moment in which it had left.
    pub(super) at: Instant,
    /// It was there when the frame before it had left: the time is the link's.
    pub(super) was_behind: bool,
}

impl Left {
    /// `body` has left by now, `at`, and `took` that time, at whose beginning it was there if
    /// it `was_behind`.
    pub(super) fn of(body: &Body, at: Instant, took: Duration, was_behind: bool) -> Self {
        let squeezed = match body {
            Body::Squeezed { bytes, took, .. } => Some((bytes.len(), *took)),
            Body::Bytes(_) | Body::Shared { .. } | Body::Range { .. } => None,
        };
        let len = body.content_len();
        Self { len, squeezed, took, at, was_behind }
    }

    fn len_on_wire(&self) -> usize {
        self.squeezed.map_or(self.len, |(len, _)| len)
    }
}

/// Content that has left, and the time that it took.
#[derive(Debug, Clone, Copy, Default)]
struct Yield {
    bytes: f64,
    seconds: f64,
}

impl Yield {
    /// Earlier frames count less and less, but not so little that the last few decide: they
    /// may have left by the slowest connection, and what they are compared with by a fast one.
    fn add(&mut self, bytes: usize, took: Duration) {
        self.bytes = self.bytes * KEPT + bytes as f64;
        self.seconds = self.seconds * KEPT + took.as_secs_f64();
    }

    /// Bytes in a second; without end where nothing is known.
    fn rate(self) -> f64 {
        if self.seconds > 0.0 { self.bytes / self.seconds } else { f64::INFINITY }
    }

    /// True if it is clearly less than `other`; neither is, where nothing is known.
    fn is_below(self, other: Self) -> bool {
        self.bytes * other.seconds * 1.05 < other.bytes * self.seconds
    }
}

/// How the connections do.
#[derive(Debug)]
struct State {
    gear: u32,
    /// Compressed bytes that are yet to leave before an empty queue counts.
    swallows: usize,
    /// Compressed frames since that is the way, or others since it is not.
    run: u32,
    /// The number in the run of the next frame that is sent as it is, to compare.
    probe: u32,
    gap: u32,
    /// Frames until compressing is tried again, and how many they were the last time.
    pause: u32,
    paused: u32,
    /// Of frames as they are.
    plain: Yield,
    /// Of compressed ones.
    squeezed: Yield,
    /// Of the codec, in one thread.
    codec: Yield,
    /// The last frames by whichever connection.
    last: VecDeque<Left>,
}

impl Default for State {
    fn default() -> Self {
        let (gear, swallows, gap) = (START, SWALLOWED, PROBE_GAP.0);
        let [plain, squeezed, codec] = [Yield::default(); 3];
        let (run, pause, paused, last) = (0, 0, 0, VecDeque::with_capacity(LAST_MANY));
        Self { gear, swallows, run, probe: gap, gap, pause, paused, plain, squeezed, codec, last }
    }
}

impl State {
    /// The rung for the next frame, where so many are waiting.
    fn next(&mut self, waiting: usize) -> Option<usize> {
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        let was_off = self.gear < STEPS;
        self.gear = match waiting {
            0 if self.swallows == 0 => self.gear.saturating_sub(1),
            WAITING_MANY.. => (self.gear + 1).min(TOP),
            _ => self.gear,
        };
        let rung = (self.gear / STEPS).checked_sub(1)?;
        if was_off {
            (self.run, self.gap, self.probe) = (0, PROBE_GAP.0, PROBE_GAP.0);
            self.squeezed = Yield::default();
        }
        self.run += 1;
        if self.run == self.probe {
            if !self.is_fast() {
                self.probe += 1;
                return Some(rung as usize);
            }
            self.gap = (self.gap * 2).min(PROBE_GAP.1);
            self.probe += self.gap;
            return None;
        }
        Some(rung as usize)
    }

    /// True if so much content leaves, by all connections together, that the processors may be
    /// what is short.
    fn is_fast(&self) -> bool {
        // A thread of the codec may make less where others take the processors.
        self.leaves(SLOW_MAX.min(self.codec.rate()))
    }

    /// True if at least so many bytes of content leave in a second.
    fn leaves(&self, rate: f64) -> bool {
        let (bytes, took) = self.last_sent(|frame| frame.len);
        self.last.len() == LAST_MANY && bytes as f64 >= rate * took
    }

    /// The bytes of the last frames, each counted by `len_of`, and the seconds in which they left.
    fn last_sent(&self, len_of: impl Fn(&Left) -> usize) -> (usize, f64) {
        let ends = self.last.front().zip(self.last.back());
        let took = ends.map(|(first, last)| last.at.duration_since(first.at));
        // The time begins when the first one has left.
        let bytes = self.last.iter().skip(1).map(len_of).sum();
        (bytes, took.unwrap_or_default().as_secs_f64())
    }

    /// True if the link takes [`SLOW_MAX`] or more, by all connections together. Buffers may hold
    /// up to [`JUDGED_LEN_MIN`], and frames older than [`RECENT_MAX`] do not count.
    fn is_link_fast(&self) -> bool {
        let (bytes, took) = self.last_sent(Left::len_on_wire);
        let is_recent = self.last.back().is_some_and(|last| last.at.elapsed() <= RECENT_MAX);
        is_recent && bytes >= JUDGED_LEN_MIN && bytes as f64 >= SLOW_MAX * took
    }

    /// A frame has left.
    fn note(&mut self, frame: Left) {
        if self.last.len() == LAST_MANY {
            self.last.pop_front();
        }
        self.last.push_back(frame);
    }

    /// A frame has left.
    fn sent(&mut self, frame: Left) {
        self.note(frame);
        if let Some((len, took)) = frame.squeezed {
            self.swallows = self.swallows.saturating_sub(len);
            self.codec.add(frame.len, took);
        }
        let is_fast = self.is_fast();
        // Where much leaves, those who make frames are what may be short.
        if frame.was_behind || is_fast {
            match frame.squeezed {
                Some(_) => self.squeezed.add(frame.len, frame.took),
                None => self.plain.add(frame.len, frame.took),
            }
        }
        let is_on = self.gear >= STEPS;
        if is_on && self.run >= BELIEVED && is_fast && self.squeezed.is_below(self.plain) {
            self.gear = 0;
            self.paused = (self.paused * 4).clamp(PAUSE.0, PAUSE.1);
            self.pause = self.paused;
        }
    }
}

/// The way in which the frames of a job's connections are compressed.
#[derive(Debug, Default)]
pub(crate) struct Squeeze {
    /// Set when it is known that a job is sent.
    mode: OnceLock<Compression>,
    /// Set when the peer has said it.
    taken: OnceLock<Caps>,
    state: Mutex<State>,
    /// The gear of the listing. Nothing else of it is known.
    listing: Mutex<State>,
}

impl Squeeze {
    /// The user wants it so. Only the first call counts.
    pub(crate) fn wish(&self, mode: Compression) {
        let _ = self.mode.set(mode);
    }

    /// The peer takes what `caps` say. Only the first call counts.
    pub(crate) fn allow(&self, caps: Caps) {
        let _ = self.taken.set(caps);
    }

    /// How the next frame is compressed, where so many wait, as [`super::Lanes::effort`] counts
    /// them; `None` if it is not.
    pub(super) fn effort(&self, waiting: usize) -> Option<Effort> {
        self.effort_by(&self.state, waiting)
    }

    /// The same for one of the listing.
    pub(super) fn effort_of_list(&self, waiting: usize) -> Option<Effort> {
        self.effort_by(&self.listing, waiting)
    }

    fn effort_by(&self, state: &Mutex<State>, waiting: usize) -> Option<Effort> {
        let (mode, taken) = (self.mode.get()?, self.taken.get()?);
        let effort = match *mode {
            Compression::None => return None,
            Compression::Lz4 => LADDER[0],
            Compression::Zstd(level) => {
                let (min, max) = (*Compression::LEVELS.start(), *Compression::LEVELS.end());
                Effort { codec: Codec::Zstd, level: level.clamp(min, max).into() }
            }
            Compression::Auto => LADDER[state.lock().next(waiting)?],
        };
        effort.is_taken(*taken).then_some(effort)
    }

    /// A frame has left.
    pub(super) fn sent(&self, frame: Left) {
        let mut state = self.state.lock();
        match self.mode.get() {
            Some(Compression::Auto) => state.sent(frame),
            _ => state.note(frame),
        }
    }

    /// True if sending less gains nothing: the link is fast.
    pub(super) fn is_link_fast(&self) -> bool {
        self.state.lock().is_link_fast()
    }
}

/// Compresses the frames of one thread.
#[derive(Debug, Default)]
pub(crate) struct Squeezer {
    wrapper: Wrapper,
    sample: Vec<u8>,
    /// The file of the last content.
    file: Option<u64>,
    /// Frames of it in a row that didn't shrink.
    misses: u32,
    /// Frames of it that are sent without a sample.
    passed: u32,
}

impl Squeezer {
    /// True if the next content, of this file, or of several, may shrink.
    pub(crate) fn may_shrink(&mut self, file: Option<u64>) -> bool {
        if file.is_none() || self.file != file {
            (self.file, self.misses, self.passed) = (file, 0, 0);
        }
        match self.passed.checked_sub(1) {
            Some(left) => {
                self.passed = left;
                false
            }
            None => true,
        }
    }

    /// A frame with this head and content, compressed if it shrinks.
    pub(crate) fn content(&mut self, effort: Effort, head: Vec<u8>, body: Body) -> OutFrame {
        let Some(bytes) = body.content() else { return OutFrame::content(head, body) };
        let began = Instant::now();
        let wrapped = match self.shrinks(bytes) {
            true => self.wrapper.wrap(effort.codec, effort.level, &head, bytes),
            false => None,
        };
        match wrapped {
            Some(wrapped) => {
                self.misses = 0;
                OutFrame::content(
                    wrapped.head.to_vec(),
                    Body::Squeezed {
                        bytes: wrapped.content,
                        len: bytes.len(),
                        took: began.elapsed(),
                    },
                )
            }
            None => {
                self.misses = (self.misses + 1).min(PASSED_MAX.ilog2() + 1);
                self.passed = (1 << self.misses) - 1;
                OutFrame::content(head, body)
            }
        }
    }

    /// The frame of a message, compressed if it shrinks.
    pub(crate) fn message(&mut self, effort: Effort, frame: Vec<u8>) -> OutFrame {
        match self.wrapper.wrap(effort.codec, effort.level, &frame, &[]) {
            Some(wrapped) => OutFrame::whole([&wrapped.head[..], &wrapped.content].concat()),
            None => OutFrame::whole(frame),
        }
    }

    /// True if a sample of `bytes` shrinks.
    fn shrinks(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() < SAMPLED_MIN {
            return true;
        }
        self.sample.clear();
        let stride = (bytes.len() - SAMPLE_PART_LEN) / (SAMPLE_PARTS - 1);
        for part in 0..SAMPLE_PARTS {
            self.sample.extend_from_slice(&bytes[part * stride..][..SAMPLE_PART_LEN]);
        }
        entropy(&self.sample) < ENTROPY_MAX || Wrapper::repeats(&self.sample)
    }
}

/// The entropy of the bytes' distribution, in bits for each.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    let len = bytes.len() as f64;
    let of = |count: u32| -f64::from(count) / len * (f64::from(count) / len).log2();
    counts.into_iter().filter(|count| *count > 0).map(of).sum()
}

#[cfg(test)]
#[path = "squeeze_tests.rs"]
mod tests;

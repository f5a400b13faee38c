//! Chooses the compression of each frame.
//!
//! The queue of ready frames shows the bottleneck. While it is empty, the link accepts more than
//! this side produces, and compression would only slow this side down. While frames wait, the link
//! or the peer is the bottleneck, and there is time to compress better. So each frame moves a gear
//! by one step, up or down, and the gear selects the compression. All connections of a job share
//! one gear. A queue that is empty while frames wait for another connection does not move it.
//!
//! The bottleneck may also be the processors of either side, and a codec would slow them down
//! further. So the writer measures how much content leaves per time with and without compression,
//! and the faster way is kept. The other way is tried again after ever longer runs. If content
//! leaves more slowly than any processor, and than one thread of the codec, could produce it, the
//! link is the bottleneck, and nothing is tried.
//!
//! A sample shows whether content shrinks before all of it is compressed. After several samples of
//! one file that do not shrink, most of its frames are sent without one.

use super::frame::{Body, OutFrame};
use haul_model::Compression;
use haul_proto::{Caps, Codec, Wrapper};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Codecs and levels, from the fastest to the strongest.
const LADDER: [Effort; 4] = [
    Effort { codec: Codec::Lz4, level: 0 },
    Effort { codec: Codec::Zstd, level: 1 },
    Effort { codec: Codec::Zstd, level: 3 },
    Effort { codec: Codec::Zstd, level: 6 },
];

/// Frames per rung of the ladder.
const STEPS: u32 = 4;

/// The gear at the start of a job. A few frames later the link has been measured.
const START: u32 = 2 * STEPS;

/// The highest gear.
const TOP: u32 = STEPS * (LADDER.len() as u32 + 1) - 1;

/// Compressed bytes that must leave before an empty queue counts: pipes, ssh and sockets accept
/// about that much at once on any link.
const BUFFERED_LEN: usize = 3 << 20;

/// Frames sent in one way before its yield counts.
const TRUSTED_FRAMES: u32 = 6;

/// The weight of earlier frames when a frame is added to a yield.
const PAST_WEIGHT: f64 = 0.9;

/// Compressed frames before the first one that is sent uncompressed for comparison; and the most
/// between two of these.
const PROBE_GAP: (u32, u32) = (8, 256);

/// Frames that are sent uncompressed before compression is tried again after it was slower; and the
/// most.
const PAUSE: (u32, u32) = (32, 1024);

/// Bytes of content per second below which the link is the bottleneck. Machines with slower
/// processors have slower links.
const SLOW_MAX: f64 = 64e6;

/// The number of last frames that are measured.
const LAST_FRAMES: usize = 16;

/// Minimum bytes on the wire to judge a link. A pipe, ssh and sockets buffer some megabytes.
const JUDGED_LEN_MIN: usize = 10 << 20;

/// The longest time after the last frame for which a judgement is valid.
const RECENT_MAX: Duration = Duration::from_millis(500);

/// Waiting frames from which the link is the bottleneck. On small machines there are only two
/// buffers, in addition to those that are being filled and sent.
pub(super) const QUEUED_FRAMES_MIN: usize = 2;

/// The sample of a frame's content: the number of parts, spread evenly, and their length in bytes.
const SAMPLE_PARTS: usize = 4;
const SAMPLE_PART_LEN: usize = 4 << 10;

/// Minimum length of content that is sampled, in bytes.
const SAMPLED_MIN: usize = 4 * SAMPLE_PARTS * SAMPLE_PART_LEN;

/// Bits of entropy per byte above which entropy coding saves nothing. Only repetitions may shrink
/// such content.
const ENTROPY_MAX: f64 = 7.5;

/// The most frames of a file that are sent without a sample after one that did not shrink.
const PASSED_MAX: u32 = 63;

/// The compression of a frame.
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
pub(super) struct SentFrame {
    /// The length of the content, in bytes.
    pub(super) len: usize,
    /// If it was compressed: its length on the wire, and the time of the codec.
    pub(super) compressed: Option<(usize, Duration)>,
    /// The time since the previous frame had left.
    pub(super) took: Duration,
    /// The time when it had left.
    pub(super) at: Instant,
    /// It was ready when the previous frame had left, so `took` is the time of the link.
    pub(super) was_behind: bool,
}

impl SentFrame {
    /// `body` has left at `at`, `took` after the previous frame. `was_behind` is set if it was
    /// ready then.
    pub(super) fn of(body: &Body, at: Instant, took: Duration, was_behind: bool) -> Self {
        let compressed = match body {
            Body::Compressed { bytes, took, .. } => Some((bytes.len(), *took)),
            Body::Bytes(_) | Body::Shared { .. } | Body::Range { .. } => None,
        };
        let len = body.content_len();
        Self { len, compressed, took, at, was_behind }
    }

    fn len_on_wire(&self) -> usize {
        self.compressed.map_or(self.len, |(len, _)| len)
    }
}

/// Content that has left, and the time it took.
#[derive(Debug, Clone, Copy, Default)]
struct Throughput {
    bytes: f64,
    seconds: f64,
}

impl Throughput {
    /// Earlier frames count less and less, but enough that the last few do not decide. Those may
    /// have left over the slowest connection, and be compared with frames of a fast one.
    fn add(&mut self, bytes: usize, took: Duration) {
        self.bytes = self.bytes * PAST_WEIGHT + bytes as f64;
        self.seconds = self.seconds * PAST_WEIGHT + took.as_secs_f64();
    }

    /// Bytes per second; infinite if nothing is known.
    fn rate(self) -> f64 {
        if self.seconds > 0.0 { self.bytes / self.seconds } else { f64::INFINITY }
    }

    /// True if it is clearly less than `other`. False if either is unknown.
    fn is_below(self, other: Self) -> bool {
        self.bytes * other.seconds * 1.05 < other.bytes * self.seconds
    }
}

/// The state of the choice.
#[derive(Debug)]
struct CompressionState {
    gear: u32,
    /// Compressed bytes that must still leave before an empty queue counts.
    unbuffered_left: usize,
    /// Compressed frames since compression was turned on.
    run: u32,
    /// The number in the run of the next frame that is sent uncompressed for comparison.
    probe: u32,
    gap: u32,
    /// Frames until compression is tried again, and the length of the last pause.
    pause: u32,
    paused: u32,
    /// Of uncompressed frames.
    plain: Throughput,
    /// Of compressed frames.
    compressed: Throughput,
    /// Of the codec, in one thread.
    codec: Throughput,
    /// The last frames on any connection.
    last: VecDeque<SentFrame>,
}

impl Default for CompressionState {
    fn default() -> Self {
        Self {
            gear: START,
            unbuffered_left: BUFFERED_LEN,
            run: 0,
            probe: PROBE_GAP.0,
            gap: PROBE_GAP.0,
            pause: 0,
            paused: 0,
            plain: Throughput::default(),
            compressed: Throughput::default(),
            codec: Throughput::default(),
            last: VecDeque::with_capacity(LAST_FRAMES),
        }
    }
}

impl CompressionState {
    /// The rung for the next frame, with `waiting` frames in the queue.
    fn next(&mut self, waiting: usize) -> Option<usize> {
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        let was_off = self.gear < STEPS;
        self.gear = match waiting {
            0 if self.unbuffered_left == 0 => self.gear.saturating_sub(1),
            QUEUED_FRAMES_MIN.. => (self.gear + 1).min(TOP),
            _ => self.gear,
        };
        let rung = (self.gear / STEPS).checked_sub(1)?;
        if was_off {
            (self.run, self.gap, self.probe) = (0, PROBE_GAP.0, PROBE_GAP.0);
            self.compressed = Throughput::default();
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

    /// True if so much content leaves, over all connections, that processors may be the bottleneck.
    fn is_fast(&self) -> bool {
        // The codec may be slower where other programs use the processors.
        self.leaves(SLOW_MAX.min(self.codec.rate()))
    }

    /// True if at least `rate` bytes of content leave per second.
    fn leaves(&self, rate: f64) -> bool {
        let (bytes, took) = self.last_sent(|frame| frame.len);
        self.last.len() == LAST_FRAMES && bytes as f64 >= rate * took
    }

    /// The bytes of the last frames, counted by `len_of`, and the seconds in which they left.
    fn last_sent(&self, len_of: impl Fn(&SentFrame) -> usize) -> (usize, f64) {
        let ends = self.last.front().zip(self.last.back());
        let took = ends.map(|(first, last)| last.at.duration_since(first.at));
        // The time starts when the first frame has left.
        let bytes = self.last.iter().skip(1).map(len_of).sum();
        (bytes, took.unwrap_or_default().as_secs_f64())
    }

    /// True if the link takes [`SLOW_MAX`] or more, over all connections. Buffers may hold up to
    /// [`JUDGED_LEN_MIN`], and frames older than [`RECENT_MAX`] do not count.
    fn is_link_fast(&self) -> bool {
        let (bytes, took) = self.last_sent(SentFrame::len_on_wire);
        let is_recent = self.last.back().is_some_and(|last| last.at.elapsed() <= RECENT_MAX);
        is_recent && bytes >= JUDGED_LEN_MIN && bytes as f64 >= SLOW_MAX * took
    }

    /// Records a frame that has left.
    fn note(&mut self, frame: SentFrame) {
        if self.last.len() == LAST_FRAMES {
            self.last.pop_front();
        }
        self.last.push_back(frame);
    }

    /// Records a frame that has left, and turns compression off if it is slower.
    fn sent(&mut self, frame: SentFrame) {
        self.note(frame);
        if let Some((len, took)) = frame.compressed {
            self.unbuffered_left = self.unbuffered_left.saturating_sub(len);
            self.codec.add(frame.len, took);
        }
        let is_fast = self.is_fast();
        // While much leaves, the threads that produce frames may be the bottleneck.
        if frame.was_behind || is_fast {
            match frame.compressed {
                Some(_) => self.compressed.add(frame.len, frame.took),
                None => self.plain.add(frame.len, frame.took),
            }
        }
        let is_on = self.gear >= STEPS;
        if is_on && self.run >= TRUSTED_FRAMES && is_fast && self.compressed.is_below(self.plain) {
            self.gear = 0;
            self.paused = (self.paused * 4).clamp(PAUSE.0, PAUSE.1);
            self.pause = self.paused;
        }
    }
}

/// The compression of all connections of a job.
#[derive(Debug, Default)]
pub(crate) struct CompressionControl {
    /// Set when a job is sent.
    mode: OnceLock<Compression>,
    /// Set by the peer's greeting.
    taken: OnceLock<Caps>,
    state: Mutex<CompressionState>,
    /// The gear of the listing. Its other fields are not used.
    listing: Mutex<CompressionState>,
}

impl CompressionControl {
    /// Sets the mode that the user wants. Only the first call counts.
    pub(crate) fn set_mode(&self, mode: Compression) {
        let _ = self.mode.set(mode);
    }

    /// Sets the codecs that the peer accepts. Only the first call counts.
    pub(crate) fn allow(&self, caps: Caps) {
        let _ = self.taken.set(caps);
    }

    /// The compression of the next frame, with `waiting` frames as counted by
    /// [`super::Lanes::effort`]; `None` for no compression.
    pub(super) fn effort(&self, waiting: usize) -> Option<Effort> {
        self.effort_by(&self.state, waiting)
    }

    /// The same for a frame of the listing.
    pub(super) fn effort_of_list(&self, waiting: usize) -> Option<Effort> {
        self.effort_by(&self.listing, waiting)
    }

    fn effort_by(&self, state: &Mutex<CompressionState>, waiting: usize) -> Option<Effort> {
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

    /// Records a frame that has left.
    pub(super) fn sent(&self, frame: SentFrame) {
        let mut state = self.state.lock();
        match self.mode.get() {
            Some(Compression::Auto) => state.sent(frame),
            _ => state.note(frame),
        }
    }

    /// True if the link is so fast that sending less gains nothing.
    pub(super) fn is_link_fast(&self) -> bool {
        self.state.lock().is_link_fast()
    }
}

/// Compresses the frames of one thread.
#[derive(Default)]
pub(crate) struct FrameCompressor {
    wrapper: Wrapper,
    sample: Vec<u8>,
    /// The file of the last content.
    file: Option<u64>,
    /// Frames of it in a row that did not shrink.
    misses: u32,
    /// Frames of it that are still sent without a sample.
    passed: u32,
}

impl FrameCompressor {
    /// True if the next content, of `file` or of several files, may shrink.
    pub(crate) fn may_shrink(&mut self, file: Option<u64>) -> bool {
        if file.is_none() || self.file != file {
            (self.file, self.misses, self.passed) = (file, 0, 0);
        }
        let may_shrink = self.passed == 0;
        self.passed = self.passed.saturating_sub(1);
        may_shrink
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
                let (bytes, len, took) = (wrapped.content, bytes.len(), began.elapsed());
                OutFrame::content(wrapped.head.to_vec(), Body::Compressed { bytes, len, took })
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

/// The entropy of the distribution of bytes, in bits per byte.
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
#[path = "compression_control_tests.rs"]
mod tests;

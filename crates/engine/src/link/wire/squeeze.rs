//! The choice whether a frame is compressed, and how.
//!
//! The queue of frames that are ready tells what is short. While it is empty the link takes
//! more than this side makes, and time spent on compressing would make it less; while frames
//! wait, something behind them is what everything waits for, and there is time to compress
//! better. So each frame moves a gear by one step, up or down, and the gear says how the
//! frame is compressed. All connections of a job move the same gear.
//!
//! What is short may be the processors of either side, which a codec makes shorter still. So
//! the writer measures how much content leaves in its time, as it is and compressed, and the
//! faster of the two stays; the other is tried again after ever longer runs. Where less leaves
//! than any processor could make, the link is what is short, and nothing is tried.
//!
//! Content that doesn't shrink is found out by a sample before all of it is compressed, and
//! after some such samples of one file most of its frames are sent without one.

use super::outgoing::{Body, OutFrame};
use haul_model::Compression;
use haul_proto::{Caps, Codec, Wrapper};
use haul_tree::lock;
use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock};
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

/// The gear in which a job begins: a few frames later the link has told.
const START: u32 = 2 * STEPS;

/// The highest gear.
const TOP: u32 = STEPS * (LADDER.len() as u32 + 1) - 1;

/// Compressed bytes that leave before a queue that is empty says anything: pipes, ssh and
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
/// that are slower have links that are. And the frames by which that is seen.
const SLOW_MAX: f64 = 64e6;
const LAST_MANY: usize = 16;

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
    /// As long as that was on the wire, if it was compressed.
    pub(super) squeezed: Option<usize>,
    /// The time since the frame before it had left.
    pub(super) took: Duration,
    /// Then it had.
    pub(super) at: Instant,
    /// It was there when the frame before it had left: the time is the link's.
    pub(super) was_behind: bool,
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
    /// The last frames by whichever connection: the length of their content, and when they left.
    last: VecDeque<(usize, Instant)>,
}

impl Default for State {
    fn default() -> Self {
        let (gear, swallows, gap) = (START, SWALLOWED, PROBE_GAP.0);
        let (plain, squeezed) = (Yield::default(), Yield::default());
        let (run, pause, paused, last) = (0, 0, 0, VecDeque::with_capacity(LAST_MANY));
        Self { gear, swallows, run, probe: gap, gap, pause, paused, plain, squeezed, last }
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
        let (Some((first, begin)), Some((_, end))) = (self.last.front(), self.last.back()) else {
            return false;
        };
        let bytes = self.last.iter().map(|(len, _)| len).sum::<usize>() - first;
        let took = end.duration_since(*begin).as_secs_f64();
        self.last.len() == LAST_MANY && bytes as f64 >= SLOW_MAX * took
    }

    /// A frame has left.
    fn sent(&mut self, frame: Left) {
        if self.last.len() == LAST_MANY {
            self.last.pop_front();
        }
        self.last.push_back((frame.len, frame.at));
        if let Some(len) = frame.squeezed {
            self.swallows = self.swallows.saturating_sub(len);
        }
        // Where much leaves, those who make frames are what may be short.
        if frame.was_behind || self.is_fast() {
            match frame.squeezed {
                Some(_) => self.squeezed.add(frame.len, frame.took),
                None => self.plain.add(frame.len, frame.took),
            }
        }
        let is_on = self.gear >= STEPS;
        if is_on && self.run >= BELIEVED && self.is_fast() && self.squeezed.is_below(self.plain) {
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
}

impl Squeeze {
    /// The user wants it so. Only what is told first counts.
    pub(crate) fn wish(&self, mode: Compression) {
        let _ = self.mode.set(mode);
    }

    /// The peer takes what `caps` say. Only what is told first counts.
    pub(crate) fn allow(&self, caps: Caps) {
        let _ = self.taken.set(caps);
    }

    /// How the next frame is compressed, where so many wait for its connection; `None` if it
    /// is not.
    pub(super) fn effort(&self, waiting: usize) -> Option<Effort> {
        let (mode, taken) = (self.mode.get()?, self.taken.get()?);
        let effort = match *mode {
            Compression::None => return None,
            Compression::Lz4 => LADDER[0],
            Compression::Zstd(level) => {
                let (min, max) = (*Compression::LEVELS.start(), *Compression::LEVELS.end());
                Effort { codec: Codec::Zstd, level: level.clamp(min, max).into() }
            }
            Compression::Auto => LADDER[lock(&self.state).next(waiting)?],
        };
        effort.is_taken(*taken).then_some(effort)
    }

    /// A frame has left.
    pub(super) fn sent(&self, frame: Left) {
        if self.mode.get() == Some(&Compression::Auto) {
            lock(&self.state).sent(frame);
        }
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
        let wrapped = match self.shrinks(bytes) {
            true => self.wrapper.wrap(effort.codec, effort.level, &head, bytes),
            false => None,
        };
        match wrapped {
            Some(wrapped) => {
                self.misses = 0;
                OutFrame::content(
                    wrapped.head.to_vec(),
                    Body::Squeezed { bytes: wrapped.content, len: bytes.len() },
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
mod tests {
    use super::super::writer::run_writer;
    use super::*;
    use crate::link::wire::Outbox;
    use haul_net::Writer;
    use haul_testkit::content::Stream;

    const ALL: Caps = Caps::OURS;

    fn squeeze(mode: Compression, caps: Caps) -> Squeeze {
        let squeeze = Squeeze::default();
        squeeze.wish(mode);
        squeeze.allow(caps);
        squeeze
    }

    #[test]
    fn frames_that_wait_have_the_next_ones_compressed_better_and_none_less() {
        let squeeze = squeeze(Compression::Auto, ALL);
        let efforts = |waiting: usize, frames: u32| {
            (0..frames).map(|_| squeeze.effort(waiting)).collect::<Vec<_>>()
        };
        lock(&squeeze.state).swallows = 0;
        let (took, at) = (Duration::from_millis(1), Instant::now());
        for frame in 0..LAST_MANY as u32 {
            let (squeezed, at) = (Some(1 << 18), at + took * frame);
            squeeze.sent(Left { len: 1 << 20, squeezed, took, at, was_behind: true });
        }
        let up = efforts(WAITING_MANY, 4 * STEPS);
        assert_eq!(up.first().copied().flatten(), Some(LADDER[1]));
        assert_eq!(up.last().copied().flatten(), Some(LADDER[3]));
        // One in between is sent as it is, to compare.
        let now = efforts(1, 9);
        let same = now.iter().filter(|effort| **effort == Some(LADDER[3])).count();
        assert_eq!(same, 8, "{now:?}");
        let down = efforts(0, 5 * STEPS);
        let level = |effort: &Option<Effort>| LADDER.iter().position(|one| Some(*one) == *effort);
        let levels: Vec<_> = down.iter().filter_map(level).collect();
        assert!(levels.is_sorted_by(|now, next| now >= next), "{down:?}");
        assert_eq!(down.last().copied().flatten(), None);
    }

    #[test]
    fn the_way_stays_by_which_more_content_leaves() {
        const LEN: usize = 1 << 20;
        // Frames of text as a link takes them at `link` bytes a second: all wait for that, or
        // for the codec.
        let run = |link: f64, codec: f64| {
            let (mut state, mut at) = (State::default(), Instant::now());
            let mut squeezed = 0;
            for _ in 0..4000 {
                let is_squeezed = state.next(WAITING_MANY).is_some();
                squeezed += u32::from(is_squeezed);
                let rate = if is_squeezed { (link * 4.0).min(codec) } else { link };
                let took = Duration::from_secs_f64(LEN as f64 / rate);
                let squeezed = is_squeezed.then_some(LEN / 4);
                at += took;
                let was_behind = !is_squeezed || link * 4.0 < codec;
                state.sent(Left { len: LEN, squeezed, took, at, was_behind });
            }
            squeezed
        };
        let (slow, middling, fast, codec) = (12e6, 50e6, 900e6, 300e6);
        assert_eq!(run(slow, codec), 4000, "there is nothing to be tried");
        assert!((3900..4000).contains(&run(middling, codec)), "{}", run(middling, codec));
        assert!(run(fast, codec) < 80, "{}", run(fast, codec));
    }

    #[test]
    fn connections_that_are_not_equally_fast_are_not_taken_for_a_slow_codec() {
        const LEN: usize = 1 << 20;
        // One of ssh and two direct ones share a link of 50 MB/s, and each takes now more and
        // now less. Text shrinks to the half, which costs nothing.
        let rates = [5e6, 22.5e6, 22.5e6];
        for seed in 1..=4 {
            let (mut state, begin) = (State::default(), Instant::now());
            let mut noise = Stream::new(seed);
            let mut next = |state: &mut State, rate: f64| {
                let mut byte = [0];
                noise.fill(&mut byte);
                // From 0.7 to 1.4 times the rate.
                let rate = rate * (f64::from(byte[0]) / 255.0 - 0.5).exp2();
                let squeezed = state.next(WAITING_MANY).map(|_| LEN / 2);
                let took = squeezed.unwrap_or(LEN) as f64 / rate;
                (squeezed, took)
            };
            let mut lanes: Vec<_> = rates
                .iter()
                .map(|rate| {
                    let (squeezed, took) = next(&mut state, *rate);
                    (took, squeezed, took)
                })
                .collect();
            let mut count = 0;
            for _ in 0..4000 {
                let soonest = (0..3).min_by(|a, b| lanes[*a].0.total_cmp(&lanes[*b].0));
                let lane = soonest.expect("there are three");
                let (end, squeezed, took) = lanes[lane];
                count += u32::from(squeezed.is_some());
                let at = begin + Duration::from_secs_f64(end);
                let took = Duration::from_secs_f64(took);
                state.sent(Left { len: LEN, squeezed, took, at, was_behind: true });
                let (squeezed, took) = next(&mut state, rates[lane]);
                lanes[lane] = (end + took, squeezed, took);
            }
            assert!(count > 3900, "{seed}: {count}");
        }
    }

    #[test]
    fn the_time_in_which_no_frame_was_there_is_not_the_links() {
        let (outbox, frames) = Outbox::new(false);
        outbox.squeeze.wish(Compression::Auto);
        let squeezed = || {
            let body = Body::Squeezed { bytes: vec![0; 1 << 10], len: 1 << 20 };
            OutFrame::content(vec![1], body)
        };
        std::thread::scope(|scope| {
            let mut output = Writer::new(std::io::sink(), None);
            let frames = &frames;
            let write = move || run_writer(&mut output, frames, Vec::new(), None, None);
            let writer = scope.spawn(write);
            std::thread::sleep(Duration::from_millis(100));
            for _ in 0..2 {
                outbox.send(squeezed()).expect("there is room");
            }
            outbox.close();
            writer.join().expect("no panic").expect("written");
        });
        let seconds = lock(&outbox.squeeze.state).squeezed.seconds;
        assert!(seconds < 0.05, "{seconds}");
    }

    #[test]
    fn nothing_is_compressed_that_is_not_wished_for_and_taken() {
        let silent = Squeeze::default();
        assert_eq!(silent.effort(9), None);
        silent.wish(Compression::Lz4);
        assert_eq!(silent.effort(9), None);
        silent.allow(ALL);
        assert_eq!(silent.effort(9), Some(LADDER[0]));
        assert_eq!(squeeze(Compression::None, ALL).effort(9), None);
        assert_eq!(squeeze(Compression::Zstd(3), Caps::LZ4).effort(9), None);
        assert_eq!(squeeze(Compression::Auto, Caps::NONE).effort(9), None);
        let level = |level| squeeze(Compression::Zstd(level), ALL).effort(0).map(|e| e.level);
        assert_eq!((level(0), level(7), level(200)), (Some(1), Some(7), Some(19)));
    }

    #[test]
    fn noise_is_found_out_by_its_sample_and_text_and_repetitions_are_not_taken_for_it() {
        let mut squeezer = Squeezer::default();
        let mut noise = vec![0; 1 << 20];
        Stream::new(1).fill(&mut noise);
        assert!(!squeezer.shrinks(&noise));
        // As base64 has it: six bits in each byte.
        let letters: Vec<u8> = noise.iter().map(|byte| b'A' + byte % 64).collect();
        assert!(squeezer.shrinks(&letters));
        let repeated: Vec<u8> = noise[..1 << 10].iter().copied().cycle().take(1 << 20).collect();
        assert!(squeezer.shrinks(&repeated));
    }

    #[test]
    fn a_file_that_does_not_shrink_is_sampled_less_and_less() {
        let mut squeezer = Squeezer::default();
        let mut samples = 0;
        for _ in 0..1000 {
            if squeezer.may_shrink(Some(1)) {
                samples += 1;
                squeezer.misses = (squeezer.misses + 1).min(6);
                squeezer.passed = (1 << squeezer.misses) - 1;
            }
        }
        assert!((15..30).contains(&samples), "{samples}");
        assert!(squeezer.may_shrink(Some(2)), "another file is looked at");
        squeezer.passed = 5;
        assert!(squeezer.may_shrink(None), "so are several");
    }
}

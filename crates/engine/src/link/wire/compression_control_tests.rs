//! Links and processors of different speeds, and the resulting compression.

use super::super::writer::run_writer;
use super::*;
use crate::link::wire::Outbox;
use haul_net::Writer;
use haul_testkit::content::Stream;

const ALL: Caps = Caps::OURS;

fn compression_control(mode: Compression, caps: Caps) -> CompressionControl {
    let compression_control = CompressionControl::default();
    compression_control.set_mode(mode);
    compression_control.allow(caps);
    compression_control
}

#[test]
fn waiting_frames_raise_the_compression_and_an_empty_queue_lowers_it() {
    let compression_control = compression_control(Compression::Auto, ALL);
    let efforts = |waiting: usize, frames: u32| {
        (0..frames).map(|_| compression_control.effort(waiting)).collect::<Vec<_>>()
    };
    compression_control.state.lock().unbuffered_left = 0;
    let (took, at) = (Duration::from_millis(1), Instant::now());
    for frame in 0..LAST_FRAMES as u32 {
        let (compressed, at) = (Some((1 << 18, took)), at + took * frame);
        compression_control.sent(SentFrame {
            len: 1 << 20,
            compressed,
            took,
            at,
            was_behind: true,
        });
    }
    let up = efforts(QUEUED_FRAMES_MIN, 4 * STEPS);
    assert_eq!(up.first().copied().flatten(), Some(LADDER[1]));
    assert_eq!(up.last().copied().flatten(), Some(LADDER[3]));
    // One frame in between is sent uncompressed, to compare.
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
fn the_listing_has_its_own_gear() {
    let compression_control = compression_control(Compression::Auto, ALL);
    let listed = |waiting| {
        (0..3 * STEPS).map(|_| compression_control.effort_of_list(waiting)).last().flatten()
    };
    assert_eq!(listed(1), Some(LADDER[1]));
    assert_eq!(listed(QUEUED_FRAMES_MIN), Some(LADDER[3]));
    assert_eq!(
        compression_control.state.lock().run,
        0,
        "what is compared with others is as it was"
    );
    assert_eq!(compression_control.effort(1), Some(LADDER[1]));
}

#[test]
fn the_faster_way_is_kept() {
    const LEN: usize = 1 << 20;
    // Frames of text on a link with `link` bytes per second, compressed by two threads with `codec`
    // bytes per second each. The slower of both decides.
    let run = |link: f64, codec: f64| {
        let (mut state, mut at) = (CompressionState::default(), Instant::now());
        let mut count = 0;
        let time = |rate: f64| Duration::from_secs_f64(LEN as f64 / rate);
        for _ in 0..4000 {
            let is_squeezed = state.next(QUEUED_FRAMES_MIN).is_some();
            count += u32::from(is_squeezed);
            let took = time(if is_squeezed { (link * 4.0).min(codec * 2.0) } else { link });
            at += took;
            let compressed = is_squeezed.then_some((LEN / 4, time(codec)));
            let was_behind = !is_squeezed || link * 4.0 < codec * 2.0;
            state.sent(SentFrame { len: LEN, compressed, took, at, was_behind });
        }
        count
    };
    let (slow, middling, fast, codec, busy) = (12e6, 50e6, 900e6, 150e6, 15e6);
    assert_eq!(run(slow, codec), 4000, "there is nothing to be tried");
    assert!((3900..4000).contains(&run(middling, codec)), "{}", run(middling, codec));
    assert!(run(fast, codec) < 80, "{}", run(fast, codec));
    assert!(run(fast, busy) < 80, "others take the processors: {}", run(fast, busy));
}

#[test]
fn a_link_is_judged_by_recent_bytes_on_the_wire() {
    const LEN: usize = 1 << 20;
    let judged = |frames: u32, on_wire: usize, rate: f64, ago: Duration| {
        let (mut state, took) =
            (CompressionState::default(), Duration::from_secs_f64(on_wire as f64 / rate));
        let begin = Instant::now() - ago - took * frames;
        let compressed = (on_wire < LEN).then_some((on_wire, Duration::ZERO));
        for frame in 1..=frames {
            let at = begin + took * frame;
            state.note(SentFrame { len: LEN, compressed, took, at, was_behind: true });
        }
        state.is_link_fast()
    };
    let (now, fast) = (Duration::ZERO, SLOW_MAX * 2.0);
    assert!(judged(16, LEN, fast, now));
    assert!(!judged(16, LEN, SLOW_MAX / 2.0, now));
    assert!(!judged(8, LEN, fast, now), "buffers may have taken that");
    assert!(!judged(100, LEN / 20, fast, now), "and that");
    assert!(!judged(16, LEN, fast, RECENT_MAX * 2), "it is long ago");
}

#[test]
fn connections_of_different_speeds_are_not_mistaken_for_a_slow_codec() {
    const LEN: usize = 1 << 20;
    // One ssh connection and two direct ones share a link of 50 MB/s, with varying shares. Text
    // shrinks to half, which costs nothing.
    let rates = [5e6, 22.5e6, 22.5e6];
    for seed in 1..=4 {
        let (mut state, begin) = (CompressionState::default(), Instant::now());
        let mut noise = Stream::new(seed);
        let mut next = |state: &mut CompressionState, rate: f64| {
            let mut byte = [0];
            noise.fill(&mut byte);
            // From 0.7 to 1.4 times the rate.
            let rate = rate * (f64::from(byte[0]) / 255.0 - 0.5).exp2();
            let compressed = state.next(QUEUED_FRAMES_MIN).map(|_| (LEN / 2, Duration::ZERO));
            let took = compressed.map_or(LEN, |(len, _)| len) as f64 / rate;
            (compressed, took)
        };
        let mut lanes: Vec<_> = rates
            .iter()
            .map(|rate| {
                let (compressed, took) = next(&mut state, *rate);
                (took, compressed, took)
            })
            .collect();
        let mut count = 0;
        for _ in 0..4000 {
            let soonest = (0..3).min_by(|a, b| lanes[*a].0.total_cmp(&lanes[*b].0));
            let lane = soonest.expect("there are three");
            let (end, compressed, took) = lanes[lane];
            count += u32::from(compressed.is_some());
            let at = begin + Duration::from_secs_f64(end);
            let took = Duration::from_secs_f64(took);
            state.sent(SentFrame { len: LEN, compressed, took, at, was_behind: true });
            let (compressed, took) = next(&mut state, rates[lane]);
            lanes[lane] = (end + took, compressed, took);
        }
        assert!(count > 3900, "{seed}: {count}");
    }
}

#[test]
fn time_without_a_frame_does_not_count_for_the_link() {
    let (outbox, frames) = Outbox::new(false);
    outbox.compression_control.set_mode(Compression::Auto);
    let compressed = || {
        let body = Body::Compressed { bytes: vec![0; 1 << 10], len: 1 << 20, took: Duration::ZERO };
        OutFrame::content(vec![1], body)
    };
    std::thread::scope(|scope| {
        let mut output = Writer::new(std::io::sink(), None);
        let frames = &frames;
        let write = move || run_writer(&mut output, frames, Vec::new(), None, None);
        let writer = scope.spawn(write);
        std::thread::sleep(Duration::from_millis(100));
        for _ in 0..2 {
            outbox.send(compressed()).expect("there is room");
        }
        outbox.close();
        writer.join().expect("no panic").expect("written");
    });
    let seconds = outbox.compression_control.state.lock().compressed.seconds;
    assert!(seconds < 0.05, "{seconds}");
}

#[test]
fn only_wanted_and_accepted_codecs_are_used() {
    let silent = CompressionControl::default();
    assert_eq!(silent.effort(9), None);
    silent.set_mode(Compression::Lz4);
    assert_eq!(silent.effort(9), None);
    silent.allow(ALL);
    assert_eq!(silent.effort(9), Some(LADDER[0]));
    assert_eq!(compression_control(Compression::None, ALL).effort(9), None);
    assert_eq!(compression_control(Compression::Zstd(3), Caps::LZ4).effort(9), None);
    assert_eq!(compression_control(Compression::Auto, Caps::NONE).effort(9), None);
    let level =
        |level| compression_control(Compression::Zstd(level), ALL).effort(0).map(|e| e.level);
    assert_eq!((level(0), level(7), level(200)), (Some(1), Some(7), Some(19)));
}

#[test]
fn samples_detect_noise_but_not_text_or_repetitions() {
    let mut compressor = FrameCompressor::default();
    let mut noise = vec![0; 1 << 20];
    Stream::new(1).fill(&mut noise);
    assert!(!compressor.shrinks(&noise));
    // Like base64: six bits per byte.
    let letters: Vec<u8> = noise.iter().map(|byte| b'A' + byte % 64).collect();
    assert!(compressor.shrinks(&letters));
    let repeated: Vec<u8> = noise[..1 << 10].iter().copied().cycle().take(1 << 20).collect();
    assert!(compressor.shrinks(&repeated));
}

#[test]
fn a_file_that_does_not_shrink_is_sampled_ever_less() {
    let mut compressor = FrameCompressor::default();
    let mut samples = 0;
    for _ in 0..1000 {
        if compressor.may_shrink(Some(1)) {
            samples += 1;
            compressor.misses = (compressor.misses + 1).min(6);
            compressor.passed = (1 << compressor.misses) - 1;
        }
    }
    assert!((15..30).contains(&samples), "{samples}");
    assert!(compressor.may_shrink(Some(2)), "another file is looked at");
    compressor.passed = 5;
    assert!(compressor.may_shrink(None), "so are several");
}

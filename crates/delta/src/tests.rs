//! Whole differences against the new file itself.

use crate::{Checksummer, DeltaStep, Key, Matcher, Shape, Signature};
use proptest::prelude::*;

/// A difference, and what it needs.
#[derive(Debug, Default)]
struct Delta {
    /// The new file, put together from the old one and the literals.
    content: Vec<u8>,
    literal: usize,
    reused: usize,
}

fn sign(old: &[u8], shape: Shape, key: Key) -> Signature {
    let mut sums = Vec::new();
    let checksummer = Checksummer::new(key);
    old.chunks(shape.block_len()).for_each(|block| checksummer.sum(&shape, block, &mut sums));
    let mut signature = Signature::new(shape, key);
    assert!(!signature.is_complete());
    for part in sums.chunks(7) {
        signature.take(part).unwrap();
    }
    assert!(signature.is_complete());
    signature
}

/// The difference, found in a window of `window` bytes, twice a block's at least, that is
/// filled by at most `step` bytes at a time.
fn search(mut matcher: Matcher, old: &[u8], new: &[u8], window: usize, step: usize) -> Delta {
    let mut delta = Delta::default();
    let (mut start, mut end) = (0, 0);
    while start < new.len() {
        match matcher.next(&new[start..end], end == new.len()) {
            DeltaStep::NeedMore => {
                assert!(end - start < window && end < new.len());
                end = (end + step).min(start + window).min(new.len());
            }
            DeltaStep::Literal(len) => {
                assert!(len > 0);
                delta.content.extend_from_slice(&new[start..start + len]);
                (start, delta.literal) = (start + len, delta.literal + len);
            }
            DeltaStep::Reuse { from, len } => {
                delta.content.extend_from_slice(&old[from as usize..from as usize + len]);
                (start, delta.reused) = (start + len, delta.reused + len);
            }
        }
        if start == end {
            end = (end + step).min(new.len());
        }
    }
    delta
}

fn delta(old: &[u8], new: &[u8], block_len: u32) -> Delta {
    let shape = Shape::new(old.len() as u64, block_len, 5).unwrap();
    let matcher = Matcher::new(sign(old, shape, Key::from([7; 32])));
    let block_len = block_len as usize;
    let delta = search(matcher, old, new, 2 * block_len + 100, block_len + 3);
    assert!(delta.content == new);
    delta
}

/// Bytes that repeat nowhere.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

#[test]
fn what_is_the_same_is_reused_to_the_last_byte() {
    for len in [1, 63, 64, 65, 640, 700, 12_345] {
        let old = noise(len, 1);
        assert_eq!(delta(&old, &old, 64).literal, 0, "{len}");
    }
}

#[test]
fn an_insertion_costs_no_more_than_itself_and_a_block() {
    let old = noise(100_000, 1);
    for at in [0, 1, 511, 512, 50_000, 99_999, 100_000] {
        let mut new = old.clone();
        new.splice(at..at, noise(33, 2));
        assert!(delta(&old, &new, 512).literal <= 33 + 2 * 512, "{at}");
        assert!(delta(&new, &old, 512).literal <= 2 * 512, "{at}: deleted");
    }
}

#[test]
fn blocks_are_found_wherever_they_are() {
    let old = noise(10 * 256, 1);
    let mut new: Vec<u8> = old.rchunks(256).flatten().copied().collect();
    assert_eq!(delta(&old, &new, 256).literal, 0);
    new.extend_from_slice(&old);
    assert_eq!(delta(&old, &new, 256).literal, 0);
}

#[test]
fn nothing_in_common_is_all_literal() {
    let delta = delta(&noise(5_000, 1), &noise(7_000, 2), 64);
    assert_eq!((delta.literal, delta.reused), (7_000, 0));
}

#[test]
fn a_window_is_hashed_only_where_a_block_has_its_rolling_sum() {
    let (old, new) = (noise(5_000, 1), noise(7_000, 2));
    let shape = Shape::new(5_000, 64, 5).unwrap();
    let mut matcher = Matcher::new(sign(&old, shape, Key::from([7; 32])));
    assert_eq!(matcher.next(&new, true), DeltaStep::Literal(7_000));
    assert_eq!(matcher.mismatched_len(), 0);
}

#[test]
fn zeros_are_found_in_zeros() {
    let old = vec![0; 10_000];
    assert!(delta(&old, &vec![0; 30_001], 512).literal < 512);
    assert!(delta(&old, &vec![0; 300], 512).literal <= 300);
    let mut new = vec![0; 20_000];
    new[10_000] = 1;
    assert!(delta(&old, &new, 512).literal <= 2 * 512);
}

#[test]
fn shapes_have_bounds() {
    for (old, block, strong) in [(0, 64, 2), (1, 63, 2), (1, 0, 2), (1, 64, 1), (1, 64, 17)] {
        assert_eq!(Shape::new(old, block, strong), None, "{old} {block} {strong}");
    }
    assert_eq!(Shape::new(u64::MAX, Shape::BLOCK_LEN_MAX, 5), None);
    assert_eq!(Shape::new(1, Shape::BLOCK_LEN_MAX + 1, 5), None);
    assert_eq!(Shape::new(64 * (Shape::BLOCKS_MAX + 1), 64, 5), None);
    assert!(Shape::new(64 * Shape::BLOCKS_MAX, 64, 5).is_some());
    assert_eq!(Shape::of(0, 1, None), None);
    assert_eq!(Shape::of(u64::MAX, 1, None), None);
    // As many bytes as rsync's.
    let gib = Shape::of(1 << 30, 1 << 30, None).unwrap();
    assert_eq!((gib.block_len(), gib.sum_len(), gib.sums_len()), (32_768, 7, 229_376));
    assert_eq!(gib.block(1), 32_768..65_536);
    let small = Shape::of(5_000, 5_000, None).unwrap();
    assert_eq!((small.block_len(), small.strong_len()), (2_048, 2));
    let long = Shape::of(1 << 40, u64::MAX, None).unwrap();
    assert_eq!((long.block_len(), long.strong_len()), (1 << 20, 8));
    let odd = Shape::of(1_000_001, 5, Some(1_000)).unwrap();
    assert_eq!((odd.blocks(), odd.block(1_000)), (1_001, 1_000_000..1_000_001));
    assert!(Shape::of(1 << 30, 1, Some(1)).unwrap().blocks() as u64 <= Shape::BLOCKS_MAX);
}

#[test]
fn a_key_is_not_shown() {
    let key = Key::from([7; 32]);
    assert_eq!(format!("{key:?} {:?}", Checksummer::new(key)), "Key Checksummer");
}

#[test]
fn more_sums_than_blocks_are_refused() {
    let shape = Shape::new(100, 64, 2).unwrap();
    let mut signature = Signature::new(shape, Key::from([0; 32]));
    signature.take(&[0; 11]).unwrap();
    assert!(signature.take(&[0; 2]).is_err());
    signature.take(&[0]).unwrap();
    assert!(signature.is_complete());
}

/// Sums that a peer made up: each offset of the new file looks like a block.
#[test]
fn false_alarms_are_bounded() {
    let shape = Shape::new(64 << 10, 64 << 10, 2).unwrap();
    let mut signature = Signature::new(shape, Key::from([0; 32]));
    signature.take(&[0; 6]).unwrap();
    let new = vec![0; 1 << 20];
    let mut matcher = Matcher::new(signature);
    let mut at = 0;
    while at < new.len() {
        match matcher.next(&new[at..], true) {
            DeltaStep::Literal(len) => at += len,
            step => panic!("{step:?}"),
        }
    }
    // Each offset would be 64 GiB.
    assert!((64 << 20..80 << 20).contains(&matcher.mismatched_len()));
}

/// The first block has the rolling sum of zeros, and another strong one.
#[test]
fn some_false_alarms_do_not_end_the_search() {
    let (shape, key) = (Shape::new(128 << 10, 64 << 10, 2).unwrap(), Key::from([0; 32]));
    let (zeros, block) = (vec![0; (64 << 10) + 100], noise(64 << 10, 1));
    let mut sums = vec![0; 6];
    Checksummer::new(key).sum(&shape, &block, &mut sums);
    let mut signature = Signature::new(shape, key);
    signature.take(&sums).unwrap();
    let mut matcher = Matcher::new(signature);
    let new = [&zeros[..], &block].concat();
    assert_eq!(matcher.next(&new, true), DeltaStep::Literal(zeros.len()));
    assert!(matcher.mismatched_len() > 0);
    let found = DeltaStep::Reuse { from: 64 << 10, len: 64 << 10 };
    assert_eq!(matcher.next(&new[zeros.len()..], true), found);
}

/// Of the short block at the end one of both sums is right.
#[test]
fn a_short_block_is_found_only_by_both_sums() {
    let (shape, key) = (Shape::new(40, 64, 16).unwrap(), Key::from([0; 32]));
    let tail = noise(40, 1);
    let mut sums = Vec::new();
    Checksummer::new(key).sum(&shape, &tail, &mut sums);
    for (wrong, step) in [
        (None, DeltaStep::Reuse { from: 0, len: 40 }),
        (Some(0), DeltaStep::Literal(40)),
        (Some(19), DeltaStep::Literal(40)),
    ] {
        let mut sums = sums.clone();
        wrong.into_iter().for_each(|at: usize| sums[at] ^= 1);
        let mut signature = Signature::new(shape, key);
        signature.take(&sums).unwrap();
        assert_eq!(Matcher::new(signature).next(&tail, true), step, "{wrong:?}");
    }
}

#[test]
fn blocks_that_repeat_are_reused_in_their_order() {
    let (one, other) = (noise(64, 1), noise(64, 2));
    let old = [&one[..], &one, &other, &one].concat();
    let shape = Shape::new(old.len() as u64, 64, 5).unwrap();
    let mut matcher = Matcher::new(sign(&old, shape, Key::from([7; 32])));
    for at in [0, 64, 128, 192] {
        let found = DeltaStep::Reuse { from: at as u64, len: 64 };
        assert_eq!(matcher.next(&old[at..], true), found);
    }
}

/// Edits of a file.
#[derive(Debug, Clone)]
enum Edit {
    Insert(usize, Vec<u8>),
    Delete(usize, usize),
    Replace(usize, Vec<u8>),
    Double(usize, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let bytes = || prop::collection::vec(0_u8..3, 0..80);
    let at = 0_usize..3_000;
    prop_oneof![
        (at.clone(), bytes()).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        (at.clone(), 0_usize..500).prop_map(|(at, len)| Edit::Delete(at, len)),
        (at.clone(), bytes()).prop_map(|(at, bytes)| Edit::Replace(at, bytes)),
        (at, 0_usize..500).prop_map(|(at, len)| Edit::Double(at, len)),
    ]
}

fn edited(old: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut new = old.to_vec();
    for edit in edits {
        let range = |at: usize, len: usize| {
            let at = at.min(new.len());
            at..(at + len).min(new.len())
        };
        let (range, bytes) = match edit {
            Edit::Insert(at, bytes) => (range(*at, 0), bytes.clone()),
            Edit::Delete(at, len) => (range(*at, *len), Vec::new()),
            Edit::Replace(at, bytes) => (range(*at, bytes.len()), bytes.clone()),
            Edit::Double(at, len) => {
                let range = range(*at, *len);
                (range.start..range.start, new[range].to_vec())
            }
        };
        new.splice(range, bytes);
    }
    new
}

proptest! {
    /// Bytes of few kinds, so that blocks repeat and sums collide in part.
    #[test]
    fn any_new_file_comes_out(
        old in prop::collection::vec(0_u8..3, 1..3_000),
        edits in prop::collection::vec(edit(), 0..6),
        block_len in 64_u32..200,
        more in 0_usize..300,
        step in 1_usize..400,
    ) {
        let new = edited(&old, &edits);
        let shape = Shape::new(old.len() as u64, block_len, 6).unwrap();
        let matcher = Matcher::new(sign(&old, shape, Key::from([3; 32])));
        let delta = search(matcher, &old, &new, 2 * block_len as usize + more, step);
        prop_assert!(delta.content == new);
        prop_assert_eq!(delta.literal + delta.reused, new.len());
    }

    /// Against a search that compares every block at every offset.
    #[test]
    fn no_less_is_found_than_by_comparing(
        old in prop::collection::vec(0_u8..2, 1..600),
        edits in prop::collection::vec(edit(), 0..4),
    ) {
        let new = edited(&old, &edits);
        let blocks: Vec<_> = old.chunks_exact(64).collect();
        let (mut at, mut literal) = (0, 0);
        let tail = old.chunks_exact(64).remainder();
        while at < new.len() {
            let rest = &new[at..];
            if rest.len() >= 64 && blocks.contains(&&rest[..64]) {
                at += 64;
            } else if rest == tail {
                break;
            } else {
                (at, literal) = (at + 1, literal + 1);
            }
        }
        prop_assert_eq!(delta(&old, &new, 64).literal, literal);
    }
}

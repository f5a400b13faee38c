//! Tests of the content hash, against plain BLAKE3 and a naive twin.

use super::*;
use blake3::hazmat::left_subtree_len;
use proptest::prelude::*;

/// How many blocks the left subtree of a content of `len` bytes holds; `len`
/// must be more than one block.
fn left_blocks(len: u64) -> usize {
    (left_subtree_len(len) / BLOCK_LEN) as usize
}

/// The naive twin of [`BlockTree`]: the hash of a content of `len` bytes in these
/// `blocks`, at least two, which are all in memory.
fn of_blocks(blocks: &[BlockHash], len: u64) -> ContentHash {
    assert_eq!(blocks.len() as u64, len.div_ceil(BLOCK_LEN), "every block has its hash");
    let blocks: Vec<ChainingValue> = blocks.iter().map(|block| block.0).collect();
    let (left, right) = blocks.split_at(left_blocks(len));
    let left_len = left.len() as u64 * BLOCK_LEN;
    let root =
        merge_subtrees_root(&merge(left, left_len), &merge(right, len - left_len), Mode::Hash);
    ContentHash(*root.as_bytes())
}

/// The chaining value over `blocks`, which cover `len` bytes.
fn merge(blocks: &[ChainingValue], len: u64) -> ChainingValue {
    if let [only] = blocks {
        return *only;
    }
    let (left, right) = blocks.split_at(left_blocks(len));
    let left_len = left.len() as u64 * BLOCK_LEN;
    merge_subtrees_non_root(&merge(left, left_len), &merge(right, len - left_len), Mode::Hash)
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 977) as u8).collect()
}

fn in_steps(content: &[u8], step: usize) -> ContentHash {
    let mut hasher = ContentHasher::new();
    for part in content.chunks(step) {
        hasher.update(part);
    }
    assert_eq!(hasher.len(), content.len() as u64);
    hasher.finish()
}

#[test]
fn the_hashes_of_all_blocks_yield_that_of_the_whole() {
    let block = BLOCK_LEN as usize;
    for len in [block + 1, 2 * block, 2 * block + 700, 3 * block - 1, 5 * block] {
        let content = content(len);
        let mut blocks = Vec::new();
        for (index, part) in (0..).zip(content.chunks(block)) {
            let mut hasher = BlockHasher::new(index);
            hasher.update(part);
            blocks.push(hasher.finish());
        }
        assert_eq!(of_blocks(&blocks, len as u64), ContentHash::of(&content));
    }
}

#[test]
fn equals_plain_blake3_at_every_boundary() {
    let block = BLOCK_LEN as usize;
    for blocks in [0usize, 1, 2, 3, 4, 5, 7, 8] {
        for delta in [-1i64, 0, 1] {
            let Ok(len) = usize::try_from((blocks * block) as i64 + delta) else { continue };
            let bytes = content(len);
            assert_eq!(in_steps(&bytes, 1 << 20), ContentHash::of(&bytes), "{len} bytes");
        }
    }
}

#[test]
fn zeros_hash_like_written_zeros() {
    let len = BLOCK_LEN as usize * 2 + 12_345;
    let mut hasher = ContentHasher::new();
    hasher.update(b"head");
    hasher.update_zeros(len as u64 - 4);
    let mut plain = vec![0; len];
    plain[..4].copy_from_slice(b"head");
    assert_eq!(hasher.finish(), ContentHash::of(&plain));
}

/// The hashes of the whole blocks of `bytes`.
fn blocks_of(bytes: &[u8]) -> Vec<BlockHash> {
    let whole = bytes.chunks_exact(BLOCK_LEN as usize);
    (0..).zip(whole).map(|(index, block)| BlockHash::of(index, block)).collect()
}

#[test]
fn a_resumed_hasher_ends_like_one_that_saw_all() {
    let bytes = content(BLOCK_LEN as usize * 3 + 77);
    let blocks = blocks_of(&bytes);
    for seen in 0..=3u64 {
        let mut resumed = ContentHasher::resume(blocks[..seen as usize].iter().copied());
        assert_eq!(resumed.len(), seen * BLOCK_LEN);
        resumed.update(&bytes[(seen * BLOCK_LEN) as usize..]);
        assert_eq!(resumed.finish(), ContentHash::of(&bytes), "after {seen} blocks");
    }
    for seen in 2..=3 {
        let all = ContentHasher::resume(blocks[..seen].iter().copied());
        assert_eq!(all.finish(), ContentHash::of(&bytes[..seen * BLOCK_LEN as usize]));
    }
}

#[test]
fn the_last_whole_block_is_reported_and_no_other() {
    let bytes = content(BLOCK_LEN as usize * 3 + 77);
    let blocks = blocks_of(&bytes);
    let mut hasher = ContentHasher::new();
    for (index, part) in (0..).zip(bytes.chunks(BLOCK_LEN as usize / 4)) {
        hasher.update(part);
        let whole = (index + 1) / 4;
        for block in 0..5 {
            let expected = (block + 1 == whole.min(3)).then(|| blocks[block as usize]);
            assert_eq!(hasher.block(block), expected, "block {block} after {index}");
        }
    }
    assert_eq!(ContentHasher::resume(blocks.clone()).block(2), Some(blocks[2]));
    assert_eq!(ContentHasher::behind(3).block(2), None);
    assert_eq!(hasher.block(u64::MAX), None);
}

#[test]
fn a_tail_needs_nothing_of_what_is_before() {
    let bytes = content(BLOCK_LEN as usize * 3 + 77);
    let blocks = blocks_of(&bytes);
    let of = |mut hasher: ContentHasher, first: u64| {
        hasher.update(&bytes[(first * BLOCK_LEN) as usize..]);
        hasher.finish_tail()
    };
    let mut tails = Vec::new();
    for first in 0..=3u64 {
        let unknown = of(ContentHasher::behind(first), first);
        let known = ContentHasher::resume(blocks[..first as usize].iter().copied());
        assert_eq!(unknown, of(known, first), "from block {first}");
        assert!(!tails.contains(&unknown));
        tails.push(unknown);
    }
}

#[test]
fn a_tail_with_blocks_left_out_is_the_hash_of_the_others() {
    let bytes = content(BLOCK_LEN as usize * 4 + 77);
    let block_at = |block: usize| {
        let start = block * BLOCK_LEN as usize;
        &bytes[start..(start + BLOCK_LEN as usize).min(bytes.len())]
    };
    for left_out in [vec![], vec![0], vec![1], vec![0, 2], vec![1, 2], vec![0, 1, 2, 3]] {
        let mut hasher = ContentHasher::new();
        let mut naive = blake3::Hasher::new();
        for block in (0..5).filter(|block| !left_out.contains(block)) {
            hasher.skip_to(block as u64);
            hasher.update(block_at(block));
            let mut alone = BlockHasher::new(block as u64);
            alone.update(block_at(block));
            naive.update(alone.finish().as_bytes());
            let whole = (block < 4).then(|| alone.finish());
            assert_eq!(hasher.block(block as u64), whole, "block {block} of all but {left_out:?}");
        }
        assert_eq!(hasher.len(), bytes.len() as u64);
        let tail = ContentHash::from(*naive.finalize().as_bytes());
        assert_eq!(hasher.finish_tail(), tail, "without {left_out:?}");
        if left_out.is_empty() {
            assert_eq!(hasher.finish(), ContentHash::of(&bytes));
        }
    }
}

#[test]
fn a_hasher_of_very_much_is_small() {
    let mut hasher = ContentHasher::behind(1 << 41);
    hasher.update(b"far behind");
    assert_eq!(hasher.len(), (1 << 63) + 10);
    let blocks =
        (0..10_000u32).map(|block| BlockHash::from(*blake3::hash(&block.to_le_bytes()).as_bytes()));
    assert!(ContentHasher::resume(blocks).closed.subtrees.len() <= 20);
}

#[test]
fn prints_what_b3sum_prints() {
    assert_eq!(
        ContentHash::of(b"").to_string(),
        "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn resumed_after_any_number_of_blocks_it_is_the_hash_of_all(
        blocks in 2usize..40, end in 0u64..4 << 20,
    ) {
        // The naive twin merges what it has all in memory.
        let hash = |block: usize| BlockHash::from(*blake3::hash(&[block as u8]).as_bytes());
        let mut hashes: Vec<BlockHash> = (0..blocks).map(hash).collect();
        let mut hasher = ContentHasher::resume(hashes.iter().copied());
        prop_assert_eq!(hasher.finish(), of_blocks(&hashes, hasher.len()));
        hasher.update_zeros(end);
        if end > 0 {
            let mut last = BlockHasher::new(blocks as u64);
            last.update_zeros(end);
            hashes.push(last.finish());
        }
        prop_assert_eq!(hasher.finish(), of_blocks(&hashes, hasher.len()));
    }

    #[test]
    fn any_split_gives_the_same_hash(len in 0usize..10_000_000, step in 1000usize..6_000_000) {
        let bytes = content(len);
        prop_assert_eq!(in_steps(&bytes, step), ContentHash::of(&bytes));
    }
}

#[test]
fn a_block_that_another_has_hashed_counts_as_if_it_had_been_taken_here() {
    let content = content(2 * BLOCK_LEN as usize + 1234);
    for len in [5, BLOCK_LEN as usize, BLOCK_LEN as usize + 1, content.len()] {
        let content = &content[..len];
        let mut hasher = ContentHasher::new();
        for (index, block) in content.chunks(BLOCK_LEN as usize).enumerate() {
            let mut block_hasher = BlockHasher::new(index as u64);
            block_hasher.update(block);
            hasher.take(&block_hasher);
            assert_eq!(hasher.last(), Some(block_hasher.finish()));
        }
        assert_eq!(hasher.len(), len as u64);
        assert_eq!(hasher.finish(), ContentHash::of(content), "{len} bytes");
    }
}

#[test]
fn a_hasher_reports_how_much_it_has_taken() {
    let mut block = BlockHasher::new(3);
    assert!(block.is_empty());
    block.update(b"abc");
    block.update_zeros(70_000);
    assert_eq!((block.len(), block.is_empty()), (70_003, false));
    let mut alone = BlockHasher::new(0);
    alone.update(b"abc");
    assert_eq!(alone.finish_alone(), ContentHash::of(b"abc"));
    assert_eq!(BlockHash::from(*alone.finish().as_bytes()), alone.finish());
    let mut hasher = ContentHasher::default();
    assert!(hasher.is_empty() && hasher.last().is_none());
    hasher.update_zeros(BLOCK_LEN);
    assert_eq!((hasher.whole_blocks(), hasher.len(), hasher.is_empty()), (1, BLOCK_LEN, false));
    hasher.update(b"x");
    assert_eq!((hasher.whole_blocks(), hasher.len()), (1, BLOCK_LEN + 1));
    assert_eq!(ContentHasher::behind(5).whole_blocks(), 5);
    let hash = ContentHash::of(b"abc");
    assert_eq!(format!("{hash:?}"), format!("ContentHash({hash})"));
    assert_eq!(ContentHash::from(*hash.as_bytes()), hash);
}

#[test]
fn a_tree_reports_its_blocks() {
    let blocks = [1, 2, 3].map(|byte| BlockHash::from([byte; 32]));
    let mut tree = BlockTree::behind(0);
    assert!(tree.is_empty() && tree.last().is_none() && tree.finish().is_none());
    tree.push(blocks[0]);
    assert_eq!((tree.len(), tree.is_empty(), tree.last()), (1, false, Some(blocks[0])));
    assert_eq!(tree.finish(), None);
    tree.push(blocks[1]);
    tree.push(blocks[2]);
    assert_eq!(tree.finish(), Some(of_blocks(&blocks, 3 * BLOCK_LEN)));
    assert_eq!(tree.finish(), BlockTree::resume(blocks).finish());
    // What was resumed is not in the tail.
    assert_eq!(BlockTree::resume(blocks).finish_tail(), BlockTree::behind(3).finish_tail());
    assert_ne!(tree.finish_tail(), BlockTree::behind(3).finish_tail());
    assert_eq!(BlockTree::behind(3).len(), 3);
}

#[test]
fn a_hasher_that_is_at_a_block_already_stays_there() {
    let bytes = content(BLOCK_LEN as usize + 5);
    let mut hasher = ContentHasher::new();
    hasher.skip_to(0);
    hasher.update(&bytes[..BLOCK_LEN as usize]);
    hasher.skip_to(1);
    hasher.update(&bytes[BLOCK_LEN as usize..]);
    assert_eq!(hasher.finish(), ContentHash::of(&bytes));
    // Behind blocks of which nothing is known the hash is that of the tail.
    let mut behind = ContentHasher::behind(1);
    behind.update(b"abc");
    assert_eq!(behind.finish(), behind.finish_tail());
}

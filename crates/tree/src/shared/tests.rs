//! Tests of shared blocks, with a file that counts its reads.

use super::*;
use haul_model::ContentHash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const LEN: usize = BLOCK_LEN as usize;

fn version(size: u64) -> Version {
    let long_ago = Timestamp { secs: 1_000_000, nanos: 0 };
    Version { id: FileId { dev: 1, ino: 2 }, size, mtime: long_ago, ctime: long_ago }
}

/// A file that counts its reads.
#[derive(Default)]
struct Counted(AtomicUsize);

impl Counted {
    fn fill(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        // A block is read in parts.
        self.0.fetch_add(usize::from(at.is_multiple_of(BLOCK_LEN)), Ordering::Relaxed);
        bytes.fill((at / BLOCK_LEN) as u8 + 1);
        Ok(bytes.len())
    }

    fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn take(blocks: &SharedBlocks, version: &Version, index: u64, file: &Counted) -> Arc<SharedBlock> {
    let block = blocks.block(version, index, |bytes, at| file.fill(bytes, at));
    block.expect("it is shared").expect("it can be read")
}

fn len(blocks: &SharedBlocks) -> usize {
    blocks.state.lock().len
}

#[test]
fn jobs_at_the_same_time_read_each_block_once() {
    let (blocks, file) = (SharedBlocks::new(SHARED_LEN_MAX), Counted::default());
    let version = version(5 * BLOCK_LEN + 3);
    let sharers: Vec<_> = (0..4).map(|_| blocks.join()).collect();
    thread::scope(|scope| {
        for _ in &sharers {
            scope.spawn(|| {
                for index in 0..6 {
                    let block = take(&blocks, &version, index, &file);
                    let byte = index as u8 + 1;
                    let len = if index == 5 { 3 } else { LEN };
                    assert_eq!(block.bytes(), vec![byte; len]);
                    let mut hasher = BlockHasher::new(index);
                    hasher.update(block.bytes());
                    assert_eq!(block.hasher().finish(), hasher.finish());
                }
            });
        }
    });
    assert_eq!(file.times(), 6);
    assert_eq!(len(&blocks), 0, "what all have taken is kept");
}

#[test]
fn a_slow_job_delays_no_other_and_memory_is_bounded() {
    let len_max = 3 * (LEN + OVERHEAD) + 100;
    let (blocks, file) = (SharedBlocks::new(len_max), Counted::default());
    let version = version(10 * BLOCK_LEN);
    let _sharers = [blocks.join(), blocks.join()];
    for index in 0..10 {
        take(&blocks, &version, index, &file);
        assert!(len(&blocks) <= len_max);
        assert!(blocks.state.lock().slots.len() <= 3);
    }
    assert_eq!(file.times(), 10);
    for index in 7..10 {
        take(&blocks, &version, index, &file);
    }
    assert_eq!(file.times(), 10, "the last blocks are there");
    assert_eq!(len(&blocks), 0);
    take(&blocks, &version, 0, &file);
    assert_eq!(file.times(), 11, "the first is read again");
    assert!(blocks.state.lock().spare.len() <= SPARE_MAX);
}

#[test]
fn buffers_of_blocks_that_a_slow_job_missed_are_reused() {
    let (blocks, file) = (SharedBlocks::new(SHARED_LEN_MAX), Counted::default());
    let version = version(24 * BLOCK_LEN);
    let _sharers = [blocks.join(), blocks.join()];
    let spare = || blocks.state.lock().spare.len();
    for behind in [0..12, 12..24] {
        let ahead = behind.clone();
        ahead.for_each(|index| drop(take(&blocks, &version, index, &file)));
        assert_eq!(spare(), 0);
        behind.for_each(|index| drop(take(&blocks, &version, index, &file)));
        assert_eq!(spare(), 12);
    }
    assert_eq!(file.times(), 24);
}

#[test]
fn small_files_count_for_more_than_their_content() {
    let (blocks, file) = (SharedBlocks::new(1 << 20), Counted::default());
    let _sharers = [blocks.join(), blocks.join()];
    for ino in 0..10_000 {
        let version = Version { id: FileId { dev: 1, ino }, ..version(1) };
        let block = take(&blocks, &version, 0, &file);
        assert_eq!(block.hasher().finish_alone(), ContentHash::of(&[1]));
    }
    let state = blocks.state.lock();
    assert!(state.slots.len() < 512 && state.slots.len() == state.ages.len());
}

#[test]
fn versions_of_a_file_are_shared_separately() {
    let (blocks, file) = (SharedBlocks::new(SHARED_LEN_MAX), Counted::default());
    let _sharers = [blocks.join(), blocks.join()];
    let first = version(9);
    let later = Timestamp { secs: 1_000_000, nanos: 1 };
    let others = [
        Version { ctime: later, ..first },
        Version { mtime: later, ..first },
        Version { size: 8, ..first },
        Version { id: FileId { dev: 1, ino: 3 }, ..first },
    ];
    take(&blocks, &first, 0, &file);
    for (at, other) in others.iter().enumerate() {
        take(&blocks, other, 0, &file);
        assert_eq!(file.times(), at + 2);
    }
}

#[test]
fn recent_changes_and_files_of_a_single_job_are_not_shared() {
    let (blocks, file) = (SharedBlocks::new(SHARED_LEN_MAX), Counted::default());
    let ask = |version: &Version| blocks.block(version, 0, |bytes, at| file.fill(bytes, at));
    let old = version(9);
    let one = blocks.join();
    assert!(ask(&old).is_none());
    let two = blocks.join();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("later");
    let now = Timestamp { secs: now.as_secs() as i64, nanos: now.subsec_nanos() };
    assert!(ask(&Version { ctime: now, ..old }).is_none());
    assert!(ask(&old).is_some());
    drop(one);
    assert!(ask(&old).is_none());
    assert_eq!(len(&blocks), 0, "what nobody takes any more is kept");
    drop(two);
}

#[test]
fn the_next_job_retries_a_block_that_could_not_be_read() {
    let (blocks, file) = (SharedBlocks::new(SHARED_LEN_MAX), Counted::default());
    let _sharers = [blocks.join(), blocks.join()];
    let version = version(9);
    let short = blocks.block(&version, 0, |_, _| Ok(8)).expect("it is shared");
    let kind = short.map(|_| ()).expect_err("it is too short").kind();
    assert_eq!(kind, io::ErrorKind::UnexpectedEof);
    assert_eq!(take(&blocks, &version, 0, &file).bytes(), [1; 9]);
    assert_eq!(file.times(), 1);
}

#[test]
fn the_first_job_at_a_long_file_waits_once_for_the_others() {
    const LATE: Duration = Duration::from_millis(60);
    let (blocks, file) = (SharedBlocks::new(2 * (LEN + OVERHEAD)), Counted::default());
    let _sharers = [blocks.join(), blocks.join()];
    let (short, long) = (version(2 * BLOCK_LEN), version(9 * BLOCK_LEN));
    let took = |version: &Version, index| {
        let begin = Instant::now();
        take(&blocks, version, index, &file);
        begin.elapsed()
    };
    assert!(took(&short, 0) < START_WAIT, "it is kept as a whole");
    thread::scope(|scope| {
        let end_of = |index| {
            took(&long, index);
            Instant::now()
        };
        let others = [scope.spawn(move || end_of(1)), scope.spawn(move || end_of(0))];
        thread::sleep(LATE);
        let last = Instant::now();
        took(&long, 0);
        for other in others {
            assert!(other.join().expect("no panic") >= last, "it has not waited");
        }
    });
    let longer = version(11 * BLOCK_LEN);
    assert!(took(&longer, 0) < START_WAIT);
    // No other job arrives, and one leaves.
    let blocks = SharedBlocks::new(LEN);
    let (_one, _two, three) = (blocks.join(), blocks.join(), blocks.join());
    let begin = Instant::now();
    take(&blocks, &long, 0, &file);
    assert!(begin.elapsed() >= START_WAIT);
    drop(three);
    let begin = Instant::now();
    take(&blocks, &long, 1, &file);
    assert!(begin.elapsed() < START_WAIT, "it waits again");
}

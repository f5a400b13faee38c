//! The cost of resuming and of checkpoints: the same however much is there, and no
//! other program its place in memory. One test at a time, since the figures are
//! those of the whole process.

#![cfg(target_os = "linux")]

use haul_model::{BLOCK_LEN, BlockHash, Name, Timestamp};
use haul_store::{Pace, SourceId, Stage, StagedFile};
use haul_sys::Dir;
use haul_testkit::{FileSystem, Mount, TempDir};
use parking_lot::{Mutex, MutexGuard};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A file of 4 GiB.
const LEN: u64 = 4 << 30;

/// Bytes that the process itself reads and writes beside a file: the id of
/// the boot and the like.
const BESIDE: u64 = 64 << 10;

const TIME: Timestamp = Timestamp { secs: 1_600_000_000, nanos: 5 };

static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock()
}

fn open(dir: &Path, pace: Pace) -> (Stage, Vec<BlockHash>) {
    let source = SourceId { size: LEN, mtime: TIME, inode: 7, ctime: None };
    let name = Name::new(b"big").expect("a plain name");
    let dir = Arc::new(Dir::open(dir).expect("opened"));
    Stage::resume_at(dir, &name, &source, pace).expect("a stage")
}

/// Bytes that this process has read and written so far, from wherever.
fn bytes_moved() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/self/io").expect("the kernel tells");
    ["rchar: ", "wchar: "].map(|name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|figure| figure.parse().ok()).expect("a figure")
    })
}

#[test]
fn looking_at_an_interrupted_copy_costs_the_same_however_much_is_there() {
    let _alone = alone();
    let temp = TempDir::new().expect("a temporary directory");
    // But for its first byte, the stage is one hole, which reads as zeros.
    let zeros = vec![0; BLOCK_LEN as usize];
    let mut there = 0;
    let mut costs = Vec::new();
    for percent in [10, 50, 90, 99] {
        let blocks = LEN / BLOCK_LEN * percent / 100;
        let (stage, _) = open(temp.path(), Pace::default());
        stage.write_at(&[0], 0).expect("written");
        for index in there..blocks {
            stage.record(BlockHash::of(index, &zeros)).expect("recorded");
        }
        drop(stage);
        there = blocks;

        let [read, wrote] = bytes_moved();
        let begin = Instant::now();
        let (stage, found) = open(temp.path(), Pace::default());
        let took = begin.elapsed();
        let read = bytes_moved()[0] - read;
        assert_eq!(found.len() as u64, blocks, "at {percent} %");
        let journal = 256 + 32 * blocks;
        assert!(read <= BLOCK_LEN + journal + BESIDE, "{read} bytes were read at {percent} %");

        stage.record(BlockHash::of(blocks, &zeros)).expect("recorded");
        drop(stage);
        there += 1;
        let wrote = bytes_moved()[1] - wrote;
        assert!(wrote < 1024, "{wrote} bytes were written for one block at {percent} %");
        costs.push((took, wrote));
    }
    let (quickest, slowest) = (costs.iter().min(), costs.iter().max());
    let (Some((quickest, _)), Some((slowest, _))) = (quickest, slowest) else { unreachable!() };
    assert!(*slowest < *quickest * 4 + Duration::from_millis(50), "{costs:?}");
    assert!(costs.iter().all(|(_, wrote)| *wrote == costs[0].1), "{costs:?}");
}

#[test]
fn a_checkpoint_lets_memory_go_that_others_may_need() {
    let _alone = alone();
    let Some(mount) = Mount::image(FileSystem::Ext4, 200 << 20) else { return };
    let block = vec![7; BLOCK_LEN as usize];
    for (pace, stays) in [
        (Pace { blocks: 1, every: Duration::ZERO }, false),
        (Pace { blocks: u64::MAX, every: Duration::ZERO }, true),
    ] {
        let (stage, _) = open(mount.path(), pace);
        for index in 0..8 {
            stage.write_at(&block, index * BLOCK_LEN).expect("written");
            stage.record(BlockHash::of(index, &block)).expect("recorded");
        }
        let limit = Instant::now() + Duration::from_secs(if stays { 1 } else { 20 });
        // Once it is gone, a look brings it back.
        let stayed = loop {
            let is_cached = haul_sys::is_cached(stage.file(), BLOCK_LEN / 2);
            if !is_cached || Instant::now() > limit {
                break is_cached;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(stayed, stays, "{pace:?}");
        Box::new(stage).discard();
    }
}

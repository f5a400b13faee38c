//! A stage that can be continued, on a file system that loses its power, or
//! that fails to make something durable.
//!
//! This drives the store itself, at a pace of checkpoints that a short copy
//! comes to: the program's own (64 MiB and five seconds) would make each of many
//! cuts take seconds, and a switch for it would be one that no user needs. That
//! the program goes the same way is shown by `crates/cli/tests/power`, once,
//! with a file that is large enough and a slow disk.

#![cfg(target_os = "linux")]

mod claims;
mod cuts;
mod failed_sync;

use haul_model::{Attributes, BLOCK_LEN, BlockHash, Kept, Name, Timestamp};
use haul_store::{Moved, OnExisting, Pace, Publication, SourceId, Stage, StagedFile};
use haul_sys::Dir;
use haul_testkit::content::bytes;
use haul_testkit::holds_within;
use haul_testkit::power::{Disk, Names, Powered};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// Whole blocks of the file that is copied.
const BLOCKS: u64 = 4;

/// Its length: its last block is a short one.
const LEN: u64 = BLOCKS * BLOCK_LEN + 4321;

/// Bytes that are written at once.
const PART_LEN: usize = 512 << 10;

/// A checkpoint whenever there is something for it.
const QUICK: Pace = Pace { blocks: 1, every: Duration::ZERO };

/// No checkpoint at all.
const NEVER: Pace = Pace { blocks: u64::MAX, every: Duration::ZERO };

const TIME: Timestamp = Timestamp { secs: 1_600_000_000, nanos: 5 };

/// The existing entry at the destination.
const OLD: &[u8] = b"the old content";

/// The content that is copied.
fn content() -> &'static [u8] {
    static CONTENT: OnceLock<Vec<u8>> = OnceLock::new();
    CONTENT.get_or_init(|| bytes(LEN as usize, 77))
}

fn source() -> SourceId {
    SourceId { size: LEN, mtime: TIME, inode: 7, ctime: None }
}

fn big() -> Name {
    Name::new(b"big").expect("a plain name")
}

/// How far a copy got.
#[derive(Debug)]
enum Copied {
    /// It failed before anything was done to the final name.
    Staged(io::Error),
    /// It failed while the file was given its name.
    Publishing(io::Error),
    /// All was done; that many blocks were there already.
    Whole(u64),
}

/// Copies to `big` in `dir`; `recorded` is told the number of blocks on record
/// after each.
fn copy(dir: &Path, pace: Pace, recorded: &mut dyn FnMut(u64)) -> Copied {
    let staged = (|| {
        let dir = Arc::new(Dir::open(dir)?);
        let (stage, found) = Stage::resume_at(dir, &big(), &source(), pace)?;
        write_blocks(&stage, found.len() as u64, recorded)?;
        Ok((stage, found.len() as u64))
    })();
    let (stage, found) = match staged {
        Ok(staged) => staged,
        Err(error) => return Copied::Staged(error),
    };
    match publish(stage) {
        Ok(_) => Copied::Whole(found),
        Err(error) => Copied::Publishing(error),
    }
}

/// Writes all from block `first` on, and puts it on record.
fn write_blocks(stage: &Stage, first: u64, recorded: &mut dyn FnMut(u64)) -> io::Result<()> {
    for (k, block) in (0..).zip(content().chunks(BLOCK_LEN as usize)).skip(first as usize) {
        for (part, bytes) in (0..).zip(block.chunks(PART_LEN)) {
            stage.write_at(bytes, k * BLOCK_LEN + part * PART_LEN as u64)?;
        }
        if block.len() as u64 == BLOCK_LEN {
            stage.record(BlockHash::of(k, block))?;
            recorded(k + 1);
        }
    }
    Ok(())
}

fn publish(stage: Stage) -> io::Result<Publication> {
    // By the length of its file, as one that shares another's content.
    let verified = Moved::shared(Box::new(stage))?.verify_len(LEN).expect("all of it is there");
    verified
        .seal(&Attributes::new(0o640, TIME), Kept::OF_COPIES)?
        .publish(&big(), OnExisting::Replace)
}

/// A disk with an old file `big`, mounted; None where that is not allowed.
#[track_caller]
fn disk_with_old(names: Names) -> Option<(Disk, Powered)> {
    let disk = Disk::new(names);
    let mount = disk.mount()?;
    fs::write(mount.join("big"), OLD).expect("written");
    disk.sync_all();
    Some((disk, mount))
}

/// The names in `dir`, in order.
fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}

/// Waits for what another thread does, a few seconds at most: whoever needs it
/// finds out whether it has come.
fn wait_until(done: impl Fn() -> bool) {
    holds_within(Duration::from_secs(5), done);
}

/// Copies without any fault, and checks that all is well.
#[track_caller]
fn finish(dir: &Path, hint: &str) -> u64 {
    let found = match copy(dir, QUICK, &mut |_| {}) {
        Copied::Whole(found) => found,
        Copied::Staged(error) | Copied::Publishing(error) => panic!("{error}: {hint}"),
    };
    assert!(fs::read(dir.join("big")).expect("read") == content(), "the copy differs: {hint}");
    assert_eq!(names_in(dir), ["big"], "something is left: {hint}");
    found
}

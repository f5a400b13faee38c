//! The parts of a safe copy, one at a time, for the benchmarks: each
//! run does one thing once and prints the seconds that it took.
//!
//! ```text
//! parts hashed|plain SOURCE DEST          copies by parts, with or without hashing
//! parts staged SOURCE DIR EVERY MIB       copies with a journal and checkpoints every so
//!                                         many MiB, "default" or "never"; SOURCE again
//!                                         and again until there are MIB
//! parts left DIR MIB                      leaves an interrupted copy of that size
//! parts check|rehash DIR MIB              looks at it as a resumed copy does, or at all of it
//! parts synced SOURCE DIR                 copies a tree of files with one fsync for each
//! parts clone SOURCE DEST                 shares the content
//! parts range|hand SOURCE DEST MIB        copies what is behind that offset
//! ```

use haul_model::{Attributes, BLOCK_LEN, BlockHash, BlockHasher, Kept, Name, Timestamp};
use haul_store::{Moved, OnExisting, Pace, SourceId, Stage, StagedFile, Written};
use haul_sys::Dir;
use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that are read, hashed and written at once, as in a copy.
const PART_LEN: usize = 512 << 10;

const TIME: Timestamp = Timestamp { secs: 1_000_000_000, nanos: 0 };

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let took = match words[..] {
        ["hashed", source, dest] => by_parts(source, dest, true)?,
        ["plain", source, dest] => by_parts(source, dest, false)?,
        ["staged", source, dir, pace, mib] => staged(source, dir, pace, mib.parse()?)?,
        ["left", dir, mib] => left(dir, mib.parse()?)?,
        ["check", dir, mib] => check(dir, mib.parse()?)?,
        ["rehash", dir, mib] => rehash(dir, mib.parse()?)?,
        ["synced", source, dir] => synced(source, dir)?,
        ["clone", source, dest] => cloned(source, dest)?,
        ["range", source, dest, mib] => moved(true, source, dest, mib.parse()?)?,
        ["hand", source, dest, mib] => moved(false, source, dest, mib.parse()?)?,
        _ => return Err("see the comment in front of the source".into()),
    };
    println!("{}", took.as_secs_f64());
    Ok(())
}

fn by_parts(source: &str, dest: &str, hashed: bool) -> io::Result<Duration> {
    let begin = Instant::now();
    let (source, dest) = (File::open(source)?, File::create(dest)?);
    let mut buffer = vec![0; PART_LEN];
    for index in 0.. {
        let mut hasher = BlockHasher::new(index);
        for at in (index * BLOCK_LEN..(index + 1) * BLOCK_LEN).step_by(PART_LEN) {
            let len = source.read_at(&mut buffer, at)?;
            if len == 0 {
                return Ok(begin.elapsed());
            }
            if hashed {
                hasher.update(&buffer[..len]);
            }
            dest.write_all_at(&buffer[..len], at)?;
        }
        if hashed {
            std::hint::black_box(hasher.finish());
        }
    }
    Ok(begin.elapsed())
}

fn source_id(len: u64) -> SourceId {
    SourceId { size: len, mtime: TIME, inode: 1, ctime: None }
}

fn name() -> Name {
    Name::new(b"content").expect("a plain name")
}

fn staged(source: &str, dir: &str, pace: &str, mib: u64) -> Result<Duration, Box<dyn Error>> {
    let pace = match pace {
        "default" => Pace::default(),
        "never" => Pace { blocks: u64::MAX, every: Duration::MAX },
        mib => Pace { blocks: mib.parse::<u64>()? << 20 >> 22, every: Duration::ZERO },
    };
    let source = File::open(source)?;
    let len = mib << 20;
    let dir = Arc::new(Dir::open(Path::new(dir))?);
    let begin = Instant::now();
    let (stage, _) = Stage::resume_at(dir, &name(), &source_id(len), pace)?;
    fill(&stage, &source, len)?;
    let verified = Moved::shared(Box::new(stage))?.verify_len(len).map_err(|(_, error)| error)?;
    verified
        .seal(&Attributes::new(0o644, TIME), Kept::OF_COPIES)?
        .publish(&name(), OnExisting::Keep)?;
    Ok(begin.elapsed())
}

fn fill(stage: &Stage, source: &File, len: u64) -> io::Result<()> {
    let mut buffer = vec![0; PART_LEN];
    let cycle = Some(source.metadata()?.len()).filter(|len| *len > 0).unwrap_or(u64::MAX);
    for index in 0..len / BLOCK_LEN {
        let mut hasher = BlockHasher::new(index);
        for at in (index * BLOCK_LEN..(index + 1) * BLOCK_LEN).step_by(PART_LEN) {
            source.read_exact_at(&mut buffer, at % cycle)?;
            hasher.update(&buffer);
            stage.write_at(&buffer, at)?;
        }
        stage.record(hasher.finish())?;
    }
    Ok(())
}

/// Whole blocks of `mib`, of a source that is one longer.
fn interrupted(dir: &str, mib: u64) -> io::Result<(Stage, Vec<BlockHash>)> {
    let source = source_id((mib << 20) + BLOCK_LEN);
    Stage::resume(Arc::new(Dir::open(Path::new(dir))?), &name(), &source)
}

fn left(dir: &str, mib: u64) -> io::Result<Duration> {
    let begin = Instant::now();
    let (stage, _) = interrupted(dir, mib)?;
    fill(&stage, &File::open("/dev/zero")?, mib << 20)?;
    drop(stage);
    Ok(begin.elapsed())
}

fn check(dir: &str, mib: u64) -> Result<Duration, Box<dyn Error>> {
    let begin = Instant::now();
    let (stage, blocks) = interrupted(dir, mib)?;
    let took = begin.elapsed();
    if blocks.len() as u64 * BLOCK_LEN != mib << 20 {
        return Err("not all of it was believed".into());
    }
    drop(stage);
    Ok(took)
}

fn rehash(dir: &str, mib: u64) -> Result<Duration, Box<dyn Error>> {
    let (stage, blocks) = interrupted(dir, mib)?;
    let begin = Instant::now();
    let mut block = vec![0; BLOCK_LEN as usize];
    for (index, hash) in (0..).zip(&blocks) {
        stage.file().read_exact_at(&mut block, index * BLOCK_LEN)?;
        if BlockHash::of(index, &block) != *hash {
            return Err("a block is damaged".into());
        }
    }
    Ok(begin.elapsed())
}

fn synced(source: &str, dir: &str) -> Result<Duration, Box<dyn Error>> {
    let begin = Instant::now();
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        let into = Path::new(dir).join(entry.file_name());
        fs::create_dir(&into)?;
        let into = Arc::new(Dir::open(&into)?);
        for file in fs::read_dir(entry.path())? {
            let file = file?;
            let content = fs::read(file.path())?;
            let stage = Stage::create(Arc::clone(&into))?;
            let written = Written::of(Box::new(stage), &content)?;
            let verified = written.verify_len(content.len() as u64).map_err(|(_, error)| error)?;
            let mut sealed = verified.seal(&Attributes::new(0o644, TIME), Kept::OF_COPIES)?;
            sealed.sync()?;
            let name = Name::new(std::os::unix::ffi::OsStrExt::as_bytes(&*file.file_name()))?;
            sealed.publish(&name, OnExisting::Keep)?;
        }
        into.sync()?;
    }
    Dir::open(Path::new(dir))?.sync()?;
    Ok(begin.elapsed())
}

fn cloned(source: &str, dest: &str) -> Result<Duration, Box<dyn Error>> {
    let (source, dest) = (File::open(source)?, File::create(dest)?);
    let begin = Instant::now();
    let cloned = haul_sys::clone_file(&source, &dest);
    cloned.then(|| begin.elapsed()).ok_or_else(|| "the file system shares no content".into())
}

fn moved(in_kernel: bool, source: &str, dest: &str, mib: u64) -> Result<Duration, Box<dyn Error>> {
    let (source, dest) = (File::open(source)?, File::create(dest)?);
    let len = source.metadata()?.len();
    let mut at = mib << 20;
    let mut buffer = vec![0; PART_LEN];
    let begin = Instant::now();
    while at < len {
        at += if in_kernel {
            let copied = haul_sys::copy_range(&source, &dest, at, 16 << 20);
            copied.ok_or("the kernel does not copy there")? as u64
        } else {
            let read = source.read_at(&mut buffer, at)?;
            dest.write_all_at(&buffer[..read], at)?;
            read as u64
        };
    }
    Ok(begin.elapsed())
}

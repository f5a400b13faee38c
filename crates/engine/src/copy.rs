//! Moving a file's content between two open files: inside the kernel where that
//! is possible, else by reading and writing. Holes stay holes.

mod blocks;
mod read_back;

pub(crate) use blocks::blocks;
pub(crate) use read_back::read_back;

use crate::control::Control;
use haul_model::{ContentHasher, Fault, FaultKind, Side};
use haul_tree::{ContentStream, NotMoved, SourceFile, StagedFile, changed, check_size};
use std::io;
use std::ops::Range;

/// Files up to this size, in bytes, are read and written in one go: for them
/// two calls with a warm buffer are cheaper than asking the kernel how.
pub(crate) const WHOLE_MAX: u64 = 1 << 20;

/// Bytes that the kernel is asked to move in one call: enough to make the call
/// itself free, little enough to show progress and to stop quickly.
const RANGE_LEN: u64 = 16 << 20;

/// Bytes that are read, hashed and written in one go within a block. Less is
/// hashed faster, but a medium that is written to at once takes it more slowly.
const PART_LEN: usize = 512 << 10;

/// Bytes that go through one thread in one go between a file and a connection:
/// they stay in the cache that is nearest to the processor.
pub(crate) const STEP_LEN: usize = 128 << 10;

/// Bytes of a hole that are hashed between two looks at whether the job goes on.
const HOLE_STEP_LEN: u64 = 64 << 20;

/// How far a copy has come since it told the last step, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// So much content was moved.
    Moved(u64),
    /// A hole of this length was passed: it is done, and nothing was moved.
    Passed(u64),
}

impl Step {
    /// Its length in bytes.
    pub(crate) fn len(self) -> u64 {
        match self {
            Self::Moved(len) | Self::Passed(len) => len,
        }
    }
}

/// A worker's buffer, kept from file to file.
#[derive(Default)]
pub(crate) struct Scratch(Vec<u8>);

impl Scratch {
    fn buffer(&mut self, len: usize) -> &mut [u8] {
        if self.0.len() < len {
            self.0.resize(len, 0);
        }
        &mut self.0[..len]
    }
}

/// Copies all of `source` into the empty `stage`, and hashes it if `hasher` is
/// given; tells `told` each step. Returns the length of what was copied, holes
/// included.
///
/// # Errors
/// What could not be read or written, by side.
pub(crate) fn content(
    source: &dyn SourceFile,
    stage: &dyn StagedFile,
    scratch: &mut Scratch,
    mut hasher: Option<&mut ContentHasher>,
    control: &Control<'_>,
    told: &mut dyn FnMut(Step),
) -> Result<u64, Fault> {
    let size = source.seal().size;
    if size == 0 {
        check_size(source)?;
        return Ok(0);
    }
    if let Some(stream) = source.stream(0..size) {
        let each = |bytes: &[u8]| {
            if let Some(hasher) = &mut hasher {
                hasher.update(bytes);
            }
            told(Step::Moved(bytes.len() as u64));
            Ok(())
        };
        streamed(stream, 0..size, stage, control, each)?;
        return Ok(size);
    }
    let files = source.handle().zip(stage.handle());
    // What nobody has to look at need not come into this process.
    let mut in_kernel = size > WHOLE_MAX && hasher.is_none();
    let mut at = 0;
    while let Some(data) = source.next_data(at).map_err(|error| read(&error))? {
        pass_hole(at..data.start, hasher.as_deref_mut(), control, told)?;
        at = data.start;
        while at < data.end {
            if control.stopped() {
                return Err(interrupted());
            }
            let copied = match files {
                Some((from, to)) if in_kernel => {
                    let len = (data.end - at).min(RANGE_LEN) as usize;
                    match haul_sys::copy_range(from, to, at, len) {
                        Some(copied) => copied as u64,
                        None => {
                            in_kernel = false;
                            continue;
                        }
                    }
                }
                _ => by_hand(source, stage, scratch, hasher.as_deref_mut(), at, data.end)?,
            };
            if copied == 0 {
                // The file ends before it should.
                return Err(changed());
            }
            at += copied;
            told(Step::Moved(copied));
        }
    }
    if at < size {
        stage.set_len(size).map_err(|error| write(&error))?;
        pass_hole(at..size, hasher, control, told)?;
    }
    Ok(size)
}

/// Passes `hole`, of which nothing has to be written, and hashes it if `hasher`
/// is given.
fn pass_hole(
    hole: Range<u64>,
    hasher: Option<&mut ContentHasher>,
    control: &Control<'_>,
    told: &mut dyn FnMut(Step),
) -> Result<(), Fault> {
    match hasher {
        Some(hasher) => {
            let mut passed = |len| told(Step::Passed(len));
            hash_hole(hasher, hole.end, control, &mut passed).ok_or_else(interrupted)
        }
        None => {
            told(Step::Passed(hole.end.saturating_sub(hole.start)));
            Ok(())
        }
    }
}

/// Copies `range` of a source as it arrives, and tells `each` every piece once it
/// is written.
fn streamed(
    mut stream: Box<dyn ContentStream + '_>,
    range: Range<u64>,
    stage: &dyn StagedFile,
    control: &Control<'_>,
    mut each: impl FnMut(&[u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut at = range.start;
    while at < range.end {
        if control.stopped() {
            return Err(interrupted());
        }
        let Some(piece) = stream.next().map_err(|error| read(&error))? else {
            return Err(changed());
        };
        stage.write_at(&piece, at).map_err(|error| write(&error))?;
        at += piece.len() as u64;
        each(&piece)?;
    }
    Ok(())
}

/// Hashes a hole up to `end`, and tells `passed` the length of each part of it;
/// `None` if the job ends before. A hole can be so large that it takes hours.
pub(crate) fn hash_hole(
    hasher: &mut ContentHasher,
    end: u64,
    control: &Control<'_>,
    passed: &mut dyn FnMut(u64),
) -> Option<()> {
    while hasher.len() < end {
        if control.stopped() {
            return None;
        }
        let len = (end - hasher.len()).min(HOLE_STEP_LEN);
        hasher.update_zeros(len);
        passed(len);
    }
    Some(())
}

pub(crate) fn interrupted() -> Fault {
    Fault::new(Side::Source, FaultKind::Io, "interrupted")
}

/// Reads and writes a part of `start..end`, and hashes it if `hasher` is given;
/// returns its length.
fn by_hand(
    source: &dyn SourceFile,
    stage: &dyn StagedFile,
    scratch: &mut Scratch,
    hasher: Option<&mut ContentHasher>,
    start: u64,
    end: u64,
) -> Result<u64, Fault> {
    let end = end.min(start + WHOLE_MAX);
    if hasher.is_none()
        && let Some(handed) = source.handle().and_then(|file| stage.write_from(file, start..end))
    {
        return handed.map(|()| end - start).map_err(|error| not_moved(&error));
    }
    let buffer = scratch.buffer((end - start) as usize);
    let len = source.read_at(buffer, start).map_err(|error| read(&error))?;
    stage.write_at(&buffer[..len], start).map_err(|error| write(&error))?;
    if let Some(hasher) = hasher {
        hasher.update(&buffer[..len]);
    }
    Ok(len as u64)
}

fn not_moved(error: &NotMoved) -> Fault {
    match error {
        NotMoved::Read(error) if error.kind() == io::ErrorKind::UnexpectedEof => changed(),
        NotMoved::Read(error) => read(error),
        NotMoved::Written(error) => write(error),
    }
}

fn read(error: &io::Error) -> Fault {
    Fault::from_io(Side::Source, "read", error)
}

fn write(error: &io::Error) -> Fault {
    Fault::from_io(Side::Destination, "write", error)
}

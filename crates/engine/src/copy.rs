//! Copies a file's content between two open files, in the kernel if possible, otherwise by reading
//! and writing. Holes are preserved.

mod blocks;
mod read_back;

pub(crate) use blocks::{AHEAD_MAX, Blocks, assembler, blocks, hashed};
pub(crate) use read_back::{Aligned, read_back};

use crate::control::{Control, CopyStep};
use haul_model::{ContentHasher, Fault, FaultKind, Side};
use haul_store::{AssembleError, Mover};
use haul_tree::{ContentStream, SourceFile, StagedFile, changed, check_size};
use std::io;

/// Files up to this size, in bytes, are read and written at once, unless the kernel copies them
/// faster (`StagedFile::copies_small_files`).
pub(crate) const WHOLE_MAX: u64 = 1 << 20;

/// Bytes that the kernel copies per call: enough to make the call's overhead negligible, little
/// enough to show progress and to stop quickly.
const RANGE_LEN: u64 = 16 << 20;

/// Bytes that are read, hashed and written at once within a block. Smaller parts are hashed faster,
/// but written more slowly to a medium without caching.
const PART_LEN: usize = 512 << 10;

/// Bytes that one thread passes between a file and a connection at once: they stay in the
/// processor's nearest cache.
pub(crate) const STEP_LEN: usize = 128 << 10;

/// Bytes of a hole that are hashed between two checks that the job continues.
const HOLE_STEP_LEN: u64 = 64 << 20;

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

/// Copies all of `source`, without hashing.
///
/// # Errors
/// The fault of the side that could not be read or written.
pub(crate) fn content(
    source: &dyn SourceFile,
    into: &mut Mover,
    scratch: &mut Scratch,
    control: &Control<'_>,
    on_step: &mut dyn FnMut(CopyStep),
) -> Result<(), Fault> {
    let size = source.seal().size;
    if size == 0 {
        return check_size(source);
    }
    if let Some(stream) = source.stream(0..size) {
        return streamed(stream, size, control, |piece, _| {
            into.write(piece).map_err(|error| write(&error))?;
            on_step(CopyStep::Moved(piece.len() as u64));
            Ok(())
        });
    }
    // Content that is not inspected need not enter this process.
    let writes_sparse = into.stage().writes_sparse();
    let mut in_kernel = !writes_sparse && (size > WHOLE_MAX || into.stage().copies_small_files());
    while let Some(data) = source.next_data(into.at()).map_err(|error| read(&error))? {
        skip_hole(into, data.start, on_step);
        while into.at() < data.end {
            if control.stopped() {
                return Err(interrupted());
            }
            let end = data.end.min(into.at().saturating_add(control.part()));
            let mut copied = None;
            if in_kernel {
                copied = into.put(|stage, at| move_range(source, stage, at, end).ok_or(())).ok();
                in_kernel = copied.is_some();
            }
            let copied = match copied {
                Some(copied) => copied,
                None if writes_sparse => {
                    let read = read_part(source, scratch, into.at(), end)?;
                    into.write(read).map_err(|error| write(&error))?;
                    read.len() as u64
                }
                None => into.put(|stage, at| read_and_write(source, stage, scratch, at, end))?,
            };
            if copied == 0 {
                // The file ended too early.
                return Err(changed());
            }
            on_step(CopyStep::Moved(copied));
        }
    }
    skip_hole(into, size, on_step);
    Ok(())
}

/// Skips a hole up to `end`. Nothing has to be written.
fn skip_hole(into: &mut Mover, end: u64, on_step: &mut dyn FnMut(CopyStep)) {
    let hole = end.saturating_sub(into.at());
    into.skip_hole(hole);
    on_step(CopyStep::Passed(hole));
}

/// Lets the kernel copy a part of `start..end`. Returns its length; `None` if the kernel can't.
fn move_range(
    source: &dyn SourceFile,
    stage: &dyn StagedFile,
    start: u64,
    end: u64,
) -> Option<u64> {
    let len = (end - start).min(RANGE_LEN) as usize;
    Some(haul_sys::copy_range(source.handle()?, stage.handle()?, start, len)? as u64)
}

/// Passes the pieces of a source up to its end to `each`, with the number of bytes still to come.
fn streamed(
    mut stream: Box<dyn ContentStream + '_>,
    mut left: u64,
    control: &Control<'_>,
    mut each: impl FnMut(&[u8], u64) -> Result<(), Fault>,
) -> Result<(), Fault> {
    while left > 0 {
        if control.stopped() {
            return Err(interrupted());
        }
        let Some(piece) = stream.next().map_err(|error| read(&error))? else {
            return Err(changed());
        };
        each(&piece, left)?;
        left = left.saturating_sub(piece.len() as u64);
    }
    Ok(())
}

/// Hashes a hole up to `end`, and calls `passed` with the length of each part. `None` if the job
/// ends first. A huge hole can take hours.
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

/// Reads and writes a part of `start..end`. Returns its length.
fn read_and_write(
    source: &dyn SourceFile,
    stage: &dyn StagedFile,
    scratch: &mut Scratch,
    start: u64,
    end: u64,
) -> Result<u64, Fault> {
    let end = end.min(start + WHOLE_MAX);
    if let Some(handed) = source.handle().and_then(|file| stage.write_from(file, start..end)) {
        return Ok(handed.map(|()| end - start)?);
    }
    let read = read_part(source, scratch, start, end)?;
    stage.write_at(read, start).map_err(|error| write(&error))?;
    Ok(read.len() as u64)
}

/// Reads the beginning of `start..end`, at most [`WHOLE_MAX`] bytes.
fn read_part<'s>(
    source: &dyn SourceFile,
    scratch: &'s mut Scratch,
    start: u64,
    end: u64,
) -> Result<&'s [u8], Fault> {
    let buffer = scratch.buffer((end - start).min(WHOLE_MAX) as usize);
    let len = source.read_at(buffer, start).map_err(|error| read(&error))?;
    Ok(&buffer[..len])
}

/// The fault of a content that could not be assembled.
pub(crate) fn not_assembled(error: &AssembleError) -> Fault {
    let corrupt = |side| Fault::new(side, FaultKind::Corrupt, error.to_string());
    match error {
        AssembleError::Write(error) => write(error),
        AssembleError::Record(error) => {
            Fault::from_io(Side::Destination, "write the journal", error)
        }
        AssembleError::Differs => corrupt(Side::Destination),
        _ => corrupt(Side::Source),
    }
}

fn read(error: &io::Error) -> Fault {
    Fault::from_io(Side::Source, "read", error)
}

fn write(error: &io::Error) -> Fault {
    Fault::from_io(Side::Destination, "write", error)
}

//! Moving a file's content between two open files: shared by the file system
//! where it can, moved inside the kernel where that is possible, else read and
//! written. Holes stay holes.

use crate::control::Control;
use crate::receiver::changed;
use crate::tree::{SourceFile, StagedFile};
use haul_model::{Fault, FaultKind, Side};
use std::io;

/// Files up to this size, in bytes, are read and written in one go: for them
/// two calls with a warm buffer are cheaper than asking the kernel how.
const WHOLE_MAX: u64 = 1 << 20;

/// Bytes that the kernel is asked to move in one call: enough to make the call
/// itself free, little enough to show progress and to stop quickly.
const RANGE_LEN: u64 = 16 << 20;

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

/// Copies all of `source` into the empty `stage`; tells `moved` each part's
/// length. Returns the length of what was copied, holes included.
///
/// # Errors
/// What could not be read or written, by side.
pub(crate) fn content(
    source: &dyn SourceFile,
    stage: &dyn StagedFile,
    scratch: &mut Scratch,
    control: &Control<'_>,
    moved: &mut dyn FnMut(u64),
) -> Result<u64, Fault> {
    let size = source.seal().size;
    if size == 0 {
        check_size(source)?;
        return Ok(0);
    }
    let files = source.local().zip(stage.local());
    if size > WHOLE_MAX && files.is_some_and(|(from, to)| haul_sys::clone_file(from, to)) {
        moved(size);
        return Ok(size);
    }
    let mut at = 0;
    let mut in_kernel = size > WHOLE_MAX;
    while let Some(data) = source.next_data(at).map_err(|error| read(&error))? {
        at = data.start;
        while at < data.end {
            if control.stopped() {
                return Err(Fault::new(Side::Source, FaultKind::Io, "interrupted"));
            }
            let copied = match files {
                Some((from, to)) if in_kernel => {
                    let len = (data.end - at).min(RANGE_LEN) as usize;
                    let copied = haul_sys::copy_range(from, to, at, len);
                    match copied
                        .map_err(|error| Fault::from_io(Side::Destination, "copy", &error))?
                    {
                        Some(copied) => copied as u64,
                        None => {
                            in_kernel = false;
                            continue;
                        }
                    }
                }
                _ => by_hand(source, stage, scratch, at, data.end)?,
            };
            if copied == 0 {
                // The file ends before it should.
                return Err(changed());
            }
            at += copied;
            moved(copied);
        }
    }
    if at < size {
        stage.set_len(size).map_err(|error| write(&error))?;
    }
    Ok(size)
}

/// A file whose size is 0 is empty.
///
/// # Errors
/// If it isn't: its content can't be copied as a whole, and must not be passed
/// off as nothing.
pub(crate) fn check_size(source: &dyn SourceFile) -> Result<(), Fault> {
    match source.has_no_size() {
        Ok(false) => Ok(()),
        Ok(true) => Err(Fault::new(
            Side::Source,
            FaultKind::Special,
            "its size is not known before it is read, as in /proc; it is not copied",
        )),
        Err(error) => Err(read(&error)),
    }
}

/// Reads and writes a part of `start..end`; returns its length.
fn by_hand(
    source: &dyn SourceFile,
    stage: &dyn StagedFile,
    scratch: &mut Scratch,
    start: u64,
    end: u64,
) -> Result<u64, Fault> {
    let buffer = scratch.buffer((end - start).min(WHOLE_MAX) as usize);
    let len = source.read_at(buffer, start).map_err(|error| read(&error))?;
    stage.write_at(&buffer[..len], start).map_err(|error| write(&error))?;
    Ok(len as u64)
}

fn read(error: &io::Error) -> Fault {
    Fault::from_io(Side::Source, "read", error)
}

fn write(error: &io::Error) -> Fault {
    Fault::from_io(Side::Destination, "write", error)
}

//! The hash of a whole file as it stands, for comparing it with another: read
//! in order, holes left out of reading.

use crate::control::{Control, Step};
use crate::copy;
use haul_model::{ContentHasher, Fault, FaultKind, Side};
use haul_proto::FileSeal;
use haul_tree::SourceFile;

/// Bytes that are read at once.
const READ_LEN: u64 = 1 << 20;

/// Hashes `file`; `scratch` is a buffer that is kept from file to file. Each step is told
/// to `count`.
///
/// # Errors
/// When it can't be read, or changes meanwhile; the side is `Source`.
pub(crate) fn seal_of(
    file: &dyn SourceFile,
    scratch: &mut Vec<u8>,
    control: &Control<'_>,
    count: &mut dyn FnMut(Step),
) -> Result<FileSeal, Fault> {
    let read = |error| Fault::from_io(Side::Source, "read", &error);
    let seal = file.seal();
    let len = READ_LEN.min(seal.size) as usize;
    if scratch.len() < len {
        scratch.resize(len, 0);
    }
    let mut hasher = ContentHasher::new();
    if let Some(mut stream) = file.stream(0..seal.size) {
        while let Some(piece) = stream.next().map_err(read)? {
            if control.stopped() {
                return Err(copy::interrupted());
            }
            hasher.update(&piece);
            count(Step::Hashed(piece.len() as u64));
        }
        if hasher.len() < seal.size {
            return Err(changed());
        }
    }
    while hasher.len() < seal.size {
        let data = file.next_data(hasher.len()).map_err(read)?;
        let data = data.unwrap_or(seal.size..seal.size);
        let hashed =
            copy::hash_hole(&mut hasher, data.start, control, &mut |len| count(Step::Passed(len)));
        hashed.ok_or_else(copy::interrupted)?;
        while hasher.len() < data.end {
            if control.stopped() {
                return Err(copy::interrupted());
            }
            let at = hasher.len();
            let part = &mut scratch[..(data.end - at).min(READ_LEN) as usize];
            if file.read_at(part, at).map_err(read)? < part.len() {
                return Err(changed());
            }
            hasher.update(part);
            count(Step::Hashed(part.len() as u64));
        }
    }
    let now = file.seal_now();
    let now = now.map_err(|error| Fault::from_io(Side::Source, "look at it again", &error))?;
    if now != seal {
        return Err(changed());
    }
    Ok(FileSeal { size: seal.size, mtime: seal.mtime, hash: hasher.finish() })
}

/// The fault of a file that is not what it was a moment ago.
pub(crate) fn changed() -> Fault {
    Fault::new(Side::Source, FaultKind::Changed, "it changed while it was compared")
}

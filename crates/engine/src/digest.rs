//! The hash of a file, to compare it with another or with its copy. The file is read in order,
//! without its holes.

use crate::control::{Control, CopyStep};
use crate::copy;
use haul_model::{ContentHash, ContentHasher, Fault, FaultKind, Side};
use haul_proto::FileSeal;
use haul_tree::{SourceChange, SourceFile, StagedFile, change_since_opened};

/// The most bytes per read.
const READ_LEN: u64 = 1 << 20;

/// Hashes `file`. `scratch` is a reusable buffer. `count` is called with each step.
///
/// # Errors
/// When the file can't be read, or changes meanwhile. The side is `Source`.
pub(crate) fn seal_of(
    file: &dyn SourceFile,
    scratch: &mut Vec<u8>,
    control: &Control<'_>,
    count: &mut dyn FnMut(CopyStep),
) -> Result<FileSeal, Fault> {
    let seal = file.seal();
    let hash = hash(file, scratch, control, count).map_err(|fault| match fault.kind {
        FaultKind::Changed => changed(),
        _ => fault,
    })?;
    match change_since_opened(file) {
        Ok(SourceChange::None) => {}
        Ok(SourceChange::Uncertain) if hash_again(file, control)? == hash => {}
        Err(fault) if fault.kind != FaultKind::Changed => return Err(fault),
        _ => return Err(changed()),
    }
    Ok(FileSeal { size: seal.size, mtime: seal.mtime, hash: Some(hash), grew: false })
}

/// True if `source` has only grown since it was opened: it is longer, and starts with the copied
/// content. `copied` returns the hash of that, if it can be known. So the copy is a state that the
/// source once had. With `strict`, growing counts as a change. A file whose size and time may hide
/// a change is checked in the same way.
///
/// # Errors
/// [`FaultKind::Changed`] if it changed otherwise, or if that is unknown; the fault of the side
/// that can't be read.
pub(crate) fn has_grown(
    source: &dyn SourceFile,
    strict: bool,
    copied: impl FnOnce() -> Result<Option<ContentHash>, Fault>,
    control: &Control<'_>,
) -> Result<bool, Fault> {
    let change = change_since_opened(source)?;
    if change == SourceChange::None {
        return Ok(false);
    }
    let has_grown = change == SourceChange::Grown;
    let copied = if strict && has_grown { None } else { copied()? };
    match copied {
        Some(copied) if copied == hash_again(source, control)? => Ok(has_grown),
        _ => Err(haul_tree::changed()),
    }
}

/// The hash of the content written to `stage`, read back if that needs no round trips.
///
/// # Errors
/// When it can't be read.
pub(crate) fn hash_of_stage(
    stage: &dyn StagedFile,
    control: &Control<'_>,
) -> Result<Option<ContentHash>, Fault> {
    let failed = |error| Fault::from_io(Side::Destination, "read what was written", &error);
    let Some(written) = haul_tree::written(stage).map_err(failed)? else { return Ok(None) };
    let hash = hash_again(&*written, control);
    hash.map(Some).map_err(|fault| Fault { side: Side::Destination, ..fault })
}

/// The hash of `file` up to its length when it was opened, without counting progress.
///
/// # Errors
/// When it can't be read, or was truncated. The side is `Source`.
pub(crate) fn hash_again(
    file: &dyn SourceFile,
    control: &Control<'_>,
) -> Result<ContentHash, Fault> {
    hash(file, &mut Vec::new(), control, &mut |_| ())
}

/// Like [`hash_again`], with `count` called for each step.
///
/// # Errors
/// See [`hash_again`].
pub(crate) fn hash(
    file: &dyn SourceFile,
    scratch: &mut Vec<u8>,
    control: &Control<'_>,
    count: &mut dyn FnMut(CopyStep),
) -> Result<ContentHash, Fault> {
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
            count(CopyStep::Hashed(piece.len() as u64));
        }
        if hasher.len() < seal.size {
            return Err(haul_tree::changed());
        }
    }
    while hasher.len() < seal.size {
        let data = file.next_data(hasher.len()).map_err(read)?;
        let data = data.unwrap_or(seal.size..seal.size);
        let hashed = copy::hash_hole(&mut hasher, data.start, control, &mut |len| {
            count(CopyStep::Passed(len))
        });
        hashed.ok_or_else(copy::interrupted)?;
        while hasher.len() < data.end {
            if control.stopped() {
                return Err(copy::interrupted());
            }
            let at = hasher.len();
            let part = &mut scratch[..(data.end - at).min(READ_LEN) as usize];
            if file.read_at(part, at).map_err(read)? < part.len() {
                return Err(haul_tree::changed());
            }
            hasher.update(part);
            count(CopyStep::Hashed(part.len() as u64));
        }
    }
    Ok(hasher.finish())
}

/// The fault of a file that changed while it was hashed.
pub(crate) fn changed() -> Fault {
    Fault::new(Side::Source, FaultKind::Changed, "it changed while it was compared")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;
    use haul_model::Name;
    use haul_tree::{LocalTree, Tree};
    use std::fs::{self, File, Permissions};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_change_whose_time_was_set_back_is_found() {
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join("file");
        fs::write(&path, "one").expect("written");
        let dir = LocalTree::PLAIN.open(temp.path().as_os_str().as_bytes()).expect("opened");
        let file = dir.open_file(&Name::new(b"file").expect("a name"), false).expect("opened");
        let (silent, time) = (Silent::default(), file.seal());
        let control = Control::new(&silent);
        let check = |strict| {
            let copied = || Ok(Some(ContentHash::of(b"one")));
            has_grown(&*file, strict, copied, &control).map_err(|fault| fault.kind)
        };
        assert_eq!(check(true), Ok(false));
        // More than a tick of the clock of the file system.
        thread::sleep(Duration::from_millis(20));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("set");
        assert_eq!((check(false), check(true)), (Ok(false), Ok(false)));
        let before = fs::metadata(&path).and_then(|meta| meta.modified()).expect("a time");
        fs::write(&path, "two").expect("written");
        File::open(&path).and_then(|file| file.set_modified(before)).expect("set back");
        assert_eq!(file.seal_now().expect("read"), (time, true));
        assert_eq!(check(false), Err(FaultKind::Changed));
    }
}

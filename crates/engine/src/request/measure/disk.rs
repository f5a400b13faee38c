//! Measures the disk of a directory on this machine, with an unnamed or private file that is
//! removed afterwards.

use super::flow::noise;
use crate::copy::Aligned;
use haul_model::{Fault, FaultKind, Side};
use haul_proto::{Amount, DISK_BYTES_MAX, MEASURE_MILLIS_MAX};
use haul_sys::Dir;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that are written or read at once.
const STEP_LEN: usize = 4 << 20;

/// Bytes that are flushed first, to estimate how much can be written in the time.
const FIRST_LEN: u64 = 2 * STEP_LEN as u64;

/// The used share of the free space is at most one part in this many: others may need space
/// meanwhile.
const OF_FREE: u64 = 8;

/// Writes to the disk of the directory at `path`, flushes, and reads the data back. Each takes at
/// most `millis` milliseconds and `bytes` bytes, within the bounds of the protocol. The file is
/// removed.
///
/// # Errors
/// When nothing, or hardly anything, can be written there.
pub(super) fn disk(path: &[u8], bytes: u64, millis: u32) -> Result<(Amount, Amount), Fault> {
    let failed = |action| move |e: io::Error| Fault::from_io(Side::Destination, action, &e);
    let path = if path.is_empty() { b"." } else { path };
    let dir = Dir::open_raw(path).map_err(failed("open the directory"))?;
    let free_space =
        haul_sys::free_space(&dir).map_or(u64::MAX, |free_space| free_space.bytes / OF_FREE);
    if free_space < FIRST_LEN {
        let message = "not enough free space to measure it";
        return Err(Fault::new(Side::Destination, FaultKind::NoSpace, message));
    }
    let bytes = bytes.min(DISK_BYTES_MAX).min(free_space);
    let time = Duration::from_millis(millis.min(MEASURE_MILLIS_MAX).into());
    haul_store::with_temporary_file(&Arc::new(dir), |file| {
        let written = write(file, bytes, time)?;
        Ok((written, read(file, written.bytes, time)?))
    })
    .map_err(failed("write there"))
}

/// Writes and flushes about as many bytes as take `time`, at most `bytes`.
fn write(file: &File, bytes: u64, time: Duration) -> io::Result<Amount> {
    // Incompressible data, for file systems that compress.
    let noise = noise(STEP_LEN);
    let begun = Instant::now();
    let mut written = 0;
    let mut until = bytes.min(FIRST_LEN);
    loop {
        while written < until {
            haul_sys::write_out_at(file, &noise, written)?;
            written += noise.len() as u64;
        }
        file.sync_data()?;
        let took = begun.elapsed();
        let left = time.saturating_sub(took);
        let further = written as f64 * left.as_secs_f64() / took.as_secs_f64();
        let next = bytes.min(written.saturating_add(further as u64));
        if next < written + STEP_LEN as u64 {
            return Ok(amount(written, took));
        }
        until = next;
    }
}

/// Reads the first `bytes`, or as many as take `time`, past the page cache if possible.
fn read(file: &File, bytes: u64, time: Duration) -> io::Result<Amount> {
    haul_sys::drop_cached(file, 0..0);
    haul_sys::read_directly(file);
    let mut buffer = Aligned::new(STEP_LEN);
    let begun = Instant::now();
    let mut done = 0;
    while done < bytes && begun.elapsed() < time {
        match file.read_at(buffer.bytes(), done) {
            Ok(0) => break,
            Ok(len) => done += len as u64,
            // The file system does not support direct reads, although it accepted the flag.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput && done == 0 => {
                haul_sys::read_cached(file);
                done += file.read_at(buffer.bytes(), done)? as u64;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(amount(done, begun.elapsed()))
}

fn amount(bytes: u64, took: Duration) -> Amount {
    Amount { bytes, nanos: u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_disk_is_measured_and_nothing_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("own"), "own").expect("written");
        let before = fs::metadata(dir.path()).expect("it is there");
        let path = dir.path().as_os_str().as_bytes();
        let (written, read) = disk(path, FIRST_LEN, 100).expect("it can be written to");
        assert_eq!(written.bytes, FIRST_LEN);
        assert!(read.bytes > 0 && read.bytes <= FIRST_LEN && read.nanos > 0);
        let names = fs::read_dir(dir.path()).expect("it is there").count();
        let after = fs::metadata(dir.path()).expect("it is there");
        assert_eq!((names, after.mtime_nsec()), (1, before.mtime_nsec()));
    }

    #[test]
    fn an_unwritable_directory_is_an_error() {
        let none = disk(b"/nonexistent/dir", FIRST_LEN, 100).expect_err("there is none");
        assert_eq!(none.kind, FaultKind::NotFound);
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().as_os_str().as_bytes();
        assert_eq!(disk(path, FIRST_LEN, 100).expect_err("a file").kind, FaultKind::NotDirectory);
    }
}

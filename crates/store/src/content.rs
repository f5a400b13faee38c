//! Copies the content of a file to another local file. The storage is shared if the file system
//! supports it. Holes are kept. Also finds runs of zeros, which can become holes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::{io, iter};

/// Maximum number of bytes in one copy inside the kernel.
const STEP_LEN: usize = 8 << 20;

/// Bytes that are read and written at once.
const BUFFER_LEN: usize = 1 << 20;

/// Copies the first `len` bytes of `from` to the empty file `to`. The position of `from` changes.
///
/// # Errors
/// Errors of reading and writing; [`io::ErrorKind::UnexpectedEof`] if data ends earlier.
pub(crate) fn copy_content(from: &File, to: &File, len: u64) -> io::Result<()> {
    if !haul_sys::clone_file(from, to) {
        copy_data(from, to, len)?;
    }
    // The file may end with a hole, and a clone may be longer than `len`.
    to.set_len(len)
}

fn copy_data(from: &File, to: &File, len: u64) -> io::Result<()> {
    let mut buffer = Vec::new();
    let mut at = 0;
    while let Some(data) = haul_sys::next_data(from, at, len) {
        at = data.start;
        while at < data.end {
            let left = usize::try_from(data.end - at).unwrap_or(STEP_LEN);
            if let Some(copied) = haul_sys::copy_range(from, to, at, left.min(STEP_LEN)) {
                at += copied as u64;
                continue;
            }
            buffer.resize(left.min(BUFFER_LEN), 0);
            from.read_exact_at(&mut buffer, at)?;
            to.write_all_at(&buffer, at)?;
            at += buffer.len() as u64;
        }
    }
    Ok(())
}

/// The alignment and length of parts in which zeros are searched: the allocation unit of most file
/// systems.
const PART_LEN: u64 = 4 << 10;

/// Splits `bytes`, which are at `offset` in a file, into runs of parts with only zeros, and runs of
/// others. The flag is true for zeros.
pub(crate) fn runs(bytes: &[u8], offset: u64) -> impl Iterator<Item = (&[u8], bool)> {
    let (mut rest, mut at) = (bytes, offset);
    iter::from_fn(move || {
        let (mut len, mut are_zeros) = (0, None);
        while len < rest.len() {
            let room = (PART_LEN - (at + len as u64) % PART_LEN) as usize;
            let part = &rest[len..rest.len().min(len + room)];
            let is_zeros = part == &[0; PART_LEN as usize][..part.len()];
            if *are_zeros.get_or_insert(is_zeros) != is_zeros {
                break;
            }
            len += part.len();
        }
        let (run, behind) = rest.split_at(len);
        (rest, at) = (behind, at + len as u64);
        Some((run, are_zeros?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::time::Duration;

    #[test]
    fn content_is_the_same_and_holes_take_no_storage() {
        const LEN: u64 = 64 << 20;
        let dir = tempfile::TempDir::new().expect("a directory");
        let new = |name: &str| File::create_new(dir.path().join(name)).expect("a file");
        let name = |name: &str| File::open(dir.path().join(name)).expect("opened");
        let parts: [(u64, usize); 4] = [(0, 3), (5 << 20, BUFFER_LEN + 1), (30 << 20, 1), (LEN, 0)];
        let sparse = new("sparse");
        sparse.set_len(LEN).expect("a length");
        for (at, len) in parts {
            sparse.write_all_at(&vec![7; len], at).expect("written");
        }
        for (number, len) in [LEN, LEN - 1, (5 << 20) + 7, 2, 0].into_iter().enumerate() {
            let copy = new(&number.to_string());
            let from = name("sparse");
            // Without sharing storage.
            copy_data(&from, &copy, len).and_then(|()| copy.set_len(len)).expect("copied");
            let mut expected = std::fs::read(dir.path().join("sparse")).expect("read");
            expected.truncate(len as usize);
            let copied = std::fs::read(dir.path().join(number.to_string())).expect("read");
            assert!(copied == expected, "{len}");
            let stored = copy.metadata().expect("metadata").blocks() * 512;
            assert!(stored <= 4 << 20, "{stored} bytes are stored for {len}");
        }
        let short = new("short");
        copy_content(&name("sparse"), &short, LEN).expect("copied");
        assert_eq!(short.metadata().expect("metadata").len(), LEN);
    }

    /// No test takes longer.
    const WITHIN: Duration = Duration::from_secs(15);

    #[test]
    fn runs_are_cut_where_parts_of_the_file_begin() {
        haul_testkit::ends_within(WITHIN, || {
            let mut bytes = vec![0; 5 * 4096];
            // Of a part that has more than zeros all is kept.
            bytes[4096 + 1] = 1;
            bytes[4 * 4096] = 1;
            let lens = |offset: u64, bytes: &[u8]| -> Vec<(usize, bool)> {
                let runs: Vec<_> = runs(bytes, offset).collect();
                assert_eq!(
                    runs.iter().flat_map(|(run, _)| *run).copied().collect::<Vec<u8>>(),
                    bytes
                );
                runs.iter().map(|(run, is_zeros)| (run.len(), *is_zeros)).collect()
            };
            let cut = [(4096, true), (4096, false), (2 * 4096, true), (4096, false)];
            assert_eq!(lens(0, &bytes), cut);
            assert_eq!(lens(7 * 4096, &bytes), cut);
            assert_eq!(lens(4095, &bytes[..4097]), [(4097, true)]);
            assert_eq!(lens(4095, &bytes[..4098]), [(4097, true), (1, false)]);
            assert_eq!(lens(0, &[]), []);
            assert_eq!(lens(4000, &[0; 500]), [(500, true)]);
            assert_eq!(lens(4000, &[1; 500]), [(500, false)]);
        });
    }
}

//! Writes content into an existing file, for `--inplace`. This is the one exception to the rule
//! that a name shows the old file or the new one. The content is complete and verified before, and
//! only differences are written. If that ends early, the file is a mixture of both.
//!
//! After an error, the mixture keeps the time of the old file: it must not count as newer. After a
//! power cut, the new time would hide that differences were lost, so they are made durable first.

use crate::content::runs;
use crate::stage::Sealed;
use haul_model::{FileId, Name, Timestamp};
use haul_sys::Loss;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that are compared at once.
const STEP_LEN: usize = 256 << 10;

/// The unit of writing, in bytes: a block of most file systems.
const GRAIN_LEN: usize = 4 << 10;

/// Writes the content of `sealed` into the file `name` in the directory of the final name. The file must
/// have the `id`, and keeps its other names. Returns the time of the stage.
///
/// # Errors
/// Errors of opening, reading and writing, and if `name` is another file.
pub(crate) fn write_into(sealed: &Sealed, name: &Name, id: FileId) -> io::Result<Timestamp> {
    let (old, stat) = sealed.dest().open_read_write(name)?;
    if stat.id != id {
        let message = "another file replaced it";
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    let new = haul_sys::file_stat(&sealed.0.file)?;
    let mut has_written = false;
    let writes_sparse = sealed.0.writes_sparse;
    let written = write_differences(
        (&sealed.0.file, new.size),
        (&old, stat.size),
        writes_sparse,
        &mut has_written,
    );
    let written = written.and_then(|()| match new.size == stat.size {
        true => Ok(()),
        false => old.set_len(new.size),
    });
    let durable = written.and_then(|()| match has_written && Loss::of(&old) != Loss::Whole {
        true => old.sync_data(),
        false => Ok(()),
    });
    let told = durable.and_then(|()| haul_sys::check_by_closing(&old));
    told.map(|()| new.mtime).map_err(|error| match has_written {
        true => {
            // If that fails, too, the first error is the cause.
            let _ = haul_sys::set_mtime(&old, stat.mtime);
            io::Error::new(error.kind(), format!("{error}; it is partly written"))
        }
        false => error,
    })
}

/// Writes the differences of the `size` bytes of `new` into `old`, of `old_size` bytes. Zeros after
/// the end of `old` are left as a hole. Other runs of zeros become holes if `writes_sparse`.
fn write_differences(
    (new, size): (&File, u64),
    (old, old_size): (&File, u64),
    writes_sparse: bool,
    has_written: &mut bool,
) -> io::Result<()> {
    let step = STEP_LEN.min(usize::try_from(size).unwrap_or(STEP_LEN));
    let (mut wanted, mut there) = (vec![0; step], vec![0; step]);
    let mut at = 0;
    loop {
        // Holes in both files do not differ.
        let data = |file, len| haul_sys::next_data(file, at, len).map_or(size, |data| data.start);
        let next = data(new, size).min(data(old, old_size));
        at = at.max(next / GRAIN_LEN as u64 * GRAIN_LEN as u64);
        if at >= size {
            return Ok(());
        }
        let len = step.min((size - at) as usize);
        let (wanted, there) = (&mut wanted[..len], &mut there[..len]);
        new.read_exact_at(wanted, at)?;
        there.fill(0);
        let is_there = old_size.saturating_sub(at).min(len as u64) as usize;
        old.read_exact_at(&mut there[..is_there], at)?;
        let differs = |(one, other): (&[u8], &[u8])| one != other;
        let mut grains = wanted.chunks(GRAIN_LEN).zip(there.chunks(GRAIN_LEN));
        if let Some(first) = grains.position(differs) {
            let last = wanted.chunks(GRAIN_LEN).zip(there.chunks(GRAIN_LEN)).rposition(differs);
            let start = first * GRAIN_LEN;
            let end = len.min((last.unwrap_or(first) + 1) * GRAIN_LEN);
            *has_written = true;
            old.write_all_at(&wanted[start..end], at + start as u64)?;
        }
        if writes_sparse {
            punch_zeros(old, wanted, at, old_size);
        }
        at += len as u64;
    }
}

/// Turns the runs of zeros in `bytes`, which are at `at` in `file`, into holes up to `end`. On a
/// file system without holes they are kept.
fn punch_zeros(file: &File, bytes: &[u8], mut at: u64, end: u64) {
    for (run, is_zeros) in runs(bytes, at) {
        let run_end = at + run.len() as u64;
        if is_zeros && at < end {
            haul_sys::punch_hole(file, at..run_end.min(end));
        }
        at = run_end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stage;
    use haul_sys::Dir;
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    /// No test takes longer.
    const WITHIN: Duration = Duration::from_secs(15);

    /// A complete file with `content`, for a name in `dest`.
    fn sealed(dest: &Path, content: &[u8]) -> Sealed {
        let open = |path: &Path| Arc::new(Dir::open(path).expect("opened"));
        let stage = Stage::create_for(open(&std::env::temp_dir()), open(dest)).expect("a stage");
        stage.file.write_all_at(content, 0).expect("written");
        Sealed(stage)
    }

    /// Writes the file over `old` in `dest`, or over another file that has replaced it.
    fn write(sealed: &Sealed, dest: &Path, is_replaced: bool) -> io::Result<Timestamp> {
        let stat = |name| sealed.dest().stat(&Name::new(name).expect("a name"));
        let id = stat(b"old").expect("it is there").id;
        if is_replaced {
            fs::rename(dest.join("old"), dest.join("moved")).expect("renamed");
            fs::write(dest.join("old"), "of others").expect("written");
        }
        write_into(sealed, &Name::new(b"old").expect("a name"), id)
    }

    #[test]
    fn only_the_expected_file_is_written_into() {
        for (is_replaced, new) in [(false, &b"longer than old"[..]), (false, b"no"), (true, b"no")]
        {
            let temp = tempfile::tempdir().expect("a directory");
            let read = |name| fs::read(temp.path().join(name)).expect("read");
            fs::write(temp.path().join("old"), "old text").expect("written");
            let sealed = sealed(temp.path(), new);
            let written = write(&sealed, temp.path(), is_replaced);
            if is_replaced {
                let error = written.expect_err("another file");
                assert_eq!(error.to_string(), "another file replaced it");
                assert_eq!(error.kind(), io::ErrorKind::NotFound);
                assert_eq!([read("old"), read("moved")], [&b"of others"[..], b"old text"]);
            } else {
                let time = haul_sys::file_stat(&sealed.0.file).expect("known").mtime;
                assert_eq!((written.expect("written"), read("old")), (time, new.to_vec()));
            }
        }
    }

    #[test]
    fn an_error_says_that_a_file_is_partly_written_only_if_it_is() {
        let Some(mount) = haul_testkit::Mount::tmpfs(2 * STEP_LEN as u64) else { return };
        let dest = mount.path();
        let old = fs::File::create_new(dest.join("old")).expect("made");
        old.set_len(4 * STEP_LEN as u64).expect("longer");
        let time = Timestamp { secs: 1_000_000_000, nanos: 7 };
        haul_sys::set_mtime(&old, time).expect("a time");
        let full = sealed(dest, &vec![7; 4 * STEP_LEN]);
        let mut unreadable = sealed(dest, b"new");
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), "new").expect("written");
        unreadable.0.file = File::options().write(true).open(file.path()).expect("opened");
        for (new, is_partly_written) in [(unreadable, false), (full, true)] {
            let error = write(&new, dest, false).expect_err("it can't be written").to_string();
            assert_eq!(error.ends_with("; it is partly written"), is_partly_written, "{error}");
            let starts_new = fs::read(dest.join("old")).expect("read").starts_with(&[7]);
            assert_eq!(starts_new, is_partly_written);
            assert_eq!(haul_sys::file_stat(&old).expect("known").mtime, time);
        }
    }

    #[test]
    fn only_grains_that_differ_are_written() {
        // Holes around the grain that differs become storage if they are written.
        let file = |grain: u8| {
            let file = tempfile::NamedTempFile::new().expect("a file").into_file();
            file.set_len(STEP_LEN as u64).expect("longer");
            for (at, byte) in [(0, 1), (8, grain), (16, 1)] {
                let grain = vec![byte; GRAIN_LEN];
                file.write_all_at(&grain, (at * GRAIN_LEN) as u64).expect("written");
            }
            file.sync_all().expect("on the disk");
            file
        };
        let blocks = |file: &File| file.metadata().expect("metadata").blocks() * 512;
        let (new, old) = (file(2), file(3));
        let before = blocks(&old);
        if before > 4 * GRAIN_LEN as u64 {
            return haul_testkit::fixture::missing("a file system with small holes");
        }
        let size = STEP_LEN as u64;
        write_differences((&new, size), (&old, size), false, &mut false).expect("written");
        assert_eq!(blocks(&old), before);
        let mut there = [0; GRAIN_LEN];
        old.read_exact_at(&mut there, 8 * GRAIN_LEN as u64).expect("read");
        assert_eq!(there, [2; GRAIN_LEN]);
    }

    #[test]
    fn a_file_becomes_the_other_whatever_their_lengths() {
        haul_testkit::ends_within(WITHIN, || {
            let dir = tempfile::tempdir().expect("a directory");
            let sizes =
                [0, 1, GRAIN_LEN - 1, GRAIN_LEN, STEP_LEN - 1, STEP_LEN, STEP_LEN + 1, 700_001];
            for (old_size, writes_sparse) in
                sizes.into_iter().flat_map(|size| [(size, false), (size, true)])
            {
                for new_size in sizes {
                    let bytes = |size: usize, seed: usize| -> Vec<u8> {
                        let of =
                            |at: usize| if at / 9_000 % 3 == seed { 0 } else { (at % 251) as u8 };
                        (0..size).map(of).collect()
                    };
                    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
                    fs::write(&old, bytes(old_size, 0)).expect("written");
                    fs::write(&new, bytes(new_size, 1)).expect("written");
                    let from = File::open(&new).expect("opened");
                    let into = File::options().read(true).write(true).open(&old).expect("opened");
                    let (size, old_size) = (new_size as u64, old_size as u64);
                    write_differences((&from, size), (&into, old_size), writes_sparse, &mut false)
                        .expect("written");
                    into.set_len(size).expect("cut");
                    let (old, new) = (fs::read(&old), fs::read(&new));
                    assert!(old.expect("read") == new.expect("read"), "{old_size} {new_size}");
                }
            }
        });
    }

    #[test]
    fn runs_of_zeros_become_holes_where_that_is_wanted() {
        let file = |bytes: &[u8]| {
            let mut file = tempfile::NamedTempFile::new().expect("a file").into_file();
            file.write_all(bytes).expect("written");
            file.sync_all().expect("on the disk");
            file
        };
        let old = vec![7; 2 * STEP_LEN];
        if !haul_sys::punch_hole(&file(&old), 0..GRAIN_LEN as u64) {
            return haul_testkit::fixture::missing("a file system that punches holes");
        }
        let mut new = old.clone();
        new[GRAIN_LEN..STEP_LEN + 1].fill(0);
        // Zeros that are there already.
        let mut old = old;
        for bytes in [&mut old, &mut new] {
            bytes[STEP_LEN + GRAIN_LEN..STEP_LEN + 2 * GRAIN_LEN].fill(0);
        }
        let size = new.len() as u64;
        let reserved = |writes_sparse| {
            let (from, into) = (file(&new), file(&old));
            write_differences((&from, size), (&into, size), writes_sparse, &mut false)
                .expect("written");
            let mut there = vec![0; new.len()];
            into.read_exact_at(&mut there, 0).expect("read");
            assert!(there == new);
            into.metadata().expect("metadata").blocks() * 512
        };
        assert!(reserved(false) >= size);
        assert_eq!(reserved(true), reserved(false) - STEP_LEN as u64);
    }

    #[test]
    fn holes_of_both_are_not_read() {
        haul_testkit::ends_within(WITHIN, || {
            // To read them would take hours.
            const SIZE: u64 = 1 << 42;
            let file = |data: &[u8]| {
                let file = tempfile::NamedTempFile::new().expect("a file").into_file();
                file.set_len(SIZE).expect("longer");
                file.write_all_at(data, SIZE / 2 + 1).expect("written");
                file
            };
            let (new, old) = (file(b"new"), file(b"was"));
            old.write_all_at(b"old alone", SIZE / 4 + 5).expect("written");
            new.write_all_at(b"the end", SIZE - 7).expect("written");
            write_differences((&new, SIZE), (&old, SIZE), false, &mut false).expect("written");
            for at in [SIZE / 4 + 5, SIZE / 2 + 1, SIZE - 7] {
                let (mut wanted, mut there) = ([0; 7], [0; 7]);
                new.read_exact_at(&mut wanted, at).expect("read");
                old.read_exact_at(&mut there, at).expect("read");
                assert_eq!(there, wanted, "{at}");
            }
        });
    }

    #[test]
    fn what_is_the_same_is_not_written() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), vec![7; 3 * STEP_LEN]).expect("written");
        let from = File::open(file.path()).expect("opened");
        // It can't be written to, and that does not show.
        let into = File::open(file.path()).expect("opened");
        let (size, mut has_written) = (3 * STEP_LEN as u64, false);
        write_differences((&from, size), (&into, size), false, &mut has_written)
            .expect("nothing to write");
        assert!(!has_written);
        let other = tempfile::NamedTempFile::new().expect("a file");
        fs::write(other.path(), vec![8; 3 * STEP_LEN]).expect("written");
        let other = File::open(other.path()).expect("opened");
        write_differences((&other, size), (&into, size), false, &mut has_written)
            .expect_err("read only");
        assert!(has_written);
    }
}

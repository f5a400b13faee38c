//! Content, in ranges of any size.

use crate::servers::{Bench, odd, openssh, openssh_with, with_each};
use haul_sftp::{Cause, OpenFlags, Options, StatusCode};
use haul_testkit::{Oddities, content};
use std::fs;
use std::os::unix::fs::FileExt;

/// More than a window of each test, and no multiple of anything.
const LEN: usize = 700_007;

fn file(bench: &Bench, len: usize) -> Vec<u8> {
    let bytes = content::bytes(len, 7);
    fs::write(bench.local("file"), &bytes).unwrap();
    bytes
}

#[test]
fn reading_at_fills_the_buffer_or_meets_the_end() {
    with_each(|bench| {
        let bytes = file(bench, LEN);
        let file = bench.client().open(&bench.path("file"), OpenFlags::Read, None).unwrap();
        let step = bench.client().read_len();
        for offset in [0, 1, 1000, LEN - 1, LEN, LEN + 1] {
            for len in [0, 1, step - 1, step, step + 1, 3 * step, LEN] {
                let mut buf = vec![0; len];
                let read = file.read_at(&mut buf, offset as u64).unwrap();
                let expected = &bytes[offset.min(LEN)..(offset + len).min(LEN)];
                assert_eq!(read, expected.len(), "{offset} {len}");
                assert!(&buf[..read] == expected, "{offset} {len}");
            }
        }
        assert_eq!(file.attrs().unwrap().size, Some(LEN as u64));
        file.close().unwrap();
    });
}

#[test]
fn a_range_is_read_in_order() {
    with_each(|bench| {
        let bytes = file(bench, LEN);
        let file = bench.client().open(&bench.path("file"), OpenFlags::Read, None).unwrap();
        for (range, window) in [
            (0..LEN, 1 << 20),
            (10..LEN - 10, 100_000),
            (0..LEN + 9, 64 << 10),
            (5..20_000, 0),
            (LEN..LEN + 5, 10),
            (9..9, 10),
        ] {
            let wide = range.start as u64..range.end as u64;
            let expected = &bytes[range.start..range.end.min(LEN)];
            let mut reader = file.reader(wide, window);
            let mut ordered = Vec::new();
            while let Some(chunk) = reader.next_piece().unwrap() {
                assert_eq!(chunk.offset, (range.start + ordered.len()) as u64);
                ordered.extend_from_slice(&chunk);
            }
            assert!(ordered == expected, "{range:?}");
            assert_eq!(reader.end(), range.end.min(LEN.max(range.start)) as u64);
        }
    });
}

#[test]
fn what_is_written_is_there() {
    with_each(|bench| {
        let bytes = content::bytes(LEN, 9);
        let path = bench.path("new");
        let file = bench.client().open(&path, OpenFlags::CreateNew, Some(0o600)).unwrap();
        let mut writer = file.writer();
        // From the end, in steps that fit nothing.
        let mut end = LEN;
        for step in [1, 1000, 32 << 10, 40_000, 300_000].into_iter().cycle() {
            let start = end.saturating_sub(step);
            writer.write_at(&bytes[start..end], start as u64).unwrap();
            end = start;
            if end == 0 {
                break;
            }
        }
        writer.drain().unwrap();
        writer.write_at(b"more", LEN as u64 + 3).unwrap();
        writer.drain().unwrap();
        file.close().unwrap();
        let found = fs::read(bench.local("new")).unwrap();
        assert!(found[..LEN] == bytes && &found[LEN..] == b"\0\0\0more");

        let taken = bench.client().open(&path, OpenFlags::CreateNew, None).err().unwrap();
        assert_eq!(taken.status(), Some(StatusCode::Failure));
    });
}

#[test]
fn a_file_of_this_machine_is_sent_as_it_is() {
    with_each(|bench| {
        let bytes = file(bench, LEN);
        let source = fs::File::open(bench.local("file")).unwrap();
        let path = bench.path("new");
        let target = bench.client().open(&path, OpenFlags::CreateNew, Some(0o600)).unwrap();
        let mut writer = target.writer();
        for range in [0..1, 1..100, 100..400_000, 400_000..LEN as u64] {
            writer.write_from(&source, range).unwrap();
        }
        writer.drain().unwrap();
        assert!(fs::read(bench.local("new")).unwrap() == bytes);

        // A file that ends too early is told, and the session goes on.
        let mut writer = target.writer();
        let error = writer.write_from(&source, 600_000..LEN as u64 + 1).unwrap_err();
        assert!(matches!(error.cause, Cause::Source(_)), "{error}");
        assert_eq!(error.io_kind(), std::io::ErrorKind::UnexpectedEof);
        assert!(writer.drain().is_err());
        assert_eq!(bench.client().stat(&path).unwrap().size, Some(LEN as u64 + 1));
    });
}

#[test]
fn reading_stops_where_the_file_has_become_shorter() {
    let bench = openssh();
    let bytes = file(&bench, LEN);
    let file = bench.client().open(&bench.path("file"), OpenFlags::Read, None).unwrap();
    let mut reader = file.reader(0..LEN as u64, 300_000);
    let first = reader.next_piece().unwrap().unwrap().len();
    let cut = 600_000;
    fs::File::options().write(true).open(bench.local("file")).unwrap().set_len(cut).unwrap();
    let mut read = first as u64;
    while let Some(chunk) = reader.next_piece().unwrap() {
        assert!(*chunk == bytes[read as usize..read as usize + chunk.len()]);
        read += chunk.len() as u64;
    }
    assert_eq!((read, reader.end()), (cut, cut));
}

#[test]
fn a_failed_write_is_reported_by_the_latest_when_all_is_done() {
    let bench = openssh();
    file(&bench, 10);
    let file = bench.client().open(&bench.path("file"), OpenFlags::Read, None).unwrap();
    let mut writer = file.writer();
    // It is not open for writing; the server's answer comes later.
    let _ = writer.write_at(b"x", 0);
    let error = writer.drain().unwrap_err();
    assert!(error.to_string().contains("can't write '"), "{error}");
    assert!(error.status().is_some());
    let unreadable = bench.client().open(&bench.path("new"), OpenFlags::CreateNew, None).unwrap();
    let error = unreadable.read_at(&mut [0; 10], 0).unwrap_err();
    assert!(error.to_string().contains("can't read '"), "{error}");
    assert!(matches!(error.cause, Cause::WriteOnly), "{error}");
    unreadable.sync().unwrap();
}

#[test]
fn a_file_that_is_dropped_is_closed() {
    let bench = odd("plain", Oddities::default());
    file(&bench, 10);
    for _ in 0..3 {
        drop(bench.client().open(&bench.path("file"), OpenFlags::Read, None).unwrap());
    }
    let open = bench.client().open(&bench.path("file"), OpenFlags::Read, None).unwrap();
    open.close().unwrap();
    // Each was opened and closed; what is told in passing comes before this.
    bench.client().stat(&bench.path("file")).unwrap();
    assert_eq!(bench.odd_server().requests(), 9);
}

#[test]
fn many_requests_are_in_flight_and_no_more_than_may_be() {
    let options = Options { requests_max: 5, ..Options::default() };
    for (options, at_least, at_most) in [(Options::default(), 6, 16), (options, 3, 5)] {
        let odd_one = Oddities { reversed: true, ..Oddities::default() };
        let bench = crate::servers::odd_with("reversed", odd_one, options);
        let bytes = file(&bench, LEN);
        let file = bench.client().open(&bench.path("file"), OpenFlags::Read, None).unwrap();
        let mut buf = vec![0; LEN];
        // 22 requests of 32 KiB, and room for 16.
        let mut reader = file.reader(0..LEN as u64, 512 << 10);
        while let Some(chunk) = reader.next_piece().unwrap() {
            let at = chunk.offset as usize;
            buf[at..at + chunk.len()].copy_from_slice(&chunk);
        }
        assert!(buf == bytes);
        let most = bench.odd_server().max_pending();
        assert!((at_least..=at_most).contains(&most), "{most}");
    }
}

#[test]
fn the_bytes_in_flight_are_bounded_for_all_together() {
    let options = Options { bytes_max: 100_000, ..Options::default() };
    let bench = openssh_with(options);
    let bytes = file(&bench, LEN);
    // Each of its requests alone is more than may be in flight, and goes alone.
    assert!(bench.client().read_len() > options.bytes_max);
    let (client, path) = (bench.client(), bench.path("file"));
    let read = &|seed: u64| {
        let file = client.open(&path, OpenFlags::Read, None).unwrap();
        let mut buf = vec![0; LEN];
        assert_eq!(file.read_at(&mut buf, 0).unwrap(), LEN, "{seed}");
        assert!(buf == bytes);
    };
    std::thread::scope(|scope| {
        for seed in 0..4 {
            scope.spawn(move || read(seed));
        }
    });
    let target = fs::File::open(bench.local("file")).unwrap();
    let mut first = [0; 3];
    target.read_exact_at(&mut first, 0).unwrap();
    assert_eq!(first, bytes[..3]);
}

#[test]
fn a_long_way_is_filled() {
    /// 1 Gbit/s for 100 ms.
    const FLIGHT: usize = 12_500_000;
    let (window, len) = (16 << 20, 40 << 20);
    let path = |bench: &Bench| {
        fs::File::create(bench.local("file")).unwrap().set_len(len).unwrap();
        bench.path("file")
    };
    let piece = 255 << 10;
    for (chunk_max, extensions) in [(piece, vec!["limits@openssh.com"]), (32 << 10, Vec::new())] {
        let oddities = Oddities { chunk_max, extensions, reversed: true, ..Oddities::default() };
        let bench = odd("reversed", oddities);
        let file = bench.client().open(&path(&bench), OpenFlags::Read, None).unwrap();
        let mut reader = file.reader(0..len, window);
        let mut read = 0;
        while let Some(chunk) = reader.next_piece().unwrap() {
            read += chunk.len() as u64;
        }
        assert_eq!(read, len);
        let flight = bench.odd_server().max_pending() * chunk_max;
        assert!(flight >= FLIGHT && flight <= window, "{flight}");
    }
}

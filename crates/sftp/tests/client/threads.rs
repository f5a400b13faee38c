//! Many threads in one session.

use crate::servers::with_each;
use haul_sftp::OpenFlags;
use haul_testkit::content;
use std::fs;
use std::thread;

#[test]
fn each_thread_gets_its_own_answers() {
    with_each(|bench| {
        let (client, dir) = (bench.client(), bench.path(""));
        let path = |name: &str| [&dir[..], name.as_bytes()].concat();
        let work = &|seed: u64| {
            let name = format!("file-{seed}");
            let bytes = content::bytes(200_000 + seed as usize, seed);
            let file = client.open(&path(&name), OpenFlags::CreateNew, Some(0o600)).unwrap();
            let mut writer = file.writer();
            for (number, piece) in bytes.chunks(7_001).enumerate() {
                writer.write_at(piece, number as u64 * 7_001).unwrap();
                if number % 5 == 0 {
                    let attrs = client.stat(&path(&name)).unwrap();
                    assert!(attrs.size.unwrap() <= bytes.len() as u64);
                }
            }
            writer.drain().unwrap();
            file.close().unwrap();
            let file = client.open(&path(&name), OpenFlags::Read, None).unwrap();
            let mut found = vec![0; bytes.len() + 1];
            assert_eq!(file.read_at(&mut found, 0).unwrap(), bytes.len());
            assert!(found[..bytes.len()] == bytes);
            client.make_dir(&path(&format!("dir-{seed}")), 0o700).unwrap();
            assert!(client.list(&path("")).unwrap().len() >= 2);
        };
        thread::scope(|scope| {
            for seed in 0..8 {
                scope.spawn(move || work(seed));
            }
        });
        assert_eq!(fs::read_dir(bench.dir.path()).unwrap().count(), 16);
    });
}

//! Contents that travel compressed, and arrive as they were.

use crate::common::*;
use haul_testkit::tree;
use std::fs;

/// Text of so many bytes.
fn text(len: usize) -> Vec<u8> {
    let lines = (0_u64..).flat_map(|at| format!("line {at} of {}\n", at % 97).into_bytes());
    lines.take(len).collect()
}

/// The host is reached by a pipe that counts the bytes in both directions together.
fn counting(scene: &mut Scene<'_>) {
    let count = scene.path("count");
    let lines =
        format!("shift\n{{ tee -a '{0}' | sh -c \"$*\" | tee -a '{0}'; }}", count.display());
    let rsh = script(&scene.path("counting"), &lines);
    scene.reach_by(rsh);
}

#[test]
fn what_shrinks_travels_compressed_as_it_is_asked_for() {
    const LEN: usize = 3 << 20;
    each_of(&[Way::Upload, Way::Download], counting, |scene| {
        scene.file("src/large", text(LEN));
        (0..40).for_each(|at| drop(scene.file(format!("src/small/{at}"), text(at * 900))));
        tree::random_file(scene.path("src/noise"), 2 << 20, 1).expect("a file");
        let sent = |how: &str| {
            let _ = fs::remove_file(scene.path("count"));
            let _ = fs::remove_dir_all(scene.path("dst"));
            scene.copy(&["-r", "--compress", how], &["src"], "dst").run().expect_ok();
            let differences =
                scene.snapshot("src").differences(&scene.snapshot("dst"), scene.rules());
            assert_eq!(differences, []);
            fs::metadata(scene.path("count")).expect("it was counted").len()
        };
        let (none, lz4, zstd) = (sent("none"), sent("lz4"), sent("zstd:9"));
        let noise = 2 << 20;
        assert!(none > noise + LEN as u64, "{none}");
        assert!((noise..noise + LEN as u64 * 2 / 3).contains(&lz4), "{lz4}");
        assert!((noise..noise + LEN as u64 / 3).contains(&zstd), "{zstd}");
        assert!((noise..none + 1000).contains(&sent("auto")));
    });
}

#[test]
fn through_sftp_ssh_has_to_do_it() {
    each_of(
        &[Way::SftpUpload, Way::SftpDownload],
        |scene| scene.reach_by_pipe(),
        |scene| {
            scene.file("a", "a");
            let run = scene.copy(&["--compress", "zstd"], &["a"], "b").run().expect_code(2);
            assert!(
                run.err().contains("SFTP can't compress: enable compression in ssh instead"),
                "{run}"
            );
            scene.copy(&["--compress", "none"], &["a"], "b").run().expect_ok();
            assert_eq!(scene.read("b"), "a");
        },
    );
}

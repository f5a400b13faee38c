//! Memory that haul itself takes while it copies through SFTP, however much that is.

use crate::common::*;
use crate::copy;
use haul_testkit::tree;
use std::fs::File;
use std::io::Write;

/// The most that it may take, in bytes.
const MEMORY_MAX: u64 = 96 << 20;

#[test]
fn large_files_and_many_small_ones_cost_bounded_memory() {
    each_remote_way(|scene| {
        let mut large = File::create(scene.path("large")).expect("a file");
        let piece = vec![7; 1 << 20];
        (0..300).for_each(|_| large.write_all(&piece).expect("written"));
        tree::many(scene.path("tree"), 3_000, 2_000, 20, 6).expect("made");
        scene.mkdir("to");
        let flags = ["-rq", "--parallel", "4"];
        let run = copy(scene, &flags, &["large", "tree"], "to").sampled().run().expect_ok();
        let peak = run.usage.peak_rss_bytes.expect("sampled");
        assert!(peak <= MEMORY_MAX, "{:?}: {} MiB", scene.way, peak >> 20);
    });
}

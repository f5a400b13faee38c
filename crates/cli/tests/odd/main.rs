//! Copies and moves, as a user sees them, to file systems that are odd: that tell
//! of errors when a file is closed, keep times their own way, take several names
//! for one, lack the fast ways, or refuse a call for whatever reason.

#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;

mod closing;
mod names;
mod refusing;
mod slow;
mod times;
mod unknown;
mod ways;

use common::*;
use haul_testkit::odd::{Call, Errno, Names, OddMount, Quirks, Times};
use haul_testkit::{FileSystem, Haul, Mount, nasty, tree};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// Runs `test` in every way with an odd file system behind the scene's `to`.
#[track_caller]
fn each_way_to(quirks: &Quirks, test: impl Fn(&Scene<'_>, &OddMount) + Sync) {
    everywhere_by_pipe(|scene| {
        let Some(mount) = OddMount::new(quirks.clone()) else { return };
        scene.symlink(mount.path(), "to");
        test(scene, &mount);
    });
}

/// A move with `flags`, from paths below the scene's directory to another.
fn moves(scene: &Scene<'_>, flags: &[&str], sources: &[&str], dest: &str) -> Haul {
    let remote = if scene.way == Way::Local { Vec::new() } else { scene.remote() };
    scene.transfer("move", &remote, flags, sources, dest)
}

/// A check of the same.
fn check(scene: &Scene<'_>, flags: &[&str], sources: &[&str], dest: &str) -> Haul {
    let remote = if scene.way == Way::Local { Vec::new() } else { scene.remote() };
    scene.transfer("check", &remote, flags, sources, dest)
}

/// Names of haul's own that are left in `to`.
fn left(scene: &Scene<'_>) -> Vec<String> {
    scene.list("to/").into_iter().filter(|name| name.starts_with(".haul-")).collect()
}

/// Length from which a file is staged so that it can be continued, as documented.
const RESUMED: u64 = 64 << 20;

/// Each size goes its own way: one with others, one in pieces, one in blocks.
const SIZES: [(&str, u64); 3] = [("small", 1000), ("middle", 3 << 20), ("large", RESUMED + 5)];

//! A copy, as a user sees it, whose destination loses its power, or fails to
//! make something durable. The store's own tests (`crates/store/tests/power`)
//! cut at many more moments; here the whole program runs, at its own pace.

#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;

mod durable;
mod failing;
mod interrupted;
mod large;
mod plain;
mod verified;

use common::*;
use haul_testkit::power::{Disk, Loss, Names, Powered};
use haul_testkit::{same_content, tree};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Length of the block, the journal's header and its records, as documented.
const BLOCK: u64 = 4 << 20;
const HEADER: u64 = 256;
const RECORD: u64 = 32;

/// Bytes between two checkpoints, as documented.
const CHECKPOINT: u64 = 64 << 20;

/// How long a copy may take until it has done something.
const SOON: Duration = Duration::from_secs(30);

/// A disk that is mounted where a scene's copies go to.
struct Target<'s> {
    scene: &'s Scene<'s>,
    disk: Disk,
    mount: Option<Powered>,
}

impl<'s> Target<'s> {
    /// An empty disk behind the scene's `to`; None where mounting is not allowed.
    #[track_caller]
    fn new(scene: &'s Scene<'s>, names: Names) -> Option<Target<'s>> {
        let disk = Disk::new(names);
        let mount = disk.mount()?;
        scene.symlink(mount.path(), "to");
        Some(Target { scene, disk, mount: Some(mount) })
    }

    /// Cuts the power, loses what was not synced, and mounts again.
    fn cut(&mut self, loss: Loss, seed: u64) {
        self.disk.cut();
        self.mount_again(|disk| disk.lose(loss, seed));
    }

    fn mount_again(&mut self, meanwhile: impl Fn(&Disk)) {
        drop(self.mount.take());
        meanwhile(&self.disk);
        let mount = self.disk.mount().expect("it was mounted before");
        fs::remove_file(self.scene.path("to")).expect("removed");
        self.scene.symlink(mount.path(), "to");
        self.mount = Some(mount);
    }

    /// Blocks that the journal has records of, committed or not.
    fn on_record(&self) -> u64 {
        let len = self.left(".journal").and_then(|path| fs::metadata(path).ok());
        len.map_or(0, |stat| stat.len().saturating_sub(HEADER) / RECORD)
    }

    /// The file whose name ends so.
    fn left(&self, ending: &str) -> Option<PathBuf> {
        let entries = fs::read_dir(self.scene.path("to")).ok()?;
        let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        paths.find(|path| path.to_string_lossy().ends_with(ending))
    }

    /// Copies `big` to the end, checks that all is well, and gives the bytes that
    /// were moved.
    #[track_caller]
    fn finish(&self) -> u64 {
        self.disk.throttle(u64::MAX);
        let run = self.scene.copy(&["--json"], &["big"], "to/").run().expect_ok();
        let same = same_content(self.scene.path("big"), self.scene.path("to/big"));
        assert!(same.expect("read"), "the copy differs");
        assert_eq!(self.scene.list("to/"), ["big"], "something of haul's is left");
        moved(&run)
    }
}

//! Moves of the same files against each other: whatever each of them sees of the
//! other, no file is lost.

use super::common::*;
use haul_testkit::{Haul, Mount, campaign};
use std::fs;
use std::path::Path;

/// Rounds of each kind, in the short form of the campaign.
const ROUNDS: u64 = 4;

const FILES: usize = 120;

fn name(n: usize) -> String {
    format!("{}file-{n:03}", if n.is_multiple_of(3) { "sub/" } else { "" })
}

/// The content of file `n` below `root`, under its own name or that under which a
/// move has set it aside.
fn find(root: &Path, n: usize) -> Option<Vec<u8>> {
    let path = root.join(name(n));
    fs::read(&path).ok().or_else(|| {
        let own = path.file_name()?.to_str()?.to_owned();
        let mut there = fs::read_dir(path.parent()?).ok()?.flatten();
        let aside = there.find(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with(".haul-moving-") && name.ends_with(&own)
        });
        fs::read(aside?.path()).ok()
    })
}

fn mover(scene: &Scene<'_>, from: &Path, to: &Path) -> Haul {
    let haul = scene.haul().args(["move", "-q"]);
    let from = from.join("tree");
    match scene.way {
        Way::Local => haul.arg(from).arg(to),
        Way::Between => unreachable!("nothing is moved from host to host"),
        Way::Upload | Way::SftpUpload => haul.args(scene.remote()).arg(from).arg(scene.there(to)),
        Way::Download | Way::SftpDownload => {
            haul.args(scene.remote()).arg(scene.there(from)).arg(to)
        }
    }
}

fn content(n: usize) -> Vec<u8> {
    vec![n as u8; 10 + n * 40]
}

#[test]
fn two_moves_against_each_other_lose_nothing() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    let Some(mount) = Mount::tmpfs(64 << 20) else { return };
    // On one file system, and between two.
    for (one, other) in [("one", mount.join("other")), ("here", scene.path("there"))] {
        move_against(&scene, &scene, &scene.path(one), &other);
    }
}

/// Each of two machines moves to the other, or has the other's moved to itself.
#[test]
fn two_moves_against_each_other_between_machines_lose_nothing() {
    let world = World::new();
    for (n, (way, back)) in [
        (Way::Upload, Way::Upload),
        (Way::Download, Way::Download),
        (Way::Upload, Way::Download),
        (Way::Upload, Way::Local),
    ]
    .into_iter()
    .enumerate()
    {
        let mut scenes = [("there", way), ("back", back)]
            .map(|(name, way)| world.scene_called(&format!("{name}-{n}"), way));
        scenes.iter_mut().for_each(Scene::reach_by_pipe);
        let [there, back] = &scenes;
        move_against(there, back, &there.path("one"), &back.path("other"));
    }
}

fn move_against(one_way: &Scene<'_>, other_way: &Scene<'_>, one: &Path, other: &Path) {
    for round in 0..campaign::rounds(ROUNDS) {
        for root in [one, other] {
            fs::create_dir_all(root.join("tree/sub")).expect("made");
        }
        // In one place, in the other or in both; in every other round all in both.
        for n in 0..FILES {
            let roots = match (round % 2, n % 3) {
                (0, 0) => &[one][..],
                (0, 1) => &[other],
                _ => &[one, other],
            };
            for root in roots {
                let path = root.join("tree").join(name(n));
                fs::write(&path, content(n)).expect("written");
                haul_testkit::nasty::set_mtime(&path, 1_700_000_000, 0).expect("a time");
            }
        }
        let there = mover(one_way, one, other).spawn().expect("it starts");
        let back = mover(other_way, other, one).spawn().expect("it starts");
        let runs = [there.wait().expect("it ends"), back.wait().expect("it ends")];
        for n in 0..FILES {
            let found = [one, other].into_iter().find_map(|root| find(&root.join("tree"), n));
            let [there, back] = &runs;
            assert!(found.is_some(), "file {n} is lost in round {round}: {there}\n{back}");
            assert!(found == Some(content(n)), "file {n} is not whole");
        }
        for root in [one, other] {
            let _ = fs::remove_dir_all(root);
        }
    }
}

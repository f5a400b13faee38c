//! Copies through a host's SFTP server, of which somebody is killed again and
//! again: none ever shows half a file under its name, and the last one has all.

use crate::common::*;
use crate::resuming::{SOON, haul, journals, servers_of, ssh_of};
use crate::{rules, strays};
use haul_testkit::campaign;
use haul_testkit::content::Stream;
use haul_testkit::proc::{self, Signal};
use haul_testkit::{Snapshot, assert_same_with, snapshot, tree};
use std::fs;
use std::time::Duration;

/// Kills in the short form of the campaign.
const KILLS: u64 = 6;

/// The longest that a copy is left alone after it has begun, in milliseconds.
const PAUSE_MAX_MS: u64 = 150;

pub(crate) fn kills() -> u64 {
    campaign::rounds(KILLS)
}

/// Who is killed.
#[derive(Debug, Clone, Copy)]
enum Victim {
    Client,
    Ssh,
    Server,
}

/// Every file that has its name is whole.
#[track_caller]
fn check_whole(source: &Snapshot, scene: &Scene<'_>, victim: Victim) {
    let Ok(dest) = snapshot(scene.path("to/tree")) else { return };
    for (path, file) in dest.files() {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        if name.starts_with(b".haul-") {
            continue;
        }
        let found = source.files().find(|(of, _)| *of == path).expect("it is one of the source");
        let same = (found.1.size, found.1.digest) == (file.size, file.digest);
        assert!(same, "{victim:?}: {} is not whole", path.escape_ascii());
    }
}

fn remove_strays(scene: &Scene<'_>, with_parts: bool) {
    for stray in strays(&scene.path("to")) {
        let continued = [".part", ".journal"];
        let is_continued = continued.iter().any(|end| stray.to_string_lossy().ends_with(end));
        assert!(!(is_continued && with_parts), "{} is left", stray.display());
        if !is_continued {
            fs::remove_file(stray).expect("removed");
        }
    }
}

fn kill_until_done(scene: &Scene<'_>) {
    tree::many(scene.path("tree"), 300, 3_000, 5, 4).expect("made");
    tree::random_file(scene.path("tree/large"), (70 << 20) + 1, 4).expect("made");
    tree::random_file(scene.path("tree/middle"), (3 << 20) + 1, 5).expect("made");
    scene.mkdir("to");
    let source = scene.snapshot("tree");
    let mut random = Stream::new(campaign::seed(51 + scene.way as u64));
    for round in 0..kills() {
        let victim = [Victim::Client, Victim::Ssh, Victim::Server][(round % 3) as usize];
        let running = haul(scene, &["-rq"], &["tree"]).spawn().expect("it starts");
        let begun = || !servers_of(scene).is_empty();
        let begun = running.until(SOON, begun);
        std::thread::sleep(Duration::from_millis(random.below(PAUSE_MAX_MS)));
        match victim {
            Victim::Client => running.signal(Signal::KILL),
            Victim::Ssh => {
                ssh_of(&running).into_iter().for_each(|pid| proc::signal(pid, Signal::KILL))
            }
            Victim::Server => {
                servers_of(scene).into_iter().for_each(|pid| proc::signal(pid, Signal::KILL));
            }
        }
        let run = running.wait().expect("it ends");
        let expected = match victim {
            Victim::Client => [None, Some(0)],
            Victim::Ssh | Victim::Server => [Some(3), Some(0)],
        };
        assert!(expected.contains(&run.code), "{round} {victim:?} {begun}: {run}");
        // A server is still at it for a moment when its client has gone.
        std::thread::sleep(Duration::from_millis(50));
        check_whole(&source, scene, victim);
        if run.code == Some(0) || random.below(8) == 0 {
            fs::remove_dir_all(scene.path("to/tree")).unwrap_or_default();
        }
    }
    haul(scene, &["-rq"], &["tree"]).run().expect_ok();
    remove_strays(scene, true);
    let rules = rules().ignoring_dir_mtimes();
    assert_same_with(&source, &scene.snapshot("to/tree"), rules);
    let orphans = journals(scene).len() as u64;
    assert!(orphans <= kills() / 4 + 1, "{orphans} journals");
}

#[test]
fn an_upload_that_is_killed_completes_in_the_end() {
    each_of(&[Way::Upload], |_| {}, kill_until_done);
}

#[test]
fn a_download_that_is_killed_completes_in_the_end() {
    each_of(&[Way::Download], |_| {}, kill_until_done);
}

//! kill -9 at random moments, again and again. Not in uploads through SFTP: there only
//! what was made durable counts, once every 64 MiB (`sftp/killed.rs`).

use crate::common::*;
use crate::{BLOCK, LEN, SOON, finish, left, make_big, on_record, one_by_one};
use haul_testkit::campaign;
use haul_testkit::content::Stream;
use haul_testkit::proc::{self, Signal};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// Kills in each way, in the short form of the campaign.
const KILLS: u64 = 8;

/// The longest that a copy is left alone, in milliseconds, over ssh and here.
const PAUSE_MAX_MS: u64 = 60;
const PAUSE_HERE_MAX_MS: u64 = 15;

/// Blocks that may be there without a record when a process dies, and are moved
/// again: those that are being written, and those that wait for their turn.
const AGAIN_MAX: u64 = 6;

/// Who is killed.
#[derive(Debug, Clone, Copy)]
enum Victim {
    Client,
    Agent,
    Ssh,
}

fn kills() -> u64 {
    campaign::rounds(KILLS)
}

/// Bytes of the stage that were written.
fn written(scene: &Scene<'_>) -> u64 {
    const BLOCK_OF_STAT: u64 = 512;
    let parts = left(scene, ".part");
    parts.iter().map(|part| fs::metadata(part).expect("there").blocks() * BLOCK_OF_STAT).sum()
}

/// Kills copies in a row until one ends by itself; what was on record at the
/// last kill is not moved again.
fn kill_until_done(scene: &Scene<'_>, victims: &[Victim], pause_max_ms: u64) {
    make_big(scene);
    let mut random = Stream::new(campaign::seed(41 + scene.way as u64));
    let mut left_to_kill = kills();
    let mut continued = 0;
    while left_to_kill > 0 {
        let victim = victims[(left_to_kill % victims.len() as u64) as usize];
        left_to_kill -= 1;
        let before = on_record(scene);
        let running =
            scene.copy(&one_by_one(scene, &["-q"]), &["big"], "to").spawn().expect("it starts");
        let some = || on_record(scene) > before || !left(scene, "big").is_empty();
        assert!(running.until(SOON, some), "it does not get on");
        std::thread::sleep(Duration::from_millis(random.below(pause_max_ms)));
        match victim {
            Victim::Client => running.signal(Signal::KILL),
            Victim::Agent => scene
                .sshd()
                .agents()
                .into_iter()
                .for_each(|agent| proc::signal(agent, Signal::KILL)),
            Victim::Ssh => scene.sshd().cut(),
        }
        running.wait().expect("it ends");
        std::thread::sleep(Duration::from_millis(80));
        let after = on_record(scene);
        if left(scene, "big").is_empty() {
            let again = written(scene).saturating_sub(after * BLOCK).div_ceil(BLOCK);
            assert!(again <= AGAIN_MAX, "{victim:?}: {again} blocks have no record");
            assert!(after >= before, "{victim:?}: {before} blocks were there, {after} are");
            continued += u64::from(before > 0);
            continue;
        }
        // It was done first: the same once more from the start.
        finish(scene, &[]);
        fs::remove_file(scene.path("to/big")).expect("removed");
    }
    assert!(continued > 0, "no copy was ever continued");
    let blocks = on_record(scene);
    assert_eq!(finish(scene, &[]), LEN - blocks * BLOCK);
}

#[test]
fn a_local_copy_that_is_killed_continues() {
    let kill = |scene: &Scene<'_>| kill_until_done(scene, &[Victim::Client], PAUSE_HERE_MAX_MS);
    each_of(&[Way::Local], |_| {}, kill);
}

#[test]
fn an_upload_that_is_killed_continues() {
    let victims = [Victim::Client, Victim::Agent, Victim::Ssh];
    each_of(&[Way::Upload], |_| {}, |scene| kill_until_done(scene, &victims, PAUSE_MAX_MS));
}

#[test]
fn a_download_that_is_killed_continues() {
    let victims = [Victim::Client, Victim::Agent, Victim::Ssh];
    each_of(&[Way::Download], |_| {}, |scene| kill_until_done(scene, &victims, PAUSE_MAX_MS));
}

#[test]
fn a_download_through_sftp_that_is_killed_continues() {
    let victims = [Victim::Client, Victim::Ssh];
    each_of(&[Way::SftpDownload], |_| {}, |scene| kill_until_done(scene, &victims, PAUSE_MAX_MS));
}
